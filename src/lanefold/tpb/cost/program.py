"""Prices of BIR programs."""

from __future__ import annotations

from lanefold.diagnostics import LanefoldError
from lanefold.program.prices import ProgramCost, unpriced
from lanefold.tpb import isa
from lanefold.tpb.bir import Module
from lanefold.tpb.cost import model_name, price
from lanefold.tpb.isa import timing
from lanefold.tpb.limits.record import operand_findings

NOT_PRICED = "not part of the pooling and reduction leg; no formula"


def price_module(module: Module, generation: isa.Generation, model: str = "") -> ProgramCost:
    """The price of every instruction of a module; operations of other legs are unknown and stand last.

    Raises:
        LanefoldError: if there is no such model, and for each instruction of the leg that cannot be expressed.
    """
    chosen = model_name(model)
    listed = module.instructions()
    unique = {id(instruction): instruction for instruction in listed}.values()
    wrong = [found for row in unique for found in operand_findings(row, isa.BIR_BY_OPCODE[row.opcode])]
    if wrong:
        raise LanefoldError(wrong)
    rows = [price(instruction, generation, chosen) for instruction in listed]
    for other in module.others():
        engine = str(other.content.get("engine") or "none")
        name = str(other.content.get("name") or other.opcode or "unnamed")
        clock = timing.CLOCK_GHZ[generation].get(engine)
        note = f"{other.opcode or 'an instruction without opcode'}: {NOT_PRICED}"
        rows.append(unpriced(name, engine, chosen, note, clock_ghz=clock))
    return ProgramCost(tuple(rows), chosen, generation, not_priced=())
