"""From bundles to what is to be done: operands located in memory, field values as plain numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lanefold.diagnostics import LanefoldError, Place, Rule
from lanefold.numerics.dtypes import Dtype, alternatives, by_name, by_tag
from lanefold.tpb import isa
from lanefold.tpb.binary import Stream, layout

if TYPE_CHECKING:
    from lanefold.numerics.kernels import Access
    from lanefold.tpb.machine.options import Options

Bytes = npt.NDArray[np.uint8]

_FORM = Rule(
    "TPB-MACHINE-FORM",
    "The machine executes immediate addresses; registers and index tensors of a descriptor are not modelled.",
    "ADDR4: marker bits",
)
_OPCODE = Rule(
    "TPB-MACHINE-OPCODE", "The machine executes instructions that the opcode reading knows.", "Instruction table"
)
_BOUNDS = Rule(
    "TPB-MACHINE-BOUNDS",
    "Every element that an instruction touches lies inside the memory, at a whole number of elements from its start.",
    "ISA headers: state-buffer and PSUM sizes",
)
_MARKERS = isa.ADDRESS_REGISTER_BIT | isa.SHAPE_REGISTER_BIT | isa.INDIRECT_BIT


class Memories(NamedTuple):
    """The on-chip memories, uint8 [partitions, bytes] each."""

    sbuf: Bytes
    psum: Bytes


class Group:
    """The bundles of one instruction in a stream, field by field."""

    __slots__ = ("columns", "operands", "row", "stream")

    def __init__(
        self,
        stream: Stream,
        row: isa.BundleKind,
        columns: dict[str, list[Any]],
        operands: dict[str, list[Access]],
    ) -> None:
        self.stream = stream
        self.row = row
        self.columns = columns
        self.operands = operands


class Task:
    """One bundle, ready to be executed: where its operands lie and what its other fields hold."""

    __slots__ = ("at", "group", "index")

    def __init__(self, group: Group, at: int, index: int) -> None:
        self.group = group
        self.at = at
        self.index = index

    @property
    def row(self) -> isa.BundleKind:
        """The instruction's row in the table."""
        return self.group.row

    @property
    def place(self) -> Place:
        """Where a finding about the bundle stands."""
        return place_of(self.group.stream, self.index)

    @property
    def src(self) -> Access:
        """What is read."""
        return self.group.operands["src"][self.at]

    @property
    def dst(self) -> Access:
        """What is written."""
        return self.group.operands["dst"][self.at]

    def __getitem__(self, field: str) -> Any:
        """The value of a field that is no operand."""
        return self.group.columns[field][self.at]


def element_types(generation: isa.Generation, chosen: Options) -> dict[int, Dtype]:
    """The element type of every dtype tag under the options of a machine."""
    table: dict[int, Dtype] = {}
    for tag in range(1, 17):
        try:
            table[tag] = by_tag(tag, generation)
        except LanefoldError:
            continue
        if chosen.fp8_exp4 in [row.name for row in alternatives(tag, generation)]:
            table[tag] = by_name(chosen.fp8_exp4)
    if chosen.fp32r == "copy":
        rounded, plain = by_name("float32r"), by_name("float32")
        table[rounded.tag(generation)] = plain
    return table


def place_of(stream: Stream, index: int) -> Place:
    """Where a finding about one bundle stands."""
    kind = int(stream.kinds[index])
    name = "Unknown" if kind == layout.UNKNOWN else isa.BUNDLES[kind].mnemonic
    if stream.origin is not None and stream.instructions:
        return stream.instructions[int(stream.origin[index])].place()
    return Place(instruction=f"bundle {index} ({name})")


def tasks(stream: Stream, memories: Memories, types: dict[int, Dtype]) -> list[Task]:
    """Every bundle of a stream as a task, in order; all of them are located before any is executed.

    Raises:
        LanefoldError: if one cannot be executed: unknown opcode, register or indirect address, outside the memory.
    """
    made: list[Task] = [None] * len(stream)  # type: ignore[list-item]
    for number in np.unique(stream.kinds).tolist():
        indices = np.flatnonzero(stream.kinds == number)
        if number == layout.UNKNOWN:
            raise _unknown(stream, int(indices[0]))
        group = _group(stream, isa.BUNDLES[number], indices, memories, types)
        for at, index in enumerate(indices.tolist()):
            made[index] = Task(group, at, index)
    return made


def _unknown(stream: Stream, index: int) -> LanefoldError:
    opcode = int(stream.words[index, 0])
    return _OPCODE.error(
        f"opcode 0x{opcode:02X} is not known under {stream.opcodes} on {stream.generation}",
        got=f"0x{opcode:02X}",
        allowed=", ".join(f"0x{row.opcode(stream.opcodes):02X}" for row in _known(stream)),
        cures=["leave the bundle out, or decode the stream for the generation that it was made for"],
        place=place_of(stream, index),
    )


def _known(stream: Stream) -> Iterator[isa.BundleKind]:
    for row in isa.BUNDLES:
        if row.opcode(stream.opcodes) is not None and stream.generation in row.generations:
            yield row


def _group(
    stream: Stream,
    row: isa.BundleKind,
    indices: npt.NDArray[np.int64],
    memories: Memories,
    types: dict[int, Dtype],
) -> Group:
    record = stream.columns(row.struct)[indices]
    apart = {role.field for role in row.roles} | {field.name for field in isa.COMMON}
    columns = {
        field.name: record[field.name].tolist()
        for field in isa.STRUCTS[row.struct].fields
        if field.kind is not isa.Kind.RESERVED and field.name not in apart
    }
    operands = {role.field: _accesses(stream, record, role, memories, types, indices) for role in row.roles}
    return Group(stream, row, columns, operands)


def _accesses(
    stream: Stream,
    record: npt.NDArray[np.void],
    role: isa.Role,
    memories: Memories,
    types: dict[int, Dtype],
    indices: npt.NDArray[np.int64],
) -> list[Access]:
    from lanefold.numerics.kernels import Access

    descriptor = record[role.field]
    words = descriptor["start_addr"]
    marked = np.flatnonzero(words & np.uint32(_MARKERS))
    if marked.size:
        _refuse_form(int(words[marked[0]]), role, place_of(stream, int(indices[marked[0]])))
    in_psum, partitions, within = _places(words, stream.generation)
    tags = record[role.dtype_field]
    sizes = np.array([types[tag].bytes if tag in types else 0 for tag in range(256)], np.int64)[tags]
    widths = np.where(in_psum, memories.psum.shape[1], memories.sbuf.shape[1])
    channels = record["num_active_channels"].astype(np.int64)
    if role.channels == "one":
        channels = np.ones_like(channels)
    # A (num, step) row per dim, innermost first, and a last one for the channels.
    pairs = np.empty((len(record), descriptor["num_elem"].shape[1] + 1, 2), np.int64)
    pairs[:, :-1, 0], pairs[:, :-1, 1] = descriptor["num_elem"], descriptor["step_elem"]
    size = np.maximum(sizes, 1)
    pairs[:, -1, 0], pairs[:, -1, 1] = channels, widths // size
    starts = within // size
    reach = (pairs[:, :-1, 0] - 1) * pairs[:, :-1, 1]
    low = starts + np.minimum(reach, 0).sum(axis=1)
    high = starts + np.maximum(reach, 0).sum(axis=1)
    fits = (sizes > 0) & (within % size == 0) & (low >= 0) & (high < pairs[:, -1, 1])
    fits &= (pairs[:, :, 0] > 0).all(axis=1) & (partitions + channels <= len(memories.sbuf))
    if not fits.all():
        at = int(np.flatnonzero(~fits)[0])
        raise _BOUNDS.error(
            f"the walk of {role.field} does not fit its memory",
            got=f"dtype tag {tags[at]}, partition {partitions[at]} and {channels[at]} channels, byte {within[at]}, "
            f"elements {low[at]} to {high[at]}, nums {pairs[at, :-1, 0].tolist()}",
            allowed=f"128 partitions of {widths[at]} bytes, whole elements, nums of at least 1, a known dtype tag",
            cures=["start the operand at partition 0, byte 0, or shorten its pattern"],
            place=place_of(stream, int(indices[at])),
        )
    firsts = partitions * pairs[:, -1, 1] + starts
    columns = zip(
        [memories.psum if psum else memories.sbuf for psum in in_psum.tolist()],
        [types[tag] for tag in tags.tolist()],
        partitions.tolist(),
        channels.tolist(),
        starts.tolist(),
        map(tuple, pairs[:, :-1, 0].tolist()),
        map(tuple, pairs[:, :-1, 1].tolist()),
        pairs,
        firsts.tolist(),
        strict=True,
    )
    return [Access(*column) for column in columns]


def _places(
    words: npt.NDArray[np.uint32], generation: isa.Generation
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Whether immediate addresses lie in PSUM, their partitions, and their bytes inside a partition."""
    address = words.astype(np.int64) & isa.ADDRESS_MASK
    geometry = isa.GEOMETRY[generation]
    low, high = isa.PSUM_WINDOW
    in_psum = (address >= low) & (address < high)
    offset = np.where(in_psum, address - low, address)
    partitions, within = np.divmod(offset, np.where(in_psum, geometry.psum_stride, geometry.sbuf_stride))
    return in_psum, partitions, within


def _refuse_form(word: int, role: isa.Role, place: Place) -> None:
    names = {
        isa.ADDRESS_REGISTER_BIT: "an address register",
        isa.SHAPE_REGISTER_BIT: "a shape register",
        isa.INDIRECT_BIT: "an index tensor",
    }
    named = " and ".join(name for bit, name in names.items() if word & bit)
    raise _FORM.error(
        f"{role.field} is given by {named}",
        got=f"0x{word:08X}",
        allowed="immediate addresses, bits 29 to 31 zero",
        cures=[f"write the address itself: 0x{word & isa.ADDRESS_MASK:08X}"],
        place=place,
    )
