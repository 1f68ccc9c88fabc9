"""Searches over axes too long for a target: parts of the axis on the leg, the place of the part added on the host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np
import onnx
from onnx import helper, numpy_helper

from lanefold.frontends.onnx.pieces import HostPiece, LegPiece, Parts, Piece, Reference, tensor_type
from lanefold.frontends.onnx.reduces import leg_fold
from lanefold.ops import ArgReduce, Reduce, TopK
from lanefold.targets import rows_of_a_search

_FIRST_SET = 11
"""Operator set from which the host gathers single elements and repeats the edge in pads."""
_REFERENCE_SET = 13
_ROW = 32_768
"""Elements of the longest part where they lie side by side."""
_MORE = 16
"""How many times as many parts are better than an axis filled up, which is a copy of the tensor."""


def first_index(piece: LegPiece) -> LegPiece:
    """A search with its own reference in ONNX nodes: the first index of the extreme of every row, in 32 bits."""
    op = piece.op
    if not isinstance(op, ArgReduce):
        return piece
    (source,), (result,) = piece.inputs, piece.outputs
    wide = f"{result}/int64"
    search = helper.make_node(f"Arg{op.operator.title()}", [source], [wide], axis=op.axis, keepdims=int(op.keepdims))
    kind = tensor_type(op.output_dtype, ()).tensor_type.elem_type
    nodes = (search, helper.make_node("Cast", [wide], [result], to=kind))
    return replace(piece, reference=Reference(nodes, _REFERENCE_SET), exact=True)


def searched_in_parts(parts: Parts, opset: int) -> Parts | None:
    """The same node with a long search for the first extreme made part by part; None where it has no such search."""
    if opset < _FIRST_SET:
        return None
    for at, (piece, after) in enumerate(zip(parts.pieces, parts.pieces[1:], strict=False)):
        if isinstance(piece, LegPiece) and isinstance(after, HostPiece) and _widens(after, piece.outputs[-1]):
            op, extreme = _search(piece)
            if op is not None and op.input_shape[op.axis] > _longest(op):
                split = _Split(piece, op, after.proto.output[0])
                return replace(
                    parts,
                    pieces=(*parts.pieces[:at], *extreme, *split.pieces, *parts.pieces[at + 2 :]),
                    types=(*parts.types, *split.types),
                    constants=(*parts.constants, *split.constants),
                    note=f"{parts.note}; {split.note}",
                )
    return None


def _widens(after: HostPiece, indices: str) -> bool:
    """Whether a piece is the Cast of indices to 64 bits."""
    proto = after.proto
    return proto.op_type == "Cast" and list(proto.input) == [indices] and proto.attribute[0].i == onnx.TensorProto.INT64


def _search(piece: LegPiece) -> tuple[ArgReduce | None, tuple[LegPiece, ...]]:
    """The search for the first index that a piece is, and what gives its value where that is wanted too."""
    op = piece.op
    if isinstance(op, ArgReduce):
        return (None if op.select_last_index else op), ()
    if not isinstance(op, TopK) or op.k != 1:
        return None, ()
    operator = "max" if op.largest else "min"
    fold = Reduce(operator, op.input_shape, (op.axis,), True, dtype=op.dtype)
    value = leg_fold(piece.node, fold, piece.inputs[0], piece.outputs[0], f"{piece.name}/value")
    return ArgReduce(operator, op.input_shape, op.axis, True, dtype=op.dtype), (value,)


def _longest(op: ArgReduce) -> int:
    if prod(op.input_shape[op.axis + 1 :]) == 1:
        return _ROW
    # Elements that lie apart are the rows of a tile.
    return rows_of_a_search(op.dtype)


def _even(extent: int, longest: int) -> int:
    """As few parts as possible, or some times as many where they are then equally long and nothing is repeated."""
    fewest = -(-extent // longest)
    return next((count for count in range(fewest, _MORE * fewest + 1) if extent % count == 0), fewest)


class _Split:
    """The steps of one search whose axis is [parts, length]: pieces, types, constants and a remark.

    The axis is filled up with its last element, which never wins over itself.
    """

    def __init__(self, piece: LegPiece, op: ArgReduce, result: str) -> None:
        self.piece = piece
        self.op = op
        self.pieces: list[Piece] = []
        self.types: list[tuple[str, onnx.TypeProto]] = []
        self.constants: list[onnx.TensorProto] = []
        extent = op.input_shape[op.axis]
        self.count = _even(extent, _longest(op))
        self.length = -(-extent // self.count)
        self.note = (
            f"the axis is searched in {self.count} parts of {self.length}, then their extremes; the host adds part × "
            f"{self.length} to the index in the part; NaN in first place of a part stands for the part"
        )
        self._steps(result)

    def _steps(self, result: str) -> None:
        op, axis = self.op, self.op.axis
        before, behind = op.input_shape[:axis], op.input_shape[axis + 1 :]
        source = self._filled(self.piece.inputs[0])
        divided = (*before, self.count, self.length, *behind)
        parts = self._shaped("parts", source, divided, op.dtype)
        fold = Reduce(op.operator, divided, (axis + 1,), False, dtype=op.dtype)
        extremes = self._name("extremes", fold.output_shape, op.dtype)
        self.pieces.append(leg_fold(self.piece.node, fold, parts, extremes, self._step("extremes")))
        inside = self._index("inside", parts, replace(op, input_shape=divided, axis=axis + 1, keepdims=False))
        part = self._index("part", extremes, replace(op, input_shape=fold.output_shape, keepdims=True))
        small = (*before, 1, *behind)
        place = self._host("place", "GatherElements", [inside, part], small, axis=axis)
        begin = self._host("begin", "Mul", [part, self._constant("length", self.length)], small)
        if op.keepdims:
            self._host("index", "Add", [begin, place], small, into=result)
        else:
            index = self._host("index", "Add", [begin, place], small)
            self._shaped("extents", index, op.output_shape, "int64", into=result)

    def _filled(self, source: str) -> str:
        """The source with its last elements again up to whole parts."""
        op = self.op
        whole = self.count * self.length
        missing = whole - op.input_shape[op.axis]
        if not missing:
            return source
        rank = len(op.input_shape)
        pads = [0] * (2 * rank)
        pads[rank + op.axis] = missing
        shape = (*op.input_shape[: op.axis], whole, *op.input_shape[op.axis + 1 :])
        sources = [source, self._constant("pads", pads)]
        return self._host("filled", "Pad", sources, shape, dtype=op.dtype, mode="edge")

    def _index(self, word: str, source: str, op: ArgReduce) -> str:
        """A search on the leg and its indices in 64 bits."""
        narrow = self._name(f"{word}/index", op.output_shape, op.output_dtype)
        name = self._step(word)
        plain = replace(self.piece, name=name, op=op, inputs=(source,), outputs=(narrow,), otherwise=())
        self.pieces.append(first_index(plain))
        return self._host(word, "Cast", [narrow], op.output_shape, step="cast", to=onnx.TensorProto.INT64)

    def _shaped(self, word: str, source: str, shape: Sequence[int], dtype: str, into: str = "") -> str:
        extents = self._constant(f"{word}/extents", list(shape))
        return self._host(word, "Reshape", [source, extents], shape, dtype=dtype, into=into)

    def _host(
        self,
        word: str,
        op_type: str,
        sources: list[str],
        shape: Sequence[int],
        *,
        dtype: str = "int64",
        into: str = "",
        step: str = "",
        **attributes: int | str,
    ) -> str:
        result = into or self._name(word, shape, dtype)
        name = self._step(f"{word}/{step}" if step else word)
        proto = helper.make_node(op_type, sources, [result], name=name, **attributes)  # type: ignore[arg-type]
        self.pieces.append(HostPiece(name, self.piece.node, proto))
        return result

    def _step(self, word: str) -> str:
        return f"{self.piece.name}/{word}"

    def _name(self, word: str, shape: Sequence[int], dtype: str) -> str:
        name = f"{self.piece.outputs[-1]}/{self.op.dtype}/{word}"
        self.types.append((name, tensor_type(dtype, shape)))
        return name

    def _constant(self, word: str, value: int | list[int]) -> str:
        name = f"{self.piece.outputs[-1]}/{self.op.dtype}/{word}"
        self.constants.append(numpy_helper.from_array(np.array(value, np.int64), name))
        return name
