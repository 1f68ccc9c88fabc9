"""What the benchmarks share: taking turns, cores, read bandwidth, and one way to print and to write a table.

``--markdown FILE`` writes the table into a file too: between the marks of the benchmark, or at the end of a file that
has none yet. Run from the root of the repository.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import NamedTuple

import numba
import numpy as np

Work = Callable[[], object]
ROUNDS, TURN = 9, 4
PACKAGES = ("numpy", "numba", "onnxruntime", "ml_dtypes")


def interleaved(
    works: Mapping[str, Work],
    rounds: int = ROUNDS,
    within: Callable[[str], AbstractContextManager[None]] = lambda name: nullcontext(),
) -> dict[str, float]:
    """Shortest of some runs of each work, in seconds.

    The works take turns, so that a busy moment strikes all alike; each turn is a few runs, so that all find their data
    as near as it fits. ``within`` gives what surrounds a turn of a work, untimed.
    """
    shortest = dict.fromkeys(works, float("inf"))
    for name, work in works.items():
        with within(name):
            work()
    for _ in range(rounds):
        for name, work in works.items():
            with within(name):
                for _ in range(TURN):
                    start = time.perf_counter()
                    work()
                    shortest[name] = min(shortest[name], time.perf_counter() - start)
    return shortest


@numba.njit(nogil=True)
def _read(words: np.ndarray) -> int:
    total = 0
    for i in range(words.size):
        total += words[i]
    return total


def reading(size: int) -> Work:
    """A pass of one core over so many bytes that does nothing but read: a sum of integers, as vectors."""
    raw = np.ones(size // 8 + 8, np.int64)
    first = -raw.ctypes.data % 64 // 8
    words = raw[first : first + size // 8]
    return lambda: _read(words)


@numba.njit(nogil=True)
def _turn(times: int) -> int:
    state = 1
    for _ in range(times):
        state = (state * 25214903917 + 11) & 0xFFFFFFFF
    return state


def second_core() -> str:
    """What a second core adds at this moment, as a note: machines that are shared give less than they have."""
    times, best = 10_000_000, 0.0
    _turn(1)
    with ThreadPoolExecutor(2) as pool:
        for _ in range(ROUNDS):
            start = time.perf_counter()
            _turn(times)
            one = time.perf_counter() - start
            start = time.perf_counter()
            for each in [pool.submit(_turn, times) for _ in range(2)]:
                each.result()
            best = max(best, 2 * one / (time.perf_counter() - start))
    return f"Two threads that do nothing but count did {best:.2f} times the work of one in this run."


class Table(NamedTuple):
    """A table of a benchmark; ``notes`` stand below it."""

    name: str
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()


def ratio(value: float, required: float | None = None) -> tuple[str, str]:
    """A ratio and the required minimum beside it; a minimum that is missed is marked."""
    if required is None:
        return f"{value:.2f}", "–"
    return f"{value:.2f}", f"{required:g}" if value >= required else f"{required:g} (missed)"


def processor() -> str:
    """Model name of the processor."""
    info = Path("/proc/cpuinfo")
    names = [line.partition(":")[2] for line in info.read_text().splitlines() if line.startswith("model name")]
    return names[0].strip() if names else platform.processor()


def machine() -> str:
    """Date, processor, cores and library versions in one line."""
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in PACKAGES)
    cores = len(os.sched_getaffinity(0))
    day = datetime.datetime.now(datetime.UTC).date().isoformat()
    return f"{day}; {processor()}, {cores} cores; Python {platform.python_version()}, {versions}"


def text(table: Table) -> str:
    """The table for a terminal."""
    widths = [max(len(row[k]) for row in (table.columns, *table.rows)) for k in range(len(table.columns))]
    lines = [table.title]
    for row in (table.columns, *table.rows):
        cells = [
            cell.ljust(width) if k == 0 else cell.rjust(width)
            for k, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join([*lines, *table.notes])


def markdown(table: Table) -> str:
    """The table for a page, between the marks of its benchmark."""
    lines = [f"<!-- begin {table.name} -->", f"## {table.title}", "", f"Measured {machine()}.", ""]
    lines += ["| " + " | ".join(table.columns) + " |", "|---|" + "--:|" * (len(table.columns) - 1)]
    lines += ["| " + " | ".join(row) + " |" for row in table.rows]
    for note in table.notes:
        lines += ["", note]
    return "\n".join([*lines, f"<!-- end {table.name} -->"])


def placed(page: str, table: Table) -> str:
    """A page with the table in place of the former one, or at its end."""
    begin, end = f"<!-- begin {table.name} -->", f"<!-- end {table.name} -->"
    if begin in page and end in page:
        before, _, rest = page.partition(begin)
        return before + markdown(table) + rest.partition(end)[2]
    return page.rstrip("\n") + "\n\n" * bool(page.strip()) + markdown(table) + "\n"


def arguments(description: str) -> argparse.ArgumentParser:
    """A parser with the options that all benchmarks have."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table into this page too")
    return parser


def publish(table: Table, page: Path | None) -> None:
    """Prints a table, and writes it into a page if one is given."""
    print(text(table))
    if page is not None:
        page.write_text(placed(page.read_text(encoding="utf-8") if page.exists() else "", table), encoding="utf-8")
        print(f"wrote {page}")
