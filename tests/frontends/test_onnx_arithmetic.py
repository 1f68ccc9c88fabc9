"""Range, Reciprocal, arithmetic with a repeated vector, and MaxPool with indices, against onnxruntime and NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from composites import ELEMENTS, numpy_type
from onnx import TensorProto, helper, numpy_helper

import lanefold as lf
from lanefold.diagnostics import LanefoldError
from lanefold.frontends.onnx import plan_model, verify
from lanefold.frontends.onnx.routes import node_routes
from lanefold.targets import target

TARGETS = ("trn1", "trn3", "cpu", "a2a3")
TENSORS = {
    **ELEMENTS,
    "float64": TensorProto.DOUBLE,
    "int64": TensorProto.INT64,
    "int32": TensorProto.INT32,
    "int16": TensorProto.INT16,
    "int8": TensorProto.INT8,
    "uint8": TensorProto.UINT8,
}


def one(op_type: str, inputs: dict[str, np.ndarray], opset: int = 13, fixed: tuple[str, ...] = (), **attributes: Any):
    """A model of one node "n"; inputs named in ``fixed`` are initializers."""
    kinds = {name: TENSORS[value.dtype.name] for name, value in inputs.items()}
    outputs = attributes.pop("outputs", ("y",))
    node = helper.make_node(op_type, list(inputs), list(outputs), name="n", **attributes)
    first = next(iter(kinds.values()))
    graph = helper.make_graph(
        [node],
        "one",
        [
            helper.make_tensor_value_info(name, kinds[name], value.shape)
            for name, value in inputs.items()
            if name not in fixed
        ],
        [
            helper.make_tensor_value_info(name, TensorProto.INT64 if at else first, None)
            for at, name in enumerate(outputs)
        ],
        [numpy_helper.from_array(inputs[name], name) for name in fixed],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    return onnx.shape_inference.infer_shapes(made)


def checked(model: onnx.ModelProto, name: str, feeds: dict[str, np.ndarray]):
    plan = plan_model(model, target(name))
    result = verify(plan.model, plan.program, feeds)
    assert result.ok, [row for row in result.rows if not row.ok]
    return plan.program.ledger.row("n"), result.outputs


def counted(start: float, limit: float, step: float, dtype: str):
    """A Range, beside a copy of an input."""
    bounds = [
        numpy_helper.from_array(np.asarray(value, dtype), name)
        for name, value in zip(("start", "limit", "step"), (start, limit, step), strict=True)
    ]
    nodes = [
        helper.make_node("Range", ["start", "limit", "step"], ["y"], name="n"),
        helper.make_node("Identity", ["x"], ["z"], name="copy"),
    ]
    kind = TENSORS[dtype]
    graph = helper.make_graph(
        nodes,
        "count",
        [helper.make_tensor_value_info("x", kind, [1])],
        [helper.make_tensor_value_info(each, kind, None) for each in ("y", "z")],
        bounds,
    )
    return onnx.shape_inference.infer_shapes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    )


@pytest.mark.parametrize("name", ["trn1", "trn3"])
@pytest.mark.parametrize(
    ("start", "limit", "step", "dtype", "disposition"),
    [
        (0, 10, 1, "int32", "emitted"),
        (10, -7, -3, "int32", "emitted"),
        (-100, 70_000, 33, "int64", "rewritten"),
        (0, 3_000_000, 70_001, "int64", "rewritten"),
        (3, 300, 7, "int16", "emitted"),
        (-5, 5, 2, "float32", "emitted"),
        (0, 9, 4, "float64", "rewritten"),
        (2, 2.5, 1, "float32", "emitted"),
    ],
)
def test_constant_ranges_are_counted_on_the_leg(start, limit, step, dtype, disposition, name) -> None:
    row, outputs = checked(counted(start, limit, step, dtype), name, {"x": np.zeros(1, dtype)})
    assert (row.disposition, row.route) == (disposition, "iota")
    np.testing.assert_array_equal(outputs["y"], np.arange(start, limit, step, dtype))


@pytest.mark.parametrize(
    ("start", "limit", "step", "dtype", "reason"),
    [
        (0, 1, 0.25, "float32", "in steps of 0.25 are no whole numbers"),
        (1 << 40, (1 << 40) + 3, 1, "int64", "its values reach 1099511627778; up to 2147483647 the leg counts int64"),
        ((1 << 24), (1 << 24) + 3, 1, "float32", "up to 16777216 the leg counts float32 exactly"),
        (5, 5, 1, "int32", "it holds no element"),
    ],
)
def test_other_ranges_stay_on_the_host(start, limit, step, dtype, reason) -> None:
    row, _ = checked(counted(start, limit, step, dtype), "trn1", {"x": np.zeros(1, dtype)})
    assert row.disposition == "host"
    assert reason in row.reason


@pytest.mark.parametrize("name", TARGETS)
def test_strict_leaves_counting_to_the_host(name: str) -> None:
    assert plan_model(counted(0, 1, 0.25, "float32"), target(name), strict=True).program


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("name", ["trn1", "trn3"])
def test_reciprocals_are_taken_on_the_leg(dtype: str, name: str) -> None:
    x = np.array([[1, -2, 3, 0, np.inf], [1e-3, 7, -np.inf, np.nan, 0.1]]).astype(numpy_type(dtype))
    program = lf.compile(one("Reciprocal", {"x": x}), target=name)
    row = program.ledger.row("n")
    assert (row.disposition, row.route) == ("emitted", "reciprocal")
    with np.errstate(all="ignore"):
        right = (1 / x.astype(np.float32)).astype(x.dtype)
    np.testing.assert_array_equal(program.run({"x": x})["y"].astype(np.float64), right.astype(np.float64))


@pytest.mark.parametrize("name", TARGETS)
def test_a_reciprocal_of_a_type_that_the_leg_lacks_is_refused_by_strict(name: str) -> None:
    model = one("Reciprocal", {"x": np.ones((2, 3))})
    assert plan_model(model, target(name)).program.ledger.row("n").reason == "the leg has no float64 numbers"
    with pytest.raises(LanefoldError, match="ONNX-STRICT"):
        plan_model(model, target(name), strict=True)


VECTORS = (
    ("Add", "float32", (3, 20), (20,), False),
    ("Add", "float32", (3, 1), (3, 20), True),
    ("Sub", "float32", (4, 5, 6), (5, 1), False),
    ("Mul", "float16", (2, 3, 16), (16,), False),
    ("Div", "float32", (2, 3, 4, 5), (1, 3, 1, 1), False),
    ("Max", "float32", (3, 40), (40,), False),
    ("Min", "float32", (40, 3), (40, 1), False),
    ("Add", "int32", (3, 20), (20,), True),
)


@pytest.mark.parametrize("name", ["cpu", "a2a3", "a5"])
@pytest.mark.parametrize(("op_type", "dtype", "left", "right", "fixed"), VECTORS)
def test_vectors_are_repeated_on_tiles(op_type, dtype, left, right, fixed, name) -> None:
    random = np.random.default_rng(5)
    inputs = {
        each: (random.integers(1, 100, shape) / (1 if dtype == "int32" else 7)).astype(dtype)
        for each, shape in (("a", left), ("b", right))
    }
    vector = min(inputs, key=lambda each: inputs[each].size)
    model = one(op_type, inputs, fixed=(vector,) if fixed else ())
    feeds = {each: value for each, value in inputs.items() if not fixed or each != vector}
    row, outputs = checked(model, name, feeds)
    assert row.disposition == "emitted"
    assert row.route.startswith(("TROWEXPAND", "TCOLEXPAND"))
    wide = [value.astype(np.float64) for value in inputs.values()]
    formula = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide}
    exact = {**formula, "Max": np.maximum, "Min": np.minimum}[op_type](*wide)
    np.testing.assert_allclose(outputs["y"].astype(np.float64), exact, rtol=1e-6 if dtype != "float16" else 1e-3)


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize(
    ("op_type", "left", "right"),
    [
        ("Add", (3, 4), (3, 4)),
        ("Add", (3, 1), (1, 4)),
        ("Div", (4,), (3, 4)),
        ("Mul", (3, 4), ()),
        ("Add", (1, 1), (1,)),
    ],
)
def test_sums_without_a_repeated_vector_stay_on_the_host(op_type, left, right, name) -> None:
    inputs = {"a": np.full(left, 2, np.float32), "b": np.full(right, 4, np.float32)}
    plan = plan_model(one(op_type, inputs), target(name), strict=True)
    row = plan.program.ledger.row("n")
    assert row.disposition == "host"
    assert row.reason == f"{op_type} is no pooling, reduction or expansion of the leg"


def test_a_vector_on_the_reduce_leg_stays_on_the_host_with_the_way_out() -> None:
    inputs = {"a": np.ones((3, 20), np.float32), "b": np.ones(20, np.float32)}
    plan = plan_model(one("Add", inputs), target("trn1"), strict=True)
    reason = "the leg repeats a vector as it is; combining it with a tensor by add takes an instruction it lacks"
    assert plan.program.ledger.row("n").reason == f"trn1: {reason}"
    ((_, (candidate,)),) = node_routes(plan.model, "n", target("trn1")).pieces
    assert (candidate.code, candidate.against[0].code) == (None, "TPB-LOWER-EXPAND")
    assert candidate.against[0].cures[0].text == "repeat the vector by bypass and combine on the host"


POOLS = (
    ("float32", (2, 3, 9, 8), {"kernel_shape": [2, 2], "strides": [2, 2]}),
    ("float32", (1, 2, 9, 8), {"kernel_shape": [3, 4], "strides": [2, 1], "pads": [1, 2, 0, 1], "dilations": [2, 1]}),
    ("float32", (1, 2, 7, 7), {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1, "pads": [1, 1, 1, 1]}),
    ("int8", (1, 3, 6, 6), {"kernel_shape": [4, 4], "strides": [2, 2]}),
    ("uint8", (1, 3, 5, 6, 7), {"kernel_shape": [3, 2, 2], "strides": [2, 2, 1], "pads": [1, 0, 1, 1, 1, 0]}),
    ("float32", (2, 3, 11), {"kernel_shape": [3], "auto_pad": "SAME_UPPER", "strides": [2]}),
)


PLACED = [(name, *each) for name in TARGETS for each in POOLS if name != "a2a3" or each[0] == "float32"]


@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize(("name", "dtype", "shape", "attributes"), PLACED)
def test_p28_indices_of_maxima(name, dtype, shape, attributes, order) -> None:
    x = np.random.default_rng(28).integers(0, 5, shape).astype(dtype)
    model = one("MaxPool", {"x": x}, 18, outputs=("y", "i"), storage_order=order, **attributes)
    row, outputs = checked(model, name, {"x": x})
    route = "max8 + find_index8" if name.startswith("trn") else "TCOLMAX + TCOLARGMAX"
    assert (row.disposition, row.route) == ("rewritten", route)
    if not order:
        np.testing.assert_array_equal(x.reshape(-1)[outputs["i"]], outputs["y"])
    window = "×".join(map(str, attributes["kernel_shape"]))
    assert row.steps[0] == f"n/search: max of windows {window} and its place by {route}"


def test_p28_a_window_too_long_for_a_search_stays_on_the_host_and_says_so() -> None:
    x = np.zeros((1, 1, 200, 200), np.float32)
    row, _ = checked(one("MaxPool", {"x": x}, 18, outputs=("y", "i"), kernel_shape=[150, 150]), "trn1", {"x": x})
    assert row.disposition == "host"
    assert row.reason == "trn1: a window of 22500 elements of float32 is no row of one search"


def test_saved_counts_and_places_answer_the_same(tmp_path) -> None:
    x = np.random.default_rng(1).standard_normal((1, 2, 6, 6)).astype(np.float32)
    pooled = one("MaxPool", {"x": x}, 18, outputs=("y", "i"), kernel_shape=[3, 3], strides=[2, 2])
    for number, (model, value) in enumerate(((pooled, x), (counted(0, 9, 2, "int64"), np.zeros(1, np.int64)))):
        program = lf.compile(model, target="trn1")
        again = lf.load(program.save(tmp_path / str(number)))
        made = again.run({"x": value})
        for name, result in program.run({"x": value}).items():
            np.testing.assert_array_equal(made[name], result)
