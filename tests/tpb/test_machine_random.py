"""Random legal bundles of every fold, on random bytes, against the scalar model; special values come with the bytes."""

from __future__ import annotations

import math
import struct

import numpy as np
import pytest

from lanefold.tpb import Machine
from tests.numerics import scalar_model as model
from tests.numerics.test_kernels import slow_find, slow_max8
from tests.tpb.test_machine import FLT_MAX, TAGS, across, at, in_psum, keys, pool, reduce, search, stream, tensor, word

PLAIN = [name for name in TAGS if name != "float32r"]
RAW = {1: np.uint8, 2: np.uint16, 4: np.uint32}
SOURCE_BYTE, TARGET_BYTE = 4096, 32768
FOLDS = {
    4: "add",
    5: "subtract",
    6: "mult",
    8: "max",
    9: "min",
    0x0D: "logical_and",
    0x0F: "logical_xor",
    0x12: "is_equal",
}
FOLDS |= {0x13: "is_gt", 0x14: "is_ge", 0x15: "is_le", 0x16: "is_lt", 0x18: "not_equal", 0x19: "abs", 0x00: "bypass"}
BITS = {0x0A: "bitwise_and", 0x0B: "bitwise_or", 0x0C: "bitwise_xor", 0x01: "bitwise_not", 0x03: "arith_shift_right"}


class Board:
    """A machine with random bytes under a random source pattern, and a destination far away."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.generation = str(self.rng.choice(["v2", "v3", "v4"]))
        self.numerics = str(self.rng.choice(["birsim", "device"]))
        self.machine = Machine(self.generation, numerics=self.numerics)
        self.channels = int(self.rng.choice([1, 3, 20]))
        self.psum = bool(self.rng.integers(0, 2))
        self.nums = [int(n) for n in self.rng.integers(1, 5, 4)]
        self.steps = [int(s) for s in self.rng.integers(-6, 7, 4)]

    def fill(self, dtype: str, psum: bool | None = None) -> bytes:
        """Put elements of a type in place and return the source descriptor."""
        self.psum = self.psum if psum is None else psum
        self.dtype, self.size = dtype, model.SIZES[dtype]
        memory = self.machine.psum if self.psum else self.machine.sbuf
        raw = RAW[self.size]
        codes = self.rng.integers(0, 2 ** (8 * self.size), (32, 8192 // self.size), dtype=raw)
        if dtype in model.FLOATS:
            # Numbers of middling size, so that results are not all infinite.
            some = np.array([model.narrow(float(v), dtype) for v in self.rng.standard_normal(256) * 5], raw)
            codes = np.where(self.rng.random(codes.shape) < 0.9, self.rng.choice(some, codes.shape), codes)
        elif self.size == 4:
            codes >>= self.rng.integers(0, 31, codes.shape).astype(raw)
        self.codes = codes
        memory[32:64, :8192] = codes.view(np.uint8)
        self.origin = SOURCE_BYTE // self.size
        start = in_psum(32, SOURCE_BYTE) if self.psum else at(32, SOURCE_BYTE)
        return tensor(start, self.nums, self.steps)

    def raw(self, channel: int, inner: int):
        """For every output the codes that are folded."""
        for base in model.offsets(self.nums[inner:], self.steps[inner:]):
            picks = model.offsets(self.nums[:inner], self.steps[:inner])
            yield [int(self.codes[channel, self.origin + base + more]) for more in picks]

    def values(self, channel: int, inner: int):
        for codes in self.raw(channel, inner):
            yield [model.widen(code, self.dtype) for code in codes]

    def target(self, count: int) -> bytes:
        self.count = count
        return tensor(at(64, TARGET_BYTE), (count,), (1,))

    def check(self, made: bytes, out_type: str, want: list[list[int]]) -> None:
        """Run one bundle and compare codes, any NaN being as good as any other."""
        self.machine.run(stream(made, generation=self.generation))
        size = model.SIZES[out_type]
        for channel, codes in enumerate(want):
            row = self.machine.sbuf[64 + channel, TARGET_BYTE : TARGET_BYTE + size * self.count]
            got = row.copy().view(RAW[size]).tolist()
            numbers = zip(got, codes, strict=True)
            alike = [g == w or (_is_nan(g, out_type) and _is_nan(w, out_type)) for g, w in numbers]
            assert all(alike), (out_type, got, codes)


def _is_nan(code: int, dtype: str) -> bool:
    return dtype in (*model.FLOATS, "float32r") and math.isnan(model.decode(code, dtype))


def folded(values, step, start=None):
    with np.errstate(all="ignore"):
        a = values[0] if start is None else np.float32(start)
        for x in values[1:] if start is None else values:
            a = step(a, x)
    return np.float32(a)


def narrow(value, dtype: str) -> int:
    return model.narrow(float(value), dtype)


@pytest.mark.parametrize("seed", range(30))
def test_tensor_reduce(seed):
    board = Board(seed)
    code = int(board.rng.choice(list(FOLDS)))
    in_type, out_type = str(board.rng.choice([t for t in PLAIN if t != "int32"])), str(board.rng.choice(list(TAGS)))
    dim, negate = int(board.rng.integers(1, 5)), int(board.rng.integers(0, 2))
    src = board.fill(in_type)
    dst = board.target(math.prod(board.nums[dim:]))
    sign = -1 if negate else 1
    step = model.FLOAT_OPERATORS[FOLDS[code]]
    want = [
        [narrow(sign * folded(values, step), out_type) for values in board.values(channel, dim)]
        for channel in range(board.channels)
    ]
    made = reduce(code, dim, src, dst, negate, in_type=in_type, out_type=out_type, channels=board.channels)
    board.check(made, out_type, want)


@pytest.mark.parametrize("seed", range(12))
def test_exact_reduce(seed):
    board = Board(100 + seed)
    code = int(board.rng.choice([4, 5, 6, 8, 9, 0x12, 0x19]))
    dim = int(board.rng.integers(1, 5))
    src = board.fill("int32")
    dst = board.target(math.prod(board.nums[dim:]))
    saturate = board.numerics == "birsim"
    want = []
    for channel in range(board.channels):
        row = []
        for codes in board.raw(channel, dim):
            numbers = [model.decode(c, "int32") for c in codes]
            a = numbers[0]
            for x in numbers[1:]:
                a = model.WHOLE_OPERATORS[FOLDS[code]](a, x, saturate)
            row.append(a % 2**32)
        want.append(row)
    made = reduce(code, dim, src, dst, in_type="int32", out_type="int32", channels=board.channels)
    board.check(made, "int32", want)


@pytest.mark.parametrize("seed", range(12))
def test_bits_reduce(seed):
    board = Board(200 + seed)
    code, dtype = int(board.rng.choice(list(BITS))), str(board.rng.choice(["uint8", "uint16", "uint32", "int32"]))
    if code == 0x03:
        dtype = "int32"
    dim = int(board.rng.integers(1, 5))
    src = board.fill(dtype)
    dst = board.target(math.prod(board.nums[dim:]))
    bits, signed = 8 * model.SIZES[dtype], not dtype.startswith("u")
    want = []
    for channel in range(board.channels):
        row = []
        for codes in board.raw(channel, dim):
            a = codes[0]
            for x in codes[1:]:
                a = model.bit_operator(BITS[code], a, x, bits, signed)
            row.append(a)
        want.append(row)
    made = reduce(code, dim, src, dst, 0, 0x7D, in_type=dtype, out_type=dtype, channels=board.channels)
    board.check(made, dtype, want)


@pytest.mark.parametrize("seed", range(16))
def test_pool(seed):
    board = Board(300 + seed)
    in_type, out_type = str(board.rng.choice(PLAIN)), str(board.rng.choice(list(TAGS)))
    function = int(board.rng.integers(1, 3))
    src = board.fill(in_type)
    dst = board.target(math.prod(board.nums[2:]))
    count = math.prod(board.nums[:2])
    scale = np.float32(1.0 / count) if function == 2 else np.float32(1)
    device = board.numerics == "device"

    def result(values):
        if function == 1:
            return folded(values, model.FLOAT_OPERATORS["max"], -math.inf if device else -FLT_MAX)
        with np.errstate(all="ignore"):
            total = folded(values, lambda a, x: a + x, 0.0)
            return total * scale if device else np.float32(np.float64(total) * (1.0 / count))

    want = [[narrow(result(v), out_type) for v in board.values(c, 2)] for c in range(board.channels)]
    made = pool(function, float(scale), src, dst, in_type=in_type, out_type=out_type, channels=board.channels)
    board.check(made, out_type, want)


@pytest.mark.parametrize("seed", range(16))
def test_cross_lane(seed):
    board = Board(400 + seed)
    in_type = str(board.rng.choice([t for t in PLAIN if t != "int32"]))
    out_type = str(board.rng.choice(list(TAGS)))
    command, axis = int(board.rng.integers(0, 3)), int(board.rng.integers(0, 2))
    src = board.fill(in_type, psum=False)
    count = math.prod(board.nums)
    rows = [next(iter(board.values(channel, 4))) for channel in range(board.channels)]
    groups = [[x for row in rows for x in row]] if axis == 0 else [list(group) for group in zip(*rows, strict=True)]
    dst = board.target(len(groups))
    scale = np.float32(1.0 / (board.channels * count if axis == 0 else board.channels))
    step = model.FLOAT_OPERATORS["max" if command == 2 else "add"]
    with np.errstate(all="ignore"):
        if command == 1:
            groups = [[x * scale for x in group] for group in groups]
    want = [[narrow(folded(group, step), out_type) for group in groups]]
    word_scale = float(scale) if command == 1 else 0.0
    made = across(command, axis, word_scale, src, dst, in_type=in_type, out_type=out_type, channels=board.channels)
    board.check(made, out_type, want)


@pytest.mark.parametrize("seed", range(8))
def test_reciprocal(seed):
    board = Board(500 + seed)
    in_type, out_type = str(board.rng.choice(PLAIN)), str(board.rng.choice(list(TAGS)))
    src = board.fill(in_type)
    dst = board.target(math.prod(board.nums))
    with np.errstate(all="ignore"):
        want = [
            [narrow(np.float32(1) / x, out_type) for x in next(iter(board.values(channel, 4)))]
            for channel in range(board.channels)
        ]
    board.check(word(0x48, src, bytes(9), dst, in_type, out_type, board.channels), out_type, want)


@pytest.mark.parametrize("seed", range(10))
def test_searches(seed):
    board = Board(600 + seed)
    board.nums[0] = 8
    dtype = str(board.rng.choice(PLAIN))
    src = board.fill(dtype)
    size, channels = model.SIZES[dtype], board.channels
    device = board.numerics == "device"
    last = TARGET_BYTE + 7 * 4
    tops = search(0x6C, src, at(64, last), (-1, 0), dtype, "float32", channels)
    load = keys(at(64, last), -1, "float32", channels)
    finds = search(0x6E, src, at(64, TARGET_BYTE + 256), (1, 1), dtype, "uint16", channels)
    board.machine.run(stream(tops, load, finds, generation=board.generation))
    for channel in range(channels):
        values = next(iter(board.values(channel, 4)))
        largest = slow_max8(values, device)
        row = board.machine.sbuf[64 + channel]
        got = row[TARGET_BYTE : TARGET_BYTE + 32].copy().view(np.float32)
        assert np.array_equal(got, np.array(largest, np.float32), equal_nan=True), size
        places = row[TARGET_BYTE + 256 : TARGET_BYTE + 272].copy().view(np.uint16)
        assert places.tolist() == slow_find(values, largest, 65535)


def test_immediate_of_match_replace_is_cast():
    board = Board(700)
    board.channels = 1
    src = board.fill("float32", psum=False)
    values = next(iter(board.values(0, 4)))
    board.machine.sbuf[32, 16384:16416] = np.array([values[0]] * 8, np.float32).view(np.uint8)
    dst = board.target(len(values))
    made = word(0x6F, src, bytes(5) + struct.pack("<f", 2.5), dst, "float32", "int8", 1)
    board.machine.run(stream(keys(at(32, 16384), 1, "float32", 1), made, generation=board.generation))
    got = board.machine.sbuf[64, TARGET_BYTE : TARGET_BYTE + len(values)].view(np.int8)
    assert got[0] == 2
