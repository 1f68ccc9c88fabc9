"""Compiled: sequences, table look-ups and the exchange of partitions and elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from lanefold.numerics.kernels.jit import compiled
from lanefold.numerics.kernels.walk import advance, dims_of


@compiled
def iota_flat(base: Any, multiplier: Any, pairs: Any, out: Any) -> None:
    """Fill ``out`` [channels, elements] with base + channel * multiplier + the steps walked, in wrapping int32."""
    nums, steps, kept, _ = dims_of(pairs, 0, pairs.shape[0])
    index = np.zeros(nums.size, np.int64)
    for channel in range(out.shape[0]):
        value = base + channel * multiplier
        for i in range(out.shape[1]):
            out[channel, i] = np.int32(value)
            value = advance(index, nums, steps, 0, kept, value)


@compiled
def look_up(table: Any, window: Any, mask: Any, indices: Any, out: Any, hits: Any) -> None:
    """Look indices up in a table row per channel; ``hits`` tells which of them lie in the window."""
    for channel in range(indices.shape[0]):
        for i in range(indices.shape[1]):
            number = np.int64(indices[channel, i])
            inside = (number & ~mask) == window and (number & mask) < table.shape[1]
            hits[channel, i] = inside
            if inside:
                out[channel, i] = table[channel, number & mask]


@compiled
def exchange32(values: Any, out: Any) -> None:
    """Exchange rows and columns inside every 32 x 32 block; both extents are multiples of 32."""
    for row in range(0, values.shape[0], 32):
        for column in range(0, values.shape[1], 32):
            for r in range(32):
                for c in range(32):
                    out[row + c, column + r] = values[row + r, column + c]
