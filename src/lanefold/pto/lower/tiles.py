"""Tile programs of one operation, and the stages that walk a tensor with them."""

from __future__ import annotations

from lanefold.pto.isa import BLOCK_BYTES, MOVED_BY_ALL, OPERATIONS, REPEAT_LIMIT, TARGETS
from lanefold.pto.lower.plan import Builder, Stage
from lanefold.pto.lower.views import View, even, joined, split_rows
from lanefold.pto.names import element
from lanefold.pto.program import Compute, GlobalArray, Load, Program, Store, TileSlot
from lanefold.pto.program.model import Instruction
from lanefold.pto.tiles import TileType

OPERATORS = {"add": "SUM", "average": "SUM", "max": "MAX", "min": "MIN", "mult": "PROD"}
"""Ending of the reduction that computes an operator."""
MOST = MOVED_BY_ALL
"""Rows or columns of the largest tile: what one load or store moves on every target."""
LONG = 1024
"""Elements that are folded at once; more are folded in parts, which also keeps sums one by one from drifting."""
_KEPT_FREE = 8 * 1024
"""Bytes of local memory that no tile of a lowering takes: the broadcast area of A2/A3, and small scratch."""


def room(target: str) -> int:
    """Bytes of local memory that the tiles of one program share out."""
    return TARGETS[target].ub_bytes - _KEPT_FREE


def unit(dtype: str) -> int:
    """Elements of the shortest line of a tile."""
    return BLOCK_BYTES // element(dtype).bytes


def line_bytes(dtype: str, cols: int) -> int:
    """Bytes of one row of a tile with so many valid columns."""
    return -(-cols // unit(dtype)) * BLOCK_BYTES


def _tile(dtype: str, rows: int, cols: int, column: bool = False) -> TileType:
    if column:
        return TileType(dtype, -(-rows // unit(dtype)) * unit(dtype), cols, rows, cols, "DN")
    return TileType(dtype, rows, -(-cols // unit(dtype)) * unit(dtype), rows, cols)


def _array(name: str, dtype: str, view: View) -> GlobalArray:
    *outer, (_, step) = view.row_steps
    column_step = view.strides[-1] if view.cols > 1 else 1
    return GlobalArray(name, dtype, view.rows, view.cols, max(step, 1), column_step, tuple(outer))


def stage(b: Builder, name: str, form: str, views: dict[str, View], column: tuple[str, ...] = ()) -> None:
    """One program of one operation, operands in the order of ``views``: loads, the operation, the store.

    Without a form the one source is stored as it was loaded. ``column`` are operands that are column-major tiles.
    """
    slots, arrays = [], []
    instructions: list[Instruction] = []
    for role, view in views.items():
        dtype = b.tensors[view.tensor].dtype
        arrays.append(_array(f"g_{role}", dtype, view))
        if role.startswith("dst") and not form:
            continue
        slots.append(TileSlot(role, _tile(dtype, view.rows, view.cols, role in column)))
        if not role.startswith("dst"):
            instructions.append(Load(role, f"g_{role}"))
    if form:
        instructions.append(Compute(name, form, tuple(views)))
        instructions += [Store(role, f"g_{role}") for role in views if role.startswith("dst")]
    else:
        instructions.append(Store("src", "g_dst"))
    program = Program(tuple(arrays), tuple(slots), tuple(instructions), name.lower())
    ready = program.with_scratch(b.target).placed(b.target)
    b.stages.append(Stage(ready, {f"g_{role}": view for role, view in views.items()}))


def _row_bytes(b: Builder, cols: int) -> int:
    """Local memory that the fold of one row of so many elements takes."""
    register = TARGETS[b.target].register_bytes
    scratch = register if cols * element(b.dtype).bytes > register else 0
    return line_bytes(b.dtype, cols) + BLOCK_BYTES + scratch


def fits_row(b: Builder, cols: int) -> bool:
    """Whether a row of so many elements is folded by one operation."""
    return _row_bytes(b, cols) <= room(b.target)


def fold_rows(b: Builder, ending: str, source: View, result: View) -> None:
    """Each row of the source to one element: source [..., rows, C], result [..., rows, 1]."""
    taken = _row_bytes(b, source.cols)
    for src, dst in split_rows(joined([source, result]), min(MOST, room(b.target) // taken)):
        stage(b, f"TROW{ending}", "R1", {"dst": dst, "src": src})


def copy(b: Builder, source: View, result: View) -> None:
    """Elements from one place to another, through a tile."""
    cols = even(source.cols, MOST // unit(b.dtype) * unit(b.dtype))
    for src, dst in zip(source.split(-1, cols), result.split(-1, cols), strict=True):
        taken = line_bytes(b.dtype, src.cols)
        for part, place in split_rows(joined([src, dst]), min(MOST, room(b.target) // taken)):
            stage(b, "move", "", {"src": part, "dst": place})


def widest(b: Builder, rows: int) -> int:
    """Columns of the widest tile of so many rows beside one more row: what one column fold takes."""
    line = room(b.target) // ((rows + 1) * BLOCK_BYTES)
    return max(1, min(line, MOST // unit(b.dtype))) * unit(b.dtype)


def column_types(target: str, ending: str) -> frozenset[str]:
    """Element types of which columns are folded: by column operations, or by row operations on column-major tiles."""
    column, row = (OPERATIONS[f"T{word}{ending}"].support[target] for word in ("COL", "ROW"))
    turned = row.types if row.layouts["src"].permits("DN", MOST) else frozenset()
    return frozenset(source for source, result in column.types | turned if source == result)


def _fold_turned(b: Builder, ending: str, source: View, result: View) -> None:
    """The same by a row operation, each column being a row of a column-major tile."""
    lead, n, cols = source.shape[:-2], *source.shape[-2:]
    turned = [
        View(
            source.tensor,
            (*lead, cols, n),
            (*source.strides[:-2], source.strides[-1], source.strides[-2]),
            source.offset,
        ),
        View(result.tensor, (*lead, cols, 1), (*result.strides[:-2], result.strides[-1], 1), result.offset),
    ]
    most = max(unit(b.dtype), room(b.target) // ((n + 1) * BLOCK_BYTES) * unit(b.dtype))
    for src, dst in split_rows(turned, min(MOST // unit(b.dtype) * unit(b.dtype), most)):
        stage(b, f"TROW{ending}", "R1", {"dst": dst, "src": src}, ("dst", "src"))
    b.note(f"columns are rows of column-major tiles, since {b.target} has no {b.dtype} for TCOL{ending}")


def fold_columns(b: Builder, ending: str, source: View, result: View) -> None:
    """Each column of the source to one element: source [..., rows, C], result [..., 1, C]."""
    if (b.dtype, b.dtype) not in OPERATIONS[f"TCOL{ending}"].support[b.target].types:
        _fold_turned(b, ending, source, result)
        return
    cols = even(source.cols, widest(b, source.rows))
    (source,) = joined([source])
    for src, dst in zip(source.split(-1, cols), result.split(-1, cols), strict=True):
        stage(b, f"TCOL{ending}", "C1", {"dst": dst, "src": src})


def divide_columns(b: Builder, source: View, divisors: View, result: View) -> None:
    """Each row of the source by the one row of divisors: source and result [R, C], divisors [1, C]."""
    cols = even(source.cols, widest(b, 2))
    pieces = zip(source.split(-1, cols), divisors.split(-1, cols), result.split(-1, cols), strict=True)
    for src, by, dst in pieces:
        rows = room(b.target) // line_bytes(b.dtype, src.cols) - 1
        for part, out in split_rows([src, dst], min(REPEAT_LIMIT, rows // 2)):
            lead = part.shape[:-2]
            # Walking on over rows, a tile meets the same divisors again.
            steps = (*by.strides[:-2], *(0 for _ in lead[len(by.shape) - 2 :]))
            again = View(by.tensor, (*lead, *by.shape[-2:]), (*steps, *by.strides[-2:]), by.offset)
            stage(b, "TCOLEXPANDDIV", "E2", {"dst": out, "src0": part, "src1": again})
