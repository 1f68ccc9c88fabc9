"""Cures for bundles, said in terms of the instruction they were made from."""

from __future__ import annotations

from collections.abc import Callable

from lanefold.diagnostics import Cure
from lanefold.numerics import alu
from lanefold.numerics.dtypes import by_tag
from lanefold.tpb import isa
from lanefold.tpb.instruction import Instruction
from lanefold.tpb.patterns import free_pairs, locate
from lanefold.tpb.rules.batch import Batch, role_of

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
    # Reversed walks and later chunks start elsewhere than the operand itself.
    byte = getattr(i, side)[slot].byte + new.byte - int(walk.byte[at])
    path = f"{side}.{slot}"
    return {f"{path}.memory": new.memory, f"{path}.partition": new.partition, f"{path}.byte": byte}


def _nums(i: Instruction, batch: Batch, at: int, field: str, value: object) -> Changes | None:
    name = field.split(".")[0]
    if batch.row.name == "pool_buffer_load" or "." not in field:
        return None
    role = role_of(batch.row, name)
    side, slot = operand_path(batch.row, role)
    pattern = getattr(i, side)[slot].pattern
    walk = batch.walk(name)
    steps = [int(step[at]) for step in walk.steps]
    if (batch.row.name, name) in _REVERSED and instruction_reverses(i):
        steps = [-step for step in steps]
    return {f"{side}.{slot}.pattern": [pattern[0], *free_pairs(steps, value)]}  # type: ignore[arg-type]


_TERMS: dict[str, Callable[[Instruction, Batch, int, str, object], Changes | None]] = {
    "in_dtype": _dtype,
    "out_dtype": _dtype,
    "dtype": _dtype,
    "op": _operator,
    "reduce_op": _command,
    "op_dim": _axis,
    "negated": _negate,
    "engine": _engine,
    "num_active_channels": _channels,
    "src.start_addr": _start,
    "dst.start_addr": _start,
    "src.num_elem": _nums,
    "dst.num_elem": _nums,
}


def in_terms_of(instruction: Instruction, batch: Batch, at: int, cure: Cure | str) -> Cure | str:
    """The cure with its changes keyed by the instruction's own parts; text only where a part has no counterpart."""
    if isinstance(cure, str) or not cure.changes:
        return cure
    made: Changes = {}
    for field, value in cure.changes.items():
        term = _TERMS.get(field)
        said = term(instruction, batch, at, field, value) if term else None
        if said is None:
            return Cure(cure.text)
        made |= said
    return Cure(cure.text, made)
