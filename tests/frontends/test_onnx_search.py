"""Searches, Expand and Gather as nodes and NumPy calls, against onnxruntime and NumPy; nodes that stay on the host."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import lanefold as lf
from lanefold.diagnostics import LanefoldError
from lanefold.frontends.onnx.verify import verify


def model(node, shape, outputs, opset=13, element=TensorProto.FLOAT, constants=(), inputs=()):
    graph = helper.make_graph(
        [node],
        "search",
        [helper.make_tensor_value_info("x", element, shape), *inputs],
        [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs],
        list(constants),
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    return onnx.shape_inference.infer_shapes(made)


def arg(op_type, shape, opset=13, **attributes):
    node = helper.make_node(op_type, ["x"], ["y"], name="n", **attributes)
    return model(node, shape, [("y", TensorProto.INT64)], opset)


def top_k(shape, k, *, opset=13, names=("v", "i"), element=TensorProto.FLOAT, **attributes):
    outputs = [(name, kind) for name, kind in zip(names, (element, TensorProto.INT64), strict=True) if name]
    if opset < 10:
        node = helper.make_node("TopK", ["x"], list(names), name="n", k=k, **attributes)
        return model(node, shape, outputs, opset, element)
    node = helper.make_node("TopK", ["x", "k"], list(names), name="n", **attributes)
    constant = numpy_helper.from_array(np.array([k], np.int64), "k")
    return model(node, shape, outputs, opset, element, [constant])


def agrees(made, x, target="trn1"):
    program = lf.compile(made, target=target)
    assert program.ledger.row("n").disposition == "rewritten"
    assert not [each for each in program.check() if each.severity == "error"]
    results = program.run({"x": x})
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    for value, wanted in zip(session.get_outputs(), session.run(None, {"x": x}), strict=True):
        np.testing.assert_array_equal(results[value.name], wanted)
        assert results[value.name].dtype == wanted.dtype
    return program


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_nodes_agree_with_onnxruntime(data) -> None:
    shape = data.draw(st.lists(st.sampled_from([1, 2, 5, 9, 30]), min_size=1, max_size=3))
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    x = np.random.default_rng(data.draw(st.integers(0, 99))).integers(-3, 4, shape).astype(np.float32)
    op_type = data.draw(st.sampled_from(["ArgMax", "ArgMin", "TopK"]))
    target = data.draw(st.sampled_from(["trn1", "trn2", "trn3"]))
    if op_type == "TopK":
        k = data.draw(st.integers(1, shape[axis]))
        made = top_k(shape, k, axis=axis, largest=data.draw(st.integers(0, 1)))
    else:
        last, keep = data.draw(st.integers(0, 1)), data.draw(st.integers(0, 1))
        made = arg(op_type, shape, axis=axis, keepdims=keep, select_last_index=last)
    agrees(made, x, target)


@pytest.mark.parametrize("opset", [9, 10, 11])
def test_top_k_of_every_operator_set(opset: int) -> None:
    agrees(top_k((4, 60), 11, opset=opset, axis=1), np.random.default_rng(1).standard_normal((4, 60), np.float32))


@pytest.mark.parametrize("opset", [7, 11, 12])
def test_arg_max_of_every_operator_set_takes_axis_0(opset: int) -> None:
    agrees(arg("ArgMax", (9, 4), opset), np.random.default_rng(1).standard_normal((9, 4), np.float32))


@pytest.mark.parametrize("name", ["v", "i"])
def test_one_output_of_top_k_is_read(name: str) -> None:
    x = np.random.default_rng(1).standard_normal((4, 60), np.float32)
    made = top_k((4, 60), 5)
    kept = [each for each in made.graph.output if each.name == name]
    del made.graph.output[:]
    made.graph.output.extend(kept)
    agrees(made, x)


def test_old_operator_sets_stay_on_the_host() -> None:
    """Cast of set 1 is not run by onnxruntime."""
    row = lf.compile(arg("ArgMax", (9, 4), 5)).ledger.row("n")
    assert (row.disposition, "operator set 5 has no Cast" in row.reason) == ("host", True)


def test_n13_vocabulary_row_in_a_model() -> None:
    x = np.random.default_rng(2).standard_normal((2, 37_984), np.float32)
    program = agrees(top_k((2, 37_984), 20), x)
    row = program.ledger.row("n")
    assert "chunks" in row.reason
    assert row.steps[1].endswith("Cast on the host")


def test_verification_covers_values_and_indices() -> None:
    made = top_k((3, 50), 10)
    checked = verify(made, lf.compile(made), {"x": np.random.default_rng(3).standard_normal((3, 50), np.float32)})
    assert checked.ok
    assert [row.node for row in checked.rows] == ["n/search: v", "n/search: v/index", "v", "i"]


def test_a_saved_program_answers_the_same(tmp_path) -> None:
    x = np.random.default_rng(4).standard_normal((3, 50), np.float32)
    program = lf.compile(top_k((3, 50), 20))
    again = lf.load(program.save(tmp_path / "p"))
    for name, value in program.run({"x": x}).items():
        np.testing.assert_array_equal(again.run({"x": x})[name], value)


@pytest.mark.parametrize(
    ("element", "reason"), [(TensorProto.INT32, "int32 would not keep"), (TensorProto.INT64, "no int64 numbers")]
)
def test_wide_integers_stay_on_the_host(element: int, reason: str) -> None:
    row = lf.compile(top_k((3, 50), 4, element=element)).ledger.row("n")
    assert row.disposition == "host"
    assert reason in row.reason


def test_k_that_only_a_run_tells_stays_on_the_host() -> None:
    node = helper.make_node("TopK", ["x", "k"], ["v", "i"], name="n")
    wanted = helper.make_tensor_value_info("k", TensorProto.INT64, [1])
    made = model(node, (3, 9), [("v", TensorProto.FLOAT), ("i", TensorProto.INT64)], inputs=[wanted])
    row = lf.compile(made).ledger.row("n")
    assert (row.disposition, "known only while the model runs" in row.reason) == ("host", True)


@settings(max_examples=20, deadline=None)
@given(st.data())
def test_expand_nodes_agree_with_onnxruntime(data) -> None:
    shape = data.draw(st.lists(st.sampled_from([1, 1, 3, 40]), min_size=1, max_size=3))
    wanted = [n if n > 1 else data.draw(st.sampled_from([1, 2, 9])) for n in shape]
    wanted = [data.draw(st.integers(1, 3)) for _ in range(data.draw(st.integers(0, 1)))] + wanted
    node = helper.make_node("Expand", ["x", "s"], ["y"], name="n")
    extents = numpy_helper.from_array(np.array(wanted, np.int64), "s")
    made = model(node, shape, [("y", TensorProto.FLOAT)], constants=[extents])
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    program = lf.compile(made)
    np.testing.assert_array_equal(program.run({"x": x})["y"], np.broadcast_to(x, wanted))
    assert program.ledger.row("n").disposition == ("emitted" if np.prod(wanted) != np.prod(shape) else "host")
    assert verify(made, program, {"x": x}).ok


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("chosen", [0, [-1, 2], [[1, 0], [-3, 2]]])
def test_gather_nodes_agree_with_numpy(axis: int, chosen) -> None:
    node = helper.make_node("Gather", ["x", "i"], ["y"], name="n", axis=axis)
    indices = numpy_helper.from_array(np.array(chosen, np.int64), "i")
    made = model(node, (3, 5, 4), [("y", TensorProto.FLOAT)], constants=[indices])
    x = np.random.default_rng(1).standard_normal((3, 5, 4)).astype(np.float32)
    program = agrees(made, x)
    assert verify(made, program, {"x": x}).ok
    assert program.ledger.row("n").steps[-1].startswith("n/fetch: Gather by pool_buffer_load")


def test_numpy_calls() -> None:
    x = np.random.default_rng(5).integers(-9, 9, (4, 3, 50)).astype(np.float32)
    np.testing.assert_array_equal(lf.argmax(x, 2), x.argmax(2))
    np.testing.assert_array_equal(lf.argmax(x, keepdims=True), x.argmax(keepdims=True))
    np.testing.assert_array_equal(lf.argmax(x, 0, select_last_index=True), 3 - x[::-1].argmax(0))
    np.testing.assert_array_equal(lf.top8(x, target="trn2"), -np.sort(-x, -1)[..., :8])
    values, indices = lf.topk(x, 13, largest=False, opcodes="headers")
    np.testing.assert_array_equal(indices, np.argsort(x, -1, kind="stable")[..., :13])
    np.testing.assert_array_equal(values, np.sort(x, -1)[..., :13])


def test_numpy_expand() -> None:
    x = np.random.default_rng(6).standard_normal((3, 1, 5)).astype(np.float32)
    for shape in ((3, 70, 5), (2, 3, 1, 5), (3, 1, 5), (4, 2, 3, 8, 5)):
        np.testing.assert_array_equal(lf.expand(x, shape), np.broadcast_to(x, shape))
    np.testing.assert_array_equal(lf.expand(np.float32(3), (4,)), np.full(4, 3, np.float32))
    with pytest.raises(LanefoldError, match="does not expand"):
        lf.expand(x, (2, 2, 5))
    with pytest.raises(LanefoldError, match="does not expand"):
        lf.expand(x, (5,))


def test_numpy_calls_refuse_what_cannot_be() -> None:
    with pytest.raises(LanefoldError, match="cannot take 8 of 5 elements"):
        lf.top8(np.zeros((2, 5), np.float32))
    with pytest.raises(LanefoldError, match="int32 would not keep"):
        lf.argmax(np.zeros((2, 5), np.int32), 1)
