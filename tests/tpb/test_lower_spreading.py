"""Lowered counting, look-up and repetition, run on the machine, against NumPy."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lanefold.diagnostics import LanefoldError, Place, Severity
from lanefold.ops import Expand, Gather, Iota
from lanefold.tpb.lower import lower
from lanefold.tpb.machine import Machine

FEW = settings(max_examples=60, deadline=None)
SHAPES = st.lists(st.sampled_from([1, 2, 3, 5, 17, 130]), min_size=1, max_size=4).map(tuple)
GENERATIONS = st.sampled_from(["v2", "v3", "v4"])
READINGS = st.sampled_from(["reference", "headers"])


def run(op, arrays, generation="v2", reading="reference"):
    code = lower(op, generation=generation, opcodes=reading)
    assert not [each for each in code.check() if each.severity is Severity.ERROR]
    machine = Machine(generation)
    machine.sbuf[:] = 0xA5
    return code.run(machine, arrays)[0]


def small(shape) -> bool:
    return np.prod(shape) <= 200_000


@FEW
@given(st.data())
def test_iota(data) -> None:
    shape = data.draw(SHAPES.filter(small))
    steps = tuple(data.draw(st.sampled_from([0, 1, -1, 7, 300, 32_767, 32_768, 70_000])) for _ in shape)
    base = data.draw(st.sampled_from([0, -5, 2**31 - 3]))
    many = any(step > 32_767 and extent > 20 for step, extent in zip(steps, shape, strict=True))
    shape = tuple(min(extent, 5) for extent in shape) if many else shape
    wanted = base + sum(
        step * np.arange(extent, dtype=np.int64).reshape(-1, *(1,) * (len(shape) - 1 - axis))
        for axis, (step, extent) in enumerate(zip(steps, shape, strict=True))
    )
    wanted = np.broadcast_to(wanted, shape).astype(np.int64).astype(np.int32)
    made = run(Iota(shape, steps, base), [], data.draw(GENERATIONS), data.draw(READINGS))
    np.testing.assert_array_equal(made, wanted)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "uint8", "uint32"])
def test_iota_of_other_types(dtype: str) -> None:
    made = run(Iota((200,), (1,), output_dtype=dtype), [])
    np.testing.assert_array_equal(made.astype(np.float64), np.arange(200))


def test_iota_longer_than_a_partition() -> None:
    np.testing.assert_array_equal(run(Iota((9_000_000,), (1,)), []), np.arange(9_000_000))


@FEW
@given(st.data())
def test_expand(data) -> None:
    shape = data.draw(SHAPES.filter(small))
    axes = data.draw(st.sets(st.integers(0, len(shape) - 1), min_size=1))
    dtype = data.draw(st.sampled_from(["float32", "float16", "bfloat16", "int8", "uint16", "int32"]))
    op = Expand("bypass", shape, tuple(axes), dtype)
    x = np.random.default_rng(1).integers(0, 100, op.vector_shape).astype(getattr(ml_dtypes, dtype, dtype))
    made = run(op, [x], data.draw(GENERATIONS), data.draw(READINGS))
    assert made.dtype == x.dtype
    np.testing.assert_array_equal(made.astype(np.float64), np.broadcast_to(x, shape).astype(np.float64))


def test_int32_is_repeated_bit_by_bit() -> None:
    x = np.array([[2**31 - 1], [-(2**31)], [2**24 + 1]], np.int32)
    np.testing.assert_array_equal(run(Expand("bypass", (3, 70), (1,), "int32"), [x]), np.broadcast_to(x, (3, 70)))


@FEW
@given(st.data())
def test_gather(data) -> None:
    shape = data.draw(st.lists(st.sampled_from([1, 2, 5, 130, 1500]), min_size=1, max_size=3).map(tuple).filter(small))
    axis = data.draw(st.integers(0, len(shape) - 1))
    chosen = data.draw(st.lists(st.integers(1, 20), max_size=2).map(tuple))
    dtype = data.draw(st.sampled_from(["float32", "bfloat16", "int8", "int32", "uint32"]))
    index_dtype = data.draw(st.sampled_from(["uint8", "uint16", "uint32"]))
    random = np.random.default_rng(3)
    x = random.integers(0, 100, shape).astype(getattr(ml_dtypes, dtype, dtype))
    most = min(shape[axis], np.iinfo(index_dtype).max + 1)
    indices = random.integers(0, most, chosen).astype(index_dtype)
    op = Gather(shape, chosen, axis, dtype, index_dtype)
    made = run(op, [x, indices], data.draw(GENERATIONS), data.draw(READINGS))
    np.testing.assert_array_equal(made, np.take(x, indices, axis))


def test_gather_from_a_long_row_by_many_indices() -> None:
    random = np.random.default_rng(4)
    x = random.standard_normal((3, 30_000), np.float32)
    indices = random.integers(0, 30_000, 20_000).astype(np.uint32)
    np.testing.assert_array_equal(run(Gather(x.shape, indices.shape), [x, indices]), x[:, indices])


def test_an_index_beyond_the_table_gives_0() -> None:
    x, indices = np.ones((2, 9), np.float32), np.array([0, 9, 600], np.uint32)
    assert run(Gather(x.shape, indices.shape), [x, indices]).tolist() == [[1, 0, 0]] * 2
    assert "gives 0" in lower(Gather(x.shape, indices.shape)).note


@pytest.mark.parametrize(
    ("op", "code", "allowed"),
    [
        (Expand("add", (4, 9), (1,)), "TPB-LOWER-EXPAND", "bypass"),
        (Expand("bypass", (4, 9), (1,), "uint32"), "TPB-LOWER-DTYPE", "int32"),
        (Gather((4, 60_000), (3,)), "TPB-LOWER-TABLE", "1 to 49134 elements"),
        (Gather((4, 9), (3,), index_dtype="int32"), "TPB-LOWER-TABLE-INDEX", "uint32"),
        (Iota((4,), (1,), output_dtype="int64"), "TPB-LOWER-DTYPE", "int32"),
    ],
)
def test_what_the_leg_cannot_do_is_refused(op, code: str, allowed: str) -> None:
    with pytest.raises(LanefoldError) as caught:
        lower(op, Place(node="n3"))
    (finding,) = caught.value.diagnostics
    assert (finding.code, finding.place.node) == (code, "n3")
    assert allowed in finding.allowed
