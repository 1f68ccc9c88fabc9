"""Taking the mapping of elements out of a leg piece: magnitudes and squares on the host, the fold on the leg."""

from __future__ import annotations

from dataclasses import replace

import onnx
from onnx import helper

from lanefold.frontends.onnx.pieces import HostPiece, LegPiece, Parts, Piece, tensor_type
from lanefold.ops import Pool, Reduce
from lanefold.ops.checks import is_float


def host_elements(parts: Parts) -> Parts | None:
    """The same node with every mapping of elements on the host; None where there is none, or no host form of it.

    Squares of integers stay as they are: the comparison with the source needs their roots.
    """
    pieces: list[Piece] = []
    types = list(parts.types)
    notes = [parts.note]
    for piece in parts.pieces:
        op = piece.op if isinstance(piece, LegPiece) else None
        if not isinstance(piece, LegPiece) or not isinstance(op, Pool | Reduce) or op.element == "identity":
            pieces.append(piece)
            continue
        if op.element == "square" and not is_float(op.dtype):
            return None
        mapped = f"{piece.name}/{op.element}"
        pieces += [_mapping(piece, op.element, mapped), _fold(piece, op, mapped)]
        types.append((mapped, tensor_type(op.dtype, op.input_shape)))
        notes.append(f"{op.element} of every element on the host, since the target folds elements as they are")
    if len(notes) == 1:
        return None
    return replace(parts, pieces=tuple(pieces), types=tuple(types), note="; ".join(notes))


def _mapping(piece: LegPiece, element: str, mapped: str) -> HostPiece:
    source = piece.inputs[0]
    operator, operands = ("Abs", [source]) if element == "abs" else ("Mul", [source, source])
    name = f"{mapped}/host"
    return HostPiece(name, piece.node, helper.make_node(operator, operands, [mapped], name=name))


def _fold(piece: LegPiece, op: Pool | Reduce, mapped: str) -> LegPiece:
    """The fold of mapped elements, which are none below 0 and so their own magnitudes."""
    node = piece.reference.nodes[-1]
    copied = onnx.NodeProto()
    copied.CopyFrom(node)
    copied.op_type = "ReduceL1" if node.op_type == "ReduceSumSquare" else node.op_type
    copied.input[0] = mapped
    if copied.op_type.endswith("LpPool"):
        copied = sums_magnitudes(copied)
    return replace(
        piece,
        name=f"{mapped}/fold",
        op=replace(op, element="identity"),
        inputs=(mapped, *piece.inputs[1:]),
        reference=replace(piece.reference, nodes=(copied,)),
    )


def sums_magnitudes(node: onnx.NodeProto) -> onnx.NodeProto:
    """A pooling by norms with p = 1 in place of its own p."""
    proto = onnx.NodeProto()
    proto.CopyFrom(node)
    kept = [each for each in proto.attribute if each.name != "p"]
    del proto.attribute[:]
    proto.attribute.extend([*kept, helper.make_attribute("p", 1)])
    return proto
