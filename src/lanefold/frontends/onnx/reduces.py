"""Reduce nodes as Reduce ops, with roots, logarithms and exponentials on the host."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from onnx import helper

from lanefold.frontends.onnx.chains import FIRST_SET, Chain
from lanefold.frontends.onnx.elements import CAST_SET, HALVES, WORK, wide_fold
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
from lanefold.ops import Reduce, identity
from lanefold.ops.checks import is_float


@dataclass(frozen=True, slots=True)
class _Form:
    """How one ONNX operator is folded: operator and element on the leg, then a host operator if any."""

    operator: str
    element: str = "identity"
    finish: str = ""
    floats_only: bool = False


_FORMS = {
    "ReduceSum": _Form("add"),
    "ReduceMean": _Form("average", floats_only=True),
    "ReduceMax": _Form("max"),
    "ReduceMin": _Form("min"),
    "ReduceProd": _Form("mult"),
    "ReduceL1": _Form("add", "abs"),
    "ReduceSumSquare": _Form("add", "square"),
    "ReduceL2": _Form("add", "square", "Sqrt", floats_only=True),
    "ReduceLogSum": _Form("add", finish="Log", floats_only=True),
}


def resolved_axes(model: Model, node: Node, rank: int) -> tuple[int, ...] | OnHost:
    """The axes a node folds, given as attribute, as constant input, or not at all."""
    given = node.integers("axes")
    if len(node.inputs) > 1:
        constant = model.constant(node.inputs[1])
        if constant is None:
            return OnHost(f"its axes {node.inputs[1]} are known only while the model runs")
        given = tuple(int(each) for each in constant.reshape(-1))
    if given:
        return given
    if node.integer("noop_with_empty_axes"):
        return OnHost("noop_with_empty_axes 1 and no axes: nothing is folded")
    if not rank:
        return OnHost("a scalar has no axis to fold")
    return tuple(range(rank))


def _empty_set(model: Model, node: Node) -> OnHost | None:
    shape = model.shape(node.inputs[0])
    dtype = model.dtype(node.inputs[0])
    if shape is None or 0 not in shape or not (is_float(dtype) or "int" in dtype):
        return None
    form = _FORMS.get(node.op_type, _Form("add"))
    value = identity(form.operator, dtype)
    start = "it has no identity" if value is None else f"the identity of {form.operator} is {value}"
    return OnHost(f"extents {list(shape)} hold no element to fold; {start}")


def _prepared(model: Model, node: Node, *, floats_only: bool) -> tuple[Source, tuple[int, ...]] | OnHost:
    empty = _empty_set(model, node)
    if empty is not None:
        return empty
    source = leg_source(model, node)
    if isinstance(source, OnHost):
        return source
    if floats_only and not is_float(source.dtype):
        return OnHost(f"{node.op_type} of {source.dtype} rounds to whole numbers, which the leg does not")
    axes = resolved_axes(model, node, len(source.shape))
    return axes if isinstance(axes, OnHost) else (source, axes)


def _describe(op: Reduce) -> str:
    return f"{op.operator} over axes {list(op.axes)} of {list(op.input_shape)}"


_REFERENCE_SET = 18
_REFERENCES = {
    ("add", "identity"): "ReduceSum",
    ("add", "abs"): "ReduceL1",
    ("add", "square"): "ReduceSumSquare",
    ("average", "identity"): "ReduceMean",
    ("max", "identity"): "ReduceMax",
    ("min", "identity"): "ReduceMin",
    ("mult", "identity"): "ReduceProd",
}


def leg_fold(node: Node, op: Reduce, source: str, result: str, name: str) -> LegPiece:
    """A reduction on the leg."""
    axes = f"{result}/axes"
    proto = helper.make_node(_REFERENCES[op.operator, op.element], [source, axes], [result], keepdims=int(op.keepdims))
    reference = Reference((proto,), _REFERENCE_SET, ((axes, op.axes),))
    return LegPiece(name, node, op, (source,), (result,), reference, exact=op.operator in ("max", "min"))


def _host(node: Node, op_type: str, sources: list[str], result: str, **attributes: object) -> HostPiece:
    name = f"{node.name}/{op_type.lower()}"
    return HostPiece(name, node, helper.make_node(op_type, sources, [result], name=name, **attributes))  # type: ignore[arg-type]


def _plain(model: Model, node: Node) -> Parts | OnHost:
    form = _FORMS[node.op_type]
    prepared = _prepared(model, node, floats_only=form.floats_only)
    if isinstance(prepared, OnHost):
        return prepared
    source, axes = prepared
    keepdims = bool(node.integer("keepdims", 1))
    op = Reduce(form.operator, source.shape, axes, keepdims, form.element, dtype=source.dtype)
    output = node.outputs[0]
    if not form.finish:
        return Parts((leg_fold(node, op, source.name, output, node.name),), _describe(op))
    total = f"{output}/sum"
    fold = leg_fold(node, op, source.name, total, f"{node.name}/sum")
    if source.dtype in HALVES and model.opset >= CAST_SET:
        return _wide(node, fold, form.finish, source.dtype, _describe(op))
    return Parts(
        (fold, _host(node, form.finish, [total], output)),
        f"{_describe(op)}; {form.finish} on the host",
        types=((total, tensor_type(op.output_dtype, op.output_shape)),),
    )


def _wide(node: Node, narrow: LegPiece, finish: str, dtype: str, what: str) -> Parts:
    """A fold whose result stays in float32 until its last function is taken, so that no sum leaves its range."""
    fold, types = wide_fold(narrow)
    (total,), output = fold.outputs, node.outputs[0]
    done = f"{output}/{finish.lower()}"
    small = tensor_type(WORK, narrow.op.output_shape)
    return Parts(
        (
            fold,
            _host(node, finish, [total], done),
            _cast(node, "narrow", done, output, dtype),
        ),
        f"{what}; sum kept in float32; {finish} on the host",
        types=((total, small), (done, small), *types),
    )


def _log_sum_exp(model: Model, node: Node) -> Parts | OnHost:
    """Maximum, exponentials of the distance from it, their sum, its logarithm, and the maximum again."""
    prepared = _prepared(model, node, floats_only=True)
    if isinstance(prepared, OnHost):
        return prepared
    if model.opset < FIRST_SET:
        return OnHost(f"operator set {model.opset} cannot subtract a row's maximum from its row")
    source, axes = prepared
    keepdims = bool(node.integer("keepdims", 1))
    op = Reduce("max", source.shape, axes, keepdims)
    whole = source.shape
    small = tuple(1 if axis in op.axes else extent for axis, extent in enumerate(whole))
    chain, output = Chain(model, node), node.outputs[0]
    last = chain.last(output, source.dtype)
    wide = chain.widened(source)
    # A row of infinities gives an infinity and not NaN.
    finite = chain.clipped("finite", chain.fold("largest", "max", wide, whole, op.axes), small)
    powers = chain.spread("exps", "exp_difference", wide, finite, whole, small)
    logs = chain.host("logs", "Log", [chain.fold("total", "add", powers, whole, op.axes)], small)
    made = chain.host("kept", "Add", [logs, finite], small, into=last if keepdims else "")
    if not keepdims:
        made = chain.reshape("flat", made, op.output_shape, into=last)
    chain.narrow(made, output, op.output_shape, source.dtype)
    return chain.parts(
        f"maximum and sum over axes {list(op.axes)} of {list(whole)}; Log and Add on the host"
        + (", in float32" if source.dtype != WORK else "")
    )


def _cast(node: Node, word: str, source: str, result: str, dtype: str) -> HostPiece:
    name = f"{node.name}/{word}"
    element = tensor_type(dtype, ()).tensor_type.elem_type
    return HostPiece(name, node, helper.make_node("Cast", [source], [result], name=name, to=element))


REDUCES: dict[str, Callable[[Model, Node], Parts | OnHost]] = {
    **dict.fromkeys(_FORMS, _plain),
    "ReduceLogSumExp": _log_sum_exp,
}
"""What each Reduce operator comes to."""
