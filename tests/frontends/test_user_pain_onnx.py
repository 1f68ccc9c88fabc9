"""What users of other tools met with windows, NaN, ties, axes and precision, row by row, on both instruction sets."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from fake_target import FakeTarget, one_node_model
from onnx import helper, numpy_helper

import lanefold as lf
from lanefold.diagnostics import LanefoldError
from lanefold.frontends.onnx import Plan, Verification, plan_model, verify
from lanefold.targets import target

TPB, PTO = ("trn1", "trn3"), ("cpu", "a2a3", "a5")
EVERY = (*TPB, *PTO)
NAN = np.float32(np.nan)


def reduction(op_type: str, x: np.ndarray, axes: list[int], opset: int = 18, **attributes: Any) -> onnx.ModelProto:
    constants = {"axes": np.asarray(axes, np.int64)}
    rank = x.ndim if attributes.get("keepdims", 1) else x.ndim - len(axes)
    return one_node_model(
        op_type, x.shape, dtype=x.dtype.name, opset=opset, constants=constants, out_rank=rank, **attributes
    )


def search(op_type: str, x: np.ndarray, **attributes: Any) -> onnx.ModelProto:
    model = one_node_model(op_type, x.shape, dtype=x.dtype.name, opset=13, **attributes)
    model.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.INT64
    return model


def top(x: np.ndarray, k: int) -> onnx.ModelProto:
    constants = {"k": np.array([k], np.int64)}
    return one_node_model("TopK", x.shape, dtype=x.dtype.name, opset=13, constants=constants, outputs=("y", "i"))


def ran(model: onnx.ModelProto, x: np.ndarray, name: str, **readings: str) -> tuple[Plan, Verification]:
    plan = plan_model(model, target(name, **readings))
    found = verify(plan.model, plan.program, {"x": x})
    assert found.ok, found.rows
    return plan, found


def counted(plan: Plan) -> dict[str, int]:
    return plan.program.ledger.counted


# 6. Windows and recognisers


def x1(name: str) -> None:
    with pytest.raises(LanefoldError, match="OP-POOL-WINDOW-WIDE") as caught:
        plan_model(one_node_model("MaxPool", (1, 1, 4), kernel_shape=[5]), target(name))
    (finding,) = caught.value.diagnostics
    assert "effective window 5 (kernel 5, dilation 1) is wider than the input 4" in finding.message
    assert finding.place.node == "n"
    assert finding.cures


def scaled_sum(op_type: str, constant: float, *, swapped: bool = False, both: bool = False) -> onnx.ModelProto:
    nodes = [
        helper.make_node("ReduceSum", ["x", "axes"], ["s"], "sum", keepdims=0),
        helper.make_node(op_type, ["c", "s"] if swapped else ["s", "c"], ["y"], "scaled"),
    ]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "g",
        [value("x", 1, [4, 3, 7])],
        [value(each, 1, None) for each in ("y", "s")[: 1 + both]],
        [
            numpy_helper.from_array(np.array([2]), "axes"),
            numpy_helper.from_array(np.array(constant, np.float32), "c"),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def x3(name: str) -> None:
    x = np.random.default_rng(3).standard_normal((4, 3, 7)).astype(np.float32)
    for model in (scaled_sum("Div", 7), scaled_sum("Mul", 1 / 7), scaled_sum("Mul", 1 / 7, swapped=True)):
        plan, found = ran(model, x, name)
        ledger = plan.program.ledger
        assert ledger.counts == {"emitted": 1, "rewritten": 1, "host": 0, "refused": 0}
        assert ledger.row("sum").bundles == 0
        assert "folded into the average that scaled makes of it" in ledger.row("sum").reason
        assert "N = 7" in ledger.row("scaled").reason
        assert "1/N" in ledger.row("scaled").reason
        np.testing.assert_allclose(found.outputs["y"], x.astype(np.float64).mean(2), rtol=1e-5, atol=1e-6)
        assert set(found.causes) <= {"1/N fold", "order of additions"}
    for model in (scaled_sum("Div", 6), scaled_sum("Mul", 0.14), scaled_sum("Mul", 1 / 7, both=True)):
        plan, _ = ran(model, x, name)
        assert plan.program.ledger.row("sum").bundles > 0
        assert plan.program.ledger.row("scaled").disposition == "host"


def x3_refused(name: str) -> None:
    del name
    x = np.random.default_rng(4).standard_normal((4, 3, 7)).astype(np.float32)
    for refused, rows in ((("average",), {"rewritten": 2}), (("average", "add"), {"host": 2})):
        plan = plan_model(scaled_sum("Div", 7), FakeTarget(refused=refused))
        assert {each: n for each, n in plan.program.ledger.counts.items() if n} == rows
        assert verify(plan.model, plan.program, {"x": x}).ok


def x5(name: str) -> None:
    plan = plan_model(one_node_model("AveragePool", (1, 2, 6, 6), kernel_shape=[3, 3]), target(name))
    code: Any = plan.program.leg_steps[0].code
    if name in TPB:
        data = bytearray(code.stream.tobytes())
        data[0x24] = 1  # the function becomes maximum, whose scale must be 1
        machine = lf.tpb.Machine(code.generation)
        before = machine.sbuf.copy()
        with pytest.raises(LanefoldError, match="TPB-POOL"):
            machine.run(lf.tpb.decode(bytes(data), generation=code.generation))
        np.testing.assert_array_equal(machine.sbuf, before)
        return
    result = lf.pto.Tile(np.full((4, 8), 7, np.int32), 4, 8)
    source = lf.pto.Tile(np.ones((4, 8), np.float32), 4, 8)
    with pytest.raises(LanefoldError, match="PTO-"):
        lf.pto.execute("TROWMAX", result, source, source, target=name)
    assert (result.array == 7).all()


# 2. NaN, ties, argmax, top-k


def n1(name: str) -> None:
    x = np.arange(8, dtype=np.float32).reshape(1, 1, 8)
    x[0, 0, 2] = NAN
    plan, found = ran(one_node_model("MaxPool", x.shape, kernel_shape=[4], strides=[4]), x, name)
    assert found.outputs["y"].reshape(-1).tolist() == [3, 7]
    assert counted(plan)["nan_dropped"] == 1
    assert "nan dropped 1" in plan.program.ledger.to_text()


def n3(name: str) -> None:
    results = set()
    for nans in (1, 2):
        row = [1.0, 2.0, 3.0][: 4 - nans] + [np.nan] * nans
        for order in set(itertools.permutations(row)):
            x = np.array([order], np.float32)
            _, found = ran(reduction("ReduceMax", x, [1]), x, name)
            (result,) = found.outputs["y"].reshape(-1).tolist()
            results.add((nans, "nan" if np.isnan(result) else result, np.isnan(order[0])))
    if name in TPB:
        assert {each[:2] for each in results} == {(1, 3.0), (2, 2.0)}
    else:
        # N4: on tiles a NaN in first place stays, whatever follows; the counters tell of the others.
        assert all((result == "nan") == first for _, result, first in results)


def n4(name: str) -> None:
    n3(name)
    x = np.array([[1, NAN, 3], [NAN, 1, 3]], np.float32)
    plan, _ = ran(reduction("ReduceMax", x, [1]), x, name)
    assert counted(plan)["nan_dropped"] == (2 if name in TPB else 1)


def n6(name: str) -> None:
    x = np.array([[4, 9, 9, 1], [7, 7, 7, 7]], np.float32)
    plan, found = ran(search("ArgMax", x, axis=1), x, name)
    assert found.outputs["y"].reshape(-1).tolist() == [1, 0]
    assert counted(plan)["ties"] > 0
    assert plan.program.ledger.row("n").reason.startswith("first max over axis 1")


def n7(name: str) -> None:
    x = np.array([[4, 9, 9, 1], [7, 7, 7, 7]], np.float32)
    plan, found = ran(search("ArgMax", x, axis=1, select_last_index=1), x, name)
    assert found.outputs["y"].reshape(-1).tolist() == [2, 3]
    row = plan.program.ledger.row("n")
    if row.disposition == "host":
        assert "the last of equal values" in row.reason
    else:
        assert row.reason.startswith("last max over axis 1")


def n9(name: str) -> None:
    x = np.zeros((2, 9), np.float32)
    for last in (0, 1):
        plan, found = ran(search("ArgMin", x, axis=1, select_last_index=last), x, name)
        assert found.outputs["y"].reshape(-1).tolist() == [8 * last] * 2
        assert re.search("last" if last else "first", plan.program.ledger.row("n").reason)


def n11(name: str) -> None:
    x = np.array([[5, 1, 5, 5, 2, 1, 5, 0, 5]], np.float32)
    made = [ran(top(x, 4), x, name)[1].outputs for _ in range(2)]
    assert made[0]["i"].tolist() == [[0, 2, 3, 6]]
    np.testing.assert_array_equal(made[0]["i"], made[1]["i"])


def n12(name: str) -> None:
    x = np.tile(np.array([2, 6, 6, 1, 6], np.float32), (64, 1))
    x[::2] = np.roll(x[::2], 2, axis=1)
    _, found = ran(search("ArgMax", x, axis=1), x, name)
    np.testing.assert_array_equal(found.outputs["y"].reshape(-1), x.argmax(1))


def n13(name: str) -> None:
    rng = np.random.default_rng(13)
    for length in (8, 9, 100, 16_384, 16_385, 18_992, 37_984, 50_257):
        x = rng.permutation(length).astype(np.float32).reshape(1, -1)
        _, found = ran(top(x, 8), x, name)
        np.testing.assert_array_equal(found.outputs["i"][0], np.argsort(-x[0])[:8])


def n15(name: str) -> None:
    # Duplicates get successive places, and every key is found.
    x = np.array([[3, 8, 8, 1, 8, 2, 8, 0]], np.float32)
    plan, found = ran(top(x, 5), x, name)
    assert found.outputs["i"].tolist() == [[1, 2, 4, 6, 0]]
    assert counted(plan).get("absent_keys", 0) == 0


# 3. Empty input, axes, overflow, precision


def r1(name: str) -> None:
    x = np.zeros((2, 0), np.float32)
    for op_type, wanted in (("ReduceSum", 0), ("ReduceProd", 1), ("ReduceMax", -np.inf), ("ReduceMin", np.inf)):
        plan = plan_model(reduction(op_type, x, [1], 20), target(name))
        assert plan.program.run({"x": x})["y"].reshape(-1).tolist() == [wanted] * 2
        assert "hold no element to fold" in plan.program.ledger.row("n").reason
    whole = np.zeros((2, 0), np.int32)
    plan = plan_model(reduction("ReduceMax", whole, [1], 20), target(name))
    assert plan.program.run({"x": whole})["y"].reshape(-1).tolist() == [-(2**31)] * 2


def r3(name: str) -> None:
    with pytest.raises(LanefoldError, match="OP-REDUCE-EMPTY") as caught:
        plan_model(search("ArgMax", np.zeros((2, 0), np.float32), axis=1), target(name))
    (finding,) = caught.value.diagnostics
    assert (finding.got, finding.place.node) == ("extent 0 on axis 1", "n")


def r4(name: str) -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    plan, found = ran(reduction("ReduceSum", x, [], noop_with_empty_axes=1), x, name)
    np.testing.assert_array_equal(found.outputs["y"], x)
    assert "nothing is folded" in plan.program.ledger.row("n").reason
    plan, found = ran(reduction("ReduceSum", x, []), x, name)
    assert found.outputs["y"].tolist() == [[15]]
    assert "axes [0, 1]" in plan.program.ledger.row("n").reason


def r6(name: str) -> None:
    high = (1 << 31) - 1
    x = np.array([[high, 1], [5, 6]], np.int32)
    plan, found = ran(reduction("ReduceSum", x, [1]), x, name)
    assert found.outputs["y"].reshape(-1).tolist() == [high if name in TPB else -(1 << 31), 11]
    assert counted(plan)["integer_overflows"] == 1
    if name in TPB:
        _, found = ran(reduction("ReduceSum", x, [1]), x, name, numerics="device")
        assert found.outputs["y"].reshape(-1).tolist() == [-(1 << 31), 11]


def r8(name: str) -> None:
    # No route sums 8-bit integers in 8 bits: they are refused with the types that can.
    with pytest.raises(LanefoldError) as caught:
        lf.reduce(np.full((1, 128), 2, np.int8), "add", axis=1, target=name)
    assert caught.value.diagnostics[0].got == "int8"
    assert "int32" in caught.value.diagnostics[0].allowed
    assert lf.reduce(np.full((1, 128), 2, np.int32), "add", axis=1, target=name).tolist() == [256]


def r9(name: str) -> None:
    x = np.array([[32000] * 4 + [-32000] * 4], np.float16)
    plan, found = ran(reduction("ReduceSum", x, [1]), x, name)
    assert found.outputs["y"].tolist() == [[0]]
    assert not any(each.startswith("overflow") for each in counted(plan))


def r10(name: str) -> None:
    x = np.array([[35000, 35091]], np.float16)
    plan, found = ran(reduction("ReduceSum", x, [1]), x, name)
    assert found.outputs["y"].tolist() == [[np.inf]]
    assert counted(plan)["overflow_in_final_cast"] == 1
    assert "overflow_in_accumulator" not in counted(plan)


def r12(name: str) -> None:
    x = np.array([[60000, 60000, 59968]], np.float16)
    plan, found = ran(reduction("ReduceMean", x, [1]), x, name)
    code = plan.program.leg_steps[0].code
    (result,) = found.outputs["y"].reshape(-1).tolist()
    if code.accumulators == ("float32",):
        assert result == 60000
    else:
        # A sum that is stored between tile operations leaves float16; the counters blame the right step.
        assert result == np.inf
        assert any(each.startswith("overflow") for each in counted(plan))


def r14(name: str) -> None:
    x = (np.random.default_rng(14).standard_normal((4, 64)) * 300).astype(np.float16)
    tiny = (np.random.default_rng(15).standard_normal((4, 64)) * 1e-3).astype(np.float16)
    for value in (x, tiny):
        scale = {"scale": np.ones(64, np.float16)}
        model = one_node_model("LayerNormalization", value.shape, dtype="float16", constants=scale, epsilon=1e-5)
        plan = plan_model(model, target(name))
        got = plan.program.run({"x": value})["y"].astype(np.float64)
        wide = value.astype(np.float64)
        centred = wide - wide.mean(1, keepdims=True)
        wanted = centred / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5)
        np.testing.assert_allclose(got, wanted, rtol=2e-3, atol=2e-3)


def r15(name: str) -> None:
    x = np.array([[1.9297, 1.4844]], ml_dtypes.bfloat16)
    assert x.astype(np.float64).tolist() == [[1.9296875, 1.484375]]
    _, found = ran(reduction("ReduceSum", x, [1]), x, name)
    # 3.4140625 lies half way between 3.40625 and 3.421875; the tie goes to the even one.
    assert float(found.outputs["y"][0, 0]) == 3.40625


def r17(name: str) -> None:
    x = np.random.default_rng(17).integers(0, 1 << 32, (32, 33), np.uint32).view(np.float32)
    x = np.where(np.isfinite(x), x, np.float32(0))
    for op_type in ("ReduceMax", "ReduceMin"):
        for axis in (0, 1):
            _, found = ran(reduction(op_type, x, [axis]), x, name)
            assert np.isin(found.outputs["y"].view(np.uint32), x.view(np.uint32)).all()


def r18(name: str) -> None:
    x = np.ones((2, 8), ml_dtypes.bfloat16)
    x[0, 3] = np.nan
    for op_type in ("ReduceSum", "ReduceMean"):
        _, found = ran(reduction(op_type, x, [1]), x, name)
        assert np.isnan(found.outputs["y"][0, 0])
        assert not np.isinf(found.outputs["y"].astype(np.float32)).any()


def r20(name: str) -> None:
    x = np.random.default_rng(20).standard_normal((37, 41)).astype(np.float32)
    for axis in (0, 1):
        _, found = ran(reduction("ReduceSum", x, [axis], keepdims=0), x, name)
        serial = np.zeros(x.shape[1 - axis], np.float32)
        for part in np.moveaxis(x, axis, 0):
            serial = serial + part
        np.testing.assert_array_equal(found.outputs["y"], serial)


def r21(name: str) -> None:
    x = np.array([[-np.inf] * 4, [1, 2, 3, 4]], np.float32)
    plan, found = ran(one_node_model("Softmax", x.shape, opset=13), x, name)
    assert np.isnan(found.outputs["y"][0]).all()
    assert np.isfinite(found.outputs["y"][1]).all()
    assert counted(plan).get("nan_made", 0) + counted(plan).get("nan_stored", 0) > 0


def r22(name: str) -> None:
    model = one_node_model("ReduceSum", (2, 8), dtype="float16", opset=13)
    code = plan_model(model, target(name)).program.leg_steps[0].code
    assert code.accumulators == (("float32",) if name in TPB else ("float32", "float16"))


def r23(name: str) -> None:
    whole = np.ones((2, 3), np.uint32)
    plan, found = ran(reduction("ReduceSum", whole, [1]), whole, name)
    assert found.outputs["y"].reshape(-1).tolist() == [3, 3]
    assert "uint32 becomes int32 on the host" in plan.program.ledger.row("n").reason
    for dtype in ("int64", "float64"):
        model = reduction("ReduceSum", np.ones((2, 3), dtype), [1])
        row = plan_model(model, target(name)).program.ledger.row("n")
        assert (row.disposition, row.reason) == ("host", f"the leg has no {dtype} numbers")
        with pytest.raises(LanefoldError, match="ONNX-STRICT") as caught:
            plan_model(model, target(name), strict=True)
        assert caught.value.diagnostics[0].cures


def masked(op_type: str, mask: onnx.NodeProto, *before: onnx.NodeProto, hidden: float = 0) -> onnx.ModelProto:
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [*before, mask, helper.make_node(op_type, ["masked"], ["y"], "n")],
        "g",
        [value("x", 1, [2, 8]), value("keep", onnx.TensorProto.BOOL, [2, 8])],
        [value("y", onnx.TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.array(hidden, np.float32), "hidden")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def n17(name: str) -> None:
    where = helper.make_node("Where", ["keep", "x", "hidden"], ["masked"], "mask")
    switch = helper.make_node("Cast", ["keep"], ["switch"], "switch", to=onnx.TensorProto.FLOAT)
    times = helper.make_node("Mul", ["switch", "x"], ["masked"], "mask")
    for op_type in ("ReduceMax", "Softmax"):
        for model in (masked(op_type, where), masked(op_type, times, switch)):
            (finding,) = plan_model(model, target(name)).findings
            assert (finding.code, str(finding.severity), finding.place.node) == ("ONNX-MASK-ZERO-MAX", "warning", "n")
            assert "mask hides elements of masked by 0" in finding.message
            assert "−inf" in finding.cures[0].text
    x = -np.ones((2, 8), np.float32)
    feeds = {"x": x, "keep": np.eye(2, 8, dtype=bool)}
    cured = plan_model(masked("ReduceMax", where, hidden=-np.inf), target(name))
    assert not cured.findings
    np.testing.assert_array_equal(cured.program.run(feeds)["y"], [[-1]])


def n17_meant(name: str) -> None:
    # Cutting off negative elements, and hiding elements that are none, is what 0 is for.
    test = helper.make_node("Greater", ["x", "hidden"], ["positive"], "test")
    cut = helper.make_node("Where", ["positive", "x", "hidden"], ["masked"], "mask")
    relu = helper.make_node("Relu", ["x"], ["r"], "relu")
    hide = helper.make_node("Where", ["keep", "r", "hidden"], ["masked"], "mask")
    for mask, before in ((cut, test), (hide, relu)):
        assert not plan_model(masked("ReduceMax", mask, before), target(name)).findings


ROWS: dict[str, Callable[[str], None]] = {
    "X1": x1,
    "X3": x3,
    "X3-refused": x3_refused,
    "X5": x5,
    "N1": n1,
    "N3": n3,
    "N4": n4,
    "N6": n6,
    "N7": n7,
    "N9": n9,
    "N11": n11,
    "N12": n12,
    "N13": n13,
    "N15": n15,
    "N17": n17,
    "N17-meant": n17_meant,
    "R1": r1,
    "R3": r3,
    "R4": r4,
    "R6": r6,
    "R8": r8,
    "R9": r9,
    "R10": r10,
    "R12": r12,
    "R14": r14,
    "R15": r15,
    "R17": r17,
    "R18": r18,
    "R20": r20,
    "R21": r21,
    "R22": r22,
    "R23": r23,
}
ELSEWHERE = {
    "N16": "MatchReplace8 with given keys is an instruction, tested with the machine",
}


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("row", ROWS)
def test_row(row: str, name: str) -> None:
    ROWS[row](name)


def test_every_published_row_is_tested(reference_data: Path) -> None:
    text = (reference_data / "cases" / "user-pain.md").read_text(encoding="utf-8")
    published = set(re.findall(r"^\| ([NRX]\d+) \|", text, re.MULTILINE))
    assert published == {row.partition("-")[0] for row in ROWS} | set(ELSEWHERE)
