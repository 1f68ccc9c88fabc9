"""The fit model: straight lines over elements at exact column counts, and nothing outside them."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from lanefold.pto.cost.case import Columns
from lanefold.pto.cost.lines import ANY_SHAPE, BY_KEY, LINES

OPS = (*dict.fromkeys(line.op for line in LINES), *ANY_SHAPE)
"""Operations with lines."""


def line(op: str, dtype: str, cols: int) -> tuple[float, float] | None:
    """Slope per element and intercept at a column count, None where there is no line."""
    if op in ANY_SHAPE:
        return ANY_SHAPE[op]
    row = BY_KEY.get((op, dtype, cols))
    return (row.slope, row.intercept) if row else None


def column_counts(op: str, dtype: str) -> list[int]:
    """The column counts that have a line."""
    return sorted(row.cols for row in LINES if (row.op, row.dtype) == (op, dtype))


def cycles(slope: float, intercept: float, rows: int, cols: int) -> int:
    """Cycles on a line, rounded half up."""
    return math.floor(slope * rows * cols + intercept + 0.5)


def columns(c: Columns) -> npt.NDArray[np.float64]:
    """Cycles of each configuration; not a number where there is no line."""
    found = np.full(len(c.rows), np.nan)
    counts = column_counts(c.recipe.op, c.dtype)
    if c.recipe.op in ANY_SHAPE:
        slope, intercept = ANY_SHAPE[c.recipe.op]
        found[:] = np.floor(slope * c.valid_rows * c.valid_cols + intercept + 0.5)
    for count in counts:
        row = BY_KEY[c.recipe.op, c.dtype, count]
        hit = c.valid_cols == count
        found[hit] = np.floor(row.slope * c.valid_rows[hit] * count + row.intercept + 0.5)
    return found
