"""From bundles to text: columns of bytes become columns of strings, and these become lines."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import cache
from operator import mod
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from lanefold.arguments import flag
from lanefold.tpb import isa
from lanefold.tpb.binary import layout
from lanefold.tpb.binary.stream import Stream, as_stream
from lanefold.tpb.text.syntax import (
    COMMENT,
    LENGTH_FIELD,
    PATTERN_ITEM,
    Form,
    Operand,
    address_text,
    float_text,
    form,
    pattern_text,
    place_head,
    windows,
    words,
)

_CHUNK = 1 << 14
"""Bundles that are turned into text together; bounds the memory that the columns take."""
_REMEMBERED = 1 << 16
"""Texts that one column remembers before it starts anew."""
_ADDRESS = "\0"
"""Stands for an address while a template is made; no line holds it."""
_WORTH_A_TEMPLATE = 4
"""Lines that share a template on average, for making templates to pay."""

Bytes = npt.NDArray[np.uint8]
Column = Sequence[str]
_Key = TypeVar("_Key", bound=Hashable)


class _Texts(dict[_Key, str], Generic[_Key]):
    """The text of each value of a column, made when the value is first met."""

    def __init__(self, make: Callable[[_Key], str]) -> None:
        super().__init__()
        self.make = make

    def __missing__(self, key: _Key) -> str:
        if len(self) >= _REMEMBERED:
            self.clear()
        text = self[key] = self.make(key)
        return text


def disassemble(stream: Stream, *, hex: bool = False) -> str:  # noqa: A002
    """The stream as assembly text: a header, then one line per bundle; `assemble` reads it back to the same bytes.

    Bundles whose bytes no instruction line can hold (unknown opcode, reserved bytes, odd length byte) are written as
    ``.raw`` with a comment that says why. ``hex`` appends the 64 bytes of every line as a comment.

    Raises:
        LanefoldError: ``TPB-STREAM-INPUT`` if it is no stream, ``CALL-ARGUMENT`` if ``hex`` is no truth value.
    """
    stream = as_stream(stream)
    hex = flag("disassemble", "hex", hex)  # noqa: A001
    header = [f".generation {stream.generation}", f".opcodes {stream.opcodes}"]
    if stream.engine in isa.ENGINES:
        header.append(f".engine {stream.engine}")
    lines: list[str] = []
    for start in range(0, len(stream), _CHUNK):
        made = _lines(stream[start : start + _CHUNK])
        if hex:
            made = _with_bytes(made, stream.words[start : start + _CHUNK])
        lines += made
    return "\n".join([*header, "", *lines, ""])


def _lines(stream: Stream) -> list[str]:
    words = np.ascontiguousarray(stream.words)
    kinds = stream.kinds
    lines = np.empty(len(words), object)
    present = np.unique(kinds)
    for number in present.tolist():
        chosen = np.flatnonzero(kinds == number) if len(present) > 1 else np.arange(len(words))
        group = words[chosen] if len(present) > 1 else words
        if number == layout.UNKNOWN:
            lines[chosen] = _raw(group, _unknown_opcodes(group))
            continue
        writer = _writer(number, stream.generation)
        odd = writer.odd(group)
        if odd.any():
            lines[chosen[odd]] = _raw(group[odd], writer.reasons(group[odd]))
            chosen, group = chosen[~odd], group[~odd]
        if writer.may_be_indirect:
            indirect = writer.indirect(group)
            if indirect.any():
                lines[chosen[indirect]] = writer.lines(group[indirect], indirect=True)
                chosen, group = chosen[~indirect], group[~indirect]
        lines[chosen] = writer.lines(group)
    return lines.tolist()


def _with_bytes(lines: list[str], words: Bytes) -> list[str]:
    digits = words.tobytes().hex()
    size = 2 * isa.BUNDLE_BYTES
    return [
        line if line.startswith(".raw") else f"{line}  {COMMENT} {digits[size * n : size * (n + 1)]}"
        for n, line in enumerate(lines)
    ]


def _raw(group: Bytes, reasons: Column) -> list[str]:
    digits = group.tobytes().hex()
    size = 2 * isa.BUNDLE_BYTES
    return [f".raw {digits[size * n : size * (n + 1)]}  {COMMENT} {why}" for n, why in enumerate(reasons)]


def _unknown_opcodes(group: Bytes) -> Column:
    texts = [f"opcode 0x{opcode:02X} is not of this leg" for opcode in range(256)]
    return [texts[opcode] for opcode in group[:, 0].tolist()]


def _keys(group: Bytes, start: int, size: int) -> list[bytes]:
    """A byte range of every bundle as one bytes object each."""
    piece = np.ascontiguousarray(group[:, start : start + size])
    return piece.view(f"V{size}")[:, 0].tolist()  # type: ignore[no-any-return]


class _Writer:
    """Writes the lines of one instruction; every method takes bundles as uint8 rows of 64."""

    def __init__(self, row_form: Form, generation: isa.Generation) -> None:
        self.form = row_form
        self.generation = generation
        self.record = layout.record(row_form.row.struct)
        self.mnemonic = row_form.row.mnemonic
        self.may_be_indirect = layout.indirect_exists(generation) and any(
            operand.field.kind is isa.Kind.MEMORY4D for operand in row_form.operands
        )
        self.places: list[_Texts[int]] = [_Texts(self._place(operand)) for operand in row_form.operands]
        self.types = [self._dtypes(operand) for operand in row_form.operands]
        self.patterns: list[_Texts[bytes]] = [_Texts(_pattern_tail) for _ in row_form.operands]
        self.records: list[_Texts[bytes]] = [_Texts(self._whole(operand)) for operand in row_form.operands]
        self.counted: _Texts[bytes] = _Texts(self._counting_pattern)
        self.scalars: _Texts[bytes] = _Texts(self._scalars)
        self.head: _Texts[bytes] = _Texts(self._head)
        self.scalar_bytes = np.array(
            [byte for field in row_form.scalars for byte in range(field.offset, field.offset + layout.size(field))],
            np.intp,
        )
        apart = [(operand.field.offset, 4) for operand in row_form.operands] + [(row_form.value.offset, 4)]
        hidden = {byte for first, size in apart for byte in range(first, first + size)}
        self.kept_bytes = np.array([byte for byte in range(isa.BUNDLE_BYTES) if byte not in hidden], np.intp)
        self.templates: dict[bytes, str] = {}
        self.head_range = _span((*row_form.debug, *(field for pair in row_form.events.values() for field in pair)))

    def odd(self, group: Bytes) -> npt.NDArray[np.bool_]:
        """Which bundles an instruction line cannot hold: another length byte, or reserved bytes that are not zero."""
        record = group.view(self.record)[:, 0]
        found = record[LENGTH_FIELD] != isa.WORD_LENGTH
        for field in self.form.reserved:
            found |= record[field.name].any(axis=1)
        return found  # type: ignore[no-any-return]

    def reasons(self, group: Bytes) -> Column:
        """What is odd about each of the bundles."""
        record = group.view(self.record)[:, 0]
        texts = []
        for index in range(len(group)):
            words = []
            if (length := int(record[LENGTH_FIELD][index])) != isa.WORD_LENGTH:
                words.append(f"length byte 0x{length:02X}")
            words += [
                f"reserved bytes from +0x{field.offset:02X}"
                for field in self.form.reserved
                if record[field.name][index].any()
            ]
            texts.append(f"{self.mnemonic}: {', '.join(words)}")
        return texts

    def indirect(self, group: Bytes) -> npt.NDArray[np.bool_]:
        """Which bundles have an operand that is to be written as an indirect record."""
        record = group.view(self.record)[:, 0]
        found = np.zeros(len(group), bool)
        for operand in self.form.operands:
            if operand.field.kind is isa.Kind.MEMORY4D:
                found |= (record[operand.field.name]["start_addr"] & np.uint32(isa.INDIRECT_BIT)) != 0
        return found

    def lines(self, group: Bytes, *, indirect: bool = False) -> list[str]:
        """The lines of bundles that are not odd."""
        starts = [group.view(self.record)[:, 0][operand.field.name]["start_addr"] for operand in self.form.operands]
        plain = np.logical_and.reduce([start < _windows_end(self.generation) for start in starts])
        if indirect or not plain.any():
            return self._by_parts(group, indirect=indirect)
        if plain.all():
            return self._by_templates(group, starts)
        made = np.empty(len(group), object)
        made[plain] = self._by_templates(group[plain], [start[plain] for start in starts])
        made[~plain] = self._by_parts(group[~plain])
        return made.tolist()

    def _by_templates(self, group: Bytes, starts: Sequence[npt.NDArray[np.uint32]]) -> list[str]:
        """Lines of bundles with immediate addresses; those that differ only in addresses and value share a template."""
        values = group.view(self.record)[:, 0][self.form.value.name]
        kept = np.empty((len(group), len(self.kept_bytes) + 1), np.uint8)
        kept[:, :-1] = group[:, self.kept_bytes]
        kept[:, -1] = values != 0
        keys: list[bytes] = kept.view(f"V{kept.shape[1]}")[:, 0].tolist()
        missing = set(keys).difference(self.templates)
        if len(missing) > len(keys) // _WORTH_A_TEMPLATE:
            return self._by_parts(group)
        if len(self.templates) + len(missing) > _REMEMBERED:
            self.templates.clear()
            missing = set(keys)
        if missing:
            at = {key: index for index, key in enumerate(keys)}
            chosen = [at[key] for key in missing]
            self.templates.update(zip(missing, self._templates(group[chosen], values[chosen] != 0), strict=True))
        columns: list[Iterable[object]] = []
        for start in starts:
            columns += _heads_and_bytes(start, self.generation)
        arguments = zip(*columns, values.tolist(), strict=True)
        templates = map(self.templates.__getitem__, keys)
        return list(map(mod, templates, arguments))

    def _templates(self, group: Bytes, valued: npt.NDArray[np.bool_]) -> list[str]:
        """Lines with places for a head and a byte of every address, and for the value where it is not zero."""
        marked = [[_ADDRESS] * len(group) for _ in self.form.operands]
        texts = self._by_parts(group, addresses=marked, with_value=False)
        value = f" {self.form.value.name}=%d"
        return [
            text.replace("%", "%%").replace(_ADDRESS, "%s%X]") + (value if shown else "%.0s")
            for text, shown in zip(texts, valued.tolist(), strict=True)
        ]

    def _by_parts(
        self,
        group: Bytes,
        *,
        indirect: bool = False,
        addresses: Sequence[Column] = (),
        with_value: bool = True,
    ) -> list[str]:
        """Lines put together from the texts of their fields; ``addresses`` stand in for the start addresses."""
        columns: list[Iterable[str]] = [[self.mnemonic] * len(group)]
        for number, operand in enumerate(self.form.operands):
            given = addresses[number] if addresses else ()
            columns += self._operand(group, number, operand, indirect=indirect, given=given)
        if self.form.pattern:
            steps, nums = self.form.pattern
            start, size = _span((steps, nums))
            columns.append(map(self.counted.__getitem__, _keys(group, start, size)))
        if len(self.scalar_bytes):
            piece = np.ascontiguousarray(group[:, self.scalar_bytes])
            columns.append(map(self.scalars.__getitem__, piece.view(f"V{piece.shape[1]}")[:, 0].tolist()))
        columns.append(map(self.head.__getitem__, _keys(group, *self.head_range)))
        if with_value:
            values = group.view(self.record)[:, 0][self.form.value.name]
            # Counters rarely repeat, so remembering their texts would not pay.
            columns.append([f" {self.form.value.name}={value}" if value else "" for value in values.tolist()])
        return list(map("".join, zip(*columns, strict=True)))

    def _operand(
        self, group: Bytes, number: int, operand: Operand, *, indirect: bool, given: Column
    ) -> list[Iterable[str]]:
        start, size = operand.field.offset, layout.size(operand.field)
        types = self.types[number]
        tags = group[:, operand.dtype.offset].tolist()
        if indirect and operand.field.kind is isa.Kind.MEMORY4D:
            whole = map(self.records[number].__getitem__, _keys(group, start, size))
            # The text holds a place for the type, which is not part of the descriptor.
            return [(text.replace("\0", types[tag]) for text, tag in zip(whole, tags, strict=True))]
        places = self.places[number]
        address = group.view(self.record)[:, 0][operand.field.name]["start_addr"]
        return [
            [f" {operand.field.name}={text}" for text in given] if given else map(places.__getitem__, address.tolist()),
            map(types.__getitem__, tags),
            map(self.patterns[number].__getitem__, _keys(group, start + 4, size - 4)),
        ]

    def _place(self, operand: Operand) -> Callable[[int], str]:
        return lambda word: f" {operand.field.name}={address_text(word, self.generation)}"

    def _dtypes(self, operand: Operand) -> list[str]:
        known = words("dtype", self.generation)
        return [f" {known.get(tag, f'0x{tag:02X}')}" for tag in range(256)]

    def _whole(self, operand: Operand) -> Callable[[bytes], str]:
        def text(raw: bytes) -> str:
            place = indirect_text(raw, self.generation)
            if place:
                return f" {operand.field.name}={place}\0"
            address = int.from_bytes(raw[:4], "little")
            return f" {operand.field.name}={address_text(address, self.generation)}\0 {pattern_text(raw[4:])}"

        return text

    def _counting_pattern(self, raw: bytes) -> str:
        return f" {PATTERN_ITEM}={pattern_text(raw)}"

    def _scalars(self, raw: bytes) -> str:
        texts = []
        position = 0
        for field in self.form.scalars:
            size = layout.size(field)
            texts.append(self._scalar(field, raw[position : position + size]))
            position += size
        return "".join(texts)

    def _scalar(self, field: isa.Field, raw: bytes) -> str:
        number = int.from_bytes(raw, "little", signed=field.kind in (isa.Kind.I16, isa.Kind.I32))
        if number == self.form.default(field):
            return ""
        return f" {field.name}={scalar_text(field, number, self.generation)}"

    def _head(self, raw: bytes) -> str:
        start = self.head_range[0]
        texts = [self._scalar(field, raw[field.offset - start :][: layout.size(field)]) for field in self.form.debug]
        for item, (mode, index) in self.form.events.items():
            numbers = raw[mode.offset - start], raw[index.offset - start]
            if any(numbers):
                texts.append(f" {item}={scalar_text(mode, numbers[0], self.generation)}({numbers[1]})")
        return "".join(texts)


@cache
def _windows_end(generation: isa.Generation) -> np.uint32:
    """First address behind all windows, which follow one another from 0 on."""
    return np.uint32(max(high for _, high, _ in windows(generation).values()))


@cache
def _heads(generation: isa.Generation) -> list[str]:
    """Texts of immediate addresses up to the byte, partition by partition, window by window."""
    return [
        place_head(memory, partition)
        for memory, (low, high, stride) in windows(generation).items()
        for partition in range((high - low) // stride)
    ]


def _heads_and_bytes(start: npt.NDArray[np.uint32], generation: isa.Generation) -> tuple[Iterable[str], list[int]]:
    """For immediate addresses the text up to the byte, and the byte."""
    number, byte, first = np.zeros(len(start), np.uint32), np.zeros(len(start), np.uint32), 0
    for low, high, stride in windows(generation).values():
        inside = (start >= low) & (start < high)
        partition, rest = np.divmod(start - np.uint32(low), np.uint32(stride))
        number, byte = np.where(inside, partition + np.uint32(first), number), np.where(inside, rest, byte)
        first += (high - low) // stride
    return map(_heads(generation).__getitem__, number.tolist()), byte.tolist()


@cache
def _writer(number: int, generation: isa.Generation) -> _Writer:
    return _Writer(form(number), generation)


def _span(fields: Iterable[isa.Field]) -> tuple[int, int]:
    """First byte and number of bytes of neighbouring fields."""
    ends = [(field.offset, field.offset + layout.size(field)) for field in fields]
    start = min(first for first, _ in ends)
    return start, max(last for _, last in ends) - start


def _pattern_tail(raw: bytes) -> str:
    return f" {pattern_text(raw)}"


def scalar_text(field: isa.Field, number: int, generation: isa.Generation) -> str:
    """The value of a scalar field as text; floats are given as their bits."""
    if field.kind is isa.Kind.F32:
        return float_text(number)
    if not field.values:
        return str(number)
    return words(field.values, generation).get(number, f"0x{number:02X}")


def indirect_text(raw: bytes, generation: isa.Generation) -> str:
    """A 20-byte descriptor as an indirect record, ``""`` where it is none or has bytes that its text cannot hold."""
    record = np.frombuffer(raw, layout.INDIRECT20B)[0]
    index = int(record["index_addr"])
    if not index & isa.INDIRECT_BIT or record["reserved"].any():
        return ""
    places = [address_text(word, generation) for word in (index & ~isa.INDIRECT_BIT, int(record["data_addr"]))]
    return f"indirect(index={places[0]}, data={places[1]}, num_elem={int(record['num_elem'])})"
