"""Expand and Gather: repetition on the leg, and look-up of indices that the host prepares."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
from onnx import helper, numpy_helper

from lanefold.frontends.onnx.nodes import Node
from lanefold.frontends.onnx.pieces import HostPiece, LegPiece, OnHost, Parts, Reference, leg_source, tensor_type
from lanefold.frontends.onnx.read import Model
from lanefold.ops import Expand, Gather

_REFERENCE_SET = 13
_FIRST_MOD = 10


def _expand(model: Model, node: Node) -> Parts | OnHost:
    source = leg_source(model, node)
    if isinstance(source, OnHost):
        return source
    constant = model.constant(node.inputs[1])
    if constant is None:
        return OnHost(f"its extents {node.inputs[1]} are known only while the model runs")
    wanted = tuple(int(each) for each in constant.reshape(-1))
    try:
        shape = np.broadcast_shapes(source.shape, wanted)
    except ValueError:
        return OnHost(f"extents {list(source.shape)} do not expand to {list(wanted)}")
    full = (1,) * (len(shape) - len(source.shape)) + source.shape
    axes = tuple(axis for axis, extent in enumerate(full) if extent == 1)
    if full == shape or 0 in shape:
        return OnHost(f"extents {list(source.shape)} to {list(shape)} repeat no element")
    op = Expand("bypass", shape, axes, source.dtype)
    output = node.outputs[0]
    extents = f"{output}/extents"
    proto = helper.make_node("Expand", [source.name, extents], [output])
    reference = Reference((proto,), _REFERENCE_SET, ((extents, shape),))
    leg = LegPiece(node.name, node, op, (source.name,), (output,), reference, exact=True)
    return Parts((leg,), f"{list(source.shape)} repeated to {list(shape)}")


def _gather(model: Model, node: Node) -> Parts | OnHost:
    source = leg_source(model, node)
    if isinstance(source, OnHost):
        return source
    chosen = node.inputs[1]
    shape, dtype = model.shape(chosen), model.dtype(chosen)
    if shape is None or dtype not in ("int32", "int64"):
        return OnHost(f"the extents or the type of its indices {chosen} are known only while the model runs")
    if 0 in shape or not source.shape:
        return OnHost(f"indices of extents {list(shape)} choose no element")
    if model.opset < _FIRST_MOD:
        return OnHost(f"operator set {model.opset} has no Mod, which makes negative indices positive")
    op = Gather(source.shape, shape, node.integer("axis"), source.dtype)
    output = node.outputs[0]
    extent, positive, narrow, wide = (f"{output}/{word}" for word in ("extent", "positive", "index", "index64"))
    length = numpy_helper.from_array(np.array(op.input_shape[op.axis], dtype), extent)
    names = [f"{node.name}/{word}" for word in ("mod", "cast", "fetch")]
    pieces = (
        HostPiece(names[0], node, helper.make_node("Mod", [chosen, extent], [positive], name=names[0])),
        HostPiece(
            names[1], node, helper.make_node("Cast", [positive], [narrow], name=names[1], to=onnx.TensorProto.UINT32)
        ),
        LegPiece(
            names[2],
            node,
            op,
            (source.name, narrow),
            (output,),
            Reference(
                (
                    helper.make_node("Cast", [narrow], [wide], to=onnx.TensorProto.INT64),
                    helper.make_node("Gather", [source.name, wide], [output], axis=op.axis),
                ),
                _REFERENCE_SET,
            ),
            exact=True,
        ),
    )
    return Parts(
        pieces,
        f"{list(shape)} indices into axis {op.axis} of {list(op.input_shape)}; indices made positive on the host",
        types=((positive, tensor_type(dtype, shape)), (narrow, tensor_type("uint32", shape))),
        constants=(length,),
    )


SPREADING: dict[str, Callable[[Model, Node], Parts | OnHost]] = {"Expand": _expand, "Gather": _gather}
"""What each operator that repeats or fetches comes to."""
