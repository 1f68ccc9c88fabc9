"""The three text forms: examples as documented, exact round trips on random programs, and errors with their place."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lanefold.diagnostics import LanefoldError
from lanefold.pto import Program, TileType, parse
from lanefold.pto.isa import ELEMENTS, OPERATIONS, Form, Operation
from lanefold.pto.program import Compute, GlobalArray, Load, Store, TileSlot

T = "!pto.tile<loc=vec, f32, 16, 16, RowMajor, NoneBox, None, Zero>"
B = "!pto.tile_buf<vec, 16x16xf32>"
V, P = "!pto.tensor_view<?x?xf32>", "!pto.partition_tensor_view<16x16xf32>"

EXAMPLES = {
    f"%d = trowsum %s : {T} -> {T}": ("TROWSUM", "R1", "d s", None),
    f"%d = pto.trowsum %s, %tmp : ({T}, {T}) -> {T}": ("TROWSUM", "R1", "d s tmp", None),
    f"pto.trowsum ins(%s, %tmp : {B}, {B}) outs(%d : {B})": ("TROWSUM", "R1", "d s tmp", None),
    f"%i = trowargmax %s : {T} -> {T}": ("TROWARGMAX", "R2", "i s", None),
    f"pto.trowargmax ins(%s, %tmp : {B}, {B}) outs(%i : {B})": ("TROWARGMAX", "R2", "i s tmp", None),
    f"%v, %i = trowargmin %s : {T} -> {T}, {T}": ("TROWARGMIN", "R3", "v i s", None),
    f"%v, %i = tcolargmax %s : {T} -> {T}, {T}": ("TCOLARGMAX", "C4", "v i s", None),
    f"%v, %i = pto.tcolargmax %s, %tmp : ({T}, {T}) -> ({T}, {T})": ("TCOLARGMAX", "C4", "v i s tmp", None),
    f"pto.tcolargmax ins(%s, %tmp : {B}, {B}) outs(%v, %i : {B}, {B})": ("TCOLARGMAX", "C4", "v i s tmp", None),
    f"%d = tcolmax %s : {T} -> {T}": ("TCOLMAX", "C1", "d s", None),
    f"pto.tcolmax ins(%s : {B}) outs(%d : {B})": ("TCOLMAX", "C1", "d s", None),
    f"%d = tcolsum %s : {T} -> {T}": ("TCOLSUM", "C1", "d s", None),
    f"%d = tcolsum %s {{isBinary = false}} : {T} -> {T}": ("TCOLSUM", "C2", "d s", False),
    f"%d = pto.tcolsum %s, %tmp {{isBinary = true}} : ({T}, {T}) -> {T}": ("TCOLSUM", "C2", "d s tmp", True),
    f"pto.tcolsum ins(%s, %tmp {{isBinary = false}} : {B}, {B}) outs(%d : {B})": ("TCOLSUM", "C2", "d s tmp", False),
    f"%d = trowexpandadd %a, %b : {T}, {T} -> {T}": ("TROWEXPANDADD", "E2", "d a b", None),
    f"%d = pto.trowexpandadd %a, %b : {T}, {T} -> {T}": ("TROWEXPANDADD", "E2", "d a b", None),
    f"pto.trowexpandadd ins(%a, %b : {B}, {B}) outs(%d : {B})": ("TROWEXPANDADD", "E2", "d a b", None),
    f"%d = trowexpdif %a, %b : {T}, {T} -> {T}": ("TROWEXPANDEXPDIF", "E2", "d a b", None),
    f"trowexpandsub %d, %a, %b : {T}": ("TROWEXPANDSUB", "E2", "d a b", None),
    f"start: pto.tcolsum %d, %s, %tmp #isBinary=true : {T}": ("TCOLSUM", "C2", "d s tmp", True),
    f"%d = tcolexpand %s : {T} -> {T}  // a comment": ("TCOLEXPAND", "E1", "d s", None),
}


@pytest.mark.parametrize("text", EXAMPLES)
def test_documented_spellings(text: str) -> None:
    op, form, tiles, flag = EXAMPLES[text]
    (found,) = parse(text).instructions
    assert found == Compute(op, form, tuple(tiles.split()), flag)


def test_types_in_full_and_short_form() -> None:
    full = parse(f"%d = tcolmax %s : {T} -> !pto.tile<f32, 16, 16>").slots
    assert full["s"].type == TileType("f32", 16, 16, 16, 16, pad="zero")
    assert full["d"].type == TileType("f32", 16, 16, 16, 16)
    short = "!pto.tile_buf<vec, 16x16xf16, valid=?x?>"
    slot = parse(f"%b = pto.alloc_tile addr = 0x40 valid_row = %r valid_col = 5 : {short}").slots["b"]
    assert slot == TileSlot("b", TileType("f16", 16, 16, None, None), 64, "r", 5)
    boxed = parse("%b = pto.alloc_tile : !pto.tile_buf<loc=mat, bf16, 32, 32, ColMajor, RowMajor, NZ, Null>").slots["b"]
    assert boxed.type.layout == "NZ"


def test_loads_stores_views_and_places() -> None:
    text = f"""
    %c4 = arith.constant 4 : index
    %x0 = tload %x[%r, %c4] : (!pto.memref<64x32xf32>, index, index) -> {T}
    pto.tassign %x0, @tile(0x1000)
    %v = pto.make_tensor_view %y, shape = [64, 32], strides = [32, 1] : !pto.tensor_view<?x?xf32>
    %p = pto.partition_view %v, offsets = [0, 16], sizes = [16, 16] : {V} -> {P}
    pto.tload ins(%p : {P}) outs(%y0 : {B})
    tstore %x0, %x[0, 0]
    pto.tstore ins(%y0 : {B}) outs(%p : {P})
    """
    program = parse(text)
    assert program.instructions == (
        Load("x0", "x", "r", 4),
        Load("y0", "y", 0, 16),
        Store("x0", "x", 0, 0),
        Store("y0", "y", 0, 16),
    )
    assert program.slots["x0"].address == 0x1000
    assert program.parameters == ("r",)
    assert program.globals["y"] == GlobalArray("y", "f32", 64, 32, 32, 1)


# --- round trips -----------------------------------------------------------------------------------------------------

NAMES = st.integers(0, 99).map(str)


@st.composite
def tile_types(draw: st.DrawFn, dtype: str) -> TileType:
    unit = 32 // ELEMENTS[dtype].bytes
    layout = draw(st.sampled_from(["ND", "DN", "NZ", "ZN", "ZZ"]))
    rows, cols = 16 * draw(st.integers(1, 4)) * unit, 16 * draw(st.integers(1, 4)) * unit
    valid = [draw(st.one_of(st.none(), st.just(n), st.integers(1, n))) for n in (rows, cols)]
    fractal = draw(st.sampled_from([512, 512, 1024, 32]))
    return TileType(
        dtype,
        rows,
        cols,
        *valid,
        layout,
        draw(st.sampled_from(["vec", "vec", "mat"])),
        fractal,
        draw(st.sampled_from(["null", "zero", "max", "min"])),
        draw(st.sampled_from(["null", "normal", "rowplusone"])),
    )


def values() -> st.SearchStrategy[int | str]:
    return st.one_of(st.integers(0, 64), st.sampled_from(["r", "c"]))


def extents() -> st.SearchStrategy[int | str]:
    return st.one_of(st.integers(1, 64), st.sampled_from(["r", "c"]))


class Builder:
    """Collects a random program in which every tile is written once."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.slots: list[TileSlot] = []
        self.arrays: list[GlobalArray] = []
        self.instructions: list[Load | Store | Compute] = []

    def tile(self) -> str:
        name = f"t{len(self.slots)}"
        kind = self.draw(tile_types(self.draw(st.sampled_from(sorted(ELEMENTS)))))
        row = self.draw(extents()) if kind.valid_rows is None else None
        col = self.draw(extents()) if kind.valid_cols is None else None
        address = self.draw(st.one_of(st.none(), st.integers(0, 100).map(lambda n: 32 * n)))
        self.slots.append(TileSlot(name, kind, address, row, col))
        return name

    def array(self, tile: str) -> str:
        dtype = next(slot for slot in self.slots if slot.name == tile).type.dtype
        name = f"a{len(self.arrays)}"
        rows, cols = self.draw(values()), self.draw(values())
        strides = self.draw(st.sampled_from([(cols, 1), (1, rows), (128, 1)]))
        self.arrays.append(GlobalArray(name, dtype, rows, cols, *strides))
        return name

    def grouped(self, tile: str) -> str:
        """An array whose rows lie in groups, each of its own stride."""
        kind = next(slot for slot in self.slots if slot.name == tile).type
        name = f"a{len(self.arrays)}"
        rows = left = kind.valid_rows or 0
        outer = []
        for _ in range(self.draw(st.integers(1, 3))):
            extent = self.draw(st.sampled_from([n for n in range(1, left + 1) if left % n == 0]))
            outer.append((extent, self.draw(st.integers(1, 500))))
            left //= extent
        self.arrays.append(
            GlobalArray(name, kind.dtype, rows, kind.cols, self.draw(st.integers(1, 99)), 1, tuple(outer))
        )
        return name

    def move(self, kind: type[Load] | type[Store], tile: str) -> None:
        if self.draw(st.integers(0, 3)) == 0 and self.whole(tile):
            self.instructions.append(kind(tile, self.grouped(tile), 0, self.draw(values())))
            return
        self.instructions.append(kind(tile, self.array(tile), self.draw(values()), self.draw(values())))

    def whole(self, tile: str) -> bool:
        """Whether a tile has rows, and its extents stand in its type, so that a part of an array need not tell them."""
        kind = next(slot for slot in self.slots if slot.name == tile).type
        return kind.static and bool(kind.valid_rows)

    def load(self) -> str:
        name = self.tile()
        self.move(Load, name)
        return name

    def compute(self, op: Operation, form: Form, known: list[str]) -> list[str]:
        source = st.sampled_from(known)
        tiles = [self.draw(source) if role.startswith("src") else self.tile() for role in form.operands]
        flag = self.draw(st.booleans()) if form.name == "C2" else None
        self.instructions.append(Compute(op.name, form.name, tuple(tiles), flag))
        return tiles[: form.outputs]


@st.composite
def programs(draw: st.DrawFn) -> Program:
    builder = Builder(draw)
    known = [builder.load()]
    for _ in range(draw(st.integers(1, 4))):
        op = draw(st.sampled_from(list(OPERATIONS.values())))
        known += builder.compute(op, draw(st.sampled_from(op.forms)), known)
        if draw(st.booleans()):
            builder.move(Store, known[-1])
    return Program(tuple(builder.arrays), tuple(builder.slots), tuple(builder.instructions))


def single_flags(program: Program) -> bool:
    """Whether no line has two results that differ in their dynamic extents, which one line cannot say."""
    slots = program.slots
    for i in program.instructions:
        if isinstance(i, Compute) and len(i.outputs) == 2:
            a, b = (slots[name] for name in i.outputs)
            if (a.valid_row, a.valid_col, a.type.static) != (b.valid_row, b.valid_col, b.type.static):
                return False
    return True


@settings(max_examples=60, deadline=None)
@given(programs())
def test_round_trips(program: Program) -> None:
    text = program.to_text("dps")
    assert parse(text) == program
    assert parse(text).to_text("dps") == text
    if single_flags(program):
        assert parse(program.to_text("ssa")) == program
        assert parse(program.to_text("asm")) == program.without_scratch()


def places(text: str) -> bool:
    """Whether the text is read, or refused with findings that name their line."""
    try:
        parse(text)
    except LanefoldError as wrong:
        return all(d.place.line and d.cures for d in wrong.diagnostics)
    return True


@settings(max_examples=150, deadline=None)
@given(st.text(alphabet="%=:,(){}[]<>!#@x0 9-\n\tptorwsumlade.", max_size=60))
def test_no_text_raises_anything_but_findings(text: str) -> None:
    assert places(text)


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(sorted(EXAMPLES)),
    st.integers(0, 200),
    st.integers(0, 6),
    st.sampled_from(["", "%", "f9", ",", "<", "0x"]),
)
def test_damaged_lines_raise_nothing_but_findings(text: str, start: int, length: int, word: str) -> None:
    assert places(text[:start] + word + text[start + length :])


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        (
            "loc=vec, dtype=f32, rows=16, cols=16, v_row=7, blayout=row_major, slayout=none_box, fractal=512",
            ("ND", 7, 16),
        ),
        ("f32, 16, 16, slayout=row_major, blayout=col_major, v_row=?, v_col=9", ("NZ", None, 9)),
        ("f32, 16x16, valid= 7 x 9", ("ND", 7, 9)),
        ("f32, 0x10, 0X10, ColMajor", ("DN", 16, 16)),
    ],
)
def test_spellings_of_tile_types(body: str, wanted: tuple[str, int | None, int | None]) -> None:
    slot = parse(f"%t = pto.alloc_tile : !pto.tile_buf<{body}>").tiles[0].type
    assert (slot.dtype, slot.rows, slot.cols) == ("f32", 16, 16)
    assert (slot.layout, slot.valid_rows, slot.valid_cols) == wanted


@pytest.mark.parametrize(
    "text",
    [
        "%t = pto.alloc_tile : !pto.tile<rows=a, cols=2, dtype=f32>",
        "%t = pto.alloc_tile : !pto.tile<f32, 8, 8, v_row=x>",
        "%t = pto.alloc_tile : !pto.tile<f32, 8, 8, fractal=zz>",
        "%t = pto.alloc_tile : !pto.tile<f32, 8, 8, valid=\u00b2x1>",
        f"%t = pto.alloc_tile : !pto.tile<f32, {'9' * 5000}, 8>",
        f"%c = arith.constant {'9' * 5000} : index",
        f"%t = tload %x[0, 0] : (!pto.memref<16x16xf32, strided<[a, 1]>>, index, index) -> {T}",
        f"%t = tload %x[0, 0] : (!pto.memref<16x16xf32, strided<[,]>>, index, index) -> {T}",
    ],
)
def test_numbers_that_are_none_are_findings(text: str) -> None:
    with pytest.raises(LanefoldError, match="PTO-T"):
        parse(text)


def test_lines_with_labels_flags_and_lists() -> None:
    """A label on its own line, a flag in capitals, several attributes behind one sharp."""
    plain = parse(f"%d = tcolsum %s {{isBinary = true, n = 3}} : {T} -> {T}")
    assert parse(f"start:\n  %d = tcolsum %s #isBinary=True, n=0x3 : {T} -> {T}\nend:") == plain


@pytest.mark.parametrize("form", ["asm", "ssa", "dps"])
def test_attributes_are_kept(form: str) -> None:
    """Words that mean nothing to the operation come back, numbers by value."""
    line = f'%d = tcolsum %s {{isBinary = true, depth = -0x10, z = 1.5e-3, n = "a, b", p = [1, -2, %q]}} : {T} -> {T}'
    program = parse(line)
    wanted = (("depth", -16), ("z", 0.0015), ("n", '"a, b"'), ("p", (1, -2, "%q")))
    assert program.instructions[0] == Compute("TCOLSUM", "C2", ("d", "s"), True, attributes=wanted)
    assert parse(program.to_text(form)).instructions == program.instructions


def test_tiles_are_placed_before_they_have_a_type() -> None:
    load = f"%t = tload %x[0, 0] : (!pto.memref<8x8xf32>, index, index) -> {T}"
    for text in (f"pto.tassign %t, @tile(0x1000)\n{load}", f"pto.tassign %t, @tile(4096) : {T}\n{load}"):
        assert parse(text) == parse(f"{load}\npto.tassign %t, @tile(0x1000)")
    with pytest.raises(LanefoldError, match="the address %a is not known"):
        parse(f"pto.tassign %t, @tile(0x20)\n%t = pto.alloc_tile addr = %a : {T}")
    known = parse(f"%a = arith.constant 0x1000 : i64\n%t = pto.alloc_tile addr = %a : {T}")
    assert known.slots["t"].address == 4096


ERRORS = [
    ("%d = trowsun %s : T -> T", "PTO-OP-NAME", "operation 'trowsun' is not known", 1),
    (f"\n%d = trowsum %s -> {T}", "PTO-TEXT-SYNTAX", "the line is not understood from column 17 on", 2),
    (
        "%d = tcolmax %s : !pto.tile<f33, 16, 16> -> !pto.tile<f32, 8, 8>",
        "PTO-TYPE-NAME",
        "element type 'f33' is not known",
        1,
    ),
    (
        "%d = tcolmax %s : !pto.tile<f32, 16, 7> -> !pto.tile<f32, 8, 8>",
        "PTO-TILE-BLOCKS",
        "an ND tile of f32 with 7 columns has lines of",
        1,
    ),
    ("%d = tcolmax %s", "PTO-TEXT-UNKNOWN", "%d has no type here, and none before", 1),
    (
        f"%d = tcolmax %s : {T} -> {T}\n%d = tcolmax %s : {T} -> {T}",
        "PTO-TEXT-MISMATCH",
        "%d is the result of two lines",
        2,
    ),
    (f"%d = tcolsum %s, %t : {T}, {T} -> {T}", "PTO-BINARY-FLAG", "tcolsum with a scratch tile needs isBinary", 1),
    (f"%d = tcolmax %s, %t : {T}, {T} -> {T}", "PTO-OPERANDS", "tcolmax has no form with 1 result and 2 operands", 1),
    (
        f"%d = tcolmax %s {{isBinary = true}} : {T} -> {T}",
        "PTO-BINARY-FLAG",
        "isBinary = true does not go with tcolmax",
        1,
    ),
    ("tstore %t, %x[0, 0]", "PTO-TEXT-UNKNOWN", "%t has no type here, and none before", 1),
    (
        "%t = tload %x[0] : (!pto.memref<8x8xf32>, index) -> !pto.tile<f32, 8, 8>",
        "PTO-TEXT-STATEMENT",
        "tload: 1 subscript",
        1,
    ),
    ("pto.tassign %t", "PTO-TEXT-UNKNOWN", "%t has no type here, and none before", 1),
    (
        "%d = tcolmax %s : !pto.tile<16, 16> -> !pto.tile<f32, 8, 8>",
        "PTO-TEXT-TYPE",
        "!pto.tile<16, 16> is no PTO type",
        1,
    ),
]


@pytest.mark.parametrize(
    ("text", "code", "message", "line"), ERRORS, ids=[row[1] + str(n) for n, row in enumerate(ERRORS)]
)
def test_errors_name_line_and_cure(text: str, code: str, message: str, line: int) -> None:
    with pytest.raises(LanefoldError) as caught:
        parse(text)
    finding = caught.value.diagnostics[0]
    assert finding.code == code
    assert finding.message.startswith(message)
    assert finding.place.line == line
    assert finding.cures


def test_unknown_form_and_double_writes() -> None:
    program = parse(f"tcolmax %d, %s : {T}\ntcolmin %d, %s : {T}")
    with pytest.raises(LanefoldError, match="PTO-TEXT-FORM"):
        program.to_text("mlir")
    with pytest.raises(LanefoldError, match="PTO-TEXT-SSA"):
        program.to_text("ssa")
    assert parse(program.to_text("dps")) == program
