"""What operations pass over silently, counted: for people who want to know, at the price of time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from lanefold.pto.calls import Call
from lanefold.pto.simulate.blocks import Block
from lanefold.pto.simulate.expand import covered, spreadings
from lanefold.pto.simulate.reduce import geometry, key_form, signed_bits, steps
from lanefold.pto.tiles import numpy_type

Array = npt.NDArray[Any]

COUNTERS: dict[str, str] = {
    "nan_dropped": "NaN that a maximum, minimum or search passes over, because it is not in first place",
    "nan_made": "NaN made of operands that are none: infinity minus infinity, zero times infinity, zero by zero",
    "ties": "values of a search that equal the extreme one, after the first of them",
    "integer_overflows": "whole results that wrapped at the width of their type",
    "overflow_in_accumulator": "sums and products of finite elements that are infinite while they are added up",
    "overflow_in_operation": "infinite results of one operation on two finite operands",
    "overflow_in_final_cast": "finite results that became infinite where they were rounded to the result type",
    "divisions_by_zero": "divisors that are zero",
}
"""What is counted, and what each counter means."""

_LINES = 4096


def count(call: Call, blocks: Mapping[str, Block]) -> dict[str, int]:
    """What one call passed over; ``blocks`` are its operands after it ran, sources as they were before."""
    if call.op.arg:
        return _search(call, blocks)
    if call.op.operator in ("max", "min") and call.op.reduces:
        return {"nan_dropped": _nans(call, blocks)} if call.source.type.element.kind == "float" else {}
    if call.op.reduces:
        return _fold(call, blocks)
    return _binary(call, blocks) if call.op.binary else {}


def sources_kept(blocks: Mapping[str, Block]) -> dict[str, Block]:
    """The operands, with copies of sources that the call may overwrite because they share memory with a result."""
    results = [block.flat for role, block in blocks.items() if role.startswith("dst")]
    return {
        role: replace(block, flat=block.flat.copy())
        if role.startswith("src") and any(np.may_share_memory(block.flat, each) for each in results)
        else block
        for role, block in blocks.items()
    }


def _lines(call: Call, blocks: Mapping[str, Block], role: str) -> Array:
    """Results of a reduction, [tiles, lines]."""
    by_row, lines, _ = geometry(call)
    block = blocks[role]
    parts = block.views(lines, 1) if by_row else block.views(1, lines)
    return np.concatenate([part.reshape(part.shape[0], lines) for part in parts])


def _extremes(call: Call, blocks: Mapping[str, Block]) -> tuple[int, int]:
    from lanefold.pto.kernels import counts

    row = call.source.type.element
    block = blocks["src"]
    by_row, lines, length = geometry(call)
    found = np.zeros(2, np.int64)
    form = key_form(row.name, call.op.operator == "min")
    counts.extremes(block.flat.view(signed_bits(row)), block.starts, *steps(block, by_row), lines, length, form, found)
    return int(found[0]), int(found[1])


def _nans(call: Call, blocks: Mapping[str, Block]) -> int:
    from lanefold.pto.kernels import counts

    row = call.source.type.element
    block = blocks["src"]
    by_row, lines, length = geometry(call)
    form = key_form(row.name, call.op.operator == "min")
    return int(counts.nans(block.flat.view(signed_bits(row)), block.starts, *steps(block, by_row), lines, length, form))


def _search(call: Call, blocks: Mapping[str, Block]) -> dict[str, int]:
    dropped, ties = _extremes(call, blocks)
    return {"nan_dropped": dropped, "ties": ties}


def _fold(call: Call, blocks: Mapping[str, Block]) -> dict[str, int]:
    results = _lines(call, blocks, "dst")
    if call.result.type.element.kind == "float":
        return _float_fold(call, blocks, results)
    return {"integer_overflows": _wrapped(call, blocks, results)}


def _wrapped(call: Call, blocks: Mapping[str, Block], results: Array) -> int:
    """Results that differ from the exact ones by a turn of their type or more."""
    from lanefold.pto.kernels import counts, folds

    by_row, lines, length = geometry(call)
    block = blocks["src"].cast(numpy_type(call.result.type.element))
    wide = np.empty(results.shape, np.float64)
    op = folds.SUM if call.op.operator == "sum" else folds.PROD
    counts.wide_folds(block.flat, block.starts, *steps(block, by_row), lines, length, op, wide)
    half_turn = 2.0 ** (8 * call.result.type.element.bytes - 1)
    return int((np.abs(wide - results.astype(np.float64)) > half_turn).sum())


def _float_fold(call: Call, blocks: Mapping[str, Block], results: Array) -> dict[str, int]:
    found = {"overflow_in_accumulator": 0, "overflow_in_final_cast": 0, "nan_made": 0}
    places = np.argwhere(~np.isfinite(results))
    if not places.size:
        return found
    by_row, _, length = geometry(call)
    block = blocks["src"]
    kept, folded = steps(block, by_row)
    # Row sums of 16-bit floats are added up in f32, and may be too large only for their type.
    wide = call.op.name == "TROWSUM" and call.result.type.element.bytes < np.dtype(np.float32).itemsize
    for first in range(0, len(places), _LINES):
        some = places[first : first + _LINES]
        starts = block.starts[some[:, 0]] + some[:, 1] * kept
        values = block.flat[starts[:, None] + np.arange(length) * folded]
        made = results[some[:, 0], some[:, 1]]
        finite = np.isfinite(values).all(axis=1)
        found["nan_made"] += int((np.isnan(made) & ~np.isnan(values).any(axis=1)).sum())
        if wide:
            sums = np.add.accumulate(values[finite].astype(np.float32), axis=1)[:, -1]
            cast = int(np.isfinite(sums).sum())
            found["overflow_in_final_cast"] += cast
            found["overflow_in_accumulator"] += int(finite.sum()) - cast
        else:
            found["overflow_in_accumulator"] += int(finite.sum())
    return found


def _binary(call: Call, blocks: Mapping[str, Block]) -> dict[str, int]:
    cover = spreadings(call)
    rows, cols = call.result.rows or 0, call.result.cols or 0
    first, second = (covered(blocks[role], cover[role], rows, cols) for role in ("src0", "src1"))
    result = blocks["dst"].view(rows, cols)
    if first is not None and second is not None and result is not None:
        return _pair(call, first, second, result)
    total: dict[str, int] = {}
    for tile in range(blocks["dst"].starts.size):
        one = {role: block.part(slice(tile, tile + 1)) for role, block in blocks.items()}
        for name, value in _binary(call, one).items():
            total[name] = total.get(name, 0) + value
    return total


def _pair(call: Call, a: Array, b: Array, result: Array) -> dict[str, int]:
    operator = call.op.operator
    floats = call.result.type.element.kind == "float"
    if operator in ("max", "min"):
        return {"nan_dropped": int((np.isnan(b) & ~np.isnan(a)).sum())} if floats else {}
    found = {}
    if operator == "div":
        found["divisions_by_zero"] = int(np.broadcast_to(b == 0, result.shape).sum()) if floats else 0
    return found | (_float_pair(call, a, b, result) if floats else _whole_pair(operator, a, b, result))


def _whole_pair(operator: str, a: Array, b: Array, result: Array) -> dict[str, int]:
    if operator == "div":
        least = np.iinfo(result.dtype).min
        return {"integer_overflows": int(((a == least) & (b == -1)).sum()) if least else 0}
    combine = {"add": np.add, "sub": np.subtract, "mul": np.multiply}[operator]
    return {"integer_overflows": int((combine(a.astype(np.int64), b.astype(np.int64)) != result).sum())}


def _float_pair(call: Call, a: Array, b: Array, result: Array) -> dict[str, int]:
    found = {"overflow_in_operation": 0, "overflow_in_final_cast": 0, "nan_made": 0}
    odd = ~np.isfinite(result)
    if not odd.any():
        return found
    left, right, made = (np.broadcast_to(each, result.shape)[odd].astype(np.float32) for each in (a, b, result))
    found["nan_made"] = int((np.isnan(made) & ~np.isnan(left) & ~np.isnan(right)).sum())
    infinite = np.isinf(made) & np.isfinite(left) & np.isfinite(right)
    operator = call.op.operator
    if operator == "div":
        infinite &= right != 0
    # 16-bit floats are computed in f32, and an exponential in double where the result is f32.
    late = call.result.type.element.bytes < np.dtype(np.float32).itemsize or operator == "expdif"
    found["overflow_in_final_cast" if late else "overflow_in_operation"] = int(infinite.sum())
    return found
