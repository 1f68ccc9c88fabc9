"""Folding one axis of a tensor, whole or in windows, and dividing by the number of elements."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from lanefold.ops import Pool, Reduce
from lanefold.pto.lower import tiles
from lanefold.pto.lower.plan import Builder
from lanefold.pto.lower.views import View, even
from lanefold.pto.lower.windows import lower_windows

_WIDTH = 512
"""Columns into which a flat tensor is cut for a division by one number."""


def folds(op: Reduce) -> list[tuple[int, int, int]]:
    """The extents [outer, n, inner] of each fold, innermost first; neighbours among the folded axes are one."""
    groups: list[tuple[bool, int]] = []
    for axis, extent in enumerate(op.input_shape):
        folded = axis in op.axes
        if groups and groups[-1][0] == folded:
            groups[-1] = (folded, groups[-1][1] * extent)
        else:
            groups.append((folded, extent))
    found = []
    for at in reversed(range(len(groups))):
        folded, extent = groups[at]
        if folded:
            found.append((prod(n for _, n in groups[:at]), extent, prod(n for _, n in groups[at + 1 :])))
            groups[at] = (False, 1)
    return found


def lower_reduce(b: Builder, op: Reduce) -> None:
    """The folded axes one after the other, innermost first; then the division of an average."""
    source = b.tensor("in0", prod(op.input_shape))
    steps = folds(op)
    for shape in steps:
        outer, _, inner = shape
        last = shape is steps[-1] and op.operator != "average"
        result = b.tensor("out0" if last else "part", outer * inner)
        fold_axis(b, tiles.OPERATORS[op.operator], source, shape, result)
        source = result
    if op.operator == "average":
        _divide_evenly(b, source, op.count)


def is_global(op: Pool) -> bool:
    """Whether the one window of a pooling holds every element of each map."""
    axes = op.shape.axes
    return all(axis.outputs == 1 and [each.size for each in axis.classes] == [axis.size] for axis in axes)


def lower_pool(b: Builder, op: Pool) -> None:
    """Taps of the leading axes by column folds, those of the last axis by row or column folds; pads are clipped."""
    ending = tiles.OPERATORS[op.operator]
    average = op.operator == "average"
    source = b.tensor("in0", prod(op.input_shape))
    result = b.tensor("part" if average else "out0", prod(op.output_shape))
    if is_global(op):
        maps = prod(op.input_shape[:2])
        fold_axis(b, ending, source, (maps, prod(op.input_shape[2:]), 1), result)
    else:
        lower_windows(b, op, source, result)
    if not average:
        return
    if is_global(op):
        _divide_evenly(b, result, op.shape.windows[0].divisor)
    else:
        _divide(b, op, result)


def fold_axis(b: Builder, ending: str, source: str, shape: tuple[int, int, int], result: str) -> None:
    """The middle extent of [outer, n, inner] to one element each; long ones in parts that are folded again."""
    outer, n, inner = shape
    if n <= tiles.LONG:
        _fold_part(
            b,
            ending,
            View(source, (outer, 1, n, inner), (n * inner, 0, inner, 1)),
            View(result, (outer, 1, 1, inner), (inner, 0, inner, 1)),
        )
        return
    size = even(n, tiles.LONG)
    full, rest = divmod(n, size)
    parts = full + (rest > 0)
    b.note(f"{n} elements are folded in parts of {size}")
    made = b.tensor("part", outer * parts * inner)
    for first, count, extent in ((0, full, size), (full, 1, rest)):
        if not extent:
            continue
        _fold_part(
            b,
            ending,
            View(source, (outer, count, extent, inner), (n * inner, size * inner, inner, 1), first * size * inner),
            View(made, (outer, count, 1, inner), (parts * inner, inner, inner, 1), first * inner),
        )
    fold_axis(b, ending, made, (outer, parts, inner), result)


def _fold_part(b: Builder, ending: str, source: View, result: View) -> None:
    """The third extent of [outer, count, n, inner]: rows of tiles where it is the innermost, else columns."""
    outer, count, n, inner = source.shape
    if inner > 1:
        tiles.fold_columns(b, ending, source, result)
        return
    a, c, _, step = source.strides
    r, d = result.strides[:2]
    if count == 1:
        rows = View(source.tensor, (outer, n), (a, step), source.offset)
        tiles.fold_rows(b, ending, rows, View(result.tensor, (outer, 1), (r, 1), result.offset))
    else:
        rows = View(source.tensor, (outer, count, n), (a, c, step), source.offset)
        tiles.fold_rows(b, ending, rows, View(result.tensor, (outer, count, 1), (r, d, 1), result.offset))


def _divide_evenly(b: Builder, source: str, divisor: int) -> None:
    """All elements by one number, which fills a row in memory."""
    elements = b.tensors[source].elements
    result = b.tensor("out0", elements)
    width = min(elements, _WIDTH)
    divisors = View(b.tensor("divisors", width, ((divisor, width),)), (1, width), (width, 1))
    count, rest = divmod(elements, width)
    pairs = [View(name, (count, width), (width, 1)) for name in (source, result)]
    tiles.divide_columns(b, pairs[0], divisors, pairs[1])
    if rest:
        tail = [View(name, (1, rest), (rest, 1), count * width) for name in (source, result)]
        tiles.divide_columns(b, tail[0], replace(divisors, shape=(1, rest)), tail[1])


def _divide(b: Builder, op: Pool, source: str) -> None:
    """Each window's sum by the number of elements its window counts, which differs at the edges."""
    counts = [1]
    for axis in op.shape.axes:
        along = [each.counted for each in axis.classes for _ in range(each.outputs)]
        counts = [before * here for before in counts for here in along]
    if len(set(counts)) == 1:
        _divide_evenly(b, source, counts[0])
        return
    runs: list[tuple[float, int]] = []
    for count in counts:
        if runs and runs[-1][0] == count:
            runs[-1] = (count, runs[-1][1] + 1)
        else:
            runs.append((count, 1))
    maps, width = prod(op.input_shape[:2]), len(counts)
    result = b.tensor("out0", maps * width)
    divisors = View(b.tensor("divisors", width, tuple(runs)), (1, width), (width, 1))
    views = [View(name, (maps, width), (width, 1)) for name in (source, result)]
    tiles.divide_columns(b, views[0], divisors, views[1])
