"""Host steps: the parts of a model that no instruction of the leg computes, run by onnxruntime."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lanefold.diagnostics import Place, Rule

Array = np.ndarray[Any, np.dtype[Any]]

RULE_RUN = Rule(
    "ONNX-HOST-RUN",
    "onnxruntime can load and run every part of the model that stays on the host.",
    "onnxruntime: supported operators and types",
)
THREADS = min(4, os.cpu_count() or 1)
"""Threads that one session may use."""


@dataclass
class HostStep:
    """A self-contained ONNX model that runs between two steps of the leg.

    Args:
        name: of the step.
        model_bytes: the serialized model.
        inputs: names of the tensors it reads, in order.
        outputs: names of the tensors it makes, in order.
    """

    name: str
    model_bytes: bytes = field(repr=False)
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    _session: Any = field(default=None, init=False, repr=False, compare=False)

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """Run the step; the session is made at the first run and kept.

        Raises:
            LanefoldError: onnxruntime does not take the model or the values.
        """
        if self._session is None:
            self._session = open_session(self.model_bytes, self.name)
        return run_session(self._session, self.outputs, dict(zip(self.inputs, inputs, strict=True)), self.name)

    def close(self) -> None:
        """Give back the memory of the session; the next run makes a new one."""
        self._session = None


def open_session(model_bytes: bytes, name: str, *, optimise: bool = True) -> Any:
    """An onnxruntime session on the CPU with a limited number of threads.

    Raises:
        LanefoldError: onnxruntime does not take the model.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if not optimise:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        return onnxruntime.InferenceSession(model_bytes, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise _refused(name, "load", error) from error


def run_session(session: Any, outputs: Sequence[str], feeds: dict[str, Array], name: str) -> list[Array]:
    """Run a session on named arrays.

    Raises:
        LanefoldError: onnxruntime does not take the values.
    """
    try:
        arrays = {each: np.asarray(array) for each, array in feeds.items()}
        return [np.asarray(each) for each in session.run(list(outputs), arrays)]
    except Exception as error:
        raise _refused(name, "run", error) from error


def _refused(name: str, what: str, error: Exception) -> Exception:
    said = " ".join(str(error).split()) or type(error).__name__
    return RULE_RUN.error(
        f"onnxruntime cannot {what} {name}: {said[:400]}",
        got=type(error).__name__,
        allowed="a model whose host nodes onnxruntime supports on the CPU",
        cures=[
            "run the model with onnxruntime alone to see whether it supports it",
            "convert the operator or its type",
        ],
        place=Place(node=name),
    )
