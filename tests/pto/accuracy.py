"""How far the calibrated model is from the published lines and enforced figures, and what is too far."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from lanefold.pto.cost import cost_columns

MEDIAN_LIMIT, WORST_LIMIT = 0.02, 0.08
"""Greatest median and worst relative error over all points."""

GROWN = {
    "TROWSUM": 0.045,
    "TROWMAX": 0.040,
    "TCOLSUM": 0.027,
    "TCOLMAX": 0.037,
    "TROWEXPAND": 0.010,
    "TADD": 0.020,
    "TADDS": 0.030,
    "TMULS": 0.030,
    "TMINS": 0.045,
    "TLOAD": 0.002,
}
"""Worst error of each operation with more data than parameters; a larger one means the model got worse."""
SINGLE = 0.005
"""Worst error of the others, whose parameters were fitted to one or a few figures of their own."""
MEDIANS = {"TROWSUM": 0.0090, "TROWMAX": 0.0093, "TCOLSUM": 0.0065, "TCOLMAX": 0.0060, "TROWEXPAND": 0.0012}
"""Median error of each operation with lines."""


class Point(NamedTuple):
    """One measured configuration; the valid region is the whole tile."""

    op: str
    dtype: str
    rows: int
    cols: int
    cycles: float


def read_points(reference_data: Path) -> list[Point]:
    """Every enforced figure, and every published line at 16, 32, 64 and 128 rows."""
    data = json.loads((reference_data / "golden/pto/profiled.json").read_text())
    points = [
        Point(case["op"], case["dtype"], case["rows"], case["cols"], float(case["ref_cycles"]))
        for case in data["cases"]
        if case["kind"] == "profiled"
    ]
    for line in data["lines"]:
        for rows in (16, 32, 64, 128):
            cycles = line["slope_per_element"] * rows * line["cols"] + line["intercept"]
            points.append(Point(line["op"], line["dtype"], rows, line["cols"], cycles))
    return points


def errors_by_op(points: Iterable[Point]) -> dict[str, list[float]]:
    """Relative errors of the calibrated model, by operation."""
    groups: dict[tuple[str, str], list[Point]] = {}
    for point in points:
        groups.setdefault((point.op, point.dtype), []).append(point)
    found: dict[str, list[float]] = {}
    for (op, dtype), part in groups.items():
        rows, cols, cycles = (np.array(values) for values in zip(*(each[2:] for each in part), strict=True))
        priced = cost_columns(op, dtype, rows, cols).cycles
        found.setdefault(op, []).extend(np.abs(priced / cycles - 1).tolist())
    return found


def grown(errors: dict[str, list[float]]) -> list[str]:
    """What is further off than it may be; empty where the model is as good as ever."""
    every = [error for part in errors.values() for error in part]
    found = [f"median {np.median(every):.2%}"] if np.median(every) > MEDIAN_LIMIT else []
    found += [f"worst {max(every):.2%}"] if max(every) > WORST_LIMIT else []
    found += [f"{op} worst {max(part):.2%}" for op, part in errors.items() if max(part) > GROWN.get(op, SINGLE)]
    medians = {op: float(np.median(part)) for op, part in errors.items()}
    return found + [f"{op} median {medians[op]:.2%}" for op, limit in MEDIANS.items() if medians[op] > limit]
