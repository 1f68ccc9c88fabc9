"""Masks before a maximum: what a hidden element is set to must not win."""

from __future__ import annotations

import numpy as np

from lanefold.diagnostics import Diagnostic
from lanefold.frontends.onnx import rules
from lanefold.frontends.onnx.nodes import Node
from lanefold.frontends.onnx.read import Model

_MAXIMA = ("MaxPool", "GlobalMaxPool", "ReduceMax", "ArgMax", "TopK", "Softmax", "LogSoftmax", "Hardmax")
# Operators whose results are never negative, so that a 0 beside them hides what it should.
_NOT_NEGATIVE = ("Abs", "Exp", "Relu", "Sigmoid", "Softmax", "Softplus", "Sqrt")
_COMPARISONS = ("Greater", "GreaterOrEqual", "Less", "LessOrEqual")


def zero_masks(model: Model, node: Node) -> tuple[Diagnostic, ...]:
    """A warning where elements are masked with 0 before a maximum, in which 0 wins over negative values."""
    if node.op_type not in _MAXIMA or (node.op_type == "TopK" and not node.integer("largest", 1)):
        return ()
    mask = model.producers.get(node.inputs[0])
    if mask is None or not _hides_with_zero(model, mask):
        return ()
    return (
        rules.MASK_ZERO_MAX.finding(
            f"{mask.name} hides elements of {node.inputs[0]} by 0, which wins over negative values in {node.op_type}",
            got=f"{mask.op_type} with 0 for hidden elements",
            allowed="the identity of the maximum: −inf, or the lowest integer of the type",
            cures=["mask by Where with −inf, or with the lowest integer of the type, in place of 0"],
            place=model.place(node, node.inputs[0]),
        ),
    )


def _hides_with_zero(model: Model, mask: Node) -> bool:
    if mask.op_type == "Where":
        zero = [_is_zero(model, name) for name in mask.inputs[1:3]]
        if zero.count(True) != 1:
            return False
        kept = mask.inputs[1 + zero.index(False)]
        return _may_be_negative(model, kept) and not _compared(model, mask.inputs[0], kept)
    if mask.op_type == "Mul":
        switch = [_was_bool(model, name) for name in mask.inputs]
        return switch.count(True) == 1 and _may_be_negative(model, mask.inputs[switch.index(False)])
    return False


def _compared(model: Model, condition: str, kept: str) -> bool:
    """Whether the elements themselves decide, as where negative ones are cut off; then 0 is meant."""
    test = model.producers.get(condition)
    return test is not None and test.op_type in _COMPARISONS and kept in test.inputs


def _is_zero(model: Model, name: str) -> bool:
    value = model.constant(name)
    return value is not None and value.size > 0 and value.dtype.kind in "fiu" and not np.any(value)


def _was_bool(model: Model, name: str) -> bool:
    cast = model.producers.get(name)
    return cast is not None and cast.op_type == "Cast" and model.dtype(cast.inputs[0]) == "bool"


def _may_be_negative(model: Model, name: str) -> bool:
    value = model.constant(name)
    if value is not None:
        return bool(value.dtype.kind in "fi" and np.any(value < 0))
    source = model.producers.get(name)
    return source is None or source.op_type not in _NOT_NEGATIVE
