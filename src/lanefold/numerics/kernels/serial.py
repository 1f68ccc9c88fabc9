"""Compiled: serial folds of float32 values, many outputs side by side.

Every output is folded strictly in pattern order with one rounding per step. Speed comes from folding several outputs
("lanes") in the same pass, never from reordering: sixteen lanes that each read runs of their own, or a row of
neighbouring lanes that all take one step.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lanefold.numerics.kernels.jit import compiled, inner
from lanefold.numerics.kernels.scan import BYTES, SUMS, byte_sum_signed, byte_sum_unsigned
from lanefold.numerics.kernels.steps import ADD, AVERAGE, MAX, MIN, above, below, larger, smaller, step
from lanefold.numerics.kernels.vector import (
    LANES,
    STREAM,
    STRIP,
    add_block,
    add_block_bfloat16,
    add_block_float16,
    add_block_int8,
    add_block_uint8,
    add_rows,
    max_rows,
    max_run,
    min_run,
    peek,
)
from lanefold.numerics.kernels.walk import BF16, F16, F32, FRONT, I8, U8, advance, dims_of, load_run

FROM_FIRST, FROM_VALUE = 0, 1
PLAIN, TIMES_DOUBLE, TIMES_FLOAT = 0, 1, 2

_RUN = 512
_ROW = 1024
_EXACT = 1 << 24
_LONGEST = 1 << 15
_ZERO = np.float32(0)


@inner
def _any_nan(acc: Any) -> Any:
    found = np.int32(0)
    for i in range(acc.size):
        found |= np.int32(acc[i] != acc[i])
    return found != 0


@inner
def _any_lanes(op: Any, values: Any, at: Any, done: Any, count: Any, scale: Any, acc: Any, lanes: Any) -> None:
    for lane in range(lanes):
        a = acc[lane]
        for i in range(at[lane] + done, at[lane] + count):
            a = step(op, a, peek(values, i, _ZERO), scale)
        acc[lane] = a


@inner
def _extreme(op: Any, values: Any, at: Any, count: Any, a: Any, rows: Any) -> Any:
    # The extreme of many does not depend on their order but for the sign of a zero, which the caller looks after;
    # ``a`` is no NaN, and comparisons pass over those that come.
    rows[:] = a
    blocks = count // STREAM
    if op == MAX:
        max_run(values, at, blocks, rows)
    else:
        min_run(values, at, blocks, rows)
    for i in range(LANES):
        a = above(a, rows[i]) if op == MAX else below(a, rows[i])
    for i in range(at + blocks * STREAM, at + count):
        x = peek(values, i, _ZERO)
        a = above(a, x) if op == MAX else below(a, x)
    return a


@inner
def _extremes(op: Any, values: Any, at: Any, count: Any, acc: Any, lanes: Any) -> None:
    rows = np.empty(LANES, np.float32)
    for lane in range(lanes):
        a = acc[lane]
        found = _extreme(op, values, at[lane], count, a, rows) if a == a else a
        if found != found or found == _ZERO:
            # NaN so far, or a zero whose sign is that of the first zero: one by one.
            for i in range(at[lane], at[lane] + count):
                x = peek(values, i, _ZERO)
                a = larger(a, x) if op == MAX else smaller(a, x)
            found = a
        acc[lane] = found


@inner
def _add_blocks(values: Any, codec: Any, at: Any, whole: Any, acc: Any) -> None:
    done = 0
    if codec == F32:
        while done < whole:
            add_block(values, at, done, acc)
            done += LANES
    elif codec == BF16:
        while done < whole:
            add_block_bfloat16(values, at, done, acc)
            done += LANES
    elif codec == F16:
        while done < whole:
            add_block_float16(values, at, done, acc)
            done += LANES
    elif codec == U8:
        while done < whole:
            add_block_uint8(values, at, done, acc)
            done += LANES
    else:
        while done < whole:
            add_block_int8(values, at, done, acc)
            done += LANES


@inner
def _byte_total(values: Any, codec: Any, at: Any, count: Any) -> Any:
    total = np.int64(0)
    blocks = count // BYTES
    for done in range(0, blocks, SUMS):
        some = min(SUMS, blocks - done)
        if codec == I8:
            total += byte_sum_signed(values, at + done * BYTES, some)
        else:
            total += byte_sum_unsigned(values, at + done * BYTES, some)
    for i in range(at + blocks * BYTES, at + count):
        total += np.int64(peek(values, i, np.int8(0))) if codec == I8 else np.int64(peek(values, i, np.uint8(0)))
    return total


@inner
def _exact_bytes(codec: Any, count: Any, acc: Any, lanes: Any) -> Any:
    # Whole numbers up to 2^24 are exact in float32: while no partial sum can pass that, the order changes nothing.
    if codec not in (I8, U8):
        return False
    room = np.float32(_EXACT - 256 * count)
    exact = True
    for lane in range(lanes):
        exact &= np.abs(acc[lane]) <= room and acc[lane] == np.rint(acc[lane])
    return exact


@inner
def _add_piece(values: Any, codec: Any, at: Any, count: Any, acc: Any, lanes: Any) -> None:
    if not _exact_bytes(codec, count, acc, lanes):
        _add_blocks(values, codec, at, count, acc)
        return
    for lane in range(lanes):
        acc[lane] = np.float32(np.int64(acc[lane]) + _byte_total(values, codec, at[lane], count))


@inner
def _lanes(op: Any, values: Any, at: Any, count: Any, scale: Any, acc: Any, lanes: Any) -> None:
    if op in (MAX, MIN):
        _extremes(op, values, at, count, acc, lanes)
        return
    whole = count // LANES * LANES if lanes > 1 and op == ADD else 0
    _add_blocks(values, F32, at, whole, acc)
    _any_lanes(op, values, at, whole, count, scale, acc, lanes)


@inner
def _begin(op: Any, first: Any, scale: Any, divisor: Any) -> Any:
    if op != AVERAGE:
        return first
    return first / divisor if divisor > 0 else first * scale


@inner
def _gather(memory: Any, table: Any, codec: Any, starts: Any, offset: Any, stride: Any, count: Any, tile: Any) -> None:
    for lane in range(LANES):
        load_run(memory, codec, table, starts[lane] + offset, stride, count, tile, lane * _RUN)


@inner
def _fold_group(memory: Any, table: Any, task: Any, real: Any, starts: Any, lanes: Any, dims: Any, work: Any) -> None:
    codec, op, begin = task
    value, scale, divisor = real
    inner, onwards, depth, total = dims
    tile, at, place, acc = work
    in_place = codec == F32 and onwards[0] == 1
    typed = op == ADD and onwards[0] == 1 and (codec in (U8, I8) or (lanes > 1 and codec in (BF16, F16)))
    place[:] = 0
    acc[:] = value
    offset = FRONT
    done = 0
    while done < total:
        # One run of the innermost dim, or as much of it as the tile holds.
        piece = inner[0] - place[0]
        if typed and done > 0 and piece >= LANES:
            piece = min(piece // LANES * LANES, _LONGEST)
            for lane in range(LANES):
                at[lane] = starts[lane] + offset
            _add_piece(memory, codec, at, piece, acc, lanes)
            done += piece
            offset, place[0] = offset + piece, place[0] + piece
            if place[0] == inner[0]:
                place[0] = 0
                offset = advance(place, inner, onwards, 1, depth, offset - inner[0])
            continue
        values = memory
        if in_place:
            for lane in range(LANES):
                at[lane] = starts[lane] + offset
        else:
            piece = min(piece, LANES if typed else _RUN)
            _gather(memory, table, codec, starts, offset, onwards[0], piece, tile)
            values = tile
            for lane in range(LANES):
                at[lane] = lane * _RUN
        skip = 0
        if done == 0 and begin == FROM_FIRST:
            skip = 1
            for lane in range(LANES):
                acc[lane] = _begin(op, peek(values, at[lane], _ZERO), scale, divisor)
                at[lane] += 1
        _lanes(op, values, at, piece - skip, scale, acc, lanes)
        done += piece
        place[0] += piece
        offset += piece * onwards[0]
        if place[0] == inner[0]:
            offset -= inner[0] * onwards[0]
            place[0] = 0
            offset = advance(place, inner, onwards, 1, depth, offset)


@inner
def _fold_runs(memory: Any, table: Any, task: Any, real: Any, start: Any, lane_dims: Any, dims: Any, out: Any) -> None:
    # Lanes that are missing in the last group repeat the first of the group.
    nums, strides, kept = lane_dims
    index = np.zeros(nums.size, np.int64)
    starts = np.zeros(LANES, np.int64)
    acc = np.zeros(LANES, np.float32)
    tile = np.empty(4 * LANES * _RUN, np.uint8)
    work = (tile, np.zeros(LANES, np.int64), np.zeros(dims[0].size, np.int64), acc)
    base = start
    for group in range(0, out.size, LANES):
        lanes = min(LANES, out.size - group)
        for lane in range(LANES):
            starts[lane] = base if lane < lanes else starts[0]
            if lane < lanes:
                base = advance(index, nums, strides, 0, kept, base)
        _fold_group(memory, table, task, real, starts, lanes, dims, work)
        for lane in range(lanes):
            out[group + lane] = acc[lane]


@inner
def _row(op: Any, values: Any, at: Any, scale: Any, acc: Any) -> None:
    n = acc.size
    if op == ADD:
        for i in range(n):
            acc[i] = acc[i] + peek(values, at + i, _ZERO)
    elif op == MAX:
        for i in range(n):
            acc[i] = larger(acc[i], peek(values, at + i, _ZERO))
    elif op == MIN:
        for i in range(n):
            acc[i] = smaller(acc[i], peek(values, at + i, _ZERO))
    else:
        for i in range(n):
            acc[i] = step(op, acc[i], peek(values, at + i, _ZERO), scale)


@inner
def _eight_rows(op: Any, values: Any, at: Any, acc: Any) -> None:
    # Most often the eight rows after these follow at the same distance.
    onward = 8 * (at[1] - at[0])
    strips = acc.size // STRIP * STRIP
    if op == ADD:
        for left in range(0, strips, STRIP):
            add_rows(values, at, left, onward, acc)
    else:
        for left in range(0, strips, STRIP):
            max_rows(values, at, left, onward, acc)
    for i in range(strips, acc.size):
        a = acc[i]
        for k in range(8):
            x = peek(values, at[k] + i, _ZERO)
            a = a + x if op == ADD else above(a, x)
        acc[i] = a


@inner
def _fold_row(
    memory: Any, table: Any, task: Any, real: Any, position: Any, stride: Any, dims: Any, work: Any, acc: Any
) -> None:
    codec, op, begin = task
    value, scale, divisor = real
    inner, onwards, depth, total = dims
    tile, place, eight = work
    wide = acc.size
    in_place = codec == F32 and stride == 1
    place[:] = 0
    done = 0
    acc[:] = value
    fast = begin == FROM_VALUE and _is_fast(op, in_place, acc)
    while done < total:
        if fast and done + 8 <= total:
            for k in range(8):
                eight[k] = position
                position = advance(place, inner, onwards, 0, depth, position)
            _eight_rows(op, memory, eight, acc)
            done += 8
            continue
        values, at = memory, position
        if not in_place:
            load_run(memory, codec, table, position, stride, wide, tile, FRONT)
            values, at = tile, 0
        if done == 0 and begin == FROM_FIRST:
            for i in range(wide):
                acc[i] = _begin(op, peek(values, at + i, _ZERO), scale, divisor)
            fast = _is_fast(op, in_place, acc)
        else:
            _row(op, values, at, scale, acc)
        position = advance(place, inner, onwards, 0, depth, position)
        done += 1


@inner
def _is_fast(op: Any, in_place: Any, acc: Any) -> Any:
    return in_place and (op == ADD or (op == MAX and not _any_nan(acc)))


@inner
def _fold_rows(memory: Any, table: Any, task: Any, real: Any, start: Any, lane_dims: Any, dims: Any, out: Any) -> None:
    nums, strides, kept = lane_dims
    index = np.zeros(nums.size, np.int64)
    tile = np.empty(4 * min(_ROW, nums[0]), np.uint8)
    work = (tile, np.zeros(dims[0].size, np.int64), np.empty(8, np.int64))
    base = start
    for row in range(0, out.size, nums[0]):
        for left in range(0, nums[0], _ROW):
            wide = min(_ROW, nums[0] - left)
            acc = out[row + left : row + left + wide]
            _fold_row(memory, table, task, real, base + left * strides[0], strides[0], dims, work, acc)
        base = advance(index, nums, strides, 1, kept, base)


@inner
def _finish(mode: Any, factor: Any, negate: Any, out: Any) -> None:
    if mode == TIMES_DOUBLE:
        for i in range(out.size):
            out[i] = np.float32(np.float64(out[i]) * factor)
    elif mode == TIMES_FLOAT:
        single = np.float32(factor)
        for i in range(out.size):
            out[i] = out[i] * single
    if negate:
        for i in range(out.size):
            out[i] = -out[i]


@compiled
def fold_runs(
    memory: Any,
    table: Any,
    codec: Any,
    op: Any,
    begin: Any,
    start: Any,
    finish: Any,
    negate: Any,
    inner: Any,
    pairs: Any,
    numbers: Any,
    out: Any,
) -> None:
    """Fold a pattern, sixteen lanes at a time; ``out`` has one float32 per lane, in lane order.

    ``pairs`` has a (num, step) row per dim, innermost first; the first ``inner`` of them are folded. ``numbers`` holds
    the start value, the factor of each element, the divisor of the first element and the factor of the result. For
    long runs and for few neighbouring lanes.
    """
    nums, strides, kept, _ = dims_of(pairs, inner, pairs.shape[0])
    dims = dims_of(pairs, 0, inner)
    real = (np.float32(numbers[0]), np.float32(numbers[1]), np.float32(numbers[2]))
    _fold_runs(memory, table, (codec, op, begin), real, start, (nums, strides, kept), dims, out)
    _finish(finish, numbers[3], negate, out)


@compiled
def fold_rows(
    memory: Any,
    table: Any,
    codec: Any,
    op: Any,
    begin: Any,
    start: Any,
    finish: Any,
    negate: Any,
    inner: Any,
    pairs: Any,
    numbers: Any,
    out: Any,
) -> None:
    """As `fold_runs`, but neighbouring lanes take each step together."""
    nums, strides, kept, _ = dims_of(pairs, inner, pairs.shape[0])
    dims = dims_of(pairs, 0, inner)
    real = (np.float32(numbers[0]), np.float32(numbers[1]), np.float32(numbers[2]))
    _fold_rows(memory, table, (codec, op, begin), real, start, (nums, strides, kept), dims, out)
    _finish(finish, numbers[3], negate, out)


@compiled
def sum_in_fours(memory: Any, table: Any, codec: Any, start: Any, inner: Any, pairs: Any, out: Any) -> None:
    """Sums with four running values over blocks of four, joined as (s0+s2)+(s1+s3), the rest added one by one."""
    nums, strides, kept, _ = dims_of(pairs, inner, pairs.shape[0])
    within, onwards, depth, total = dims_of(pairs, 0, inner)
    index = np.zeros(nums.size, np.int64)
    place = np.zeros(within.size, np.int64)
    window = np.empty(total, np.float32)
    tile = np.empty(4, np.uint8)
    base = start
    for lane in range(out.size):
        position = base
        for i in range(total):
            load_run(memory, codec, table, position, 1, 1, tile, FRONT)
            window[i] = peek(tile, 0, _ZERO)
            position = advance(place, within, onwards, 0, depth, position)
        s0 = s1 = s2 = s3 = _ZERO
        whole = total // 4 * 4
        for i in range(0, whole, 4):
            s0 += window[i]
            s1 += window[i + 1]
            s2 += window[i + 2]
            s3 += window[i + 3]
        a = (s0 + s2) + (s1 + s3)
        for i in range(whole, total):
            a += window[i]
        out[lane] = a
        base = advance(index, nums, strides, 0, kept, base)
