"""Element types that a target does not take: another type on the leg, from a Cast on the host to a Cast on the host."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import onnx
from onnx import helper

from lanefold.frontends.onnx.elements import CAST_SET, host_elements
from lanefold.frontends.onnx.long_searches import searched_in_parts
from lanefold.frontends.onnx.pieces import HostPiece, LegPiece, Parts, Piece, tensor_type
from lanefold.ops import ArgPool, ArgReduce, Pool, Reduce, TopK

_FIRST_BRAIN_CAST = 13
_Kind = Pool | ArgPool | Reduce | ArgReduce | TopK
_KINDS = (Pool, ArgPool, Reduce, ArgReduce, TopK)
_SMALL = ("int8", "uint8", "int16", "uint16", "float16", "bfloat16")
_CHOOSING = dict.fromkeys(_SMALL, "float32")
_INSTEAD: dict[str, dict[str, str]] = {
    "max": _CHOOSING,
    "min": _CHOOSING,
    "add": {"bfloat16": "float32", "uint32": "int32"},
    "mult": {"uint32": "int32"},
    "average": {"bfloat16": "float32"},
}
"""By operator, the type that stands for one: float32 holds every small number and keeps their order, int32 wraps to the
same bits as uint32, and a bfloat16 sum is kept in float32 and rounded once."""
_WHY = {
    "add": {"float32": "sums are kept there and rounded once", "int32": "sums wrap to the same bits"},
    "mult": {"int32": "products wrap to the same bits"},
    "average": {"float32": "sums are kept there and rounded once"},
}
_ORDER = "it holds every value, and their order"


def other_forms(parts: Parts, opset: int) -> Iterator[Parts]:
    """What a node may come to instead where a target refuses it.

    Mappings of elements on the host come first, then other types, then long searches in parts, in their own type and
    in the other.
    """
    cast = _other_types(parts, opset)
    long = (searched_in_parts(form, opset) for form in (parts, cast) if form is not None)
    for other in (host_elements(parts), cast, *long):
        if other is not None:
            yield other


def _other_types(parts: Parts, opset: int) -> Parts | None:
    """The same node with other element types on the leg; None where no other type gives the same results."""
    pieces: list[Piece] = []
    types = list(parts.types)
    notes: list[str] = []
    for piece in parts.pieces:
        op = piece.op if isinstance(piece, LegPiece) else None
        wide = _wider(op, opset) if isinstance(op, _KINDS) else ""
        if not isinstance(piece, LegPiece) or not isinstance(op, _KINDS) or not wide:
            pieces.append(piece)
            continue
        made, more = _cast(piece, op, wide)
        pieces += made
        types += more
        why = _WHY.get(_operator(op), {}).get(wide, _ORDER)
        notes.append(f"{op.dtype} becomes {wide} on the host, since the target does not take it: {why}")
    if not notes:
        return None
    return replace(parts, pieces=tuple(pieces), types=tuple(types), note="; ".join([parts.note, *dict.fromkeys(notes)]))


def _operator(op: _Kind) -> str:
    return "max" if isinstance(op, TopK | ArgPool) else op.operator


def _wider(op: _Kind, opset: int) -> str:
    """The type that stands for that of an op, empty where there is none or no Cast to it."""
    if opset < (_FIRST_BRAIN_CAST if op.dtype == "bfloat16" else CAST_SET):
        return ""
    if isinstance(op, Pool | Reduce) and (op.element != "identity" or op.output_dtype != op.dtype):
        return ""
    return _INSTEAD.get(_operator(op), {}).get(op.dtype, "")


def _cast(piece: LegPiece, op: _Kind, wide: str) -> tuple[list[Piece], list[tuple[str, onnx.TypeProto]]]:
    """A Cast, the piece in the wide type, and a Cast back of every result that had the type."""
    source = piece.inputs[0]
    within = f"{piece.outputs[0]}/{wide}"
    results = {
        name: f"{name}/{wide}/result"
        for name, dtype in zip(piece.outputs, piece.result_dtypes, strict=True)
        if dtype == op.dtype and not isinstance(op, ArgReduce)
    }
    names = {source: within, **results}
    wide_op: _Kind = replace(op, dtype=wide)
    if isinstance(op, Pool | Reduce):
        wide_op = replace(op, dtype=wide, output_dtype=wide)
    inner = replace(
        piece,
        name=f"{piece.name}/{wide}",
        op=wide_op,
        inputs=(within, *piece.inputs[1:]),
        outputs=tuple(results.get(name, name) for name in piece.outputs),
        reference=replace(piece.reference, nodes=tuple(_renamed(node, names) for node in piece.reference.nodes)),
    )
    types = [(within, tensor_type(wide, piece.operands[0][1]))]
    made: list[Piece] = [_host_cast(piece, "in", source, within, wide), inner]
    for name, inside in results.items():
        types.append((inside, tensor_type(wide, op.output_shape)))
        made.append(_host_cast(piece, name, inside, name, op.dtype))
    return made, types


def _host_cast(piece: LegPiece, word: str, source: str, result: str, dtype: str) -> HostPiece:
    name = f"{piece.name}/cast/{word}"
    kind = tensor_type(dtype, ()).tensor_type.elem_type
    return HostPiece(name, piece.node, helper.make_node("Cast", [source], [result], name=name, to=kind))


def _renamed(node: onnx.NodeProto, names: dict[str, str]) -> onnx.NodeProto:
    made = onnx.NodeProto()
    made.CopyFrom(node)
    for field in (made.input, made.output):
        new = [names.get(name, name) for name in field]
        del field[:]
        field.extend(new)
    return made
