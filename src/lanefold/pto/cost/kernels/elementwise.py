"""Elementwise operations: the exponential inside EXPDIF and the building blocks with measured figures."""

from __future__ import annotations

from lanefold.pto.cost.case import STRIDE_MAX, Case
from lanefold.pto.cost.sequence import Writer, pieces
from lanefold.pto.isa import REPEAT_LIMIT

SHORT_ROWS = 4


def exponential(writer: Writer, case: Case) -> None:
    """The exponential over the destination that ends TROWEXPANDEXPDIF."""
    function(writer, case, "vexp")


def function(writer: Writer, case: Case, name: str) -> None:
    """A one-operand function over the destination."""
    if case.rows == 1 or case.valid_rows == 1 or case.valid_cols == case.cols:
        contiguous(writer, case, name)
    else:
        _strided(writer, case, name)


def contiguous(writer: Writer, case: Case, name: str) -> None:
    """One pass over the valid region as if it were a single row."""
    elements = case.valid_rows * case.valid_cols
    extent = case.rows * case.cols if case.static_shape else elements
    if -(-extent // case.per_repeat) > REPEAT_LIMIT:
        writer.counted(name, elements)
        return
    repeats, rest = divmod(elements, case.per_repeat)
    writer.issue(name, repeats)
    if rest:
        writer.lanes(rest)
        writer.issue(name, 1)
        writer.full()


def _strided(writer: Writer, case: Case, name: str) -> None:
    per_row = case.cols // case.per_repeat
    short = per_row > 1 and case.rows * per_row < SHORT_ROWS
    if short or (case.rows < per_row + 1 and case.rest):
        writer.counting()
        writer.length(case.valid_cols)
        with writer.loop(case.valid_rows):
            writer.issue(name, 0)
        writer.normal()
    elif case.rows < per_row + 1:
        with writer.loop(case.valid_rows):
            writer.issue(name, case.full_repeats)
    else:
        by_columns(writer, case, name)


def by_columns(writer: Writer, case: Case, name: str) -> None:
    """One pass column repeat after column repeat, each over all rows, then the rest of the rows."""
    small = case.rows <= REPEAT_LIMIT and case.cols // case.per_block <= STRIDE_MAX
    with writer.loop(case.full_repeats):
        _column(writer, case, name, single=not small)
    if case.rest:
        writer.lanes(case.rest)
        _column(writer, case, name, single=False)
        writer.full()


def _column(writer: Writer, case: Case, name: str, *, single: bool) -> None:
    if single:
        with writer.loop(case.valid_rows):
            writer.issue(name, 1)
        return
    for times, repeats in pieces(case.valid_rows):
        if repeats:
            with writer.loop(times):
                writer.issue(name, repeats)


JOINED = frozenset({"vabs", "vexp", "vsqrt", "vrsqrt"})
"""One-operand functions, whose kernel joins the rows of a tile where it can."""


def single(writer: Writer, case: Case) -> str:
    """The kernel of an elementwise building block."""
    if case.recipe.lanes in JOINED:
        function(writer, case, case.recipe.lanes)
        return "rows joined where they touch"
    by_columns(writer, case, case.recipe.lanes)
    return "column repeats"
