"""What the command line prints at different widths, and which kinds of files its commands take."""

from __future__ import annotations

import io
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper
from rich.console import Console
from typer.testing import CliRunner

from lanefold.cli import app
from lanefold.report.table import show, table

RUNNER = CliRunner()
TEXT = (
    ".generation v3\nMax8 src=SB[0, 0x0] float32 [[1,1000]] dst=SB[0, 0x2000] float32 [[1,8]] num_active_channels=128\n"
)
LONG = "tensor_reduce (free-axis) + reciprocal"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    node = helper.make_node("ReduceMax", ["x"], ["y"], name="largest", axes=[1], keepdims=0)
    ends = (
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [16, 64]),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, [16]),
    )
    graph = helper.make_graph([node], "g", [ends[0]], [ends[1]])
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    return path


def said(*arguments: str | Path) -> tuple[int, str, str]:
    result = RUNNER.invoke(app, [str(each) for each in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


def at_width(monkeypatch: pytest.MonkeyPatch, width: int, rows: list[tuple[str, ...]]) -> list[str]:
    """The lines of a ledger-like table on a terminal of some width."""
    out = io.StringIO()
    made = Console(file=out, width=width, force_terminal=True, color_system=None, soft_wrap=True)
    monkeypatch.setattr("rich.console.Console", lambda **_: made)
    show([table("", ("node", "became", "route", "opcodes", "cycles"), rows, ("cycles",))])
    return out.getvalue().splitlines()


def test_a_pipe_gets_one_line_per_row_without_filling(capsys: pytest.CaptureFixture[str]) -> None:
    show([table("title", ("node", "why"), [("a", "word " * 300 + "end"), ("b", "short")])])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "title"
    assert [line.split()[0] for line in lines[3:5]] == ["a", "b"]
    assert lines[3].endswith(" end")
    assert all(line == line.rstrip() for line in lines)


@pytest.mark.parametrize("width", [20, 30, 45, 60, 80, 200])
def test_nothing_is_cut_at_any_width(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    rows = [("n175", "rewritten", LONG, "126 109 111 108 110 124 104 103", "102,362")]
    lines = at_width(monkeypatch, width, rows)
    assert max(map(len, lines)) <= width
    letters = sorted(character for line in lines for character in line if character not in " ─;")
    words = ["node", "became", "route", "opcodes", "cycles", *rows[0]]
    assert letters == sorted(character for word in words for character in word if character != " ")


def test_words_stay_whole_where_they_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = at_width(monkeypatch, 60, [("n175", "rewritten", LONG, "124 72", "2,064")])
    assert {"rewritten", "tensor_reduce", "(free-axis)", "reciprocal", "2,064"} <= set(" ".join(lines).split())


def test_columns_without_content_are_left_out() -> None:
    made = table("", ("node", "opcodes", "cycles"), [("a", "", "1"), ("b", "", "2")])
    assert [column.header for column in made.columns] == ["node", "cycles"]


def test_help_has_whole_lines() -> None:
    status, out, _ = said("--help")
    assert status == 0
    commands = out.partition("Commands:")[2].splitlines()[1:]
    assert len(commands) == 12
    assert all(line.endswith(".") and not line.endswith("...") and len(line) <= 80 for line in commands)


def test_bundles_on_one_instruction_set_and_instructions_on_the_other(model: Path, tmp_path: Path) -> None:
    tpb = said("compile", model, "-t", "trn1", "-o", tmp_path / "tpb")[1]
    pto = said("compile", model, "-t", "a2a3", "-o", tmp_path / "pto")[1]
    assert "program: 1 bundle, 64 bytes, 1 leg step" in tpb
    assert "program: 1 instruction, 1 leg step" in pto
    assert "bytes" not in pto.splitlines()[0]


def test_cycles_are_told_by_how_they_are_founded(tmp_path: Path) -> None:
    text = tmp_path / "both.s"
    pool = "Pool src=SB[0, 0x0] float32 [[1,500]] dst=SB[0, 0x3000] float32 [[1,1]] num_active_channels=8 pool_dim=X\n"
    text.write_text(TEXT + pool + TEXT.splitlines()[1] + "\n")
    out = said("cost", text)[1]
    assert out.splitlines()[-1] == (
        "validity: published formula (2,000 cycles); model, nothing is published (500 cycles)"
    )


def test_saved_programs_are_checked(model: Path, tmp_path: Path) -> None:
    for target, size in (("trn2", "1 bundle"), ("a2a3", "1 instruction")):
        folder = tmp_path / target
        assert said("compile", model, "-t", target, "-o", folder)[0] == 0
        status, out, _ = said("check", folder)
        assert (status, out.partition(" other")[0]) == (0, f"{folder} on {target}: {size}, 0 errors, {out.split()[-3]}")


def test_tile_texts_are_checked_for_a_target(model: Path, tmp_path: Path) -> None:
    assert said("compile", model, "-t", "a2a3", "-o", tmp_path / "pto")[0] == 0
    text = next((tmp_path / "pto").glob("*.pto"))
    for target in ("cpu", "a2a3", "a5"):
        assert said("check", text, "-t", target)[:2] == (
            0,
            f"{text} on {target}: 3 instructions, 0 errors, 0 other findings\n",
        )


def test_bundles_are_checked_for_a_target(tmp_path: Path) -> None:
    text = tmp_path / "max.s"
    text.write_text(TEXT)
    assert said("check", text, "-t", "trn2")[0] == 0


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("max.s", ("-t", "a5")),
        ("max.s", ("-t", "trn1", "--generation", "v3")),
        ("max.s", ("--parameter", "n=1")),
        ("x.pto", ("--generation", "v2")),
        ("x.pto", ("--opcodes", "headers")),
        (".", ("-t", "trn1")),
        (".", ("--opcodes", "headers")),
    ],
)
def test_options_that_do_not_go_with_a_file(tmp_path: Path, name: str, options: tuple[str, ...]) -> None:
    from lanefold.diagnostics import LanefoldError

    (tmp_path / "max.s").write_text(TEXT)
    (tmp_path / "x.pto").write_text("")
    with pytest.raises(LanefoldError) as caught:
        said("check", tmp_path / name, *options)
    (finding,) = caught.value.diagnostics
    assert finding.code == "STREAM-CHECK"
    assert finding.cures[0].text == f"leave {finding.got} out"
    assert finding.got in {"--target" if option == "-t" else option for option in options}


@pytest.mark.parametrize("command", ["sim", "disasm", "explain", "asm"])
def test_a_folder_where_a_file_is_wanted(model: Path, tmp_path: Path, command: str) -> None:
    from lanefold.diagnostics import LanefoldError

    folder = tmp_path / "out"
    assert said("compile", model, "-t", "trn1", "-o", folder)[0] == 0
    with pytest.raises(LanefoldError) as caught:
        said(command, folder)
    assert caught.value.diagnostics[0].cures[0].text == f"give {folder / 'program.json'}"


def test_a_tile_text_has_no_bundles(tmp_path: Path) -> None:
    from lanefold.diagnostics import LanefoldError

    (tmp_path / "x.pto").write_text("tstore %a\n")
    with pytest.raises(LanefoldError, match="no bundles"):
        said("disasm", tmp_path / "x.pto")


def test_explanations_fit_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    from types import SimpleNamespace

    from lanefold.cli import streams
    from lanefold.tpb import assemble

    word = assemble(TEXT)[0].tobytes().hex()
    out = io.StringIO()
    made = Console(file=out, width=80, force_terminal=True, color_system=None, soft_wrap=True)
    monkeypatch.setattr("rich.console.Console", lambda **_: made)
    monkeypatch.setattr(streams, "sys", SimpleNamespace(stdout=SimpleNamespace(isatty=lambda: True)))
    assert said("explain", word, "--generation", "v3")[0] == 0
    lines = out.getvalue().splitlines()
    rows = [line for line in lines if line.startswith("offset +0x")]
    assert len(rows) > 15
    assert all(len(line) <= 80 for line in lines[lines.index(rows[0]) :])


@pytest.mark.parametrize(
    ("digits", "missing"), [(8, "120 more digits"), (127, "1 more digit"), (129, "127 more digits")]
)
def test_digits_that_are_no_bundle(digits: int, missing: str) -> None:
    from lanefold.diagnostics import LanefoldError

    with pytest.raises(LanefoldError) as caught:
        said("explain", "a" * digits)
    (finding,) = caught.value.diagnostics
    assert finding.got == f"{digits} digits"
    assert finding.cures[0].text == f"give {missing}"


def test_digits_of_many_bundles_are_no_name_of_a_file() -> None:
    from lanefold.tpb import assemble

    assert said("disasm", assemble(TEXT).tobytes().hex() * 100, "--generation", "v3")[1].count("Max8") == 100


def test_digits_may_be_the_name_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lanefold.tpb import assemble

    monkeypatch.chdir(tmp_path)
    Path("abcd").write_bytes(assemble(TEXT).tobytes())
    assert "Max8" in said("disasm", "abcd", "--generation", "v3")[1]


def test_arrays_that_are_none(tmp_path: Path) -> None:
    from lanefold.diagnostics import LanefoldError

    (tmp_path / "max.s").write_text(TEXT)
    with pytest.raises(LanefoldError, match=r"it is no \.npz file of plain arrays"):
        said("sim", tmp_path / "max.s", "--memory", tmp_path / "max.s")


@pytest.mark.parametrize(
    ("target", "leg", "host"),
    [
        ("trn2", "soft/largest, soft/total, soft/quotient/inverse", "; on the host: soft/powers, soft/quotient"),
        ("a2a3", "soft/largest, soft/powers, soft/total, soft/quotient", ""),
    ],
)
def test_a_divided_node_says_so(tmp_path: Path, target: str, leg: str, host: str) -> None:
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 20000]) for name in ("x", "y")]
    node = helper.make_node("Softmax", ["x"], ["y"], name="soft", axis=-1)
    path = tmp_path / "soft.onnx"
    made = helper.make_graph([node], "g", ends[:1], ends[1:])
    onnx.save(helper.make_model(made, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    lines = said("route", path, "soft", "-t", target)[1].splitlines()
    assert f"soft is divided; on the leg: {leg}{host}" in lines
    assert not any(line.startswith("to make softmax legal") for line in lines)
