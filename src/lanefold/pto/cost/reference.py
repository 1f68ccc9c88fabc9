"""The reference model: the parametric model of April 2026 as it was really coded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from lanefold.pto.cost.case import Case, Columns, Ints
from lanefold.pto.cost.kernels import columns, expand, rows
from lanefold.pto.cost.recipes import Family
from lanefold.pto.cost.sequence import Instructions, Loop, Node, Step, Writer
from lanefold.pto.cost.tables import (
    INTERVAL,
    INTERVAL_COPY,
    REFERENCE,
    REFERENCE_BYTES_PER_CYCLE,
    REFERENCE_DUP_REPEATS,
    STARTUP_BINARY,
    STARTUP_REDUCE,
)


class _Writer(Writer):
    """Books what the parametric model books: no mask values, no count mode, one record per normal-mode mask."""

    def barrier(self) -> None:
        self.issue("PIPE_V")

    def lanes(self, count: int) -> None:
        self.issue("mask")

    def full(self) -> None:
        self.issue("mask")

    def counted(self, name: str, elements: int) -> None:
        self.issue(name, 0)


class _RowWriter(_Writer):
    """The same for row reductions, whose repeat counts pass through an 8-bit integer."""

    def issue(self, name: str, *operands: int, pipes: str = "") -> None:
        super().issue(name, *(operands[:1] and (operands[0] % 256, *operands[1:])), pipes=pipes)


def _row_reduce(writer: Writer, case: Case) -> str:
    return rows.reduce_float(writer, case, rows.chain_passes(case))


def _copy_first(writer: Writer, case: Case) -> None:
    writer.issue("copy_ubuf_to_ubuf", 1, case.row_blocks)


def _column_max(writer: Writer, case: Case) -> str:
    _copy_first(writer, case)
    if case.valid_rows == 1:
        return "single row"
    if case.full_repeats:
        writer.issue("mask")
        columns.chain(writer, case, 0)
    if case.rest:
        writer.issue("mask")
        columns.chain(writer, case, 1)
        writer.issue("mask")
    writer.barrier()
    return "row after row"


def _column_sum(writer: Writer, case: Case) -> str:
    if case.form == "binary":
        return _column_binary(writer, case)
    _copy_first(writer, case)
    writer.barrier()
    if case.valid_rows == 1:
        return "single row"
    writer.issue("mask")
    columns.chain(writer, case, 0)
    writer.issue("mask")
    return "row after row"


def _column_binary(writer: Writer, case: Case) -> str:
    repeats = -(-case.valid_cols // case.per_repeat)
    left, level = case.valid_rows, 0
    while left > 1:
        writer.issue("mask")
        with writer.loop(left // 2):
            writer.issue("vadd", repeats)
        writer.barrier()
        if left % 2:
            writer.issue("vadd", repeats)
            writer.barrier()
        writer.issue("mask")
        if level:
            writer.barrier()
        left, level = left // 2, level + 1
    _copy_first(writer, case)
    writer.barrier()
    return "pairs of rows" if level else "single row"


def _row_expand(writer: Writer, case: Case) -> str:
    if expand.broadcast(case):
        whole, rest = divmod(case.rows // 8, expand.BROADCAST_MAX)
        for times, repeats in ((whole, 1), (int(rest > 0), rest)):
            with writer.loop(times):
                writer.issue("vbrcb", repeats)
        return "broadcast"
    with writer.loop(case.valid_rows):
        writer.issue("vector_dup", REFERENCE_DUP_REPEATS)
    return "one scalar per row"


def _transfer(writer: Writer, case: Case) -> str:
    return "bytes over the path's rate"


_BUILDERS = {
    **dict.fromkeys(("TROWSUM", "TROWMAX", "TROWMIN"), _row_reduce),
    "TCOLSUM": _column_sum,
    "TCOLMAX": _column_max,
    "TROWEXPAND": _row_expand,
    "TLOAD": _transfer,
    "TMOV": _transfer,
}
_TYPES = ("f32", "f16", "i32", "i16", "i8", "u8", "bf16")
"""Types the model knows by name; the last three have no parameters."""
_UNPRICED_TYPES = _TYPES[4:]
OPS = tuple(_BUILDERS)
"""Operations the reference model has a sequence for."""


def build(case: Case) -> tuple[str, Instructions]:
    """The path in words and the sequence that the model books for a configuration."""
    writer = _RowWriter() if case.recipe.family is Family.ROW_REDUCE else _Writer()
    rule = _BUILDERS[case.recipe.op](writer, case)
    return rule, writer.done()


def type_key(dtype: str) -> str:
    """The type whose parameters the model takes: types it does not know count as 16-bit floats."""
    return dtype if dtype in _TYPES else "f16"


@dataclass
class _Walk:
    dtype: str
    first: bool = True
    after_barrier: bool = False
    terms: dict[str, float] = field(default_factory=lambda: {"startup": 0, "repeats": 0, "barriers": 0})

    def price(self, step: Step) -> int:
        if step.name == "PIPE_V":
            self.after_barrier = True
            return 0
        row = REFERENCE[step.name, type_key(self.dtype)]
        startup = row.startup if self.first else 0
        interval = row.interval if self.after_barrier else 0
        repeats = (step.operands[0] if step.operands else 0) * row.per_repeat
        self.first = self.after_barrier = False
        for term, cycles in (("startup", startup), ("repeats", repeats), ("barriers", interval)):
            self.terms[term] += cycles
        return startup + repeats + interval


def walk(sequence: Instructions, dtype: str) -> tuple[int, Instructions, dict[str, float]]:
    """Cycles, the sequence with the cycles of each step, and the cycles by kind; 0 where parameters are missing."""
    if _unpriced(sequence.nodes, dtype):
        return 0, sequence, {}
    state = _Walk(dtype)
    total, nodes = _walk(sequence.nodes, state)
    return total, Instructions(tuple(nodes)), state.terms


def _unpriced(nodes: Sequence[Node], dtype: str) -> list[str]:
    names: list[str] = []
    for node in nodes:
        if isinstance(node, Loop):
            names += _unpriced(node.body, dtype)
        elif node.name != "PIPE_V" and (node.name, type_key(dtype)) not in REFERENCE:
            names.append(node.name)
    return names


def unpriced(sequence: Instructions, dtype: str) -> list[str]:
    """Instructions of a sequence that the model has no parameters for."""
    return sorted(set(_unpriced(sequence.nodes, dtype)))


def _walk(nodes: Sequence[Node], state: _Walk) -> tuple[int, list[Node]]:
    total = 0
    priced: list[Node] = []
    for node in nodes:
        if isinstance(node, Step):
            cycles = state.price(node)
            total += cycles
            priced.append(replace(node, cycles=cycles))
            continue
        once, first = _walk(node.body, state)
        before = dict(state.terms)
        steady, again = _walk(node.body, state)
        for term, value in state.terms.items():
            state.terms[term] = before[term] + (value - before[term]) * (node.times - 1)
        total += once + steady * (node.times - 1)
        priced += [Loop(node.times, tuple(again))] if first == again else _peeled(first, again, node.times - 1)
    return total, priced


def _peeled(first: list[Node], again: list[Node], rest: int) -> list[Node]:
    return [*first, *([Loop(rest, tuple(again))] if rest > 1 else again)]


def _row_reduce_columns(c: Columns) -> Ints:
    full, rest, rows_ = c.full_repeats, c.rest > 0, c.valid_rows
    short = 2 * rows_ + INTERVAL * (rows_ // 255)
    once = np.full(len(rows_), STARTUP_REDUCE, np.int64)
    copied = STARTUP_REDUCE + INTERVAL + (rows_ % 256) + 2 * rows_
    long = STARTUP_BINARY + INTERVAL * (full - 1) + 2 * rows_ * (rest + c.wide * (full - 1))
    cycles = np.where(full == 0, short, np.where(c.valid_cols == c.per_repeat, once, np.where(full == 1, copied, long)))
    if c.dtype == "f32" and c.dst_layout == "DN":
        for (height, width), steps in rows.SPECIAL.items():
            total = STARTUP_REDUCE + sum(2 * repeats for _, repeats in steps) + INTERVAL * (len(steps) - 1)
            cycles = np.where(c.whole & (c.rows == height) & (c.cols == width), total, cycles)
    return cycles


def _column_max_columns(c: Columns) -> Ints:
    chain = c.valid_rows - 1
    full = np.where(c.full_repeats > 0, INTERVAL * (chain - 1), 0)
    rest = np.where(c.rest > 0, 2 * chain + INTERVAL * (chain - 1), 0)
    return STARTUP_BINARY - 1 + 1 + np.where(c.valid_rows > 1, full + rest, 0)


def _column_sum_columns(c: Columns) -> Ints:
    several = c.valid_rows > 1
    if c.form != "binary":
        return STARTUP_REDUCE + 1 + np.where(several, INTERVAL * (c.valid_rows - 2), 0)
    repeats = -(-c.valid_cols // c.per_repeat)
    total = np.ones(len(c.rows), np.int64)
    left, level = c.valid_rows, 0
    while (left > 1).any():
        odd = left % 2
        cost = 2 * repeats * (left // 2 + odd) + INTERVAL * odd
        total += np.where(left > 1, cost + (INTERVAL_COPY if level == 1 else 0), 0)
        left, level = left // 2, level + 1
    return np.where(several, total, STARTUP_REDUCE + 1)


def _row_expand_columns(c: Columns) -> Ints:
    if c.dtype in _UNPRICED_TYPES:
        return np.zeros(len(c.rows), np.int64)
    scalar = STARTUP_BINARY + REFERENCE_DUP_REPEATS * c.valid_rows
    if c.size == 1 or c.src_layout != "DN":
        return scalar
    return np.where(c.whole & (c.cols == c.per_block), 0, scalar)


def _transfer_columns(c: Columns) -> Ints:
    return c.valid_rows * c.valid_cols * c.size // REFERENCE_BYTES_PER_CYCLE


_COLUMNS: dict[str, Callable[[Columns], Ints]] = {
    **dict.fromkeys(("TROWSUM", "TROWMAX", "TROWMIN"), _row_reduce_columns),
    "TCOLSUM": _column_sum_columns,
    "TCOLMAX": _column_max_columns,
    "TROWEXPAND": _row_expand_columns,
    **dict.fromkeys(("TLOAD", "TMOV"), _transfer_columns),
}


def cycles(c: Columns) -> Ints:
    """Cycles of each configuration, in closed form."""
    return _COLUMNS[c.recipe.op](c)
