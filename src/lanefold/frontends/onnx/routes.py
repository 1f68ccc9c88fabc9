"""The routes of one node: every candidate, why it is legal or not, and its price."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from lanefold.diagnostics import Place, Rule
from lanefold.frontends.onnx.casts import other_forms
from lanefold.frontends.onnx.decompose import decompose
from lanefold.frontends.onnx.pieces import LegPiece, OnHost, Parts, Piece
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
    target.check_preference(prefer, model.place())
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

    def ask(piece: LegPiece) -> Sequence[Any]:
        routes: Sequence[Any] = target.routes(piece.op, model.place(node), prefer)
        return routes

    pieces = _candidates(made.pieces, ask)
    if not any(_legal(candidates) for _, candidates in pieces):
        pieces += _instead(made, model.opset, ask)
    return NodeRoutes(name, node.op_type, "", tuple(pieces))


_Candidates = list[tuple[str, Sequence[Any]]]


def _instead(parts: Parts, opset: int, ask: Callable[[LegPiece], Sequence[Any]]) -> _Candidates:
    """The routes of the first other form of a node whose pieces are all legal; of every form where there is none."""
    seen: _Candidates = []
    for form in other_forms(parts, opset):
        found = _candidates(form.pieces, ask)
        if all(_legal(candidates) for _, candidates in found):
            return found
        seen += found
    return seen


def _candidates(pieces: Iterable[Piece], ask: Callable[[LegPiece], Sequence[Any]]) -> _Candidates:
    """The routes of every leg piece; behind a piece without a legal one, those of what stands for it."""
    found: _Candidates = []
    for piece in pieces:
        if isinstance(piece, LegPiece):
            candidates = ask(piece)
            found.append((piece.name, candidates))
            if not _legal(candidates):
                found += _candidates(piece.otherwise, ask)
    return found


def _legal(candidates: Sequence[Any]) -> bool:
    return any(each.code is not None for each in candidates)
