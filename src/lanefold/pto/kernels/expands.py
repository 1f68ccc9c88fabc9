"""Compiled elementwise operations with one operand broadcast, over many tiles.

Operands are flat arrays with one start per tile and steps between rows and columns, in elements; a step of 0
broadcasts. ``period`` is the length after which a row of an operand repeats itself, 0 for none. Destinations have
contiguous rows.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from lanefold.numerics.kernels.jit import compiled, contracted, inner
from lanefold.pto.kernels.half import narrow, widen

Array = npt.NDArray[Any]
Index = npt.NDArray[np.int64]

ADD, SUB, MUL, DIV, MAX, MIN, EXPDIF = range(7)

_LOG2E = 1.4426950408889634
_LN2 = 0.6931471805599453
_ROUND = 6755399441055744.0  # 1.5 · 2^52: adding it rounds to a whole number that stands in the low bits
_PIECE = 512  # elements that are computed again where one of them is in doubt
_BELOW, _ABOVE = 1.0 - 2.0**-43, 1.0 + 2.0**-43


@inner
def _line(flat: Array, start: int, step: int, period: int, count: int, buffer: Array) -> Array:
    """Row of an operand as a contiguous line; broadcast and strided rows are written out in ``buffer``."""
    if step == 1 and period == 0:
        return flat[start : start + count]
    if step == 0:
        buffer[:count] = flat[start]
    elif period == 0:
        for j in range(count):
            buffer[j] = flat[start + j * step]
    else:
        for first in range(0, count, period):
            for j in range(min(period, count - first)):
                buffer[first + j] = flat[start + j * step]
    return buffer[:count]


@inner
def _arithmetic(op: int, a: Array, b: Array, out: Array) -> None:
    if op == ADD:
        for j in range(out.size):
            out[j] = a[j] + b[j]
    elif op == SUB:
        for j in range(out.size):
            out[j] = a[j] - b[j]
    elif op == MUL:
        for j in range(out.size):
            out[j] = a[j] * b[j]
    elif op == DIV:
        for j in range(out.size):
            out[j] = a[j] / b[j]
    elif op == MAX:
        for j in range(out.size):
            out[j] = b[j] if b[j] > a[j] else a[j]
    else:
        for j in range(out.size):
            out[j] = b[j] if b[j] < a[j] else a[j]


@inner
def _add_rows(
    op: int,
    a: Array,
    p: int,
    a_step: int,
    b: Array,
    q: int,
    b_step: int,
    out: Array,
    r: int,
    out_step: int,
    size: Index,
) -> None:
    """ADD and SUB of one value per row, a tile at a time: a call per row would cost as much as the row."""
    for i in range(size[0]):
        left = a[p + i * a_step : p + i * a_step + size[1]]
        line = out[r + i * out_step : r + i * out_step + size[1]]
        value = b[q + i * b_step] if op == ADD else -b[q + i * b_step]
        for j in range(line.size):
            line[j] = left[j] + value


@inner
def _multiply_lines(
    a: Array, p: int, a_step: int, b: Array, q: int, b_step: int, out: Array, r: int, out_step: int, size: Index
) -> None:
    """MUL of two operands with contiguous rows, a tile at a time."""
    for i in range(size[0]):
        left = a[p + i * a_step : p + i * a_step + size[1]]
        right = b[q + i * b_step : q + i * b_step + size[1]]
        line = out[r + i * out_step : r + i * out_step + size[1]]
        for j in range(line.size):
            line[j] = left[j] * right[j]


@inner
def _add_lines(
    a: Array, p: int, a_step: int, b: Array, q: int, b_step: int, out: Array, r: int, out_step: int, size: Index
) -> None:
    """ADD of two operands with contiguous rows, a tile at a time."""
    for i in range(size[0]):
        left = a[p + i * a_step : p + i * a_step + size[1]]
        right = b[q + i * b_step : q + i * b_step + size[1]]
        line = out[r + i * out_step : r + i * out_step + size[1]]
        for j in range(line.size):
            line[j] = left[j] + right[j]


@inner
def _multiply_rows(
    a: Array, p: int, a_step: int, b: Array, q: int, b_step: int, out: Array, r: int, out_step: int, size: Index
) -> None:
    """MUL of one value per row, a tile at a time."""
    for i in range(size[0]):
        left = a[p + i * a_step : p + i * a_step + size[1]]
        line = out[r + i * out_step : r + i * out_step + size[1]]
        value = b[q + i * b_step]
        for j in range(line.size):
            line[j] = left[j] * value


@inner
def _whole_tile(
    op: int,
    a: Array,
    p: int,
    a_form: Index,
    b: Array,
    q: int,
    b_form: Index,
    out: Array,
    r: int,
    out_step: int,
    size: Index,
) -> bool:
    """The common cases by the tile; false where the rows have to be taken one by one."""
    if a_form[1] != 1 or a_form[2] != 0 or b_form[2] != 0:
        return False
    if op == EXPDIF:
        return False
    if b_form[1] == 0 and op <= SUB:
        _add_rows(op, a, p, a_form[0], b, q, b_form[0], out, r, out_step, size)
    elif b_form[1] == 0 and op == MUL:
        _multiply_rows(a, p, a_form[0], b, q, b_form[0], out, r, out_step, size)
    elif b_form[1] == 1 and op == MUL:
        _multiply_lines(a, p, a_form[0], b, q, b_form[0], out, r, out_step, size)
    elif b_form[1] == 1 and op == ADD:
        _add_lines(a, p, a_form[0], b, q, b_form[0], out, r, out_step, size)
    else:
        return False
    return True


@contracted
def _exponential_piece(x: Array, out: Array) -> None:
    doubtful = 0
    for j in range(out.size):
        limited = np.float32(130.0) if x[j] > np.float32(130.0) else x[j]
        value = np.float64(np.float32(-130.0) if limited < np.float32(-130.0) else limited)
        shifted = value * _LOG2E + _ROUND
        r = value - (shifted - _ROUND) * _LN2
        p = 2.505210838544172e-08 * r + 2.755731922398589e-07
        p = p * r + 2.7557319223985893e-06
        p = p * r + 2.48015873015873e-05
        p = p * r + 0.0001984126984126984
        p = p * r + 0.001388888888888889
        p = p * r + 0.008333333333333333
        p = p * r + 0.041666666666666664
        p = p * r + 0.16666666666666666
        p = p * r + 0.5
        p = p * r + 1.0
        p = p * r + 1.0
        exponent = np.int64((np.float64(shifted).view(np.int64) + np.int64(1023)) << np.int64(52))
        result = p * exponent.view(np.float64)
        low = np.float32(result * _BELOW)
        high = np.float32(result * _ABOVE)
        doubtful += 1 if low < high else 0
        out[j] = high
    if doubtful:
        for j in range(out.size):
            out[j] = np.float32(math.exp(np.float64(x[j]))) if x[j] == x[j] else x[j]


@inner
def exponential(x: Array, out: Array) -> None:
    """f32 of the double exponential of f32 values.

    The series is within 2^-45 of the exponential, relatively; where the f32 result could depend on more than that, the
    library's function decides, so that every result is the one that its exponential rounds to.
    """
    for first in range(0, out.size, _PIECE):
        _exponential_piece(x[first : first + _PIECE], out[first : first + _PIECE])


@compiled
def expand_f32(
    op: int,
    a: Array,
    a_starts: Index,
    a_form: Index,
    b: Array,
    b_starts: Index,
    b_form: Index,
    out: Array,
    out_starts: Index,
    out_step: int,
    rows: int,
    cols: int,
) -> None:
    """f32 operations; a form is (row step, column step, period)."""
    arithmetic = SUB if op == EXPDIF else op
    first = np.empty(cols, np.float32)
    second = np.empty(cols, np.float32)
    size = np.array([rows, cols], np.int64)
    by_tile = op == EXPDIF and a_form[1] == 1 and a_form[2] == 0 and b_form[1] == 0 and out_step == cols
    difference = np.empty(rows * cols if by_tile else 0, np.float32)
    for t in range(out_starts.size):
        p, q, r = a_starts[t], b_starts[t], out_starts[t]
        if _whole_tile(op, a, p, a_form, b, q, b_form, out, r, out_step, size):
            continue
        if by_tile:
            _add_rows(arithmetic, a, p, a_form[0], b, q, b_form[0], difference, 0, cols, size)
            exponential(difference, out[r : r + rows * cols])
            continue
        for i in range(rows):
            line = out[r + i * out_step : r + i * out_step + cols]
            left = _line(a, p + i * a_form[0], a_form[1], a_form[2], cols, first)
            right = _line(b, q + i * b_form[0], b_form[1], b_form[2], cols, second)
            if op == EXPDIF:
                _arithmetic(arithmetic, left, right, first)
                exponential(first, line)
            else:
                _arithmetic(arithmetic, left, right, line)


@compiled
def expand_16(
    op: int,
    kind: int,
    exponentials: Array,
    a: Array,
    a_starts: Index,
    a_form: Index,
    b: Array,
    b_starts: Index,
    b_form: Index,
    out: Array,
    out_starts: Index,
    out_step: int,
    rows: int,
    cols: int,
) -> None:
    """f16 or bf16 operations on bit patterns (``kind`` 1 or 2), computed in f32 and rounded once.

    ``exponentials`` gives the exponential of every bit pattern, for EXPDIF.
    """
    first = np.empty(cols, a.dtype)
    second = np.empty(cols, b.dtype)
    left_wide = np.empty(cols, np.float32)
    right_wide = np.empty(cols, np.float32)
    result = np.empty(cols, np.float32)
    for t in range(out_starts.size):
        for i in range(rows):
            line = out[out_starts[t] + i * out_step : out_starts[t] + i * out_step + cols]
            left = _line(a, a_starts[t] + i * a_form[0], a_form[1], a_form[2], cols, first)
            right = _line(b, b_starts[t] + i * b_form[0], b_form[1], b_form[2], cols, second)
            for j in range(cols):
                left_wide[j] = widen(left[j], kind)
                right_wide[j] = widen(right[j], kind)
            _arithmetic(SUB if op == EXPDIF else op, left_wide, right_wide, result)
            for j in range(cols):
                line[j] = narrow(result[j], kind)
            if op == EXPDIF:
                for j in range(cols):
                    line[j] = exponentials[line[j]]
