"""Lowered searches, run on the machine, against NumPy's stable sort; published user cases by their numbers."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lanefold.diagnostics import LanefoldError, Place, Severity
from lanefold.ops import ArgReduce, TopK
from lanefold.tpb.lower import lower
from lanefold.tpb.machine import Machine

FEW = settings(max_examples=60, deadline=None)
LENGTHS = [*range(1, 21), 16376, 16377, 16383, 16384, 16385, 16386, 40_000, 100_000]
NOT_FOUND = 0xFFFFFFFF


def run(op, x, generation="v2", reading="reference", numerics="birsim"):
    code = lower(op, generation=generation, opcodes=reading)
    assert not [each for each in code.check() if each.severity is not Severity.INFO]
    machine = Machine(generation, numerics=numerics)
    machine.sbuf[:] = 0xA5
    return code.run(machine, [x])


def stable(x, axis, k, largest):
    """Indices of the k largest (smallest), lowest index first among equals."""
    wide = x.astype(np.float64)
    order = np.argsort(-wide if largest else wide, axis=axis, kind="stable")
    return np.take(order, range(k), axis)


def agrees(op: TopK, x, **how):
    values, indices = run(op, x, **how)
    wanted = stable(x, op.axis, op.k, op.largest)
    np.testing.assert_array_equal(indices, wanted)
    assert values.dtype == x.dtype
    np.testing.assert_array_equal(values.astype(np.float64), np.take_along_axis(x, wanted, op.axis).astype(np.float64))


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("last", [False, True])
def test_arg_of_rows_of_every_length_with_ties(length: int, last: bool) -> None:
    x = np.random.default_rng(length).integers(-2, 3, (3, length)).astype(np.float32)
    for operator, signed in (("max", x), ("min", -x)):
        (made,) = run(ArgReduce(operator, x.shape, -1, False, last), x)
        wanted = length - 1 - signed[:, ::-1].argmax(1) if last else signed.argmax(1)
        np.testing.assert_array_equal(made, wanted)
        assert made.dtype == np.uint32


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("largest", [True, False])
def test_top_k_of_rows_of_every_length_with_ties(length: int, largest: bool) -> None:
    random = np.random.default_rng(length)
    for k in sorted({min(k, length) for k in (1, 2, 7, 8, 9, 20)}):
        agrees(TopK((2, length), 1, k, largest), random.integers(-30, 30, (2, length)).astype(np.float32))


@pytest.mark.parametrize(
    ("shape", "axis", "k", "dtype", "generation", "levels"),
    [
        ((1, 60_000), 1, 3000, "float32", "v2", "searched again"),
        ((2, 300_000), 1, 1000, "float32", "v2", "in 2 levels"),
        ((110_000, 2), 0, 1300, "int16", "v3", "searched again"),
        ((1, 400_000), 1, 900, "bfloat16", "v4", "in 2 levels"),
    ],
)
def test_n13_many_values_of_long_rows_are_merged_in_levels(shape, axis, k, dtype, generation, levels) -> None:
    """k times the number of chunks is far beyond one search; ties keep the order of the row."""
    x = np.random.default_rng(k).integers(-500, 500, shape).astype(getattr(ml_dtypes, dtype, dtype))
    op = TopK(shape, axis, k, k != 1300, dtype=dtype)
    agrees(op, x, generation=generation)
    assert levels in lower(op, generation=generation).note


@FEW
@given(st.data())
def test_any_shape_axis_and_type(data) -> None:
    shape = tuple(data.draw(st.lists(st.sampled_from([1, 2, 3, 5, 9, 24, 140]), min_size=1, max_size=3)))
    axis = data.draw(st.integers(0, len(shape) - 1))
    k = data.draw(st.integers(1, shape[axis]))
    dtype = data.draw(st.sampled_from(["float32", "float16", "bfloat16", "int8", "uint8", "int16", "uint16"]))
    random = np.random.default_rng(data.draw(st.integers(0, 99)))
    low, high = (0, 250) if dtype == "uint8" else (0, 60_000) if dtype == "uint16" else (-128, 127)
    pool = random.integers(low, high, data.draw(st.sampled_from([2, 300])), endpoint=True)
    x = random.choice(pool, shape).astype(getattr(ml_dtypes, dtype, dtype))
    generation = data.draw(st.sampled_from(["v2", "v3", "v4"]))
    reading = data.draw(st.sampled_from(["reference", "headers"]))
    numerics = data.draw(st.sampled_from(["birsim", "device"]))
    largest = data.draw(st.booleans())
    op = TopK(shape, axis, k, largest, dtype=dtype)
    agrees(op, x, generation=generation, reading=reading, numerics=numerics)
    arg = ArgReduce("max" if largest else "min", shape, axis, dtype=dtype)
    (made,) = run(arg, x, generation, reading, numerics)
    np.testing.assert_array_equal(made, stable(x, axis, 1, largest))


@pytest.mark.parametrize("numerics", ["birsim", "device"])
@pytest.mark.parametrize(("length", "k"), [(5, 5), (40, 40), (40, 9), (3000, 24), (16_400, 12), (33_000, 8)])
def test_infinities_among_the_largest(length: int, k: int, numerics: str) -> None:
    """What is taken must differ from an infinity that is in the data."""
    random = np.random.default_rng(k)
    x = np.where(random.random((3, length)) < 4 / length, random.standard_normal((3, length)), -np.inf)
    x = x.astype(np.float32)
    agrees(TopK(x.shape, 1, k), x, numerics=numerics)
    agrees(TopK(x.shape, 1, k, largest=False), -x, numerics=numerics)


@pytest.mark.parametrize("numerics", ["birsim", "device"])
@pytest.mark.parametrize(("length", "k"), [(5, 3), (40, 12), (16_400, 12), (33_000, 2)])
def test_not_a_numbers_are_passed_over(length: int, k: int, numerics: str) -> None:
    x = np.random.default_rng(k).standard_normal((3, length)).astype(np.float32)
    x[:, ::4] = np.nan
    op = TopK(x.shape, 1, k)
    assert "NaN is passed over" in lower(op).note
    values, indices = run(op, x, numerics=numerics)
    wanted = stable(np.where(np.isnan(x), -np.inf, x), 1, k, True)
    np.testing.assert_array_equal(indices, wanted)
    np.testing.assert_array_equal(values, np.take_along_axis(x, wanted, 1))


def test_a_not_a_number_that_stays_in_its_slot_is_told() -> None:
    x = np.array([[np.nan, *range(8)]], np.float32)
    op = ArgReduce("max", x.shape, 1)
    assert "keeps its slot" in lower(op).note
    assert run(op, x)[0][0, 0] == NOT_FOUND
    assert run(op, x, numerics="device")[0][0, 0] == 8


@pytest.mark.parametrize("chunk", [8193, 13_334])
def test_n6_n11_equal_values_on_both_sides_of_a_cut(chunk: int) -> None:
    """N6, N11: equal maxima keep the order of the row, also where chunks meet."""
    length = {8193: 16_385, 13_334: 40_000}[chunk]
    x = np.zeros((1, length), np.float32)
    x[0, [chunk - 2, chunk - 1, chunk, chunk + 1, length - 1]] = 7
    agrees(TopK(x.shape, 1, 8), x)
    agrees(TopK(x.shape, 1, 17), x)
    assert run(ArgReduce("max", x.shape, 1), x)[0][0, 0] == chunk - 2
    assert run(ArgReduce("max", x.shape, 1, select_last_index=True), x)[0][0, 0] == length - 1


def test_n7_last_index() -> None:
    x = np.array([[3, 1, 3, 2]], np.float32)
    first, last = (ArgReduce("max", x.shape, 1, select_last_index=each) for each in (False, True))
    assert [run(op, x)[0].item() for op in (first, last)] == [0, 2]
    assert "reversed" in lower(last).note


@pytest.mark.parametrize("length", [18_992, 37_984, 32_000, 50_257])
def test_n13_vocabularies(length: int) -> None:
    x = np.random.default_rng(length).standard_normal((2, length)).astype(ml_dtypes.bfloat16)
    for k in (1, 8, 50):
        agrees(TopK(x.shape, 1, k, dtype="bfloat16"), x)


def test_n15_equal_values_get_successive_places() -> None:
    x = np.array([[5, 1, 5, 2, 5, 3, 5, 4, 5]], np.float32)
    values, indices = run(TopK(x.shape, 1, 6), x)
    assert indices.tolist() == [[0, 2, 4, 6, 8, 7]]
    assert values.tolist() == [[5, 5, 5, 5, 5, 4]]


def test_n16_equal_values_are_all_taken_before_the_next() -> None:
    """N16: eleven elements of which seven are equal; every index comes once."""
    x = np.array([[1, 2, 3, 4, 8, 8, 8, 8, 8, 8, 8]], np.float32)
    _, indices = run(TopK(x.shape, 1, 11), x)
    assert indices.tolist() == [[4, 5, 6, 7, 8, 9, 10, 3, 2, 1, 0]]


def test_two_instructions_where_a_row_fits() -> None:
    code = lower(ArgReduce("max", (128, 1000), 1))
    assert [each.opcode for each in code.instructions] == ["Max", "MaxIndex"]


def test_chunks_of_one_row_lie_side_by_side() -> None:
    code = lower(ArgReduce("max", (1, 1_000_000), 1))
    assert max(each.ins[0].channels for each in code.instructions if each.opcode == "Max") > 50


@pytest.mark.parametrize(
    ("op", "code", "allowed"),
    [
        (ArgReduce("max", (4, 9), 1, dtype="int32"), "TPB-LOWER-DTYPE", "float32"),
        (TopK((4, 9), 1, 2, dtype="uint32"), "TPB-LOWER-DTYPE", "float32"),
        (ArgReduce("max", (4, 9), 1, output_dtype="int64"), "TPB-LOWER-INDEX", "uint32"),
        (TopK((1, 40_000), 1, 20_000), "TPB-LOWER-CANDIDATES", "1 to 6128 of 40000 elements"),
    ],
)
def test_what_the_leg_cannot_do_is_refused(op, code: str, allowed: str) -> None:
    with pytest.raises(LanefoldError) as caught:
        lower(op, Place(node="n3"))
    (finding,) = caught.value.diagnostics
    assert (finding.code, finding.place.node) == (code, "n3")
    assert allowed in finding.allowed


@pytest.mark.parametrize("generation", ["v2", "v3", "v4"])
@pytest.mark.parametrize("reading", ["reference", "headers"])
def test_long_rows_are_legal_in_every_generation_and_reading(generation: str, reading: str) -> None:
    random = np.random.default_rng(8)
    x = random.integers(-128, 128, (3, 33_000)).astype(np.int8)
    for largest in (True, False):
        agrees(TopK(x.shape, 1, 12, largest, dtype="int8"), x, generation=generation, reading=reading)
    (made,) = run(ArgReduce("min", x.shape, 1, False, True, "int8"), x, generation, reading)
    np.testing.assert_array_equal(made, 32_999 - x[:, ::-1].argmin(1))


def test_long_rows_on_an_inner_axis() -> None:
    x = np.random.default_rng(9).integers(-99, 99, (2, 17_000, 3)).astype(np.float32)
    for k in (1, 5, 11):
        agrees(TopK(x.shape, 1, k), x)


@pytest.mark.parametrize("numerics", ["birsim", "device"])
@pytest.mark.parametrize("operator", ["max", "min"])
@pytest.mark.parametrize(
    ("last", "index", "told"), [(False, NOT_FOUND, "an index of all ones"), (True, 11, "an index one past the last")]
)
def test_the_note_tells_the_index_of_a_row_without_numbers(numerics, operator, last, index, told) -> None:
    op = ArgReduce(operator, (2, 11), 1, keepdims=False, select_last_index=last)
    x = np.full(op.input_shape, np.nan, np.float32)
    assert run(op, x, numerics=numerics)[0].tolist() == [index, index]
    end = "last" if last else "first"
    assert f"NaN among the {end} eight elements keeps its slot in Max8 (birsim), with {told}" in lower(op).note
    assert f"a row of nothing but NaN has {told}" in lower(op).note
    # A NaN that the search meets first takes the first slot in the simulator's reading, and none in the device's.
    x[:, :] = 0
    x[:, -1 if last else 0] = np.nan
    found = run(op, x, numerics=numerics)[0].tolist()
    assert found == [index if numerics == "birsim" else (9 if last else 1)] * 2


def test_the_note_tells_the_indices_that_a_short_row_lacks() -> None:
    op = TopK((1, 3), 1, 2)
    assert run(op, np.array([[np.nan, 5, np.nan]], np.float32))[1].tolist() == [[1, NOT_FOUND]]
    assert "a row of fewer than 2 numbers has an index of all ones for each that it lacks" in lower(op).note
