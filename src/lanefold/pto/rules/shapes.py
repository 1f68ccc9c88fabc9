"""Tile types that would be legal: what the cures of the rules propose."""

from __future__ import annotations

from dataclasses import replace

from lanefold.diagnostics import Cure
from lanefold.pto.calls import Call
from lanefold.pto.isa import BLOCK_BYTES, ELEMENTS, LayoutRule
from lanefold.pto.names import element
from lanefold.pto.tiles import TileType

_ARTICLES = {"ND": "an ND", "DN": "a DN"}
_EXACT_BITS = {"f32": 24, "f16": 11, "bf16": 8}


def _range_bits(name: str) -> tuple[int, bool]:
    row = element(name)
    signed = row.kind == "signed"
    return row.bytes * 8 - signed, signed


def lossless(source: str, result: str) -> bool:
    """Whether every value of one element type is a value of the other."""
    a, b = element(source), element(result)
    if source == result:
        return True
    if a.kind == "float":
        return result == "f32"
    bits, signed = _range_bits(source)
    if b.kind == "float":
        return bits <= _EXACT_BITS[result]
    other, other_signed = _range_bits(result)
    return bits <= other and (other_signed or not signed)


def nearest_types(name: str) -> list[str]:
    """All element types, the ones that hold every value of ``name`` first, then by kind and size."""
    row = element(name)

    def distance(other: str) -> tuple[bool, bool, int]:
        candidate = element(other)
        same_kind = (candidate.kind == "float") == (row.kind == "float")
        return (not lossless(name, other), not same_kind, abs(candidate.bytes - row.bytes))

    return sorted(ELEMENTS, key=distance)


def round_up(value: int, unit: int) -> int:
    """The next multiple of a unit, at least one unit."""
    return -(-max(value, 1) // unit) * unit


def with_layout(shape: TileType, layout: str) -> dict[str, object]:
    """Changes that give a tile another unboxed layout with the same valid region, capacity as small as it may be."""
    unit = BLOCK_BYTES // shape.element.bytes
    rows, cols = max(shape.valid_rows or shape.rows, 1), max(shape.valid_cols or shape.cols, 1)
    if layout == "DN":
        return {"layout": "DN", "rows": round_up(rows, unit), "cols": cols}
    return {
        "layout": layout,
        "rows": max(rows, shape.rows if shape.layout == "ND" else 1),
        "cols": round_up(cols, unit),
    }


def prefixed(role: str, changes: dict[str, object]) -> dict[str, object]:
    """Changes of one tile as changes of a call."""
    return {f"{role}.{name}": value for name, value in changes.items()}


def layout_cures(role: str, shape: TileType, allowed: LayoutRule) -> list[Cure]:
    """Cures that give an operand each of the unboxed layouts it may have."""
    cures = []
    for name in ("ND", "DN"):
        changes = with_layout(shape, name)
        cols = changes["cols"]
        if isinstance(cols, int) and allowed.permits(name, cols):
            size = f"{changes['rows']}×{cols}, valid {shape.valid_rows}×{shape.valid_cols}"
            text = f"make {role} {_ARTICLES[name]} tile of {size}"
            cures.append(Cure(text, prefixed(role, changes)))
    return cures


def resized(shape: TileType, rows: int, cols: int) -> dict[str, object]:
    """Changes that give a tile this valid region, with more capacity where it is too small."""
    grown = replace(shape, valid_rows=None, valid_cols=None)
    changes: dict[str, object] = {"valid_rows": rows, "valid_cols": cols}
    unit = BLOCK_BYTES // shape.element.bytes
    if rows > grown.rows:
        changes["rows"] = round_up(rows, unit) if shape.layout != "ND" else rows
    if cols > grown.cols:
        changes["cols"] = cols if shape.layout == "DN" else round_up(cols, unit)
    return changes


def domain(call: Call) -> tuple[int, int]:
    """Rows and columns that the call works on: those of the source of a reduction, of the result of an expansion.

    Extents that are not known yet count with their capacity.
    """
    leading = call.source if call.op.reduces else call.result
    rows = leading.type.rows if leading.rows is None else leading.rows
    return rows, leading.type.cols if leading.cols is None else leading.cols


def extents(call: Call, role: str, rows: int, cols: int) -> tuple[int, int]:
    """Valid extents of an operand where the call works on ``rows`` × ``cols``."""
    by_row = call.op.axis == "row"
    if call.op.reduces:
        return (rows, cols) if role == "src" else (rows, 1) if by_row else (1, cols)
    if role == "src":
        return (rows, 1) if by_row else (1, cols)
    if role == "src1" and call.op.binary:
        return narrow_extents(call, role, rows, cols)
    return rows, cols


def narrow_extents(call: Call, role: str, rows: int, cols: int) -> tuple[int, int]:
    """Valid extents of the operand that is broadcast."""
    if call.op.axis == "column":
        return 1, cols
    shape = call.operands[role].type
    return rows, 1 if shape.layout == "DN" else BLOCK_BYTES // shape.element.bytes


def fitted(call: Call, rows: int, cols: int) -> dict[str, object]:
    """Changes that make every operand but the scratch fit a domain of ``rows`` × ``cols``."""
    changes: dict[str, object] = {}
    for role, operand in call.operands.items():
        if role != "tmp":
            wanted = extents(call, role, rows, cols)
            changes |= prefixed(role, resized(operand.type, *wanted))
    return changes


def typed(call: Call, source: str, result: str) -> dict[str, object]:
    """Changes that give sources and scratch one element type and value results another; indices stay."""
    changes: dict[str, object] = {}
    for role in call.operands:
        if role in ("dst", "dstVal"):
            changes[f"{role}.dtype"] = result
        elif role != "dstIdx":
            changes[f"{role}.dtype"] = source
    return changes
