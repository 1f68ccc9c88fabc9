"""Compiled: sums and maxima of windows of float32, sixteen neighbouring outputs at a time."""

from __future__ import annotations

from typing import Any

import numpy as np

from lanefold.numerics.kernels.jit import compiled, inner
from lanefold.numerics.kernels.serial import PLAIN, TIMES_DOUBLE, TIMES_FLOAT
from lanefold.numerics.kernels.steps import ADD, above
from lanefold.numerics.kernels.vector import (
    LANES,
    add_square_1x2,
    add_square_1x3,
    add_square_2x2,
    add_square_2x3,
    add_window_1,
    add_window_2,
    max_square_1x2,
    max_square_1x3,
    max_square_2x2,
    max_square_2x3,
    max_window_1,
    max_window_2,
    peek,
    poke,
)
from lanefold.numerics.kernels.walk import advance, dims_of

_ZERO = np.float32(0)


@inner
def _one_row(
    values: Any, op: Any, value: Any, position: Any, spacing: Any, shape: Any, count: Any, out: Any, at: Any
) -> None:
    wide, right, tall, down = shape
    for lane in range(count):
        a = value
        for y in range(tall):
            for x in range(wide):
                here = peek(values, position + lane * spacing + y * down + x * right, _ZERO)
                a = a + here if op == ADD else above(a, here)
        poke(out, at + lane, a)


@inner
def _sum_plane(
    values: Any, value: Any, factor: Any, base: Any, lanes: Any, shape: Any, side: Any, out: Any, place: Any
) -> None:
    # The last sixteen outputs of a row overlap those before; they are folded anew, not twice.
    wide, right, tall, down = shape
    count, spacing, rows, onward = lanes
    for row in range(rows):
        left = 0
        while left < count:
            left = min(left, count - LANES)
            position, at = base + row * onward + left * spacing, place + row * count + left
            if spacing == 2 and side == 3:
                add_square_2x3(values, position, wide, right, tall, down, value, factor, out, at)
            elif spacing == 2 and side == 2:
                add_square_2x2(values, position, wide, right, tall, down, value, factor, out, at)
            elif spacing == 2:
                add_window_2(values, position, wide, right, tall, down, value, factor, out, at)
            elif side == 3:
                add_square_1x3(values, position, wide, right, tall, down, value, factor, out, at)
            elif side == 2:
                add_square_1x2(values, position, wide, right, tall, down, value, factor, out, at)
            else:
                add_window_1(values, position, wide, right, tall, down, value, factor, out, at)
            left += LANES


@inner
def _max_plane(values: Any, value: Any, base: Any, lanes: Any, shape: Any, side: Any, out: Any, place: Any) -> None:
    # The last sixteen outputs of a row overlap those before; they are folded anew, not twice.
    wide, right, tall, down = shape
    count, spacing, rows, onward = lanes
    for row in range(rows):
        left = 0
        while left < count:
            left = min(left, count - LANES)
            position, at = base + row * onward + left * spacing, place + row * count + left
            if spacing == 2 and side == 3:
                max_square_2x3(values, position, wide, right, tall, down, value, 1.0, out, at)
            elif spacing == 2 and side == 2:
                max_square_2x2(values, position, wide, right, tall, down, value, 1.0, out, at)
            elif spacing == 2:
                max_window_2(values, position, wide, right, tall, down, value, 1.0, out, at)
            elif side == 3:
                max_square_1x3(values, position, wide, right, tall, down, value, 1.0, out, at)
            elif side == 2:
                max_square_1x2(values, position, wide, right, tall, down, value, 1.0, out, at)
            else:
                max_window_1(values, position, wide, right, tall, down, value, 1.0, out, at)
            left += LANES


@inner
def _finish_row(mode: Any, factor: Any, negate: Any, count: Any, out: Any, at: Any) -> None:
    single = np.float32(factor)
    if mode == TIMES_DOUBLE:
        for i in range(at, at + count):
            poke(out, i, np.float32(np.float64(peek(out, i, _ZERO)) * factor))
    elif mode == TIMES_FLOAT:
        for i in range(at, at + count):
            poke(out, i, np.float32(peek(out, i, _ZERO) * single))
    if negate:
        for i in range(at, at + count):
            poke(out, i, np.float32(-peek(out, i, _ZERO)))


@inner
def _plane(
    memory: Any, op: Any, value: Any, end: Any, base: Any, lanes: Any, shape: Any, reach: Any, out: Any, place: Any
) -> None:
    mode, factor, negate = end
    count, spacing, rows, onward = lanes
    side = shape[0] if shape[0] == shape[2] and shape[1] == 1 else 0
    # A vector of every second element may read one element beyond the last, which may be the end of the memory.
    safe = base + reach + max((rows - 1) * onward, 0) <= memory.size // 4
    if not safe:
        for row in range(rows):
            _one_row(memory, op, value, base + row * onward, spacing, shape, count, out, place + row * count)
    elif op == ADD:
        # These sums come multiplied.
        _sum_plane(memory, value, factor if mode == TIMES_DOUBLE else 1.0, base, lanes, shape, side, out, place)
        mode = PLAIN if mode == TIMES_DOUBLE else mode
    else:
        _max_plane(memory, value, base, lanes, shape, side, out, place)
    if mode != PLAIN or negate:
        _finish_row(mode, factor, negate, count * rows, out, place)


@inner
def _fold_windows(
    memory: Any, op: Any, value: Any, start: Any, lane_dims: Any, dims: Any, end: Any, out: Any, home: Any
) -> None:
    nums, strides, kept, total = lane_dims
    inner, onwards, depth, _ = dims
    each, first, pitch = home
    index = np.zeros(nums.size, np.int64)
    shape = (inner[0], onwards[0], inner[1] if depth == 2 else 1, onwards[1] if depth == 2 else 0)
    count = nums[0]
    # Rows of outputs are taken together unless results of several channels would be.
    rows = nums[1] if kept > 1 and each % (count * nums[1]) == 0 else 1
    lanes = (count, strides[0], rows, strides[1] if rows > 1 else 0)
    reach = count * strides[0] + 1 + max((shape[0] - 1) * shape[1], 0) + max((shape[2] - 1) * shape[3], 0)
    low = 2 if rows > 1 else 1
    base = start
    place = first
    left = each
    for _ in range(0, total, count * rows):
        if left == 0:
            place += pitch - each
            left = each
        _plane(memory, op, value, end, base, lanes, shape, reach, out, place)
        place += count * rows
        left -= count * rows
        base = advance(index, nums, strides, low, kept, base)


@compiled
def fold_windows(
    memory: Any,
    op: Any,
    start: Any,
    finish: Any,
    negate: Any,
    inner: Any,
    pairs: Any,
    numbers: Any,
    out: Any,
    each: Any,
    first: Any,
    pitch: Any,
) -> None:
    """As `fold_runs` for add and max of float32 from a start value over at most two dims.

    The innermost lane dim has at least sixteen lanes that are one or two elements apart. Results go to the bytes
    ``out``: ``each`` of them side by side from position ``first`` on, the next ones ``pitch`` further.
    """
    end = (finish, numbers[3], negate)
    lane_dims, dims = dims_of(pairs, inner, pairs.shape[0]), dims_of(pairs, 0, inner)
    _fold_windows(memory, op, np.float32(numbers[0]), start, lane_dims, dims, end, out, (each, first, pitch))
