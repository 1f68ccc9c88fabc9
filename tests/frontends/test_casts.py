"""Element types that a tile target does not take: inserted casts, against NumPy and onnxruntime."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import lanefold as lf
from lanefold.frontends.onnx import plan_model, verify
from lanefold.targets import target

SHAPE = [2, 3, 8, 8]
ELEMENTS = {
    "int8": TensorProto.INT8,
    "uint8": TensorProto.UINT8,
    "uint32": TensorProto.UINT32,
    "bfloat16": TensorProto.BFLOAT16,
    "float16": TensorProto.FLOAT16,
}


def model(op_type: str, dtype: str, extents: list[int], result: int = 0, **attributes: Any) -> onnx.ModelProto:
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node(op_type, ["x"], ["y"], name="n", **attributes)],
        "g",
        [value("x", ELEMENTS[dtype], SHAPE)],
        [value("y", result or ELEMENTS[dtype], extents)],
    )
    opset = 13 if dtype == "bfloat16" else 12
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


@pytest.mark.parametrize("name", ["a2a3", "a5"])
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize(
    ("op_type", "extents", "attributes"),
    [
        ("ReduceMax", [2, 3, 8, 1], {"axes": [3]}),
        ("ReduceMin", [2, 1, 8, 8], {"axes": [1]}),
        ("MaxPool", [2, 3, 4, 4], {"kernel_shape": [2, 2], "strides": [2, 2]}),
    ],
)
def test_small_integers_keep_their_order(
    name: str, dtype: str, op_type: str, extents: list[int], attributes: dict[str, Any]
) -> None:
    plan = plan_model(model(op_type, dtype, extents, **attributes), target(name))
    (row,) = plan.program.ledger
    assert row.disposition == ("rewritten" if name == "a2a3" else "emitted")
    assert ("becomes float32 on the host" in row.reason) == (name == "a2a3")
    bounds = np.iinfo(dtype)
    x = np.random.default_rng(0).integers(bounds.min, bounds.max, SHAPE, dtype=dtype, endpoint=True)
    result = verify(plan.model, plan.program, {"x": x})
    assert result.ok, result.rows
    assert all(each.largest == 0 for each in result.rows)


@pytest.mark.parametrize("name", ["cpu", "a2a3", "a5"])
def test_sums_of_unsigned_integers_wrap_to_the_same_bits(name: str) -> None:
    made = model("ReduceSum", "uint32", [2, 3, 8, 1], axes=[3])
    program = lf.compile(made, target=name)
    assert "wrap to the same bits" in program.ledger.row("n").reason
    x = np.random.default_rng(1).integers(0, 2**32, SHAPE, dtype=np.uint32)
    np.testing.assert_array_equal(program.run({"x": x})["y"], x.sum(3, keepdims=True, dtype=np.uint32))


@pytest.mark.parametrize("name", ["a2a3", "a5"])
def test_searches_of_small_integers(name: str) -> None:
    made = model("ArgMax", "int8", [2, 3, 8, 1], TensorProto.INT64, axis=3)
    program = lf.compile(made, target=name)
    x = np.random.default_rng(2).integers(-3, 3, SHAPE, dtype=np.int8)
    np.testing.assert_array_equal(program.run({"x": x})["y"], x.argmax(3)[..., None])
    assert program.ledger.row("n").disposition == "rewritten"


@pytest.mark.parametrize("name", ["a2a3", "a5"])
def test_brain_floats(name: str) -> None:
    x = np.random.default_rng(3).normal(size=SHAPE).astype(ml_dtypes.bfloat16)
    sums = lf.compile(model("ReduceMean", "bfloat16", [2, 3, 8, 1], axes=[3]), target=name)
    wanted = np.add.accumulate(x.astype(np.float32), axis=3)[..., -1:]
    wanted = (wanted / np.float32(8)).astype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(sums.run({"x": x})["y"].view(np.uint16), wanted.view(np.uint16))
    largest = lf.compile(model("ReduceMax", "bfloat16", [2, 3, 8, 1], axes=[3]), target=name)
    found = largest.run({"x": x})["y"]
    np.testing.assert_array_equal(found.astype(np.float32), x.astype(np.float32).max(3, keepdims=True))


def test_what_no_type_stands_for_stays_on_the_host() -> None:
    plan = plan_model(model("ReduceMax", "uint32", [2, 3, 8, 1], axes=[3]), target("a2a3"))
    (row,) = plan.program.ledger
    assert row.disposition == "host"
    assert "a2a3 does not take uint32" in row.reason


@pytest.mark.parametrize("name", ["cpu", "a2a3", "a5"])
def test_placed_maxima_of_small_integers(name: str) -> None:
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("MaxPool", ["x"], ["y", "i"], name="n", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)],
        "g",
        [value("x", TensorProto.UINT8, SHAPE)],
        [value("y", TensorProto.UINT8, [2, 3, 4, 4]), value("i", TensorProto.INT64, [2, 3, 4, 4])],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 12)], ir_version=9)
    plan = plan_model(made, target(name))
    (row,) = plan.program.ledger
    assert row.disposition == "rewritten"
    x = np.random.default_rng(4).integers(0, 4, SHAPE, dtype=np.uint8)
    result = verify(plan.model, plan.program, {"x": x})
    assert result.ok, result.rows
