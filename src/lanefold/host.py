"""Host steps: the parts of a model that no instruction of the leg computes.

onnxruntime runs them. Where it says itself that it has no kernel for an operator and its types, the reference evaluator
of the onnx package does, which is slower; the step then says so.
"""

from __future__ import annotations

import ctypes
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

from lanefold.diagnostics import LanefoldError, Place, Rule

Array = np.ndarray[Any, np.dtype[Any]]

RULE_RUN = Rule(
    "ONNX-HOST-RUN",
    "onnxruntime, or the reference evaluator of onnx where it has no kernel, can run every part of the model that "
    "stays on the host.",
    "onnxruntime: supported operators and types",
)
_NO_KERNEL = "NotImplemented"
"""Name of the exception by which onnxruntime says that it has no kernel for an operator and its types."""
_EVALUATOR_REFUSALS = (
    AssertionError,
    ArithmeticError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
)
"""What the evaluator of the onnx package raises for operators and types that it does not have."""
_BFLOAT16 = "tensor(bfloat16)"
_BFLOAT16_ELEMENT = 16
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
    no_kernel: str = field(default="", init=False, compare=False)
    """After a run by the reference evaluator of onnx: what onnxruntime said that it has no kernel for."""
    _session: Any = field(default=None, init=False, repr=False, compare=False)

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """Run the step; the session is made at the first run and kept.

        Raises:
            LanefoldError: neither onnxruntime nor the reference evaluator takes the model or the values.
        """
        feeds = dict(zip(self.inputs, inputs, strict=True))
        try:
            if self._session is None and not self.no_kernel:
                self._session = open_session(self.model_bytes, self.name)
            if self._session is not None:
                return run_session(self._session, self.outputs, feeds, self.name)
        except LanefoldError as refused:
            missing = missing_kernel(refused)
            results = evaluate(self.model_bytes, self.outputs, feeds) if missing else None
            if results is None:
                raise
            self.no_kernel = missing
            self.close()
            return results
        results = evaluate(self.model_bytes, self.outputs, feeds)
        if results is None:
            raise _refused(self.name, "run", RuntimeError(self.no_kernel))
        return results

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
    except _refusals() as error:
        raise _refused(name, "load", error) from error


def run_session(session: Any, outputs: Sequence[str], feeds: dict[str, Array], name: str) -> list[Array]:
    """Run a session on named arrays.

    Raises:
        LanefoldError: onnxruntime does not take the values.
    """
    arrays = {each: _as_value(array) for each, array in feeds.items()}
    types = [each.type for each in session.get_outputs()] + [each.type for each in session.get_inputs()]
    try:
        if _BFLOAT16 in types:
            return _run_wide(session, outputs, arrays)
        return [_as_value(each) for each in session.run(list(outputs), arrays)]
    except _refusals() as error:
        raise _refused(name, "run", error) from error


def missing_kernel(refused: LanefoldError) -> str:
    """What onnxruntime said that it has no kernel for; empty where it refused for another reason."""
    error = refused.__cause__
    return " ".join(str(error).split()) if type(error).__name__ == _NO_KERNEL else ""


def evaluate(model_bytes: bytes, outputs: Sequence[str], feeds: dict[str, Array]) -> list[Array] | None:
    """Outputs by the reference evaluator of the onnx package.

    None where it does not have an operator or a type, or gives other extents than the model declares.
    """
    import onnx
    from onnx.reference import ReferenceEvaluator

    model = onnx.load_from_string(model_bytes)
    try:
        with np.errstate(all="ignore"):
            made = ReferenceEvaluator(model).run(list(outputs), feeds)
    except _EVALUATOR_REFUSALS:
        return None
    results = [_as_value(each) for each in made]
    declared = {value.name: value.type.tensor_type for value in model.graph.output}
    fits = all(_as_declared(declared.get(name), each) for name, each in zip(outputs, results, strict=True))
    return results if fits else None


def _as_declared(kind: Any, result: Any) -> bool:
    """Whether a result has the extents that the model declares, as far as it does."""
    if kind is None or not kind.HasField("shape") or isinstance(result, list):
        return True
    extents = [dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= 0 else None for dim in kind.shape.dim]
    return len(extents) == result.ndim and all(n in (None, m) for n, m in zip(extents, result.shape, strict=True))


def _refusals() -> tuple[type[Exception], ...]:
    """What onnxruntime raises for models and values that it does not take."""
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    own = [each for each in vars(state).values() if isinstance(each, type) and issubclass(each, Exception)]
    return (*own, RuntimeError, ValueError)


def _as_value(value: Any) -> Any:
    """A value as an array; a sequence stays a list, of arrays, as its elements may differ in shape."""
    return [_as_value(each) for each in value] if isinstance(value, list) else np.asarray(value)


def _run_wide(session: Any, outputs: Sequence[str], arrays: dict[str, Array]) -> list[Array]:
    """Run with onnxruntime's own values, because its NumPy interface has no bfloat16."""
    import onnxruntime

    values = {
        name: onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(array.view(np.uint16), _BFLOAT16_ELEMENT)
        if array.dtype.name == "bfloat16"
        else onnxruntime.OrtValue.ortvalue_from_numpy(array)
        # Not np.ascontiguousarray, which gives a scalar an axis.
        for name, array in ((name, np.asarray(array, order="C")) for name, array in arrays.items())
    }
    return [_as_array(value) for value in session.run_with_ort_values(list(outputs), values)]


def _as_array(value: Any) -> Array:
    if value.data_type() != _BFLOAT16:
        return np.asarray(value.numpy())
    shape = tuple(value.shape())
    words = (ctypes.c_uint16 * math.prod(shape)).from_address(value.data_ptr())
    array: Array = np.frombuffer(words, np.uint16).copy().view(ml_dtypes.bfloat16).reshape(shape)
    return array


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
