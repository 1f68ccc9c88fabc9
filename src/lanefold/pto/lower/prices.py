"""The price of a stage: what a cost model says about each of its operations, times the number of tiles."""

from __future__ import annotations

from lanefold.program import CostRow
from lanefold.pto.cost import request
from lanefold.pto.cost.rows import cost_row
from lanefold.pto.lower.plan import Stage
from lanefold.pto.program import Compute
from lanefold.pto.program.prices import question
from lanefold.pto.program.resolve import resolve

NO_MODEL = "none"
"""Stands for a cost model on the CPU simulator, which has no cycles."""


def price(stage: Stage, target: str, model: str = "") -> list[CostRow]:
    """One row per operation of a stage, over all tiles; unknown where the model has no price, none on the simulator.

    Raises:
        LanefoldError: if there is no such model for the target.
    """
    if target == "cpu" and model in ("", NO_MODEL):
        return []
    name = request.model_name(model or request.MODELS[0])
    return [_row(stage, compute, target, name) for compute in stage.computes]


def _row(stage: Stage, compute: Compute, target: str, model: str) -> CostRow:
    asked = question(stage.program, compute, resolve(stage.program, {}))
    return cost_row(asked.answer(target, model), "vector", asked.elements, stage.tiles)
