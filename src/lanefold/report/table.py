"""Ledgers, prices, findings and verifications as text for a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from lanefold.diagnostics import number_of
from lanefold.program import Ledger, LedgerRow, Program, ProgramCost
from lanefold.program.prices import CostRow, cycles_text, terms_text, time_text, total

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Column, Table

_COLUMNS = ("node", "op", "became", "route", "opcodes", "bundles", "bytes", "cycles")
_FILE_WIDTH = 10_000
"""Columns of output that goes to a file or pipe: every row of a table is one line there."""
_LONG = frozenset(
    (
        "meaning",
        "source",
        "value",
        "route",
        "opcodes",
        "why",
        "rule",
        "terms",
        "summary",
        "forms",
        "types",
        "readings",
        "chip",
        "causes",
        "verdict",
    )
)
"""Columns whose cells are broken first, between words, where a terminal is too narrow."""
_GAP = 2
_FEW_FILES = 12
_FEW_NODES = 4
_MOST_ROWS = 1000
_RIGHT = frozenset(("bytes", "cycles"))


def show(parts: Iterable[RenderableType | str]) -> None:
    """Prints tables and lines; nothing is coloured, broken or filled up with blanks where the output is no terminal."""
    from rich.console import Console
    from rich.table import Table

    console = Console(soft_wrap=True, highlight=False, markup=False)
    console.on_broken_pipe = _reader_gone  # type: ignore[method-assign]
    terminal = console.is_terminal
    if not terminal:
        console.width = _FILE_WIDTH
    for part in parts:
        if not isinstance(part, Table):
            console.print(_wrapped(part, console.width) if terminal and isinstance(part, str) else part)
            continue
        if not _fits(part, console.width):
            for line in _records(part, console.width):
                console.out(line, highlight=False)
            continue
        with console.capture() as captured:
            console.print(part)
        drawn = captured.get()
        console.out(drawn if terminal else "\n".join(line.rstrip() for line in drawn.splitlines()) + "\n")


def _reader_gone() -> None:
    """In place of what rich does where nobody reads on, which ends the program as failed."""
    raise BrokenPipeError


def _wrapped(text: str, width: int) -> str:
    """The lines of a text, broken between words where a terminal is too narrow, what follows set in by two."""
    from textwrap import wrap

    lines = []
    for line in text.split("\n"):
        margin = line[: len(line) - len(line.lstrip())]
        lines += wrap(line, width, subsequent_indent=margin + "  ", break_on_hyphens=False, break_long_words=False) or [
            ""
        ]
    return "\n".join(lines)


def _fits(made: Table, width: int) -> bool:
    """Sets the widths of the columns, if the table fits without a broken word.

    The long columns are broken between words first, then all of them; the widest gives way first.
    """
    room = width - _GAP * (len(made.columns) - 1)
    widths = [_widest(column, whole=True) for column in made.columns]
    for every in (False, True):
        least = [_widest(column, whole=column.header not in _LONG and not every) for column in made.columns]
        if sum(least) <= room:
            while sum(widths) > room:
                _, at = max((wide, at) for at, wide in enumerate(widths) if wide > least[at])
                widths[at] -= 1
            for column, wide in zip(made.columns, widths, strict=True):
                column.width = wide
            return True
    return False


def _widest(column: Column, *, whole: bool) -> int:
    """Characters of the longest cell of a column, or of its longest word."""
    texts = [str(column.header), *(str(cell) for cell in column.cells)]
    return max((len(part) for text in texts for part in ([text] if whole else text.split())), default=0)


def _records(made: Table, width: int) -> Iterator[str]:
    """The rows of a table one after the other, as names and values; for terminals too narrow for columns."""
    from textwrap import wrap

    if made.title:
        yield str(made.title)
    names = [str(column.header) for column in made.columns]
    for cells in zip(*(column.cells for column in made.columns), strict=True):
        told = (f"{name} {cell}".strip() for name, cell in zip(names, cells, strict=True) if str(cell))
        yield from wrap("; ".join(told), width, subsequent_indent="  ", break_on_hyphens=False)
    yield ""


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], right: Iterable[str] = ()) -> Table:
    """A plain table of the columns that hold anything; those named in ``right`` are set to the right."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    made = Table(
        title=title or None,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, _GAP - 1, 0, 0),
    )
    flush = set(right)
    cells = [[str(cell) for cell in row] for row in rows]
    used = [at for at in range(len(columns)) if not cells or any(row[at] for row in cells)]
    for name in (columns[at] for at in used):
        justify: Literal["left", "right"] = "right" if name in flush else "left"
        made.add_column(name, justify=justify, overflow="fold")
    for row in cells:
        made.add_row(*(Text(row[at]) for at in used))
    return made


def number_text(value: float) -> str:
    """A measured number: whole numbers in full, others with three digits."""
    return f"{value:,}" if isinstance(value, int) else f"{value:.3g}"


def ledger_parts(ledger: Ledger, *, every: bool = False) -> list[RenderableType | str]:
    """The ledger: a row for each node on the leg, one line that counts the rest, and the totals.

    Args:
        ledger: what became of every node.
        every: a row for each host node too.
    """
    shown = [row for row in ledger if every or row.disposition != "host"]
    parts: list[RenderableType | str] = []
    if shown:
        size = "bundles" if ledger.bytes else "instructions"
        columns = [size if name == "bundles" else name for name in _COLUMNS]
        parts.append(table("", columns, (_cells(row) for row in shown), {*_RIGHT, size}))
        alike: dict[str, list[str]] = {}
        for row in shown:
            alike.setdefault(row.reason, []).append(row.node)
        parts += [f"{_named(nodes)}: {reason}" for reason, nodes in alike.items() if reason]
    rest = Counter(row.op_type for row in ledger if row.disposition == "host")
    if rest and not every:
        parts.append("host: " + ", ".join(f"{op} {count}" for op, count in rest.most_common()))
    counts = ", ".join(f"{count} {name}" for name, count in ledger.counts.items())
    parts.append(f"{number_of(len(ledger), 'node')}: {counts}")
    return parts


def _named(nodes: Sequence[str]) -> str:
    """The nodes of which the same is said: their names, or the first of many and their number."""
    few = ", ".join(nodes[:_FEW_NODES])
    return few if len(nodes) <= _FEW_NODES else f"{few} and {len(nodes) - _FEW_NODES:,} more"


def _cells(row: LedgerRow) -> tuple[object, ...]:
    opcodes = " ".join(f"{opcode}" for opcode in row.opcodes)
    size = f"{row.bytes:,}" if row.bytes else ""
    numbers = (f"{row.bundles:,}", size, cycles_text(row.cycles)) if row.bundles else ("", "", "")
    return (row.node, row.op_type, row.disposition, row.route, opcodes, *numbers)


def cost_parts(cost: ProgramCost) -> list[RenderableType | str]:
    """A row per instruction: engine, cycles, time, rule, bound and validity; what models say beside it; the terms.

    Of very long programs the first rows are shown, and how many follow.
    """
    if not cost.rows:
        return []
    columns = ["instruction", "engine", "cycles", "time", "rule", "bound", "validity"]
    if cost.terms:
        columns.insert(5, "terms")
    rows = []
    for row in cost.rows[:_MOST_ROWS]:
        cells = [row.instruction, row.engine, cycles_text((row.low, row.high), row.estimate), time_text(row.ns)]
        cells += [row.rule, *([terms_text(row.terms)] if cost.terms else []), row.bound, row.validity]
        rows.append(cells)
    parts: list[RenderableType | str] = [table("", columns, rows, ("cycles", "time"))]
    if len(cost.rows) > _MOST_ROWS:
        parts.append(f"{number_of(len(cost.rows) - _MOST_ROWS, 'more row')}; --json has all")
    notes = Counter(row.note for row in cost.rows if row.note)
    parts += [f"{note} ({count} times)" if count > 1 else note for note, count in notes.items()]
    return [*parts, f"terms: {terms_text(cost.terms)} cycles"] if cost.terms else parts


def foundation_line(cost: ProgramCost) -> list[str]:
    """How the known cycles are founded, in one line: the cycles of each validity."""
    by_validity: dict[str, list[CostRow]] = {}
    for row in cost.rows:
        if not row.unknown:
            by_validity.setdefault(row.validity, []).append(row)
    words = [f"{validity} ({cycles_text(total(rows))} cycles)" for validity, rows in by_validity.items()]
    return [f"validity: {'; '.join(words)}"] if words else []


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
    bundles, size = program.ledger.bundles, number_of(program.ledger.bundles, "instruction")
    if program.ledger.bytes:
        size = f"{number_of(bundles, 'bundle')}, {program.ledger.bytes:,} bytes"
    return [
        f"program: {size}, {number_of(len(program.leg_steps), 'leg step')}, {number_of(host, 'host step')}",
        f"target {program.target.name}; readings: {readings}; not verified on hardware",
    ]


def counter_text(counters: Mapping[str, int]) -> str:
    """Counters in one line, without the zeros."""
    return ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in counters.items() if count)


def counter_line(counters: Mapping[str, int]) -> str:
    """What a machine counted, in a sentence."""
    return f"counted while running: {counter_text(counters) or 'nothing unusual'}"
