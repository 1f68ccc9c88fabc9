"""Tiles as the loops see them: one flat array, one start per tile, steps between rows and columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from lanefold.numerics.threads import threads, workers
from lanefold.pto.tiles import Tile

Array = npt.NDArray[Any]
Index = npt.NDArray[np.int64]

ONE_TILE: Index = np.zeros(1, np.int64)
_PARALLEL_BYTES = 1 << 22
_PIECES = 8


@dataclass(slots=True)
class Block:
    """Tiles of one type in one flat array; ``starts`` and steps count elements."""

    flat: Array
    starts: Index
    row_step: int
    column_step: int

    def view(self, rows: int, cols: int) -> Array | None:
        """The valid parts as one array [tiles, rows, cols], or None where the tiles do not lie evenly."""
        starts = self.starts
        size = self.flat.itemsize
        apart = int(starts[1] - starts[0]) if starts.size > 1 else 0
        if starts.size > 2 and np.any(np.diff(starts) != apart):
            return None
        steps = (apart * size, self.row_step * size, self.column_step * size)
        return np.ndarray(
            (starts.size, rows, cols), self.flat.dtype, self.flat.view(np.uint8), int(starts[0]) * size, steps
        )

    def views(self, rows: int, cols: int) -> list[Array]:
        """The valid parts [tiles, rows, cols]: one array, or one per tile where the tiles do not lie evenly."""
        whole = self.view(rows, cols)
        if whole is not None:
            return [whole]
        parts = [self.part(slice(tile, tile + 1)).view(rows, cols) for tile in range(self.starts.size)]
        return [part for part in parts if part is not None]

    def part(self, tiles: slice) -> Block:
        """Some of the tiles."""
        return Block(self.flat, self.starts[tiles], self.row_step, self.column_step)

    def cast(self, dtype: np.dtype[Any]) -> Block:
        """The same tiles with every element converted."""
        return (
            self
            if self.flat.dtype == dtype
            else Block(_convert(self.flat, dtype), self.starts, self.row_step, self.column_step)
        )


def _convert(flat: Array, dtype: np.dtype[Any]) -> Array:
    with np.errstate(all="ignore"):
        converted: Array = flat.astype(dtype)
    return converted


def block_of(tile: Tile) -> Block:
    """One data tile as a block."""
    return Block(tile.flat, ONE_TILE, tile.row_step, tile.column_step)


def scatter_lines(block: Block, values: Array, step: int) -> None:
    """Write one line per tile: ``values`` has shape [tiles, count]; the line's elements are ``step`` apart."""
    tiles, count = values.shape
    if tiles == 1:
        start = int(block.starts[0])
        block.flat[start : start + (count - 1) * step + 1 : step] = values[0]
        return
    lines = Block(block.flat, block.starts, 0, step).view(1, count)
    if lines is not None:
        lines[:, 0] = values
    else:
        block.flat[block.starts[:, None] + np.arange(0, count * step, step)] = values


def spread(tiles: int, bytes_read: int, work: Callable[[slice], None]) -> None:
    """Do the work for all tiles, in some threads where it is large; each result is computed by one thread alone."""
    most = threads() if tiles > 1 and bytes_read >= _PARALLEL_BYTES else 1
    if most == 1:
        work(slice(0, tiles))
        return
    # More pieces than threads, because one of the cores may have other work.
    cut = [tiles * k // _PIECES for k in range(_PIECES + 1)]
    parts = [workers(most).submit(work, slice(a, b)) for a, b in pairwise(cut) if a < b]
    for part in parts:
        part.result()
