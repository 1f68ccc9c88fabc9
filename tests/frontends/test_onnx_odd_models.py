"""Models in unusual forms: nothing for the leg, sequences between steps, sparse constants, interfering names."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.capi.onnxruntime_pybind11_state import Fail

import lanefold as lf
from lanefold.diagnostics import LanefoldError
from lanefold.frontends.onnx import read_model, verify
from lanefold.frontends.onnx.comparing import compare
from lanefold.frontends.onnx.routes import node_routes
from lanefold.host import run_session
from lanefold.targets import target as find_target

TARGETS = ("trn1", "trn2", "trn3", "cpu", "a2a3", "a5")
X = np.random.default_rng(0).standard_normal((2, 3, 8, 9)).astype(np.float32)


def made(nodes: list[onnx.NodeProto], outputs: list[onnx.ValueInfoProto], **parts: object) -> onnx.ModelProto:
    """A model of nodes on the float32 input x of extents 2×3×8×9."""
    source = helper.make_tensor_value_info("x", TensorProto.FLOAT, X.shape)
    graph = helper.make_graph(nodes, "g", [source], outputs, **parts)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def float32(name: str, *shape: int) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


@pytest.mark.parametrize("target", TARGETS)
def test_a_wrong_preference_is_refused_where_nothing_is_lowered(target: str) -> None:
    model = made([helper.make_node("Relu", ["x"], ["y"], name="relu")], [float32("y", *X.shape)])
    other = "row" if target.startswith("trn") else "cross-lane"
    for prefer in (other, "bogus", "", "COST"):
        for ask in (
            lambda prefer=prefer: lf.compile(model, target=target, prefer=prefer),
            lambda prefer=prefer: node_routes(read_model(model), "relu", find_target(target), prefer),
        ):
            with pytest.raises(LanefoldError, match="there is no preference") as caught:
                ask()
            (finding,) = caught.value.diagnostics
            assert finding.code.endswith("LOWER-PREFER")
            assert caught.value.usage
    assert lf.compile(model, target=target, prefer="cost").ledger.counts["host"] == 1


def indexed(*indices: object) -> onnx.SparseTensorProto:
    """A sparse constant w of extents 2×3 with the values 1, 2 and 3 in the given places."""
    values = numpy_helper.from_array(np.array([1, 2, 3], np.float32), "w")
    return helper.make_sparse_tensor(values, numpy_helper.from_array(np.array(indices, np.int64), "places"), [2, 3])


@pytest.mark.parametrize("places", [(0, 2, 4), ((0, 0), (0, 2), (1, 1))])
@pytest.mark.parametrize("target", ["trn1", "a5"])
def test_sparse_constants_are_read_folded_verified_and_handed_out(target: str, places: tuple[object, ...]) -> None:
    nodes = [
        helper.make_node("ReduceMax", ["w"], ["m"], keepdims=0),
        helper.make_node("MaxPool", ["x"], ["p"], kernel_shape=[3, 3]),
        helper.make_node("Add", ["p", "m"], ["y"]),
    ]
    outputs = [float32("y", 2, 3, 6, 7), float32("w", 2, 3)]
    model = made(nodes, outputs, sparse_initializer=[indexed(*places)])
    program = lf.compile(model, target=target)
    out = program.run({"x": X})
    assert out["w"].tolist() == [[1, 0, 2], [0, 3, 0]]
    windows = np.lib.stride_tricks.sliding_window_view(X, (3, 3), (2, 3)).max((-1, -2))
    assert (out["y"] == windows + np.float32(3)).all()
    assert verify(model, program, {"x": X}).ok


def test_a_sparse_constant_of_too_many_elements_is_refused() -> None:
    tensor = indexed(0, 2, 4)
    tensor.dims[:] = [1 << 20, 1 << 20]
    model = made([helper.make_node("ReduceMax", ["w"], ["y"])], [float32("y", 1, 1)], sparse_initializer=[tensor])
    with pytest.raises(LanefoldError, match="the sparse constant w has 1099511627776 elements") as caught:
        lf.compile(model)
    assert caught.value.usage


def test_a_sparse_constant_of_an_inner_graph_stays_in_it() -> None:
    branches = [
        helper.make_graph(
            [helper.make_node("ReduceMax", [read], ["m"], keepdims=0)],
            name,
            [],
            [float32("m")],
            **({"sparse_initializer": [indexed(0, 2, 4)]} if read == "w" else {}),
        )
        for name, read in (("then", "w"), ("else", "p"))
    ]
    nodes = [
        helper.make_node("MaxPool", ["x"], ["p"], kernel_shape=[3, 3]),
        helper.make_node("ReduceMax", ["p"], ["big"], keepdims=0),
        helper.make_node("Greater", ["big", "big"], ["no"]),
        helper.make_node("If", ["no"], ["y"], then_branch=branches[0], else_branch=branches[1]),
    ]
    program = lf.compile(made(nodes, [float32("y")]))
    assert all("w" not in step.inputs for step in program.steps)


@pytest.mark.parametrize("extents", [[1, 1, 1], [1, 2]])
@pytest.mark.parametrize("target", ["trn1", "cpu"])
def test_a_sequence_passes_from_step_to_step_and_out(target: str, extents: list[int], tmp_path) -> None:
    nodes = [
        helper.make_node("SplitToSequence", ["x", "parts"], ["s"], axis=1),
        helper.make_node("ReduceSum", ["x"], ["sum"], keepdims=0),
        helper.make_node("Cast", ["sum"], ["whole"], to=TensorProto.INT64),
        helper.make_node("Sub", ["whole", "whole"], ["zero"]),
        helper.make_node("SequenceAt", ["s", "zero"], ["first"]),
        helper.make_node("ReduceMax", ["first"], ["y"]),
    ]
    parts = numpy_helper.from_array(np.array(extents, np.int64), "parts")
    outputs = [float32("y", 1, 1, 1, 1), helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, None)]
    model = made(nodes, outputs, initializer=[parts])
    program = lf.compile(model, target=target)
    program.save(tmp_path / "out")
    for each in (program, lf.load(tmp_path / "out")):
        out = each.run({"x": X})
        assert out["y"].item() == X[:, :1].max()
        assert [part.shape[1] for part in out["s"]] == extents
        assert (np.concatenate(out["s"], axis=1) == X).all()
    outcome = verify(model, program, {"x": X})
    assert outcome.ok
    assert [row.node for row in outcome.rows if row.kind == "output"] == ["y", "s"]


def test_sequences_are_compared_element_by_element() -> None:
    left = [np.zeros(3, np.float32), np.zeros((2, 2), np.float32)]
    right = [np.zeros(3, np.float32), np.array([[0, 0], [4, 0]], np.float32)]
    assert compare("s", "output", "", left, list(left), 0.0).ok
    assert compare("s", "output", "", [], [], 0.0).ok
    row = compare("s", "output", "", left, right, 0.0)
    assert (row.ok, row.cell, row.got, row.wanted) == (False, (1, 1, 0), "0.0", "4.0")
    row = compare("s", "output", "", left, left[:1], 0.0)
    assert (row.ok, row.got, row.wanted) == (False, "a sequence of 2", "a sequence of 1")
    row = compare("s", "output", "", left[0], left, 0.0)
    assert (row.ok, row.got, row.wanted) == (False, "float32 array", "a sequence of 2")


def test_only_what_onnxruntime_raises_is_told_as_its_refusal() -> None:
    class Session:
        def __init__(self, error: Exception) -> None:
            self.error = error

        def get_outputs(self) -> list[object]:
            return []

        get_inputs = get_outputs

        def run(self, *_: object) -> None:
            raise self.error

    for error in (Fail("no kernel"), RuntimeError("no type"), ValueError("no input")):
        with pytest.raises(LanefoldError, match=f"onnxruntime cannot run step: {error}"):
            run_session(Session(error), ["y"], {}, "step")
    for defect in (KeyError("y"), AttributeError("shape"), TypeError("of ours"), MemoryError()):
        with pytest.raises(type(defect)):
            run_session(Session(defect), ["y"], {}, "step")
