"""Elementwise operations: the exponential inside EXPDIF and the building blocks with measured figures."""

from __future__ import annotations

from lanefold.pto.cost.case import STRIDE_MAX, Case
from lanefold.pto.cost.sequence import REPEAT_MAX, Writer, pieces

SHORT_ROWS = 4


def exponential(writer: Writer, case: Case) -> None:
    """The exponential over the destination that ends TROWEXPANDEXPDIF."""
    contiguous(writer, case, "vexp") if _contiguous(case) else _strided(writer, case, "vexp")


def _contiguous(case: Case) -> bool:
    if case.static_shape and case.valid_cols == case.cols:
        return True
    return case.rows == 1 or case.valid_cols == case.cols or case.valid_rows == 1


def contiguous(writer: Writer, case: Case, name: str) -> None:
    """One pass over the valid region as if it were a single row."""
    elements = case.valid_rows * case.valid_cols
    extent = case.rows * case.cols if case.static_shape else elements
    if -(-extent // case.per_repeat) > REPEAT_MAX:
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
    small = case.rows <= REPEAT_MAX and case.cols // case.per_block <= STRIDE_MAX
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


CONTIGUOUS_ANYWAY = frozenset({"vabs", "vexp", "vsqrt", "vrsqrt"})
"""One-operand functions whose kernel joins the rows of a full tile."""


def single(writer: Writer, case: Case) -> str:
    """The kernel of an elementwise building block."""
    joined = case.recipe.lanes in CONTIGUOUS_ANYWAY or case.cols >= case.per_repeat
    if joined and _contiguous(case) and case.full_repeats * case.per_repeat == case.valid_cols:
        contiguous(writer, case, case.recipe.lanes)
        return "one contiguous pass"
    if case.recipe.lanes in CONTIGUOUS_ANYWAY and _contiguous(case):
        contiguous(writer, case, case.recipe.lanes)
        return "one contiguous pass"
    by_columns(writer, case, case.recipe.lanes)
    return "column repeats"
