"""Bundles against worked examples, reference vectors and a plain struct reader."""

from __future__ import annotations

import json
import re
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lanefold import tpb
from lanefold.diagnostics import LanefoldError
from lanefold.numerics import alu, dtypes
from lanefold.tpb import isa, patterns
from lanefold.tpb.binary import encode_columns
from lanefold.tpb.patterns import Access

GENERATIONS = ("v2", "v3", "v4")
READINGS = ("reference", "headers")


def vectors(reference_data: Path, part: str) -> list[dict]:
    return json.loads((reference_data / "golden" / "tpb" / "vectors.json").read_text())[part]


# ------------------------------------------------------------------------------------------ reference vectors


def test_encode_vectors_match_in_both_readings(reference_data):
    compared = refused = 0
    for case in vectors(reference_data, "encode"):
        instruction = tpb.bir.instruction(case["bir"], case["allocations"])
        for reading, bundles in case["bundles"].items():
            if bundles is None:
                with pytest.raises(LanefoldError):
                    tpb.encode(instruction, case["gen"], reading)
                refused += 1
                continue
            made = tpb.encode(instruction, case["gen"], reading)
            assert [word.tobytes().hex() for word in made] == bundles, case["id"]
            compared += 1
    assert compared >= 100
    assert compared + refused == 160


def test_decode_vectors_match(reference_data):
    for case in vectors(reference_data, "decode"):
        bundle = tpb.decode(case["hex"], case["gen"], case["map"])[0]
        found = bundle.to_dict()
        for name, value in case["fields"].items():
            if name != "instruction":
                assert found[name] == value, (case["id"], name)


# ------------------------------------------------------------------------------------------ annotated bundles

_ROW = re.compile(r"^([0-9a-f]{2})  ((?:[0-9a-f]{2} ?)+?)(?:\s{2,}(.*))?$")
_NAMES = {"start": "start_addr", "step": "step_elem", "num": "num_elem"}
_SPELLINGS = {"channels": "num_active_channels", "reserved1": "reserved"}


def annotated(reference_data: Path) -> list[tuple[str, list[tuple[int, str, str]]]]:
    """The bundles of the worked examples: hexadecimal digits and (offset, digits, note) rows."""
    text = (reference_data / "spec" / "tpb" / "structs-enums-validators.md").read_text()
    section = text[text.index("## 7. Worked examples") : text.index("## 8. Gaps")]
    found = []
    for block in section.split("\n### ")[1:]:
        digits = re.search(r"^`([0-9a-f]{128})`", block, re.M)
        rows = [m.groups("") for line in block.split("\n") if (m := _ROW.match(line))]
        assert digits
        found.append((digits[1], [(int(offset, 16), raw.replace(" ", ""), note) for offset, raw, note in rows]))
    return found


def test_annotated_bundles_have_their_fields_where_the_notes_say(reference_data):
    bundles = annotated(reference_data)
    assert len(bundles) == 19
    named = 0
    for digits, rows in bundles:
        bundle = tpb.decode(digits, "v2", "headers")[0]
        assert bundle.row is not None
        fields = {field.name: field for field in isa.STRUCTS[bundle.row.struct].fields}
        assert sum(len(raw) for _, raw, _ in rows) == 128
        for offset, raw, note in rows:
            assert digits[2 * offset :].startswith(raw)
            label = note.split("  ")[0].split(" ")[0]
            operand, _, part = label.partition(".")
            if part and operand in fields:
                column = bundle.record[operand][_NAMES[part]]
                assert np.asarray(column).tobytes().hex() == raw
                named += 1
            elif _SPELLINGS.get(label, label) in fields:
                field = fields.get(label) or fields[_SPELLINGS[label]]
                held = np.asarray(bundle.record[field.name]).tobytes().hex()
                assert held.startswith(raw) or raw.startswith(held)
                assert field.offset == offset
                named += 1
            value = note.split()[-1] if note else ""
            if label in ("in_dtype", "out_dtype", "dtype") and value in {row.name for row in dtypes.WIRE_DTYPES}:
                assert dtypes.wire_dtype(int(raw, 16)).name == value
    assert named > 200


def test_annotated_bundles_survive_columns_and_name_their_reading(reference_data):
    for digits, _ in annotated(reference_data):
        stream = tpb.decode(digits, "v2", "headers")
        row = stream[0].row
        assert row is not None
        columns = stream.fields(row.name)
        given = {f.name: columns[f.name] for f in isa.STRUCTS[row.struct].fields if f.name != "opcode"}
        assert encode_columns(row.name, given, "v2", "headers") == stream
        if row.opcodes["reference"] != row.opcodes["headers"]:
            assert tpb.decode(digits, "v2", "auto").opcodes == "headers", row.name


# ------------------------------------------------------------------------------------------ descriptor examples


def descriptor(access: Access, places: int, *, backward: bool = False, keep_unit: bool = False) -> str:
    if backward:
        access, packed = patterns.reversed_slots(access)
    else:
        packed = patterns.slots(access, places, keep_unit=keep_unit)
    word = patterns.address_word(access, "v2")
    return struct.pack(f"<I{places}h{places}H", word, *packed.steps, *packed.nums).hex(" ")


def test_tensor4d_of_a_pool_source():
    access = Access("SB", 0, 0x1000, "float32", ((16, 128), (8, 2), (2, 2), (4, 2), (1, 2)))
    expected = "00 10 00 00 01 00 04 00 02 00 08 00 02 00 02 00 02 00 02 00"
    assert descriptor(access, 4, keep_unit=True) == expected


def test_tensor4d_in_psum_with_unit_fill():
    access = Access("PSUM", 64, 3 * 2048 + 0x40, "float32", ((512, 64), (1, 4)))
    assert descriptor(access, 4) == "40 18 20 02 01 00 01 00 01 00 01 00 04 00 01 00 01 00 01 00"


def test_reversed_tensor2d_of_the_eight_largest():
    access = Access("SB", 32, 0x2000, "float32", ((8, 128), (1, 8)))
    assert descriptor(access, 2, backward=True) == "1c 20 80 00 ff ff 00 00 08 00 01 00"


def one_reduce(src: bytes, generation: str) -> tpb.Bundle:
    word = bytearray(64)
    word[0], word[1] = 0x7C, 0x10
    word[12:32] = src
    return tpb.decode(bytes(word), generation)[0]


def test_indirect_record_is_read_from_v4_on():
    raw = bytes.fromhex("00 30 00 20 00 80 00 00 40 00" + "00" * 10)
    source = one_reduce(raw, "v4")["src"]
    assert source["address"] == "indirect"
    assert source["index"] == {"memory": "SB", "partition": 0, "byte": 0x3000}
    assert source["data"] == {"memory": "SB", "partition": 0, "byte": 0x8000}
    assert source["num_elem"] == 64


def test_register_address_is_read():
    raw = bytes.fromhex("05 00 00 80 01 00 01 00 01 00 01 00 00 02 01 00 01 00 01 00")
    source = one_reduce(raw, "v2")["src"]
    assert (source["address"], source["register"], source["num_elem"]) == ("register", 5, [512, 1, 1, 1])


WHOLE_BUNDLE = """
45 10 00 00 05 11 13 12 03 00 00 00 00 10 00 00 01 00 04 00 02 00 08 00 02 00 02 00 02 00 02 00
0A 0A 80 00 02 03 00 00 00 00 80 3E 00 20 00 00 01 00 02 00 01 00 01 00 02 00 02 00 01 00 01 00
"""


def test_whole_average_pool_that_waits_and_signals():
    record = {
        "opcode": "Pool",
        "func": "Avg",
        "engine": "Pool",
        "ins": [
            {
                "kind": "physical_ap",
                "ap": [[16, 128], [8, 2], [2, 2], [4, 2], [1, 2]],
                "dtype": "float32",
                "memref": "x",
            }
        ],
        "outs": [{"kind": "physical_ap", "ap": [[4, 128], [2, 2], [1, 2]], "dtype": "float32", "memref": "y"}],
        "sync_info": {"on_wait": [{"id": 17, "wait_value": 3}], "on_update": [{"id": 18, "update_value": 1}]},
    }
    places = {"x": {"type": "SB", "addr": 0x1000}, "y": {"type": "SB", "addr": 0x2000}}
    assert tpb.encode(tpb.bir.instruction(record, places)).tobytes() == bytes.fromhex(WHOLE_BUNDLE)


@pytest.mark.parametrize(("elements", "left"), [(513, 1), (514, 2), (1025, 1)])
def test_last_chunk_of_a_gather_drops_a_single_element_like_any_operand(elements, left):
    table = Access("SB", 0, 0x100, "float16", ((2 * elements, 4), (2, elements)), "table")
    index = Access("SB", 0, 0x8000, "uint32", ((3, 4), (1, 3)), "index")
    out = Access("SB", 0, 0x9000, "float16", ((3, 4), (1, 3)), "out")
    stream = tpb.encode(tpb.Instruction("Gather", (table, index), (out,), engine="Pool"), opcodes="headers")
    last = stream.fields("pool_buffer_load")[-1]["src"]
    assert last["num_elem"].tolist() == [left, 1, 1, 1]
    assert last["step_elem"].tolist() == [1 if left == 1 else 2, 1, 1, 1]
    assert last["start_addr"] == 0x100 + (elements - left) * 2 * 2


# ------------------------------------------------------------------------------------------ fields, words, fields

_WIDTHS = {"u8": "B", "u16": "<H", "u32": "<I", "i16": "<h", "i32": "<i", "f32": "<f"}


def legal_numbers(field: isa.Field, generation: isa.Generation) -> list[float]:
    if field.values == "dtype":
        return [row.tag(generation) for row in dtypes.DTYPES]
    if field.values == "alu":
        return [row.code for row in alu.WIRE_ALU if row.exists(generation)]
    if field.values:
        return [value.number for value in isa.ENUMS[field.values]]
    return {
        "u8": list(range(256)),
        "u16": [0, 1, 255, 256, 65535],
        "u32": [0, 1, 0x1FF, 2**31, 2**32 - 1],
        "i16": [-32768, -1, 0, 1, 32767],
        "i32": [-(2**31), -1, 0, 1, 2**31 - 1],
        "f32": [0.0, 1.0, 0.25, -0.0, float("inf"), 2.0**-149],
    }[field.kind]


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize("reading", READINGS)
def test_every_legal_value_of_every_field_survives(generation, reading):
    tried = 0
    for row in isa.BUNDLES:
        if row.opcode(reading) is None or generation not in row.generations:
            continue
        for field in isa.STRUCTS[row.struct].fields:
            if field.kind not in _WIDTHS or field.name in ("opcode", "inst_word_len") or field.count > 1:
                continue
            numbers = np.array(legal_numbers(field, generation))
            made = encode_columns(row.name, {field.name: numbers}, generation, reading)
            plain = [struct.unpack_from(_WIDTHS[field.kind], word.tobytes(), field.offset)[0] for word in made]
            assert plain == numbers.tolist()
            assert all(word.tobytes()[:2] == bytes([row.opcode(reading), 16]) for word in made)
            back = tpb.decode(made.tobytes(), generation, reading).fields(row.name)[field.name]
            assert back.tolist() == numbers.tolist()
            assert tpb.decode(made.tobytes(), generation, reading)[0].mnemonic == row.mnemonic
            tried += len(numbers)
    assert tried > 10_000


@given(
    steps=st.lists(st.integers(-32768, 32767), min_size=4, max_size=4),
    nums=st.lists(st.integers(0, 65535), min_size=4, max_size=4),
    address=st.integers(0, 2**32 - 1),
)
@settings(max_examples=60, deadline=None)
def test_descriptor_columns_survive(steps, nums, address):
    columns = {"src.start_addr": [address], "src.step_elem": [steps], "src.num_elem": [nums]}
    made = encode_columns("pool", columns)
    assert struct.unpack_from("<I4h4H", made.tobytes(), 12) == (address, *steps, *nums)
    assert tpb.decode(made.tobytes())[0]["src"]["num_elem"] == nums


# ------------------------------------------------------------------------------------------ any input


@given(st.binary(max_size=300), st.sampled_from(GENERATIONS), st.sampled_from([*READINGS, "auto"]))
@settings(max_examples=150, deadline=None)
def test_any_bytes_come_back_or_are_refused_politely(raw, generation, reading):
    if len(raw) % 64:
        with pytest.raises(LanefoldError) as caught:
            tpb.decode(raw, generation, reading)
        assert caught.value.usage
        return
    stream = tpb.decode(raw, generation, reading)
    assert stream.tobytes() == raw
    for bundle in stream:
        bundle.to_dict()
        repr(bundle)
    stream.census()


@pytest.mark.parametrize("given_value", ["4", "zz", 7, None, [1, 2], np.zeros((2, 3)), "45" * 63])
def test_what_is_no_stream_is_refused(given_value):
    with pytest.raises(LanefoldError) as caught:
        tpb.decode(given_value)
    assert caught.value.usage


@pytest.mark.parametrize(
    ("columns", "name"),
    [
        ({"pool_fun": [1]}, "pool"),
        ({"pool_func": [300]}, "pool"),
        ({"pool_func": [-1]}, "pool"),
        ({"pool_func": np.array([300])}, "pool"),
        ({"pool_func": np.array([1.0])}, "pool"),
        ({"src.num_elem": np.array([[1, 1, 1, -1]])}, "pool"),
        ({"src.indirect.num_elem": [3]}, "pool"),
        ({"src.indirect.num_elem": [3]}, "tensor_reduce_arith"),
        ({"pool_func": ["x"]}, "pool"),
        ({"src.start": [1]}, "pool"),
        ({"src.num_elem": [[1, 2]]}, "pool"),
        ({"pool_func": [1], "pool_dim": [1, 2]}, "pool"),
        ({"op": [4]}, "transpose_tensor_reduce_arith"),
        ({"op": [4]}, "no_such_thing"),
    ],
)
def test_columns_that_do_not_fit_are_refused(columns, name):
    with pytest.raises(LanefoldError):
        encode_columns(name, columns)


def test_indirect_records_from_columns():
    columns = {
        "src.indirect.index_addr": np.array([0x20003000, 0x20003100], np.uint32),
        "src.indirect.data_addr": [0x8000, 0x9000],
        "src.indirect.num_elem": 64,
        "op": 4,
    }
    made = encode_columns("tensor_reduce_arith", columns, "v4")
    assert made.tobytes()[64 + 12 : 64 + 32].hex() == "00310020" + "00900000" + "4000" + "00" * 10
    assert "src=indirect(index=SB[0, 0x3100], data=SB[0, 0x9000], num_elem=64)" in tpb.disassemble(made)


def test_streams_are_equal_by_bytes_and_reading():
    one = tpb.decode(b"\x45" * 64)
    assert one == tpb.decode(b"\x45" * 64)
    assert one != tpb.decode(b"\x45" * 64, "v3")
    assert one != tpb.decode(b"\x44" * 64)
    assert one != 3
