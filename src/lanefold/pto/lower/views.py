"""Strided views of flat tensors: what the loads and stores of a stage touch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class View:
    """Elements of a flat tensor: extents and strides, outermost first, and the first element, all in elements.

    The last two axes are the rows and columns of one tile, the axes before them walk the tiles.
    """

    tensor: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0

    @property
    def tiles(self) -> int:
        """Blocks of rows × columns."""
        return prod(self.shape[:-2])

    def split(self, axis: int, size: int) -> list[View]:
        """The view in pieces of ``size`` along its rows (−2) or columns (−1): whole pieces, and the rest if any."""
        extent, step = self.shape[axis], self.strides[axis]
        if size >= extent:
            return [self]
        count, rest = divmod(extent, size)
        rows, cols = _with(self.shape[-2:], axis, size)
        whole = View(
            self.tensor,
            (*self.shape[:-2], count, rows, cols),
            (*self.strides[:-2], size * step, *self.strides[-2:]),
            self.offset,
        )
        if not rest:
            return [whole]
        shape = (*self.shape[:-2], *_with(self.shape[-2:], axis, rest))
        return [whole, replace(self, shape=shape, offset=self.offset + count * size * step)]

    def of(self, flat: Array) -> Array:
        """The elements of a flat array that the view walks, without a copy."""
        strides = tuple(step * flat.itemsize for step in self.strides)
        return np.lib.stride_tricks.as_strided(flat[self.offset :], shape=self.shape, strides=strides)


def _with(extents: tuple[int, ...], axis: int, size: int) -> tuple[int, int]:
    rows, cols = extents
    return (size, cols) if axis == -2 else (rows, size)


def even(extent: int, limit: int) -> int:
    """The piece size that cuts an extent into as few pieces of at most ``limit`` as possible, all about alike."""
    return -(-extent // -(-extent // max(1, limit)))
