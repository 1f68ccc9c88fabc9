"""Searches over axes too long for one tile, against NumPy and onnxruntime; those that cannot be made in parts."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import lanefold as lf
from lanefold.frontends.onnx import read_model, verify
from lanefold.frontends.onnx.routes import node_routes
from lanefold.targets import target

TARGETS = ("cpu", "a2a3", "a5")
INT64 = TensorProto.INT64


def search(op_type: str, shape: tuple[int, ...], dtype: Any = np.float32, opset: int = 13, **attributes: Any) -> Any:
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    graph = helper.make_graph(
        [helper.make_node(op_type, ["x"], ["y"], name="n", **attributes)],
        "long",
        [helper.make_tensor_value_info("x", kind, shape)],
        [helper.make_tensor_value_info("y", kind if op_type == "Hardmax" else INT64, None)],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    return onnx.shape_inference.infer_shapes(made)


def checked(made: onnx.ModelProto, x: np.ndarray, name: str) -> Any:
    """The result of a node in parts whose every step agrees with onnxruntime."""
    program = lf.compile(made, target=name)
    row = program.ledger.row("n")
    assert row.disposition == "rewritten", row.reason
    assert "the host adds part × " in row.reason
    outcome = verify(read_model(made), program, {"x": x})
    assert outcome.ok, outcome.rows
    return outcome.outputs


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_first_index_of_equal_extremes(data: Any) -> None:
    length = data.draw(st.sampled_from([70_001, 131_072, 98_299]))
    axis = data.draw(st.sampled_from([0, 1, -1, -2]))
    if axis in (1, -1):
        shape = (data.draw(st.integers(1, 3)), length)
    else:
        shape = (data.draw(st.sampled_from([9_001, 12_289])), data.draw(st.integers(2, 9)))
    op_type = data.draw(st.sampled_from(["ArgMax", "ArgMin"]))
    keep = data.draw(st.integers(0, 1))
    # Few different values, so that every part has the extreme many times.
    x = np.random.default_rng(data.draw(st.integers(0, 99))).integers(-3, 4, shape).astype(np.float32)
    x *= data.draw(st.sampled_from([1.0, -1e30]))
    name = data.draw(st.sampled_from(TARGETS))
    result = checked(search(op_type, shape, axis=axis, keepdims=keep), x, name)["y"]
    wanted = (x.argmax if op_type == "ArgMax" else x.argmin)(axis, keepdims=bool(keep))
    np.testing.assert_array_equal(result, wanted)
    assert result.dtype == np.int64


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("at", [0, 65_520, 65_521, 131_040])
def test_the_extreme_is_found_wherever_it_stands(name: str, at: int) -> None:
    """A prime extent: the last part is filled up with the last element, which is the extreme once."""
    x = np.full((1, 131_041), -np.inf, np.float32)
    x[0, at] = 5
    assert checked(search("ArgMax", x.shape, axis=1, keepdims=0), x, name)["y"].tolist() == [at]


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("dtype", [np.int32, np.int16, np.int8, np.float16])
def test_element_types(name: str, dtype: Any) -> None:
    """Types that the target does not search become float32 on the host first."""
    x = np.random.default_rng(1).integers(-90, 91, (2, 200_003)).astype(dtype)
    np.testing.assert_array_equal(checked(search("ArgMax", x.shape, dtype, axis=1), x, name)["y"][:, 0], x.argmax(1))


@pytest.mark.parametrize("name", TARGETS)
def test_three_axes_and_one(name: str) -> None:
    x = np.random.default_rng(2).integers(-9, 10, (2, 8_209, 3)).astype(np.float32)
    np.testing.assert_array_equal(checked(search("ArgMin", x.shape, axis=1, keepdims=0), x, name)["y"], x.argmin(1))
    flat = np.random.default_rng(3).standard_normal(80_000).astype(np.float32)
    assert checked(search("ArgMax", flat.shape, axis=0, keepdims=0), flat, name)["y"] == flat.argmax()


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("largest", [0, 1])
def test_top_1(name: str, largest: int) -> None:
    x = np.random.default_rng(4).integers(-9, 10, (2, 70_001)).astype(np.float32)
    node = helper.make_node("TopK", ["x", "k"], ["v", "i"], name="n", largest=largest)
    graph = helper.make_graph(
        [node],
        "top",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info("v", TensorProto.FLOAT, None), helper.make_tensor_value_info("i", INT64, None)],
        [numpy_helper.from_array(np.array([1], np.int64), "k")],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    results = checked(onnx.shape_inference.infer_shapes(made), x, name)
    index = (x.argmax if largest else x.argmin)(1)[:, None]
    np.testing.assert_array_equal(results["i"], index)
    np.testing.assert_array_equal(results["v"], np.take_along_axis(x, index, 1))


@pytest.mark.parametrize("name", TARGETS)
def test_hardmax(name: str) -> None:
    x = np.random.default_rng(5).integers(-9, 10, (2, 70_000)).astype(np.float32)
    result = checked(search("Hardmax", x.shape, axis=1), x, name)["y"]
    np.testing.assert_array_equal(result.argmax(1), x.argmax(1))
    np.testing.assert_array_equal(result.sum(1), 1)


def test_steps_are_told_and_routes_shown() -> None:
    made = search("ArgMax", (4, 50_257), axis=-1, keepdims=0)
    row = lf.compile(made, target="a2a3").ledger.row("n")
    assert "29 parts of 1733" in row.reason
    assert [step.split(": ")[0] for step in row.steps] == [
        "n/search/parts",
        "n/search/extremes",
        "n/search/inside",
        "n/search/inside/cast",
        "n/search/part",
        "n/search/part/cast",
        "n/search/place",
        "n/search/begin",
        "n/search/index",
        "n/search/extents",
    ]
    found = node_routes(read_model(made), "n", target("a2a3"))
    legal = [name for name, candidates in found.pieces if any(each.code for each in candidates)]
    assert legal == ["n/search/extremes", "n/search/inside", "n/search/part"]


def test_what_fits_is_searched_whole() -> None:
    row = lf.compile(search("ArgMax", (4, 40_000), axis=1), target="a2a3").ledger.row("n")
    assert "parts" not in row.reason


@pytest.mark.parametrize(
    ("opset", "attributes", "reason"),
    [
        (10, {}, "does not fit into local memory"),
        (13, {"select_last_index": 1}, "wants the last of equal values"),
    ],
)
def test_what_stays_on_the_host(opset: int, attributes: dict[str, int], reason: str) -> None:
    row = lf.compile(search("ArgMax", (2, 70_000), opset=opset, axis=1, **attributes), target="a2a3").ledger.row("n")
    assert (row.disposition, reason in row.reason) == ("host", True)
