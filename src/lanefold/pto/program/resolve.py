"""Valid extents of every tile of a program, carried from loads through operations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lanefold.pto.program.model import Compute, Program, TileSlot, Value
from lanefold.pto.rules.shapes import extents
from lanefold.pto.tiles import TileType


def number(value: Value | None, parameters: Mapping[str, int]) -> int | None:
    """The value, with a parameter looked up; None where it is not known."""
    return parameters.get(value) if isinstance(value, str) else value


def _given(slot: TileSlot, parameters: Mapping[str, int]) -> TileType:
    rows, cols = slot.type.valid_rows, slot.type.valid_cols
    if rows is None:
        rows = number(slot.valid_row, parameters)
    if cols is None:
        cols = number(slot.valid_col, parameters)
    return replace(slot.type, valid_rows=rows, valid_cols=cols)


def _infer(program: Program, instruction: Compute, types: dict[str, TileType]) -> None:
    """Extents of results that are dynamic and given nowhere follow from the sources."""
    if not instruction.row.reduces:
        _infer_expansion(instruction, types)
        return
    source = types[instruction.sources[0]]
    if source.valid_rows is None or source.valid_cols is None:
        return
    call = program.call(instruction, "cpu", types)
    for role, name in zip(call.form.operands, instruction.outputs, strict=False):
        _settle(types, name, *extents(call, role, source.valid_rows, source.valid_cols))


def _infer_expansion(instruction: Compute, types: dict[str, TileType]) -> None:
    kinds = [types[name] for name in instruction.sources]
    if instruction.row.binary and all(k.valid_rows is not None and k.valid_cols is not None for k in kinds):
        rows = max(k.valid_rows or 0 for k in kinds)
        cols = max(k.valid_cols or 0 for k in kinds)
        _settle(types, instruction.outputs[0], rows, cols)


def _settle(types: dict[str, TileType], name: str, rows: int, cols: int) -> None:
    kind = types[name]
    types[name] = replace(
        kind,
        valid_rows=rows if kind.valid_rows is None else kind.valid_rows,
        valid_cols=cols if kind.valid_cols is None else kind.valid_cols,
    )


def resolve(program: Program, parameters: Mapping[str, int]) -> dict[str, TileType]:
    """Type of every tile with its valid extents as far as they are known.

    Raises:
        LanefoldError: PTO-TILE-CAPACITY where an extent exceeds the tile's capacity.
    """
    types = {slot.name: _given(slot, parameters) for slot in program.tiles}
    for instruction in program.instructions:
        if isinstance(instruction, Compute) and any(not types[name].static for name in instruction.outputs):
            _infer(program, instruction, types)
    return types


Extents = tuple[Value | None, Value | None]


def _carried(instruction: Compute, known: Mapping[str, Extents]) -> Extents:
    """Extents of a result in terms of those of its first source."""
    rows, cols = known[instruction.sources[0]]
    if not instruction.row.reduces:
        return (rows, cols) if instruction.row.binary else (None, None)
    return (rows, 1) if instruction.row.axis == "row" else (1, cols)


def extent_values(program: Program) -> dict[str, Extents]:
    """Valid extents of every tile as numbers or parameters; None where nothing gives them."""
    known: dict[str, Extents] = {}
    for slot in program.tiles:
        rows, cols = slot.type.valid_rows, slot.type.valid_cols
        known[slot.name] = (
            slot.valid_row if rows is None else rows,
            slot.valid_col if cols is None else cols,
        )
    for instruction in program.instructions:
        if isinstance(instruction, Compute):
            for name in instruction.outputs:
                rows_now, cols_now = known[name]
                if rows_now is None or cols_now is None:
                    rows_new, cols_new = _carried(instruction, known)
                    known[name] = (
                        rows_new if rows_now is None else rows_now,
                        cols_new if cols_now is None else cols_now,
                    )
    return known
