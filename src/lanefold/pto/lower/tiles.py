"""Tile programs of one operation, and the stages that walk a tensor with them."""

from __future__ import annotations

from lanefold.pto.isa import BLOCK_BYTES, TARGETS
from lanefold.pto.lower.plan import Builder, Stage
from lanefold.pto.lower.views import View, even
from lanefold.pto.names import element
from lanefold.pto.program import Compute, GlobalArray, Load, Program, Store, TileSlot
from lanefold.pto.program.model import Instruction
from lanefold.pto.tiles import TileType

OPERATORS = {"add": "SUM", "average": "SUM", "max": "MAX", "min": "MIN", "mult": "PROD"}
"""Ending of the reduction that computes an operator."""
ROWS, COLUMNS, LONG_ROW = 128, 512, 1024
"""Largest tile that lowering makes: rows, columns of a column fold, columns of a row fold.

Rows of more than `LONG_ROW` elements are folded in parts, which also keeps sums one by one from drifting.
"""


def _room(target: str) -> int:
    """Bytes of local memory that the tiles of one program share out: half of it leaves room for scratch."""
    return TARGETS[target].ub_bytes // 2


def _tile(dtype: str, rows: int, cols: int) -> TileType:
    unit = BLOCK_BYTES // element(dtype).bytes
    return TileType(dtype, rows, -(-cols // unit) * unit, rows, cols)


def _stage(b: Builder, op: str, form: str, views: dict[str, View]) -> None:
    """One program of one operation, operands in the order of ``views``: loads, the operation, the store."""
    slots, arrays = [], []
    instructions: list[Instruction] = []
    for role, view in views.items():
        rows, cols = view.shape[-2:]
        slots.append(TileSlot(role, _tile(b.dtype, rows, cols)))
        column_step = view.strides[-1] if cols > 1 else 1
        arrays.append(GlobalArray(f"g_{role}", b.dtype, rows, cols, max(view.strides[-2], 1), column_step))
        if role != "dst":
            instructions.append(Load(role, f"g_{role}"))
    instructions += [Compute(op, form, tuple(views)), Store("dst", "g_dst")]
    program = Program(tuple(arrays), tuple(slots), tuple(instructions), op.lower())
    ready = program.with_scratch(b.target).placed(b.target)
    b.stages.append(Stage(ready, {f"g_{role}": view for role, view in views.items()}))


def fold_rows(b: Builder, ending: str, source: View, result: View) -> None:
    """Each row of the source to one element: source [..., R, C], result [..., R, 1]."""
    size = element(b.dtype).bytes
    register = TARGETS[b.target].register_bytes
    wide = _tile(b.dtype, 1, source.shape[-1]).bytes + register + BLOCK_BYTES
    rows = even(source.shape[-2], min(ROWS, _room(b.target) // max(wide, size)))
    for src, dst in zip(source.split(-2, rows), result.split(-2, rows), strict=True):
        _stage(b, f"TROW{ending}", "R1", {"dst": dst, "src": src})


def fold_columns(b: Builder, ending: str, source: View, result: View) -> None:
    """Each column of the source to one element: source [..., R, C], result [..., 1, C]."""
    size = element(b.dtype).bytes
    cols = even(source.shape[-1], min(COLUMNS, _room(b.target) // (source.shape[-2] * size)))
    for src, dst in zip(source.split(-1, cols), result.split(-1, cols), strict=True):
        _stage(b, f"TCOL{ending}", "C1", {"dst": dst, "src": src})


def divide_columns(b: Builder, source: View, divisors: View, result: View) -> None:
    """Each row of the source by the one row of divisors: source and result [R, C], divisors [1, C]."""
    cols, rows = even(source.shape[-1], COLUMNS), even(source.shape[-2], 32)
    pieces = zip(source.split(-1, cols), divisors.split(-1, cols), result.split(-1, cols), strict=True)
    for src, by, dst in pieces:
        for part, out in zip(src.split(-2, rows), dst.split(-2, rows), strict=True):
            lead = part.shape[:-2]
            # Walking on over rows, a tile meets the same divisors again.
            steps = (*by.strides[:-2], *(0 for _ in lead[len(by.shape) - 2 :]))
            again = View(by.tensor, (*lead, *by.shape[-2:]), (*steps, *by.strides[-2:]), by.offset)
            _stage(b, "TCOLEXPANDDIV", "E2", {"dst": out, "src0": part, "src1": again})
