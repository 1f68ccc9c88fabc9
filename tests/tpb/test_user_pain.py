"""What users of other tools met in reductions and searches, row by row, on the machine or by the public call."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import lanefold as lf
from lanefold.diagnostics import LanefoldError, Place
from lanefold.numerics import exploration, kernels
from lanefold.numerics.dtypes import by_name
from lanefold.tpb import Machine
from tests.tpb.test_machine import FLT_MAX, across, at, keys, pool, put, reduce, search, stream, take, tensor, word

READINGS = ("birsim", "device")
DOCS = Path(__file__).parents[2] / "docs"
FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def model(op: str, shape, kind: int = FLOAT, outs=(("y", None),), constants=(), opset: int = 18, **attributes: Any):
    """A model of one node; ``constants`` are further inputs."""
    names = [f"c{i}" for i in range(len(constants))]
    node = helper.make_node(op, ["x", *names], [name for name, _ in outs], name="n", **attributes)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", kind, shape)],
        [helper.make_tensor_value_info(name, kind if other is None else other, None) for name, other in outs],
        [
            numpy_helper.from_array(np.array(value, np.int64), name)
            for name, value in zip(names, constants, strict=True)
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def ran(made: onnx.ModelProto, x: np.ndarray, numerics: str = "birsim"):
    """Outputs and the ledger row of a model of one node, after a run that counts."""
    program = lf.compile(made, target="trn1", numerics=numerics)
    outputs = program.run({"x": x}, count=True)
    return outputs, program.ledger.row("n")


def fold(values, op: int, in_type: str, out_type: str, out, **options):
    """One reduction of a row; results are read as the NumPy type ``out``."""
    row = np.atleast_2d(values)
    machine = Machine("v2", **options)
    put(machine, 0, 0, row)
    count = row.shape[1]
    machine.run(stream(reduce(op, 1, tensor(at(0, 0), (count,), (1,)), tensor(at(0, 4096), (1,), (1,)),
                              in_type=in_type, out_type=out_type)))  # fmt: skip
    return machine, take(machine, 0, 4096, 1, out)[0, 0]


@pytest.mark.parametrize("numerics", READINGS)
def test_n1_nan_of_a_pooling_is_counted(numerics):
    machine = Machine("v2", numerics=numerics, count=True)
    put(machine, 0, 0, np.array([[math.nan, 1.0, 2.0, 3.0, math.nan, math.nan]], np.float32))
    machine.run(stream(pool(1, 1.0, tensor(at(0, 0), (2, 1, 3), (1, 1, 2)), tensor(at(0, 64), (3,), (1,)))))
    assert take(machine, 0, 64, 3, np.float32)[0].tolist() == [
        1.0,
        3.0,
        -FLT_MAX if numerics == "birsim" else -math.inf,
    ]
    assert machine.counters["nan_dropped"] == 3
    assert machine.counters["finite_starts"] == (numerics == "birsim")


@pytest.mark.parametrize("numerics", READINGS)
def test_n1_nan_dropped_reaches_the_ledger(numerics):
    x = np.zeros((1, 1, 4, 4), np.float32)
    x[0, 0, 0, 0] = math.nan
    outputs, row = ran(model("MaxPool", [1, 1, 4, 4], kernel_shape=[2, 2], strides=[2, 2]), x, numerics)
    assert outputs["y"].reshape(-1).tolist() == [0.0] * 4
    assert dict(row.counted)["nan_dropped"] == 1
    assert "nan dropped 1" in row.to_text()


@pytest.mark.parametrize("numerics", READINGS)
@pytest.mark.parametrize("nan", [1, 2, 3])
@pytest.mark.parametrize("op", [8, 9])
def test_n3_n4_nan_counts_and_places_do_not_matter(nan, op, numerics):
    values = [math.nan] * nan + [2.0, -1.0]
    results = set()
    for order in set(itertools.permutations(range(len(values)))):
        row = np.array([values[i] for i in order], np.float32)
        machine, result = fold(row, op, "float32", "float32", np.float32, count=True, numerics=numerics)
        results.add(float(result))
        assert machine.counters["nan_dropped"] == nan
    assert results == {2.0 if op == 8 else -1.0}


@pytest.mark.parametrize("numerics", READINGS)
@pytest.mark.parametrize("place", range(5))
def test_n4_the_place_of_a_nan_changes_no_other_maximum(place, numerics):
    values = np.array([[1, 5, 2, 4, 3]], np.float32)
    values[0, place] = math.nan
    wanted = np.nanmax(values)
    machine = Machine("v2", numerics=numerics, count=True)
    put(machine, 0, 0, values)
    for partition, value in enumerate(values[0]):
        put(machine, partition, 128, np.array([[value]], np.float32))
    words = [
        pool(1, 1.0, tensor(at(0, 0), (5, 1), (1, 1)), tensor(at(0, 64), (1,), (1,))),
        across(2, 0, 0.0, tensor(at(0, 128), (1,), (1,)), tensor(at(0, 68), (1,), (1,)), channels=5),
        across(2, 1, 0.0, tensor(at(0, 128), (1,), (1,)), tensor(at(0, 72), (1,), (1,)), channels=5),
    ]
    machine.run(stream(*words))
    assert take(machine, 0, 64, 3, np.float32)[0].tolist() == [wanted] * 3
    assert machine.counters["nan_dropped"] == 3


@pytest.mark.parametrize("place", range(12))
def test_n4_the_place_of_a_nan_among_the_top_eight(place):
    values = np.arange(12, dtype=np.float32)
    values[place] = math.nan
    words = search(0x6C, tensor(at(0, 0), (12,), (1,)), at(0, 256 + 28), (-1, 0), "float32", "float32", 1)
    for numerics in READINGS:
        machine = Machine("v2", numerics=numerics, count=True)
        put(machine, 0, 0, values[None])
        machine.run(stream(words))
        got = take(machine, 0, 256, 8, np.float32)[0]
        # The simulator lets a NaN keep its slot if it comes among the first eight: the place matters, and is told.
        kept = numerics == "birsim" and place < 8
        assert np.isnan(got).sum() == kept
        assert machine.counters["nan_dropped"] == (not kept)
        numbers = got[~np.isnan(got)]
        assert np.array_equal(numbers, np.sort(values[~np.isnan(values)])[::-1][: len(numbers)])


def top_eight(values):
    machine = Machine("v2")
    put(machine, 0, 0, np.atleast_2d(values))
    src = tensor(at(0, 0), (np.size(values),), (1,))
    machine.run(
        stream(
            search(0x6C, src, at(0, 8192 + 28), (-1, 0), "float32", "float32", 1),
            keys(at(0, 8192 + 28), -1, "float32", 1),
            search(0x6E, src, at(0, 8192 + 64), (1, 1), "float32", "uint32", 1),
        )
    )
    return take(machine, 0, 8192, 8, np.float32)[0].tolist(), take(machine, 0, 8192 + 64, 8, np.uint32)[0].tolist()


def test_n6_n11_equal_values_keep_their_order():
    values, places = top_eight(np.array([1, 7, 7, 3, 7, 1, 1, 0, 2, 5], np.float32))
    assert values == [7, 7, 7, 5, 3, 2, 1, 1]
    assert places == [1, 2, 4, 9, 3, 8, 0, 5]


@pytest.mark.parametrize("numerics", READINGS)
def test_n6_ties_of_an_argmax_are_counted(numerics):
    x = np.array([[1, 5, 2, 5, 5, 0, 1, 2, 3, 4], [9, 0, 0, 0, 0, 0, 0, 0, 0, 0]], np.float32)
    outputs, row = ran(model("ArgMax", [2, 10], outs=(("y", INT64),), axis=1, keepdims=0), x, numerics)
    assert outputs["y"].tolist() == [1, 0]
    # Row 0: 5 three times, 2 and 1 twice each, among the eight taken or equal to one of them; row 1: nine zeros.
    assert dict(row.counted)["ties"] == 4 + 8
    assert "first max over axis 1" in row.to_text()


def test_n7_the_last_index_is_taken_where_it_is_asked_for():
    x = np.array([[1, 5, 2, 5, 5, 0, 1], [3, 3, 3, 3, 3, 3, 3]], np.float32)
    made = model("ArgMax", [2, 7], outs=(("y", INT64),), axis=1, keepdims=0, select_last_index=1)
    outputs, row = ran(made, x)
    assert outputs["y"].tolist() == [4, 6]
    assert "the last of equal values by a reversed pattern" in row.to_text()
    for numerics in READINGS:
        assert lf.argmax(x, 1, select_last_index=True, numerics=numerics).tolist() == [4, 6]
        assert lf.argmax(x, 1, numerics=numerics).tolist() == [1, 0]


def test_n9_ties_and_index_types_of_every_target_are_documented():
    text = (DOCS / "machine.md").read_text(encoding="utf-8")
    for target in ("trn1", "trn2", "trn3", "cpu", "a2a3", "a5"):
        assert f"`{target}`" in text
    x = np.array([[2, 2, 1]], np.float32)
    for target in ("trn1", "trn2", "trn3", "cpu", "a2a3", "a5"):
        found = lf.argmax(x, 1, target=target)
        assert (found.tolist(), found.dtype.name) == ([0], "uint32")
        if target.startswith("trn"):
            assert lf.argmax(x, 1, select_last_index=True, target=target).tolist() == [1]
        else:
            with pytest.raises(LanefoldError, match="PTO-LOWER-LAST"):
                lf.argmax(x, 1, select_last_index=True, target=target)


@pytest.mark.parametrize("numerics", READINGS)
def test_n11_top_k_of_equal_values_is_stable(numerics):
    x = np.random.default_rng(11).integers(0, 4, (5, 300)).astype(np.float32)
    values, places = lf.topk(x, 20, numerics=numerics)
    order = np.argsort(-x, axis=1, kind="stable")[:, :20]
    assert np.array_equal(places, order)
    assert np.array_equal(values, np.take_along_axis(x, order, 1))
    smallest, places = lf.topk(x, 20, largest=False, numerics=numerics)
    order = np.argsort(x, axis=1, kind="stable")[:, :20]
    assert np.array_equal(places, order)
    assert np.array_equal(smallest, np.take_along_axis(x, order, 1))


def test_n12_every_row_takes_the_lower_index():
    x = np.tile(np.array([0, 3, 1, 3], np.float32), (130, 5))
    assert lf.argmax(x, 1).tolist() == [1] * 130
    assert lf.argmax(x, 1, select_last_index=True).tolist() == [19] * 130


@pytest.mark.parametrize(
    "length", [*range(1, 20), 31, 255, 256, 257, 1000, 4097, 16383, 16384, 16385, 18992, 32768, 37984, 49151, 50257]
)
def test_n13_top_k_and_argmax_of_any_length(length):
    x = np.random.default_rng(length).permutation(length).astype(np.float32)[None]
    assert lf.argmax(x, 1).tolist() == [int(x.argmax())]
    wanted = min(length, 11)
    values, places = lf.topk(x, wanted)
    order = np.argsort(-x, axis=1, kind="stable")[:, :wanted]
    assert np.array_equal(places, order)
    assert np.array_equal(values, np.take_along_axis(x, order, 1))


def test_n13_the_split_of_long_rows_is_told():
    made = model("TopK", [2, 18992], outs=(("v", None), ("i", INT64)), constants=([3],))
    row = lf.compile(made, target="trn1").ledger.row("n")
    assert "rows of 18992 elements in 2 chunks of at most 9496" in row.reason


def test_n15_successive_matches_and_all_ones():
    values = np.array([5, 8, 8, 1, 8], np.float32)
    wanted = np.array([[8, 8, 8, 8, 3, 5, 1, 1]], np.float32)
    access = kernels.Access(np.pad(values, (0, 1)).view(np.uint8)[None], by_name("float32"), 0, 1, 0, (5,), (1,))
    absent = 2**32 - 1
    assert kernels.find_index8(access, wanted, absent).tolist() == [[1, 2, 4, absent, absent, 0, 3, absent]]


@pytest.mark.parametrize("numerics", READINGS)
def test_n15_keys_without_an_element_are_counted(numerics):
    machine = Machine("v2", numerics=numerics, count=True)
    put(machine, 0, 0, np.array([[5, 8, 8, 1, 8, 0, 0, 0, 0]], np.float32))
    put(machine, 0, 64, np.array([[8, 8, 8, 8, 3, 5, 1, math.nan]], np.float32))
    src = tensor(at(0, 0), (9,), (1,))
    words = [keys(at(0, 64 + 28), -1, "float32", 1), search(0x6E, src, at(0, 128), (1, 1), "float32", "uint32", 1)]
    machine.run(stream(*words))
    absent = 2**32 - 1
    assert take(machine, 0, 128, 8, np.uint32)[0].tolist() == [1, 2, 4, absent, absent, 0, 3, absent]
    assert machine.counters["absent_keys"] == 3


def test_n16_the_last_of_equal_keys_is_served_first():
    values = np.array([[1, 2, 3, 4, 8, 8, 8, 8, 8, 8, 8, 0]], np.float32)
    access = kernels.Access(values.view(np.uint8), by_name("float32"), 0, 1, 0, (11,), (1,))
    wanted = np.array([[3, 8, 8, 8, 8, 8, 8, 8]], np.float32)
    replaced, places = kernels.match_replace8(access, wanted[:, ::-1], -1.0)
    assert places[0, ::-1].tolist() == [2, 10, 9, 8, 7, 6, 5, 4]
    assert replaced[0].tolist() == [1, 2, -1, 4, -1, -1, -1, -1, -1, -1, -1]


@pytest.mark.parametrize(("match_order", "left"), [("register", 7), ("value", 7)])
def test_n16_both_orders_replace_the_same_elements(match_order, left):
    machine = Machine("v2", match_order=match_order, count=True)
    put(machine, 0, 0, np.array([[1, 2, 3, 4, 8, 8, 8, 8, 8, 8, 8]], np.float32))
    put(machine, 0, 64, np.array([[3, 8, 8, 8, 8, 8, 8, 8]], np.float32))
    replace = bytes(5) + np.float32(0).tobytes()
    words = word(0x6F, tensor(at(0, 0), (11,), (1,)), replace, tensor(at(0, 128), (11,), (1,)))
    machine.run(stream(keys(at(0, 64), 1, "float32", 1), words))
    assert take(machine, 0, 128, 11, np.float32)[0].tolist() == [1, 2, 0, 4, *[0] * left]
    assert machine.counters["absent_keys"] == 0


@pytest.mark.parametrize("numerics", READINGS)
def test_n17_cells_masked_with_minus_infinity_lose_every_maximum(numerics):
    row = np.array([-3.0, -math.inf, -1.0, -math.inf], np.float32)
    assert fold(row, 8, "float32", "float32", np.float32, numerics=numerics)[1] == -1.0
    # Masked with 0.0 the mask itself would win.
    assert fold(np.where(np.isinf(row), np.float32(0), row), 8, "float32", "float32", np.float32)[1] == 0.0


@pytest.mark.parametrize(
    ("op", "value"), [("ReduceSum", "0"), ("ReduceProd", "1"), ("ReduceMax", "-inf"), ("ReduceMin", "inf")]
)
def test_r1_the_identity_of_an_empty_reduction(op, value):
    program = lf.compile(model(op, [2, 0]), target="trn1")
    assert f"is {value}" in program.ledger.row("n").reason
    assert program.run({"x": np.empty((2, 0), np.float32)})["y"].tolist() == [[float(value)]]


@pytest.mark.parametrize(("op", "dtype", "value"), [("add", "float32", "0"), ("max", "int32", str(-(2**31)))])
def test_r1_a_call_without_elements_names_the_identity(op, dtype, value):
    with pytest.raises(LanefoldError) as caught:
        lf.reduce(np.empty((2, 0), dtype), op, axis=-1)
    finding = caught.value.diagnostics[0]
    assert finding.code == "ARRAY-EMPTY"
    assert f"the identity of {op} in {dtype} is {value}" in str(finding.cures[-1])


def test_r3_an_empty_axis_of_an_argmax_is_named():
    with pytest.raises(LanefoldError) as caught:
        lf.argmax(np.empty((2, 0), np.float32), 1)
    assert caught.value.diagnostics[0].code == "ARRAY-EMPTY"
    assert "[2, 0]" in caught.value.diagnostics[0].message
    with pytest.raises(LanefoldError) as caught:
        lf.compile(model("ArgMax", [2, 0], outs=(("y", INT64),), axis=1), target="trn1")
    finding = caught.value.diagnostics[0]
    assert finding.code == "OP-REDUCE-EMPTY"
    assert "axis 1 of [2, 0] holds no element" in finding.message


@pytest.mark.parametrize("noop", [0, 1])
def test_r4_empty_axes_are_resolved_and_told(noop):
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    program = lf.compile(model("ReduceSum", [2, 3], noop_with_empty_axes=noop), target="trn1")
    result = program.run({"x": x})["y"]
    assert result.tolist() == (x.tolist() if noop else [[15.0]])
    reason = program.ledger.row("n").reason
    assert ("nothing is folded" if noop else "axes [0, 1]") in reason


def test_r6_a_sum_that_overflows_reaches_the_ledger():
    x = np.array([[2**31 - 1, 1, 0, 0]], np.int32)
    for numerics, total in (("birsim", 2**31 - 1), ("device", -(2**31))):
        outputs, row = ran(model("ReduceSum", [1, 4], TensorProto.INT32, keepdims=0, constants=([1],)), x, numerics)
        assert outputs["y"].tolist() == [total]
        assert dict(row.counted)["integer_overflows"] == 1
        assert lf.reduce(x, "add", axis=1, numerics=numerics).tolist() == [total]


def test_r6_integer_overflow_is_counted_in_both_readings():
    row = np.array([2**31 - 1, 1], np.int32)
    for numerics, want in (("birsim", 2**31 - 1), ("device", -(2**31))):
        machine, result = fold(row, 4, "int32", "int32", np.int32, numerics=numerics, count=True)
        assert result == want
        assert machine.counters["integer_overflows"] == 1


def test_r8_a_sum_too_large_for_int8_saturates():
    machine, result = fold(np.full(128, 2, np.int8), 4, "int8", "int8", np.int8, count=True)
    assert result == 127
    assert machine.counters["saturated"] == 1


@pytest.mark.parametrize("numerics", READINGS)
def test_r9_half_inputs_are_summed_in_float32(numerics):
    row = np.array([32000] * 4 + [-32000] * 4, np.float16)
    machine, result = fold(row, 4, "float16", "float16", np.float16, count=True, numerics=numerics)
    assert result == 0.0
    assert machine.counters["overflow_in_accumulator"] == machine.counters["overflow_in_final_cast"] == 0
    assert lf.reduce(row, "add", numerics=numerics) == 0.0


@pytest.mark.parametrize("numerics", READINGS)
def test_r10_overflow_of_the_cast_and_of_the_accumulator_are_told_apart(numerics):
    row = np.array([35045.5] * 2, np.float16)
    total = float(row.astype(np.float64).sum())
    machine, result = fold(row, 4, "float16", "float16", np.float16, count=True, numerics=numerics)
    assert np.isinf(result)
    assert (machine.counters["overflow_in_final_cast"], machine.counters["overflow_in_accumulator"]) == (1, 0)
    machine, result = fold(row, 4, "float16", "float32", np.float32, count=True, numerics=numerics)
    assert result == total
    assert (machine.counters["overflow_in_final_cast"], machine.counters["overflow_in_accumulator"]) == (0, 0)
    row = np.array([3e38, 3e38, -3e38], np.float32)
    machine, result = fold(row, 4, "float32", "bfloat16", ml_dtypes.bfloat16, count=True, numerics=numerics)
    assert np.isinf(result.astype(np.float32))
    assert (machine.counters["overflow_in_final_cast"], machine.counters["overflow_in_accumulator"]) == (0, 1)


@pytest.mark.parametrize("out_type", ["float16", "bfloat16", "float8e5"])
def test_r10_the_edge_of_a_narrow_type(out_type):
    largest = by_name(out_type).largest
    step = 2.0 ** (math.floor(math.log2(largest)) - by_name(out_type).mantissa)
    for value, overflows in ((largest, 0), (np.nextafter(np.float32(largest + step / 2), np.float32(0)), 0),
                             (largest + step / 2, 1), (math.inf, 0)):  # fmt: skip
        machine = fold(np.array([value, 0], np.float32), 4, "float32", out_type, np.uint8, count=True,
                       fp8_overflow="infinity")[0]  # fmt: skip
        assert machine.counters["overflow_in_final_cast"] == overflows, value


def test_r10_an_overflow_of_the_cast_reaches_the_ledger():
    x = np.full((1, 4), 60000, np.float16)
    outputs, row = ran(model("ReduceSum", [1, 4], TensorProto.FLOAT16, keepdims=0, constants=([1],)), x)
    assert np.isinf(outputs["y"]).all()
    assert dict(row.counted)["overflow_in_final_cast"] == 1


@pytest.mark.parametrize("numerics", READINGS)
def test_r12_a_half_mean_does_not_overflow_in_either_order(numerics):
    x = np.full((1, 4096), 1000, np.float16)
    outputs, row = ran(model("ReduceMean", [1, 4096], TensorProto.FLOAT16, keepdims=0, constants=([1],)), x, numerics)
    assert outputs["y"].tolist() == [1000.0]
    assert not {name for name, _ in row.counted if name.startswith("overflow")}
    # Pool multiplies the sum, the cross-lane path every element: both orders can be had, and have their price.
    tall = np.full((64, 64), 60000, np.float16)
    costs = {}
    for prefer in ("free-axis", "cross-lane"):
        op = lf.ops.Reduce("average", (64, 64), (0,), False, dtype="float16")
        code = lf.targets.target("trn1", numerics=numerics).lower(op, Place(node="n"), prefer=prefer)
        costs[code.opcodes] = sum(each.low for each in code.cost())
        assert lf.reduce(tall, "average", axis=0, prefer=prefer, numerics=numerics).tolist() == [60000.0] * 64
    assert len(costs) == 2
    assert all(costs.values())


def test_r14_half_squares_are_summed_in_float32():
    x = np.full((1, 64), 200, np.float16)
    assert fold(x, 4, "float16", "float32", np.float32)[1] == 12800.0
    tiny = np.full((1, 4), 2.0**-24, np.float16)
    assert fold(tiny, 4, "float16", "float32", np.float32)[1] == 2.0**-22


def test_r15_ties_go_to_even_in_bfloat16():
    row = np.array([1.9297, 1.4844], ml_dtypes.bfloat16)
    assert fold(row, 4, "bfloat16", "bfloat16", ml_dtypes.bfloat16)[1] == ml_dtypes.bfloat16(3.40625)


@pytest.mark.parametrize("numerics", READINGS)
@pytest.mark.parametrize("count", [3, 40, 1000])
def test_r17_a_maximum_is_an_element(count, numerics):
    rng = np.random.default_rng(count)
    row = (rng.standard_normal(count) * 10.0 ** rng.integers(-30, 30, count)).astype(np.float32)
    for op, best in ((8, row.max()), (9, row.min())):
        machine, result = fold(row, op, "float32", "float32", np.float32, numerics=numerics, count=True)
        assert result in row
        assert result == best
        assert machine.counters["foreign_extremes"] == 0
    assert set(lf.topk(row[None], min(count, 9), numerics=numerics)[0][0]) <= set(row)
    maps = row[: count // 3 * 3].reshape(1, 1, 3, -1)
    assert set(lf.pool2d(maps, (2, 1), numerics=numerics).reshape(-1)) <= set(row)
    assert lf.reduce(maps, "max", prefer="cross-lane", numerics=numerics) in row


def test_r17_the_machine_finds_a_maximum_that_is_no_element(monkeypatch):
    cut = kernels.fold

    def broken(*given: Any, **how: Any) -> Any:
        return (cut(*given, **how).view(np.uint32) & 0xFFFFF000).view(np.float32)

    monkeypatch.setattr(kernels, "fold", broken)
    machine, _ = fold(np.array([1.1, 2.3], np.float32), 8, "float32", "float32", np.float32, count=True)
    assert machine.counters["foreign_extremes"] == 1


SPECIAL = {
    "float32": np.float32,
    "bfloat16": ml_dtypes.bfloat16,
    "float16": np.float16,
    "float8e3": ml_dtypes.float8_e3m4,
    "float8e4": ml_dtypes.float8_e4m3,
    "float8e5": ml_dtypes.float8_e5m2,
}


@pytest.mark.parametrize("name", SPECIAL)
@pytest.mark.parametrize("numerics", READINGS)
def test_r18_special_values_of_every_type(name, numerics):
    kind = SPECIAL[name]
    for row, wanted in (
        ([1, math.nan, 2], math.nan),
        ([math.inf, 1], math.inf),
        ([-math.inf, 1], -math.inf),
        ([math.inf, -math.inf], math.nan),
        ([-0.0, -0.0], -0.0),
    ):
        for out in {name, "float32"}:
            # 8-bit floats are clamped unless infinities are asked for.
            machine, result = fold(np.array(row, kind), 4, name, out, SPECIAL[out], numerics=numerics, count=True,
                                   fp8_overflow="infinity")  # fmt: skip
            got = float(result)
            assert (math.isnan(got) and math.isnan(wanted)) or got == wanted, (row, out)
            assert math.isnan(wanted) or math.copysign(1, got) == math.copysign(1, wanted)
            assert machine.counters["nan_stored"] == math.isnan(wanted)


def test_r20_the_order_of_a_sum_is_the_documented_one():
    row = np.array([1e8, 1, -1e8, 1], np.float32)
    assert fold(row, 4, "float32", "float32", np.float32)[1] == 1.0
    machine = Machine("v2")
    put(machine, 0, 0, row[None])
    backwards = reduce(4, 1, tensor(at(0, 12), (4,), (-1,)), tensor(at(0, 4096), (1,), (1,)))
    machine.run(stream(backwards))
    assert take(machine, 0, 4096, 1, np.float32)[0, 0] == 0.0


@pytest.mark.parametrize("numerics", READINGS)
def test_r20_the_layout_does_not_change_the_order(numerics):
    values = (np.random.default_rng(20).standard_normal((6, 50)) * 1e4).astype(np.float32)
    serial = np.add.accumulate(values, axis=1)[:, -1]
    assert np.array_equal(lf.reduce(values, "add", axis=1, prefer="free-axis", numerics=numerics), serial)
    columns = np.ascontiguousarray(values.T)
    assert np.array_equal(lf.reduce(columns, "add", axis=0, prefer="cross-lane", numerics=numerics), serial)
    assert np.array_equal(lf.reduce(columns, "add", axis=0, prefer="free-axis", numerics=numerics), serial)


def test_r20_the_orders_of_every_datapath_are_documented():
    text = (DOCS / "machine.md").read_text(encoding="utf-8")
    assert "## Orders" in text
    for name in ("Pool", "TensorReduce", "CrossLaneReduce"):
        assert name in text[text.index("## Orders") :]


@pytest.mark.parametrize("numerics", READINGS)
def test_r21_a_fully_masked_row(numerics):
    row = np.full(6, -math.inf, np.float32)
    machine, result = fold(row, 8, "float32", "float32", np.float32, numerics=numerics, count=True)
    assert result == -math.inf
    machine = Machine("v2", numerics=numerics, count=True)
    put(machine, 0, 0, row[None])
    machine.run(stream(pool(1, 1.0, tensor(at(0, 0), (6, 1), (1, 1)), tensor(at(0, 64), (1,), (1,)))))
    # A pooled maximum of nothing starts at the least finite value in the simulator, and that is told.
    assert take(machine, 0, 64, 1, np.float32)[0, 0] == (-FLT_MAX if numerics == "birsim" else -math.inf)
    assert machine.counters["finite_starts"] == (numerics == "birsim")


def test_r22_accumulators_can_be_compared():
    row = np.array([32000] * 4 + [-32000] * 4, np.float16)
    assert exploration.fold(row, "add", "float16") == math.inf
    assert exploration.fold(row, "add", "float32") == 0.0
    values = np.random.default_rng(22).standard_normal((7, 300)).astype(np.float16)
    assert np.array_equal(exploration.fold(values, "add", "float16"), np.add.accumulate(values, axis=1)[:, -1])
    brain = values.astype(ml_dtypes.bfloat16)
    serial = brain[:, 0]
    for k in range(1, 300):
        serial = serial + brain[:, k]
    assert np.array_equal(exploration.fold(brain, "add", "bfloat16"), serial.astype(np.float32))
    machine = lf.reduce(values[0], "add")
    assert machine == exploration.fold(values[0]).astype(np.float16)
    assert "float64" not in exploration.accumulators()


@pytest.mark.parametrize(("operator", "accumulator"), [("average", "float32"), ("add", "int32"), ("add", "float64")])
def test_r22_other_accumulators_are_refused(operator, accumulator):
    with pytest.raises(LanefoldError) as caught:
        exploration.fold([1.0, 2.0], operator, accumulator)
    finding = caught.value.diagnostics[0]
    assert finding.code.startswith("EXPLORE-")
    fixed = {"operator": operator, "accumulator": accumulator} | dict(finding.cures[0].changes)
    assert exploration.fold([1.0, 2.0], **fixed) == 3.0


@pytest.mark.parametrize(
    ("dtype", "cast"), [("bool", "numpy.uint8"), ("uint64", "numpy.uint32"), ("int64", "numpy.int32")]
)
def test_r23_types_without_a_sum_are_refused_at_the_door(dtype, cast):
    with pytest.raises(LanefoldError) as caught:
        lf.reduce(np.ones((2, 3), dtype), "add", axis=1)
    finding = caught.value.diagnostics[0]
    assert finding.code == "ARRAY-DTYPE"
    assert "float32" in finding.allowed
    assert cast in str(finding.cures[0])


def test_r23_whole_numbers_beyond_2_to_the_24_are_told():
    row = np.array([2**24 + 1, 1, 1, 1], np.uint32)
    machine, result = fold(row, 4, "uint32", "float32", np.float32, count=True)
    assert result == 2.0**24
    assert machine.counters["rounded_integers"] == 1
    assert machine.counters["widened_sums"] == 1
