"""The tasks of a lowered op: loads, tile operations and stores on their pipes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from lanefold.program.timeline import Task, facts
from lanefold.pto.cost import request
from lanefold.pto.cost.rows import cost_row
from lanefold.pto.lower.plan import Lowering, Stage
from lanefold.pto.lower.prices import NO_MODEL
from lanefold.pto.program.model import Instruction
from lanefold.pto.program.prices import question
from lanefold.pto.program.resolve import resolve
from lanefold.pto.program.timeline import operands, touched_regions

GROUPS, FEW = 4, 32
"""Parts in which the tiles of one stage are drawn, and of all stages; a task for every tile would hide the stages."""


def tasks(lowering: Lowering, model: str, inputs: Sequence[str], outputs: Sequence[str]) -> list[Task]:
    """See `Lowering.tasks`."""
    names = {f"in{at}": name for at, name in enumerate(inputs)} | {f"out{at}": name for at, name in enumerate(outputs)}
    tensors = {tensor: names.get(tensor, f"{'/'.join(outputs)}/{tensor}") for tensor in lowering.tensors}
    most = max(1, min(GROUPS, FEW // len(lowering.stages)))
    return [task for stage in lowering.stages for task in _stage(stage, lowering.target, model, tensors, most)]


def _stage(stage: Stage, target: str, model: str, tensors: Mapping[str, str], most: int) -> list[Task]:
    """The instructions of the stage's program, once for every group of its tiles."""
    arrays = {name: tensors[view.tensor] for name, view in stage.views.items()}
    groups = min(most, stage.tiles)
    whole, more = divmod(stage.tiles, groups)
    made: dict[int, list[Task]] = {}
    for times in {whole, whole + 1}:
        made[times] = [_task(stage, each, target, model, times, arrays) for each in stage.program.instructions]
    return [task for at in range(groups) for task in made[whole + (at < more)]]


def _task(
    stage: Stage, instruction: Instruction, target: str, model: str, times: int, arrays: Mapping[str, str]
) -> Task:
    types = resolve(stage.program, {})
    asked = question(stage.program, instruction, types)
    reads, writes = touched_regions(stage.program, instruction, types, arrays)
    name = f"{asked.op} × {times}" if times > 1 else asked.op
    task = Task(name, asked.pipe, asked.op, (0.0, None), reads, writes, details=operands(instruction, types))
    if target == "cpu" and model in ("", NO_MODEL):
        return replace(task, details={**task.details, "tiles": times, "validity": "the CPU simulator has no cycles"})
    chosen = request.model_name(model or request.MODELS[0])
    row = cost_row(asked.answer(target, chosen), asked.pipe, asked.elements, times)
    low, high = row.ns
    known = None if high == float("inf") else high
    return replace(task, ns=(low, known), details={**task.details, "tiles": times, **facts(row)})
