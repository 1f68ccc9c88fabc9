"""Composites as chains of steps: reductions and spreading on the leg, functions of single elements on the host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from lanefold.diagnostics import Diagnostic
from lanefold.frontends.onnx.nodes import Node
from lanefold.frontends.onnx.pieces import HostPiece, LegPiece, Parts, Piece, Reference, Source, tensor_type
from lanefold.frontends.onnx.read import Model
from lanefold.ops import Expand, Reciprocal, Reduce

FIRST_SET = 7
"""Operator set from which the host's operators repeat the smaller operand by themselves."""
WORK = "float32"
"""Element type of everything between the input and the outputs of a composite."""

_CLIP_BY_INPUTS = 11
_REFERENCE_SET = 18
_FOLDS = {"add": "ReduceSum", "average": "ReduceMean", "max": "ReduceMax", "min": "ReduceMin"}
_SPREADS = {
    "add": ["Add"],
    "subtract": ["Sub"],
    "mult": ["Mul"],
    "divide": ["Div"],
    "max": ["Max"],
    "min": ["Min"],
    "exp_difference": ["Sub", "Exp"],
}


def element_of(dtype: str) -> int:
    """The ONNX element type of a type name."""
    return int(tensor_type(dtype, ()).tensor_type.elem_type)


def vector_axes(shape: Sequence[int], vector: Sequence[int]) -> tuple[int, ...] | None:
    """The axes along which a vector is repeated over a tensor; None where it is none that repeats to its extents."""
    if len(vector) > len(shape):
        return None
    full = (1,) * (len(shape) - len(vector)) + tuple(vector)
    if any(n not in (1, extent) for n, extent in zip(full, shape, strict=True)):
        return None
    return tuple(axis for axis, n in enumerate(full) if n == 1)


def repeats(shape: Sequence[int], axes: Sequence[int]) -> bool:
    """Whether a vector along these axes is repeated at all."""
    return any(shape[axis] > 1 for axis in axes)


class Chain:
    """The steps of one node in order; every method adds a step and returns the name of its result.

    Args:
        model: the node's model.
        node: the node.
    """

    def __init__(self, model: Model, node: Node) -> None:
        self.model = model
        self.node = node
        self.pieces: list[Piece] = []
        self.types: dict[str, onnx.TypeProto] = {}
        self.constants: list[onnx.TensorProto] = []
        self._stem = next(name for name in node.outputs if name)

    def parts(self, note: str, findings: Sequence[Diagnostic] = ()) -> Parts:
        """Everything added so far."""
        return Parts(tuple(self.pieces), note, tuple(self.types.items()), tuple(self.constants), tuple(findings))

    def _result(self, word: str, shape: Sequence[int], dtype: str, into: str) -> str:
        if into:
            return into
        name = f"{self._stem}/{word}"
        self.types[name] = tensor_type(dtype, shape)
        return name

    def _step(self, word: str) -> str:
        return f"{self.node.name}/{word}"

    def _on_host(self, op_type: str, sources: Sequence[str], result: str, word: str, **attributes: Any) -> HostPiece:
        name = self._step(word)
        return HostPiece(name, self.node, helper.make_node(op_type, list(sources), [result], name=name, **attributes))

    def host(
        self,
        word: str,
        op_type: str,
        sources: Sequence[str],
        shape: Sequence[int],
        *,
        dtype: str = WORK,
        into: str = "",
        **attributes: Any,
    ) -> str:
        """One ONNX node on the host."""
        result = self._result(word, shape, dtype, into)
        self.pieces.append(self._on_host(op_type, sources, result, word, **attributes))
        return result

    def constant(self, word: str, value: Any, dtype: str = WORK) -> str:
        """A constant tensor."""
        name = f"{self._stem}/{word}"
        self.constants.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def cast(self, word: str, source: str, shape: Sequence[int], dtype: str, into: str = "") -> str:
        """A Cast on the host."""
        return self.host(word, "Cast", [source], shape, dtype=dtype, into=into, to=element_of(dtype))

    def widened(self, source: Source, word: str = "wide") -> str:
        """A tensor in float32; the tensor itself where it is float32 already."""
        return source.name if source.dtype == WORK else self.cast(word, source.name, source.shape, WORK)

    def last(self, output: str, dtype: str) -> str:
        """Where the last step of an output writes: the output itself, or a float32 tensor that `narrow` casts."""
        return output if dtype == WORK else ""

    def narrow(self, source: str, output: str, shape: Sequence[int], dtype: str) -> None:
        """The Cast of a result to the type of an output, where it is not float32."""
        if dtype != WORK:
            self.cast("narrow", source, shape, dtype, into=output)

    def reshape(self, word: str, source: str, shape: Sequence[int], *, dtype: str = WORK, into: str = "") -> str:
        """A Reshape on the host."""
        extents = self.constant(f"{word}/extents", shape, "int64")
        return self.host(word, "Reshape", [source, extents], shape, dtype=dtype, into=into)

    def clipped(self, word: str, source: str, shape: Sequence[int]) -> str:
        """A Clip to finite numbers on the host, in the form of the operator set."""
        limit = float(np.finfo(WORK).max)
        if self.model.opset < _CLIP_BY_INPUTS:
            return self.host(word, "Clip", [source], shape, min=-limit, max=limit)
        bounds = [self.constant(f"{word}/{end}", value) for end, value in (("lowest", -limit), ("highest", limit))]
        return self.host(word, "Clip", [source, *bounds], shape)

    def fold(
        self,
        word: str,
        operator: str,
        source: str,
        shape: Sequence[int],
        axes: Sequence[int],
        *,
        element: str = "identity",
        into: str = "",
    ) -> str:
        """A reduction on the leg that keeps its axes; magnitudes and squares on the host where the leg has none."""
        op = Reduce(operator, tuple(shape), tuple(axes), True, element)
        result = self._result(word, op.output_shape, WORK, into)
        whole = self._fold(self._step(word), op, source, result)
        if element != "identity":
            mapped = self._result(f"{word}/{element}", shape, WORK, "")
            operands = ("Abs", [source]) if element == "abs" else ("Mul", [source, source])
            plain = Reduce(operator, tuple(shape), tuple(axes), True)
            after = self._fold(self._step(f"{word}/fold"), plain, mapped, result)
            mapping = self._on_host(*operands, mapped, f"{word}/{element}")
            whole = LegPiece(
                whole.name, whole.node, op, whole.inputs, whole.outputs, whole.reference, False, (mapping, after)
            )
        self.pieces.append(whole)
        return result

    def _fold(self, name: str, op: Reduce, source: str, result: str) -> LegPiece:
        axes, nodes, folded = f"{name}/axes", [], source
        if op.element != "identity":
            folded = f"{name}/mapped"
            operands = ("Abs", [source]) if op.element == "abs" else ("Mul", [source, source])
            nodes.append(helper.make_node(*operands, [folded]))
        nodes.append(helper.make_node(_FOLDS[op.operator], [folded, axes], [result]))
        reference = Reference(tuple(nodes), _REFERENCE_SET, ((axes, op.axes),))
        return LegPiece(name, self.node, op, (source,), (result,), reference, op.operator in ("max", "min"))

    def spread(
        self,
        word: str,
        operator: str,
        full: str,
        vector: str,
        shape: Sequence[int],
        vector_shape: Sequence[int],
        into: str = "",
    ) -> str:
        """A tensor combined with a vector that is repeated over it: on the leg where it can, else on the host."""
        result = self._result(word, shape, WORK, into)
        *before, last = _SPREADS[operator]
        alone: list[Piece] = []
        operands = [full, vector]
        for op_type in before:
            middle = self._result(f"{word}/{op_type.lower()}", shape, WORK, "")
            alone.append(self._on_host(op_type, operands, middle, f"{word}/{op_type.lower()}"))
            operands = [middle]
        alone.append(self._on_host(last, operands, result, word))
        axes = vector_axes(shape, vector_shape)
        if axes is None or not repeats(shape, axes):
            self.pieces += alone
            return result
        op = Expand(operator, tuple(shape), axes)
        self.pieces.append(
            LegPiece(
                self._step(word),
                self.node,
                op,
                (full, vector),
                (result,),
                spread_reference(operator, full, vector, result),
                exact=False,
                otherwise=tuple(alone),
            )
        )
        return result

    def quotient(
        self, word: str, full: str, vector: str, shape: Sequence[int], vector_shape: Sequence[int], into: str = ""
    ) -> str:
        """A tensor divided by a repeated vector: on the leg where it can, else by the vector's inverse."""
        before = len(self.pieces)
        result = self.spread(word, "divide", full, vector, shape, vector_shape, into)
        (piece,) = self.pieces[before:]
        if isinstance(piece, LegPiece):
            inverse = self._result(f"{word}/inverse", vector_shape, WORK, "")
            op = Reciprocal(tuple(vector_shape))
            alone = (
                inverse_piece(self.node, self._step(f"{word}/inverse"), op, vector, inverse),
                self._on_host("Mul", [full, inverse], result, f"{word}/product"),
            )
            self.pieces[before] = replace(piece, otherwise=alone)
        return result

    def inverse(self, word: str, source: str, shape: Sequence[int], into: str = "") -> str:
        """1/x on the leg where it can, else on the host."""
        result = self._result(word, shape, WORK, into)
        self.pieces.append(inverse_piece(self.node, self._step(word), Reciprocal(tuple(shape)), source, result))
        return result


def spread_reference(operator: str, full: str, vector: str, result: str) -> Reference:
    """An Expand with an operator in ONNX nodes."""
    names = _SPREADS[operator]
    nodes = [helper.make_node(names[0], [full, vector], [result if len(names) == 1 else f"{result}/difference"])]
    nodes += [helper.make_node(name, [f"{result}/difference"], [result]) for name in names[1:]]
    return Reference(tuple(nodes), _REFERENCE_SET)


def inverse_piece(node: Node, name: str, op: Reciprocal, source: str, result: str) -> LegPiece:
    """A Reciprocal for the leg, with the host's in its place where the leg has none."""
    alone = HostPiece(name, node, helper.make_node("Reciprocal", [source], [result], name=name))
    proto = helper.make_node("Reciprocal", [source], [result])
    reference = Reference((proto,), _REFERENCE_SET)
    return LegPiece(name, node, op, (source,), (result,), reference, exact=False, otherwise=(alone,))
