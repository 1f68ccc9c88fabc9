"""MaxPool with the output of indices: maxima and their places on the leg, indices of the whole tensor on the host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
import onnx
from onnx import helper

from lanefold.diagnostics import Diagnostic
from lanefold.frontends.onnx.chains import Chain, element_of
from lanefold.frontends.onnx.nodes import Node
from lanefold.frontends.onnx.pieces import LegPiece, Parts, Reference, tensor_type
from lanefold.frontends.onnx.read import Model
from lanefold.ops import ArgPool, Pool

_REFERENCE_SET = 12
"""Operator set from which MaxPool takes 8-bit integers."""


@dataclass(frozen=True, slots=True)
class _Axis:
    """One spatial axis: for each output the first element of its window and how many it holds, and the dilation."""

    begins: tuple[int, ...]
    sizes: tuple[int, ...]
    dilation: int


def _axes(op: ArgPool) -> list[_Axis]:
    pool, made = op.pool, []
    for axis, dilation in zip(pool.shape.axes, pool.dilations, strict=True):
        begins = [each.begin + n * axis.stride for each in axis.classes for n in range(each.outputs)]
        sizes = [each.size for each in axis.classes for _ in range(each.outputs)]
        made.append(_Axis(tuple(begins), tuple(sizes), dilation))
    return made


def _steps(extents: Sequence[int], *, columns_first: bool) -> list[int]:
    """Index steps of the spatial axes, row after row or column after column."""
    if columns_first:
        return [prod(extents[:axis]) for axis in range(len(extents))]
    return [prod(extents[axis + 1 :]) for axis in range(len(extents))]


def with_indices(
    model: Model, node: Node, pool: Pool, explicit: onnx.NodeProto, findings: Sequence[Diagnostic], note: str
) -> Parts:
    """A pooling by maximum with indices: a place in the window becomes an index of the whole tensor.

    Args:
        model: the node's model.
        node: the MaxPool.
        pool: its window.
        explicit: the node with explicit pads.
        findings: about the node.
        note: the window in words.
    """
    op = ArgPool(
        pool.input_shape, pool.kernel, pool.strides, pool.dilations, pool.pads, pool.ceil_mode, dtype=pool.dtype
    )
    values, indices = node.outputs[:2]
    chain = Chain(model, node)
    place = f"{indices}/place"
    values = values or f"{indices}/values"
    chain.types[values] = tensor_type(op.dtype, op.output_shape)
    chain.types[place] = tensor_type(op.index_dtype, op.output_shape)
    source = node.inputs[0]
    reference = _reference(op, explicit, (source, values, place), model.opset)
    search = f"{node.name}/search"
    chain.pieces.append(LegPiece(search, node, op, (source,), (values, place), reference, exact=True))
    order = bool(node.integer("storage_order"))
    _index(chain, op, place, indices, columns_first=order)
    along = "column after column" if order else "row after row"
    return chain.parts(f"{note}; places in the windows turned into indices on the host, {along}", findings)


def _index(chain: Chain, op: ArgPool, place: str, result: str, *, columns_first: bool) -> None:
    """Start of the plane + Σ over axes of (begin + digit·dilation)·step, digits being those of the place."""
    shape, spatial = op.output_shape, op.input_shape[2:]
    steps, axes = _steps(spatial, columns_first=columns_first), _axes(op)
    rest = chain.cast("place", place, shape, "int64")
    base = np.arange(prod(shape[:2])).reshape(*shape[:2], *(1,) * len(spatial)) * prod(spatial)
    terms = []
    for at in reversed(range(len(axes))):
        axis = axes[at]
        along = (1, 1, *(-1 if other == at else 1 for other in range(len(axes))))
        base = base + np.reshape(axis.begins, along) * steps[at]
        digit = rest
        if at:
            size = chain.constant(f"size{at}", np.reshape(axis.sizes, along), "int64")
            rest = chain.host(f"quotient{at}", "Div", [digit, size], shape, dtype="int64")
            whole = chain.host(f"whole{at}", "Mul", [rest, size], shape, dtype="int64")
            digit = chain.host(f"digit{at}", "Sub", [digit, whole], shape, dtype="int64")
        step = chain.constant(f"step{at}", axis.dilation * steps[at], "int64")
        terms.append(chain.host(f"term{at}", "Mul", [digit, step], shape, dtype="int64"))
    total = chain.constant("base", base, "int64")
    for at, term in enumerate(terms):
        into = result if at == len(terms) - 1 else ""
        total = chain.host(f"sum{at}", "Add", [term, total], shape, dtype="int64", into=into)


def _reference(op: ArgPool, explicit: onnx.NodeProto, names: tuple[str, str, str], opset: int) -> Reference:
    """The node itself and, from its indices, the places that the leg gives."""
    source, values, place = names
    index = f"{place}/index"
    whole = onnx.NodeProto()
    whole.CopyFrom(explicit)
    kept = [each for each in whole.attribute if each.name != "storage_order"]
    del whole.attribute[:]
    whole.attribute.extend(kept)
    whole.input[0] = source
    del whole.output[:]
    whole.output.extend([values, index])
    nodes = [whole]
    constants: list[tuple[str, tuple[int, ...]]] = []

    def step(op_type: str, left: str, word: str, value: Sequence[int], shape: Sequence[int] = ()) -> str:
        """One node that combines a tensor with a constant."""
        name = f"{place}/{word}"
        constants.append((f"{name}/constant", tuple(value)))
        right = f"{name}/constant"
        if shape:
            constants.append((f"{name}/shape", tuple(shape)))
            right = f"{name}/shaped"
            nodes.append(helper.make_node("Reshape", [f"{name}/constant", f"{name}/shape"], [right]))
        nodes.append(helper.make_node(op_type, [left, right], [name]))
        return name

    spatial, axes = op.input_shape[2:], _axes(op)
    steps = _steps(spatial, columns_first=False)
    total = ""
    for at, axis in enumerate(axes):
        along = [-1 if other == at else 1 for other in range(len(axes))]
        here = step("Div", index, f"over{at}", (steps[at],))
        here = step("Mod", here, f"position{at}", (spatial[at],))
        here = step("Sub", here, f"offset{at}", axis.begins, along)
        here = step("Div", here, f"digit{at}", (axis.dilation,))
        if at:
            wider = step("Mul", total, f"wider{at}", axis.sizes, along)
            nodes.append(helper.make_node("Add", [wider, here], [f"{place}/total{at}"]))
            here = f"{place}/total{at}"
        total = here
    nodes.append(helper.make_node("Cast", [total], [place], to=element_of(op.index_dtype)))
    return Reference(tuple(nodes), max(opset, _REFERENCE_SET), tuple(constants))
