"""Configurations per second of sweeps on one core, by model and operation.

``python benchmarks/sweep.py [configurations] [--markdown FILE]``. The first figure of a line is a first run, which also
asks the rules once for every extent; the second a run with those answers at hand; both are everything but the output
file: reading the sweep, shapes, cost, bounds, legality. The last one is the cost model alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from harness import Table, arguments, publish

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


def line(op: str, model: str, rows: int) -> tuple[str, ...]:
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
    return (op, model, f"{first:.2f}", f"{after:.2f}", f"{alone:.2f}")


def main() -> None:
    """Prints a line per model and operation."""
    parser = arguments(__doc__)
    parser.add_argument("configurations", type=int, nargs="?", default=2_000_000)
    given = parser.parse_args()
    rows = max(1, given.configurations // COLUMNS)
    columns = ("operation", "model", "first run", "next run", "model alone")
    notes = [f"Millions of configurations per second on one core; {rows * COLUMNS:,} configurations."]
    table = Table("sweep", "Sweeps", columns, [line(op, model, rows) for op, model in CASES], notes)
    publish(table, given.markdown)


if __name__ == "__main__":
    main()
