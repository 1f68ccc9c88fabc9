"""ALU operators: one table for the 33 BIR operators, one for the operator bytes of the wire."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from lanefold.diagnostics import Rule
from lanefold.numerics.dtypes import GENERATIONS, Generation, nearest_names


class Order(StrEnum):
    """What the order of the elements changes in a fold."""

    FREE = "free"  # nothing
    SPECIAL = "special"  # only results that are NaN or a zero's sign
    ROUNDING = "rounding"  # the rounding of floats, and saturating integers
    STRICT = "strict"  # the value itself


@dataclass(frozen=True, slots=True)
class WireAlu:
    """One operator byte of the wire.

    The flags name the operator classes of the ISA headers: ``bitvec`` raw bits, ``general_arith`` what
    a tensor reduce may use, ``integer`` exact integers on the Pool engine. ``since`` is the first generation with
    this byte, ``"v5"`` being later than all that are supported here.
    """

    code: int
    name: str
    bitvec: bool = False
    general_arith: bool = False
    integer: bool = False
    since: str = "v2"
    source: str = "ISA headers: ALU_OP"
    confidence: str = "header"

    def exists(self, generation: Generation) -> bool:
        """Whether a generation knows this byte."""
        return self.since in GENERATIONS[: GENERATIONS.index(generation) + 1]


def _bits(code: int, name: str) -> WireAlu:
    return WireAlu(code, name, bitvec=True)


def _fold(code: int, name: str, since: str = "v2") -> WireAlu:
    return WireAlu(code, name, general_arith=True, since=since)


def _integers(first: int, names: str, since: str = "v3") -> tuple[WireAlu, ...]:
    return tuple(WireAlu(first + i, name, integer=True, since=since) for i, name in enumerate(names.split()))


WIRE_ALU: tuple[WireAlu, ...] = (
    WireAlu(0x00, "BYPASS", bitvec=True, general_arith=True),
    _bits(0x01, "BITWISE_NOT"),
    _bits(0x02, "ARITH_SHIFT_LEFT"),
    _bits(0x03, "ARITH_SHIFT_RIGHT"),
    _fold(0x04, "ADD"),
    _fold(0x05, "SUBTRACT"),
    _fold(0x06, "MULT"),
    WireAlu(0x07, "DIVIDE"),
    _fold(0x08, "MAX"),
    _fold(0x09, "MIN"),
    _bits(0x0A, "BITWISE_AND"),
    _bits(0x0B, "BITWISE_OR"),
    _bits(0x0C, "BITWISE_XOR"),
    _fold(0x0D, "LOGICAL_AND"),
    _fold(0x0E, "LOGICAL_OR"),
    _fold(0x0F, "LOGICAL_XOR"),
    _bits(0x10, "LOGICAL_SHIFT_LEFT"),
    _bits(0x11, "LOGICAL_SHIFT_RIGHT"),
    _fold(0x12, "IS_EQ"),
    _fold(0x13, "IS_GT"),
    _fold(0x14, "IS_GE"),
    _fold(0x15, "IS_LE"),
    _fold(0x16, "IS_LT"),
    _fold(0x17, "ABSOLUTE_DIFF"),
    _fold(0x18, "IS_NE"),
    _fold(0x19, "ABSOLUTE_VALUE"),
    WireAlu(0x1A, "POW"),
    WireAlu(0x1B, "MOD", integer=True),
    _bits(0x1C, "CRC32"),
    WireAlu(0x1D, "RSQRT"),
    _fold(0x20, "ABS_MAX", "v4"),
    _fold(0x21, "ABS_MIN", "v4"),
    _fold(0x22, "RE_LU", "v4"),
    _fold(0x23, "SQUARE", "v4"),
    WireAlu(0x24, "SYMMETRIC_CLAMP", since="v5"),
    WireAlu(0xC4, "ADD_INT", integer=True),
    WireAlu(0xC5, "MULT_INT", integer=True),
    WireAlu(0xC6, "SUBTRACT_INT", integer=True),
    WireAlu(0xC7, "DIVIDE_INT", integer=True, since="v3"),
    WireAlu(0xC8, "MOD_INT", integer=True, since="v3"),
    *_integers(0xC9, "IS_EQUAL_INT IS_NE_INT ABS_MAX_INT ABS_MIN_INT ABS_DIFF_INT"),
    WireAlu(0xCE, "ABS_VALUE_INT", since="v3"),
    *_integers(0xCF, "MAX_INT MIN_INT IS_GT_INT IS_GE_INT IS_LE_INT IS_LT_INT MAX_UINT MIN_UINT"),
    *_integers(0xD7, "IS_GT_UINT IS_GE_UINT IS_LE_UINT IS_LT_UINT MULT_UINT DIVIDE_UINT MOD_UINT"),
    WireAlu(0xDE, "AMAX_INT", since="v3"),
    WireAlu(0xDF, "AMIN_INT", since="v3"),
    WireAlu(0xE0, "AMAX_UINT", since="v3"),
    WireAlu(0xE1, "AMIN_UINT", since="v3"),
)
"""The operator bytes of the wire by code; those that no BIR operator reaches are here for decoding."""


@dataclass(frozen=True, slots=True)
class AluOp:
    """One BIR operator; ``a`` is the running value, ``x`` the next element, truth is 1 and 0.

    ``wire`` is the operator byte per generation, ``None`` where the encoder of that generation makes none. ``fp32``,
    ``int32`` and ``bits`` say what a step computes on each path, ``""`` where the path has no such operator;
    ``identity`` is a value that changes nothing in fp32, ``None`` where there is none. ``bitvec`` operators move
    through the bit-vector opcodes. Unary operators ignore ``x``.
    """

    ordinal: int
    name: str
    wire: tuple[int | None, int | None, int | None]
    fp32: str
    int32: str = ""
    bits: str = ""
    identity: float | None = None
    order: Order = Order.STRICT
    bitvec: bool = False
    note: str = ""
    source: str = "AluOpType table; BIR simulator: reduce operators"
    confidence: str = "disassembly"

    def byte(self, generation: Generation) -> int | None:
        """Operator byte on the wire, ``None`` where that generation's encoder makes none."""
        return self.wire[GENERATIONS.index(generation)]

    def general_arith(self, generation: Generation) -> bool:
        """Whether the headers of a generation let an arithmetic tensor reduce fold with it."""
        byte = self.byte(generation)
        return byte is not None and _BY_CODE[byte].general_arith


def _all(byte: int) -> tuple[int, int, int]:
    return (byte, byte, byte)


_NONE = (None, None, None)
_SHIFT = "left for x in 0..31, else 0"
_FREE, _SPECIAL, _ROUNDING = Order.FREE, Order.SPECIAL, Order.ROUNDING
_BOUNDS = "saturates (birsim) or wraps (device)"
_NAN = "a NaN is skipped; ties keep a"

ALU_OPS: tuple[AluOp, ...] = (
    AluOp(0, "bypass", _all(0x00), "a", "a", "a"),
    AluOp(1, "bitwise_not", _all(0x01), "", "~a", "~a", bitvec=True),
    AluOp(2, "arith_shift_left", _all(0x02), "", f"a << x; {_SHIFT}", f"a << x; {_SHIFT}", bitvec=True),
    AluOp(
        3,
        "arith_shift_right",
        _all(0x03),
        "",
        "a >> x keeping the sign; sign fill outside 0..31",
        "a >> x keeping the sign; sign fill outside 0..31",
        bitvec=True,
        note="on unsigned types the top bit of the element is the sign",
    ),
    AluOp(4, "add", _all(0x04), "a + x", f"a + x, {_BOUNDS}", "", 0.0, _ROUNDING),
    AluOp(5, "subtract", _all(0x05), "a - x", f"a - x, {_BOUNDS}"),
    AluOp(6, "mult", _all(0x06), "a * x", f"a * x, {_BOUNDS}", "", 1.0, _ROUNDING, note="0 * Inf is NaN"),
    AluOp(
        7,
        "divide",
        _all(0x07),
        "a / x",
        "quotient towards zero; 0 where x = 0",
        note="no hardware form as a reduction",
    ),
    AluOp(8, "max", _all(0x08), "the larger", "the larger", "", -math.inf, _SPECIAL, note=_NAN),
    AluOp(9, "min", _all(0x09), "the smaller", "the smaller", "", math.inf, _SPECIAL, note=_NAN),
    AluOp(10, "bitwise_and", _all(0x0A), "", "a & x", "a & x", order=_FREE, bitvec=True),
    AluOp(11, "bitwise_or", _all(0x0B), "", "a | x", "a | x", order=_FREE, bitvec=True),
    AluOp(12, "bitwise_xor", _all(0x0C), "", "a ^ x", "a ^ x", order=_FREE, bitvec=True),
    AluOp(13, "logical_and", _all(0x0D), "a != 0 and x != 0", "the same", "", None, _FREE, note="NaN is true"),
    AluOp(14, "logical_or", _all(0x0E), "a != 0 or x != 0", "the same", "", None, _FREE, note="NaN is true"),
    AluOp(15, "logical_xor", _all(0x0F), "one of a, x is != 0", "the same", "", None, _FREE, note="NaN is true"),
    AluOp(16, "logical_shift_left", _all(0x10), "", f"a << x; {_SHIFT}", f"a << x; {_SHIFT}", bitvec=True),
    AluOp(
        17,
        "logical_shift_right",
        _all(0x11),
        "",
        "a >> x with zero fill; 0 outside 0..31",
        "a >> x with zero fill; 0 outside 0..31",
        bitvec=True,
    ),
    AluOp(18, "is_equal", _all(0x12), "a = x", "a = x", note="0 with a NaN"),
    AluOp(19, "not_equal", _all(0x18), "a != x", "a != x", note="1 with a NaN"),
    AluOp(20, "is_gt", _all(0x13), "a > x", "a > x", note="0 with a NaN"),
    AluOp(21, "is_ge", _all(0x14), "a >= x", "a >= x", note="0 with a NaN"),
    AluOp(22, "is_lt", _all(0x16), "a < x", "a < x", note="0 with a NaN"),
    AluOp(23, "is_le", _all(0x15), "a <= x", "a <= x", note="0 with a NaN"),
    AluOp(
        24,
        "average",
        _NONE,
        "a + x * (1/N), starting from first / N",
        order=_ROUNDING,
        note="no operator byte; the cross-lane command multiplies each element by scale, then adds",
    ),
    AluOp(25, "elemwise_mul", _NONE, "", note="no operator byte and no reduction"),
    AluOp(26, "pow", _all(0x1A), "powf(a, x)", note="no legal reduction"),
    AluOp(27, "mod", _all(0x1B), "", "remainder with the sign of a; 0 where x = 0", note="integers on the device only"),
    AluOp(28, "rsqrt", _all(0x1D), "1 / sqrt(a)", note="NaN below 0; a zero gives an infinity"),
    AluOp(29, "abs", _all(0x19), "|a|", f"|a|, {_BOUNDS}"),
    AluOp(
        30,
        "abs_max",
        (None, None, 0x20),
        "max(|a|, |x|)",
        f"max(|a|, |x|), {_BOUNDS}",
        "",
        0.0,
        _SPECIAL,
        note=_NAN,
    ),
    AluOp(
        31,
        "abs_min",
        (None, None, 0x21),
        "min(|a|, |x|)",
        f"min(|a|, |x|), {_BOUNDS}",
        "",
        math.inf,
        _SPECIAL,
        note=_NAN,
    ),
    AluOp(
        32,
        "mod_int",
        (None, None, 0xC8),
        "",
        "remainder with the sign of a; 0 where x = 0",
        note="the byte exists from v3 on, the encoder makes it from v4 on",
    ),
)
"""The BIR operators by ordinal."""

_NAME_RULE = Rule("TPB-ALU-NAME", "Operators are named as BIR names them.", "AluOpType table", usage=True)
_CODE_RULE = Rule("TPB-ALU-CODE", "An operator byte is one that the generation knows.", "ISA headers: ALU_OP")

_BY_NAME = {row.name: row for row in ALU_OPS}
_BY_CODE = {row.code: row for row in WIRE_ALU}
_BY_BYTE = {byte: row for row in ALU_OPS for byte in row.wire if byte is not None}


def by_name(name: str) -> AluOp:
    """The operator with a BIR name.

    Raises:
        LanefoldError: TPB-ALU-NAME for any other name; it suggests the nearest.
    """
    row = _BY_NAME.get(name)
    if row is None:
        raise _NAME_RULE.error(
            f"{name!r} is no BIR operator",
            got=repr(name),
            allowed=", ".join(_BY_NAME),
            cures=[f"write {other}" for other in nearest_names(str(name), list(_BY_NAME))],
        )
    return row


def wire_alu(code: int, generation: Generation) -> WireAlu:
    """The row of an operator byte.

    Raises:
        LanefoldError: TPB-ALU-CODE if the generation has no such byte.
    """
    row = _BY_CODE.get(int(code))
    if row is None or not row.exists(generation):
        known = [f"0x{r.code:02X} {r.name}" for r in WIRE_ALU if r.exists(generation)]
        raise _CODE_RULE.error(
            f"operator byte 0x{int(code):02X} means nothing on {generation}",
            got=f"0x{int(code):02X}",
            allowed=", ".join(known),
            cures=["use 0x04, ADD"],
        )
    return row


def by_byte(code: int) -> AluOp | None:
    """The BIR operator that an operator byte stands for, in any generation; ``None`` where no BIR operator does."""
    return _BY_BYTE.get(int(code))
