"""Folding one axis of a tensor, whole or in windows, and dividing by the number of elements."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from lanefold.ops import AxisWindows, Pool, Reduce, WindowClass
from lanefold.pto.lower import tiles
from lanefold.pto.lower.plan import Builder
from lanefold.pto.lower.prices import price
from lanefold.pto.lower.views import View, even


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
        _fold_axis(b, tiles.OPERATORS[op.operator], source, shape, result)
        source = result
    if op.operator == "average":
        _divide_evenly(b, source, op.count)


def is_global(op: Pool) -> bool:
    """Whether the one window of a pooling holds every element of each map."""
    axes = op.shape.axes
    return all(axis.outputs == 1 and [each.size for each in axis.classes] == [axis.size] for axis in axes)


def lower_pool(b: Builder, op: Pool) -> None:
    """Axis by axis: columns over the rows of each window, then over its columns; pads are left out by clipping."""
    shape = list(op.input_shape)
    source = b.tensor("in0", prod(shape))
    ending = tiles.OPERATORS[op.operator]
    axes = op.shape.axes
    if is_global(op):
        result = b.tensor("part" if op.operator == "average" else "out0", prod(op.output_shape))
        _fold_axis(b, ending, source, (prod(shape[:2]), prod(shape[2:]), 1), result)
        if op.operator == "average":
            _divide_evenly(b, result, op.shape.windows[0].divisor)
        return
    todo = [i for i, axis in enumerate(axes) if (axis.kernel, axis.stride, axis.outputs) != (1, 1, axis.size)]
    for i in todo or [len(axes) - 1]:
        outer, inner = prod(shape[: 2 + i]), prod(shape[3 + i :])
        last = i == (todo or [len(axes) - 1])[-1] and op.operator != "average"
        shape[2 + i] = axes[i].outputs
        result = b.tensor("out0" if last else "part", prod(shape))
        for each in axes[i].classes:
            _fold_windows(b, ending, _Axis(source, result, outer, inner, axes[i]), each)
        source = result
    if op.operator == "average":
        _divide(b, op, source)


@dataclass(frozen=True, slots=True)
class _Axis:
    """One axis of a pooling: the tensor it is read from, the one it is written to, extents around it, its windows."""

    source: str
    result: str
    outer: int
    inner: int
    windows: AxisWindows


def _fold_windows(b: Builder, ending: str, axis: _Axis, each: WindowClass) -> None:
    """The windows of one class: on the last axis one per tile row or tile column, else one per row of columns."""
    inner, stride, step = axis.inner, axis.windows.stride, axis.windows.dilation
    begin = each.begin * inner
    size = axis.windows.size
    if inner > 1:
        source = View(
            axis.source,
            (axis.outer, each.outputs, each.size, inner),
            (size * inner, stride * inner, step * inner, 1),
            begin,
        )
        result = View(
            axis.result,
            (axis.outer, each.outputs, 1, inner),
            (axis.windows.outputs * inner, inner, inner, 1),
            each.first * inner,
        )
        tiles.fold_columns(b, ending, source, result)
        return
    by_row = View(axis.source, (axis.outer, each.outputs, each.size), (size, stride, step), begin)
    result = View(axis.result, (axis.outer, each.outputs, 1), (axis.windows.outputs, 1, 1), each.first)
    ways = []
    if step == 1 or each.size == 1:
        ways.append("row")
    if stride == 1 or each.outputs == 1:
        ways.append("column")
    if not ways:
        by_row = _gathered(b, by_row)
        ways.append("column")
    _cheaper(b, ending, by_row, result, ways)


def _gathered(b: Builder, windows: View) -> View:
    """Windows [outer, outputs, size] that skip elements both ways, copied one tap at a time, taps outermost."""
    outer, outputs, size = windows.shape
    made = b.tensor("part", outer * size * outputs)
    for tap in range(size):
        source = replace(windows, shape=(outer, outputs, 1), offset=windows.offset + tap * windows.strides[2])
        tiles.fold_rows(b, "MAX", source, View(made, (outer, outputs, 1), (size * outputs, 1, 1), tap * outputs))
    b.note("windows with stride and dilation are gathered tap by tap, since a load takes contiguous elements")
    return View(made, windows.shape, (size * outputs, 1, outputs))


def _cheaper(b: Builder, ending: str, windows: View, result: View, ways: list[str]) -> None:
    """Windows [outer, outputs, size] by rows or by columns, whichever is legal and costs less."""
    trials: dict[str, Builder] = {}
    for way in ways:
        trial = Builder(b.target, b.dtype, b.prefer)
        if way == "row":
            tiles.fold_rows(trial, ending, windows, result)
        else:
            outer, outputs, size = windows.shape
            a, o, s = windows.strides
            source = View(windows.tensor, (outer, size, outputs), (a, s, o), windows.offset)
            tiles.fold_columns(
                trial,
                ending,
                source,
                replace(result, shape=(outer, 1, outputs), strides=(result.strides[0], outputs, 1)),
            )
        trials[way] = trial
    chosen = b.prefer if b.prefer in trials else min(trials, key=lambda way: _weight(trials[way]))
    b.stages += trials[chosen].stages


def _weight(trial: Builder) -> tuple[float, int]:
    """Cycles at most under the target's default model where it has one, then the number of tile operations."""
    cycles = sum(row.high for stage in trial.stages for row in price(stage, trial.target))
    return cycles, sum(stage.tiles * len(stage.computes) for stage in trial.stages)


def _fold_axis(b: Builder, ending: str, source: str, shape: tuple[int, int, int], result: str) -> None:
    """The middle extent of [outer, n, inner] to one element each; long ones in parts that are folded again."""
    outer, n, inner = shape
    limit = tiles.LONG_ROW if inner == 1 else tiles.ROWS
    if n <= limit:
        _fold_part(
            b,
            ending,
            View(source, (outer, 1, n, inner), (n * inner, 0, inner, 1)),
            View(result, (outer, 1, 1, inner), (inner, 0, inner, 1)),
        )
        return
    size = even(n, limit)
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
    _fold_axis(b, ending, made, (outer, parts, inner), result)


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
    width = min(elements, tiles.COLUMNS)
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
