"""What tile operations pass over silently, counted, against counting element by element in plain Python."""

from __future__ import annotations

import math

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

import lanefold as lf
from lanefold.diagnostics import LanefoldError, Place
from lanefold.ops import ArgPool, Pool, Reduce
from lanefold.pto import Tile, execute
from lanefold.pto.simulate.counting import COUNTERS
from lanefold.pto.simulate.readings import READINGS
from lanefold.pto.target import PtoTarget


def counted(op: str, *operands: object, target: str = "cpu") -> dict[str, int]:
    """The counters of one call that are not zero."""
    found = execute(op, *operands, target=target, count=True).counters
    assert set(found) <= set(COUNTERS)
    return {name: value for name, value in found.items() if value}


def passed(line: list[float], sign: int) -> tuple[int, int]:
    """NaN passed over in a line, and values after the first that equal its extreme."""
    if math.isnan(line[0]):
        return 0, 0
    numbers = [sign * value for value in line if not math.isnan(value)]
    return len(line) - len(numbers), numbers.count(max(numbers)) - 1


@given(
    st.sampled_from(["MAX", "MIN", "ARGMAX", "ARGMIN"]),
    st.sampled_from(["ROW", "COL"]),
    st.sampled_from(["float32", "float16"]),
    st.integers(0, 2**32 - 1),
)
@settings(max_examples=60, deadline=None)
def test_extremes(ending: str, axis: str, dtype: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, cols = int(rng.integers(1, 17)), int(rng.integers(1, 33))
    values = rng.choice([math.nan, -math.inf, -1, -0.0, 0.0, 1, 2], (16, 32)).astype(dtype)
    src = Tile(values, valid_rows=rows, valid_cols=cols)
    kind = "i32" if "ARG" in ending else src.dtype
    dst = Tile(kind, 16, 16, rows, 1) if axis == "ROW" else Tile(kind, 1, 32, 1, cols)
    part = src.valid if axis == "ROW" else src.valid.T
    each = [passed([float(v) for v in line], 1 if ending.endswith("MAX") else -1) for line in part]
    wanted = {"nan_dropped": sum(nan for nan, _ in each)}
    if "ARG" in ending:
        wanted["ties"] = sum(ties for _, ties in each)
    found = counted(f"T{axis}{ending}", dst, src, target="cpu")
    assert found == {name: value for name, value in wanted.items() if value}


@pytest.mark.parametrize("dtype", ["int16", "int32"])
@pytest.mark.parametrize("ending", ["SUM", "PROD"])
def test_whole_numbers_that_wrap(dtype: str, ending: str) -> None:
    bounds = np.iinfo(dtype)
    rng = np.random.default_rng(1)
    values = rng.integers(bounds.min // 8, bounds.max // 2, (16, 32), dtype=dtype)
    values[::2] //= bounds.max // 64
    src, dst = Tile(values, valid_cols=9), Tile(dtype, 16, 1, layout="DN")
    exact = [(sum if ending == "SUM" else math.prod)(int(v) for v in line) for line in src.valid]
    wraps = sum(not bounds.min <= value <= bounds.max for value in exact)
    assert 0 < wraps < 16
    assert counted(f"TROW{ending}", dst, src) == {"integer_overflows": wraps}


def test_accumulator_and_final_cast_are_told_apart() -> None:
    values = np.zeros((16, 32), np.float16)
    values[0, :2] = 60000
    values[1, :3] = 60000, 60000, -60000
    values[2, 0] = math.inf
    values[3, :2] = math.inf, -math.inf
    dst = Tile("f16", 16, 1, layout="DN")
    assert counted("TROWSUM", dst, Tile(values)) == {"overflow_in_final_cast": 1, "nan_made": 1}
    across = Tile("f16", 1, 16)
    found = counted("TCOLSUM", across, Tile(np.ascontiguousarray(np.pad(values[:, :16], 0).T)))
    assert found == {"overflow_in_accumulator": 2, "nan_made": 1}
    large = np.zeros((16, 32), np.float32)
    large[4, :2] = 3e38
    assert counted("TROWSUM", Tile("f32", 16, 1, layout="DN"), Tile(large)) == {"overflow_in_accumulator": 1}


def test_expansions() -> None:
    full = np.ones((16, 32), np.float32)
    full[0] = 0
    full[1, :4] = 3e38
    column = np.ones((16, 1), np.float32)
    column[0], column[1], column[2] = 0, 2, math.nan
    dst, a, b = Tile("f32", 16, 32), Tile(full), Tile(column, layout="DN")
    assert counted("TROWEXPANDDIV", dst, a, b) == {"divisions_by_zero": 32, "nan_made": 32}
    assert counted("TROWEXPANDMUL", dst, a, b) == {"overflow_in_operation": 4}
    assert counted("TROWEXPANDMAX", dst, a, b) == {"nan_dropped": 32}
    b.array[0] = -200
    assert counted("TROWEXPANDEXPDIF", dst, a, b) == {"overflow_in_final_cast": 36}
    masked, largest = (
        Tile(np.full((16, 32), -math.inf, np.float32)),
        Tile(np.full((16, 1), -math.inf, np.float32), layout="DN"),
    )
    assert counted("TROWEXPANDEXPDIF", dst, masked, largest) == {"nan_made": 512}
    whole = Tile(np.full((16, 32), 2**31 - 1, np.int32))
    assert counted("TROWEXPANDADD", whole, whole, Tile(np.ones((16, 1), np.int32), layout="DN")) == {
        "integer_overflows": 512
    }


def test_row_numbers_that_an_f16_cannot_hold_are_refused_not_counted() -> None:
    values = np.zeros((4096, 16), np.float16)
    values[2048, 0], values[2049, 1], values[4000, 2] = 1, 1, 1
    src, dst, tmp = Tile(values, valid_rows=4090), Tile("i32", 1, 16), Tile("f16", 1, 256)
    ties = 13 * 4089
    assert counted("TCOLARGMAX", dst, src, target="a5") == {"ties": ties}
    with pytest.raises(LanefoldError, match="not exact in f16"):
        execute("TCOLARGMAX", dst, src, tmp, target="a2a3", count=True)


@pytest.mark.parametrize("name", ["cpu", "a2a3", "a5"])
def test_counters_of_an_op_are_those_of_its_own_windows(name: str) -> None:
    value = np.arange(2 * 3 * 12 * 12, dtype=np.float32).reshape(2, 3, 12, 12)
    value[0, 1, 4, 4] = math.nan
    target = PtoTarget(name)
    machine = target.machine(count=True)
    target.lower(Pool("max", value.shape, (3, 3), (3, 3)), Place()).run(machine, [value])
    assert {key: n for key, n in target.counters(machine).items() if n} == {"nan_dropped": 1}
    machine = target.machine(count=True)
    huge = np.full((4, 600), 3e38, np.float32)
    target.lower(Reduce("add", (4, 600), (1,)), Place()).run(machine, [huge])
    assert target.counters(machine)["overflow_in_accumulator"] == 4


@pytest.mark.parametrize("name", ["cpu", "a2a3", "a5"])
@pytest.mark.parametrize("prefer", ["row", "column"])
def test_windows_that_no_output_reads_are_not_counted(name: str, prefer: str) -> None:
    op = Pool("average", (1, 2, 9, 9), (3, 3), (3, 3))
    value = np.ones(op.input_shape, np.float32)
    # Windows over the end of a row meet both infinities, windows of the pooling never do.
    value[0, :, :, 8], value[0, :, :, 0] = math.inf, -math.inf
    value[0, 1, 4, 3:5] = 3e38
    target = PtoTarget(name)
    machine = target.machine(count=True)
    target.lower(op, Place(), prefer).run(machine, [value])
    assert {key: n for key, n in target.counters(machine).items() if n} == {"overflow_in_accumulator": 1}


@pytest.mark.parametrize("name", ["cpu", "a2a3", "a5"])
def test_placed_maxima_count_their_own_windows(name: str) -> None:
    op = ArgPool((1, 3, 7, 8), (2, 3), (2, 2), pads=(1, 0, 0, 1))
    value = np.random.default_rng(8).choice([math.nan, 0, 1, 2, -1], op.input_shape).astype(np.float32)
    target = PtoTarget(name)
    machine = target.machine(count=True)
    target.lower(op, Place()).run(machine, [value])
    dropped = ties = 0
    for _, c, y, x in np.ndindex(op.output_shape):
        window = value[0, c, max(2 * y - 1, 0) : 2 * y + 1, 2 * x : 2 * x + 3]
        found = passed([float(v) for v in window.reshape(-1)], 1)
        dropped, ties = dropped + found[0], ties + found[1]
    assert {key: n for key, n in target.counters(machine).items() if n} == {"nan_dropped": dropped, "ties": ties}


def test_counters_reach_the_ledger() -> None:
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("MaxPool", ["x"], ["y"], name="m", kernel_shape=[2, 2], strides=[2, 2])],
        "g",
        [value("x", TensorProto.FLOAT, [1, 1, 4, 4])],
        [value("y", TensorProto.FLOAT, [1, 1, 2, 2])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=9)
    assert isinstance(model, onnx.ModelProto)
    program = lf.compile(model, target="a5")
    x = np.ones((1, 1, 4, 4), np.float32)
    x[0, 0, 3, 3] = math.nan
    program.run({"x": x}, count=True)
    assert program.ledger.counted == {"nan_dropped": 1}
    assert "nan dropped 1" in str(program.ledger)


def test_orders_of_addition_are_compared_in_the_report() -> None:
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [
            helper.make_node("ReduceMean", ["x"], ["m"], name="m", axes=[1]),
            helper.make_node("ReduceSum", ["x"], ["s"], name="s", axes=[1]),
            helper.make_node("ReduceMax", ["x"], ["y"], name="y", axes=[1]),
        ],
        "g",
        [value("x", TensorProto.FLOAT, [4, 777])],
        [value(name, TensorProto.FLOAT, [4, 1]) for name in "msy"],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 12)], ir_version=9)
    x = np.random.default_rng(1).normal(size=(4, 777)).astype(np.float32)
    found = {name: lf.compile(model, target="a2a3", numerics=name).run({"x": x}) for name in READINGS}
    program = lf.compile(model, target="a2a3")
    program.run({"x": x}, count=True)
    most = dict.fromkeys(set(READINGS) - {"cpu"}, 0)
    for node in "msy":
        counted = dict(program.ledger.row(node).counted)
        for other in most:
            bits = [made[node].view(np.int32).astype(np.int64) for made in (found["cpu"], found[other])]
            same_sign = np.sign(found["cpu"][node]) == np.sign(found[other][node])
            apart = int(np.abs(bits[0] - bits[1])[same_sign].max())
            assert counted.get(f"largest_ulps_from_{other}", 0) == apart
            most[other] = max(most[other], apart)
    total = program.ledger.counted
    assert {other: total[f"largest_ulps_from_{other}"] for other in most} == most
    assert "largest ulps from a2a3-order" in str(program.ledger)
