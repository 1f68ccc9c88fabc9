"""Timelines: when each task of a program runs at the earliest, what waits for what, and the total with its bounds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from lanefold.arguments import shown
from lanefold.diagnostics import Rule
from lanefold.host import HostStep
from lanefold.program.prices import CostRow, known, time_text

if TYPE_CHECKING:
    from lanefold.program.program import LegStep, Program

HOST, TRANSFERS = "host", "DMA"
"""Tracks of host steps and of transfers between DRAM and on-chip memory."""
BOUNDS = ("low", "high")

BOUND = Rule("TIMELINE-BOUND", "A timeline is drawn with the least or the greatest durations.", "Timelines", usage=True)


@dataclass(frozen=True)
class Region:
    """What a task reads or writes: a named tensor as a whole, or a box of an on-chip memory.

    ``space`` is the name of the memory or tensor; ``rows`` and ``bytes`` are half-open ranges. Where not every byte
    of the box is touched, ``offsets`` gives the bytes that are, from the same origin as ``bytes``.
    """

    space: str
    rows: tuple[int, int] = (0, 1)
    bytes: tuple[int, int] = (0, 1)
    offsets: Callable[[], npt.NDArray[np.int64]] | None = field(default=None, compare=False)

    def meets(self, other: Region) -> bool:
        """Whether two regions whose boxes meet have a byte in common."""
        if self.offsets is None and other.offsets is None:
            return True
        mine, theirs = self._bytes(), other._bytes()
        return bool(np.isin(mine, theirs, assume_unique=True).any())

    def _bytes(self) -> npt.NDArray[np.int64]:
        return np.unique(self.offsets()) if self.offsets is not None else np.arange(*self.bytes)


@dataclass(frozen=True, slots=True)
class Task:
    """One thing that a program does.

    Args:
        name: of the instruction, transfer or host step.
        track: engine, pipe, ``DMA`` or ``host``.
        kind: opcode or operation.
        ns: nanoseconds, least and greatest; the greatest is None where nothing is known.
        reads: what it reads.
        writes: what it writes.
        holds: what only one task at a time may have, such as a memory that two engines share by turns.
        hides_ns: how much of it may overlap the task before it on its track, if it does not depend on that one.
        in_order: whether it waits for the task before it on its track; transfers run side by side.
        details: what else is known: rule, operands, model, validity and alike, as plain data.
    """

    name: str
    track: str
    kind: str
    ns: tuple[float, float | None]
    reads: tuple[Region, ...] = ()
    writes: tuple[Region, ...] = ()
    holds: frozenset[str] = frozenset()
    hides_ns: float = 0.0
    in_order: bool = True
    details: Mapping[str, object] = field(default_factory=dict)

    @property
    def priced(self) -> bool:
        """Whether anything is known about its duration."""
        return self.ns[1] is not None


@dataclass(frozen=True, slots=True)
class Slot:
    """A task in its place: start and end in nanoseconds, what it waited for, and whether it is on the critical path.

    ``cause`` is the number of the task that ended last before it could start, None where nothing held it up.
    ``hidden_ns`` is what the task before it on its track hides of it.
    """

    number: int
    task: Task
    start_ns: float
    end_ns: float
    cause: int | None
    hidden_ns: float
    critical: bool

    def to_dict(self) -> dict[str, object]:
        """The slot as plain data."""
        return {
            "name": self.task.name,
            "track": self.task.track,
            "kind": self.task.kind,
            "start_ns": self.start_ns,
            "end_ns": self.end_ns,
            "ns": list(self.task.ns),
            "hidden_ns": self.hidden_ns,
            "critical": self.critical,
            "after": self.cause,
            **self.task.details,
        }


@dataclass(frozen=True)
class Timeline:
    """Slots in program order, and the total.

    Args:
        slots: every task in its place, drawn with the least or the greatest durations; unknown ones take no time.
        model: cost model.
        drawn: ``low`` or ``high``: which durations are drawn.
        priced_ns: end of the last task with least and with greatest durations, unknown ones left out.
    """

    slots: tuple[Slot, ...]
    model: str
    drawn: str
    priced_ns: tuple[float, float]

    @property
    def unknown(self) -> tuple[Task, ...]:
        """Tasks of which nobody knows how long they take."""
        return tuple(slot.task for slot in self.slots if not slot.task.priced)

    @property
    def ns(self) -> tuple[float, float | None]:
        """Nanoseconds of the whole, least and greatest; the greatest is None where a task's duration is unknown."""
        return self.priced_ns[0], None if self.unknown else self.priced_ns[1]

    @property
    def tracks(self) -> dict[str, tuple[float, float | None]]:
        """Nanoseconds of each track added up, least and greatest, by first use; overlap is not taken off."""
        found: dict[str, tuple[float, float | None]] = {}
        for slot in self.slots:
            low, high = found.get(slot.task.track, (0.0, 0.0))
            more = slot.task.ns[1]
            found[slot.task.track] = (low + slot.task.ns[0], None if high is None or more is None else high + more)
        return found

    @property
    def critical_path(self) -> tuple[Slot, ...]:
        """The slots that together make the program as long as it is, from the first to the last."""
        return tuple(slot for slot in self.slots if slot.critical)

    def __str__(self) -> str:
        low, high = self.ns
        total = time_text((low, math.inf if high is None else high))
        words = [f"model {self.model}", f"{len(self.slots)} tasks, {len(self.critical_path)} on the critical path"]
        words += [f"{len(self.unknown)} of unknown duration"] if self.unknown else []
        tracks = (
            f"{name} {time_text((first, math.inf if last is None else last))}"
            for name, (first, last) in self.tracks.items()
        )
        return f"timeline: {total} ({'; '.join([*words, *tracks])})"

    def __repr__(self) -> str:
        return f"<{self}>"

    def to_dict(self) -> dict[str, object]:
        """Everything as plain data."""
        return {
            "model": self.model,
            "drawn": self.drawn,
            "ns": list(self.ns),
            "priced_ns": list(self.priced_ns),
            "tracks_ns": {name: list(bounds) for name, bounds in self.tracks.items()},
            "unknown": [task.name for task in self.unknown],
            "critical_path": [slot.number for slot in self.critical_path],
            "slots": [slot.to_dict() for slot in self.slots],
        }


@runtime_checkable
class Timed(Protocol):
    """Code that tells its tasks itself, with what they read and write."""

    def tasks(self, model: str, inputs: Sequence[str], outputs: Sequence[str]) -> list[Task]:
        """The tasks in order; the op's inputs and outputs are tensors of these names."""
        ...


def timeline(program: Program, model: str = "", drawn: str = "high") -> Timeline:
    """When each instruction, transfer and host step of a program runs at the earliest.

    A task starts when its track is free, everything it depends on has ended, and no engine that shares its memory by
    turns runs; where the model knows of it, its first cycles hide behind the task before it on its track.
    Transfers between DRAM and on-chip memory and host steps have no published price: they take no time in the drawing
    and leave the total without a greatest value.

    Args:
        program: a compiled program.
        model: cost model, the target's first one if empty.
        drawn: draw the ``low`` or the ``high`` durations.

    Raises:
        LanefoldError: if there is no such model or bound.
    """
    chosen = model or program.target.cost_models[0]
    tasks: list[Task] = []
    for number, step in enumerate(program.steps):
        if isinstance(step, HostStep):
            reads, writes = (tuple(map(Region, names)) for names in (step.inputs, step.outputs))
            tasks.append(Task(step.name, HOST, "host step", (0.0, None), reads, writes))
        elif isinstance(step.code, Timed):
            tasks += step.code.tasks(chosen, step.inputs, step.outputs)
        else:
            tasks += _chain(step, number, chosen)
    return schedule(tasks, chosen, drawn)


def _chain(step: LegStep, number: int, model: str) -> list[Task]:
    """Instructions of which only the prices are known: one after the other."""
    reads, writes = (tuple(map(Region, names)) for names in (step.inputs, step.outputs))
    link = (Region(f"step {number}"),)
    return [
        Task(
            row.instruction, row.engine, "instruction", span(row), (*reads, *link), (*writes, *link), details=facts(row)
        )
        for row in step.code.cost(model)
    ]


def span(row: CostRow) -> tuple[float, float | None]:
    """Nanoseconds of a price, least and greatest; the greatest is None where nobody knows it."""
    low, high = row.ns
    return low, None if row.unknown else high


def facts(row: CostRow) -> dict[str, object]:
    """What a price says about itself, as plain data."""
    names = ("model", "rule", "bound", "validity", "source", "node", "elements", "clock_ghz", "note")
    found: dict[str, object] = {"cycles": known((row.low, row.high))}
    found |= {name: getattr(row, name) for name in names if getattr(row, name) not in ("", None)}
    return found | ({"terms": dict(row.terms)} if row.terms else {})


def schedule(tasks: Sequence[Task], model: str, drawn: str = "high") -> Timeline:
    """Places tasks as early as they may run, in program order.

    Raises:
        LanefoldError: TIMELINE-BOUND for another word than low and high.
    """
    if not isinstance(drawn, str) or drawn not in BOUNDS:
        raise BOUND.error(
            f"there is no bound {shown(drawn)}",
            got=shown(drawn),
            allowed=", ".join(BOUNDS),
            cures=["use high"],
        )
    before = dependencies(tasks)
    low, high = (_Pass(tasks, before, at) for at in range(2))
    chosen = high if drawn == "high" else low
    critical = chosen.critical_path()
    slots = tuple(
        Slot(at, task, chosen.start[at], chosen.end[at], chosen.cause[at], chosen.hidden[at], at in critical)
        for at, task in enumerate(tasks)
    )
    return Timeline(slots, model, drawn, (max(low.end, default=0.0), max(high.end, default=0.0)))


class _Pass:
    """One placing of all tasks, with their least or their greatest durations."""

    def __init__(self, tasks: Sequence[Task], before: Sequence[Sequence[int]], bound: int) -> None:
        self.tasks = tasks
        self.start: list[float] = []
        self.end: list[float] = []
        self.cause: list[int | None] = []
        self.hidden: list[float] = []
        tracks: dict[str, int] = {}
        holders: dict[str, int] = {}
        for number, task in enumerate(tasks):
            held = {holders[name] for name in task.holds if name in holders}
            previous = tracks.get(task.track) if task.in_order else None
            self._place(task, before[number], previous, held, bound)
            tracks[task.track] = number
            holders.update(dict.fromkeys(task.holds, number))

    def _place(self, task: Task, before: Sequence[int], previous: int | None, held: set[int], bound: int) -> None:
        waits = held | set(before) | ({previous} if previous is not None else set())
        cause = max(waits, key=lambda at: (self.end[at], at), default=None)
        start = self.end[cause] if cause is not None else 0.0
        duration = task.ns[bound] or 0.0
        hidden = 0.0
        if previous is not None and cause == previous and previous not in before:
            others = max((self.end[at] for at in waits - {previous}), default=0.0)
            room = min(start - others, self.end[previous] - self.start[previous])
            hidden = min(task.hides_ns, duration, room)
        self.start.append(start)
        self.end.append(start + duration - hidden)
        self.cause.append(cause)
        self.hidden.append(hidden)

    def critical_path(self) -> set[int]:
        """The task that ends last, and what each had to wait for."""
        found: set[int] = set()
        at: int | None = max(range(len(self.end)), key=lambda each: (self.end[each], each), default=None)
        while at is not None:
            found.add(at)
            at = self.cause[at] if self.start[at] > 0 else None
        return found


def dependencies(tasks: Sequence[Task]) -> list[list[int]]:
    """For each task the earlier ones that it must not overtake: one of the two writes what the other touches."""
    spaces: dict[str, int] = {}
    regions: list[Region] = []
    boxes: list[tuple[int, ...]] = []
    for number, task in enumerate(tasks):
        for written, touched in ((0, task.reads), (1, task.writes)):
            for region in touched:
                space = spaces.setdefault(region.space, len(spaces))
                boxes.append((number, written, space, *region.rows, *region.bytes))
                regions.append(region)
    table: npt.NDArray[np.int64] = np.array(boxes, np.int64).reshape(-1, 7)
    found: list[set[int]] = [set() for _ in tasks]
    for at, region in enumerate(regions):
        number = int(table[at, 0])
        for other in _meeting(table, at):
            if region.meets(regions[other]):
                found[number].add(int(table[other, 0]))
    return [sorted(each) for each in found]


def _meeting(table: npt.NDArray[Any], at: int) -> Iterable[int]:
    """Earlier accesses by other tasks whose boxes meet this one, where one of the two writes."""
    mine, earlier = table[at], table[:at]
    hit = (earlier[:, 2] == mine[2]) & (earlier[:, 0] < mine[0]) & ((earlier[:, 1] | mine[1]) > 0)
    hit &= (earlier[:, 3] < mine[4]) & (mine[3] < earlier[:, 4])
    hit &= (earlier[:, 5] < mine[6]) & (mine[5] < earlier[:, 6])
    return [int(each) for each in np.flatnonzero(hit)]
