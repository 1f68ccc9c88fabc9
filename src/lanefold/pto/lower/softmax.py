"""Softmax as one tile program: maximum, exponentials of the distance from it, their sum, the quotient."""

from __future__ import annotations

from math import prod

from lanefold.diagnostics import Place, Rule
from lanefold.ops import Softmax
from lanefold.pto.isa import BLOCK_BYTES
from lanefold.pto.lower.plan import Builder, Stage
from lanefold.pto.lower.views import View, even
from lanefold.pto.names import element
from lanefold.pto.program import Compute, GlobalArray, Load, Program, Store, TileSlot
from lanefold.pto.tiles import TileType

RULE_LONG = Rule(
    "PTO-LOWER-SOFTMAX",
    "A softmax keeps its whole axis in one tile, beside a second of the same size and scratch.",
    "PTO tile programming model: local memory",
)
RULE_AXES = Rule(
    "PTO-LOWER-SOFTMAX-AXES",
    "The axes of a softmax on tiles are neighbours.",
    "PTO overview: Reduce And Expand Instruction Set",
)
SHARE = 48 * 1024
"""Bytes of one tile; the smallest local memory takes two of them, scratch and the broadcast area."""
_ROWS, _COLUMNS = 512, 2048
"""Lines of the largest tile."""
NAMES = ("MAX", "EXPANDEXPDIF", "SUM", "EXPANDDIV")
"""Endings of the operations, in order."""


def operations(op: Softmax) -> list[str]:
    """Names of the tile operations, in order."""
    word = "ROW" if _extents(op)[2] == 1 else "COL"
    return [f"T{word}{name}" for name in NAMES]


def _extents(op: Softmax) -> tuple[int, int, int]:
    """Outer, normalised and inner extent, as if the axes were neighbours."""
    first, last = op.axes[0], op.axes[-1]
    shape = op.input_shape
    return prod(shape[:first]), prod(shape[first : last + 1]), prod(shape[last + 1 :])


def lower_softmax(b: Builder, op: Softmax, place: Place) -> None:
    """Rows of tiles where the axes are the last ones, else columns.

    Raises:
        LanefoldError: PTO-LOWER-SOFTMAX where the axes hold more elements than a tile, PTO-LOWER-SOFTMAX-AXES where
            other axes lie between them.
    """
    if op.axes != tuple(range(op.axes[0], op.axes[-1] + 1)):
        raise RULE_AXES.error(
            f"other axes lie between the axes {list(op.axes)}",
            got=list(op.axes),
            allowed="neighbouring axes",
            cures=["transpose the tensor on the host first", "keep the node on the host"],
            place=place,
        )
    outer, n, inner = _extents(op)
    size = element(b.dtype).bytes
    unit = BLOCK_BYTES // size
    longest = SHARE // BLOCK_BYTES
    if n > longest:
        raise RULE_LONG.error(
            f"softmax over {n} elements does not fit into a tile of {SHARE} bytes",
            got=n,
            allowed=f"up to {longest} elements",
            cures=["keep the node on the host", f"normalise over at most {longest} elements"],
            place=place,
        )
    names = [b.tensor(name, outer * n * inner) for name in ("in0", "out0")]
    lines = SHARE // (-(-n // unit) * unit * size) if inner == 1 else SHARE // (n * size)
    lines = max(unit, lines // unit * unit)
    if inner == 1:
        whole = [View(name, (outer, n), (n, 1)) for name in names]
        axis, piece = -2, even(outer, min(_ROWS, lines))
    else:
        whole = [View(name, (outer, n, inner), (n * inner, inner, 1)) for name in names]
        axis, piece = -1, even(inner, min(_COLUMNS, lines))
    for source, result in zip(*(view.split(axis, piece) for view in whole), strict=True):
        program = _program(b.dtype, operations(op), source).with_scratch(b.target).placed(b.target)
        b.stages.append(Stage(program, {"g_src": source, "g_dst": result}))


def _program(dtype: str, names: list[str], view: View) -> Program:
    rows, cols = view.shape[-2:]
    unit = BLOCK_BYTES // element(dtype).bytes
    by_row = names[0].startswith("TROW")
    tall = -(-rows // unit) * unit if by_row else rows
    wide = -(-cols // unit) * unit
    full = TileType(dtype, tall, wide, rows, cols)
    line = TileType(dtype, tall, 1, rows, 1, "DN") if by_row else TileType(dtype, 1, wide, 1, cols)
    types = {"src": full, "largest": line, "powers": full, "total": line, "dst": full}
    fold = "R1" if by_row else "C1"
    largest, distance, total, quotient = names
    return Program(
        tuple(GlobalArray(name, dtype, rows, cols, view.strides[-2]) for name in ("g_src", "g_dst")),
        tuple(TileSlot(name, kind) for name, kind in types.items()),
        (
            Load("src", "g_src"),
            Compute(largest, fold, ("largest", "src")),
            Compute(distance, "E2", ("powers", "src", "largest")),
            Compute(total, fold, ("total", "powers")),
            Compute(quotient, "E2", ("dst", "powers", "total")),
            Store("dst", "g_dst"),
        ),
        largest.lower(),
    )
