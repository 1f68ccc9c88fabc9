"""What a node comes to: work for the leg, work for the host, or both in turn."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import onnx

from lanefold.diagnostics import Diagnostic, LanefoldError
from lanefold.frontends.onnx.nodes import Node
from lanefold.frontends.onnx.read import Model
from lanefold.ops import ArgPool, ArgReduce, Expand, Gather, Iota, Pool, Reciprocal, Reduce, Softmax, TopK

LegOp = Pool | ArgPool | Reduce | ArgReduce | TopK | Expand | Gather | Softmax | Reciprocal | Iota


@dataclass(frozen=True, slots=True)
class Reference:
    """The computation of a leg piece in ONNX nodes of one operator set; constants are 64-bit integers."""

    nodes: tuple[onnx.NodeProto, ...]
    opset: int
    constants: tuple[tuple[str, tuple[int, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class LegPiece:
    """One op for the leg with the tensors it reads and writes.

    ``exact`` says that only one result is right. ``otherwise`` takes the place of a piece that the target refuses.
    """

    name: str
    node: Node
    op: LegOp
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    reference: Reference
    exact: bool
    otherwise: tuple[LegPiece | HostPiece, ...] = ()

    @property
    def part(self) -> str:
        """Its name, if it is a part of its node alone; else empty."""
        return self.name if self.name != self.node.name else ""

    @property
    def result_dtypes(self) -> tuple[str, ...]:
        """Type names of the outputs, in order."""
        if isinstance(self.op, TopK | ArgPool):
            return self.op.dtype, self.op.index_dtype
        return (self.op.dtype if isinstance(self.op, Gather) else self.op.output_dtype,)

    @property
    def operands(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """Type names and extents of the inputs, in order."""
        op = self.op
        if isinstance(op, Iota):
            return ()
        if isinstance(op, Gather):
            return (op.dtype, op.input_shape), (op.index_dtype, op.indices_shape)
        if isinstance(op, Expand):
            vector = (op.dtype, op.vector_shape)
            return (vector,) if op.operator == "bypass" else ((op.dtype, op.input_shape), vector)
        return ((op.dtype, op.input_shape),)

    @property
    def told(self) -> str:
        """What the op does, in a few words."""
        if isinstance(self.op, TopK):
            return f"{self.op.k} {'largest' if self.op.largest else 'smallest'}"
        if isinstance(self.op, Expand) and self.op.operator != "bypass":
            return f"{self.op.operator.replace('_', ' of ')} with a repeated vector"
        if isinstance(self.op, ArgPool):
            return f"max of windows {'×'.join(map(str, self.op.kernel))} and its place"
        if isinstance(self.op, ArgReduce):
            return f"index of {self.op.operator}"
        if isinstance(self.op, Expand | Gather | Softmax | Reciprocal | Iota):
            return type(self.op).__name__
        return f"{self.op.operator} of {self.op.element}" if self.op.element != "identity" else self.op.operator


@dataclass(frozen=True, slots=True)
class HostPiece:
    """One ONNX node for the host."""

    name: str
    node: Node
    proto: onnx.NodeProto


Piece = LegPiece | HostPiece


def leg_pieces(pieces: Iterable[Piece]) -> Iterator[LegPiece]:
    """The pieces for the leg, each followed by those that may take its place."""
    for piece in pieces:
        if isinstance(piece, LegPiece):
            yield piece
            yield from leg_pieces(piece.otherwise)


@dataclass(frozen=True, slots=True)
class Parts:
    """A node taken apart, in order: pieces, the types of tensors made for it, constants, a remark for the ledger.

    ``leg_family`` is false where a strict compilation lets the host have the node.
    """

    pieces: tuple[Piece, ...]
    note: str
    types: tuple[tuple[str, onnx.TypeProto], ...] = ()
    constants: tuple[onnx.TensorProto, ...] = ()
    findings: tuple[Diagnostic, ...] = ()
    leg_family: bool = True


@dataclass(frozen=True, slots=True)
class OnHost:
    """A node that goes to the host whole, and why; ``leg_family`` if it pools or reduces."""

    reason: str
    leg_family: bool = True
    findings: tuple[Diagnostic, ...] = ()


@dataclass(frozen=True, slots=True)
class Source:
    """The tensor a leg op reads: name, extents and type name."""

    name: str
    shape: tuple[int, ...]
    dtype: str


LEG_DTYPES = frozenset(("float32", "float16", "bfloat16", "int8", "uint8", "int16", "uint16", "int32", "uint32"))
"""ONNX types that an op can carry; each target decides which of them it takes."""


def leg_source(model: Model, node: Node) -> Source | OnHost:
    """The first input of a node if the leg could read it at all, else why not."""
    name = node.inputs[0]
    dtype = model.dtype(name)
    if dtype not in LEG_DTYPES:
        return OnHost(f"the leg has no {dtype} numbers" if dtype else f"the element type of {name} is not known")
    shape = model.shape(name)
    if shape is None:
        return OnHost(f"the extents of {name} are known only while the model runs")
    if 0 in shape:
        return OnHost(f"{name} has extents {list(shape)} and holds no element")
    if name in model.initializers:
        return OnHost(f"its input {name} is a constant")
    return Source(name, shape, dtype)


def at_node(error: LanefoldError, model: Model, node: Node) -> list[Diagnostic]:
    """The findings of an op, with the node they belong to as their place."""
    return [replace(each, place=replace(each.place, file=model.source, node=node.name)) for each in error.diagnostics]


def only_output(node: Node) -> onnx.NodeProto:
    """The node as it stands, without optional outputs that nobody named."""
    proto = onnx.NodeProto()
    proto.CopyFrom(node.proto)
    del proto.output[len(node.outputs) :]
    return proto


def tensor_type(dtype: str, shape: Sequence[int]) -> onnx.TypeProto:
    """The ONNX type of a dense tensor by type name and extents."""
    names = {"float32": "FLOAT", "float64": "DOUBLE"}
    element = onnx.TensorProto.DataType.Value(names.get(dtype, dtype.upper()))
    return onnx.helper.make_tensor_type_proto(element, list(shape))
