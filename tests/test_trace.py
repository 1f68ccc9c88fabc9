"""Timelines against a slow placing of the same tasks, and traces against the rules of their format."""

from __future__ import annotations

import itertools
import json
import math
import random
from pathlib import Path

import onnx
import pytest
from onnx import helper

import lanefold as lf
from lanefold.diagnostics import LanefoldError
from lanefold.program.timeline import Region, Task, schedule
from lanefold.pto import TileType
from lanefold.pto.cost import cost
from lanefold.pto.program.model import Compute, GlobalArray, Load, Program, Store, TileSlot
from lanefold.pto.program.timeline import timeline as pto_timeline
from lanefold.report.trace import trace, write_trace
from lanefold.tpb import Access, Instruction
from lanefold.tpb.cost import price, price_fill
from lanefold.tpb.lower.plan import Fill, Lowering
from lanefold.tpb.timeline import region, tasks


def access(elements: int, byte: int = 0, step: int = 1, dtype: str = "float32", partitions: int = 128, memory="SB"):
    return Access(memory, 0, byte, dtype, ((step * elements, partitions), (step, elements)))


def reduce(source: Access, out: Access, name: str = "r", op: str = "add", axis: str = "X") -> Instruction:
    engine = "Pool" if axis == "C" else "DVE"
    return Instruction("TensorReduce", (source,), (out,), {"op": op, "axis": axis}, engine, name)


def pool(source: Access, out: Access, name: str = "p") -> Instruction:
    return Instruction("Pool", (source,), (out,), {"func": "Max"}, "Pool", name)


def lowering(*items: object, generation: str = "v2") -> Lowering:
    return Lowering(None, "", items, {}, generation, "reference")


def placed(*items: object, generation: str = "v2", model: str = "documented", drawn: str = "high"):
    return schedule(tasks(lowering(*items, generation=generation), model, (), ()), model, drawn)


# Regions


def walked(operand: Access, size: int) -> set[int]:
    """The bytes of one partition that an operand touches, element by element."""
    nums = [range(num) for _, num in operand.free]
    steps = [step for step, _ in operand.free]
    found = set()
    for place in itertools.product(*nums):
        start = operand.byte + size * sum(step * at for step, at in zip(steps, place, strict=True))
        found |= set(range(start, start + size))
    return found


def test_regions_meet_where_bytes_do() -> None:
    draw = random.Random(3)
    hits = 0
    for _ in range(400):
        pair = []
        for _ in range(2):
            pattern = tuple((draw.choice([-3, -1, 1, 2, 3, 7]), draw.choice([1, 2, 3, 5])) for _ in range(2))
            pair.append(Access("SB", 0, draw.randrange(80, 160), draw.choice(["float32", "uint8"]), ((1, 1), *pattern)))
        first, second = (walked(each, 4 if each.dtype == "float32" else 1) for each in pair)
        boxes = [region(each) for each in pair]
        for box, touched in zip(boxes, (first, second), strict=True):
            assert (box.bytes[0], box.bytes[1]) == (min(touched), max(touched) + 1)
        meets = max(b.bytes[0] for b in boxes) < min(b.bytes[1] for b in boxes) and boxes[0].meets(boxes[1])
        assert meets == bool(first & second)
        hits += meets
    assert 50 < hits < 350


# Placing


def slow_schedule(given: list[Task], bound: int) -> list[tuple[float, float]]:
    """Start and end of each task, from the definition: cells of the regions as sets, every pair looked at."""

    def cells(regions: tuple[Region, ...]) -> set[tuple[str, int, int]]:
        return {(r.space, row, byte) for r in regions for row in range(*r.rows) for byte in range(*r.bytes)}

    spans: list[tuple[float, float]] = []
    for at, task in enumerate(given):
        start = 0.0
        for before, (_, end) in zip(given[:at], spans, strict=True):
            reads, writes = cells(task.reads), cells(task.writes)
            must = (before.track == task.track and task.in_order) or bool(before.holds & task.holds)
            must |= bool(cells(before.writes) & (reads | writes)) or bool(cells(before.reads) & writes)
            start = max(start, end) if must else start
        spans.append((start, start + (task.ns[bound] or 0.0)))
    return spans


def random_tasks(seed: int) -> list[Task]:
    draw = random.Random(seed)

    def regions() -> tuple[Region, ...]:
        found = []
        for _ in range(draw.randrange(3)):
            row, byte = draw.randrange(4), draw.randrange(20)
            found.append(Region(draw.choice("ab"), (row, row + draw.randint(1, 2)), (byte, byte + draw.randint(1, 4))))
        return tuple(found)

    made = []
    for number in range(25):
        low = draw.choice([0.0, 3.0, 10.0])
        high = draw.choice([low, low + 5.0, None])
        holds = frozenset(draw.sample(["x", "y"], draw.randrange(2)))
        track = draw.choice("PQRU")
        regions_of = (regions(), regions())
        made.append(Task(f"t{number}", track, "k", (low, high), *regions_of, holds, in_order=track != "U"))
    return made


@pytest.mark.parametrize("seed", range(20))
def test_tasks_start_as_early_as_they_may(seed: int) -> None:
    given = random_tasks(seed)
    for bound, drawn in enumerate(("low", "high")):
        found = schedule(given, "m", drawn)
        wanted = slow_schedule(given, bound)
        assert [(slot.start_ns, slot.end_ns) for slot in found.slots] == wanted
        assert found.priced_ns[bound] == max(end for _, end in wanted)
        path = found.critical_path
        assert path[-1].end_ns == max(end for _, end in wanted)
        for before, after in itertools.pairwise(path):
            assert before.end_ns == after.start_ns
            assert after.cause == before.number
        assert sum(slot.end_ns - slot.start_ns for slot in path) == path[-1].end_ns
    assert found.ns == (found.priced_ns[0], None if any(t.ns[1] is None for t in given) else found.priced_ns[1])


def test_no_tasks_take_no_time() -> None:
    empty = schedule([], "m")
    assert (empty.ns, empty.critical_path, empty.tracks) == ((0.0, 0.0), (), {})


def test_a_word_for_the_bound_is_checked() -> None:
    with pytest.raises(LanefoldError, match="TIMELINE-BOUND"):
        schedule([], "m", "middle")


# Trainium


def test_pool_and_dve_take_turns_on_v2_only() -> None:
    items = (reduce(access(700), access(1, 4096)), pool(access(512, 8192), access(1, 16384)))
    for generation in ("v2", "v3", "v4"):
        each = [price(item, generation).ns[0] for item in items]
        found = placed(*items, generation=generation)
        assert found.ns[0] == pytest.approx(sum(each) if generation == "v2" else max(each))
        assert [slot.critical for slot in found.slots] == ([True, True] if generation == "v2" else [True, False])


def test_engines_take_no_turns_in_different_memories() -> None:
    apart = (
        reduce(access(700, memory="PSUM"), access(1, 4096, memory="PSUM")),
        pool(access(512, 8192), access(1, 16384)),
    )
    assert placed(*apart).slots[1].start_ns == 0.0


@pytest.mark.parametrize(
    ("first", "second", "memory", "generation", "turns"),
    [
        ("DVE", "Pool", "SB", "v2", True),
        ("DVE", "Pool", "PSUM", "v2", False),
        ("DVE", "Activation", "PSUM", "v2", True),
        ("DVE", "Activation", "SB", "v2", False),
        ("Activation", "Pool", "SB", "v2", False),
        ("Activation", "Pool", "PSUM", "v2", False),
        *(("DVE", other, memory, "v3", False) for other in ("Pool", "Activation") for memory in ("SB", "PSUM")),
        *(("DVE", other, memory, "v4", False) for other in ("Pool", "Activation") for memory in ("SB", "PSUM")),
    ],
)
def test_engines_that_share_a_memory_by_turns(first, second, memory, generation, turns) -> None:
    """Vector and GpSimd in the state buffer, Vector and Scalar in PSUM, on v2 alone; both ways round."""
    for engines in ((first, second), (second, first)):
        items = []
        for at, engine in enumerate(engines):
            source, out = access(256, 2048 * at, memory=memory), access(8, 8192 + 64 * at, memory=memory)
            items.append(Instruction("Max", (source,), (out,), {}, engine))
        slots = placed(*items, generation=generation).slots
        assert slots[1].start_ns == (slots[0].end_ns if turns else 0.0)


def test_independent_instructions_overlap_in_detail() -> None:
    alike = (reduce(access(700), access(1, 4096)), reduce(access(700, 8192), access(1, 16384)))
    each = price(alike[0], "v3", "detailed")
    hidden = 100 / each.clock_ghz
    found = placed(*alike, generation="v3", model="detailed")
    assert found.ns[0] == pytest.approx(2 * each.ns[0] - hidden)
    assert [slot.hidden_ns for slot in found.slots] == pytest.approx([0.0, hidden])
    assert placed(*alike, generation="v3").ns[0] == pytest.approx(2 * price(alike[0], "v3").ns[0])


def test_dependent_instructions_do_not_overlap() -> None:
    chained = (reduce(access(700), access(1, 4096)), reduce(access(700, 4096), access(1, 16384)))
    each = price(chained[0], "v3", "detailed")
    assert placed(*chained, generation="v3", model="detailed").ns[0] == pytest.approx(2 * each.ns[0])


def test_interleaved_results_do_not_depend_on_each_other() -> None:
    items = [reduce(access(700, 65536), access(8, 4 * odd, 2), f"r{odd}") for odd in range(2)]
    found = placed(*items, generation="v3", model="detailed")
    assert found.slots[1].hidden_ns > 0


def test_ranges_stay_ranges() -> None:
    across = reduce(access(512), access(512, 4096, partitions=1), axis="C")
    row = price(across, "v2")
    found = placed(across)
    assert found.ns == pytest.approx(row.ns)
    assert placed(across, drawn="low").slots[0].end_ns == pytest.approx(row.ns[0])
    assert found.slots[0].end_ns == pytest.approx(row.ns[1])


@pytest.mark.parametrize(
    ("dtype", "elements", "documented", "detailed"),
    [("float32", 512, 512, 672), ("bfloat16", 512, 256, 416), ("float16", 8, 64, 224), ("int32", 65, 65, 225)],
)
def test_fills_are_priced(dtype: str, elements: int, documented: int, detailed: int) -> None:
    operand = access(elements, dtype=dtype)
    assert price_fill(operand, "v3").low == documented
    assert price_fill(operand, "v3", "detailed").low == detailed
    slot = placed(Fill(operand)).slots[0]
    assert (slot.task.track, slot.task.kind) == ("DVE", "Memset")


@pytest.fixture(scope="module")
def model() -> onnx.ModelProto:
    """Two leg nodes with a host node between them, and one beside them."""
    nodes = [
        helper.make_node("MaxPool", ["x"], ["a"], "first", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
        helper.make_node("Exp", ["a"], ["b"], "between"),
        helper.make_node("ReduceSum", ["b", "axes"], ["y"], "second"),
        helper.make_node("ReduceMax", ["x", "axes"], ["z"], "beside"),
    ]
    inputs = [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 8, 16, 16])]
    outputs = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, 8, 1, 1]) for name in ("y", "z")]
    axes = helper.make_tensor("axes", onnx.TensorProto.INT64, [2], [2, 3])
    graph = helper.make_graph(nodes, "g", inputs, outputs, [axes])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
def test_programs_have_no_greatest_total_while_transfers_are_unknown(model, target: str) -> None:
    program = lf.compile(model, target)
    found = program.timeline()
    priced = [row.instruction for row in program.cost().rows]
    assert [slot.task.name for slot in found.slots if slot.task.name in priced] == priced
    assert found.ns[1] is None
    assert found.ns[0] >= max(low for low, _ in program.cost().engines.values())
    assert {task.track for task in found.unknown} == {"DMA", "host"}
    starts = {slot.task.name: slot for slot in found.slots}
    host = next(slot for slot in found.slots if slot.task.track == "host")
    first, second = ([slot for name, slot in starts.items() if name.startswith(node)] for node in ("first.", "second."))
    assert max(slot.end_ns for slot in first) <= host.start_ns
    assert min(slot.start_ns for slot in second) >= host.end_ns
    assert found.to_dict()["ns"] == [found.ns[0], None]


def test_unknown_models_are_told(model) -> None:
    with pytest.raises(LanefoldError, match="TPB-COST-MODEL"):
        lf.compile(model, "trn1").timeline("exact")


# PTO


def kernel(tiles: int = 2, op: str = "TROWSUM") -> Program:
    slots, work = [], []
    for at in range(tiles):
        slots += [
            TileSlot(f"a{at}", TileType("f32", 64, 128, 64, 128)),
            TileSlot(f"r{at}", TileType("f32", 64, 1, 64, 1, "DN")),
            TileSlot(f"t{at}", TileType("f32", 64, 128, 64, 128)),
        ]
        row = 64 * at
        names = (f"r{at}", f"a{at}", f"t{at}")
        work += [Load(f"a{at}", "x", row), Compute(op, "R1", names), Store(f"r{at}", "y", row)]
    arrays = (GlobalArray("x", "f32", 64 * tiles, 128, 128), GlobalArray("y", "f32", 64 * tiles, 1, 1))
    return Program(arrays, tuple(slots), tuple(work))


def test_pipes_run_side_by_side() -> None:
    found = pto_timeline(kernel())
    singles = {
        "MTE2": cost("TLOAD", "f32", 64, 128, path="GM->UB"),
        "V": cost("TROWSUM", "f32", 64, 128, dst_layout="DN"),
        "MTE3": cost("TSTORE", "f32", 64, 1, path="UB->GM"),
    }
    for slot in found.slots:
        assert slot.task.ns == pytest.approx(tuple(cycles / 1.85 for cycles in singles[slot.task.track].bounds))
        assert slot.task.details["rule"] == singles[slot.task.track].rule
    load, work, store, load2, work2, store2 = found.slots
    assert (work.start_ns, store.start_ns, load2.start_ns) == (load.end_ns, work.end_ns, load.end_ns)
    assert work2.start_ns == max(load2.end_ns, work.end_ns)
    assert store2.start_ns == max(work2.end_ns, store.end_ns)
    assert found.ns[1] == store2.end_ns


def test_tiles_that_share_an_address_wait() -> None:
    from dataclasses import replace

    program = kernel()
    slots = tuple(replace(slot, address=0 if slot.name in ("a0", "a1") else None) for slot in program.tiles)
    load, work, _, load2, *_ = pto_timeline(replace(program, tiles=slots)).slots
    assert load2.start_ns == work.end_ns > load.end_ns


def test_unpriced_tile_operations_are_unknown() -> None:
    found = pto_timeline(kernel(), target="a5")
    assert found.ns == (0.0, None)
    assert len(found.unknown) == 6
    refused = pto_timeline(kernel(op="TROWPROD"), model="stream", drawn="low")
    assert refused.ns[1] is None
    unknown = pto_timeline(kernel(op="TROWPROD"), model="reference").slots[1].task
    assert str(unknown.details["note"]).startswith("PTO-COST-SEQUENCE")
    with pytest.raises(LanefoldError, match="PTO-COST-TARGET"):
        pto_timeline(kernel(), target="cpu")


def test_open_extents_are_told() -> None:
    slot = TileSlot("a", TileType("f32", 64, 128, None, 128), valid_row="n")
    program = Program((GlobalArray("x", "f32", 64, 128, 128),), (slot,), (Load("a", "x"),))
    with pytest.raises(LanefoldError, match="PTO-TIMELINE-EXTENT"):
        pto_timeline(program)
    assert pto_timeline(program, parameters={"n": 8}).slots[0].task.ns[1] > 0
    assert program.cost(parameters={"n": 8}).cycles[1] < program.cost(parameters={"n": 64}).cycles[1]
    for parameters in ({"m": 8}, {"n": 0}, {"n": 1.5}, {"n": True}, {"n": "8"}, {"n": 8, "m": 8}):
        for asked in (program.cost, program.timeline):
            with pytest.raises(LanefoldError, match=r"PTO-TIMELINE-EXTENT|CALL-ARGUMENT"):
                asked(parameters=parameters)


# Traces


def validate(document: dict) -> dict[int, str]:
    """The rules of the trace event format that viewers rely on; gives the names of the threads."""
    assert document["displayTimeUnit"] in ("ns", "ms")
    events = document["traceEvents"]
    threads: dict[int, str] = {}
    ends: dict[int, float] = {}
    last = 0.0
    for event in events:
        assert {"name", "ph", "ts", "pid", "tid", "args"} <= event.keys()
        assert isinstance(event["name"], str)
        assert event["name"]
        assert isinstance(event["args"], dict)
        assert type(event["pid"]) is int
        assert type(event["tid"]) is int
        assert math.isfinite(event["ts"])
        assert event["ts"] >= 0
        if event["ph"] == "M":
            assert event["name"] in ("process_name", "thread_name", "thread_sort_index")
            if event["name"] == "thread_name":
                threads[event["tid"]] = event["args"]["name"]
            continue
        assert event["ph"] in ("X", "i")
        assert event["tid"] in threads, "a thread is named before it is used"
        assert event["ts"] >= last, "events are in order of time"
        last = event["ts"]
        if event["ph"] == "i":
            assert event["s"] in ("g", "p", "t")
            continue
        assert math.isfinite(event["dur"])
        assert event["dur"] >= 0
        assert event["ts"] >= ends.get(event["tid"], 0.0) - 1e-9, "events of one thread do not overlap"
        ends[event["tid"]] = event["ts"] + event["dur"]
    assert len(set(threads.values())) == len(threads)
    return threads


@pytest.mark.parametrize("model_name", ["documented", "detailed"])
@pytest.mark.parametrize("drawn", ["low", "high"])
@pytest.mark.parametrize("target", ["trn1", "trn2"])
def test_traces_follow_the_format(model, target: str, model_name: str, drawn: str, tmp_path: Path) -> None:
    program = lf.compile(model, target)
    path = write_trace(program, tmp_path / "trace.json", model=model_name, drawn=drawn)
    document = json.loads(path.read_text())
    threads = validate(document)
    assert set(threads.values()) == set(program.timeline().tracks)
    rows = {row.instruction: row for row in program.cost(model_name).rows}
    seen = 0
    for event in document["traceEvents"]:
        if event["ph"] == "X" and event["name"] in rows:
            row = rows[event["name"]]
            assert threads[event["tid"]] == row.engine
            assert (event["args"]["rule"], event["args"]["model"]) == (row.rule, model_name)
            assert event["args"]["validity"] == row.validity
            assert event["args"]["reads"]
            length = event["dur"] * 1000 + event["args"].get("hidden_ns", 0.0)
            assert length == pytest.approx(row.ns[drawn == "high"])
            seen += 1
    assert seen == len(rows)
    assert document["otherData"]["total_ns"][1] == "unknown"
    assert list(tmp_path.iterdir()) == [path]


def test_traces_of_tile_programs(tmp_path: Path) -> None:
    document = json.loads(write_trace(kernel(3), tmp_path / "t.json", target="a2a3", model="calibrated").read_text())
    assert set(validate(document).values()) == {"MTE2", "V", "MTE3"}
    assert sum(event["ph"] == "X" for event in document["traceEvents"]) == 9
    unknown = json.loads(write_trace(kernel(), tmp_path / "t.json", target="a5").read_text())
    validate(unknown)
    assert unknown["otherData"]["of_unknown_duration"] == 6


@pytest.mark.parametrize("drawn", ["low", "high"])
@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_traces_of_programs_compiled_to_tiles(model, target: str, drawn: str, tmp_path: Path) -> None:
    program = lf.compile(model, target)
    document = json.loads(write_trace(program, tmp_path / "t.json", drawn=drawn).read_text())
    threads = validate(document)
    assert "host" in threads.values()
    found = [event for event in document["traceEvents"] if event["ph"] != "M" and threads[event["tid"]] != "host"]
    assert found
    for event in found:
        assert event["args"]["model"] == "calibrated"
        assert event["args"]["rule"]
        unknown = event["args"]["validity"] == "unknown"
        assert unknown == (event["ph"] == "i") == (event["args"]["ns"][1] == "unknown")
    assert document["otherData"]["total_ns"][1] == "unknown"


def test_traces_of_random_tasks() -> None:
    for seed in range(5):
        given = [t for t in random_tasks(seed) if t.in_order and (t.ns[1] is None or t.ns[1] > 0)]
        document = trace(schedule(given, "m"))
        validate(json.loads(json.dumps(document, allow_nan=False)))


def test_a_place_that_cannot_be_written_is_told(model, tmp_path: Path) -> None:
    with pytest.raises(LanefoldError, match="TRACE-OUTPUT"):
        write_trace(lf.compile(model, "trn1"), tmp_path / "nowhere" / "trace.json")


def test_a_thousand_instructions_are_placed_quickly() -> None:
    import time

    items = [reduce(access(64, 4096 * (at % 40)), access(1, 4 * at), f"r{at}") for at in range(2000)]
    started = time.perf_counter()
    found = placed(*items)
    assert time.perf_counter() - started < 5
    assert found.ns[0] == pytest.approx(2000 * price(items[0], "v2").ns[0])
