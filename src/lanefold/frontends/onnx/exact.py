"""What a leg piece would give without rounding: its op in float64, and how far rounding may carry a result from it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from lanefold.frontends.onnx.pieces import LegPiece
from lanefold.ops import ArgPool, ArgReduce, Expand, Gather, Iota, Pool, Reciprocal, Reduce, Softmax, TopK
from lanefold.ops.groups import divisors, folded

Array = np.ndarray[Any, np.dtype[Any]]

UNIT = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
"""Half the distance from 1 to its upper neighbour: the largest relative error of one rounding."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Results in float64; the reason where there are none."""

    results: tuple[Array, ...] = ()
    reason: str = ""


def elements(op: Pool | Reduce, value: Array) -> Array:
    """The values that an op folds, in float64."""
    wide = value.astype(np.float64)
    return {"abs": np.abs, "square": np.square}.get(op.element, np.asarray)(wide)


_COMBINE = {"add": np.add, "average": np.add, "mult": np.multiply}
_CHOOSING = ("bypass", "max", "min")
_SPREAD: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add,
    "subtract": np.subtract,
    "mult": np.multiply,
    "divide": np.divide,
    "exp_difference": lambda full, vector: np.exp(full - vector),
}


def evaluate(piece: LegPiece, inputs: Sequence[Array]) -> Evaluation:
    """A leg piece in float64: folds by their definition, the rest by the evaluator of the onnx package.

    Integers beyond 2^53 have no float64; such inputs give a reason instead of results.
    """
    op = piece.op
    if isinstance(op, Iota):
        return Evaluation(reason="it counts and rounds nothing")
    if isinstance(op, ArgPool | ArgReduce | TopK | Gather) or getattr(op, "operator", "") in _CHOOSING:
        return Evaluation(reason="it chooses among its inputs and rounds nothing")
    with np.errstate(all="ignore"):
        if isinstance(op, Reciprocal):
            return Evaluation((1 / inputs[0].astype(np.float64),))
        if isinstance(op, Expand):
            full, vector = (value.astype(np.float64) for value in inputs)
            return Evaluation((_SPREAD[op.operator](full.reshape(op.input_shape), vector.reshape(op.vector_shape)),))
        if isinstance(op, Softmax):
            return Evaluation((_softmax(op, inputs[0]),))
        if not isinstance(op, Pool | Reduce) or op.operator not in _COMBINE:
            return Evaluation(reason=f"{piece.told} has no float64 form")
        total = folded(op, elements(op, inputs[0]), _COMBINE[op.operator])
        return Evaluation((total / divisors(op) if op.operator == "average" else total,))


def _softmax(op: Softmax, value: Array) -> Array:
    wide = value.astype(np.float64)
    powers = np.exp(wide - wide.max(axis=op.axes, keepdims=True))
    return np.asarray(powers / powers.sum(axis=op.axes, keepdims=True))


def rounded_to(value: Array, dtype: np.dtype[Any]) -> Array:
    """float64 in the type of a result: nearest for floats, clamped whole numbers for integers."""
    with np.errstate(all="ignore"):
        if dtype.kind in "iu":
            bounds = np.iinfo(dtype)
            return np.clip(np.rint(value), bounds.min, bounds.max).astype(dtype)
        return value.astype(dtype)


def spacing(value: Array, dtype: np.dtype[Any]) -> Array:
    """Half a unit in the last place of a type at each value: the largest error of one rounding to it."""
    info = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
    size = np.abs(np.asarray(value, np.float64))
    size = np.where(np.isfinite(size), size, float(info.max))
    least = float(info.smallest_subnormal) / 2
    return np.maximum(size * float(info.eps) / 2, least)
