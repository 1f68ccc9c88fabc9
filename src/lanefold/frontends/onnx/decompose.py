"""Taking every node of a model apart into work for the leg and work for the host."""

from __future__ import annotations

from dataclasses import replace

from lanefold.diagnostics import LanefoldError
from lanefold.frontends.onnx.arithmetic import ARITHMETIC
from lanefold.frontends.onnx.masks import zero_masks
from lanefold.frontends.onnx.means import recognised
from lanefold.frontends.onnx.nodes import DEFAULT_DOMAINS, Node
from lanefold.frontends.onnx.norms import NORMS
from lanefold.frontends.onnx.pieces import OnHost, Parts, at_node
from lanefold.frontends.onnx.pools import POOLS
from lanefold.frontends.onnx.read import Model
from lanefold.frontends.onnx.reduces import REDUCES
from lanefold.frontends.onnx.searches import SEARCHES
from lanefold.frontends.onnx.softmaxes import SOFTMAXES
from lanefold.frontends.onnx.spreading import SPREADING

HANDLERS = {**POOLS, **REDUCES, **SEARCHES, **SPREADING, **SOFTMAXES, **NORMS, **ARITHMETIC}

_KEPT_ON_HOST = {
    "MaxRoiPool": "windows that depend on data are pooled on the host",
}


def decompose(model: Model) -> tuple[Parts | OnHost, ...]:
    """What each node of the model comes to, in the order of the nodes; no target has a say yet.

    Raises:
        LanefoldError: one diagnostic for each node whose attributes, window or shapes cannot be.
    """
    made: list[Parts | OnHost] = []
    found = []
    usage = False
    for node in model.nodes:
        try:
            made.append(_decompose_node(model, node))
        except LanefoldError as error:
            usage |= error.usage
            found += at_node(error, model, node)
    if found:
        raise LanefoldError(found, usage=usage)
    return tuple(made)


def _decompose_node(model: Model, node: Node) -> Parts | OnHost:
    handler = HANDLERS.get(node.op_type) if node.proto.domain in DEFAULT_DOMAINS else None
    if handler is not None:
        parts = recognised(model, node) or handler(model, node)
        return replace(parts, findings=(*parts.findings, *zero_masks(model, node)))
    reason = _KEPT_ON_HOST.get(node.op_type)
    if reason is not None and node.proto.domain in DEFAULT_DOMAINS:
        return OnHost(reason)
    return OnHost(f"{node.op_type} is no pooling, reduction or expansion of the leg", leg_family=False)
