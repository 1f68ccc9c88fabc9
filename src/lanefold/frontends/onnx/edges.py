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
        not is_known(dim) or dim.dim_value == extent for dim, extent in zip(dims, wanted, strict=True)
    )
    return "" if fits else f"{value.name}={','.join(open_extents(dims))} with a number for each ?"


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
