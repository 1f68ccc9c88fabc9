"""Lowered ops, run by their tile programs, against plain NumPy; legality on every target."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lanefold.diagnostics import LanefoldError, Place, errors
from lanefold.ops import Gather, Iota, Pool, Reduce, Softmax
from lanefold.pto.isa import OPERATIONS, TARGETS
from lanefold.pto.lower import View, lower, plan, tiles, windows
from lanefold.pto.lower.views import even
from lanefold.pto.target import PtoTarget

FOLDS = {"add": np.sum, "mult": np.prod, "max": np.max, "min": np.min, "average": np.mean}
NAMES = tuple(TARGETS)


def computed(op: Any, value: np.ndarray, name: str, prefer: str = "cost") -> np.ndarray:
    target = PtoTarget(name)
    code = target.lower(op, Place(), prefer)
    assert errors(code.check()) == []
    (result,) = code.run(target.machine(), [value])
    assert result.shape == op.output_shape
    assert result.dtype == value.dtype
    return result


def pooled(op: Pool, value: np.ndarray) -> np.ndarray:
    """One window at a time, element by element, in float64."""
    spatial = op.input_shape[2:]
    result = np.zeros(op.output_shape)
    for at in np.ndindex(op.output_shape):
        taken, counted = [], 0
        for tap in product(*(range(k) for k in op.kernel)):
            where = [
                o * s + t * d - p for o, s, t, d, p in zip(at[2:], op.strides, tap, op.dilations, op.pads, strict=False)
            ]
            if all(0 <= w < n for w, n in zip(where, spatial, strict=True)):
                taken.append(float(value[(*at[:2], *where)]))
            ends = [n + e for n, e in zip(spatial, op.pads[len(spatial) :], strict=True)]
            counted += all(w < end for w, end in zip(where, ends, strict=True))
        total = max(taken) if op.operator == "max" else sum(taken)
        divisor = counted if op.count_include_pad else len(taken)
        result[at] = total / divisor if op.operator == "average" else total
    return result


@st.composite
def reductions(draw: st.DrawFn) -> tuple[Reduce, str]:
    shape = draw(st.lists(st.integers(1, 9), min_size=1, max_size=4))
    axes = draw(st.lists(st.integers(0, len(shape) - 1), min_size=1, unique=True))
    return Reduce(draw(st.sampled_from(list(FOLDS))), tuple(shape), tuple(axes), draw(st.booleans())), draw(
        st.sampled_from(NAMES)
    )


@given(reductions(), st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None)
def test_reductions(case: tuple[Reduce, str], seed: int) -> None:
    op, name = case
    value = np.random.default_rng(seed).uniform(0.97, 1.03, op.input_shape).astype(np.float32)
    wanted = FOLDS[op.operator](value.astype(np.float64), axis=op.axes, keepdims=op.keepdims)
    np.testing.assert_allclose(computed(op, value, name), wanted, rtol=1e-5)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((5, 4100), (1,)),
        ((4100,), (0,)),
        ((300, 7), (0,)),
        ((2, 131, 1100), (1,)),
        ((2, 131, 1100), (0, 2)),
        ((1500, 3), (1,)),
    ],
)
def test_long_axes_are_folded_in_parts(name: str, shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    value = np.random.default_rng(0).uniform(-1, 1, shape).astype(np.float32)
    np.testing.assert_array_equal(computed(Reduce("max", shape, axes), value, name), value.max(axes, keepdims=True))
    wanted = value.astype(np.float64).sum(axes, keepdims=True)
    np.testing.assert_allclose(computed(Reduce("add", shape, axes), value, name), wanted, rtol=1e-4, atol=1e-4)


@st.composite
def poolings(draw: st.DrawFn) -> tuple[Pool, str, str]:
    rank = draw(st.integers(1, 3))
    sizes = st.lists(st.integers(3, 9), min_size=rank, max_size=rank)
    small = st.lists(st.integers(1, 2), min_size=rank, max_size=rank)
    kernel = draw(st.lists(st.integers(1, 3), min_size=rank, max_size=rank))
    dilations = draw(small)
    spatial = [max(n, d * (k - 1) + 1) for n, k, d in zip(draw(sizes), kernel, dilations, strict=True)]
    pads = [draw(st.integers(0, k - 1)) for k in (*kernel, *kernel)]
    pads = [0 if d > 1 else p for p, d in zip(pads, (*dilations, *dilations), strict=True)]
    op = Pool(
        draw(st.sampled_from(["max", "average", "add"])),
        (draw(st.integers(1, 2)), draw(st.integers(1, 3)), *spatial),
        tuple(kernel),
        tuple(draw(small)),
        tuple(dilations),
        tuple(pads),
        count_include_pad=draw(st.booleans()),
    )
    return op, draw(st.sampled_from(NAMES)), draw(st.sampled_from(["cost", "row", "column"]))


@given(poolings(), st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_poolings(case: tuple[Pool, str, str], seed: int) -> None:
    op, name, prefer = case
    value = np.random.default_rng(seed).uniform(-1, 1, op.input_shape).astype(np.float32)
    found, wanted = computed(op, value, name, prefer), pooled(op, value)
    if op.operator == "max":
        np.testing.assert_array_equal(found, wanted.astype(np.float32))
    else:
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


@given(poolings(), st.integers(3, 4), st.integers(2, 3), st.integers(0, 2**32 - 1))
@settings(max_examples=80, deadline=None)
def test_poolings_with_windows_larger_than_a_tile(case: tuple[Pool, str, str], taps: int, part: int, seed: int) -> None:
    """With tiles of so few rows and columns, windows are folded axis by axis and in parts."""
    op, name, prefer = case
    value = np.random.default_rng(seed).uniform(-1, 1, op.input_shape).astype(np.float32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(windows, "_TAPS", taps)
        patch.setattr(tiles, "LONG", part)
        patch.setattr(tiles, "fits_row", lambda _, cols: cols <= taps)
        found, wanted = computed(op, value, name, prefer), pooled(op, value)
    if op.operator == "max":
        np.testing.assert_array_equal(found, wanted.astype(np.float32))
    else:
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("kernel", "stride", "dilation"),
    [(20_011, 1000, 1), (4_100, 1, 2), (60_000, 700, 1), (9_001, 3_000, 3)],
)
def test_windows_longer_than_a_tile(name: str, kernel: int, stride: int, dilation: int) -> None:
    length = (kernel - 1) * dilation + 2_050
    op = Pool("max", (1, 1, length), (kernel,), (stride,), (dilation,))
    value = np.random.default_rng(0).standard_normal(op.input_shape, np.float32)
    taken = np.lib.stride_tricks.sliding_window_view(value, (kernel - 1) * dilation + 1, axis=2)
    wanted = taken[:, :, ::stride, ::dilation]
    np.testing.assert_array_equal(computed(op, value, name), wanted.max(-1))
    average = replace(op, operator="average")
    np.testing.assert_allclose(computed(average, value, name), wanted.mean(-1, dtype=np.float64), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_windows_of_three_axes_larger_than_a_tile(name: str) -> None:
    op = Pool("max", (1, 2, 33, 23, 26), (30, 20, 25), (2, 1, 1), pads=(4, 3, 2, 1, 0, 5))
    value = np.random.default_rng(0).standard_normal(op.input_shape, np.float32)
    filled = np.pad(value, ((0, 0), (0, 0), (4, 1), (3, 0), (2, 5)), constant_values=-np.inf)
    wanted = np.lib.stride_tricks.sliding_window_view(filled, op.kernel, (2, 3, 4))[:, :, ::2].max((-3, -2, -1))
    for prefer in ("cost", "column"):
        np.testing.assert_array_equal(computed(op, value, name, prefer), wanted)
    note = lower(op, Place(), target=name, prefer="column").note
    assert "windows of 26×17×23 do not fit one tile and are folded axis by axis" in note


@pytest.mark.parametrize("name", NAMES)
def test_windows_that_skip_both_ways(name: str) -> None:
    op = Pool("max", (2, 3, 11, 12), (3, 2), (2, 2), (2, 2))
    value = np.random.default_rng(1).normal(size=op.input_shape).astype(np.float32)
    np.testing.assert_array_equal(computed(op, value, name), pooled(op, value).astype(np.float32))
    assert "taken out" in PtoTarget(name).lower(op, Place()).note


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("op", "most"),
    [
        (Pool("max", (1, 24, 112, 112), (3, 3), (2, 2), pads=(1, 1, 1, 1)), 300),
        (Pool("average", (1, 136, 28, 28), (3, 3), (2, 2), pads=(1, 1, 1, 1)), 120),
        (Pool("max", (1, 192, 28, 28), (3, 3), pads=(1, 1, 1, 1)), 300),
    ],
)
def test_tiles_of_pools_hold_many_windows(name: str, op: Pool, most: int) -> None:
    code = PtoTarget(name).lower(op, Place())
    assert code.bundles <= most
    small = Pool(op.operator, (1, 3, 11, 12), op.kernel, op.strides, pads=op.pads)
    value = np.random.default_rng(5).normal(size=small.input_shape).astype(np.float32)
    np.testing.assert_allclose(computed(small, value, name), pooled(small, value), rtol=1e-5, atol=1e-6)


def test_maps_larger_than_a_tile_are_averaged_with_their_edges() -> None:
    op = Pool("average", (1, 40, 30, 31), (3, 3), (1, 1), pads=(1, 1, 1, 1))
    value = np.random.default_rng(2).normal(size=op.input_shape).astype(np.float32)
    np.testing.assert_allclose(computed(op, value, "a2a3"), pooled(op, value), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("operator", ["max", "average"])
def test_windows_copied_in_parts_give_the_same(operator: str, monkeypatch: pytest.MonkeyPatch) -> None:
    op = Pool(operator, (1, 1, 100, 100), (6, 8), (3, 3), dilations=(3, 3), pads=(2, 3, 2, 3))
    value = np.random.default_rng(4).normal(size=op.input_shape).astype(np.float32)
    for most in (1, 100_000):
        monkeypatch.setattr(plan, "_PART", most)
        assert any(len(list(stage.parts())) > 1 for stage in lower(op, target="cpu").stages)
        np.testing.assert_allclose(computed(op, value, "cpu"), pooled(op, value), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_averages_of_many_small_maps(name: str) -> None:
    op = Pool("average", (3, 300, 2, 9), (1, 3), (1, 1), pads=(0, 1, 0, 0), count_include_pad=True)
    value = np.random.default_rng(7).normal(size=op.input_shape).astype(np.float32)
    np.testing.assert_allclose(computed(op, value, name), pooled(op, value), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", ["float16", "float32", "int32", "int16", "int8", "uint8", "uint16", "uint32"])
@pytest.mark.parametrize("operator", ["max", "add"])
def test_types_are_those_of_the_table(name: str, dtype: str, operator: str) -> None:
    op = Reduce(operator, (4, 5, 6), (2,), dtype=dtype)
    short = {"float16": "f16", "float32": "f32"}.get(dtype, dtype.replace("uint", "u").replace("int", "i"))
    ending = {"max": "MAX", "add": "SUM"}[operator]
    legal = (short, short) in OPERATIONS[f"TROW{ending}"].support[name].types
    value = np.random.default_rng(3).integers(0, 9, op.input_shape).astype(dtype)
    if legal:
        wanted = FOLDS[operator](value, axis=2, keepdims=True)
        np.testing.assert_array_equal(computed(op, value, name), wanted.astype(dtype))
        return
    with pytest.raises(LanefoldError) as caught:
        PtoTarget(name).lower(op, Place())
    (finding,) = caught.value.diagnostics
    assert finding.code == "PTO-LOWER-DTYPE"
    assert dtype in finding.got
    assert "cast" in finding.cures[0].text


@pytest.mark.parametrize(
    ("op", "code"),
    [
        (Reduce("add", (4, 5), (1,), element="abs"), "PTO-LOWER-ELEMENT"),
        (Pool("add", (1, 1, 4, 4), (2, 2), element="square"), "PTO-LOWER-ELEMENT"),
        (Reduce("bitwise_or", (4, 5), (1,), dtype="int32"), "PTO-LOWER-OP"),
        (Iota((4, 5), (1, 2)), "PTO-LOWER-OP"),
        (Gather((4, 5), (3,)), "PTO-LOWER-OP"),
        (Reduce("average", (4, 5), (1,), dtype="int32"), "PTO-LOWER-DTYPE"),
    ],
)
def test_what_tiles_cannot_do_is_refused(op: Any, code: str) -> None:
    for name in NAMES:
        with pytest.raises(LanefoldError) as caught:
            PtoTarget(name).lower(op, Place(node="n"))
        (finding,) = caught.value.diagnostics
        assert (finding.code, finding.place.node) == (code, "n")
        (candidate,) = PtoTarget(name).routes(op, Place())
        assert candidate.code is None
        assert candidate.against[0].code == code


@pytest.mark.parametrize(
    ("dtype", "operator", "cure"),
    [
        ("uint16", "add", "cast the tensor to int32 first, which holds every uint16"),
        ("uint8", "max", "cast the tensor to int16 first, which holds every uint8"),
        ("bfloat16", "add", "cast the tensor to float32 first, which holds every bfloat16"),
        ("uint32", "add", "cast the tensor to int32 first, if its values allow it"),
        ("int32", "average", "cast the tensor to float32 first, if its values allow it"),
        ("int16", "average", "cast the tensor to float32 first, which holds every int16"),
    ],
)
def test_types_to_cast_to(dtype: str, operator: str, cure: str) -> None:
    with pytest.raises(LanefoldError) as caught:
        PtoTarget("a2a3").lower(Reduce(operator, (4, 5), (1,), dtype=dtype), Place())
    assert caught.value.diagnostics[0].cures[0].text == cure


def test_an_unknown_preference_is_refused() -> None:
    with pytest.raises(LanefoldError) as caught:
        lower(Reduce("add", (4, 5), (1,)), prefer="free-axis")
    assert caught.value.usage
    assert caught.value.diagnostics[0].code == "PTO-LOWER-PREFER"


def test_routes_show_both_ways_of_the_last_axis() -> None:
    op = Pool("max", (1, 2, 8, 8), (2, 2))
    found = PtoTarget("a2a3").routes(op, Place())
    assert {each.name for each in found} == {"TCOLMAX + TROWMAX", "TCOLMAX"} or len(found) == 1
    chosen = [each for each in found if each.chosen]
    assert len(chosen) == 1
    assert chosen[0].cycles[1] == min(each.cycles[1] for each in found)


def test_prices() -> None:
    op = Reduce("add", (100, 64), (1,))
    assert PtoTarget("cpu").lower(op, Place()).cost() == []
    (row,) = PtoTarget("a2a3").lower(op, Place()).cost()
    assert 0 < row.low <= row.high
    assert row.model == "calibrated"
    assert row.rule
    (unknown,) = PtoTarget("a5").lower(op, Place()).cost()
    assert (unknown.low, unknown.validity) == (0, "unknown")
    assert unknown.to_dict()["high"] is None
    with pytest.raises(LanefoldError):
        PtoTarget("cpu").lower(op, Place()).cost("calibrated")


@given(st.integers(1, 5000), st.integers(0, 1200))
def test_pieces_are_even(extent: int, limit: int) -> None:
    size = even(extent, limit)
    pieces = View("t", (extent, 3), (3, 1)).split(-2, size)
    assert size <= max(limit, 1)
    assert len(pieces) <= 2
    assert sum(piece.tiles * piece.shape[-2] for piece in pieces) == extent
    flat = np.arange(extent * 3)
    np.testing.assert_array_equal(np.concatenate([piece.of(flat).reshape(-1, 3) for piece in pieces]).reshape(-1), flat)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((3, 1000), (1,)),
        ((200, 17), (-1,)),
        ((2, 10, 5), (1,)),
        ((2, 3, 700), (1,)),
        ((7,), (0,)),
        ((2, 3, 4, 5), (1, 2)),
        ((2, 1500), (1,)),
        ((2, 1500, 3), (1,)),
        ((1, 1), (0, 1)),
    ],
)
def test_softmax(name: str, dtype: str, shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    value = (np.random.default_rng(4).normal(size=shape) * 5).astype(dtype)
    wide = value.astype(np.float64)
    powers = np.exp(wide - wide.max(axes, keepdims=True))
    bound = 1e-5 if dtype == "float32" else 5e-3
    found = computed(Softmax(shape, axes, dtype), value, name)
    np.testing.assert_allclose(found, powers / powers.sum(axes, keepdims=True), rtol=0, atol=bound)


@pytest.mark.parametrize(
    ("op", "code"),
    [
        (Softmax((2, 50_000)), "PTO-LOWER-SOFTMAX"),
        (Softmax((2, 3, 4), (0, 2)), "PTO-LOWER-SOFTMAX-AXES"),
        (Softmax((2, 30), dtype="bfloat16"), "PTO-LOWER-DTYPE"),
    ],
)
def test_softmax_that_tiles_cannot_hold_is_refused(op: Softmax, code: str) -> None:
    for name in NAMES:
        with pytest.raises(LanefoldError) as caught:
            PtoTarget(name).lower(op, Place())
        assert caught.value.diagnostics[0].code == code


def test_softmax_takes_floats_only() -> None:
    with pytest.raises(LanefoldError) as caught:
        Softmax((2, 3), dtype="int32")
    assert caught.value.diagnostics[0].code == "OP-DTYPE"
