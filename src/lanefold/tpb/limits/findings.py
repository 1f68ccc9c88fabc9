"""What the front-end rules share."""

from __future__ import annotations

from collections.abc import Iterator

from lanefold.diagnostics import Diagnostic
from lanefold.tpb.instruction import Instruction
from lanefold.tpb.patterns import Access

Findings = Iterator[Diagnostic]
INT32 = (-(2**31), 2**31 - 1)


def named_operands(instruction: Instruction) -> Iterator[tuple[str, Access]]:
    """Every operand with its path, such as ``ins.0``."""
    for side, operands in (("ins", instruction.ins), ("outs", instruction.outs)):
        for index, operand in enumerate(operands):
            yield f"{side}.{index}", operand
