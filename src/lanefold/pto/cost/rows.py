"""Costs as rows of a program's price, unknown where a model has no price for an operation."""

from __future__ import annotations

from typing import Any

from lanefold.diagnostics import LanefoldError
from lanefold.program.prices import UNKNOWN, CostRow
from lanefold.pto.cost import Cost, cost, request, unknown
from lanefold.pto.cost.tables import CLOCK_MHZ

SOURCE = "PTO headers: A2/A3 cost models"
REFUSALS = ("PTO-COST-SEQUENCE", "PTO-COST-DOMAIN", "PTO-COST-DTYPE")
"""Findings of a model that has no price for an operation; the price is unknown then."""


def cost_or_unknown(
    op: str,
    dtype: str,
    sizes: tuple[int | None, int | None, int | None, int | None],
    target: str,
    model: str,
    **keywords: Any,
) -> Cost:
    """The cost of one operation; unknown, with the finding as its note, where the model has no price for it.

    Args:
        op: name of the operation.
        dtype: element type.
        sizes: rows, columns, valid rows and valid columns of the full-size operand.
        target: ``a2a3`` or ``a5``.
        model: name of the model.
        keywords: layouts, form and alike, as `lanefold.pto.cost.cost` takes them.

    Raises:
        LanefoldError: PTO-COST-… for anything that is wrong whatever the model, such as a target without cycles.
    """
    rows, cols, valid_rows, valid_cols = sizes
    try:
        return cost(op, dtype, rows, cols, valid_rows, valid_cols, target=target, model=model, **keywords)  # type: ignore[arg-type]
    except LanefoldError as error:
        finding = error.diagnostics[0]
        if finding.code not in REFUSALS:
            raise
    note = f"{finding.code}: {finding.message}"
    return unknown(op, dtype, target, request.model_name(model), CLOCK_MHZ, note)


def cost_row(found: Cost, engine: str, elements: int, times: int = 1) -> CostRow:
    """A cost as a row of a program's price: cycles at least and at most by the expected error, ``times`` over."""
    low, high = found.bounds
    terms = {kind: cycles * times for kind, cycles in found.terms.items()}
    return CostRow(
        instruction=found.op,
        engine=engine,
        low=low * times,
        high=high * times,
        clock_ghz=found.frequency_mhz / 1000,
        model=found.model,
        rule=f"{times} × {found.rule}" if times > 1 else found.rule,
        bound=max(terms, key=lambda kind: terms[kind]) if terms else UNKNOWN,
        validity=found.validity,
        elements=elements * times,
        source=SOURCE,
        terms=terms,
        note=found.note,
        estimate=None if found.cycles is None else found.cycles * times,
    )
