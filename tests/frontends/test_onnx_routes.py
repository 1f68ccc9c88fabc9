"""Routes of one node: the candidates, and what stands against the illegal ones."""

from __future__ import annotations

import pytest
from fake_target import one_node_model

from lanefold.diagnostics import LanefoldError
from lanefold.frontends.onnx import read_model
from lanefold.frontends.onnx.routes import node_routes
from lanefold.targets import target


def test_both_paths_of_a_reduction() -> None:
    model = read_model(one_node_model("ReduceSum", (64, 5), axes=[0], opset=11))
    found = node_routes(model, "n", target("trn1"))
    ((_, candidates),) = found.pieces
    assert [(each.name, each.code is not None) for each in candidates] == [("free-axis", True), ("cross-lane", True)]
    assert sum(each.chosen for each in candidates) == 1
    preferred = node_routes(model, "n", target("trn1"), "cross-lane")
    assert [each.chosen for each in preferred.pieces[0][1]] == [False, True]


def test_an_illegal_path_names_its_rule_and_its_cure() -> None:
    model = read_model(one_node_model("ReduceProd", (64, 5), axes=[0], opset=11))
    ((_, (_, across)),) = node_routes(model, "n", target("trn2")).pieces
    assert across.code is None
    assert across.against[0].code == "TPB-LOWER-CROSS-LANE"
    assert across.against[0].cures


def test_a_host_node_says_why() -> None:
    found = node_routes(
        read_model(one_node_model("LpPool", (1, 1, 4, 4), kernel_shape=[2, 2], p=3)),
        "n",
        target("trn1"),
    )
    assert found.host_reason == "p = 3; the leg sums magnitudes (p = 1) and squares (p = 2)"


def test_an_unknown_node_is_reported() -> None:
    model = read_model(one_node_model("ReduceSum", (4, 5), axes=[0], opset=11))
    with pytest.raises(LanefoldError, match=r"ONNX-NODE. the model has no node 'm'"):
        node_routes(model, "m", target("trn1"))
