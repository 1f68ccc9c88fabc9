"""Softmaxes and normalisations on every kind of target, against float64 formulas and onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest
from composites import CASES, ROUNDING, Case, feeds_of, model_of, softmax, takes, wanted
from onnx import TensorProto, helper, numpy_helper

import lanefold as lf
from lanefold.diagnostics import LanefoldError
from lanefold.frontends.onnx import plan_model, verify
from lanefold.frontends.onnx.routes import node_routes
from lanefold.targets import target

TARGETS = ("trn1", "trn3", "cpu", "a2a3")


def close(got: np.ndarray, right: np.ndarray, dtype: str) -> None:
    scale = np.abs(right[np.isfinite(right)]).max(initial=0)
    with np.errstate(over="ignore"):
        np.testing.assert_allclose(got.astype(np.float64), right, rtol=ROUNDING[dtype], atol=ROUNDING[dtype] * scale)


def case_of(op_type: str, opset: int = 0) -> Case:
    return next(case for case in CASES if case.op_type == op_type and opset in (0, case.opset))


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_composite_agrees_with_its_formula_and_onnxruntime(case: Case, name: str) -> None:
    feeds = feeds_of(case, "float32")
    plan = plan_model(model_of(case, "float32"), target(name))
    result = verify(plan.model, plan.program, feeds)
    assert result.ok, [row for row in result.rows if not row.ok]
    for output, right in wanted(case, feeds).items():
        close(result.outputs[output], right, "float32")
    assert plan.program.leg_steps
    assert not [each for each in plan.program.check() if each.severity == "error"]


@pytest.mark.parametrize("name", ["trn1", "a2a3"])
@pytest.mark.parametrize(
    ("case", "dtype"),
    [(case, dtype) for case in CASES for dtype in ("float16", "bfloat16") if takes(case, dtype)],
    ids=str,
)
def test_narrow_types_are_computed_in_float32_and_rounded_once(case: Case, dtype: str, name: str) -> None:
    feeds = feeds_of(case, dtype)
    program = lf.compile(model_of(case, dtype), target=name)
    results = program.run(feeds)
    for place, (output, right) in enumerate(wanted(case, feeds).items()):
        kind = dtype if not place and case.outputs[0] else "float32"
        assert results[output].dtype.name == kind
        close(results[output], right, kind)
    assert program.leg_steps
    if case.op_type != "Hardmax":
        assert {step.op.dtype for step in program.leg_steps} == {"float32"}


@pytest.mark.parametrize("name", ["trn1", "a2a3"])
@pytest.mark.parametrize("op_type", ["LayerNormalization", "RMSNormalization", "InstanceNormalization"])
def test_r14_norms_of_large_float16_values_stay_finite(op_type: str, name: str) -> None:
    """Squares of 20,000 are far beyond float16, and so is a sum of 10 of them."""
    case = case_of(op_type)
    feeds = feeds_of(case, "float16", scale=20_000 / 3)
    result = lf.compile(model_of(case, "float16"), target=name).run(feeds)["y"]
    assert np.isfinite(result).all()
    close(result, wanted(case, feeds)["y"], "float16")


@pytest.mark.parametrize("name", TARGETS)
def test_r14_a_small_epsilon_does_not_vanish(name: str) -> None:
    case = Case("RMSNormalization", 23, {"x": (2, 3, 10), "scale": (10,)}, None, {"epsilon": 1e-12})
    feeds = {"x": np.zeros((2, 3, 10), np.float16), "scale": np.ones(10, np.float16)}
    np.testing.assert_array_equal(lf.compile(model_of(case, "float16"), target=name).run(feeds)["y"], 0)


STEPS = {
    ("Softmax", "trn1"): ["largest max leg", "powers/sub Sub", "powers Exp", "total add leg", "quotient/inverse leg"],
    ("LogSoftmax", "a2a3"): ["largest max leg", "powers Exp", "total add leg", "logs Log"],
    ("LayerNormalization", "trn1"): ["mean average leg", "centred Sub", "variance average leg", "deviation Sqrt"],
    ("RMSNormalization", "a2a3"): ["squares/square Mul", "squares/fold average leg", "deviation Sqrt"],
    ("Hardmax", "trn1"): ["search index leg", "found Cast", "hits Equal", "ones Cast"],
    ("LpNormalization", "trn3"): ["squares add leg", "root Sqrt", "divisor Add", "quotient/inverse leg"],
}


@pytest.mark.parametrize(("op_type", "name"), STEPS)
def test_the_ledger_shows_every_step(op_type: str, name: str) -> None:
    row = lf.compile(model_of(case_of(op_type), "float32"), target=name).ledger.row("n")
    assert row.disposition == "rewritten"
    said = iter(row.steps)
    for step in STEPS[op_type, name]:
        piece, *words = step.split()
        found = next(text for text in said if text.startswith(f"n/{piece}: "))
        assert ("on the host" in found) == (words[-1] != "leg")
        assert all(word in found for word in words if word != "leg")


@pytest.mark.parametrize("name", TARGETS)
def test_r21_a_row_of_minus_infinity_gives_nan_as_onnxruntime_does(name: str) -> None:
    case = Case("Softmax", 13, {"x": (3, 4)}, softmax)
    x = np.array([[-np.inf] * 4, [1, -np.inf, 2, 3], [np.nan, 1, 2, 3]], np.float32)
    result = lf.compile(model_of(case, "float32"), target=name).run({"x": x})["y"]
    np.testing.assert_array_equal(np.isnan(result), [[True] * 4, [False] * 4, [True] * 4])
    close(result[1], softmax(x[1:2].astype(np.float64))[0], "float32")


def masked(op_type: str, mask: np.ndarray, second: float = 0.0):
    """A softmax over the sum or the choice of an input and a constant mask."""
    value = helper.make_tensor_value_info
    constants = [numpy_helper.from_array(mask, "mask")]
    inputs = ["x", "mask"]
    if op_type == "Where":
        constants.append(numpy_helper.from_array(np.array(second, np.float32), "low"))
        inputs = ["mask", "x", "low"]
    nodes = [helper.make_node(op_type, inputs, ["m"], name="mask"), helper.make_node("Softmax", ["m"], ["y"], name="n")]
    kinds = [value("x", TensorProto.FLOAT, [2, 3])], [value("y", TensorProto.FLOAT, [2, 3])]
    graph = helper.make_graph(nodes, "masked", *kinds, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


LOW = np.float32(-np.inf)


@pytest.mark.parametrize(
    "made",
    [
        masked("Add", np.array([[0, 0, LOW], [LOW, LOW, LOW]], np.float32)),
        masked("Where", np.array([[True, True, False], [False] * 3]), LOW),
    ],
    ids=["Add", "Where"],
)
def test_r21_a_mask_that_hides_a_whole_row_is_found_before_anything_runs(made) -> None:
    (finding,) = plan_model(made, target("trn1")).findings
    assert (finding.code, str(finding.severity), finding.place.node) == ("ONNX-MASKED-ROW", "warning", "n")
    assert finding.message == (
        "mask leaves 1 of 2 rows of n nothing but −inf; their maximum is −inf, and −inf less −inf is NaN"
    )
    assert "-3.4028235e+38" in finding.cures[0].text


@pytest.mark.parametrize(
    "made",
    [
        masked("Add", np.array([[0, 0, LOW], [LOW, LOW, 0]], np.float32)),
        masked("Add", np.full((2, 3), np.finfo(np.float32).min, np.float32)),
        masked("Where", np.array([[True, True, False], [False] * 3]), np.finfo(np.float32).min),
    ],
    ids=["one left", "cured Add", "cured Where"],
)
def test_masks_that_leave_a_number_are_fine(made) -> None:
    assert plan_model(made, target("trn1")).findings == ()


@pytest.mark.parametrize("name", ["trn1", "cpu"])
def test_constant_scale_and_bias(name: str) -> None:
    case = case_of("LayerNormalization")
    feeds = feeds_of(case, "float32")
    program = lf.compile(model_of(case, "float32", ("scale", "bias")), target=name)
    right = case.formula(feeds["x"].astype(np.float64), np.ones(10), np.ones(10))
    for output, value in zip(case.outputs, right, strict=True):
        close(program.run({"x": feeds["x"]})[output], value, "float32")


HOST = (
    (Case("Softmax", 6, {"x": (2, 3)}, None), "operator set 6 cannot subtract a row's maximum"),
    (Case("LpNormalization", 22, {"x": (2, 3)}, None, {"p": 3}), "p = 3; the leg sums magnitudes"),
    (
        Case("LayerNormalization", 17, {"x": (2, 3), "scale": (3,)}, None, {"stash_type": 16}),
        "stash_type 16 asks for another type than float32",
    ),
    (Case("InstanceNormalization", 6, {"x": (2, 3, 4), "s": (3,), "b": (3,)}, None), "operator set 6 cannot subtract"),
)


@pytest.mark.parametrize(("case", "reason"), HOST, ids=[case.op_type for case, _ in HOST])
def test_what_stays_on_the_host_says_why_and_is_refused_by_strict(case: Case, reason: str) -> None:
    made = model_of(case, "float32")
    row = lf.compile(made, target="trn1").ledger.row("n")
    assert row.disposition == "host"
    assert reason in row.reason
    with pytest.raises(LanefoldError) as caught:
        plan_model(made, target("trn1"), strict=True)
    assert caught.value.diagnostics[0].code == "ONNX-STRICT"


@pytest.mark.parametrize("name", ["trn1", "a2a3"])
def test_strict_takes_composites(name: str) -> None:
    plan = plan_model(model_of(case_of("LayerNormalization"), "float32"), target(name), strict=True)
    assert plan.program.leg_steps


def test_routes_of_a_composite_name_what_stands_for_a_refused_step() -> None:
    plan = plan_model(model_of(case_of("Softmax"), "float32"), target("trn1"))
    found = node_routes(plan.model, "n", target("trn1"))
    told = dict(found.pieces)
    assert list(told) == ["n", "n/largest", "n/powers", "n/total", "n/quotient", "n/quotient/inverse"]
    assert told["n"][0].code is None
    assert told["n"][0].against[0].code == "TPB-LOWER-OP"
    assert {each.name for each in told["n/largest"]} == {"free-axis", "cross-lane"}
    assert all(each.against[0].cures for each in told["n/largest"] if each.code is None)
    assert told["n/quotient/inverse"][0].cycles[0] > 0


@pytest.mark.parametrize(("name", "prefer"), [("trn1", "cross-lane"), ("trn1", "free-axis")])
def test_preferences_reach_the_steps(name: str, prefer: str) -> None:
    case = Case("Softmax", 13, {"x": (5, 40)}, None, {"axis": 0})
    row = plan_model(model_of(case, "float32"), target(name), prefer=prefer).program.ledger.row("n")
    assert prefer in row.route


def test_a_saved_composite_answers_the_same(tmp_path) -> None:
    case = case_of("LayerNormalization")
    feeds = feeds_of(case, "float32")
    program = lf.compile(model_of(case, "float32"), target="trn1")
    again = lf.load(program.save(tmp_path / "p"))
    for output, value in program.run(feeds).items():
        np.testing.assert_array_equal(again.run(feeds)[output], value)


@pytest.mark.parametrize("name", ["trn1", "cpu"])
def test_empty_tensors_stay_on_the_host(name: str) -> None:
    row = lf.compile(model_of(Case("Softmax", 13, {"x": (0, 4)}, None), "float32"), target=name).ledger.row("n")
    assert (row.disposition, "holds no element" in row.reason) == ("host", True)


def test_a_group_normalization_of_set_18_hands_its_type_on() -> None:
    """The onnx package calls the operator of set 18 deprecated and infers nothing about its result."""
    case = case_of("GroupNormalization", 18)
    made = model_of(case, "float32")
    made.graph.node[0].output[0] = "middle"
    made.graph.node.append(helper.make_node("ReduceMax", ["middle"], ["y"], name="after", keepdims=0))
    made.graph.output[0].type.tensor_type.shape.ClearField("dim")
    feeds = feeds_of(case, "float32")
    plan = plan_model(made, target("trn1"))
    assert [row.disposition for row in plan.program.ledger] == ["rewritten", "emitted"]
    assert verify(plan.model, plan.program, feeds).ok


LONG = (
    ("a2a3", (2, 5000), "TROWMAX + TROWEXPANDEXPDIF + TROWSUM + TROWEXPANDDIV", "elements are folded in parts"),
    ("trn1", (1, 20_000), "tensor_reduce (free-axis) + reciprocal", "in 128 parts, folded again"),
)


@pytest.mark.parametrize(("name", "shape", "route", "remark"), LONG)
def test_rows_too_long_for_one_tile_or_partition_are_divided(name, shape, route, remark) -> None:
    case = Case("Softmax", 13, {"x": shape}, softmax)
    plan = plan_model(model_of(case, "float32"), target(name))
    feeds = feeds_of(case, "float32")
    result = verify(plan.model, plan.program, feeds)
    assert result.ok
    close(result.outputs["y"], softmax(feeds["x"].astype(np.float64)), "float32")
    row = plan.program.ledger.row("n")
    assert row.route == route
    assert remark in row.reason
    assert len(set(row.reason.split("; "))) == len(row.reason.split("; "))


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("shape", [(3, 1), (1, 1, 1), (1,)])
def test_rows_of_one_element(shape: tuple[int, ...], name: str) -> None:
    case = Case("Softmax", 13, {"x": shape}, softmax)
    made = lf.compile(model_of(case, "float32"), target=name).run(feeds_of(case, "float32"))
    np.testing.assert_array_equal(made["y"], np.ones(shape))
