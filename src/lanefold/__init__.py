"""Tools for the pooling, reduction and expansion instructions of AI accelerators.

``pool2d``, ``reduce``, ``argmax``, ``topk``, ``top8`` and ``expand`` compute on NumPy arrays; ``compile`` makes a
program of an ONNX model, ``load`` reads a saved one, ``sweep`` prices many shapes. ``tpb`` and ``pto`` are the two
instruction sets, ``ops`` the operations before a target is chosen. Bad input raises ``LanefoldError``, which holds a
``Diagnostic`` for each finding.

The names below are loaded when they are first used, so that importing the package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import onnx

    from lanefold import frontends, ops, pto, tpb
    from lanefold.diagnostics import Diagnostic, LanefoldError
    from lanefold.frontends.array import argmax, expand, pool2d, reduce, top8, topk
    from lanefold.program import Program
    from lanefold.sweeps import sweep
    from lanefold.targets import load

__version__ = "0.1.0"

_LAZY = {
    "Diagnostic": "lanefold.diagnostics",
    "LanefoldError": "lanefold.diagnostics",
    "argmax": "lanefold.frontends.array",
    "expand": "lanefold.frontends.array",
    "load": "lanefold.targets",
    "pool2d": "lanefold.frontends.array",
    "reduce": "lanefold.frontends.array",
    "sweep": "lanefold.sweeps",
    "top8": "lanefold.frontends.array",
    "topk": "lanefold.frontends.array",
}
_MODULES = ("frontends", "ops", "pto", "tpb")

__all__ = [
    "Diagnostic",
    "LanefoldError",
    "argmax",
    "compile",
    "expand",
    "frontends",
    "load",
    "ops",
    "pool2d",
    "pto",
    "reduce",
    "sweep",
    "top8",
    "topk",
    "tpb",
]


def compile(  # noqa: A001 - the name users expect, beside the built-in only inside this module
    model: str | Path | onnx.ModelProto,
    target: str = "trn1",
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    prefer: str = "cost",
    strict: bool = False,
    **readings: str,
) -> Program:
    """Compiles an ONNX model for a target: the leg's nodes to instructions, all others to host steps.

    Args:
        model: path of an ONNX file, or a model.
        target: target name, see ``lanefold targets``.
        shapes: extents of inputs that the model leaves open, by name, such as ``{"x": (1, 3, 224, 224)}``.
        prefer: route preference, ``cost``; ``free-axis`` or ``cross-lane`` on trn targets, ``row`` or ``column`` on
            PTO targets.
        strict: refuse models whose pooling or reduction nodes would go to the host.
        readings: readings of the target, such as ``opcodes="headers"`` or ``numerics="device"``.

    Raises:
        LanefoldError: if the model or an argument cannot be used.
    """
    from lanefold.frontends.onnx import compile_model
    from lanefold.targets import target as find_target

    return compile_model(model, find_target(target, **readings), shapes=shapes, prefer=prefer, strict=strict)


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    if name in _MODULES:
        return import_module(f"lanefold.{name}")
    raise AttributeError(f"module 'lanefold' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, "__version__"})
