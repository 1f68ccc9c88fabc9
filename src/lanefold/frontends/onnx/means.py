"""Averages written as a sum and a product or quotient: recognised, and folded in one instruction."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import onnx

from lanefold.frontends.onnx.nodes import Node
from lanefold.frontends.onnx.pieces import HostPiece, LegPiece, OnHost, Parts, leg_source, tensor_type
from lanefold.frontends.onnx.read import Model
from lanefold.frontends.onnx.reduces import leg_fold, resolved_axes
from lanefold.ops import Reduce

_SUM = "ReduceSum"
_DTYPE = "float32"


def recognised(model: Model, node: Node) -> Parts | None:
    """What a node comes to that is part of an average written as ReduceSum × 1/N or ÷ N; None for other nodes.

    The product or quotient becomes the average of the sum's input; the sum itself stays on the host, where nothing
    reads it unless the target refuses the average.
    """
    if node.op_type == _SUM:
        reader = _only_reader(model, node)
        if reader is None or _average(model, reader) is None:
            return None
        host = HostPiece(node.name, node, node.proto)
        return Parts((host,), f"folded into the average that {reader.name} makes of it")
    return _average(model, node) if node.op_type in ("Mul", "Div") else None


def _only_reader(model: Model, node: Node) -> Node | None:
    """The only node that reads the result of a node; None if others do, or the user."""
    (result,) = node.outputs
    if any(value.name == result for value in model.proto.graph.output):
        return None
    readers = [other for other in model.nodes if result in other.proto.input]
    inner = any(each.HasField("g") or each.graphs for other in model.nodes for each in other.proto.attribute)
    return readers[0] if len(readers) == 1 and not inner else None


def _average(model: Model, node: Node) -> Parts | None:
    found = _operands(model, node)
    if found is None:
        return None
    total, value = found
    source = leg_source(model, total)
    if isinstance(source, OnHost) or source.dtype != _DTYPE:
        return None
    axes = resolved_axes(model, total, len(source.shape))
    if isinstance(axes, OnHost):
        return None
    op = Reduce("average", source.shape, axes, bool(total.integer("keepdims", 1)), dtype=source.dtype)
    apart = _apart(node, op.count, value)
    if apart is None or prod(value.shape) != 1 or value.ndim > len(op.output_shape):
        return None
    (result,) = node.outputs
    middle = f"{result}/sum"
    alone = _one_after_the_other(node, total, replace(op, operator="add"), source.name, middle)
    piece = replace(leg_fold(node, op, source.name, result, node.name), otherwise=alone)
    by = f"÷ {op.count}" if node.op_type == "Div" else f"× {float(value.reshape(-1)[0])!r}"
    return Parts(
        (piece,),
        f"{total.name} {by} averages over axes {list(op.axes)} of {list(op.input_shape)}; N = {op.count}; {apart}",
        types=((middle, tensor_type(source.dtype, op.output_shape)),),
    )


def _one_after_the_other(
    node: Node, total: Node, op: Reduce, source: str, middle: str
) -> tuple[LegPiece | HostPiece, ...]:
    """The sum and its scaling as they are written, for targets that refuse the average."""
    name = f"{node.name}/sum"
    host = HostPiece(name, node, _renamed(total.proto, name, middle))
    fold = replace(leg_fold(node, op, source, middle, name), otherwise=(host,))
    scaling = _renamed(node.proto, node.name, node.outputs[0])
    scaling.input[list(scaling.input).index(total.outputs[0])] = middle
    return fold, HostPiece(node.name, node, scaling)


def _renamed(proto: onnx.NodeProto, name: str, result: str) -> onnx.NodeProto:
    copied = onnx.NodeProto()
    copied.CopyFrom(proto)
    copied.name, copied.output[0] = name, result
    return copied


def _operands(model: Model, node: Node) -> tuple[Node, np.ndarray[Any, np.dtype[Any]]] | None:
    """The sum that a node scales, and the constant it scales with."""
    if len(node.inputs) != 2 or len(set(node.inputs)) != 2:
        return None
    places = (0, 1) if node.op_type == "Mul" else (0,)
    for at in places:
        total = model.producers.get(node.inputs[at])
        if total is None or total.op_type != _SUM or _only_reader(model, total) is not node:
            continue
        value = model.constant(node.inputs[1 - at])
        if value is not None:
            return total, value
    return None


def _apart(node: Node, count: int, value: np.ndarray[Any, np.dtype[Any]]) -> str | None:
    """How the roundings of the average and of the node differ; None where the constant is not that of an average."""
    given = float(value.reshape(-1)[0]) if value.size == 1 else 0.0
    if node.op_type == "Div":
        same = given == count
        near = "a target that multiplies with the constant 1/N may give the neighbour of the quotient"
        return (near if count & (count - 1) else "1/N is exact") if same else None
    nearest = float(np.float32(1) / np.float32(count))
    if given != nearest:
        return None
    off = abs(nearest * count - 1)
    return f"the constant is 1/N rounded to float32, {off:.2g} of it away" if off else "1/N is exact"
