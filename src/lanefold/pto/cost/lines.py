"""The fitted lines of the A2/A3 cost model: cycles over elements, one line per operation, type and column count."""

from __future__ import annotations

from typing import NamedTuple


class Line(NamedTuple):
    """cycles = slope × rows × cols + intercept, valid at exactly ``cols`` columns."""

    op: str
    dtype: str
    cols: int
    slope: float
    intercept: float


LINES: tuple[Line, ...] = (
    Line("TCOLMAX", "f32", 8, 2.125, 24.0),
    Line("TCOLMAX", "f32", 32, 0.5391, 16.0),
    Line("TCOLMAX", "f32", 96, 0.3646, 2.0),
    Line("TCOLMAX", "f32", 128, 0.1571, 10.0),
    Line("TCOLMAX", "f16", 64, 0.2695, 16.0),
    Line("TCOLMAX", "f16", 96, 0.1836, 19.0),
    Line("TCOLMAX", "f16", 160, 0.2187, 2.0),
    Line("TCOLMAX", "f16", 192, 0.1823, 2.3325),
    Line("TCOLSUM", "f32", 16, 1.1958, 18.271),
    Line("TCOLSUM", "f32", 32, 0.6016, 15.0),
    Line("TCOLSUM", "f32", 96, 0.2187, 14.0),
    Line("TCOLSUM", "f32", 128, 0.1728, 8.0),
    Line("TCOLSUM", "f32", 176, 0.1314, 30.0),
    Line("TCOLSUM", "f32", 208, 0.1166, 36.0),
    Line("TCOLSUM", "f32", 272, 0.096, 35.0),
    Line("TCOLSUM", "f32", 304, 0.0876, 35.0),
    Line("TCOLSUM", "f16", 16, 1.1916, 20.664),
    Line("TCOLSUM", "f16", 32, 0.5977, 15.0),
    Line("TCOLSUM", "f16", 96, 0.2044, 15.0),
    Line("TCOLSUM", "f16", 128, 0.1523, 15.0),
    Line("TCOLSUM", "f16", 208, 0.1029, 25.0),
    Line("TCOLSUM", "f16", 240, 0.09, 28.0),
    Line("TCOLSUM", "f16", 304, 0.0755, 30.0),
    Line("TCOLSUM", "f16", 336, 0.069, 30.0),
    Line("TCOLSUM", "f16", 400, 0.0616, 29.0),
    Line("TCOLSUM", "f16", 432, 0.057, 36.0),
    Line("TCOLSUM", "f16", 496, 0.0507, 36.0),
    Line("TCOLSUM", "f16", 528, 0.0498, 35.0),
    Line("TCOLSUM", "f16", 592, 0.0453, 35.0),
    Line("TCOLSUM", "f16", 624, 0.0434, 35.0),
    Line("TROWEXPAND", "f32", 8, 1.7596, 33.4),
    Line("TROWEXPAND", "f32", 32, 0.4375, 37.0),
    Line("TROWEXPAND", "f32", 96, 0.1562, 37.0),
    Line("TROWEXPAND", "f32", 128, 0.1176, 34.5),
    Line("TROWEXPAND", "f16", 64, 0.2187, 37.0),
    Line("TROWEXPAND", "f16", 96, 0.1458, 37.0),
    Line("TROWEXPAND", "f16", 160, 0.0937, 37.0),
    Line("TROWEXPAND", "f16", 192, 0.0781, 37.0),
    Line("TROWMAX", "f32", 32, 0.2188, 47.0),
    Line("TROWMAX", "f32", 64, 0.1094, 32.0),
    Line("TROWMAX", "f32", 128, 0.0625, 48.0),
    Line("TROWMAX", "f32", 144, 0.0692, 77.0),
    Line("TROWMAX", "f32", 208, 0.0517, 100.0),
    Line("TROWMAX", "f32", 240, 0.0448, 100.0),
    Line("TROWMAX", "f32", 304, 0.0434, 110.0),
    Line("TROWMAX", "f32", 336, 0.0418, 131.0),
    Line("TROWMAX", "f16", 64, 0.1094, 43.0),
    Line("TROWMAX", "f16", 96, 0.0729, 43.0),
    Line("TROWMAX", "f16", 160, 0.0562, 62.0),
    Line("TROWMAX", "f16", 208, 0.0433, 63.0),
    Line("TROWMAX", "f16", 272, 0.0369, 74.0),
    Line("TROWMAX", "f16", 304, 0.0323, 80.0),
    Line("TROWMAX", "f16", 368, 0.0276, 93.0),
    Line("TROWMAX", "f16", 400, 0.0279, 92.0),
    Line("TROWMAX", "f16", 464, 0.0232, 119.0),
    Line("TROWMAX", "f16", 496, 0.0222, 119.0),
    Line("TROWMAX", "f16", 560, 0.0241, 110.0),
    Line("TROWMAX", "f16", 592, 0.0232, 127.0),
    Line("TROWMAX", "f16", 656, 0.0224, 125.0),
    Line("TROWSUM", "f32", 8, 0.875, 58.0),
    Line("TROWSUM", "f32", 64, 0.1094, 44.0),
    Line("TROWSUM", "f32", 96, 0.0938, 75.0),
    Line("TROWSUM", "f32", 144, 0.0698, 92.0),
    Line("TROWSUM", "f32", 176, 0.0575, 93.0),
    Line("TROWSUM", "f32", 240, 0.0469, 99.0),
    Line("TROWSUM", "f32", 272, 0.0484, 104.0),
    Line("TROWSUM", "f32", 336, 0.0419, 121.0),
    Line("TROWSUM", "f16", 32, 0.2188, 62.0),
    Line("TROWSUM", "f16", 96, 0.0729, 57.0),
    Line("TROWSUM", "f16", 128, 0.0547, 47.0),
    Line("TROWSUM", "f16", 208, 0.0436, 79.0),
    Line("TROWSUM", "f16", 240, 0.0391, 79.0),
    Line("TROWSUM", "f16", 304, 0.0323, 102.0),
    Line("TROWSUM", "f16", 336, 0.0298, 115.0),
    Line("TROWSUM", "f16", 400, 0.0275, 103.0),
    Line("TROWSUM", "f16", 432, 0.0255, 103.0),
    Line("TROWSUM", "f16", 496, 0.0229, 121.0),
    Line("TROWSUM", "f16", 528, 0.0249, 111.0),
    Line("TROWSUM", "f16", 592, 0.0219, 140.0),
    Line("TROWSUM", "f16", 624, 0.0208, 140.0),
)
"""PTO headers: lightweight formula model, formula parameters; the published lines known to this project."""

ANY_SHAPE: dict[str, tuple[float, float]] = {"TEXP": (0.0314, 30.1), "TSQRT": (0.0314, 31.1)}
"""Slope and intercept of the lines that hold for every type and column count (same source)."""

BY_KEY: dict[tuple[str, str, int], Line] = {(line.op, line.dtype, line.cols): line for line in LINES}
