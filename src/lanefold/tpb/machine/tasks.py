"""From bundles to what is to be done: operands located in memory, field values as plain numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
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


@dataclass(slots=True)
class Task:
    """One bundle, ready to be executed: its row, operands by field name, and the numbers of its other fields."""

    index: int
    row: isa.BundleKind
    operands: dict[str, Access]
    values: dict[str, Any]
    place: Place

    @property
    def src(self) -> Access:
        """What is read."""
        return self.operands["src"]

    @property
    def dst(self) -> Access:
        """What is written."""
        return self.operands["dst"]


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
    made: list[Task | None] = [None] * len(stream)
    for number in np.unique(stream.kinds).tolist():
        indices = np.flatnonzero(stream.kinds == number)
        if number == layout.UNKNOWN:
            index = int(indices[0])
            opcode = int(stream.words[index, 0])
            raise _OPCODE.error(
                f"opcode 0x{opcode:02X} is not known under {stream.opcodes} on {stream.generation}",
                got=f"0x{opcode:02X}",
                allowed=", ".join(f"0x{r.opcode(stream.opcodes):02X}" for r in _known(stream)),
                cures=["decode the stream with the other opcode reading"],
                place=place_of(stream, index),
            )
        for task in _of_kind(stream, isa.BUNDLES[number], indices, memories, types):
            made[task.index] = task
    return [task for task in made if task is not None]


def _known(stream: Stream) -> Iterator[isa.BundleKind]:
    for row in isa.BUNDLES:
        if row.opcode(stream.opcodes) is not None and stream.generation in row.generations:
            yield row


def _of_kind(
    stream: Stream,
    row: isa.BundleKind,
    indices: npt.NDArray[np.int64],
    memories: Memories,
    types: dict[int, Dtype],
) -> Iterator[Task]:
    record = stream.columns(row.struct)[indices]
    channels = record["num_active_channels"].tolist()
    skipped = {role.field for role in row.roles} | {field.name for field in isa.COMMON}
    fields = [
        field.name
        for field in isa.STRUCTS[row.struct].fields
        if field.kind is not isa.Kind.RESERVED and field.name not in skipped
    ]
    columns = [record[name].tolist() for name in fields]
    operands = [(role.field, _accesses(stream, record, role, channels, memories, types, indices)) for role in row.roles]
    for at, index in enumerate(indices.tolist()):
        values = {name: column[at] for name, column in zip(fields, columns, strict=True)}
        yield Task(index, row, {name: found[at] for name, found in operands}, values, place_of(stream, index))


def _accesses(
    stream: Stream,
    record: npt.NDArray[np.void],
    role: isa.Role,
    channels: list[int],
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
    address = words.astype(np.int64) & isa.ADDRESS_MASK
    geometry = isa.GEOMETRY[stream.generation]
    low, high = isa.PSUM_WINDOW
    in_psum = (address >= low) & (address < high)
    offset = np.where(in_psum, address - low, address)
    partitions, within = np.divmod(offset, np.where(in_psum, geometry.psum_stride, geometry.sbuf_stride))
    rows = zip(
        in_psum.tolist(),
        partitions.tolist(),
        within.tolist(),
        record[role.dtype_field].tolist(),
        descriptor["step_elem"].tolist(),
        descriptor["num_elem"].tolist(),
        channels,
        strict=True,
    )
    made = []
    for at, (psum, partition, byte, tag, steps, nums, spanned) in enumerate(rows):
        dtype = types.get(tag)
        memory = memories.psum if psum else memories.sbuf
        wide = spanned if role.channels == "active" else 1
        access = (
            None
            if dtype is None or byte % dtype.bytes
            else Access(memory, dtype, partition, wide, byte // dtype.bytes, tuple(nums), tuple(steps))
        )
        problem = f"{role.field} has dtype tag {tag}, byte {byte}" if access is None else access.problem
        if problem or access is None:
            raise _BOUNDS.error(
                f"the walk of {role.field} does not fit: {problem}",
                got=problem or tag,
                allowed=f"partitions 0 to {memory.shape[0] - 1}, bytes 0 to {memory.shape[1] - 1} of each",
                cures=["start the operand at partition 0, byte 0, or shorten its pattern"],
                place=place_of(stream, int(indices[at])),
            )
        made.append(access)
    return made


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
