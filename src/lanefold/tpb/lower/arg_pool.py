"""Maxima of windows with their places: every window is a row of a search."""

from __future__ import annotations

from math import prod

from lanefold.diagnostics import Place, Rule
from lanefold.numerics.dtypes import by_name
from lanefold.ops import ArgPool, Window
from lanefold.tpb.lower.dims import Folded, Kept, merge_kept, strides_of
from lanefold.tpb.lower.plan import Builder
from lanefold.tpb.lower.search import EIGHT, GREATEST_ROW, Rows, Wish, check_index, fits, search_rows

RULE_WINDOW_ROW = Rule(
    "TPB-LOWER-WINDOW-ROW",
    "A window whose maximum is placed is one row of a search: at most 16,384 elements, in one partition.",
    "Pool Engine, MAX8 and FIND_INDEX8; state-buffer size per partition",
)
_LARGEST = Wish(1, largest=True, last=False)


def lower_arg_pool(builder: Builder, op: ArgPool) -> str:
    """Adds the items of an ArgPool to a builder and returns its route; ``out0`` are the values, ``out1`` the places.

    Raises:
        LanefoldError: where the index type is none of the leg's, or a window is too long for one search.
    """
    check_index(builder, op.index_dtype)
    builder.tensor("in0", prod(op.input_shape), op.dtype)
    builder.tensor("out0", prod(op.output_shape), op.dtype)
    builder.tensor("out1", prod(op.output_shape), op.index_dtype)
    windows = op.pool.shape.windows
    for window in windows:
        rows = _rows(op, window)
        if not fits(builder, rows):
            raise RULE_WINDOW_ROW.error(
                f"a window of {window.size} elements of {op.dtype} is no row of one search",
                got=window.size,
                allowed=f"at most {GREATEST_ROW} elements that fit {builder.capacity} bytes with their results",
                place=Place(node=builder.node),
                cures=["leave the output of indices out", "keep the node on the host"],
            )
        search_rows(builder, rows, 1)
    _notes(builder, op, windows)
    return "max8 + find_index8"


def _rows(op: ArgPool, window: Window) -> Rows:
    """The windows of one class as rows."""
    pool = op.pool
    steps, outs = strides_of(op.input_shape[2:]), strides_of(op.output_shape[2:])
    kept = [Kept(prod(op.input_shape[2:]), prod(op.output_shape[2:]), prod(op.input_shape[:2]))]
    dims = []
    for axis, each in enumerate(window.axes):
        kept.append(Kept(steps[axis] * pool.strides[axis], outs[axis], each.outputs))
        dims.append(Folded(steps[axis] * pool.dilations[axis], each.size))
    return Rows(
        source="in0",
        dtype=op.dtype,
        kept=merge_kept(kept),
        step=1,
        length=window.size,
        wish=_LARGEST,
        values="out0",
        indices="out1",
        start=sum(each.begin * step for each, step in zip(window.axes, steps, strict=True)),
        out_start=sum(each.first * step for each, step in zip(window.axes, outs, strict=True)),
        window=tuple(dims),
    )


def _notes(builder: Builder, op: ArgPool, windows: tuple[Window, ...]) -> None:
    builder.note("every window a row of a search")
    if len(windows) > 1:
        builder.note(f"{len(windows)} window classes (interior, edges, corners)")
    if any(window.size < EIGHT for window in windows):
        builder.note(f"windows of fewer than {EIGHT} elements are repeated by a step of 0")
    if by_name(op.dtype).is_float:
        builder.note("NaN among the first eight elements of a window keeps its slot in Max8 (birsim); else passed over")
