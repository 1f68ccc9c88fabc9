"""Pooling one cell at a time, written without the project's shape function."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

import numpy as np


def window_starts(
    size: int, kernel: int, stride: int, dilation: int, begin: int, end: int, ceil_mode: bool
) -> list[int]:
    """Input position of the first tap of every window."""
    reach = dilation * (kernel - 1)
    starts = [*range(-begin, size + end - reach, stride)]
    if ceil_mode:
        last_cell = starts[-1] + reach if starts else -begin - stride + reach
        if last_cell < size + end - 1:
            starts.append(starts[-1] + stride if starts else -begin)
        if starts and starts[-1] >= size:
            starts.pop()
    return starts


def slow_pool(
    x: np.ndarray,
    operator: str,
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    pads: Sequence[int],
    *,
    ceil_mode: bool = False,
    count_include_pad: bool = False,
    p: int = 1,
) -> np.ndarray:
    """Max, average or p-norm of every window in float64; integers stay integers under max."""
    rank = len(kernel)
    sizes, begins, ends = x.shape[2:], pads[:rank], pads[rank:]
    starts = [
        window_starts(*row, ceil_mode) for row in zip(sizes, kernel, strides, dilations, begins, ends, strict=True)
    ]
    out = np.zeros((*x.shape[:2], *(len(each) for each in starts)), x.dtype if operator == "max" else np.float64)
    for n, c, *cell in product(range(x.shape[0]), range(x.shape[1]), *(range(len(each)) for each in starts)):
        values, counted = [], 0
        for tap in product(*(range(k) for k in kernel)):
            at = [starts[a][cell[a]] + tap[a] * dilations[a] for a in range(rank)]
            counted += all(at[a] < sizes[a] + ends[a] for a in range(rank))
            if all(0 <= at[a] < sizes[a] for a in range(rank)):
                values.append(x[(n, c, *at)].item())
        if operator == "max":
            out[(n, c, *cell)] = max(values)
        elif operator == "average":
            out[(n, c, *cell)] = math.fsum(values) / (counted if count_include_pad else len(values))
        else:
            out[(n, c, *cell)] = math.fsum(abs(each) ** p for each in values) ** (1 / p)
    return out
