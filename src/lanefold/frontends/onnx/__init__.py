"""ONNX models in: read, taken apart, divided between leg and host, checked against onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import onnx

from lanefold import arguments
from lanefold.frontends.onnx.comparing import VerifyRow, ulp_distance
from lanefold.frontends.onnx.edges import Array
from lanefold.frontends.onnx.feeds import random_inputs
from lanefold.frontends.onnx.partition import Plan, partition
from lanefold.frontends.onnx.read import Model, Value, read_model
from lanefold.frontends.onnx.verify import Verification, verify
from lanefold.program import Program, Target
from lanefold.program.routes import PREFERENCES

__all__ = [
    "Model",
    "Plan",
    "Value",
    "Verification",
    "VerifyRow",
    "compile_model",
    "partition",
    "plan_model",
    "random_inputs",
    "read_model",
    "ulp_distance",
    "verify",
]


def plan_model(
    model: str | Path | onnx.ModelProto,
    target: Target,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    fixed: Mapping[str, Array] | None = None,
    strict: bool = False,
    prefer: str = "cost",
) -> Plan:
    """Read a model and divide it between the leg of a target and the host; the plan also holds the warnings.

    Args:
        model: path of a file, or a model in memory.
        target: lowers ops or refuses them.
        shapes: extents of inputs that the model leaves open.
        fixed: values of inputs that are known before anything runs.
        strict: refuse to leave a pooling or reduction to the host.
        prefer: which of several legal routes the target takes, in the target's words.

    Raises:
        LanefoldError: the model cannot be read or holds a node that cannot be; see `read_model` and `partition`.
    """
    strict = arguments.flag("compile", "strict", strict)
    prefer = arguments.text("compile", "prefer", prefer, PREFERENCES)
    if not callable(getattr(target, "machine", None)):
        raise arguments.refused("plan_model", "target", target, "a target", "give lanefold.targets.target('trn1')")
    return partition(read_model(model, shapes=shapes, fixed=fixed), target, strict=strict, prefer=prefer)


def compile_model(
    model: str | Path | onnx.ModelProto,
    target: Target,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    fixed: Mapping[str, Array] | None = None,
    strict: bool = False,
    prefer: str = "cost",
) -> Program:
    """The program of a model for a target; arguments and errors as in `plan_model`."""
    return plan_model(model, target, shapes=shapes, fixed=fixed, strict=strict, prefer=prefer).program
