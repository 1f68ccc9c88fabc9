"""Inputs as the model writes them and as the user completes them: type names, extents, fixed values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from lanefold import arguments
from lanefold.diagnostics import LanefoldError, Place
from lanefold.frontends.onnx import rules
from lanefold.numerics.dtypes import nearest_names

_DTYPE_NAMES: dict[int, str] = {
    onnx.TensorProto.FLOAT: "float32",
    onnx.TensorProto.DOUBLE: "float64",
}
Array = np.ndarray[Any, np.dtype[Any]]


def dtype_name(element: int) -> str:
    """The type name of an ONNX element type, in NumPy's words; empty for a number that names no type."""
    if element not in onnx.TensorProto.DataType.values() or element == onnx.TensorProto.UNDEFINED:
        return ""
    return _DTYPE_NAMES.get(element) or str(onnx.TensorProto.DataType.Name(element)).lower()


def open_extents(dims: Iterable[onnx.TensorShapeProto.Dimension]) -> list[str]:
    """Extents as text, ``?`` where one is not known."""
    return [str(dim.dim_value) if is_known(dim) else "?" for dim in dims]


def is_known(dim: onnx.TensorShapeProto.Dimension) -> bool:
    """Whether an extent is a number; exporters write −1 for one that is not."""
    return dim.HasField("dim_value") and dim.dim_value >= 0


def set_shapes(proto: onnx.ModelProto, shapes: Mapping[str, Sequence[int]], source: str) -> None:
    """Write extents into inputs that leave them open.

    Raises:
        LanefoldError: one diagnostic for each name, rank or extent that does not fit.
    """
    inputs = {v.name: v for v in proto.graph.input}
    found = []
    example = "{" + ", ".join(f"{name!r}: (1, 3, 224, 224)" for name in list(inputs)[:1]) + "}"
    shapes = arguments.mapping(
        "compile", "shapes", shapes, "a mapping from names of inputs to extents, or None", example
    )
    for name, given in shapes.items():
        wanted = arguments.integers("compile", f"shapes[{name!r}]", given, hint="(1, 3, 224, 224)")
        problem, cure = _shape_problem(name, wanted, inputs)
        if problem:
            found.append(
                rules.SHAPE_OPTION.finding(
                    f"shape {list(wanted)} cannot be given to {name}",
                    got=f"{name}={','.join(map(str, wanted))}",
                    allowed=problem,
                    cures=[cure],
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


def _shape_problem(name: str, wanted: Sequence[int], inputs: Mapping[str, onnx.ValueInfoProto]) -> tuple[str, str]:
    """What could be given instead, and the line to write; both empty if the shape fits."""
    value = inputs.get(name)
    if value is None:
        if not inputs:
            return "no shape: the model has no inputs", "leave shapes out"
        near = nearest_names(name, list(inputs))[0]
        return f"an input of the model: {', '.join(inputs)}", _fitting(inputs[near], wanted)
    if any(extent < 0 for extent in wanted):
        return "extents of at least 0", _fitting(value, wanted)
    if not value.type.tensor_type.HasField("shape"):
        return "", ""
    dims = value.type.tensor_type.shape.dim
    pairs = zip(dims, wanted, strict=False)
    if len(dims) == len(wanted) and all(not is_known(dim) or dim.dim_value == extent for dim, extent in pairs):
        return "", ""
    extents = f"{value.name}={','.join(open_extents(dims))}"
    settled = all(map(is_known, dims))
    return (f"{extents}, which the model states itself" if settled else f"{extents} with a number for each ?"), (
        _fitting(value, wanted)
    )


def _fitting(value: onnx.ValueInfoProto, wanted: Sequence[int]) -> str:
    """A shape that fits an input, with the extents that were given where they may stand, as one writes it."""
    extents = [max(extent, 1) for extent in wanted]
    if value.type.tensor_type.HasField("shape"):
        dims = value.type.tensor_type.shape.dim
        if all(map(is_known, dims)):
            return f"leave the shape out: {value.name} has the extents {','.join(open_extents(dims)) or 'of a scalar'}"
        given = extents if len(extents) == len(dims) else [1] * len(dims)
        extents = [dim.dim_value if is_known(dim) else extent for dim, extent in zip(dims, given, strict=True)]
    return _line(value.name, extents)


def _line(name: str, extents: Sequence[int]) -> str:
    """A shape as one writes it on the command line and in Python."""
    listed = ", ".join(map(str, extents)) + "," * (len(extents) == 1)
    return f"write --shape {name}={','.join(map(str, extents))}, in Python shapes={{{name!r}: ({listed})}}"


def fix(proto: onnx.ModelProto, fixed: Mapping[str, Array], source: str) -> None:
    """Turn inputs into constants.

    Raises:
        LanefoldError: one diagnostic for each name, type or shape that does not fit.
    """
    inputs = {v.name: v for v in proto.graph.input}
    found = []
    fixed = arguments.mapping("compile", "fixed", fixed, "a mapping from names of inputs to arrays, or None", "None")
    for name, value in fixed.items():
        array = arguments.array("compile", f"fixed[{name!r}]", value)
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
