"""Generated C++: every operation and form passes the compiler's syntax check against a stand-in of the library."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from lanefold.diagnostics import LanefoldError
from lanefold.ops import Pool
from lanefold.pto import Program, TileType, parse
from lanefold.pto.isa import OPERATIONS
from lanefold.pto.lower import lower
from lanefold.pto.program import Compute
from tests.pto.samples import ALL, sample

STAND_IN = Path(__file__).parent / "stand_in"
COMPILER = shutil.which("g++")


def syntax(text: str, folder: Path) -> str:
    """What the compiler has to say about a text."""
    file = folder / "kernel.cpp"
    file.write_text(text, encoding="utf-8")
    command = [str(COMPILER), "-std=c++20", "-fsyntax-only", "-Wall", "-D__CPU_SIM", f"-I{STAND_IN}", str(file)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stderr  # noqa: S603


def dynamic() -> Program:
    full = "!pto.tile<loc=vec, f16, 32, 64, RowMajor, NoneBox, None, Max, valid=?x?>"
    column = "!pto.tile<f16, 32, 16, valid=?x1>"
    place = "{valid_row = %n, valid_col = %m}"
    return parse(
        f"%x = tload %gx[%r, 0] {place} : (!pto.memref<512x64xf16>, index, index) -> {full}\n"
        f"%y = trowmax %x : {full} -> {column}\n"
        f"tstore %y, %gy[%r, 0] : ({column}, !pto.memref<512x1xf16>, index, index)\n"
    )


@pytest.fixture(scope="module")
def kernels() -> dict[str, str]:
    made = {f"{op.name}-{form.name}": sample(op, form).to_cpp() for op, form in ALL}
    made |= {f"{op.name}-{form.name}-a2a3": sample(op, form, "a2a3").to_cpp("a2a3") for op, form in ALL}
    made["bf16"] = sample(OPERATIONS["TROWSUM"], OPERATIONS["TROWSUM"].forms[0], dtype="bf16").to_cpp()
    made["dynamic"] = dynamic().to_cpp()
    for name in ("cpu", "a2a3", "a5"):
        pool = Pool("average", (1, 24, 30, 30), (3, 3), (2, 2), pads=(1, 1, 1, 1))
        for at, stage in enumerate(lower(pool, target=name).stages):
            made[f"windows-{at}-{name}"] = stage.program.to_cpp(name)
    for op, form in ALL:
        whole = sample(op, form)
        work = tuple(i for i in whole.instructions if isinstance(i, Compute))
        made[f"fragment-{op.name}-{form.name}"] = replace(whole, arrays=(), instructions=work).to_cpp()
    return made


@pytest.mark.skipif(COMPILER is None, reason="no g++ on this machine")
def test_kernels_are_well_formed(kernels: dict[str, str], tmp_path: Path) -> None:
    """All kernels in one translation unit, each in its own namespace; the drivers are looked at one by one below."""
    headers = ("cstdio", "cstdlib", "type_traits", "vector", "pto/pto-inst.hpp")
    head = "".join(f"#include <{header}>\n" for header in headers)
    parts = []
    for at, text in enumerate(kernels.values()):
        body = "\n".join(line for line in text.splitlines() if not line.startswith(("#include", "#ifdef", "#endif")))
        parts.append(f"namespace k{at} {{\n{body.replace('int main(', 'int start(')}\n}}")
    assert len(parts) > 60
    assert syntax(head + "\n".join(parts), tmp_path) == ""


@pytest.mark.skipif(COMPILER is None, reason="no g++ on this machine")
@pytest.mark.parametrize("name", ["TCOLSUM-C2", "dynamic", "bf16"])
def test_whole_files_are_well_formed(kernels: dict[str, str], name: str, tmp_path: Path) -> None:
    assert syntax(kernels[name], tmp_path) == ""


@pytest.mark.skipif(COMPILER is None, reason="no g++ on this machine")
def test_the_stand_in_refuses_unknown_names(kernels: dict[str, str], tmp_path: Path) -> None:
    assert "TROWEXPSUB" in syntax(kernels["TROWEXPANDSUB-E2"].replace("TROWEXPANDSUB(", "TROWEXPSUB("), tmp_path)


def test_calls_are_in_the_order_of_the_headers(kernels: dict[str, str]) -> None:
    assert "TCOLSUM(t_dst, t_src, t_tmp, true);" in kernels["TCOLSUM-C2"]
    assert "TROWARGMAX(t_dstVal, t_dstIdx, t_src, t_tmp);" in kernels["TROWARGMAX-R3"]
    assert "TROWEXPANDEXPDIF(t_dst, t_src0, t_src1);" in kernels["TROWEXPANDEXPDIF-E2"]
    assert "t_x(p_n, p_m);" in kernels["dynamic"]
    assert "bfloat16_t, half" in kernels["bf16"]


def test_scratch_and_addresses_are_supplied() -> None:
    full, column = "!pto.tile<f32, 16, 128>", "!pto.tile<loc=vec, f32, 16, 1, ColMajor, NoneBox, None, Null>"
    program = parse(
        f"%x = tload %a[0, 0] : (!pto.memref<16x128xf32>, index, index) -> {full}\n"
        f"%y = trowsum %x : {full} -> {column}\n"
        f"tstore %y, %b[0, 0] : ({column}, !pto.memref<16x1xf32>, index, index)\n"
    )
    text = program.to_cpp("a2a3")
    assert "TROWSUM(t_y, t_x, t_tmp0);" in text
    assert "float, 16, 64, BLayout::RowMajor, 16, 64, SLayout::NoneBox, 512, PadValue::Null> t_tmp0;" in text
    assert text.count("TASSIGN(") == 3
    assert text.index("TLOAD(") < text.index("set_flag(PIPE_MTE2, PIPE_V") < text.index("TROWSUM(")


def test_fragments_are_functions_of_their_tiles() -> None:
    """Lines as the pages print them, without loads; short names are read and full names written."""
    full, column = "!pto.tile<f32, 16, 16>", "!pto.tile<loc=vec, f32, 16, 1, ColMajor, NoneBox, None, Null>"
    text = parse(f"%d = trowexpsub %a, %b : {full}, {column} -> {full}").to_cpp()
    assert "    TROWEXPANDSUB(t_d, t_a, t_b);" in text
    assert "BLayout::ColMajor, 16, 1, SLayout::NoneBox, 512, PadValue::Null>& t_b" in text
    assert "TASSIGN" not in text
    assert "int main" not in text
    dynamic = "!pto.tile_buf<vec, 16x16xf16, valid=?x?>"
    line = "!pto.tile_buf<vec, 1x16xf16, valid=?x?>"
    assert "DYNAMIC, DYNAMIC" in parse(f"pto.tcolmax ins(%s : {dynamic}) outs(%d : {line})").to_cpp()
    placed = parse(f"%d = tcolexpand %s : {full.replace('16, 16', '1, 16')} -> {full}\npto.tassign %s, @tile(0x1000)")
    assert "TASSIGN(t_s, 0x1000);" in placed.to_cpp()


def test_fragments_are_checked() -> None:
    full, column = "!pto.tile<f32, 16, 16>", "!pto.tile<f32, 16, 8, valid=16x1>"
    with pytest.raises(LanefoldError, match="PTO-ROW-MODE"):
        parse(f"%d = trowexpandadd %a, %b : {full}, {full} -> {full}").to_cpp()
    scratch_read = f"%m = pto.trowmax %x, %x : ({full}, {full}) -> {column}\n%n = trowmin %x : {full} -> {column}"
    with pytest.raises(LanefoldError, match="served as scratch"):
        parse(scratch_read).to_cpp()


def test_illegal_programs_are_refused() -> None:
    op = OPERATIONS["TROWSUM"]
    with pytest.raises(LanefoldError, match="PTO-TYPES"):
        sample(op, op.forms[0], dtype="bf16").to_cpp("a2a3")
    large = TileType("f32", 256, 256, 256, 256)
    assert large.bytes > 192 * 1024
    text = "%x = tload %a[0, 0] : (!pto.memref<256x256xf32>, index, index) -> !pto.tile<f32, 256, 256>"
    with pytest.raises(LanefoldError, match="PTO-PROGRAM-MEMORY"):
        parse(text).to_cpp("a2a3")
