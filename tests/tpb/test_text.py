"""Assembly text: both ways for every word, and errors that point at the place."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lanefold import tpb
from lanefold.diagnostics import LanefoldError
from lanefold.tpb import isa
from lanefold.tpb.binary import encode_columns

GENERATIONS = ("v2", "v3", "v4")
READINGS = ("reference", "headers")
POOL = "Pool src=SB[0, 0x1000] float32 [[1,2]] dst=SB[0, 0x2000] float32 [[1,2]]"


def body(stream, **options):
    return tpb.disassemble(stream, **options).split("\n\n", 1)[1].rstrip("\n").split("\n")


# ------------------------------------------------------------------------------------------ by hand

AVERAGE_POOL = (
    "Pool src=SB[0, 0x1000] float32 [[8,2],[2,2],[4,2],[1,2]] dst=SB[0, 0x2000] float32 [[2,2],[1,2]] "
    "num_active_channels=128 pool_func=AVG pool_dim=XY pool_scale=0.25 "
    "wait=SEM_GE_IMM(17) update=SEM_INC_COMPLETE(18) semaphore_value=3"
)
AVERAGE_POOL_BYTES = (
    "4510000005111312030000000010000001000400020008000200020002000200"
    "0a0a8000020300000000803e0020000001000200010001000200020001000100"
)
HAND_MADE = [
    (AVERAGE_POOL, AVERAGE_POOL_BYTES, "v2"),
    (
        "Max8 src=SB[0, 0x0] float32 [[1,1000]] dst=SB[0, 0x301C] float32 [[0,1],[-1,8]] num_active_channels=128",
        (
            "6c1000000000000000000000000000000100010001000100e8030100010001000a0a80000000000000000000000000001c300000ffff0000"
            "0800010000000000"
        ),
        "v2",
    ),
    (
        (
            "Iota dst=SB[0, 0x6000] int32 [[100,3],[1,100]] pattern=[[100,3],[1,100]] base=5 num_active_channels=128 "
            "channel_multiplier=1000"
        ),
        (
            "7e1000000000000000000000050000000100640001000100640003000100010000088000e8030000000000000060000001006400"
            "010001006400030001000100"
        ),
        "v2",
    ),
    (
        (
            "TensorReduceArithOp src=r5 bfloat16 [[1,512]] dst=PSUM[64, 0x1840] float32 [[1,4]] num_active_channels=64 "
            "op=add op_dim=X"
        ),
        (
            "7c10000000000000000000000500008001000100010001000002010001000100060a40000402000000000000"
            "4018200201000100010001000400010001000100"
        ),
        "v2",
    ),
    (
        (
            "TensorReduceArithOp src=indirect(index=SB[0, 0x3000], data=SB[0, 0x8000], num_elem=64) float32 "
            "dst=shape_register SB[0, 0x0] float32 [[1,1]] num_active_channels=1 op=max op_dim=X"
        ),
        (
            "7c100000000000000000000000300020008000004000000000000000000000000a0a01000802000000000000"
            "0000004001000100010001000100010001000100"
        ),
        "v4",
    ),
]


@pytest.mark.parametrize(("line", "digits", "generation"), HAND_MADE)
def test_lines_written_by_hand(line, digits, generation):
    stream = tpb.decode(digits, generation)
    assert body(stream) == [line]
    assert tpb.assemble(line, generation) == stream
    spaced = line.replace("=", " = ").replace("[[", "[ [").replace(",", " ,") + "   ; a remark"
    assert tpb.assemble(f"\n\t{spaced}\r\n; nothing\n", generation) == stream


def test_header_carries_generation_reading_and_engine():
    stream = tpb.Stream(tpb.decode(AVERAGE_POOL_BYTES).words, "v3", "headers", engine="Pool")
    text = tpb.disassemble(stream)
    assert text.startswith(".generation v3\n.opcodes headers\n.engine Pool\n\nPool ")
    back = tpb.assemble(text)
    assert (back, back.engine) == (stream, "Pool")


def test_empty_streams_survive():
    empty = tpb.decode(b"")
    assert tpb.assemble(tpb.disassemble(empty)) == empty
    assert len(tpb.assemble("")) == 0


def test_bytes_as_comments():
    stream = tpb.decode(AVERAGE_POOL_BYTES + "a0" * 64)
    first, second = body(stream, hex=True)
    assert first == f"{AVERAGE_POOL}  ; {AVERAGE_POOL_BYTES}"
    assert second == f".raw {'a0' * 64}  ; opcode 0xA0 is not of this leg"
    assert tpb.assemble(tpb.disassemble(stream, hex=True)) == stream


def test_raw_lines_say_what_is_odd():
    word = bytearray.fromhex(AVERAGE_POOL_BYTES)
    word[1], word[0x23], word[0x27] = 17, 1, 1
    (line,) = body(tpb.decode(bytes(word)))
    assert line.endswith("; Pool: length byte 0x11, reserved bytes from +0x23, reserved bytes from +0x26")
    assert tpb.assemble(f".raw {bytes(word).hex(' ')}").tobytes() == bytes(word)


def test_other_names_are_read():
    expected = tpb.assemble("TensorReduceArithOp src=r0 float32 [[1,2]] dst=r0 float32 [[1,1]] op=not_equal")
    for line in (
        "tensor_reduce_arith src=r0 float32 [[1,2]] dst=r0 float32 [[1,1]] op=IS_NE",
        "tr_arith src=r0 10 [[1,2]] dst=r0 0x0A [[1,1]] op=0x18 debug_cmd=NONE wait=NONE(0)",
        "TensorReduceArithOp dst=@0x80000000 float32 [[1,1],[1,1]] op=24 src=r0 float32 [[1,2]]",
    ):
        assert tpb.assemble(line) == expected
    assert tpb.assemble("Gather src=r0 uint8 [[1,1]] dst=r1 uint8 [[1,1]]") == tpb.assemble(
        "reg_load src=r0 uint8 [[1,1]] dst=r1 uint8 [[1,1]]"
    )


@pytest.mark.parametrize(
    ("text", "bits"),
    [
        ("0.1", 0x3DCCCCCD),
        ("-0.0", 0x80000000),
        ("inf", 0x7F800000),
        ("-inf", 0xFF800000),
        ("nan", 0x7FC00000),
        ("bits(0x7F800001)", 0x7F800001),
        ("1e-45", 1),
        ("3.4028235e+38", 0x7F7FFFFF),
    ],
)
def test_floats_keep_their_bits(text, bits):
    made = tpb.assemble(f"{POOL} pool_scale={text}")
    assert made.tobytes()[0x28:0x2C] == bits.to_bytes(4, "little")
    assert body(made) == [f"{POOL} pool_scale={text}"]
    assert tpb.assemble(f"{POOL} pool_scale=2").tobytes()[0x28:0x2C] == bytes.fromhex("00000040")


def test_reference_vectors_survive(reference_data):
    cases = json.loads((reference_data / "golden" / "tpb" / "vectors.json").read_text())["encode"]
    for case in cases:
        for reading, bundles in case["bundles"].items():
            if bundles:
                stream = tpb.decode("".join(bundles), case["gen"], reading)
                text = tpb.disassemble(stream)
                assert ".raw" not in text
                assert tpb.assemble(text) == stream


# ------------------------------------------------------------------------------------------ every word


@st.composite
def streams(draw):
    """Arbitrary bytes; most words get a known opcode and zero reserved bytes, so that they are lines of fields."""
    generation, reading = draw(st.sampled_from(GENERATIONS)), draw(st.sampled_from(READINGS))
    words = []
    for _ in range(draw(st.integers(0, 4))):
        word = bytearray(draw(st.binary(min_size=64, max_size=64)))
        row = draw(st.sampled_from([None, *isa.BUNDLES]))
        if row is not None and row.opcode(reading) is not None:
            word[0], word[1] = row.opcode(reading), draw(st.sampled_from([16, 16, 16, 17]))
            for field in isa.STRUCTS[row.struct].fields:
                if field.kind is isa.Kind.RESERVED and draw(st.integers(0, 9)):
                    word[field.offset : field.offset + field.count] = bytes(field.count)
                if field.kind in (isa.Kind.TENSOR4D, isa.Kind.MEMORY4D, isa.Kind.TENSOR2D):
                    word[field.offset + 3] = draw(st.sampled_from([0, 0, 2, 0x20, 0x40, 0x80, 0xA0, 0xC0, 0xE3]))
                    if draw(st.booleans()):
                        word[field.offset + 1 : field.offset + 3] = b"\0\0"
                    if draw(st.booleans()):
                        word[field.offset + 10 : field.offset + 12] = b"\0\0"
                        if field.kind is not isa.Kind.TENSOR2D:
                            word[field.offset + 12 : field.offset + 20] = bytes(8)
        words.append(bytes(word))
    return tpb.decode(b"".join(words), generation, reading)


@given(streams(), st.booleans())
@settings(max_examples=250, deadline=None)
def test_words_to_text_to_words(stream, with_hex):
    text = tpb.disassemble(stream, hex=with_hex)
    back = tpb.assemble(text)
    assert back == stream
    assert tpb.disassemble(back, hex=with_hex) == text


def test_every_number_of_every_byte_of_every_instruction_survives():
    for generation in GENERATIONS:
        for reading in READINGS:
            words = []
            for row in isa.BUNDLES:
                opcode = row.opcode(reading)
                if opcode is None or generation not in row.generations:
                    continue
                base = np.zeros((64, 64), np.uint8)
                base[:, 0], base[:, 1] = opcode, 16
                for value in (1, 0x20, 0xFF) if reading == "reference" else (0x20,):
                    changed = base.copy()
                    changed[np.arange(64), np.arange(64)] = value
                    words.append(changed)
            stream = tpb.decode(np.concatenate(words).tobytes(), generation, reading)
            assert tpb.assemble(tpb.disassemble(stream)) == stream


def test_long_streams_keep_their_order():
    count = 40_000
    words = np.frombuffer(bytes.fromhex(AVERAGE_POOL_BYTES), np.uint8)[None].repeat(count, 0).copy()
    words[:, 8:12] = np.arange(count, dtype="<u4").view(np.uint8).reshape(-1, 4)
    words[::3, 0], words[1::7, 0x23] = 0xA0, 9
    lines = body(tpb.decode(words.tobytes()))
    assert len(lines) == count
    for index in (0, 1, 2, 3, 5, 16384, 16385, 39998, 39999):
        assert tpb.assemble(lines[index]).tobytes() == words[index].tobytes()


def test_slices_and_strides_of_a_stream():
    stream = encode_columns("pool", {"pool_func": np.arange(10)})
    assert body(stream[::-2]) == body(stream)[::-2]


# ------------------------------------------------------------------------------------------ errors

INDIRECT = "indirect(index=r1, data=r2, num_elem=3)"
WRONG = [
    # text, code, line, column, piece, first cure, the text after the first cure
    ("Pol op=1", "TPB-TEXT-NAME", 1, 1, "Pol", "write Pool", None),
    (f"{POOL}\n{POOL} pool_fun=MAX", "TPB-TEXT-NAME", 2, 74, "pool_fun", "write pool_func", f"{POOL} pool_func=MAX"),
    (f"{POOL} pool_func=AVERAGE", "TPB-TEXT-NAME", 1, 84, "AVERAGE", "write AVG", f"{POOL} pool_func=AVG"),
    (f"{POOL} wait=SEM_GE(3)", "TPB-TEXT-NAME", 1, 79, "SEM_GE", "write SEM_GE_IMM", f"{POOL} wait=SEM_GE_IMM(3)"),
    (f"{POOL} num_active_channels=256", "TPB-TEXT-VALUE", 1, 94, "256", "write 255, the nearest", None),
    (f"{POOL} pool_scale=1e40", "TPB-TEXT-VALUE", 1, 85, "1e40", "write pool_scale=1.0", f"{POOL} pool_scale=1.0"),
    (f"{POOL} pool_scale=MAX", "TPB-TEXT-VALUE", 1, 85, "MAX", "write pool_scale=1.0", None),
    (f"{POOL} debug_hint=1.5", "TPB-TEXT-VALUE", 1, 85, "1.5", "write debug_hint=0", f"{POOL} debug_hint=0"),
    (f"{POOL} wait=NONE", "TPB-TEXT-VALUE", 1, 79, "NONE", "write wait=SEM_EQ_IMM(0)", f"{POOL} wait=SEM_EQ_IMM(0)"),
    (f"{POOL} semaphore_value=r5 float32 [[1,1]]", "TPB-TEXT-VALUE", 1, 90, "r5", "write semaphore_value=0", None),
    (f"{POOL} pool_func=[[1,2]]", "TPB-TEXT-VALUE", 1, 84, "[", "write pool_func=NONE", None),
    (f"{POOL} src=r0 float32 [[1,1]]", "TPB-TEXT-ITEMS", 1, 74, "src", "remove one of the two", None),
    ("Pool src=r0 float32 [[1,1]]", "TPB-TEXT-ITEMS", 1, 1, "Pool", "add dst=SB[0, 0x0] float32 [[1,8]]", None),
    ("Iota dst=r0 int32 [[1,1]]", "TPB-TEXT-ITEMS", 1, 1, "Iota", "add pattern=[[1,8]]", None),
    ("Iota dst=r0 int32 [[1,1]] pattern=3", "TPB-TEXT-VALUE", 1, 35, "3", "write pattern=[[1,8]]", None),
    ("Iota dst=3 pattern=[[1,1]]", "TPB-TEXT-VALUE", 1, 10, "3", "write dst=SB[0, 0x0] float32 [[1,8]]", None),
    ("Pool src=r64 float32 [[1,1]] dst=r0 float32 [[1,1]]", "TPB-TEXT-VALUE", 1, 10, "r64", "write r63", None),
    ("Pool src=SB[128, 0] float32 [[1,1]] dst=r0 float32 [[1,1]]", "TPB-TEXT-VALUE", 1, 13, "128", "write 127", None),
    ("Pool src=r0 float32 [[1,70000]] dst=r0 float32 [[1,1]]", "TPB-TEXT-VALUE", 1, 25, "70000", "write 65535", None),
    ("Pool src=r0 float32 [[1,-1]] dst=r0 float32 [[1,1]]", "TPB-TEXT-VALUE", 1, 25, "-1", "write 0", None),
    ("Pool src=r0 float33 [[1,1]] dst=r0 float32 [[1,1]]", "TPB-TEXT-NAME", 1, 13, "float33", "write float32", None),
    (
        "Max8 src=r0 float32 [[1,9]] dst=r0 float32 [[3,1],[1,2],[1,4]]",
        "TPB-TEXT-VALUE",
        1,
        58,
        "1",
        "keep the 2 innermost pairs",
        None,
    ),
    (
        f"Pool src={INDIRECT} float32 dst=r0 float32 [[1,1]]",
        "TPB-TEXT-VALUE",
        1,
        10,
        "indirect",
        "write SB[partition, byte]",
        None,
    ),
    (
        "TransposeTensorReduceArithOp src=r0 float32 [[1,1]] dst=r0 float32 [[1,1]]",
        "TPB-TEXT-OPCODE",
        1,
        1,
        "TransposeTensorReduceArithOp",
        "write .opcodes headers at the top",
        None,
    ),
    (
        ".generation v3\nTensorReduceAddBf16 src=r0 bfloat16 [[1,1]] dst=r0 float32 [[1,1]]",
        "TPB-TEXT-OPCODE",
        2,
        1,
        "TensorReduceAddBf16",
        "write .generation v2 at the top",
        None,
    ),
    (".raw 4510", "TPB-TEXT-VALUE", 1, 6, "4510", "give all 64 bytes", None),
    (".generations v2", "TPB-TEXT-NAME", 1, 1, ".generations", "write .generation", ".generation v2"),
    (".generation v7", "TPB-TEXT-NAME", 1, 13, "v7", "write v2", ".generation v2"),
    (".opcodes header", "TPB-TEXT-NAME", 1, 10, "header", "write headers", ".opcodes headers"),
    (".opcodes headers\n.opcodes headers", "TPB-TEXT-DIRECTIVE", 2, 1, ".opcodes", "keep one directive", None),
    (f"{POOL}\n.opcodes headers", "TPB-TEXT-DIRECTIVE", 2, 1, ".opcodes", "keep one directive", None),
    ("Pool src=SB[0, float32", "TPB-TEXT-SYNTAX", 1, 16, "float32", "write a whole number", None),
    ("Pool src=r0 float32 [[1,2]", "TPB-TEXT-SYNTAX", 1, 27, "", "close the bracket", None),
    ("Pool src r0", "TPB-TEXT-SYNTAX", 1, 10, "r0", "write every item as name=value", None),
    ("Pool src=r0 float32 [[1,2]] ~", "TPB-TEXT-SYNTAX", 1, 29, "~", "write a name", None),
    (".raw xyz", "TPB-TEXT-SYNTAX", 1, 6, "xyz", "give the 64 bytes", None),
]


@pytest.mark.parametrize(("text", "code", "line", "column", "piece", "cure", "cured"), WRONG)
def test_mistakes_point_at_their_place(text, code, line, column, piece, cure, cured):
    with pytest.raises(LanefoldError) as caught:
        tpb.assemble(text)
    (found,) = caught.value.diagnostics
    assert caught.value.usage
    assert (found.code, found.place.line, found.place.column) == (code, line, column)
    _, shown, pointer = found.message.split("\n")
    assert shown.strip() == text.split("\n")[line - 1].strip()
    # The caret stands under the piece itself.
    assert shown[pointer.index("^") :].startswith(piece)
    assert pointer.count("^") == max(1, len(piece))
    assert found.cures[0].text.startswith(cure)
    if cured:
        tpb.assemble(cured)


def test_expected_tokens_come_in_plain_words():
    with pytest.raises(LanefoldError) as caught:
        tpb.assemble("Pool src=SB[0 1]")
    assert caught.value.diagnostics[0].message.startswith("'1' does not fit here, expected ','")


def test_all_mistakes_of_a_text_are_reported_up_to_a_limit():
    with pytest.raises(LanefoldError) as caught:
        tpb.assemble("Pol\n" + POOL + "\n?\nMax8")
    assert [found.place.line for found in caught.value.diagnostics] == [1, 3, 4]
    with pytest.raises(LanefoldError) as caught:
        tpb.assemble("Pol\n" * 100)
    assert len(caught.value.diagnostics) == 20


def test_call_and_directives_must_agree():
    assert tpb.assemble(".generation v3", generation="v3").generation == "v3"
    with pytest.raises(LanefoldError, match="the call says v2"):
        tpb.assemble(".generation v3", generation="v2")
    with pytest.raises(LanefoldError):
        tpb.assemble("", opcodes="auto")
    with pytest.raises(LanefoldError):
        tpb.assemble(b"Pool")


PIECES = [
    ".generation",
    ".opcodes",
    ".raw",
    "v2",
    "headers",
    "Pool",
    "Iota",
    "TensorReduceArithOp",
    "src",
    "dst",
    "op",
    "pattern",
    "wait",
    "pool_scale",
    "=",
    "[",
    "]",
    "[[1,2]]",
    "(",
    ")",
    ",",
    "SB[0, 0x1000]",
    "PSUM",
    "r5",
    "r99",
    "@0x12",
    "@",
    "shape_register",
    INDIRECT,
    "float32",
    "add",
    "SEM_GE_IMM(3)",
    "bits(0x7FC00001)",
    "1e999",
    "-5",
    "99999999999999999999999",
    "0x",
    "nan",
    "inf",
    "-inf",
    "00" * 64,
    ";",
    "\n",
    " ",
    "\t",
    "\r",
    "é",
    "\x00",
    "٣",
]


@given(st.lists(st.sampled_from(PIECES), max_size=30).map(" ".join) | st.text(max_size=60))
@settings(max_examples=400, deadline=None)
def test_no_text_raises_anything_else(text):
    refused = None
    try:
        stream = tpb.assemble(text)
    except LanefoldError as error:
        refused = error
    if refused is not None:
        assert refused.diagnostics
        assert all(found.place.line for found in refused.diagnostics)
        return
    assert tpb.assemble(tpb.disassemble(stream)) == stream


def test_huge_numbers_are_refused_quickly():
    for number in ("9" * 10_000, "0x" + "F" * 10_000):
        with pytest.raises(LanefoldError):
            tpb.assemble(f"{POOL} semaphore_value={number}")
        with pytest.raises(LanefoldError):
            tpb.assemble(f"{POOL} pool_scale={number}")
    assert tpb.assemble(f"{POOL} semaphore_value={'0' * 5000}7").tobytes()[8] == 7


def test_the_grammar_library_is_imported_by_assembling_only():
    code = (
        "import sys, lanefold.tpb as tpb; s = tpb.decode(b'E' * 64); tpb.disassemble(s); tpb.explain(s[0]);"
        "assert not {'lark', 'numba', 'rich', 'onnx', 'scipy'} & set(sys.modules); tpb.assemble('');"
        "assert 'lark' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)  # noqa: S603


def test_the_page_shows_what_is_read_and_written():
    page = (Path(__file__).parents[2] / "docs" / "assembly.md").read_text()
    blocks = re.findall(r"```asm\n(.*?)```", page, re.S)
    assert len(blocks) == 2
    for block in blocks:
        stream = tpb.assemble(block)
        assert body(stream) == [line for line in block.split("\n") if line and not line.startswith((".gen", ".op"))]
    (shown,) = re.findall(r"```text\n(.*?)```", page, re.S)
    with pytest.raises(LanefoldError) as caught:
        tpb.assemble(shown.split("\n")[1].strip())
    assert str(caught.value).startswith(shown.rstrip())


def test_lines_of_a_long_stream_are_those_of_its_bundles_alone():
    random = np.random.default_rng(5)
    words = np.zeros((600, 64), np.uint8)
    words[:, 0] = random.choice([0x45, 0x7C, 0x6C, 0x7E, 0x68, 0xEE], 600)
    words[:, 1] = 16
    words[::50, 1] = 17
    for field in (0x0C, 0x2C, 0x30):
        words[:, field : field + 4] = random.choice([0, 1, 0x40, 0x80], (600, 4))
    words[:, 0x08] = random.choice([0, 0, 3], 600)
    words[:, 0x18] = random.choice([1, 2], 600)
    for generation in ("v2", "v4"):
        stream = tpb.decode(words.tobytes(), generation)
        alone = [tpb.disassemble(stream[index : index + 1]).splitlines()[3] for index in range(600)]
        assert tpb.disassemble(stream).splitlines()[3:] == alone
        assert tpb.assemble(tpb.disassemble(stream)) == stream


FIRST = "Reciprocal src=SB[0, 0x0] float32 [[1,8]] dst=SB[0, 0x100] float32 [[1,8]] num_active_channels=1"


def test_lines_of_one_shape_are_those_that_stand_alone():
    random = np.random.default_rng(7)
    words = np.zeros((400, 64), np.uint8)
    words[:, 0] = random.choice([0x45, 0x7C, 0x6C, 0x7E, 0xEE], 400)
    words[:, 1] = 16
    for field in (0x0C, 0x2C, 0x30):
        words[:, field : field + 3] = random.integers(0, 256, (400, 3))
        words[:, field + 3] = random.choice([0, 0, 1, 2, 0x20, 0x40, 0x80], 400)
    words[:, 0x10] = random.integers(0, 2, 400)
    words[:, 0x08] = random.integers(0, 256, 400)
    for generation in ("v2", "v4"):
        stream = tpb.decode(words.tobytes(), generation)
        for with_bytes in (False, True):
            text = tpb.disassemble(stream, hex=with_bytes)
            assert tpb.assemble(text) == stream
        alone = [tpb.assemble(line, generation).tobytes() for line in text.splitlines()[3:]]
        assert b"".join(alone) == stream.tobytes()


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (FIRST.replace("SB[0, 0x0]", "SB[128, 0x0]"), "partition 128 is outside the address window of SB"),
        (FIRST.replace("SB[0, 0x0]", "PSUM[0, 0x8000]"), "byte 32768 is outside the address window of PSUM"),
        (FIRST + " semaphore_value=4294967296", "4294967296 does not fit semaphore_value"),
        (FIRST + " semaphore_value=3 semaphore_value=3", "semaphore_value stands twice"),
        (FIRST + " semaphore_value=3x1", "'3' does not fit here"),
        (FIRST + " semaphore_value=0x1F semaphore_value=1", "semaphore_value stands twice"),
        (FIRST.replace("SB[0, 0x0]", "SBUF[0, 0x0]"), "'['"),
    ],
)
def test_a_mistake_in_a_shape_that_was_read_before(line, told):
    with pytest.raises(LanefoldError) as caught:
        tpb.assemble("\n".join([FIRST, FIRST + " semaphore_value=1", FIRST + " semaphore_value=0x10", line]))
    (finding,) = caught.value.diagnostics
    assert told in finding.message
    assert finding.place.line == 4


def test_other_spellings_in_a_shape_that_was_read_before():
    lines = [
        FIRST + " semaphore_value=7",
        FIRST + " semaphore_value=0x10",
        FIRST + " semaphore_value=0x11 ; semaphore_value=5 SB[9, 0x9]",
        FIRST.replace("SB[0, 0x0]", "SB[1,0x10]") + "\tsemaphore_value=2",
        FIRST.replace("SB[0, 0x0]", "SB[2, 16]"),
        FIRST.replace("SB[0, 0x0]", "PSUM[3, 0x20]"),
        FIRST.replace("SB[0, 0x0]", "shape_register SB[3, 0x20]"),
        FIRST.replace("SB[0, 0x0]", "shape_register SB[4, 0x20]"),
        FIRST.replace("SB[0, 0x0]", "r7"),
    ]
    together = tpb.assemble("\n".join(lines))
    assert together.tobytes() == b"".join(tpb.assemble(line).tobytes() for line in lines)
    assert [bundle["semaphore_value"] for bundle in together] == [7, 16, 17, 2, 0, 0, 0, 0, 0]
    assert [bundle["src"]["start_addr"] for bundle in together][3:] == [
        (1 << 18) + 16,
        (2 << 18) + 16,
        0x2000000 + 3 * 0x8000 + 32,
        0x40000000 + (3 << 18) + 32,
        0x40000000 + (4 << 18) + 32,
        0x80000007,
    ]
