"""Fits the parameters of the calibrated PTO cost model and writes them to the package.

Run from the root of the repository: ``python tools/fit_pto_cost.py`` prints the table of errors, ``--write`` also
writes ``src/lanefold/pto/cost/parameters.py``. Lines are sampled at 16, 32, 64 and 128 rows; errors are relative.
Cross-validation leaves out whole column counts of a type, in turn.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy.optimize import lsq_linear

from lanefold.pto.cost import calibrated
from lanefold.pto.cost.case import Columns
from lanefold.pto.cost.figures import FIGURES, UNEXPLAINED
from lanefold.pto.cost.lines import LINES
from lanefold.pto.cost.recipes import RECIPES

ROWS = (16, 32, 64, 128)
TARGET = Path(__file__).parents[1] / "src/lanefold/pto/cost/parameters.py"

BODY = '''PARAMETERS: tuple[Parameter, ...] = (
{parameters})
"""Every fitted parameter."""

ACCURACY: dict[str, Accuracy] = {{
{accuracies}}}
"""Errors by operation; operations with single figures only have none left out (not a number)."""
'''

Vector = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Point:
    """One measured configuration."""

    op: str
    dtype: str
    rows: int
    cols: int
    cycles: float
    line: bool


@dataclass(frozen=True)
class Group:
    """Parameters fitted together: on which points, each with its kind of term and lower bound."""

    title: str
    wanted: Callable[[Point], bool]
    kinds: dict[str, str]


def points() -> list[Point]:
    """Every sampled line and every figure."""
    sampled = [
        Point(line.op, line.dtype, rows, line.cols, line.slope * rows * line.cols + line.intercept, True)
        for line in LINES
        for rows in ROWS
    ]
    return sampled + [Point(f.op, f.dtype, f.rows, f.cols, f.cycles, False) for f in FIGURES]


def columns(point: Point) -> Columns:
    """The point as a configuration of the general path."""
    recipe = RECIPES[point.op]

    def one(value: int) -> npt.NDArray[np.int64]:
        return np.array([value], np.int64)

    rows, cols = one(point.rows), one(point.cols)
    static = np.ones(1, np.bool_)
    return Columns(recipe, point.dtype, rows, cols, rows, cols, "ND", "ND", "DN", static, recipe.forms[0], 4)


def quantities(point: Point) -> tuple[dict[str, float], float]:
    """How often each fitted parameter enters, and the cycles that public tables already explain."""
    wanted: dict[str, float] = {}
    known = 0.0
    for term in calibrated.terms(columns(point)):
        amount = float(np.ravel(term.quantity)[0])
        if term.cycles is None:
            wanted[term.name] = wanted.get(term.name, 0.0) + amount
        else:
            known += amount * term.cycles
    return wanted, known


def _line_of(*ops: str) -> Callable[[Point], bool]:
    return lambda point: point.op in ops and point.line


def _elementwise(op: str, kind: str) -> Group:
    return Group(
        f"{op} {kind}",
        lambda point: (point.op, calibrated.kind_of(point.dtype)) == (op, kind),
        {f"launch of {op} {kind}": "launch"},
    )


GROUPS = (
    Group(
        "copies",
        lambda p: p.op == "TMOV" or (p.op == "TCOLMAX" and p.rows == 1),
        {"copy launch": "launch", "copy block": "copies"},
    ),
    Group(
        "row reductions",
        _line_of("TROWSUM", "TROWMAX"),
        {
            "row launch": "launch",
            "row launch, sum": "launch",
            "row launch, half sum": "launch",
            "row launch, half max": "launch",
            "row lane mask": "masks",
            "across repeat": "repeats",
            "pass barrier": "barriers",
            "pass repeat": "repeats",
            "tail barrier": "barriers",
            "tail repeat": "repeats",
            "tail beyond 64 lanes": "masks",
            "long row repeat": "repeats",
        },
    ),
    Group(
        "column reductions",
        _line_of("TCOLSUM", "TCOLMAX"),
        {
            "column launch": "launch",
            "column launch, half": "launch",
            "step": "barriers",
            "step repeat": "repeats",
            "step block": "repeats",
        },
    ),
    Group(
        "row expansion",
        _line_of("TROWEXPAND"),
        {"expand launch": "launch", "scalar hand-over": "scalar hand-over", "dup repeat": "repeats"},
    ),
    Group("loads", lambda p: p.op == "TLOAD", {"burst": "copies", "burst byte": "copies"}),
    Group(
        "operations with a scalar",
        lambda p: RECIPES[p.op].lanes in calibrated.SCALAR,
        {"launch with scalar, one instruction": "launch", "launch with scalar, several": "launch"},
    ),
    *(_elementwise(op, kind) for op, kind in sorted(calibrated.MEASURED) if RECIPES[op].lanes not in calibrated.SCALAR),
)


def solve(chosen: Iterable[Point], names: list[str], given: dict[str, float]) -> dict[str, float]:
    """Least squares of the relative errors, with the parameters in ``given`` held."""
    matrix, target = [], []
    for point in chosen:
        wanted, known = quantities(point)
        known += sum(amount * given[name] for name, amount in wanted.items() if name not in names and amount)
        matrix.append([wanted.get(name, 0.0) / point.cycles for name in names])
        target.append(1.0 - known / point.cycles)
    found = lsq_linear(np.array(matrix), np.array(target)).x
    return dict(zip(names, (float(value) for value in found), strict=True))


def price(point: Point, values: dict[str, float]) -> float:
    """Cycles of a point under these parameters."""
    wanted, known = quantities(point)
    return known + sum(amount * values[name] for name, amount in wanted.items() if amount)


def error(point: Point, values: dict[str, float]) -> float:
    """Relative error of a point."""
    return abs(price(point, values) / point.cycles - 1.0)


def fit(data: list[Point]) -> tuple[dict[str, float], dict[Point, float], dict[Point, float]]:
    """All parameters, the error of each point, and its error where its column count was left out."""
    values: dict[str, float] = {}
    fitted: dict[Point, float] = {}
    left_out: dict[Point, float] = {}
    usable = [p for p in data if (p.op, p.dtype, p.rows, p.cols) not in UNEXPLAINED]
    for group in GROUPS:
        chosen = [p for p in usable if group.wanted(p)]
        names = list(group.kinds)
        values |= solve(chosen, names, values)
        for key in sorted({(p.dtype, p.cols) for p in chosen if p.line}):
            part = solve([p for p in chosen if (p.dtype, p.cols) != key], names, values)
            left_out |= {p: error(p, values | part) for p in chosen if (p.dtype, p.cols) == key}
    fitted = {p: error(p, values) for p in usable}
    return values, fitted, left_out


def accuracy(data: Iterable[Point], fitted: dict[Point, float], left_out: dict[Point, float]) -> dict[str, Vector]:
    """Points, median and worst error, and the same with columns left out, by operation."""
    table = {}
    for op in RECIPES:
        errors = [fitted[p] for p in data if p.op == op and p in fitted]
        outside = [left_out[p] for p in data if p.op == op and p in left_out]
        if errors:
            row = [len(errors), np.median(errors), max(errors)]
            row += [np.median(outside), max(outside)] if outside else [math.nan, math.nan]
            table[op] = np.array(row, np.float64)
    return table


def report(table: dict[str, Vector], fitted: dict[Point, float], left_out: dict[Point, float]) -> None:
    """Prints the errors by operation and over all."""
    print(f"{'operation':<14}{'points':>7}{'median':>9}{'worst':>9}{'left out median':>17}{'worst':>9}")
    for op, row in table.items():
        print(f"{op:<14}{int(row[0]):>7}" + f"{row[1]:>9.2%}{row[2]:>9.2%}{row[3]:>17.2%}{row[4]:>9.2%}")
    every, outside = list(fitted.values()), list(left_out.values())
    print(f"{'all':<14}{len(every):>7}{np.median(every):>9.2%}{max(every):>9.2%}", end="")
    print(f"{np.median(outside):>17.2%}{max(outside):>9.2%}")


def write(values: dict[str, float], table: dict[str, Vector]) -> None:
    """Writes the parameters and their accuracy into the package."""
    kinds = {name: (kind, group) for group in GROUPS for name, kind in group.kinds.items()}
    rows = []
    for name, value in values.items():
        kind, group = kinds[name]
        rows.append(f'    Parameter("{name}", {value:.6g}, "{kind}", "{group.title}"),\n')
    accuracies = []
    for op, row in table.items():
        shown = ", ".join(f"{value:.4f}" if value == value else "NAN" for value in row[1:])
        accuracies.append(f'    "{op}": Accuracy({int(row[0])}, {shown}),\n')
    head = TARGET.read_text().split("PARAMETERS:")[0]
    TARGET.write_text(head + BODY.format(parameters="".join(rows), accuracies="".join(accuracies)))


def main() -> None:
    """Fits, prints and, where asked, writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the parameters into the package")
    arguments = parser.parse_args()
    data = points()
    values, fitted, left_out = fit(data)
    table = accuracy(data, fitted, left_out)
    report(table, fitted, left_out)
    if arguments.write:
        write(values, table)


if __name__ == "__main__":
    main()
