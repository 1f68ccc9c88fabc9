"""Dividing graphs: control flow, constants, several branches, and what happens at the edges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from fake_target import FakeTarget
from onnx import TensorProto, helper, numpy_helper

from lanefold.diagnostics import LanefoldError
from lanefold.frontends.onnx import compile_model, plan_model, verify
from lanefold.frontends.onnx.host import names_read
from lanefold.host import HostStep
from lanefold.program import LegStep

MAP = [1, 2, 6, 6]


def model_of(
    nodes: Sequence[onnx.NodeProto],
    outputs: dict[str, Any],
    constants: dict[str, np.ndarray] | None = None,
    inputs: dict[str, Any] | None = None,
    opset: int = 18,
) -> onnx.ModelProto:
    graph = helper.make_graph(
        list(nodes),
        "graph",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (inputs or {"x": MAP}).items()],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in outputs.items()],
        [numpy_helper.from_array(value, name) for name, value in (constants or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def pool(source: str, result: str, op_type: str = "MaxPool", **attributes: Any) -> onnx.NodeProto:
    at = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]} | attributes
    return helper.make_node(op_type, [source], [result], name=f"{op_type}_{result}", **at)


def feeds() -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(5).standard_normal(MAP).astype(np.float32)}


def kinds(program: Any) -> str:
    return "".join("L" if isinstance(step, LegStep) else "H" for step in program.steps)


def test_parallel_branches_share_host_steps() -> None:
    nodes = [helper.make_node("Relu", ["x"], ["r"])]
    for branch in "abc":
        nodes += [
            helper.make_node("Exp", ["r"], [f"{branch}1"]),
            pool(f"{branch}1", f"{branch}2"),
            helper.make_node("Neg", [f"{branch}2"], [f"{branch}3"]),
        ]
    nodes.append(helper.make_node("Concat", ["a3", "b3", "c3"], ["y"], axis=1))
    plan = plan_model(model_of(nodes, {"y": [None] * 4}), FakeTarget())
    assert kinds(plan.program) == "HLLLH"
    assert verify(plan.model, plan.program, feeds()).ok
    assert len(plan.program.ledger) == len(nodes)


def test_a_host_branch_beside_the_leg_joins_the_first_step() -> None:
    nodes = [
        pool("x", "a"),
        helper.make_node("Exp", ["x"], ["b"]),
        helper.make_node("Exp", ["b"], ["c"]),
        helper.make_node("Add", ["a", "c"], ["y"]),
    ]
    plan = plan_model(model_of(nodes, {"y": MAP}), FakeTarget())
    assert kinds(plan.program) == "HLH"
    assert verify(plan.model, plan.program, feeds()).ok


def test_leg_only() -> None:
    nodes = [pool("x", "a"), pool("a", "y", "AveragePool")]
    plan = plan_model(model_of(nodes, {"y": MAP}), FakeTarget())
    assert kinds(plan.program) == "LL"
    assert verify(plan.model, plan.program, feeds()).ok


def test_host_only() -> None:
    plan = plan_model(model_of([helper.make_node("Exp", ["x"], ["y"])], {"y": MAP}), FakeTarget())
    assert kinds(plan.program) == "H"
    assert verify(plan.model, plan.program, feeds()).ok
    assert plan.program.ledger.rows[0].reason == "Exp is no pooling, reduction or expansion of the leg"


def test_constants_are_computed_where_they_are_read() -> None:
    nodes = [
        helper.make_node("ConstantOfShape", ["shape"], ["w"], value=helper.make_tensor("v", 1, [1], [2.0])),
        helper.make_node("Exp", ["w"], ["e"]),
        pool("x", "a"),
        helper.make_node("Mul", ["a", "e"], ["b"]),
        pool("b", "y"),
    ]
    plan = plan_model(model_of(nodes, {"y": MAP}, {"shape": np.asarray(MAP)}), FakeTarget())
    assert kinds(plan.program) == "LHL"
    (host,) = [step for step in plan.program.steps if isinstance(step, HostStep)]
    assert host.inputs == ("a",)
    assert verify(plan.model, plan.program, feeds()).ok


def test_a_constant_read_by_the_leg_is_made_by_the_host() -> None:
    nodes = [
        helper.make_node("ConstantOfShape", ["shape"], ["w"], value=helper.make_tensor("v", 1, [1], [2.0])),
        pool("w", "a"),
        helper.make_node("Add", ["x", "a"], ["y"]),
    ]
    plan = plan_model(model_of(nodes, {"y": MAP}, {"shape": np.asarray(MAP)}), FakeTarget())
    assert kinds(plan.program) == "HLH"
    assert verify(plan.model, plan.program, feeds()).ok


def test_a_pool_over_an_initializer_stays_on_the_host() -> None:
    nodes = [pool("w", "a"), helper.make_node("Add", ["x", "a"], ["y"])]
    plan = plan_model(model_of(nodes, {"y": MAP}, {"w": np.ones(MAP, np.float32)}), FakeTarget())
    assert "its input w is a constant" in plan.program.ledger.rows[0].reason
    assert verify(plan.model, plan.program, feeds()).ok


def test_host_models_hold_only_their_own_constants() -> None:
    nodes = [
        helper.make_node("Mul", ["x", "w1"], ["a"]),
        pool("a", "b"),
        helper.make_node("Mul", ["b", "w2"], ["y"]),
    ]
    weights = {name: np.full(MAP, 2.0, np.float32) for name in ("w1", "w2", "unused")}
    program = compile_model(model_of(nodes, {"y": MAP}, weights), FakeTarget())
    held = [
        [tensor.name for tensor in onnx.load_from_string(step.model_bytes).graph.initializer]
        for step in program.steps
        if isinstance(step, HostStep)
    ]
    assert held == [["w1"], ["w2"]]


def test_inner_graphs_read_from_outside() -> None:
    def branch(name: str, op_type: str) -> onnx.GraphProto:
        node = helper.make_node(op_type, ["pooled", "w"], [f"{name}_out"])
        return helper.make_graph([node], name, [], [helper.make_tensor_value_info(f"{name}_out", 1, MAP)])

    choose = helper.make_node("If", ["flag"], ["y"], then_branch=branch("t", "Add"), else_branch=branch("e", "Sub"))
    assert names_read(choose) == ["flag", "pooled", "w"]
    nodes = [
        helper.make_node("ReduceSum", ["x"], ["s"], keepdims=0, name="total"),
        helper.make_node("Greater", ["s", "zero"], ["flag"]),
        pool("x", "pooled"),
        choose,
    ]
    constants = {"w": np.ones(MAP, np.float32), "zero": np.asarray(0, np.float32)}
    plan = plan_model(model_of(nodes, {"y": MAP}, constants), FakeTarget())
    assert kinds(plan.program) == "LLH"
    assert verify(plan.model, plan.program, feeds()).ok


def test_results_that_are_inputs_or_constants() -> None:
    model = model_of([pool("x", "y")], {"y": MAP, "w": [2]}, {"w": np.asarray([1, 2], np.float32)})
    plan = plan_model(model, FakeTarget())
    result = plan.program.run(feeds())
    assert result["w"].tolist() == [1, 2]
    assert kinds(plan.program) == "LH"


def test_inputs_with_a_value_of_their_own_need_no_feed() -> None:
    model = model_of(
        [pool("x", "a"), helper.make_node("Mul", ["a", "w"], ["y"])],
        {"y": MAP},
        {"w": np.asarray([3], np.float32)},
        {"x": MAP, "w": [1]},
        opset=9,
    )
    plan = plan_model(model, FakeTarget())
    assert [info.name for info in plan.program.inputs] == ["x"]
    assert verify(plan.model, plan.program, feeds()).ok
    with pytest.raises(LanefoldError, match="no input 'w'"):
        plan.program.run(feeds() | {"w": np.asarray([4], np.float32)})


def test_unnamed_and_doubly_named_nodes_get_names_of_their_own() -> None:
    nodes = [
        pool("x", "a"),
        pool("a", "b"),
        helper.make_node("Exp", ["b"], ["c"]),
        helper.make_node("Exp", ["c"], ["y"]),
    ]
    nodes[1].name = nodes[0].name
    nodes[2].name = "Exp_3"
    names = [row.node for row in compile_model(model_of(nodes, {"y": MAP}), FakeTarget()).ledger]
    assert names == ["MaxPool_a", "MaxPool_1", "Exp_3", "Exp_3_2"]


def test_pooling_functions_of_the_model_run_on_the_host() -> None:
    function = helper.make_function(
        "local", "Twice", ["a"], ["b"], [helper.make_node("Add", ["a", "a"], ["b"])], [helper.make_opsetid("", 18)]
    )
    nodes = [pool("x", "a"), helper.make_node("Twice", ["a"], ["y"], domain="local")]
    model = model_of(nodes, {"y": MAP})
    model.functions.append(function)
    model.opset_import.append(helper.make_opsetid("local", 1))
    plan = plan_model(model, FakeTarget())
    assert kinds(plan.program) == "LH"
    assert verify(plan.model, plan.program, feeds()).ok


def test_strict_lists_every_node_it_refuses() -> None:
    nodes = [
        helper.make_node("Exp", ["x"], ["e"]),
        helper.make_node("LpPool", ["e"], ["a"], kernel_shape=[2, 2], p=3, name="first"),
        helper.make_node("Softmax", ["a"], ["y"], name="second"),
    ]
    with pytest.raises(LanefoldError) as caught:
        plan_model(model_of(nodes, {"y": [None] * 4}), FakeTarget(refused=("add",)), strict=True)
    assert [finding.place.node for finding in caught.value.diagnostics] == ["first", "second"]
    assert {finding.code for finding in caught.value.diagnostics} == {"ONNX-STRICT"}
    assert not caught.value.usage


def test_the_source_is_not_changed() -> None:
    model = model_of([pool("x", "y", ceil_mode=1)], {"y": [None] * 4})
    before = model.SerializeToString()
    compile_model(model, FakeTarget())
    assert model.SerializeToString() == before


def with_foreign_operator(nodes: Sequence[onnx.NodeProto], outputs: dict[str, Any]) -> onnx.ModelProto:
    """A model with an operator that onnxruntime knows and the onnx package does not, so its result has no type."""
    model = model_of([pool("x", "a"), helper.make_node("Gelu", ["a"], ["g"], domain="com.microsoft"), *nodes], outputs)
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    return model


def test_results_without_a_type_stay_inside_one_host_step() -> None:
    late = [pool("a", "b"), helper.make_node("Add", ["g", "b"], ["y"])]
    plan = plan_model(with_foreign_operator(late, {"y": MAP}), FakeTarget())
    assert kinds(plan.program) == "LLH"
    assert verify(plan.model, plan.program, feeds()).ok


def test_results_without_a_type_cannot_pass_between_steps() -> None:
    both = [
        helper.make_node("Add", ["a", "g"], ["u"]),
        pool("a", "b"),
        helper.make_node("Add", ["g", "b"], ["y"]),
    ]
    with pytest.raises(LanefoldError) as caught:
        plan_model(with_foreign_operator(both, {"u": MAP, "y": MAP}), FakeTarget())
    (finding,) = caught.value.diagnostics
    assert (finding.code, finding.place.operand) == ("ONNX-TYPE", "g")
    cured = with_foreign_operator(both, {"u": MAP, "y": MAP})
    cured.graph.value_info.append(helper.make_tensor_value_info("g", TensorProto.FLOAT, MAP))
    plan = plan_model(cured, FakeTarget())
    assert verify(plan.model, plan.program, feeds()).ok
