"""Several engine streams side by side, held together by semaphores and events."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from lanefold.diagnostics import Diagnostic, LanefoldError, Place, Rule
from lanefold.tpb import isa
from lanefold.tpb.binary import Stream
from lanefold.tpb.machine.tasks import Task, place_of

_DEADLOCK = Rule(
    "TPB-MACHINE-DEADLOCK",
    "Streams that run together come to their end: every wait is met by an update of another stream.",
    "Bundle events, bytes +0x04 to +0x0B",
)
_MODE = Rule(
    "TPB-MACHINE-SYNC",
    "The machine executes waits and updates on immediate values; registers are not modelled.",
    "Bundle events: wait_mode, update_mode",
)

_WAITS = {value.number: value.name for value in isa.ENUMS["wait_mode"]}
_UPDATES = {value.number: value.name for value in isa.ENUMS["update_mode"]}
_COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "EQ": operator.eq,
    "LT": operator.lt,
    "LE": operator.le,
    "GT": operator.gt,
    "GE": operator.ge,
}
_CHANGES: dict[str, Callable[[int, int], int]] = {
    "INC": lambda now, value: now + 1,
    "DEC": lambda now, value: now - 1,
    "ADD": operator.add,
    "SUB": operator.sub,
    "WR": lambda now, value: value,
}


@dataclass(slots=True)
class Semaphores:
    """The 256 semaphores and 256 events of a core; all start at zero and clear."""

    values: list[int] = field(default_factory=lambda: [0] * 256)
    events: list[bool] = field(default_factory=lambda: [False] * 256)

    def ready(self, name: str, index: int, value: int) -> bool:
        """Whether a wait condition holds; conditions that also set or clear their event do so when they hold."""
        if name in ("NONE", "UNORDERED"):
            return True
        kind, *rest = name.split("_")
        if kind == "SEM":
            return _COMPARISONS[rest[0]](self.values[index], value)
        wanted = rest[0] == "SET"
        held = self.events[index] is wanted
        if held and "THEN" in rest:
            self.events[index] = not wanted
        return held

    def update(self, name: str, index: int, value: int) -> None:
        """Carries an update out."""
        if name == "NONE":
            return
        kind, action, *_ = name.split("_")
        if kind == "EVT":
            self.events[index] = action == "SET"
        else:
            self.values[index] = _CHANGES[action](self.values[index], value)


@dataclass(slots=True)
class _Turn:
    """Where one engine stands."""

    stream: Stream
    tasks: list[Task]
    at: int = 0

    @property
    def done(self) -> bool:
        return self.at == len(self.tasks)

    def events(self) -> tuple[str, int, str, int, int]:
        record = self.stream.columns(isa.BUNDLES[0].struct)[self.tasks[self.at].index]
        index, value = int(record["wait_idx"]), int(record["semaphore_value"])
        return (
            _WAITS.get(int(record["wait_mode"]), f"mode {int(record['wait_mode'])}"),
            index,
            _UPDATES.get(int(record["update_mode"]), f"mode {int(record['update_mode'])}"),
            int(record["update_idx"]),
            value,
        )

    def updates(self, kind: str, index: int) -> list[int]:
        """The bundles from here on that update a semaphore (``SEM``) or an event (``EVT``)."""
        record = self.stream.columns(isa.BUNDLES[0].struct)
        left = [task.index for task in self.tasks[self.at :]]
        modes, places = record["update_mode"].tolist(), record["update_idx"].tolist()
        return [at for at in left if _UPDATES.get(modes[at], "").startswith(kind) and places[at] == index]


def _known(name: str, place: Place) -> str:
    if name.startswith("mode") or "_REG" in name:
        raise _MODE.error(
            f"{name} is not modelled",
            got=name,
            allowed="NONE, SEM_*_IMM, SEM_INC, SEM_DEC, EVT_*",
            cures=["use the immediate form of the wait or update"],
            place=place,
        )
    return name


def run_together(
    prepared: Mapping[str, list[Task]],
    streams: Mapping[str, Stream],
    semaphores: Semaphores,
    execute: Callable[[Task], None],
) -> None:
    """Executes streams by engine name, one bundle of each in turn, as their waits allow.

    Raises:
        LanefoldError: TPB-MACHINE-DEADLOCK, with one finding per engine that waits; TPB-MACHINE-SYNC before anything
            is executed.
    """
    turns = {engine: _Turn(streams[engine], listed) for engine, listed in prepared.items()}
    for turn in turns.values():
        _check_modes(turn)
    while any(not turn.done for turn in turns.values()):
        moved = False
        for turn in turns.values():
            if turn.done:
                continue
            wait, index, update, target, value = turn.events()
            if not semaphores.ready(wait, index, value):
                continue
            execute(turn.tasks[turn.at])
            semaphores.update(update, target, value)
            turn.at += 1
            moved = True
        if not moved:
            raise LanefoldError(_deadlock(turns, semaphores))


def _check_modes(turn: _Turn) -> None:
    record = turn.stream.columns(isa.BUNDLES[0].struct)
    for names, column in ((_WAITS, "wait_mode"), (_UPDATES, "update_mode")):
        modes = record[column].tolist()
        for at, mode in enumerate(modes):
            if mode:
                _known(names.get(mode, f"mode {mode}"), place_of(turn.stream, at))


_FEW = 3
_CONDITIONS = {"EQ": "", "LT": "below ", "LE": "at most ", "GT": "above ", "GE": "at least "}


def _deadlock(turns: Mapping[str, _Turn], semaphores: Semaphores) -> list[Diagnostic]:
    waiting = {engine: turn for engine, turn in turns.items() if not turn.done}
    message = "; ".join(_waits(engine, waiting, semaphores) for engine in waiting)
    found = []
    for engine, turn in waiting.items():
        wait, index, _, _, value = turn.events()
        what, _, _ = _sides(wait, index, value, semaphores)
        bundle = turn.tasks[turn.at].index
        cures = [
            f"move the update of {what} in {name}, bundle {at}, in front of the wait of {name}"
            for name, at in _left(engine, waiting)[:1]
        ]
        cures.append(f"let a bundle of another engine that does not wait make it so: {_remedy(wait, index, value)}")
        cures.append(f"take the wait out of {engine}, bundle {bundle}")
        found.append(
            _DEADLOCK.finding(
                message,
                got=f"{len(waiting)} engine{'s' * (len(waiting) != 1)} waiting: {', '.join(waiting)}",
                allowed="for every wait an update that comes before it in another stream",
                cures=cures,
                place=place_of(turn.stream, bundle),
            )
        )
    return found


def _left(engine: str, waiting: Mapping[str, _Turn]) -> list[tuple[str, int]]:
    """The bundles of other engines, still to come, that update what an engine waits for."""
    wait, index, _, _, _ = waiting[engine].events()
    return [(name, at) for name in waiting if name != engine for at in waiting[name].updates(wait[:3], index)]


def _waits(engine: str, waiting: Mapping[str, _Turn], semaphores: Semaphores) -> str:
    turn = waiting[engine]
    wait, index, _, _, value = turn.events()
    what, wanted, now = _sides(wait, index, value, semaphores)
    left = _left(engine, waiting)
    other = " and ".join(f"{name} would update it at bundle {at}" for name, at in left[:_FEW])
    return (
        f"{engine} waits at bundle {turn.tasks[turn.at].index} for {what} to be {wanted}, it is {now}, and "
        f"{other or 'nothing that is left in the other streams updates it'}"
    )


def _remedy(wait: str, index: int, value: int) -> str:
    """Update fields that make a condition hold."""
    kind, condition, *_ = wait.split("_")
    if kind == "EVT":
        return f"update_mode {'EVT_SET' if condition == 'SET' else 'EVT_CLR'}_COMPLETE, update_idx {index}"
    wanted = value + (condition == "GT") - (condition == "LT")
    return f"update_mode SEM_WR_IMM_COMPLETE, update_idx {index}, semaphore_value {wanted}"


def _sides(wait: str, index: int, value: int, semaphores: Semaphores) -> tuple[str, str, str]:
    """What is waited for, how it should be, and how it is."""
    kind, condition, *_ = wait.split("_")
    if kind == "SEM":
        return f"semaphore {index}", f"{_CONDITIONS[condition]}{value}", str(semaphores.values[index])
    words = ("clear", "set")
    return f"event {index}", words[condition == "SET"], words[semaphores.events[index]]
