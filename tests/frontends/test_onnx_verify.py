"""Comparisons: units in the last place, tolerance, first differing cell, and faults that must be found."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import pytest
from fake_target import FakeTarget, one_node_model
from onnx import helper

from lanefold.diagnostics import LanefoldError
from lanefold.frontends.onnx import plan_model, ulp_distance, verify
from lanefold.frontends.onnx.verify import compare
from lanefold.host import HostStep


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64, ml_dtypes.bfloat16])
def test_ulp_distance_counts_neighbours(dtype: type) -> None:
    start = np.asarray([1.0, -1.0, 0.0], dtype)
    walked = start
    for _ in range(5):
        walked = np.nextafter(walked, np.asarray(np.inf, dtype))
    assert ulp_distance(start, walked).tolist() == [5, 5, 5]
    assert ulp_distance(walked, start).tolist() == [5, 5, 5]


def test_ulp_distance_of_special_values() -> None:
    left = np.asarray([np.nan, np.nan, 0.0, np.inf], np.float32)
    right = np.asarray([np.nan, 1.0, -0.0, np.finfo(np.float32).max], np.float32)
    assert ulp_distance(left, right).tolist() == [0, 2**31 - 1, 0, 1]
    assert ulp_distance(np.asarray([3], np.int8), np.asarray([-4], np.int8)).tolist() == [7]


def test_compare_names_the_first_cell_that_breaks_the_bound() -> None:
    wanted = np.asarray([[1.0, 2.0], [4.0, 8.0]], np.float32)
    got = wanted.copy()
    got[0, 1] = np.nextafter(np.float32(2), np.float32(3))
    fine = compare("n", "close", "test", got, wanted, 1e-5)
    assert (fine.ok, fine.cell, fine.ulp) == (True, (0, 1), 1)
    got[1, 0] = 4.1
    bad = compare("n", "close", "test", got, wanted, 1e-5)
    assert (bad.ok, bad.cell) == (False, (1, 0))
    assert bad.relative == pytest.approx(0.1 / 8, rel=1e-5)
    assert not compare("n", "exact", "test", wanted + 1e-6, wanted, 0.0).ok


def test_compare_of_nan_infinity_shape_and_type() -> None:
    special = np.asarray([np.nan, np.inf, -np.inf, -0.0], np.float32)
    same = compare("n", "exact", "test", special, np.asarray([np.nan, np.inf, -np.inf, 0.0], np.float32), 0.0)
    assert (same.ok, same.largest, same.cell) == (True, 0.0, None)
    assert not compare("n", "close", "test", special, np.zeros(4, np.float32), 1e-5).ok
    assert not compare("n", "close", "test", np.zeros(3), np.zeros(4), 1e-5).ok
    assert not compare("n", "close", "test", np.zeros(3, np.float32), np.zeros(3), 1e-5).ok
    assert compare("n", "close", "test", np.zeros(0, np.float32), np.zeros(0, np.float32), 1e-5).ok
    assert compare("n", "close", "test", np.asarray(1.5, np.float32), np.asarray(1.5, np.float32), 0.0).ok


@pytest.mark.parametrize("op_type", ["MaxPool", "AveragePool", "LpPool"])
def test_a_wrong_target_is_found(op_type: str) -> None:
    x = np.random.default_rng(1).standard_normal((1, 2, 6, 6)).astype(np.float32)
    model = one_node_model(op_type, x.shape, kernel_shape=[3, 3])
    for scale, ok in ((1.0, True), (1.0001, False)):
        plan = plan_model(model, FakeTarget(scale=scale))
        result = verify(model, plan.program, {"x": x})
        assert [row.ok for row in result.rows] == [ok, ok]
        assert result.ok == ok
    assert "0 of 1 leg results and 0 of 1 outputs agree" in result.line


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.int8, np.uint8])
def test_other_types_are_compared_with_a_named_reference(dtype: type) -> None:
    x = np.random.default_rng(2).integers(-8, 8, (1, 2, 6, 6)).astype(np.int8).astype(dtype)
    model = one_node_model("MaxPool", x.shape, dtype=np.dtype(dtype).name, opset=22, kernel_shape=[3, 3])
    plan = plan_model(model, FakeTarget())
    result = verify(model, plan.program, {"x": x})
    assert result.ok
    assert result.rows[0].kind == "exact"
    assert result.rows[0].against in ("onnxruntime", "onnxruntime in float32")


def test_host_steps_report_what_onnxruntime_refuses() -> None:
    step = HostStep("host_0", b"no model", ("x",), ("y",))
    with pytest.raises(LanefoldError, match="ONNX-HOST-RUN") as caught:
        step.run([np.zeros(3, np.float32)])
    assert caught.value.diagnostics[0].place.node == "host_0"


def test_host_steps_keep_their_session() -> None:
    model = one_node_model("Exp", (3,))
    step = HostStep("host_0", model.SerializeToString(), ("x",), ("y",))
    x = np.zeros(3, np.float32)
    assert step.run([x])[0].tolist() == [1, 1, 1]
    kept = step._session
    step.run([x])
    assert step._session is kept
    step.close()
    assert step.run([x])[0].tolist() == [1, 1, 1]


def test_host_steps_take_and_give_bfloat16() -> None:
    nodes = [
        helper.make_node("Cast", ["x"], ["wide"], to=onnx.TensorProto.FLOAT),
        helper.make_node("Exp", ["wide"], ["e"]),
        helper.make_node("Cast", ["e"], ["y"], to=onnx.TensorProto.BFLOAT16),
    ]
    edges = [helper.make_tensor_value_info(name, onnx.TensorProto.BFLOAT16, [2, 3]) for name in "xy"]
    graph = helper.make_graph(nodes, "g", edges[:1], edges[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    x = np.asarray([[0, 1, 2], [-1, -2, 3]], ml_dtypes.bfloat16)
    (y,) = HostStep("host_0", model.SerializeToString(), ("x",), ("y",)).run([x.T.copy().T])
    assert y.dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(y, np.exp(x.astype(np.float32)).astype(ml_dtypes.bfloat16))
    (empty,) = HostStep("host_0", model_without_rows(model), ("x",), ("y",)).run([x[:0]])
    assert empty.shape == (0, 3)


def test_host_steps_without_a_kernel_say_what_ran_them() -> None:
    model = one_node_model("Max", (3,), dtype="int16", opset=13)
    step = HostStep("host_0", model.SerializeToString(), ("x",), ("y",))
    x = np.array([-7, 0, 32767], np.int16)
    for _ in range(2):
        (y,) = step.run([x])
        assert y.dtype == np.int16
        np.testing.assert_array_equal(y, x)
        assert "Could not find an implementation for Max(13)" in step.no_kernel
    program = plan_model(model, FakeTarget()).program
    assert not program.without_kernel
    program.run({"x": x})
    assert list(program.without_kernel) == [program.steps[0].name]


@pytest.mark.parametrize("opset", [21, 22, 23])
def test_poolings_that_onnxruntime_has_no_kernel_for_are_verified(opset: int) -> None:
    model = one_node_model("GlobalLpPool", (2, 3, 4, 5), opset=opset, p=2)
    program = plan_model(model, FakeTarget()).program
    x = np.random.default_rng(0).standard_normal((2, 3, 4, 5)).astype(np.float32)
    found = verify(model, program, {"x": x})
    assert found.ok
    assert {row.against for row in found.rows} == {"onnxruntime" + ", operator set 21" * (opset > 21)}
    np.testing.assert_allclose(
        found.outputs["y"], np.sqrt((x.astype(float) ** 2).sum((2, 3), keepdims=True)), rtol=1e-6
    )


def model_without_rows(model: onnx.ModelProto) -> bytes:
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = 0
    return model.SerializeToString()


def test_integers_are_compared_as_they_are_and_told_without_fractions() -> None:
    great = np.array([2**24, 2**31 - 1], np.int32)
    assert compare("n", "close", "r", great, great.copy(), 1e-5).ok
    row = compare("n", "close", "r", great, great - np.array([1, 0], np.int32), 1e-5)
    assert not row.ok
    assert (row.largest, row.ulp, row.cell) == (1, 1, (0,))
    assert isinstance(row.largest, int)
    assert (row.got, row.wanted) == ("16777216", "16777215")
    ends = compare("n", "close", "r", np.array([-(2**63)]), np.array([2**63 - 1]), 1e-5)
    assert ends.largest == 2**64 - 1
