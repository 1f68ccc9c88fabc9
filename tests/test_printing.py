"""What public objects print: a few lines that say what they are, never the wall of their fields."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import lanefold as lf
from lanefold.frontends.onnx import plan_model, verify
from lanefold.pto.cost import cost
from lanefold.targets import target

_LINES, _CHARACTERS = 6, 200


@pytest.fixture(scope="module")
def model() -> onnx.ModelProto:
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 64]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Softmax", ["x"], ["y"], "soft", axis=1)], "g", ends[:1], ends[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


def short(value: object) -> None:
    for text in (str(value), repr(value)):
        lines = text.splitlines()
        assert len(lines) <= _LINES, text
        assert max(map(len, lines)) <= _CHARACTERS, text
        assert " object at 0x" not in text
    assert len(repr(value).splitlines()) == 1


@pytest.mark.parametrize("name", ["trn1", "trn3", "a2a3", "cpu"])
def test_objects_of_a_compiled_model_print_in_a_few_lines(model: onnx.ModelProto, name: str) -> None:
    plan = plan_model(model, target(name))
    program = plan.program
    shown = [plan, plan.model, program, program.target, program.target.machine(), program.ledger, program.cost()]
    shown += [program.timeline(), *program.leg_steps, *(step.code for step in program.leg_steps)]
    shown += [code.stream for step in program.leg_steps if hasattr(code := step.code, "stream")]
    shown += [stage.program for step in program.leg_steps for stage in getattr(step.code, "stages", ())]
    shown.append(verify(model, program, {"x": np.ones((4, 64), np.float32)}))
    for each in shown:
        short(each)


def test_a_program_says_what_it_is(model: onnx.ModelProto) -> None:
    assert str(lf.compile(model, "trn1")).splitlines() == [
        "program g for trn1; readings: opcodes reference, numerics birsim",
        "1 node: 0 emitted, 1 rewritten, 0 host, 0 refused",
        "3 leg steps of 3 bundles, 192 bytes, 192 cycles; 2 host steps",
        "x float32 4×64 → y float32 4×64",
    ]
    assert repr(lf.compile(model, "trn1")) == "<Program g for trn1: 1 node, 3 bundles, 192 bytes>"


def test_a_verification_that_failed_names_what_differs(model: onnx.ModelProto) -> None:
    program = lf.compile(model, "trn1")
    x = np.linspace(0, 1, 256, dtype=np.float32).reshape(4, 64)
    found = verify(model, program, {"x": x}, tolerance=0.0)
    told = str(found).splitlines()
    assert told[0].startswith(f"verification {'passed' if found.ok else 'FAILED'}: 3 of 3 leg results")
    assert len(told) == 1 + sum(not row.ok for row in found.rows)


def test_tables_of_sweeps_and_prices_of_tiles_print_in_a_few_lines() -> None:
    spec = {"ops": ["TROWSUM"], "dtypes": ["f32"], "targets": ["a2a3"], "shapes": {"rows": [64, 128], "cols": [64]}}
    table = lf.sweep(spec)
    short(table)
    assert str(table).splitlines() == [
        "sweep: 2 configurations, 2 rows",
        "TROWSUM f32 on a2a3, model calibrated",
    ]
    short(cost("TROWSUM", "f32", 64, 64))
