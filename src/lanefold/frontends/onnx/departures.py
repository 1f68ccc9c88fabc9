"""Where onnxruntime is known to depart from the standard: the model written so that it cannot."""

from __future__ import annotations

import onnx
from onnx import helper

from lanefold.frontends.onnx.nodes import Node
from lanefold.frontends.onnx.pieces import Parts, leg_pieces
from lanefold.frontends.onnx.read import Model
from lanefold.ops import Pool

_ATTRIBUTES = ("auto_pad", "pads", "ceil_mode")


def standard_pads(model: Model) -> onnx.ModelProto | None:
    """The model with the pads of the standard written out, None where no pooling is known to be read otherwise.

    onnxruntime counts windows by ceil_mode beside VALID, and resolves SAME without dilations and with windows that
    skip elements in its own way. Source: ONNX operators: MaxPool, attributes auto_pad, pads and ceil_mode.
    """
    from lanefold.frontends.onnx.decompose import decompose

    pools: dict[int, Pool] = {}
    for parts in decompose(model):
        for piece in leg_pieces(parts.pieces) if isinstance(parts, Parts) else ():
            if isinstance(piece.op, Pool) and _departs(piece.node, piece.op):
                pools[piece.node.index] = piece.op
    if not pools:
        return None
    proto = onnx.ModelProto()
    proto.CopyFrom(model.proto)
    del proto.graph.value_info[:]
    nodes = {tuple(each.output): each for each in proto.graph.node}
    for node in model.nodes:
        if node.index in pools:
            _write_out(nodes[tuple(node.proto.output)], pools[node.index])
    return proto


def _write_out(node: onnx.NodeProto, pool: Pool) -> None:
    kept = [each for each in node.attribute if each.name not in _ATTRIBUTES]
    del node.attribute[:]
    node.attribute.extend([*kept, helper.make_attribute("pads", list(pool.pads))])


def _departs(node: Node, pool: Pool) -> bool:
    """Whether onnxruntime is known to read the pads of a pooling otherwise."""
    auto_pad = str(node.attributes.get("auto_pad", "NOTSET"))
    if auto_pad == "VALID":
        return bool(node.integer("ceil_mode"))
    skips = any(stride > kernel for stride, kernel in zip(pool.strides, pool.kernel, strict=True))
    return auto_pad.startswith("SAME") and (skips or max(pool.dilations) > 1)
