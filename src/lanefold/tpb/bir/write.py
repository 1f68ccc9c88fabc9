"""From typed instructions back to a BIR module."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lanefold.diagnostics import LanefoldError
from lanefold.numerics.dtypes import by_name
from lanefold.tpb import isa
from lanefold.tpb.binary.encode import listed_instructions
from lanefold.tpb.binary.layout import check_generation
from lanefold.tpb.bir.form import plain
from lanefold.tpb.bir.module import ARCH, Module
from lanefold.tpb.bir.operands import check_mode
from lanefold.tpb.bir.records import (
    Block,
    Function,
    InstructionRecord,
    MemoryLocation,
    MemoryLocationSet,
    Operand,
    PhysicalAp,
    RegisterAp,
)
from lanefold.tpb.instruction import Instruction
from lanefold.tpb.limits.parts import part_findings
from lanefold.tpb.patterns import Access

MAIN_FUNCTION = "sg0000"


def from_instructions(instructions: Iterable[Instruction], generation: str = "v2") -> Module:
    """A module with one function that holds the instructions and a memory location for each place they use.

    Raises:
        LanefoldError: if there are no instructions or a part of one is of another type, the generation or an element
            type is unknown, or a wait or update mode has no name.
    """
    known = check_generation(generation)
    places = _Places(known)
    listed = listed_instructions(instructions)
    ill_typed = [finding for instruction in listed for finding in part_findings(instruction)]
    if ill_typed:
        raise LanefoldError(ill_typed)
    records = [_record(instruction, places) for instruction in listed]
    block = Block(name="block0", instructions=[*records])
    function = Function(name=MAIN_FUNCTION, allocations=[*places.sets.values()], blocks=[block])
    return Module(functions=[function], arch=ARCH[known], written=frozenset({"version", "attributes"}))


class _Places:
    """Memory locations by where they are; each place and element type gets one."""

    def __init__(self, generation: isa.Generation) -> None:
        self.geometry = isa.GEOMETRY[generation]
        self.sets: dict[tuple[str, int, int, str], MemoryLocationSet] = {}
        self.taken: set[str] = set()

    def name(self, access: Access) -> str:
        """The memref of an operand's place, allocated where it is new."""
        key = (access.memory, access.partition, access.byte, access.dtype)
        found = self.sets.get(key)
        if found is None:
            name = access.name or f"t{len(self.sets)}"
            while name in self.taken:
                name = f"{name}_{len(self.sets)}"
            self.taken.add(name)
            found = self.sets[key] = MemoryLocationSet(
                name=f"{name}_set",
                dtype=access.dtype,
                memorylocations=[self._location(name, access)],
                written=frozenset({"Skind"}),
            )
        location = found.memorylocations[0]
        reach = self._dims(access)
        location.dims = [max(pair) for pair in zip(location.dims, reach, strict=True)]
        return location.name

    def _location(self, name: str, access: Access) -> MemoryLocation:
        bank, byte = divmod(access.byte, self.geometry.psum_bank_bytes) if access.memory == "PSUM" else (0, access.byte)
        return MemoryLocation(
            name=name,
            type=access.memory,
            base=access.partition,
            addr=byte,
            bank=bank,
            dims=[0, 0],
            written=frozenset({"Skind", "addr", "base", "bank"}),
        )

    def _dims(self, access: Access) -> list[int]:
        """Partitions and bytes per partition that an operand reaches from its first element on."""
        if not access.pattern:
            return [0, 0]
        last = sum(max(step, 0) * (num - 1) for step, num in access.free)
        return [access.channels, (last + 1) * by_name(access.dtype).bytes]


def _record(instruction: Instruction, places: _Places) -> InstructionRecord:
    tensors: list[Access] = []
    for access in (*instruction.ins, *instruction.outs):
        if access.indices is not None and access.indices not in tensors:
            tensors.append(access.indices)
    rest: dict[str, Any] = plain(dict(instruction.attributes), instruction.place())
    return InstructionRecord(
        opcode=instruction.opcode,
        ins=[_operand(access, places, tensors) for access in instruction.ins],
        outs=[_operand(access, places, tensors) for access in instruction.outs],
        indirection_ins=[_operand(access, places, []).write() for access in tensors] or None,
        name=instruction.name,
        engine=instruction.engine,
        node=instruction.node,
        sync_info=_sync_info(instruction),
        rest=rest,
        written=frozenset({"engine"}),
    )


def _operand(access: Access, places: _Places, tensors: list[Access]) -> Operand:
    pairs = [(int(step), int(num)) for step, num in access.pattern]
    if access.register is not None:
        return RegisterAp(ap=pairs, dtype=access.dtype, regref=f"r{access.register}")
    name = places.name(access)
    made = PhysicalAp(ap=pairs, dtype=access.dtype, memref=name, memsetref=f"{name}_set", written=frozenset({"offset"}))
    if access.indices is not None:
        made.tensor_indirect_arg_id = tensors.index(access.indices)
        made.num_tensor_indirect_indices = access.indices.elements
    return made


def _sync_info(instruction: Instruction) -> dict[str, Any] | None:
    sync = instruction.sync
    info: dict[str, Any] = {}
    if sync.wait_mode or sync.wait_index:
        mode = check_mode("wait_mode", sync.wait_mode, instruction)
        info["on_wait"] = [{"id": sync.wait_index, "wait_value": sync.value, "mode": mode}]
    if sync.update_mode or sync.update_index:
        mode = check_mode("update_mode", sync.update_mode, instruction)
        info["on_update"] = [{"id": sync.update_index, "update_value": sync.value, "mode": mode}]
    return info or None
