"""Softmax nodes as Softmax ops, for targets that have exponentials."""

from __future__ import annotations

from collections.abc import Callable

from lanefold.frontends.onnx.nodes import Node
from lanefold.frontends.onnx.pieces import LegPiece, OnHost, Parts, Reference, leg_source, only_output
from lanefold.frontends.onnx.read import Model
from lanefold.ops import Softmax
from lanefold.ops.checks import is_float

_SINGLE_AXIS = 13
"""Operator set from which the axis stands for itself; before, all axes from it on are one."""


def _softmax(model: Model, node: Node) -> Parts | OnHost:
    source = leg_source(model, node)
    if isinstance(source, OnHost):
        return source
    rank = len(source.shape)
    if not rank or not is_float(source.dtype):
        return OnHost(f"its input {source.name} is {source.dtype} of {rank} dimensions")
    single = model.opset >= _SINGLE_AXIS
    given = node.attributes.get("axis", -1 if single else 1)
    axis = given if isinstance(given, int) else -1
    if not single and not -rank <= axis < rank:
        return OnHost(f"axis {axis} leaves rows of one element")
    axes = (axis,) if single else tuple(range(axis % rank, rank))
    op = Softmax(source.shape, axes, source.dtype)
    reference = Reference((only_output(node),), model.opset)
    leg = LegPiece(node.name, node, op, (source.name,), (node.outputs[0],), reference, exact=False)
    return Parts((leg,), f"softmax over axes {list(op.axes)} of {list(source.shape)}")


SOFTMAX: dict[str, Callable[[Model, Node], Parts | OnHost]] = {"Softmax": _softmax}
"""What a Softmax comes to."""
