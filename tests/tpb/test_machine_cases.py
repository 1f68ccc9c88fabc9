"""What users of other tools met in reductions and searches, as instructions of this machine."""

from __future__ import annotations

import itertools
import math

import ml_dtypes
import numpy as np
import pytest

from lanefold.numerics import kernels
from lanefold.numerics.dtypes import by_name
from lanefold.tpb import Machine
from tests.tpb.test_machine import at, keys, pool, put, reduce, search, stream, take, tensor


def fold(values, op: int, in_type: str, out_type: str, out, **options):
    """One reduction of a row; results are read as the NumPy type ``out``."""
    row = np.atleast_2d(values)
    machine = Machine("v2", **options)
    put(machine, 0, 0, row)
    count = row.shape[1]
    machine.run(stream(reduce(op, 1, tensor(at(0, 0), (count,), (1,)), tensor(at(0, 4096), (1,), (1,)),
                              in_type=in_type, out_type=out_type)))  # fmt: skip
    return machine, take(machine, 0, 4096, 1, out)[0, 0]


@pytest.mark.parametrize("nan", [1, 2, 3])
@pytest.mark.parametrize("op", [8, 9])
def test_n3_n4_nan_counts_and_places_do_not_matter(nan, op):
    values = [math.nan] * nan + [2.0, -1.0]
    results = set()
    for order in set(itertools.permutations(range(len(values)))):
        row = np.array([values[i] for i in order], np.float32)
        machine, result = fold(row, op, "float32", "float32", np.float32, count=True)
        results.add(float(result))
        assert machine.counters["nan_dropped"] == nan
    assert results == {2.0 if op == 8 else -1.0}


def test_n1_nan_of_a_pooling_is_counted():
    machine = Machine("v2", count=True)
    put(machine, 0, 0, np.array([[math.nan, 1.0, 2.0, 3.0]], np.float32))
    machine.run(stream(pool(1, 1.0, tensor(at(0, 0), (2, 1, 2), (1, 1, 2)), tensor(at(0, 64), (2,), (1,)))))
    assert take(machine, 0, 64, 2, np.float32)[0].tolist() == [1.0, 3.0]
    assert machine.counters["nan_dropped"] == 1


def top_eight(values):
    machine = Machine("v2")
    put(machine, 0, 0, np.atleast_2d(values))
    src = tensor(at(0, 0), (np.size(values),), (1,))
    machine.run(
        stream(
            search(0x6C, src, at(0, 8192 + 28), (-1, 0), "float32", "float32", 1),
            keys(at(0, 8192 + 28), -1, "float32", 1),
            search(0x6E, src, at(0, 8192 + 64), (1, 1), "float32", "uint32", 1),
        )
    )
    return take(machine, 0, 8192, 8, np.float32)[0].tolist(), take(machine, 0, 8192 + 64, 8, np.uint32)[0].tolist()


def test_n6_n11_equal_values_keep_their_order():
    values, places = top_eight(np.array([1, 7, 7, 3, 7, 1, 1, 0, 2, 5], np.float32))
    assert values == [7, 7, 7, 5, 3, 2, 1, 1]
    assert places == [1, 2, 4, 9, 3, 8, 0, 5]


def test_n15_successive_matches_and_all_ones():
    values = np.array([5, 8, 8, 1, 8], np.float32)
    wanted = np.array([[8, 8, 8, 8, 3, 5, 1, 1]], np.float32)
    access = kernels.Access(np.pad(values, (0, 1)).view(np.uint8)[None], by_name("float32"), 0, 1, 0, (5,), (1,))
    absent = 2**32 - 1
    assert kernels.find_index8(access, wanted, absent).tolist() == [[1, 2, 4, absent, absent, 0, 3, absent]]


def test_n16_the_last_of_equal_keys_is_served_first():
    values = np.array([[1, 2, 3, 4, 8, 8, 8, 8, 8, 8, 8, 0]], np.float32)
    access = kernels.Access(values.view(np.uint8), by_name("float32"), 0, 1, 0, (11,), (1,))
    wanted = np.array([[3, 8, 8, 8, 8, 8, 8, 8]], np.float32)
    replaced, places = kernels.match_replace8(access, wanted[:, ::-1], -1.0)
    assert places[0, ::-1].tolist() == [2, 10, 9, 8, 7, 6, 5, 4]
    assert replaced[0].tolist() == [1, 2, -1, 4, -1, -1, -1, -1, -1, -1, -1]


def test_r6_integer_overflow_is_counted_in_both_readings():
    row = np.array([2**31 - 1, 1], np.int32)
    for numerics, want in (("birsim", 2**31 - 1), ("device", -(2**31))):
        machine, result = fold(row, 4, "int32", "int32", np.int32, numerics=numerics, count=True)
        assert result == want
        assert machine.counters["integer_overflows"] == 1


def test_r8_a_sum_too_large_for_int8_saturates():
    machine, result = fold(np.full(128, 2, np.int8), 4, "int8", "int8", np.int8, count=True)
    assert result == 127
    assert machine.counters["saturated"] == 1


def test_r9_half_inputs_are_summed_in_float32():
    row = np.array([32000] * 4 + [-32000] * 4, np.float16)
    assert fold(row, 4, "float16", "float16", np.float16)[1] == 0.0


def test_r10_overflow_comes_from_the_final_cast():
    row = np.array([35045.5] * 2, np.float16)
    total = float(row.astype(np.float64).sum())
    assert np.isinf(fold(row, 4, "float16", "float16", np.float16)[1])
    assert fold(row, 4, "float16", "float32", np.float32)[1] == total


def test_r15_ties_go_to_even_in_bfloat16():
    row = np.array([1.9297, 1.4844], ml_dtypes.bfloat16)
    assert fold(row, 4, "bfloat16", "bfloat16", ml_dtypes.bfloat16)[1] == ml_dtypes.bfloat16(3.40625)


@pytest.mark.parametrize("count", [3, 40, 1000])
def test_r17_a_maximum_is_an_element(count):
    row = np.random.default_rng(count).standard_normal(count).astype(np.float32)
    assert fold(row, 8, "float32", "float32", np.float32)[1] in row


def test_r18_nan_stays_nan_in_bfloat16():
    row = np.array([1, math.nan, 2], ml_dtypes.bfloat16)
    assert np.isnan(fold(row, 4, "bfloat16", "bfloat16", ml_dtypes.bfloat16)[1])


def test_r20_the_order_of_a_sum_is_the_documented_one():
    row = np.array([1e8, 1, -1e8, 1], np.float32)
    assert fold(row, 4, "float32", "float32", np.float32)[1] == 1.0
    machine = Machine("v2")
    put(machine, 0, 0, row[None])
    backwards = reduce(4, 1, tensor(at(0, 12), (4,), (-1,)), tensor(at(0, 4096), (1,), (1,)))
    machine.run(stream(backwards))
    assert take(machine, 0, 4096, 1, np.float32)[0, 0] == 0.0
