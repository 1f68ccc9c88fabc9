"""The shapes of the rows in the PTO tables; the rows themselves stand in the other modules of this folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Confidence(StrEnum):
    """How a fact is known: measured on the CPU simulator, read in the public headers, or read in a document only."""

    MEASURED = "measured"
    READ = "read"
    DOCUMENTED = "documented"

    @property
    def meaning(self) -> str:
        """What the word says of a fact."""
        return _MEANINGS[self]


_MEANINGS = {
    Confidence.MEASURED: "measured on the CPU simulator",
    Confidence.READ: "read in the public headers, not run",
    Confidence.DOCUMENTED: "read in a public document only",
}


class Family(StrEnum):
    """The eight groups of operations that share operands, shapes and rules."""

    ROW_REDUCE = "row_reduce"
    ROW_ARG = "row_arg"
    COLUMN_REDUCE = "column_reduce"
    COLUMN_ARG = "column_arg"
    ROW_EXPAND = "row_expand"
    COLUMN_EXPAND = "column_expand"
    ROW_EXPAND_BINARY = "row_expand_binary"
    COLUMN_EXPAND_BINARY = "column_expand_binary"


@dataclass(frozen=True, slots=True)
class ElementType:
    """One element type: name in texts, bytes, kind (``float``, ``signed``, ``unsigned``), C++ and NumPy names."""

    name: str
    bytes: int
    kind: str
    cpp: str
    numpy: str


@dataclass(frozen=True, slots=True)
class Layout:
    """One layout: base order of the tile, order inside a box (``NoneBox`` for none)."""

    name: str
    base: str
    box: str

    @property
    def boxed(self) -> bool:
        """Whether the tile is made of boxes."""
        return self.box != "NoneBox"


@dataclass(frozen=True, slots=True)
class Target:
    """One PTO target: bytes of local tile memory (UB), address alignment, vector register, how its facts are known.

    ``broadcast_scratch`` is the byte range that form E2 of TROWEXPAND*op* uses without asking, or None.
    ``load_rows`` and ``store_cols`` bound the extents that one load or store moves, 0 for no bound.
    """

    name: str
    title: str
    ub_bytes: int
    alignment: int
    register_bytes: int
    broadcast_scratch: tuple[int, int] | None
    load_rows: int
    store_rows: int
    store_cols: int
    confidence: Confidence
    source: str


@dataclass(frozen=True, slots=True)
class Form:
    """One C++ call form: its operands in call order (outputs first) and how many of them are outputs."""

    name: str
    operands: tuple[str, ...]
    outputs: int
    source: str

    @property
    def scratch(self) -> bool:
        """Whether a scratch tile is part of the call."""
        return "tmp" in self.operands


Pairs = frozenset[tuple[str, str]]
"""Legal (source type, destination type) pairs."""


@dataclass(frozen=True, slots=True)
class LayoutRule:
    """Layouts that an operand may have; those in ``single_column`` only where the tile has one column of capacity."""

    layouts: tuple[str, ...]
    single_column: tuple[str, ...] = ()

    def permits(self, layout: str, cols: int) -> bool:
        """Whether a tile of this layout with ``cols`` columns of capacity is legal here."""
        return layout in self.layouts or (layout in self.single_column and cols == 1)

    def __str__(self) -> str:
        words = list(self.layouts) + [f"{name} with one column" for name in self.single_column]
        return " or ".join(filter(None, (", ".join(words[:-1]), words[-1])))


@dataclass(frozen=True, slots=True)
class Support:
    """What one target accepts for one operation.

    ``types`` are the legal pairs; ``value_types`` replaces them for the value-and-index form of arg operations.
    ``index_types`` and ``value_index_types`` map source bytes to index types; a size that is missing is illegal.
    ``same_type`` says whether source operands must have the destination's type. ``layouts`` is by role.
    ``equal_capacity`` names the capacity (``rows`` or ``cols``) that source and destination must share, or "".
    ``scratch`` names the scratch rule, "" where scratch is not read. ``sixteen_bit_extents`` is true where the
    implementation keeps extents in 16 bits.
    """

    types: Pairs
    layouts: Mapping[str, LayoutRule]
    scratch: str
    confidence: Confidence
    source: str
    value_types: Pairs = frozenset()
    index_types: Mapping[int, tuple[str, ...]] | None = None
    value_index_types: Mapping[int, tuple[str, ...]] | None = None
    value_layouts: Mapping[str, LayoutRule] | None = None
    vec_only: bool = False
    equal_capacity: str = ""
    sixteen_bit_extents: bool = False


@dataclass(frozen=True, slots=True)
class Operation:
    """One PTO operation.

    ``aliases`` are spellings accepted on input only; ``axis`` is the axis that is reduced or filled (``row`` walks the
    columns of each row). ``effect`` is one line of pseudo-code; ``cost`` names the recipe of the cost models.
    """

    name: str
    family: Family
    axis: str
    operator: str
    forms: tuple[Form, ...]
    aliases: tuple[str, ...]
    effect: str
    support: Mapping[str, Support]
    cost: str
    source: str

    @property
    def mnemonic(self) -> str:
        """The name in assembly texts."""
        return self.name.lower()

    @property
    def binary(self) -> bool:
        """Whether the operation combines two sources."""
        return self.family in (Family.ROW_EXPAND_BINARY, Family.COLUMN_EXPAND_BINARY)

    @property
    def arg(self) -> bool:
        """Whether the operation writes indices."""
        return self.family in (Family.ROW_ARG, Family.COLUMN_ARG)

    @property
    def reduces(self) -> bool:
        """Whether the operation removes an axis."""
        return self.family in (Family.ROW_REDUCE, Family.ROW_ARG, Family.COLUMN_REDUCE, Family.COLUMN_ARG)
