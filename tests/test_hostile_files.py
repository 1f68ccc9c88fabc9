"""Files, names and outputs that no command can use: a finding, never a traceback, and never wrong bytes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from lanefold.cli import main
from lanefold.diagnostics import LanefoldError
from lanefold.frontends.costs import price_file
from lanefold.frontends.streams import load_memory, split_index
from lanefold.tpb import Machine, bir

AP = {"kind": "physical_ap", "ap": [[1024, 128], [1, 16]], "offset": 0, "dtype": "float32", "memref": "x"}
PLACE = {"type": "SB", "addr": 0, "dims": [128, 4096], "bank": 0, "base": 0, "dtype": "float32", "name": "x"}
FULL = Path("/dev/full")
ROWS = {
    "TensorReduce": {"op": "add", "axis": "X", "engine": "DVE", "ins": [AP], "outs": [AP]},
    "Pool": {"func": "Max", "engine": "Pool", "ins": [AP], "outs": [AP]},
    "Iota": {"pattern": [[1, 16], [0, 1], [0, 1], [0, 1]], "engine": "Pool", "ins": [], "outs": [AP]},
    "MatchReplace": {"imm_value": 0.0, "engine": "DVE", "ins": [AP, AP], "outs": [AP]},
}


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    def run(*arguments: str | Path) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["lanefold", *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            main()
        captured = capsys.readouterr()
        return int(stopped.value.code or 0), captured.out, captured.err

    return run


def module(path: Path, record: dict) -> Path:
    location = {"Skind": "memory_location", **PLACE}
    function = {"name": "f", "allocations": [location], "blocks": [{"name": "b", "instructions": [record]}]}
    path.write_text(json.dumps({"arch": "gen2", "functions": [function]}))
    return path


@pytest.mark.parametrize("key", ["ins", "outs"])
@pytest.mark.parametrize("opcode", [name for name in ROWS if name != "Iota"])
def test_an_instruction_without_operands_has_no_price(tmp_path: Path, opcode: str, key: str) -> None:
    record = {"opcode": opcode, "name": "I-0", **ROWS[opcode], key: []}
    with pytest.raises(LanefoldError) as caught:
        price_file(module(tmp_path / "m.json", record))
    assert {found.code for found in caught.value.diagnostics} == {"TPB-BIR-OPERANDS"}


def test_an_operand_of_an_empty_kind() -> None:
    record = {"opcode": "Pool", "name": "I-0", **ROWS["Pool"], "ins": [{**AP, "kind": ""}]}
    with pytest.raises(LanefoldError, match="an operand has an empty kind") as caught:
        bir.instruction(record, {"x": PLACE})
    assert caught.value.diagnostics[0].got == "an empty text"


@pytest.mark.parametrize(
    ("source", "parts"),
    [("a.bin:7", ("a.bin", 7)), ("a.bin:²", ("a.bin:²", 0)), ("a:" + "9" * 5000, ("a", 10**100)), ("a", ("a", 0))],
)
def test_indices_are_plain_digits(source: str, parts: tuple[str, int]) -> None:
    assert split_index(source) == parts


@pytest.mark.parametrize("command", ["check", "cost", "sim", "disasm", "explain", "asm"])
def test_a_name_that_no_file_system_takes(call, command: str) -> None:
    status, out, _ = call(command, "x" * 5000, "--json")
    (finding,) = json.loads(out)["findings"]
    assert (status, finding["severity"]) == (2, "error")


@pytest.mark.parametrize(
    ("name", "command", "cure"),
    [
        ("a.pto", "check", "save the PTO text as UTF-8"),
        ("a.bin", "asm", "print a stream as text by `lanefold disasm {}`"),
        ("a.s", "check", "save the text as UTF-8, or name a stream a.bin"),
    ],
)
def test_bytes_where_a_text_is_wanted(call, tmp_path: Path, name: str, command: str, cure: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"\xff" * 64)
    status, out, _ = call(command, path, "--json")
    assert status == 2
    assert [row["text"] for row in json.loads(out)["findings"][0]["cures"]] == [cure.format(path)]


def test_memory_in_another_byte_order_is_the_same_memory() -> None:
    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    machine = Machine("v2")
    load_memory(machine, {"sbuf": values.astype(">f4"), "psum": values}, "m.npz")
    assert np.array_equal(machine.sbuf[:3, :16], machine.psum[:3, :16])
    assert np.array_equal(machine.psum[:3, :16].view(np.float32), values)


@pytest.mark.parametrize("dtype", ["U3", "S4", "datetime64[s]", [("a", "i4"), ("b", "f8")], "c16"])
def test_memory_of_what_is_no_number(dtype: object) -> None:
    with pytest.raises(LanefoldError) as caught:
        load_memory(Machine("v2"), {"sbuf": np.zeros((4, 8), dtype)}, "m.npz")  # type: ignore[call-overload]
    assert caught.value.diagnostics[0].code == "STREAM-MEMORY"


@pytest.mark.skipif(not FULL.exists(), reason="this system has no output that is always full")
@pytest.mark.parametrize("options", [(), ("--json",)])
def test_an_output_that_takes_no_more(options: tuple[str, ...]) -> None:
    with FULL.open("w") as full:
        left = subprocess.run(  # noqa: S603
            [sys.executable, "-m", "lanefold", "targets", *options], stdout=full, stderr=subprocess.PIPE, check=False
        )
    text = left.stderr.decode()
    assert left.returncode == 2
    assert text.startswith("error[CLI-PRINT] the answer cannot be printed: No space left on device")
    assert "Traceback" not in text
    assert "Exception ignored" not in text


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ("{ from = 1, to = 10, factor = 1 }", "{ from = 1, to = 10, factor = 1 }"),
        ("{ from = 1, to = 70000 }", "{ from = 1, to = 70000 }"),
        ("{}", "a dict"),
    ],
)
def test_a_range_is_told_as_it_is_written(call, tmp_path: Path, rows: str, told: str) -> None:
    path = tmp_path / "s.toml"
    path.write_text(f'ops = ["TROWSUM"]\ndtypes = ["f32"]\ntargets = ["a2a3"]\n[shapes]\nrows = {rows}\ncols = [8]\n')
    status, out, _ = call("sweep", path, "--json")
    assert (status, json.loads(out)["findings"][0]["got"]) == (2, told)


def test_groups_without_a_price_are_counted(call, tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    text = 'ops = ["TROWSUM"]\ndtypes = ["f32", "bf16"]\ntargets = ["a2a3"]\n[shapes]\nrows = [8]\ncols = [8]\n'
    path.write_text(text)
    assert "no price for 1 group: PTO-COST-DTYPE" in call("sweep", path)[1]


@pytest.mark.parametrize("name", ["m.json", "m.s", "m.pto", "m.toml"])
def test_the_mark_that_editors_put_before_a_text(call, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    texts = {
        "m.s": "Iota dst=SB[0, 0x0] int32 [[1,8]] pattern=[[1,8]] num_active_channels=128\n",
        "m.pto": "%s = tadd %x, %x : !pto.tile<f32, 16, 64> -> !pto.tile<f32, 16, 64>\n",
        "m.toml": 'ops = ["Iota"]\ndtypes = ["int32"]\ntargets = ["trn1"]\n[shapes]\nrows = [8]\ncols = [8]\n',
    }
    text = texts[name] if name in texts else module(path, {"opcode": "Iota", **ROWS["Iota"]}).read_text()
    answers = []
    for mark in (b"", b"\xef\xbb\xbf"):
        path.write_bytes(mark + text.encode())
        answers.append(call("sweep" if name == "m.toml" else "check", path, "--json"))
    assert answers[0] == answers[1]
    assert answers[0][0] == 0 or name == "m.pto"


def test_a_malformed_module_says_so_once() -> None:
    with pytest.raises(LanefoldError, match=r"the JSON text is malformed: object keys must be strings \(byte 1\)"):
        bir.load("{x")


@pytest.mark.parametrize("command", ["check", "cost"])
def test_values_of_parameters_that_a_text_does_not_have(call, tmp_path: Path, command: str) -> None:
    path = tmp_path / "p.pto"
    tile = "!pto.tile<f32, 16, 64>"
    for start, cure in (("0", "leave --parameter out"), ("%i", "write --parameter {}=8")):
        path.write_text(f"%x = tload %a[{start}, 0] : (!pto.memref<64x64xf32>, index, index) -> {tile}\n")
        status, out, _ = call(command, path, "--parameter", "q=3", "--json")
        (finding,) = json.loads(out)["findings"]
        assert (status, finding["code"], finding["got"]) == (2, "STREAM-PARAMETER", "q")
        name = finding["allowed"]
        assert finding["cures"][0]["text"] == cure.format(name)
    assert call(command, path, "--parameter", f"{name}=8", "--json")[0] in (0, 1)


def test_many_findings_of_a_rule_and_long_prices_end_with_how_many_follow(tmp_path: Path, call) -> None:
    stream = tmp_path / "many.bin"
    stream.write_bytes(bytes.fromhex("45" + "00" * 63) * 1200)
    _, _, told = call("check", stream)
    assert told.count("error[TPB-WORD-LENGTH]") == 20
    assert "1,180 more findings of TPB-WORD-LENGTH; --json has all" in told
    _, document, _ = call("check", stream, "--json")
    assert sum(each["code"] == "TPB-WORD-LENGTH" for each in json.loads(document)["findings"]) == 1200
    _, priced, _ = call("cost", stream)
    assert "200 more rows; --json has all" in priced
    _, document, _ = call("cost", stream, "--json")
    rows = json.loads(document)["rows"]
    assert [row["instruction"].split()[0] for row in rows] == [str(index) for index in range(1200)]
