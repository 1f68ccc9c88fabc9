"""Engines that wait for each other, and memory that nothing has written."""

from __future__ import annotations

import re

import numpy as np
import pytest

from lanefold.diagnostics import LanefoldError
from lanefold.tpb import Machine, Stream
from tests.tpb.test_machine import across, at, events, in_psum, keys, pool, put, reduce, search, stream, take, tensor

GE, EVT_SET, EVT_CLEAR = 0x05, 0x06, 0x0E
INC, SET, CLEAR, WRITE = 0x13, 0x11, 0x12, 0x19
UPDATES = {"SEM_WR_IMM_COMPLETE": WRITE, "EVT_SET_COMPLETE": SET, "EVT_CLR_COMPLETE": CLEAR}


def doubled(source: int, target: int, **synced: int) -> bytes:
    """Twice the number at a byte of partition 0."""
    return reduce(4, 1, tensor(at(0, source), (2,), (0,)), tensor(at(0, target), (1,), (1,)), events=events(**synced))


def stuck(streams: dict[str, Stream]):
    with pytest.raises(LanefoldError) as caught:
        Machine("v2").run(streams)
    assert {finding.code for finding in caught.value.diagnostics} == {"TPB-MACHINE-DEADLOCK"}
    return caught.value.diagnostics


def test_three_engines_pass_a_number_on():
    ring = {
        "DVE": stream(doubled(64, 128, wait=GE, wait_index=1, update=INC, update_index=2, value=1)),
        "Activation": stream(doubled(128, 192, wait=GE, wait_index=2, update=INC, update_index=3, value=1)),
        "Pool": stream(doubled(0, 64, update=INC, update_index=1), doubled(192, 256, wait=GE, wait_index=3, value=1)),
    }
    for order in (list(ring), list(ring)[::-1]):
        machine = Machine("v2")
        put(machine, 0, 0, np.array([[1.5]], np.float32))
        machine.run({name: ring[name] for name in order})
        assert take(machine, 0, 256, 1, np.float32)[0, 0] == 24.0
        assert machine.semaphores.values[1:4] == [1, 1, 1]


def test_a_cycle_of_three_engines_names_every_side():
    def link(number: int, waits_for: int) -> Stream:
        return stream(
            doubled(0, 64, wait=GE, wait_index=waits_for, update=INC, update_index=number, value=1),
        )

    found = stuck({"Pool": link(2, 1), "DVE": link(3, 2), "Activation": link(1, 3)})
    assert len(found) == 3
    message = found[0].message
    assert message == (
        "Pool waits at bundle 0 for semaphore 1 to be at least 1, it is 0, and Activation would update it at bundle 0; "
        "DVE waits at bundle 0 for semaphore 2 to be at least 1, it is 0, and Pool would update it at bundle 0; "
        "Activation waits at bundle 0 for semaphore 3 to be at least 1, it is 0, and DVE would update it at bundle 0"
    )
    assert {finding.message for finding in found} == {message}
    assert found[0].got == "3 engines waiting: Pool, DVE, Activation"
    firsts = [finding.cures[0].text for finding in found]
    assert firsts == [
        "move the update of semaphore 1 in Activation, bundle 0, in front of the wait of Activation",
        "move the update of semaphore 2 in Pool, bundle 0, in front of the wait of Pool",
        "move the update of semaphore 3 in DVE, bundle 0, in front of the wait of DVE",
    ]
    # The first cure taken: Activation updates before it waits.
    eased = stream(doubled(0, 64, update=INC, update_index=1), doubled(0, 64, wait=GE, wait_index=3, value=1))
    Machine("v2").run({"Pool": link(2, 1), "DVE": link(3, 2), "Activation": eased})


def test_a_wait_that_starves_is_told_from_a_cycle_and_its_cure_works():
    def streams(*more: bytes) -> dict[str, Stream]:
        return {
            "Pool": stream(doubled(0, 64, update=INC, update_index=7)),
            "DVE": stream(doubled(0, 64), doubled(0, 68, wait=GE, wait_index=7, value=3)),
            "Activation": stream(doubled(0, 72), *more),
        }

    (finding,) = stuck(streams())
    assert finding.message == (
        "DVE waits at bundle 1 for semaphore 7 to be at least 3, it is 1, "
        "and nothing that is left in the other streams updates it"
    )
    assert finding.got == "1 engine waiting: DVE"
    mode, index, value = re.search(
        r"update_mode (\w+), update_idx (\d+), semaphore_value (\d+)", str(finding.cures[0])
    ).groups()
    word = doubled(0, 76, update=UPDATES[mode], update_index=int(index), value=int(value))
    Machine("v2").run(streams(word))


@pytest.mark.parametrize(("wait", "wanted", "now"), [(EVT_SET, "set", "clear"), (EVT_CLEAR, "clear", "set")])
def test_events_that_never_come(wait, wanted, now):
    def streams(*more: bytes) -> dict[str, Stream]:
        first = {"update": SET, "update_index": 9} if wanted == "clear" else {}
        return {
            "Pool": stream(doubled(0, 64, **first), *more),
            "DVE": stream(doubled(0, 60), doubled(0, 60), doubled(0, 68, wait=wait, wait_index=9)),
        }

    (finding,) = stuck(streams())
    assert f"DVE waits at bundle 2 for event 9 to be {wanted}, it is {now}" in finding.message
    mode, index = re.search(r"update_mode (\w+), update_idx (\d+)", str(finding.cures[0])).groups()
    Machine("v2").run(streams(doubled(0, 76, update=UPDATES[mode], update_index=int(index))))


def test_a_lone_stream_takes_its_waits_as_met():
    machine = Machine("v2")
    put(machine, 0, 0, np.array([[2.0]], np.float32))
    machine.run(stream(doubled(0, 64, wait=GE, wait_index=1, value=5)))
    assert take(machine, 0, 64, 1, np.float32)[0, 0] == 4.0


def unwritten(machine: Machine, *words: bytes) -> str:
    with pytest.raises(LanefoldError) as caught:
        machine.run(stream(*words))
    finding = caught.value.diagnostics[0]
    assert finding.code == "TPB-MACHINE-UNINITIALISED"
    assert len(finding.cures) == 2
    return f"{finding.message}; {finding.got}"


@pytest.fixture
def machine() -> Machine:
    return Machine("v2", track_uninitialised=True)


def test_elements_that_nothing_has_written_are_counted(machine):
    machine.mark_written("SB", 0, 2, 0, 12)
    words = reduce(4, 1, tensor(at(0, 0), (4,), (1,)), tensor(at(0, 64), (1,), (1,)), channels=3)
    assert unwritten(machine, words) == (
        "TensorReduceArithOp reads 6 elements of src that nothing has written; 6 of 12 elements"
    )
    machine.mark_written("SB", 0, 3, 0, 15)
    assert "reads 3 elements" in unwritten(machine, words), "an element with one byte missing is missing"
    machine.mark_written("SB", 0, 3, 0, 16)
    machine.run(stream(words))


def test_what_an_instruction_writes_may_be_read_and_nothing_beside_it(machine):
    machine.mark_written("SB", 0, 1, 0, 16)
    first = pool(1, 1.0, tensor(at(0, 0), (2, 1, 2), (1, 1, 2)), tensor(at(0, 64), (2,), (2,)))
    machine.run(stream(first, reduce(4, 1, tensor(at(0, 64), (2,), (2,)), tensor(in_psum(0, 0), (1,), (1,)))))
    machine.run(stream(reduce(4, 1, tensor(in_psum(0, 0), (1,), (1,)), tensor(at(0, 128), (1,), (1,)))))
    assert "reads 1 element of src" in unwritten(
        machine, reduce(4, 1, tensor(at(0, 64), (3,), (1,)), tensor(at(0, 128), (1,), (1,)))
    )
    assert "reads 1 element of src" in unwritten(
        machine, reduce(4, 1, tensor(in_psum(0, 4), (1,), (1,)), tensor(at(0, 128), (1,), (1,)))
    )


def test_keys_of_a_search_and_lanes_of_a_cross_lane_sum_are_looked_at(machine):
    machine.mark_written("SB", 0, 1, 0, 64)
    data = tensor(at(0, 0), (9,), (1,))
    assert "MatchValueLoad reads 4 elements" in unwritten(
        machine,
        keys(at(0, 48 + 28), -1, "float32", 1),
        search(0x6E, data, at(0, 128), (1, 1), "float32", "uint32", 1),
    )
    words = across(0, 1, 0.0, tensor(at(0, 0), (4,), (1,)), tensor(at(0, 256), (4,), (1,)), channels=3)
    assert "reads 8 elements" in unwritten(machine, words)


def test_an_accumulating_reduction_reads_its_destination():
    words = reduce(4, 1, tensor(at(0, 0), (2,), (1,)), tensor(at(0, 64), (1,), (1,)))
    machine = Machine("v2", track_uninitialised=True, accumulate=True)
    machine.mark_written("SB", 0, 1, 0, 8)
    assert "reads 1 element of dst" in unwritten(machine, words)
    machine.mark_written("SB", 0, 1, 64, 4)
    machine.run(stream(words))


def test_nothing_is_tracked_unless_it_is_asked_for():
    machine = Machine("v2")
    machine.mark_written("SB", 0, 1, 0, 8)
    machine.run(stream(reduce(4, 1, tensor(at(32, 0), (2,), (1,)), tensor(at(0, 64), (1,), (1,)))))
