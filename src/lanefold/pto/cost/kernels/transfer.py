"""Transfers between global memory and the unified buffer, and inside it (PTO headers: TLoad, TStore, TMov)."""

from __future__ import annotations

from lanefold.pto.cost.case import Case
from lanefold.pto.cost.sequence import Writer


def copy(writer: Writer, case: Case) -> str:
    """The kernel of TLOAD, TSTORE and TMOV of a row-major tile: one burst per row."""
    name = case.recipe.lanes
    if name == "copy_ubuf_to_ubuf":
        writer.issue(name, case.valid_rows, case.row_blocks)
    else:
        writer.issue(f"{name}_b{8 * case.size}", case.valid_rows, case.valid_cols * case.size)
    return "one burst per row"
