"""Element types: one table for the 20 BIR types, their tags on the wire and their NumPy types."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

from lanefold.diagnostics import Rule

if TYPE_CHECKING:
    import numpy as np

Generation = Literal["v2", "v3", "v4"]
GENERATIONS: tuple[Generation, ...] = ("v2", "v3", "v4")


class Kind(StrEnum):
    """What the bits of an element stand for."""

    UNSIGNED = "unsigned"
    SIGNED = "signed"
    FLOAT = "float"
    PACKED = "packed"  # four small floats in one element
    SCALE = "scale"  # a power of two, moved as a raw byte


@dataclass(frozen=True, slots=True)
class WireDtype:
    """One tag of the wire's dtype enumeration.

    ``canonical`` is the BIR type a decoder reports, ``""`` where there is none; several BIR types may share a tag.
    ``alignment`` is the number of bytes that start addresses are multiples of.
    """

    tag: int
    name: str
    canonical: str
    alignment: int
    since: Generation = "v2"
    note: str = ""
    source: str = "ISA headers: DTYPE; ADDR4 alignment table"
    confidence: str = "header"


# Tag 14: the header calls it FP8_EXP4 and the public documents describe it as the IEEE-like form (top 240); the OCP
# form (top 448) came with v4 under the same tag. Worked bundles that carry tag 14 all come from float8e4.
WIRE_DTYPES: tuple[WireDtype, ...] = (
    WireDtype(1, "UINT64", "uint64", 8),
    WireDtype(2, "INT8", "int8", 1),
    WireDtype(3, "UINT8", "uint8", 1, note="also carries float8_e8m0fnu"),
    WireDtype(4, "INT16", "int16", 2),
    WireDtype(5, "UINT16", "uint16", 2, note="also carries float4_e2m1fn_x4 before v4"),
    WireDtype(6, "BFLOAT16", "bfloat16", 2),
    WireDtype(7, "FP16", "float16", 2),
    WireDtype(8, "INT32", "int32", 4),
    WireDtype(9, "UINT32", "uint32", 4),
    WireDtype(10, "FP32", "float32", 4),
    WireDtype(11, "FP32R", "float32r", 4),
    WireDtype(12, "INT64", "int64", 8),
    WireDtype(13, "FP8_EXP3", "float8e3", 1),
    WireDtype(14, "FP8_EXP4", "float8e4", 1, note="also carries float8_e4m3fn and float8_e4m3fn_x4"),
    WireDtype(15, "FP8_EXP5", "float8e5", 1, note="also carries float8_e5m2_x4"),
    WireDtype(16, "FP4_EXP2", "float4_e2m1fn_x4", 1, since="v4"),
)
"""Tags that BIR types reach, by tag; 0 is INVALID in every generation."""


@dataclass(frozen=True)
class Dtype:
    """One BIR element type.

    ``bytes`` is the size in memory; ``tags`` the wire tag per generation; ``mantissa`` the stored fraction bits and
    ``exponent`` the exponent bits of floats, 0 elsewhere; ``largest`` the greatest finite value, 0 where elements
    are no numbers; ``numpy_name`` the name of the type in NumPy or ml_dtypes, or that of the raw bytes where neither
    has it.
    """

    ordinal: int
    name: str
    bytes: int
    kind: Kind
    tags: tuple[int, int, int]
    numpy_name: str
    largest: int | float = 0
    exponent: int = 0
    mantissa: int = 0
    note: str = ""
    source: str = "BIR dtype table; ISA headers: DTYPE"
    confidence: str = "header"

    @property
    def is_integer(self) -> bool:
        """Whether elements are whole numbers."""
        return self.kind in (Kind.SIGNED, Kind.UNSIGNED)

    @property
    def is_float(self) -> bool:
        """Whether elements are single floating-point numbers."""
        return self.kind is Kind.FLOAT

    @property
    def is_number(self) -> bool:
        """Whether an element is one number, which is what arithmetic needs."""
        return self.kind in (Kind.SIGNED, Kind.UNSIGNED, Kind.FLOAT)

    def tag(self, generation: Generation) -> int:
        """Wire tag of this type; source: ISA headers, DTYPE."""
        return self.tags[GENERATIONS.index(generation)]

    def alignment(self, generation: Generation = "v2") -> int:
        """Bytes that the start address of an access is a multiple of; source: ADDR4 alignment table."""
        return wire_dtype(self.tag(generation)).alignment

    @cached_property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy type of the elements; ml_dtypes is imported on first use only."""
        import numpy as np

        if hasattr(np, self.numpy_name):
            return np.dtype(self.numpy_name)
        small: np.dtype[Any] = np.dtype(getattr(import_module("ml_dtypes"), self.numpy_name))
        return small

    @cached_property
    def raw(self) -> np.dtype[Any]:
        """The unsigned NumPy integer of the same size, for moving bits."""
        import numpy as np

        return np.dtype(f"u{self.bytes}")


_U, _S, _F, _P = Kind.UNSIGNED, Kind.SIGNED, Kind.FLOAT, Kind.PACKED

DTYPES: tuple[Dtype, ...] = (
    Dtype(0, "uint8", 1, _U, (3, 3, 3), "uint8", 2**8 - 1),
    Dtype(1, "int8", 1, _S, (2, 2, 2), "int8", 2**7 - 1),
    Dtype(
        2,
        "float4_e2m1fn_x4",
        2,
        _P,
        (5, 5, 16),
        "uint16",
        note="four fp4 values; rides as UINT16 before v4",
        confidence="inferred",
    ),
    Dtype(
        3,
        "float8e3",
        1,
        _F,
        (13, 13, 13),
        "float8_e3m4",
        15.5,
        3,
        4,
        note="taken as IEEE-like with bias 3; special values are not published",
        confidence="convention",
    ),
    Dtype(4, "float8e4", 1, _F, (14, 14, 14), "float8_e4m3", 240.0, 4, 3, note="IEEE-like: has infinities"),
    Dtype(
        5,
        "float8_e4m3fn",
        1,
        _F,
        (14, 14, 14),
        "float8_e4m3fn",
        448.0,
        4,
        3,
        note="no infinities; NaN is 0x7F",
        confidence="disassembly",
    ),
    Dtype(
        6, "float8_e8m0fnu", 1, Kind.SCALE, (3, 3, 3), "uint8", note="rides as UINT8, moved raw", confidence="inferred"
    ),
    Dtype(7, "float8e5", 1, _F, (15, 15, 15), "float8_e5m2", 57344.0, 5, 2),
    Dtype(8, "float8_e4m3fn_x4", 4, _P, (14, 14, 14), "uint32", note="four fp8 values", confidence="inferred"),
    Dtype(9, "float8_e5m2_x4", 4, _P, (15, 15, 15), "uint32", note="four fp8 values", confidence="inferred"),
    Dtype(10, "uint16", 2, _U, (5, 5, 5), "uint16", 2**16 - 1),
    Dtype(11, "int16", 2, _S, (4, 4, 4), "int16", 2**15 - 1),
    Dtype(12, "bfloat16", 2, _F, (6, 6, 6), "bfloat16", 255.0 * 2.0**120, 8, 7),
    Dtype(13, "float16", 2, _F, (7, 7, 7), "float16", 65504.0, 5, 10),
    Dtype(14, "uint32", 4, _U, (9, 9, 9), "uint32", 2**32 - 1, note="reads beyond 2^24 round to float32"),
    Dtype(15, "int32", 4, _S, (8, 8, 8), "int32", 2**31 - 1, note="reads beyond 2^24 round to float32"),
    Dtype(16, "float32", 4, _F, (10, 10, 10), "float32", (2.0 - 2.0**-23) * 2.0**127, 8, 23),
    Dtype(
        17,
        "float32r",
        4,
        _F,
        (11, 11, 11),
        "float32",
        (2.0 - 2.0**-11) * 2.0**127,
        8,
        11,
        note="float32 in memory; a write keeps 11 fraction bits; an output type only",
        confidence="disassembly",
    ),
    Dtype(18, "uint64", 8, _U, (1, 1, 1), "uint64", 2**64 - 1),
    Dtype(19, "int64", 8, _S, (12, 12, 12), "int64", 2**63 - 1),
)
"""The BIR element types by ordinal."""

PTO_NAMES: dict[str, str] = {
    "f32": "float32",
    "f16": "float16",
    "bf16": "bfloat16",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    "u8": "uint8",
    "u16": "uint16",
    "u32": "uint32",
    "u64": "uint64",
}
"""Element types of PTO tiles: the name in PTO texts and the BIR name of the same type."""

_NAME_RULE = Rule(
    "TPB-DTYPE-NAME", "Element types are named as BIR names them.", "BIR JSON record schema: dtype names", usage=True
)
_TAG_RULE = Rule(
    "TPB-DTYPE-TAG",
    "A dtype byte is a tag that the generation knows.",
    "ISA headers: DTYPE",
    predicate="is_valid_dtype, dtype_invalid_check",
)
_NUMPY_RULE = Rule(
    "TPB-DTYPE-NUMPY", "Arrays have an element type that one BIR type stands for.", "BIR dtype table", usage=True
)

_BY_NAME = {row.name: row for row in DTYPES}
_BY_TAG = {row.tag: row for row in WIRE_DTYPES}
_BY_NUMPY = {row.numpy_name: row for row in DTYPES if row.is_number and row.name != "float32r"}


def nearest_names(name: str, names: list[str]) -> list[str]:
    """Up to three of ``names`` that are spelled most like ``name``; the first of all where none is alike."""
    return difflib.get_close_matches(name, names, n=3, cutoff=0.5) or names[:1]


def by_name(name: str) -> Dtype:
    """The element type with a BIR name.

    Raises:
        LanefoldError: TPB-DTYPE-NAME for any other name; it suggests the nearest.
    """
    row = _BY_NAME.get(name)
    if row is None:
        near = nearest_names(str(PTO_NAMES.get(name, name)), list(_BY_NAME))
        raise _NAME_RULE.error(
            f"{name!r} is no BIR element type",
            got=repr(name),
            allowed=", ".join(_BY_NAME),
            cures=[f"write {other}" for other in near],
        )
    return row


def wire_dtype(tag: int, generation: Generation | None = None) -> WireDtype:
    """The row of a wire tag, in any generation where none is given.

    Raises:
        LanefoldError: TPB-DTYPE-TAG if the generation has no such tag.
    """
    row = _BY_TAG.get(int(tag))
    known = generation or GENERATIONS[-1]
    if row is None or GENERATIONS.index(row.since) > GENERATIONS.index(known):
        tags = [r.tag for r in WIRE_DTYPES if GENERATIONS.index(r.since) <= GENERATIONS.index(known)]
        raise _TAG_RULE.error(
            f"dtype tag {tag} means nothing on {known}",
            got=tag,
            allowed=f"{tags[0]} to {tags[-1]}",
            cures=["use tag 10, FP32"],
        )
    return row


def by_tag(tag: int, generation: Generation = "v2") -> Dtype:
    """The canonical BIR type of a wire tag; `alternatives` lists the others that share the tag.

    Raises:
        LanefoldError: TPB-DTYPE-TAG if the generation has no such tag.
    """
    return _BY_NAME[wire_dtype(tag, generation).canonical]


def alternatives(tag: int, generation: Generation = "v2") -> tuple[Dtype, ...]:
    """All BIR types that a generation writes as one wire tag, the canonical one first.

    Raises:
        LanefoldError: TPB-DTYPE-TAG if the generation has no such tag.
    """
    first = by_tag(tag, generation)
    return (first, *(row for row in DTYPES if row.tag(generation) == tag and row is not first))


def from_numpy(dtype: np.dtype[Any] | type[Any] | str) -> Dtype:
    """The BIR type of a NumPy or ml_dtypes element type.

    Raises:
        LanefoldError: TPB-DTYPE-NUMPY for complex numbers, float64, objects and other types without a BIR type.
    """
    found = _BY_NUMPY.get(_numpy_name(dtype))
    if found is None:
        raise _NUMPY_RULE.error(
            f"arrays of {dtype} have no BIR element type",
            got=dtype,
            allowed=", ".join(_BY_NUMPY),
            cures=["convert the array with .astype(numpy.float32)"],
        )
    return found


def _numpy_name(dtype: np.dtype[Any] | type[Any] | str) -> str:
    import numpy as np

    if isinstance(dtype, str):
        # ml_dtypes registers its names with NumPy only once imported.
        return dtype if dtype in _BY_NUMPY else str(np.dtype(dtype).name)
    return str(np.dtype(dtype).name)
