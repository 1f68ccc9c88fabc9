"""Compiled counting of what reductions pass over silently; arguments are those of the folds and extremes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lanefold.numerics.kernels.jit import compiled, inner
from lanefold.pto.kernels.extremes import _key
from lanefold.pto.kernels.folds import SUM

Array = npt.NDArray[Any]
Index = npt.NDArray[np.int64]


@inner
def _line_keys(src: Array, start: int, step: int, form: Array, keys: Array) -> int:
    """Keys of one line, and how many NaN it holds."""
    kind = src.dtype.type
    sign_mask, size_mask, turn, largest, lowest, zero = form[0], form[1], form[2], form[3], form[4], kind(0)
    nan = 0
    if step == 1:
        line = src[start : start + keys.size]
        for j in range(keys.size):
            nan += 1 if (line[j] & size_mask) > largest else 0
            keys[j] = kind(_key(line[j], sign_mask, size_mask, turn, largest, lowest, zero))
    else:
        for j in range(keys.size):
            bits = src[start + j * step]
            nan += 1 if (bits & size_mask) > largest else 0
            keys[j] = kind(_key(bits, sign_mask, size_mask, turn, largest, lowest, zero))
    return nan


@compiled
def extremes(
    src: Array, starts: Index, kept: int, folded: int, count: int, length: int, form: Array, found: Index
) -> None:
    """Adds to ``found`` the NaN that every line passes over, and the values after the first that equal the extreme.

    A line whose first value is NaN keeps it, and drops none.
    """
    size_mask, largest = form[1], form[3]
    keys = np.empty(length, src.dtype)
    for t in range(starts.size):
        for line in range(count):
            p = starts[t] + line * kept
            if (src[p] & size_mask) > largest:
                continue
            found[0] += _line_keys(src, p, folded, form, keys)
            best = keys[0]
            for j in range(length):
                best = keys[j] if keys[j] > best else best
            equal = 0
            for j in range(length):
                equal += 1 if keys[j] == best else 0
            found[1] += equal - 1


@compiled
def nans(src: Array, starts: Index, kept: int, folded: int, count: int, length: int, form: Array) -> int:
    """NaN that lines pass over; those of a line whose first value is NaN do not count."""
    size_mask, largest = form[1], form[3]
    total = 0
    here = np.empty(max(count, length), np.int32)
    for t in range(starts.size):
        if folded == 1:
            for line in range(count):
                row = src[starts[t] + line * kept : starts[t] + line * kept + length]
                found = 0
                for j in range(length):
                    found += 1 if (row[j] & size_mask) > largest else 0
                total += found if (row[0] & size_mask) <= largest else 0
            continue
        here[:count] = 0
        for i in range(length):
            p = starts[t] + i * folded
            for j in range(count):
                here[j] += 1 if (src[p + j * kept] & size_mask) > largest else 0
        for j in range(count):
            total += here[j] if (src[starts[t] + j * kept] & size_mask) <= largest else 0
    return total


@compiled
def wide_folds(src: Array, starts: Index, kept: int, folded: int, count: int, length: int, op: int, out: Array) -> None:
    """Sums or products of whole numbers in float64, which shows by how much a narrow result is off; [tiles, count]."""
    for t in range(starts.size):
        for line in range(count):
            p = starts[t] + line * kept
            acc = 0.0 if op == SUM else 1.0
            for j in range(length):
                value = np.float64(src[p + j * folded])
                acc = acc + value if op == SUM else acc * value
            out[t, line] = acc
