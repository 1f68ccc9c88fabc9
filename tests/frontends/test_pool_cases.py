"""Pooling cases that users of other tools stumbled over, one test per case: shapes, divisors, diagnostics."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from fake_target import FakeTarget, one_node_model
from onnx import helper
from slow_pool import slow_pool

from lanefold.diagnostics import Diagnostic, LanefoldError
from lanefold.frontends.onnx import Plan, plan_model, verify
from lanefold.ops import Pool, identity
from lanefold.targets import target

MADE: dict[str, Callable[[], Any]] = {
    "numpy": FakeTarget,
    "trn1": lambda: target("trn1"),
    "trn3": lambda: target("trn3", opcodes="headers"),
    "cpu": lambda: target("cpu"),
    "a2a3": lambda: target("a2a3"),
}
ON: list[str] = ["numpy"]


@pytest.fixture(params=sorted(MADE), autouse=True)
def _each_target(request: pytest.FixtureRequest) -> None:
    """Every case runs on a target that computes with NumPy, and on instructions executed from their bytes."""
    ON[:] = [request.param]


def chosen() -> Any:
    return MADE[ON[0]]()


NEGATIVE = -np.arange(1, 17, dtype=np.float32).reshape(1, 1, 4, 4)


def run(op_type: str, x: np.ndarray, **attributes: Any) -> tuple[np.ndarray, Plan]:
    """Compile and run one pooling node; every result of the leg must equal onnxruntime's."""
    plan = plan_model(one_node_model(op_type, x.shape, dtype=x.dtype.name, **attributes), chosen())
    result = verify(plan.model, plan.program, {"x": x})
    assert all(row.ok for row in result.rows if row.kind != "output")
    return result.outputs["y"], plan


def refused(op_type: str, shape: tuple[int, ...], **attributes: Any) -> Diagnostic:
    with pytest.raises(LanefoldError) as caught:
        plan_model(one_node_model(op_type, shape, **attributes), chosen())
    (finding,) = caught.value.diagnostics
    assert finding.place.node == "n"
    assert finding.cures
    return finding


def reason(plan: Plan) -> str:
    return plan.program.ledger.row("n").reason


def p1() -> None:
    x = np.random.default_rng(1).standard_normal((1, 1, 3, 6, 5)).astype(np.float32)
    y, plan = run("MaxPool", x, kernel_shape=[3] * 3, strides=[3] * 3, pads=[1] * 6, ceil_mode=1)
    assert y.shape == (1, 1, 2, 3, 2)
    assert "spatial axis 2: window 2 begins at 6" in reason(plan)
    assert "so it is dropped" in reason(plan)


def p2() -> None:
    finding = refused("MaxPool", (1, 1, 4), kernel_shape=[3], strides=[2], dilations=[2])
    assert finding.code == "OP-POOL-WINDOW-WIDE"
    assert "effective window 5" in finding.message
    assert "wider than the input 4" in finding.message


def p3() -> None:
    # (2 − 3)/2 is −1 when rounded down: no column, and never one.
    finding = refused("MaxPool", (1, 1, 4, 2), kernel_shape=[2, 3], strides=[2, 2])
    assert finding.code == "OP-POOL-WINDOW-WIDE"
    assert "on spatial axis 1" in finding.message


def p5() -> None:
    x = np.arange(4, dtype=np.float32).reshape(1, 1, 2, 2)
    y, plan = run("AveragePool", x, kernel_shape=[3, 3], strides=[3, 3], pads=[1] * 4, ceil_mode=1)
    assert y.tolist() == [[[[1.5]]]]
    declared = one_node_model("AveragePool", x.shape, kernel_shape=[3, 3], strides=[3, 3], pads=[1] * 4, ceil_mode=1)
    declared.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", 1, [1, 1, 2, 2]))
    (finding,) = plan_model(declared, chosen()).findings
    assert finding.code == "ONNX-SHAPE-DECLARED"
    assert plan.model.shape("y") == (1, 1, 1, 1)


def p7() -> None:
    x = np.random.default_rng(7).standard_normal((1, 2, 6)).astype(np.float32)
    for stride, outputs in ((5, 2), (6, 1), (7, 1)):
        y, _ = run("MaxPool", x, kernel_shape=[1], strides=[stride], ceil_mode=1)
        assert y.shape[2] == outputs


def p8() -> None:
    x = np.arange(5, dtype=np.float32).reshape(1, 1, 5)
    y, _ = run("AveragePool", x, kernel_shape=[1], strides=[5], pads=[0, 0], ceil_mode=1)
    assert y.tolist() == [[[0.0]]]
    finding = refused("AveragePool", (1, 1, 4), kernel_shape=[2], pads=[0, 3])
    assert finding.code == "OP-POOL-WINDOW-EMPTY"
    assert "divide 0 by 0" in finding.message


def p10() -> None:
    x = np.random.default_rng(10).standard_normal((1, 1, 5, 7)).astype(np.float32)
    at = {"kernel_shape": [2, 3], "strides": [3, 4], "pads": [1, 1, 1, 1], "ceil_mode": 1}
    y, _ = run("MaxPool", x, **at)
    want = slow_pool(x, "max", [2, 3], [3, 4], [1, 1], [1, 1, 1, 1], ceil_mode=True)
    np.testing.assert_array_equal(y, want)


def p11() -> None:
    x = np.random.default_rng(11).standard_normal((1, 1, 6)).astype(np.float32)
    y, plan = run("MaxPool", x, kernel_shape=[3], strides=[2], auto_pad="VALID", ceil_mode=1)
    assert y.shape == (1, 1, 2)
    (finding,) = plan.findings
    assert finding.code == "OP-POOL-NO-EFFECT"
    assert "ceil_mode 1 has no effect beside auto_pad VALID" in finding.message
    op = plan.program.leg_steps[0].op
    assert isinstance(op, Pool)
    assert (op.pads, op.ceil_mode) == ((0, 0), False)


def p12() -> None:
    finding = refused("MaxPool", (1, 1, 4), kernel_shape=[2], pads=[3, 0])
    assert finding.code == "OP-POOL-WINDOW-EMPTY"
    assert "the identity of max in float32 is -inf" in finding.message


def p13() -> None:
    x = np.ones((1, 1, 6), np.float32)
    y, plan = run("AveragePool", x, kernel_shape=[4], strides=[3], pads=[1, 1], ceil_mode=1, count_include_pad=1)
    # Windows at −1, 2 and 5: the last reaches to 8, but the padded axis ends at 6.
    assert y.tolist() == [[[0.75, 1.0, 0.5]]]
    assert "N = 2, 4" in reason(plan)
    op = plan.program.leg_steps[0].op
    assert isinstance(op, Pool)
    assert [(w.size, w.divisor) for w in op.shape.windows] == [(3, 4), (4, 4), (1, 2)]


def p15() -> None:
    x = np.ones((1, 1, 2, 2), np.float32)
    y, _ = run("AveragePool", x, kernel_shape=[2, 2], pads=[0, 0, 1, 1], count_include_pad=1)
    assert y.tolist() == [[[[1, 0.5], [0.5, 0.25]]]]
    flipped, _ = run("AveragePool", x, kernel_shape=[2, 2], pads=[1, 0, 0, 1], count_include_pad=1)
    assert flipped.tolist() == [[[[0.5, 0.25], [1, 0.5]]]]


def p16() -> None:
    x = np.random.default_rng(16).standard_normal((2, 3, 9, 8)).astype(np.float32)
    at = {"kernel_shape": [3, 2], "strides": [2, 3], "pads": [1, 0, 2, 1]}
    want = slow_pool(x, "average", [3, 2], [2, 3], [1, 1], [1, 0, 2, 1])
    for opset in (7, 9, 10, 11, 18, 19, 22):
        y, _ = run("AveragePool", x, opset=opset, **at)
        np.testing.assert_allclose(y, want, rtol=0, atol=1e-6)


def p18() -> None:
    x = np.arange(1, 6, dtype=np.float32).reshape(1, 1, 5)
    y, _ = run("AveragePool", x, kernel_shape=[2], strides=[2], ceil_mode=1, count_include_pad=1)
    assert y.tolist() == [[[1.5, 3.5, 5.0]]]


def p19() -> None:
    x = np.random.default_rng(19).standard_normal((1, 2, 9)).astype(np.float32)
    y, _ = run("MaxPool", x, kernel_shape=[3], dilations=[3])
    np.testing.assert_array_equal(y, slow_pool(x, "max", [3], [1], [3], [0, 0]))
    finding = refused("AveragePool", (1, 2, 9), opset=11, kernel_shape=[3], dilations=[3])
    assert finding.code == "ONNX-ATTRIBUTE"
    assert finding.got == "'dilations'"
    assert "kernel_shape" in finding.allowed


def p21() -> None:
    x = np.arange(49, dtype=np.float32).reshape(1, 1, 7, 7)
    y, plan = run("AveragePool", x, kernel_shape=[2, 2], strides=[3, 3], ceil_mode=1)
    assert y[0, 0, :, -1].tolist() == [9.5, 30.5, 48]
    assert y[0, 0, -1].tolist() == [42.5, 45.5, 48]
    assert "N = 1, 2, 4" in reason(plan)


def p23() -> None:
    x = np.random.default_rng(23).standard_normal((1, 1, 7)).astype(np.float32)
    y, plan = run("MaxPool", x, kernel_shape=[2], strides=[2], ceil_mode=1)
    assert plan.program.ledger.row("n").disposition == "emitted"
    np.testing.assert_array_equal(y, slow_pool(x, "max", [2], [2], [1], [0, 0], ceil_mode=True))


def p25() -> None:
    y, plan = run("MaxPool", NEGATIVE, kernel_shape=[3, 3], pads=[1] * 4)
    assert (y < 0).all()
    assert "left out by clipping" in reason(plan)
    pads = helper.make_tensor("pads", 7, [8], [0, 0, 1, 1, 0, 0, 1, 1])
    nodes = [
        helper.make_node("Pad", ["x", "pads"], ["padded"], name="pad"),
        helper.make_node("MaxPool", ["padded"], ["y"], name="n", kernel_shape=[3, 3]),
    ]
    edges = [helper.make_tensor_value_info(name, 1, [1, 1, 4, 4]) for name in "xy"]
    graph = helper.make_graph(nodes, "padded", edges[:1], edges[1:], [pads])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    (finding,) = plan_model(model, chosen()).findings
    assert finding.code == "ONNX-PAD-ZERO-MAX"
    assert finding.place.node == "n"


def p26() -> None:
    x = np.full((1, 1, 4), -100, np.int8)
    y, _ = run("MaxPool", x, kernel_shape=[3], pads=[1, 1])
    assert y.dtype == np.int8
    assert (y == -100).all()


def p27() -> None:
    assert identity("max", "int8") == -128
    x = np.full((1, 1, 5, 5), -128, np.int8)
    y, _ = run("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    assert (y == -128).all()


def p28() -> None:
    x = np.random.default_rng(28).integers(-2, 3, (2, 3, 5, 5)).astype(np.float32)
    model = one_node_model("MaxPool", x.shape, kernel_shape=[2, 2], strides=[2, 2], outputs=("y", "indices"))
    plan = plan_model(model, chosen())
    row = plan.program.ledger.row("n")
    if row.disposition == "host":
        assert "ArgPool" in row.reason
        with pytest.raises(LanefoldError, match="ONNX-STRICT"):
            plan_model(model, chosen(), strict=True)
        return
    assert row.route == {"cpu": "TCOLMAX + TCOLARGMAX", "a2a3": "TCOLMAX + TCOLARGMAX"}.get(ON[0], "max8 + find_index8")
    assert verify(plan.model, plan.program, {"x": x}).ok
    made = plan.program.run({"x": x})
    np.testing.assert_array_equal(x.reshape(-1)[made["indices"]], made["y"])


def p30() -> None:
    # No number of channels needs padding: the front door passes 728 on as they are.
    x = np.random.default_rng(30).standard_normal((1, 728, 4, 4)).astype(np.float32)
    y, plan = run("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    assert y.shape == (1, 728, 2, 2)
    assert plan.program.ledger.row("n").disposition == "emitted"


def p31() -> None:
    x = np.random.default_rng(31).standard_normal((1, 3, 7, 7)).astype(np.float32)
    wrong = plan_model(one_node_model("GlobalAveragePool", x.shape), FakeTarget(scale=1.001))
    result = verify(wrong.model, wrong.program, {"x": x})
    assert not result.ok
    row = result.rows[0]
    assert row.cell == (0, 0, 0, 0)
    assert row.ulp > 1000
    y, _ = run("GlobalAveragePool", x)
    np.testing.assert_allclose(y, x.astype(np.float64).mean((2, 3), keepdims=True), atol=1e-6)


CASES: dict[str, Callable[[], None]] = {
    "P1": p1,
    "P2": p2,
    "P3": p3,
    "P5": p5,
    "P7": p7,
    "P8": p8,
    "P10": p10,
    "P11": p11,
    "P12": p12,
    "P13": p13,
    "P15": p15,
    "P16": p16,
    "P18": p18,
    "P19": p19,
    "P21": p21,
    "P23": p23,
    "P25": p25,
    "P26": p26,
    "P27": p27,
    "P28": p28,
    "P30": p30,
    "P31": p31,
}


@pytest.mark.parametrize("case", CASES)
def test_case(case: str) -> None:
    CASES[case]()


def test_every_published_case_is_tested(reference_data: Path) -> None:
    text = (reference_data / "cases" / "user-pain.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| (P\d+) \|", text, re.MULTILINE)) == set(CASES)


@pytest.mark.parametrize("seed", range(60))
def test_random_poolings_agree_with_slow_model_and_onnxruntime(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, 4))
    op_type = ("MaxPool", "AveragePool", "LpPool")[seed % 3]
    kernel, strides, dilations = (rng.integers(1, high, rank).tolist() for high in (4, 4, 3))
    pads = [int(rng.integers(0, k)) for k in kernel * 2]
    sizes = [int(rng.integers(d * (k - 1) + 1, 10)) for k, d in zip(kernel, dilations, strict=True)]
    ceil_mode, include, p = bool(rng.integers(2)), bool(rng.integers(2)), int(rng.integers(1, 3))
    x = rng.standard_normal((1, 2, *sizes)).astype(np.float32)
    attributes: dict[str, Any] = {"kernel_shape": kernel, "strides": strides, "dilations": dilations, "pads": pads}
    attributes["ceil_mode"] = int(ceil_mode)
    if op_type == "AveragePool":
        attributes["count_include_pad"] = int(include)
    if op_type == "LpPool":
        attributes["p"] = p
    plan = plan_model(one_node_model(op_type, x.shape, opset=22, **attributes), chosen())
    result = verify(plan.model, plan.program, {"x": x})
    assert result.ok, [row for row in result.rows if not row.ok]
    operator = {"MaxPool": "max", "AveragePool": "average", "LpPool": "norm"}[op_type]
    want = slow_pool(x, operator, kernel, strides, dilations, pads, ceil_mode=ceil_mode, count_include_pad=include, p=p)
    assert plan.model.shape("y") == want.shape
    np.testing.assert_allclose(result.outputs["y"], want, rtol=1e-5, atol=1e-6)


def test_same_pads_of_dilated_windows_are_the_specifications() -> None:
    x = np.random.default_rng(3).standard_normal((1, 1, 8)).astype(np.float32)
    y, plan = run("MaxPool", x, kernel_shape=[3], strides=[2], dilations=[2], auto_pad="SAME_UPPER")
    np.testing.assert_array_equal(y, slow_pool(x, "max", [3], [2], [2], [1, 2]))
    assert [finding.code for finding in plan.findings] == ["ONNX-AUTO-PAD"]


def test_a_pool_behind_a_dropped_window_sees_the_right_extents() -> None:
    edges = [
        helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 1, 5, 5]),
        helper.make_tensor_value_info("z", onnx.TensorProto.FLOAT, [None] * 4),
    ]
    first = helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[1, 1], strides=[5, 5], ceil_mode=1)
    second = helper.make_node("MaxPool", ["y"], ["v"], kernel_shape=[1, 1], strides=[3, 3], ceil_mode=1)
    third = helper.make_node("GlobalMaxPool", ["v"], ["z"])
    graph = helper.make_graph([first, second, third], "chain", edges[:1], edges[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    plan = plan_model(model, chosen())
    assert [step.op.output_shape for step in plan.program.leg_steps] == [(1, 1, 1, 1)] * 3
    assert [node.op_type for node in plan.model.proto.graph.node] == ["MaxPool", "MaxPool", "GlobalMaxPool"]
    assert plan.model.proto.graph.node[0] == first
    x = np.arange(25, dtype=np.float32).reshape(1, 1, 5, 5)
    assert verify(plan.model, plan.program, {"x": x}).ok
