"""The PTO targets: models compiled, run by their tile programs, saved and loaded, from code and command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from typer.testing import CliRunner

import lanefold as lf
from lanefold.cli import app
from lanefold.diagnostics import LanefoldError, errors
from lanefold.frontends.backend import LanefoldBackend
from lanefold.frontends.onnx import plan_model, random_inputs, verify
from lanefold.program.files import sealed
from lanefold.targets import TARGETS, facts, operations, target

LIGHT = sorted((Path(onnx.__file__).parent / "backend" / "test" / "data" / "light").glob("*.onnx"))
POOLS = {"MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool"}
NAMES = ("cpu", "a2a3", "a5")
READINGS = {"cpu": "cpu", "a2a3": "a2a3-order", "a5": "a5-order"}
SMALL = ("light_squeezenet", "light_shufflenet")


def pooled_model() -> onnx.ModelProto:
    nodes = [
        helper.make_node("MaxPool", ["x"], ["m"], name="m", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["m"], ["r"], name="r"),
        helper.make_node("AveragePool", ["r"], ["a"], name="a", kernel_shape=[2, 2], pads=[1, 1, 1, 1]),
        helper.make_node("ReduceMean", ["a"], ["y"], name="y", axes=[1, 3], keepdims=0),
    ]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "g", [value("x", TensorProto.FLOAT, [2, 3, 9, 10])], [value("y", TensorProto.FLOAT, [2, 6])]
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=9)


# Every light network on every target; the devices also in their own orders of addition.
CASES = [(path, name, numerics) for path in LIGHT for name, numerics in READINGS.items()]
CASES += [(path, name, "cpu") for path in LIGHT for name in ("a2a3", "a5") if path.stem in SMALL]


@pytest.mark.parametrize(("path", "name", "numerics"), CASES, ids=[f"{p.stem}-{n}-{r}" for p, n, r in CASES])
def test_light_model(path: Path, name: str, numerics: str) -> None:
    plan = plan_model(path, target(name, numerics=numerics))
    assert {row.disposition for row in plan.program.ledger if row.op_type in POOLS} == {"emitted"}
    assert errors(plan.program.check()) == []
    result = verify(plan.model, plan.program, random_inputs(plan.model))
    assert result.ok, [row for row in result.rows if not row.ok]
    assert all(row.largest == 0 for row in result.rows if row.kind == "exact")
    assert all(row.relative <= 1e-5 for row in result.rows)


@pytest.mark.parametrize("name", NAMES)
def test_a_saved_program_runs_from_its_texts(name: str, tmp_path: Path) -> None:
    program = lf.compile(pooled_model(), target=name)
    assert program.ledger.counts == {"emitted": 3, "rewritten": 0, "host": 1, "refused": 0}
    folder = program.save(tmp_path / "made")
    feeds = {"x": np.random.default_rng(0).normal(size=(2, 3, 9, 10)).astype(np.float32)}
    loaded = lf.load(folder)
    np.testing.assert_array_equal(loaded.run(feeds)["y"], program.run(feeds)["y"])
    assert [row.to_dict() for row in loaded.ledger] == [row.to_dict() for row in program.ledger]
    assert {row.cycles for row in loaded.ledger} == {row.cycles for row in program.ledger}
    for path in folder.glob("*.json"):
        json.loads(path.read_text(), parse_constant=pytest.fail)
    for first, second in zip(program.leg_steps, loaded.leg_steps, strict=True):
        assert [stage.program for stage in first.code.stages] == [stage.program for stage in second.code.stages]
        assert first.code.route == second.code.route
    text = folder / "leg-0-0.pto"
    text.write_text(text.read_text().replace("tcolmax", "tcolmin"))
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    (folder / "program.json").write_bytes(sealed(files)["program.json"])
    assert not np.array_equal(lf.load(folder).run(feeds)["y"], program.run(feeds)["y"])
    text.write_text("nothing of the kind")
    with pytest.raises(LanefoldError) as caught:
        lf.load(folder)
    assert caught.value.diagnostics[0].code == "PROGRAM-FILE"


@pytest.mark.parametrize("name", NAMES)
def test_command_line(name: str, tmp_path: Path) -> None:
    model = tmp_path / "model.onnx"
    onnx.save(pooled_model(), model)
    runner = CliRunner()
    made = runner.invoke(app, ["compile", str(model), "--target", name, "-o", str(tmp_path / "out"), "--json"])
    assert made.exit_code == 0, made.output
    document = json.loads(made.stdout, parse_constant=pytest.fail)
    assert document["readings"] == {"numerics": "cpu"}
    assert "leg-0-0.pto" in document["files"]
    ran = runner.invoke(app, ["run", str(model), "--target", name, "--verify"])
    assert ran.exit_code == 0, ran.output
    assert "verification passed" in ran.stdout
    assert runner.invoke(app, ["route", str(model), "m", "--target", name]).exit_code == 0
    assert runner.invoke(app, ["ops", "--target", name, "--json"]).exit_code == 0
    wrong = runner.invoke(app, ["run", str(model), "--target", name, "--opcodes", "headers"])
    assert isinstance(wrong.exception, LanefoldError)
    assert wrong.exception.usage


def test_tables() -> None:
    for name in NAMES:
        assert facts(TARGETS[name])["readings"] == {"numerics": ["cpu", "a2a3-order", "a5-order"]}
        assert len(operations(name)) == 28
    listed = CliRunner().invoke(app, ["targets"])
    assert all(name in listed.stdout for name in TARGETS)


def test_readings_differ_in_the_order_of_sums() -> None:
    feeds = {"x": np.random.default_rng(1).normal(size=(4, 777)).astype(np.float32)}
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("ReduceMean", ["x"], ["y"], axes=[1])],
        "g",
        [value("x", TensorProto.FLOAT, [4, 777])],
        [value("y", TensorProto.FLOAT, [4, 1])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=9)
    results = [lf.compile(model, target="a2a3", numerics=name).run(feeds)["y"] for name in ("cpu", "a2a3-order")]
    assert not np.array_equal(*results)
    np.testing.assert_allclose(*results, rtol=1e-3, atol=1e-6)
    with pytest.raises(LanefoldError):
        lf.compile(model, target="a2a3", numerics="birsim")


@pytest.mark.parametrize("name", NAMES)
def test_arrays(name: str) -> None:
    value = np.random.default_rng(2).normal(size=(2, 3, 8, 8)).astype(np.float32)
    np.testing.assert_array_equal(lf.reduce(value, "max", axis=(-1,), target=name), value.max(-1))
    made = lf.pool2d(value, (2, 2), (2, 2), mode="max", target=name)
    np.testing.assert_array_equal(made, value.reshape(2, 3, 4, 2, 4, 2).max((3, 5)))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("op_type", "attributes", "extents"),
    [
        ("ReduceL1", {"axes": [2]}, [2, 3, 1, 8]),
        ("ReduceSumSquare", {"axes": [1, 3]}, [2, 1, 7, 1]),
        ("ReduceL2", {"axes": [3]}, [2, 3, 7, 1]),
        ("LpPool", {"kernel_shape": [2, 3], "p": 1}, [2, 3, 6, 6]),
        ("LpPool", {"kernel_shape": [2, 3], "p": 2, "pads": [1, 1, 1, 1]}, [2, 3, 8, 8]),
        ("GlobalLpPool", {"p": 2}, [2, 3, 1, 1]),
    ],
)
def test_magnitudes_and_squares_are_made_on_the_host(
    name: str, op_type: str, attributes: dict[str, object], extents: list[int]
) -> None:
    value = helper.make_tensor_value_info
    node = helper.make_node(op_type, ["x"], ["y"], name="n", **attributes)
    graph = helper.make_graph(
        [node], "g", [value("x", TensorProto.FLOAT, [2, 3, 7, 8])], [value("y", TensorProto.FLOAT, extents)]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=9)
    plan = plan_model(model, target(name))
    (row,) = plan.program.ledger
    assert row.disposition == "rewritten"
    assert "on the host" in row.reason
    feeds = {"x": np.random.default_rng(3).normal(size=(2, 3, 7, 8)).astype(np.float32)}
    result = verify(plan.model, plan.program, feeds)
    assert result.ok, result.rows


@pytest.mark.parametrize("name", [*NAMES, "trn1"])
@pytest.mark.parametrize(("opset", "axis"), [(11, None), (11, 2), (13, None), (13, 1), (13, -3)])
def test_softmax_is_one_program_where_a_target_has_exponentials(name: str, opset: int, axis: int | None) -> None:
    value = helper.make_tensor_value_info
    node = helper.make_node("Softmax", ["x"], ["y"], name="s", **({} if axis is None else {"axis": axis}))
    graph = helper.make_graph(
        [node], "g", [value("x", TensorProto.FLOAT, [2, 5, 6])], [value("y", TensorProto.FLOAT, [2, 5, 6])]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
    plan = plan_model(model, target(name))
    (row,) = plan.program.ledger
    assert row.disposition == ("rewritten" if name == "trn1" else "emitted")
    feeds = {"x": np.random.default_rng(5).normal(size=(2, 5, 6)).astype(np.float32)}
    assert verify(plan.model, plan.program, feeds).ok


@pytest.mark.parametrize("device", ["PTO_CPU", "A2A3", "A5"])
def test_devices_of_the_onnx_backend(device: str) -> None:
    assert LanefoldBackend.supports_device(device)
    value = np.random.default_rng(6).normal(size=(1, 2, 5, 5)).astype(np.float32)
    prepared = LanefoldBackend.prepare(pooled_model(), device)
    feeds = np.random.default_rng(6).normal(size=(2, 3, 9, 10)).astype(np.float32)
    name = {"PTO_CPU": "cpu", "A2A3": "a2a3", "A5": "a5"}[device]
    np.testing.assert_array_equal(prepared.run([feeds])[0], lf.compile(pooled_model(), name).run({"x": feeds})["y"])
    node = helper.make_node("GlobalMaxPool", ["x"], ["y"])
    np.testing.assert_array_equal(LanefoldBackend.run_node(node, [value], device)[0], value.max((2, 3), keepdims=True))
