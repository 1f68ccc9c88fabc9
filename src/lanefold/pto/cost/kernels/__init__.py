"""Instruction sequences of the real A2/A3 kernels, one builder per family of operations."""

from __future__ import annotations

from collections.abc import Callable

from lanefold.pto.cost.case import Case
from lanefold.pto.cost.kernels import columns, elementwise, expand, rows, transfer
from lanefold.pto.cost.recipes import Family
from lanefold.pto.cost.sequence import Instructions, Writer

Builder = Callable[[Writer, Case], str]

BUILDERS: dict[Family, Builder] = {
    Family.ROW_REDUCE: rows.reduce,
    Family.ROW_PRODUCT: rows.scalar_finish,
    Family.ROW_ARG: rows.arg,
    Family.COLUMN_REDUCE: columns.reduce,
    Family.COLUMN_SUM: columns.total,
    Family.COLUMN_ARG: columns.arg,
    Family.ROW_EXPAND: expand.rows,
    Family.ROW_EXPAND_OP: expand.rows_operator,
    Family.COLUMN_EXPAND: expand.columns,
    Family.COLUMN_EXPAND_OP: expand.columns_operator,
    Family.ELEMENTWISE: elementwise.single,
    Family.TRANSFER: transfer.copy,
}


def build(case: Case) -> tuple[str, Instructions]:
    """The path a kernel takes for a configuration, in words, and its instruction sequence."""
    writer = Writer()
    rule = BUILDERS[case.recipe.family](writer, case)
    return rule, writer.done()
