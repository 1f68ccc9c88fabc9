"""Timelines as trace files that chrome://tracing and ui.perfetto.dev open."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lanefold import arguments
from lanefold.diagnostics import Rule
from lanefold.program.files import write_whole
from lanefold.program.timeline import Slot, Timeline

if TYPE_CHECKING:
    from lanefold.program import Program
    from lanefold.pto.program import Program as PtoProgram

OUTPUT = Rule("TRACE-OUTPUT", "A trace is written to a place that can be written.", "Traces", usage=True)
_PROCESS = 1
_NS_PER_TICK = 1000
"""Times of a trace are microseconds."""


def trace(timeline: Timeline, name: str = "program") -> dict[str, Any]:
    """A timeline in the trace event format: one thread per engine or pipe, one complete event per priced task.

    Tasks of unknown duration are instant events. Source: Trace Event Format.
    """
    threads = {track: number for number, track in enumerate(timeline.tracks, 1)}
    low, high = timeline.ns
    events: list[dict[str, Any]] = [_named("process_name", 0, {"name": name})]
    for track, number in threads.items():
        events.append(_named("thread_name", number, {"name": track}))
        events.append(_named("thread_sort_index", number, {"sort_index": number}))
    placed = sorted(timeline.slots, key=lambda slot: (slot.start_ns, slot.number))
    events += [_event(slot, threads[slot.task.track]) for slot in placed]
    return {
        "displayTimeUnit": "ns",
        "otherData": {
            "model": timeline.model,
            "drawn": f"{timeline.drawn} durations",
            "total_ns": [low, "unknown" if high is None else high],
            "priced_ns": list(timeline.priced_ns),
            "of_unknown_duration": len(timeline.unknown),
        },
        "traceEvents": events,
    }


def _named(name: str, thread: int, arguments: dict[str, object]) -> dict[str, Any]:
    return {"name": name, "ph": "M", "ts": 0, "pid": _PROCESS, "tid": thread, "args": arguments}


def _event(slot: Slot, thread: int) -> dict[str, Any]:
    task = slot.task
    arguments: dict[str, object] = {
        "kind": task.kind,
        "ns": [task.ns[0], "unknown" if task.ns[1] is None else task.ns[1]],
        "critical": slot.critical,
        **task.details,
    }
    if slot.hidden_ns:
        arguments["hidden_ns"] = slot.hidden_ns
    event = {
        "name": task.name,
        "cat": task.kind,
        "ts": slot.start_ns / _NS_PER_TICK,
        "pid": _PROCESS,
        "tid": thread,
        "args": arguments,
    }
    if not task.priced:
        return event | {"ph": "i", "s": "t"}
    return event | {"ph": "X", "dur": (slot.end_ns - slot.start_ns) / _NS_PER_TICK}


def _timeline(program: object, drawn: str, options: dict[str, Any]) -> Timeline:
    from lanefold.program import Program
    from lanefold.pto.program import Program as TileProgram
    from lanefold.pto.program.timeline import timeline

    if isinstance(program, Program):
        return program.timeline(drawn=drawn, **options)
    if not isinstance(program, TileProgram):
        wanted = "a program of lanefold.compile, lanefold.load or lanefold.pto.parse"
        raise arguments.refused("write_trace", "program", program, wanted, "give program=lanefold.load(folder)")

    return timeline(program, drawn=drawn, **options)


def write_trace(program: Program | PtoProgram, path: str | Path, *, drawn: str = "high", **options: Any) -> Path:
    """Writes the timeline of a program as a trace file, whole or not at all.

    Args:
        program: a compiled program, or a PTO program.
        path: file to write, ``.json`` by custom.
        drawn: draw the ``low`` or the ``high`` durations.
        options: ``model``, and for a PTO program ``target`` and ``parameters``.

    Raises:
        LanefoldError: TRACE-OUTPUT if the file cannot be written, and as the timeline of the program.
    """
    file = arguments.path("write_trace", "path", path, "trace.json")
    text = json.dumps(trace(_timeline(program, drawn, options), program.name or "program"), allow_nan=False)
    write_whole(file, (text + "\n").encode(), OUTPUT)
    return file
