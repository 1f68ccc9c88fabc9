"""From one instruction line to its 64 bytes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

import numpy as np

from lanefold.diagnostics import Cure, LanefoldError
from lanefold.tpb import isa
from lanefold.tpb.binary import layout
from lanefold.tpb.patterns import INDIRECT_SINCE
from lanefold.tpb.text import mistakes
from lanefold.tpb.text.mistakes import Context, unknown
from lanefold.tpb.text.nodes import (
    Address,
    Call,
    Indirect,
    Item,
    Operand,
    Pattern,
    Place,
    Spot,
    Statement,
    Value,
    column_of,
)
from lanefold.tpb.text.syntax import (
    CANONICAL_NAN,
    LENGTH_FIELD,
    PATTERN_ITEM,
    Form,
    form,
    numbers,
    windows,
    words,
)

_ADDRESS_BYTES = 4
_UNIT = Pattern((), 1)
_MOST_DIGITS = 40


@cache
def _mnemonics() -> Mapping[str, int]:
    """Row numbers by every name of a single instruction, in lower case."""
    return MappingProxyType(
        {
            name.lower(): number
            for number, row in enumerate(isa.BUNDLES)
            for name in (row.mnemonic, row.name, *row.aliases)
        }
    )


class StatementWriter:
    """Writes the bytes of one instruction line."""

    def __init__(self, node: Statement, context: Context, generation: isa.Generation, reading: isa.Reading) -> None:
        self.node = node
        self.context = context
        self.generation: isa.Generation = generation
        self.reading: isa.Reading = reading
        self.word = bytearray(isa.BUNDLE_BYTES)

    def bundle(self) -> bytes:
        """The 64 bytes."""
        row_form = self.form()
        head = {field.name: field for field in isa.COMMON}
        self.put(head["opcode"], self.opcode(row_form.row))
        self.put(head[LENGTH_FIELD], isa.WORD_LENGTH)
        for field in row_form.scalars:
            self.put(field, row_form.default(field))
        items = self.items(row_form)
        for operand in row_form.operands:
            self.operand(items.pop(operand.field.name), operand.field, operand.dtype, operand.slots)
        if row_form.pattern:
            self.counting(items.pop(PATTERN_ITEM), row_form.pattern)
        for event, (mode, index) in row_form.events.items():
            if event in items:
                self.event(items.pop(event), mode, index)
        fields = {field.name: field for field in (*row_form.scalars, *row_form.debug, row_form.value)}
        for name, item in items.items():
            self.put(fields[name], self.scalar(fields[name], item.value), column_of(item.value))
        return bytes(self.word)

    def form(self) -> Form:
        """The line form that the mnemonic names."""
        number = _mnemonics().get(self.node.mnemonic.text.lower())
        if number is None:
            names = [row.mnemonic for row in isa.BUNDLES]
            raise unknown(self.context, self.node.mnemonic, "instruction", names, other=".raw")
        return form(number)

    def opcode(self, row: isa.BundleKind) -> int:
        """Byte 0."""
        opcode = row.opcode(self.reading)
        if opcode is not None and self.generation in row.generations:
            return opcode
        if opcode is None:
            others: list[str] = [reading for reading in isa.READINGS if row.opcode(reading) is not None]
            message, directive = f"the {self.reading} reading has no opcode for {row.mnemonic}", ".opcodes"
        else:
            others = list(row.generations)
            message, directive = f"{row.mnemonic} does not exist on {self.generation}", ".generation"
        raise self.context.mistake(
            mistakes.OPCODE,
            self.node.mnemonic,
            message,
            allowed=" or ".join(f"{directive} {other}" for other in others),
            cures=[Cure(f"write {directive} {others[0]} at the top", {directive[1:]: others[0]})],
        )

    def items(self, row_form: Form) -> dict[str, Item]:
        """The items of the line by name; operands and pattern are all there, none stands twice."""
        names = row_form.items()
        found: dict[str, Item] = {}
        for item in self.node.items:
            if item.name.text not in names:
                raise unknown(self.context, item.name, f"item of {row_form.row.mnemonic}", names)
            if item.name.text in found:
                raise self.context.mistake(
                    mistakes.ITEMS,
                    item.name,
                    f"{item.name.text} stands twice",
                    allowed="each item once",
                    cures=["remove one of the two"],
                    field=item.name.text,
                )
            found[item.name.text] = item
        example = {PATTERN_ITEM: "[[1,8]]"}
        needed = [o.field.name for o in row_form.operands] + ([PATTERN_ITEM] if row_form.pattern else [])
        missing = [name for name in needed if name not in found]
        if missing:
            raise self.context.mistake(
                mistakes.ITEMS,
                self.node.mnemonic,
                f"{row_form.row.mnemonic} lacks {' and '.join(missing)}",
                got=", ".join(found) or "no items",
                allowed=", ".join(names),
                cures=[f"add {missing[0]}={example.get(missing[0], 'SB[0, 0x0] float32 [[1,8]]')}"],
                field=missing[0],
            )
        return found

    def put(self, field: isa.Field, number: int, spot: Spot | None = None, slot: int = 0) -> None:
        """Writes one number of a field, if it fits."""
        size = layout.size(field) // field.count
        self.write(field.offset + slot * size, size, number, field, spot)

    def write(self, offset: int, size: int, number: int, field: isa.Field, spot: Spot | None = None) -> None:
        """Writes a little-endian number; signed where the field is."""
        signed = field.kind in (isa.Kind.I16, isa.Kind.I32)
        self.word[offset : offset + size] = self.fitting(number, size, field.name, spot, signed=signed)

    def fitting(self, number: int, size: int, name: str, spot: Spot | None, *, signed: bool = False) -> bytes:
        """The bytes of a number, if it fits."""
        low, high = (-(1 << 8 * size - 1), (1 << 8 * size - 1) - 1) if signed else (0, (1 << 8 * size) - 1)
        if low <= number <= high:
            return number.to_bytes(size, "little", signed=signed)
        nearest = max(low, min(high, number))
        raise self.context.mistake(
            mistakes.VALUE,
            spot or self.node.mnemonic,
            f"{number} does not fit {name}",
            allowed=f"{low} to {high}",
            cures=[Cure(f"write {nearest}, the nearest value that fits", {"text": str(nearest)})],
            field=name,
        )

    def operand(self, item: Item, field: isa.Field, dtype: isa.Field, slots: int) -> None:
        """Writes a descriptor and the type of its elements."""
        operand = item.value
        if not isinstance(operand, Operand):
            raise self.wrong_form(item, "a memory operand", "SB[0, 0x0] float32 [[1,8]]")
        self.put(dtype, self.word_of(operand.dtype, dtype), operand.dtype)
        if isinstance(operand.place, Indirect):
            self.indirect(operand.place, field)
            return
        self.word[field.offset : field.offset + _ADDRESS_BYTES] = self.address(operand.place, field.name)
        start = field.offset + _ADDRESS_BYTES
        self.word[start : start + 4 * slots] = self.pairs(operand.pattern or _UNIT, slots, field.name)

    def counting(self, item: Item, fields: tuple[isa.Field, isa.Field]) -> None:
        """Writes the counting pattern of a struct that has one beside its operands."""
        if not isinstance(item.value, Pattern):
            raise self.wrong_form(item, "a pattern", "[[1,8]]")
        steps, nums = fields
        packed = self.pairs(item.value, steps.count, PATTERN_ITEM)
        half = len(packed) // 2
        self.word[steps.offset : steps.offset + half] = packed[:half]
        self.word[nums.offset : nums.offset + half] = packed[half:]

    def pairs(self, pattern: Pattern, slots: int, name: str) -> bytes:
        """Steps, then nums, slot 0 innermost, missing outer slots as (1, 1)."""
        if len(pattern.pairs) > slots:
            raise self.context.mistake(
                mistakes.VALUE,
                pattern.pairs[slots][0],
                f"{name} has {len(pattern.pairs)} pairs",
                got=f"{len(pattern.pairs)} pairs",
                allowed=f"1 to {slots} pairs",
                cures=[f"keep the {slots} innermost pairs, the partition pair is not part of the text"],
                field=name,
            )
        steps, nums = b"", b""
        for step, num in reversed(pattern.pairs):
            steps += self.fitting(_integer(step), 2, f"the step of {name}", step, signed=True)
            nums += self.fitting(_integer(num), 2, f"the num of {name}", num)
        unit = b"\x01\x00" * (slots - len(pattern.pairs))
        return steps + unit + nums + unit

    def indirect(self, record: Indirect, field: isa.Field) -> None:
        """Writes an indirect record over a memory pattern."""
        if field.kind is not isa.Kind.MEMORY4D or not layout.indirect_exists(self.generation):
            raise self.context.mistake(
                mistakes.VALUE,
                Spot("indirect", record.column),
                f"{field.name} cannot be indirect here",
                got=f"indirect on {self.generation}",
                allowed=f"an address and a pattern; indirect only in tensor reduces from {INDIRECT_SINCE} on",
                cures=["write SB[partition, byte] dtype pattern"],
                field=field.name,
            )
        index = int.from_bytes(self.address(record.indices, field.name), "little") | isa.INDIRECT_BIT
        raw = index.to_bytes(_ADDRESS_BYTES, "little") + self.address(record.data, field.name)
        raw += self.fitting(_integer(record.number), 2, "num_elem", record.number)
        self.word[field.offset : field.offset + layout.size(field)] = raw.ljust(layout.size(field), b"\0")

    def address(self, address: Address, name: str) -> bytes:
        """The ADDR4 word of an address."""
        place = address.place
        if isinstance(place, Place):
            number = self.place(place, name)
        elif place.text.startswith("@"):
            number = int(place.text[1:], 16)
        else:
            register = int(place.text[1:])
            if register >= isa.ADDRESS_REGISTERS:
                raise self.context.mistake(
                    mistakes.VALUE,
                    place,
                    f"there is no address register {register}",
                    allowed=f"r0 to r{isa.ADDRESS_REGISTERS - 1}, or an address word such as @0x80000040",
                    cures=[Cure(f"write r{isa.ADDRESS_REGISTERS - 1}", {"text": f"r{isa.ADDRESS_REGISTERS - 1}"})],
                    field=name,
                )
            number = isa.ADDRESS_REGISTER_BIT | register
        if address.shaped:
            number |= isa.SHAPE_REGISTER_BIT
        return number.to_bytes(_ADDRESS_BYTES, "little")

    def place(self, place: Place, name: str) -> int:
        """The immediate address of a partition and a byte."""
        low, high, stride = windows(self.generation)[place.memory.text]
        partition, byte = _integer(place.partition), _integer(place.byte)
        for number, limit, spot, what in (
            (partition, (high - low) // stride, place.partition, "partition"),
            (byte, stride, place.byte, "byte"),
        ):
            if not 0 <= number < limit:
                raise self.context.mistake(
                    mistakes.VALUE,
                    spot,
                    f"{what} {number} is outside the address window of {place.memory.text}",
                    allowed=f"0 to {limit - 1}",
                    cures=[Cure(f"write {max(0, min(limit - 1, number))}", {})],
                    field=name,
                )
        return low + partition * stride + byte

    def event(self, item: Item, mode: isa.Field, index: isa.Field) -> None:
        """Writes a wait or an update."""
        if not isinstance(item.value, Call):
            raise self.wrong_form(item, "a mode with its index", f"{isa.ENUMS[mode.values][1].name}(0)")
        self.put(mode, self.word_of(item.value.head, mode), item.value.head)
        self.put(index, _integer(item.value.argument), item.value.argument)

    def scalar(self, field: isa.Field, value: Value) -> int:
        """The number of a plain field; floats as their bits."""
        item = Item(Spot(field.name, 1), value)
        if field.kind is isa.Kind.F32:
            return self.float_bits(item)
        if not isinstance(value, Spot):
            names = list(numbers(field.values, self.generation)) if field.values else []
            wanted = "a name or number" if names else "a whole number"
            raise self.wrong_form(item, wanted, [*names, "0"][0])
        return self.word_of(value, field)

    def word_of(self, spot: Spot, field: isa.Field) -> int:
        """The number of a word or digits."""
        if _is_integer(spot.text):
            return _integer(spot)
        if not field.values:
            raise self.wrong_form(Item(Spot(field.name, 1), spot), "a whole number", "0")
        known = numbers(field.values, self.generation)
        if spot.text not in known:
            shown = words(field.values, self.generation).values()
            raise unknown(self.context, spot, f"value of {field.name}", shown, other="a number", field=field.name)
        return known[spot.text]

    def float_bits(self, item: Item) -> int:
        """The bits of a single-precision number."""
        value = item.value
        if isinstance(value, Call) and value.head.text == "bits":
            return int.from_bytes(self.fitting(_integer(value.argument), 4, item.name.text, value.argument), "little")
        if isinstance(value, Spot):
            if value.text == "nan":
                return CANONICAL_NAN
            bits = _rounded(value.text)
            if bits is not None:
                return bits
        raise self.wrong_form(item, "a number within single precision, inf, -inf, nan or bits(0x…)", "1.0")

    def wrong_form(self, item: Item, wanted: str, example: str) -> LanefoldError:
        """The exception for a value of another form than its item takes."""
        spot = column_of(item.value)
        return self.context.mistake(
            mistakes.VALUE,
            spot,
            f"{item.name.text} takes {wanted}",
            allowed=wanted,
            cures=[Cure(f"write {item.name.text}={example}", {"text": example})],
            field=item.name.text,
        )


def _is_integer(text: str) -> bool:
    digits = text.lstrip("+-")
    return digits.isdigit() or digits[:2] == "0x"


def _integer(spot: Spot) -> int:
    digits = spot.text.lstrip("+-")
    base = 16 if digits[:2] == "0x" else 10
    significant = digits.removeprefix("0x").lstrip("0") or "0"
    # No field takes that many digits, and converting them all would take long.
    number = int(significant, base) if len(significant) <= _MOST_DIGITS else 10**_MOST_DIGITS
    return -number if spot.text.startswith("-") else number


def _rounded(text: str) -> int | None:
    """The bits of a text as single precision, ``None`` where it is no number or becomes infinite."""
    try:
        exact = float(int(text, 16)) if "0x" in text else float(text)
    except (ValueError, OverflowError):
        return None
    with np.errstate(over="ignore", under="ignore"):
        value = np.float32(exact)
    if math.isinf(value) and text.lstrip("+-") != "inf":
        return None
    return int(value.view(np.uint32))
