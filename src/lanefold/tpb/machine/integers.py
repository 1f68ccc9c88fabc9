"""Folds of the integer operators: 32-bit lanes, exact, from any integer type to any other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Lanes = npt.NDArray[Any]

_MASK, _HALF = np.int64(0xFFFFFFFF), np.int64(1 << 31)


def _divide(a: Lanes, x: Lanes) -> Lanes:
    # Towards zero; 0 where the divisor is 0.
    size = np.abs(a) // np.maximum(np.abs(x), a.dtype.type(1))
    signed = np.where((a < 0) == (x < 0), size, -size) if a.dtype.kind == "i" else size
    return np.asarray(np.where(x == 0, a.dtype.type(0), signed))


def _remainder(a: Lanes, x: Lanes) -> Lanes:
    return np.asarray(np.where(x == 0, a.dtype.type(0), a - _divide(a, x) * x))


_STEPS: dict[str, Callable[[Lanes, Lanes], Lanes]] = {
    "ADD": np.add,
    "MULT": np.multiply,
    "SUBTRACT": np.subtract,
    "DIVIDE": _divide,
    "MOD": _remainder,
    "IS_EQUAL": np.equal,
    "IS_NE": np.not_equal,
    "IS_GT": np.greater,
    "IS_GE": np.greater_equal,
    "IS_LE": np.less_equal,
    "IS_LT": np.less,
    "MAX": np.maximum,
    "MIN": np.minimum,
    "ABS_MAX": np.maximum,
    "ABS_MIN": np.minimum,
    "ABS_DIFF": lambda a, x: np.abs(a - x),
    "ABS_VALUE": lambda a, x: np.abs(a),
}
# These compare magnitudes, each a 32-bit number of its own.
_MAGNITUDES = ("ABS_MAX", "ABS_MIN")
_PLACES = {"AMAX": np.argmax, "AMIN": np.argmin}


def has_meaning(name: str) -> bool:
    """Whether an operator of the wire, by its name in the header, folds integers here."""
    base, _, kind = name.rpartition("_")
    return kind in ("INT", "UINT") and (base in _STEPS or base in _PLACES)


def fold(values: npt.NDArray[np.int64], name: str, saturate: bool) -> npt.NDArray[np.int64]:
    """Fold the last axis of whole numbers strictly in order, in 32-bit lanes.

    Args:
        values: [channels, outputs, elements]; the low 32 bits of each are its lane.
        name: name of the operator in the header; ``_UINT`` takes lanes as unsigned, ``_INT`` as signed.
        saturate: whether a step that leaves the range is clamped to it; without it, it wraps.

    Returns:
        int64 [channels, outputs]; AMAX and AMIN give the place of the first largest or smallest element.
    """
    base, _, kind = name.rpartition("_")
    unsigned = kind == "UINT"
    lanes = (values & _MASK).astype(np.uint64) if unsigned else _signed(values)
    if base in _PLACES:
        return np.asarray(_PLACES[base](lanes, axis=-1), np.int64)
    step = _STEPS[base]
    running = lanes[..., 0]
    for k in range(1, lanes.shape[-1]):
        x = lanes[..., k]
        if base in _MAGNITUDES:
            running, x = (_fit(np.abs(each), unsigned, saturate) for each in (running, x))
        running = _fit(step(running, x).astype(lanes.dtype), unsigned, saturate)
    return np.asarray(running.astype(np.int64))


def _signed(values: Lanes) -> Lanes:
    return ((values + _HALF) & _MASK) - _HALF


def _fit(values: Lanes, unsigned: bool, saturate: bool) -> Lanes:
    if unsigned:
        return np.minimum(values, np.uint64(_MASK)) if saturate else values & np.uint64(_MASK)
    return np.clip(values, -_HALF, _HALF - 1) if saturate else _signed(values)


def fitted(values: npt.NDArray[np.int64], saturate: bool) -> npt.NDArray[np.int64]:
    """Whole numbers brought into the range of int32, clamped or wrapped."""
    return np.asarray(_fit(values, False, saturate), np.int64)


def divides(name: str) -> bool:
    """Whether an operator divides, so that a zero among its elements counts."""
    return name.startswith(("DIVIDE", "MOD", "divide", "mod"))
