"""The light networks of the onnx package: divided, run and verified with an op evaluator in place of a target."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_target import FakeTarget

from lanefold.frontends.onnx import compile_model, plan_model, random_inputs, verify
from lanefold.host import HostStep
from lanefold.program import LegStep

# Pools, softmaxes of a maximum and a sum, and host sessions; every leg step feeds the next one through a session.
EXPECTED = {
    "light_bvlc_alexnet": (3, 1, 6),
    "light_densenet121": (5, 0, 6),
    "light_inception_v1": (14, 1, 17),
    "light_inception_v2": (13, 1, 16),
    "light_resnet50": (2, 1, 5),
    "light_shufflenet": (5, 1, 8),
    "light_squeezenet": (4, 1, 6),
    "light_vgg19": (5, 1, 8),
    "light_zfnet512": (3, 1, 6),
}

LIGHTEST = tuple(name for name in EXPECTED if name not in ("light_bvlc_alexnet", "light_vgg19", "light_zfnet512"))
"""Networks whose weights are small; the heavy ones run on the real targets and are only divided here."""


@pytest.mark.parametrize("name", EXPECTED)
def test_division(name: str, light_models: dict[str, Path], target: FakeTarget) -> None:
    plan = plan_model(light_models[name], target)
    program = plan.program
    legs = [step for step in program.steps if isinstance(step, LegStep)]
    hosts = [step for step in program.steps if isinstance(step, HostStep)]
    pools, softmaxes, sessions = EXPECTED[name]
    assert (len(legs), len(hosts)) == (pools + 2 * softmaxes, sessions)
    rest = len(program.ledger) - pools - softmaxes
    assert program.ledger.counts == {"emitted": pools, "rewritten": softmaxes, "host": rest, "refused": 0}
    assert [row.node for row in program.ledger] == [node.name for node in plan.model.nodes]
    assert len({row.node for row in program.ledger}) == len(plan.model.proto.graph.node)
    assert all(row.reason for row in program.ledger)
    assert program.ledger.cycles == (10.0 * len(legs), 14.0 * len(legs))
    assert plan.findings == ()


@pytest.mark.parametrize("name", LIGHTEST)
def test_run_and_verify(name: str, light_models: dict[str, Path], target: FakeTarget) -> None:
    program = compile_model(light_models[name], target)
    result = verify(light_models[name], program, random_inputs(light_models[name], 1))
    assert result.ok, [row for row in result.rows if not row.ok]
    assert [row.kind for row in result.rows].count("output") == 1
    assert len(result.rows) == len(program.leg_steps) + 1
    assert all(row.largest == 0 for row in result.rows if row.kind == "exact")
    assert result.line.startswith(
        f"{len(program.leg_steps)} of {len(program.leg_steps)} leg results and 1 of 1 outputs"
    )


def test_weights_do_not_travel_between_sessions(light_models: dict[str, Path], target: FakeTarget) -> None:
    program = compile_model(light_models["light_resnet50"], target)
    hosts = [step for step in program.steps if isinstance(step, HostStep)]
    assert [len(step.inputs) for step in hosts] == [1, 1, 1, 2, 2]
    assert [len(step.outputs) for step in hosts] == [1, 1, 1, 1, 1]
