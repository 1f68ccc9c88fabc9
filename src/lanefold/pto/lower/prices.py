"""The price of a stage: what a cost model says about each of its operations, times the number of tiles."""

from __future__ import annotations

from lanefold.program import CostRow
from lanefold.pto.cost import cost as tile_cost
from lanefold.pto.cost import request
from lanefold.pto.lower.plan import Stage
from lanefold.pto.program import Compute

NO_MODEL = "none"
"""Stands for a cost model on the CPU simulator, which has no cycles."""


def price(stage: Stage, target: str, model: str = "") -> list[CostRow]:
    """One row per operation of a stage, over all tiles; none on the CPU simulator.

    Raises:
        LanefoldError: if there is no such model, or it cannot price an operation.
    """
    if target == "cpu" and model in ("", NO_MODEL):
        return []
    name = request.model_name(model or request.MODELS[0])
    return [_row(stage, compute, target, name) for compute in stage.computes]


def _row(stage: Stage, compute: Compute, target: str, model: str) -> CostRow:
    slots = stage.program.slots
    full = slots[compute.sources[0]].type
    result = slots[compute.outputs[0]].type
    recipe = request.recipe_of(compute.op)
    found = tile_cost(
        compute.op,
        full.dtype,
        full.rows,
        full.cols,
        full.valid_rows,
        full.valid_cols,
        dst_layout=result.layout if compute.row.reduces else "ND",
        form="no_tmp" if "no_tmp" in recipe.forms else "",
        target=target,
        model=model,
    )
    low, high = found.bounds
    tiles = stage.tiles
    words = [found.note] if found.note else []
    return CostRow(
        instruction=compute.op,
        engine="vector",
        low=low * tiles,
        high=high * tiles,
        clock_ghz=found.frequency_mhz / 1000,
        model=found.model,
        rule="; ".join([f"{tiles} × {found.rule}", *words]),
        bound=max(found.terms, key=lambda term: found.terms[term]) if found.terms else "unknown",
        validity=found.validity,
        elements=(full.valid_rows or 0) * (full.valid_cols or 0) * tiles,
        source="PTO headers: A2/A3 cost models",
    )
