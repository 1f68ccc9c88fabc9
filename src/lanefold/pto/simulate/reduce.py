"""Reductions on blocks of tiles, in the numerics of the CPU simulator (PTO headers: CPU simulator, measured)."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from lanefold.pto.calls import Call
from lanefold.pto.isa import ElementType
from lanefold.pto.names import element
from lanefold.pto.simulate.blocks import Block, scatter_lines, spread
from lanefold.pto.tiles import numpy_type

Array = npt.NDArray[Any]
Runner = Callable[[dict[str, Block]], None]

_KINDS = {"f16": 1, "bf16": 2}
_FLOAT_INFINITY = {"f32": 0x7F800000, "f16": 0x7C00, "bf16": 0x7F80}


def signed_bits(row: ElementType) -> np.dtype[Any]:
    """The signed integer of an element type's width."""
    return np.dtype(f"int{row.bytes * 8}")


@cache
def key_form(name: str, minimum: bool) -> Array:
    """Constants by which the compiled loops compare values of a type; see the module of the extremes."""
    row = element(name)
    kind = signed_bits(row)
    lowest, highest = np.iinfo(kind).min, np.iinfo(kind).max
    turn = -1 if minimum else 0
    if row.kind == "float":
        values = (-1, highest, turn, _FLOAT_INFINITY[name], lowest)
    elif row.kind == "signed":
        values = (0, -1, turn, highest, lowest)
    else:
        values = (0, -1, turn ^ lowest, highest, lowest)
    return np.array(values, kind)


def geometry(call: Call) -> tuple[bool, int, int]:
    """Whether rows are reduced, lines that are kept, and length of each."""
    source = call.source
    rows, cols = source.rows or 0, source.cols or 0
    return (True, rows, cols) if call.op.axis == "row" else (False, cols, rows)


def steps(block: Block, by_row: bool) -> tuple[int, int]:
    """Steps of the kept and of the folded axis."""
    return (block.row_step, block.column_step) if by_row else (block.column_step, block.row_step)


def _fold_f32(block: Block, by_row: bool, count: int, length: int, op: int, out: Array) -> None:
    from lanefold.pto.kernels import folds

    kept, folded = steps(block, by_row)
    if folded == 1:
        folds.fold_f32_along(block.flat, block.starts, kept, count, length, op, out)
    else:
        folds.fold_f32_across(block.flat, block.starts, folded, count, length, op, out)


def _rounding(call: Call) -> int:
    """How each step of a fold of 16-bit floats is rounded: TROWSUM keeps f32 to the end, the others do not."""
    result = call.result.type.dtype
    if call.op.name == "TROWSUM" or result == "f32":
        return 0
    return _KINDS[result]


def _folder(call: Call) -> Callable[[Block, Array, int, int], None]:
    """The loop for the call's types; it writes results [tiles, count] in the type that `_work_type` gives."""
    from lanefold.pto.kernels import folds

    by_row, _, _ = geometry(call)
    op = folds.SUM if call.op.operator == "sum" else folds.PROD
    source = call.source.type.element
    if source.name == "f32":
        return lambda block, out, count, length: _fold_f32(block, by_row, count, length, op, out)
    if source.kind == "float":
        kind = _KINDS[source.name]
        rounding = _rounding(call)

        def fold_half(block: Block, out: Array, count: int, length: int) -> None:
            kept, folded = steps(block, by_row)
            bits = block.flat.view(np.int16).view(np.uint16)
            folds.fold_16(bits, block.starts, kept, folded, count, length, op, kind, rounding, out)

        return fold_half

    def fold_whole(block: Block, out: Array, count: int, length: int) -> None:
        kept, folded = steps(block, by_row)
        folds.fold_int(block.flat.view(signed_bits(source)), block.starts, kept, folded, count, length, op, out)

    return fold_whole


def _widened(call: Call) -> Call:
    """The call with its source already in the destination's type, where the two differ and the loop is for one type."""
    source, result = call.source.type, call.result.type
    if source.dtype == result.dtype or (call.op.operator == "sum" and source.element.kind == "float"):
        return call
    return call.changed({"src.dtype": result.dtype})


def fold_runner(call: Call) -> Runner:
    """Sums and products."""
    inner = _widened(call)
    by_row, count, length = geometry(call)
    source_type = numpy_type(inner.source.type.element)
    result_type = numpy_type(call.result.type.element)
    work_type = np.dtype(np.float32 if inner.source.type.element.kind == "float" else np.int64)
    folder = _folder(inner)
    line_bytes = count * length * call.source.type.element.bytes

    def run(blocks: dict[str, Block]) -> None:
        source, result = blocks["src"].cast(source_type), blocks[call.form.operands[0]]
        tiles = source.starts.size
        values = np.empty((tiles, count), work_type)
        spread(tiles, tiles * line_bytes, lambda part: folder(source.part(part), values[part], count, length))
        if work_type != result_type:
            with np.errstate(all="ignore"):
                values = values.astype(result_type)
        scatter_lines(result, values, result.row_step if by_row else result.column_step)

    return run


def extreme_runner(call: Call) -> Runner:
    """Maxima and minima."""
    from lanefold.pto.kernels import extremes

    by_row, count, length = geometry(call)
    result_row = call.result.type.element
    result_type = numpy_type(result_row)
    bits = signed_bits(result_row)
    minimum = call.op.operator == "min"
    form = key_form(result_row.name, minimum)
    plain = result_row.name == "f32"
    line_bytes = count * length * call.source.type.element.bytes

    def run(blocks: dict[str, Block]) -> None:
        source, result = blocks["src"].cast(result_type), blocks["dst"]
        tiles = source.starts.size
        values = np.empty((tiles, count), bits)
        kept, folded = steps(source, by_row)
        flat = source.flat.view(bits)

        def work(part: slice) -> None:
            if plain and folded != 1:
                floats = values.view(np.float32)[part]
                extremes.f32_across(source.flat, source.starts[part], folded, count, length, minimum, floats)
            elif folded == 1:
                extremes.best_along(flat, source.starts[part], kept, count, length, form, values[part])
            else:
                extremes.best_across(flat, source.starts[part], folded, count, length, form, values[part])

        spread(tiles, tiles * line_bytes, work)
        scatter_lines(result, values.view(result_type), result.row_step if by_row else result.column_step)

    return run


def arg_runner(call: Call) -> Runner:
    """First indices of maxima and minima, with the values where the form wants them."""
    from lanefold.pto.kernels import extremes

    by_row, count, length = geometry(call)
    row = call.source.type.element
    bits = signed_bits(row)
    form = key_form(row.name, call.op.operator == "min")
    index_type = numpy_type(call.operands["dstIdx"].type.element)
    line_bytes = count * length * row.bytes

    def run(blocks: dict[str, Block]) -> None:
        source, where = blocks["src"], blocks["dstIdx"]
        tiles = source.starts.size
        index = np.empty((tiles, count), np.int32)
        kept, folded = steps(source, by_row)
        flat = source.flat.view(bits)

        def work(part: slice) -> None:
            if folded == 1:
                extremes.first_along(flat, source.starts[part], kept, count, length, form, index[part])
            else:
                extremes.first_across(flat, source.starts[part], folded, count, length, form, index[part])

        spread(tiles, tiles * line_bytes, work)
        scatter_lines(where, index.astype(index_type), where.row_step if by_row else where.column_step)
        value = blocks.get("dstVal")
        if value is not None:
            places = source.starts[:, None] + np.arange(count) * kept + index.astype(np.int64) * folded
            scatter_lines(value, source.flat[places], value.row_step if by_row else value.column_step)

    return run
