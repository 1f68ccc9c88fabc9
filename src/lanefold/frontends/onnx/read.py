"""Reading a model: file, operator set, attributes, constants, types and shapes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from onnx import defs, helper, numpy_helper

from lanefold.diagnostics import Diagnostic, LanefoldError, Place
from lanefold.frontends.onnx import rules
from lanefold.frontends.onnx.infer import infer
from lanefold.frontends.onnx.nodes import DEFAULT_DOMAINS, Node, read_nodes

_DTYPE_NAMES: dict[int, str] = {
    onnx.TensorProto.FLOAT: "float32",
    onnx.TensorProto.DOUBLE: "float64",
}

Array = np.ndarray[Any, np.dtype[Any]]
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
        sparse = {tensor.values.name for tensor in self.proto.graph.sparse_initializer}
        held = self.initializers.keys() | sparse
        return tuple(self.value(v.name) for v in self.proto.graph.input if v.name not in held)

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
        return tuple(d.dim_value if d.HasField("dim_value") else None for d in kind.tensor_type.shape.dim)

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


def dtype_name(element: int) -> str:
    """The type name of an ONNX element type, in NumPy's words."""
    return _DTYPE_NAMES.get(element) or str(onnx.TensorProto.DataType.Name(element)).lower()


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
    source, proto = _load(model)
    opset = _opset(proto, source)
    nodes = read_nodes(proto, opset, source)
    _check(proto, source)
    _set_shapes(proto, shapes or {}, source)
    _fix(proto, fixed or {}, source)
    declared = {v.name: v for v in (*proto.graph.value_info, *proto.graph.output)}
    read = Model(infer(proto, nodes), source, opset, nodes)
    _check_inputs(read)
    read.findings += _declared_differently(read, declared)
    return read


def _load(model: str | Path | onnx.ModelProto) -> tuple[str, onnx.ModelProto]:
    if isinstance(model, onnx.ModelProto):
        proto = onnx.ModelProto()
        proto.CopyFrom(model)
        return proto.graph.name or "model", proto
    path = Path(model)
    place = Place(file=str(path))
    cures = ["name an existing .onnx file"]
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "does not exist"
        raise rules.FILE.error(f"{path} {what}", got=str(path), allowed="an ONNX file", cures=cures, place=place)
    try:
        proto = onnx.load(str(path))
    except (OSError, ValueError, onnx.checker.ValidationError) as error:
        raise rules.FILE.error(
            f"{path} cannot be read: {_first_line(error)}",
            got=path.name,
            allowed="an ONNX file",
            cures=cures,
            place=place,
        ) from error
    except DecodeError as error:
        raise _not_a_model(path) from error
    if not proto.graph.node and not proto.graph.output:
        raise _not_a_model(path)
    return str(path), proto


def _not_a_model(path: Path) -> LanefoldError:
    size = path.stat().st_size
    return rules.FILE.error(
        f"{path} ({size} bytes) is not an ONNX model",
        got=f"{size} bytes that do not decode as a ModelProto with a graph",
        allowed="a serialized ONNX ModelProto",
        cures=["export the model again with onnx.save", "check that the file was copied whole"],
        place=Place(file=str(path)),
    )


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def _opset(proto: onnx.ModelProto, source: str) -> int:
    newest = defs.onnx_opset_version()
    versions = [each.version for each in proto.opset_import if each.domain in DEFAULT_DOMAINS]
    if versions and 1 <= versions[0] <= newest:
        return int(versions[0])
    got = f"version {versions[0]}" if versions else "no import of the default operator set"
    raise rules.OPSET.error(
        f"{source} has {got}",
        got=got,
        allowed=f"versions 1 to {newest}",
        cures=[f"convert the model to operator set {newest} with onnx.version_converter"],
        place=Place(file=source),
    )


def _check(proto: onnx.ModelProto, source: str) -> None:
    try:
        onnx.checker.check_model(proto)
    except (onnx.checker.ValidationError, ValueError) as error:
        raise rules.CHECK.error(
            f"{source} is not a well-formed model: {_first_line(error)}",
            got=_first_line(error),
            allowed="a model that onnx.checker.check_model accepts",
            cures=["correct the named part and export the model again"],
            place=Place(file=source),
        ) from error


def _set_shapes(proto: onnx.ModelProto, shapes: Mapping[str, Sequence[int]], source: str) -> None:
    inputs = {v.name: v for v in proto.graph.input}
    found = []
    for name, wanted in shapes.items():
        problem = _shape_problem(inputs.get(name), wanted, inputs)
        if problem:
            found.append(
                rules.SHAPE_OPTION.finding(
                    f"shape {list(wanted)} cannot be given to {name}",
                    got=f"{name}={','.join(map(str, wanted))}",
                    allowed=problem,
                    cures=[f"give {problem}"],
                    place=Place(file=source, operand=name),
                )
            )
            continue
        dims = inputs[name].type.tensor_type.shape.dim
        for at, extent in enumerate(wanted):
            if at >= len(dims):
                dims.add()
            dims[at].dim_value = int(extent)
    if found:
        raise LanefoldError(found, usage=True)


def _shape_problem(value: onnx.ValueInfoProto | None, wanted: Sequence[int], names: Iterable[str]) -> str:
    """What could be given instead; empty if the shape fits."""
    if value is None:
        return "an input of the model: " + ", ".join(names)
    if any(extent < 0 for extent in wanted):
        return "extents of at least 0"
    if not value.type.tensor_type.HasField("shape"):
        return ""
    dims = value.type.tensor_type.shape.dim
    fits = len(dims) == len(wanted) and all(
        not dim.HasField("dim_value") or dim.dim_value == extent for dim, extent in zip(dims, wanted, strict=True)
    )
    return "" if fits else f"{value.name}={','.join(open_extents(dims))} with a number for each ?"


def _fix(proto: onnx.ModelProto, fixed: Mapping[str, Array], source: str) -> None:
    inputs = {v.name: v for v in proto.graph.input}
    found = []
    for name, value in fixed.items():
        array = np.asarray(value)
        allowed = "an input of the model: " + ", ".join(inputs)
        if name in inputs:
            kind = inputs[name].type.tensor_type
            extents = open_extents(kind.shape.dim)
            allowed = f"{dtype_name(kind.elem_type)} {'×'.join(extents) or 'scalar'}"
            fits = len(extents) == array.ndim and all(
                each in ("?", str(n)) for each, n in zip(extents, array.shape, strict=True)
            )
            if fits and dtype_name(kind.elem_type) == array.dtype.name:
                proto.graph.initializer.append(numpy_helper.from_array(array, name))
                continue
        found.append(
            rules.FIXED.finding(
                f"{name} cannot be fixed to {array.dtype.name} {list(array.shape)}",
                got=f"{array.dtype.name} {list(array.shape)}",
                allowed=allowed,
                cures=[f"give {allowed}"],
                place=Place(file=source, operand=name),
            )
        )
    if found:
        raise LanefoldError(found, usage=True)


def open_extents(dims: Iterable[onnx.TensorShapeProto.Dimension]) -> list[str]:
    """Extents as text, ``?`` where one is not known."""
    return [str(dim.dim_value) if dim.HasField("dim_value") else "?" for dim in dims]


def _check_inputs(model: Model) -> None:
    found = []
    open_inputs = [each for each in model.inputs if each.shape is None or None in each.shape]
    options = " ".join(
        f"--shape {each.name}={','.join('1' if n is None else str(n) for n in each.shape or (None,))}"
        for each in open_inputs
    )
    for each in open_inputs:
        place = model.place(operand=each.name)
        if not each.dtype:
            found.append(
                rules.TYPE.finding(
                    f"input {each.name} is no dense tensor",
                    got=str(model.types[each.name].WhichOneof("value")),
                    allowed="a tensor type",
                    cures=["split it into tensors before the model"],
                    place=place,
                )
            )
            continue
        got = "unknown rank" if each.shape is None else "×".join("?" if n is None else str(n) for n in each.shape)
        found.append(
            rules.SHAPE.finding(
                f"the extents of input {each.name} ({got}) are open",
                got=got,
                allowed="a number for each extent",
                cures=[
                    f"give {options} with the extents you mean",
                    "fix the open dimensions in the model, for example with onnx.tools.update_model_dims",
                ],
                place=place,
            )
        )
    if found:
        raise LanefoldError(found, usage=True)


def _declared_differently(model: Model, declared: Mapping[str, onnx.ValueInfoProto]) -> list[Diagnostic]:
    found = []
    for name, value in declared.items():
        if not value.type.HasField("tensor_type") or not value.type.tensor_type.HasField("shape"):
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
                got=", ".join(written),
                allowed=", ".join("?" if o is None else str(o) for o in ours),
                cures=["the operator's rule is used; run onnx.shape_inference.infer_shapes to correct the file"],
                place=model.place(model.producers.get(name), name),
            )
        )
    return found
