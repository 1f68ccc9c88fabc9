"""What both directions of the assembly text share: the items of a line and the words of their values."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from lanefold.numerics import alu, dtypes
from lanefold.tpb import isa
from lanefold.tpb.binary.layout import DESCRIPTOR_SLOTS

COMMENT = ";"

PATTERN_ITEM = "pattern"
PATTERN_FIELDS = ("step_elem", "num_elem")
"""Counting patterns that stand in a struct without an address are one item of the text."""

EVENT_ITEMS: dict[str, tuple[str, str]] = {
    "wait": ("wait_mode", "wait_idx"),
    "update": ("update_mode", "update_idx"),
}
"""Items of the events block that hold a mode and an index."""

LENGTH_FIELD = "inst_word_len"
CANONICAL_NAN = 0x7FC00000


class Operand(NamedTuple):
    """A descriptor item: its field and the field that types its elements."""

    field: isa.Field
    dtype: isa.Field
    slots: int


class Form(NamedTuple):
    """The items of one instruction's line, in the order they are written."""

    row: isa.BundleKind
    operands: tuple[Operand, ...]
    pattern: tuple[isa.Field, isa.Field] | None
    scalars: tuple[isa.Field, ...]
    debug: tuple[isa.Field, ...]
    events: Mapping[str, tuple[isa.Field, isa.Field]]
    value: isa.Field
    reserved: tuple[isa.Field, ...]

    def items(self) -> tuple[str, ...]:
        """Names of all items that the line may have."""
        return (
            *(operand.field.name for operand in self.operands),
            *((PATTERN_ITEM,) if self.pattern else ()),
            *(field.name for field in self.scalars),
            *(field.name for field in self.debug),
            *self.events,
            self.value.name,
        )

    def default(self, field: isa.Field) -> int:
        """The number a field has where the line does not name it: its only legal number, else 0."""
        allowed = self.row.allowed.get(field.name, ())
        return allowed[0] if len(allowed) == 1 else 0


@cache
def form(number: int) -> Form:
    """The line form of an instruction by its row number, derived from its struct and operand roles."""
    row = isa.BUNDLES[number]
    fields = {field.name: field for field in isa.STRUCTS[row.struct].fields}
    common = {field.name for field in isa.COMMON}
    operands = tuple(
        Operand(fields[role.field], fields[role.dtype_field], DESCRIPTOR_SLOTS[fields[role.field].kind])
        for role in row.roles
    )
    pattern = (
        (fields[PATTERN_FIELDS[0]], fields[PATTERN_FIELDS[1]]) if all(n in fields for n in PATTERN_FIELDS) else None
    )
    taken = common | {o.field.name for o in operands} | {o.dtype.name for o in operands} | set(PATTERN_FIELDS)
    events = {item: (fields[mode], fields[index]) for item, (mode, index) in EVENT_ITEMS.items()}
    shown = {field.name for pair in events.values() for field in pair}
    free = tuple(f for f in isa.COMMON if f.name not in {"opcode", LENGTH_FIELD} | shown)
    return Form(
        row,
        operands,
        pattern,
        tuple(f for f in fields.values() if f.name not in taken and f.kind is not isa.Kind.RESERVED),
        free[:-1],
        MappingProxyType(events),
        free[-1],
        tuple(f for f in fields.values() if f.kind is isa.Kind.RESERVED),
    )


@cache
def words(table: str, generation: isa.Generation) -> Mapping[int, str]:
    """The word that stands for each number of a value table; numbers without a word are written as numbers."""
    if table == "dtype":
        rank = isa.GENERATIONS.index
        return MappingProxyType({r.tag: r.canonical for r in dtypes.WIRE_DTYPES if rank(r.since) <= rank(generation)})
    if table == "alu":
        return MappingProxyType({r.code: _operator(r, generation) for r in alu.WIRE_ALU if r.exists(generation)})
    return MappingProxyType({value.number: value.name for value in isa.ENUMS.get(table, ())})


def _operator(row: alu.WireAlu, generation: isa.Generation) -> str:
    operator = alu.by_byte(row.code)
    return operator.name if operator is not None and operator.byte(generation) == row.code else row.name


@cache
def numbers(table: str, generation: isa.Generation) -> Mapping[str, int]:
    """The number of every word of a value table: those that are written, and the other names that are read."""
    found: dict[str, int] = {}
    if table == "dtype":
        found = {row.name: row.tag(generation) for row in dtypes.DTYPES}
    elif table == "alu":
        found = {row.name: row.code for row in alu.WIRE_ALU if row.exists(generation)}
    return MappingProxyType(found | {word: number for number, word in words(table, generation).items()})


def address_text(word: int, generation: isa.Generation) -> str:
    """An ADDR4 word as text; every word has one, words without a plain meaning are written as ``@`` and digits.

    Source: ADDR4, immediate, register and shape-register forms.
    """
    shaped = word & isa.SHAPE_REGISTER_BIT
    plain = word & ~isa.SHAPE_REGISTER_BIT
    text = _place_text(plain, generation)
    if not text:
        return f"@0x{word:08X}"
    return f"shape_register {text}" if shaped else text


def _place_text(word: int, generation: isa.Generation) -> str:
    if word & isa.ADDRESS_REGISTER_BIT:
        register = word & ~isa.ADDRESS_REGISTER_BIT
        return f"r{register}" if register < isa.ADDRESS_REGISTERS else ""
    for memory, (low, high, stride) in windows(generation).items():
        if low <= word < high:
            partition, byte = divmod(word - low, stride)
            return f"{place_head(memory, partition)}{byte:X}]"
    return ""


def place_head(memory: str, partition: int) -> str:
    """The text of an immediate address up to its byte, whose hexadecimal digits and a bracket follow."""
    return f"{memory}[{partition}, 0x"


@cache
def windows(generation: isa.Generation) -> Mapping[str, tuple[int, int, int]]:
    """Address windows by memory: first address, first address behind it, bytes from one partition to the next."""
    geometry = isa.GEOMETRY[generation]
    return MappingProxyType(
        {"SB": (*isa.SBUF_WINDOW, geometry.sbuf_stride), "PSUM": (*isa.PSUM_WINDOW, geometry.psum_stride)}
    )


def pattern_text(raw: bytes) -> str:
    """Steps and nums of a descriptor, given as their bytes, as pairs outermost first without trailing (1, 1) slots."""
    slots = len(raw) // 4
    steps = np.frombuffer(raw, "<i2", slots).tolist()
    nums = np.frombuffer(raw, "<u2", slots, 2 * slots).tolist()
    while slots > 1 and steps[slots - 1] == 1 and nums[slots - 1] == 1:
        slots -= 1
    pairs = (f"[{steps[slot]},{nums[slot]}]" for slot in reversed(range(slots)))
    return f"[{','.join(pairs)}]"


def float_text(bits: int) -> str:
    """A single-precision number as the shortest text that reads back to the same bits."""
    value = np.uint32(bits).view(np.float32)
    if np.isnan(value):
        return "nan" if bits == CANONICAL_NAN else f"bits(0x{bits:08X})"
    text = str(value)
    return text if int(np.float32(float(text)).view(np.uint32)) == bits else f"bits(0x{bits:08X})"
