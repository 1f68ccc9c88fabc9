"""A target that evaluates every op with NumPy, and small models, for tests of the ONNX front end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import product
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from lanefold.diagnostics import RULES, Diagnostic, Place, Rule
from lanefold.ops import Op, Pool, Reduce
from lanefold.program import CostRow, Program

REFUSED = Rule("TEST-REFUSED", "The test target refuses what it is told to refuse.", "tests")
del RULES[REFUSED.code]  # the published rules are those of the package
COMBINE = {"add": np.add, "average": np.add, "max": np.fmax, "min": np.fmin, "mult": np.multiply}
ELEMENT = {"identity": lambda x: x, "abs": np.abs, "square": np.square}


def evaluate_pool(op: Pool, x: np.ndarray) -> np.ndarray:
    """One strided pass per tap of each window class, as bundles would do it."""
    x = ELEMENT[op.element](x)
    out = np.full(op.output_shape, 77, x.dtype)
    for window in op.shape.windows:
        parts = []
        for taps in product(*(range(axis.size) for axis in window.axes)):
            cut = [slice(None), slice(None)]
            for axis, tap, stride, dilation in zip(window.axes, taps, op.strides, op.dilations, strict=True):
                start = axis.begin + tap * dilation
                cut.append(slice(start, start + (axis.outputs - 1) * stride + 1, stride))
            parts.append(x[tuple(cut)])
        total = reduce(COMBINE[op.operator], parts)
        if op.operator == "average":
            total = (total / window.divisor).astype(x.dtype)
        out[(slice(None), slice(None), *(slice(a.first, a.first + a.outputs) for a in window.axes))] = total
    return out


def evaluate_reduce(op: Reduce, x: np.ndarray) -> np.ndarray:
    x = ELEMENT[op.element](x)
    made = COMBINE[op.operator].reduce(x, axis=op.axes, keepdims=op.keepdims, dtype=x.dtype)
    return np.asarray(made / op.count if op.operator == "average" else made, dtype=x.dtype)


@dataclass
class FakeCode:
    op: Op
    route: str = "numpy"
    opcodes: tuple[int, ...] = (1,)
    bundles: int = 2
    size: int = 128
    note: str = ""
    scale: float = 1.0

    @property
    def accumulators(self) -> tuple[str, ...]:
        kind = str(getattr(self.op, "dtype", "float32"))
        return tuple(dict.fromkeys(("float32", *([kind] if "float" in kind else []))))

    def run(self, machine: Any, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        evaluate = evaluate_pool if isinstance(self.op, Pool) else evaluate_reduce
        assert inputs[0].shape == self.op.input_shape
        with np.errstate(all="ignore"):
            made = evaluate(self.op, inputs[0]) * inputs[0].dtype.type(self.scale)
        assert made.shape == self.op.output_shape
        return [made]

    def check(self) -> list[Diagnostic]:
        return []

    def cost(self, model: str = "") -> list[CostRow]:
        return [CostRow("numpy", "cpu", 5.0, 7.0, 1.0, "fake", "none", "streaming", "none")] * self.bundles


@dataclass
class FakeTarget:
    """Takes pooling and reductions but the operators in ``refused``, and multiplies every result by ``scale``."""

    name: str = "fake"
    refused: tuple[str, ...] = ()
    scale: float = 1.0
    asked: list[Op] = field(default_factory=list)
    readings: dict[str, str] = field(default_factory=dict)
    cost_models: tuple[str, ...] = ("fake",)

    def check_preference(self, prefer: str, place: Place) -> None:
        assert prefer == "cost", place

    def lower(self, op: Op, place: Place, prefer: str = "cost") -> FakeCode:
        self.asked.append(op)
        kind = op.operator if isinstance(op, Pool | Reduce) else type(op).__name__
        if kind in self.refused or not isinstance(op, Pool | Reduce):
            raise REFUSED.error(f"{kind} is refused", got=kind, allowed="others", cures=["another"], place=place)
        return FakeCode(op, scale=self.scale)

    def machine(self, *, count: bool = False) -> None:
        return None

    def counters(self, machine: None) -> dict[str, int]:
        return {}

    def files(self, program: Program) -> dict[str, bytes]:
        return {}


def one_node_model(
    op_type: str,
    shape: Sequence[int],
    *,
    opset: int = 18,
    dtype: str = "float32",
    constants: dict[str, np.ndarray] | None = None,
    outputs: Sequence[str] = ("y",),
    out_rank: int | None = None,
    **attributes: Any,
) -> onnx.ModelProto:
    """A model of one node "n" with input "x" of a shape and constants as further inputs."""
    element = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    node = helper.make_node(op_type, ["x", *(constants or {})], list(outputs), name="n", **attributes)
    kinds = [element, onnx.TensorProto.INT64]
    graph = helper.make_graph(
        [node],
        "one",
        [helper.make_tensor_value_info("x", element, list(shape))],
        [
            helper.make_tensor_value_info(name, kind, [None] * (len(shape) if out_rank is None else out_rank))
            for name, kind in zip(outputs, kinds, strict=False)
        ],
        [numpy_helper.from_array(value, name) for name, value in (constants or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
