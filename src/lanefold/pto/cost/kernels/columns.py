"""Column reductions: TCOLSUM, TCOLMAX, TCOLMIN, TCOLPROD, TCOLARGMAX, TCOLARGMIN (PTO headers: TColReduce, TColArg)."""

from __future__ import annotations

from lanefold.pto.cost.case import Case
from lanefold.pto.cost.sequence import Writer


def reduce(writer: Writer, case: Case) -> str:
    """The kernel of TCOLMAX, TCOLMIN and TCOLPROD: row after row, full repeats first, then the rest."""
    writer.issue("copy_ubuf_to_ubuf", 1, case.row_blocks)
    writer.barrier()
    if case.valid_rows == 1:
        return "single row"
    if case.full_repeats:
        writer.counting()
        writer.length(case.full_repeats * case.per_repeat)
        chain(writer, case, 0)
        writer.normal()
    if case.rest:
        writer.lanes(case.rest)
        chain(writer, case, 1)
        writer.full()
    writer.barrier()
    return "row after row"


def chain(writer: Writer, case: Case, repeats: int) -> None:
    """Rows folded into the first one, each behind a barrier, ``repeats`` register widths at a time."""
    with writer.loop(case.valid_rows - 1):
        writer.issue(case.recipe.lanes, repeats)
        writer.barrier()


def total(writer: Writer, case: Case) -> str:
    """The kernel of TCOLSUM in its three forms: sequential, binary and without a scratch tile."""
    if case.form == "binary":
        return _binary(writer, case)
    writer.issue("copy_ubuf_to_ubuf", 1, case.row_blocks)
    if case.form == "sequential" or case.valid_rows > 1:
        writer.barrier()
    if case.valid_rows == 1:
        return "single row"
    writer.counting()
    writer.length(case.valid_cols)
    chain(writer, case, 0)
    writer.normal()
    return "row after row"


def _binary(writer: Writer, case: Case) -> str:
    rows = case.valid_rows
    if rows > 1:
        _halve(writer, case, rows)
        rows //= 2
    while rows > 1:
        _halve(writer, case, rows)
        writer.barrier()
        rows //= 2
    writer.issue("copy_ubuf_to_ubuf", 1, case.row_blocks)
    writer.barrier()
    return "pairs of rows" if case.valid_rows > 1 else "single row"


def _halve(writer: Writer, case: Case, rows: int) -> None:
    writer.counting()
    writer.length(case.valid_cols)
    with writer.loop(rows // 2):
        writer.issue(case.recipe.lanes, 0)
    writer.barrier()
    if rows % 2:
        writer.issue(case.recipe.lanes, 0)
        writer.barrier()
    writer.normal()


def arg(writer: Writer, case: Case) -> str:
    """The kernel of TCOLARGMAX and TCOLARGMIN: per column repeat, each further row compared, then selected."""
    lanes = case.recipe.lanes
    compare = "vcmp_ge" if lanes == "vmax" else "vcmp_le"
    for times, count in ((case.full_repeats, case.per_repeat), (int(case.rest > 0), case.rest)):
        with writer.loop(times):
            if count < case.per_repeat:
                writer.lanes(count)
            writer.issue("vector_dup", 1)
            writer.issue("vector_dup", 1)
            if count == case.per_repeat:
                writer.issue("copy_ubuf_to_ubuf", 1, 8)
            else:
                writer.issue("vcopy", 1)
            writer.barrier()
            with writer.loop(case.valid_rows - 1):
                for name in ("vadds", compare):
                    writer.issue(name, 1)
                    writer.barrier()
                writer.issue("vsel", 1)
                writer.barrier()
                writer.issue(lanes, 1)
                writer.barrier()
            if case.size == 2:
                writer.issue("vconv", 1)
                writer.barrier()
            if count < case.per_repeat:
                writer.full()
    return "row after row, compared and selected"
