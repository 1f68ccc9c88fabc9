"""The published light networks, compiled, run by their bytes and compared with onnxruntime, for each generation."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from lanefold.frontends.onnx import plan_model, random_inputs, verify
from lanefold.targets import target

LIGHT = sorted((Path(onnx.__file__).parent / "backend" / "test" / "data" / "light").glob("*.onnx"))
POOLS = {"MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool", "LpPool", "GlobalLpPool"}


def test_all_nine_are_there() -> None:
    assert len(LIGHT) == 9


@pytest.mark.parametrize("name", ["trn1", "trn2", "trn3"])
@pytest.mark.parametrize("path", LIGHT, ids=lambda path: path.stem)
def test_light_model(path: Path, name: str) -> None:
    plan = plan_model(path, target(name))
    ledger = plan.program.ledger
    graph = onnx.load(path).graph
    assert sum(ledger.counts.values()) == len(ledger) == len(graph.node)
    assert {row.disposition for row in ledger if row.op_type in POOLS} == {"emitted"}
    assert [finding for finding in plan.program.check() if finding.severity == "error"] == []
    result = verify(plan.model, plan.program, random_inputs(plan.model))
    assert result.ok, [row for row in result.rows if not row.ok]
    exact = [row for row in result.rows if row.kind == "exact"]
    assert len(exact) == sum(node.op_type in ("MaxPool", "Softmax") for node in graph.node)
    assert all(row.largest == 0 for row in exact)
    assert all(row.relative <= 1e-5 for row in result.rows)
