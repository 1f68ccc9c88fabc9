"""Compiled sums and products over one axis of many tiles, in the simulator's order of operations.

Every kernel walks the tiles of one flat array. ``starts`` holds the first element of each tile; ``kept`` and ``folded``
are the steps of the axis that stays and of the axis that goes, in elements, of which one is 1. ``*_along`` wants
``folded`` 1 and runs eight or sixteen lines side by side, because one serial sum alone waits for its own additions;
``*_across`` wants ``kept`` 1 and advances all lines together. Results have the shape [tiles, count].
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lanefold.numerics.kernels.jit import compiled, inner
from lanefold.numerics.kernels.vector import LANES, add_block, announce
from lanefold.pto.kernels.half import bits_to_float, float_to_bits, widen

Array = npt.NDArray[Any]
Index = npt.NDArray[np.int64]

SUM, PROD = 0, 1
KEEP, HALF, BFLOAT = 0, 1, 2
"""Rounding of every step: to f32, f16 or bf16; also the meaning of 16-bit sources."""

LINES = 16


@inner
def round_step(value: np.float32, rounding: int) -> np.float32:
    """The value rounded to f16 or bf16 (to nearest, ties to even), still as f32; unchanged for KEEP."""
    if rounding == KEEP:
        return value
    bits = float_to_bits(value)
    size = np.uint32(bits & np.uint32(0x7FFFFFFF))
    sign = np.uint32(bits & np.uint32(0x80000000))
    if size > np.uint32(0x7F800000):
        return value
    if rounding == BFLOAT:
        even = np.uint32((bits >> np.uint32(16)) & np.uint32(1))
        return bits_to_float(np.uint32((bits + np.uint32(0x7FFF) + even) & np.uint32(0xFFFF0000)))
    if size >= np.uint32(0x477FF000):
        return bits_to_float(np.uint32(sign | np.uint32(0x7F800000)))
    if size < np.uint32(0x38800000):
        small = np.float32(np.float32(bits_to_float(size) + np.float32(0.75)) - np.float32(0.75))
        return bits_to_float(np.uint32(float_to_bits(small) | sign))
    even = np.uint32((bits >> np.uint32(13)) & np.uint32(1))
    return bits_to_float(np.uint32((bits + np.uint32(0xFFF) + even) & np.uint32(0xFFFFE000)))


@inner
def _sum_eight(src: Array, p: int, kept: int, length: int, out: Array) -> None:
    r0, r1 = src[p : p + length], src[p + kept : p + kept + length]
    r2, r3 = src[p + 2 * kept : p + 2 * kept + length], src[p + 3 * kept : p + 3 * kept + length]
    r4, r5 = src[p + 4 * kept : p + 4 * kept + length], src[p + 5 * kept : p + 5 * kept + length]
    r6, r7 = src[p + 6 * kept : p + 6 * kept + length], src[p + 7 * kept : p + 7 * kept + length]
    a0 = a1 = a2 = a3 = a4 = a5 = a6 = a7 = np.float32(0.0)
    for j in range(length):
        a0 += r0[j]
        a1 += r1[j]
        a2 += r2[j]
        a3 += r3[j]
        a4 += r4[j]
        a5 += r5[j]
        a6 += r6[j]
        a7 += r7[j]
    out[0], out[1], out[2], out[3] = a0, a1, a2, a3
    out[4], out[5], out[6], out[7] = a4, a5, a6, a7


@inner
def _sum_sixteen(src: Array, p: int, kept: int, length: int, at: Index, acc: Array, out: Array) -> None:
    whole = length - length % LANES
    for i in range(LANES):
        at[i] = p + i * kept
        acc[i] = np.float32(0.0)
    for done in range(0, whole, LANES):
        # Lines are short, so that the processor does not foresee where the next ones begin.
        for i in range(LANES):
            announce(src, at[i] + done + LANES * kept)
        add_block(src, at, done, acc)
    for i in range(LANES):
        total = acc[i]
        for j in range(at[i] + whole, at[i] + length):
            total += src[j]
        out[i] = total


@inner
def _multiply_eight(src: Array, p: int, kept: int, length: int, out: Array) -> None:
    r0, r1 = src[p : p + length], src[p + kept : p + kept + length]
    r2, r3 = src[p + 2 * kept : p + 2 * kept + length], src[p + 3 * kept : p + 3 * kept + length]
    r4, r5 = src[p + 4 * kept : p + 4 * kept + length], src[p + 5 * kept : p + 5 * kept + length]
    r6, r7 = src[p + 6 * kept : p + 6 * kept + length], src[p + 7 * kept : p + 7 * kept + length]
    a0 = a1 = a2 = a3 = a4 = a5 = a6 = a7 = np.float32(1.0)
    for j in range(length):
        a0 *= r0[j]
        a1 *= r1[j]
        a2 *= r2[j]
        a3 *= r3[j]
        a4 *= r4[j]
        a5 *= r5[j]
        a6 *= r6[j]
        a7 *= r7[j]
    out[0], out[1], out[2], out[3] = a0, a1, a2, a3
    out[4], out[5], out[6], out[7] = a4, a5, a6, a7


@compiled
def fold_f32_along(src: Array, starts: Index, kept: int, count: int, length: int, op: int, out: Array) -> None:
    """Serial f32 sums (from +0) or products (from 1) of contiguous lines."""
    whole = count - count % 8
    wide = count - count % LANES if op == SUM else 0
    at, sums = np.empty(LANES, np.int64), np.empty(LANES, np.float32)
    for t in range(starts.size):
        for line in range(0, wide, LANES):
            _sum_sixteen(src, starts[t] + line * kept, kept, length, at, sums, out[t, line : line + LANES])
        for line in range(wide, whole, 8):
            if op == SUM:
                _sum_eight(src, starts[t] + line * kept, kept, length, out[t, line : line + 8])
            else:
                _multiply_eight(src, starts[t] + line * kept, kept, length, out[t, line : line + 8])
        for line in range(whole, count):
            row = src[starts[t] + line * kept : starts[t] + line * kept + length]
            acc = np.float32(0.0) if op == SUM else np.float32(1.0)
            for j in range(length):
                acc = acc + row[j] if op == SUM else acc * row[j]
            out[t, line] = acc


@compiled
def fold_f32_across(src: Array, starts: Index, folded: int, count: int, length: int, op: int, out: Array) -> None:
    """The same folds with all lines advancing together, four folded positions in one pass over the results."""
    whole = length - length % 4
    for t in range(starts.size):
        row = out[t, :count]
        row[:] = np.float32(0.0) if op == SUM else np.float32(1.0)
        for i in range(0, whole, 4):
            p = starts[t] + i * folded
            s0, s1 = src[p : p + count], src[p + folded : p + folded + count]
            s2, s3 = src[p + 2 * folded : p + 2 * folded + count], src[p + 3 * folded : p + 3 * folded + count]
            if op == SUM:
                for j in range(count):
                    row[j] = (((row[j] + s0[j]) + s1[j]) + s2[j]) + s3[j]
            else:
                for j in range(count):
                    row[j] = (((row[j] * s0[j]) * s1[j]) * s2[j]) * s3[j]
        for i in range(whole, length):
            p = starts[t] + i * folded
            s0 = src[p : p + count]
            for j in range(count):
                row[j] = row[j] + s0[j] if op == SUM else row[j] * s0[j]


@compiled
def fold_16(
    src: Array,
    starts: Index,
    kept: int,
    folded: int,
    count: int,
    length: int,
    op: int,
    kind: int,
    rounding: int,
    out: Array,
) -> None:
    """Folds of f16 or bf16 bit patterns (``kind``) in f32, each step rounded as ``rounding`` says, to f32 results."""
    wide = np.empty(length * LINES, np.float32)
    acc = np.empty(LINES, np.float32)
    for t in range(starts.size):
        for first in range(0, count, LINES):
            lines = min(LINES, count - first)
            p = starts[t] + first * kept
            for line in range(lines):
                for i in range(length):
                    wide[i * LINES + line] = widen(src[p + line * kept + i * folded], kind)
            acc[:] = np.float32(0.0) if op == SUM else np.float32(1.0)
            for i in range(length):
                row = wide[i * LINES : (i + 1) * LINES]
                if op == SUM:
                    for line in range(lines):
                        acc[line] = round_step(np.float32(acc[line] + row[line]), rounding)
                else:
                    for line in range(lines):
                        acc[line] = round_step(np.float32(acc[line] * row[line]), rounding)
            out[t, first : first + lines] = acc[:lines]


@compiled
def fold_int(src: Array, starts: Index, kept: int, folded: int, count: int, length: int, op: int, out: Array) -> None:
    """Sums or products of signed integers of any width; the int64 results are exact modulo 2^64."""
    for t in range(starts.size):
        for line in range(count):
            p = starts[t] + line * kept
            acc = np.int64(0) if op == SUM else np.int64(1)
            for j in range(length):
                value = np.int64(src[p + j * folded])
                acc = acc + value if op == SUM else acc * value
            out[t, line] = acc
