"""Compiled: walking access patterns, and reading runs of elements as float32.

Memory is one flat array of bytes; positions, steps and pitches count elements. A pattern is a row of (num, step) dims,
innermost first.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lanefold.numerics.kernels.jit import compiled, inner
from lanefold.numerics.kernels.vector import bits_of, float_of, peek, poke

# Codecs: how the bits of an element become a number.
F32, BF16, F16, TABLE, U8, I8, U16, I16, U32, I32, U64, I64 = range(12)

_HALF_SCALE = np.float32(2.0**112)
_EXPONENT32 = np.uint32(0x7F800000)
_HALF_EXPONENT = np.uint32(0x7C00)
_SINGLE = np.float32(0)

FRONT = np.int64(0)
"""Position 0 as a number like any other: a 0 that is written out would be compiled apart."""


@inner
def fuse(pairs: Any, low: Any, high: Any, nums: Any, steps: Any) -> Any:
    """Drop dims of one element and join dims that continue each other; returns how many remain, at least one.

    ``pairs`` has a (num, step) row per dim, of which low to high-1 are taken.
    """
    kept = 0
    for k in range(low, high):
        num, step = pairs[k, 0], pairs[k, 1]
        if num == 1:
            continue
        if kept > 0 and step == steps[kept - 1] * nums[kept - 1]:
            nums[kept - 1] *= num
        else:
            nums[kept] = num
            steps[kept] = step
            kept += 1
    if kept == 0:
        nums[0] = 1
        steps[0] = 0
        kept = 1
    return kept


@inner
def dims_of(pairs: Any, low: Any, high: Any) -> Any:
    """Nums, steps and number of the dims that `fuse` leaves, and the product of the nums."""
    nums = np.empty(max(high - low, 1), np.int64)
    steps = np.empty(max(high - low, 1), np.int64)
    kept = fuse(pairs, low, high, nums, steps)
    total = 1
    for k in range(kept):
        total *= nums[k]
    return nums, steps, kept, total


@inner
def advance(index: Any, nums: Any, steps: Any, low: Any, high: Any, position: Any) -> Any:
    """Move dims low to high-1 on by one element and return the new position; wraps to the start after the last."""
    for k in range(low, high):
        index[k] += 1
        position += steps[k]
        if index[k] < nums[k]:
            return position
        position -= steps[k] * nums[k]
        index[k] = 0
    return position


@inner
def _half(code: Any) -> Any:
    # Exponent and fraction move into place as they are; the product sets the bias right and normalises subnormals.
    word = np.uint32(code)
    size = bits_of(float_of((word & np.uint32(0x7FFF)) << np.uint32(13)) * _HALF_SCALE)
    special = _EXPONENT32 if (word & _HALF_EXPONENT) == _HALF_EXPONENT else np.uint32(0)
    return float_of(size | special | ((word & np.uint32(0x8000)) << np.uint32(16)))


@inner
def _spread(memory: Any, first: Any, step: Any, count: Any, like: Any, out: Any, at: Any) -> None:
    if step == 1:
        for i in range(count):
            poke(out, at + i, np.float32(peek(memory, first + i, like)))
    else:
        for i in range(count):
            poke(out, at + i, np.float32(peek(memory, first + i * step, like)))


@inner
def _spread_bfloat16(memory: Any, first: Any, step: Any, count: Any, out: Any, at: Any) -> None:
    if step == 1:
        for i in range(count):
            poke(out, at + i, np.uint32(np.uint32(peek(memory, first + i, np.uint16(0))) << np.uint32(16)))
    else:
        for i in range(count):
            poke(out, at + i, np.uint32(np.uint32(peek(memory, first + i * step, np.uint16(0))) << np.uint32(16)))


@inner
def _spread_float16(memory: Any, first: Any, step: Any, count: Any, out: Any, at: Any) -> None:
    for i in range(count):
        poke(out, at + i, _half(peek(memory, first + i * step, np.uint16(0))))


@inner
def _spread_table(memory: Any, table: Any, first: Any, step: Any, count: Any, out: Any, at: Any) -> None:
    for i in range(count):
        poke(out, at + i, table[peek(memory, first + i * step, np.uint8(0))])


@inner
def _spread_whole(memory: Any, codec: Any, first: Any, step: Any, count: Any, out: Any, at: Any) -> None:
    if codec == U8:
        _spread(memory, first, step, count, np.uint8(0), out, at)
    elif codec == I8:
        _spread(memory, first, step, count, np.int8(0), out, at)
    elif codec == U16:
        _spread(memory, first, step, count, np.uint16(0), out, at)
    elif codec == I16:
        _spread(memory, first, step, count, np.int16(0), out, at)
    elif codec == U32:
        _spread(memory, first, step, count, np.uint32(0), out, at)
    elif codec == I32:
        _spread(memory, first, step, count, np.int32(0), out, at)
    elif codec == U64:
        _spread(memory, first, step, count, np.uint64(0), out, at)
    else:
        _spread(memory, first, step, count, np.int64(0), out, at)


@inner
def load_run(memory: Any, codec: Any, table: Any, first: Any, step: Any, count: Any, out: Any, at: Any) -> None:
    """Read ``count`` elements from position ``first`` on as float32, into ``out`` from position ``at`` on."""
    if codec == F32:
        _spread(memory, first, step, count, _SINGLE, out, at)
    elif codec == BF16:
        _spread_bfloat16(memory, first, step, count, out, at)
    elif codec == F16:
        _spread_float16(memory, first, step, count, out, at)
    elif codec == TABLE:
        _spread_table(memory, table, first, step, count, out, at)
    else:
        _spread_whole(memory, codec, first, step, count, out, at)


@compiled
def load_flat(memory: Any, table: Any, codec: Any, start: Any, pairs: Any, out: Any) -> None:
    """Read a whole pattern as float32, in pattern order, into the bytes ``out``."""
    nums, steps, kept, _ = dims_of(pairs, 0, pairs.shape[0])
    index = np.zeros(nums.size, np.int64)
    position = start
    for done in range(0, out.size // 4, nums[0]):
        load_run(memory, codec, table, position, steps[0], nums[0], out, done)
        position = advance(index, nums, steps, 1, kept, position)


@compiled
def gather_raw(memory: Any, start: Any, pairs: Any, out: Any) -> None:
    """Copy the elements of a pattern, as they are, into the flat array ``out``, which sets their size."""
    nums, steps, kept, _ = dims_of(pairs, 0, pairs.shape[0])
    index = np.zeros(nums.size, np.int64)
    position = start
    for i in range(out.size):
        out[i] = peek(memory, position, out[0])
        position = advance(index, nums, steps, 0, kept, position)


@compiled
def scatter_raw(memory: Any, start: Any, pairs: Any, values: Any) -> None:
    """Write the flat ``values``, as they are, along a pattern; their type sets the size of the elements."""
    nums, steps, kept, _ = dims_of(pairs, 0, pairs.shape[0])
    index = np.zeros(nums.size, np.int64)
    position = start
    for i in range(values.size):
        poke(memory, position, values[i])
        position = advance(index, nums, steps, 0, kept, position)
