"""How far a program's results may lie from exact ones: first-order error analysis along its steps, in float64.

Every tensor carries the value it would have without rounding and a bound on the error that the roundings before it
may have made. The bounds follow from the number of roundings alone; nothing is fitted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import numpy_helper

from lanefold.host import HostStep
from lanefold.ops import Expand, Gather, Op, Pool, Reciprocal, Reduce, Softmax
from lanefold.ops.groups import divisors, folded
from lanefold.program import Program

Pair = tuple[np.ndarray, np.ndarray]
UNIT = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8, "float64": 2.0**-53}
LIBRARY = 4
"""Units in the last place within which exponentials, logarithms and roots of a library lie."""


def _pair(value: Any) -> Pair:
    wide = np.asarray(value)
    if wide.dtype == object or wide.dtype.kind in "SU":
        raise NotImplementedError("no numbers")
    return wide.astype(np.float64), np.zeros(wide.shape)


def _dtype(name: str) -> np.dtype:
    return np.dtype(getattr(ml_dtypes, name, name))


def _info(dtype: np.dtype) -> Any:
    return ml_dtypes.finfo(dtype)


def rounded(value: np.ndarray, error: np.ndarray, dtype: np.dtype, units: float = 1) -> Pair:
    """One more rounding to a type; what leaves its range may be anything from there on."""
    if dtype.kind in "iub":
        return value, error
    info = _info(dtype)
    size = np.abs(value) + error
    step = np.maximum(size * float(info.eps) / 2, float(info.smallest_subnormal) / 2) * units
    bound = np.where(np.isfinite(value), error + step, np.inf)
    return value, np.where(size > float(info.max), np.inf, bound)


def _add(a: Pair, b: Pair) -> Pair:
    return a[0] + b[0], a[1] + b[1]


def _multiply(a: Pair, b: Pair) -> Pair:
    return a[0] * b[0], np.abs(a[0]) * b[1] + np.abs(b[0]) * a[1] + a[1] * b[1]


def _inverse(a: Pair) -> Pair:
    least = np.abs(a[0]) - a[1]
    return 1 / a[0], np.where(least > 0, a[1] / (np.abs(a[0]) * least), np.where(a[1] == 0, 0, np.inf))


def _along(function: Callable[[np.ndarray], np.ndarray], a: Pair) -> Pair:
    """A rising function: the greatest change between the ends of the interval."""
    middle, low, high = function(a[0]), function(a[0] - a[1]), function(a[0] + a[1])
    apart = np.maximum(np.abs(high - middle), np.abs(middle - low))
    return middle, np.where(a[1] == 0, 0, np.where(np.isnan(apart), np.inf, apart))


def _chosen(function: Any, a: Pair, b: Pair) -> Pair:
    return function(a[0], b[0]), np.maximum(np.broadcast_to(a[1], np.broadcast_shapes(a[1].shape, b[1].shape)), b[1])


def _square_root(value: np.ndarray) -> np.ndarray:
    return np.sqrt(np.maximum(value, 0) + np.where(np.isnan(value), np.nan, 0))


ELEMENTWISE: dict[str, Callable[..., Pair]] = {
    "Add": _add,
    "Sub": lambda a, b: _add(a, (-b[0], b[1])),
    "Mul": _multiply,
    "Div": lambda a, b: _multiply(a, _inverse(b)),
    "Reciprocal": _inverse,
    "Abs": lambda a: (np.abs(a[0]), a[1]),
    "Neg": lambda a: (-a[0], a[1]),
    "Sqrt": lambda a: _along(_square_root, a),
    "Exp": lambda a: _along(np.exp, a),
    "Log": lambda a: _along(np.log, a),
    "Clip": lambda a, low, high: (np.clip(a[0], low[0], high[0]), a[1]),
    "Max": lambda a, b: _chosen(np.maximum, a, b),
    "Min": lambda a, b: _chosen(np.minimum, a, b),
    "Pow": lambda a, b: _along(lambda x: np.power(x, b[0]), a),
    "Identity": lambda a: a,
}
EXACT = {"Abs", "Neg", "Clip", "Max", "Min", "Identity"}
FROM_LIBRARY = {"Sqrt", "Exp", "Log", "Pow"}


class Bounds:
    """The pairs of every tensor of a program, by name; ``types`` are their element types."""

    def __init__(self, program: Program, feeds: dict[str, np.ndarray], accumulators: tuple[str, ...]) -> None:
        self.accumulators = accumulators
        self.unit = max(UNIT[name] for name in accumulators)
        self.pairs: dict[str, Pair] = {}
        self.raw: dict[str, np.ndarray] = {}
        self.types: dict[str, np.dtype] = {}
        for name, value in feeds.items():
            self._put(name, _pair(value), value.dtype)
            self.raw[name] = value
        with np.errstate(all="ignore"):
            program.run(feeds, self._step)

    def _put(self, name: str, pair: Pair, dtype: np.dtype) -> None:
        self.pairs[name], self.types[name] = pair, dtype

    def _step(self, step: Any, inputs: Any, made: Any) -> None:
        with np.errstate(all="ignore"):
            if isinstance(step, HostStep):
                self._host(onnx.load_from_string(step.model_bytes), dict(zip(step.inputs, inputs, strict=True)))
            else:
                self._leg(step, made)
        for name, value in zip(step.outputs, made, strict=True):
            self.raw[name] = value
            pair = self.pairs.get(name)
            if pair is not None and pair[0].size == value.size:
                shape = value.shape
                self._put(
                    name, (pair[0].reshape(shape), np.broadcast_to(pair[1], pair[0].shape).reshape(shape)), value.dtype
                )
            else:
                self._put(name, (_pair(value)[0], np.full(value.shape, np.inf)), value.dtype)

    # Leg

    def _leg(self, step: Any, made: Any) -> None:
        op = step.op
        pairs = [self.pairs[name] for name in step.inputs]
        pair = self._op(op, pairs)
        if pair is None:
            # What chooses among its inputs gives what it gave, as long as its inputs are exact.
            known = all((each[1] == 0).all() for each in pairs)
            for name, value in zip(step.outputs, made, strict=True):
                self._put(name, (_pair(value)[0], np.full(value.shape, 0 if known else np.inf)), value.dtype)
            return
        self._put(step.outputs[0], rounded(*pair, made[0].dtype), made[0].dtype)

    def _op(self, op: Op, pairs: list[Pair]) -> Pair | None:
        if isinstance(op, Pool | Reduce):
            return self._fold(op, tuple(each.reshape(op.input_shape) for each in pairs[0]))
        if isinstance(op, Softmax):
            return self._softmax(op, tuple(each.reshape(op.input_shape) for each in pairs[0]))
        if isinstance(op, Reciprocal):
            return _inverse(pairs[0])
        if isinstance(op, Expand):
            return self._expand(op, pairs)
        if isinstance(op, Gather):
            value, error = (each.reshape(op.input_shape) for each in pairs[0])
            places = pairs[1][0].astype(np.int64).reshape(op.indices_shape)
            return np.take(value, places, op.axis), np.take(error, places, op.axis)
        return None

    def _fold(self, op: Pool | Reduce, pair: Pair) -> Pair | None:
        value, error = pair
        if op.element == "square":
            value, error = _multiply(pair, pair)
            value, error = value, error + self.unit * (np.abs(value) + error)
        elif op.element == "abs":
            value = np.abs(value)
        if op.operator in ("max", "min"):
            combine = np.fmax if op.operator == "max" else np.fmin
            return folded(op, value, combine), folded(op, error, np.maximum)
        if op.operator == "mult":
            product = folded(op, value, np.multiply)
            reach = folded(op, np.abs(value) + error, np.multiply)
            count = folded(op, np.ones(value.shape), np.add)
            return product, reach - np.abs(product) + self._growth(count) * reach
        count = folded(op, np.ones(value.shape), np.add) + 2 * (op.operator == "average")
        reach = folded(op, np.abs(value) + error, np.add)
        limit = min(float(_info(_dtype(name)).max) for name in self.accumulators)
        slack = np.where(reach > limit, np.inf, folded(op, error, np.add) + self._growth(count) * reach)
        total = folded(op, value, np.add)
        if op.operator == "average":
            return total / divisors(op), slack / divisors(op)
        return total, slack

    def _growth(self, steps: np.ndarray) -> np.ndarray:
        return steps * self.unit / np.maximum(1 - steps * self.unit, 1e-3)

    def _softmax(self, op: Softmax, pair: Pair) -> Pair:
        value, error = pair
        shifted = value - value.max(axis=op.axes, keepdims=True)
        powers = np.exp(shifted)
        result = powers / powers.sum(axis=op.axes, keepdims=True)
        deep = np.where(powers > 0, np.abs(shifted), 0)
        count = value.size / max(result.sum(axis=op.axes).size, 1)
        moved = error + error.max(axis=op.axes, keepdims=True)
        relative = (deep + deep.max(axis=op.axes, keepdims=True) + count + 2 * LIBRARY) * self.unit + 2 * moved
        least = float(
            _info(
                np.dtype(op.dtype if op.dtype == "float32" else getattr(ml_dtypes, op.dtype, op.dtype))
            ).smallest_normal
        )
        return result, relative * result + least

    def _expand(self, op: Expand, pairs: list[Pair]) -> Pair:
        vector = tuple(each.reshape(op.vector_shape) for each in pairs[-1])
        if op.operator == "bypass":
            return tuple(np.broadcast_to(each, op.input_shape) for each in vector)  # type: ignore[return-value]
        full = tuple(each.reshape(op.input_shape) for each in pairs[0])
        if op.operator == "exp_difference":
            value, error = _along(np.exp, rounded(*ELEMENTWISE["Sub"](full, vector), np.dtype(np.float32)))
            return value, error + 2 * LIBRARY * self.unit * np.abs(value)
        names = {"add": "Add", "subtract": "Sub", "mult": "Mul", "divide": "Div", "max": "Max", "min": "Min"}
        return ELEMENTWISE[names[op.operator]](full, vector)

    # Host

    def _host(self, model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> None:
        for tensor in model.graph.initializer:
            value = numpy_helper.to_array(tensor)
            self._put(tensor.name, _pair(value), value.dtype)
        for node in model.graph.node:
            self._node(node, model)

    def _node(self, node: onnx.NodeProto, model: onnx.ModelProto) -> None:
        names = [name for name in node.input if name]
        if any(name not in self.pairs for name in names):
            return
        dtype = self.types[names[0]] if names else np.dtype(np.float32)
        pairs = [self.pairs[name] for name in names]
        if node.op_type == "Clip" and len(pairs) == 1:
            limits = {each.name: each.f for each in node.attribute}
            pairs += [_pair(limits["min"]), _pair(limits["max"])]
        if node.op_type in ELEMENTWISE:
            pair = ELEMENTWISE[node.op_type](*pairs)
            if node.op_type not in EXACT:
                pair = rounded(*pair, dtype, 2 * LIBRARY if node.op_type in FROM_LIBRARY else 1)
            self._put(node.output[0], pair, dtype)
        elif node.op_type == "Cast":
            kind = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(node.attribute[0].i))
            self._put(node.output[0], rounded(*pairs[0], kind), kind)
        else:
            self._moved(node, model, pairs, dtype)

    def _moved(self, node: onnx.NodeProto, model: onnx.ModelProto, pairs: list[Pair], dtype: np.dtype) -> None:
        """What moves elements or compares exact ones: evaluated on the values and on the errors alike."""
        from onnx.reference import ReferenceEvaluator

        names = [name for name in node.input if name]
        graph = onnx.helper.make_graph(
            [node],
            "moved",
            [onnx.ValueInfoProto(name=name) for name in names],
            [onnx.ValueInfoProto(name=name) for name in node.output],
        )
        run = ReferenceEvaluator(onnx.helper.make_model(graph, opset_imports=model.opset_import))

        def made(which: int) -> list[np.ndarray]:
            feeds = {
                name: pair[0].astype(self.types[name]) if index or self.types[name].kind in "iub" else pair[which]
                for index, (name, pair) in enumerate(zip(names, pairs, strict=True))
            }
            return [np.asarray(each) for each in run.run(None, feeds)]

        for name, value, error in zip(node.output, made(0), made(1), strict=True):
            exact = value.dtype.kind in "iub"
            bound = np.zeros(value.shape) if exact else np.abs(error.astype(np.float64))
            self._put(name, (value.astype(np.float64), bound), value.dtype if exact else dtype)


def exact(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    """The outputs of a model in float64, by the evaluator of the onnx package."""
    from onnx.reference import ReferenceEvaluator

    (node,) = model.graph.node
    if node.op_type in _COERCED and model.opset_import[0].version < _SINGLE_AXIS:
        return [_coerced(node, feeds["x"])]
    if node.op_type in _WRITTEN_OUT:
        held = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer} | feeds
        given = {each.name: onnx.helper.get_attribute_value(each) for each in node.attribute}
        values = [np.asarray(held[name], np.float64) for name in node.input]
        with np.errstate(all="ignore"):
            return [_WRITTEN_OUT[node.op_type](given, *values)]
    wide = onnx.ModelProto()
    wide.CopyFrom(model)
    del wide.graph.value_info[:]
    floats = {onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16}
    for info in (*wide.graph.input, *wide.graph.output):
        if info.type.tensor_type.elem_type in floats:
            info.type.tensor_type.elem_type = onnx.TensorProto.DOUBLE
    for tensor in wide.graph.initializer:
        if tensor.data_type in floats:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float64), tensor.name))
    if node.op_type in _STASHED and onnx.defs.has(node.op_type):
        known = onnx.defs.get_schema(node.op_type, model.opset_import[0].version, "").attributes
        if "stash_type" in known:
            wide.graph.node[0].attribute.append(onnx.helper.make_attribute("stash_type", onnx.TensorProto.DOUBLE))
    whole = {name: value if value.dtype.kind in "iub" else value.astype(np.float64) for name, value in feeds.items()}
    with np.errstate(all="ignore"):
        return [np.asarray(each) for each in ReferenceEvaluator(wide).run(None, whole)]


_STASHED = ("GroupNormalization",)
"""Operators that compute in a type of their own, float32 if it is not stated."""
_SINGLE_AXIS = 13
"""Set from which the softmaxes work on one axis; before, on all axes from the given one on."""


def _log_softmax(rows: np.ndarray) -> np.ndarray:
    shifted = rows - rows.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


_COERCED: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "Softmax": lambda rows: np.exp(_log_softmax(rows)),
    "LogSoftmax": _log_softmax,
    "Hardmax": lambda rows: np.eye(rows.shape[1])[rows.argmax(axis=1)],
}


def _coerced(node: onnx.NodeProto, value: np.ndarray) -> np.ndarray:
    axis = next((each.i for each in node.attribute if each.name == "axis"), 1) % value.ndim
    rows = int(np.prod(value.shape[:axis]))
    with np.errstate(all="ignore"):
        return _COERCED[node.op_type](value.astype(np.float64).reshape(rows, -1)).reshape(value.shape)


# Operators that the evaluator of the onnx package does not have in float64, or computes otherwise


def _lp_normalized(given: dict[str, Any], x: np.ndarray) -> np.ndarray:
    p = given.get("p", 2)
    norm = np.power(np.power(np.abs(x), p).sum(axis=given.get("axis", -1), keepdims=True), 1 / p)
    return np.where(norm == 0, 0.0, x / norm)


def _inner(given: dict[str, Any], x: np.ndarray) -> tuple[int, ...]:
    return tuple(range(given.get("axis", -1) % x.ndim, x.ndim))


def _layer_normalized(given: dict[str, Any], x: np.ndarray, scale: np.ndarray, bias: Any = 0.0) -> np.ndarray:
    axes = _inner(given, x)
    centred = x - x.mean(axis=axes, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axis=axes, keepdims=True) + given.get("epsilon", 1e-5)) * scale + bias


def _root_mean_square(given: dict[str, Any], x: np.ndarray, scale: np.ndarray) -> np.ndarray:
    return x / np.sqrt((x**2).mean(axis=_inner(given, x), keepdims=True) + given.get("epsilon", 1e-5)) * scale


def _mean_variance(given: dict[str, Any], x: np.ndarray) -> np.ndarray:
    axes = tuple(given.get("axes", (0, 2, 3)))
    centred = x - x.mean(axis=axes, keepdims=True)
    return centred / (np.sqrt((centred**2).mean(axis=axes, keepdims=True)) + 1e-9)


def _global_norm(given: dict[str, Any], x: np.ndarray) -> np.ndarray:
    p = given.get("p", 2)
    return np.power(np.power(np.abs(x), p).sum(axis=tuple(range(2, x.ndim)), keepdims=True), 1 / p)


_WRITTEN_OUT: dict[str, Callable[..., np.ndarray]] = {
    "LpNormalization": _lp_normalized,
    "LayerNormalization": _layer_normalized,
    "RMSNormalization": _root_mean_square,
    "MeanVarianceNormalization": _mean_variance,
    "GlobalLpPool": _global_norm,
}
