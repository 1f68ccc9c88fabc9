"""Random arrays to run a model on."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx

from lanefold import arguments
from lanefold.diagnostics import LanefoldError
from lanefold.frontends.onnx import rules
from lanefold.frontends.onnx.read import Model, Value, read_model
from lanefold.ops.checks import GREATEST_SIZE

Array = np.ndarray[Any, np.dtype[Any]]
_HIGHEST_INTEGER = 100
_GREATEST_SEED = (1 << 63) - 1


def random_inputs(model: Model | str | Path | onnx.ModelProto, seed: int = 0) -> dict[str, Array]:
    """Random arrays for all inputs of a model: normal for floats, 0 … 99 (or the type's range) for integers.

    Raises:
        LanefoldError: the model cannot be read, or an input is neither a number nor a truth value.
    """
    read = model if isinstance(model, Model) else read_model(model)
    generator = np.random.default_rng(arguments.integer("random_inputs", "seed", seed, low=0, high=_GREATEST_SEED))
    made: dict[str, Array] = {}
    for value in read.inputs:
        try:
            made[value.name] = _random(read, value, generator)
        except MemoryError:
            raise _too_large(read, value, tuple(n or 0 for n in value.shape or ())) from None
    return made


def _too_large(model: Model, value: Value, shape: tuple[int, ...]) -> LanefoldError:
    return rules.RANDOM.error(
        f"no random values are made for {value.name}, which has {math.prod(shape)} elements",
        got=f"{value.name} of shape {list(shape)}",
        allowed=f"inputs of at most {GREATEST_SIZE} elements that fit the memory of this machine",
        cures=[_give(value)],
        place=model.place(operand=value.name),
    )


def _random(model: Model, value: Value, generator: np.random.Generator) -> Array:
    shape = tuple(n or 0 for n in value.shape or ())
    # read_model leaves no extent open.
    if math.prod(shape) > GREATEST_SIZE:
        raise _too_large(model, value, shape)
    if value.dtype == "bool":
        return generator.integers(0, 2, shape).astype(bool)
    dtype = _numpy_dtype(value.dtype)
    if dtype is None:
        raise rules.RANDOM.error(
            f"no random values are made for {value.name} of type {value.dtype or 'unknown'}",
            got=value.dtype or "unknown",
            allowed="integers, floats and bool",
            cures=[_give(value)],
            place=model.place(operand=value.name),
        )
    if dtype.kind in "iu":
        return generator.integers(0, min(_HIGHEST_INTEGER, int(np.iinfo(dtype).max)), shape).astype(dtype)
    return generator.standard_normal(shape).astype(np.float32).astype(dtype)


def _give(value: Value) -> str:
    return (
        f"give an array for {value.name}: --input X.npz on the command line, run({{{value.name!r}: array}}) in Python"
    )


def _numpy_dtype(name: str) -> np.dtype[Any] | None:
    kind = getattr(ml_dtypes, name, None)
    try:
        dtype = np.dtype(kind if kind is not None else name)
    except TypeError:
        return None
    return dtype if kind is not None or dtype.kind in "iuf" else None
