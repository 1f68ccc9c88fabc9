"""The stream model in closed form: cycles of many configurations at once, without writing their sequences."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lanefold.pto.cost.case import Bools, Columns, Ints
from lanefold.pto.cost.kernels import expand, rows
from lanefold.pto.cost.kernels.elementwise import JOINED, SHORT_ROWS
from lanefold.pto.cost.recipes import Family
from lanefold.pto.cost.stream import GIB
from lanefold.pto.cost.tables import BANDWIDTH_GIB, CLOCK_MHZ, MASKED_FLOOR, STREAM
from lanefold.pto.isa import REPEAT_LIMIT

BARRIER = 1
MASKS = 4
"""Cycles to enter and leave count mode: two masks each way."""
PARTIAL = 2
"""Cycles to set a lane mask and to take it off."""


def _fill(name: str) -> int:
    pipe = STREAM[name]
    return pipe.head + pipe.tail


def _slope(name: str) -> int:
    return STREAM[name].slope


def copy_cycles(name: str, size: Ints) -> Ints:
    """Cycles of copies of ``size`` bytes, each rounded down."""
    rate = next(rate for stem, rate in BANDWIDTH_GIB.items() if name.startswith(stem))
    return (size / GIB / rate * (CLOCK_MHZ * 1e6)).astype(np.int64)


def passes(c: Columns) -> Ints:
    """Passes of a float row reduction; pairwise and one-after-the-other kernels need equally many."""
    return np.maximum(c.full_repeats - 1, 0)


def _special_cycles(c: Columns, shape: tuple[int, int]) -> int:
    total = 0
    for role, repeats in rows.SPECIAL[shape]:
        name = getattr(c.recipe, role)
        total += _fill(name) + _slope(name) * repeats + BARRIER
    return total


def _row_reduce(c: Columns) -> Ints:
    if not c.floating:
        return _scalar_finish(c)
    lanes, across = c.recipe.lanes, c.recipe.across
    pieces = c.valid_rows // REPEAT_LIMIT + 1
    per_row = _slope(lanes) * c.valid_rows
    issues = np.where(c.wide, c.valid_rows, pieces)
    tail = PARTIAL + _fill(lanes) + BARRIER + per_row + MASKED_FLOOR * issues
    final = MASKS + _fill(across) + BARRIER
    one_pass = np.where(c.wide, _fill(lanes) + per_row, MASKS + _fill(lanes) + MASKED_FLOOR) + BARRIER
    long = passes(c) * one_pass + (c.rest > 0) * tail + final
    copy = copy_cycles("copy_ubuf_to_ubuf", c.valid_rows * 256) + BARRIER
    long += np.where((c.full_repeats == 1) & (c.rest > 0), copy, 0)
    short = PARTIAL + pieces * (_fill(across) + BARRIER) + _slope(across) * c.valid_rows
    cycles = np.where(c.full_repeats == 0, short, long)
    if c.dtype == "f32" and c.dst_layout == "DN":
        for shape in rows.SPECIAL:
            hit = c.whole & (c.rows == shape[0]) & (c.cols == shape[1])
            cycles = np.where(hit, _special_cycles(c, shape), cycles)
    return cycles


def _scalar_finish(c: Columns) -> Ints:
    step = _fill(c.recipe.lanes) + _slope(c.recipe.lanes) + MASKED_FLOOR + BARRIER
    start = 1 + _fill("vector_dup") + _slope("vector_dup") + BARRIER
    blocks = c.valid_cols // c.per_block
    rest = c.valid_cols - blocks * c.per_block
    return 3 + c.valid_rows * (start + 4 + step * blocks + (rest > 0) * (1 + step))


def _row_arg(c: Columns) -> Ints:
    across = c.recipe.across
    index = c.form == "index"
    split = 2 * (_fill("vreducev2") + _slope("vreducev2") + BARRIER)
    if index:
        end = 2
    elif c.dst_layout == "ND":
        end = 6
    else:
        end = MASKS + split + (1 + 2 * (_fill("vconv") + BARRIER) if (c.size, c.idx_bytes) == (2, 4) else 0)
    pieces = c.valid_rows // REPEAT_LIMIT + 1
    short = int(index) + 1 + pieces * (_fill(across) + BARRIER) + _slope(across) * c.valid_rows + end
    exact = 2 + _fill(across) + BARRIER + end
    stage = 2 + _fill(across) + BARRIER + split
    stages = 1 + (c.valid_cols > c.per_repeat**2)
    last = 1 + _fill(across) + _slope(across) + BARRIER
    long = 1 + c.valid_rows * (stage * stages + last) + 6
    return np.where(c.valid_cols > c.per_repeat, long, np.where(c.valid_cols == c.per_repeat, exact, short))


def _first_copy(c: Columns) -> Ints:
    return copy_cycles("copy_ubuf_to_ubuf", c.row_blocks * 32)


def _column_reduce(c: Columns) -> Ints:
    lanes = c.recipe.lanes
    step = _fill(lanes) + MASKED_FLOOR + BARRIER
    chain = c.valid_rows - 1
    full = np.where(c.full_repeats > 0, MASKS + chain * step, 0)
    rest = np.where(c.rest > 0, PARTIAL + chain * (step + _slope(lanes)), 0)
    return _first_copy(c) + BARRIER + np.where(c.valid_rows > 1, full + rest + BARRIER, 0)


def _column_sum(c: Columns) -> Ints:
    step = _fill(c.recipe.lanes) + MASKED_FLOOR + BARRIER
    copy = _first_copy(c)
    if c.form == "binary":
        return _binary(c, step) + copy + BARRIER
    several = c.valid_rows > 1
    barrier = np.where(several, BARRIER, 0) if c.form == "no_tmp" else BARRIER
    return copy + barrier + np.where(several, MASKS + (c.valid_rows - 1) * step, 0)


def _binary(c: Columns, step: int) -> Ints:
    total = np.zeros(len(c.rows), np.int64)
    left, level = c.valid_rows, 0
    while (left > 1).any():
        pairs = left // 2
        cost = MASKS + _fill(c.recipe.lanes) + MASKED_FLOOR * pairs + BARRIER + (left % 2) * step
        total += np.where(left > 1, cost + (BARRIER if level else 0), 0)
        left, level = pairs, level + 1
    return total


def _row_expand(c: Columns) -> Ints:
    scalar = MASKS + c.valid_rows * (4 + _fill("vector_dup"))
    if c.size == 1 or c.src_layout != "DN":
        return scalar
    broadcast = c.whole & (c.cols == c.per_block)
    return np.where(broadcast, np.where(c.rows >= 8, _fill("vbrcb"), 0), scalar)


def _body(c: Columns, repeats: Ints) -> tuple[Ints, Ints, Bools]:
    """Repeats over full columns, over the masked rest, and where there is a masked rest."""
    narrow = c.cols < c.per_repeat
    masked = narrow | (c.rest > 0)
    return np.where(narrow, 0, repeats * c.full_repeats), np.where(masked, repeats, 0), masked


def _row_expand_op(c: Columns) -> Ints:
    lanes = c.recipe.lanes
    down = c.src1_layout == "DN"
    spread = _fill("vbrcb") + BARRIER if down else 0
    full, rest, masked = _body(c, c.valid_rows)
    work = _slope(lanes) * (full + rest)
    per_mask = PARTIAL + MASKED_FLOOR
    normal = spread + _fill(lanes) + work + masked * per_mask
    counted = spread + MASKS + _fill(lanes) + MASKED_FLOOR * c.valid_rows
    cycles = np.where(c.wide | (c.full_repeats > c.valid_rows), counted, normal)
    long = (c.rows >= expand.LONG_ROWS) & (c.valid_rows >= expand.LONG_ROWS)
    if long.any():
        piece = expand.PIECE[c.src1_layout]
        whole = c.valid_rows // piece
        parts = whole + (c.valid_rows > whole * piece)
        if down:
            pieced = parts * (spread + _fill(lanes) + masked * per_mask) + whole * BARRIER + work
        else:
            pieced = _fill(lanes) + parts * masked * per_mask + work
        cycles = np.where(long, pieced, cycles)
    return cycles + BARRIER + _function(c, c.recipe.then) if c.recipe.then else cycles


def _function(c: Columns, name: str) -> Ints:
    fill, slope = _fill(name), _slope(name)
    elements = c.valid_rows * c.valid_cols
    extent = np.where(c.static_shape, c.rows * c.cols, elements)
    repeats = elements // c.per_repeat
    joined = slope * (repeats & 255) + (elements > repeats * c.per_repeat) * (PARTIAL + slope)
    joined = np.where(extent > REPEAT_LIMIT * c.per_repeat, MASKS, joined)
    per_row = c.cols // c.per_repeat
    few = c.rows < per_row + 1
    counted = ((per_row > 1) & (c.rows * per_row < SHORT_ROWS)) | (few & (c.rest > 0))
    by_row = slope * c.valid_rows * (c.full_repeats & 255)
    by_column = slope * c.valid_rows * c.full_repeats + (c.rest > 0) * (PARTIAL + slope * c.valid_rows)
    strided = np.where(counted, MASKS, np.where(few, by_row, by_column))
    contiguous = (c.rows == 1) | (c.valid_rows == 1) | (c.valid_cols == c.cols)
    return fill + np.where(contiguous, joined, strided)


def _column_expand(c: Columns) -> Ints:
    return c.valid_rows * _first_copy(c)


def _column_expand_op(c: Columns) -> Ints:
    lanes, then = c.recipe.lanes, c.recipe.then
    repeats = c.valid_rows & 255
    full, rest, masked = _body(c, repeats)
    counted = MASKS + _fill(lanes) + MASKED_FLOOR * c.valid_rows
    normal = _fill(lanes) + _slope(lanes) * (full + rest) + masked * (PARTIAL + MASKED_FLOOR)
    if then:
        again = BARRIER + _fill(then)
        steps = np.where(c.cols < c.per_repeat, 1, c.full_repeats + (c.rest > 0))
        normal += steps * again + _slope(then) * (full + rest)
        counted += c.valid_rows * again
    return np.where((c.static_shape & (c.valid_cols == c.cols)) | (c.rows == 1), normal, counted)


def _elementwise(c: Columns) -> Ints:
    lanes = c.recipe.lanes
    if lanes in JOINED:
        return _function(c, lanes)
    floor = MASKED_FLOOR if STREAM[lanes].floor else 0
    pieces = -(-c.valid_rows // REPEAT_LIMIT)
    columns = c.full_repeats + (c.rest > 0)
    return _fill(lanes) + _slope(lanes) * c.valid_rows * columns + (c.rest > 0) * (PARTIAL + floor * pieces)


def _transfer(c: Columns) -> Ints:
    name = c.recipe.lanes
    if name == "copy_ubuf_to_ubuf":
        return copy_cycles(name, c.valid_rows * c.row_blocks * 32)
    return copy_cycles(name, c.valid_rows * c.valid_cols * c.size)


_FORMS: dict[Family, Callable[[Columns], Ints]] = {
    Family.ROW_REDUCE: _row_reduce,
    Family.ROW_PRODUCT: _scalar_finish,
    Family.ROW_ARG: _row_arg,
    Family.COLUMN_REDUCE: _column_reduce,
    Family.COLUMN_SUM: _column_sum,
    Family.ROW_EXPAND: _row_expand,
    Family.ROW_EXPAND_OP: _row_expand_op,
    Family.COLUMN_EXPAND: _column_expand,
    Family.COLUMN_EXPAND_OP: _column_expand_op,
    Family.ELEMENTWISE: _elementwise,
    Family.TRANSFER: _transfer,
}


def cycles(c: Columns) -> Ints:
    """Cycles of each configuration."""
    return _FORMS[c.recipe.family](c)
