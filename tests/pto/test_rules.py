"""Each rule of PTO calls: a legal call, an illegal one, the pinned message, and the first cure that makes it legal."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

import pytest

from lanefold.diagnostics import RULES, LanefoldError, Severity, errors
from lanefold.pto import TileType, check
from lanefold.pto.calls import Call, Operand, make_call
from lanefold.pto.isa import ELEMENTS, OPERATIONS, TARGETS
from lanefold.pto.rules import CHECKS, check_call
from tests.pto.samples import kind


def T(
    dtype: str, rows: int, cols: int, valid: tuple[int, int] | None = None, layout: str = "ND", **more: object
) -> TileType:
    valid_rows, valid_cols = valid or (rows, cols)
    return TileType(dtype, rows, cols, valid_rows, valid_cols, layout, **more)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Row:
    code: str
    target: str
    op: str
    good: tuple[object, ...]
    bad: tuple[object, ...]
    message: str
    form: str | None = None


F = T("f32", 16, 32)
COLUMN = T("f32", 16, 1, layout="DN")
LINE = T("f32", 1, 32)
WIDE = T("f32", 16, 128)


def at(shape: TileType, address: int) -> Operand:
    return Operand(shape, address=address)


ROWS = [
    Row(
        "PTO-TYPES",
        "a2a3",
        "TROWSUM",
        (COLUMN, F),
        (T("bf16", 16, 1, layout="DN"), T("bf16", 16, 32)),
        "TROWSUM does not accept bf16 on a2a3",
    ),
    Row(
        "PTO-SAME-TYPE",
        "cpu",
        "TROWEXPANDADD",
        (F, F, COLUMN),
        (F, F, T("f16", 16, 1, layout="DN")),
        "operand 3 (src1) is f16 but the destination is f32",
    ),
    Row(
        "PTO-INDEX-TYPE",
        "cpu",
        "TROWARGMAX",
        (T("i32", 16, 1, layout="DN"), F),
        (T("i16", 16, 1, layout="DN"), F),
        "TROWARGMAX writes no i16 indices for 4-byte elements in this form on cpu",
    ),
    Row(
        "PTO-MIXED-TYPES",
        "cpu",
        "TROWPROD",
        (COLUMN, T("f16", 16, 32)),
        (T("i32", 16, 1, layout="DN"), F),
        "how TROWPROD converts f32 to i32 is not documented",
    ),
    Row(
        "PTO-LOCATION",
        "a2a3",
        "TCOLMAX",
        (LINE, F),
        (LINE, T("f32", 16, 32, location="mat")),
        "operand 2 (src) lives in mat, not in vector memory",
    ),
    Row(
        "PTO-LAYOUT",
        "a2a3",
        "TROWMAX",
        (COLUMN, F),
        (COLUMN, T("f32", 16, 32, layout="DN")),
        "operand 2 (src) of TROWMAX is DN with 32 columns; a2a3 wants ND",
    ),
    Row(
        "PTO-CAPACITY-EQUAL",
        "cpu",
        "TROWSUM",
        (COLUMN, F),
        (T("f32", 24, 1, (16, 1), layout="DN"), F),
        "TROWSUM on cpu wants src and dst with equally many rows of capacity",
    ),
    Row(
        "PTO-STATIC-COLUMN",
        "a5",
        "TROWEXPAND",
        (F, COLUMN),
        (F, T("f32", 16, 16)),
        "operand 2 (src) has 16 static valid columns; a5 compiles 1 or dynamic ones",
    ),
    Row(
        "PTO-FULL-LAYOUT",
        "a2a3",
        "TROWEXPANDADD",
        (F, F, COLUMN),
        (F, T("f32", 16, 32, layout="DN"), COLUMN),
        "operand 2 (src0) has the destination's extents but is DN, which is not row-major",
    ),
    Row(
        "PTO-FULL-LAYOUT",
        "a5",
        "TROWEXPANDEXPDIF",
        (T("f16", 7, 16), T("f16", 7, 16), T("f16", 7, 16)),
        (T("f16", 7, 16), T("f16", 7, 16), T("f16", 16, 16, (7, 16), layout="DN")),
        "operand 3 (src1) has the destination's extents but is DN, which is not row-major",
    ),
    Row(
        "PTO-EXTENT-ZERO",
        "cpu",
        "TROWSUM",
        (COLUMN, F),
        (COLUMN, T("f32", 16, 32, (16, 0))),
        "operand 2 (src) has no valid cols",
    ),
    Row(
        "PTO-EXTENT-RESULT",
        "cpu",
        "TCOLMAX",
        (LINE, F),
        (T("f32", 1, 32, (1, 31)), F),
        "operand 1 (dst) is valid in 1×31, but TCOLMAX on 16×32 elements needs 1×32",
    ),
    Row(
        "PTO-EXTENT-SOURCE",
        "a5",
        "TCOLEXPAND",
        (F, LINE),
        (F, T("f32", 1, 32, (1, 31))),
        "operand 2 (src) is valid in 1×31, but TCOLEXPAND on 16×32 elements needs 1×32",
    ),
    Row(
        "PTO-EXTENT-COLUMN",
        "cpu",
        "TCOLEXPANDSUB",
        (F, F, LINE),
        (F, LINE, F),
        "the CPU simulator reads src0 in full and broadcasts src1 only, but here src0 is the single row",
    ),
    Row(
        "PTO-EXTENT-COLUMN",
        "a2a3",
        "TCOLEXPANDADD",
        (F, LINE, F),
        (F, F, T("f32", 1, 32, (1, 31))),
        "operand 3 (src1) is valid in 1×31, but TCOLEXPANDADD on 16×32 elements needs 1×32",
    ),
    Row(
        "PTO-ROW-MODE",
        "cpu",
        "TROWEXPANDMUL",
        (F, F, T("f32", 16, 8)),
        (F, F, T("f32", 16, 8, (16, 3))),
        "operand 3 (src1) is f32 ND 16×8 (valid 16×3), which is neither mode of a per-row operand of 16 rows",
    ),
    Row(
        "PTO-ROW-MODE-SCRATCH",
        "a2a3",
        "TROWEXPANDMUL",
        (F, F, COLUMN, T("f32", 8, 256)),
        (F, F, T("f32", 16, 8), T("f32", 8, 256)),
        "operand 3 (src1) is a block per row (mode 2), which the form with scratch does not take on a2a3",
    ),
    Row(
        "PTO-EXTENT-16BIT",
        "cpu",
        "TROWSUM",
        (T("f32", 1, 8, (1, 1)), T("f32", 1, 65544, (1, 65535))),
        (T("f32", 1, 8, (1, 1)), T("f32", 1, 65544, (1, 65538))),
        "TROWSUM on cpu would use 2 of 65538 cols",
    ),
    Row(
        "PTO-INDEX-EXACT",
        "a2a3",
        "TCOLARGMAX",
        (T("i32", 1, 16), T("f16", 2048, 16), T("f16", 1, 48)),
        (T("i32", 1, 16), T("f16", 2050, 16), T("f16", 1, 48)),
        "row numbers above 2048 are not exact in f16, and the source has 2050 rows",
    ),
    Row(
        "PTO-ROWS-255",
        "a2a3",
        "TCOLEXPANDADD",
        (T("f32", 300, 8), T("f32", 300, 8), T("f32", 1, 8)),
        (T("f32", 300, 8), T("f32", 300, 8), T("f32", 1, 8)),
        "TCOLEXPANDADD on a2a3 would handle 44 of 300 rows of a full static tile",
    ),
    Row(
        "PTO-SCRATCH-MISSING",
        "a2a3",
        "TROWSUM",
        (COLUMN, WIDE, WIDE),
        (COLUMN, WIDE),
        "TROWSUM on a2a3 reads a scratch tile here: rows of 128 are longer than one vector register of 64",
    ),
    Row(
        "PTO-SCRATCH-TYPE",
        "a2a3",
        "TCOLSUM",
        (LINE, F, F, True),
        (LINE, F, T("i32", 16, 32), True),
        "operand 3 (tmp) is i32, but the source is f32",
    ),
    Row(
        "PTO-SCRATCH-SIZE",
        "a2a3",
        "TROWMAX",
        (T("f32", 16, 1, layout="DN"), T("f32", 16, 96), T("f32", 16, 64)),
        (T("f32", 16, 1, layout="DN"), T("f32", 16, 96), T("f32", 16, 8)),
        "operand 3 (tmp) has 16 rows of 8 elements (512 bytes), but rows of 96 are longer than one vector register "
        "of 64; the result would not be written, without any message",
    ),
    Row(
        "PTO-ADDRESS-ALIGNMENT",
        "a5",
        "TCOLMAX",
        (at(LINE, 0), at(F, 0x100)),
        (at(LINE, 0), at(F, 0x110)),
        "operand 2 (src) stands at 0x110, which is not a multiple of 32",
    ),
    Row(
        "PTO-ADDRESS-RANGE",
        "cpu",
        "TCOLMAX",
        (at(LINE, 0), at(F, 0x2F800)),
        (at(LINE, 0), at(F, 0x2FFE0)),
        "operand 2 (src) takes bytes 0x2ffe0 to 0x307e0 of a memory of 0x30000 bytes",
    ),
    Row(
        "PTO-ADDRESS-OVERLAP",
        "a2a3",
        "TCOLMAX",
        (at(LINE, 0), at(F, 0x80)),
        (at(LINE, 0), at(F, 0x40)),
        "dst (0x0 to 0x80) and src (0x40 to 0x840) overlap",
    ),
    Row(
        "PTO-ADDRESS-RESERVED",
        "a2a3",
        "TROWEXPANDADD",
        (at(F, 0), at(F, 0x800), at(COLUMN, 0x1000)),
        (at(F, 0x2E000), at(F, 0x800), at(COLUMN, 0x1000)),
        "operand 1 (dst) takes bytes 0x2e000 to 0x2e800, of which TROWEXPANDADD overwrites those from 0x2e000 on",
    ),
    Row(
        "PTO-MEMORY-SIZE",
        "a5",
        "TCOLEXPAND",
        (T("f32", 64, 1000), T("f32", 1, 1000)),
        (T("f32", 66, 1000), T("f32", 1, 1000)),
        "the tiles of TCOLEXPAND take 268000 bytes (dst 264000, src 4000), and a5 has 262144",
    ),
]


def call_of(row: Row, operands: tuple[object, ...]) -> Call:
    return make_call(row.op, operands, target=row.target, form=row.form)


def good_call(row: Row) -> Call:
    call = call_of(row, row.good)
    return call.changed({"dst.dynamic": True}) if row.code == "PTO-ROWS-255" else call


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.code}-{row.target}")
def test_rule(row: Row) -> None:
    assert check_call(good_call(row)) == []
    bad = call_of(row, row.bad)
    found = [d for d in check_call(bad) if d.code == row.code]
    assert [d.message for d in found] == [row.message]
    assert found[0].cures[0].changes, "the first cure can be applied"
    cured = bad.changed(found[0].cures[0].changes)
    assert check_call(cured) == []
    assert found[0].rule == RULES[row.code].text
    assert row.op in str(found[0].place)


def test_every_rule_has_a_row() -> None:
    assert {rule.code for rule, _ in CHECKS} == {row.code for row in ROWS}


def test_rule_texts_are_sentences() -> None:
    for rule, _ in CHECKS:
        assert rule.text[0].isupper()
        assert rule.text.endswith(".")
        assert rule.source.startswith("PTO")


def test_warnings_are_not_errors() -> None:
    row = next(row for row in ROWS if row.code == "PTO-MIXED-TYPES")
    found = check_call(call_of(row, row.bad))
    assert [d.severity for d in found] == [Severity.WARNING]
    assert errors(found) == []


CALLS = [
    ("PTO-OP-NAME", ("TROWMEAN", COLUMN, F), {}, "operation 'TROWMEAN' is not known", "write TROWMIN"),
    ("PTO-TARGET-NAME", ("TROWSUM", COLUMN, F), {"target": "a4"}, "target 'a4' is not known", "write a5"),
    ("PTO-OPERANDS", ("TCOLMAX", LINE), {}, "TCOLMAX does not take 1 tile", "call TCOLMAX(dst, src)"),
    ("PTO-OPERANDS", ("TCOLMAX", LINE, F, F), {}, "TCOLMAX does not take 3 tiles", "call TCOLMAX(dst, src)"),
    (
        "PTO-FORM-NAME",
        ("TROWSUM", COLUMN, F),
        {"form": "C1"},
        "TROWSUM has no form 'C1'",
        "use form R1: TROWSUM(dst, src, tmp)",
    ),
    ("PTO-BINARY-FLAG", ("TROWSUM", COLUMN, F, F, True), {}, "TROWSUM has no isBinary", "leave the flag out"),
    (
        "PTO-BINARY-FLAG",
        ("TCOLSUM", LINE, F, F),
        {},
        "TCOLSUM with a scratch tile needs isBinary",
        "end the call with isBinary",
    ),
]


@pytest.mark.parametrize(
    ("code", "call", "more", "message", "cure"), CALLS, ids=lambda part: part if isinstance(part, str) else ""
)
def test_calls_that_are_none(
    code: str, call: tuple[object, ...], more: dict[str, str], message: str, cure: str
) -> None:
    name, *operands = call
    with pytest.raises(LanefoldError) as caught:
        make_call(str(name), operands, **{"target": "cpu", **more})
    (finding,) = caught.value.diagnostics
    assert (finding.code, finding.message) == (code, message)
    assert finding.cures[0].text.startswith(cure)
    assert caught.value.usage


VALUE, WHERE = T("i32", 16, 8, (16, 1)), T("u32", 16, 8, (16, 1))
WHOLE = T("i32", 16, 32)


@pytest.mark.parametrize(
    ("operands", "form"),
    [
        ((WHERE, F), "R2"),
        ((WHERE, F, F), "R2"),
        ((T("f32", 16, 8, (16, 1)), WHERE, F), "R3"),
        ((VALUE, WHERE, WHOLE, WHOLE), "R3"),
        ((VALUE, VALUE, WHOLE), "R3"),
        ((VALUE, WHOLE, WHOLE), "R2"),
    ],
)
def test_forms_of_arg_operations(operands: tuple[TileType, ...], form: str) -> None:
    assert make_call("TROWARGMAX", operands, target="cpu").form.name == form


def random_call(rng: random.Random) -> Call | None:
    """A call that is likely to be illegal, or None where its tiles cannot even exist."""
    op = rng.choice(list(OPERATIONS.values()))
    form = rng.choice(op.forms)
    operands = []
    try:
        for role in form.operands:
            shape = kind(op, role, rng.choice([*ELEMENTS, *["f32"] * 20]))
            changes: dict[str, object] = {}
            if rng.random() < 0.2:
                changes["layout"] = rng.choice(["ND", "DN", "NZ"])
            for axis in ("rows", "cols"):
                if rng.random() < 0.2:
                    changes[axis] = rng.choice([8, 16, 64, 304, 2064])
                if rng.random() < 0.2:
                    changes[f"valid_{axis}"] = rng.choice([0, 1, 5, 8])
            address = rng.choice([None, None, None, 0, 100, 0x2F000])
            operands.append(Operand(replace(shape, **changes), rng.random() < 0.2, address))  # type: ignore[arg-type]
        flag = True if form.name == "C2" else None
        return make_call(op.name, operands, target=rng.choice(list(TARGETS)), form=form.name, is_binary=flag)
    except LanefoldError:
        return None


def test_first_cures_of_random_calls_help() -> None:
    rng = random.Random(5)
    met = 0
    for call in filter(None, (random_call(rng) for _ in range(700))):
        for finding in check_call(call):
            met += 1
            cure = finding.cures[0]
            if cure.changes:
                assert finding.code not in {d.code for d in check_call(call.changed(cure.changes))}
    assert met > 300


@pytest.mark.parametrize(
    ("name", "valid", "wanted"),
    [
        ("TROWSUM", (16, 0), ["0, the sum of no elements"]),
        ("TCOLMIN", (0, 32), ["the highest value of the type, the minimum of no elements"]),
        ("TROWMAX", (0, 32), []),
        ("TCOLPROD", (0, 0), []),
    ],
)
def test_only_an_empty_reduced_axis_has_a_neutral_result(name: str, valid: tuple[int, int], wanted: list[str]) -> None:
    result = COLUMN if name.startswith("TROW") else LINE
    found = check(name, result, T("f32", 16, 32, valid))
    zero = [d for d in found if d.code == "PTO-EXTENT-ZERO"]
    texts = [cure.text for cure in zero[0].cures]
    assert [t.removeprefix("leave the call out and use ") for t in texts if "leave" in t] == wanted
    empty_result = check("TROWMIN", T("f32", 16, 8, (16, 0)), F)
    assert not any("leave the call out" in cure.text for d in empty_result for cure in d.cures)


def test_messages_count_in_the_right_number() -> None:
    need = check("TROWSUM", T("i32", 1, 8, (1, 1)), T("i32", 1, 8), target="a2a3")
    assert need[0].allowed == "at least 1 row of 8 i32"
    layout = check("TCOLEXPANDADD", F, T("f32", 16, 32, layout="DN"), LINE)
    assert layout[0].allowed == "ND, ZN or ZZ"
