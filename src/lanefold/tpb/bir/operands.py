"""From one BIR-JSON instruction and its allocations to a typed instruction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from lanefold.diagnostics import Cure, Place, Rule
from lanefold.numerics.dtypes import by_name, nearest_names
from lanefold.tpb import isa
from lanefold.tpb.binary import joined_sync
from lanefold.tpb.instruction import Instruction, Sync
from lanefold.tpb.patterns import Access, Memory

_FORM = Rule(
    "TPB-BIR-FORM",
    "A BIR instruction, operand or allocation has the keys of its record, each of the right kind.",
    "BIR JSON record schema",
    usage=True,
)
_MEMREF = Rule(
    "TPB-BIR-MEMREF",
    "An operand's memref names an allocation of its function.",
    "BIR JSON record schema: memref",
)
_PLACED = Rule(
    "TPB-OPERAND-MEMORY",
    "Operands of this leg lie in the state buffer (SB) or in PSUM.",
    "ISA headers: tensor_start_addr_valid",
    predicate="tensor_start_addr_valid",
)
_ELEMENT = Rule(
    "TPB-OPERAND-DTYPE",
    "An operand has the element type of its memory location.",
    "BIR simulator: access patterns",
)
_SYNC = Rule(
    "TPB-SYNC-ONE",
    "A bundle carries at most one wait and one update.",
    "Bundle events",
)

_OPERAND_KEYS = ("ins", "outs")
_HEADER_KEYS = frozenset(
    {
        "opcode",
        "name",
        "engine",
        "engine_id",
        "origin",
        "scheduled_start",
        "scheduled_end",
        "optin_passes",
        "dependencies",
        "loop_carried_dependencies",
        "unroll_dependencies",
        "sync_info",
        "indirection_ins",
        "debug",
        "loopnest",
        "predicates",
        "order",
        "node",
        *_OPERAND_KEYS,
    }
)
"""Keys that any instruction may carry beside its own."""


class PhysicalAp(msgspec.Struct, tag_field="kind", tag="physical_ap"):
    """An operand at a known place: (step, num) pairs outermost first and an offset, both in elements."""

    ap: list[tuple[int, int]]
    dtype: str
    memref: str
    memsetref: str = ""
    offset: int = 0


class MemoryLocation(msgspec.Struct):
    """Where a tensor lies: ``addr`` is a byte inside a partition, ``base`` its first partition, ``dims`` its size."""

    type: str
    addr: int = 0
    base: int = 0
    bank: int = 0
    dims: list[int] = []
    dtype: str = ""


class OnWait(msgspec.Struct):
    """One wait of an instruction: semaphore ``id`` reaches ``wait_value``, or a wait mode by name."""

    id: int
    wait_value: int = 0
    mode: str = "SEM_GE_IMM"


class OnUpdate(msgspec.Struct):
    """One update of an instruction; without a mode it adds ``update_value`` on completion."""

    id: int
    update_value: int = 1
    mode: str = ""


def instruction(bir: Mapping[str, Any], allocations: Mapping[str, Any]) -> Instruction:
    """The typed form of one BIR-JSON instruction.

    Args:
        bir: the instruction record, operands of kind ``physical_ap``.
        allocations: memref to memory location: ``type`` (``SB`` or ``PSUM``), ``base`` partition, ``addr`` byte,
            ``bank``, ``dims`` [partitions, bytes per partition], ``dtype``.

    Raises:
        LanefoldError: where a record lacks a key, a memref is unknown or an operand is not on chip.
    """
    name = str(bir.get("name", ""))
    opcode = bir.get("opcode")
    if not isinstance(opcode, str):
        raise _bad_form("the instruction has no opcode", got=opcode, allowed=", ".join(isa.BIR_BY_OPCODE), name=name)
    operands: dict[str, tuple[Access, ...]] = {}
    for key in _OPERAND_KEYS:
        listed = bir.get(key)
        if not isinstance(listed, list):
            raise _bad_form(f"{key} is not a list of operands", got=listed, allowed="a list", name=name, field=key)
        operands[key] = tuple(_access(operand, allocations, name) for operand in listed)
    own = {key: value for key, value in bir.items() if key not in _HEADER_KEYS}
    made = Instruction(
        opcode,
        operands["ins"],
        operands["outs"],
        own,
        engine=str(bir.get("engine", "Unassigned")),
        name=name,
        node=str(bir.get("node", "")),
    )
    info = bir.get("sync_info")
    if info:
        made = _with_sync(made, info)
    return made


def _bad_form(message: str, *, got: object, allowed: str, name: str, field: str = "") -> Exception:
    return _FORM.error(
        message,
        got=repr(got)[:120],
        allowed=allowed,
        place=Place(instruction=name, field=field),
        cures=["write the record as the BIR JSON schema has it"],
    )


def _access(operand: object, allocations: Mapping[str, Any], name: str) -> Access:
    try:
        parsed = msgspec.convert(operand, PhysicalAp)
    except msgspec.ValidationError as error:
        raise _bad_form(
            f"an operand is not a physical_ap: {error}",
            got=operand,
            allowed="{kind: physical_ap, ap, dtype, memref, offset}",
            name=name,
        ) from None
    place = Place(instruction=name, operand=parsed.memref)
    location = _location(parsed, allocations, place)
    memory = _memory(location, place)
    element = by_name(parsed.dtype)
    start = parsed.offset * element.bytes
    # A missing or zero partition step has no row to cross, so the offset stays inside the home partition.
    row = (parsed.ap[0][0] if parsed.ap else 0) * element.bytes
    rows, byte = divmod(start, row) if row > 0 else (0, start)
    home = location.addr if memory == "SB" else location.bank * isa.GEOMETRY["v2"].psum_bank_bytes + location.addr
    pattern = tuple((step, num) for step, num in parsed.ap)
    return Access(memory, location.base + rows, home + byte, parsed.dtype, pattern, parsed.memref, parsed.offset)


def _location(parsed: PhysicalAp, allocations: Mapping[str, Any], place: Place) -> MemoryLocation:
    if parsed.memref not in allocations:
        names = list(allocations)
        near = nearest_names(parsed.memref, names) if names else []
        raise _MEMREF.error(
            f"memref {parsed.memref!r} names no allocation",
            got=parsed.memref,
            allowed=", ".join(names) or "the function has no allocations",
            place=place,
            cures=[f"write {near[0]}" if near else "allocate the tensor"],
        )
    found = allocations[parsed.memref]
    try:
        location = found if isinstance(found, MemoryLocation) else msgspec.convert(found, MemoryLocation)
    except msgspec.ValidationError as error:
        raise _bad_form(
            f"allocation {parsed.memref} is not a memory location: {error}",
            got=found,
            allowed="{type, addr, base, bank, dims, dtype}",
            name=place.instruction,
        ) from None
    if location.dtype and location.dtype != parsed.dtype:
        raise _ELEMENT.error(
            f"operand {parsed.memref} is {parsed.dtype}, its memory location {location.dtype}",
            got=parsed.dtype,
            allowed=location.dtype,
            place=place,
            cures=[Cure(f"use {location.dtype}", {"dtype": location.dtype})],
        )
    return location


def _memory(location: MemoryLocation, place: Place) -> Memory:
    if location.type == "SB":
        return "SB"
    if location.type == "PSUM":
        return "PSUM"
    raise _PLACED.error(
        f"operand {place.operand} lies in {location.type}",
        got=location.type,
        allowed="SB, PSUM",
        place=place,
        cures=[Cure("load the tensor into the state buffer first", {"type": "SB"})],
    )


def _with_sync(made: Instruction, info: object) -> Instruction:
    place = made.place("sync_info")
    try:
        waits = msgspec.convert(info.get("on_wait", []), list[OnWait])  # type: ignore[attr-defined]
        updates = msgspec.convert(info.get("on_update", []), list[OnUpdate])  # type: ignore[attr-defined]
    except (msgspec.ValidationError, AttributeError) as error:
        raise _bad_form(
            f"sync_info is malformed: {error}",
            got=info,
            allowed="{on_wait: [{id, wait_value}], on_update: [{id, update_value}]}",
            name=made.name,
            field="sync_info",
        ) from None
    if len(waits) > 1 or len(updates) > 1:
        raise _SYNC.error(
            f"{len(waits)} waits and {len(updates)} updates",
            got=f"{len(waits)} waits, {len(updates)} updates",
            allowed="at most one of each",
            place=place,
            cures=["move the others to event-semaphore bundles of their own"],
        )
    wait = Sync(_mode("wait_mode", waits[0].mode, made), waits[0].id, value=waits[0].wait_value) if waits else Sync()
    update = Sync()
    if updates:
        first = updates[0]
        mode = first.mode or ("SEM_INC_COMPLETE" if first.update_value == 1 else "SEM_ADD_IMM_COMPLETE")
        update = Sync(update_mode=_mode("update_mode", mode, made), update_index=first.id, value=first.update_value)
    return Instruction(
        made.opcode,
        made.ins,
        made.outs,
        made.attributes,
        made.engine,
        made.name,
        made.node,
        joined_sync(wait, update, made),
    )


def _mode(table: str, name: str, made: Instruction) -> int:
    for value in isa.ENUMS[table]:
        if value.name == name:
            return value.number
    raise _bad_form(
        f"{table} {name!r} does not exist",
        got=name,
        allowed=", ".join(value.name for value in isa.ENUMS[table]),
        name=made.name,
        field="sync_info",
    )
