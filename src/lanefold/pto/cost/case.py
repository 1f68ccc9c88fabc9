"""One configuration of a tile operation, with the sizes every cost rule is written in."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from lanefold.pto.cost.recipes import Recipe
from lanefold.pto.isa import BLOCK_BYTES, ELEMENTS

REPEAT_BYTES = 256
STRIDE_MAX = 255
"""The largest repeat stride of a two-operand vector instruction, in 32-byte blocks."""


@dataclass(frozen=True)
class Case:
    """A checked request: extents in elements of the full-size operand (destination of an expand, source of a reduce).

    Layouts are ``ND`` (row major), ``DN`` (column major, one column) and ``ND32B`` (row major, one 32-byte block).
    """

    recipe: Recipe
    dtype: str
    rows: int
    cols: int
    valid_rows: int
    valid_cols: int
    dst_layout: str
    src_layout: str
    src1_layout: str
    static_shape: bool
    form: str
    idx_bytes: int

    @property
    def size(self) -> int:
        """Bytes per element."""
        return ELEMENTS[self.dtype].bytes

    @cached_property
    def per_repeat(self) -> int:
        """Elements of one repeat (256 bytes)."""
        return REPEAT_BYTES // self.size

    @cached_property
    def per_block(self) -> int:
        """Elements of one 32-byte block."""
        return BLOCK_BYTES // self.size

    @property
    def full_repeats(self) -> int:
        """Full repeats in one valid row."""
        return self.valid_cols // self.per_repeat

    @property
    def rest(self) -> int:
        """Elements of a valid row beyond its full repeats."""
        return self.valid_cols % self.per_repeat

    @property
    def wide(self) -> bool:
        """Whether the row stride is beyond the repeat-stride field."""
        return self.cols // self.per_block > STRIDE_MAX

    @property
    def whole(self) -> bool:
        """Whether the valid region is the whole tile and known at compile time."""
        return self.static_shape and (self.valid_rows, self.valid_cols) == (self.rows, self.cols)

    @property
    def row_blocks(self) -> int:
        """32-byte blocks that hold one valid row."""
        return -(-self.valid_cols * self.size // BLOCK_BYTES)

    @property
    def floating(self) -> bool:
        """Whether the element type is a floating-point type of the vector unit."""
        return self.dtype in ("f32", "f16")


Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Columns:
    """Many configurations of one operation and element type: the sizes of `Case` as arrays of equal length."""

    recipe: Recipe
    dtype: str
    rows: Ints
    cols: Ints
    valid_rows: Ints
    valid_cols: Ints
    dst_layout: str
    src_layout: str
    src1_layout: str
    static_shape: Bools
    form: str
    idx_bytes: int

    @property
    def size(self) -> int:
        """Bytes per element."""
        return ELEMENTS[self.dtype].bytes

    @property
    def per_repeat(self) -> int:
        """Elements of one repeat (256 bytes)."""
        return REPEAT_BYTES // self.size

    @property
    def per_block(self) -> int:
        """Elements of one 32-byte block."""
        return BLOCK_BYTES // self.size

    @cached_property
    def full_repeats(self) -> Ints:
        """Full repeats in one valid row."""
        return self.valid_cols // self.per_repeat

    @cached_property
    def rest(self) -> Ints:
        """Elements of a valid row beyond its full repeats."""
        return self.valid_cols - self.full_repeats * self.per_repeat

    @cached_property
    def wide(self) -> Bools:
        """Whether the row stride is beyond the repeat-stride field."""
        return self.cols >= (STRIDE_MAX + 1) * self.per_block

    @cached_property
    def whole(self) -> Bools:
        """Whether the valid region is the whole tile and known at compile time."""
        same: Bools = (self.valid_rows == self.rows) & (self.valid_cols == self.cols)
        return same & self.static_shape

    @cached_property
    def row_blocks(self) -> Ints:
        """32-byte blocks that hold one valid row."""
        return (self.valid_cols * self.size + BLOCK_BYTES - 1) // BLOCK_BYTES

    @property
    def floating(self) -> bool:
        """Whether the element type is a floating-point type of the vector unit."""
        return self.dtype in ("f32", "f16")

    def part(self, span: slice) -> Columns:
        """Some of the configurations."""
        return replace(
            self,
            rows=self.rows[span],
            cols=self.cols[span],
            valid_rows=self.valid_rows[span],
            valid_cols=self.valid_cols[span],
            static_shape=self.static_shape[span],
        )
