"""Ledgers, prices, findings and verifications as text for a terminal."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from lanefold.program import Ledger, LedgerRow, Program, ProgramCost

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

_COLUMNS = ("node", "op", "became", "route", "opcodes", "instructions", "bytes", "cycles")
_FILE_WIDTH = 200
"""Columns of output that goes to a file or pipe, so that tables keep their lines."""
_FEW_FILES = 12
_RIGHT = {"instructions", "bytes", "cycles"}


def show(parts: Iterable[RenderableType | str]) -> None:
    """Prints tables and lines; nothing is coloured or cut where the output is no terminal."""
    from rich.console import Console

    console = Console(soft_wrap=True, highlight=False, markup=False)
    if not console.is_terminal:
        console.width = _FILE_WIDTH
    for part in parts:
        console.print(part)


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], right: Iterable[str] = ()) -> Table:
    """A plain table; the columns named in ``right`` are set to the right."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    made = Table(title=title or None, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    flush = set(right)
    for name in columns:
        made.add_column(name, justify="right" if name in flush else "left", overflow="fold")
    for row in rows:
        made.add_row(*(Text(str(cell)) for cell in row))
    return made


def number_text(value: float) -> str:
    """A measured number: whole numbers in full, others with three digits."""
    return f"{value:,}" if isinstance(value, int) else f"{value:.3g}"


def cycles_text(cycles: tuple[float, float]) -> str:
    """A number of cycles, or the range where least and greatest differ."""
    low, high = cycles
    if math.isinf(high):
        return "unknown"
    return f"{low:,.0f}" if low == high else f"{low:,.0f} to {high:,.0f}"


def ledger_parts(ledger: Ledger, *, every: bool = False) -> list[RenderableType | str]:
    """The ledger: a row for each node on the leg, one line that counts the rest, and the totals.

    Args:
        ledger: what became of every node.
        every: a row for each host node too.
    """
    shown = [row for row in ledger if every or row.disposition != "host"]
    parts: list[RenderableType | str] = []
    if shown:
        parts.append(table("", _COLUMNS, (_cells(row) for row in shown), _RIGHT))
        parts += [f"{row.node}: {row.reason}" for row in shown if row.reason]
    rest = Counter(row.op_type for row in ledger if row.disposition == "host")
    if rest and not every:
        parts.append("host: " + ", ".join(f"{op} {count}" for op, count in rest.most_common()))
    counts = ", ".join(f"{count} {name}" for name, count in ledger.counts.items())
    parts.append(f"{len(ledger)} nodes: {counts}")
    return parts


def _cells(row: LedgerRow) -> tuple[object, ...]:
    opcodes = " ".join(f"{opcode}" for opcode in row.opcodes)
    numbers = (row.bundles, row.bytes, cycles_text(row.cycles)) if row.bundles else ("", "", "")
    return (row.node, row.op_type, row.disposition, row.route, opcodes, *numbers)


def cost_line(cost: ProgramCost) -> str:
    """The price of a program in one line, with model and engines."""
    low, high = cost.ns
    if math.isinf(high):
        return f"cost: unknown (model {cost.model}); transfers and host steps are not priced"
    if not cost.rows:
        return f"cost: none (model {cost.model}); transfers and host steps are not priced"
    time = f"{low / 1000:,.1f}" if low == high else f"{low / 1000:,.1f} to {high / 1000:,.1f}"
    engines = ", ".join(
        f"{name} {low / 1000:,.1f}" + ("" if low == high else f" to {high / 1000:,.1f}")
        for name, (low, high) in cost.engines.items()
    )
    return (
        f"cost: {cycles_text(cost.cycles)} cycles, {time} µs (model {cost.model}; {engines} µs); "
        "transfers and host steps are not priced"
    )


def cost_table(cost: ProgramCost) -> Table:
    """One row per instruction: engine, cycles, time, rule, bound and validity."""
    columns = ("instruction", "engine", "cycles", "ns", "rule", "bound", "validity")
    rows = (
        (
            row.instruction,
            row.engine,
            cycles_text((row.low, row.high)),
            cycles_text(row.ns),
            row.rule,
            row.bound,
            row.validity,
        )
        for row in cost.rows
    )
    return table("", columns, rows, ("cycles", "ns"))


def files_text(names: Sequence[str]) -> str:
    """File names in one line; where there are many, those of one kind are counted."""
    if len(names) <= _FEW_FILES:
        return ", ".join(names)
    kinds = Counter(name.rpartition(".")[2] for name in names)
    return f"{len(names)} files ({', '.join(f'{count} .{kind}' for kind, count in kinds.most_common())})"


def program_lines(program: Program) -> list[str]:
    """Size of a program, and the readings behind every number of it."""
    readings = ", ".join(f"{name} {value}" for name, value in program.target.readings.items())
    host = len(program.steps) - len(program.leg_steps)
    size = f"{program.ledger.bundles:,} instructions"
    if program.ledger.bytes:
        size += f" of {program.ledger.bytes:,} bytes"
    return [
        f"program: {size}, {len(program.leg_steps)} leg steps, {host} host steps",
        f"target {program.target.name}; readings: {readings}; not verified on hardware",
    ]


def counter_text(counters: Mapping[str, int]) -> str:
    """Counters in one line, without the zeros."""
    return ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in counters.items() if count)


def counter_line(counters: Mapping[str, int]) -> str:
    """What a machine counted, in a sentence."""
    return f"counted while running: {counter_text(counters) or 'nothing unusual'}"
