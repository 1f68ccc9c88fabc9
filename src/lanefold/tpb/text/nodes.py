"""What one line of assembly text says, before any name in it is looked up."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias


class Spot(NamedTuple):
    """A piece of a line and the column, counted from 1, where it starts."""

    text: str
    column: int


class Call(NamedTuple):
    """``head(argument)``: a mode with its index, or a float given as bits."""

    head: Spot
    argument: Spot


class Pattern(NamedTuple):
    """(step, num) pairs in the order written, outermost first."""

    pairs: tuple[tuple[Spot, Spot], ...]
    column: int


class Place(NamedTuple):
    """``SB[partition, byte]`` or ``PSUM[partition, byte]``."""

    memory: Spot
    partition: Spot
    byte: Spot


class Address(NamedTuple):
    """A start address; ``place`` is a `Place`, a register or a raw word."""

    shaped: bool
    place: Place | Spot


class Indirect(NamedTuple):
    """Index address, data address and number of indices of an indirect record."""

    indices: Address
    data: Address
    number: Spot
    column: int


class Operand(NamedTuple):
    """A typed memory operand; ``pattern`` is ``None`` exactly where the place is an indirect record."""

    place: Address | Indirect
    dtype: Spot
    pattern: Pattern | None


Value: TypeAlias = Spot | Call | Pattern | Operand


class Item(NamedTuple):
    """``name=value``."""

    name: Spot
    value: Value


class Directive(NamedTuple):
    """``.name value``."""

    name: Spot
    value: Spot


class Raw(NamedTuple):
    """``.raw`` and the digits of a bundle."""

    digits: Spot


class Statement(NamedTuple):
    """An instruction and its items."""

    mnemonic: Spot
    items: tuple[Item, ...]


Line: TypeAlias = Directive | Raw | Statement


def column_of(value: Value) -> Spot:
    """The first piece of a value, for pointing at it."""
    if isinstance(value, Spot):
        return value
    if isinstance(value, Call):
        return value.head
    if isinstance(value, Pattern):
        return Spot("[", value.column)
    return _start(value.place)


def _start(place: Address | Indirect) -> Spot:
    if isinstance(place, Indirect):
        return Spot("indirect", place.column)
    return place.place if isinstance(place.place, Spot) else place.place.memory
