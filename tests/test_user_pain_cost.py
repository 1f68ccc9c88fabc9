"""What users of other tools met when they asked for a cost, row by row, and what is answered here instead."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper
from typer.testing import CliRunner

import lanefold as lf
from lanefold.cli import app
from lanefold.diagnostics import LanefoldError
from lanefold.program import ProgramCost
from lanefold.program.timeline import timeline
from lanefold.pto import TileType
from lanefold.pto.cost import calibrated, cost, cost_columns, parameters
from lanefold.pto.program import Compute, GlobalArray, Load, Program, Store, TileSlot
from lanefold.report.trace import trace
from lanefold.tpb import Access, Instruction
from lanefold.tpb.cost import price
from tests.pto.accuracy import errors_by_op, grown, read_points


def call(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, [str(each) for each in arguments])
    if isinstance(result.exception, LanefoldError):
        raise result.exception
    return result.exit_code, result.stdout


@pytest.fixture(scope="module")
def model() -> onnx.ModelProto:
    nodes = [
        helper.make_node("ReduceSum", ["x", "axes"], ["y"], "sum", keepdims=1),
        helper.make_node("ReduceMax", ["x", "axes"], ["z"], "max", keepdims=1),
    ]
    inputs = [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [4, 8, 64])]
    outputs = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [4, 8, 1]) for name in ("y", "z")]
    graph = helper.make_graph(
        nodes, "g", inputs, outputs, [helper.make_tensor("axes", onnx.TensorProto.INT64, [1], [2])]
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


def kernel(op: str = "TROWPROD", cols: int = 64) -> Program:
    """A sum that every model knows, and an operation that some do not."""
    slots = [
        TileSlot("a", TileType("f32", 64, cols, 64, cols)),
        TileSlot("t", TileType("f32", 64, cols, 64, cols)),
        TileSlot("r", TileType("f32", 64, 1, 64, 1, "DN")),
        TileSlot("s", TileType("f32", 64, 1, 64, 1, "DN")),
    ]
    work = [Load("a", "x"), Compute("TROWSUM", "R1", ("r", "a", "t")), Compute(op, "R1", ("s", "a", "t"))]
    work += [Store("r", "y"), Store("s", "z")]
    arrays = [GlobalArray("x", "f32", 64, cols, cols), *(GlobalArray(name, "f32", 64, 1, 1) for name in "yz")]
    return Program(tuple(arrays), tuple(slots), tuple(work))


@pytest.fixture(scope="module")
def bir(model: onnx.ModelProto, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BIR program of two reductions among copies that belong to another leg."""
    return lf.compile(model, "trn1").save(tmp_path_factory.mktemp("saved") / "out") / "program.json"


# T5: an instruction without a model had a latency of 100, silently


def test_t5_unknown_instructions_leave_the_total_without_a_greatest_number() -> None:
    whole = kernel().cost("fit")
    unknown = [row.instruction for row in whole.unknown]
    assert unknown == ["TLOAD", "TROWPROD", "TSTORE", "TSTORE"]
    assert all((row.low, row.high, row.estimate) == (0.0, math.inf, None) for row in whole.unknown)
    known = whole.without_unknown()
    assert whole.cycles == (known.cycles[0], math.inf)
    assert whole.ns == (known.ns[0], math.inf)
    assert whole.estimate is None
    assert "at least 492 cycles" in str(whole)
    plain = json.loads(json.dumps(whole.to_dict(), allow_nan=False))
    assert plain["cycles"] == [known.cycles[0], None]
    assert plain["unknown"] == 4


def test_t5_unknown_instructions_leave_timelines_and_traces_open() -> None:
    found = kernel().timeline("fit")
    assert found.ns[1] is None
    assert len(found.unknown) == 4
    events = [event for event in trace(found)["traceEvents"] if event["ph"] == "i"]
    assert [event["args"]["ns"][1] for event in events] == ["unknown"] * 4


@pytest.mark.parametrize("target", ["a5"])
def test_t5_a_compiled_program_of_unknown_instructions_has_no_number(model: onnx.ModelProto, target: str) -> None:
    program = lf.compile(model, target)
    found = program.cost()
    assert found.cycles == (0.0, math.inf)
    assert str(found).startswith("cost: unknown (model calibrated for a5; 2 instructions of unknown price)")
    assert timeline(program).ns == (0.0, None)
    json.dumps(trace(program.timeline()), allow_nan=False)


def test_t5_other_legs_spread_to_the_total_of_a_bir_program(bir: Path) -> None:
    status, out = call("cost", bir, "--json")
    said = json.loads(out)
    assert status == 0
    assert said["unknown"] == 4
    assert said["cycles"] == [128, None]
    notes = {row["note"] for row in said["rows"] if row["high"] is None}
    assert notes == {"DMACopy: not part of the pooling and reduction leg; no formula"}
    assert "at least 128 cycles" in call("cost", bir)[1]


def test_t5_sweeps_keep_unknown_numbers_empty() -> None:
    spec = {"ops": ["TROWSUM"], "dtypes": ["f32"], "targets": ["a5"], "shapes": {"rows": [64], "cols": [64]}}
    row = next(lf.sweep(spec).rows())
    assert [row[name] for name in ("validity", "cycles", "cycles_high", "ns")] == ["unknown", None, None, None]


# T7: asked for one core, answered with the model of another


def test_t7_every_result_names_its_model(model: onnx.ModelProto) -> None:
    for target, name in (("trn1", "detailed"), ("a2a3", "stream")):
        program = lf.compile(model, target)
        found = program.cost(name)
        assert found.model == name
        assert {row.model for row in found.rows} == {name}
        assert found.to_dict()["model"] == name
        assert f"model {name} for {target}" in str(found)
        assert found.to_dict()["target"] == target
        assert program.timeline(name).model == name
    assert kernel().cost("seed").model == "reference"
    assert "model calibrated" in str(cost("TROWSUM", "f32", 64, 64))
    assert "model detailed" in str(lf.compile(model, "trn1").timeline("detailed"))
    assert "model calibrated" in str(kernel().cost().rows[0])


@pytest.mark.parametrize(
    ("target", "name", "code"),
    [
        ("trn1", "calibrated", "TPB-COST-MODEL"),
        ("trn3", "stream", "TPB-COST-MODEL"),
        ("a2a3", "documented", "PTO-COST-MODEL"),
        ("a5", "stream", "PTO-COST-TARGET"),
        ("cpu", "calibrated", "PTO-COST-TARGET"),
    ],
)
def test_t7_the_model_of_another_target_is_an_error(model: onnx.ModelProto, target: str, name: str, code: str) -> None:
    program = lf.compile(model, target)
    for asked in (program.cost, program.timeline):
        with pytest.raises(LanefoldError) as caught:
            asked(name)
        (finding,) = caught.value.diagnostics
        assert finding.code == code
        assert finding.cures


def test_t7_programs_without_instructions_have_no_foreign_model_either() -> None:
    empty = lf.compile(host_only(), "trn1")
    assert empty.cost("detailed").model == "detailed"
    with pytest.raises(LanefoldError, match="PROGRAM-COST-MODEL"):
        empty.cost("calibrated")


def host_only() -> onnx.ModelProto:
    ends = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [4]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Exp", ["x"], ["y"], "e")], "g", ends[:1], ends[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


def test_t7_sweeps_refuse_models_that_no_target_has() -> None:
    spec = {"ops": ["TROWSUM"], "dtypes": ["f32"], "targets": ["a2a3"], "models": ["documented"]}
    with pytest.raises(LanefoldError, match="documented"):
        lf.sweep({**spec, "shapes": {"rows": [64], "cols": [64]}})


@pytest.mark.parametrize(
    "options",
    [("--target", "a2a3"), ("--target", "trn2"), ("--generation", "v4"), ("--model", "stream"), ("--target", "x")],
)
def test_t7_a_bir_program_is_not_priced_for_another_target(bir: Path, options: tuple[str, str]) -> None:
    with pytest.raises(LanefoldError) as caught:
        call("cost", bir, *options)
    assert caught.value.usage


# T8: one unsupported instruction, and the whole analysis failed


def test_t8_unknown_instructions_are_skipped_and_counted(bir: Path) -> None:
    said = json.loads(call("cost", bir, "--skip-unknown", "--json")[1])
    assert (len(said["rows"]), said["skipped"], said["unknown"]) == (2, 4, 0)
    assert said["cycles"] == [128, 128]
    assert "4 instructions of unknown price left out" in call("cost", bir, "--skip-unknown")[1]


def test_t8_pto_texts_and_saved_programs_are_priced_around_what_is_unknown(
    model: onnx.ModelProto, tmp_path: Path
) -> None:
    text = tmp_path / "kernel.pto"
    text.write_text(kernel().to_text("dps"))
    said = json.loads(call("cost", text, "--model", "fit", "--skip-unknown", "--json")[1])
    assert said["skipped"] == 4
    assert [row["instruction"] for row in said["rows"]] == ["TROWSUM"]
    folder = lf.compile(model, "a5").save(tmp_path / "out")
    assert (
        "cost: none (model calibrated for a5; 2 instructions of unknown price left out)"
        in call("cost", folder, "--skip-unknown")[1]
    )


# T14: every operation took one cycle


def reduction(opcode: str, elements: int) -> Instruction:
    access = Access("SB", 0, 0, "float32", ((elements, 128), (1, elements)))
    one = Access("SB", 0, 0, "float32", ((1, 128), (1, 1)))
    attributes = {"op": "add", "axis": "X"} if opcode == "TensorReduce" else {}
    return Instruction(
        opcode, () if opcode == "Iota" else (access,), (access if opcode == "Iota" else one,), attributes
    )


def test_t14_costs_depend_on_the_operation_and_its_size() -> None:
    found = {op: price(reduction(op, 512), "v2").low for op in ("TensorReduce", "Reciprocal", "Iota")}
    assert found == {"TensorReduce": 512, "Reciprocal": 4096, "Iota": 662}
    tiles = {op: cost(op, "f32", 64, 96).cycles for op in ("TROWSUM", "TROWPROD", "TCOLSUM", "TROWEXPAND", "TADD")}
    assert len(set(tiles.values())) == len(tiles)
    for op in tiles:
        small, large = cost_columns(op, "f32", [16, 64], 96).cycles
        assert small < large


# T15: tests of "error below 1 %" that could not fail


def test_t15_the_accuracy_is_judged_against_stated_figures(reference_data: Path) -> None:
    points = read_points(reference_data)
    assert len(points) > 300
    assert min(point.cycles for point in points) > 1, "a reference of 0 cycles would let everything pass"
    assert grown(errors_by_op(points)) == []


@pytest.mark.parametrize("factor", [10.0, 0.1])
@pytest.mark.parametrize("name", [row.name for row in parameters.PARAMETERS])
def test_t15_a_tenfold_error_of_one_parameter_is_noticed(
    reference_data: Path, monkeypatch: pytest.MonkeyPatch, name: str, factor: float
) -> None:
    row = calibrated.FITTED[name]
    monkeypatch.setitem(calibrated.FITTED, name, row._replace(cycles=row.cycles * factor))
    assert grown(errors_by_op(read_points(reference_data)))


# A6: barriers slow a kernel down, and no cost told them apart


@pytest.mark.parametrize("name", ["calibrated", "stream", "reference"])
def test_a6_barriers_are_a_term_of_their_own(name: str) -> None:
    pairs, in_turn = (cost("TCOLSUM", "f32", 64, 64, form=form, model=name) for form in ("binary", "sequential"))
    for found in (pairs, in_turn):
        assert sum(found.terms.values()) == pytest.approx(found.cycles)
        assert found.to_dict()["terms"]["barriers"] == found.terms["barriers"]
        assert f"barriers {found.terms['barriers']:,.0f}" in str(found)
    assert pairs.terms["barriers"] < in_turn.terms["barriers"] / 4


def test_a6_barriers_are_a_term_of_whole_programs(tmp_path: Path) -> None:
    found = kernel("TROWMAX", 96).cost()
    assert isinstance(found, ProgramCost)
    singles = [cost(op, "f32", 64, 96, dst_layout="DN").terms["barriers"] for op in ("TROWSUM", "TROWMAX")]
    assert min(singles) > 0
    assert found.terms["barriers"] == pytest.approx(sum(singles))
    text = tmp_path / "kernel.pto"
    text.write_text(column_sums().to_text("dps"))
    out = call("cost", text)[1]
    barriers = cost("TCOLSUM", "f32", 64, 64, form="no_tmp").terms["barriers"]
    assert f"barriers {barriers:,.0f}" in out.rsplit("terms: ", 1)[1]
    assert np.isclose(json.loads(call("cost", text, "--json")[1])["terms"]["barriers"], barriers)


def column_sums() -> Program:
    slots = (TileSlot("a", TileType("f32", 64, 64, 64, 64)), TileSlot("r", TileType("f32", 1, 64, 1, 64)))
    arrays = (GlobalArray("x", "f32", 64, 64, 64), GlobalArray("y", "f32", 1, 64, 64))
    return Program(arrays, slots, (Load("a", "x"), Compute("TCOLSUM", "C1", ("r", "a")), Store("r", "y")))
