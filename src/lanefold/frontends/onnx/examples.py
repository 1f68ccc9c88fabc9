"""Extents that an open input could have, as an example for those who must choose them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

import onnx
from onnx import shape_inference

from lanefold.frontends.onnx.edges import is_known

_BATCH, _CHANNELS, _LENGTH = 1, 3, 128
_IMAGES = (224, 299, 128, 64, 32, 16, 8, 4, 2, 1)
"""Heights and widths that are tried, those of the usual image models first."""
_LENGTH_WORDS = ("seq", "len", "time", "token")
_ATTEMPT_BYTES = 1 << 25
"""Models beyond this size are not tried with several examples."""


class Named(Protocol):
    """An input with a name."""

    @property
    def name(self) -> str:
        """Its name."""
        ...


def dims_text(proto: onnx.ModelProto, name: str) -> str:
    """The extents of an input as the model writes them: numbers, names of open dims, ``?`` for those without a name."""
    dims = _dims(proto, name)
    return "unknown rank" if dims is None else "×".join(_told(dim) for dim in dims)


def examples(proto: onnx.ModelProto, inputs: Iterable[Named]) -> dict[str, tuple[int, ...]]:
    """Extents for open inputs with which the shapes of the model agree, as far as inference can tell.

    Dims of one name get one extent.
    """
    names = [each.name for each in inputs]
    small = proto.ByteSize() < _ATTEMPT_BYTES
    first: dict[str, tuple[int, ...]] = {}
    for chosen in _candidates(proto, names):
        first = first or chosen
        if not small or _agrees(proto, chosen):
            return chosen
    return first


def _candidates(proto: onnx.ModelProto, names: Iterable[str]) -> Iterator[dict[str, tuple[int, ...]]]:
    listed = list(names)
    for image in _IMAGES:
        known: dict[str, int] = {}
        yield {name: _extents(_dims(proto, name), image, known) for name in listed}


def _extents(dims: list[onnx.TensorShapeProto.Dimension] | None, image: int, known: dict[str, int]) -> tuple[int, ...]:
    if dims is None:
        return _BATCH, _CHANNELS, image, image
    made = []
    for axis, dim in enumerate(dims):
        guess = _guess(dim.dim_param.lower(), axis, len(dims), image)
        extent = dim.dim_value if is_known(dim) else known.setdefault(dim.dim_param or f"{axis}/{len(dims)}", guess)
        made.append(extent)
    return tuple(made)


def _guess(name: str, axis: int, rank: int, image: int) -> int:
    if any(word in name for word in _LENGTH_WORDS):
        return _LENGTH
    if axis == 0 or "batch" in name:
        return _BATCH
    if rank >= 4 and axis == 1:
        return _CHANNELS
    return image if rank >= 3 else _LENGTH


def _agrees(proto: onnx.ModelProto, chosen: Mapping[str, tuple[int, ...]]) -> bool:
    """Whether inference finds no contradiction and no extent below 1 with these inputs."""
    trial = onnx.ModelProto()
    trial.CopyFrom(proto)
    del trial.graph.value_info[:]
    for value in trial.graph.input:
        if value.name in chosen:
            shape = value.type.tensor_type.shape
            del shape.dim[:]
            for extent in chosen[value.name]:
                shape.dim.add().dim_value = extent
    for value in trial.graph.output:
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.ClearField("shape")
    try:
        inferred = shape_inference.infer_shapes(trial, strict_mode=True, data_prop=True)
    except shape_inference.InferenceError:
        return False
    values = (*inferred.graph.value_info, *inferred.graph.output)
    return all(dim.dim_value >= 1 for v in values for dim in v.type.tensor_type.shape.dim if dim.HasField("dim_value"))


def _dims(proto: onnx.ModelProto, name: str) -> list[onnx.TensorShapeProto.Dimension] | None:
    for value in proto.graph.input:
        if value.name == name and value.type.tensor_type.HasField("shape"):
            return list(value.type.tensor_type.shape.dim)
    return None


def _told(dim: onnx.TensorShapeProto.Dimension) -> str:
    return str(dim.dim_value) if is_known(dim) else dim.dim_param or "?"
