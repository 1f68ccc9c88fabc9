"""Prices of many instructions at once against the price of each."""

from __future__ import annotations

import numpy as np
import pytest

from lanefold.tpb import Access, Instruction
from lanefold.tpb.cost import MODELS, price
from lanefold.tpb.cost.columns import BOUNDS, price_columns

ELEMENTS = np.array([1, 2, 8, 63, 64, 65, 127, 160, 161, 511, 512, 513, 1024, 4096, 16384, 65535])


def row(elements: int, dtype: str, step: int = 1) -> Access:
    return Access("SB", 0, 0, dtype, ((elements * step, 128), (step, elements)))


def instruction(opcode: str, n: int, dtype: str, step: int, operator: str, axis: str, transposed: bool, indices: int):
    data, eight = row(n, dtype, step), row(min(n, 8), dtype)
    if opcode == "TensorReduce":
        attributes = {"op": operator, "axis": axis, "apply_transpose": transposed}
        return Instruction(opcode, (data,), (row(1, dtype),), attributes, "Pool" if axis == "C" else "DVE")
    if opcode == "Iota":
        return Instruction(opcode, (), (data,), {}, "Pool")
    if opcode == "Gather":
        return Instruction(opcode, (data, row(indices, "uint16")), (row(indices, dtype),), {}, "Pool")
    ins = (eight, data) if opcode in ("MaxIndex", "MatchReplace") else (data,)
    return Instruction(opcode, ins, (eight,), {}, "Pool" if opcode == "Pool" else "DVE")


CASES = [
    ("TensorReduce", "float32", 1, "add", "X", False),
    ("TensorReduce", "bfloat16", 1, "add", "X", False),
    ("TensorReduce", "bfloat16", 8, "max", "X", False),
    ("TensorReduce", "bfloat16", 1, "min", "X", False),
    ("TensorReduce", "float32", 4, "add", "X", False),
    ("TensorReduce", "float32", 1, "add", "X", True),
    ("TensorReduce", "float32", 1, "max", "C", False),
    ("Pool", "float16", 8, "", "X", False),
    ("Max", "float32", 1, "", "X", False),
    ("MaxIndex", "float32", 1, "", "X", False),
    ("MatchReplace", "float32", 1, "", "X", False),
    ("Reciprocal", "float32", 1, "", "X", False),
    ("Iota", "int32", 1, "", "X", False),
    ("Gather", "float32", 1, "", "X", False),
]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("generation", ["v2", "v3", "v4"])
@pytest.mark.parametrize(("opcode", "dtype", "step", "operator", "axis", "transposed"), CASES)
def test_columns_are_the_single_prices(opcode, dtype, step, operator, axis, transposed, generation, model) -> None:
    found = price_columns(
        opcode,
        ELEMENTS,
        generation,
        model,
        dtype=dtype,
        operator=operator,
        axis=axis,
        transposed=transposed,
        step=step,
        indices=63,
    )
    for at, count in enumerate(ELEMENTS.tolist()):
        single = price(instruction(opcode, count, dtype, step, operator, axis, transposed, 63), generation, model)
        got = (found.low[at], found.high[at], BOUNDS[found.bound[at]])
        assert got == (single.low, single.high, single.bound), f"{count} elements, {single.rule}"
        assert (found.engine, found.clock_ghz) == (single.engine, single.clock_ghz)
        assert found.validity == single.validity
