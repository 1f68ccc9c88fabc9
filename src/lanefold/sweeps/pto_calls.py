"""The PTO call that a configuration stands for, and which of many such calls are legal."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from lanefold.pto.calls import Call, Operand, make_call
from lanefold.pto.isa import BLOCK_BYTES, ELEMENTS, INDEX_EXACT_HALF, OPERATIONS, REPEAT_LIMIT, Family
from lanefold.pto.isa import TARGETS as PTO_TARGETS
from lanefold.pto.rules.memory import usable_bytes
from lanefold.pto.rules.scratch import scratch_need
from lanefold.pto.tiles import TileType
from lanefold.sweeps.axes import Ints

RULES = ("", "PTO-TILE-CAPACITY", "PTO-TILE-BLOCKS", "PTO-MEMORY-SIZE", "PTO-ROWS-255", "PTO-INDEX-EXACT")
"""Rules that depend on the shape; the first, empty, is a legal shape."""
_CAPACITY, _BLOCKS, _MEMORY, _ROWS, _INDEX = range(1, len(RULES))

_Settings = Mapping[str, object]


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def _unit(dtype: str) -> int:
    """Elements of one block."""
    return BLOCK_BYTES // ELEMENTS[dtype].bytes


def _column(dtype: str, layout: str, rows: int, valid: int) -> TileType:
    """A tile with one valid column: one block per row as ND, one element per row as DN."""
    if layout == "DN":
        return TileType(dtype, _round_up(rows, _unit(dtype)), 1, valid, 1, "DN")
    return TileType(dtype, rows, _unit(dtype), valid, 1)


def _row(dtype: str, cols: int, valid: int) -> TileType:
    return TileType(dtype, 1, _round_up(cols, _unit(dtype)), 1, valid)


def _index_type(settings: _Settings) -> str:
    return "i16" if settings.get("options.idx_bytes") == 2 else "i32"


def _reduction(op: str, dtype: str, settings: _Settings, shape: tuple[int, int, int, int]) -> list[TileType]:
    rows, cols, valid_rows, valid_cols = shape
    source = TileType(dtype, rows, cols, valid_rows, valid_cols)
    kinds = [dtype]
    if OPERATIONS[op].arg:
        index = _index_type(settings)
        kinds = [dtype, index] if settings.get("options.form") == "value_index" else [index]
    if OPERATIONS[op].axis == "row":
        layout = str(settings.get("layouts.dst", "ND"))
        return [*(_column(kind, layout, rows, valid_rows) for kind in kinds), source]
    return [*(_row(kind, cols, valid_cols) for kind in kinds), source]


def _expansion(op: str, dtype: str, settings: _Settings, shape: tuple[int, int, int, int]) -> list[TileType]:
    rows, cols, valid_rows, valid_cols = shape
    result = TileType(dtype, rows, cols, valid_rows, valid_cols)
    full = [result, result] if OPERATIONS[op].binary else [result]
    if OPERATIONS[op].axis == "column":
        return [*full, _row(dtype, cols, valid_cols)]
    if not OPERATIONS[op].binary:
        return [*full, _column(dtype, str(settings.get("layouts.src", "ND")), rows, valid_rows)]
    if settings.get("layouts.src1", "DN") == "DN":
        return [*full, _column(dtype, "DN", rows, valid_rows)]
    return [*full, TileType(dtype, rows, _unit(dtype), valid_rows, _unit(dtype))]


_FORMS = {
    (Family.ROW_ARG, "index"): "R2",
    (Family.ROW_ARG, "value_index"): "R3",
    (Family.COLUMN_ARG, "index"): "C3",
    (Family.COLUMN_ARG, "value_index"): "C4",
}
_PAIRS = {"sequential": False, "binary": True}


def call_of(
    op: str, dtype: str, target: str, settings: _Settings, shape: tuple[int, int, int, int], *, scratch: bool = True
) -> Call:
    """The call on the smallest operands that a shape needs, with a scratch tile where the target reads one.

    Raises:
        LanefoldError: PTO-TILE-… where there is no tile of this shape.
    """
    row = OPERATIONS[op]
    tiles = (_reduction if row.reduces else _expansion)(op, dtype, settings, shape)
    dynamic = not settings.get("options.static_shape", True)
    form = str(settings.get("options.form", ""))
    name = _FORMS.get((row.family, form), row.forms[0].name)
    pairs = None
    if op == "TCOLSUM" and form in _PAIRS:
        name, pairs = "C2", _PAIRS[form]
    operands = [Operand(tile, dynamic) for tile in tiles]
    call = make_call(op, operands, target=target, form=name, is_binary=pairs)
    need = scratch_need(call) if scratch else None
    return call.changed({"tmp": need.tile()}) if need else call


@lru_cache(maxsize=1 << 17)
def _scratch_bytes(
    op: str, dtype: str, target: str, settings: tuple[tuple[str, object], ...], rows: int, cols: int
) -> int:
    shape = (rows, _round_up(cols, _unit(dtype)), rows, cols)
    need = scratch_need(call_of(op, dtype, target, dict(settings), shape, scratch=False))
    return need.tile().bytes if need else 0


def _by_value(values: Ints, number: object) -> Ints:
    """``number`` of each value, asked once for every value that occurs."""
    there = np.zeros(int(values.max()) + 1, np.bool_)
    there[values] = True
    table = np.zeros(len(there), np.int64)
    for value in np.flatnonzero(there).tolist():
        table[value] = number(value)  # type: ignore[operator]
    return table[values]


def scratch_columns(op: str, dtype: str, target: str, settings: _Settings, rows: Ints, cols: Ints) -> Ints:
    """Bytes of scratch for many valid extents.

    Every scratch rule is a product of something of the rows and something of the columns, so that one row count and
    one column count that need scratch tell all others.
    """
    if not OPERATIONS[op].support[target].scratch:
        return np.zeros(len(rows), np.int64)
    key = tuple(settings.items())
    one_row = int(rows[0])
    of_cols = _by_value(cols, lambda value: _scratch_bytes(op, dtype, target, key, one_row, value))
    if not of_cols.any():
        return of_cols
    some = int(np.argmax(of_cols > 0))
    some_cols, common = int(cols[some]), int(of_cols[some])
    of_rows = _by_value(rows, lambda value: _scratch_bytes(op, dtype, target, key, value, some_cols))
    return of_rows * of_cols // common


def _operand_bytes(op: str, dtype: str, settings: _Settings, rows: Ints, cols: Ints) -> Ints:
    """Bytes of all operands but scratch."""
    size, unit = ELEMENTS[dtype].bytes, _unit(dtype)
    row = OPERATIONS[op]
    full = rows * cols * size

    def column(kind: str, layout: str) -> Ints:
        of_kind = _unit(kind)
        return -(-rows // of_kind) * BLOCK_BYTES if layout == "DN" else rows * BLOCK_BYTES

    def line(kind: str) -> Ints:
        return -(-cols // _unit(kind)) * BLOCK_BYTES

    if row.reduces:
        kinds = [dtype]
        if row.arg:
            index = _index_type(settings)
            kinds = [dtype, index] if settings.get("options.form") == "value_index" else [index]
        layout = str(settings.get("layouts.dst", "ND"))
        results = [column(kind, layout) if row.axis == "row" else line(kind) for kind in kinds]
        return full + sum(results, start=np.zeros(1, np.int64))
    total = full * (2 if row.binary else 1)
    if row.axis == "column":
        return total + -(-cols // unit) * BLOCK_BYTES
    key, default = ("layouts.src1", "DN") if row.binary else ("layouts.src", "ND")
    return total + column(dtype, str(settings.get(key, default)))


def legal_columns(
    op: str,
    dtype: str,
    target: str,
    settings: _Settings,
    shape: tuple[Ints, Ints, Ints, Ints],
) -> npt.NDArray[np.uint8]:
    """The rule that each shape breaks, as an index into `RULES`.

    Operations outside the 28 are judged as single tiles only.
    """
    rows, cols, valid_rows, valid_cols = shape
    found = np.zeros(len(rows), np.uint8)
    impossible = (valid_rows > rows) | (valid_cols > cols)
    blocks = cols % _unit(dtype) != 0
    if op in OPERATIONS:
        row = OPERATIONS[op]
        clipped = np.minimum(valid_rows, rows), np.minimum(valid_cols, cols)
        if row.family is Family.COLUMN_ARG and target == "a2a3" and dtype == "f16":
            found[valid_rows > INDEX_EXACT_HALF] = _INDEX
        static = bool(settings.get("options.static_shape", True))
        if row.binary and row.axis == "column" and target == "a2a3" and static:
            found[(valid_rows > REPEAT_LIMIT) & (valid_cols == cols)] = _ROWS
        taken = _operand_bytes(op, dtype, settings, rows, cols)
        taken += scratch_columns(op, dtype, target, settings, *clipped)
        found[taken > _usable(op, dtype, target, tuple(settings.items()))] = _MEMORY
    else:
        found[rows * cols * ELEMENTS[dtype].bytes > PTO_TARGETS[target].ub_bytes] = _MEMORY
    found[blocks] = _BLOCKS
    found[impossible] = _CAPACITY
    return found


@lru_cache(maxsize=1024)
def _usable(op: str, dtype: str, target: str, settings: tuple[tuple[str, object], ...]) -> int:
    return usable_bytes(call_of(op, dtype, target, dict(settings), small_shape(dtype)))


def small_shape(dtype: str) -> tuple[int, int, int, int]:
    """A shape that only rules about types, forms and layouts can object to."""
    return 2, _unit(dtype), 2, _unit(dtype)
