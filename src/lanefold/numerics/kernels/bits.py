"""Compiled: serial folds of whole numbers, on the exact int32 path and on raw bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from lanefold.numerics.alu import by_name
from lanefold.numerics.kernels.jit import compiled, inner
from lanefold.numerics.kernels.steps import (
    ABS,
    ABS_MAX,
    ABS_MIN,
    ADD,
    DIVIDE,
    MAX,
    MIN,
    MULT,
    SUBTRACT,
    is_truth,
    truth,
)
from lanefold.numerics.kernels.vector import peek
from lanefold.numerics.kernels.walk import advance, dims_of

BITWISE_NOT = by_name("bitwise_not").ordinal
BITWISE_AND = by_name("bitwise_and").ordinal
BITWISE_OR = by_name("bitwise_or").ordinal
BITWISE_XOR = by_name("bitwise_xor").ordinal
ARITH_SHIFT_LEFT = by_name("arith_shift_left").ordinal
ARITH_SHIFT_RIGHT = by_name("arith_shift_right").ordinal
LOGICAL_SHIFT_LEFT = by_name("logical_shift_left").ordinal
LOGICAL_SHIFT_RIGHT = by_name("logical_shift_right").ordinal
MOD = by_name("mod").ordinal
MOD_INT = by_name("mod_int").ordinal

_LOW32, _HIGH32 = -(2**31), 2**31 - 1


@inner
def _fit(value: Any, saturate: Any) -> Any:
    """A sum, product or magnitude brought back to 32 bits."""
    if _LOW32 <= value <= _HIGH32:
        return value
    if saturate:
        return _LOW32 if value < 0 else _HIGH32
    return ((value - _LOW32) & 0xFFFFFFFF) + _LOW32


@inner
def _quotient(a: Any, x: Any) -> Any:
    if x == 0:
        return 0
    size = abs(a) // abs(x)
    return size if (a < 0) == (x < 0) else -size


@inner
def whole_step(op: Any, a: Any, x: Any, saturate: Any) -> Any:
    """One step of an arithmetic fold of int32 values held as int64."""
    if is_truth(op):
        return 1 if truth(op, a, x) else 0
    if op == ADD:
        return _fit(a + x, saturate)
    if op == SUBTRACT:
        return _fit(a - x, saturate)
    if op == MULT:
        return _fit(a * x, saturate)
    if op == MAX:
        return max(a, x)
    if op == MIN:
        return min(a, x)
    if op == DIVIDE:
        return _fit(_quotient(a, x), False)
    if op in (MOD, MOD_INT):
        return a - _quotient(a, x) * x if x != 0 else 0
    if op == ABS:
        return _fit(abs(a), saturate)
    if op == ABS_MAX:
        return max(_fit(abs(a), saturate), _fit(abs(x), saturate))
    if op == ABS_MIN:
        return min(_fit(abs(a), saturate), _fit(abs(x), saturate))
    return a


@inner
def bit_step(op: Any, a: Any, x: Any, amount: Any, width: Any) -> Any:
    """One step of a fold of raw bits; ``a`` and ``x`` are zero-extended, ``amount`` is ``x`` with its sign."""
    mask = (1 << width) - 1
    if op == BITWISE_AND:
        return a & x
    if op == BITWISE_OR:
        return a | x
    if op == BITWISE_XOR:
        return a ^ x
    if op == BITWISE_NOT:
        return ~a & mask
    inside = 0 <= amount <= 31
    if op in (ARITH_SHIFT_LEFT, LOGICAL_SHIFT_LEFT):
        return (a << amount) & mask if inside else 0
    if op == LOGICAL_SHIFT_RIGHT:
        return a >> amount if inside else 0
    if op == ARITH_SHIFT_RIGHT:
        signed = a - ((a >> (width - 1)) << width)
        return (signed >> (amount if inside else 63)) & mask
    return a


@compiled
def fold_whole(
    memory: Any,
    like: Any,
    width: Any,
    op: Any,
    raw: Any,
    saturate: Any,
    start: Any,
    inner: Any,
    pairs: Any,
    out: Any,
) -> None:
    """Fold a pattern of whole numbers of up to 32 bits; ``out`` has one int64 per lane.

    ``like`` is a value of the type of the elements, which have ``width`` bits; ``inner`` and ``pairs`` are those of the
    float serial. With ``raw`` the bits are folded and zero-extended results are given, without it int32 values.
    """
    nums, strides, kept, _ = dims_of(pairs, inner, pairs.shape[0])
    within, onwards, depth, total = dims_of(pairs, 0, inner)
    index = np.zeros(nums.size, np.int64)
    place = np.zeros(within.size, np.int64)
    mask = (1 << width) - 1
    base = start
    for lane in range(out.size):
        position = base
        a = np.int64(peek(memory, position, like))
        if raw:
            a &= mask
        position = advance(place, within, onwards, 0, depth, position)
        for _ in range(1, total):
            x = np.int64(peek(memory, position, like))
            a = bit_step(op, a, x & mask, x, width) if raw else whole_step(op, a, x, saturate)
            position = advance(place, within, onwards, 0, depth, position)
        out[lane] = a
        base = advance(index, nums, strides, 0, kept, base)
