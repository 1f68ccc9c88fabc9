"""Programs: saved whole, read back to the same bytes, damaged files reported."""

from __future__ import annotations

import hashlib
import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import lanefold as lf
from lanefold.diagnostics import LanefoldError
from lanefold.program.files import _TARGET, sealed, to_json, write_folder, write_whole


@pytest.fixture(scope="module")
def model() -> onnx.ModelProto:
    """A pool, a host node and a reduction over a negated axis order, so that both engines have instructions."""
    nodes = [
        helper.make_node("MaxPool", ["x"], ["p"], name="pool", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        helper.make_node("Sigmoid", ["p"], ["s"], name="sigmoid"),
        helper.make_node("ReduceSum", ["s", "axes"], ["y"], name="sum", keepdims=0),
        helper.make_node("ReduceMean", ["s"], ["z"], name="mean", axes=[2, 3], keepdims=1),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 5, 6, 7])],
        [
            helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 5, 6]),
            helper.make_tensor_value_info("z", TensorProto.FLOAT, [2, 5, 1, 1]),
        ],
        [helper.make_tensor("axes", TensorProto.INT64, [1], [3])],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


@pytest.fixture
def x() -> np.ndarray:
    return np.random.default_rng(0).standard_normal((2, 5, 6, 7)).astype(np.float32)


def seal(folder: Path) -> None:
    """Writes the digests of a folder anew, as one does who means a change of its files."""
    for name, content in sealed({path.name: path.read_bytes() for path in folder.iterdir()}).items():
        (folder / name).write_bytes(content)


@pytest.mark.parametrize("opcodes", ["reference", "headers"])
@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
def test_saved_program_is_the_program(model, x, target: str, opcodes: str, tmp_path: Path) -> None:
    program = lf.compile(model, target=target, opcodes=opcodes)
    folder = program.save(tmp_path / "out")
    loaded = lf.load(folder)
    assert loaded.target == program.target
    assert loaded.ledger.to_dict() == program.ledger.to_dict()
    for ours, theirs in zip(program.leg_steps, loaded.leg_steps, strict=True):
        assert ours.code.stream.tobytes() == theirs.code.stream.tobytes()
        assert ours.op == theirs.op
    made, again = program.run({"x": x}), loaded.run({"x": x})
    for name in made:
        np.testing.assert_array_equal(made[name], again[name])
    assert loaded.check() == program.check()
    assert loaded.cost().to_dict() == program.cost().to_dict()


def test_the_saved_bytes_are_what_runs(model, x, tmp_path: Path) -> None:
    folder = lf.compile(model).save(tmp_path / "out")
    stream = bytearray((folder / "DVE.bin").read_bytes())
    operator = next(f.offset for f in lf.tpb.isa.STRUCTS["S4D4_TR"].fields if f.name == "op")
    assert stream[operator] == 4
    stream[operator] = 8
    (folder / "DVE.bin").write_bytes(bytes(stream))
    seal(folder)
    loaded = lf.load(folder)
    changed = loaded.run({"x": x})["y"]
    pooled = lf.pool2d(x, (3, 3), pads=(1, 1, 1, 1))
    sigmoid = 1 / (1 + np.exp(-pooled.astype(np.float64)))
    np.testing.assert_allclose(changed, sigmoid.max(axis=3), rtol=1e-6)


def test_program_json_has_the_form_of_a_bir_module(model, tmp_path: Path) -> None:
    folder = lf.compile(model, target="trn2").save(tmp_path / "out")
    module = json.loads((folder / "program.json").read_text())
    assert (module["arch"], module["version"]) == ("gen3", 2)
    read = lf.tpb.bir.load(folder / "program.json")
    opcodes = [instruction.opcode for instruction in read.instructions()]
    assert set(opcodes) == {"Pool", "TensorReduce"}
    joined = lf.tpb.encode(read, generation="v3")
    per_engine = {path.stem: path.read_bytes() for path in folder.glob("*.bin")}
    streams = read.streams(generation="v3")
    assert {Path(name).stem: stream.tobytes() for name, stream in streams.items()} == per_engine
    assert len(joined) * 64 == sum(map(len, per_engine.values()))


def test_the_listing_assembles_to_the_streams(model, tmp_path: Path) -> None:
    program = lf.compile(model)
    folder = program.save(tmp_path / "out")
    whole = b"".join(step.code.stream.tobytes() for step in program.leg_steps)
    assert lf.tpb.assemble((folder / "listing.s").read_text()).tobytes() == whole


def test_saving_again_replaces_the_folder(model, tmp_path: Path) -> None:
    lf.compile(model, target="trn1").save(tmp_path / "out")
    lf.compile(model, target="trn3").save(tmp_path / "out")
    assert lf.load(tmp_path / "out").target.name == "trn3"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_two_that_write_one_folder_at_a_time_leave_one_whole_program(tmp_path: Path) -> None:
    folder = tmp_path / "out"

    def write(number: int) -> None:
        for _ in range(60):
            write_folder(folder, {"program.json": b"%d" % number, "other": b"%d" % number})

    with ThreadPoolExecutor(3) as pool:
        for each in [pool.submit(write, number) for number in range(3)]:
            each.result()
    assert (folder / "program.json").read_bytes() == (folder / "other").read_bytes()
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("broken", ["rename", "write_bytes"])
def test_an_interrupted_save_leaves_what_stood_there(
    model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    folder = write_folder(tmp_path / "out", {"program.json": b"{}"})
    whole = getattr(Path, broken)
    calls = []

    def interrupt(path: Path, *given: object) -> object:
        calls.append(path)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return whole(path, *given)

    monkeypatch.setattr(Path, broken, interrupt)
    with pytest.raises(KeyboardInterrupt):
        lf.compile(model).save(folder)
    monkeypatch.undo()
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert (folder / "program.json").read_bytes() == b"{}"


def test_a_program_is_saved_where_a_link_points(model, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    for _ in range(2):
        lf.compile(model).save(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real" / "program.json").exists()


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "out.npz"
    (tmp_path / "link.npz").symlink_to(file)
    write_whole(tmp_path / "link.npz", b"first", _TARGET)
    assert file.read_bytes() == b"first"
    assert (tmp_path / "link.npz").is_symlink()

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_whole(file, b"second", _TARGET)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.npz", "out.npz"]
    assert file.read_bytes() == b"first"


def test_a_pipe_takes_a_file_and_stays_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as pool:
        read = pool.submit(pipe.read_bytes)
        write_whole(pipe, b"content", _TARGET)
        assert read.result() == b"content"
    assert pipe.is_fifo()


def test_a_taken_folder_is_left_alone(model, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(LanefoldError, match="taken by something"):
        lf.compile(model).save(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("program.json", None),
        ("program.json", b"{"),
        ("program.json", b"[]"),
        ("program.json", b"{}"),
        ("program.json", b'{"attributes": {"lanefold": {"target": "trn1", "readings": {}}}}'),
        ("Pool.bin", None),
        ("Pool.bin", b"\0" * 63),
        ("Pool.bin", b""),
        ("ledger.json", None),
        ("ledger.json", b"?"),
        ("host-1.onnx", None),
    ],
)
def test_damaged_folders_are_reported(model, tmp_path: Path, name: str, content: bytes | None) -> None:
    folder = lf.compile(model).save(tmp_path / "out")
    if content is None:
        (folder / name).unlink()
    else:
        (folder / name).write_bytes(content)
    with pytest.raises(LanefoldError) as caught:
        lf.load(folder)
    assert caught.value.usage
    assert caught.value.diagnostics[0].code.startswith("PROGRAM-")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"inputs": ["z"]}, "program.json does not fit together: step host_1 reads 'z', which nothing makes before"),
        ({"outputs": ["z"]}, "program.json does not fit together: step sum reads 's', which nothing makes before"),
        ({"model": "../other.onnx"}, "'../other.onnx' as the model of step host_1, which is no file of the program"),
    ],
)
def test_steps_that_do_not_fit_are_reported(model, tmp_path: Path, changed: dict[str, object], message: str) -> None:
    folder = lf.compile(model).save(tmp_path / "out")
    (tmp_path / "other.onnx").write_bytes((folder / "host-1.onnx").read_bytes())
    document = json.loads((folder / "program.json").read_bytes())
    described = document["attributes"]["lanefold"]
    (step,) = [step for step in described["steps"] if step["kind"] == "host"]
    step |= changed
    (folder / "program.json").write_bytes(to_json(document))
    seal(folder)
    with pytest.raises(LanefoldError) as caught:
        lf.load(folder)
    assert message in caught.value.diagnostics[0].message
    described["outputs"][0]["name"] = "q"
    step |= {"inputs": ["p"], "outputs": ["s"], "model": "host-1.onnx"}
    (folder / "program.json").write_bytes(to_json(document))
    seal(folder)
    with pytest.raises(LanefoldError, match="the program answers with 'q', which nothing makes before"):
        lf.load(folder)


def test_ledger_counts_add_up(model) -> None:
    ledger = lf.compile(model).ledger
    assert sum(ledger.counts.values()) == len(ledger) == 4
    assert ledger.row("sigmoid").disposition == "host"
    assert ledger.bytes == 64 * ledger.bundles


def test_a_counting_run_tells_what_was_passed_over(model, x) -> None:
    program = lf.compile(model)
    x[0, 0, 2, 3] = np.nan
    program.run({"x": x}, count=True)
    assert dict(program.ledger.row("pool").counted)["nan_dropped"] == 9
    assert "nan dropped 9" in program.ledger.to_text()
    assert not program.ledger.row("sigmoid").counted


def test_feeds_of_the_other_byte_order(model, x) -> None:
    program = lf.compile(model)
    swapped = program.run({"x": x.astype(x.dtype.newbyteorder())})
    for name, value in program.run({"x": x}).items():
        np.testing.assert_array_equal(swapped[name], value)


def test_instructions_of_several_bundles_are_saved(tmp_path: Path) -> None:
    node = helper.make_node("ArgMax", ["x"], ["y"], name="arg", axis=1)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [7, 50])],
        [helper.make_tensor_value_info("y", TensorProto.INT64, [7, 1])],
    )
    program = lf.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8))
    loaded = lf.load(program.save(tmp_path / "out"))
    assert [f.code for f in loaded.check()] == [f.code for f in program.check()]
    values = np.random.default_rng(1).standard_normal((7, 50)).astype(np.float32)
    np.testing.assert_array_equal(loaded.run({"x": values})["y"][:, 0], values.argmax(axis=1))


@pytest.mark.parametrize("target", ["trn1", "a5"])
def test_no_changed_byte_of_a_saved_program_is_read(model, target: str, tmp_path: Path) -> None:
    """Bytes all over the files, flipped or left out; files cut short, longer, empty or gone."""
    folder = lf.compile(model, target=target).save(tmp_path / "out")
    for path in sorted(folder.iterdir()):
        whole = path.read_bytes()
        bytes_of_it = 150 if path.name == "program.json" else 20
        for at in range(0, len(whole), max(len(whole) // bytes_of_it, 1)):
            for changed in (bytes([whole[at] ^ 1 << at % 8]), b""):
                path.write_bytes(whole[:at] + changed + whole[at + 1 :])
                with pytest.raises(LanefoldError) as caught:
                    lf.load(folder)
                assert len(caught.value.diagnostics) == 1
                assert caught.value.diagnostics[0].code == "PROGRAM-FILE"
                assert caught.value.diagnostics[0].place.file == str(path)
        for content in (b"", whole[:-1], whole[: len(whole) // 2], whole + b"\n", None):
            path.unlink()
            if content is not None:
                path.write_bytes(content)
            with pytest.raises(LanefoldError, match="PROGRAM-"):
                lf.load(folder)
            path.write_bytes(whole)
    lf.load(folder)


def test_a_change_is_told_with_both_digests(model, tmp_path: Path) -> None:
    folder = lf.compile(model).save(tmp_path / "out")
    written = json.loads((folder / "program.json").read_text())["attributes"]["lanefold"]
    assert sorted(written["files"]) == sorted(path.name for path in folder.iterdir() if path.name != "program.json")
    for name, expected in written["files"].items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == expected
    (folder / "host-1.onnx").write_bytes(b"changed")
    with pytest.raises(LanefoldError) as caught:
        lf.load(folder)
    (finding,) = caught.value.diagnostics
    assert finding.message == (
        f"host-1.onnx was changed after the program was saved: its SHA-256 is "
        f"{hashlib.sha256(b'changed').hexdigest()[:12]}…, not {written['files']['host-1.onnx'][:12]}…"
    )
    assert finding.cures[0].text == "compile the model again and save the program anew"


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"steps": 3}, "array"),
        ({"target": "trn9"}, "trn9"),
        ({"readings": {"opcodes": "mine"}}, "mine"),
        ({"outputs": [{"name": "nobody", "shape": [1], "dtype": "float32"}]}, "nobody"),
        ({"more": 1}, "more"),
        ({"inputs": [{"name": "x", "shape": "2", "dtype": "float32"}]}, "shape"),
        ({"files": {"../secret": ""}}, "secret"),
    ],
)
def test_a_sealed_program_of_another_form_is_refused(model, tmp_path: Path, change: dict, word: str) -> None:
    folder = lf.compile(model).save(tmp_path / "out")
    document = json.loads((folder / "program.json").read_text())
    described = document["attributes"]["lanefold"]
    described.update(change, sha256="")
    described["sha256"] = hashlib.sha256(to_json(document)).hexdigest()
    (folder / "program.json").write_bytes(to_json(document))
    with pytest.raises(LanefoldError, match=word):
        lf.load(folder)


@pytest.mark.parametrize("last", [0, 1])
def test_indices_outside_the_axis_never_pass_silently(last: int) -> None:
    node = helper.make_node("ArgMax", ["x"], ["y"], name="arg", axis=1, select_last_index=last)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 9])],
        [helper.make_tensor_value_info("y", TensorProto.INT64, [3, 1])],
    )
    program = lf.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8))
    x = np.arange(27, dtype=np.float32).reshape(3, 9)
    program.run({"x": x})
    x[1] = np.nan
    with pytest.warns(RuntimeWarning, match="arg: 1 of 3 indices lies outside the 9 elements searched"):
        y = program.run({"x": x})["y"]
    assert y[1, 0] >= 9
    program.run({"x": x}, count=True)
    assert dict(program.ledger.row("arg").counted)["indices_outside_axis"] == 1
    with pytest.warns(RuntimeWarning, match="argmax: 1 of 3 indices lies"):
        lf.argmax(x, axis=1)
