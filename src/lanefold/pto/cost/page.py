"""The page model: the formula and the sequences of the overview page, read literally."""

from __future__ import annotations

import numpy as np

from lanefold.pto.cost.case import Case, Columns, Ints
from lanefold.pto.cost.kernels.expand import broadcast
from lanefold.pto.cost.sequence import Instructions, Writer
from lanefold.pto.cost.tables import INTERVAL, STARTUP_REDUCE

COMPLETION: dict[str, int] = {"f32": 19, "f16": 19, "i32": 19, "i16": 17}
"""Completion by type (PTO overview: cycle model; the constant for floats is named after both of them)."""
PER_REPEAT = 2
DUP_REPEATS = 8
SPECIAL: dict[tuple[int, int], tuple[tuple[str, int], ...]] = {
    (64, 128): (("blocks", 128), ("lanes", 8), ("blocks", 8)),
    (32, 256): (("blocks", 128), ("lanes", 8), ("lanes", 4), ("blocks", 4)),
    (16, 512): (("blocks", 128), ("blocks", 16), ("blocks", 2)),
    (8, 1024): (("blocks", 128), ("blocks", 16), ("lanes", 8), ("blocks", 8)),
}
"""Special shapes as the page prints them (PTO overview: special shape optimizations, FP32)."""
OPS = ("TROWSUM", "TROWMAX", "TROWMIN", "TCOLSUM", "TCOLMAX", "TROWEXPAND")
"""Operations with a sequence on the page."""


def build(case: Case) -> tuple[str, Instructions]:
    """The path in words and the sequence that the page describes for a configuration."""
    writer = Writer()
    if case.recipe.op == "TROWEXPAND":
        rule = _expand(writer, case)
    elif case.recipe.across:
        rule = _rows(writer, case)
    else:
        rule = _columns(writer, case)
    writer.issue("PIPE_V")
    return rule, writer.done()


def _rows(writer: Writer, case: Case) -> str:
    shape = (case.valid_rows, case.valid_cols)
    if case.dtype == "f32" and shape in SPECIAL:
        for role, repeats in SPECIAL[shape]:
            writer.issue(getattr(case.recipe, role), repeats)
        return f"special shape {shape[0]}x{shape[1]}"
    if case.full_repeats >= 2:
        writer.issue("copy_ubuf_to_ubuf", case.valid_rows, 8)
    with writer.loop(_passes(case)):
        writer.issue(case.recipe.lanes, case.valid_rows)
    writer.issue(case.recipe.across, case.valid_rows)
    return "general shape"


def _passes(case: Case) -> int:
    return max(case.full_repeats - 1, 0) + int(case.full_repeats > 0 and case.rest > 0)


def _columns(writer: Writer, case: Case) -> str:
    if case.form == "binary" and case.valid_rows >= 2:
        left = case.valid_rows
        while left > 1:
            with writer.loop(left // 2 + left % 2):
                writer.issue(case.recipe.lanes, 1)
            left //= 2
        return "binary path"
    with writer.loop(case.valid_rows - 1):
        writer.issue(case.recipe.lanes, -(-case.valid_cols // case.per_repeat))
    return "sequential path"


def _expand(writer: Writer, case: Case) -> str:
    if broadcast(case):
        writer.issue("vbrcb", -(-case.rows // 8))
        return "broadcast path"
    with writer.loop(case.valid_rows):
        writer.issue("vector_dup", DUP_REPEATS)
    return "general path"


def walk(sequence: Instructions, dtype: str) -> dict[str, float]:
    """Startup, completion, repeats and intervals of every instruction: the four terms, in cycles."""
    count = repeats = 0
    for step in sequence:
        if step.name != "PIPE_V":
            count += 1
            repeats += step.operands[0]
    return {
        "startup": STARTUP_REDUCE,
        "completion": COMPLETION[dtype] * count,
        "repeats": PER_REPEAT * repeats,
        "intervals": INTERVAL * (repeats - count),
    }


def cycles(c: Columns) -> Ints:
    """Cycles of each configuration, in closed form."""
    if c.recipe.op == "TROWEXPAND":
        count, repeats = c.valid_rows, DUP_REPEATS * c.valid_rows
        if c.size > 1 and c.src_layout == "DN":
            short = c.whole & (c.cols == c.per_block)
            count, repeats = np.where(short, 1, count), np.where(short, -(-c.rows // 8), repeats)
    elif c.recipe.across:
        count, repeats = _row_counts(c)
    else:
        count, repeats = _column_counts(c)
    return STARTUP_REDUCE + count * (COMPLETION[c.dtype] - INTERVAL) + repeats * (PER_REPEAT + INTERVAL)


def _row_counts(c: Columns) -> tuple[Ints, Ints]:
    full = c.full_repeats
    count = np.maximum(full - 1, 0) + ((full > 0) & (c.rest > 0)) + (full >= 2) + 1
    repeats = count * c.valid_rows
    if c.dtype == "f32":
        for (height, width), steps in SPECIAL.items():
            hit = (c.valid_rows == height) & (c.valid_cols == width)
            count = np.where(hit, len(steps), count)
            repeats = np.where(hit, sum(amount for _, amount in steps), repeats)
    return count, repeats


def _column_counts(c: Columns) -> tuple[Ints, Ints]:
    if c.form != "binary":
        count = c.valid_rows - 1
        return count, count * -(-c.valid_cols // c.per_repeat)
    count = np.zeros(len(c.rows), np.int64)
    left = c.valid_rows
    while (left > 1).any():
        count += (left > 1) * (left // 2 + left % 2)
        left = left // 2
    return count, count
