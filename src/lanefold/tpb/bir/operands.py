"""From one BIR-JSON instruction and its allocations to a typed instruction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import msgspec

from lanefold.diagnostics import Cure, LanefoldError, Place, Rule
from lanefold.numerics.dtypes import by_name, nearest_names
from lanefold.tpb import isa
from lanefold.tpb.binary import joined_sync
from lanefold.tpb.bir.form import NOT_FINITE, bad_form, mismatch, with_article
from lanefold.tpb.bir.records import (
    InstructionRecord,
    MemoryLocation,
    Operand,
    PhysicalAp,
    RegisterAp,
    read_entry,
    read_list,
    read_operand,
)
from lanefold.tpb.instruction import Instruction, Sync
from lanefold.tpb.patterns import ON_CHIP, Access, Memory

_MEMREF = Rule(
    "TPB-BIR-MEMREF",
    "An operand's memref names an allocation of its function.",
    "BIR JSON record schema: memref",
)
_ELEMENT = Rule(
    "TPB-OPERAND-DTYPE",
    "An operand has the element type of its memory location.",
    "BIR simulator: access patterns",
)
_KIND = Rule(
    "TPB-BIR-OPERAND-KIND",
    "Operands of this leg have a known place (physical_ap) or a start address in one register (register_ap).",
    "Access-pattern encoder dispatch; ADDR4, register form",
)
_REGISTER = Rule(
    "TPB-OPERAND-REGISTER",
    "A register operand says which register it means, and has no offset register.",
    "ADDR4, register form; access-pattern encoder dispatch",
)
_UNCONDITIONAL = Rule(
    "TPB-BIR-UNCONDITIONAL",
    "Instructions of this leg run unconditionally.",
    "Pool Encoding; BIR JSON record schema: predicates",
)
_INDIRECTION = Rule(
    "TPB-BIR-INDIRECTION",
    "An indirect operand names one of the instruction's indirection_ins by its place there, each of them is named, "
    "and a number of indices is that of the index tensor.",
    "BIR JSON record schema: indirection_ins, tensor_indirect_arg_id, num_tensor_indirect_indices",
)
_SYNC = Rule(
    "TPB-SYNC-ONE",
    "A bundle carries at most one wait and one update.",
    "Bundle events",
)

_OFFSETS = {"reg_ap_offset": "an offset register", "is_regloc_offset": "a register location as its offset"}
REGISTER_LOCATION = "REG"
"""Type of allocations that are registers; their ``addr`` is taken as the register number (our convention)."""


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
        bir: the instruction record, operands of kind ``physical_ap`` or ``register_ap``.
        allocations: memref to memory location: ``type`` (``SB`` or ``PSUM``), ``base`` partition, ``addr`` byte,
            ``bank``, ``dims`` [partitions, bytes per partition], ``dtype``.

    Raises:
        LanefoldError: where a record lacks a key, a memref is unknown or an operand is not on chip.
    """
    if not isinstance(bir, Mapping):
        raise bad_form("the instruction is not an object", got=bir, allowed="an object", place=Place())
    if not isinstance(allocations, Mapping):
        raise bad_form(
            "the allocations are not an object", got=allocations, allowed="{memref: location}", place=Place()
        )
    entry = read_entry({**bir, "ins": bir.get("ins"), "outs": bir.get("outs")}, Place())
    record = entry if isinstance(entry, InstructionRecord) else InstructionRecord.read(bir, Place())
    return typed(record, allocations, record.own())


def typed(record: InstructionRecord, allocations: Mapping[str, Any], own: Mapping[str, Any]) -> Instruction:
    """The typed form of an instruction record; ``own`` are the operation's keys to take along.

    Raises:
        LanefoldError: as `instruction`.
    """
    place = Place(node=record.node, instruction=record.name or record.opcode)
    _check_unconditional(record, place)
    listed = read_list(record.indirection_ins or [], "indirection_ins", read_operand, place)
    indices = [_access(operand, allocations, place) for operand in listed]
    _check_named(record, len(indices), place)
    made = Instruction(
        record.opcode,
        tuple(_indirect(_access(operand, allocations, place), operand, indices, place) for operand in record.ins),
        tuple(_indirect(_access(operand, allocations, place), operand, indices, place) for operand in record.outs),
        _attributes(record.opcode, own),
        engine=record.engine,
        name=record.name,
        node=record.node,
    )
    return _with_sync(made, record.sync_info) if record.sync_info else made


def _check_unconditional(record: InstructionRecord, place: Place) -> None:
    if record.predicates:
        raise _UNCONDITIONAL.error(
            f"{record.opcode} has predicates",
            got=repr(record.predicates)[:120],
            allowed="no predicates",
            place=Place(node=place.node, instruction=place.instruction, field="predicates"),
            cures=[
                Cure("run the instruction without it, or keep it for the compiler that wrote it", {"predicates": None})
            ],
        )


def _check_named(record: InstructionRecord, listed: int, place: Place) -> None:
    """Every index tensor belongs to an operand; one that none names would be lost."""
    named = {
        operand.tensor_indirect_arg_id for operand in (*record.ins, *record.outs) if isinstance(operand, PhysicalAp)
    }
    for number in range(listed):
        if number not in named:
            raise _INDIRECTION.error(
                f"no operand of {record.opcode} names indirection_ins {number}",
                got=f"{listed} in indirection_ins",
                allowed="an operand with that tensor_indirect_arg_id for each",
                place=Place(node=place.node, instruction=place.instruction, field="indirection_ins"),
                cures=[
                    f"give the operand that it addresses the key tensor_indirect_arg_id {number}",
                    "leave the index tensor out",
                ],
            )


def _indirect(access: Access, operand: Operand, indices: Sequence[Access], place: Place) -> Access:
    """The operand with its index tensor, if it names one."""
    if not isinstance(operand, PhysicalAp):
        return access
    number, count = operand.tensor_indirect_arg_id, operand.num_tensor_indirect_indices
    here = Place(node=place.node, instruction=place.instruction, operand=access.name)
    if number is None and count is None:
        return access
    if number is None or not 0 <= number < len(indices):
        last = len(indices) - 1
        raise _INDIRECTION.error(
            f"operand {access.name} names indirection_ins {number}, of {len(indices)}",
            got=number,
            allowed=f"0 to {last}" if indices else "an index tensor in indirection_ins",
            place=here,
            cures=["put the index tensor into indirection_ins and name it by its place there, from 0"],
        )
    if count not in (None, indices[number].elements):
        raise _INDIRECTION.error(
            f"operand {access.name} reads {count} indices, its index tensor has {indices[number].elements}",
            got=count,
            allowed=str(indices[number].elements),
            place=here,
            cures=[
                Cure(f"write {indices[number].elements}", {"num_tensor_indirect_indices": indices[number].elements})
            ],
        )
    return replace(access, indices=indices[number])


def _attributes(opcode: str, own: Mapping[str, Any]) -> dict[str, Any]:
    """The operation's keys with floats and pairs in the types that the encoder takes."""
    row = isa.BIR_BY_OPCODE.get(opcode)
    kinds = {attribute.name: attribute.type for attribute in row.attributes} if row else {}
    made = dict(own)
    for name, value in own.items():
        if kinds.get(name) == "float" and isinstance(value, str):
            made[name] = NOT_FINITE.get(value, value)
        elif kinds.get(name) == "pattern" and isinstance(value, list):
            made[name] = [_pair(item) for item in value]
    return made


def _pair(item: Any) -> Any:
    """A pair, also where it is written as an object."""
    if isinstance(item, Mapping) and item.keys() == {"step", "num"}:
        return [item["step"], item["num"]]
    return item


def _access(operand: Operand, allocations: Mapping[str, Any], place: Place) -> Access:
    if isinstance(operand, RegisterAp):
        return _register_access(operand, allocations, place)
    if not isinstance(operand, PhysicalAp) or operand.dynamic_ap_info:
        kind = "dynamic physical_ap" if isinstance(operand, PhysicalAp) else operand.kind
        raise _KIND.error(
            f"an operand is {with_article(kind)}" if kind else "an operand has an empty kind",
            got=kind or "an empty text",
            allowed="physical_ap, register_ap",
            place=place,
            cures=["let the compiler's address lowering turn it into a physical_ap or register_ap first"],
        )
    here = Place(node=place.node, instruction=place.instruction, operand=operand.memref)
    location = _location(operand, allocations, here)
    memory = _memory(location, here)
    element = by_name(operand.dtype)
    start = operand.offset * element.bytes
    # A missing or zero partition step has no row to cross, so the offset stays inside the home partition.
    row = (operand.ap[0][0] if operand.ap else 0) * element.bytes
    rows, byte = divmod(start, row) if row > 0 else (0, start)
    home = location.addr if memory == "SB" else location.bank * isa.GEOMETRY["v2"].psum_bank_bytes + location.addr
    pattern = tuple((step, num) for step, num in operand.ap)
    return Access(memory, location.base + rows, home + byte, operand.dtype, pattern, operand.memref, operand.offset)


def _register_access(operand: RegisterAp, allocations: Mapping[str, Any], place: Place) -> Access:
    here = Place(node=place.node, instruction=place.instruction, operand=str(operand.regref))
    number = _register_number(operand, allocations, here)
    for name in ("reg_ap_offset", "is_regloc_offset"):
        if value := getattr(operand, name):
            raise _REGISTER.error(
                f"register operand {operand.regref} has {_OFFSETS[name]} ({name} {value})",
                got=f"{name} {value}",
                allowed=f"no {name}",
                place=here,
                cures=[Cure("add the offset into the address register beforehand", {name: None})],
            )
    pattern = tuple((step, num) for step, num in operand.ap)
    by_name(operand.dtype)
    return Access("SB", 0, 0, operand.dtype, pattern, str(operand.regref), register=number)


def _register_number(operand: RegisterAp, allocations: Mapping[str, Any], place: Place) -> int:
    """The number of a register that is given as a number, as ``r5``, or by a REG allocation's name."""
    if isinstance(operand.regref, int):
        return operand.regref
    if operand.regref in allocations:
        location = _as_location(allocations[operand.regref], operand.regref, place)
        if location.type == REGISTER_LOCATION:
            return location.addr
    digits = operand.regref.removeprefix("r")
    if digits.isascii() and digits.isdigit() and len(digits) < 10:
        return int(digits)
    raise _REGISTER.error(
        f"{operand.regref!r} names no register",
        got=operand.regref,
        allowed=f"r0 to r{isa.ADDRESS_REGISTERS - 1}, a number, or the name of a {REGISTER_LOCATION} allocation",
        place=place,
        cures=[Cure("write r0", {"regref": "r0"})],
    )


def _location(operand: PhysicalAp, allocations: Mapping[str, Any], place: Place) -> MemoryLocation:
    if operand.memref not in allocations:
        names = [str(name) for name in allocations]
        near = nearest_names(operand.memref, names) if names else []
        raise _MEMREF.error(
            f"memref {operand.memref!r} names no allocation",
            got=operand.memref or "nothing",
            allowed=", ".join(names) or "the function has no allocations",
            place=place,
            cures=[f"write {near[0]}" if near else "allocate the tensor"],
        )
    location = _as_location(allocations[operand.memref], operand.memref, place)
    if location.dtype and location.dtype != operand.dtype:
        raise _ELEMENT.error(
            f"operand {operand.memref} is {operand.dtype}, its memory location {location.dtype}",
            got=operand.dtype or "nothing",
            allowed=location.dtype,
            place=place,
            cures=[Cure(f"use {location.dtype}", {"dtype": location.dtype})],
        )
    return location


def _as_location(found: Any, name: str, place: Place) -> MemoryLocation:
    if isinstance(found, MemoryLocation):
        return found
    try:
        return MemoryLocation.read(found, place)
    except LanefoldError as error:
        raise bad_form(
            f"allocation {name} is not a memory location: {error.diagnostics[0].message}",
            got=found,
            allowed="{type, addr, base, bank, dims, dtype}",
            place=place,
        ) from None


def _memory(location: MemoryLocation, place: Place) -> Memory:
    if location.type == "SB":
        return "SB"
    if location.type == "PSUM":
        return "PSUM"
    raise ON_CHIP.error(
        f"operand {place.operand} lies in {location.type}",
        got=location.type or "nothing",
        allowed="SB, PSUM",
        place=place,
        cures=[Cure("load the tensor into the state buffer first", {"type": "SB"})],
    )


_Event = TypeVar("_Event", OnWait, OnUpdate)


def _events(info: Any, key: str, kind: type[_Event], made: Instruction) -> list[_Event]:
    try:
        return msgspec.convert(info.get(key, []), list[kind])  # type: ignore[valid-type]
    except (msgspec.ValidationError, AttributeError, OverflowError) as error:
        raise bad_form(
            "sync_info is no object" if isinstance(error, AttributeError) else mismatch(f"{key} entry", error),
            got=info,
            allowed="{on_wait: [{id, wait_value}], on_update: [{id, update_value}]}",
            place=made.place("sync_info"),
        ) from None


def _with_sync(made: Instruction, info: object) -> Instruction:
    waits = _events(info, "on_wait", OnWait, made)
    updates = _events(info, "on_update", OnUpdate, made)
    if len(waits) > 1 or len(updates) > 1:
        raise _SYNC.error(
            f"{len(waits)} waits and {len(updates)} updates",
            got=f"{len(waits)} waits, {len(updates)} updates",
            allowed="at most one of each",
            place=made.place("sync_info"),
            cures=["move the others to event-semaphore bundles of their own"],
        )
    wait = Sync(_mode("wait_mode", waits[0].mode, made), waits[0].id, value=waits[0].wait_value) if waits else Sync()
    update = Sync()
    if updates:
        first = updates[0]
        mode = first.mode or ("SEM_INC_COMPLETE" if first.update_value == 1 else "SEM_ADD_IMM_COMPLETE")
        update = Sync(update_mode=_mode("update_mode", mode, made), update_index=first.id, value=first.update_value)
    return replace(made, sync=joined_sync(wait, update, made))


def _mode(table: str, name: str, made: Instruction) -> int:
    for value in isa.ENUMS[table]:
        if value.name == name:
            return value.number
    raise bad_form(
        f"{table} {name!r} does not exist",
        got=name,
        allowed=", ".join(value.name for value in isa.ENUMS[table]),
        place=made.place("sync_info"),
        cure=f"write {isa.ENUMS[table][1].name}",
    )


def check_mode(table: str, number: int, made: Instruction) -> str:
    """The name of a wait or update mode.

    Raises:
        LanefoldError: ``TPB-BIR-FORM`` if the number has none.
    """
    for value in isa.ENUMS[table]:
        if value.number == number:
            return value.name
    raise bad_form(
        f"{table} {number} has no name",
        got=number,
        allowed=", ".join(str(value.number) for value in isa.ENUMS[table]),
        place=made.place("sync_info"),
        cure=f"use {isa.ENUMS[table][1].number}, {isa.ENUMS[table][1].name}",
    )
