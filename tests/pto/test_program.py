"""Programs: the rules of whole programs, and runs as batches against one operation at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from lanefold.diagnostics import RULES, LanefoldError, errors
from lanefold.pto import Program, Tile, execute, parse
from lanefold.pto.isa import OPERATIONS, Form, Operation
from lanefold.pto.program import GlobalArray, Store
from lanefold.pto.tiles import numpy_type
from tests.pto.samples import ALL, sample

T = "!pto.tile<f32, 16, 32>"
C = "!pto.tile<loc=vec, f32, 16, 1, ColMajor, NoneBox, None, Null>"
M, V = "!pto.memref<16x32xf32>", "!pto.memref<16x1xf32>"

SOFTMAX = f"""
%x = tload %a[0, 0] : ({M}, index, index) -> {T}
%m = trowmax %x : {T} -> {C}
%e = trowexpandexpdif %x, %m : {T}, {C} -> {T}
%s = trowsum %e : {T} -> {C}
%o = trowexpanddiv %e, %s : {T}, {C} -> {T}
tstore %o, %b[0, 0] : ({T}, {M}, index, index)
"""


def loaded(kind: str, memory: str = M, place: str = "0, 0", tail: str = "") -> str:
    return f"%x = tload %a[{place}]{tail} : ({memory}, index, index) -> {kind}"


@dataclass(frozen=True)
class Row:
    code: str
    good: str
    bad: str
    message: str
    target: str = "cpu"


ROWS = [
    Row(
        "PTO-PROGRAM-UNDEFINED",
        f"{loaded(T)}\n%m = trowmax %x : {T} -> {C}",
        f"%m = trowmax %x : {T} -> {C}",
        "%x is read, but was never written",
    ),
    Row(
        "PTO-PROGRAM-UNDEFINED",
        f"{loaded(T)}\n%m = pto.trowmax %x, %t : ({T}, {T}) -> {C}\n%n = trowmin %x : {T} -> {C}",
        f"{loaded(T)}\n%m = pto.trowmax %x, %x : ({T}, {T}) -> {C}\n%n = trowmin %x : {T} -> {C}",
        "%x is read, but served as scratch since it was written",
    ),
    Row(
        "PTO-PROGRAM-REGION",
        loaded(T, "!pto.memref<64x32xf32>", "48, 0"),
        loaded(T, "!pto.memref<64x32xf32>", "49, 0"),
        "%x covers rows 49 to 65 of %a, which has 64",
    ),
    Row(
        "PTO-PROGRAM-ELEMENT",
        loaded(T),
        loaded(T, "!pto.memref<16x32xi32>"),
        "%x holds f32, but %a holds i32",
    ),
    Row(
        "PTO-PROGRAM-ORDER",
        loaded(C, V),
        loaded(C, "!pto.memref<16x32xf32>"),
        "%x is DN, but %a has strides 32 and 1",
    ),
    Row(
        "PTO-PROGRAM-DYNAMIC",
        loaded("!pto.tile<f32, 16, 32, valid=?x32>", tail=" {valid_row = 5}"),
        loaded("!pto.tile<f32, 16, 32, valid=?x32>"),
        "%x has dynamic valid rows, and nothing gives their number",
    ),
    Row(
        "PTO-PROGRAM-DYNAMIC",
        loaded(T),
        loaded(T, tail=" {valid_row = 5}"),
        "%x has 16 static valid rows, and valid_row gives 5 as well",
    ),
    Row(
        "PTO-PROGRAM-LIMIT",
        loaded("!pto.tile<f32, 4095, 8>", "!pto.memref<4095x8xf32>"),
        loaded("!pto.tile<f32, 4096, 8>", "!pto.memref<4096x8xf32>"),
        "%x has 4096 rows, and a2a3 moves at most 4095",
        "a2a3",
    ),
    Row(
        "PTO-PROGRAM-OVERLAP",
        f"{loaded(T)}\npto.tassign %x, @tile(0x0)\n%m = trowmax %x : {T} -> {C}\npto.tassign %m, @tile(0x800)\n"
        f"%n = trowmin %x : {T} -> {C}",
        f"{loaded(T)}\npto.tassign %x, @tile(0x0)\n%m = trowmax %x : {T} -> {C}\npto.tassign %m, @tile(0x7e0)\n"
        f"%n = trowmin %x : {T} -> {C}",
        "%m (0x7e0 to 0x820) is written while %x (0x0 to 0x800) is still read",
    ),
    Row(
        "PTO-PROGRAM-RESERVED",
        SOFTMAX + f"%k = tcolmax %x : {T} -> !pto.tile<f32, 1, 32>\npto.tassign %x, @tile(0x2d800)",
        SOFTMAX.replace("%x", "%z").replace("trowmax", "trowmax", 1)
        + f"%y = tload %a[0, 0] : ({M}, index, index) -> {T}\npto.tassign %y, @tile(0x2f000)\n"
        f"%q = trowexpandadd %z, %m : {T}, {C} -> {T}\n%k = tcolmax %y : {T} -> !pto.tile<f32, 1, 32>",
        "%y lives at 0x2f000 to 0x2f800 while bytes from 0x2e000 on are overwritten",
        "a2a3",
    ),
]


def found(text: str, target: str) -> list[Any]:
    return errors(parse(text).check(target))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.code}-{len(row.message)}")
def test_rules(row: Row) -> None:
    scratch = {"PTO-SCRATCH-MISSING"}
    assert [d for d in found(row.good, row.target) if d.code not in scratch] == []
    findings = [d for d in found(row.bad, row.target) if d.code == row.code]
    assert [d.message for d in findings] == [row.message]
    assert findings[0].rule == RULES[row.code].text
    cure = findings[0].cures[0]
    if cure.changes:
        cured = parse(row.bad).changed(cure.changes)
        assert row.code not in {d.code for d in errors(cured.check(row.target))}
    else:
        assert row.code in ADVICE


ADVICE = {"PTO-PROGRAM-UNDEFINED", "PTO-PROGRAM-LIMIT", "PTO-PROGRAM-RESERVED"}
"""Rules whose way out is another program, which no change of one field gives."""


def test_memory_has_a_rule() -> None:
    big = "!pto.tile<f32, 128, 256>"
    move = "(!pto.memref<128x256xf32>, index, index)"
    text = (
        f"%x = tload %a[0, 0] : {move} -> {big}\n%y = tload %a[0, 0] : {move} -> {big}\n"
        "%z = tcolexpandadd %x, %y : {0}, {0} -> {0}".format(big)
    )
    with pytest.raises(LanefoldError, match="PTO-PROGRAM-MEMORY") as caught:
        parse(text).placed("a2a3")
    assert "%x 131072" in caught.value.diagnostics[0].got
    assert [slot.address for slot in parse(text.split("%z")[0]).placed("a5").tiles] == [0, 0]


def test_region_and_dynamic_cures_apply() -> None:
    text = loaded(T, "!pto.memref<64x32xf32>", "49, 0")
    (finding,) = found(text, "cpu")
    assert finding.cures[0].text == "start at 48 or before"
    assert found(text.replace("49", "48"), "cpu") == []
    (finding,) = found(loaded("!pto.tile<f32, 16, 32, valid=?x32>"), "cpu")
    assert finding.cures[0].text == "add valid_row = 16"
    assert found(loaded("!pto.tile<f32, 16, 32, valid=?x32>", tail=" {valid_row = 16}"), "cpu") == []


# --- running ---------------------------------------------------------------------------------------------------------


def values(rng: np.random.Generator, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Any:
    if dtype.kind in "iu":
        return rng.integers(1, 100, shape).astype(dtype)
    return rng.standard_normal(shape).astype(np.float32).astype(dtype)


def one_by_one(program: Program, arrays: dict[str, Any]) -> dict[str, Any]:
    """The same program with `execute` on single tiles, batch element by batch element."""
    outputs = {i.array: [] for i in program.instructions if isinstance(i, Store)}
    batch = next(iter(arrays.values())).shape[0]
    for at in range(batch):
        tiles: dict[str, Tile] = {}
        for slot in program.tiles:
            kind = slot.type
            tiles[slot.name] = Tile(kind.dtype, kind.rows, kind.cols, kind.valid_rows, kind.valid_cols, kind.layout)
        for i in program.instructions:
            if hasattr(i, "op"):
                execute(i.op, *(tiles[name] for name in i.tiles), form=i.form, is_binary=i.is_binary)
            elif isinstance(i, Store):
                outputs[i.array].append(tiles[i.tile].valid.copy())
            else:
                tiles[i.tile].valid[...] = arrays[i.array][at]
    return {name: np.stack(parts) for name, parts in outputs.items()}


@pytest.mark.parametrize(("op", "form"), ALL, ids=lambda part: part.name)
def test_batches_agree_with_single_tiles(op: Operation, form: Form) -> None:
    program = sample(op, form)
    rng = np.random.default_rng(7)
    arrays = {}
    for name in program.inputs:
        array = program.globals[name]
        dtype = numpy_type(program.slots[name[1:]].type.element)
        arrays[name] = values(rng, dtype, (5, int(array.rows), int(array.cols)))
    run = program.run(arrays)
    wanted = one_by_one(program, arrays)
    assert run.batches == {op.name: 1}
    for name, array in wanted.items():
        assert np.array_equal(run.outputs[name], array)


def test_softmax_is_a_softmax_and_reports_distances() -> None:
    x = np.random.default_rng(2).standard_normal((3, 2, 16, 32)).astype(np.float32)
    run = parse(SOFTMAX).run({"a": x}, compare=True)
    shifted = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
    assert run.outputs["b"].shape == x.shape
    np.testing.assert_allclose(run.outputs["b"], shifted / shifted.sum(-1, keepdims=True), rtol=2e-6)
    assert set(run.distances) == {"a2a3-order", "a5-order"}
    assert 0 < max(run.distances["a2a3-order"].values()) < 64


def unrolled(count: int) -> str:
    lines = []
    for k in range(count):
        one = SOFTMAX.replace("[0, 0]", f"[{16 * k}, 0]").replace("16x32xf32>, index", f"{16 * count}x32xf32>, index")
        lines.append(rename(one, k))
    return "\n".join(lines)


def rename(text: str, k: int) -> str:
    for name in "xmeso":
        text = text.replace(f"%{name} ", f"%{name}{k} ").replace(f"%{name},", f"%{name}{k},")
    return text


def test_unrolled_programs_run_as_batches() -> None:
    x = np.random.default_rng(4).standard_normal((12, 16, 32)).astype(np.float32)
    run = parse(unrolled(12)).run({"a": x.reshape(192, 32)})
    assert set(run.batches.values()) == {1}
    assert np.array_equal(run.outputs["b"].reshape(x.shape), parse(SOFTMAX).run({"a": x}).outputs["b"])


def test_order_of_loads_and_stores_on_one_array_is_kept() -> None:
    add = f"""
    %x = tload %a[0, 0] : ({M}, index, index) -> {T}
    %c = tload %v[0, 0] : ({V}, index, index) -> {C}
    %y = trowexpandadd %x, %c : {T}, {C} -> {T}
    tstore %y, %a[0, 0] : ({T}, {M}, index, index)
    %z = tload %a[0, 0] : ({M}, index, index) -> {T}
    %w = trowexpandadd %z, %c : {T}, {C} -> {T}
    tstore %w, %a[0, 0] : ({T}, {M}, index, index)
    """
    a, v = np.zeros((16, 32), np.float32), np.ones((16, 1), np.float32)
    assert np.all(parse(add).run({"a": a, "v": v}).outputs["a"] == 2)
    assert np.all(a == 0)


def test_overlapping_stores_keep_the_last() -> None:
    text = f"""
    %x = tload %a[0, 0] : ({M}, index, index) -> {T}
    %y = tload %c[0, 0] : ({M}, index, index) -> {T}
    tstore %y, %b[0, 0] : ({T}, {M}, index, index)
    tstore %x, %b[0, 0] : ({T}, {M}, index, index)
    """
    one, two = np.ones((16, 32), np.float32), np.full((16, 32), 2, np.float32)
    assert np.all(parse(text).run({"a": one, "c": two}).outputs["b"] == 1)


def test_parameters_give_extents_and_places() -> None:
    full, column = "!pto.tile<f32, 16, 32, valid=?x?>", "!pto.tile<f32, 16, 8, valid=?x1>"
    text = (
        f"%x = tload %a[%r, 0] {{valid_row = %n, valid_col = %m}} : (!pto.memref<64x32xf32>, index, index) -> {full}\n"
        f"%y = trowsum %x : {full} -> {column}\n"
        f"tstore %y, %b[0, 0] : ({column}, !pto.memref<16x1xf32>, index, index)"
    )
    a = np.arange(64 * 32, dtype=np.float32).reshape(64, 32)
    run = parse(text).run({"a": a}, parameters={"r": 10, "n": 5, "m": 7})
    assert np.array_equal(run.outputs["b"][:5, 0], a[10:15, :7].sum(axis=1))
    assert np.all(run.outputs["b"][5:] == 0)
    with pytest.raises(LanefoldError, match="PTO-PROGRAM-REGION"):
        parse(text).run({"a": a}, parameters={"r": 60, "n": 5, "m": 7})
    with pytest.raises(LanefoldError, match="PTO-RUN-MISSING"):
        parse(text).run({"a": a}, parameters={"r": 10, "m": 7})


BAD_ARRAYS: list[tuple[str, Callable[[Any], dict[str, Any]]]] = [
    ("PTO-RUN-MISSING", lambda x: {}),
    ("PTO-RUN-MISSING", lambda x: {"a": x, "zz": x}),
    ("PTO-RUN-SHAPE", lambda x: {"a": x[:, :8]}),
    ("PTO-RUN-TYPE", lambda x: {"a": x.astype(np.float64)}),
    ("PTO-RUN-SHAPE", lambda x: {"a": x[None], "b": np.stack([x, x])}),
]


@pytest.mark.parametrize(("code", "arrays"), BAD_ARRAYS)
def test_arrays_that_do_not_fit(code: str, arrays: Callable[[Any], dict[str, Any]]) -> None:
    with pytest.raises(LanefoldError) as caught:
        parse(SOFTMAX).run(arrays(np.zeros((16, 32), np.float32)))
    assert caught.value.diagnostics[0].code == code
    assert caught.value.usage


def test_placing_reuses_memory_and_stays_legal() -> None:
    for target in ("cpu", "a2a3", "a5"):
        ready = parse(SOFTMAX).with_scratch(target).placed(target)
        assert errors(ready.check(target)) == []
        assert max((s.address or 0) + s.type.bytes for s in ready.tiles) < sum(s.type.bytes for s in ready.tiles)


def test_a_program_that_was_checked_is_not_changed_by_scratch() -> None:
    program = sample(OPERATIONS["TROWSUM"], OPERATIONS["TROWSUM"].forms[0])
    bare = program.without_scratch()
    assert bare.with_scratch("a2a3").without_scratch() == bare
    assert replace(program, name="other") != program


def test_changes_of_unknown_names_are_refused() -> None:
    for key in ("q.rows", "x.size", "a.size"):
        with pytest.raises(LanefoldError, match="PTO-PROGRAM-CHANGE"):
            parse(SOFTMAX).changed({key: 8})


GROUPED = "!pto.memref<2x3x8xf32, strided<[100, 16, 1]>>"


def grouped(rows: int, memory: str = GROUPED) -> str:
    """A copy of so many rows out of an array whose rows lie in two groups of three."""
    tile = f"!pto.tile<f32, {rows}, 8>"
    return (
        f"%x = tload %a[0, 0, 0] : ({memory}, index, index, index) -> {tile}\n"
        f"tstore %x, %b[0, 0] : ({tile}, !pto.memref<{rows}x8xf32>, index, index)"
    )


def test_rows_in_groups_are_moved_whole() -> None:
    program = parse(grouped(6))
    assert program.globals["a"] == GlobalArray("a", "f32", 6, 8, 16, 1, ((2, 100),))
    assert (program.globals["a"].shape, program.globals["a"].strides) == ((2, 3, 8), (100, 16, 1))
    values = np.arange(48, dtype=np.float32).reshape(6, 8)
    for target in ("cpu", "a2a3", "a5"):
        np.testing.assert_array_equal(program.run({"a": values}, target=target).outputs["b"], values)
    assert "Shape<1, 1, 2, 3, 8>, Stride<200, 200, 100, 16, 1>" in program.to_cpp("a2a3")
    dense = parse(grouped(6, "!pto.memref<2x3x8xf32>")).globals["a"]
    assert dense.strides == (24, 8, 1)


def test_a_part_of_rows_in_groups_is_refused() -> None:
    (finding,) = errors(parse(grouped(4)).check("a5"))
    assert finding.code == "PTO-PROGRAM-REGION"
    assert finding.message == "%x takes 4 rows from row 0 on of %a, whose 6 rows lie in groups and move together"
    cured = parse(grouped(4)).changed(dict(finding.cures[0].changes))
    assert errors(cured.check("a5")) == []


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("%a[0, 0, 0]", "%a[1, 0, 0]", "tload: %a with groups of rows is moved at [1, 0, 0]"),
        ("%a[0, 0, 0]", "%a[0, 0]", "tload: 2 subscripts"),
        ("strided<[100, 16, 1]>", "strided<[16, 1]>", "tload: %a has the strides (16, 1)"),
        ("2x3x8xf32", "2x1x1x1x3x8xf32", "tload: %a has the shape (2, 1, 1, 1, 3, 8)"),
    ],
)
def test_texts_of_grouped_arrays(before: str, after: str, message: str) -> None:
    with pytest.raises(LanefoldError) as caught:
        parse(grouped(6).replace(before, after, 1))
    (finding,) = caught.value.diagnostics
    assert (finding.code, finding.message, finding.place.line) == ("PTO-TEXT-STATEMENT", message, 1)


@pytest.mark.parametrize(("given", "legal"), [("1", True), ("3", True), ("0", False), ("two", False), ("65", False)])
def test_threads_change_no_result(monkeypatch: pytest.MonkeyPatch, given: str, legal: bool) -> None:
    tile, column = "!pto.tile<f32, 64, 64>", "!pto.tile<loc=vec, f32, 64, 1, ColMajor, NoneBox, None, Null>"
    program = parse(
        f"%x = tload %a[0, 0] : (!pto.memref<64x64xf32>, index, index) -> {tile}\n"
        f"%s = trowsum %x : {tile} -> {column}\n"
        f"tstore %s, %b[0, 0] : ({column}, !pto.memref<64x1xf32>, index, index)"
    )
    values = np.random.default_rng(9).standard_normal((300, 64, 64), np.float32)
    wanted = program.run({"a": values}).outputs["b"]
    monkeypatch.setenv("LANEFOLD_THREADS", given)
    if legal:
        np.testing.assert_array_equal(program.run({"a": values}).outputs["b"], wanted)
        return
    with pytest.raises(LanefoldError) as caught:
        program.run({"a": values})
    (finding,) = caught.value.diagnostics
    assert (finding.code, finding.message) == ("CALL-THREADS", f"LANEFOLD_THREADS is {given!r}")
