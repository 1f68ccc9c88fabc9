"""What a run passes over silently, counted: for people who want to know, at the price of time."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from lanefold.numerics import alu, kernels
from lanefold.numerics.dtypes import Dtype
from lanefold.numerics.kernels import Access

COUNTERS: dict[str, str] = {
    "nan_dropped": "NaN that a maximum, minimum or search passed over",
    "ties": "elements equal to the extreme value before them, or to a value that Max8 has taken already",
    "foreign_extremes": "maxima and minima that are none of the elements: never, or the machine is wrong",
    "rounded_integers": "integers of 4 or 8 bytes that float32 could not hold",
    "widened_sums": "sums of integers that were rounded on their way, beyond 2^24",
    "saturated": "results that a cast clamped to the range of their type",
    "overflow_in_accumulator": "float32 sums and products of finite elements that left the range of float32",
    "overflow_in_final_cast": "finite results that became infinite, or NaN, in the narrower type of the destination",
    "integer_overflows": "int32 folds that left the range on their way",
    "divisions_by_zero": "zeros that an int32 fold divided by, which gives 0",
    "nan_stored": "NaN written to memory, where the simulator takes them for uninitialised",
    "missed_indices": "indices outside the window of the pool buffer",
    "absent_keys": "keys of a search that no element equalled, or that were served by none",
    "finite_starts": "maxima of nothing but -Inf or NaN, which give the least finite value that they start from",
}
"""What is counted, and what each counter means."""

_EXACT = 1 << 24
_SHORT = 64
_GROWING = ("add", "subtract", "mult", "average")
_CHOOSERS = {
    "max": (np.fmax, False),
    "min": (np.fmin, False),
    "abs_max": (np.fmax, True),
    "abs_min": (np.fmin, True),
}


def _reads(
    source: Access, values: npt.NDArray[np.float32], op: alu.AluOp, results: npt.NDArray[np.float32]
) -> dict[str, int]:
    found = {"rounded_integers": rounded(source)}
    if op.name in _GROWING:
        endless = ~np.isfinite(results).reshape(values.shape[:-1])
        found["overflow_in_accumulator"] = int(np.isfinite(values[endless]).all(axis=-1).sum())
        found["widened_sums"] = _widened(source, values, op)
    chooser = _CHOOSERS.get(op.name)
    if chooser is None or values.shape[-1] == 0:
        return found
    choose, magnitudes = chooser
    seen = np.abs(values) if magnitudes else values
    best, found["ties"] = _met(seen, choose)
    nan = np.isnan(seen).sum(axis=-1)
    found["nan_dropped"] = int(nan[~np.isnan(best)].sum())
    # Where no element counts the start value stands; a negated result has the other sign.
    strange = np.isfinite(best) & (np.abs(results).reshape(best.shape) != np.abs(best))
    found["foreign_extremes"] = int(strange.sum())
    return found


def _met(values: npt.NDArray[np.float32], choose: np.ufunc) -> tuple[npt.NDArray[np.float32], int]:
    """The extreme of every group, and how many elements equalled the one before them."""
    if values.shape[-1] > _SHORT:
        running = choose.accumulate(values, axis=-1)
        return running[..., -1], int((values[..., 1:] == running[..., :-1]).sum())
    # Many short groups: element by element, all groups at once.
    lines = np.ascontiguousarray(np.moveaxis(values, -1, 0))
    best, ties = lines[0], 0
    for line in lines[1:]:
        ties += int(np.count_nonzero(line == best))
        best = choose(best, line)
    return best, ties


def _widened(source: Access, values: npt.NDArray[np.float32], op: alu.AluOp) -> int:
    if not source.dtype.is_integer or op.name not in ("add", "subtract") or not values.size:
        return 0
    if float(np.abs(values).max()) * values.shape[-1] <= _EXACT:
        return 0
    step = np.add if op.name == "add" else np.subtract
    exact = step.accumulate(values.astype(np.float64), axis=-1)
    return int((step.accumulate(values, axis=-1) != exact).any(axis=-1).sum())


def fold(
    source: Access, inner: int, op: alu.AluOp, results: npt.NDArray[np.float32], start: float | None = None
) -> Mapping[str, int]:
    """What a fold of the ``inner`` innermost slots, which gave ``results``, passed over.

    ``start`` is the value that a maximum starts from, where it does not start from the first element.
    """
    values = _grouped(source, inner)
    found = _reads(source, values, op, results)
    if op.name == "max" and start is not None:
        # The start value stands in for a group of NaN alone, which a fold without one would hand on.
        found["nan_dropped"] = int(np.isnan(values).sum())
        least = np.fmax.reduce(values, axis=-1)
        found["finite_starts"] = 0 if math.isinf(start) else int((~(least >= np.float32(start))).sum())
    return found


def eight(source: Access, taken: npt.NDArray[np.float32]) -> Mapping[str, int]:
    """What a choice of the eight largest, ``taken`` [channels, 8], passed over."""
    values = kernels.load(source)
    nan = int(np.isnan(values).sum()) - int(np.isnan(taken).sum())
    ties = 0
    for row, kept in zip(values, taken, strict=True):
        distinct = np.unique(kept[~np.isnan(kept)])
        ties += int(np.isin(row, distinct).sum()) - int(np.isin(distinct, row).sum())
    return {"rounded_integers": rounded(source), "nan_dropped": nan, "ties": ties}


def _grouped(source: Access, inner: int) -> npt.NDArray[np.float32]:
    return kernels.load(source).reshape(source.channels, -1, math.prod(source.nums[:inner]))


def whole_groups(source: Access, inner: int) -> npt.NDArray[np.int64]:
    """The whole numbers that each result folds, int64 [channels, outputs, elements]."""
    whole = kernels.load_raw(source).view(source.dtype.numpy).astype(np.int64)
    return whole.reshape(source.channels, -1, math.prod(source.nums[:inner]))


def across(source: Access, op: alu.AluOp, everything: bool, results: npt.NDArray[np.float32]) -> Mapping[str, int]:
    """What a fold across partitions, which gave ``results``, passed over."""
    values = kernels.load(source)
    return _reads(source, values.reshape(1, -1) if everything else values.T, op, results)


def zero_divisors(values: npt.NDArray[np.int64]) -> int:
    """Zeros after the first element of groups [..., elements]."""
    return int((values[..., 1:] == 0).sum())


def rounded(source: Access) -> int:
    """Integers of a pattern that float32 does not hold exactly."""
    if not source.dtype.is_integer or source.dtype.bytes < 4:
        return 0
    whole = kernels.load_raw(source).view(source.dtype.numpy)
    # An integer is held exactly if at most 24 bits stand between its highest and its lowest one.
    size = np.abs(whole.astype(object)) if source.dtype.bytes == 8 else np.abs(whole.astype(np.int64))
    if source.dtype.bytes == 8:
        return sum(1 for n in size.reshape(-1).tolist() if n and (n // (n & -n)) >> 24)
    lowest = np.maximum(size & -size, 1)
    return int(((size // lowest) >> 24 != 0).sum())


def clamped(values: npt.NDArray[Any], dtype: Dtype) -> int:
    """Whole numbers outside the range of an integer type."""
    bounds = np.iinfo(dtype.numpy)
    return int(((values < bounds.min) | (values > bounds.max)).sum())


def saturated(values: npt.NDArray[np.float32], dtype: Dtype, saturate: bool) -> int:
    """float32 values that a write clamps."""
    if dtype.is_integer:
        bounds = np.iinfo(dtype.numpy)
        whole = np.rint(values.astype(np.float64))
        return int(((whole < float(bounds.min)) | (whole > float(bounds.max))).sum())
    if not saturate or dtype.bytes > 1:
        return 0
    half = 2.0 ** (math.floor(math.log2(dtype.largest)) - dtype.mantissa - 1)
    return int((np.abs(values.astype(np.float64)) > dtype.largest + half).sum())


def overflowed(values: npt.NDArray[np.float32], dtype: Dtype, saturate: bool) -> int:
    """Finite float32 values that a write turns into infinities, or into NaN where the type has no infinity."""
    if not dtype.is_float or dtype.name == "float32" or (saturate and dtype.bytes == 1):
        return 0
    half = 2.0 ** (math.floor(math.log2(dtype.largest)) - dtype.mantissa - 1)
    size = np.abs(values.astype(np.float64))
    return int((np.isfinite(size) & (size >= dtype.largest + half)).sum())
