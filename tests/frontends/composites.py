"""Formulas of the composites in float64, and their cases: operator, operator set, inputs, attributes, outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import helper

Array = np.ndarray
ELEMENTS = {
    "float32": onnx.TensorProto.FLOAT,
    "float16": onnx.TensorProto.FLOAT16,
    "bfloat16": onnx.TensorProto.BFLOAT16,
}
ROUNDING = {"float32": 4e-6, "float16": 2.0**-10, "bfloat16": 2.0**-7}
"""Relative error that one rounding to the type and float32 steps before it may leave."""


def flattened(x: Array, axis: int) -> Array:
    return x.reshape(int(np.prod(x.shape[:axis])), -1)


def softmax(x: Array, axis: int = -1) -> Array:
    powers = np.exp(x - x.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)


def log_softmax(x: Array, axis: int = -1) -> Array:
    shifted = x - x.max(axis, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis, keepdims=True))


def hardmax(x: Array, axis: int = -1) -> Array:
    out = np.zeros_like(x)
    np.put_along_axis(out, np.expand_dims(x.argmax(axis), axis), 1, axis)
    return out


def coerced(formula: Callable[..., Array], axis: int = 1) -> Callable[..., Array]:
    """The meaning of operator sets before 13: all axes from the given one on are one."""
    return lambda x: formula(flattened(x, axis), -1).reshape(x.shape)


def layer(x: Array, scale: Array, bias: Array | None = None, *, axis: int = -1, epsilon: float = 1e-5) -> list[Array]:
    axes = tuple(range(axis % x.ndim, x.ndim))
    mean = x.mean(axes, keepdims=True)
    inverse = 1 / np.sqrt(((x - mean) ** 2).mean(axes, keepdims=True) + epsilon)
    return [(x - mean) * inverse * scale + (0 if bias is None else bias), mean, inverse]


def rms(x: Array, scale: Array, *, axis: int = -1, epsilon: float = 1e-5) -> Array:
    axes = tuple(range(axis % x.ndim, x.ndim))
    return x / np.sqrt((x**2).mean(axes, keepdims=True) + epsilon) * scale


def group(x: Array, scale: Array, bias: Array, groups: int, epsilon: float = 1e-5) -> Array:
    samples, channels = x.shape[:2]
    rows = x.reshape(samples, groups, -1)
    rows = (rows - rows.mean(-1, keepdims=True)) / np.sqrt(rows.var(-1, keepdims=True) + epsilon)
    each = channels // len(scale)
    scale, bias = (np.repeat(value, each).reshape(1, -1, *(1,) * (x.ndim - 2)) for value in (scale, bias))
    return rows.reshape(x.shape) * scale + bias


def mean_variance(x: Array, axes: tuple[int, ...] = (0, 2, 3)) -> Array:
    return (x - x.mean(axes, keepdims=True)) / (x.std(axes, keepdims=True) + 1e-9)


def lp(x: Array, p: int = 2, axis: int = -1) -> Array:
    norm = (np.abs(x) ** p).sum(axis, keepdims=True) ** (1 / p)
    return x / np.where(norm == 0, 1, norm)


@dataclass(frozen=True)
class Case:
    """One node; inputs are extents, results what the formula makes of them in float64."""

    op_type: str
    opset: int
    inputs: Mapping[str, tuple[int, ...]]
    formula: Callable[..., Any]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    outputs: Sequence[str] = ("y",)

    def __str__(self) -> str:
        words = [f"{name}={value}" for name, value in self.attributes.items()]
        return "-".join([self.op_type, str(self.opset), *words, *self.outputs[1:]])


X = {"x": (2, 3, 5)}
IMAGE = {"x": (2, 4, 3, 5)}
PER_GROUP = {**IMAGE, "scale": (2,), "bias": (2,)}
PER_CHANNEL = {**IMAGE, "scale": (4,), "bias": (4,)}
ROWS = {"x": (2, 3, 10), "scale": (10,)}

CASES = (
    Case("Softmax", 13, X, softmax),
    Case("Softmax", 13, X, lambda x: softmax(x, 0), {"axis": 0}),
    Case("Softmax", 13, X, lambda x: softmax(x, 1), {"axis": -2}),
    Case("Softmax", 11, X, coerced(softmax)),
    Case("Softmax", 7, X, coerced(softmax, 2), {"axis": 2}),
    Case("LogSoftmax", 13, X, log_softmax),
    Case("LogSoftmax", 13, X, lambda x: log_softmax(x, 1), {"axis": 1}),
    Case("LogSoftmax", 11, X, coerced(log_softmax)),
    Case("LogSoftmax", 9, X, coerced(log_softmax, 0), {"axis": 0}),
    Case("Hardmax", 13, X, hardmax),
    Case("Hardmax", 13, X, lambda x: hardmax(x, 0), {"axis": -3}),
    Case("Hardmax", 11, X, coerced(hardmax)),
    Case("LayerNormalization", 17, {**ROWS, "bias": (10,)}, layer, {}, ("y", "mean", "inverse")),
    Case("LayerNormalization", 17, ROWS, layer, {}, ("y",)),
    Case(
        "LayerNormalization",
        17,
        {"x": (2, 3, 10), "scale": (3, 10), "bias": (3, 10)},
        lambda x, s, b: layer(x, s, b, axis=1, epsilon=0.1),
        {"axis": -2, "epsilon": 0.1},
        ("y", "", "inverse"),
    ),
    Case("RMSNormalization", 23, ROWS, rms),
    Case(
        "RMSNormalization",
        23,
        {"x": (2, 3, 10), "scale": (3, 10)},
        lambda x, s: rms(x, s, axis=1, epsilon=0.5),
        {"axis": 1, "epsilon": 0.5},
    ),
    Case("GroupNormalization", 18, PER_GROUP, lambda x, s, b: group(x, s, b, 2), {"num_groups": 2}),
    Case("GroupNormalization", 21, PER_CHANNEL, lambda x, s, b: group(x, s, b, 2), {"num_groups": 2}),
    Case("InstanceNormalization", 6 + 1, PER_CHANNEL, lambda x, s, b: group(x, s, b, 4)),
    Case("InstanceNormalization", 22, PER_CHANNEL, lambda x, s, b: group(x, s, b, 4, 0.25), {"epsilon": 0.25}),
    Case("MeanVarianceNormalization", 9, IMAGE, mean_variance),
    Case("MeanVarianceNormalization", 13, IMAGE, lambda x: mean_variance(x, (1, 3)), {"axes": [-1, 1]}),
    Case("LpNormalization", 7, X, lp),
    Case("LpNormalization", 22, X, lambda x: lp(x, 1, 1), {"p": 1, "axis": 1}),
)


def model_of(case: Case, dtype: str, constants: Sequence[str] = ()) -> onnx.ModelProto:
    """A model of one node "n"; inputs named in ``constants`` are initializers of ones."""
    kinds = dict.fromkeys(case.inputs, ELEMENTS[dtype])
    inputs = [
        helper.make_tensor_value_info(name, kinds[name], shape)
        for name, shape in case.inputs.items()
        if name not in constants
    ]
    whole = case.inputs["x"]
    outputs = [
        helper.make_tensor_value_info(
            name, ELEMENTS["float32"] if at else ELEMENTS[dtype], [None] * len(whole) if at else whole
        )
        for at, name in enumerate(case.outputs)
        if name
    ]
    held = [onnx.numpy_helper.from_array(np.ones(case.inputs[name], numpy_type(dtype)), name) for name in constants]
    node = helper.make_node(case.op_type, list(case.inputs), list(case.outputs), name="n", **case.attributes)
    graph = helper.make_graph([node], "composite", inputs, outputs, held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", case.opset)], ir_version=10)


def numpy_type(dtype: str) -> Any:
    return ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)


def feeds_of(case: Case, dtype: str, seed: int = 0, scale: float = 1.0) -> dict[str, Array]:
    random = np.random.default_rng(seed)
    return {
        name: (random.standard_normal(shape) * (scale if name == "x" else 1)).astype(numpy_type(dtype))
        for name, shape in case.inputs.items()
    }


def takes(case: Case, dtype: str) -> bool:
    """Whether the operator has the type in its operator set; bfloat16 came with set 13."""
    return dtype != "bfloat16" or case.opset >= 13


def wanted(case: Case, feeds: Mapping[str, Array]) -> dict[str, Array]:
    """The results in float64 by output name."""
    with np.errstate(all="ignore"):
        made = case.formula(*(value.astype(np.float64) for value in feeds.values()))
    results = made if isinstance(made, list) else [made]
    return {name: value for name, value in zip(case.outputs, results, strict=False) if name}
