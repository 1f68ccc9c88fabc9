"""Compiled folds against a scalar model that takes one element at a time."""

from __future__ import annotations

import numpy as np
import pytest

from lanefold.diagnostics import LanefoldError
from lanefold.numerics import kernels
from lanefold.numerics.alu import by_name as operator
from lanefold.numerics.dtypes import DTYPES
from lanefold.numerics.dtypes import by_name as element_type
from tests.numerics import scalar_model as model

NUMBERS = [row.name for row in DTYPES if row.is_number]
SPECIAL = np.array(
    [0x7FC00000, 0x7F800000, 0xFF800000, 0, 0x80000000, 1, 0x807FFFFF, 0x7F7FFFFF, 0x3F800000, 0xBF800000], np.uint32
).view(np.float32)


def same(got: np.ndarray, want: np.ndarray) -> bool:
    got, want = np.asarray(got, np.float32), np.asarray(want, np.float32)
    nan = np.isnan(got) & np.isnan(want)
    return got.shape == want.shape and bool(np.all((got.view(np.uint32) == want.view(np.uint32)) | nan))


def memory_of(name: str, rng: np.random.Generator, rows: int, columns: int, special: bool) -> np.ndarray:
    """Random elements of a type as bytes [rows, bytes]; floats of middling size, some of them special."""
    dtype = element_type(name)
    if dtype.is_integer:
        small = rng.integers(0, 2 ** (8 * dtype.bytes), (rows, columns), dtype=dtype.raw)
        if dtype.bytes > 2:
            small >>= rng.integers(0, 8 * dtype.bytes, (rows, columns)).astype(dtype.raw)
        return small.view(np.uint8)
    values = (rng.standard_normal((rows, columns)) * 4).astype(np.float32)
    if special:
        values = np.where(rng.random(values.shape) < 0.3, rng.choice(SPECIAL, values.shape), values)
    with np.errstate(over="ignore", invalid="ignore"):
        return np.ascontiguousarray(values.astype(dtype.numpy)).view(np.uint8)


def random_access(name: str, rng: np.random.Generator, special: bool) -> kernels.Access:
    """A pattern with overlap, zero and negative steps; its extents hit every way of folding."""
    kind = rng.integers(0, 4)
    nums = [int(n) for n in rng.integers(1, 5, 4)]
    if kind == 1:
        nums = [int(rng.integers(30, 80)), 1, int(rng.integers(1, 4)), int(rng.integers(1, 4))]
    elif kind == 2:
        nums = [int(rng.integers(1, 4)), int(rng.integers(1, 4)), int(rng.integers(15, 40)), int(rng.integers(1, 3))]
    elif kind == 3:
        nums = [int(rng.integers(250, 300)), 1, 1, int(rng.integers(1, 3))]
    steps = [int(rng.choice([1, 1, 2, 3, 0, -1, -2, 5])) for _ in nums]
    low = sum(min(0, (n - 1) * s) for n, s in zip(nums, steps, strict=True))
    high = sum(max(0, (n - 1) * s) for n, s in zip(nums, steps, strict=True))
    channels = int(rng.choice([1, 2, 5, 17]))
    partition = int(rng.integers(0, 3))
    spare = int(rng.integers(0, 2)) * 8
    columns = -(-(high - low + 1) // 8) * 8 + spare
    memory = memory_of(name, rng, partition + channels, columns, special)
    return kernels.Access(memory, element_type(name), partition, channels, -low, tuple(nums), tuple(steps))


def elements(access: kernels.Access, channel: int, start: int, nums, steps) -> list[np.float32]:
    row = access.memory[access.partition + channel].view(access.dtype.raw)
    return [model.widen(int(row[start + at]), access.dtype.name) for at in model.offsets(nums, steps)]


def outputs(access: kernels.Access, inner: int):
    """For every channel and output the elements that are folded, in order."""
    for channel in range(access.channels):
        for at in model.offsets(access.nums[inner:], access.steps[inner:]):
            yield elements(access, channel, access.start + at, access.nums[:inner], access.steps[:inner])


def slow_fold(access: kernels.Access, inner: int, name: str, start=None) -> np.ndarray:
    step = model.FLOAT_OPERATORS[name]
    results = []
    with np.errstate(all="ignore"):
        for values in outputs(access, inner):
            a = values[0] if start is None else np.float32(start)
            for x in values[1:] if start is None else values:
                a = step(a, x)
            results.append(np.float32(a))
    return np.array(results, np.float32).reshape(access.channels, -1)


@pytest.mark.parametrize("name", list(model.FLOAT_OPERATORS))
def test_every_operator(name):
    rng = np.random.default_rng(sum(map(ord, name)))
    for special in (False, True, True, False):
        access = random_access(str(rng.choice(["float32", "bfloat16"])), rng, special)
        inner = int(rng.integers(1, 5))
        got = kernels.fold(access, inner, operator(name))
        want = slow_fold(access, inner, name)
        if name == "pow":
            # The C library's powf may differ from NumPy's in the last place.
            close = np.isclose(got, want, rtol=3e-7, atol=1e-44, equal_nan=True)
            assert close.all()
        else:
            assert same(got, want)


@pytest.mark.parametrize("dtype", NUMBERS)
def test_every_element_type(dtype):
    rng = np.random.default_rng(sum(map(ord, dtype)))
    for name in ("add", "max", "min", "mult", "add", "max"):
        access = random_access(dtype, rng, special=True)
        inner = int(rng.integers(1, 5))
        assert same(kernels.fold(access, inner, operator(name)), slow_fold(access, inner, name))


@pytest.mark.parametrize("round_", range(40))
def test_ways_of_folding_float32(round_):
    rng = np.random.default_rng(round_)
    name = ["add", "max", "min"][round_ % 3]
    access = random_access("float32", rng, special=round_ % 2 == 0)
    inner = int(rng.integers(1, 5))
    start = [None, 0.0, -float(np.finfo(np.float32).max), float("-inf")][round_ % 4]
    assert same(kernels.fold(access, inner, operator(name), start=start), slow_fold(access, inner, name, start))


@pytest.mark.parametrize(("kernel", "stride", "size"), [(3, 2, 40), (2, 2, 64), (3, 1, 19), (2, 3, 60), (7, 7, 21)])
@pytest.mark.parametrize("name", ["add", "max"])
def test_pooling_windows(kernel, stride, size, name):
    rng = np.random.default_rng(kernel)
    memory = memory_of("float32", rng, 3, size * size, special=True)
    out = (size - kernel) // stride + 1
    nums, steps = (kernel, kernel, out, out), (1, size, stride, stride * size)
    access = kernels.Access(memory, element_type("float32"), 0, 3, 0, nums, steps)
    start = 0.0 if name == "add" else -float(np.finfo(np.float32).max)
    assert same(kernels.fold(access, 2, operator(name), start=start), slow_fold(access, 2, name, start))


def test_all_nan_and_zero_signs():
    words = [[0x7FC00000] * 3, [0x7FC00000, 0xFF800000, 0x7FC00000], [0x80000000, 0, 0x80000000], [0, 0x80000000, 0]]
    memory = np.array(words, np.uint32).view(np.uint8)
    access = kernels.Access(memory, element_type("float32"), 0, 4, 0, (3,), (1,))
    got = kernels.fold(access, 1, operator("max")).view(np.uint32)[:, 0].tolist()
    assert got == [0x7FC00000, 0xFF800000, 0x80000000, 0]
    lowest = -float(np.finfo(np.float32).max)
    got = kernels.fold(access, 1, operator("max"), start=lowest)[:, 0].view(np.uint32).tolist()
    assert got == [0xFF7FFFFF, 0xFF7FFFFF, 0x80000000, 0]
    assert kernels.fold(access, 1, operator("add"), start=0.0)[2, 0].view(np.uint32) == 0


def test_finishing():
    rng = np.random.default_rng(1)
    memory = memory_of("float32", rng, 2, 24, special=False)
    access = kernels.Access(memory, element_type("float32"), 0, 2, 0, (3, 8), (1, 3))
    sums = slow_fold(access, 1, "add", 0.0)
    third = 1.0 / 3
    got = kernels.fold(access, 1, operator("add"), start=0.0, factor=third)
    assert same(got, (sums.astype(np.float64) * third).astype(np.float32))
    got = kernels.fold(access, 1, operator("add"), start=0.0, factor=third, double_factor=False, negate=True)
    assert same(got, -(sums * np.float32(third)))
    zeros = kernels.Access(np.zeros((1, 16), np.uint8), element_type("float32"), 0, 1, 0, (4,), (1,))
    assert np.signbit(kernels.fold(zeros, 1, operator("add"), negate=True)[0, 0])


def test_average_of_a_tensor_reduce():
    rng = np.random.default_rng(2)
    access = random_access("float32", rng, special=False)
    count = int(np.prod(access.nums[:2]))
    scale = np.float32(1.0 / count)
    want = []
    for values in outputs(access, 2):
        a = values[0] / np.float32(count)
        for x in values[1:]:
            a = a + x * scale
        want.append(a)
    got = kernels.fold(access, 2, operator("average"), scale=float(scale), divisor=count)
    assert same(got.reshape(-1), np.array(want))


def test_sums_in_fours():
    rng = np.random.default_rng(5)
    access = random_access("bfloat16", rng, special=False)
    want = []
    for values in outputs(access, 2):
        lanes = [np.float32(0)] * 4
        whole = len(values) // 4 * 4
        for i in range(whole):
            lanes[i % 4] = lanes[i % 4] + values[i]
        a = (lanes[0] + lanes[2]) + (lanes[1] + lanes[3])
        for x in values[whole:]:
            a = a + x
        want.append(np.float32(np.float64(a) * 0.2))
    assert same(kernels.sum_in_fours(access, 2, 0.2).reshape(-1), np.array(want))


@pytest.mark.parametrize("name", list(model.WHOLE_OPERATORS))
@pytest.mark.parametrize("saturate", [True, False])
def test_whole_numbers(name, saturate):
    rng = np.random.default_rng(sum(map(ord, name)))
    step = model.WHOLE_OPERATORS[name]
    for _ in range(3):
        access = random_access("int32", rng, special=False)
        edges = rng.choice(np.array([-(2**31), 2**31 - 1, 0, -1, 1, 5], np.int32), access.memory.view(np.int32).shape)
        view = access.memory.view(np.int32)
        view[...] = np.where(rng.random(view.shape) < 0.4, edges, view)
        inner = int(rng.integers(1, 5))
        want = []
        for channel in range(access.channels):
            row = view[access.partition + channel]
            for at in model.offsets(access.nums[inner:], access.steps[inner:]):
                picks = model.offsets(access.nums[:inner], access.steps[:inner])
                values = [int(row[access.start + at + more]) for more in picks]
                a = values[0]
                for x in values[1:]:
                    a = step(a, x, saturate)
                want.append(a)
        got = kernels.fold_whole(access, inner, operator(name), raw=False, saturate=saturate)
        assert got.reshape(-1).tolist() == want


@pytest.mark.parametrize("name", model.BIT_OPERATORS)
@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "int32", "int8"])
def test_raw_bits(name, dtype):
    rng = np.random.default_rng(sum(map(ord, name + dtype)))
    kind = element_type(dtype)
    access = random_access(dtype, rng, special=False)
    if "shift" in name:
        view = access.memory.view(kind.raw)
        amounts = rng.integers(0, 40, view.shape).astype(kind.raw)
        view[...] = np.where(rng.random(view.shape) < 0.5, amounts, view)
    inner = int(rng.integers(1, 5))
    want = []
    for channel in range(access.channels):
        row = access.memory[access.partition + channel].view(kind.raw)
        for at in model.offsets(access.nums[inner:], access.steps[inner:]):
            picks = model.offsets(access.nums[:inner], access.steps[:inner])
            values = [int(row[access.start + at + more]) for more in picks]
            a = values[0]
            for x in values[1:]:
                a = model.bit_operator(name, a, x, 8 * kind.bytes, kind.kind == "signed")
            want.append(a)
    got = kernels.fold_whole(access, inner, operator(name), raw=True)
    assert got.reshape(-1).tolist() == want


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "uint8", "int32"])
@pytest.mark.parametrize("name", ["add", "max", "average"])
@pytest.mark.parametrize("everything", [True, False])
def test_across_lanes(dtype, name, everything):
    rng = np.random.default_rng(sum(map(ord, dtype + name)))
    access = random_access(dtype, rng, special=name == "max")
    scale = np.float32(0.37)
    rows = [elements(access, channel, access.start, access.nums, access.steps) for channel in range(access.channels)]
    folded = [[x for row in rows for x in row]] if everything else list(zip(*rows, strict=True))
    want = []
    for values in folded:
        if name == "average":
            values = [x * scale for x in values]
        a = values[0]
        for x in values[1:]:
            a = model.FLOAT_OPERATORS["max" if name == "max" else "add"](a, x)
        want.append(a)
    got = kernels.cross_lane(access, operator(name), everything=everything, scale=float(scale))
    assert same(got, np.array(want))


@pytest.mark.parametrize("name", ["bitwise_and", "bitwise_or", "bitwise_xor"])
def test_bits_across_lanes(name):
    rng = np.random.default_rng(9)
    access = random_access("uint16", rng, special=False)
    ufunc = getattr(np, name)
    rows = kernels.load_raw(access)
    assert kernels.cross_lane_whole(access, operator(name), everything=False).tolist() == ufunc.reduce(rows).tolist()
    assert kernels.cross_lane_whole(access, operator(name), everything=True).tolist() == [ufunc.reduce(rows, axis=None)]


def test_large_work_in_threads_is_the_same():
    rng = np.random.default_rng(4)
    memory = rng.standard_normal((64, 16384), np.float32).view(np.uint8)
    access = kernels.Access(memory, element_type("float32"), 0, 64, 0, (64, 256), (1, 64))
    alone = kernels.fold(access, 2, operator("add"), parallel=False)
    assert same(kernels.fold(access, 2, operator("add")), alone)
    assert same(alone[:, 0], np.cumsum(memory.view(np.float32), axis=1, dtype=np.float32)[:, -1])
    lanes = kernels.cross_lane(access, operator("add"), everything=False, parallel=False)
    assert same(kernels.cross_lane(access, operator("add"), everything=False), lanes)
    assert same(lanes, np.cumsum(memory.view(np.float32), axis=0, dtype=np.float32)[-1])


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "uint8", "int8", "int16"])
@pytest.mark.parametrize("name", ["add", "max", "min"])
def test_long_runs_of_many_lanes(dtype, name):
    rng = np.random.default_rng(len(dtype))
    for channels, nums, steps, inner in [
        (17, (70,), (1,), 1),
        (3, (67, 3, 4), (1, 70, 210), 2),
        (16, (600,), (1,), 1),
        (18, (40, 2), (1, 3), 1),
    ]:
        memory = memory_of(dtype, rng, channels, 840, special=True)
        if dtype in ("float16", "bfloat16"):
            # Subnormals and every other code as well.
            memory.view(np.uint16)[:, 5::9] = rng.integers(0, 2**16, memory.view(np.uint16)[:, 5::9].shape)
        access = kernels.Access(memory, element_type(dtype), 0, channels, 1, nums, steps)
        assert same(kernels.fold(access, inner, operator(name)), slow_fold(access, inner, name))


def test_folding_into_memory():
    rng = np.random.default_rng(6)
    memory = rng.standard_normal((128, 17000), np.float32).view(np.uint8)
    dtype = element_type("float32")
    source = kernels.Access(memory, dtype, 0, 128, 0, (3, 3, 42, 42), (1, 128, 3, 384))
    results = np.zeros((128, 2000), np.uint16).view(np.uint8)
    target = kernels.Access(results, element_type("bfloat16"), 0, 128, 3, (42, 42), (1, 44))
    want = results.copy()
    kernels.fold_into(target, source, 2, operator("add"), start=0.0, factor=1 / 9)
    values = kernels.fold(source, 2, operator("add"), start=0.0, factor=1 / 9, parallel=False)
    kernels.store(kernels.Access(want, target.dtype, 0, 128, 3, target.nums, target.steps), values)
    assert np.array_equal(results, want)


@pytest.mark.parametrize("apart", [True, False])
@pytest.mark.parametrize("name", ["add", "max"])
def test_windows_folded_into_place(apart, name):
    rng = np.random.default_rng(7)
    memory = rng.standard_normal((5, 4096), np.float32).view(np.uint8)
    dtype = element_type("float32")
    source = kernels.Access(memory, dtype, 1, 3, 40, (3, 3, 20, 20), (1, 48, 2, 96))
    # In place of what is read, results must not reach elements that are still to be read.
    target = kernels.Access(memory, dtype, 2 if apart else 1, 3, 3600 if apart else 40, (20, 20), (1, 20))
    start = 0.5 if name == "add" else -1.0
    values = slow_fold(source, 2, name, start)
    want = memory.copy()
    kernels.store(kernels.Access(want, dtype, target.partition, 3, target.start, target.nums, target.steps), -values)
    kernels.fold_into(target, source, 2, operator(name), start=start, negate=True)
    assert np.array_equal(memory, want)


def test_patterns_outside_the_memory_are_refused():
    memory = np.zeros((2, 64), np.uint8)
    f32 = element_type("float32")
    for partition, channels, start, nums, steps in [
        (0, 2, 0, (17,), (1,)),
        (0, 2, 0, (2,), (-1,)),
        (1, 2, 0, (2,), (1,)),
        (0, 1, 15, (2,), (1,)),
        (0, 1, 0, (0,), (1,)),
    ]:
        access = kernels.Access(memory, f32, partition, channels, start, nums, steps)
        with pytest.raises(IndexError):
            kernels.fold(access, 1, operator("add"))
        with pytest.raises(IndexError):
            kernels.store(access, np.zeros((channels, access.elements), np.float32))
    packed = kernels.Access(memory, element_type("float8_e4m3fn_x4"), 0, 1, 0, (4,), (1,))
    with pytest.raises(LanefoldError, match="TPB-CAST-TYPE"):
        kernels.fold(packed, 1, operator("add"))
