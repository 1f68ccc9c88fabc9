"""Rules about scratch tiles: when one is needed, and how large it has to be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lanefold.diagnostics import Cure, number_of
from lanefold.pto.calls import Call
from lanefold.pto.isa import BLOCK_BYTES
from lanefold.pto.rules.base import Evidence, rule
from lanefold.pto.rules.shapes import domain, round_up
from lanefold.pto.tiles import TileType

_SOURCE = "PTO headers: scratch of reductions and of expansions with an operator"


@dataclass(frozen=True, slots=True)
class Need:
    """Scratch that a call reads: least rows and elements per row, its type, and why."""

    rows: int
    cols: int
    dtype: str
    reason: str
    typed: bool = True

    def tile(self) -> TileType:
        """The smallest legal tile of this size."""
        unit = BLOCK_BYTES // _bytes(self.dtype)
        rows, cols = max(self.rows, 1), round_up(self.cols, unit)
        return TileType(self.dtype, rows, cols, rows, cols)


def _bytes(dtype: str) -> int:
    from lanefold.pto.names import element

    return element(dtype).bytes


def _source_type(call: Call) -> str:
    return call.operands["src0" if call.op.binary else "src"].type.dtype


def _register(call: Call) -> int:
    """Elements of the source type in one vector register."""
    return call.target.register_bytes // _bytes(_source_type(call))


def _row_fold(call: Call, rows: int, cols: int) -> Need | None:
    dtype, lanes = _source_type(call), _register(call)
    if dtype not in ("f32", "f16"):
        return Need(1, BLOCK_BYTES // _bytes(dtype), dtype, "whole numbers are reduced through one block")
    if cols <= lanes:
        return None
    return Need(rows, lanes, dtype, f"rows of {cols} are longer than one vector register of {lanes}")


def _row_block(call: Call, rows: int, cols: int) -> Need | None:
    dtype = _source_type(call)
    return Need(1, BLOCK_BYTES // _bytes(dtype), dtype, "products are reduced through one block")


def _stage(parts: int, block: int) -> int:
    return (-(-2 * parts // block) + -(-parts // block)) * block


def _row_arg(call: Call, rows: int, cols: int) -> Need | None:
    dtype, lanes = _source_type(call), _register(call)
    if cols <= lanes:
        return Need(rows, 2, dtype, "value and index of each row pass through it", False) if call.with_value else None
    block = BLOCK_BYTES // _bytes(dtype)
    parts = -(-cols // lanes)
    stride = _stage(parts, block)
    if cols > lanes * lanes:
        stride += _stage(-(-parts // lanes), block)
    return Need(rows, stride, dtype, f"rows of {cols} are searched in {parts} registers", False)


def _column_pairs(call: Call, rows: int, cols: int) -> Need | None:
    if call.is_binary is None:
        return None
    typed = call.target.name == "a2a3"
    if not call.is_binary:
        return Need(1, 1, _source_type(call), "its type is checked although it is not used") if typed else None
    return Need(-(-rows // 2), cols, _source_type(call), "pairs of rows are added into it", typed)


def _column_arg(call: Call, rows: int, cols: int) -> Need | None:
    dtype = _source_type(call)
    group = min(_register(call), round_up(cols, BLOCK_BYTES // _bytes(dtype)))
    regions = 1 if dtype == "f32" else 3
    return Need(
        1,
        regions * group,
        dtype,
        f"{number_of(regions, 'region')} of {group} elements {'is' if regions == 1 else 'are'} kept in one row",
    )


def _broadcast(call: Call, rows: int, cols: int) -> Need | None:
    if call.form.name != "E3":
        return None
    size = -(-rows // 8) * 256 if rows < 256 else 7680
    dtype = _source_type(call)
    return Need(1, size // _bytes(dtype), dtype, f"values of {number_of(rows, 'row')} are spread in it", False)


_NEEDS = {
    "row_fold": _row_fold,
    "row_block": _row_block,
    "row_arg": _row_arg,
    "column_pairs": _column_pairs,
    "column_arg": _column_arg,
    "broadcast": _broadcast,
}


def scratch_need(call: Call) -> Need | None:
    """Scratch that the target reads in this call, or None where it reads none."""
    name = call.support.scratch
    return _NEEDS[name](call, *domain(call)) if name else None


def _fits(need: Need, shape: TileType) -> bool:
    if need.reason.startswith("values of"):
        return shape.bytes >= need.cols * _bytes(need.dtype)
    if need.reason.startswith("value and index") and shape.layout == "DN":
        return shape.rows * shape.cols >= 2 * need.rows
    return shape.rows >= need.rows and shape.cols >= need.cols


def _new_tile(need: Need) -> Cure:
    shape = need.tile()
    return Cure(f"give a scratch tile {shape.dtype} ND {shape.rows}×{shape.cols} ({shape.bytes} bytes)", {"tmp": shape})


@rule("PTO-SCRATCH-MISSING", _SOURCE)
def missing_scratch(call: Call) -> Iterator[Evidence]:
    """A call whose target reads scratch has a scratch tile."""
    need = scratch_need(call)
    if need is None or "tmp" in call.operands:
        return
    yield Evidence(
        f"{call.op.name} on {call.target.name} reads a scratch tile here: {need.reason}",
        got="no scratch tile",
        allowed=f"at least {number_of(need.rows, 'row')} of {need.cols} {need.dtype}",
        cures=[_new_tile(need)],
    )


@rule("PTO-SCRATCH-TYPE", _SOURCE)
def scratch_type(call: Call) -> Iterator[Evidence]:
    """A scratch tile that is read has the element type of the source, where the target checks it."""
    need = scratch_need(call)
    tile = call.operands.get("tmp")
    if need is None or tile is None or not need.typed or tile.type.dtype == need.dtype:
        return
    yield Evidence(
        f"{call.role_text('tmp')} is {tile.type.dtype}, but the source is {need.dtype}",
        got=tile.type.dtype,
        allowed=need.dtype,
        cures=[Cure(f"make tmp {need.dtype}", {"tmp.dtype": need.dtype}), _new_tile(need)],
        role="tmp",
        field="dtype",
    )


@rule("PTO-SCRATCH-SIZE", _SOURCE)
def scratch_size(call: Call) -> Iterator[Evidence]:
    """A scratch tile is large enough for what the target keeps in it; too small a one gives wrong or no results."""
    need = scratch_need(call)
    tile = call.operands.get("tmp")
    if need is None or tile is None or _fits(need, tile.type):
        return
    shape = tile.type
    wanted = need.tile()
    lanes = _register(call)
    silent = call.support.scratch == "row_fold" and lanes < domain(call)[1] < 2 * lanes and shape.cols < lanes
    effect = "; the result would not be written, without any message" if silent else ""
    yield Evidence(
        f"{call.role_text('tmp')} has {number_of(shape.rows, 'row')} of {shape.cols} elements "
        f"({shape.bytes} bytes), but {need.reason}{effect}",
        got=f"{shape.rows}×{shape.cols}, {shape.bytes} bytes",
        allowed=f"at least {number_of(need.rows, 'row')} of {need.cols} {need.dtype}, {wanted.bytes} bytes",
        cures=[_new_tile(need)],
        role="tmp",
        field="cols" if shape.cols < need.cols else "rows",
    )
