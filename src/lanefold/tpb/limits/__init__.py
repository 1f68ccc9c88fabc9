"""What an instruction must satisfy before it has bytes: the front-end limits of every BIR operation."""

from __future__ import annotations

from collections.abc import Callable

from lanefold.diagnostics import Diagnostic
from lanefold.tpb import isa
from lanefold.tpb.instruction import Instruction
from lanefold.tpb.limits import operands, others, record, reduce
from lanefold.tpb.limits.findings import Findings
from lanefold.tpb.limits.indirect import indirect_findings
from lanefold.tpb.limits.operands import ADDRESS_REGISTER, CHANNELS
from lanefold.tpb.limits.parts import part_findings

__all__ = ["ADDRESS_REGISTER", "CHANNELS", "front_end"]

_Check = Callable[[Instruction, isa.Generation, isa.Reading], Findings]
_COMMON: tuple[_Check, ...] = (
    operands.channel_findings,
    operands.packed_findings,
    operands.engine_findings,
)
_RULES: dict[str, tuple[_Check, ...]] = {
    "Pool": (reduce.pool_findings, *_COMMON),
    "TensorReduce": (reduce.reduce_findings, *_COMMON),
    "Max": (others.search_findings, *_COMMON),
    "MaxIndex": (others.search_findings, *_COMMON),
    "MatchReplace": (others.search_findings, *_COMMON, others.replace_findings),
    "Reciprocal": (*_COMMON,),
    "Iota": (others.iota_findings, *_COMMON),
    "Gather": (others.gather_findings, others.gather_type_findings, *_COMMON),
}


def front_end(instruction: Instruction, generation: isa.Generation, reading: isa.Reading) -> list[Diagnostic]:
    """Findings of every front-end rule on one instruction; an instruction without errors has bytes.

    Source: the limits that the reference encoder asserts per operation.
    """
    ill_typed = part_findings(instruction)
    if ill_typed:
        return ill_typed
    row = isa.BIR_BY_OPCODE.get(instruction.opcode)
    if row is None:
        return [record.unknown_opcode(instruction)]
    shape = [*record.operand_findings(instruction, row), *record.key_findings(instruction, row)]
    if shape:
        return shape
    found = [
        *operands.type_findings(instruction),
        *operands.pattern_findings(instruction),
        *operands.place_findings(instruction, generation),
        *indirect_findings(instruction, generation),
        *operands.sync_findings(instruction),
    ]
    for rule in _RULES[instruction.opcode]:
        found += rule(instruction, generation, reading)
    return found
