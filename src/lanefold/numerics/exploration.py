"""Folds with an accumulator of any type, to see what a narrower or wider one would give.

No datapath of a target computes this way: the machines fold in the accumulator that their documents name. What is here
is for comparing formats.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from lanefold.diagnostics import Cure, Rule
from lanefold.numerics import casts
from lanefold.numerics.dtypes import DTYPES, by_name

Floats = npt.NDArray[np.float32]

_OPERATOR = Rule(
    "EXPLORE-OPERATOR",
    "An accumulator of any type is explored for operators with one rounding per step.",
    "Exploration of formats",
    usage=True,
)
_ACCUMULATOR = Rule(
    "EXPLORE-ACCUMULATOR",
    "An accumulator is a float type whose steps float32 computes with one rounding.",
    "Exploration of formats",
    usage=True,
)
_STEPS: dict[str, Callable[[Any, Any], Any]] = {"add": np.add, "mult": np.multiply, "max": np.fmax, "min": np.fmin}
# Sums and products of numbers of p bits, rounded to 2p+2 bits or more and then to p, are rounded once in effect.
_WIDEST = 11


def accumulators() -> tuple[str, ...]:
    """The accumulators that can be explored: float32, and the floats of at most 11 fraction bits."""
    return tuple(
        row.name
        for row in DTYPES
        if row.is_number and row.is_float and (row.name == "float32" or row.mantissa < _WIDEST)
    )


def fold(values: npt.ArrayLike, operator: str = "add", accumulator: str = "float32") -> Floats:
    """Fold the last axis strictly in order, with the running value rounded to ``accumulator`` after every step.

    Args:
        values: elements, taken as float32; at least one along the last axis.
        operator: ``add``, ``mult``, ``max`` or ``min``.
        accumulator: name of a float type; values too large for it become infinite, or NaN where it has no infinity.

    Returns:
        The folded values as float32, without the last axis.

    Raises:
        LanefoldError: for any other operator and accumulator.
    """
    if operator not in _STEPS:
        raise _OPERATOR.error(
            f"{operator!r} is not explored",
            got=repr(operator),
            allowed=", ".join(_STEPS),
            cures=[Cure("write 'add'", {"operator": "add"})],
        )
    if accumulator not in accumulators():
        raise _ACCUMULATOR.error(
            f"{accumulator!r} is no accumulator to explore",
            got=repr(accumulator),
            allowed=", ".join(accumulators()),
            cures=[Cure("write 'float32'", {"accumulator": "float32"})],
        )
    dtype = by_name(accumulator)
    given = np.asarray(values).astype(np.float32)

    def held(running: Floats) -> Floats:
        return running if accumulator == "float32" else casts.widen(casts.narrow(running, dtype, saturate=False), dtype)

    step = _STEPS[operator]
    with np.errstate(all="ignore"):
        running = held(given[..., 0])
        for k in range(1, given.shape[-1]):
            running = held(step(running, given[..., k]))
    return running
