"""Lowered pooling and reductions, run on the slow machine of the tests, against NumPy and plain loops."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from lanefold.diagnostics import LanefoldError, Place
from lanefold.ops import Pool, Reciprocal, Reduce
from lanefold.tpb import isa
from lanefold.tpb.instruction import Instruction
from lanefold.tpb.lower import lower, pool
from lanefold.tpb.lower.plan import Transfer
from lanefold.tpb.rules import check
from tests.tpb.slow_machine import SlowMachine

FEW = settings(max_examples=60, deadline=None)


def run(code, *arrays):
    machine = SlowMachine(isa.GEOMETRY[code.generation].sbuf_bytes, code.reading)
    machine.sbuf[:] = 0xA5
    return code.run(machine, arrays)[0]


def slow_pool(op: Pool, x: np.ndarray) -> np.ndarray:
    """Every window by loops over its cells, in float64."""
    rank = len(op.kernel)
    begins, ends = op.pads[:rank], op.pads[rank:]
    x = {"identity": x, "abs": np.abs(x), "square": x * x}[op.element].astype(np.float64)
    out = np.zeros(op.output_shape)
    for place in itertools.product(*map(range, op.output_shape[2:])):
        cells, counted = [], 0
        for tap in itertools.product(*map(range, op.kernel)):
            at = [p * s + k * d - b for p, s, k, d, b in zip(place, op.strides, tap, op.dilations, begins, strict=True)]
            inside = [0 <= a < n for a, n in zip(at, op.input_shape[2:], strict=True)]
            counted += all(a < n + e for a, n, e in zip(at, op.input_shape[2:], ends, strict=True))
            if all(inside):
                cells.append(x[(slice(None), slice(None), *at)])
        values = np.array(cells)
        divisor = counted if op.count_include_pad else len(cells)
        result = {"max": values.max(0), "add": values.sum(0), "average": values.sum(0) / divisor}[op.operator]
        out[(slice(None), slice(None), *place)] = result
    return out


@st.composite
def pools(draw):
    rank = draw(st.integers(1, 3))
    numbers = lambda low, high, count: tuple(draw(st.integers(low, high)) for _ in range(count))  # noqa: E731
    shape = (draw(st.integers(1, 3)), draw(st.sampled_from([1, 3, 60, 130])), *numbers(1, 9, rank))
    try:
        return Pool(
            draw(st.sampled_from(["max", "average", "add"])),
            shape,
            numbers(1, 4, rank),
            numbers(1, 3, rank),
            numbers(1, 2, rank),
            numbers(0, 2, 2 * rank),
            draw(st.booleans()),
            draw(st.booleans()),
            draw(st.sampled_from(["identity", "identity", "abs", "square"])),
        )
    except LanefoldError:
        assume(False)


@FEW
@given(pools(), st.integers(0, 2**32 - 1))
def test_pool_agrees_with_loops(op: Pool, seed: int) -> None:
    x = np.random.default_rng(seed).standard_normal(op.input_shape).astype(np.float32)
    code = lower(op)
    made, wanted = run(code, x), slow_pool(op, x)
    assert made.shape == wanted.shape
    np.testing.assert_allclose(made, wanted, rtol=0, atol=1e-5 * max(1e-9, np.abs(wanted).max()))
    if op.operator == "max" and op.element == "identity":
        np.testing.assert_array_equal(made, wanted.astype(np.float32))


@FEW
@given(pools(), st.integers(2, 9), st.integers(0, 2**32 - 1))
def test_pool_with_windows_larger_than_a_partition(op: Pool, reach: int, seed: int) -> None:
    """Where a partition holds so few elements, windows are folded axis by axis and in parts, or refused."""
    x = np.random.default_rng(seed).standard_normal(op.input_shape).astype(np.float32)
    fits = pool._fits

    def small(builder, plane, rows: int, columns: int) -> bool:
        elements = pool._reach(plane.rows, rows) * pool._reach(plane.columns, columns)
        return elements <= reach and fits(builder, plane, rows, columns)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pool, "_fits", small)
        try:
            code = lower(op)
        except LanefoldError:
            assume(False)
    made, wanted = run(code, x), slow_pool(op, x)
    np.testing.assert_allclose(made, wanted, rtol=0, atol=1e-5 * max(1e-9, np.abs(wanted).max()))
    if op.operator == "max" and op.element == "identity":
        np.testing.assert_array_equal(made, wanted.astype(np.float32))


@pytest.mark.parametrize(
    ("op", "text"),
    [
        (Pool("max", (1, 2, 300, 300), (260, 250)), "its two axes are folded one after the other"),
        (Pool("average", (1, 2, 512, 512), (512, 512)), "its two axes are folded one after the other"),
        (Pool("add", (1, 1, 2, 300, 300), (2, 260, 300)), "its two axes are folded one after the other"),
        (Pool("max", (1, 2, 120_000), (50_021,), (50_021,)), "50021 elements are folded in 2 parts"),
        (Pool("average", (1, 1, 120_000), (60_000,), (30_000,)), "60000 elements are folded in 2 parts"),
        (Pool("max", (1, 1, 52_000), (25_000,), (500,), (2,)), "25000 elements are folded in 2 parts"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_windows_larger_than_a_partition(op: Pool, text: str) -> None:
    x = np.random.default_rng(1).standard_normal(op.input_shape).astype(np.float32)
    code = lower(op)
    assert text in code.note
    findings = check(code.instructions, code.generation, code.reading)
    assert [f.to_text() for f in findings if f.severity != "info"] == []
    reach = tuple((k - 1) * d + 1 for k, d in zip(op.kernel, op.dilations, strict=True))
    axes = tuple(range(2, x.ndim))
    taken = np.lib.stride_tricks.sliding_window_view(x, reach, axes)
    cut = (slice(None), slice(None), *(slice(None, None, s) for s in op.strides))
    taken = taken[(*cut, *(slice(None, None, d) for d in op.dilations))]
    folded = tuple(range(-len(axes), 0))
    made = run(code, x)
    if op.operator == "max":
        np.testing.assert_array_equal(made, taken.max(folded))
    else:
        wanted = NUMPY[op.operator](taken.astype(np.float64), axis=folded)
        np.testing.assert_allclose(made, wanted, rtol=0, atol=1e-4 * max(1.0, np.abs(wanted).max()))


NUMPY = {"add": np.sum, "max": np.max, "min": np.min, "average": np.mean, "mult": np.prod}


@st.composite
def reductions(draw):
    rank = draw(st.integers(1, 5))
    extents = [1, 3, 130, 300, 1000] if rank < 3 else [1, 2, 3, 5, 8, 17]
    shape = tuple(draw(st.sampled_from(extents)) for _ in range(rank))
    axes = draw(st.sets(st.integers(0, rank - 1), min_size=1))
    operator = draw(st.sampled_from(sorted(NUMPY)))
    element = draw(st.sampled_from(["identity", "identity", "abs", "square"]))
    return Reduce(operator, shape, tuple(axes), draw(st.booleans()), element)


@FEW
@given(reductions(), st.sampled_from(["cost", "free-axis", "cross-lane"]), st.integers(0, 2**32 - 1))
def test_reduction_agrees_with_numpy(op: Reduce, prefer: str, seed: int) -> None:
    x = np.random.default_rng(seed).standard_normal(op.input_shape).astype(np.float32)
    if op.operator == "mult":
        x = (1 + x * np.float32(1e-3)).astype(np.float32)
    mapped = {"identity": x, "abs": np.abs(x), "square": x * x}[op.element].astype(np.float64)
    wanted = NUMPY[op.operator](mapped, axis=op.axes, keepdims=op.keepdims)
    made = run(lower(op, prefer=prefer), x)
    assert made.shape == wanted.shape
    # Serial float32 folds lose at most half an ulp per step of the running magnitude.
    bound = op.count * 2.0**-24 * max(np.abs(mapped).sum(axis=op.axes).max(), 1.0)
    np.testing.assert_allclose(made, wanted, rtol=0, atol=bound)
    if op.operator in ("max", "min") and op.element == "identity":
        np.testing.assert_array_equal(made, wanted.astype(np.float32))


@pytest.mark.parametrize("generation", isa.GENERATIONS)
@pytest.mark.parametrize("reading", isa.READINGS)
@FEW
@given(st.one_of(pools(), reductions()), st.sampled_from(["cost", "cross-lane"]))
def test_lowered_code_is_legal(generation, reading, op, prefer) -> None:
    code = lower(op, generation=generation, opcodes=reading, prefer=prefer)
    findings = check(code.instructions, generation, reading)
    assert [f.to_text() for f in findings if f.severity == "error"] == []
    assert [f.to_text() for f in findings if f.severity == "warning"] == []


@pytest.mark.parametrize(
    ("op", "text"),
    [
        (Pool("max", (1, 64, 224, 224), (2, 2), (2, 2)), "tiles of"),
        (Pool("average", (1, 2048, 7, 7), (7, 7)), "16 maps per partition"),
        (Pool("max", (1, 3, 5, 5), (3, 3), (1, 1), pads=(1, 1, 1, 1)), "9 window classes"),
        (Pool("average", (1, 3, 5, 5), (3, 3), pads=(1, 1, 1, 1), count_include_pad=True), "lie in memory as zeros"),
        (Pool("max", (1, 2, 4, 5, 6), (2, 2, 2)), "three axes in two passes"),
        (Reduce("add", (1, 60000), (1,)), "folded again"),
        (Reduce("add", (2, 200000), (1,)), "folded again"),
        (Reduce("average", (4, 98304), (1,)), "folded again"),
        (Reduce("max", (130, 70000), (0,)), "passes"),
        (Reduce("max", (3, 5000), (0,), element="abs"), "abs by a fold"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_note_tells_the_tiling(op, text: str) -> None:
    x = np.random.default_rng(1).standard_normal(op.input_shape).astype(np.float32)
    code = lower(op)
    assert text in code.note
    made = run(code, x)
    if isinstance(op, Reduce):
        wanted = NUMPY[op.operator](np.abs(x) if op.element == "abs" else x.astype(np.float64), axis=op.axes)
        wanted = wanted.reshape(op.output_shape)
    else:
        wanted = slow_pool(op, x)
    np.testing.assert_allclose(made, wanted, rtol=0, atol=2e-4 * np.abs(wanted).max())


def test_large_steps_are_cut_before_they_leave_their_field() -> None:
    # Rows of 46,208 elements: the step between two of them does not fit 16 signed bits.
    op = Pool("max", (1, 1, 4, 46208), (2, 2), (2, 2), dtype="uint8")
    x = np.random.default_rng(3).integers(0, 255, op.input_shape).astype(np.uint8)
    code = lower(op)
    steps = [abs(step) for i in code.instructions for a in (*i.ins, *i.outs) for step, _ in a.free]
    assert max(steps) <= 32767
    np.testing.assert_array_equal(run(code, x), slow_pool(op, x).astype(np.uint8))


def test_smallest_maximum_by_negation_across_lanes() -> None:
    x = np.random.default_rng(0).standard_normal((100, 300)).astype(np.float32)
    code = lower(Reduce("min", (100, 300), (0,)), prefer="cross-lane")
    assert code.route.startswith("tensor_reduce (cross-lane")
    assert "negate, max, negate" in code.note
    assert [(i.attributes["op"], i.attributes["axis"]) for i in code.instructions] == [
        ("bypass", "X"),
        ("max", "C"),
        ("bypass", "X"),
    ]
    np.testing.assert_array_equal(run(code, x), x.min(axis=0, keepdims=True))


@pytest.mark.parametrize("operator", ["max", "add"])
@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((65_537, 3, 2), (0, 2)),  # a prime outer extent, too large to be folded again element by element
        ((7, 3, 20_000), (0, 2)),  # equal parts would each be one whole inner axis
        ((64, 49_136), (1,)),  # a row that fills a partition, with no room for its result
        ((64, 49_135), (1,)),
        ((3, 65_537), (1,)),
    ],
)
def test_long_rows_are_cut_into_parts_that_fit(shape: tuple[int, ...], axes: tuple[int, ...], operator: str) -> None:
    x = np.random.default_rng(0).integers(-3, 4, shape).astype(np.float32)
    code = lower(Reduce(operator, shape, axes, keepdims=False))
    findings = check(code.instructions, "v2", "reference")
    assert [f.to_text() for f in findings if f.severity != "info"] == []
    assert (run(code, x) == NUMPY[operator](x, axis=axes)).all()


@pytest.mark.parametrize(
    ("shape", "axes", "ways"),
    [((2, 65_537), (1,), ["add"]), ((147_471,), (0,), ["add"]), ((65_537, 3, 2), (0, 2), ["axes", "add"])],
)
def test_averages_of_rows_without_equal_parts_are_refused(
    shape: tuple[int, ...], axes: tuple[int, ...], ways: list[str]
) -> None:
    with pytest.raises(LanefoldError, match="does not divide into at most 49135 equal parts") as caught:
        lower(Reduce("average", shape, axes))
    *others, last = [cure.text for cure in caught.value.diagnostics[0].cures]
    assert last == "keep the node on the host"
    assert [way in text for way, text in zip(ways, others, strict=True)] == [True] * len(ways)
    lower(Reduce("add", shape, axes))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16"])
@pytest.mark.parametrize("prefer", ["cost", "free-axis", "cross-lane"])
@pytest.mark.parametrize("operator", ["max", "min"])
def test_extremes_of_integers_reach_the_ends_of_their_type(dtype: str, prefer: str, operator: str) -> None:
    ends = np.iinfo(dtype)
    x = np.array([[ends.min, 7, ends.max], [ends.min + 1, 9, ends.max - 1], [ends.min + 1, 8, ends.max]], dtype)
    code = lower(Reduce(operator, x.shape, (0,), dtype=dtype), prefer=prefer)
    assert run(code, x).tolist() == [getattr(x, operator)(axis=0).tolist()]
    assert ("cross-lane" in code.route) == (prefer == "cross-lane" and operator == "max")


def test_integer_maxima_stay_exact() -> None:
    x = np.array([2**24 + 1, 2**24, -(2**31), 7, 2**31 - 1, 5], np.int32).reshape(1, 1, 2, 3)
    code = lower(Pool("max", (1, 1, 2, 3), (1, 3), dtype="int32"))
    assert run(code, x).tolist() == [[[[2**24 + 1], [2**31 - 1]]]]


@pytest.mark.parametrize("dtype", ["int64", "uint64", "uint32"])
def test_types_that_would_lose_values_are_refused(dtype: str) -> None:
    with pytest.raises(LanefoldError) as caught:
        lower(Reduce("add", (4, 4), (1,), dtype=dtype), Place(node="n7"))
    finding = caught.value.diagnostics[0]
    assert (finding.code, finding.place.node, finding.got) == ("TPB-LOWER-DTYPE", "n7", dtype)
    assert "float32" in finding.allowed


def test_reciprocal() -> None:
    x = np.random.default_rng(2).standard_normal((3, 700)).astype(np.float32)
    np.testing.assert_array_equal(run(lower(Reciprocal((3, 700))), x), np.float32(1) / x)


def test_transfers_cover_every_output_once() -> None:
    op = Pool("average", (2, 70, 9, 9), (3, 3), (2, 2), pads=(1, 1, 1, 1))
    code = lower(op)
    written = np.zeros(int(np.prod(op.output_shape)), int)
    for item in code.items:
        if isinstance(item, Transfer) and item.direction == "save":
            nums = [num for _, num in item.access.pattern]
            for index in itertools.product(*map(range, nums)):
                written[item.offset + sum(i * s for i, s in zip(index, item.steps, strict=True))] += 1
    assert set(written) == {1}


def test_instructions_carry_the_node() -> None:
    code = lower(Pool("max", (1, 3, 5, 5), (3, 3)), Place(node="pool5"))
    assert all(isinstance(i, Instruction) and i.node == "pool5" for i in code.instructions)
