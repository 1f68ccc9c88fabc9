"""One bundle explained byte by byte, from the tables alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from lanefold.diagnostics import Rule
from lanefold.numerics import alu, dtypes
from lanefold.tpb import isa
from lanefold.tpb.binary import layout
from lanefold.tpb.binary.layout import DESCRIPTOR_SLOTS
from lanefold.tpb.binary.stream import Bundle, Bytes, Stream, decode
from lanefold.tpb.text import context
from lanefold.tpb.text.disassemble import disassemble, scalar_text
from lanefold.tpb.text.syntax import address_text, form, words

_WORD = Rule("TPB-EXPLAIN-WORD", "An explanation is made of exactly one bundle.", "Streams", usage=True)

_Part: TypeAlias = tuple[str, int, str, str, str]
"""Name, bytes, value, meaning and source of a part of a descriptor."""

_SLOTS = "XYZW"


@dataclass(frozen=True, slots=True)
class ExplainedField:
    """A few neighbouring bytes of a bundle: offset, bytes as hexadecimal digits, field, value, meaning, origin."""

    offset: int
    bytes: str
    field: str
    value: str
    meaning: str
    source: str
    confidence: str

    def to_dict(self) -> dict[str, object]:
        """The row as plain data for JSON."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class Explanation:
    """What the 64 bytes of a bundle say in one generation and opcode reading.

    ``fields`` cover every byte exactly once; ``misfits`` say what in the bytes contradicts the instruction; ``other``
    is the same bundle in the other reading, ``None`` where both readings see the same instruction.
    """

    generation: isa.Generation
    opcodes: isa.Reading
    opcode: int
    instruction: str
    struct: str
    summary: str
    pseudo_code: str
    text: str
    engines: tuple[str, ...]
    source: str
    confidence: str
    fields: tuple[ExplainedField, ...]
    misfits: tuple[str, ...] = ()
    other: Explanation | None = None

    def to_dict(self) -> dict[str, object]:
        """The explanation as plain data for JSON."""
        plain: dict[str, object] = {
            name: getattr(self, name)
            for name in self.__slots__
            if name not in ("fields", "other", "engines", "misfits")
        }
        plain["engines"] = list(self.engines)
        plain["misfits"] = list(self.misfits)
        plain["fields"] = [field.to_dict() for field in self.fields]
        plain["other"] = self.other.to_dict() if self.other else None
        return plain

    def to_text(self) -> str:
        """The explanation as a table of text, with the rows in which the other reading differs."""
        parts = []
        for head, rows in self.parts():
            parts += [*head, "", *_table(rows), ""]
        return "\n".join(parts[:-1])

    def parts(self) -> list[tuple[list[str], Sequence[ExplainedField]]]:
        """Lines on the whole bundle and its fields; the same of the other reading, with the fields that differ."""
        found: list[tuple[list[str], Sequence[ExplainedField]]] = [(self._head(), self.fields)]
        if self.other:
            mine = {(row.offset, row.bytes, row.field, row.value) for row in self.fields}
            rows = [r for r in self.other.fields if (r.offset, r.bytes, r.field, r.value) not in mine]
            title = f"The same bytes with opcodes {self.other.opcodes}; the rows that differ:"
            found.append(([title, "", *self.other._head()], rows))
        return found

    def _head(self) -> list[str]:
        lines = [f"{self.instruction} (opcode 0x{self.opcode:02X}, {self.generation}, opcodes {self.opcodes})"]
        if self.struct:
            lines += [
                f"  struct   {self.struct}, engine{'s' * (len(self.engines) > 1)} {', '.join(self.engines)}",
                f"  does     {self.summary}",
                f"  means    {self.pseudo_code}",
            ]
            suits = (
                f"not: {', '.join(self.misfits)}"
                if self.misfits
                else "reserved bytes are zero, restricted fields are legal"
            )
            lines.append(f"  suits    {suits}")
        lines.append(f"  text     {self.text}")
        lines.append(f"  source   {self.source} ({self.confidence})")
        return lines


def explain(
    word: Bundle | bytes | bytearray | memoryview | str | Bytes, generation: str = "v2", opcodes: str = "reference"
) -> Explanation:
    """Explains one bundle, given as 64 bytes or 128 hexadecimal digits, byte by byte.

    Args:
        word: the bundle; a `Bundle` brings its own generation and reading along.
        generation: ``"v2"``, ``"v3"`` or ``"v4"``.
        opcodes: ``"reference"``, ``"headers"``, or ``"auto"`` to take the one that the bytes speak for.

    Raises:
        LanefoldError: if the word is not one bundle or an argument is unknown.
    """
    bundle = word if isinstance(word, Bundle) else _single(decode(word, generation, opcodes))
    other = _in_other_reading(bundle)
    explained = _explain(bundle)
    return explained if other.kind == bundle.kind else replace(explained, other=_explain(other))


def _single(stream: Stream) -> Bundle:
    if len(stream) == 1:
        return stream[0]
    raise _WORD.error(
        f"{len(stream)} bundles are given, one is explained at a time",
        got=f"{len(stream)} bundles",
        allowed=f"{isa.BUNDLE_BYTES} bytes, or {2 * isa.BUNDLE_BYTES} hexadecimal digits",
        cures=["choose one bundle of a stream by its index, such as stream[0]"],
    )


def _in_other_reading(bundle: Bundle) -> Bundle:
    other = next(reading for reading in isa.READINGS if reading != bundle.reading)
    kind = int(layout.kinds_by_opcode(bundle.generation, other)[bundle.opcode])
    return Bundle(bundle.word, kind, bundle.generation, other)


def _explain(bundle: Bundle) -> Explanation:
    row = bundle.row
    stream = Stream(np.ascontiguousarray(bundle.word).reshape(1, -1), bundle.generation, bundle.reading)
    return Explanation(
        bundle.generation,
        bundle.reading,
        bundle.opcode,
        bundle.mnemonic,
        row.struct if row else "",
        row.summary if row else "",
        _pseudo_code(bundle, row) if row else "",
        disassemble(stream).rstrip("\n").rpartition("\n")[2],
        row.engines if row else (),
        row.source if row else "Instruction table",
        row.confidence if row else isa.Confidence.CONVENTION,
        tuple(_rows(bundle)),
        tuple(context.misfits(bundle)),
    )


def _pseudo_code(bundle: Bundle, row: isa.BundleKind) -> str:
    """The instruction's line of pseudo-code, with the operator and the dims that this bundle names."""
    chosen = [
        f"{field.name} = {scalar_text(field, int(bundle.record[field.name]), bundle.generation)}"
        for field in form(bundle.kind).scalars
        if field.values
    ]
    return row.pseudo_code + (f"; here {', '.join(chosen)}" if chosen else "")


def _rows(bundle: Bundle) -> Iterator[ExplainedField]:
    raw = bundle.tobytes()
    fields = isa.STRUCTS[bundle.row.struct].fields if bundle.row else isa.COMMON
    end = 0
    for field in fields:
        end = field.offset + layout.size(field)
        piece = raw[field.offset : end]
        if field.kind in DESCRIPTOR_SLOTS:
            yield from _descriptor(bundle, field, piece)
        elif field.name == "opcode":
            yield _opcode(bundle, field, piece)
        else:
            yield _plain(bundle, field, piece)
    if end < isa.BUNDLE_BYTES:
        meaning = "bytes of an instruction that the tables do not hold"
        source = "Instruction table"
        yield ExplainedField(end, raw[end:].hex(), "unknown", "", meaning, source, isa.Confidence.CONVENTION)


def _opcode(bundle: Bundle, field: isa.Field, raw: bytes) -> ExplainedField:
    row = bundle.row
    other = context.elsewhere(bundle.opcode)
    known = f"no instruction of this leg on {bundle.generation} in the {bundle.reading} reading"
    return ExplainedField(
        field.offset,
        raw.hex(),
        field.name,
        f"{bundle.mnemonic} (0x{bundle.opcode:02X})",
        row.summary if row else known + (f"; {other}" if other else ""),
        row.source if row else field.source,
        row.confidence if row else field.confidence,
    )


def _plain(bundle: Bundle, field: isa.Field, raw: bytes) -> ExplainedField:
    if field.kind is isa.Kind.RESERVED:
        value, meaning, confidence = _reserved(raw), "reserved, must be zero", str(field.confidence)
    elif field.count > 1:
        value = str(bundle.record[field.name].tolist())
        meaning, confidence = field.meaning, str(field.confidence)
    else:
        signed = field.kind in (isa.Kind.I16, isa.Kind.I32)
        number = int.from_bytes(raw, "little", signed=signed)
        value, meaning, confidence = _member(field, number, bundle.generation)
        if extra := context.note(bundle, field.name):
            meaning += f"{', ' if ':' in meaning else ': '}{extra}"
    return ExplainedField(field.offset, raw.hex(), field.name, value, meaning, field.source, confidence)


def _reserved(raw: bytes) -> str:
    return "not zero" if any(raw) else "zero"


def _member(field: isa.Field, number: int, generation: isa.Generation) -> tuple[str, str, str]:
    """Value, meaning and confidence of a scalar; numbers of a table come with the member's own meaning."""
    text = scalar_text(field, number, generation)
    if not field.values:
        return text, field.meaning, field.confidence
    value = text if text.startswith("0x") else f"{text} ({number})"
    note, confidence = _note(field.values, number, generation)
    return value, f"{field.meaning}: {note}" if note else field.meaning, _weaker(field.confidence, confidence)


def _note(table: str, number: int, generation: isa.Generation) -> tuple[str, str]:
    if number not in words(table, generation):
        return "no member of its table", isa.Confidence.HEADER
    if table == "dtype":
        tag = dtypes.wire_dtype(number, generation)
        return f"{tag.name}, {tag.note}" if tag.note else tag.name, tag.confidence
    if table == "alu":
        byte, operator = alu.wire_alu(number, generation), alu.by_byte(number)
        return (operator.fp32 or operator.bits or operator.int32) if operator else byte.name, byte.confidence
    member = next(value for value in isa.ENUMS[table] if value.number == number)
    return member.meaning, member.confidence


def _weaker(one: str, other: str) -> str:
    order = [str(member) for member in isa.Confidence]
    return max(one, other, key=lambda name: order.index(str(name)))


def _descriptor(bundle: Bundle, field: isa.Field, raw: bytes) -> Iterator[ExplainedField]:
    word = int.from_bytes(raw[:4], "little")
    may = field.kind is isa.Kind.MEMORY4D and layout.indirect_exists(bundle.generation)
    indirect = may and word & isa.INDIRECT_BIT
    parts = _indirect(raw, bundle.generation) if indirect else _static(bundle, field, raw)
    offset = field.offset
    for name, size, value, meaning, source in parts:
        start = offset - field.offset
        digits = raw[start : start + size].hex()
        yield ExplainedField(offset, digits, f"{field.name}.{name}", value, meaning, source, field.confidence)
        offset += size


def _static(bundle: Bundle, field: isa.Field, raw: bytes) -> tuple[_Part, ...]:
    slots = DESCRIPTOR_SLOTS[field.kind]
    steps = np.frombuffer(raw, "<i2", slots, 4).tolist()
    nums = np.frombuffer(raw, "<u2", slots, 4 + 2 * slots).tolist()
    address = address_text(int.from_bytes(raw[:4], "little"), bundle.generation)
    letters, source = ", ".join(_SLOTS[:slots]), f"TENSOR{slots}D descriptor"
    reach = context.reach(bundle, field.name, steps, nums)
    return (
        ("start_addr", 4, address, f"{field.meaning}: first element", "ADDR4 address word"),
        ("step_elem", 2 * slots, str(steps), f"steps of {letters}, innermost first, in elements", source),
        ("num_elem", 2 * slots, str(nums), f"element counts of {letters}: {reach}", source),
    )


def _indirect(raw: bytes, generation: isa.Generation) -> tuple[_Part, ...]:
    record = np.frombuffer(raw, layout.INDIRECT20B)[0]
    index = address_text(int(record["index_addr"]) & ~isa.INDIRECT_BIT, generation)
    data = address_text(int(record["data_addr"]), generation)
    source = "INDIRECT20B descriptor"
    reserved = record["reserved"].tobytes()
    return (
        ("index_addr", 4, index, "first index (indirect record)", source),
        ("data_addr", 4, data, "data that the indices address", source),
        ("num_elem", 2, str(int(record["num_elem"])), "number of indices", source),
        ("reserved", len(reserved), _reserved(reserved), "reserved, must be zero", source),
    )


def _table(rows: Sequence[ExplainedField]) -> list[str]:
    """Rows as aligned columns; long byte ranges are shortened in the middle."""
    cells = [("offset", "bytes", "field", "value", "meaning", "source, confidence")]
    cells += [
        (
            f"+0x{r.offset:02X}",
            _short(r.bytes),
            r.field,
            r.value,
            r.meaning,
            _origin(r),
        )
        for r in rows
    ]
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]) - 1)]
    return ["  ".join([*map(str.ljust, row, widths), row[-1]]) for row in cells]


def _origin(row: ExplainedField) -> str:
    return f"{row.source.partition(';')[0]}, {row.confidence}"


def _short(digits: str) -> str:
    return digits if len(digits) <= 20 else f"{digits[:8]}…{digits[-8:]}"
