"""Lines that differ only in addresses and the shared value: parsed once, then filled in."""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

from lanefold.tpb import isa
from lanefold.tpb.text.nodes import Address, Indirect, Operand, Place, Raw, Statement
from lanefold.tpb.text.syntax import COMMENT, form, windows

_VALUE = isa.COMMON[-1]
_RAW = re.compile(rf"\.raw ([0-9a-f]{{{2 * isa.BUNDLE_BYTES}}})\s*")
_REMEMBERED = 1 << 16
"""Shapes of lines that are remembered."""


@cache
def _variable() -> re.Pattern[str]:
    """An immediate address or the shared value, in the form that the disassembler writes."""
    memories = "|".join(windows(isa.GENERATIONS[0]))
    return re.compile(
        rf"(?<!\w)({memories})\[(\d{{1,3}}), 0x([0-9A-F]{{1,6}})\]|(?<!\w){_VALUE.name}=(\d{{1,10}})(?![\w.])"
    )


_GROUPS = 4
"""Pieces of a variable part: memory, partition, byte; value."""


class _Shape(NamedTuple):
    """The bytes of a line without its variable parts, and where these go, in the order of the line."""

    rest: bytes
    offsets: tuple[int, ...]


class Lines:
    """Fills known shapes of lines; one per text, because generation and reading belong to a shape."""

    def __init__(self, generation: isa.Generation) -> None:
        self.windows = windows(generation)
        self.shapes: dict[tuple[object, ...], _Shape] = {}

    def bundle(self, text: str) -> bytes | None:
        """The bytes of a line, ``None`` where it has to be parsed."""
        raw = _RAW.fullmatch(text.partition(COMMENT)[0])
        if raw is not None:
            return bytes.fromhex(raw[1])
        pieces = _pieces(text)
        shape = self.shapes.get(_key(pieces))
        if shape is None:
            return None
        word = bytearray(shape.rest)
        for number, offset in enumerate(shape.offsets):
            memory, partition, byte, value = pieces[1 + number * (_GROUPS + 1) :][:_GROUPS]
            held = int(value) if memory is None else self._address(memory, int(partition), int(byte, 16))
            if held < 0 or held >> 32:
                return None
            held |= int.from_bytes(word[offset : offset + 4], "little")
            word[offset : offset + 4] = held.to_bytes(4, "little")
        return bytes(word)

    def _address(self, memory: str, partition: int, byte: int) -> int:
        """An immediate address, -1 where it lies outside its window."""
        low, high, stride = self.windows[memory]
        return low + partition * stride + byte if byte < stride and partition < (high - low) // stride else -1

    def remember(self, text: str, node: Raw | Statement, bundle: bytes, number: int) -> None:
        """Keeps the shape of a line that was parsed; ``number`` is the row of its instruction."""
        if isinstance(node, Raw) or len(self.shapes) >= _REMEMBERED:
            return
        places = _places(node, number)
        word = bytearray(bundle)
        offsets = []
        for found in _variable().finditer(text.partition(COMMENT)[0]):
            offset = places.get(found.start() + 1) if found[1] else _VALUE.offset
            if offset is None:
                return
            kept = ~isa.ADDRESS_MASK & 0xFFFFFFFF if found[1] else 0
            held = int.from_bytes(word[offset : offset + 4], "little") & kept
            word[offset : offset + 4] = held.to_bytes(4, "little")
            offsets.append(offset)
        self.shapes[_key(_pieces(text))] = _Shape(bytes(word), tuple(offsets))


def _pieces(text: str) -> list[str]:
    """A line without its comment, cut at its variable parts: text, memory, partition, byte, value, text and so on."""
    return _variable().split(text.partition(COMMENT)[0])


def _key(pieces: list[str]) -> tuple[object, ...]:
    """What lines of one shape have in common: their texts, and which of the variable parts are addresses."""
    return (*pieces[:: _GROUPS + 1], *(memory is None for memory in pieces[1 :: _GROUPS + 1]))


def _places(node: Statement, number: int) -> dict[int, int]:
    """Offsets of the address words of a line by the column of their places."""
    offsets = {operand.field.name: operand.field.offset for operand in form(number).operands}
    found: dict[int, int] = {}
    for item in node.items:
        if not isinstance(item.value, Operand):
            continue
        offset, place = offsets[item.name.text], item.value.place
        words: tuple[Address, ...] = (place.indices, place.data) if isinstance(place, Indirect) else (place,)
        for at, word in enumerate(words):
            if isinstance(word.place, Place):
                found[word.place.memory.column] = offset + 4 * at
    return found
