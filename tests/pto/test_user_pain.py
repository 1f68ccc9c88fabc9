"""Questions that users of PTO have asked in public, each as a test of the answer given here."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from lanefold.diagnostics import LanefoldError, errors
from lanefold.pto import Tile, TileType, check, cost, execute, parse
from lanefold.pto.calls import Operand
from lanefold.pto.isa import NAMES, OPERATIONS
from lanefold.pto.simulate.readings import READINGS

T = "!pto.tile<f32, 16, 64>"
C = "!pto.tile<loc=vec, f32, 16, 1, ColMajor, NoneBox, None, Null>"
M = "!pto.memref<16x64xf32>"


def shape(dtype: str, rows: int, cols: int, layout: str = "ND") -> TileType:
    return TileType(dtype, rows, cols, rows, cols, layout)


def test_a1_orders_have_names_and_their_distance_is_reported() -> None:
    text = (
        f"%x = tload %a[0, 0] : ({M}, index, index) -> {T}\n%s = trowsum %x : {T} -> {C}\n"
        f"tstore %s, %b[0, 0] : ({C}, !pto.memref<16x1xf32>, index, index)"
    )
    x = np.random.default_rng(1).standard_normal((9, 16, 64)).astype(np.float32)
    run = parse(text).run({"a": x}, compare=True)
    assert run.exact
    assert "largest distance from a5-order in units of the last place: %b" in run.to_text()
    assert set(run.distances) == {"a2a3-order", "a5-order"}
    assert all(found["b"] > 0 for found in run.distances.values())


def test_a2_results_carry_target_and_reading() -> None:
    src, dst = Tile("f32", 16, 64), Tile("f32", 16, 1, layout="DN")
    done = execute("TROWSUM", dst, src, target="a5", numerics="a5-order")
    assert (done.target, done.numerics, done.exact) == ("a5", "a5-order", False)


def test_a3_addresses_that_overrun_the_buffer() -> None:
    src = Operand(shape("i32", 64, 64), address=0x2F000)
    dst = Operand(shape("i32", 64, 1, "DN"), address=0)
    tmp = Operand(shape("i32", 1, 8), address=0x1000)
    (finding,) = check("TROWSUM", dst, src, tmp, target="a2a3")
    assert finding.code == "PTO-ADDRESS-RANGE"
    assert finding.got == "0x2f000 to 0x33000"
    assert finding.cures[0].text == "place dst at 0x0, src at 0x100, tmp at 0x4100"


def test_a3_overlaps_are_drawn_and_the_sum_of_the_tiles_is_told() -> None:
    text = (
        f"%x = tload %a[0, 0] : ({M}, index, index) -> {T}\npto.tassign %x, @tile(0x0)\n"
        f"%s = trowsum %x : {T} -> {C}\npto.tassign %s, @tile(0x800)\n"
        f"%d = trowexpandsub %x, %s : {T}, {C} -> {T}\ntstore %d, %b[0, 0] : ({T}, {M}, index, index)"
    )
    assert "PTO-PROGRAM-OVERLAP" in {found.code for found in parse(text).check("a2a3")}
    assert parse(text).memory_map("a2a3").splitlines() == [
        "local memory of a2a3: 196,608 bytes; a column per instruction",
        "       0x0 to   0x1000  %x  #XX.",
        "     0x800 to    0x840  %s  .XX.",
        "            not placed  %d",
        "  X shares bytes with another living tile",
        "at most 8,256 bytes live together, at instruction 3 (TROWEXPANDSUB)",
    ]
    large = parse(text.replace("16, 64>", "512, 64>").replace("16x64", "512x64").replace("16, 1,", "512, 1,"))
    assert "bytes more than there are" in large.memory_map("a2a3")
    free = "\n".join(line for line in text.splitlines() if "tassign" not in line)
    drawn = parse(free).placed("a2a3").memory_map("a2a3")
    assert drawn.count("#") == 7
    assert "shares bytes" not in drawn


def test_a5_readings_list_what_they_do_not_reproduce() -> None:
    assert READINGS["cpu"].gaps == ()
    for name, row in READINGS.items():
        assert (name == "cpu") == (row.confidence == "measured")
        assert row.gaps or name == "cpu"
        assert (row.changed == {}) == (name == "cpu")


def test_a6_paired_sums_have_their_own_order() -> None:
    src = Tile(np.random.default_rng(6).standard_normal((63, 64)).astype(np.float32))
    tmp = Tile("f32", 32, 64)
    results = []
    for flag in (False, True):
        dst = Tile("f32", 1, 64)
        execute("TCOLSUM", dst, src, tmp, flag, target="a2a3", numerics="a2a3-order")
        results.append(dst.valid.copy())
    assert not np.array_equal(*results)
    shape_of = {"dtype": "f32", "rows": 63, "cols": 64, "valid_rows": 63, "valid_cols": 64}
    for form in ("binary", "sequential"):
        priced = cost("TCOLSUM", **shape_of, form=form, target="a2a3")
        assert 0 < priced.terms["barriers"] < priced.cycles


def test_a7_scratch_of_one_column_is_refused_with_the_bytes_needed() -> None:
    findings = check(
        "TROWSUM", shape("f32", 16, 1, "DN"), shape("f32", 16, 96), shape("f32", 16, 1, "DN"), target="a2a3"
    )
    assert [d.code for d in findings] == ["PTO-SCRATCH-SIZE"]
    assert "64 bytes" in findings[0].got
    assert "4096 bytes" in findings[0].allowed
    assert "would not be written" in findings[0].message


def test_a9_a_column_major_result_names_its_maker_and_the_conversion() -> None:
    text = (
        f"%x = tload %a[0, 0] : ({M}, index, index) -> {T}\n%s = trowsum %x : {T} -> {C}\n"
        f"%m = tcolmax %s : {C} -> !pto.tile<f32, 1, 8, valid=1x1>"
    )
    (finding,) = errors(parse(text).check("a5"))
    assert finding.code == "PTO-LAYOUT"
    assert "because TROWSUM writes it so" in finding.message
    assert finding.place.line == 3
    assert finding.cures[0].text == "let TROWSUM write %s as ND 16×8"
    assert finding.cures[1].text == "convert %s: store it, and load it again into a tile ND 16×8"
    values = np.random.default_rng(9).standard_normal((16, 64)).astype(np.float32)
    stored = parse(
        text + "\ntstore %m, %b[0, 0] : (!pto.tile<f32, 1, 8, valid=1x1>, !pto.memref<1x1xf32>, index, index)"
    )
    (again,) = errors(stored.check("a5"))
    results = []
    for cure in again.cures[:2]:
        healed = stored.changed(dict(cure.changes))
        assert errors(healed.check("a5")) == []
        assert parse(healed.to_text("dps")) == healed
        results.append(healed.run({"a": values}, target="a5").outputs["b"])
    np.testing.assert_array_equal(*results)
    assert "TSTORE" in stored.changed(dict(again.cures[1].changes)).to_cpp("a5")
    cured = text.replace(C, "!pto.tile<f32, 16, 8, valid=16x1>")
    assert errors(parse(cured).check("a5")) == []


def test_a10_the_operand_that_is_no_tile_is_named() -> None:
    with pytest.raises(LanefoldError) as caught:
        execute("TROWEXPANDADD", Tile("f32", 16, 32), Tile("f32", 16, 32), np.zeros((16, 1)))
    finding = caught.value.diagnostics[0]
    assert finding.message == "operand 3 of TROWEXPANDADD is a ndarray, not a tile"
    assert "TROWEXPANDADD(dst, src0, src1)" in finding.allowed


def test_a12_the_binary_flag_has_no_default() -> None:
    src, dst, tmp = Tile("f32", 16, 32), Tile("f32", 1, 32), Tile("f32", 8, 32)
    with pytest.raises(LanefoldError, match="PTO-BINARY-FLAG"):
        execute("TCOLSUM", dst, src, tmp)
    text = "%d = tcolsum %s {isBinary = false} : !pto.tile<f32, 16, 32> -> !pto.tile<f32, 1, 32>"
    for form in ("asm", "ssa", "dps"):
        assert "isBinary = false" in parse(text).to_text(form)


def test_a13_one_table_answers_check_and_execution() -> None:
    for dtype in ("bf16", "i8"):
        src, dst = Tile(dtype, 32, 32), Tile(dtype, 32, 1, layout="DN")
        assert check("TROWSUM", dst, src, target="a2a3")[0].code == "PTO-TYPES"
        with pytest.raises(LanefoldError, match="PTO-TYPES"):
            execute("TROWSUM", dst, src, target="a2a3")


def test_a14_scratch_that_a5_does_not_read_takes_no_memory() -> None:
    src, dst, tmp = shape("f32", 200, 256), shape("i32", 200, 1, "DN"), shape("f32", 200, 256)
    assert check("TROWARGMAX", dst, src, tmp, target="a5") == []
    assert "PTO-MEMORY-SIZE" in {d.code for d in check("TROWARGMAX", dst, src, tmp, target="a2a3")}


def test_a15_both_modes_of_the_per_row_operand_are_named() -> None:
    full = shape("f32", 16, 32)
    assert check("TROWEXPANDADD", full, full, shape("f32", 16, 1, "DN"), target="a2a3") == []
    (finding,) = check("TROWEXPANDADD", full, full, shape("f32", 16, 16), target="a2a3")
    assert "(mode 1)" in finding.allowed
    assert "(mode 2)" in finding.allowed
    assert [cure.text[:6] for cure in finding.cures] == ["mode 1", "mode 2"]


def test_a17_wrong_types_are_found_before_any_compiler_runs() -> None:
    text = "%d = tcolsum %s : !pto.tile<i32, 16, 32> -> !pto.tile<i32, 1, 32>"
    with pytest.raises(LanefoldError) as caught:
        parse(text).to_cpp()
    finding = next(d for d in caught.value.diagnostics if d.code == "PTO-TYPES")
    assert finding.message == "TCOLSUM does not accept i32 on cpu"


def test_a18_operations_that_do_not_exist_are_refused() -> None:
    with pytest.raises(LanefoldError, match="PTO-OP-NAME"):
        parse("%d = trowabssum %s : !pto.tile<f32, 16, 32> -> !pto.tile<f32, 16, 8>")


def test_a19_the_table_has_the_public_operations(reference_data: Path) -> None:
    pages = [path.read_text() for path in (reference_data / "reference").glob("*.txt")]
    (page,) = [text for text in pages if text.startswith("Reduce And Expand Instruction Set")]
    listed = set(re.findall(r"^pto\.(t\w+)\t", page, re.MULTILINE))
    assert listed == {row.mnemonic for row in OPERATIONS.values()}
    assert set(re.findall(r"PTO_INST RecordEvent (T\w+)\(", page)) <= {n.upper() for n in NAMES}
    reductions = {f"T{a}{w}" for a in ("ROW", "COL") for w in ("SUM", "PROD", "MAX", "MIN", "ARGMAX", "ARGMIN")}
    words = ("", "ADD", "SUB", "MUL", "DIV", "MAX", "MIN", "EXPDIF")
    assert set(OPERATIONS) == reductions | {f"T{a}EXPAND{w}" for a in ("ROW", "COL") for w in words}


@pytest.mark.parametrize("axis", ["ROW", "COL"])
@pytest.mark.parametrize(("short", "full"), [("SUB", "SUB"), ("MUL", "MUL"), ("DIV", "DIV"), ("DIF", "EXPDIF")])
def test_a20_short_names_are_read_and_never_written(axis: str, short: str, full: str) -> None:
    tile = "!pto.tile<f32, 16, 32>"
    narrow = (
        "!pto.tile<loc=vec, f32, 16, 1, ColMajor, NoneBox, None, Null>" if axis == "ROW" else "!pto.tile<f32, 1, 32>"
    )
    text = f"%d = t{axis.lower()}exp{short.lower()} %a, %b : {tile}, {narrow} -> {tile}"
    assert f"t{axis.lower()}expand{full.lower()} " in parse(text).to_text("asm")
    second = shape("f32", 16, 1, "DN") if axis == "ROW" else shape("f32", 1, 32)
    (note,) = check(f"T{axis}EXP{short}", shape("f32", 16, 32), shape("f32", 16, 32), second)
    assert (note.code, note.severity) == ("PTO-OP-ALIAS", "info")
    assert note.message == f"T{axis}EXP{short} is read as T{axis}EXPAND{full}; no header declares T{axis}EXP{short}"


def test_r23_unsupported_sums_name_the_type_to_convert_to() -> None:
    (finding,) = check("TROWSUM", shape("u16", 32, 1, "DN"), shape("u16", 32, 32), shape("u16", 32, 128), target="a2a3")
    assert finding.code == "PTO-TYPES"
    assert finding.cures[0].text == "use i32: convert the values from u16 first"


def test_r1_sums_of_nothing_are_refused_with_their_identity() -> None:
    src = TileType("f32", 16, 32, 16, 0)
    found = check("TROWPROD", shape("f32", 16, 1, "DN"), src)
    assert found[0].code == "PTO-EXTENT-ZERO"
    assert any("use 1" in cure.text for cure in found[0].cures)
