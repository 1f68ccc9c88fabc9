"""Casts between element types: reads widen to float32, writes round once to the nearest value, ties to even."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lanefold.diagnostics import Rule
from lanefold.numerics.dtypes import Dtype


@dataclass(frozen=True, slots=True)
class FloatFormat:
    """How a float type is laid out and which codes it gives to special results.

    A value of exponent e with ``mantissa`` fraction bits is stored as the integer nearest to its significand plus
    ``(max(e, lowest) - lowest) << mantissa``; ``shift`` zero bits follow. ``largest`` is the code of the greatest
    finite value, ``overflow`` what lies beyond it, ``nan`` the code a NaN is written as, all without their sign.
    ``saturates`` tells whether the saturation switch applies to the type.
    """

    mantissa: int
    lowest: int
    largest: int
    overflow: int
    nan: int
    saturates: bool = False
    shift: int = 0
    source: str = "Compiler cast engine: CastToNewDType"
    confidence: str = "disassembly"


FORMATS: dict[str, FloatFormat] = {
    "bfloat16": FloatFormat(7, -126, 0x7F7F, 0x7F80, 0x7FC0),
    "float16": FloatFormat(10, -14, 0x7BFF, 0x7C00, 0x7E00),
    "float32r": FloatFormat(11, -126, 0x7F7FF, 0x7F800, 0x7FC00, shift=12),
    "float8e3": FloatFormat(4, -2, 0x6F, 0x70, 0x78, True, source="IEEE-like E3M4", confidence="convention"),
    "float8e4": FloatFormat(3, -6, 0x77, 0x78, 0x7C, True, source="IEEE-like E4M3", confidence="documented"),
    "float8_e4m3fn": FloatFormat(3, -6, 0x7E, 0x7F, 0x7F, True),
    "float8e5": FloatFormat(2, -14, 0x7B, 0x7C, 0x7E, True),
}
"""Float types narrower than float32, by BIR name."""

_NUMBER_RULE = Rule(
    "TPB-CAST-TYPE",
    "Arithmetic reads and writes single numbers, not packed or scale types.",
    "ISA headers: general dtype validator",
)


def require_number(dtype: Dtype) -> None:
    """Refuse element types whose elements are not single numbers.

    Raises:
        LanefoldError: TPB-CAST-TYPE for packed and scale types.
    """
    if not dtype.is_number:
        raise _NUMBER_RULE.error(
            f"{dtype.name} elements are {dtype.kind} and have no single value",
            got=dtype.name,
            allowed="integers, float8e3, float8e4, float8_e4m3fn, float8e5, bfloat16, float16, float32",
            cures=["use float8e4", "use uint8 to move the raw bytes"],
        )


def widen(elements: NDArray[Any], dtype: Dtype) -> NDArray[np.float32]:
    """Elements of a type as float32, any shape; exact but for integers beyond 2^24, which round to nearest-even.

    ``elements`` may be typed or raw unsigned integers of the same size.

    Raises:
        LanefoldError: TPB-CAST-TYPE for packed and scale types.

    Source: compiler cast engine; unified datatype model.
    """
    require_number(dtype)
    with np.errstate(invalid="ignore"):
        return np.asarray(elements.view(dtype.numpy).astype(np.float32))


def narrow(values: NDArray[np.float32], dtype: Dtype, saturate: bool = True) -> NDArray[Any]:
    """float32 values as elements of a type, any shape, in the NumPy type of ``dtype``.

    Integers round to nearest-even and clamp; a NaN becomes the bound on the side of its sign bit. ``saturate`` clamps
    8-bit floats to their greatest finite value, infinities included; without it they overflow to infinity, or to NaN
    where the type has none. NaN is written as the one code of the type.

    Raises:
        LanefoldError: TPB-CAST-TYPE for packed and scale types.

    Source: compiler cast engine, CastToNewDType.
    """
    require_number(dtype)
    values = np.asarray(values, dtype=np.float32)
    if dtype.is_integer:
        return _to_integer(values, dtype)
    if dtype.name == "float32":
        return values.copy()
    if dtype.name == "float32r":
        return _to_float32r(values)
    return _to_small_float(values, dtype, saturate)


def narrow_integers(values: NDArray[np.integer[Any]], dtype: Dtype, saturate: bool = True) -> NDArray[Any]:
    """Whole numbers as elements of a type: exact and clamped for integer types, through float32 for floats.

    Raises:
        LanefoldError: TPB-CAST-TYPE for packed and scale types.

    Source: Iota page: 32-bit integer arithmetic, then a cast.
    """
    require_number(dtype)
    if not dtype.is_integer:
        return narrow(np.asarray(values).astype(np.float32), dtype, saturate)
    bounds = np.iinfo(dtype.numpy)
    given = np.iinfo(values.dtype)
    low, high = max(bounds.min, given.min), min(bounds.max, given.max)
    return np.asarray(np.clip(values, low, high).astype(dtype.numpy))


def convert(elements: NDArray[Any], source: Dtype, target: Dtype, saturate: bool = True) -> NDArray[Any]:
    """Elements of one type as elements of another: a bit copy where the types are equal, else through float32.

    Raises:
        LanefoldError: TPB-CAST-TYPE for packed and scale types, unless both types are the same.

    Source: compiler cast engine, CastToNewDType.
    """
    if source is target:
        return elements.view(target.numpy).copy()
    return narrow(widen(elements, source), target, saturate)


def _to_integer(values: NDArray[np.float32], dtype: Dtype) -> NDArray[Any]:
    bounds = np.iinfo(dtype.numpy)
    with np.errstate(invalid="ignore"):
        rounded = np.rint(values)
    # 2^width as a float is exact, so that "at or above it" finds all that does not fit, 64-bit types included.
    above = np.ldexp(np.float64(1), bounds.bits - (1 if bounds.min else 0))
    nan = np.isnan(values)
    negative = np.signbit(values)
    high = (rounded >= above) | (nan & ~negative)
    low = (rounded < float(bounds.min)) | (nan & negative)
    out = np.where(high | low, np.float32(0), rounded).astype(dtype.numpy)
    out[high] = bounds.max
    out[low] = bounds.min
    return out


def _to_float32r(values: NDArray[np.float32]) -> NDArray[np.float32]:
    form = FORMATS["float32r"]
    bits = values.view(np.uint32)
    half = np.uint32((1 << (form.shift - 1)) - 1)
    rounded = bits + half + ((bits >> np.uint32(form.shift)) & np.uint32(1))
    kept = rounded & np.uint32(0xFFFFFFFF << form.shift & 0xFFFFFFFF)
    return np.where(np.isnan(values), np.uint32(form.nan << form.shift), kept).astype(np.uint32).view(np.float32)


def _to_small_float(values: NDArray[np.float32], dtype: Dtype, saturate: bool) -> NDArray[Any]:
    form = FORMATS[dtype.name]
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        codes = values.astype(dtype.numpy).view(dtype.raw)
    nan = np.isnan(values)
    sign = dtype.raw.type(1 << (8 * dtype.bytes - 1))
    beyond = ((codes & ~sign) >= form.overflow) & ~nan
    if saturate and form.saturates:
        codes = np.where(beyond, (codes & sign) | dtype.raw.type(form.largest), codes)
    elif form.overflow == form.nan:
        nan = nan | beyond
    return np.where(nan, dtype.raw.type(form.nan), codes).astype(dtype.raw).view(dtype.numpy)
