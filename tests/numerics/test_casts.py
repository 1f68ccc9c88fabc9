"""Casts, vectorised and compiled, against the scalar model and against ml_dtypes where the rules agree."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanefold.diagnostics import LanefoldError
from lanefold.numerics import casts, kernels
from lanefold.numerics.dtypes import DTYPES, by_name
from tests.numerics import scalar_model as model

NUMBERS = [row for row in DTYPES if row.is_number]
SMALL = [row for row in NUMBERS if row.bytes <= 2]
WIDE = [row for row in NUMBERS if row.bytes > 2]


def same(got: np.ndarray, want: np.ndarray) -> bool:
    """Bits are equal, any NaN being as good as any other."""
    both = np.isnan(got) & np.isnan(want)
    return bool(np.all((got.view(np.uint32) == want.view(np.uint32)) | both))


def awkward() -> np.ndarray:
    """float32 values around every rounding and overflow border of the small types, and random bits."""
    rng = np.random.default_rng(7)
    parts = [rng.integers(0, 2**32, 1500, dtype=np.uint32).view(np.float32)]
    for name in ("float16", "bfloat16", "float8e3", "float8e4", "float8_e4m3fn", "float8e5"):
        dtype = by_name(name)
        codes = np.arange(2 ** (8 * dtype.bytes), dtype=dtype.raw)
        if dtype.bytes == 2:
            codes = rng.choice(codes, 200)
        exact = codes.view(dtype.numpy).astype(np.float32)
        parts.append(exact)
        ordered = np.unique(exact[np.isfinite(exact)]).astype(np.float64)
        middle = ((ordered[1:] + ordered[:-1]) / 2).astype(np.float32)
        parts += [middle, np.nextafter(middle, np.float32(np.inf)), np.nextafter(middle, np.float32(-np.inf))]
    borders = [0.5, 1.5, 2.5, 127.5, 128.5, 255.5, 32767.5, 65535.5, 2**24 + 1, 2**31, 2**32, 2**63, 2**64, 1e-45]
    borders += [65519.996, 65520.0, 15.75, 248.0, 464.0, 480.0, 61440.0, 3.4e38, np.inf, np.nan, 0.0]
    near = np.array(borders, np.float32)
    both = [near, -near, np.nextafter(near, np.float32(0)), -np.nextafter(near, np.float32(0))]
    return np.concatenate(parts + both)


VALUES = awkward()


def compiled_narrow(values: np.ndarray, dtype, saturate: bool = True) -> np.ndarray:
    memory = np.zeros((1, values.size * dtype.bytes), np.uint8)
    target = kernels.Access(memory, dtype, 0, 1, 0, (values.size,), (1,))
    kernels.store(target, values[None], saturate)
    return memory.view(dtype.raw)[0]


def compiled_widen(codes: np.ndarray, dtype) -> np.ndarray:
    memory = np.ascontiguousarray(codes).view(np.uint8).reshape(1, -1)
    return kernels.load(kernels.Access(memory, dtype, 0, 1, 0, (codes.size,), (1,)))[0]


@pytest.mark.parametrize("dtype", SMALL, ids=lambda row: row.name)
def test_every_small_code_widens(dtype):
    codes = np.arange(2 ** (8 * dtype.bytes), dtype=dtype.raw)
    every = codes if dtype.bytes == 1 else codes[:: 1 if dtype.is_float else 7]
    want = np.array([model.widen(int(code), dtype.name) for code in every], np.float32)
    assert same(casts.widen(every, dtype), want)
    assert same(compiled_widen(every, dtype), want)


@pytest.mark.parametrize("dtype", WIDE, ids=lambda row: row.name)
def test_wide_codes_widen(dtype):
    rng = np.random.default_rng(3)
    codes = rng.integers(0, 2 ** (8 * dtype.bytes), 400, dtype=dtype.raw)
    edges = [0, 1, 2**24, 2**24 + 1, 2**24 + 3, 2**31 - 1, 2**31, 2**32 - 1]
    if dtype.bytes == 8:
        edges += [2**53 + 1, 2**63, 2**64 - 1, (2**24 + 1) << 20, ((2**24 + 1) << 20) + 1]
    codes = np.concatenate([codes, codes >> np.array(rng.integers(0, 30, 400), dtype.raw), np.array(edges, dtype.raw)])
    want = np.array([model.widen(int(code), dtype.name) for code in codes], np.float32)
    assert same(casts.widen(codes, dtype), want)
    assert same(compiled_widen(codes, dtype), want)


@pytest.mark.parametrize("saturate", [True, False])
@pytest.mark.parametrize("dtype", NUMBERS, ids=lambda row: row.name)
def test_writes(dtype, saturate):
    want = np.array([model.narrow(float(v), dtype.name, saturate) for v in VALUES], dtype.raw)
    got = casts.narrow(VALUES, dtype, saturate)
    assert got.dtype == dtype.numpy
    if dtype.name == "float32":
        assert np.array_equal(got.view(np.uint32), VALUES.view(np.uint32))
        want = VALUES.view(np.uint32)
    assert np.array_equal(got.view(dtype.raw), want)
    assert np.array_equal(compiled_narrow(VALUES, dtype, saturate), want)


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float8e3", "float8e4", "float8_e4m3fn", "float8e5"])
def test_writes_agree_with_ml_dtypes(name):
    # Stated exceptions: NaN codes, and what overflows where the switch saturates.
    dtype = by_name(name)
    finite = VALUES[np.isfinite(VALUES)]
    with np.errstate(over="ignore"):
        theirs = finite.astype(dtype.numpy)
    ours = casts.narrow(finite, dtype, saturate=False)
    fits = np.isfinite(theirs.astype(np.float32))
    assert np.array_equal(ours.view(dtype.raw)[fits], theirs.view(dtype.raw)[fits])
    assert fits.mean() > 0.4


@pytest.mark.parametrize("dtype", SMALL, ids=lambda row: row.name)
def test_small_codes_survive_a_round_trip(dtype):
    codes = np.arange(2 ** (8 * dtype.bytes), dtype=dtype.raw)
    values = casts.widen(codes, dtype)
    finite = np.isfinite(values)
    assert np.array_equal(casts.narrow(values, dtype).view(dtype.raw)[finite], codes[finite])
    assert np.array_equal(casts.convert(codes, dtype, dtype).view(dtype.raw), codes)


def test_nan_goes_to_the_bound_of_its_sign():
    nans = np.array([0x7FC00000, 0xFFC00000], np.uint32).view(np.float32)
    assert casts.narrow(nans, by_name("int16")).tolist() == [32767, -32768]
    assert casts.narrow(nans, by_name("uint8")).tolist() == [255, 0]
    assert casts.narrow(nans, by_name("bfloat16")).view(np.uint16).tolist() == [0x7FC0, 0x7FC0]
    assert casts.narrow(nans, by_name("float16")).view(np.uint16).tolist() == [0x7E00, 0x7E00]


def test_overflow_of_eight_bit_floats():
    big = np.array([1e30, -np.inf], np.float32)
    saturated = {"float8e3": 15.5, "float8e4": 240.0, "float8_e4m3fn": 448.0, "float8e5": 57344.0}
    for name, top in saturated.items():
        dtype = by_name(name)
        assert casts.narrow(big, dtype).astype(np.float32).tolist() == [top, -top]
        loose = casts.narrow(big, dtype, saturate=False).astype(np.float32)
        assert np.isnan(loose).all() if name == "float8_e4m3fn" else loose.tolist() == [np.inf, -np.inf]


def test_whole_numbers_are_exact_in_integer_types():
    values = np.array([-(2**31), -129, 127, 2**24 + 1, 2**31 - 1], np.int32)
    assert casts.narrow_integers(values, by_name("int32")).tolist() == values.tolist()
    assert casts.narrow_integers(values, by_name("int8")).tolist() == [-128, -128, 127, 127, 127]
    assert casts.narrow_integers(values, by_name("uint64")).tolist() == [0, 0, 127, 2**24 + 1, 2**31 - 1]
    assert casts.narrow_integers(values, by_name("float32")).tolist()[3] == 2.0**24


@pytest.mark.parametrize("name", ["float4_e2m1fn_x4", "float8_e8m0fnu", "float8_e4m3fn_x4"])
def test_packed_and_scale_types_are_refused(name):
    with pytest.raises(LanefoldError, match="TPB-CAST-TYPE"):
        casts.widen(np.zeros(4, by_name(name).raw), by_name(name))
    with pytest.raises(LanefoldError, match="cure"):
        casts.narrow(np.zeros(4, np.float32), by_name(name))


@given(st.floats(width=32), st.sampled_from([row.name for row in NUMBERS if row.name != "float32"]), st.booleans())
def test_any_value(value, name, saturate):
    dtype = by_name(name)
    got = casts.narrow(np.array([value], np.float32), dtype, saturate).view(dtype.raw)[0]
    assert int(got) == model.narrow(float(np.float32(value)), name, saturate)


def test_ml_dtypes_has_the_same_eight_bit_types():
    for name, theirs in (("float8e3", "float8_e3m4"), ("float8e4", "float8_e4m3"), ("float8e5", "float8_e5m2")):
        assert by_name(name).numpy == np.dtype(getattr(ml_dtypes, theirs))
