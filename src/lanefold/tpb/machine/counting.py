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

COUNTERS: tuple[str, ...] = (
    "nan_dropped",
    "ties",
    "rounded_integers",
    "saturated",
    "integer_overflows",
    "missed_indices",
    "finite_starts",
)
"""NaN that a maximum or minimum skipped; equal values met by one; integers that float32 could not hold; results clamped
by a cast; int32 folds that left the range; indices outside the pool buffer's window; maxima of nothing but −Inf or NaN,
which give the least finite value that they start from."""

_CHOOSERS = {
    "max": (np.fmax, False),
    "min": (np.fmin, False),
    "abs_max": (np.fmax, True),
    "abs_min": (np.fmin, True),
}


def _reads(source: Access, values: npt.NDArray[np.float32], op: alu.AluOp) -> dict[str, int]:
    found = {"rounded_integers": rounded(source)}
    chooser = _CHOOSERS.get(op.name)
    if chooser is None or values.shape[-1] == 0:
        return found
    choose, magnitudes = chooser
    seen = np.abs(values) if magnitudes else values
    running = choose.accumulate(seen, axis=-1)
    nan = np.isnan(seen)
    found["nan_dropped"] = int((nan & ~np.isnan(running[..., -1:])).sum())
    found["ties"] = int((seen[..., 1:] == running[..., :-1]).sum())
    return found


def fold(source: Access, inner: int, op: alu.AluOp) -> Mapping[str, int]:
    """What a fold of the ``inner`` innermost slots passes over."""
    values = kernels.load(source).reshape(source.channels, -1, math.prod(source.nums[:inner]))
    return _reads(source, values, op)


def _grouped(source: Access, inner: int) -> npt.NDArray[np.float32]:
    return kernels.load(source).reshape(source.channels, -1, math.prod(source.nums[:inner]))


def nan_alone(source: Access, inner: int) -> int:
    """NaN of groups that hold nothing else."""
    nan = np.isnan(_grouped(source, inner))
    return int((nan & nan.all(axis=-1, keepdims=True)).sum())


def finite_starts(source: Access, inner: int, start: float) -> int:
    """Groups without a number above a finite start value."""
    if math.isinf(start):
        return 0
    values = _grouped(source, inner)
    return int((~(values >= np.float32(start))).all(axis=-1).sum())


def across(source: Access, op: alu.AluOp, everything: bool) -> Mapping[str, int]:
    """What a fold across partitions passes over."""
    values = kernels.load(source)
    return _reads(source, values.reshape(1, -1) if everything else values.T, op)


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
