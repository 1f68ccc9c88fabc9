"""Names of instructions: every row of a price names one instruction, after the step that it is of."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

import lanefold as lf


@pytest.fixture(scope="module")
def soft() -> onnx.ModelProto:
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 64]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Softmax", ["x"], ["y"], "soft", axis=1)], "g", ends[:1], ends[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


@pytest.mark.parametrize("target", ["trn1", "trn3", "a2a3", "a5"])
def test_rows_name_the_pieces_of_a_node(soft: onnx.ModelProto, target: str, tmp_path: Path) -> None:
    program = lf.compile(soft, target)
    rows = program.cost().rows
    names = [row.instruction for row in rows]
    assert len(set(names)) == len(names) > 1
    assert {row.node for row in rows} == {"soft"}
    steps = [step.name for step in program.leg_steps]
    assert list(dict.fromkeys(name.partition(" ")[0].rpartition(".")[0] for name in names)) == steps
    again = lf.load(program.save(tmp_path / "p"))
    assert [row.instruction for row in again.cost().rows] == names  # type: ignore[attr-defined]


def test_steps_of_the_ledger_are_the_beginnings_of_names(soft: onnx.ModelProto) -> None:
    program = lf.compile(soft, "trn1")
    pieces = [step.partition(":")[0] for step in program.ledger.row("soft").steps if "on the host" not in step]
    assert {row.instruction.rpartition(".")[0] for row in program.cost().rows} <= set(pieces)
