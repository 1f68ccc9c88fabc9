"""Timelines of lowered ops: every load, operation and store, in an order that the data allows."""

from __future__ import annotations

import pytest

from lanefold.diagnostics import Place
from lanefold.ops import Pool, Reduce
from lanefold.program.timeline import schedule
from lanefold.pto.lower.tasks import GROUPS
from lanefold.pto.target import PtoTarget


@pytest.mark.parametrize(
    ("name", "model"), [("cpu", "none"), ("a2a3", "calibrated"), ("a2a3", "reference"), ("a5", "calibrated")]
)
def test_tasks_cover_every_tile(name: str, model: str) -> None:
    code = PtoTarget(name).lower(Pool("max", (2, 40, 30, 30), (3, 3), (2, 2)), Place())
    tasks = code.tasks(model, ["x"], ["y"])
    count = {"MTE2": 0, "V": 0, "MTE3": 0}
    for task in tasks:
        count[task.track] += int(task.details["tiles"])
    moves = sum(stage.tiles for stage in code.stages)
    assert count == {"MTE2": moves, "V": code.bundles, "MTE3": moves}
    assert len(tasks) <= 3 * GROUPS * len(code.stages)
    assert all((task.ns[1] is None) == (name != "a2a3") for task in tasks if task.track == "V")
    assert {region.space for task in tasks for region in task.reads if region.space == "x"} == {"x"}
    assert {region.space for task in tasks for region in task.writes if region.space == "y"} == {"y"}


def test_a_stage_waits_for_the_one_whose_result_it_reads() -> None:
    code = PtoTarget("a2a3").lower(Reduce("average", (8, 3000), (1,)), Place())
    slots = schedule(code.tasks("calibrated", ["x"], ["y"]), "calibrated").slots
    for slot in slots:
        for other in slots[slot.number + 1 :]:
            written = {region.space for region in slot.task.writes} - {"UB"}
            if written & {region.space for region in other.task.reads}:
                assert other.start_ns >= slot.end_ns
    total = sum(row.high / row.clock_ghz for row in code.cost())
    drawn = sum(slot.end_ns - slot.start_ns for slot in slots if slot.task.track == "V")
    assert drawn == pytest.approx(total)
