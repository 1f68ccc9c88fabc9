"""Searches, expansions and reciprocals lowered onto tiles, against plain NumPy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lanefold as lf
from lanefold.diagnostics import LanefoldError, Place, errors
from lanefold.ops import ArgReduce, Expand, Pool, Reciprocal, Reduce, TopK
from lanefold.pto.isa import TARGETS
from lanefold.pto.target import PtoTarget

NAMES = tuple(TARGETS)


def computed(op: Any, name: str, *values: np.ndarray) -> list[np.ndarray]:
    target = PtoTarget(name)
    code = target.lower(op, Place())
    assert errors(code.check()) == []
    return code.run(target.machine(), list(values))


@st.composite
def searches(draw: st.DrawFn) -> tuple[ArgReduce, str, int]:
    shape = tuple(draw(st.lists(st.integers(1, 12), min_size=1, max_size=4)))
    axis = draw(st.integers(0, len(shape) - 1))
    op = ArgReduce(draw(st.sampled_from(["max", "min"])), shape, axis, draw(st.booleans()))
    return op, draw(st.sampled_from(NAMES)), draw(st.integers(0, 2**32 - 1))


@given(searches())
@settings(max_examples=40, deadline=None)
def test_searches_answer_with_the_first_of_equals(case: tuple[ArgReduce, str, int]) -> None:
    op, name, seed = case
    value = np.random.default_rng(seed).integers(0, 4, op.input_shape).astype(np.float32)
    (found,) = computed(op, name, value)
    wanted = (np.argmax if op.operator == "max" else np.argmin)(value, axis=op.axis, keepdims=op.keepdims)
    assert found.dtype == np.uint32
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("shape", "axis"), [((3, 9000), 1), ((5000, 70), 1), ((600, 40), 0), ((2, 300, 1100), 1)])
def test_large_searches(name: str, shape: tuple[int, ...], axis: int) -> None:
    value = np.random.default_rng(1).normal(size=shape).astype(np.float32)
    (found,) = computed(ArgReduce("max", shape, axis), name, value)
    np.testing.assert_array_equal(found, value.argmax(axis, keepdims=True))
    values, indices = computed(TopK(shape, axis, 1, largest=False), name, value)
    np.testing.assert_array_equal(values, value.min(axis, keepdims=True))
    np.testing.assert_array_equal(indices, value.argmin(axis, keepdims=True))


@pytest.mark.parametrize(
    ("op", "code"),
    [
        (ArgReduce("max", (4, 5), 1, select_last_index=True), "PTO-LOWER-LAST"),
        (ArgReduce("max", (4, 5), 1, output_dtype="uint16"), "PTO-LOWER-INDEX"),
        (TopK((4, 50), 1, 3), "PTO-LOWER-TOP"),
        (ArgReduce("max", (4, 900_000), 1), "PTO-LOWER-SEARCH"),
    ],
)
def test_searches_that_tiles_cannot_do_are_refused(op: Any, code: str) -> None:
    for name in NAMES:
        with pytest.raises(LanefoldError) as caught:
            PtoTarget(name).lower(op, Place(node="n"))
        (finding,) = caught.value.diagnostics
        assert (finding.code, finding.place.node) == (code, "n")
        assert finding.cures


@pytest.mark.parametrize("name", NAMES)
def test_an_average_of_more_elements_than_a_half_counts_is_refused(name: str) -> None:
    value = np.zeros((1, 65_504), np.float16)
    value[0, :100] = 300
    (found,) = computed(Reduce("average", value.shape, (1,), dtype="float16"), name, value)
    assert found.item() == np.float16(30_000 / 65_504)
    for op in (
        Reduce("average", (1, 65_520), (1,), dtype="float16"),
        Reduce("average", (2, 70_000, 3), (0, 1), dtype="float16"),
        Pool("average", (1, 1, 256, 256), (256, 256), dtype="float16"),
    ):
        with pytest.raises(LanefoldError, match="divides by a number that float16 does not hold") as caught:
            PtoTarget(name).lower(op, Place(node="n"))
        (finding,) = caught.value.diagnostics
        assert (finding.code, finding.place.node) == ("PTO-LOWER-COUNT", "n")
        PtoTarget(name).lower(replace(op, dtype="float32", output_dtype="float32"), Place())


def test_row_numbers_beyond_what_an_f16_holds_are_refused_on_a2a3() -> None:
    for name, n, inner in (("a2a3", 2048, 3), ("a2a3", 2050, 1), ("a5", 2050, 3)):
        PtoTarget(name).lower(ArgReduce("max", (4, n, inner), 1, dtype="float16"), Place())
    with pytest.raises(LanefoldError, match="PTO-LOWER-SEARCH"):
        PtoTarget("a2a3").lower(ArgReduce("max", (4, 2049, 3), 1, dtype="float16"), Place())


COMBINE = {
    "bypass": lambda a, b: b + 0 * a,
    "add": np.add,
    "subtract": np.subtract,
    "mult": np.multiply,
    "divide": np.divide,
    "max": np.maximum,
    "min": np.minimum,
    "exp_difference": lambda a, b: np.exp((a - b).astype(np.float64)).astype(np.float32),
}


@st.composite
def expansions(draw: st.DrawFn) -> tuple[Expand, str, int]:
    shape = tuple(draw(st.lists(st.integers(1, 9), min_size=1, max_size=5)))
    axes = draw(st.lists(st.integers(0, len(shape) - 1), min_size=1, unique=True))
    op = Expand(draw(st.sampled_from(sorted(COMBINE))), shape, tuple(axes))
    return op, draw(st.sampled_from(NAMES)), draw(st.integers(0, 2**32 - 1))


def expanded(op: Expand, name: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    full = rng.normal(size=op.input_shape).astype(np.float32)
    vector = rng.normal(size=op.vector_shape).astype(np.float32)
    values = (vector,) if op.operator == "bypass" else (full, vector)
    (found,) = computed(op, name, *values)
    np.testing.assert_array_equal(found, np.broadcast_to(COMBINE[op.operator](full, vector), op.output_shape))


@given(expansions())
@settings(max_examples=60, deadline=None)
def test_expansions(case: tuple[Expand, str, int]) -> None:
    expanded(*case)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("operator", ["bypass", "subtract"])
@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((3, 9000), (1,)),
        ((3, 9000), (0,)),
        ((6000, 20), (1,)),
        ((2, 7, 5000), (0, 2)),
        ((20000,), (0,)),
        ((700, 40), (0,)),
        ((4, 5), ()),
    ],
)
def test_large_expansions(name: str, operator: str, shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    expanded(Expand(operator, shape, axes or (0, 1)), name, 3)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shape", [(5,), (3, 7, 11), (700, 900)])
def test_reciprocals(name: str, shape: tuple[int, ...]) -> None:
    value = np.random.default_rng(4).uniform(0.5, 9, shape).astype(np.float32)
    (found,) = computed(Reciprocal(shape), name, value)
    np.testing.assert_array_equal(found, np.float32(1) / value)
    with pytest.raises(LanefoldError, match="PTO-LOWER-DTYPE"):
        PtoTarget(name).lower(Reciprocal(shape, "int32", "int32"), Place())


@pytest.mark.parametrize("name", NAMES)
def test_array_calls(name: str) -> None:
    value = np.random.default_rng(5).normal(size=(4, 30)).astype(np.float32)
    np.testing.assert_array_equal(lf.argmax(value, 1, target=name), value.argmax(1))
    np.testing.assert_array_equal(lf.expand(value[:, :1], (4, 30), target=name), np.repeat(value[:, :1], 30, 1))


@pytest.mark.parametrize("operator", ["add", "max", "min", "mult"])
@pytest.mark.parametrize(
    ("shape", "axes"), [((3, 5, 7), (1,)), ((40, 3000), (0,)), ((2, 1100, 9), (1,)), ((2, 3, 4, 5), (0, 2))]
)
def test_whole_columns_on_cpu_are_rows_of_column_major_tiles(
    operator: str, shape: tuple[int, ...], axes: tuple[int, ...]
) -> None:
    value = np.random.default_rng(6).integers(-9, 9, shape, dtype=np.int32)
    op = Reduce(operator, shape, axes, dtype="int32")
    (found,) = computed(op, "cpu", value)
    fold = {"add": np.sum, "max": np.max, "min": np.min, "mult": np.prod}[operator]
    np.testing.assert_array_equal(
        found,
        fold(value, axis=axes, keepdims=op.keepdims, **({"dtype": np.int32} if operator in ("add", "mult") else {})),
    )
    text = PtoTarget("cpu").lower(op, Place()).note
    assert ("column-major" in text) == (operator in ("add", "max"))
