"""Softmax, LogSoftmax and Hardmax: maxima, sums and spreading on the leg, exponentials and logarithms on the host."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod

import numpy as np
from onnx import helper

from lanefold.diagnostics import Diagnostic
from lanefold.frontends.onnx import rules
from lanefold.frontends.onnx.chains import FIRST_SET, WORK, Chain, element_of
from lanefold.frontends.onnx.edges import Array
from lanefold.frontends.onnx.nodes import Node
from lanefold.frontends.onnx.pieces import (
    HostPiece,
    LegPiece,
    OnHost,
    Parts,
    Reference,
    Source,
    leg_source,
    tensor_type,
)
from lanefold.frontends.onnx.read import Model
from lanefold.ops import ArgReduce, Softmax
from lanefold.ops.checks import is_float

_SINGLE_AXIS = 13
"""Operator set from which the axis stands for itself; before, all axes from it on are one."""
_REFERENCE_SET = 13


def _source(model: Model, node: Node) -> tuple[Source, tuple[int, ...]] | OnHost:
    """The input and the axes that are normalised together."""
    source = leg_source(model, node)
    if isinstance(source, OnHost):
        return source
    rank = len(source.shape)
    if not rank or not is_float(source.dtype):
        return OnHost(f"its input {source.name} is {source.dtype} of {rank} dimensions")
    single = model.opset >= _SINGLE_AXIS
    given = node.attributes.get("axis", -1 if single else 1)
    axis = given if isinstance(given, int) else -1
    if not single and not -rank <= axis < rank:
        return OnHost(f"axis {axis} leaves rows of one element")
    if model.opset < FIRST_SET:
        return OnHost(f"operator set {model.opset} cannot subtract a row's maximum from its row")
    return source, (axis,) if single else tuple(range(axis % rank, rank))


def _softmax(model: Model, node: Node) -> Parts | OnHost:
    """One tile program where the target has exponentials, else maximum, exponentials, sum and quotient in turn."""
    found = _source(model, node)
    if isinstance(found, OnHost):
        return found
    source, axes = found
    op = Softmax(source.shape, axes)
    chain, output = Chain(model, node), node.outputs[0]
    wide = chain.widened(source)
    before = list(chain.pieces)
    chain.pieces.clear()
    result = chain.last(output, source.dtype) or f"{output}/softmax"
    _divided(chain, wide, op, result)
    steps = tuple(chain.pieces)
    if result != output:
        chain.types[result] = tensor_type(WORK, op.input_shape)
    name = node.name if result == output else f"{node.name}/softmax"
    leg = LegPiece(name, node, op, (wide,), (result,), _reference(op, wide, result), exact=False, otherwise=steps)
    chain.pieces[:] = [*before, leg]
    chain.narrow(result, output, source.shape, source.dtype)
    note = f"softmax over axes {list(op.axes)} of {list(source.shape)}{_in_float32(source)}"
    return chain.parts(note, _masked_rows(model, node, op))


def _in_float32(source: Source) -> str:
    return "" if source.dtype == WORK else f"; {source.dtype} cast to float32 on the host and back"


def _reference(op: Softmax, source: str, result: str) -> Reference:
    """The operator of set 13 over one axis, or that of set 11 over the last axes."""
    if len(op.axes) == 1:
        return Reference((helper.make_node("Softmax", [source], [result], axis=op.axes[0]),), _REFERENCE_SET)
    return Reference((helper.make_node("Softmax", [source], [result], axis=op.axes[0]),), _SINGLE_AXIS - 2)


def _divided(chain: Chain, source: str, op: Softmax, result: str) -> None:
    """Maximum and sum on the leg, exponentials of the distance on the host, then the inverse of the sum times them."""
    whole = op.input_shape
    small = tuple(1 if axis in op.axes else extent for axis, extent in enumerate(whole))
    largest = chain.fold("largest", "max", source, whole, op.axes)
    powers = chain.spread("powers", "exp_difference", source, largest, whole, small)
    total = chain.fold("total", "add", powers, whole, op.axes)
    chain.quotient("quotient", powers, total, whole, small, into=result)


def _log_softmax(model: Model, node: Node) -> Parts | OnHost:
    """Distance from the maximum, less the logarithm of the sum of its exponentials."""
    found = _source(model, node)
    if isinstance(found, OnHost):
        return found
    source, axes = found
    chain, output, whole = Chain(model, node), node.outputs[0], source.shape
    op = Softmax(whole, axes)
    small = tuple(1 if axis in op.axes else extent for axis, extent in enumerate(whole))
    wide = chain.widened(source)
    largest = chain.fold("largest", "max", wide, whole, op.axes)
    distance = chain.spread("distance", "subtract", wide, largest, whole, small)
    powers = chain.host("powers", "Exp", [distance], whole)
    total = chain.fold("total", "add", powers, whole, op.axes)
    logs = chain.host("logs", "Log", [total], small)
    made = chain.spread("difference", "subtract", distance, logs, whole, small, into=chain.last(output, source.dtype))
    chain.narrow(made, output, whole, source.dtype)
    note = f"maximum and sum over axes {list(op.axes)} of {list(whole)}; Exp and Log on the host{_in_float32(source)}"
    return chain.parts(note, _masked_rows(model, node, op))


def _hardmax(model: Model, node: Node) -> Parts | OnHost:
    """The first index of the maximum on the leg, compared with every index on the host."""
    found = _source(model, node)
    if isinstance(found, OnHost):
        return found
    source, axes = found
    axes = Softmax(source.shape, axes).axes
    first, last = axes[0], axes[-1]
    flat = source.shape
    if len(axes) > 1:
        flat = (prod(flat[:first]), prod(flat[first : last + 1]))
        first = 1
    op = ArgReduce("max", flat, first, dtype=source.dtype)
    chain, output = Chain(model, node), node.outputs[0]
    narrow = f"{output}/index"
    chain.types[narrow] = tensor_type("uint32", op.output_shape)
    search = _first_largest(node, op, source.name, narrow, f"{node.name}/search")
    if source.dtype != WORK:
        wide = f"{output}/wide"
        chain.types[wide] = tensor_type(WORK, source.shape)
        cast = helper.make_node("Cast", [source.name], [wide], name=f"{node.name}/wide", to=element_of(WORK))
        again = _first_largest(node, replace(op, dtype=WORK), wide, narrow, f"{node.name}/wide/search")
        search = replace(search, otherwise=(HostPiece(cast.name, node, cast), again))
    chain.pieces.append(search)
    index = chain.cast("found", narrow, op.output_shape, "int64")
    along = [1] * len(flat)
    along[op.axis] = flat[op.axis]
    places = chain.constant("places", np.arange(flat[op.axis]).reshape(along), "int64")
    hits = chain.host("hits", "Equal", [index, places], flat, dtype="bool")
    if flat == source.shape:
        chain.cast("ones", hits, flat, source.dtype, into=output)
    else:
        ones = chain.cast("ones", hits, flat, source.dtype)
        chain.reshape("shape", ones, source.shape, dtype=source.dtype, into=output)
    note = f"first maximum over axes {list(axes)} of {list(source.shape)}; its index compared with all on the host"
    return chain.parts(note)


def _first_largest(node: Node, op: ArgReduce, source: str, result: str, name: str) -> LegPiece:
    """The index of the first maximum of every row."""
    wide = f"{result}/int64"
    nodes = (
        helper.make_node("ArgMax", [source], [wide], axis=op.axis),
        helper.make_node("Cast", [wide], [result], to=element_of(op.output_dtype)),
    )
    return LegPiece(name, node, op, (source,), (result,), Reference(nodes, _REFERENCE_SET), exact=True)


def _masked_rows(model: Model, node: Node, op: Softmax) -> tuple[Diagnostic, ...]:
    """A warning where a constant mask leaves a row nothing but −inf, whose softmax is NaN."""
    mask = model.producers.get(node.inputs[0])
    if mask is None or mask.op_type not in ("Add", "Where"):
        return ()
    hidden = _hidden(model, mask)
    if hidden is None or not hidden.size:
        return ()
    try:
        rows = np.broadcast_to(hidden, op.input_shape).all(axis=op.axes)
    except ValueError:
        return ()
    count = int(np.count_nonzero(rows))
    if not count:
        return ()
    return (
        rules.MASKED_ROW.finding(
            f"{mask.name} leaves {count} of {rows.size} rows of {node.name} nothing but −inf; their maximum is "
            "−inf, and −inf less −inf is NaN",
            got=f"{count} rows of −inf alone",
            allowed="rows with at least one number",
            cures=[
                f"mask with the least finite number, {np.finfo(WORK).min!s}, in place of −inf",
                f"leave each row of {mask.name} at least one element",
            ],
            place=model.place(node, node.inputs[0]),
        ),
    )


def _hidden(model: Model, mask: Node) -> Array | None:
    """The elements that a mask turns to −inf, as far as constants tell."""
    if mask.op_type == "Add":
        values = [model.constant(name) for name in mask.inputs]
        found = [value == -np.inf for value in values if value is not None and value.dtype.kind == "f"]
        return found[0] if found else None
    chosen, *sides = (model.constant(name) for name in mask.inputs)
    if chosen is None:
        return None
    first, second = (np.zeros(1, bool) if side is None or side.dtype.kind != "f" else side == -np.inf for side in sides)
    return np.asarray(np.where(chosen, first, second))


SOFTMAXES: dict[str, Callable[[Model, Node], Parts | OnHost]] = {
    "Softmax": _softmax,
    "LogSoftmax": _log_softmax,
    "Hardmax": _hardmax,
}
"""What each operator of the softmax family comes to."""
