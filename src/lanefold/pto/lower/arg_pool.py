"""Maxima of windows with their places: a search of the taps at every position, and the positions that are windows."""

from __future__ import annotations

from math import prod

from lanefold.diagnostics import Place
from lanefold.ops import ArgPool
from lanefold.pto.lower import tiles
from lanefold.pto.lower.others import check_exact, check_index, fitting
from lanefold.pto.lower.plan import Builder
from lanefold.pto.lower.views import View
from lanefold.pto.lower.windows import Windows, picked, positions, taps_of
from lanefold.pto.names import element

OPERATIONS = ("TCOLMAX", "TCOLARGMAX")
"""Names of the tile operations."""


def lower_arg_pool(b: Builder, op: ArgPool, place: Place) -> None:
    """Taps of a window are rows of a tile, positions of the tensor its columns.

    Raises:
        LanefoldError: PTO-LOWER-INDEX, PTO-LOWER-SEARCH.
    """
    check_index(op.index_dtype, place)
    index_dtype = element(op.index_dtype).name
    source = b.tensor("in0", prod(op.input_shape))
    outputs = prod(op.output_shape)
    b.tensor("out0", outputs)
    b.tensor("out1", outputs, dtype=index_dtype)
    values, places = Windows(op.pool, source, "out0"), Windows(op.pool, source, "out1")
    # The same stages and tensors; what is copied has the type of indices.
    indices = Builder(b.target, index_dtype, b.prefer, b.stages, b.tensors, b.notes)
    made: dict[tuple[int, ...], tuple[str, str]] = {}
    for window in op.pool.shape.windows:
        sizes = tuple(each.size for each in window.axes)
        if sizes not in made:
            made[sizes] = _everywhere(b, values, sizes, index_dtype, place)
        largest, where = made[sizes]
        picked(b, values, largest, window.axes)
        picked(indices, places, where, window.axes)
    b.note("windows are searched at every position of the tensor, and those wanted are taken out")


def _everywhere(b: Builder, w: Windows, sizes: tuple[int, ...], index_dtype: str, place: Place) -> tuple[str, str]:
    """Two tensors: for every element the maximum of the taps that follow from it, and which of them it is."""
    n, length, taps = prod(sizes), positions(w, sizes), taps_of(w, sizes)
    check_exact(b, n, place)
    largest = b.tensor("part", length)
    where = b.tensor("place", length, dtype=index_dtype)
    source = View(w.source, (*(n for n, _ in taps), length), (*(s for _, s in taps), 1), 0, len(taps))
    tiles.fold_columns(b, "MAX", source, View(largest, (1, length), (length, 1)))

    def stages(trial: Builder, size: int) -> None:
        result = View(where, (1, length), (length, 1))
        for src, dst in zip(source.split(-1, size), result.split(-1, size), strict=True):
            tiles.stage(trial, "TCOLARGMAX", "C3", {"dstIdx": dst, "src": src})

    fitting(b, stages, (length, min(length, tiles.widest(b, n))), n, place)
    return largest, where
