"""Whole-block loops against slow walks: exact byte sums, Max8 by block maxima, searches that stop early."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lanefold.numerics import alu, kernels
from lanefold.numerics.dtypes import by_name
from lanefold.numerics.kernels import Access

ADD = alu.by_name("add")


def rows_of(values: np.ndarray[Any, Any], name: str, *dims: tuple[int, int]) -> Access:
    """Rows of a matrix as an operand; ``dims`` are (num, step), innermost first."""
    nums, steps = zip(*(dims or ((values.shape[1], 1),)), strict=True)
    spare = np.zeros((values.shape[0], -(-values.shape[1] * values.itemsize // 8) * 8), np.uint8)
    spare[:, : values.shape[1] * values.itemsize] = np.ascontiguousarray(values).view(np.uint8)
    return Access(spare, by_name(name), 0, values.shape[0], 0, nums, steps)


def serial(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Sums in float32, one element after another."""
    return np.add.accumulate(values.astype(np.float32), axis=1)[:, -1]


@pytest.mark.parametrize("name", ["int8", "uint8"])
@pytest.mark.parametrize("count", [17, 64, 8192, 40001, 150_001])
@pytest.mark.parametrize("lanes", [1, 3, 18])
def test_byte_sums_are_the_serial_ones_below_and_beyond_2_to_the_24(name: str, count: int, lanes: int) -> None:
    bounds = np.iinfo(name)
    generator = np.random.default_rng(count)
    values = generator.integers(bounds.max - 3, bounds.max, (lanes, count), name, endpoint=True)
    values[lanes // 2] = generator.integers(bounds.min, bounds.max, count, name, endpoint=True)
    values[0] = bounds.min
    found = kernels.fold(rows_of(values, name), 1, ADD)[:, 0]
    assert found.tobytes() == serial(values).tobytes()


def test_byte_sums_beyond_2_to_the_24_differ_from_the_exact_ones() -> None:
    values = np.full((16, 150_001), 255, np.uint8)
    values[:, ::2] = 254
    exact = values.astype(np.int64).sum(axis=1)
    assert exact.min() > 2**24
    assert (kernels.fold(rows_of(values, "uint8"), 1, ADD)[:, 0] != exact).any()


def eight(row: np.ndarray[Any, Any], drop_nan: bool) -> list[np.float32]:
    """The slots of the eight largest, walked element by element."""
    slots: list[np.float32] = [np.float32(-np.inf)] * 8 if drop_nan else []
    for x in row:
        for k in range(len(slots)):
            if x > slots[k]:
                slots[k], x = x, slots[k]
        if len(slots) < 8:
            slots.append(x)
    return slots


@pytest.mark.parametrize("drop_nan", [False, True])
@pytest.mark.parametrize("count", [8, 9, 255, 256, 257, 2048, 2300, 5000])
@pytest.mark.parametrize("kind", ["random", "ties", "rising", "zeros", "nan", "early nan", "infinities"])
def test_max8_is_the_walk(kind: str, count: int, drop_nan: bool) -> None:
    generator = np.random.default_rng(count)
    values = generator.standard_normal((3, count)).astype(np.float32)
    if kind == "ties":
        values = generator.integers(0, 3, (3, count)).astype(np.float32)
    elif kind == "rising":
        values.sort(axis=1)
    elif kind == "zeros":
        values = np.where(generator.integers(0, 2, (3, count)) == 1, np.float32(0), np.float32(-0.0))
    elif kind == "nan":
        values[:, 8:][generator.random((3, count - 8)) < 0.7] = np.nan
    elif kind == "early nan":
        values[0, 3], values[1, 0], values[2, :8] = np.nan, np.nan, np.nan
    elif kind == "infinities":
        values[generator.random((3, count)) < 0.5] = -np.inf
        values[1] = -np.inf
    found = kernels.max8(rows_of(values, "float32"), drop_nan=drop_nan)
    for row, got in zip(values, found, strict=True):
        assert np.array(eight(row, drop_nan), np.float32).tobytes() == got.tobytes()


@pytest.mark.parametrize("dims", [((700, 1), (3, 700)), ((300, 2), (2, 601)), ((5, 3), (40, 16)), ((2000, 0),)])
@pytest.mark.parametrize("name", ["float32", "float16", "int8"])
def test_max8_and_find_walk_any_pattern(name: str, dims: tuple[tuple[int, int], ...]) -> None:
    generator = np.random.default_rng(5)
    values = (generator.standard_normal((2, 2104)) * 40).astype(name)
    source = rows_of(values, name, *dims)
    flat = kernels.load(source)
    tops = kernels.max8(source)
    places = kernels.find_index8(source, tops, -1)
    for row, top, found in zip(flat, tops, places, strict=True):
        assert np.array(eight(row, False), np.float32).tobytes() == top.tobytes()
        order = np.argsort(-row, kind="stable")[:8]
        assert found.tolist() == order.tolist()


@pytest.mark.parametrize("count", [8, 256, 700, 3000])
def test_find_gives_each_element_to_the_first_key_that_waits(count: int) -> None:
    generator = np.random.default_rng(count)
    values = generator.integers(0, 5, (4, count)).astype(np.float32)
    values[2] = np.nan
    keys = generator.integers(0, 8, (4, 8)).astype(np.float32)
    keys[3] = [7, 7, 7, 7, 7, 7, 7, np.nan]
    found = kernels.find_index8(rows_of(values, "float32"), keys, 0xFFFF)
    for row, key, got in zip(values, keys, found, strict=True):
        wanted = [0xFFFF] * 8
        for i, x in enumerate(row):
            for k in range(8):
                if wanted[k] == 0xFFFF and x == key[k]:
                    wanted[k] = i
                    break
        assert got.tolist() == wanted


@pytest.mark.parametrize("op", ["add", "max"])
@pytest.mark.parametrize("wide", [64, 65, 100, 127, 200])
def test_rows_side_by_side_keep_their_order(op: str, wide: int) -> None:
    values = (np.random.default_rng(wide).standard_normal((128, 37 * wide)) * 1e3).astype(np.float32)
    found = kernels.fold(rows_of(values, "float32", (37, wide), (wide, 1)), 1, alu.by_name(op))
    planes = values.reshape(128, 37, wide)
    wanted = np.add.accumulate(planes, axis=1)[:, -1] if op == "add" else planes.max(axis=1)
    assert found.tobytes() == wanted.tobytes()
