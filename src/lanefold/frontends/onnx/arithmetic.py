"""Range, Reciprocal, and arithmetic with a repeated vector: what the leg counts, inverts and spreads."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, isfinite, prod

import numpy as np
import onnx
from onnx import helper

from lanefold.frontends.onnx.chains import FIRST_SET, element_of, repeats, spread_reference, vector_axes
from lanefold.frontends.onnx.nodes import Node
from lanefold.frontends.onnx.pieces import (
    LEG_DTYPES,
    HostPiece,
    LegPiece,
    OnHost,
    Parts,
    Reference,
    leg_source,
    tensor_type,
)
from lanefold.frontends.onnx.read import Model
from lanefold.ops import Expand, Iota, Reciprocal
from lanefold.ops.checks import is_float

_OPERATORS = {"Add": "add", "Sub": "subtract", "Mul": "mult", "Div": "divide", "Max": "max", "Min": "min"}
_COMMUTES = frozenset({"Add", "Mul", "Max", "Min"})
_REFERENCE_SET = 13
_EXACT_FLOAT = {"float32": 1 << 24, "float16": 1 << 11, "bfloat16": 1 << 8}
"""Largest magnitude up to which a float type holds every integer."""


def _host(reason: str) -> OnHost:
    return OnHost(reason, leg_family=False)


def _reciprocal(model: Model, node: Node) -> Parts | OnHost:
    source = leg_source(model, node)
    if isinstance(source, OnHost):
        return source
    if not source.shape:
        return _host("a scalar is inverted on the host")
    op = Reciprocal(source.shape, source.dtype)
    proto = helper.make_node("Reciprocal", [source.name], [node.outputs[0]])
    reference = Reference((proto,), _REFERENCE_SET)
    leg = LegPiece(node.name, node, op, (source.name,), (node.outputs[0],), reference, exact=False)
    return Parts((leg,), f"1/x of {list(source.shape)}")


def _combined(model: Model, node: Node) -> Parts | OnHost:
    """A tensor and a vector that is repeated over it."""
    alone = _host(f"{node.op_type} is no pooling, reduction or expansion of the leg")
    if len(node.inputs) != len(("full", "vector")) or model.opset < FIRST_SET:
        return alone
    full, vector = node.inputs
    shapes = [model.shape(name) for name in (full, vector)]
    if shapes[0] is None or shapes[1] is None:
        return alone
    if prod(shapes[0]) < prod(shapes[1]) and node.op_type in _COMMUTES:
        full, vector = vector, full
        shapes.reverse()
    shape, small = shapes
    dtype = model.dtype(full)
    if shape is None or small is None or dtype not in LEG_DTYPES or 0 in shape:
        return alone
    axes = vector_axes(shape, small)
    if axes is None or prod(small) == 1 or not repeats(shape, axes) or _is_constant(model, full):
        return alone
    operator, output = _OPERATORS[node.op_type], node.outputs[0]
    op = Expand(operator, shape, axes, dtype)
    reference = spread_reference(operator, full, vector, output)
    leg = LegPiece(node.name, node, op, (full, vector), (output,), reference, exact=operator in ("max", "min"))
    note = f"{operator} of {list(shape)} with {list(small)} repeated along axes {list(op.axes)}"
    return Parts((leg,), note, leg_family=False)


def _is_constant(model: Model, name: str) -> bool:
    producer = model.producers.get(name)
    return name in model.initializers or (producer is not None and producer.op_type == "Constant")


def _range(model: Model, node: Node) -> Parts | OnHost:
    """Whole numbers one step apart, counted in 32 bits; 64-bit results are cast on the host."""
    given = [model.constant(name) for name in node.inputs]
    if any(value is None for value in given):
        return _host("its start, limit or step is known only while the model runs")
    start, limit, step = (value.reshape(-1)[0].item() for value in given if value is not None)
    dtype = model.dtype(node.outputs[0])
    if not all(isfinite(value) and float(value).is_integer() for value in (start, step)) or step == 0:
        return _host(f"its values from {start} in steps of {step} are no whole numbers, which is what the leg counts")
    count = max(0, ceil((limit - start) / step))
    if not count:
        return _host("it holds no element")
    start, step = int(start), int(step)
    greatest = max(abs(start), abs(start + (count - 1) * step))
    room = _EXACT_FLOAT.get(dtype, np.iinfo(np.int32).max)
    if is_float(dtype) and dtype not in _EXACT_FLOAT:
        room = np.iinfo(np.int32).max
    if greatest > room:
        return _host(f"its values reach {greatest}; up to {room} the leg counts {dtype} exactly")
    output = node.outputs[0]
    counted = dtype if dtype in LEG_DTYPES else "int32"
    result = output if counted == dtype else f"{output}/counted"
    op = Iota((count,), (step,), start, counted)
    constants = tuple((f"{result}/{word}", (value,)) for word, value in zip(_WORDS, _bounds(op), strict=True))
    reference = Reference(_range_reference(op, result), _REFERENCE_SET, constants)
    name = node.name if result == output else f"{node.name}/count"
    pieces: list[LegPiece | HostPiece] = [LegPiece(name, node, op, (), (result,), reference, exact=True)]
    note = f"{count} numbers from {start} in steps of {step}"
    types: tuple[tuple[str, onnx.TypeProto], ...] = ()
    if result != output:
        cast = helper.make_node("Cast", [result], [output], name=f"{node.name}/cast", to=element_of(dtype))
        pieces.append(HostPiece(f"{node.name}/cast", node, cast))
        note = f"{note}; counted in int32, cast to {dtype} on the host"
        types = ((result, tensor_type(counted, op.shape)),)
    return Parts(tuple(pieces), note, types=types, leg_family=False)


_WORDS = ("start", "limit", "step")


def _bounds(op: Iota) -> tuple[int, int, int]:
    (step,), (count,) = op.steps, op.shape
    return op.base, op.base + count * step, step


def _range_reference(op: Iota, result: str) -> tuple[onnx.NodeProto, ...]:
    """A Range of 64-bit integers, whose bounds come as lists of one number, cast to the result's type."""
    scalars = [f"{result}/{word}/scalar" for word in _WORDS]
    wide = f"{result}/wide"
    return (
        *(
            helper.make_node("Squeeze", [f"{result}/{word}"], [name])
            for word, name in zip(_WORDS, scalars, strict=True)
        ),
        helper.make_node("Range", scalars, [wide]),
        helper.make_node("Cast", [wide], [result], to=element_of(op.output_dtype)),
    )


ARITHMETIC: dict[str, Callable[[Model, Node], Parts | OnHost]] = {
    **dict.fromkeys(_OPERATORS, _combined),
    "Range": _range,
    "Reciprocal": _reciprocal,
}
"""What each operator that counts, inverts or repeats a vector comes to."""
