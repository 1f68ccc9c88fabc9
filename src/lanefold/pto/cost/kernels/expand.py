"""Expansions of rows and columns, alone or with an operator (PTO headers: TRowExpand, TColExpand, BinOp forms)."""

from __future__ import annotations

from lanefold.pto.cost.case import Case
from lanefold.pto.cost.kernels.elementwise import exponential
from lanefold.pto.cost.sequence import Writer, pieces
from lanefold.pto.isa import REPEAT_LIMIT

BROADCAST_MAX = 254
"""Repeats of one ``vbrcb`` in TROWEXPAND."""
LONG_ROWS = 256
"""Rows from which the row expansions with an operator are cut into pieces."""
PIECE = {"DN": 240, "ND32B": 255}
"""Rows of one such piece, by the layout of the per-row operand."""


def broadcast(case: Case) -> bool:
    """Whether TROWEXPAND takes the broadcast instruction instead of one scalar per row."""
    return case.size > 1 and case.whole and case.src_layout == "DN" and case.cols == case.per_block


def rows(writer: Writer, case: Case) -> str:
    """The kernel of TROWEXPAND."""
    if broadcast(case):
        for times, repeats in pieces(case.rows // 8, BROADCAST_MAX):
            if repeats:
                with writer.loop(times):
                    writer.issue("vbrcb", repeats)
        return "broadcast"
    writer.counting()
    writer.length(case.valid_cols if case.size > 1 else -(-case.valid_cols // 2))
    with writer.loop(case.valid_rows):
        writer.scalar_round_trip()
        writer.issue("vector_dup", 0)
    writer.normal()
    return "one scalar per row"


def rows_operator(writer: Writer, case: Case) -> str:
    """The kernel of TROWEXPANDADD and its siblings."""
    down = case.src1_layout == "DN"
    if case.rows >= LONG_ROWS and case.valid_rows >= LONG_ROWS:
        _long(writer, case, down)
        rule = "pieces of rows"
    else:
        if down:
            _spread(writer, case.valid_rows)
        if case.wide or case.valid_cols // case.per_repeat > case.valid_rows:
            writer.counting()
            writer.length(case.valid_cols)
            with writer.loop(case.valid_rows):
                writer.issue(case.recipe.lanes, 0)
            writer.normal()
            rule = "row after row in count mode"
        else:
            _body(writer, case, case.recipe.lanes, case.valid_rows)
            rule = "column repeats"
    if case.recipe.then:
        writer.barrier()
        exponential(writer, case)
        rule += ", then exponential"
    return rule


def _long(writer: Writer, case: Case, down: bool) -> None:
    whole, rest = divmod(case.valid_rows, PIECE[case.src1_layout])
    with writer.loop(whole):
        if down:
            _spread(writer, PIECE["DN"])
        _body(writer, case, case.recipe.lanes, PIECE[case.src1_layout])
        if down:
            writer.barrier()
    if rest:
        if down:
            _spread(writer, rest)
        _body(writer, case, case.recipe.lanes, rest)


def _spread(writer: Writer, count: int) -> None:
    writer.issue("vbrcb", -(-count // 8))
    writer.barrier()


def _body(writer: Writer, case: Case, name: str, repeats: int, then: str = "") -> None:
    if case.cols < case.per_repeat:
        writer.lanes(case.valid_cols)
        _step(writer, name, repeats, then)
        writer.full()
        return
    with writer.loop(case.full_repeats):
        _step(writer, name, repeats, then)
    if case.rest:
        writer.lanes(case.rest)
        _step(writer, name, repeats, then)
        writer.full()


def _step(writer: Writer, name: str, repeats: int, then: str) -> None:
    writer.issue(name, repeats)
    if then:
        writer.barrier()
        writer.issue(then, repeats)


def columns(writer: Writer, case: Case) -> str:
    """The kernel of TCOLEXPAND: one copy per row."""
    with writer.loop(case.valid_rows):
        writer.issue("copy_ubuf_to_ubuf", 1, case.row_blocks)
    return "one copy per row"


def columns_operator(writer: Writer, case: Case) -> str:
    """The kernel of TCOLEXPANDADD and its siblings; in normal mode rows beyond 255 are lost, as in the real kernel."""
    lanes, then = case.recipe.lanes, case.recipe.then
    if (case.static_shape and case.valid_cols == case.cols) or case.rows == 1:
        _body(writer, case, lanes, case.valid_rows % (REPEAT_LIMIT + 1), then)
        return "column repeats"
    writer.counting()
    writer.length(case.valid_cols)
    with writer.loop(case.valid_rows):
        _step(writer, lanes, 0, then)
    writer.normal()
    return "row after row in count mode"
