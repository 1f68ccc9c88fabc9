"""The routes of one node: every candidate, why it is legal or not, and its price."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lanefold.diagnostics import Place, Rule
from lanefold.frontends.onnx.decompose import decompose
from lanefold.frontends.onnx.pieces import LegPiece, OnHost
from lanefold.frontends.onnx.read import Model
from lanefold.numerics.dtypes import nearest_names

_NODE = Rule("ONNX-NODE", "A node is named as in the model.", "ONNX IR specification: node names", usage=True)


@dataclass(frozen=True)
class NodeRoutes:
    """What can become of a node: a reason for the host, or the candidates of each of its leg pieces."""

    node: str
    op_type: str
    host_reason: str
    pieces: tuple[tuple[str, Sequence[Any]], ...]


def node_routes(model: Model, name: str, target: Any, prefer: str = "cost") -> NodeRoutes:
    """The routes of one node of a model on a target.

    Raises:
        LanefoldError: if the model has no such node or the preference is unknown.
    """
    names = [node.name for node in model.nodes]
    if name not in names:
        near = nearest_names(name, names) if names else []
        raise _NODE.error(
            f"the model has no node {name!r}",
            got=name,
            allowed=f"{len(names)} nodes, such as {', '.join(names[:5])}",
            place=Place(file=model.source),
            cures=[f"write {other}" for other in near] or ["give a model with nodes"],
        )
    index = names.index(name)
    node, made = model.nodes[index], list(decompose(model))[index]
    if isinstance(made, OnHost):
        return NodeRoutes(name, node.op_type, made.reason, ())
    pieces = tuple(
        (piece.name, target.routes(piece.op, model.place(node), prefer))
        for piece in made.pieces
        if isinstance(piece, LegPiece)
    )
    return NodeRoutes(name, node.op_type, "", pieces)
