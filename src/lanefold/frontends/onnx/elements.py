"""Taking the mapping of elements out of a leg piece: magnitudes and squares on the host, the fold on the leg."""

from __future__ import annotations

from dataclasses import replace

import onnx
from onnx import helper

from lanefold.frontends.onnx.pieces import HostPiece, LegPiece, Parts, Piece, tensor_type
from lanefold.ops import Pool, Reduce
from lanefold.ops.checks import is_float

WORK = "float32"
"""Element type in which sums of 16-bit floats are kept where another function follows."""
HALVES = ("float16", "bfloat16")
"""Floats of 16 bits, whose sums and squares soon leave their range."""
CAST_SET = 6
"""Operator set from which Cast names its type by number."""


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
        notes.append(f"{op.element} of every element on the host, since the target folds elements as they are")
        if op.dtype in HALVES:
            alone, more = _wide_alone(piece)
            pieces += alone
            types += more
            continue
        mapped = f"{piece.name}/{op.element}"
        pieces += [_mapping(piece, op.element, mapped), _fold(piece, op, mapped)]
        types.append((mapped, tensor_type(op.dtype, op.input_shape)))
    if len(notes) == 1:
        return None
    return replace(parts, pieces=tuple(pieces), types=tuple(types), note="; ".join(notes))


def wide_fold(piece: LegPiece) -> tuple[LegPiece, list[tuple[str, onnx.TypeProto]]]:
    """A fold of 16-bit floats whose result stays in float32, and the types of the tensors that it may need.

    Where the target folds one type only, its input becomes float32 on the host first; squares are taken there too.
    """
    op, source = piece.op, piece.inputs[0]
    if not isinstance(op, Pool | Reduce):
        return piece, []
    wide = f"{piece.outputs[0]}/wide"
    cast = helper.make_node("Cast", [source], [wide], name=f"{piece.name}/wide", to=onnx.TensorProto.FLOAT)
    renamed = tuple(_reading(node, source, wide) for node in piece.reference.nodes)
    wide_op = replace(op, dtype=WORK, output_dtype=WORK)
    inner = replace(
        piece,
        name=f"{piece.name}/float32",
        op=wide_op,
        inputs=(wide,),
        reference=replace(piece.reference, nodes=renamed),
    )
    types = [(wide, tensor_type(WORK, op.input_shape))]
    alone: list[Piece] = [HostPiece(cast.name, piece.node, cast), inner]
    if op.element != "identity":
        mapped = f"{inner.name}/{op.element}"
        alone[1:] = [_mapping(inner, op.element, mapped), _fold(inner, wide_op, mapped)]
        types.append((mapped, tensor_type(WORK, op.input_shape)))
    made = replace(
        piece,
        op=replace(op, output_dtype=WORK),
        reference=replace(piece.reference, nodes=(cast, *renamed)),
        otherwise=tuple(alone),
    )
    return made, types


def _wide_alone(piece: LegPiece) -> tuple[tuple[Piece, ...], list[tuple[str, onnx.TypeProto]]]:
    """A fold of 16-bit floats in float32, from a Cast on the host to a Cast on the host."""
    (output,) = piece.outputs
    total = f"{output}/total"
    nodes = []
    for node in piece.reference.nodes:
        copied = onnx.NodeProto()
        copied.CopyFrom(node)
        copied.output[0] = total if node.output[0] == output else node.output[0]
        nodes.append(copied)
    fold, types = wide_fold(replace(piece, outputs=(total,), reference=replace(piece.reference, nodes=tuple(nodes))))
    result = tensor_type(piece.result_dtypes[0], piece.op.output_shape)
    cast = helper.make_node("Cast", [total], [output], name=f"{piece.name}/narrow", to=result.tensor_type.elem_type)
    types += [(total, tensor_type(WORK, piece.op.output_shape)), (output, result)]
    return (*fold.otherwise, HostPiece(cast.name, piece.node, cast)), types


def _reading(node: onnx.NodeProto, before: str, after: str) -> onnx.NodeProto:
    """A node with another name for one of its inputs."""
    made = onnx.NodeProto()
    made.CopyFrom(node)
    names = [after if name == before else name for name in node.input]
    del made.input[:]
    made.input.extend(names)
    return made


def _mapping(piece: LegPiece, element: str, mapped: str) -> HostPiece:
    source = piece.inputs[0]
    operator, operands = ("Abs", [source]) if element == "abs" else ("Mul", [source, source])
    name = f"{mapped}/host"
    return HostPiece(name, piece.node, helper.make_node(operator, operands, [mapped], name=name))


def _fold(piece: LegPiece, op: Pool | Reduce, mapped: str) -> LegPiece:
    """The fold of mapped elements as they are; pooling by norms has sums of magnitudes only, which floats keep."""
    node = piece.reference.nodes[-1]
    copied = onnx.NodeProto()
    copied.CopyFrom(node)
    # The lowest integer is its own magnitude, so sums of magnitudes would not do for whole numbers.
    copied.op_type = "ReduceSum" if node.op_type.startswith("Reduce") else node.op_type
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
