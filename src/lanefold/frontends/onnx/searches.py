"""ArgMax, ArgMin and TopK as searches; indices become 64-bit on the host."""

from __future__ import annotations

from collections.abc import Callable

import onnx
from onnx import helper

from lanefold.frontends.onnx.nodes import Node
from lanefold.frontends.onnx.pieces import (
    HostPiece,
    LegPiece,
    OnHost,
    Parts,
    Reference,
    Source,
    leg_source,
    tensor_type,
)
from lanefold.frontends.onnx.read import Model
from lanefold.ops import ArgReduce, TopK

_REFERENCE_SET = 13
_TOP_K_AXIS = -1
_FIRST_CAST = 6


def _widened(node: Node, source: str, result: str) -> HostPiece:
    """The Cast of 32-bit indices to the 64 bits that ONNX has."""
    name = f"{node.name}/cast"
    return HostPiece(name, node, helper.make_node("Cast", [source], [result], name=name, to=onnx.TensorProto.INT64))


def _narrowed(source: str, result: str) -> onnx.NodeProto:
    return helper.make_node("Cast", [source], [result], to=onnx.TensorProto.UINT32)


def _searched(model: Model, node: Node) -> Source | OnHost:
    if model.opset < _FIRST_CAST:
        return OnHost(f"operator set {model.opset} has no Cast from 32-bit to 64-bit indices that onnxruntime runs")
    source = leg_source(model, node)
    if isinstance(source, Source) and not source.shape:
        return OnHost("a scalar has no axis to search")
    return source


def _refuse_empty_axis(model: Model, node: Node) -> None:
    """Refuses a search of rows without elements, which have no index to give.

    Raises:
        LanefoldError: OP-REDUCE-EMPTY, with the axis and its extent.
    """
    shape = model.shape(node.inputs[0])
    if shape is None or 0 not in shape:
        return
    axis = node.integer("axis")
    kept = [n for at, n in enumerate(shape) if at != axis % len(shape)]
    if -len(shape) <= axis < len(shape) and 0 not in kept:
        ArgReduce("max" if node.op_type == "ArgMax" else "min", shape, axis)


def _arg(model: Model, node: Node) -> Parts | OnHost:
    _refuse_empty_axis(model, node)
    source = _searched(model, node)
    if isinstance(source, OnHost):
        return source
    op = ArgReduce(
        "max" if node.op_type == "ArgMax" else "min",
        source.shape,
        node.integer("axis"),
        bool(node.integer("keepdims", 1)),
        bool(node.integer("select_last_index")),
        source.dtype,
    )
    output = node.outputs[0]
    narrow, wide = f"{output}/index", f"{output}/index64"
    proto = helper.make_node(
        node.op_type,
        [source.name],
        [wide],
        axis=op.axis,
        keepdims=int(op.keepdims),
        select_last_index=int(op.select_last_index),
    )
    reference = Reference((proto, _narrowed(wide, narrow)), _REFERENCE_SET)
    leg = LegPiece(f"{node.name}/search", node, op, (source.name,), (narrow,), reference, exact=True)
    which = "last" if op.select_last_index else "first"
    return Parts(
        (leg, _widened(node, narrow, output)),
        f"{which} {op.operator} over axis {op.axis} of {list(op.input_shape)}; indices cast to int64 on the host",
        types=((narrow, tensor_type(op.output_dtype, op.output_shape)),),
    )


def _wanted(model: Model, node: Node) -> int | OnHost:
    """How many values a TopK takes, given as attribute or as constant input."""
    if len(node.inputs) < 2:
        return node.integer("k")
    constant = model.constant(node.inputs[1])
    if constant is None:
        return OnHost(f"the number of values {node.inputs[1]} is known only while the model runs")
    return int(constant.reshape(-1)[0])


def _top_k(model: Model, node: Node) -> Parts | OnHost:
    source = _searched(model, node)
    if isinstance(source, OnHost):
        return source
    k = _wanted(model, node)
    if isinstance(k, OnHost):
        return k
    if k == 0:
        return OnHost("k 0 takes no value")
    op = TopK(
        source.shape,
        node.integer("axis", _TOP_K_AXIS),
        k,
        bool(node.integer("largest", 1)),
        bool(node.integer("sorted", 1)),
        source.dtype,
    )
    values, output = node.outputs
    narrow, wide, count = f"{values}/index", f"{values}/index64", f"{values}/k"
    proto = helper.make_node(
        "TopK", [source.name, count], [values, wide], axis=op.axis, largest=int(op.largest), sorted=1
    )
    reference = Reference((proto, _narrowed(wide, narrow)), _REFERENCE_SET, ((count, (k,)),))
    leg = LegPiece(f"{node.name}/search", node, op, (source.name,), (values, narrow), reference, exact=True)
    end = "largest" if op.largest else "smallest"
    return Parts(
        (leg, _widened(node, narrow, output)),
        f"{k} {end} over axis {op.axis} of {list(op.input_shape)}; indices cast to int64 on the host",
        types=((narrow, tensor_type(op.index_dtype, op.output_shape)),),
    )


SEARCHES: dict[str, Callable[[Model, Node], Parts | OnHost]] = {"ArgMax": _arg, "ArgMin": _arg, "TopK": _top_k}
"""What each operator that searches comes to."""
