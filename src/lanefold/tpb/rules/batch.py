"""Bundles of one instruction as columns, with what the rules ask about their operands worked out once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lanefold.numerics.dtypes import WIRE_DTYPES, by_name
from lanefold.tpb import isa
from lanefold.tpb.binary import layout

Mask = npt.NDArray[np.bool_]
Column = npt.NDArray[Any]

ENGINES: tuple[str, ...] = ("", *isa.ENGINES)
"""Engine names by the code that a batch carries; code 0 stands for an engine that is not known."""


@cache
def element_sizes() -> npt.NDArray[np.int64]:
    """Bytes of an element for every value of a dtype byte; 1 where the byte means nothing."""
    table = np.ones(256, np.int64)
    for row in WIRE_DTYPES:
        table[row.tag] = by_name(row.canonical).bytes
    return table


class Extremes(NamedTuple):
    """Least and greatest element offset of a walk, in elements from its start."""

    low: npt.NDArray[np.int64]
    high: npt.NDArray[np.int64]


class Walk:
    """One descriptor of every bundle of a batch.

    Columns hold one entry per bundle; ``steps`` and ``nums`` one such row per slot, slot 0 innermost.
    """

    def __init__(self, batch: Batch, role: isa.Role) -> None:
        record = batch.record[role.field]
        self.role = role
        self.batch = batch
        self.word: npt.NDArray[np.uint32] = record["start_addr"].copy()
        self.slots: int = record.dtype["step_elem"].shape[0]
        self.may_be_indirect = layout.indirect_exists(batch.generation) and batch.kinds[role.field] is isa.Kind.MEMORY4D

    @cached_property
    def marked(self) -> bool:
        """Whether any start address is more than an immediate one."""
        bits = isa.ADDRESS_REGISTER_BIT | isa.SHAPE_REGISTER_BIT | isa.INDIRECT_BIT
        return bool((self.word & np.uint32(bits)).any())

    def _bit(self, bit: int) -> Mask:
        if not self.marked:
            return np.zeros(len(self.word), bool)
        found: Mask = (self.word & np.uint32(bit)) != 0
        return found

    @cached_property
    def register(self) -> Mask:
        """Bundles whose address comes from a register."""
        return self._bit(isa.ADDRESS_REGISTER_BIT)

    @cached_property
    def shape(self) -> Mask:
        """Bundles whose element counts come from a register."""
        return self._bit(isa.SHAPE_REGISTER_BIT)

    @cached_property
    def indirect(self) -> Mask:
        """Bundles whose descriptor is marked as an indirect record."""
        return self._bit(isa.INDIRECT_BIT)

    @cached_property
    def record20(self) -> npt.NDArray[np.void]:
        """The descriptors seen as indirect records."""
        start = self.batch.offset(self.role.field)
        size = layout.INDIRECT20B.itemsize
        cut = np.ascontiguousarray(self.batch.words[:, start : start + size])
        return cut.view(layout.INDIRECT20B)[:, 0]

    @cached_property
    def placed(self) -> Mask:
        """Bundles whose address is known: immediate, or the data address of a legal indirect record."""
        if not self.marked:
            return np.ones(len(self.word), bool)
        if self.may_be_indirect:
            return ~self.register | self.indirect
        return ~self.register & ~self.indirect

    @cached_property
    def plain(self) -> Mask:
        """Bundles whose steps and nums stand in the descriptor itself."""
        if not self.marked:
            return np.ones(len(self.word), bool)
        return ~self.shape & ~self.indirect

    @cached_property
    def address(self) -> npt.NDArray[np.uint32]:
        """Byte address of the first element, where it is known."""
        masked = self.word & np.uint32(isa.ADDRESS_MASK)
        if self.marked and self.may_be_indirect:
            data = self.record20["data_addr"] & np.uint32(isa.ADDRESS_MASK)
            masked = np.where(self.indirect, data, masked)
        return masked

    @cached_property
    def psum(self) -> Mask:
        """Bundles whose address lies in the PSUM window."""
        low, high = isa.PSUM_WINDOW
        # Below the window the difference wraps to a large number.
        found: Mask = (self.address - np.uint32(low)) < np.uint32(high - low)
        return found

    @cached_property
    def any_psum(self) -> bool:
        """Whether any address lies in the PSUM window."""
        return bool(self.psum.any())

    @cached_property
    def partition(self) -> npt.NDArray[np.uint32]:
        """Start partition."""
        geometry = self.batch.geometry
        inside: npt.NDArray[np.uint32] = self.address // np.uint32(geometry.sbuf_stride)
        if self.any_psum:
            other = (self.address - np.uint32(geometry.psum_base)) // np.uint32(geometry.psum_stride)
            inside = np.where(self.psum, other, inside)
        return inside

    @cached_property
    def byte(self) -> npt.NDArray[np.int64]:
        """Byte of the first element inside its partition."""
        geometry = self.batch.geometry
        first = self.partition * np.uint32(geometry.sbuf_stride)
        if self.any_psum:
            other = self.partition * np.uint32(geometry.psum_stride) + np.uint32(geometry.psum_base)
            first = np.where(self.psum, other, first)
        return (self.address - first).astype(np.int64)

    @cached_property
    def room(self) -> npt.NDArray[np.int64]:
        """Bytes that a partition of the operand's memory has."""
        geometry = self.batch.geometry
        if self.any_psum:
            return np.where(self.psum, geometry.psum_bytes, geometry.sbuf_bytes)
        return np.broadcast_to(np.int64(geometry.sbuf_bytes), self.word.shape)

    @cached_property
    def size(self) -> npt.NDArray[np.int64]:
        """Bytes of an element."""
        return element_sizes()[self.tag]

    @property
    def tag(self) -> Column:
        """Dtype byte of the elements."""
        return self.batch.column(self.role.dtype_field)

    @cached_property
    def _numbers(self) -> npt.NDArray[np.int16]:
        start = self.batch.offset(f"{self.role.field}.step_elem")
        cut = np.ascontiguousarray(self.batch.words[:, start : start + 4 * self.slots])
        return np.ascontiguousarray(cut.view(np.int16).T)

    @cached_property
    def steps(self) -> npt.NDArray[np.int32]:
        """Steps, one row per slot."""
        return self._numbers[: self.slots].astype(np.int32)

    @cached_property
    def nums(self) -> npt.NDArray[np.int32]:
        """Nums, one row per slot."""
        return self._numbers[self.slots :].view(np.uint16).astype(np.int32)

    @cached_property
    def counted(self) -> Mask:
        """Bundles whose nums are all at least 1."""
        found: Mask = np.logical_and.reduce(self.nums, axis=0)
        return found

    @cached_property
    def count(self) -> npt.NDArray[np.uint64]:
        """Elements per partition, the product of the nums; four 16-bit factors fit 64 bits."""
        nums = self.nums.view(np.uint32)
        inner = nums[0] * nums[1]
        if self.slots == 2:
            short: npt.NDArray[np.uint64] = inner.astype(np.uint64)
            return short
        product: npt.NDArray[np.uint64] = np.multiply(inner, nums[2] * nums[3], dtype=np.uint64)
        return product

    @cached_property
    def extremes(self) -> Extremes:
        """Least and greatest element offset that the walk touches."""
        # A reach of one slot fits 32 bits, the sum of four does not.
        reach = self.nums - np.int32(1)
        reach *= self.steps
        high = reach.sum(axis=0, dtype=np.int64)
        if reach.min(initial=0) >= 0:
            return Extremes(np.zeros(len(self.word), np.int64), high)
        low = np.minimum(reach, 0).sum(axis=0, dtype=np.int64)
        high -= low
        return Extremes(low, high)

    @property
    def channels(self) -> Column | int:
        """Partitions that the operand spans."""
        return 1 if self.role.channels == "one" else self.batch.column("num_active_channels")

    @cached_property
    def known_walk(self) -> Mask:
        """Bundles whose whole walk is known and not empty."""
        return self.counted & self.placed & self.plain if self.marked else self.counted


class Batch:
    """All bundles of one instruction, with their positions in the stream.

    Args:
        row: the instruction's row.
        words: their bytes, n x 64, contiguous.
        indices: position of each in the stream.
        engines: code of each one's engine, see `ENGINES`.
    """

    def __init__(
        self,
        row: isa.BundleKind,
        generation: isa.Generation,
        reading: isa.Reading,
        words: npt.NDArray[np.uint8],
        indices: npt.NDArray[np.int64],
        engines: npt.NDArray[np.int8] | None = None,
    ) -> None:
        self.row = row
        self.generation = generation
        self.reading = reading
        self.geometry = isa.GEOMETRY[generation]
        self.words = words
        self.indices = indices
        self.engines = engines
        self.record: npt.NDArray[np.void] = words.view(layout.record(row.struct))[:, 0]
        self.kinds = {field.name: field.kind for field in isa.STRUCTS[row.struct].fields}
        self._walks: dict[str, Walk] = {}
        self._columns: dict[str, Column] = {}

    def __len__(self) -> int:
        return len(self.words)

    def column(self, field: str) -> Column:
        """A field of every bundle, contiguous."""
        found = self._columns.get(field)
        if found is None:
            found = self._columns[field] = np.ascontiguousarray(self.record[field])
        return found

    def walk(self, field: str) -> Walk:
        """The descriptor of a field."""
        found = self._walks.get(field)
        if found is None:
            found = self._walks[field] = Walk(self, role_of(self.row, field))
        return found

    def offset(self, field: str) -> int:
        """Byte offset of a field inside a bundle."""
        return offset_of(self.row.struct, field)

    def everywhere(self, value: bool) -> Mask:
        """A mask with one value."""
        return np.full(len(self), value)


def role_of(row: isa.BundleKind, field: str) -> isa.Role:
    """The role of a descriptor field."""
    return next(role for role in row.roles if role.field == field)


@cache
def offset_of(struct: str, path: str) -> int:
    """Byte offset of a field inside a bundle; ``src.step_elem`` names a part of a descriptor."""
    kind, total = layout.record(struct), 0
    for part in path.split("."):
        inner, offset = kind.fields[part][:2]  # type: ignore[index]
        kind, total = inner, total + offset
    return total


def engine_codes(names: Sequence[str]) -> npt.NDArray[np.int8]:
    """Engine names as the codes of a batch; names that are no engine count as not known."""
    codes = {name: code for code, name in enumerate(ENGINES)}
    return np.array([codes.get(name, 0) for name in names], np.int8)
