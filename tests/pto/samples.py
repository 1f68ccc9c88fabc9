"""Small complete programs: one for every operation and form."""

from __future__ import annotations

from lanefold.pto import Program, TileType
from lanefold.pto.isa import ELEMENTS, OPERATIONS, Form, Operation
from lanefold.pto.program import Compute, GlobalArray, Load, Store, TileSlot

ROWS, COLS = 16, 32


def shape(dtype: str, rows: int, cols: int, valid: tuple[int, int] | None = None, layout: str = "ND") -> TileType:
    valid_rows, valid_cols = valid or (rows, cols)
    return TileType(dtype, rows, cols, valid_rows, valid_cols, layout)


def element(op: Operation, target: str) -> str:
    """A type that the operation takes on the target, f32 where it does."""
    legal = [source for source, result in op.support[target].types if source == result]
    return "f32" if "f32" in legal else sorted(legal)[0]


def kind(op: Operation, role: str, dtype: str) -> TileType:
    unit = 32 // ELEMENTS[dtype].bytes
    by_row = op.axis == "row"
    if role in ("dst", "dstVal", "dstIdx") and op.reduces:
        name = "i32" if role == "dstIdx" else dtype
        return shape(name, ROWS, 32 // ELEMENTS[name].bytes, (ROWS, 1)) if by_row else shape(name, 1, COLS)
    if role == "tmp":
        return shape(dtype, ROWS, 64 * unit)
    if role == "src1" or (role == "src" and not op.reduces):
        return shape(dtype, ROWS, 1, layout="DN") if by_row else shape(dtype, 1, COLS)
    return shape(dtype, ROWS, COLS)


def sample(op: Operation, form: Form, target: str = "cpu", dtype: str | None = None) -> Program:
    """Load the sources, run the operation, store the results."""
    dtype = dtype or element(op, target)
    slots, arrays, loads, stores = [], [], [], []
    for role in form.operands:
        slot = TileSlot(role, kind(op, role, dtype))
        slots.append(slot)
        rows, cols = slot.type.valid_rows or 0, slot.type.valid_cols or 0
        array = GlobalArray(f"g{role}", slot.type.dtype, rows, cols, cols)
        if role != "tmp":
            arrays.append(array)
            (loads if role.startswith("src") else stores).append((slot.name, array.name))
    flag = True if form.name == "C2" else None
    work = Compute(op.name, form.name, form.operands, flag)
    instructions = [*(Load(*pair) for pair in loads), work, *(Store(*pair) for pair in stores)]
    return Program(tuple(arrays), tuple(slots), tuple(instructions), f"{op.name.lower()}_{form.name.lower()}")


ALL = [(op, form) for op in OPERATIONS.values() for form in op.forms]
