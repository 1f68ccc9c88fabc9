"""Compiled conversions between 16-bit floats, kept as bit patterns, and f32."""

from __future__ import annotations

import numpy as np

from lanefold.numerics.kernels.jit import inner


@inner
def bits_to_float(bits: np.uint32) -> np.float32:
    """The f32 with these bits."""
    return np.uint32(bits).view(np.float32)


@inner
def float_to_bits(value: np.float32) -> np.uint32:
    """The bits of an f32."""
    return np.float32(value).view(np.uint32)


@inner
def widen(bits: np.uint16, kind: int) -> np.float32:
    """The f32 of an f16 (kind 1) or bf16 (kind 2) bit pattern, exactly."""
    wide = np.uint32(bits)
    if kind == 2:
        return bits_to_float(np.uint32(wide << np.uint32(16)))
    size = np.uint32((wide & np.uint32(0x7FFF)) << np.uint32(13))
    scaled = float_to_bits(np.float32(bits_to_float(size) * np.float32(2.0**112)))
    special = np.uint32(size | np.uint32(0x7F800000))
    magnitude = special if size >= np.uint32(0x0F800000) else scaled
    return bits_to_float(np.uint32(magnitude | ((wide & np.uint32(0x8000)) << np.uint32(16))))


@inner
def narrow(value: np.float32, kind: int) -> np.uint16:
    """The f16 (kind 1) or bf16 (kind 2) bit pattern nearest to an f32, ties to even; NaN stays a NaN."""
    bits = float_to_bits(value)
    size = np.uint32(bits & np.uint32(0x7FFFFFFF))
    if kind == 2:
        rounded = np.uint32((bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16))
        quiet = np.uint32((bits >> np.uint32(16)) | np.uint32(0x40))
        return np.uint16(quiet if size > np.uint32(0x7F800000) else rounded)
    sign = np.uint32((bits >> np.uint32(16)) & np.uint32(0x8000))
    even = np.uint32((size >> np.uint32(13)) & np.uint32(1))
    normal = np.uint32((size - np.uint32(0x38000000) + np.uint32(0xFFF) + even) >> np.uint32(13))
    small = np.uint32(float_to_bits(np.float32(bits_to_float(size) + np.float32(0.5))) - np.uint32(0x3F000000))
    finite = small if size < np.uint32(0x38800000) else normal
    limited = np.uint32(0x7C00) if size >= np.uint32(0x477FF000) else finite
    return np.uint16(sign | (np.uint32(0x7E00) if size > np.uint32(0x7F800000) else limited))
