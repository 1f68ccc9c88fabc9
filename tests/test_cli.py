"""The command line as a user meets it: output, exit statuses, and bad input that never shows a traceback."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from lanefold import cli

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


def lanefold(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "lanefold", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603


def called(monkeypatch, capsys, *arguments: str | Path) -> tuple[int, str, str]:
    """The command inside this process; faster than a new one."""
    monkeypatch.setattr(sys, "argv", ["lanefold", *map(str, arguments)])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    captured = capsys.readouterr()
    return int(stopped.value.code or 0), captured.out, captured.err


@pytest.fixture
def call(monkeypatch, capsys):
    return lambda *arguments: called(monkeypatch, capsys, *arguments)


def pool_model(path: Path, **attributes) -> Path:
    shape = attributes.pop("shape", [1, 3, 8, 8])
    kind = attributes.pop("dtype", TensorProto.FLOAT)
    op_type = attributes.pop("op_type", "MaxPool")
    node = helper.make_node(op_type, ["x"], ["y"], name="pool", **attributes)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", kind, shape)],
        [helper.make_tensor_value_info("y", kind, ["n", "c", "oh", "ow"])],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    return path


def test_help_names_the_commands() -> None:
    run = lanefold("--help")
    assert run.returncode == 0
    for command in ("compile", "run"):
        assert command in run.stdout


def test_version(call) -> None:
    status, out, _ = call("--version")
    assert (status, out) == (0, "0.1.0\n")


def test_compile_writes_a_program(call, tmp_path: Path) -> None:
    model = pool_model(tmp_path / "m.onnx", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    status, out, err = call("compile", model, "--target", "trn1", "-o", tmp_path / "out")
    assert (status, err) == (0, "")
    assert "1 node: 1 emitted, 0 rewritten, 0 host, 0 refused" in out
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {"program.json", "Pool.bin", "listing.s", "ledger.json"}
    assert (tmp_path / "out" / "Pool.bin").stat().st_size % 64 == 0


def test_compile_as_json(call, tmp_path: Path) -> None:
    model = pool_model(tmp_path / "m.onnx", kernel_shape=[2, 2])
    status, out, _ = call("compile", model, "-o", tmp_path / "out", "--json")
    told = json.loads(out)
    assert status == 0
    assert told["ledger"]["counts"] == {"emitted": 1, "rewritten": 0, "host": 0, "refused": 0}
    assert told["cost"]["rows"][0]["rule"].startswith("0 + max(64")
    assert told["readings"] == {"opcodes": "reference", "numerics": "birsim"}


def test_run_verifies(call, tmp_path: Path) -> None:
    model = pool_model(tmp_path / "m.onnx", kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    out_file = tmp_path / "y.npz"
    status, out, _ = call("run", model, "--verify", "--output", out_file)
    assert status == 0
    assert "verification passed: 1 of 1 leg results and 1 of 1 outputs agree" in out
    with np.load(out_file) as arrays:
        assert arrays["y"].shape == (1, 3, 8, 8)


def test_saved_program_runs_from_its_folder(call, tmp_path: Path) -> None:
    model = pool_model(tmp_path / "m.onnx", kernel_shape=[2, 2], strides=[2, 2])
    call("compile", model, "-o", tmp_path / "out")
    x = np.random.default_rng(0).standard_normal((1, 3, 8, 8)).astype(np.float32)
    np.savez(tmp_path / "x.npz", x=x)
    status, _, _ = call("run", tmp_path / "out", "--input", tmp_path / "x.npz", "--output", tmp_path / "y.npz")
    assert status == 0
    with np.load(tmp_path / "y.npz") as arrays:
        np.testing.assert_array_equal(arrays["y"], x.reshape(1, 3, 4, 2, 4, 2).max(axis=(3, 5)))


def broken(tmp_path: Path, kind: str) -> list[str | Path]:
    """Arguments that a user may get wrong, by kind."""
    out = tmp_path / "out"
    good = pool_model(tmp_path / "good.onnx", kernel_shape=[2, 2])
    if kind == "missing":
        return ["compile", tmp_path / "none.onnx", "-o", out]
    if kind == "folder":
        return ["compile", tmp_path, "-o", out]
    if kind == "corrupt":
        (tmp_path / "bad.onnx").write_bytes(b"\x00\x01garbage" * 30)
        return ["compile", tmp_path / "bad.onnx", "-o", out]
    if kind == "truncated":
        data = (LIGHT / "light_squeezenet.onnx").read_bytes()
        (tmp_path / "cut.onnx").write_bytes(data[: len(data) // 2])
        return ["compile", tmp_path / "cut.onnx", "-o", out]
    if kind == "target":
        return ["compile", good, "--target", "trn9", "-o", out]
    if kind == "opcodes":
        return ["compile", good, "--opcodes", "mine", "-o", out]
    if kind == "prefer":
        return ["compile", good, "--prefer", "luck", "-o", out]
    if kind == "attribute":
        return ["compile", pool_model(tmp_path / "a.onnx", kernel_shape=[2, 2], window=[3]), "-o", out]
    if kind == "empty window":
        wide = pool_model(tmp_path / "w.onnx", kernel_shape=[3, 3], strides=[3, 3], pads=[0, 0, 6, 6])
        return ["compile", wide, "-o", out]
    if kind == "wide window":
        return ["compile", pool_model(tmp_path / "w.onnx", kernel_shape=[9, 9]), "-o", out]
    if kind == "open shape":
        return ["compile", pool_model(tmp_path / "s.onnx", kernel_shape=[2, 2], shape=[1, 3, "h", 8]), "-o", out]
    if kind == "taken folder":
        out.mkdir()
        (out / "thesis.txt").write_text("years of work")
        return ["compile", good, "-o", out]
    if kind == "no npz":
        (tmp_path / "x.npz").write_text("no arrays here")
        return ["run", good, "--input", tmp_path / "x.npz"]
    if kind == "wrong inputs":
        np.savez(tmp_path / "x.npz", z=np.zeros(3), x=np.zeros((1, 3, 8, 9)))
        return ["run", good, "--input", tmp_path / "x.npz"]
    if kind == "shape option":
        return ["compile", good, "--shape", "x:1,3", "-o", out]
    raise AssertionError(kind)


CODES = {
    "missing": 2,
    "folder": 2,
    "corrupt": 2,
    "truncated": 2,
    "target": 2,
    "opcodes": 2,
    "prefer": 2,
    "attribute": 2,
    "empty window": 1,
    "wide window": 1,
    "open shape": 2,
    "taken folder": 2,
    "no npz": 2,
    "wrong inputs": 2,
    "shape option": 2,
}


@pytest.mark.parametrize("kind", CODES)
def test_bad_input(call, tmp_path: Path, kind: str) -> None:
    arguments = broken(tmp_path, kind)
    before = sorted(path for path in tmp_path.rglob("*"))
    status, out, err = call(*arguments)
    assert status == CODES[kind], out + err
    assert "Traceback" not in out + err
    assert sorted(path for path in tmp_path.rglob("*")) == before, "a file was left behind"
    if kind != "shape option":
        for word in ("error[", "got ", "allowed ", "rule ", "source ", "cure "):
            assert word in err


def test_wrong_inputs_are_all_named(call, tmp_path: Path) -> None:
    _, _, err = call(*broken(tmp_path, "wrong inputs"))
    assert "no input 'z'" in err
    assert "shape [1, 3, 8, 9]" in err
    assert "'x' is float64" in err


def test_bad_input_as_json(call, tmp_path: Path) -> None:
    status, out, _ = call(*broken(tmp_path, "wide window"), "--json")
    found = json.loads(out)["findings"]
    assert status == 1
    assert found[0]["place"]["node"] == "pool"
    assert found[0]["cures"]


def test_a_type_without_a_tag_stays_on_the_host(call, tmp_path: Path) -> None:
    model = pool_model(tmp_path / "d.onnx", kernel_shape=[2, 2], dtype=TensorProto.DOUBLE)
    status, out, _ = call("compile", model, "-o", tmp_path / "out", "--all")
    assert status == 0
    assert "0 emitted, 0 rewritten, 1 host" in out
    assert "float64" in out


def test_strict_refuses_the_host(call, tmp_path: Path) -> None:
    model = pool_model(tmp_path / "d.onnx", kernel_shape=[2, 2], dtype=TensorProto.DOUBLE)
    status, _, err = call("compile", model, "-o", tmp_path / "out", "--strict")
    assert status == 1
    assert "float64" in err
    assert not (tmp_path / "out").exists()


def test_routes_of_a_node(call, tmp_path: Path) -> None:
    model = pool_model(tmp_path / "r.onnx", op_type="ReduceMin", shape=[100, 3, 8, 8], axes=[0], keepdims=1)
    status, out, _ = call("route", model, "pool", "--json")
    routes = {row["route"]: row for row in json.loads(out)["routes"]}
    assert status == 0
    assert (routes["free-axis"]["legal"], routes["free-axis"]["chosen"]) == (True, True)
    assert (routes["cross-lane"]["legal"], routes["cross-lane"]["bundles"]) == (True, 3)
    assert routes["free-axis"]["cycles"][1] < routes["cross-lane"]["cycles"][1]


def test_an_illegal_route_says_what_would_change(call, tmp_path: Path) -> None:
    model = pool_model(tmp_path / "r.onnx", op_type="ReduceProd", shape=[100, 3, 8, 8], axes=[0], keepdims=1)
    status, out, _ = call("route", model, "pool")
    assert status == 0
    assert "illegal" in out
    assert "nothing makes cross-lane legal" in out


def test_route_of_an_unknown_node(call, tmp_path: Path) -> None:
    status, _, err = call("route", pool_model(tmp_path / "m.onnx", kernel_shape=[2, 2]), "pol")
    assert status == 2
    assert "cure     write pool" in err


def test_compile_writes_a_trace(call, tmp_path: Path) -> None:
    model = pool_model(tmp_path / "m.onnx", kernel_shape=[2, 2])
    trace = tmp_path / "t.json"
    status, out, _ = call("compile", model, "-o", tmp_path / "out", "--trace", trace, "--cost-model", "detailed")
    assert status == 0
    assert f"wrote {trace}" in out
    assert json.loads(trace.read_text())["traceEvents"]


def test_text_and_bytes_both_ways(call, tmp_path: Path) -> None:
    model = pool_model(tmp_path / "m.onnx", kernel_shape=[2, 2])
    call("compile", model, "-o", tmp_path / "out")
    listing, stream = tmp_path / "out" / "listing.s", tmp_path / "again.bin"
    assert call("asm", listing, "-o", stream, "--generation", "v2", "--opcodes", "reference")[0] == 0
    assert stream.read_bytes() == (tmp_path / "out" / "Pool.bin").read_bytes()
    status, out, _ = call("disasm", stream, "--opcodes", "auto", "--hex")
    assert status == 0
    assert "Pool src=SB[0, 0x0] float32" in out
    assert stream.read_bytes()[:64].hex() in out.replace(" ", "")
    status, out, _ = call("explain", f"{stream}:0", "--json")
    assert (status, json.loads(out)["opcode"]) == (0, 0x45)
    assert (
        call("check", stream)[0]
        == call("check", listing)[0]
        == call("check", tmp_path / "out" / "program.json")[0]
        == 0
    )
    assert call("asm", listing, "--generation", "v3")[0] == 2


def test_check_finds_what_is_wrong(call, tmp_path: Path) -> None:
    word = bytearray(64)
    word[0:2] = b"\x45\x10"
    (tmp_path / "bad.bin").write_bytes(bytes(word))
    status, _, err = call("check", tmp_path / "bad.bin")
    assert status == 1
    assert "error[TPB-POOL-TYPE]" in err
    (tmp_path / "cut.bin").write_bytes(bytes(word[:60]))
    assert call("check", tmp_path / "cut.bin")[0] == 2


@pytest.mark.parametrize("wrong", [("--cost-model", "foo"), ("--trace", "/nonexistent/t.json")])
def test_nothing_is_written_where_a_later_step_is_refused(call, tmp_path: Path, wrong: tuple[str, str]) -> None:
    model = pool_model(tmp_path / "m.onnx", kernel_shape=[2, 2])
    assert call("compile", model, "-o", tmp_path / "out", *wrong)[0] == 2
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("extent", ["99999999999999999999", "²", "-1", "1.5", ""])
def test_extents_that_are_no_numbers(call, tmp_path: Path, extent: str) -> None:
    model = pool_model(tmp_path / "m.onnx", kernel_shape=[2, 2])
    status, _, err = call("compile", model, "-o", tmp_path / "out", "--shape", f"x={extent},3,8,8")
    assert status == 2
    assert "Traceback" not in err


def test_a_negative_seed_is_refused(call, tmp_path: Path) -> None:
    assert call("run", pool_model(tmp_path / "m.onnx", kernel_shape=[2, 2]), "--seed", "-1")[0] == 2


def legal_json(text: str) -> object:
    """One JSON document without the names that Python writes for numbers JSON does not have."""

    def refuse(name: str) -> None:
        raise AssertionError(name)

    return json.loads(text, parse_constant=refuse)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("compile", "m.onnx"), "Missing option '--output' / '-o'."),
        (("run", "m.onnx", "--seed", "-1"), "Invalid value for '--seed'"),
        (("run",), "Missing argument"),
        (("run", "m.onnx", "--bogus"), "No such option"),
        (("compile", "m.onnx", "-o", "out", "--shape", "x=a"), "'x=a' is not NAME=EXTENT,EXTENT,…"),
        (("bogus",), "No such command 'bogus'"),
        ((), "No such option: --json"),
    ],
)
def test_misuse_is_answered_in_json_where_json_is_asked_for(call, arguments: tuple[str, ...], message: str) -> None:
    status, out, err = call(*arguments, "--json")
    assert (status, err) == (2, "")
    (finding,) = legal_json(out)["findings"]
    assert message in finding["message"]
    assert finding["code"] == "CLI-USAGE"
    assert finding["got"] == " ".join((*arguments, "--json"))
    assert finding["allowed"].startswith("lanefold")
    command = finding["cures"][0]["text"].removeprefix("read ").removesuffix(" and give what it lists").split()
    status, out, _ = call(*command[1:])
    assert (status, out.startswith("Usage: lanefold")) == (0, True)


def test_an_infinite_difference_is_legal_json(call, tmp_path: Path) -> None:
    # onnxruntime keeps a last window of VALID that the standard leaves out, so that the shapes differ.
    window = {"kernel_shape": [2, 4], "strides": [1, 2], "auto_pad": "VALID", "ceil_mode": 1}
    model = pool_model(tmp_path / "m.onnx", shape=[1, 1, 9, 17], **window)
    status, out, _ = call("run", model, "--verify", "--json")
    assert status == 0
    (row,) = [row for row in legal_json(out)["verification"]["rows"] if row["kind"] == "output"]
    assert (row["ok"], row["largest"], row["relative"]) == (True, None, None)
    assert row["causes"] == {"auto_pad of onnxruntime": 1}


def test_inputs_without_names_or_damaged_are_refused(call, tmp_path: Path) -> None:
    model = pool_model(tmp_path / "m.onnx", kernel_shape=[3, 3])
    np.save(tmp_path / "x.npy", np.zeros((1, 3, 8, 8), np.float32))
    status, out, err = call("run", model, "--input", tmp_path / "x.npy")
    assert (status, out) == (2, "")
    assert "x.npy cannot be read as .npz: it holds one array without a name" in err
    np.savez_compressed(tmp_path / "x.npz", x=np.arange(192, dtype=np.float32).reshape(1, 3, 8, 8))
    content = bytearray((tmp_path / "x.npz").read_bytes())
    content[60:90] = bytes(30)
    (tmp_path / "x.npz").write_bytes(content)
    status, out, err = call("run", model, "--input", tmp_path / "x.npz")
    assert (status, out) == (2, "")
    assert "error[CLI-ARRAYS]" in err


def test_a_sequence_is_told_and_written_element_by_element(call, tmp_path: Path) -> None:
    nodes = [
        helper.make_node("SplitToSequence", ["x", "parts"], ["s"], axis=0),
        helper.make_node("ReduceMax", ["x"], ["y"], keepdims=0),
    ]
    outputs = [
        helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, None),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, []),
    ]
    parts = helper.make_tensor("parts", TensorProto.INT64, [2], [1, 2])
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3])], outputs, [parts]
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8), tmp_path / "m.onnx")
    status, out, _ = call("run", tmp_path / "m.onnx", "--verify", "--output", tmp_path / "out.npz")
    assert status == 0
    assert "output s: sequence of 2: float32 [1], float32 [2]" in out
    with np.load(tmp_path / "out.npz") as file:
        assert {name: file[name].shape for name in file.files} == {"s[0]": (1,), "s[1]": (2,), "y": ()}
    status, out, _ = call("run", tmp_path / "m.onnx", "--json")
    assert legal_json(out)["outputs"]["s"] == [{"shape": [n], "dtype": "float32"} for n in (1, 2)]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--target", "trn1"), "--target"),
        (("--prefer", "bogus", "--strict"), "--prefer and --strict"),
        (("--seed", "1", "--shape", "x=1", "--numerics", "device"), "--numerics, --shape and --seed"),
    ],
)
def test_a_saved_program_refuses_what_it_would_pass_over(call, tmp_path: Path, options, named: str) -> None:
    model = pool_model(tmp_path / "m.onnx", kernel_shape=[3, 3])
    call("compile", model, "-o", tmp_path / "out")
    np.savez(tmp_path / "x.npz", x=np.zeros((1, 3, 8, 8), np.float32))
    given = ("run", tmp_path / "out", "--input", tmp_path / "x.npz")
    status, out, err = call(*given, *options)
    assert (status, out) == (2, "")
    assert f"out is a saved program, which runs as it was compiled, without {named}" in err
    assert f"cure     leave {named} out" in err
    assert call(*given)[0] == 0


def test_a_seed_beside_given_inputs_is_refused(call, tmp_path: Path) -> None:
    model = pool_model(tmp_path / "m.onnx", kernel_shape=[2, 2])
    np.savez(tmp_path / "in.npz", x=np.ones((1, 3, 8, 8), np.float32))
    status, _, err = call("run", model, "--input", tmp_path / "in.npz", "--seed", "3")
    assert status == 2
    assert "CLI-SEED" in err
    assert "cure     leave --seed out" in err
    assert call("run", model, "--input", tmp_path / "in.npz")[0] == 0


def test_findings_of_a_run_stand_in_its_document(call, tmp_path: Path) -> None:
    model = pool_model(tmp_path / "m.onnx", kernel_shape=[2, 2])
    status, out, err = call("run", model, "--json")
    assert (status, err) == (0, "")
    assert json.loads(out)["findings"] == []


@pytest.mark.parametrize("arguments", [("targets",), ("targets", "--json"), ("ops", "trn9", "--json")])
def test_a_reader_that_leaves_early_changes_no_status(arguments: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "lanefold", *arguments]
    expected = lanefold(*arguments).returncode
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:  # noqa: S603
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.close()
        said = running.stderr.read()
        assert (running.wait(), said) == (expected, b"")


def test_the_working_folder_is_not_replaced(call, monkeypatch, tmp_path: Path) -> None:
    model = pool_model(tmp_path / "m.onnx", kernel_shape=[2, 2])
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    status, _, err = call("compile", model, "-o", ".")
    assert status == 2
    assert ". is the working folder, which cannot be replaced while it is in use" in err
    assert "cure     write program" in err
    assert call("compile", model, "-o", "program")[0] == 0


def test_bundles_are_read_as_what_is_said(call, tmp_path: Path) -> None:
    model = pool_model(tmp_path / "m.onnx", kernel_shape=[2, 2])
    call("compile", model, "-o", tmp_path / "p")
    stream = next((tmp_path / "p").glob("*.bin"))
    _, out, err = call("disasm", stream)
    assert "read as v2, opcodes reference (--generation and --opcodes choose)" in err
    assert out.startswith(".generation v2")
    assert call("disasm", stream, "--generation", "v2")[2] == ""
