"""Sparse constants of a model, written out as dense ones."""

from __future__ import annotations

import math

import numpy as np
import onnx
from onnx import numpy_helper

from lanefold.diagnostics import Place
from lanefold.frontends.onnx import rules
from lanefold.ops.checks import GREATEST_SIZE


def write_out(proto: onnx.ModelProto, source: str) -> None:
    """Turn the sparse constants of the graph into dense ones, which every node reads alike.

    Raises:
        LanefoldError: one has more elements than any tensor may have.
    """
    graph = proto.graph
    for tensor in graph.sparse_initializer:
        name, size = tensor.values.name, math.prod(tensor.dims)
        if size > GREATEST_SIZE:
            raise rules.CHECK.error(
                f"the sparse constant {name} has {size} elements when written out",
                got=f"{name} of shape {list(tensor.dims)}",
                allowed=f"at most {GREATEST_SIZE} elements",
                cures=[f"split {name} into constants of at most {GREATEST_SIZE} elements"],
                place=Place(file=source, operand=name),
            )
        graph.initializer.append(numpy_helper.from_array(_dense(tensor), name))
    del graph.sparse_initializer[:]


def _dense(tensor: onnx.SparseTensorProto) -> np.ndarray[tuple[int, ...], np.dtype[np.generic]]:
    """The tensor with zeros where nothing is stored; places are given by one index each, or by one per axis."""
    values, indices = numpy_helper.to_array(tensor.values), numpy_helper.to_array(tensor.indices)
    made = np.zeros(tuple(tensor.dims), values.dtype)
    if indices.ndim == 1:
        made.reshape(-1)[indices] = values
    else:
        made[tuple(indices.T)] = values
    return made
