"""How far a number of a cost model may be trusted: next to which measured points it lies, and the error expected."""

from __future__ import annotations

from enum import StrEnum
from functools import cache

import numpy as np
import numpy.typing as npt

from lanefold.pto.cost.case import Columns
from lanefold.pto.cost.figures import FIGURES
from lanefold.pto.cost.kernels.rows import SPECIAL
from lanefold.pto.cost.lines import LINES
from lanefold.pto.cost.parameters import ACCURACY
from lanefold.pto.cost.recipes import Family


class Validity(StrEnum):
    """Where a number comes from: measured points, between them, beyond them, or nothing that was measured."""

    CALIBRATED = "calibrated"
    INTERPOLATED = "interpolated"
    EXTRAPOLATED = "extrapolated"
    UNKNOWN = "unknown"


LEVELS = tuple(Validity)
"""The levels in the order of the codes that columnar results use."""
CALIBRATED, INTERPOLATED, EXTRAPOLATED, UNKNOWN = range(4)

LINE_ROWS = (16, 128)
"""Rows between which the fitted lines were sampled."""
ROWS_OF_ONE_PASS = 255

PUBLIC_ERRORS: dict[tuple[str, str, str], tuple[float, float]] = {
    ("reference", "TROWSUM", ""): (0.77, 0.99),
    ("reference", "TROWMAX", ""): (0.76, 0.99),
    ("reference", "TCOLSUM", "sequential"): (0.27, 0.43),
    ("reference", "TCOLSUM", "binary"): (0.74, 0.89),
    ("reference", "TCOLMAX", ""): (0.07, 0.20),
    ("reference", "TROWEXPAND", ""): (0.46, 0.49),
    ("stream", "TROWSUM", ""): (0.53, 0.95),
    ("stream", "TROWMAX", ""): (0.67, 0.99),
    ("stream", "TCOLSUM", "sequential"): (0.70, 1.12),
    ("stream", "TCOLSUM", "binary"): (0.16, 0.36),
    ("stream", "TCOLMAX", ""): (1.35, 1.48),
    ("stream", "TROWEXPAND", ""): (0.82, 0.96),
}
"""Median and worst error of the public models against the fitted lines, by model, operation and form."""

WORST_FIGURE = max(row.worst for row in ACCURACY.values()) if ACCURACY else 0.0
"""Expected error at a single measured figure: the worst of any operation, since most have a parameter of their own."""
BEYOND_LINES = 0.15
"""Expected error of an operation with lines, at shapes outside them (judged from the left-out errors)."""
SAME_INSTRUCTIONS = 0.25
"""Expected error where the instructions were measured in another operation or at another shape (judged)."""
BORROWED = 0.5
"""Expected error where instruction costs come from the uncalibrated public tables (judged)."""
TRANSFERS = 1.0
"""Expected error of loads and stores: one of four loads was 2.5 times its rule, and no store was measured."""

_SAME = {
    Family.ROW_REDUCE,
    Family.COLUMN_REDUCE,
    Family.COLUMN_SUM,
    Family.ROW_EXPAND,
    Family.ELEMENTWISE,
    Family.COLUMN_EXPAND,
}
_STRIDED = {Family.ROW_REDUCE, Family.ROW_EXPAND_OP}
"""Families whose path changes where the row stride is beyond its field."""
_FLOAT_ONLY = {Family.ROW_REDUCE}

Codes = npt.NDArray[np.uint8]
Errors = npt.NDArray[np.float64]


@cache
def line_columns(op: str, dtype: str) -> tuple[int, ...]:
    """Column counts with a fitted line."""
    return tuple(sorted(line.cols for line in LINES if (line.op, line.dtype) == (op, dtype)))


def general_path(c: Columns) -> npt.NDArray[np.bool_]:
    """Configurations that take the path the lines were measured on."""
    usual = np.ones(len(c.rows), np.bool_)
    if c.recipe.family in _STRIDED:
        usual &= ~c.wide
    if c.recipe.family is Family.ROW_REDUCE and c.dst_layout == "DN" and c.dtype == "f32":
        for height, width in SPECIAL:
            usual &= ~(c.whole & (c.rows == height) & (c.cols == width))
    if c.recipe.family is Family.ROW_EXPAND and c.src_layout == "DN":
        usual &= ~(c.whole & (c.cols == c.per_block))
    if c.form == "binary":
        usual &= False
    return usual


def calibrated(c: Columns) -> tuple[Codes, Errors]:
    """Code and expected relative error of each configuration under the calibrated model."""
    usual = general_path(c)
    code = np.full(len(c.rows), EXTRAPOLATED, np.uint8)
    error = np.where(usual, _beyond(c), max(BORROWED, _beyond(c)))
    counts = line_columns(c.recipe.op, c.dtype)
    if counts:
        near = usual & (c.valid_rows > 1) & (c.valid_rows <= ROWS_OF_ONE_PASS)
        near &= (c.valid_cols >= counts[0]) & (c.valid_cols <= counts[-1])
        row = ACCURACY[c.recipe.op]
        code[near], error[near] = INTERPOLATED, max(row.left_out_worst, row.worst)
        on_line = near & (c.valid_rows >= LINE_ROWS[0]) & (c.valid_rows <= LINE_ROWS[1])
        on_line &= np.isin(c.valid_cols, counts) & (c.valid_cols == c.cols) & (c.valid_rows == c.rows)
        code[on_line], error[on_line] = CALIBRATED, row.worst
    for figure in FIGURES:
        if (figure.op, figure.dtype) == (c.recipe.op, c.dtype):
            hit = (c.valid_rows == figure.rows) & (c.valid_cols == figure.cols)
            hit &= usual & (code != CALIBRATED)
            code[hit], error[hit] = CALIBRATED, WORST_FIGURE
    return code, error


def _beyond(c: Columns) -> float:
    family = c.recipe.family
    if family is Family.TRANSFER and c.recipe.op != "TMOV":
        return TRANSFERS
    if line_columns(c.recipe.op, c.dtype) and c.form != "binary":
        return BEYOND_LINES
    if family in _SAME and (c.floating or family not in _FLOAT_ONLY):
        return SAME_INSTRUCTIONS
    return BORROWED


def public(model: str, c: Columns) -> tuple[Codes, Errors]:
    """Code and expected relative error of each configuration under a public model."""
    count = len(c.rows)
    if model == "fit":
        inside = (c.valid_rows >= LINE_ROWS[0]) & (c.valid_rows <= LINE_ROWS[1])
        code = np.where(inside, CALIBRATED, EXTRAPOLATED)
        known = np.isin(c.valid_cols, line_columns(c.recipe.op, c.dtype))
        code = np.where(known, code, UNKNOWN)
        return code.astype(np.uint8), np.where(known & inside, 0.0, np.nan)
    pair = PUBLIC_ERRORS.get((model, c.recipe.op, c.form))
    if pair is None or not c.floating:
        return np.full(count, UNKNOWN, np.uint8), np.full(count, np.nan)
    return np.full(count, EXTRAPOLATED, np.uint8), np.full(count, pair[1])
