"""The calibrated model: the kernels' instruction sequences in closed form, with costs fitted to measured cycles.

Each configuration is a sum of terms, quantity × cycles. The quantities follow the sequences in the folder kernels;
the cycles stand in parameters (fitted) and, where nothing was measured, in the tables of the public models.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lanefold.pto.cost import parameters
from lanefold.pto.cost.case import Bools, Columns, Ints
from lanefold.pto.cost.figures import BY_SHAPE, FIGURES, UNEXPLAINED
from lanefold.pto.cost.kernels import expand, rows
from lanefold.pto.cost.kernels.elementwise import JOINED
from lanefold.pto.cost.recipes import RECIPES, Family
from lanefold.pto.cost.tables import MASKED_FLOOR, REFERENCE, STREAM
from lanefold.pto.isa import REPEAT_LIMIT

Quantity = npt.NDArray[np.float64] | npt.NDArray[np.int64] | npt.NDArray[np.bool_] | int


class Term(NamedTuple):
    """So many times a parameter, or, where ``cycles`` is given, so many times cycles known from a public table."""

    name: str
    quantity: Quantity
    kind: str = ""
    cycles: float | None = None


FITTED: dict[str, parameters.Parameter] = {row.name: row for row in parameters.PARAMETERS}
"""Fitted parameters by name."""

LONG_ROW_BYTES = 1024
"""Row length from which the passes of a row reduction take one more cycle per row."""
HALF_REGISTER_LANES = 64
COMPARE = "vcmpv_ge"
"""The compare instruction with known cost that stands in for the ones of the column args."""
SLOW_HALF = ("vexp", "vsqrt")
"""Functions that take 4 cycles per repeat for 16-bit floats."""


def _completion(name: str, dtype: str) -> int:
    """Cycles until the result of an instruction can be used, from the table of the reference model."""
    row = REFERENCE.get((name, dtype)) or REFERENCE.get((name, "i16"))
    return row.completion if row else REFERENCE["vadd", "f32"].completion


def _repeat_cycles(name: str, dtype: str) -> int:
    return 4 if dtype == "f16" and name in SLOW_HALF else STREAM[name].slope


def _ceil(value: Ints, by: int) -> Ints:
    return -(-value // by)


def _step(name: str, dtype: str, times: Quantity, repeats: Quantity, blocks: Quantity) -> list[Term]:
    """Dependent instructions with a barrier after each: when each ends, and its repeats and blocks over all."""
    return [
        Term(f"completion of {name}", times, "barriers", _completion(name, dtype)),
        Term("step", times),
        Term("step repeat", repeats),
        Term("step block", blocks),
    ]


def _row_reduce(c: Columns) -> list[Term]:
    if not c.floating:
        return _scalar_finish(c)
    total, half = c.recipe.lanes == "vadd", c.dtype == "f16"
    valid, full = c.valid_rows, c.full_repeats
    special = _special(c)
    general = ~special
    long, short = (full > 0) & general, (full == 0) & general
    tail = long & (c.rest > 0)
    passes = np.where(long, np.maximum(full - 1, 0), 0)
    pass_rows = passes * valid
    terms = [
        Term("row launch", 1),
        Term("row launch, sum", int(total)),
        Term("row launch, half sum", int(total and half)),
        Term("row launch, half max", int(half and not total)),
        Term("across repeat", valid * general),
        Term("row lane mask", short),
        Term("pass barrier", passes + short * (valid // REPEAT_LIMIT)),
        Term("pass repeat", np.where(c.wide, 0, pass_rows)),
        Term("tail barrier", tail),
        Term("tail repeat", np.where(c.wide, pass_rows, 0) + valid * tail),
        Term("tail beyond 64 lanes", tail & (full > 1) & (c.rest > HALF_REGISTER_LANES)),
        Term("long row repeat", valid * (long & (c.valid_cols * c.size >= LONG_ROW_BYTES))),
    ]
    return terms + _special_terms(c, special) if special.any() else terms


def _special(c: Columns) -> Bools:
    found = np.zeros(len(c.rows), np.bool_)
    if c.dtype == "f32" and c.dst_layout == "DN":
        for height, width in rows.SPECIAL:
            found |= c.whole & (c.rows == height) & (c.cols == width)
    return found


def _special_terms(c: Columns, special: Bools) -> list[Term]:
    quantity = {"blocks": np.zeros(len(c.rows), np.int64), "lanes": np.zeros(len(c.rows), np.int64)}
    barriers = np.zeros(len(c.rows), np.int64)
    for (height, width), steps in rows.SPECIAL.items():
        hit = special & (c.rows == height) & (c.cols == width)
        barriers += hit * (len(steps) - 1)
        for role, repeats in steps:
            quantity[role] += hit * repeats
    return [
        *(
            Term(f"{name} repeats", quantity[role], "repeats", STREAM[name].slope)
            for role, name in (("blocks", c.recipe.blocks), ("lanes", c.recipe.lanes))
        ),
        Term("completion between instructions", barriers, "barriers", _completion(c.recipe.blocks, c.dtype)),
    ]


def _scalar_finish(c: Columns) -> list[Term]:
    valid = c.valid_rows
    per_row = c.valid_cols // c.per_block + (c.valid_cols % c.per_block > 0)
    steps = per_row * valid
    return [
        Term("expand launch", 1),
        Term("scalar hand-over", valid),
        *_step("vector_dup", c.dtype, valid, valid, valid),
        *_step(c.recipe.lanes, c.dtype, steps, steps, steps),
    ]


def _row_arg(c: Columns) -> list[Term]:
    long = c.valid_cols > c.per_repeat
    short = ~long
    valid = c.valid_rows
    stages = 1 + (c.valid_cols > c.per_repeat**2)
    first = _ceil(c.valid_cols, c.per_repeat)
    second = np.where(stages > 1, _ceil(first, c.per_repeat), 0)
    split = c.form == "value_index" and c.dst_layout == "DN"
    scalar = short * int(c.form == "value_index" and c.dst_layout == "ND") + long
    across = valid * np.where(long, first + second + 1, 1)
    reductions = 2 * valid * stages * long + (2 * short if split else 0)
    convert = 2 * short * int(split and (c.size, c.idx_bytes) == (2, 4))
    return [
        Term("row launch", 1),
        Term("row launch, half max", int(c.dtype == "f16")),
        Term("row lane mask", short & (c.valid_cols < c.per_repeat)),
        Term("across repeat", across),
        Term("pass barrier", valid * (stages + 1) * long),
        *(
            Term("vreducev2", reductions, "repeats", STREAM["vreducev2"].slope),
            Term(
                "completion of vreducev2", reductions, "barriers", STREAM["vreducev2"].head + STREAM["vreducev2"].tail
            ),
            Term("completion of vconv", convert, "barriers", STREAM["vconv"].head + STREAM["vconv"].tail),
        ),
        Term("scalar hand-over", scalar),
    ]


def _chains(c: Columns, name: str) -> list[Term]:
    """Row after row into the destination: full repeats in one instruction, the rest in another."""
    chain = c.valid_rows - 1
    separate = c.recipe.family is Family.COLUMN_REDUCE
    full, rest = c.full_repeats > 0, c.rest > 0
    parts = full.astype(np.int64) + rest if separate else 1
    return _step(name, c.dtype, parts * chain, (c.full_repeats + rest) * chain, c.row_blocks * chain)


def _column_start(c: Columns) -> list[Term]:
    several = c.valid_rows > 1
    return [
        Term("column launch", several),
        Term("column launch, half", several * int(c.size == 2)),
        Term("copy launch", ~several),
        Term("copy block", c.row_blocks),
    ]


def _column_reduce(c: Columns) -> list[Term]:
    return [*_column_start(c), *_chains(c, c.recipe.lanes)]


def _column_sum(c: Columns) -> list[Term]:
    if c.form != "binary":
        return [*_column_start(c), *_chains(c, c.recipe.lanes)]
    repeats = _ceil(c.valid_cols, c.per_repeat)
    pairs = np.zeros(len(c.rows), np.int64)
    barriers = np.zeros(len(c.rows), np.int64)
    odd = np.zeros(len(c.rows), np.int64)
    left = c.valid_rows
    while (left > 1).any():
        level = left > 1
        pairs += level * (left // 2)
        odd += level * (left % 2)
        barriers += level * (1 + left % 2)
        left = left // 2
    name = c.recipe.lanes
    return [
        *_column_start(c),
        Term(f"{name} in pairs", pairs * np.maximum(STREAM[name].slope * repeats, MASKED_FLOOR), "repeats", 1.0),
        *_step(name, c.dtype, barriers, odd * repeats, odd * c.row_blocks),
    ]


def _column_arg(c: Columns) -> list[Term]:
    repeats = c.full_repeats + (c.rest > 0)
    steps = repeats * (c.valid_rows - 1)
    blocks = c.row_blocks * (c.valid_rows - 1)
    terms = [Term("column launch", 1), Term("copy block", c.row_blocks), Term("row lane mask", c.rest > 0)]
    for name in ("vadds", COMPARE, "vsel", c.recipe.lanes):
        terms += _step(name, c.dtype, steps, steps, blocks)
    return terms


def _row_expand(c: Columns) -> list[Term]:
    repeats = _ceil(c.valid_cols * max(c.size, 1), 256)
    broadcast = np.zeros(len(c.rows), np.bool_)
    if c.size > 1 and c.src_layout == "DN":
        broadcast = c.whole & (c.cols == c.per_block)
    scalar = ~broadcast
    spread = STREAM["vbrcb"]
    return [
        Term("expand launch", scalar),
        Term("scalar hand-over", c.valid_rows * scalar),
        Term("dup repeat", c.valid_rows * repeats * scalar),
        Term("fill of vbrcb", broadcast, "launch", spread.head + spread.tail),
        Term("dup repeat", c.rows // 8 * broadcast),
    ]


def kind_of(dtype: str) -> str:
    """``float`` or ``integer``: elementwise launches differ between the two, and hardly inside them."""
    return "float" if dtype in ("f32", "f16") else "integer"


MEASURED: frozenset[tuple[str, str]] = frozenset(
    (f.op, kind_of(f.dtype)) for f in FIGURES if RECIPES[f.op].family is Family.ELEMENTWISE
)
"""Elementwise operations and kinds of types with an outside figure."""
SCALAR = frozenset({"vadds", "vmuls", "vmins"})
"""Instructions with one scalar operand; measured figures show one launch for all of them."""
JOINED_MEASURED = frozenset({("vmins", "f16")})
"""Further functions whose figure shows a pass over joined rows."""


def _launch(c: Columns, name: str, single: Bools) -> list[Term]:
    if name in SCALAR:
        return [Term("launch with scalar, one instruction", single), Term("launch with scalar, several", ~single)]
    op, kind = c.recipe.op, kind_of(c.dtype)
    kinds = [kind, *(other for other in ("float", "integer") if other != kind)]
    found = next((k for k in kinds if (op, k) in MEASURED), "")
    if found:
        return [Term(f"launch of {op} {found}", 1)]
    return [Term(f"fill of {name}", 1, "launch", STREAM[name].head + STREAM[name].tail)]


def _body(c: Columns, name: str, counted: Bools | None = None) -> list[Term]:
    """All column repeats over all rows without barriers; row after row in count mode where ``counted``."""
    narrow = c.cols < c.per_repeat
    columns = np.where(narrow, 1, c.full_repeats + (c.rest > 0))
    masked = narrow | (c.rest > 0)
    if counted is None:
        counted = np.zeros(len(c.rows), np.bool_)
    floor = MASKED_FLOOR if STREAM[name].floor else 0
    each = _repeat_cycles(name, c.dtype)
    per_row = np.maximum(each * _ceil(c.valid_cols, c.per_repeat), floor)
    return [
        Term(f"{name} repeats", ~counted * c.valid_rows * columns, "repeats", each),
        Term("lane mask", ~counted * masked * _ceil(c.valid_rows, REPEAT_LIMIT), "masks", floor),
        Term(f"{name} row by row", counted * c.valid_rows * per_row, "repeats", 1.0),
    ]


def _then(c: Columns) -> list[Term]:
    name = c.recipe.then
    if not name:
        return []
    pipe = STREAM[name]
    repeats = _ceil(c.valid_rows * c.valid_cols, c.per_repeat)
    return [
        Term(f"fill of {name}", 1, "barriers", pipe.head + pipe.tail),
        Term(f"{name} repeats", repeats, "repeats", _repeat_cycles(name, c.dtype)),
    ]


def _row_expand_op(c: Columns) -> list[Term]:
    name = c.recipe.lanes
    pipe = STREAM["vbrcb"]
    down = int(c.src1_layout == "DN")
    long = (c.rows >= expand.LONG_ROWS) & (c.valid_rows >= expand.LONG_ROWS)
    parts = np.where(long, _ceil(c.valid_rows, expand.PIECE["DN"]), 1)
    pipe_fill = STREAM[name].head + STREAM[name].tail
    counted = ~long & (c.wide | (c.full_repeats > c.valid_rows))
    return [
        Term(f"fill of {name}", 1, "launch", pipe_fill),
        Term("fill of vbrcb", parts * down, "barriers", pipe.head + pipe.tail),
        Term("dup repeat", _ceil(c.valid_rows, 8) * down),
        Term(f"fill of {name} again", (parts - 1) * down, "barriers", pipe_fill),
        *_body(c, name, counted),
        *_then(c),
    ]


def _column_expand(c: Columns) -> list[Term]:
    return [Term("copy launch", c.valid_rows), Term("copy block", c.valid_rows * c.row_blocks)]


def _column_expand_op(c: Columns) -> list[Term]:
    name, then = c.recipe.lanes, c.recipe.then
    joined = (c.static_shape & (c.valid_cols == c.cols)) | (c.rows == 1)
    terms = [
        Term(f"fill of {name}", 1, "launch", STREAM[name].head + STREAM[name].tail),
        *_body(c, name, ~joined),
    ]
    if not then:
        return terms
    columns = np.where(c.cols < c.per_repeat, 1, c.full_repeats + (c.rest > 0))
    pipe = STREAM[then]
    repeats = c.valid_rows * columns
    return [
        *terms,
        Term(f"fill of {then}", np.where(joined, columns, c.valid_rows), "barriers", pipe.head + pipe.tail),
        Term(f"{then} repeats", repeats, "repeats", _repeat_cycles(then, c.dtype)),
    ]


def _elementwise(c: Columns) -> list[Term]:
    name = c.recipe.lanes
    whole = (c.rest == 0) & (c.valid_rows <= REPEAT_LIMIT)
    if name not in JOINED and (name, c.dtype) not in JOINED_MEASURED:
        return [*_launch(c, name, whole & (c.full_repeats == 1)), *_body(c, name)]
    touching = (c.rows == 1) | (c.valid_rows == 1) | (c.valid_cols == c.cols)
    joined = _ceil(c.valid_rows * c.valid_cols, c.per_repeat)
    apart = c.valid_rows * (c.full_repeats + (c.rest > 0))
    single = np.where(touching, joined <= REPEAT_LIMIT, whole & (c.full_repeats == 1))
    repeats = np.where(touching, joined, apart)
    return [*_launch(c, name, single), Term(f"{name} repeats", repeats, "repeats", _repeat_cycles(name, c.dtype))]


def _transfer(c: Columns) -> list[Term]:
    if c.recipe.lanes == "copy_ubuf_to_ubuf":
        apart = (c.valid_cols < c.cols) & (c.valid_rows > 1)
        return [
            Term("copy launch", np.where(apart, c.valid_rows, 1)),
            Term("copy block", c.valid_rows * c.row_blocks),
        ]
    return [Term("burst", c.valid_rows), Term("burst byte", c.valid_rows * c.valid_cols * c.size)]


_TERMS: dict[Family, Callable[[Columns], list[Term]]] = {
    Family.ROW_REDUCE: _row_reduce,
    Family.ROW_PRODUCT: _scalar_finish,
    Family.ROW_ARG: _row_arg,
    Family.COLUMN_REDUCE: _column_reduce,
    Family.COLUMN_SUM: _column_sum,
    Family.COLUMN_ARG: _column_arg,
    Family.ROW_EXPAND: _row_expand,
    Family.ROW_EXPAND_OP: _row_expand_op,
    Family.COLUMN_EXPAND: _column_expand,
    Family.COLUMN_EXPAND_OP: _column_expand_op,
    Family.ELEMENTWISE: _elementwise,
    Family.TRANSFER: _transfer,
}


def terms(c: Columns) -> list[Term]:
    """The terms of each configuration; quantities are arrays over the configurations or numbers for all of them."""
    return _TERMS[c.recipe.family](c)


def cycles(c: Columns) -> npt.NDArray[np.float64]:
    """Cycles of each configuration."""
    total = np.zeros(len(c.rows), np.float64)
    for term in terms(c):
        each = FITTED[term.name].cycles if term.cycles is None else term.cycles
        total += each * term.quantity
    for key in UNEXPLAINED:
        if key[:2] == (c.recipe.op, c.dtype):
            total[(c.valid_rows == key[2]) & (c.valid_cols == key[3])] = BY_SHAPE[key]
    return total


def by_kind(c: Columns) -> dict[str, float]:
    """Cycles of the first configuration by kind of term, such as ``repeats`` and ``barriers``."""
    key = (c.recipe.op, c.dtype, int(c.valid_rows[0]), int(c.valid_cols[0]))
    if key in UNEXPLAINED:
        return {"measured": float(BY_SHAPE[key])}
    kinds: dict[str, float] = {}
    for term in terms(c):
        kind, each = (term.kind, term.cycles) if term.cycles is not None else _fitted(term.name)
        part = each * float(np.ravel(term.quantity)[0])
        if part:
            kinds[kind] = kinds.get(kind, 0.0) + part
    return kinds


def _fitted(name: str) -> tuple[str, float]:
    row = FITTED[name]
    return row.term, row.cycles
