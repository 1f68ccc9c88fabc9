"""Reduce nodes: decompositions, axes in all forms, empty sets; results against onnxruntime and float64."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from fake_target import FakeTarget, one_node_model

from lanefold.diagnostics import LanefoldError
from lanefold.frontends.onnx import Plan, compile_model, plan_model, verify
from lanefold.host import HostStep
from lanefold.ops import Reduce
from lanefold.targets import target

AXES_AS_INPUT = {"ReduceSum": 13}


def plan_reduce(op_type: str, x: np.ndarray, axes: list[int] | None, opset: int, **attributes: Any) -> Plan:
    """A node with its axes where the operator set wants them."""
    constants = None
    rank = x.ndim if attributes.get("keepdims", 1) else x.ndim - len(axes or range(x.ndim))
    if axes is not None:
        if opset >= AXES_AS_INPUT.get(op_type, 18):
            constants = {"axes": np.asarray(axes, np.int64)}
        else:
            attributes["axes"] = axes
    model = one_node_model(
        op_type, x.shape, dtype=x.dtype.name, opset=opset, constants=constants, out_rank=rank, **attributes
    )
    return plan_model(model, FakeTarget())


FLOAT64 = {
    "ReduceSum": lambda x, axes, keep: x.sum(axes, keepdims=keep),
    "ReduceMean": lambda x, axes, keep: x.mean(axes, keepdims=keep),
    "ReduceMax": lambda x, axes, keep: x.max(axes, keepdims=keep),
    "ReduceMin": lambda x, axes, keep: x.min(axes, keepdims=keep),
    "ReduceProd": lambda x, axes, keep: x.prod(axes, keepdims=keep),
    "ReduceL1": lambda x, axes, keep: np.abs(x).sum(axes, keepdims=keep),
    "ReduceL2": lambda x, axes, keep: np.sqrt((x * x).sum(axes, keepdims=keep)),
    "ReduceSumSquare": lambda x, axes, keep: (x * x).sum(axes, keepdims=keep),
    "ReduceLogSum": lambda x, axes, keep: np.log(x.sum(axes, keepdims=keep)),
    "ReduceLogSumExp": lambda x, axes, keep: np.log(np.exp(x).sum(axes, keepdims=keep)),
}
MAPPED = ("ReduceL1", "ReduceSumSquare")
"""One piece each, but its instructions map every element before they fold."""
SPLIT = {"ReduceL2": ["Sqrt"], "ReduceLogSum": ["Log"], "ReduceLogSumExp": ["Clip", "Sub", "Exp", "Log", "Add"]}


@pytest.mark.parametrize("op_type", FLOAT64)
@pytest.mark.parametrize("opset", [9, 11, 13, 18, 20])
def test_values(op_type: str, opset: int) -> None:
    rng = np.random.default_rng(opset)
    for axes, keepdims in (([1], 1), ([-1, 0], 0), (None, 1), ([2], 0), (None, 0)):
        x = rng.uniform(0.5, 2.0, (3, 4, 5)).astype(np.float32)
        plan = plan_reduce(op_type, x, axes, opset, keepdims=keepdims)
        result = verify(plan.model, plan.program, {"x": x})
        assert result.ok, [row for row in result.rows if not row.ok]
        want = FLOAT64[op_type](x.astype(np.float64), None if axes is None else tuple(axes), bool(keepdims))
        np.testing.assert_allclose(result.outputs["y"], want, rtol=2e-6)
        row = plan.program.ledger.row("n")
        assert row.disposition == ("rewritten" if op_type in SPLIT or op_type in MAPPED else "emitted")
        told = [step for step in row.steps if step.endswith("on the host")]
        wanted = SPLIT.get(op_type, []) + (["Reshape"] if op_type == "ReduceLogSumExp" and not keepdims else [])
        assert [step.split(": ")[1].split()[0] for step in told] == wanted


def test_leg_gets_the_element_mapping() -> None:
    x = np.ones((2, 3), np.float32)
    for op_type, element in (("ReduceL1", "abs"), ("ReduceL2", "square"), ("ReduceSumSquare", "square")):
        (step,) = plan_reduce(op_type, x, [1], 18).program.leg_steps
        assert isinstance(step.op, Reduce)
        assert (step.op.operator, step.op.element, step.op.axes) == ("add", element, (1,))
        assert step.node == "n"


@pytest.mark.parametrize("opset", [9, 13, 18])
def test_log_sum_exp_of_infinities_and_large_values(opset: int) -> None:
    x = np.asarray([[-np.inf, -np.inf], [np.inf, 1.0], [1e4, 1e4], [-1e4, -1e4], [-np.inf, 3.0]], np.float32)
    plan = plan_reduce("ReduceLogSumExp", x, [1], opset, keepdims=0)
    with np.errstate(all="ignore"):
        got = plan.program.run({"x": x})["y"]
    np.testing.assert_allclose(got, [-np.inf, np.inf, 1e4 + np.log(2), -1e4 + np.log(2), 3.0], rtol=1e-6)


@pytest.mark.parametrize(
    ("dtype", "op_type", "word"),
    [
        ("float64", "ReduceSum", "float64"),
        ("int64", "ReduceSum", "int64"),
        ("int32", "ReduceMean", "whole numbers"),
        ("int32", "ReduceL2", "whole numbers"),
    ],
)
def test_types_that_stay_on_the_host(dtype: str, op_type: str, word: str) -> None:
    x = np.arange(6, dtype=dtype).reshape(2, 3)
    plan = plan_reduce(op_type, x, [1], 18)
    row = plan.program.ledger.row("n")
    assert (row.disposition, row.bundles) == ("host", 0)
    assert word in row.reason
    assert verify(plan.model, plan.program, {"x": x}).ok


def test_integers_on_the_leg() -> None:
    x = np.arange(-6, 6, dtype=np.int32).reshape(3, 4)
    for op_type in ("ReduceSum", "ReduceMax", "ReduceMin", "ReduceSumSquare", "ReduceL1"):
        plan = plan_reduce(op_type, x, [0], 18)
        assert plan.program.ledger.row("n").disposition == ("rewritten" if op_type in MAPPED else "emitted")
        result = verify(plan.model, plan.program, {"x": x})
        assert result.ok
        assert result.outputs["y"].dtype == np.int32


def test_no_axes_and_noop() -> None:
    x = np.ones((2, 3), np.float32)
    row = plan_reduce("ReduceSum", x, [], 18, noop_with_empty_axes=1).program.ledger.row("n")
    assert row.disposition == "host"
    assert "noop_with_empty_axes" in row.reason
    plan = plan_reduce("ReduceSum", x, [], 18)
    assert plan.program.ledger.row("n").reason == "add over axes [0, 1] of [2, 3]"


@pytest.mark.parametrize(
    ("op_type", "identity"), [("ReduceSum", "0"), ("ReduceProd", "1"), ("ReduceMax", "-inf"), ("ReduceMin", "inf")]
)
def test_empty_sets_name_the_identity(op_type: str, identity: str) -> None:
    x = np.ones((2, 0), np.float32)
    plan = plan_reduce(op_type, x, [1], 20)
    row = plan.program.ledger.row("n")
    assert row.disposition == "host"
    assert row.reason.endswith(f"is {identity}")


def test_axes_out_of_range_are_refused_with_the_node() -> None:
    x = np.ones((2, 3), np.float32)
    with pytest.raises(LanefoldError) as caught:
        plan_reduce("ReduceMax", x, [5], 18)
    assert "[5]" in str(caught.value) or "axis" in str(caught.value)


def test_axes_that_only_a_run_can_tell() -> None:
    from onnx import helper

    node = helper.make_node("ReduceSum", ["x", "axes"], ["y"], name="n")
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", 1, [2, 3]), helper.make_tensor_value_info("axes", 7, [1])],
        [helper.make_tensor_value_info("y", 1, [None, None])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    program = compile_model(model, FakeTarget())
    assert "known only while the model runs" in program.ledger.row("n").reason
    x = np.ones((2, 3), np.float32)
    assert program.run({"x": x, "axes": np.asarray([1])})["y"].tolist() == [[3.0], [3.0]]


def test_axes_computed_from_constants_are_folded() -> None:
    from onnx import helper, numpy_helper

    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Size", ["shape"], ["rank"]),
        helper.make_node("Sub", ["rank", "one"], ["last"]),
        helper.make_node("Reshape", ["last", "vector"], ["axes"]),
        helper.make_node("ReduceMax", ["x", "axes"], ["y"], name="n"),
    ]
    constants = [
        numpy_helper.from_array(np.asarray(1, np.int64), "one"),
        numpy_helper.from_array(np.asarray([1], np.int64), "vector"),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", 1, [2, 3, 4])],
        [helper.make_tensor_value_info("y", 1, [2, 3, 1])],
        constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    plan = plan_model(model, FakeTarget())
    assert plan.program.ledger.row("n").reason == "max over axes [2] of [2, 3, 4]"
    x = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)
    assert verify(plan.model, plan.program, {"x": x}).ok


def test_a_refused_piece_sends_the_whole_node_to_the_host() -> None:
    x = np.ones((2, 3), np.float32)
    model = one_node_model("ReduceLogSumExp", x.shape, axes=[1], opset=13)
    program = compile_model(model, FakeTarget(refused=("add",)))
    row = program.ledger.row("n")
    assert (row.disposition, row.reason) == ("host", "fake: add is refused")
    assert [type(step) for step in program.steps] == [HostStep]
    np.testing.assert_allclose(program.run({"x": x})["y"], np.log(3 * np.e) * np.ones((2, 1)), rtol=1e-6)


@pytest.mark.parametrize(("p", "disposition"), [(1, "rewritten"), (2, "rewritten"), (3, "host")])
def test_global_lp_pool(p: int, disposition: str) -> None:
    x = np.random.default_rng(p).standard_normal((2, 3, 4, 5)).astype(np.float32)
    plan = plan_model(one_node_model("GlobalLpPool", x.shape, p=p), FakeTarget())
    assert plan.program.ledger.row("n").disposition == disposition
    result = verify(plan.model, plan.program, {"x": x})
    assert result.ok
    want = (np.abs(x.astype(np.float64)) ** p).sum((2, 3), keepdims=True) ** (1 / p)
    np.testing.assert_allclose(result.outputs["y"], want, rtol=1e-5)


HALF = {
    "ReduceL2": ({}, 300.0, lambda x: np.sqrt((x**2).sum(1, keepdims=True))),
    "ReduceLogSum": ({}, 9000.0, lambda x: np.log(x.sum(1, keepdims=True))),
    "ReduceLogSumExp": ({}, 4.0, lambda x: np.log(np.exp(x).sum(1, keepdims=True))),
    "GlobalLpPool": ({"p": 2}, 300.0, lambda x: np.sqrt((x**2).sum((2, 3), keepdims=True))),
}


@pytest.mark.parametrize("name", ["trn1", "a2a3"])
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("op_type", HALF)
def test_sums_of_narrow_floats_do_not_overflow_before_their_root(op_type: str, dtype: type, name: str) -> None:
    """Squares of 300 and sums of 9000 leave float16; the result is the right one, rounded once."""
    attributes, scale, exact = HALF[op_type]
    shape = (2, 3, 8, 8) if op_type.endswith("Pool") else (3, 40)
    x = (np.random.default_rng(7).uniform(0.5, 1, shape) * scale).astype(dtype)
    constants = None if attributes else {"axes": np.asarray([1], np.int64)}
    model = one_node_model(op_type, shape, dtype=x.dtype.name, opset=18, constants=constants, **attributes)
    program = compile_model(model, target(name))
    if (op_type, dtype, name) != ("ReduceLogSumExp", ml_dtypes.bfloat16, "a2a3"):
        assert program.ledger.counts["rewritten"] == 1
    wanted = exact(x.astype(np.float64)).astype(np.float32).astype(dtype)
    np.testing.assert_array_equal(program.run({"x": x})["y"].astype(np.float32), wanted.astype(np.float32))
