"""The command that prices many shapes at once."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lanefold.cli.common import AsJson, print_json

INTERRUPTED = 130
"""Exit status of a sweep that the user stopped, as shells have it."""

if TYPE_CHECKING:
    from lanefold.sweeps import Best, SweepTable


def sweep(
    spec: Annotated[Path, typer.Argument(help="Sweep file (TOML).")],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Table: a .csv or .parquet file.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Maps of cost and validity: .html, .png or .svg file.")] = None,
    objective: Annotated[str, typer.Option(help="Find the least: cycles, ns or cycles_per_element.")] = "",
    workers: Annotated[int, typer.Option(help="Local worker processes; 0 runs in this one.")] = 0,
    scheduler: Annotated[str, typer.Option(help="Address of a Dask scheduler, such as tcp://host:8786.")] = "",
    skip_unknown: Annotated[bool, typer.Option("--skip-unknown", help="Leave out rows of unknown cost.")] = False,
    as_json: AsJson = False,
) -> None:
    """Price many shapes at once: every shape × layout × operation × element type × target × model."""
    from lanefold.sweeps import sweep as run_sweep

    if plot is not None:
        from lanefold.sweeps.plot import plot_file

        plot_file(plot)
    try:
        table = run_sweep(
            spec,
            output,
            workers=workers,
            scheduler=scheduler,
            objective=objective,
            skip_unknown=skip_unknown or None,
            progress=sys.stderr.isatty(),
        )
    except KeyboardInterrupt:
        kept = f"; finished chunks stay in {output}.parts, and the same command goes on from them" if output else ""
        typer.echo(f"interrupted{kept}", err=True)
        raise typer.Exit(INTERRUPTED) from None
    best = table.best() if table.space.spec.objective else []
    files = [str(path) for path in (output, table.write_plot(plot) if plot else None) if path]
    if as_json:
        print_json(
            {
                "digest": table.space.digest,
                "columns": list(table.columns),
                "counts": table.counts,
                "refused": table.refusals,
                "best": [each.to_dict() for each in best],
                "files": files,
            }
        )
        return
    from lanefold.report.table import show
    from lanefold.report.table import table as drawn

    lines: list[Any] = [_summary(table)]
    refused = Counter((each["finding"]["code"], each["finding"]["message"]) for each in table.refusals)
    lines += [
        f"no price for {count} group{'s' * (count != 1)}: {code}, {message}"
        for (code, message), count in refused.items()
    ]
    if best:
        right = ("rows", "columns", "value", "cycles")
        columns = ("op", "dtype", "target", "model", "rows", "columns", "value", "cycles", "settings", "validity")
        lines.append(drawn(f"least {best[0].objective}", columns, [_cells(table, each) for each in best], right))
    lines += [f"wrote {name}" for name in files]
    if not best and not files:
        lines.append(
            "no table was asked for: --output TABLE.csv writes every row, --objective cycles names the cheapest"
        )
    show(lines)


def _summary(table: SweepTable) -> str:
    counts = table.counts
    words = [f"{counts['configurations']:,} configurations, {counts['rows']:,} rows"]
    words.append(f"{counts['unknown']:,} unknown ({counts['skipped']:,} left out)")
    words.append(f"{counts['not_legal']:,} not legal")
    if table.resumed:
        words.append(f"{table.resumed} of {len(table.space.chunks)} chunks from an interrupted run")
    return "; ".join(words)


def _cells(table: SweepTable, best: Best) -> list[object]:
    row = best.row
    names = [best.op, best.dtype, best.target, best.model]
    if row is None:
        return [*names, "none", "", "", "", "", f"{best.unknown:,} unknown, {best.illegal:,} not legal"]
    keys = table.columns[5 : table.columns.index("rows")]
    settings = ", ".join(f"{key} {row[key]}" for key in keys if row[key] != "")
    low, high = row["cycles_low"], row["cycles_high"]
    spread = f"{row['cycles']:,.0f}"
    if low != high:
        spread += f" ({'unknown bounds' if low is None else f'{low:,.0f} to {high:,.0f}'})"
    return [*names, row["valid_rows"], row["valid_cols"], f"{best.value:.6g}", spread, settings, row["validity"]]
