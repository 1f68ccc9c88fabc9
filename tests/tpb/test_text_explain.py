"""Explanations cover every byte once and say what the tables say."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lanefold import tpb
from lanefold.diagnostics import LanefoldError
from lanefold.tpb import isa

GENERATIONS = ("v2", "v3", "v4")
READINGS = ("reference", "headers")
REDUCE = (
    "4210000000000000000000000000000001004000010001004000080001000100060a8001040200000000000000400000010001000100"
    "01000800010001000100"
)


def rows(explanation):
    return {row.field: row for row in explanation.fields}


@given(
    st.binary(min_size=64, max_size=64),
    st.sampled_from([None, *isa.BUNDLES]),
    st.sampled_from(GENERATIONS),
    st.sampled_from(READINGS),
)
@settings(max_examples=200, deadline=None)
def test_every_byte_is_explained_once(raw, row, generation, reading):
    if row is not None and row.opcode(reading) is not None:
        raw = bytes([row.opcode(reading), 16]) + raw[2:]
    explained = tpb.explain(raw, generation, reading)
    for part in filter(None, (explained, explained.other)):
        assert "".join(field.bytes for field in part.fields) == raw.hex()
        position = 0
        for field in part.fields:
            assert field.offset == position
            position += len(field.bytes) // 2
        assert all(field.meaning and field.source and field.confidence for field in part.fields)
    assert explained.to_text()
    assert json.loads(json.dumps(explained.to_dict()))["text"] == explained.text
    assert tpb.assemble(explained.text, generation, reading).tobytes() == raw


def test_a_reduce_in_the_reading_that_fits_it():
    explained = tpb.explain(REDUCE, "v2", "auto")
    assert explained.opcodes == "headers"
    found = rows(explained)
    assert found["opcode"].value == "TensorReduceArithOp (0x42)"
    assert found["op"].value == "add (4)"
    assert found["negated"].value == "yes (1)"
    assert found["in_dtype"].value == "bfloat16 (6)"
    assert found["src.num_elem"].value == "[64, 8, 1, 1]"
    assert (found["dst.start_addr"].offset, found["dst.start_addr"].bytes) == (0x2C, "00400000")
    assert found["dst.start_addr"].value == "SB[0, 0x4000]"
    assert "acc = op(acc, src[o, j])" in explained.pseudo_code
    assert "op = add, op_dim = X" in explained.pseudo_code
    assert explained.other is not None
    assert explained.other.instruction == "CrossLaneReduceArith"
    text = explained.to_text()
    assert "CrossLaneReduceArith (opcode 0x42, v2, opcodes reference)" in text
    assert "not zero" in text


def test_what_a_field_means_beside_its_neighbours():
    # The average pool of the wire format's worked example: 2 x 2 windows over a 4 x 4 map of float32.
    found = rows(
        tpb.explain(
            "45100000051113120300000000100000010004000200080002000200020002000a0a8000020300000000803e"
            "0020000001000200010001000200020001000100"
        )
    )
    assert found["pool_dim"].meaning.endswith("2 × 2 = 4 elements each")
    assert found["src.num_elem"].meaning.endswith("16 elements per partition, between bytes 0x1000 and 0x103F")
    assert found["dst.num_elem"].meaning.endswith("4 elements per partition, between bytes 0x2000 and 0x200F")
    assert found["semaphore_value"].meaning.endswith("the wait compares with it")
    assert found["wait_idx"].meaning.endswith("a semaphore")
    idle = rows(tpb.explain("6d10" + "00" * 14 + "1c300000ffff000008000100000000000a0080" + "00" * 29))
    assert idle["semaphore_value"].meaning.endswith("not used by these modes")
    assert idle["update_idx"].meaning.endswith("not used by this mode")
    # Walked backwards from the last of eight keys.
    assert idle["src.num_elem"].meaning.endswith("8 elements per partition, between bytes 0x3000 and 0x301F")


def test_what_contradicts_the_struct_is_told():
    explained = tpb.explain(REDUCE, "v2", "headers")
    assert explained.misfits == ()
    assert explained.other is not None
    assert explained.other.misfits == ("reduce_axis is 4", "reserved bytes from +0x25 are not zero")
    text = explained.to_text()
    assert "suits    reserved bytes are zero, restricted fields are legal" in text
    assert "suits    not: reduce_axis is 4, reserved bytes from +0x25 are not zero" in text
    assert "The same bytes with opcodes reference; the rows that differ:" in text
    assert explained.to_dict()["misfits"] == []


def test_opcodes_of_another_generation_are_named():
    meaning = rows(tpb.explain("8c10" + "00" * 62, "v3"))["opcode"].meaning
    assert meaning == (
        "no instruction of this leg on v3 in the reference reading; TensorReduceAddBf16 on v2 with opcodes reference; "
        "TensorReduceAddBf16 on v2 with opcodes headers"
    )


def test_readings_that_agree_have_no_other():
    assert tpb.explain("45" + "00" * 63).other is None
    assert tpb.explain("a0" + "00" * 63).other is None
    alone = tpb.explain("7c10" + "00" * 62)
    assert alone.other is not None
    assert alone.other.struct == "S4D4_CR"


def test_weak_members_lower_the_confidence():
    word = bytearray(64)
    word[0], word[4] = 0x45, 0x82
    assert rows(tpb.explain(bytes(word)))["wait_mode"].confidence == "inferred"


def test_indirect_records_are_taken_apart_on_v4_only():
    word = bytearray(64)
    word[0], word[1] = 0x7C, 16
    word[12:22] = bytes.fromhex("00 30 00 20 00 80 00 00 40 00")
    found = rows(tpb.explain(bytes(word), "v4"))
    assert found["src.index_addr"].value == "SB[0, 0x3000]"
    assert found["src.data_addr"].value == "SB[0, 0x8000]"
    assert found["src.num_elem"].value == "64"
    assert rows(tpb.explain(bytes(word), "v2"))["src.start_addr"].value == "@0x20003000"


def test_a_bundle_brings_its_reading_along():
    bundle = tpb.decode(REDUCE, "v3", "headers")[0]
    explained = tpb.explain(bundle)
    assert (explained.generation, explained.opcodes) == ("v3", "headers")


@pytest.mark.parametrize("word", ["", "45", "45" * 128, "no digits", b"", bytes(65), None])
def test_what_is_not_one_bundle_is_refused(word):
    with pytest.raises(LanefoldError):
        tpb.explain(word)
