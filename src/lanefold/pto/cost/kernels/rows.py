"""Row reductions: TROWSUM, TROWMAX, TROWMIN, TROWPROD, TROWARGMAX, TROWARGMIN (PTO headers: TRowReduce, TRowArg)."""

from __future__ import annotations

from lanefold.pto.cost.case import Case
from lanefold.pto.cost.sequence import Writer, pieces

SPECIAL: dict[tuple[int, int], tuple[tuple[str, int], ...]] = {
    (64, 128): (("blocks", 128), ("lanes", 8), ("blocks", 8)),
    (32, 256): (("blocks", 128), ("lanes", 8), ("lanes", 4), ("blocks", 4)),
    (16, 512): (("blocks", 128), ("blocks", 16), ("blocks", 2)),
    (8, 1024): (("blocks", 128), ("blocks", 16), ("lanes", 1), ("blocks", 1)),
}
"""Tile shapes with a sequence of their own: (instruction role, repeats), a barrier after each."""


def special(case: Case) -> bool:
    """Whether a row reduction takes the sequence of a special shape."""
    return case.dtype == "f32" and case.whole and case.dst_layout == "DN" and (case.rows, case.cols) in SPECIAL


def tree_passes(case: Case) -> tuple[int, int]:
    """Passes before and after the tail of the pairwise TROWSUM kernel."""
    n = case.full_repeats
    before = n // 2 + (1 if n % 2 and n > 1 else 0)
    after, k = 0, n // 2
    while k >= 2:
        after += k // 2 + k % 2
        k //= 2
    return before, after


def chain_passes(case: Case) -> tuple[int, int]:
    """Passes before and after the tail where each full repeat is folded in turn."""
    return 1, case.full_repeats - 2


def reduce(writer: Writer, case: Case) -> str:
    """The kernel of TROWSUM, TROWMAX and TROWMIN."""
    if not case.floating:
        return scalar_finish(writer, case)
    return reduce_float(writer, case, tree_passes(case) if case.recipe.lanes == "vadd" else chain_passes(case))


def reduce_float(writer: Writer, case: Case, passes: tuple[int, int]) -> str:
    """The same for floating-point types, with the passes before and after the tail given."""
    if special(case):
        for role, repeats in SPECIAL[case.rows, case.cols]:
            writer.issue(getattr(case.recipe, role), repeats)
            writer.barrier()
        return f"special shape {case.rows}x{case.cols}"
    across, epr = case.recipe.across, case.per_repeat
    if case.valid_cols == epr:
        _final(writer, case)
        return "one repeat per row"
    if case.valid_cols < epr:
        writer.lanes(case.valid_cols)
        for times, repeats in pieces(case.valid_rows):
            with writer.loop(times):
                writer.issue(across, repeats)
                writer.barrier()
        writer.full()
        return "row shorter than a repeat"
    if case.valid_cols < 2 * epr:
        writer.issue("copy_ubuf_to_ubuf", case.valid_rows, 8)
        writer.barrier()
        _tail(writer, case)
        _final(writer, case)
        return "row between one and two repeats"
    _passes(writer, case, passes[0])
    if case.rest:
        _tail(writer, case)
    _passes(writer, case, passes[1])
    _final(writer, case)
    return "passes over full repeats"


def _passes(writer: Writer, case: Case, count: int) -> None:
    with writer.loop(count):
        if case.wide:
            with writer.loop(case.valid_rows):
                writer.issue(case.recipe.lanes, 1)
        else:
            writer.counted(case.recipe.lanes, case.valid_rows * case.per_repeat)
        writer.barrier()


def _tail(writer: Writer, case: Case) -> None:
    writer.lanes(case.rest)
    for times, repeats in pieces(case.valid_rows):
        if not case.wide:
            with writer.loop(times):
                writer.issue(case.recipe.lanes, repeats)
        else:
            with writer.loop(times * repeats):
                writer.issue(case.recipe.lanes, 1)
    writer.full()
    writer.barrier()


def _final(writer: Writer, case: Case) -> None:
    writer.counted(case.recipe.across, case.valid_rows * case.per_repeat)
    writer.barrier()


def scalar_finish(writer: Writer, case: Case) -> str:
    """The kernel of integer row reductions and of TROWPROD: each row to one block, the block by the scalar unit."""
    lanes = case.recipe.lanes
    blocks, rest = divmod(case.valid_cols, case.per_block)
    writer.counting()
    with writer.loop(case.valid_rows):
        writer.length(case.per_block)
        writer.issue("vector_dup", 1)
        writer.barrier()
        with writer.loop(blocks):
            writer.issue(lanes, 1)
            writer.barrier()
        if rest:
            writer.length(rest)
            writer.issue(lanes, 1)
            writer.barrier()
        writer.scalar_round_trip()
    writer.normal()
    return "row to one block, block by the scalar unit"


def arg(writer: Writer, case: Case) -> str:
    """The kernel of TROWARGMAX and TROWARGMIN."""
    if case.valid_cols > case.per_repeat:
        return _arg_stages(writer, case)
    across, index_only = case.recipe.across, case.form == "index"
    if case.valid_cols == case.per_repeat:
        writer.counting()
        writer.length(case.valid_rows * case.per_repeat)
        writer.issue(across, 0)
        writer.barrier()
    else:
        if index_only:
            writer.issue("set_mask_norm")
        writer.lanes(case.valid_cols)
        for times, repeats in pieces(case.valid_rows):
            with writer.loop(times):
                writer.issue(across, repeats)
                writer.barrier()
    if index_only:
        writer.normal()
        return "one repeat per row, index"
    if case.dst_layout == "ND":
        writer.normal()
        writer.scalar_round_trip()
        return "one repeat per row, value and index by the scalar unit"
    writer.counting()
    writer.length(2 * case.valid_rows)
    for _ in range(2):
        writer.issue("vreducev2", 1)
        writer.barrier()
    if case.size == 2 and case.idx_bytes == 4:
        writer.length(case.valid_rows)
        for conversion in ("vconv_s162f32", "vconv_f322s32z"):
            writer.issue(conversion, 0)
            writer.barrier()
    writer.normal()
    return "one repeat per row, value and index split"


def _arg_stages(writer: Writer, case: Case) -> str:
    epr, across = case.per_repeat, case.recipe.across
    stages = 2 if case.valid_cols > epr * epr else 1
    writer.counting()
    with writer.loop(case.valid_rows):
        elements = case.valid_cols
        for _ in range(stages):
            repeats = -(-elements // epr)
            writer.length(elements)
            writer.issue(across, 0)
            writer.barrier()
            writer.length(2 * repeats)
            for _ in range(2):
                writer.issue("vreducev2", 1)
                writer.barrier()
            elements = repeats
        writer.length(elements)
        writer.issue(across, 1)
        writer.barrier()
    writer.normal()
    writer.scalar_round_trip()
    return f"row by row, {stages} stage{'s' if stages > 1 else ''}"
