"""Compiled: casting float32 results and writing them along a pattern."""

from __future__ import annotations

from typing import Any

import numpy as np

from lanefold.numerics.kernels.jit import compiled, inner
from lanefold.numerics.kernels.vector import bits_of, poke, same_size
from lanefold.numerics.kernels.walk import BF16, F16, F32, I8, I16, I32, I64, U8, U16, U32, U64, advance, dims_of

_MAGNITUDE = np.uint32(0x7FFFFFFF)
_INFINITY = np.uint32(0x7F800000)


@inner
def small_float(bits: Any, form: Any, saturate: Any) -> Any:
    """Code of the float32 with these bits in a narrower format, rounded to nearest-even.

    ``form`` holds mantissa, lowest exponent, largest, overflow and NaN code, whether saturation applies, shift, and
    the position of the sign bit before the shift.
    """
    mantissa, lowest, largest, overflow, nan = form[0], form[1], form[2], form[3], form[4]
    size = np.int64(bits & _MAGNITUDE)
    if size > np.int64(_INFINITY):
        return nan << form[6]
    sign = np.int64(bits >> np.uint32(31)) << form[7]
    field = size >> 23
    significand = size & 0x7FFFFF
    if field > 0:
        significand |= 0x800000
    exponent = (field if field > 0 else 1) - 127
    kept = exponent if exponent > lowest else lowest
    drop = min(23 - mantissa + kept - exponent, 40)
    half = (1 << (drop - 1)) - 1 + ((significand >> drop) & 1)
    code = ((significand + half) >> drop) + ((kept - lowest) << mantissa)
    if code >= overflow:
        if saturate and form[5] != 0:
            code = largest
        elif overflow == nan:
            return nan << form[6]
        else:
            code = overflow
    return (sign | code) << form[6]


@inner
def whole(value: Any, low: Any, high: Any) -> Any:
    """Nearest-even integer of a float32, clamped to bounds inside 32 bits; a NaN goes to the bound of its sign."""
    if value != value:
        return low if np.signbit(value) else high
    rounded: Any = min(max(np.rint(np.float64(value)), np.float64(low)), np.float64(high))
    return np.int64(rounded)


@inner
def whole64(value: Any) -> Any:
    """As `whole` with the bounds of int64."""
    lowest = np.int64(-(2**63))
    highest = np.int64(2**63 - 1)
    if value != value:
        return lowest if np.signbit(value) else highest
    rounded = np.rint(np.float64(value))
    if rounded >= 9223372036854775808.0:
        return highest
    if rounded < -9223372036854775808.0:
        return lowest
    return np.int64(rounded)


@inner
def whole_unsigned64(value: Any) -> Any:
    """As `whole` with the bounds of uint64."""
    highest = np.uint64(2**64 - 1)
    if value != value:
        return np.uint64(0) if np.signbit(value) else highest
    rounded = np.rint(np.float64(value))
    if rounded >= 18446744073709551616.0:
        return highest
    if rounded < 0.0:
        return np.uint64(0)
    return np.uint64(rounded)


@inner
def _put_integers(values: Any, low: Any, high: Any, like: Any, memory: Any, first: Any, stride: Any) -> None:
    for i in range(values.size):
        poke(memory, first + i * stride, same_size(whole(values[i], low, high), like))


@inner
def _put_bfloat16(values: Any, memory: Any, first: Any, stride: Any) -> None:
    for i in range(values.size):
        word = bits_of(values[i])
        rounded = (word + np.uint32(0x7FFF) + ((word >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
        code = np.uint32(0x7FC0) if (word & _MAGNITUDE) > _INFINITY else rounded
        poke(memory, first + i * stride, np.uint16(code))


@inner
def _put_small(values: Any, form: Any, saturate: Any, like: Any, memory: Any, first: Any, stride: Any) -> None:
    for i in range(values.size):
        poke(memory, first + i * stride, same_size(small_float(bits_of(values[i]), form, saturate), like))


@inner
def _put_unsigned(values: Any, codec: Any, memory: Any, first: Any, stride: Any) -> None:
    if codec == U8:
        _put_integers(values, 0, 255, np.uint8(0), memory, first, stride)
    elif codec == U16:
        _put_integers(values, 0, 65535, np.uint16(0), memory, first, stride)
    elif codec == U32:
        _put_integers(values, 0, 4294967295, np.uint32(0), memory, first, stride)
    else:
        for i in range(values.size):
            poke(memory, first + i * stride, whole_unsigned64(values[i]))


@inner
def _put_signed(values: Any, codec: Any, memory: Any, first: Any, stride: Any) -> None:
    if codec == I8:
        _put_integers(values, -128, 127, np.int8(0), memory, first, stride)
    elif codec == I16:
        _put_integers(values, -32768, 32767, np.int16(0), memory, first, stride)
    elif codec == I32:
        _put_integers(values, -2147483648, 2147483647, np.int32(0), memory, first, stride)
    else:
        for i in range(values.size):
            poke(memory, first + i * stride, whole64(values[i]))


@inner
def _put_float(values: Any, codec: Any, form: Any, saturate: Any, memory: Any, first: Any, stride: Any) -> None:
    if codec == BF16:
        _put_bfloat16(values, memory, first, stride)
    elif codec == F32 and form[6] == 0:
        for i in range(values.size):
            poke(memory, first + i * stride, values[i])
    elif codec == F32:
        _put_small(values, form, saturate, np.uint32(0), memory, first, stride)
    elif codec == F16:
        _put_small(values, form, saturate, np.uint16(0), memory, first, stride)
    else:
        _put_small(values, form, saturate, np.uint8(0), memory, first, stride)


@compiled
def store_flat(memory: Any, codec: Any, form: Any, saturate: Any, start: Any, pairs: Any, values: Any) -> None:
    """Cast the flat float32 ``values`` and write them along a pattern, in its order."""
    nums, steps, kept, _ = dims_of(pairs, 0, pairs.shape[0])
    index = np.zeros(nums.size, np.int64)
    position = start
    for done in range(0, values.size, nums[0]):
        piece = values[done : done + nums[0]]
        if codec in (U8, U16, U32, U64):
            _put_unsigned(piece, codec, memory, position, steps[0])
        elif codec in (I8, I16, I32, I64):
            _put_signed(piece, codec, memory, position, steps[0])
        else:
            _put_float(piece, codec, form, saturate, memory, position, steps[0])
        position = advance(index, nums, steps, 1, kept, position)
