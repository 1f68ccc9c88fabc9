"""Configurations per second of sweeps on one core, by model and operation.

Run from the root of the repository: ``python benchmarks/sweep.py [configurations]``. The first figure of a line is a
first run, which also asks the rules once for every extent; the second a run with those answers at hand. ``whole`` is
everything but the output file: reading the sweep, shapes, cost, bounds, legality; ``model`` the cost model alone.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import lanefold as lf
from lanefold.pto.cost import cost_columns
from lanefold.sweeps import read_spec

COLUMNS = 2000
CASES = (
    ("TROWSUM", "calibrated"),
    ("TROWSUM", "stream"),
    ("TCOLSUM", "calibrated"),
    ("TCOLSUM", "stream"),
    ("TROWARGMAX", "calibrated"),
    ("TROWARGMAX", "stream"),
    ("TROWEXPANDMUL", "calibrated"),
    ("TROWEXPANDMUL", "stream"),
)


def rate(count: int, work: Callable[[], object]) -> float:
    """Millions per second."""
    started = time.perf_counter()
    work()
    return count / (time.perf_counter() - started) / 1e6


def line(op: str, model: str, rows: int) -> str:
    """The figures of one operation under one model."""
    count = rows * COLUMNS
    sweep = {
        "ops": [op],
        "dtypes": ["f32"],
        "targets": ["a2a3"],
        "models": [model],
        "limit": count,
        "shapes": {"rows": {"from": 1, "to": rows}, "cols": {"from": 8, "to": 8 * COLUMNS, "step": 8}},
    }
    first, after = (rate(count, lambda: lf.sweep(sweep)) for _ in range(2))
    shape = read_spec(sweep).shapes.part(0, count)
    alone = rate(count, lambda: cost_columns(op, "f32", *shape, model=model))
    return f"{op:14} {model:11} {first:7.2f} {after:7.2f} {alone:7.2f}"


def main() -> None:
    """Prints a line per model and operation."""
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000_000
    rows = max(1, wanted // COLUMNS)
    print(f"{rows * COLUMNS:,} configurations; millions per second: first run, next run, model alone")
    for op, model in CASES:
        print(line(op, model, rows))


if __name__ == "__main__":
    main()
