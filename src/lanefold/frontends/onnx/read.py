"""Reading a model: file, operator set, attributes, constants, types and shapes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

from lanefold.diagnostics import Diagnostic, LanefoldError, Place, number_of
from lanefold.frontends.onnx import rules
from lanefold.frontends.onnx.edges import Array, dtype_name, fix, is_known, open_extents, set_shapes
from lanefold.frontends.onnx.examples import dims_text, examples
from lanefold.frontends.onnx.infer import infer
from lanefold.frontends.onnx.load import check, check_text, default_opset, first_line, load
from lanefold.frontends.onnx.nodes import DEFAULT_DOMAINS, Node, read_nodes, renamed
from lanefold.frontends.onnx.sparse import write_out

_FOLDABLE = frozenset(
    {
        "Add",
        "Cast",
        "Concat",
        "Constant",
        "ConstantOfShape",
        "Gather",
        "Identity",
        "Mul",
        "Neg",
        "Range",
        "Reshape",
        "Shape",
        "Size",
        "Slice",
        "Squeeze",
        "Sub",
        "Transpose",
        "Unsqueeze",
    }
)
_FOLD_LIMIT = 4096


@dataclass(frozen=True, slots=True)
class Value:
    """A named tensor at the edge of a model: type name and extents in elements, None where not known."""

    name: str
    dtype: str
    shape: tuple[int | None, ...] | None


@dataclass
class Model:
    """A model that has been read: graph with inferred types, its nodes, and the findings made on the way."""

    proto: onnx.ModelProto
    source: str
    opset: int
    nodes: tuple[Node, ...]
    findings: list[Diagnostic] = field(default_factory=list)

    def __repr__(self) -> str:
        return f"<Model {self.source}: {number_of(len(self.nodes), 'node')}, opset {self.opset}>"

    @cached_property
    def types(self) -> dict[str, onnx.TypeProto]:
        """Type of each tensor that has one."""
        graph = self.proto.graph
        known = {v.name: v.type for v in (*graph.value_info, *graph.output, *graph.input) if v.HasField("type")}
        for tensor in graph.initializer:
            known.setdefault(tensor.name, helper.make_tensor_type_proto(tensor.data_type, tensor.dims))
        return known

    @cached_property
    def initializers(self) -> dict[str, onnx.TensorProto]:
        """Constant tensors by name."""
        return {tensor.name: tensor for tensor in self.proto.graph.initializer}

    @cached_property
    def producers(self) -> dict[str, Node]:
        """The node that makes each tensor."""
        return {name: node for node in self.nodes for name in node.proto.output if name}

    @cached_property
    def inputs(self) -> tuple[Value, ...]:
        """Inputs that have no initializer and so must be fed."""
        return tuple(self.value(v.name) for v in self.proto.graph.input if v.name not in self.initializers)

    @cached_property
    def outputs(self) -> tuple[Value, ...]:
        """Outputs of the graph."""
        return tuple(self.value(v.name) for v in self.proto.graph.output)

    def place(self, node: Node | None = None, operand: str = "") -> Place:
        """A place in this model."""
        return Place(file=self.source, node=node.name if node else "", operand=operand)

    def value(self, name: str) -> Value:
        """Name, type and extents of a tensor."""
        return Value(name, self.dtype(name), self.extents(name))

    def dtype(self, name: str) -> str:
        """Type name of a tensor; empty where it is not known or not a dense tensor."""
        kind = self.types.get(name)
        if kind is None or not kind.HasField("tensor_type"):
            return ""
        return dtype_name(kind.tensor_type.elem_type)

    def extents(self, name: str) -> tuple[int | None, ...] | None:
        """Extents of a tensor with None for each that is not known; None if not even the rank is."""
        kind = self.types.get(name)
        if kind is None or not kind.HasField("tensor_type") or not kind.tensor_type.HasField("shape"):
            return None
        return tuple(d.dim_value if is_known(d) else None for d in kind.tensor_type.shape.dim)

    def shape(self, name: str) -> tuple[int, ...] | None:
        """Extents of a tensor; None if any is not known."""
        extents = self.extents(name)
        if extents is None or None in extents:
            return None
        return tuple(extent for extent in extents if extent is not None)

    def constant(self, name: str) -> Array | None:
        """The value of a tensor that does not depend on the inputs, if it is small; None otherwise."""
        if name in self.initializers:
            return np.asarray(numpy_helper.to_array(self.initializers[name]))
        node = self.producers.get(name)
        shape = self.shape(name)
        if node is None or node.op_type not in _FOLDABLE or node.proto.domain not in DEFAULT_DOMAINS:
            return None
        if shape is not None and math.prod(shape) > _FOLD_LIMIT:
            return None
        if node.op_type == "Shape":
            return self._folded_shape(node)
        values = {each: value for each in node.inputs if each and (value := self.constant(each)) is not None}
        if len(values) < len({each for each in node.inputs if each}):
            return None
        if shape is None and not _stays_small(node, values):
            return None
        return _evaluate(node.proto, self.opset, name, values)

    def _folded_shape(self, node: Node) -> Array | None:
        shape = self.shape(node.inputs[0])
        if shape is None:
            return None
        end = node.attributes.get("end")
        return np.asarray(shape[node.integer("start") : end if isinstance(end, int) else None], dtype=np.int64)


def _stays_small(node: Node, values: Mapping[str, Array]) -> bool:
    """Whether a result of unknown extents is small enough to fold; only two operators make much out of little."""
    if node.op_type == "Range":
        start, limit, delta = (float(values[each]) for each in node.inputs)
        return delta != 0 and (limit - start) / delta <= _FOLD_LIMIT
    return node.op_type != "ConstantOfShape"


def _evaluate(proto: onnx.NodeProto, opset: int, output: str, values: Mapping[str, object]) -> Array:
    from onnx.reference import ReferenceEvaluator

    graph = helper.make_graph(
        [proto],
        "constant",
        [onnx.ValueInfoProto(name=name) for name in values],
        [onnx.ValueInfoProto(name=output)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    (result,) = ReferenceEvaluator(model).run([output], dict(values))
    return np.asarray(result)


def read_model(
    model: str | Path | onnx.ModelProto,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    fixed: Mapping[str, Array] | None = None,
) -> Model:
    """Read and check a model and infer its types.

    Args:
        model: path of a file, or a model already in memory (which is not changed).
        shapes: extents for inputs whose shape the model leaves open.
        fixed: values of inputs that are known before anything runs, such as axes; they are inputs no longer.

    Raises:
        LanefoldError: the file cannot be read, is not an ONNX model, or breaks a rule of the format; one diagnostic for
            each attribute that does not exist and for each input whose extents are open.

    Source: ONNX IR specification.
    """
    source, proto = load(model)
    check_text(proto, source)
    opset = default_opset(proto, source)
    nodes = read_nodes(proto, opset, source)
    check(proto, source)
    write_out(proto, source)
    set_shapes(proto, {} if shapes is None else shapes, source)
    fix(proto, {} if fixed is None else fixed, source)
    declared = {v.name: v for v in (*proto.graph.value_info, *proto.graph.output)}
    read = Model(_inferred(proto, nodes, source), source, opset, nodes)
    _check_inputs(read)
    read.findings += [*renamed(nodes, source), *_declared_differently(read, declared)]
    return read


def _inferred(proto: onnx.ModelProto, nodes: tuple[Node, ...], source: str) -> onnx.ModelProto:
    try:
        return infer(proto, nodes)
    except onnx.shape_inference.InferenceError as error:
        raise rules.CHECK.error(
            f"types or shapes of {source} contradict each other: {first_line(error)}",
            got=first_line(error),
            allowed="types and shapes that onnx.shape_inference.infer_shapes accepts",
            cures=["correct the type or shape that is named and export the model again"],
            place=Place(file=source),
        ) from error


def _check_inputs(model: Model) -> None:
    found = []
    open_inputs = [each for each in model.inputs if each.dtype and (each.shape is None or None in each.shape)]
    example = examples(model.proto, open_inputs) if open_inputs else {}
    options = " ".join(f"--shape {name}={','.join(map(str, extents))}" for name, extents in example.items())
    for each in model.inputs:
        place = model.place(operand=each.name)
        if not each.dtype:
            found.append(
                rules.TYPE.finding(
                    f"input {each.name} is no dense tensor of a known type",
                    got=str(model.types[each.name].WhichOneof("value")) if each.name in model.types else "no type",
                    allowed="a tensor of one of ONNX's element types",
                    cures=["split it into tensors before the model"],
                    place=place,
                )
            )
            continue
        if each not in open_inputs:
            continue
        got = dims_text(model.proto, each.name)
        found.append(
            rules.SHAPE.finding(
                f"the extents of input {each.name} ({got}) are open",
                got=got,
                allowed="a number for each extent",
                cures=[
                    f"give the extents you mean, for example {options} on the command line",
                    f"in Python, for example compile(model, shapes={example})",
                    "fix the open dimensions in the model, for example with onnx.tools.update_model_dims",
                ],
                place=place,
            )
        )
    if found:
        raise LanefoldError(found, usage=True)


def _contradiction(model: Model, name: str, element: str) -> LanefoldError:
    return rules.CHECK.error(
        f"the model writes type {element} for {name}, its operator gives {model.dtype(name)}",
        got=element,
        allowed=model.dtype(name),
        cures=[f"write {model.dtype(name)} for {name}", f"cast {name} to {element} in the model"],
        place=model.place(model.producers.get(name), name),
    )


def _declared_differently(model: Model, declared: Mapping[str, onnx.ValueInfoProto]) -> list[Diagnostic]:
    found = []
    for name, value in declared.items():
        if not value.type.HasField("tensor_type"):
            continue
        element = dtype_name(value.type.tensor_type.elem_type)
        if element and model.dtype(name) not in ("", element):
            raise _contradiction(model, name, element)
        if not value.type.tensor_type.HasField("shape"):
            continue
        written = open_extents(value.type.tensor_type.shape.dim)
        ours = model.extents(name)
        if ours is None or (
            len(ours) == len(written)
            and all(w == "?" or o is None or str(o) == w for w, o in zip(written, ours, strict=True))
        ):
            continue
        found.append(
            rules.SHAPE_DECLARED.finding(
                f"the model writes shape {written} for {name}, its operator gives {list(ours)}",
                got=", ".join(written) or "a scalar",
                allowed=", ".join("?" if o is None else str(o) for o in ours) or "a scalar",
                cures=["the operator's rule is used; run onnx.shape_inference.infer_shapes to correct the file"],
                place=model.place(model.producers.get(name), name),
            )
        )
    return found
