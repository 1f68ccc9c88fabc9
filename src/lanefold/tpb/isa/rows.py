"""The kinds of rows that the tables of this instruction set are made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from lanefold.numerics.dtypes import GENERATIONS, Generation

Reading = Literal["reference", "headers"]

READINGS: tuple[Reading, ...] = ("reference", "headers")


class Confidence(StrEnum):
    """How well a fact is founded, best first; nothing has been compared with a running device yet."""

    HEADER = "header"
    DISASSEMBLY = "disassembly"
    DOCUMENTED = "documented"
    INFERRED = "inferred"
    CONVENTION = "convention"

    @property
    def meaning(self) -> str:
        """What the word says of a fact."""
        return _MEANINGS[self]


_MEANINGS = {
    Confidence.HEADER: "stands in a shipped instruction-set header",
    Confidence.DISASSEMBLY: "read from the code of the compiler or the runtime",
    Confidence.DOCUMENTED: "stands in the vendor's public documentation",
    Confidence.INFERRED: "follows from facts of the kinds before it",
    Confidence.CONVENTION: "no source settles it; this project's choice",
}


class Kind(StrEnum):
    """How the bytes of a field are read, all little-endian."""

    U8 = "u8"
    U16 = "u16"
    U32 = "u32"
    I16 = "i16"
    I32 = "i32"
    F32 = "f32"
    TENSOR2D = "tensor2d"  # start address, 2 steps, 2 nums: 12 bytes
    TENSOR4D = "tensor4d"  # start address, 4 steps, 4 nums: 20 bytes
    MEMORY4D = "memory4d"  # TENSOR4D, or from v4 on an INDIRECT20B in the same bytes
    RESERVED = "reserved"  # bytes that are zero


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a wire struct.

    ``count`` is the number of values of that kind in a row; ``values`` names the table its values come from, ``""``
    where every value of the kind is possible.
    """

    name: str
    offset: int
    kind: Kind
    meaning: str
    count: int = 1
    values: str = ""
    source: str = "ISA headers"
    confidence: Confidence = Confidence.HEADER


@dataclass(frozen=True, slots=True)
class Struct:
    """One wire struct: 64 bytes, every one of them belonging to exactly one field."""

    name: str
    fields: tuple[Field, ...]
    reserved_predicate: str
    source: str
    confidence: Confidence = Confidence.HEADER


@dataclass(frozen=True, slots=True)
class Value:
    """One member of an enumeration on the wire."""

    number: int
    name: str
    meaning: str = ""
    since: Generation = "v2"
    confidence: Confidence = Confidence.HEADER


@dataclass(frozen=True, slots=True)
class Role:
    """What one descriptor field of a bundle is for.

    ``dtype_field`` is the field that types its elements; ``channels`` is ``"active"`` where the operand spans
    num_active_channels partitions and ``"one"`` where it spans a single one; ``grouped`` marks a source whose
    innermost slots are named by ``group_field`` (or the constant XY), so that dims of num 1 keep their slot.
    """

    field: str
    access: Literal["read", "write"]
    dtype_field: str
    memories: tuple[str, ...] = ("SB", "PSUM")
    channels: Literal["active", "one"] = "active"
    grouped: bool = False
    alignment: int = 0  # 0: the element size
    confidence: Confidence = Confidence.HEADER


@dataclass(frozen=True, slots=True)
class BundleKind:
    """One instruction of the wire: its opcode in each reading, its struct and what its fields may hold.

    ``opcodes`` holds ``None`` where a reading has no such instruction. ``allowed`` names, per field, the numbers that
    are legal for this opcode beyond the field's own table; ``predicates`` gives the vendor's name for that check.
    ``counts`` names the relation that the element counts of its operands keep.
    """

    name: str
    mnemonic: str
    family: str
    summary: str
    pseudo_code: str
    struct: str
    opcodes: dict[Reading, int | None]
    roles: tuple[Role, ...]
    engines: tuple[str, ...]
    source: str
    confidence: Confidence = Confidence.HEADER
    generations: tuple[Generation, ...] = GENERATIONS
    lint_engines: tuple[str, ...] = ()
    allowed: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    predicates: dict[str, str] = field(default_factory=dict)
    counts: str = ""
    aliases: tuple[str, ...] = ()

    def opcode(self, reading: Reading) -> int | None:
        """Byte 0 under a reading, ``None`` where the reading has no such instruction."""
        return self.opcodes[reading]


@dataclass(frozen=True, slots=True)
class Attribute:
    """One key of a BIR instruction beside its operands."""

    name: str
    required: bool
    type: Literal["enum", "bool", "int", "float", "pattern"]
    values: tuple[str, ...] = ()
    default: object = None


@dataclass(frozen=True, slots=True)
class BirOperation:
    """One BIR instruction: its operands in order, its keys, and the engine it is usually bound to."""

    opcode: str
    ordinal: int | None
    operands_in: tuple[str, ...]
    operands_out: tuple[str, ...]
    engine: str
    summary: str
    attributes: tuple[Attribute, ...] = ()
    source: str = "BIR JSON record schema"
    confidence: Confidence = Confidence.DISASSEMBLY


@dataclass(frozen=True, slots=True)
class Geometry:
    """Sizes and strides of the on-chip memories of one generation, in bytes."""

    generation: Generation
    chip: str
    core: str
    partitions: int
    sbuf_bytes: int
    sbuf_stride: int
    psum_bytes: int
    psum_stride: int
    psum_base: int
    psum_bank_bytes: int
    quadrant: int
    source: str
    confidence: Confidence = Confidence.HEADER
