"""Streams, texts and modules as files, through the commands on them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import lanefold.tpb as tpb
from lanefold import cli
from lanefold.frontends.streams import check_file, machine_streams, read_stream
from lanefold.tpb import bir
from tests.tpb.rule_bundles import bundle

OPERAND = {"kind": "physical_ap", "ap": [[1024, 32], [1, 1024]], "dtype": "float32", "memref": "x", "offset": 0}
INDICES = {**OPERAND, "ap": [[32, 32], [1, 32]], "dtype": "uint32", "memref": "i"}
PLACES = [
    {"Skind": "memory_location", "name": name, "type": "SB", "addr": addr, "dims": [32, 4096], "dtype": dtype}
    for name, addr, dtype in (("x", 0, "float32"), ("i", 0x4000, "uint32"), ("y", 0x8000, "float32"))
]


def module(path: Path, arch: str = "gen3") -> Path:
    """A gather of two chunks on Pool and a reciprocal on DVE: two instructions, five bundles."""
    gather = {
        "opcode": "Gather",
        "engine": "Pool",
        "bundles": 4,
        "node": "n",
        "ins": [OPERAND, INDICES],
        "outs": [{**OPERAND, "ap": [[32, 32], [1, 32]], "memref": "y"}],
    }
    copy = {"opcode": "Reciprocal", "engine": "DVE", "ins": [OPERAND], "outs": [{**OPERAND, "memref": "y"}]}
    function = {"name": "f", "allocations": PLACES, "blocks": [{"instructions": [gather, copy]}]}
    path.write_text(json.dumps({"arch": arch, "functions": [function]}))
    return path


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    def run(*arguments: str | Path) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["lanefold", *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        captured = capsys.readouterr()
        return int(stopped.value.code or 0), captured.out, captured.err

    return run


def test_instructions_and_bundles_are_counted_apart(call, tmp_path: Path) -> None:
    path = module(tmp_path / "program.json")
    found, told = check_file(path, None, None)
    assert told == {"instructions": 2, "bundles": 5, "generation": "v3", "opcodes": "reference"}
    assert not [finding.code for finding in found if finding.code.startswith("TPB-BIR")]
    status, out, _ = call("check", path)
    assert (status, out.strip()) == (0, f"{path}: 2 instructions, 5 bundles, 0 errors, {len(found)} other findings")


def test_generation_and_reading_of_a_file_are_its_own(call, tmp_path: Path) -> None:
    path = module(tmp_path / "program.json")
    assert read_stream(str(path))[0].generation == "v3"
    assert {stream.generation for stream in machine_streams(path, None, None).values()} == {"v3"}
    text = tmp_path / "program.s"
    text.write_text(tpb.disassemble(tpb.decode(bundle("tensor_reduce_arith", "headers"), "v4", "headers")))
    stream, _ = read_stream(str(text))
    assert (stream.generation, stream.opcodes) == ("v4", "headers")
    for file, told in ((path, "'gen3', which is v3, and the call says v2"), (text, "says v4, the call says v2")):
        for command in ("check", "disasm", "sim"):
            status, _, error = call(command, file, "--generation", "v2")
            assert status == 2
            assert told in error
    assert "opcodes headers: the text says so" in call("disasm", text, "--opcodes", "auto")[1]


def test_a_module_becomes_one_stream_per_engine(call, tmp_path: Path) -> None:
    path = module(tmp_path / "program.json")
    status, out, _ = call("asm", path, "-o", tmp_path / "bins")
    assert status == 0
    assert out.splitlines() == [
        f"wrote {tmp_path / 'bins' / 'Pool.bin'}: 4 bundles, 256 bytes",
        f"wrote {tmp_path / 'bins' / 'DVE.bin'}: 1 bundle, 64 bytes",
    ]
    for name, stream in bir.load(path).streams().items():
        assert (tmp_path / "bins" / name).read_bytes() == stream.tobytes()
    printed = json.loads(call("asm", path, "--json")[1])
    assert {name: len(words) for name, words in printed["streams"].items()} == {"Pool.bin": 4, "DVE.bin": 1}
    plain = call("asm", path)[1].splitlines()
    assert (plain[0], len(plain[1]), plain[5]) == ("; Pool.bin", 128, "; DVE.bin")


def test_a_folder_that_cannot_be_made(call, tmp_path: Path) -> None:
    path = module(tmp_path / "program.json")
    (tmp_path / "taken").write_text("")
    status, _, error = call("asm", path, "-o", tmp_path / "taken")
    assert status == 2
    assert "CLI-OUTPUT" in error


@pytest.mark.parametrize("command", ["asm", "disasm", "explain", "check", "sim", "cost"])
@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"functions": 3}', b"\xff\xfe", b"Pol\n", bytes(63), bytes(64)]
)
@pytest.mark.parametrize("suffix", [".json", ".s", ".bin", ""])
def test_any_file_is_read_or_refused(call, tmp_path: Path, command: str, content: bytes, suffix: str) -> None:
    path = tmp_path / f"file{suffix}"
    path.write_bytes(content)
    status, _, error = call(command, path)
    assert status in (0, 1, 2)
    assert "Traceback" not in error
    assert (status == 0) or "cure" in error


def test_an_index_of_a_file(call, tmp_path: Path) -> None:
    path = tmp_path / "two.bin"
    path.write_bytes(bundle("pool") + bundle("reciprocal"))
    assert call("explain", f"{path}:1")[1].startswith("Reciprocal (opcode 0x48")
    for index in ("2", "-1", "x", "999999999999999999999"):
        status, _, error = call("explain", f"{path}:{index}")
        assert status == 2
        assert "STREAM-" in error


@pytest.mark.parametrize("command", ["asm", "disasm", "check", "sim"])
def test_a_mistake_in_a_text_is_found_by_file_line_and_column(call, tmp_path: Path, command: str) -> None:
    path = tmp_path / "wrong.s"
    path.write_text("; a comment\n.generation v9\n")
    status, _, error = call(command, path)
    assert status == 2
    assert f"where    {path}:2:13" in error
