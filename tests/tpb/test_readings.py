"""Every reading by its number: the result without a choice, and the one with it."""

from __future__ import annotations

import doctest
import math
import struct
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from lanefold.diagnostics import LanefoldError
from lanefold.numerics import alu
from lanefold.numerics.dtypes import by_name
from lanefold.tpb import Access, Instruction, Machine, check, encode, isa
from lanefold.tpb.binary import detect_reading
from lanefold.tpb.cost import price
from lanefold.tpb.machine.options import CHOICES
from lanefold.tpb.machine.readings import READINGS
from tests.tpb.test_machine import (
    FLT_MAX,
    across,
    at,
    exchanged,
    iota,
    keys,
    pool,
    put,
    reduce,
    search,
    stream,
    take,
    tensor,
    word,
)


def operand(byte: int, dtype: str, channels: int, *free: tuple[int, int]) -> Access:
    return Access("SB", 0, byte, dtype, ((192 * 1024 // by_name(dtype).bytes, channels), *free))


def reduction(axis: str, transpose: bool = False) -> Instruction:
    """A sum of 32 partitions of 2 x 2 x 2 x 8 elements, or of 32 x 32 to be exchanged."""
    free = [(1, 32)] if transpose else [(32, 2), (16, 2), (8, 2), (1, 8)]
    outs = {"X": 8, "XY": 4, "XYZ": 2, "XYZW": 1, "XYZWC": 1, "C": 64}[axis] if not transpose else 1
    source = operand(0, "float32", 32, *free)
    target = operand(4096, "float32", 1 if axis in ("XYZWC", "C") else 32, (1, outs))
    extra = {"apply_transpose": True} if transpose else {}
    return Instruction("TensorReduce", (source,), (target,), {"op": "add", "axis": axis, **extra}, engine="Pool")


def opcodes(instruction: Instruction) -> tuple[int, int]:
    return tuple(encode([instruction], "v2", name)[0].opcode for name in ("reference", "headers"))


def results(words: list[bytes], given, place: tuple[int, int, type], **choices: object):
    """Results at (byte, count) of partition 0 without the choices and with them."""
    byte, count, kind = place
    found = []
    for chosen in ({}, choices):
        machine = Machine("v2", **chosen)
        for start, values in given:
            put(machine, 0, start, values)
        machine.run(stream(*words))
        found.append(take(machine, 0, byte, count, kind)[0].tolist())
    return found


def row(*values: float, dtype=np.float32) -> np.ndarray:
    return np.array([values], dtype)


def test_reading_0_1():
    assert opcodes(reduction("X")) == (124, 66)
    assert opcodes(reduction("C")) == (66, 124)
    assert encode([reduction("X", transpose=True)], "v2", "headers")[0].opcode == 131
    with pytest.raises(LanefoldError, match="TPB-TRANSPOSE-READING"):
        encode([reduction("X", transpose=True)], "v2", "reference")
    values = np.random.default_rng(0).integers(-9, 9, (32, 32)).astype(np.float32)
    src, dst = tensor(at(0, 0), (32,), (1,)), tensor(at(0, 512), (32,), (1,))
    found = {}
    for name, made in (
        ("reference", across(0, 1, 0.0, src, dst, 0x83, channels=32)),
        ("headers", reduce(4, 1, src, tensor(at(0, 512), (1,), (1,)), 0, 0x83, channels=32)),
    ):
        machine = Machine("v2")
        put(machine, 0, 0, values)
        machine.run(stream(made, opcodes=name))
        found[name] = take(machine, 0, 512, 1, np.float32, rows=32)[:, 0].tolist()
    assert found["headers"] == exchanged(values).sum(axis=1).tolist()
    assert found["reference"][0] == exchanged(values).sum(axis=0)[0]
    told = str(detect_reading(encode([reduction("X")], "v2", "headers").words, "v2"))
    assert "headers" in told


@pytest.mark.parametrize(
    ("axis", "kind"),
    [(axis, "tensor_reduce_arith") for axis in ("X", "XY", "XYZ", "XYZW")]
    + [(axis, "cross_lane_reduce_arith") for axis in ("XYZWC", "C")],
)
def test_reading_0_2(axis, kind):
    assert encode([reduction(axis)], "v2")[0].row.name == kind


def test_reading_0_3():
    bundle = stream(pool(1, 1.0, tensor(at(0, 0), (2, 2), (1, 2)), tensor(at(0, 64), (1,), (1,))))[0]
    assert bundle.word[0x25] == bundle["pool_dim"] == 3
    assert {value.number: value.name for value in isa.ENUMS["subdim"]}[3] == "XY"


def test_reading_0_4():
    words = pool(0, 1.0, tensor(at(0, 0), (2, 2), (1, 2)), tensor(at(0, 64), (1,), (1,)))
    assert any(finding.severity == "error" for finding in check(stream(words)))
    select = word(0x58, tensor(at(0, 0), (4, 1), (1, 1)), bytes([0, 0, 3, 0, 0]) + struct.pack("<f", 1.0),
                  tensor(at(0, 64), (1,), (1,)), out_type="uint32")  # fmt: skip
    assert not [finding for finding in check(stream(select, generation="v3")) if finding.severity == "error"]
    machine = Machine("v3")
    put(machine, 0, 0, row(1, 7, 3, 7))
    machine.run(stream(select, generation="v3"))
    assert take(machine, 0, 64, 1, np.uint32)[0, 0] == 1


def test_reading_0_5():
    words = iota(5, 100, (3, 1, 1, 1), (2, 0, 0, 0), tensor(at(0, 0), (3,), (1,)), "int32", 2)
    bundle = stream(words)[0]
    assert bundle["channel_multiplier"] == 100 == int.from_bytes(bundle.word[0x24:0x28].tobytes(), "little")
    machine = Machine("v2")
    machine.run(stream(words))
    assert take(machine, 0, 0, 3, np.int32, rows=2).tolist() == [[5, 7, 9], [105, 107, 109]]


def test_reading_0_6():
    kind = next(each for each in isa.BUNDLES if each.opcode("reference") == 104)
    assert (kind.name, kind.aliases) == ("gather", ("reg_load",))


def test_reading_0_7():
    fields = {field.offset: field.name for field in isa.STRUCTS[_kind("pool_buffer_load").struct].fields}
    assert (fields[0x28], fields[0x2C]) == ("start_index", "mask")


def test_reading_0_8():
    fields = {field.offset: field for field in isa.STRUCTS[_kind("match_value_load").struct].fields}
    assert fields[0x10].kind is isa.Kind.TENSOR2D
    assert [role.field for role in _kind("match_value_load").roles] == [fields[0x10].name]


def test_reading_0_9():
    words = search(0x6C, tensor(at(0, 0), (300,), (1,)), at(0, 2048 + 28), (-1, 0), "float32", "float32", 7)
    bundle = stream(words)[0]
    assert bundle.word[0x22] == bundle["num_active_channels"] == 7


@pytest.mark.parametrize(("code", "since"), [(0x20, "v4"), (0x21, "v4"), (0xC8, "v3")])
def test_reading_0_10(code, since):
    for generation in ("v2", "v3", "v4"):
        if generation < since:
            with pytest.raises(LanefoldError, match="TPB-ALU-CODE"):
                alu.wire_alu(code, generation)
        else:
            assert alu.wire_alu(code, generation).name in ("ABS_MAX", "ABS_MIN", "MOD_INT")
    assert alu.by_name("mod_int").byte("v3") is None


def test_reading_0_11():
    src, dst = tensor(at(0, 0), (1, 6), (1, 1)), tensor(at(0, 64), (6,), (1,))
    given = [(0, row(2.5, 3.5, -2.7, 300.0, -300.0, math.nan))]
    words = [reduce(4, 1, src, dst, out_type="int8")]
    assert results(words, given, (64, 6, np.int8))[0] == [2, 4, -3, 127, -128, 127]


@pytest.mark.parametrize(
    ("out_type", "kind", "top", "beyond"),
    [
        ("float8e4", ml_dtypes.float8_e4m3, 240.0, math.inf),
        ("float8e5", ml_dtypes.float8_e5m2, 57344.0, math.inf),
    ],
)
def test_reading_0_12(out_type, kind, top, beyond):
    src, dst = tensor(at(0, 0), (1, 2), (1, 1)), tensor(at(0, 64), (2,), (1,))
    words = [reduce(4, 1, src, dst, out_type=out_type)]
    found = results(words, [(0, row(1e6, -1e6))], (64, 2, kind), fp8_overflow="infinity")
    assert found == [[top, -top], [beyond, -beyond]]


@pytest.mark.parametrize(
    ("out_type", "kind", "absent"), [("uint16", np.uint16, 0xFFFF), ("uint32", np.uint32, 2**32 - 1)]
)
def test_reading_0_13(out_type, kind, absent):
    src = tensor(at(0, 0), (9,), (1,))
    words = [keys(at(0, 64 + 28), -1, "float32", 1), search(0x6E, src, at(0, 128), (1, 1), "float32", out_type, 1)]
    given = [(0, row(1, 2, 3, 4, 5, 6, 7, 8, 8)), (64, row(8, 8, 8, 0, 1, 9, math.nan, -0.0))]
    for found in results(words, given, (128, 8, kind), numerics="device"):
        assert found == [7, 8, absent, absent, 0, absent, absent, absent]


def test_reading_0_14():
    replace = struct.pack("<f", -7.5)
    words = [
        keys(at(0, 64), 1, "float32", 1),
        word(0x6F, tensor(at(0, 0), (8,), (1,)), bytes(5) + replace, tensor(at(0, 128), (8,), (1,))),
    ]
    # Key 0 and key 7 are equal and there is one such element: which of them is served shows in no element. Seven keys
    # of 5 and one element of each: the elements are replaced in both orders, the registers differ.
    given = [(0, row(5, 1, 5, 2, 5, 3, 1, 4)), (64, row(5, 9, 9, 9, 9, 9, 9, 5))]
    first, second = results(words, given, (128, 8, np.float32), match_order="value")
    assert first == second == [-7.5, 1, -7.5, 2, 5, 3, 1, 4]
    from lanefold.numerics import kernels

    values = np.array([[1, 2, 3, 4, 8, 8, 8, 8, 8, 8, 8, 0]], np.float32)
    access = kernels.Access(values.view(np.uint8), by_name("float32"), 0, 1, 0, (11,), (1,))
    wanted = np.array([[3, 8, 8, 8, 8, 8, 8, 8]], np.float32)
    assert kernels.match_replace8(access, wanted[:, ::-1], 0.0)[1][0, ::-1].tolist() == [2, 10, 9, 8, 7, 6, 5, 4]
    assert kernels.match_replace8(access, wanted, 0.0)[1][0].tolist() == [2, 4, 5, 6, 7, 8, 9, 10]


def test_reading_0_15():
    words = [pool(1, 1.0, tensor(at(0, 0), (2, 1, 2), (1, 1, 2)), tensor(at(0, 64), (2,), (1,)))]
    given = [(0, row(math.nan, math.nan, -math.inf, -math.inf))]
    found = results(words, given, (64, 2, np.float32), numerics="device")
    assert found == [[-FLT_MAX] * 2, [-math.inf] * 2]


def test_reading_0_16():
    values = (np.random.default_rng(0).standard_normal((1, 7)) * 10).astype(np.float32)
    total, word_ = np.add.accumulate(values[0])[-1], np.float32(1 / 7)
    words = [pool(2, word_, tensor(at(0, 0), (7, 1), (1, 1)), tensor(at(0, 64), (1,), (1,)))]
    found = results(words, [(0, values)], (64, 1, np.float32), numerics="device")
    assert found == [[np.float32(np.float64(total) * (1 / 7))], [total * word_]]
    words = [across(1, 0, word_, tensor(at(0, 0), (7,), (1,)), tensor(at(0, 64), (1,), (1,)))]
    found = results(words, [(0, values)], (64, 1, np.float32), numerics="device")
    assert found == [[np.add.accumulate(values[0] * word_)[-1]]] * 2


def test_reading_0_17():
    values = (np.random.default_rng(1).standard_normal((50, 7)) * 10).astype(np.float32)
    seven = np.float32(7)
    wanted = {}
    for name in ("multiply", "divide"):
        sums = []
        for group in values:
            a = group[0] / seven
            for x in group[1:]:
                a = a + (x * np.float32(1 / 7) if name == "multiply" else x / seven)
            sums.append(a)
        wanted[name] = sums
        assert Machine("v2", average_step=name).tensor_average(values).tolist() == sums
    assert wanted["multiply"] != wanted["divide"]
    assert Machine("v2").tensor_average(values).tolist() == wanted["multiply"]
    with pytest.raises(LanefoldError):
        encode(
            [Instruction("TensorReduce", reduction("X").ins, reduction("X").outs, {"op": "average", "axis": "X"})], "v2"
        )


def test_reading_0_18():
    source = operand(0, "float32", 4, (64, 2), (32, 2), (16, 2), (1, 9))
    instruction = Instruction("Max", (source,), (operand(4096, "float32", 4, (1, 8)),), engine="DVE")
    machine = Machine("v2")
    values = np.random.default_rng(2).standard_normal((4, 128)).astype(np.float32)
    put(machine, 0, 0, values)
    machine.run(encode([instruction], "v2"))
    seen = values.reshape(4, 2, 2, 2, 16)[..., :9].reshape(4, -1)
    assert np.array_equal(take(machine, 0, 4096, 8, np.float32, rows=4), -np.sort(-seen, axis=1)[:, :8])
    wide = operand(0, "float32", 4, (128, 2), (64, 2), (32, 2), (16, 2), (1, 9))
    with pytest.raises(LanefoldError):
        encode([Instruction("Max", (wide,), instruction.outs, engine="DVE")], "v2")


@pytest.mark.parametrize(
    ("out", "op", "cycles"), [("bfloat16", "add", 256), ("float32", "add", 512), ("bfloat16", "mult", 512)]
)
def test_reading_0_19(out, op, cycles):
    ins, outs = operand(0, "bfloat16", 128, (1, 512)), operand(8192, out, 128, (1, 1))
    instruction = Instruction("TensorReduce", (ins,), (outs,), {"op": op, "axis": "X"}, engine="DVE")
    assert price(instruction, "v2", "documented").low == cycles
    assert price(instruction, "v3", "documented").low == 512


def test_reading_0_20():
    names = {value.name for values in isa.ENUMS.values() for value in values}
    assert not names & {"Idle", "ZeroAccumulate", "LoadAccumulate"}


def test_reading_0_21():
    source, target = operand(0, "float32", 4, (16, 2), (8, 2), (1, 8)), operand(4096, "float32", 4, (1, 1))
    with pytest.raises(LanefoldError):
        encode([Instruction("TensorReduce", (source,), (target,), {"op": "add", "axis": "XYZW"}, engine="DVE")], "v2")
    assert encode([reduction("XYZW")], "v2")[0]["op_dim"] == 5


def test_reading_1_1():
    words = stream(reduce(4, 1, tensor(at(0, 0), (2,), (1,)), tensor(at(0, 64), (1,), (1,))))
    machine = Machine("v2", count=True)
    put(machine, 0, 0, row(math.nan, 1))
    machine.run(words)
    assert math.isnan(take(machine, 0, 64, 1, np.float32)[0, 0])
    assert machine.counters["nan_stored"] == 1
    machine = Machine("v2", nan_store="error")
    put(machine, 0, 0, row(math.nan, 1))
    with pytest.raises(LanefoldError, match="TPB-MACHINE-NAN"):
        machine.run(words)


def test_reading_1_2():
    values = row(1e8, 1, -1e8, 1, 1, 1)
    words = [pool(2, 1.0 / 6, tensor(at(0, 0), (6, 1), (1, 1)), tensor(at(0, 64), (1,), (1,)))]
    serial = float(np.float32(np.float64(np.add.accumulate(values[0])[-1]) * (1 / 6)))
    # (1e8 + -1e8) + (1 + 1), then the last two.
    found = results(words, [(0, values)], (64, 1, np.float32), pool_sum="lanes4")
    assert found == [[serial], [np.float32(4.0 * (1 / 6))]]
    assert serial != found[1][0]


@pytest.mark.parametrize(
    ("byte", "values", "clamped", "wrapped"),
    [
        (0x04, (2**31 - 1, 1, -1), 2**31 - 2, 2**31 - 1),
        (0x05, (-(2**31), 1), -(2**31), 2**31 - 1),
        (0x06, (65536, 65536), 2**31 - 1, 0),
    ],
)
def test_reading_1_3(byte, values, clamped, wrapped):
    count = len(values)
    words = [reduce(byte, 1, tensor(at(0, 0), (count,), (1,)), tensor(at(0, 64), (1,), (1,)), in_type="int32",
                    out_type="int32")]  # fmt: skip
    found = results(words, [(0, row(*values, dtype=np.int32))], (64, 1, np.int32), numerics="device")
    assert found == [[clamped], [wrapped]]


def test_reading_1_4():
    words = [across(0, 1, 0.0, tensor(at(0, 0), (1,), (1,)), tensor(at(0, 64), (1,), (1,)), in_type="int32",
                    out_type="int32", channels=2)]  # fmt: skip
    given = [(0, np.array([[2**31 - 1], [2**24 + 1]], np.int32))]
    assert results(words, given, (64, 1, np.int32), numerics="device") == [[2**31 - 1], [-(2**31) + 2**24]]


def test_reading_1_5():
    words = [search(0x6C, tensor(at(0, 0), (10,), (1,)), at(0, 256 + 28), (-1, 0), "float32", "float32", 1)]
    late = results(words, [(0, row(1, 0, 9, 3, 4, 5, 6, 7, 8, math.nan))], (256, 8, np.float32), numerics="device")
    assert late == [[9, 8, 7, 6, 5, 4, 3, 1]] * 2
    first = results(words, [(0, row(1, math.nan, 9, 3, 4, 5, 6, 7, 8, 2))], (256, 8, np.float32), numerics="device")
    assert str(first[0]) == str([9.0, math.nan, 8.0, 7.0, 6.0, 5.0, 4.0, 3.0])
    assert first[1] == [9, 8, 7, 6, 5, 4, 3, 2]


def test_reading_1_6():
    words = [reduce(4, 1, tensor(at(0, 0), (2,), (1,)), tensor(at(0, 64), (1,), (1,)))]
    found = results(words, [(0, row(1, 2)), (64, row(100))], (64, 1, np.float32), accumulate=True)
    assert found == [[3.0], [103.0]]


def test_reading_1_7():
    src, dst = tensor(at(0, 0), (1, 2), (1, 1)), tensor(at(0, 64), (2,), (1,))
    words = [reduce(4, 1, src, dst, out_type="float8e4")]
    plain, wide = results(words, [(0, row(1e6, 300))], (64, 2, np.uint8), fp8_exp4="float8_e4m3fn")
    assert np.array(plain, np.uint8).view(ml_dtypes.float8_e4m3).tolist() == [240.0, 240.0]
    assert np.array(wide, np.uint8).view(ml_dtypes.float8_e4m3fn).tolist() == [448.0, 288.0]


def test_reading_1_8():
    src, dst = tensor(at(0, 0), (1, 1), (1, 1)), tensor(at(0, 64), (1,), (1,))
    words = [reduce(4, 1, src, dst, out_type="float32r")]
    value = np.float32(1 + 2**-12 + 2**-13)
    assert results(words, [(0, row(value))], (64, 1, np.float32), fp32r="copy") == [[1 + 2**-11], [value]]


def test_reading_1_9():
    source, target = operand(0, "float32", 4, (1, 2)), operand(4096, "float32", 1, (1, 2))
    words = encode(
        [Instruction("TensorReduce", (source,), (target,), {"op": "average", "axis": "C"}, engine="Pool")], "v2"
    )
    found = []
    for chosen in ({}, {"cross_lane_average": "product"}):
        machine = Machine("v2", **chosen)
        put(machine, 0, 0, np.arange(8, dtype=np.float32).reshape(4, 2))
        machine.run(words)
        found.append(take(machine, 0, 4096, 2, np.float32)[0].tolist())
    assert found == [[3.0, 4.0], [1.5, 2.0]]


def _kind(name: str) -> isa.BundleKind:
    return next(kind for kind in isa.BUNDLES if kind.name == name)


def test_every_reading_has_a_test_and_every_choice_exists():
    for reading in READINGS:
        assert f"test_reading_{reading.number.replace('.', '_')}" in globals(), reading
        name, equals, value = reading.choice.partition("=")
        if equals and name in CHOICES:
            assert value in [str(choice) for choice in CHOICES[name][1:]], reading
        elif equals:
            assert (name, value) == ("opcodes", "headers")
        assert bool(reading.other) == bool(reading.choice)
    assert len({reading.number for reading in READINGS}) == len(READINGS)


def test_the_examples_of_the_page_run():
    page = Path(__file__).parents[2] / "docs" / "machine.md"
    outcome = doctest.testfile(str(page), module_relative=False)
    assert outcome.attempted > 4
    assert outcome.failed == 0
