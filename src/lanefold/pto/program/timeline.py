"""Timelines of PTO programs: loads, vector work and stores, each on its pipe."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from lanefold.program.timeline import Region, Task, Timeline, schedule
from lanefold.pto.cost import request
from lanefold.pto.program.model import Compute, Instruction, Load, Program
from lanefold.pto.program.prices import known_parameters, question
from lanefold.pto.program.resolve import resolve

if TYPE_CHECKING:
    from lanefold.pto.cost import Cost
    from lanefold.pto.tiles import TileType


def timeline(
    program: Program,
    *,
    target: str = "a2a3",
    model: str = "calibrated",
    parameters: Mapping[str, int] | None = None,
    drawn: str = "high",
) -> Timeline:
    """When each load, operation and store runs at the earliest; pipes run side by side, their hand-over costs nothing.

    Args:
        program: a PTO program; tiles that share addresses wait for each other, tiles without an address do not.
        target: ``a2a3`` or ``a5``.
        model: cost model.
        parameters: values of the index parameters.
        drawn: draw the ``low`` or the ``high`` durations.

    Raises:
        LanefoldError: PTO-TIMELINE-EXTENT where an extent is not known, PTO-COST-… for a wrong target or model.
    """
    name = request.model_name(model or request.MODELS[0])
    where = request.target_of(target, name)
    types = resolve(program, known_parameters(program, {} if parameters is None else parameters))
    tasks = [_task(program, instruction, types, where, name) for instruction in program.instructions]
    return schedule(tasks, name, drawn)


def _task(program: Program, instruction: Instruction, types: Mapping[str, TileType], target: str, model: str) -> Task:
    asked = question(program, instruction, types)
    priced = asked.answer(target, model)
    reads, writes = touched_regions(program, instruction, types)
    return Task(
        asked.op,
        asked.pipe,
        asked.op,
        _ns(priced),
        reads,
        writes,
        details=operands(instruction, types) | _facts(priced),
    )


def operands(instruction: Instruction, types: Mapping[str, TileType]) -> dict[str, object]:
    """The tiles of an instruction with their types, as plain data."""
    names = instruction.tiles if isinstance(instruction, Compute) else (instruction.tile,)
    return {"operands": [f"%{name}: {types[name]}" for name in names]}


def touched_regions(
    program: Program, instruction: Instruction, types: Mapping[str, TileType], arrays: Mapping[str, str] | None = None
) -> tuple[tuple[Region, ...], tuple[Region, ...]]:
    """What an instruction reads and what it writes; ``arrays`` are other names of the global arrays."""
    if isinstance(instruction, Compute):
        reads, writes = instruction.sources, (*instruction.outputs, *filter(None, [instruction.scratch]))
        return tuple(_tile(program, types, n) for n in reads), tuple(_tile(program, types, n) for n in writes)
    tile = (_tile(program, types, instruction.tile),)
    outside = (Region((arrays or {}).get(instruction.array, f"array {instruction.array}")),)
    return (outside, tile) if isinstance(instruction, Load) else (tile, outside)


def _ns(priced: Cost) -> tuple[float, float | None]:
    low, high = (cycles * 1000 / priced.frequency_mhz for cycles in priced.bounds)
    return low, None if math.isinf(high) else high


def _facts(priced: Cost) -> dict[str, object]:
    names = ("model", "version", "rule", "validity", "error", "cycles", "note")
    return {name: getattr(priced, name) for name in names} | {"terms": dict(priced.terms)}


def _tile(program: Program, types: Mapping[str, TileType], name: str) -> Region:
    slot = program.slots[name]
    if slot.address is None:
        return Region(f"tile {name}")
    return Region("UB", bytes=(slot.address, slot.address + types[name].bytes))
