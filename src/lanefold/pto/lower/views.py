"""Strided views of flat tensors: what the loads and stores of a stage touch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class View:
    """Elements of a flat tensor: extents and strides, outermost first, and the first element, all in elements.

    The last axis is the columns of one tile, the ``row_axes`` before it are its rows, the axes before those walk the
    tiles.
    """

    tensor: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0
    row_axes: int = 1

    @property
    def tiles(self) -> int:
        """Blocks of rows × columns."""
        return prod(self.shape[: self._first])

    @property
    def rows(self) -> int:
        """Rows of one tile."""
        return prod(self.shape[self._first : -1])

    @property
    def cols(self) -> int:
        """Columns of one tile."""
        return self.shape[-1]

    @property
    def row_steps(self) -> tuple[tuple[int, int], ...]:
        """Extent and stride of each axis of the rows, outermost first."""
        return tuple(zip(self.shape[self._first : -1], self.strides[self._first : -1], strict=True))

    @property
    def _first(self) -> int:
        return len(self.shape) - 1 - self.row_axes

    def split(self, axis: int, size: int) -> list[View]:
        """The view in pieces of ``size`` along its columns (−1) or an axis of its rows: whole pieces, then the rest."""
        extent, step = self.shape[axis], self.strides[axis]
        if size >= extent:
            return [self]
        count, rest = divmod(extent, size)
        at, lead = len(self.shape) + axis, self._first
        whole = replace(
            self,
            shape=(*self.shape[:lead], count, *_with(self.shape, at, size)[lead:]),
            strides=(*self.strides[:lead], size * step, *self.strides[lead:]),
        )
        if not rest:
            return [whole]
        return [whole, replace(self, shape=_with(self.shape, at, rest), offset=self.offset + count * size * step)]

    def outside(self, axes: int) -> View:
        """The view with so many of its row axes, the outermost ones, walking the tiles instead."""
        return replace(self, row_axes=self.row_axes - axes)

    def part(self, start: int, stop: int) -> View:
        """The tiles from one place of the outermost walk to another; the view itself where there is one tile."""
        if not self._first:
            return self
        shape = (min(stop, self.shape[0]) - start, *self.shape[1:])
        return replace(self, shape=shape, offset=self.offset + start * self.strides[0])

    def of(self, flat: Array) -> Array:
        """The elements of a flat array that the view walks, without a copy."""
        strides = tuple(step * flat.itemsize for step in self.strides)
        return np.lib.stride_tricks.as_strided(flat[self.offset :], shape=self.shape, strides=strides)

    def blocks(self, flat: Array) -> Array:
        """The same elements with one axis of rows; a copy where several axes make the rows."""
        return self.of(flat).reshape(*self.shape[: self._first], self.rows, self.cols)


def _with(extents: tuple[int, ...], at: int, size: int) -> tuple[int, ...]:
    return (*extents[:at], size, *extents[at + 1 :])


def even(extent: int, limit: int) -> int:
    """The piece size that cuts an extent into as few pieces of at most ``limit`` as possible, all about alike."""
    return -(-extent // -(-extent // max(1, limit)))


def joined(views: Sequence[View]) -> list[View]:
    """The views with neighbouring axes of the rows made one wherever one stride reaches both in every view."""
    result = list(views)
    at = -2
    while -at <= result[0].row_axes:
        if all(view.strides[at - 1] == view.shape[at] * view.strides[at] for view in result):
            result = [_merged(view, at) for view in result]
        else:
            at -= 1
    return result


def _merged(view: View, at: int) -> View:
    """One axis for the row axis ``at`` and the one outside it."""
    place = len(view.shape) + at
    shape = (*view.shape[: place - 1], view.shape[place - 1] * view.shape[place], *view.shape[place + 1 :])
    return replace(
        view,
        shape=shape,
        strides=(*view.strides[: place - 1], *view.strides[place:]),
        row_axes=view.row_axes - 1,
    )


def split_rows(views: Sequence[View], limit: int) -> list[tuple[View, ...]]:
    """Views with the same rows, cut alike into pieces of at most ``limit`` rows each."""
    whole = 1
    first = views[0]
    for axis in range(-2, -2 - first.row_axes, -1):
        extent = first.shape[axis]
        if whole * extent <= limit:
            whole *= extent
            continue
        outer = first.row_axes + axis + 1
        size = even(extent, max(1, limit // whole))
        pieces = zip(*(view.outside(outer).split(axis, size) for view in views), strict=True)
        return [tuple(each) for each in pieces]
    return [tuple(views)]
