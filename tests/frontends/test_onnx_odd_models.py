"""Models in unusual forms: nothing for the leg, sequences between steps, sparse constants, interfering names."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import lanefold as lf
from lanefold.diagnostics import LanefoldError
from lanefold.frontends.onnx import read_model
from lanefold.frontends.onnx.routes import node_routes
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
