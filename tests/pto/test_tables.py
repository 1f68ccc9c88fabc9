"""Types, index types and layouts, target by target, against the published tables written out again here."""

from __future__ import annotations

import pytest

from lanefold.diagnostics import errors
from lanefold.pto import TileType
from lanefold.pto.calls import Call, make_call
from lanefold.pto.isa import ELEMENTS, OPERATIONS, TARGETS
from lanefold.pto.isa.operations import PAGE_ALIASES
from lanefold.pto.rules import check_call

ALL = "f32 f16 bf16 i8 u8 i16 u16 i32 u32 i64 u64"
NINE = "f32 f16 bf16 i32 u32 i16 u16 i8 u8"
SIX = "f32 f16 i32 u32 i16 u16"
FOUR = "f16 f32 i32 i16"
SMALL = "f32 f16 bf16 i8 u8 i16 u16 i32 u32"

TYPES = """
TROWSUM          | f32 f16 bf16 i16 i32      | f16 f32 i32 i16 | f16 f32 i32 i16 i64 u64
TROWPROD         | ALL                       | FOUR            | FOUR
TROWMAX TROWMIN  | ALL                       | FOUR            | f16 f32 i32 i16 i8 u8 i64 u64
TROWARGMAX TROWARGMIN | ALL                  | FOUR            | f32 f16 bf16 i16 u16 i32 u32
TCOLSUM          | f32 f16 bf16              | FOUR            | f16 f32 bf16 i8 u8 i16 u16 i32 u32 i64 u64
TCOLPROD         | ALL                       | FOUR            | f32 f16 bf16 i16 u16 i32 u32
TCOLMAX          | f32 f16 bf16 i8 u8        | FOUR            | f16 f32 bf16 i8 u8 i16 u16 i32 u32 i64 u64
TCOLMIN          | ALL                       | FOUR            | f16 f32 bf16 i8 u8 i16 u16 i32 u32 i64 u64
TCOLARGMAX TCOLARGMIN | ALL                  | f16 f32 u16 u32 | SMALL
TROWEXPAND TCOLEXPAND | ALL                  | SMALL           | ALL
TROWEXPANDADD TROWEXPANDSUB TROWEXPANDMAX TROWEXPANDMIN | SIX | FOUR | NINE
TCOLEXPANDADD TCOLEXPANDSUB TCOLEXPANDMAX TCOLEXPANDMIN | SIX | FOUR | NINE
TROWEXPANDMUL TCOLEXPANDMUL | SIX u8         | FOUR            | NINE
TROWEXPANDDIV TCOLEXPANDDIV | SIX            | f32 f16         | NINE
TROWEXPANDEXPDIF TCOLEXPANDEXPDIF | f32 f16  | f32 f16         | f32 f16
"""

MIXED = """
TROWSUM | f16>f32 bf16>f32 i16>i32
TCOLSUM TCOLMAX | f16>f32 bf16>f32
"""


def table() -> dict[str, dict[str, set[str]]]:
    sets = {"ALL": ALL, "NINE": NINE, "SIX": SIX, "FOUR": FOUR, "SMALL": SMALL}
    rows: dict[str, dict[str, set[str]]] = {}
    for line in TYPES.strip().splitlines():
        names, *cells = (cell.strip() for cell in line.split("|"))
        parsed = [{name for word in cell.split() for name in sets.get(word, word).split()} for cell in cells]
        for name in names.split():
            rows[name] = dict(zip(("cpu", "a2a3", "a5"), parsed, strict=True))
    return rows


def shape(dtype: str, rows: int, cols: int, valid: tuple[int, int] | None = None, layout: str = "ND") -> TileType:
    valid_rows, valid_cols = valid or (rows, cols)
    return TileType(dtype, rows, cols, valid_rows, valid_cols, layout)


def call(name: str, source: str, result: str, target: str, index: str = "i32", value: bool = False) -> Call:
    """A call that is legal but, perhaps, for its types: 32×32 elements."""
    op = OPERATIONS[name]
    src, full = shape(source, 32, 32), shape(result, 32, 32)
    scratch = shape(source, 32, 128)
    if op.arg:
        place = (32, 32, (32, 1)) if op.axis == "row" else (1, 32, None)
        outputs = [shape(source, *place)] if value else []
        return make_call(name, [*outputs, shape(index, *place), src, scratch], target=target)
    if op.reduces:
        place = (32, 32, (32, 1)) if op.axis == "row" else (1, 32, None)
        return make_call(name, [shape(result, *place), src, *([scratch] if op.axis == "row" else [])], target=target)
    if not op.binary:
        narrow = shape(source, 32, 1, layout="DN") if op.axis == "row" else shape(source, 1, 32)
        return make_call(name, [full, narrow], target=target)
    narrow = shape(source, 32, 1, layout="DN") if op.axis == "row" else shape(source, 1, 32)
    return make_call(name, [full, src, narrow], target=target)


def codes(made: Call) -> set[str]:
    return {finding.code for finding in errors(check_call(made))}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", OPERATIONS)
def test_equal_types(name: str, target: str) -> None:
    legal = table()[name][target]
    for dtype in ELEMENTS:
        found = codes(call(name, dtype, dtype, target))
        assert ("PTO-TYPES" not in found) == (dtype in legal), (dtype, found)
        assert found <= {"PTO-TYPES"}, (dtype, found)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", [n for n, op in OPERATIONS.items() if not op.arg and not op.binary])
def test_two_types(name: str, target: str) -> None:
    mixed = {
        n: cell.split()
        for line in MIXED.strip().splitlines()
        for n in line.split("|")[0].split()
        for cell in [line.split("|")[1]]
    }
    for source in ELEMENTS:
        for result in ELEMENTS:
            if source == result:
                continue
            legal = target == "cpu" and f"{source}>{result}" in mixed.get(name, [])
            if target == "cpu" and name not in mixed:
                legal = not (name == "TCOLMIN" and {source, result} == {"f16", "bf16"})
            assert ("PTO-TYPES" not in codes(call(name, source, result, target))) == legal, (source, result)


INDEX = [
    ("TROWARGMAX", False, "cpu", "f16", "i32 u32"),
    ("TROWARGMAX", True, "cpu", "f16", "i32 u32"),
    ("TROWARGMAX", True, "a2a3", "f16", "i16 u16 i32 u32"),
    ("TROWARGMAX", True, "a5", "f32", "i32 u32"),
    ("TROWARGMIN", False, "a2a3", "f16", "i32 u32"),
    ("TCOLARGMAX", True, "cpu", "f16", "i32 u32"),
    ("TCOLARGMAX", True, "a2a3", "f16", "i16 u16"),
    ("TCOLARGMIN", True, "a5", "u16", "i16 u16"),
    ("TCOLARGMIN", False, "a5", "u16", "i32 u32"),
    ("TCOLARGMIN", True, "a2a3", "f32", "i32 u32"),
]


@pytest.mark.parametrize(("name", "value", "target", "source", "legal"), INDEX)
def test_index_types(name: str, value: bool, target: str, source: str, legal: str) -> None:
    for index in ELEMENTS:
        if ELEMENTS[index].kind == "float":
            continue
        found = codes(call(name, source, source, target, index, value))
        assert ("PTO-INDEX-TYPE" not in found) == (index in legal.split()), index
        assert found <= {"PTO-INDEX-TYPE"}


def test_no_index_type_serves_both_for_short_column_pairs() -> None:
    both = [
        index
        for index in ("i16", "u16", "i32", "u32")
        if not codes(call("TCOLARGMAX", "f16", "f16", "cpu", index, True))
        and not codes(call("TCOLARGMAX", "f16", "f16", "a2a3", index, True))
    ]
    assert both == []


LAYOUT_ROWS = """
TROWSUM     src     | ND DN NZ ZN ZZ | ND       | ND
TROWMAX     dst     | ND DN NZ ZN ZZ | ND       | ND
TROWARGMAX  src     | ND             | ND       | ND
TROWARGMAX  dstIdx  | ND DN          | ND       | ND
TCOLPROD    src     | ND DN NZ ZN ZZ | ND       | ND
TCOLMIN     dst     | ND DN NZ ZN ZZ | ND       | ND
TCOLARGMIN  src     | ND DN          | ND DN    | ND DN
TCOLARGMIN  dstIdx  | ND             | ND       | ND
TROWEXPAND  src     | ND DN NZ ZN ZZ | ND DN    | ND DN
TROWEXPAND  dst     | ND DN NZ ZN ZZ | ND       | ND
TCOLEXPAND  src     | ND DN NZ ZN ZZ | ND       | ND
TCOLEXPAND  dst     | ND DN NZ ZN ZZ | ND       | ND
TROWEXPANDMAX dst   | ND ZN ZZ       | ND ZN ZZ | ND ZN ZZ
TCOLEXPANDMAX dst   | ND ZN ZZ       | ND ZN ZZ | ND ZN ZZ
TCOLEXPANDMAX src0  | ND ZN ZZ       | ND DN NZ ZN ZZ | ND DN NZ ZN ZZ
"""


@pytest.mark.parametrize(
    "line", LAYOUT_ROWS.strip().splitlines(), ids=lambda line: "-".join(line.split("|")[0].split())
)
def test_layouts(line: str) -> None:
    head, *cells = line.split("|")
    name, role = head.split()
    dtype = "u32" if name.startswith("TCOLARG") else "f32"
    for target, cell in zip(("cpu", "a2a3", "a5"), cells, strict=True):
        for layout in ("ND", "DN", "NZ", "ZN", "ZZ"):
            made = call(name, dtype, dtype, target)
            kind = made.operands[role].type
            tall = 32 if kind.rows == 1 else kind.rows
            wide = 32 if kind.cols == 1 else kind.cols
            changed = made.changed({f"{role}.rows": tall, f"{role}.cols": wide, f"{role}.layout": layout})
            found = codes(changed) & {"PTO-LAYOUT"}
            assert (not found) == (layout in cell.split()), (target, layout)


@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_one_column_results(target: str) -> None:
    made = call("TROWSUM", "f32", "f32", target)
    one = made.changed({"dst.layout": "DN", "dst.cols": 1})
    assert codes(one) == set()
    assert codes(made.changed({"dst.layout": "DN", "dst.cols": 2})) == {"PTO-LAYOUT"}


def test_column_pairs_on_cpu_borrow_the_row_rules() -> None:
    made = call("TCOLARGMAX", "f32", "f32", "cpu", "i32", True)
    assert codes(made.changed({"src.layout": "DN"})) == {"PTO-LAYOUT"}
    assert codes(made.changed({"dstVal.rows": 8, "dstVal.layout": "DN"})) == set()
    plain = call("TCOLARGMAX", "f32", "f32", "cpu")
    assert codes(plain.changed({"src.layout": "DN"})) == set()


def test_names() -> None:
    groups = [
        [f"T{axis}{word}" for word in ("SUM", "PROD", "MAX", "MIN", "ARGMAX", "ARGMIN")] for axis in ("ROW", "COL")
    ]
    groups += [
        [f"T{axis}EXPAND{word}" for word in ("", "ADD", "SUB", "MUL", "DIV", "MAX", "MIN", "EXPDIF")]
        for axis in ("ROW", "COL")
    ]
    assert set(OPERATIONS) == {name for group in groups for name in group}
    assert len(OPERATIONS) == 28
    assert set(PAGE_ALIASES) == {f"T{a}EXP{w}" for a in ("ROW", "COL") for w in ("SUB", "MUL", "DIV", "DIF")}


@pytest.mark.parametrize("op", OPERATIONS.values(), ids=lambda op: op.name)
def test_rows_say_where_they_come_from(op: object) -> None:
    assert op.source.startswith("PTO")  # type: ignore[attr-defined]
    assert op.effect  # type: ignore[attr-defined]
    for row in op.support.values():  # type: ignore[attr-defined]
        assert row.source
        assert row.confidence
