"""Plots of a sweep: cost per element, how far it can be trusted and what bounds it, over the shapes of each group."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import numpy.typing as npt

from lanefold import __version__
from lanefold.arguments import path as path_argument
from lanefold.diagnostics import Place
from lanefold.program.files import write_whole
from lanefold.pto.cost import cost
from lanefold.report.plots import Cell, Map, Plot, number_text, page, picture
from lanefold.sweeps.axes import Ints
from lanefold.sweeps.files import missing_extra
from lanefold.sweeps.group import VALIDITIES
from lanefold.sweeps.pto import arguments_of
from lanefold.sweeps.store import OUTPUT, check_writable
from lanefold.sweeps.table import Best, Part, SweepTable
from lanefold.sweeps.tpb import TpbSet

ROWS, COLUMNS = 20, 28
"""Most rows and columns of a map; of longer axes some values are drawn, evenly spaced."""
GROUPS = 24
"""Most groups that are drawn."""
ENDINGS = (".html", ".png", ".svg")
"""What a plot's file may end in."""


def _thin(values: Ints, most: int, kept: int | None) -> list[int]:
    """Some of the values that occur, evenly spaced, the ends and ``kept`` always among them."""
    every = np.unique(values)
    at = np.unique(np.linspace(0, len(every) - 1, min(most, len(every))).round().astype(int))
    return sorted({int(value) for value in every[at]} | ({kept} if kept is not None else set()))


class _Grid:
    """The configurations of one group that are drawn: for each valid extent one, legal and cheap ones first."""

    def __init__(self, parts: Sequence[Part], best: tuple[int, int] | None) -> None:
        self.rows = _thin(np.concatenate([part.shape[2] for part in parts]), ROWS, best[0] if best else None)
        self.cols = _thin(np.concatenate([part.shape[3] for part in parts]), COLUMNS, best[1] if best else None)
        self.chosen: dict[tuple[int, int], tuple[Part, int]] = {}
        rank: dict[tuple[int, int], tuple[bool, float]] = {}
        for part in parts:
            values = np.nan_to_num(part.numbers["cycles_per_element"], nan=np.inf)
            for at in self._drawn(part).tolist():
                key = (int(part.shape[2][at]), int(part.shape[3][at]))
                mine = (not part.legal[at], float(values[at]))
                if key not in rank or mine < rank[key]:
                    rank[key], self.chosen[key] = mine, (part, at)

    def _drawn(self, part: Part) -> npt.NDArray[np.intp]:
        drawn = np.isin(part.shape[2], self.rows, kind="table") & np.isin(part.shape[3], self.cols, kind="table")
        return np.flatnonzero(drawn)

    def cells(self, region: Callable[[Part, int], str]) -> dict[tuple[int, int], Cell]:
        """A cell for each configuration, with the words of its region."""
        found = {}
        for key, (part, at) in self.chosen.items():
            value = float(part.numbers["cycles_per_element"][at])
            known = None if np.isnan(value) else value
            found[key] = Cell(known, region(part, at), bool(part.legal[at]), _says(part, at))
        return found


def _says(part: Part, at: int) -> str:
    rows, cols, valid_rows, valid_cols = (int(axis[at]) for axis in part.shape)
    cycles = float(part.found.cycles[at])
    number = "cycles unknown"
    if not np.isnan(cycles):
        number = f"{number_text(cycles)} cycles, {number_text(cycles / (valid_rows * valid_cols))} per element"
    tile = "" if (rows, cols) == (valid_rows, valid_cols) else f" in a tile of {rows} × {cols}"
    rule = part.found.rules[int(part.found.rule[at])]
    words = [f"{valid_rows} × {valid_cols}{tile}", number, VALIDITIES[int(part.found.validity[at])]]
    return "; ".join([*words, f"not legal: {rule}"] if rule else words)


def _bound(part: Part, at: int) -> str:
    """What bounds a configuration: as the table says, else the greatest term of its cost."""
    word = str(part.column("bound")[at])
    group = part.group
    if word or np.isnan(part.found.cycles[at]):
        return word or "unknown"
    rows, cols, valid_rows, valid_cols = (int(axis[at]) for axis in part.shape)
    arguments = arguments_of(group.settings)
    single = cost(
        group.op,
        group.dtype,
        rows,
        cols,
        valid_rows,
        valid_cols,
        target=group.target,
        model=group.model,
        **arguments,  # type: ignore[arg-type]
    )
    terms = single.terms
    return max(terms, key=lambda name: terms[name]) if terms else "unknown"


def _validity(part: Part, at: int) -> str:
    return VALIDITIES[int(part.found.validity[at])]


def _facts(best: Best) -> dict[str, str]:
    row = best.row
    if row is None:
        return {"best shape": "none", "cycles": "", "per element": "", "validity": f"{best.unknown:,} unknown"}
    shape = f"{row['valid_rows']} × {row['valid_cols']}"
    if (row["rows"], row["cols"]) != (row["valid_rows"], row["valid_cols"]):
        shape += f" in {row['rows']} × {row['cols']}"
    numbers = {name: number_text(float(str(row[name]))) for name in ("cycles", "cycles_per_element")}
    spread = "" if row["cycles_low"] is None else f" ({_cycles(row, 'low')} to {_cycles(row, 'high')})"
    if row["cycles_low"] == row["cycles_high"]:
        spread = ""
    return {
        "best shape": shape,
        "cycles": numbers["cycles"] + spread,
        "per element": numbers["cycles_per_element"],
        "validity": str(row["validity"]),
    }


def _cycles(row: Mapping[str, object], end: str) -> str:
    return number_text(float(str(row[f"cycles_{end}"])))


def _plot(table: SweepTable, at: int, objective: str) -> Plot:
    group, best = table.space.groups[at], table.best_of_group(at, objective)
    parts = [part for part in table.of_group(at) if len(part)]
    row = best.row
    place = (int(str(row["valid_rows"])), int(str(row["valid_cols"]))) if row is not None else None
    grid = _Grid(parts, place)
    tpb = group.target in TpbSet.targets
    axes = ("partitions", "elements per partition") if tpb else ("valid rows", "valid columns")
    regions = (("Validity", _validity), ("Bound" if tpb else "Greatest term", _bound))
    maps = [
        Map("Cycles per element", grid.rows, grid.cols, grid.cells(lambda *_: ""), place, True, axes),
        *(Map(title, grid.rows, grid.cols, grid.cells(region), place, False, axes) for title, region in regions),
    ]
    note = f"{group.version}; clock {group.clock_ghz:g} GHz; {sum(map(len, parts)):,} rows"
    return Plot(group.label, note, tuple(maps), _facts(best))


def plots(table: SweepTable, objective: str = "cycles_per_element") -> list[Plot]:
    """The plots of the first groups with a price; groups without one have nothing to draw."""
    drawn = [
        at
        for at, group in enumerate(table.space.groups)
        if group.refused is None and any(len(part) for part in table.of_group(at))
    ]
    return [_plot(table, at, objective) for at in drawn[:GROUPS]]


def write_plot(table: SweepTable, path: str | Path, objective: str = "") -> Path:
    """Writes the plots of a sweep as one page or picture that needs no other file, whole or not at all.

    Args:
        table: the sweep.
        path: a file that ends in ``.html``, ``.png`` or ``.svg``.
        objective: what the best shape has least of: that of the sweep, or cycles per element, where left out.

    Raises:
        LanefoldError: SWEEP-OUTPUT for another ending, or a place that cannot be written; SWEEP-EXTRA without the
            package that draws.
    """
    file = plot_file(path)
    wanted = table.chosen(objective, "cycles_per_element")
    drawn = plots(table, wanted)
    head = _head(table, wanted, drawn)
    if file.suffix == ".html":
        content = page("Sweep", head, drawn).encode()
    else:
        content = picture("Sweep", head, drawn, file.suffix[1:])
    write_whole(file, content, OUTPUT)
    return file


def plot_file(path: str | Path) -> Path:
    """The file of a plot, checked before anything is computed.

    Raises:
        LanefoldError: SWEEP-OUTPUT for another ending or a folder that cannot be written to, SWEEP-EXTRA without the
            package that draws.
    """
    file = path_argument("write_plot", "path", path, "sweep.html")
    if file.suffix not in ENDINGS:
        raise OUTPUT.error(
            f"{file} ends in {file.suffix!r}" if file.suffix else f"{file} has no ending",
            got=str(file),
            allowed=f"a name that ends in {', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}",
            cures=[f"write to {file.with_suffix(ending) if file.name else 'plot' + ending}" for ending in ENDINGS],
            place=Place(file=str(file)),
        )
    check_writable(file)
    if find_spec("vl_convert") is None:
        raise missing_extra("Plots", "vl-convert-python", "plot")
    return file


def _head(table: SweepTable, objective: str, drawn: Sequence[Plot]) -> dict[str, str]:
    counts, groups = table.counts, len(table.space.groups)
    refused = len(table.refusals)
    words = [f"{groups} groups"]
    words += [f"{refused} without a price"] if refused else []
    words += [f"{len(drawn)} drawn"] if len(drawn) < groups else []
    return {
        "Configurations": f"{counts['configurations']:,} in {', '.join(words)}",
        "Unknown": f"{counts['unknown']:,}, {counts['skipped']:,} of them left out",
        "Not legal": f"{counts['not_legal']:,}",
        "Best means least": objective.replace("_", " "),
        "Cells": "each is one configuration of the sweep; of long axes some values are drawn; axes are evenly spaced",
        "Made by": f"lanefold {__version__}, sweep {table.space.digest}",
    }
