"""What a lowering is made of: transfers, fills and instructions in order, over named tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.lib.stride_tricks import as_strided

from lanefold.diagnostics import Diagnostic, number_of
from lanefold.numerics.dtypes import by_name
from lanefold.ops import Op
from lanefold.program import CostRow
from lanefold.tpb import isa
from lanefold.tpb.binary import Stream, encode
from lanefold.tpb.instruction import Instruction
from lanefold.tpb.patterns import Access, Pair

if TYPE_CHECKING:
    from lanefold.program.timeline import Task
    from lanefold.tpb.machine import Machine

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True)
class Transfer:
    """A copy between a tensor in DRAM and on-chip memory.

    Args:
        direction: ``load`` brings the tensor's elements on chip, ``save`` takes them back.
        tensor: name of the DRAM tensor.
        offset: its first element.
        steps: its element steps, one per pair of ``access.pattern``, the partition pair first.
        access: the on-chip side; its nums are the extents of the copy.
    """

    direction: Literal["load", "save"]
    tensor: str
    offset: int
    steps: tuple[int, ...]
    access: Access

    @property
    def elements(self) -> int:
        """Elements moved, all partitions together."""
        return self.access.channels * self.access.elements


@dataclass(frozen=True, slots=True)
class Fill:
    """On-chip elements set to zero before a load that covers only part of them."""

    access: Access


Item = Transfer | Fill | Instruction


@dataclass(frozen=True, slots=True)
class Tensor:
    """A DRAM tensor of a lowering: element count and BIR type."""

    elements: int
    dtype: str


@dataclass(frozen=True)
class Lowering:
    """One op as instructions of the leg; it runs, checks and prices itself.

    Args:
        op: what it computes.
        route: the datapath it takes.
        items: transfers, fills and instructions in order.
        tensors: DRAM tensors by name; ``in0``, ``in1``, … are the op's inputs, ``out0``, ``out1``, … its outputs.
        generation: generation it was made for.
        opcodes: opcode reading of its bytes.
        note: how it was re-tiled or rewritten.
    """

    op: Op
    route: str
    items: tuple[Item, ...] = field(repr=False)
    tensors: dict[str, Tensor]
    generation: isa.Generation
    reading: isa.Reading
    note: str = ""

    @cached_property
    def instructions(self) -> tuple[Instruction, ...]:
        """The instructions, in program order."""
        return tuple(item for item in self.items if isinstance(item, Instruction))

    @cached_property
    def stream(self) -> Stream:
        """The bundles of the instructions; these bytes are what runs."""
        return encode(self.instructions, self.generation, self.reading)

    @cached_property
    def starts(self) -> list[int]:
        """First bundle of every instruction, and the number of bundles."""
        origin = self.stream.origin
        if origin is None:
            return list(range(len(self.stream) + 1))
        return [int(start) for start in np.searchsorted(origin, np.arange(len(self.instructions) + 1))]

    def __repr__(self) -> str:
        size = f"{number_of(self.bundles, 'bundle')}, {self.generation}, opcodes {self.reading}"
        return f"<Lowering of {type(self.op).__name__} by {self.route}: {size}>"

    @property
    def accumulators(self) -> tuple[str, ...]:
        """float32: every datapath of the leg widens what it reads."""
        return ("float32",)

    @property
    def opcodes(self) -> tuple[int, ...]:
        """Opcode bytes in order of first use."""
        return tuple(dict.fromkeys(int(byte) for byte in self.stream.words[:, 0]))

    @property
    def bundles(self) -> int:
        """Bundles of the stream."""
        return len(self.stream)

    @property
    def size(self) -> int:
        """Bytes of the stream."""
        return len(self.stream) * isa.BUNDLE_BYTES

    def check(self) -> list[Diagnostic]:
        """Findings of every rule on every instruction."""
        from lanefold.tpb.rules import check

        return check(self.instructions, self.generation, self.reading)

    def cost(self, model: str = "") -> list[CostRow]:
        """One price per instruction.

        Raises:
            LanefoldError: if there is no such model.
        """
        from lanefold.tpb.cost import price

        return [price(instruction, self.generation, model) for instruction in self.instructions]

    def tasks(self, model: str, inputs: Sequence[str], outputs: Sequence[str]) -> list[Task]:
        """Transfers, fills and instructions in order, for a timeline; the op's tensors have these names in the program.

        Raises:
            LanefoldError: if there is no such model.
        """
        from lanefold.tpb.timeline import tasks

        return tasks(self, model, inputs, outputs)

    def run(self, machine: Machine, inputs: Sequence[Array]) -> list[Array]:
        """Computes the op: moves tensors and lets the machine execute the bundles between the moves.

        Args:
            machine: a machine of this generation; its memory is overwritten.
            inputs: arrays in the order of the op's inputs.
        """
        dram = {name: np.empty(tensor.elements, by_name(tensor.dtype).numpy) for name, tensor in self.tensors.items()}
        for index, value in enumerate(inputs):
            dram[f"in{index}"] = np.ascontiguousarray(value).reshape(-1)
        done = 0
        starts = self.starts
        for is_instruction, group in groupby(self.items, lambda item: isinstance(item, Instruction)):
            if is_instruction:
                count = sum(1 for _ in group)
                machine.run(self.stream[starts[done] : starts[done + count]])
                done += count
                continue
            for item in group:
                if isinstance(item, Fill):
                    on_chip(machine, item.access)[...] = 0
                elif isinstance(item, Transfer):
                    _copy(machine, item, dram[item.tensor])
        shape = self.op.output_shape
        return [dram[name].reshape(shape) for name in sorted(dram) if name.startswith("out")]


def on_chip(machine: Machine, access: Access) -> Array:
    """The elements an operand walks, as a writable view of the machine's memory, outermost dim first."""
    memory = machine.sbuf if access.memory == "SB" else machine.psum
    element = by_name(access.dtype)
    row = memory[access.partition :, access.byte - access.byte % element.bytes :]
    flat = row[:, : row.shape[1] - row.shape[1] % element.bytes].view(element.numpy)
    strides = (memory.strides[0], *(step * element.bytes for step, _ in access.free))
    return as_strided(flat, shape=tuple(num for _, num in access.pattern), strides=strides)


def _copy(machine: Machine, transfer: Transfer, tensor: Array) -> None:
    nums = tuple(num for _, num in transfer.access.pattern)
    strides = tuple(step * tensor.itemsize for step in transfer.steps)
    outside = as_strided(tensor[transfer.offset :], shape=nums, strides=strides)
    inside = on_chip(machine, transfer.access)
    if transfer.direction == "load":
        inside[...] = outside
    else:
        outside[...] = inside


@dataclass
class Builder:
    """Collects the items of one lowering; regions are handed out from byte 0 of the state buffer on.

    Args:
        generation: generation lowered for.
        node: source node, carried by every instruction.
        piece: name of the part of the node that is lowered, where it was taken apart; instructions are named after it.
    """

    generation: isa.Generation
    node: str = ""
    piece: str = ""
    items: list[Item] = field(default_factory=list)
    tensors: dict[str, Tensor] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    _top: int = 0
    _count: int = 0

    @property
    def capacity(self) -> int:
        """State-buffer bytes of one partition."""
        return isa.GEOMETRY[self.generation].sbuf_bytes

    def restart(self) -> None:
        """Frees all regions; the next pass may use the whole state buffer again."""
        self._top = 0

    def region(self, name: str, elements: int, dtype: str, partitions: int) -> Region:
        """A fresh compact region of ``elements`` per partition, starting at partition 0."""
        element = by_name(dtype)
        start = -(-self._top // element.bytes) * element.bytes
        self._top = start + elements * element.bytes
        return Region(name, start, elements, dtype, partitions)

    def tensor(self, name: str, elements: int, dtype: str) -> str:
        """Declares a DRAM tensor and returns its name."""
        self.tensors[name] = Tensor(elements, dtype)
        return name

    def instruction(
        self, opcode: str, ins: Sequence[Access], outs: Sequence[Access], engine: str, **attributes: object
    ) -> None:
        """Appends an instruction."""
        name = f"{self.piece or self.node or 'op'}.{self._count}"
        self._count += 1
        self.items.append(Instruction(opcode, tuple(ins), tuple(outs), attributes, engine, name, self.node))

    def note(self, text: str) -> None:
        """Remembers how the op was re-tiled, once."""
        if text not in self.notes:
            self.notes.append(text)


@dataclass(frozen=True, slots=True)
class Region:
    """A compact stretch of the state buffer, the same in every partition it spans."""

    name: str
    byte: int
    elements: int
    dtype: str
    partitions: int

    def access(self, pairs: Sequence[Pair], start: int = 0, partitions: int = 0) -> Access:
        """An operand inside the region: free pairs outermost first, first element ``start``."""
        element = by_name(self.dtype)
        spanned = partitions or self.partitions
        pattern = ((self.elements, spanned), *pairs) if pairs else ((self.elements, spanned), (1, 1))
        return Access("SB", 0, self.byte + start * element.bytes, self.dtype, pattern, self.name, start)
