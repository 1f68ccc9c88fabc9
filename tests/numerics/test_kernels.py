"""Searches, sequences, look-ups, reads and writes against slow models; and the cache of machine code."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from lanefold.numerics import kernels
from lanefold.numerics.dtypes import by_name
from tests.numerics import scalar_model as model
from tests.numerics.test_folds import NUMBERS, elements, random_access, same


def slow_max8(values, drop_nan):
    slots = [np.float32(-np.inf)] * 8 if drop_nan else []
    for value in values:
        for k in range(len(slots)):
            if value > slots[k]:
                slots[k], value = value, slots[k]
        if len(slots) < 8:
            slots.append(value)
    return slots


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "uint8", "float8e5", "int32"])
@pytest.mark.parametrize("drop_nan", [True, False])
def test_max8(dtype, drop_nan):
    rng = np.random.default_rng(sum(map(ord, dtype)))
    done = 0
    while done < 6:
        access = random_access(dtype, rng, special=done % 2 == 0)
        if access.elements < 8:
            continue
        done += 1
        rows = [elements(access, c, access.start, access.nums, access.steps) for c in range(access.channels)]
        want = np.array([slow_max8(row, drop_nan) for row in rows], np.float32)
        assert same(kernels.max8(access, drop_nan), want)


def test_max8_of_long_rows():
    rng = np.random.default_rng(8)
    values = rng.standard_normal((3, 3000), np.float32)
    values[1, :20] = np.nan
    values[2, 5] = np.nan
    access = kernels.Access(values.view(np.uint8), by_name("float32"), 0, 3, 0, (3000,), (1,))
    want = np.array([slow_max8(row, False) for row in values], np.float32)
    assert same(kernels.max8(access), want)
    assert np.array_equal(kernels.max8(access)[0], np.sort(values[0])[:-9:-1])


def slow_find(values, keys, absent):
    places = [absent] * 8
    for i, value in enumerate(values):
        for k in range(8):
            if places[k] == absent and value == keys[k]:
                places[k] = i
                break
    return places


@pytest.mark.parametrize("dtype", ["float32", "uint8", "float16"])
def test_find_and_replace(dtype):
    rng = np.random.default_rng(sum(map(ord, dtype)))
    for round_ in range(8):
        access = random_access(dtype, rng, special=round_ % 2 == 0)
        rows = [elements(access, c, access.start, access.nums, access.steps) for c in range(access.channels)]
        keys = np.array([rng.choice(row, 8) for row in rows], np.float32)
        keys[:, 5] = 12345.5
        if dtype != "uint8":
            keys[0, 1] = np.nan
        want = [slow_find(row, key, 65535) for row, key in zip(rows, keys, strict=True)]
        assert kernels.find_index8(access, keys, 65535).tolist() == want
        values, places = kernels.match_replace8(access, keys, 7.25, 65535)
        assert places.tolist() == want
        expected = np.array(rows, np.float32)
        for channel, found in enumerate(want):
            for place in found:
                if place != 65535:
                    expected[channel, place] = 7.25
        assert same(values, expected)


def test_zeros_of_both_signs_are_equal_keys():
    values = np.array([[-0.0, 0.0, 1.0]], np.float32)
    access = kernels.Access(values.view(np.uint8), by_name("float32"), 0, 1, 0, (3,), (1,))
    keys = np.array([[0.0, -0.0, 1, 1, 5, 5, 5, 5]], np.float32)
    assert kernels.find_index8(access, keys, -1).tolist() == [[0, 1, 2, -1, -1, -1, -1, -1]]


@pytest.mark.parametrize("dtype", NUMBERS)
def test_writes_along_patterns(dtype):
    rng = np.random.default_rng(sum(map(ord, dtype)))
    kind = by_name(dtype)
    for nums, steps in [((5, 3), (1, 6)), ((4, 2, 3), (-1, 9, 20)), ((16,), (1,)), ((3, 1, 2, 2), (2, 7, 11, 23))]:
        low = sum(min(0, (n - 1) * s) for n, s in zip(nums, steps, strict=True))
        memory = rng.integers(0, 256, (4, 64 * kind.bytes), dtype=np.uint8)
        before = memory.copy()
        target = kernels.Access(memory, kind, 1, 2, 3 - low, nums, steps)
        values = (rng.standard_normal((2, target.elements)) * 90).astype(np.float32)
        kernels.store(target, values)
        want = before.view(kind.raw)
        for channel in range(2):
            for value, at in zip(values[channel], model.offsets(nums, steps), strict=True):
                want[1 + channel, target.start + at] = model.narrow(float(value), dtype)
        assert np.array_equal(memory, before)
        codes = rng.integers(0, 2 ** (8 * kind.bytes), (2, target.elements), dtype=kind.raw)
        kernels.store_raw(target, codes)
        assert np.array_equal(kernels.load_raw(target), codes)


@pytest.mark.parametrize("dtype", ["float32", "int8", "bfloat16"])
def test_reads(dtype):
    rng = np.random.default_rng(11)
    access = random_access(dtype, rng, special=True)
    rows = [elements(access, c, access.start, access.nums, access.steps) for c in range(access.channels)]
    assert same(kernels.load(access), np.array(rows, np.float32))
    with np.errstate(divide="ignore"):
        assert same(kernels.reciprocal(access), np.float32(1) / np.array(rows, np.float32))


def test_iota():
    nums, steps = (4, 1, 3, 2), (2, 9, -5, 100)
    want = [[7 + 11 * c + at for at in model.offsets(nums, steps)] for c in range(3)]
    assert kernels.iota(3, 7, 11, nums, steps).tolist() == want
    top = 2**31 - 1
    assert kernels.iota(1, top, 0, (2,), (1,)).tolist() == [[top, -(2**31)]]
    assert kernels.iota(2, top, top, (1,), (0,)).tolist() == [[top], [-2]]


def test_look_up():
    table = np.arange(1000, 1040, dtype=np.uint16).reshape(2, 20)
    indices = np.array([[512, 531, 19, 532], [0, 513, 1024, 2**32 - 1]], np.uint32)
    out = np.zeros((2, 4), np.uint16)
    hits = kernels.look_up(table, 512, 511, indices, out)
    assert hits.tolist() == [[True, True, False, False], [False, True, False, False]]
    assert out.tolist() == [[1000, 1019, 0, 0], [0, 1021, 0, 0]]


def test_exchange_of_blocks():
    values = np.arange(64 * 96, dtype=np.float32).reshape(64, 96)
    flat = np.zeros(64 * 96, np.float32)
    for p in range(64):
        for e in range(96):
            flat[((p & 31) | (e & ~31)) + 96 * ((p & ~31) | (e & 31))] = values[p, e]
    assert np.array_equal(kernels.exchange32(values), flat.reshape(64, 96))
    with pytest.raises(IndexError):
        kernels.exchange32(values[:33])


def test_machine_code_is_reused(tmp_path: Path):
    code = (
        "import numpy as np\n"
        "from lanefold.numerics import kernels\n"
        "from lanefold.numerics.kernels import shapes\n"
        "kernels.iota(1, 0, 0, (2,), (1,))\n"
        "stats = shapes.iota_flat.stats\n"
        "print(sum(stats.cache_hits.values()), sum(stats.cache_misses.values()))\n"
    )
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    runs = [
        subprocess.run(  # noqa: S603
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
        ).stdout.split()
        for _ in range(2)
    ]
    assert runs == [["0", "1"], ["1", "0"]]
