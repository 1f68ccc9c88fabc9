"""A slow model of casts, operators and folds on single numbers, written from the documents alone."""

from __future__ import annotations

import itertools
import math
import struct
from fractions import Fraction

import numpy as np

INTEGERS = {f"{sign}int{bits}": (sign == "", bits) for sign in ("", "u") for bits in (8, 16, 32, 64)}
# exponent bits, fraction bits, whether the top exponent holds infinities and NaN as IEEE has it
FLOATS = {
    "float16": (5, 10, True),
    "bfloat16": (8, 7, True),
    "float8e3": (3, 4, True),
    "float8e4": (4, 3, True),
    "float8_e4m3fn": (4, 3, False),
    "float8e5": (5, 2, True),
    "float32": (8, 23, True),
}
NAN_CODES = {
    "float16": 0x7E00,
    "bfloat16": 0x7FC0,
    "float8e3": 0x78,
    "float8e4": 0x7C,
    "float8_e4m3fn": 0x7F,
    "float8e5": 0x7E,
}
SIZES = {**{name: bits // 8 for name, (_, bits) in INTEGERS.items()}, **dict.fromkeys(FLOATS, 1)}
SIZES |= {"float16": 2, "bfloat16": 2, "float32": 4, "float32r": 4}


def f32(bits: int) -> float:
    return struct.unpack("<f", struct.pack("<I", bits))[0]


def bits32(value: float) -> int:
    return struct.unpack("<I", struct.pack("<f", value))[0]


def decode(code: int, name: str) -> float | int:
    """The number that a code stands for."""
    if name in INTEGERS:
        signed, bits = INTEGERS[name]
        return code - (1 << bits) if signed and code >> (bits - 1) else code
    exponent_bits, fraction_bits, ieee = FLOATS["float32" if name == "float32r" else name]
    bias = (1 << (exponent_bits - 1)) - 1
    fraction = code & ((1 << fraction_bits) - 1)
    exponent = (code >> fraction_bits) & ((1 << exponent_bits) - 1)
    sign = -1.0 if code >> (fraction_bits + exponent_bits) else 1.0
    if ieee and exponent == (1 << exponent_bits) - 1:
        return math.nan if fraction else sign * math.inf
    if not ieee and code & 0x7F == 0x7F:
        return math.nan
    if exponent == 0:
        return sign * fraction * 2.0 ** (1 - bias - fraction_bits)
    return sign * (1 + fraction / 2**fraction_bits) * 2.0 ** (exponent - bias)


def nearest_float32(number: int) -> np.float32:
    """An integer rounded to float32, ties to even, without trusting any float conversion."""
    size = abs(number)
    extra = max(size.bit_length() - 24, 0)
    kept, rest, half = size >> extra, size & ((1 << extra) - 1), 1 << extra >> 1
    if extra and (rest > half or (rest == half and kept & 1)):
        kept += 1
    return np.float32(math.copysign(math.ldexp(kept, extra), number))


def widen(code: int, name: str) -> np.float32:
    number = decode(code, name)
    return nearest_float32(number) if isinstance(number, int) else np.float32(number)


def round_half_even(number: Fraction) -> int:
    return round(number)


def narrow(value: float, name: str, saturate: bool = True) -> int:
    """The code that a float32 value is written as."""
    if name == "float32":
        return bits32(value)
    negative = math.copysign(1.0, value) < 0
    if name in INTEGERS:
        signed, bits = INTEGERS[name]
        low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
        if math.isnan(value) or math.isinf(value):
            number = low if negative else high
        else:
            number = min(max(round_half_even(Fraction(value)), low), high)
        return number % (1 << bits)
    if math.isnan(value):
        return 0x7FC00000 if name == "float32r" else NAN_CODES[name]
    exponent_bits, fraction_bits, ieee = (8, 11, True) if name == "float32r" else FLOATS[name]
    shift = 12 if name == "float32r" else 0
    bias = (1 << (exponent_bits - 1)) - 1
    sign = int(negative) << (exponent_bits + fraction_bits)
    infinity = ((1 << exponent_bits) - 1) << fraction_bits if ieee else 0x7F
    if math.isinf(value):
        code = infinity
    else:
        size = Fraction(abs(value))
        exponent = max(math.frexp(abs(value))[1] - 1, 1 - bias) if value else 1 - bias
        units = round_half_even(size / Fraction(2) ** (exponent - fraction_bits))
        code = min(units + ((exponent - 1 + bias) << fraction_bits), infinity)
    if code == infinity:
        if saturate and name.startswith("float8"):
            code = infinity - 1
        elif not ieee:
            return infinity
    return (sign | code) << shift


def offsets(nums, steps):
    """Positions of a pattern in its order, dim 0 fastest."""
    walks = [range(num) for num in reversed(nums)]
    for index in itertools.product(*walks):
        yield sum(i * step for i, step in zip(reversed(index), steps, strict=True))


def _is(flag: bool) -> np.float32:
    return np.float32(1.0 if flag else 0.0)


def _skip_nan(a, x, better):
    if np.isnan(a):
        return x
    return x if better(x, a) else a


FLOAT_OPERATORS = {
    "bypass": lambda a, x: a,
    "add": lambda a, x: a + x,
    "subtract": lambda a, x: a - x,
    "mult": lambda a, x: a * x,
    "divide": lambda a, x: a / x,
    "max": lambda a, x: _skip_nan(a, x, lambda u, v: u > v),
    "min": lambda a, x: _skip_nan(a, x, lambda u, v: u < v),
    "logical_and": lambda a, x: _is(a != 0 and x != 0),
    "logical_or": lambda a, x: _is(a != 0 or x != 0),
    "logical_xor": lambda a, x: _is((a != 0) != (x != 0)),
    "is_equal": lambda a, x: _is(a == x),
    "not_equal": lambda a, x: _is(a != x),
    "is_gt": lambda a, x: _is(a > x),
    "is_ge": lambda a, x: _is(a >= x),
    "is_lt": lambda a, x: _is(a < x),
    "is_le": lambda a, x: _is(a <= x),
    "pow": lambda a, x: np.power(a, x),
    "rsqrt": lambda a, x: np.float32(1) / np.sqrt(a),
    "abs": lambda a, x: np.abs(a),
    "abs_max": lambda a, x: _skip_nan(np.abs(a), np.abs(x), lambda u, v: u > v),
    "abs_min": lambda a, x: _skip_nan(np.abs(a), np.abs(x), lambda u, v: u < v),
}


def fit(number: int, saturate: bool) -> int:
    if saturate:
        return min(max(number, -(2**31)), 2**31 - 1)
    return (number + 2**31) % 2**32 - 2**31


def quotient(a: int, x: int) -> int:
    return 0 if x == 0 else math.trunc(Fraction(a, x))


WHOLE_OPERATORS = {
    "bypass": lambda a, x, s: a,
    "add": lambda a, x, s: fit(a + x, s),
    "subtract": lambda a, x, s: fit(a - x, s),
    "mult": lambda a, x, s: fit(a * x, s),
    "divide": lambda a, x, s: fit(quotient(a, x), False),
    "max": lambda a, x, s: max(a, x),
    "min": lambda a, x, s: min(a, x),
    "logical_and": lambda a, x, s: int(a != 0 and x != 0),
    "logical_or": lambda a, x, s: int(a != 0 or x != 0),
    "logical_xor": lambda a, x, s: int((a != 0) != (x != 0)),
    "is_equal": lambda a, x, s: int(a == x),
    "not_equal": lambda a, x, s: int(a != x),
    "is_gt": lambda a, x, s: int(a > x),
    "is_ge": lambda a, x, s: int(a >= x),
    "is_lt": lambda a, x, s: int(a < x),
    "is_le": lambda a, x, s: int(a <= x),
    "mod": lambda a, x, s: int(math.fmod(a, x)) if x else 0,
    "mod_int": lambda a, x, s: int(math.fmod(a, x)) if x else 0,
    "abs": lambda a, x, s: fit(abs(a), s),
    "abs_max": lambda a, x, s: max(fit(abs(a), s), fit(abs(x), s)),
    "abs_min": lambda a, x, s: min(fit(abs(a), s), fit(abs(x), s)),
}


def _signed(code: int, bits: int) -> int:
    return code - (1 << bits) if code >> (bits - 1) else code


def bit_operator(name: str, a: int, x: int, bits: int, signed: bool) -> int:
    """One step on raw codes of a type of that many bits."""
    mask = (1 << bits) - 1
    amount = _signed(x, bits) if signed else x
    inside = 0 <= amount < 32
    simple = {"bitwise_and": a & x, "bitwise_or": a | x, "bitwise_xor": a ^ x, "bitwise_not": a ^ mask, "bypass": a}
    if name in simple:
        return simple[name]
    if name in ("arith_shift_left", "logical_shift_left"):
        return (a << amount) & mask if inside else 0
    if name == "logical_shift_right":
        return a >> amount if inside else 0
    value = _signed(a, bits)
    return (value >> amount if inside else (-1 if value < 0 else 0)) & mask


BIT_OPERATORS = (
    "bypass",
    "bitwise_not",
    "arith_shift_left",
    "arith_shift_right",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "logical_shift_left",
    "logical_shift_right",
)
