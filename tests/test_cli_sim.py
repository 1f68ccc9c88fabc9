"""The `sim` command: memory in, memory and trace out, counters, options."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

import lanefold as lf
from lanefold.cli import main
from lanefold.pto import parse

TEXT = """.generation v2
.opcodes headers
Pool src=SB[0, 0x0] float32 [[2,2],[1,1],[1,1],[1,2]] dst=SB[0, 0x100] float32 [[1,2]] num_active_channels=3 \
pool_func=MAX pool_dim=XY pool_scale=1.0
TensorReduceArithOp src=SB[0, 0x0] float32 [[1,4]] dst=PSUM[0, 0x0] float32 [[1,1]] num_active_channels=3 \
op=ADD op_dim=X
"""


@pytest.fixture
def call(monkeypatch, capsys):
    """Runs the command line; returns its status and what it printed."""

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["lanefold", *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            main()
        printed = capsys.readouterr()
        return int(left.value.code or 0), printed.out, printed.err

    return run


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "p.s"
    path.write_text(TEXT)
    values = np.zeros((3, 16), np.uint8)
    values.view(np.float32)[:] = [[1, np.nan, 3, 4], [-1, -2, -2, 0.1], [1e38, 1e38, 3e38, 0]]
    np.savez(tmp_path / "in.npz", sbuf=values)
    return path


def records(path: Path) -> list[dict]:
    text = path.read_text()
    return json.loads(text) if path.suffix == ".json" else [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("suffix", [".json", ".jsonl"])
def test_sim_writes_memory_and_trace(call, program, suffix: str) -> None:
    folder = program.parent
    status, out, err = call(
        "sim", program, "--memory", folder / "in.npz", "--output", folder / "out.npz", "--trace", folder / f"t{suffix}"
    )
    assert (status, err) == (0, "")
    assert "executed 2 bundles on v2, opcodes headers, numerics birsim" in out
    assert "counted while running: nan dropped 1, ties 1, overflow in accumulator 1" in out
    assert f"wrote {folder / 'out.npz'}" in out
    assert f"wrote {folder / f't{suffix}'}" in out
    with np.load(folder / "out.npz") as arrays:
        assert arrays["sbuf"].shape == (128, 192 * 1024)
        assert arrays["sbuf"][:2, 0x100:0x108].copy().view(np.float32).tolist() == [[1, 4], [-1, np.float32(0.1)]]
    told = records(folder / f"t{suffix}")
    assert [(row["index"], row["opcode"], row["instruction"]) for row in told] == [
        (0, 0x45, "Pool"),
        (1, 0x42, "TensorReduceArithOp"),
    ]
    assert told[0]["writes"] == [
        {"operand": "dst", "memory": "SB", "partitions": [0, 2], "bytes": [256, 263], "dtype": "float32", "elements": 2}
    ]
    assert told[0]["ulp"] == 0.0
    assert told[1]["first"] == ["nan"]
    assert told[1]["writes"][0]["memory"] == "PSUM"
    # The other two sums are NaN and beyond the type.
    exact = -5 + float(np.float32(0.1))
    assert told[1]["ulp"] == abs(float(np.float32(exact)) - exact) * 2**21


def test_sim_tells_the_engine_of_every_bundle_of_a_program(call, tmp_path: Path) -> None:
    import onnx
    from onnx import TensorProto, helper

    node = [
        helper.make_node("MaxPool", ["x"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("ReduceSum", ["p"], ["y"], keepdims=1),
    ]
    x, y = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("x", [1, 3, 8, 8]), ("y", None))
    )
    graph = helper.make_graph(node, "g", [x], [y])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), tmp_path / "m.onnx")
    assert call("compile", tmp_path / "m.onnx", "-o", tmp_path / "out")[0] == 0
    status, _, err = call("sim", tmp_path / "out" / "program.json", "--trace", tmp_path / "t.jsonl")
    assert (status, err) == (0, "")
    told = records(tmp_path / "t.jsonl")
    assert told
    assert {row["engine"] for row in told} <= {"Pool", "DVE"}
    assert all(row["engine"] for row in told)
    assert all((row["ulp"] is None) == bool(row["reason"]) for row in told)


def test_sim_takes_options_of_the_machine(call, program) -> None:
    folder = program.parent
    arguments = ["sim", program, "--memory", folder / "in.npz"]
    status, out, _ = call(*arguments, "--option", "numerics=device", "--option", "count=false", "--json")
    assert status == 0
    assert json.loads(out) == {"bundles": 2, "numerics": "device", "counters": None}
    status, _, err = call(*arguments, "--option", "nan_store=error")
    assert status == 1
    assert "TPB-MACHINE-NAN" in err
    status, _, err = call("sim", program, "--option", "track_uninitialised=true")
    assert status == 1
    assert "TPB-MACHINE-UNINITIALISED" in err
    assert call(*arguments, "--option", "track_uninitialised=true")[0] == 0


@pytest.mark.parametrize("text", ["pool_sum", "pool_sum=backwards", "speed=high", "count=1"])
def test_sim_refuses_options_that_do_not_exist(call, program, text: str) -> None:
    status, _, err = call("sim", program, "--option", text)
    assert status == 2
    assert "TPB-MACHINE-OPTION" in err
    assert "cure " in err


def test_sim_refuses_a_place_it_cannot_write(call, program) -> None:
    status, _, err = call("sim", program, "--trace", program.parent / "none" / "t.json")
    assert status == 2
    assert "CLI-OUTPUT" in err


def test_run_tells_what_every_node_passed_over(call, tmp_path: Path) -> None:
    import onnx
    from onnx import TensorProto, helper

    node = helper.make_node("MaxPool", ["x"], ["y"], name="pool", kernel_shape=[2, 2], strides=[2, 2])
    x, y = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("x", [1, 1, 4, 4]), ("y", None))
    )
    made = helper.make_model(
        helper.make_graph([node], "g", [x], [y]), opset_imports=[helper.make_opsetid("", 17)], ir_version=9
    )
    onnx.save(made, tmp_path / "m.onnx")
    values = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    values[0, 0, :2, :2] = np.nan
    np.savez(tmp_path / "x.npz", x=values)
    for numerics, counted in (
        ("birsim", {"nan_dropped": 4, "finite_starts": 1}),
        ("device", {"nan_dropped": 4}),
    ):
        arguments = ["run", tmp_path / "m.onnx", "--input", tmp_path / "x.npz", "--numerics", numerics]
        status, out, err = call(*arguments)
        assert (status, err) == (0, "")
        words = ", ".join(f"{name.replace('_', ' ')} {count}" for name, count in counted.items())
        assert f"counted while running: {words}" in out
        assert f"pool: {words}" in out
        assert json.loads(call(*arguments, "--json")[1])["counted"] == {"pool": counted}


@pytest.fixture
def tiles(tmp_path: Path) -> Path:
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in (("x", [4, 8]), ("y", [4]))
    ]
    node = helper.make_node("ReduceMax", ["x"], ["y"], "most", axes=[1], keepdims=0)
    model = helper.make_model(
        helper.make_graph([node], "g", ends[:1], ends[1:]), opset_imports=[helper.make_opsetid("", 13)], ir_version=8
    )
    return lf.compile(model, "a2a3").save(tmp_path / "saved") / "leg-0-0.pto"


def test_sim_runs_texts_of_tiles_on_named_arrays(call, tiles: Path, tmp_path: Path) -> None:
    text = parse(tiles.read_text())
    values = np.arange(32, dtype=np.float32).reshape(4, 8)
    np.savez(tmp_path / "in.npz", **{text.inputs[0]: values})
    status, out, _ = call(
        "sim", tiles, "--memory", tmp_path / "in.npz", "--output", tmp_path / "out.npz", "--target", "a2a3"
    )
    assert status == 0
    assert "target a2a3; numerics cpu" in out
    with np.load(tmp_path / "out.npz") as made:
        np.testing.assert_array_equal(made[text.outputs[0]].reshape(-1)[:4], values.max(axis=1))
    status, out, _ = call("sim", tiles, "--memory", tmp_path / "in.npz", "--json")
    assert status == 0
    assert set(json.loads(out)) == {"target", "numerics", "counters", "outputs", "findings"}


@pytest.mark.parametrize("option", [("--opcodes", "headers"), ("--generation", "v3"), ("--option", "pool_sum=lanes4")])
def test_sim_refuses_options_of_bundles_for_tiles(call, tiles: Path, option: tuple[str, str]) -> None:
    status, _, err = call("sim", tiles, *option)
    assert status == 2
    assert f"cure     leave {option[0]} out" in err


def test_sim_of_tiles_names_the_arrays_it_lacks(call, tiles: Path) -> None:
    status, _, err = call("sim", tiles)
    assert status == 2
    assert "give --memory X.npz, written by numpy.savez('X.npz', " in err
