"""Whatever is handed to the calls about prices, timelines and sweeps, only findings come back."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import helper
from typer.testing import CliRunner

import lanefold as lf
from lanefold.cli import app
from lanefold.diagnostics import LanefoldError
from lanefold.pto import TileType
from lanefold.pto.program import Compute, GlobalArray, Load, Program, Store, TileSlot
from lanefold.report.trace import write_trace
from lanefold.sweeps import SweepTable
from tests.hostile import HOSTILE

SPEC = {"ops": ["TROWSUM"], "dtypes": ["f32"], "targets": ["a2a3"], "shapes": {"rows": [16], "cols": [64]}}


def refused(call: Callable[[Any], object], *more: object) -> None:
    for value in (*HOSTILE, *more):
        with contextlib.suppress(LanefoldError):
            call(value)


def kernel() -> Program:
    slots = (TileSlot("a", TileType("f32", 64, 64, 64, 64)), TileSlot("r", TileType("f32", 64, 1, 64, 1, "DN")))
    scratch = TileSlot("t", TileType("f32", 64, 64, 64, 64))
    arrays = (GlobalArray("x", "f32", 64, 64, 64), GlobalArray("y", "f32", 64, 1, 1))
    return Program(
        arrays, (*slots, scratch), (Load("a", "x"), Compute("TROWSUM", "R1", ("r", "a", "t")), Store("r", "y"))
    )


@pytest.fixture(scope="module")
def model() -> onnx.ModelProto:
    inputs = [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [4, 64])]
    outputs = [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [4, 1])]
    node = helper.make_node("ReduceSum", ["x", "axes"], ["y"], "sum", keepdims=1)
    axes = helper.make_tensor("axes", onnx.TensorProto.INT64, [1], [1])
    graph = helper.make_graph([node], "g", inputs, outputs, [axes])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


@pytest.mark.parametrize("target", ["trn1", "a2a3", "cpu"])
def test_programs(model: onnx.ModelProto, target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    program = lf.compile(model, target)
    refused(program.cost)
    refused(program.timeline)
    refused(lambda value: program.timeline("", value))
    refused(lambda value: write_trace(program, value))
    refused(lambda value: write_trace(program, tmp_path / "t.json", drawn=value))


def test_tile_programs() -> None:
    program = kernel()
    refused(program.cost)
    refused(lambda value: program.cost("", value))
    refused(lambda value: program.cost("", "a2a3", value))
    refused(program.timeline)
    refused(lambda value: program.timeline("", value))
    refused(lambda value: program.timeline(target=value))


@pytest.mark.parametrize("name", ["output", "workers", "scheduler", "objective", "skip_unknown"])
def test_arguments_of_sweeps(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for value in HOSTILE:
        if name == "scheduler" and isinstance(value, str) and value:
            continue  # any text may be an address
        with contextlib.suppress(LanefoldError):
            lf.sweep(SPEC, **{name: value})


KEYS = [*SPEC, "models", "layouts", "options", "objective", "frequency_mhz", "limit", "chunk", "skip_unknown"]
KEYS += ["keep_unknown", "shapes.rows", "shapes.valid_cols", "shapes.list", "layouts.dst", "options.form"]
KEYS += ["options.static_shape", "options.idx_bytes"]
RANGE = ("from", "to", "step", "factor")


@pytest.mark.parametrize("key", KEYS)
def test_keys_of_sweeps(key: str) -> None:
    table, _, name = key.rpartition(".")
    refused(
        lambda value: lf.sweep({**SPEC, **({table: {**SPEC.get(table, {}), name: value}} if table else {key: value})})
    )


@pytest.mark.parametrize("key", RANGE)
def test_ranges_of_sweeps(key: str) -> None:
    refused(lambda value: lf.sweep({**SPEC, "shapes": {"cols": 64, "rows": {"from": 1, "to": 4, key: value}}}))


def test_sweeps_of_anything() -> None:
    refused(lf.sweep)


@pytest.fixture(scope="module")
def swept() -> SweepTable:
    return lf.sweep(SPEC)


def test_tables(swept: SweepTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    refused(swept.column)
    refused(swept.best)
    refused(swept.write_plot)
    for value in HOSTILE:
        if not isinstance(value, str):
            with pytest.raises(LanefoldError):
                swept.write_plot(tmp_path / "p.svg", value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("none.json",), "STREAM-FILE"),
        (("none",), "STREAM-COST"),
        (("kernel.pto", "--model", "documented"), "PTO-COST-MODEL"),
        (("kernel.pto", "--target", "trn1"), "STREAM-COST-TARGET"),
        (("kernel.pto", "--target", "cpu"), "PTO-COST-TARGET"),
        (("kernel.pto", "--target", "x"), "TARGET-NAME"),
        (("kernel.pto", "--generation", "v2"), "STREAM-COST-TARGET"),
        (("bad.pto",), "PTO-"),
        (("bad.json",), "TPB-BIR-FILE"),
        (("bytes.json",), "TPB-BIR-FILE"),
        (("bytes.pto",), "STREAM-FILE"),
        (("stream.bin", "--model", "calibrated"), "TPB-COST-MODEL"),
        (("stream.bin", "--target", "a5"), "STREAM-COST-TARGET"),
        (("stream.bin", "--target", "trn1", "--generation", "v3"), "STREAM-COST-TARGET"),
        (("stream.bin", "--opcodes", "x"), "TPB-"),
        (("kernel.pto", "--opcodes", "headers"), "STREAM-COST"),
        (("short.bin",), "TPB-"),
        (("picture.png",), "STREAM-COST"),
        (("folder",), "PROGRAM-"),
    ],
)
def test_the_command(arguments: tuple[str, ...], code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("kernel.pto").write_text(kernel().to_text("dps"))
    Path("bad.pto").write_text("no program")
    Path("bad.json").write_text("{")
    for name in ("bytes.json", "bytes.pto", "stream.bin"):
        Path(name).write_bytes(b"\xff\xfe" * 32)
    Path("short.bin").write_bytes(bytes(63))
    Path("picture.png").write_bytes(b"")
    Path("folder").mkdir()
    result = CliRunner().invoke(app, ["cost", *arguments])
    assert isinstance(result.exception, LanefoldError), result.output
    assert result.exception.diagnostics[0].code.startswith(code)
    assert result.exception.diagnostics[0].cures


@pytest.mark.parametrize("value", ["n", "n=", "=3", "n=-1", "n=1.5", "n=9999999999", "n=٣"])
def test_parameters_of_the_command(value: str, tmp_path: Path) -> None:
    (tmp_path / "kernel.pto").write_text(kernel().to_text("dps"))
    result = CliRunner().invoke(app, ["cost", str(tmp_path / "kernel.pto"), "--parameter", value])
    assert result.exit_code == 2
    assert "NAME=VALUE" in result.output
