"""Compiled maxima, minima and their first indices over one axis of many tiles, for every element type.

Values are compared through whole-number keys of the same width, so that one loop serves all types and runs on vector
instructions: signed integers as they are, unsigned ones with the top bit turned, floats from sign and magnitude with
both zeros at key 0; a minimum is the maximum of the turned keys. The rule is the simulator's: a later value replaces
an earlier one only where it is strictly greater; a NaN in first place stays, any other NaN is passed over.

``form`` holds, in the width of the elements: sign mask, size mask, bits to turn, largest size of a number, lowest key.
The other arguments are those of the folds.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lanefold.numerics.kernels.jit import compiled, inner

Array = npt.NDArray[Any]
Index = npt.NDArray[np.int64]

BLOCK = 64
"""Elements that are searched at once for the key of the extreme value."""


@inner
def _key(bits: Any, sign_mask: Any, size_mask: Any, turn: Any, largest: Any, lowest: Any, zero: Any) -> Any:
    sign = sign_mask if bits < zero else zero
    size = bits & size_mask
    key = ((size ^ sign) - sign) ^ turn
    return lowest if size > largest else key


@inner
def _keys(src: Array, form: Array, keys: Array) -> None:
    kind = src.dtype.type
    sign_mask, size_mask, turn, largest, lowest, zero = form[0], form[1], form[2], form[3], form[4], kind(0)
    for j in range(src.size):
        keys[j] = kind(_key(src[j], sign_mask, size_mask, turn, largest, lowest, zero))


@inner
def _first(row: Array, sign_mask: Any, size_mask: Any, turn: Any, largest: Any, lowest: Any, zero: Any) -> Any:
    """Position of the first largest key of a line: the first block that holds it, then its first place there."""
    kind = row.dtype.type
    best, at = lowest, 0
    for block in range(0, row.size, BLOCK):
        part = row[block : block + BLOCK]
        here = lowest
        for j in range(part.size):
            key = kind(_key(part[j], sign_mask, size_mask, turn, largest, lowest, zero))
            here = key if key > here else here
        if here > best:
            best, at = here, block
    part = row[at : at + BLOCK]
    first = kind(BLOCK)
    for j in range(part.size):
        key = kind(_key(part[j], sign_mask, size_mask, turn, largest, lowest, zero))
        place = kind(j) if key == best else kind(BLOCK)
        first = place if place < first else first
    return at + first


@inner
def _value(best: Any, src: Array, start: int, step: int, length: int, form: Array) -> Any:
    """The bits that belong to the largest key of a line; both zeros share a key, there the first zero is looked up."""
    kind = src.dtype.type
    sign_mask, size_mask, turn, largest, zero = form[0], form[1], form[2], form[3], kind(0)
    plain = kind(best ^ turn)
    if (src[start] & size_mask) > largest:
        return src[start]
    if sign_mask == zero:
        return plain
    if plain > zero:
        return plain
    if plain < zero:
        return kind(kind(zero - plain) | kind(~size_mask))
    for j in range(length):
        if (src[start + j * step] & size_mask) == zero:
            return src[start + j * step]
    return plain


@compiled
def first_along(src: Array, starts: Index, kept: int, count: int, length: int, form: Array, index: Array) -> None:
    """First index of the extreme value of every contiguous line; ``index`` is int32 [tiles, count]."""
    kind = src.dtype.type
    sign_mask, size_mask, turn, largest, lowest, zero = form[0], form[1], form[2], form[3], form[4], kind(0)
    for t in range(starts.size):
        for line in range(count):
            p = starts[t] + line * kept
            row = src[p : p + length]
            index[t, line] = 0
            if (row[0] & size_mask) <= largest:
                index[t, line] = _first(row, sign_mask, size_mask, turn, largest, lowest, zero)


@compiled
def best_along(src: Array, starts: Index, kept: int, count: int, length: int, form: Array, out: Array) -> None:
    """Extreme value of every contiguous line, in the bits of the source; ``out`` is [tiles, count]."""
    kind = src.dtype.type
    sign_mask, size_mask, turn, largest, lowest, zero = form[0], form[1], form[2], form[3], form[4], kind(0)
    for t in range(starts.size):
        for line in range(count):
            p = starts[t] + line * kept
            row = src[p : p + length]
            best = lowest
            for j in range(length):
                key = kind(_key(row[j], sign_mask, size_mask, turn, largest, lowest, zero))
                best = key if key > best else best
            out[t, line] = _value(best, src, p, 1, length, form)


@compiled
def first_across(src: Array, starts: Index, folded: int, count: int, length: int, form: Array, index: Array) -> None:
    """The same indices with all lines advancing together; for lines that lie side by side."""
    size_mask, largest = form[1], form[3]
    highest = src.dtype.type(~form[4])
    best = np.empty(count, src.dtype)
    keys = np.empty(count, src.dtype)
    for t in range(starts.size):
        where = index[t, :count]
        where[:] = 0
        row = src[starts[t] : starts[t] + count]
        _keys(row, form, best)
        for j in range(count):
            best[j] = highest if (row[j] & size_mask) > largest else best[j]
        for i in range(1, length):
            p = starts[t] + i * folded
            _keys(src[p : p + count], form, keys)
            for j in range(count):
                take = keys[j] > best[j]
                best[j] = keys[j] if take else best[j]
                where[j] = np.int32(i) if take else where[j]


@compiled
def best_across(src: Array, starts: Index, folded: int, count: int, length: int, form: Array, out: Array) -> None:
    """The same extreme values with all lines advancing together, four positions in one pass."""
    kind = src.dtype.type
    sign_mask, size_mask, turn, largest, lowest, zero = form[0], form[1], form[2], form[3], form[4], kind(0)
    best = np.empty(count, src.dtype)
    whole = length - length % 4
    for t in range(starts.size):
        best[:] = lowest
        for i in range(0, whole, 4):
            p = starts[t] + i * folded
            s0, s1 = src[p : p + count], src[p + folded : p + folded + count]
            s2, s3 = src[p + 2 * folded : p + 2 * folded + count], src[p + 3 * folded : p + 3 * folded + count]
            for j in range(count):
                k0 = kind(_key(s0[j], sign_mask, size_mask, turn, largest, lowest, zero))
                k1 = kind(_key(s1[j], sign_mask, size_mask, turn, largest, lowest, zero))
                k2 = kind(_key(s2[j], sign_mask, size_mask, turn, largest, lowest, zero))
                k3 = kind(_key(s3[j], sign_mask, size_mask, turn, largest, lowest, zero))
                k0 = k1 if k1 > k0 else k0
                k2 = k3 if k3 > k2 else k2
                k0 = k2 if k2 > k0 else k0
                best[j] = k0 if k0 > best[j] else best[j]
        for i in range(whole, length):
            p = starts[t] + i * folded
            s0 = src[p : p + count]
            for j in range(count):
                key = kind(_key(s0[j], sign_mask, size_mask, turn, largest, lowest, zero))
                best[j] = key if key > best[j] else best[j]
        for j in range(count):
            out[t, j] = _value(best[j], src, starts[t] + j, folded, length, form)


@compiled
def f32_across(src: Array, starts: Index, folded: int, count: int, length: int, minimum: bool, out: Array) -> None:
    """The same for f32 as it is: a comparison keeps a first NaN and the first of two zeros; other NaN lose it."""
    whole = 1 + (length - 1) - (length - 1) % 4
    for t in range(starts.size):
        p = starts[t]
        best = out[t, :count]
        best[:] = src[p : p + count]
        for i in range(1, whole, 4):
            q = p + i * folded
            s0, s1 = src[q : q + count], src[q + folded : q + folded + count]
            s2, s3 = src[q + 2 * folded : q + 2 * folded + count], src[q + 3 * folded : q + 3 * folded + count]
            if minimum:
                for j in range(count):
                    value = s0[j] if s0[j] < best[j] else best[j]
                    value = s1[j] if s1[j] < value else value
                    value = s2[j] if s2[j] < value else value
                    best[j] = s3[j] if s3[j] < value else value
            else:
                for j in range(count):
                    value = s0[j] if s0[j] > best[j] else best[j]
                    value = s1[j] if s1[j] > value else value
                    value = s2[j] if s2[j] > value else value
                    best[j] = s3[j] if s3[j] > value else value
        for i in range(whole, length):
            s0 = src[p + i * folded : p + i * folded + count]
            for j in range(count):
                take = s0[j] < best[j] if minimum else s0[j] > best[j]
                best[j] = s0[j] if take else best[j]
