"""Expansions on blocks of tiles, in the numerics of the CPU simulator (PTO headers: CPU simulator, measured)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from lanefold.diagnostics import Place, Rule
from lanefold.pto.calls import Call
from lanefold.pto.isa import BLOCK_BYTES
from lanefold.pto.simulate.blocks import Block, spread
from lanefold.pto.tiles import numpy_type

Array = npt.NDArray[Any]
Runner = Callable[[dict[str, Block]], None]

DIVIDE_ZERO = Rule(
    "PTO-DIVIDE-ZERO",
    "Whole numbers are not divided by zero, nor the most negative 32-bit number by −1: the simulator's process dies.",
    "PTO headers: CPU simulator, integer division (measured)",
)

OPERATORS = ("add", "sub", "mul", "div", "max", "min", "expdif")
"""Operators in the order of the compiled loops."""


@dataclass(frozen=True, slots=True)
class Spreading:
    """How an operand covers the destination: as it is, one value per row, one block per row, or one row."""

    rows: bool
    cols: bool
    period: int = 0

    def form(self, block: Block) -> npt.NDArray[np.int64]:
        """Row step, column step and period for the compiled loops."""
        steps = (block.row_step if self.rows else 0, block.column_step if self.cols else 0, self.period)
        return np.array(steps, np.int64)


FULL = Spreading(True, True)


def broadcast_role(call: Call) -> str:
    """Which operand of a row expansion is the per-row one: src1 unless only src1 has the destination's extents."""
    result = call.result
    first, second = call.operands["src0"], call.operands["src1"]
    full = [(o.rows, o.cols) == (result.rows, result.cols) for o in (first, second)]
    return "src0" if full[1] and not full[0] else "src1"


def column_broadcast_role(call: Call) -> str:
    """Which operand of a column expansion is the per-column one: always src1 on cpu, else src0 where it is not full."""
    result, first = call.result, call.operands["src0"]
    if call.target.name != "cpu" and (first.rows, first.cols) != (result.rows, result.cols):
        return "src0"
    return "src1"


def spreadings(call: Call) -> dict[str, Spreading]:
    """How both operands of a binary expansion cover the destination."""
    if call.op.axis == "column":
        role = column_broadcast_role(call)
        return {name: Spreading(False, True) if name == role else FULL for name in ("src0", "src1")}
    role = broadcast_role(call)
    narrow = call.operands[role].type
    if narrow.valid_cols == 1:
        per_row = Spreading(True, False)
    else:
        per_row = Spreading(True, True, BLOCK_BYTES // narrow.element.bytes)
    return {name: per_row if name == role else FULL for name in ("src0", "src1")}


def copy_runner(call: Call) -> Runner:
    """TROWEXPAND and TCOLEXPAND."""
    rows, cols = call.result.rows or 0, call.result.cols or 0
    shape = (rows, 1) if call.op.axis == "row" else (1, cols)

    def write(source: Block, result: Block) -> None:
        values, place = source.view(*shape), result.view(rows, cols)
        if values is None or place is None:
            for tile in range(source.starts.size):
                write(source.part(slice(tile, tile + 1)), result.part(slice(tile, tile + 1)))
            return
        with np.errstate(all="ignore"):
            place[...] = values

    def run(blocks: dict[str, Block]) -> None:
        source, result = blocks["src"], blocks["dst"]
        tiles = result.starts.size
        size = tiles * rows * cols * result.flat.itemsize
        spread(tiles, size, lambda part: write(source.part(part), result.part(part)))

    return run


@cache
def _half_exponentials() -> npt.NDArray[np.uint16]:
    """Exponential of every f16 bit pattern: single precision, then rounded to f16."""
    with np.errstate(all="ignore"):
        wide = np.exp(np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float64))
        return wide.astype(np.float32).astype(np.float16).view(np.uint16)


def _float_runner(call: Call) -> Runner:
    from lanefold.pto.kernels import expands

    op = OPERATORS.index(call.op.operator)
    rows, cols = call.result.rows or 0, call.result.cols or 0
    cover = spreadings(call)
    row = call.result.type.element
    kind = {"f32": 0, "f16": 1, "bf16": 2}[row.name]
    table = _half_exponentials() if call.op.operator == "expdif" and kind else np.zeros(1, np.uint16)

    def bits(flat: Array) -> Array:
        return flat.view(np.uint16) if kind else flat

    def run(blocks: dict[str, Block]) -> None:
        a, b, out = blocks["src0"], blocks["src1"], blocks["dst"]
        a_form, b_form = cover["src0"].form(a), cover["src1"].form(b)
        flats = bits(a.flat), bits(b.flat), bits(out.flat)

        def work(part: slice) -> None:
            first, second, third = a.starts[part], b.starts[part], out.starts[part]
            left, right, result = (flats[0], first, a_form), (flats[1], second, b_form), (flats[2], third)
            if kind:
                expands.expand_16(op, kind, table, *left, *right, *result, out.row_step, rows, cols)
            else:
                expands.expand_f32(op, *left, *right, *result, out.row_step, rows, cols)

        spread(out.starts.size, out.starts.size * rows * cols * row.bytes, work)

    return run


def _check_divisor(call: Call, dividend: Array, divisor: Array) -> None:
    kind = dividend.dtype
    zero = np.argwhere(np.broadcast_to(divisor == 0, dividend.shape))
    unmeant = np.empty((0, 3), np.int64)
    if kind == np.int32:
        unmeant = np.argwhere((dividend == np.iinfo(kind).min) & (divisor == -1))
    found = zero if zero.size else unmeant
    if not found.size:
        return
    tile, i, j = (int(v) for v in found[0])
    where = f"({i}, {j})" + (f" of tile {tile}" if dividend.shape[0] > 1 else "")
    what = "0" if zero.size else "−1, with the most negative number above it"
    raise DIVIDE_ZERO.error(
        f"the divisor of {call.op.name} is {what} at {where}",
        got=f"{len(found)} such divisor{'s' if len(found) > 1 else ''}, the first at {where}",
        allowed="any other divisor" if zero.size else "any other pair of numbers",
        cures=[
            "replace these divisors before the division, for example by 1",
            "divide in f32, where the result is infinite or NaN",
        ],
        place=Place(instruction=call.op.name, operand="src1"),
    )


def _divide(call: Call, a: Array, b: Array) -> Array:
    """Quotient toward zero, wrapping in the width of the type."""
    _check_divisor(call, a, b)
    quotient = np.floor_divide(a, b)
    if a.dtype.kind == "u":
        return quotient
    inexact = np.multiply(quotient, b) != a
    rounded: Array = quotient + ((quotient < 0) & inexact).astype(a.dtype)
    return rounded


def _whole_result(call: Call, a: Array, b: Array) -> Array:
    operator = call.op.operator
    if operator == "max":
        return np.where(b > a, b, a)
    if operator == "min":
        return np.where(b < a, b, a)
    if operator == "div":
        return _divide(call, a, b)
    result: Array = {"add": np.add, "sub": np.subtract, "mul": np.multiply}[operator](a, b)
    return result


def covered(block: Block, spreading: Spreading, rows: int, cols: int) -> Array | None:
    """An operand that broadcasts to [tiles, rows, cols]; None where the tiles do not lie evenly."""
    if spreading.period:
        found = block.view(rows, spreading.period)
        return None if found is None else found[:, :, np.arange(cols) % spreading.period]
    return block.view(rows if spreading.rows else 1, cols if spreading.cols else 1)


def _whole_runner(call: Call) -> Runner:
    rows, cols = call.result.rows or 0, call.result.cols or 0
    cover = spreadings(call)

    def write(a: Block, b: Block, out: Block) -> None:
        left, right = covered(a, cover["src0"], rows, cols), covered(b, cover["src1"], rows, cols)
        place = out.view(rows, cols)
        if left is None or right is None or place is None:
            for tile in range(out.starts.size):
                one = slice(tile, tile + 1)
                write(a.part(one), b.part(one), out.part(one))
            return
        left, right = np.broadcast_arrays(left, right)
        with np.errstate(all="ignore"):
            place[...] = _whole_result(call, left, right)

    return lambda blocks: write(blocks["src0"], blocks["src1"], blocks["dst"])


def binary_runner(call: Call) -> Runner:
    """The fourteen expansions that combine two operands."""
    kinds = {call.operands[role].type.dtype for role in ("src0", "src1")}
    result = call.result.type.element
    inner = _float_runner(call) if result.kind == "float" else _whole_runner(call)
    if kinds == {result.name}:
        return inner
    dtype = numpy_type(result)

    def run(blocks: dict[str, Block]) -> None:
        inner(dict(blocks) | {role: blocks[role].cast(dtype) for role in ("src0", "src1")})

    return run
