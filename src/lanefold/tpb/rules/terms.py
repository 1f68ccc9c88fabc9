"""Cures for bundles, said in terms of the instruction they were made from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from lanefold.diagnostics import Cure, Diagnostic
from lanefold.numerics import alu
from lanefold.numerics.dtypes import by_tag
from lanefold.tpb import isa
from lanefold.tpb.instruction import Instruction
from lanefold.tpb.limits.findings import named_operands
from lanefold.tpb.patterns import Location, free_pairs, locate
from lanefold.tpb.rules.batch import Batch

_SECOND_SOURCES = ("find_index8", "match_replace8", "gather")
"""Bundles whose source is the second operand of their instruction; the first one went into the bundle before."""


def operand_path(row: isa.BundleKind, role: isa.Role) -> tuple[str, int]:
    """Side (``"ins"`` or ``"outs"``) and position of the instruction's operand that a role of a bundle carries."""
    if role.access == "write":
        return "outs", 0
    return "ins", int(row.name in _SECOND_SOURCES)


_REVERSED = (("max8", "dst"), ("match_value_load", "src"))


def instruction_reverses(i: Instruction) -> bool:
    """Whether the encoder turns the short walk of a search round; keys of a replacement keep their direction."""
    return i.opcode != "MatchReplace"


Changes = dict[str, object]


def _dtype(i: Instruction, batch: Batch, at: int, field: str, value: object) -> Changes | None:
    made: Changes = {}
    name = by_tag(int(value), batch.generation).name  # type: ignore[call-overload]
    for role in batch.row.roles:
        if role.dtype_field == field:
            side, slot = operand_path(batch.row, role)
            made[f"{side}.{slot}.dtype"] = name
    return made or None


def _operator(i: Instruction, batch: Batch, at: int, field: str, value: object) -> Changes | None:
    row = alu.by_byte(int(value))  # type: ignore[call-overload]
    return {"attributes.op": row.name} if row else None


def _command(i: Instruction, batch: Batch, at: int, field: str, value: object) -> Changes | None:
    return {"attributes.op": next(name for name, number in isa.CROSS_LANE_COMMANDS.items() if number == value)}


def _axis(i: Instruction, batch: Batch, at: int, field: str, value: object) -> Changes | None:
    return {"attributes.axis": next(name for name, (_, number) in isa.BIR_AXES.items() if number == value)}


def _engine(i: Instruction, batch: Batch, at: int, field: str, value: object) -> Changes | None:
    return {"engine": value}


def _negate(i: Instruction, batch: Batch, at: int, field: str, value: object) -> Changes | None:
    return {"attributes.negate": bool(value)}


def _channels(i: Instruction, batch: Batch, at: int, field: str, value: object) -> Changes | None:
    made: Changes = {}
    across = i.attributes.get("axis") in isa.BIR_CROSS_LANE_AXES
    for side, operands in (("ins", i.ins), ("outs", i.outs)):
        for slot, operand in enumerate(operands):
            if not (across and side == "outs"):
                made[f"{side}.{slot}.pattern"] = [(operand.pattern[0][0], value), *operand.free]
    return made


def _start(i: Instruction, batch: Batch, at: int, field: str, value: object) -> Changes | None:
    walk = batch.walk(field.split(".")[0])
    side, slot = operand_path(batch.row, walk.role)
    new = locate(int(value), batch.generation)  # type: ignore[call-overload]
    if getattr(i, side)[slot].indices is not None:
        return _placed(f"{side}.{slot}.indices", new, new.byte)
    # Reversed walks and later chunks start elsewhere than the operand itself.
    byte = getattr(i, side)[slot].byte + new.byte - int(walk.byte[at])
    return _placed(f"{side}.{slot}", new, byte)


def _data(i: Instruction, batch: Batch, at: int, field: str, value: object) -> Changes | None:
    side, slot = operand_path(batch.row, batch.walk(field.split(".")[0]).role)
    new = locate(int(value), batch.generation)  # type: ignore[call-overload]
    return _placed(f"{side}.{slot}", new, new.byte)


def _placed(path: str, new: Location, byte: int) -> Changes:
    return {f"{path}.memory": new.memory, f"{path}.partition": new.partition, f"{path}.byte": byte}


def _walk(i: Instruction, batch: Batch, at: int, changes: Changes) -> Changes | None:
    """Steps and nums of a descriptor as the pattern of its operand; a chunk of a table has no pattern of its own."""
    made: Changes = {}
    for role in batch.row.roles:
        step_path, num_path = f"{role.field}.step_elem", f"{role.field}.num_elem"
        if step_path not in changes and num_path not in changes:
            continue
        if batch.row.name == "pool_buffer_load":
            return None
        walk = batch.walk(role.field)
        steps = changes.get(step_path, [int(step[at]) for step in walk.steps])
        nums = changes.get(num_path, [int(num[at]) for num in walk.nums])
        pairs = free_pairs(steps, nums)  # type: ignore[arg-type]
        if (batch.row.name, role.field) in _REVERSED and instruction_reverses(i):
            pairs = tuple((-step, num) for step, num in pairs)
        side, slot = operand_path(batch.row, role)
        made[f"{side}.{slot}.pattern"] = [getattr(i, side)[slot].pattern[0], *pairs]
    return made


def _sync(i: Instruction, batch: Batch, at: int, field: str, value: object) -> Changes | None:
    return {f"sync.{field}": value}


_TERMS: dict[str, Callable[[Instruction, Batch, int, str, object], Changes | None]] = {
    "in_dtype": _dtype,
    "out_dtype": _dtype,
    "dtype": _dtype,
    "op": _operator,
    "reduce_op": _command,
    "op_dim": _axis,
    "negated": _negate,
    "engine": _engine,
    "wait_mode": _sync,
    "update_mode": _sync,
    "num_active_channels": _channels,
    "src.start_addr": _start,
    "dst.start_addr": _start,
    "src.data_addr": _data,
    "dst.data_addr": _data,
}


def in_terms_of(instruction: Instruction, batch: Batch, at: int, cure: Cure | str) -> Cure | str:
    """The cure with its changes keyed by the instruction's own parts; text only where a part has no counterpart."""
    if isinstance(cure, str) or not cure.changes:
        return cure
    changes = dict(cure.changes)
    made = _walk(instruction, batch, at, changes)
    if made is None:
        return Cure(cure.text)
    for field, value in changes.items():
        if field.endswith((".step_elem", ".num_elem")):
            continue
        term = _TERMS.get(field)
        said = term(instruction, batch, at, field, value) if term else None
        if said is None:
            return Cure(cure.text)
        made |= said
    return Cure(cure.text, made)


def of_instruction(instruction: Instruction, finding: Diagnostic) -> Diagnostic:
    """A finding of the packer, with cures for the instruction that it speaks of.

    Places of operands are checked before; what the packer finds beyond them are places that a walk leads to.
    """
    paths = [(path, operand) for path, operand in named_operands(instruction) if operand.name == finding.place.operand]
    cures = tuple(Cure(cure.text) for cure in finding.cures)
    if finding.code == "TPB-OPERAND-PARTITION" and paths:
        path, operand = paths[0]
        near = {f"{path}.byte": 0, f"{path}.pattern": [operand.pattern[0], (1, operand.elements)]}
        cures = (Cure("walk neighbouring elements from byte 0 of the partition", near), *cures)
    return replace(finding, cures=cures)


def in_words(note: Diagnostic) -> Diagnostic:
    """A note on a whole stream, without changes of bundle fields, which instructions do not have."""
    fields = {field.name for struct in isa.STRUCTS.values() for field in struct.fields}
    cures = (Cure(cure.text) if fields & cure.changes.keys() else cure for cure in note.cures)
    return replace(note, cures=tuple(cures))
