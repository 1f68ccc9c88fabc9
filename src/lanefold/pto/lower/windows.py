"""Folding the windows of a pooling: at every position of a tensor or window by window, whichever takes fewer tiles."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from math import prod

from lanefold.ops import Pool, WindowClass
from lanefold.pto.lower import tiles
from lanefold.pto.lower.plan import Builder
from lanefold.pto.lower.prices import price
from lanefold.pto.lower.views import View, even

Steps = tuple[tuple[int, int], ...]
"""Extents and strides, outermost first."""

_TAPS = tiles.MOST
"""Taps that are folded at once where they are rows of a tile."""


@dataclass(frozen=True, slots=True)
class _Lines:
    """Where the outputs of some axes start: a tensor, an axis per folded axis (maps first), the first element."""

    tensor: str
    steps: Steps
    offset: int


@dataclass(slots=True)
class Windows:
    """A pooling on its way: its source, and what was folded at every position so far, by the taps of each axis."""

    op: Pool
    source: str
    result: str
    dense: dict[tuple[int, ...], str] = field(default_factory=dict)

    @property
    def pitch(self) -> tuple[int, ...]:
        """Elements from one index to the next of each spatial axis of the input."""
        spatial = self.op.input_shape[2:]
        return tuple(prod(spatial[at + 1 :]) for at in range(len(spatial)))

    @property
    def maps(self) -> int:
        """Samples times channels."""
        return prod(self.op.input_shape[:2])


def lower_windows(b: Builder, op: Pool, source: str, result: str) -> None:
    """The folds of all windows; the last axis by rows of tiles or by their columns, whichever is legal and cheaper."""
    last = op.shape.axes[-1]
    ways = ["row", "column"]
    if last.dilation > 1 and last.kernel > 1:
        ways.remove("row")
        b.note("taps of the last axis that skip elements are folded by columns, since a load takes contiguous elements")
    trials: dict[str, Builder] = {}
    for way in ways:
        trial = Builder(b.target, b.dtype, b.prefer, tensors=dict(b.tensors))
        _lower(trial, Windows(op, source, result), by_row=way == "row")
        trials[way] = trial
    chosen = trials[b.prefer if b.prefer in trials else min(trials, key=lambda way: _weight(trials[way]))]
    b.stages += chosen.stages
    b.tensors.update(chosen.tensors)
    for note in chosen.notes:
        b.note(note)


def _weight(trial: Builder) -> tuple[float, int]:
    """Cycles at most under the target's default model where it has one, then the number of programs run."""
    cycles = sum(row.high for stage in trial.stages for row in price(stage, trial.target))
    return cycles, sum(stage.tiles for stage in trial.stages)


def _lower(b: Builder, w: Windows, by_row: bool) -> None:
    axes = w.op.shape.axes
    for leading in product(*(axis.classes for axis in axes[:-1])):
        lines = None
        for each in axes[-1].classes:
            if by_row:
                lines = lines or _lines(b, w, leading)
                _rows(b, w, lines, (*leading, each))
            else:
                picked(b, w, _at_every_position(b, w, (*leading, each)), (*leading, each))


def _result(w: Windows, classes: tuple[WindowClass, ...]) -> tuple[Steps, int]:
    """Extents, strides and first element of the outputs of some classes in the result, maps first."""
    extents = w.op.output_shape[2:]
    pitch = [prod(extents[at + 1 :]) for at in range(len(extents))]
    steps = ((w.maps, prod(extents)), *((each.outputs, step) for each, step in zip(classes, pitch, strict=True)))
    return steps, sum(each.first * step for each, step in zip(classes, pitch, strict=True))


def _starts(w: Windows, classes: tuple[WindowClass, ...]) -> tuple[Steps, int]:
    """The same for the first elements of the windows in the source, over the leading axes that are given."""
    axes = list(zip(classes, w.op.shape.axes, w.pitch, strict=False))
    steps = [(each.outputs, axis.stride * step) for each, axis, step in axes]
    return ((w.maps, prod(w.op.input_shape[2:])), *steps), sum(each.begin * step for each, _, step in axes)


def _view(tensor: str, steps: Steps, cols: int, offset: int) -> View:
    """Rows over all the steps, with so many columns."""
    extents, strides = zip(*steps, strict=True)
    return View(tensor, (*extents, cols), (*strides, 1), offset, len(steps))


def _rows(b: Builder, w: Windows, lines: _Lines, classes: tuple[WindowClass, ...]) -> None:
    """The windows of one class of the last axis, one in each row of a tile."""
    each, axis = classes[-1], w.op.shape.axes[-1]
    steps, offset = _result(w, classes)
    if each.size == 1 and axis.stride == 1:
        source = _view(lines.tensor, lines.steps, each.outputs, lines.offset + each.begin)
        tiles.copy(b, source, _view(w.result, steps[:-1], each.outputs, offset))
        return
    starts = (*lines.steps, (each.outputs, axis.stride))
    source = _view(lines.tensor, starts, each.size, lines.offset + each.begin)
    result = _view(w.result, steps, 1, offset)
    if each.size == 1:
        tiles.copy(b, source, result)
    else:
        _fold_rows(b, tiles.OPERATORS[w.op.operator], source, result)


def picked(b: Builder, w: Windows, dense: str, classes: tuple[WindowClass, ...]) -> None:
    """The positions that are windows of one class, out of all."""
    starts, begin = _starts(w, classes)
    steps, offset = _result(w, classes)
    if w.op.shape.axes[-1].stride == 1:
        source = _view(dense, starts[:-1], classes[-1].outputs, begin)
        tiles.copy(b, source, _view(w.result, steps[:-1], classes[-1].outputs, offset))
    else:
        tiles.copy(b, _view(dense, starts, 1, begin), _view(w.result, steps, 1, offset))


def _lines(b: Builder, w: Windows, leading: tuple[WindowClass, ...]) -> _Lines:
    """The leading axes folded: at every position, or output by output where that takes fewer tiles."""
    steps, begin = _starts(w, leading)
    if all(each.size == 1 for each in leading):
        return _Lines(w.source, steps, begin)
    sizes = tuple(each.size for each in leading)
    width = w.op.input_shape[-1]
    # With stride 1 the outputs of the innermost leading axis lie side by side, and are columns together.
    together = leading[-1].outputs if w.op.shape.axes[-2].stride == 1 else 1
    widest = tiles.widest(b, prod(sizes))
    outputs = prod(each.outputs for each in leading)
    apart = w.maps * (outputs // together) * -(-together * width // widest)
    everywhere = 0 if sizes in w.dense else -(-positions(w, sizes) // widest)
    if everywhere <= apart or prod(sizes) > _TAPS:
        return _Lines(_at_every_position(b, w, leading), steps, begin)
    made = b.tensor("part", w.maps * outputs * width)
    walked, inner = steps, width
    if together > 1:
        walked, inner = steps[:-1], width * together
    taps = taps_of(w, sizes)
    dense_steps, length = [], inner
    for extent, _ in reversed(walked):
        dense_steps.append((extent, length))
        length *= extent
    dense_steps.reverse()
    source = View(
        w.source,
        (*(n for n, _ in walked), *(n for n, _ in taps), inner),
        (*(s for _, s in walked), *(s for _, s in taps), 1),
        begin,
        len(taps),
    )
    result = View(made, (*(n for n, _ in dense_steps), 1, inner), (*(s for _, s in dense_steps), inner, 1))
    tiles.fold_columns(b, tiles.OPERATORS[w.op.operator], source, result)
    lengths = [*(extent for extent, _ in steps), width]
    kept = tuple((n, prod(lengths[at + 1 :])) for at, n in enumerate(lengths[:-1]))
    return _Lines(made, kept, 0)


def taps_of(w: Windows, sizes: tuple[int, ...]) -> Steps:
    """Taps of a window and the steps between them, axis by axis."""
    axes = zip(sizes, w.op.shape.axes, w.pitch, strict=False)
    return tuple((size, axis.dilation * step) for size, axis, step in axes)


def positions(w: Windows, sizes: tuple[int, ...]) -> int:
    """Elements from which a whole window reaches no further than the end of the tensor."""
    reach = sum((size - 1) * step for size, step in taps_of(w, sizes))
    return prod(w.op.input_shape) - reach


def _at_every_position(b: Builder, w: Windows, classes: tuple[WindowClass, ...]) -> str:
    """The tensor that holds, for every element, the fold of the taps that follow from it.

    Taps of all axes are the rows of one tile where they fit one, else they are folded axis by axis.
    """
    sizes = tuple(each.size for each in classes)
    if all(size == 1 for size in sizes):
        return w.source
    if sizes in w.dense:
        return w.dense[sizes]
    if prod(sizes) <= _TAPS:
        length = positions(w, sizes)
        taps = taps_of(w, sizes)
        made = b.tensor("part", length)
        source = View(w.source, (*(n for n, _ in taps), length), (*(s for _, s in taps), 1), 0, len(taps))
        tiles.fold_columns(b, tiles.OPERATORS[w.op.operator], source, View(made, (1, length), (length, 1)))
        w.dense[sizes] = made
    else:
        _axis_by_axis(b, w, sizes)
    b.note("windows are folded at every position of the tensor, and those wanted are taken out")
    return w.dense[sizes]


def _axis_by_axis(b: Builder, w: Windows, sizes: tuple[int, ...]) -> None:
    """The fold of the taps at every position, the last axis first."""
    source, done = w.source, [1] * len(sizes)
    if sum(size > 1 for size in sizes) > 1:
        b.note(f"windows of {'×'.join(map(str, sizes))} do not fit one tile and are folded axis by axis")
    for axis, tap in reversed(list(enumerate(taps_of(w, sizes)))):
        if tap[0] == 1:
            continue
        done[axis] = tap[0]
        reached = tuple(done)
        if reached not in w.dense:
            length = positions(w, reached)
            made = b.tensor("part", length)
            _fold_taps(
                b, tiles.OPERATORS[w.op.operator], View(source, (tap[0], length), (tap[1], 1)), _line(made, length)
            )
            w.dense[reached] = made
        source = w.dense[reached]


def _line(tensor: str, length: int, offset: int = 0) -> View:
    """One row."""
    return View(tensor, (1, length), (length, 1), offset)


def _fold_taps(b: Builder, ending: str, source: View, result: View) -> None:
    """The rows of [taps, positions] to one; rows that do not fit one tile in parts, which are folded again."""
    (n, length), step = source.shape, source.strides[0]
    if n <= _TAPS:
        tiles.fold_columns(b, ending, source, result)
        return
    size = even(n, tiles.LONG)
    full, rest = divmod(n, size)
    b.note(f"{n} elements are folded in parts of {size}")
    reached = length + (full - 1) * size * step
    parts = b.tensor("part", reached)
    first = View(source.tensor, (size, reached), source.strides, source.offset)
    _fold_taps(b, ending, first, _line(parts, reached))
    whole = View(parts, (full, length), (size * step, 1))
    if not rest:
        _fold_taps(b, ending, whole, result)
        return
    both = b.tensor("part", 2 * length)
    _fold_taps(b, ending, whole, _line(both, length))
    last = View(source.tensor, (rest, length), source.strides, source.offset + full * size * step)
    _fold_taps(b, ending, last, _line(both, length, length))
    tiles.fold_columns(b, ending, View(both, (2, length), (length, 1)), result)


def _fold_rows(b: Builder, ending: str, source: View, result: View) -> None:
    """Rows to one element each; rows that do not fit one tile in parts, which are folded again."""
    if tiles.fits_row(b, source.cols):
        tiles.fold_rows(b, ending, source, result)
        return
    size = even(source.cols, tiles.LONG)
    full, rest = divmod(source.cols, size)
    b.note(f"{source.cols} elements are folded in parts of {size}")
    lead, parts = source.shape[:-1], full + (rest > 0)
    made = b.tensor("part", prod(lead) * parts)
    steps = tuple(prod(lead[at + 1 :]) * parts for at in range(len(lead)))
    axes = source.row_axes
    tiles.fold_rows(
        b,
        ending,
        View(source.tensor, (*lead, full, size), (*source.strides[:-1], size, 1), source.offset, axes + 1),
        View(made, (*lead, full, 1), (*steps, 1, 1), 0, axes + 1),
    )
    if rest:
        tiles.fold_rows(
            b,
            ending,
            View(source.tensor, (*lead, rest), source.strides, source.offset + full * size, axes),
            View(made, (*lead, 1), (*steps, 1), full, axes),
        )
    _fold_rows(b, ending, View(made, (*lead, parts), (*steps, 1), 0, axes), result)
