"""The machine against bundles packed by hand and values worked out in the tests."""

from __future__ import annotations

import json
import math
import struct

import ml_dtypes
import numpy as np
import pytest

from lanefold.diagnostics import LanefoldError
from lanefold.tpb import Machine, Stream, decode
from lanefold.tpb.machine.tracing import to_text
from tests.numerics import scalar_model as model

TAGS = {
    "int8": 2, "uint8": 3, "int16": 4, "uint16": 5, "bfloat16": 6, "float16": 7, "int32": 8, "uint32": 9,
    "float32": 10, "float32r": 11, "float8e3": 13, "float8e4": 14, "float8e5": 15,
}  # fmt: skip
FLT_MAX = 3.4028234663852886e38


def at(partition: int, byte: int) -> int:
    return partition << 18 | byte


def in_psum(partition: int, byte: int) -> int:
    return 0x2000000 + (partition << 15) + byte


def tensor(start: int, nums, steps) -> bytes:
    nums, steps = [*nums, 1, 1, 1, 1][:4], [*steps, 1, 1, 1, 1][:4]
    return struct.pack("<I4h4H", start, *steps, *nums)


def word(opcode, src, tail, dst, in_type="float32", out_type="float32", channels=1, events=bytes(8)) -> bytes:
    """A bundle of the shape that most structs share: source, types, channels, nine bytes, destination."""
    types = bytes([TAGS[in_type] if in_type else 0, TAGS[out_type], channels])
    made = bytes([opcode, 16, 0, 0]) + events + src + types + tail + dst
    assert len(made) == 64
    return made


def reduce(op, dim, src, dst, negate=0, opcode=0x7C, **more) -> bytes:
    return word(opcode, src, bytes([negate, op, dim + 1, 0]) + bytes(5), dst, **more)


def pool(func, scale, src, dst, **more) -> bytes:
    return word(0x45, src, bytes([0, func, 3, 0, 0]) + struct.pack("<f", scale), dst, **more)


def across(op, axis, scale, src, dst, opcode=0x42, **more) -> bytes:
    return word(opcode, src, bytes([op, axis, 0, 0, 0]) + struct.pack("<f", scale), dst, **more)


def stream(*words: bytes, generation: str = "v2", opcodes: str = "reference") -> Stream:
    return decode(b"".join(words), generation, opcodes)


def put(machine: Machine, partition: int, byte: int, values, memory: str = "sbuf") -> None:
    values = np.atleast_2d(values)
    raw = np.ascontiguousarray(values).view(np.uint8)
    getattr(machine, memory)[partition : partition + len(raw), byte : byte + raw.shape[1]] = raw


def take(machine: Machine, partition: int, byte: int, count: int, dtype, rows: int = 1, memory: str = "sbuf"):
    size = np.dtype(dtype).itemsize * count
    raw = np.ascontiguousarray(getattr(machine, memory)[partition : partition + rows, byte : byte + size])
    return raw.view(dtype)


def code_of(caught) -> str:
    return caught.value.diagnostics[0].code


def test_memories():
    for generation, size in (("v2", 192), ("v3", 224), ("v4", 256)):
        machine = Machine(generation)
        assert machine.sbuf.shape == (128, size * 1024)
        assert machine.psum.shape == (128, 16384)
        assert machine.sbuf.dtype == machine.psum.dtype == np.uint8
    with pytest.raises(LanefoldError, match="v2, v3"):
        Machine("v7")


def test_pooling_in_both_readings():
    values = np.array([[math.nan, math.nan, -math.inf, -math.inf, 1.1, 2.3, -0.0, -0.0]], np.float32)
    for numerics, lowest in (("birsim", -FLT_MAX), ("device", -math.inf)):
        machine = Machine("v2", numerics=numerics)
        put(machine, 0, 0, values)
        words = pool(1, 1.0, tensor(at(0, 0), (2, 1, 4), (1, 1, 2)), tensor(at(0, 64), (4,), (1,)))
        machine.run(stream(words))
        got = take(machine, 0, 64, 4, np.float32)[0]
        assert got.tolist() == [lowest, lowest, np.float32(2.3), 0.0]
        assert np.signbit(got[3])


def test_average_scale_of_both_readings():
    rng = np.random.default_rng(0)
    values = (rng.standard_normal((8, 70)) * 10).astype(np.float32)
    third = np.float32(1.0 / 7)
    words = pool(2, third, tensor(at(0, 0), (7, 1, 10), (1, 1, 7)), tensor(at(0, 512), (10,), (1,)), channels=8)
    sums = np.cumsum(values.reshape(8, 10, 7), axis=2, dtype=np.float32)[:, :, -1]
    results = {}
    for numerics in ("birsim", "device"):
        machine = Machine("v2", numerics=numerics)
        put(machine, 0, 0, values)
        machine.run(stream(words))
        results[numerics] = take(machine, 0, 512, 10, np.float32, rows=8)
    assert np.array_equal(results["birsim"], (sums.astype(np.float64) * (1.0 / 7)).astype(np.float32))
    assert np.array_equal(results["device"], sums * third)
    assert not np.array_equal(results["birsim"], results["device"])


def test_sums_of_pooling_in_four_lanes():
    values = np.array([[1e8, 1, 1, 1, -1e8, 1, 1, 1, 3]], np.float32)
    words = pool(2, 1 / 9, tensor(at(0, 0), (9, 1), (1, 1)), tensor(at(0, 64), (1,), (1,)))
    machine = Machine("v2", pool_sum="lanes4")
    put(machine, 0, 0, values)
    machine.run(stream(words))
    assert take(machine, 0, 64, 1, np.float32)[0, 0] == np.float32(9.0 * (1 / 9))
    machine = Machine("v2")
    put(machine, 0, 0, values)
    machine.run(stream(words))
    assert take(machine, 0, 64, 1, np.float32)[0, 0] == np.float32(6.0 * (1 / 9))


def test_arg_max_of_windows():
    values = np.array([[3, 5, 5, -1, math.nan, -2, math.nan, -math.inf, -math.inf]], np.float32)
    words = word(
        0x58,
        tensor(at(0, 0), (3, 1, 3), (1, 1, 3)),
        bytes([0, 0, 3, 0, 0]) + struct.pack("<f", 1.0),
        tensor(at(0, 64), (3,), (1,)),
        out_type="uint16",
    )
    machine = Machine("v2")
    put(machine, 0, 0, values)
    machine.run(stream(words))
    assert take(machine, 0, 64, 3, np.uint16)[0].tolist() == [1, 0, 0]


@pytest.mark.parametrize("generation", ["v2", "v3", "v4"])
@pytest.mark.parametrize("opcodes", ["reference", "headers"])
def test_tensor_reduce(generation, opcodes):
    values = np.arange(-5, 19, dtype=np.float32).reshape(1, 24)
    machine = Machine(generation)
    put(machine, 32, 8, values)
    opcode = {"reference": 0x7C, "headers": 0x42}[opcodes]
    words = reduce(4, 2, tensor(at(32, 8), (4, 3, 2), (1, 4, 12)), tensor(at(32, 200), (2,), (-1,)), 1, opcode)
    with pytest.raises(LanefoldError) as caught:
        machine.run(stream(words[:-20] + tensor(at(32, 0), (2,), (-1,)), generation=generation, opcodes=opcodes))
    assert code_of(caught) == "TPB-WALK-BOUNDS"
    machine.run(stream(words, generation=generation, opcodes=opcodes))
    assert take(machine, 32, 196, 2, np.float32)[0].tolist() == [-150.0, -6.0]


def test_int32_saturates_or_wraps():
    values = np.array([[2**31 - 1, 5, -3], [-(2**31), -1, 4]], np.int32)
    words = reduce(
        4, 1, tensor(at(0, 0), (3,), (1,)), tensor(at(0, 64), (1,), (1,)), in_type="int32", out_type="int32", channels=2
    )
    for numerics, want in (
        ("birsim", [2**31 - 4, -(2**31) + 4]),
        ("device", [-(2**31) + 1, -(2**31) + 3]),
    ):
        machine = Machine("v2", numerics=numerics, count=True)
        put(machine, 0, 0, values)
        machine.run(stream(words))
        got = take(machine, 0, 64, 1, np.int32, rows=2)[:, 0].tolist()
        assert got == want
        assert machine.counters["integer_overflows"] == 2


def test_negation():
    values = np.array([[-(2**31), -(2**31)]], np.int32)
    words = reduce(
        8, 1, tensor(at(0, 0), (2,), (1,)), tensor(at(0, 64), (1,), (1,)), 1, in_type="int32", out_type="int32"
    )
    for numerics, want in (("birsim", 2**31 - 1), ("device", -(2**31))):
        machine = Machine("v2", numerics=numerics)
        put(machine, 0, 0, values)
        machine.run(stream(words))
        assert take(machine, 0, 64, 1, np.int32)[0, 0] == want
    machine = Machine("v2")
    machine.run(stream(reduce(4, 1, tensor(at(0, 0), (2,), (1,)), tensor(at(0, 64), (1,), (1,)), 1)))
    assert np.signbit(take(machine, 0, 64, 1, np.float32)[0, 0])


def test_raw_bits_and_bypass():
    machine = Machine("v3")
    put(machine, 0, 0, np.array([[0xF0F0, 0x0FF0, 0xFFFF, 0x1234]], np.uint16))
    words = [
        reduce(0x0A, 1, tensor(at(0, 0), (4,), (1,)), tensor(at(0, 64), (1,), (1,)), 0, 0x7D, in_type="uint16",
               out_type="uint16"),
        reduce(0x00, 1, tensor(at(0, 0), (2, 2), (1, 2)), tensor(at(0, 66), (2,), (1,)), 0, 0x7D, in_type="uint16",
               out_type="uint16"),
    ]  # fmt: skip
    machine.run(stream(*words, generation="v3"))
    assert take(machine, 0, 64, 3, np.uint16)[0].tolist() == [0x0030, 0xF0F0, 0xFFFF]


def test_integer_engine_operators():
    machine = Machine("v3")
    put(machine, 0, 0, np.array([[17, 5], [-17, 5], [7, 0], [-(2**31), -1]], np.int32))
    words = [
        reduce(code, 1, tensor(at(0, 0), (2,), (1,)), tensor(at(0, 64 + 4 * k), (1,), (1,)), in_type="int32",
               out_type="int32", channels=4)
        for k, code in enumerate((0xC7, 0xC8, 0xCF))
    ]  # fmt: skip
    machine.run(stream(*words, generation="v3"))
    got = take(machine, 0, 64, 3, np.int32, rows=4)
    assert got.tolist() == [[3, 2, 17], [-3, -2, 5], [0, 0, 7], [-(2**31), 0, -1]]


def test_operators_without_a_meaning_are_refused():
    machine = Machine("v2", legality="bounds")
    for op in (0x17, 0x0A, 0x1B):
        with pytest.raises(LanefoldError) as caught:
            machine.run(stream(reduce(op, 1, tensor(at(0, 0), (2,), (1,)), tensor(at(0, 64), (1,), (1,)))))
        assert code_of(caught) == "TPB-MACHINE-OPERATOR"
    with pytest.raises(LanefoldError) as caught:
        machine.run(stream(reduce(0x04, 1, tensor(at(0, 0), (2,), (1,)), tensor(at(0, 64), (1,), (1,)), 0, 0x7D)))
    assert code_of(caught) == "TPB-MACHINE-OPERATOR"


def exchanged(values: np.ndarray) -> np.ndarray:
    blocks = values.reshape(values.shape[0] // 32, 32, values.shape[1] // 32, 32)
    return blocks.transpose(0, 3, 2, 1).reshape(values.shape)


def test_transposing_reduce():
    rng = np.random.default_rng(3)
    values = rng.integers(-50, 50, (64, 64)).astype(np.float32)
    machine = Machine("v2")
    put(machine, 0, 0, values)
    words = reduce(4, 1, tensor(at(0, 0), (64,), (1,)), tensor(at(0, 512), (1,), (1,)), 0, 0x83, channels=64)
    machine.run(stream(words, opcodes="headers"))
    assert np.array_equal(take(machine, 0, 512, 1, np.float32, rows=64)[:, 0], exchanged(values).sum(axis=1))
    put(machine, 0, 0, values.astype(np.int32))
    words = reduce(0x0C, 1, tensor(at(0, 0), (64,), (1,)), tensor(at(0, 512), (1,), (1,)), 0, 0x84, channels=64,
                   in_type="int32", out_type="int32")  # fmt: skip
    machine.run(stream(words, opcodes="headers"))
    want = np.bitwise_xor.reduce(exchanged(values.astype(np.int32)), axis=1)
    assert np.array_equal(take(machine, 0, 512, 1, np.int32, rows=64)[:, 0], want)


def test_transposing_cross_lane():
    rng = np.random.default_rng(4)
    values = rng.integers(-50, 50, (32, 32)).astype(np.float32)
    machine = Machine("v2")
    put(machine, 0, 0, values)
    words = across(0, 1, 0.0, tensor(at(0, 0), (32,), (1,)), tensor(at(0, 512), (32,), (1,)), 0x83, channels=32)
    machine.run(stream(words))
    assert np.array_equal(take(machine, 0, 512, 32, np.float32)[0], values.T.sum(axis=0))


def test_cross_lane():
    rng = np.random.default_rng(5)
    values = rng.standard_normal((100, 12)).astype(np.float32)
    machine = Machine("v2")
    put(machine, 0, 0, values)
    src = tensor(at(0, 0), (12,), (1,))
    words = [
        across(0, 1, 0.0, src, tensor(at(0, 256), (12,), (1,)), channels=100),
        across(1, 0, 1 / 1200, src, tensor(at(0, 512), (1,), (1,)), channels=100),
        across(2, 0, 0.0, src, tensor(at(0, 516), (1,), (1,)), channels=100),
    ]
    machine.run(stream(*words))
    want = np.cumsum(values, axis=0, dtype=np.float32)[-1]
    assert np.array_equal(take(machine, 0, 256, 12, np.float32)[0], want)
    scaled = np.cumsum(values.reshape(-1) * np.float32(1 / 1200), dtype=np.float32)[-1]
    assert take(machine, 0, 512, 2, np.float32)[0].tolist() == [scaled, values.max()]


def test_cross_lane_integers_wrap_on_the_device():
    values = np.array([[2**31 - 1], [2**24 + 1]], np.int32)
    words = across(0, 1, 0.0, tensor(at(0, 0), (1,), (1,)), tensor(at(0, 64), (1,), (1,)), in_type="int32",
                   out_type="int32", channels=2)  # fmt: skip
    for numerics, want in (("birsim", 2**31 - 1), ("device", -(2**31) + 2**24)):
        machine = Machine("v2", numerics=numerics)
        put(machine, 0, 0, values)
        machine.run(stream(words))
        assert take(machine, 0, 64, 1, np.int32)[0, 0] == want


def search(opcode, src, dst_start, steps, in_type, out_type, channels) -> bytes:
    dst = struct.pack("<I2h2H", dst_start, *steps, 8, 1)
    head = bytes([opcode, 16, 0, 0]) + bytes(8) + src + bytes([TAGS[in_type], TAGS[out_type], channels])
    return head + bytes(13) + dst + bytes(4)


def keys(start, step, dtype, channels) -> bytes:
    head = bytes([0x6D, 16, 0, 0]) + bytes(12) + struct.pack("<I2h2H", start, step, 0, 8, 1) + bytes(4)
    return head + bytes([TAGS[dtype], 0, channels]) + bytes(29)


def test_top_eight_and_where():
    rng = np.random.default_rng(6)
    values = rng.integers(0, 30, (4, 50)).astype(np.float32)
    machine = Machine("v2")
    put(machine, 64, 0, values)
    src = tensor(at(64, 0), (50,), (1,))
    words = [
        search(0x6C, src, at(64, 256 + 28), (-1, 0), "float32", "float32", 4),
        keys(at(64, 256 + 28), -1, "float32", 4),
        search(0x6E, src, at(64, 512), (1, 1), "float32", "uint32", 4),
    ]
    machine.run(stream(*words))
    order = np.argsort(-values, axis=1, kind="stable")[:, :8]
    assert np.array_equal(take(machine, 64, 256, 8, np.float32, rows=4), np.take_along_axis(values, order, 1))
    assert np.array_equal(take(machine, 64, 512, 8, np.uint32, rows=4), order)


def test_nan_in_the_top_eight():
    values = np.array([[1, math.nan, 9, 3, 4, 5, 6, 7, 8, 2]], np.float32)
    words = search(0x6C, tensor(at(0, 0), (10,), (1,)), at(0, 256 + 28), (-1, 0), "float32", "float32", 1)
    machine = Machine("v2")
    put(machine, 0, 0, values)
    machine.run(stream(words))
    got = take(machine, 0, 256, 8, np.float32)[0].tolist()
    assert got[0] == 9.0
    assert math.isnan(got[1])
    assert got[2:] == [8.0, 7.0, 6.0, 5.0, 4.0, 3.0]
    machine = Machine("v2", numerics="device")
    put(machine, 0, 0, values)
    machine.run(stream(words))
    assert take(machine, 0, 256, 8, np.float32)[0].tolist() == [9.0, 8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0]


def test_match_and_replace():
    values = np.array([[5, 1, 5, 2, 5, 3, 1, 4]], np.float32)
    wanted = np.array([[5, 5, 1, 9, 9, 9, 9, 9]], np.float32)
    machine = Machine("v2")
    put(machine, 0, 0, values)
    put(machine, 0, 64, wanted)
    words = word(0x6F, tensor(at(0, 0), (8,), (1,)), bytes(5) + struct.pack("<f", -7.5), tensor(at(0, 128), (8,), (1,)))
    machine.run(stream(keys(at(0, 64), 1, "float32", 1), words))
    assert take(machine, 0, 128, 8, np.float32)[0].tolist() == [-7.5, -7.5, -7.5, 2, 5, 3, 1, 4]


def test_searches_need_keys():
    words = search(0x6E, tensor(at(0, 0), (9,), (1,)), at(0, 256), (1, 1), "float32", "uint32", 4)
    with pytest.raises(LanefoldError) as caught:
        Machine("v2", legality="bounds").run(stream(words))
    assert code_of(caught) == "TPB-MACHINE-STATE"


def iota(base, multiplier, nums, steps, dst, out_type, channels) -> bytes:
    head = bytes([0x7E, 16, 0, 0]) + bytes(8) + struct.pack("<i4h4H", base, *steps, *nums)
    return head + bytes([0, TAGS[out_type], channels, 0]) + struct.pack("<i", multiplier) + bytes(4) + dst


def test_iota():
    words = iota(5, 1000, (100, 3, 1, 1), (1, 100, 1, 1), tensor(at(0, 64), (300,), (1,)), "int32", 3)
    machine = Machine("v2")
    machine.run(stream(words))
    assert np.array_equal(
        take(machine, 0, 64, 300, np.int32, rows=3), 5 + np.arange(300) + 1000 * np.arange(3)[:, None]
    )
    words = iota(250, 0, (10, 1, 1, 1), (1, 1, 1, 1), tensor(at(0, 64), (10,), (1,)), "bfloat16", 1)
    machine.run(stream(words))
    want = np.arange(250, 260).astype(ml_dtypes.bfloat16)
    assert np.array_equal(take(machine, 0, 64, 10, ml_dtypes.bfloat16)[0], want)


@pytest.mark.parametrize("channels", [3, 17, 64, 96, 128])
@pytest.mark.parametrize("width", [1, 7, 64, 100])
@pytest.mark.parametrize("options", [{}, {"count": True}])
def test_a_sum_that_is_nan_keeps_the_sign_of_the_first_nan_on_its_way_to_an_integer(channels, width, options):
    codes = np.full((channels, width), 0x3F800000, np.uint32)
    codes[0, ::2], codes[1, ::2] = 0x7FC00000, 0xFFC00000
    codes[channels // 2, 1::2], codes[channels - 1, 1::2] = 0xFFC00000, 0x7FC00000
    want = [127 if column % 2 == 0 else -128 for column in range(width)]
    lanes = tensor(at(0, 0), (width,), (1,)), tensor(at(0, 4096), (width,), (1,))
    free = tensor(at(0, 0), (channels, width), (width, 1)), tensor(at(0, 120_000), (width,), (1,))
    for place, made in (
        (4096, across(0, 1, 0.0, *lanes, out_type="int8", channels=channels)),
        (120_000, reduce(4, 1, *free, out_type="int8")),
    ):
        machine = Machine("v2", **options)
        put(machine, 0, 0, codes if place == 4096 else codes.reshape(1, -1))
        machine.run(stream(made))
        assert take(machine, 0, place, width, np.int8)[0].tolist() == want


def test_gather_in_both_orders():
    table = np.arange(600, dtype=np.float16) + 0.5
    indices = np.array([[0, 511, 512, 599, 600, 3]], np.uint32)
    want = [0.5, 511.5, 512.5, 599.5, 0.0, 3.5]

    def load(chunk: int, count: int) -> bytes:
        head = bytes([0x67, 16, 0, 0]) + bytes(8) + tensor(at(0, 1024 * chunk), (count,), (1,))
        return head + bytes([TAGS["float16"], 0, 1]) + bytes(5) + struct.pack("<2I", 512 * chunk, 511) + bytes(16)

    def look(chunk: int) -> bytes:
        tail = bytes([0, int(chunk > 0), 0, 0, 0]) + bytes(4)
        src, dst = tensor(at(0, 2048), (6,), (1,)), tensor(at(0, 3072), (6,), (1,))
        return word(0x68, src, tail, dst, in_type="uint32", out_type="float16")

    pairs = {
        "reference": (look(0), load(0, 512), look(1), load(1, 88)),
        "headers": (load(0, 512), look(0), load(1, 88), look(1)),
    }
    for opcodes, words in pairs.items():
        machine = Machine("v2")
        put(machine, 0, 0, table)
        put(machine, 0, 2048, indices)
        machine.run(stream(*words, opcodes=opcodes))
        assert take(machine, 0, 3072, 6, np.float16)[0].tolist() == want


def test_reciprocal_through_psum():
    values = np.array([[4, 0, -0.0, math.inf, 3]], np.float32)
    machine = Machine("v2")
    put(machine, 0, 2048, values, "psum")
    src, dst = tensor(in_psum(0, 2048), (5,), (1,)), tensor(at(0, 64), (5,), (1,))
    machine.run(stream(word(0x48, src, bytes(9), dst)))
    got = take(machine, 0, 64, 5, np.float32)[0].tolist()
    assert got == [0.25, math.inf, -math.inf, 0.0, np.float32(1) / np.float32(3)]


@pytest.mark.parametrize("out_type", list(TAGS))
def test_every_destination_type(out_type):
    values = np.array([[1e30, -1e30, 300.7, -2.5, 0.06, math.nan, 17.25, -0.0]], np.float32)
    machine = Machine("v2")
    put(machine, 0, 0, values)
    words = reduce(4, 1, tensor(at(0, 0), (1, 8), (1, 1)), tensor(at(0, 64), (8,), (1,)), out_type=out_type)
    machine.run(stream(words))
    raw = {1: np.uint8, 2: np.uint16, 4: np.uint32}[model.SIZES[out_type]]
    got = take(machine, 0, 64, 8, raw)[0].tolist()
    want = [model.narrow(float(v), out_type) for v in values[0]]
    if out_type == "float32":
        want = values.view(np.uint32)[0].tolist()
    assert got == want


def test_options():
    values = np.array([[1000.0, 1.0 + 2**-20]], np.float32)
    words = [
        reduce(4, 1, tensor(at(0, 0), (1,), (1,)), tensor(at(0, 64), (1,), (1,)), out_type="float8e4"),
        reduce(4, 1, tensor(at(0, 4), (1,), (1,)), tensor(at(0, 68), (1,), (1,)), out_type="float32r"),
    ]

    def run(**options):
        machine = Machine("v2", **options)
        put(machine, 0, 0, values)
        machine.run(stream(*words))
        return machine.sbuf[0, 64], take(machine, 0, 68, 1, np.float32)[0, 0]

    assert run() == (0x77, 1.0)
    assert run(fp8_overflow="infinity")[0] == 0x78
    assert run(fp8_exp4="float8_e4m3fn")[0] == 0x7E
    assert run(fp8_exp4="float8_e4m3fn", fp8_overflow="infinity")[0] == 0x7F
    assert run(fp32r="copy")[1] == values[0, 1]
    for bad in ({"pool_sum": "tree"}, {"speed": 1}, {"numerics": "gpu"}):
        with pytest.raises(LanefoldError) as caught:
            Machine("v2", **bad)
        assert code_of(caught) == "TPB-MACHINE-OPTION"
        assert caught.value.diagnostics[0].cures


def test_nothing_runs_if_a_later_bundle_is_illegal():
    good = reduce(4, 1, tensor(at(0, 0), (4,), (1,)), tensor(at(0, 64), (1,), (1,)))
    bad = reduce(4, 1, tensor(at(0, 196604), (2,), (1,)), tensor(at(0, 64), (1,), (1,)))
    for legality, code in (("strict", "TPB-WALK-BOUNDS"), ("bounds", "TPB-MACHINE-BOUNDS")):
        machine = Machine("v2", legality=legality)
        put(machine, 0, 0, np.ones((1, 4), np.float32))
        with pytest.raises(LanefoldError) as caught:
            machine.run(stream(good, bad))
        assert code_of(caught) == code
        assert not machine.sbuf[0, 64:68].any()
    for start in (0x80000003, 0x40000000):
        with pytest.raises(LanefoldError) as caught:
            Machine("v2", legality="bounds").run(
                stream(reduce(4, 1, tensor(start, (4,), (1,)), tensor(at(0, 64), (1,), (1,))))
            )
        assert code_of(caught) == "TPB-MACHINE-FORM"
    with pytest.raises(LanefoldError) as caught:
        Machine("v2", legality="bounds").run(stream(bytes([0xEE]) + bytes(63)))
    assert code_of(caught) == "TPB-MACHINE-OPCODE"


def test_counters():
    machine = Machine("v2", count=True)
    put(machine, 0, 0, np.array([[2**24 + 1, 2**24 + 2, 2**24 + 4, 5]], np.int32))
    put(machine, 0, 16, np.array([[math.nan, 3.0, 3.0, math.nan]], np.float32))
    words = [
        reduce(4, 1, tensor(at(0, 0), (4,), (1,)), tensor(at(0, 64), (1,), (1,)), in_type="int32", out_type="uint8"),
        pool(1, 1.0, tensor(at(0, 16), (4, 1), (1, 1)), tensor(at(0, 68), (1,), (1,))),
    ]
    machine.run(stream(*words))
    counted = {name: amount for name, amount in machine.counters.items() if amount}
    assert counted == {"rounded_integers": 1, "widened_sums": 1, "saturated": 1, "nan_dropped": 2, "ties": 1}
    assert not any(Machine("v2").counters.values())


def test_uninitialised_memory_and_nan():
    words = reduce(4, 1, tensor(at(0, 0), (4,), (1,)), tensor(at(0, 64), (1,), (1,)))
    machine = Machine("v2", track_uninitialised=True)
    put(machine, 0, 0, np.ones((1, 4), np.float32))
    with pytest.raises(LanefoldError) as caught:
        machine.run(stream(words))
    assert code_of(caught) == "TPB-MACHINE-UNINITIALISED"
    machine.mark_written("SB", 0, 1, 0, 16)
    again = reduce(4, 1, tensor(at(0, 64), (1,), (1,)), tensor(at(0, 128), (1,), (1,)))
    machine.run(stream(words, again))
    assert take(machine, 0, 128, 1, np.float32)[0, 0] == 4.0
    machine = Machine("v2", nan_store="error")
    put(machine, 0, 0, np.full((1, 4), np.nan, np.float32))
    with pytest.raises(LanefoldError) as caught:
        machine.run(stream(words))
    assert code_of(caught) == "TPB-MACHINE-NAN"


def events(wait=0, wait_index=0, update=0, update_index=0, value=0) -> bytes:
    return struct.pack("<4BI", wait, wait_index, update, update_index, value)


def test_engines_wait_for_each_other():
    def add(src, dst, synced) -> bytes:
        return reduce(4, 1, tensor(at(0, src), (2,), (0,)), tensor(at(0, dst), (1,), (1,)), events=synced)

    # DVE doubles what Pool made, Pool doubles that again.
    pool_words = stream(
        add(0, 64, events(update=0x13, update_index=3)), add(128, 192, events(wait=0x05, wait_index=4, value=1))
    )
    dve_words = stream(add(64, 128, events(wait=0x05, wait_index=3, update=0x15, update_index=4, value=1)))
    machine = Machine("v2")
    put(machine, 0, 0, np.array([[1.5]], np.float32))
    machine.run({"DVE": dve_words, "Pool": pool_words})
    assert take(machine, 0, 192, 1, np.float32)[0, 0] == 12.0
    assert machine.semaphores.values[3:5] == [1, 1]


def test_deadlock_names_both_sides():
    def waits(index) -> Stream:
        synced = events(wait=0x05, wait_index=index, value=1)
        return stream(reduce(4, 1, tensor(at(0, 0), (2,), (1,)), tensor(at(0, 64), (1,), (1,)), events=synced))

    with pytest.raises(LanefoldError) as caught:
        Machine("v2").run({"DVE": waits(1), "Pool": waits(2)})
    assert code_of(caught) == "TPB-MACHINE-DEADLOCK"
    assert len(caught.value.diagnostics) == 2
    message = caught.value.diagnostics[0].message
    assert "DVE waits" in message
    assert "Pool waits" in message


def test_events_are_consumed():
    made = events(update=0x11, update_index=9)
    taken = events(wait=0x07, wait_index=9)
    src, dst = tensor(at(0, 0), (2,), (1,)), tensor(at(0, 64), (1,), (1,))
    machine = Machine("v2")
    machine.run(
        {"DVE": stream(reduce(4, 1, src, dst, events=taken)), "Pool": stream(reduce(4, 1, src, dst, events=made))}
    )
    assert not machine.semaphores.events[9]


@pytest.mark.parametrize("round_", range(12))
def test_random_reductions(round_):
    rng = np.random.default_rng(100 + round_)
    in_type = str(rng.choice(["float32", "bfloat16", "float16", "uint8", "int16", "float8e5", "int32"]))
    out_type = str(rng.choice(["float32", "bfloat16", "int8", "uint16", "float8e3"]))
    size = model.SIZES[in_type]
    nums = [int(n) for n in rng.integers(1, 6, 4)]
    steps = [int(s) for s in rng.integers(-4, 5, 4)]
    dim = int(rng.integers(1, 5))
    outs = math.prod(nums[dim:])
    name, code = [("add", 4), ("max", 8), ("subtract", 5), ("logical_or", 14), ("is_gt", 0x13)][round_ % 5]
    machine = Machine("v3")
    machine.sbuf[32:36, :256] = rng.integers(0, 256, (4, 256), np.uint8)
    before = machine.sbuf[32:36].copy()
    origin = 128 // size
    src, dst = tensor(at(32, 128), nums, steps), tensor(at(64, 0), (outs,), (1,))
    words = reduce(code, dim, src, dst, 1, in_type=in_type, out_type=out_type, channels=4)
    machine.run(stream(words, generation="v3"))
    raw = {1: np.uint8, 2: np.uint16, 4: np.uint32}
    step = model.FLOAT_OPERATORS[name]
    for channel in range(4):
        row = before[channel].view(raw[size])
        want = []
        for base in model.offsets(nums[dim:], steps[dim:]):
            values = [model.widen(int(row[origin + base + o]), in_type) for o in model.offsets(nums[:dim], steps[:dim])]
            with np.errstate(all="ignore"):
                a = values[0]
                for x in values[1:]:
                    a = step(a, x)
            want.append(model.narrow(float(-a), out_type))
        got = take(machine, 64 + channel, 0, outs, raw[model.SIZES[out_type]])[0].tolist()
        if out_type == "float32":
            got, want = np.array(got, np.uint32).view(np.float32), np.array(want, np.uint32).view(np.float32)
            assert np.array_equal(got, want, equal_nan=True)
        else:
            assert got == want


def test_trace():
    machine = Machine("v2")
    values = np.array([[0.1, 0.2, 0.3, 1e8, 0.4, 0.5]], np.float32)
    put(machine, 0, 0, values)
    words = [
        reduce(4, 1, tensor(at(0, 0), (6,), (1,)), tensor(at(0, 64), (1,), (1,))),
        pool(1, 1.0, tensor(at(0, 0), (3, 1, 2), (1, 1, 3)), tensor(at(0, 68), (2,), (1,))),
    ]
    records = []
    machine.run(stream(*words), trace=records.append)
    assert [told["instruction"] for told in records] == ["TensorReduceArithOp", "Pool"]
    assert [(told["index"], told["opcode"], told["engine"]) for told in records] == [(0, 0x7C, ""), (1, 0x45, "")]
    first = records[0]
    assert first["reads"] == [
        {"operand": "src", "memory": "SB", "partitions": [0, 0], "bytes": [0, 23], "dtype": "float32", "elements": 6}
    ]
    exact = float(values.astype(np.float64).sum())
    got = float(np.cumsum(values, dtype=np.float32)[-1])
    assert first["first"] == [got]
    assert first["ulp"] == abs(got - exact) / 8.0
    assert first["reason"] == ""
    assert records[1]["first"] == [np.float32(0.3), 1e8]
    assert records[1]["ulp"] == 0.0


def test_trace_tells_the_first_eight_results_and_why_there_is_no_distance():
    machine = Machine("v2")
    put(machine, 0, 0, np.arange(40, dtype=np.float32)[None])
    put(machine, 0, 512, np.array([[math.inf, 1.0]], np.float32))
    src = tensor(at(0, 0), (40,), (1,))
    words = [
        pool(1, 1.0, tensor(at(0, 0), (2, 1, 20), (1, 1, 2)), tensor(at(0, 1024), (20,), (1,))),
        search(0x6C, src, at(0, 2048 + 28), (-1, 0), "float32", "float32", 1),
        keys(at(0, 2048 + 28), -1, "float32", 1),
        search(0x6E, src, at(0, 2112), (1, 1), "float32", "uint32", 1),
        reduce(4, 1, tensor(at(0, 512), (2,), (1,)), tensor(at(0, 64), (1,), (1,))),
        reduce(0x12, 1, src, tensor(at(0, 64), (1,), (1,))),
    ]
    records = []
    machine.run(stream(*words), trace=records.append)
    assert records[0]["first"] == [1, 3, 5, 7, 9, 11, 13, 15]
    assert records[1]["first"] == [32, 33, 34, 35, 36, 37, 38, 39]
    assert records[3]["first"] == [39, 38, 37, 36, 35, 34, 33, 32]
    assert [told["ulp"] for told in records[1:]] == [None] * 5
    assert [told["reason"] for told in records[1:]] == [
        "elements are copied, nothing is computed",
        "registers are loaded, nothing is written to memory",
        "places are whole numbers, written exactly",
        "no result is finite both here and in float64",
        "no float64 fold stands for is_equal",
    ]
    assert [json.loads(line)["index"] for line in to_text(records, True).splitlines()] == [0, 1, 2, 3, 4, 5]
    assert json.loads(to_text(records, False))[4]["first"] == ["inf"]


@pytest.mark.parametrize(("axis", "count"), [(0, 12), (1, 3)])
def test_trace_measures_a_cross_lane_average_from_the_true_mean(axis, count):
    machine = Machine("v2")
    values = np.random.default_rng(axis).standard_normal((3, 4)).astype(np.float32)
    put(machine, 0, 0, values)
    scale = np.float32(1 / count)
    outs = 1 if axis == 0 else 4
    word = across(1, axis, scale, tensor(at(0, 0), (4,), (1,)), tensor(at(0, 64), (outs,), (1,)), channels=3)
    records = []
    machine.run(stream(word), trace=records.append)
    wanted = values.astype(np.float64).reshape(1, -1).mean(axis=1) if axis == 0 else values.astype(np.float64).mean(0)
    got = take(machine, 0, 64, outs, np.float32)[0].astype(np.float64)
    unit = np.ldexp(1.0, np.frexp(wanted)[1] - 24)
    assert records[0]["ulp"] == pytest.approx((np.abs(got - wanted) / unit).max(), rel=1e-6)
