"""Writes the page of ONNX operators: what each comes to on the leg of every target, and in which element types.

Run from the root of the repository: ``python tools/make_operator_page.py``; ``--check`` writes nothing and fails where
the page is stale.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from lanefold.diagnostics import LanefoldError
from lanefold.frontends.onnx import Model, partition, read_model
from lanefold.frontends.onnx.decompose import HANDLERS
from lanefold.program import LedgerRow, Target
from lanefold.targets import target

PAGE = Path(__file__).resolve().parents[1] / "docs" / "operators.md"
TARGETS = ("trn1", "trn2", "trn3", "cpu", "a2a3", "a5")
SHOWN = ("trn1", "a2a3")
"""Targets whose steps stand for those of their instruction set."""
TYPES = {
    "float32": onnx.TensorProto.FLOAT,
    "float16": onnx.TensorProto.FLOAT16,
    "bfloat16": onnx.TensorProto.BFLOAT16,
    "int8": onnx.TensorProto.INT8,
    "uint8": onnx.TensorProto.UINT8,
    "int16": onnx.TensorProto.INT16,
    "uint16": onnx.TensorProto.UINT16,
    "int32": onnx.TensorProto.INT32,
    "uint32": onnx.TensorProto.UINT32,
    "int64": onnx.TensorProto.INT64,
    "float64": onnx.TensorProto.DOUBLE,
}
IMAGE, ROWS = (1, 4, 8, 8), (4, 6, 16)
SETS = (22, 18, 13)
"""Operator sets in the order in which they are tried."""


@dataclass(frozen=True)
class Sample:
    """One node of an operator: extents of its tensors, constants of 64-bit integers, attributes, outputs."""

    op_type: str
    shapes: Sequence[tuple[int, ...]] = (ROWS,)
    constants: Sequence[Any] = ()
    attributes: dict[str, Any] = field(default_factory=dict)
    outputs: int = 1
    note: str = ""

    @property
    def name(self) -> str:
        """The operator, and which form of it."""
        return f"{self.op_type} {self.note}".strip()


_WINDOW = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
_REDUCES = [name for name in HANDLERS if name.startswith("Reduce")]
SAMPLES = (
    Sample("MaxPool", (IMAGE,), attributes=_WINDOW),
    Sample("MaxPool", (IMAGE,), attributes=_WINDOW, outputs=2, note="with Indices"),
    Sample("AveragePool", (IMAGE,), attributes=_WINDOW),
    Sample("LpPool", (IMAGE,), attributes=_WINDOW),
    *(Sample(name, (IMAGE,)) for name in ("GlobalMaxPool", "GlobalAveragePool", "GlobalLpPool")),
    *(Sample(name, constants=([-1],)) for name in _REDUCES),
    Sample("ArgMax", attributes={"axis": -1}),
    Sample("ArgMin", attributes={"axis": -1}),
    Sample("TopK", constants=([10],), outputs=2),
    *(Sample(name) for name in ("Softmax", "LogSoftmax", "Hardmax")),
    Sample("LayerNormalization", (ROWS, (16,), (16,))),
    Sample("RMSNormalization", (ROWS, (16,))),
    Sample("GroupNormalization", (IMAGE, (4,), (4,)), attributes={"num_groups": 2}),
    Sample("InstanceNormalization", (IMAGE, (4,), (4,))),
    Sample("MeanVarianceNormalization", (IMAGE,)),
    Sample("LpNormalization"),
    Sample("Expand", ((1, 6, 1),), constants=([4, 6, 16],)),
    Sample("Gather", constants=([0, 2, 1],), attributes={"axis": 1}),
    *(Sample(name, (ROWS, (16,)), note="of a row vector") for name in ("Add", "Sub", "Mul", "Div", "Max", "Min")),
    Sample("Reciprocal"),
    Sample("Range", (), constants=(0, 100, 3)),
)


def model_of(sample: Sample, dtype: str, opset: int) -> Model | None:
    """A model of one node "n"; None where the operator set has no such form."""
    names = [f"in{at}" for at in range(len(sample.shapes))]
    outputs = [f"out{at}" for at in range(sample.outputs)]
    counts = sample.op_type == "Range"
    constants = [
        numpy_helper.from_array(np.asarray(value, dtype if counts else np.int64), f"constant{at}")
        for at, value in enumerate(sample.constants)
    ]
    node = helper.make_node(
        sample.op_type, [*names, *(each.name for each in constants)], outputs, name="n", **sample.attributes
    )
    kinds = [TYPES[dtype], onnx.TensorProto.INT64]
    if sample.op_type in ("ArgMax", "ArgMin"):
        kinds.reverse()
    whole = sample.shapes[0] if sample.op_type.endswith("Normalization") else None
    graph = helper.make_graph(
        [node],
        sample.op_type,
        [helper.make_tensor_value_info(name, TYPES[dtype], n) for name, n in zip(names, sample.shapes, strict=True)],
        [helper.make_tensor_value_info(name, kind, whole) for name, kind in zip(outputs, kinds, strict=False)],
        constants,
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    try:
        return read_model(onnx.shape_inference.infer_shapes(made, strict_mode=whole is None))
    except (LanefoldError, onnx.shape_inference.InferenceError, TypeError):
        return None


def newest(sample: Sample, dtype: str) -> Model | None:
    """The sample in the newest operator set that has it."""
    models = (model_of(sample, dtype, opset) for opset in (onnx.defs.onnx_opset_version(), *SETS))
    return next((model for model in models if model is not None), None)


def row_of(model: Model, chosen: Target) -> LedgerRow:
    """What becomes of the node."""
    return partition(model, chosen).program.ledger.row("n")


def told(row: LedgerRow) -> str:
    """The steps of a node in order: leg steps by their route, host steps by their operator."""
    if row.disposition == "host":
        return f"host: {row.reason}"
    if not row.steps:
        return f"`{row.route}`"
    steps = []
    for step in row.steps:
        words = step.partition(": ")[2]
        on_host = words.endswith(" on the host")
        steps.append(words.removesuffix(" on the host") if on_host else f"`{words.rpartition(' by ')[2]}`")
    return ", ".join(steps)


def page() -> str:
    """The steps of every operator, then the element types that the leg of each target takes."""
    chosen = {name: target(name) for name in TARGETS}
    steps: list[tuple[str, ...]] = []
    types: list[tuple[str, ...]] = []
    for sample in SAMPLES:
        models = {dtype: model for dtype in TYPES if (model := newest(sample, dtype)) is not None}
        shown = models["float32"]
        steps.append((sample.name, *(told(row_of(shown, chosen[name])) for name in SHOWN)))
        types.append((sample.name, *(_types(models, chosen[name]) for name in TARGETS)))
    lines = [
        "# ONNX operators on the leg",
        "",
        "Generated by `tools/make_operator_page.py` from compiled models of one node; do not edit by hand.",
        "",
        "## Steps",
        "",
        "Leg steps by the instructions they take, host steps by their ONNX operator; float32, small extents. Other",
        "generations and tile targets take the same steps unless a type or an extent stands in the way;",
        "`lanefold route` tells of one node of a model. Arithmetic is for the leg where one operand is a vector that",
        "is repeated over the other.",
        "",
        *table(("operator", *SHOWN), steps),
        "",
        "## Element types",
        "",
        "Types of the first input (of the result for Range) with which at least one step runs on the leg; *–*: none.",
        "",
        *table(*_together(types)),
        "",
    ]
    return "\n".join(lines)


def _together(rows: Sequence[tuple[str, ...]]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Heads and rows of the table, targets with the same types in one column."""
    columns: dict[tuple[str, ...], list[str]] = {}
    names, *cells = zip(*rows, strict=True)
    for name, column in zip(TARGETS, cells, strict=True):
        columns.setdefault(column, []).append(name)
    heads = ("operator", *(", ".join(group) for group in columns.values()))
    return heads, list(zip(names, *columns, strict=True))


def _types(models: dict[str, Model], chosen: Target) -> str:
    taken = [dtype for dtype, model in models.items() if row_of(model, chosen).disposition != "host"]
    return " ".join(taken) or "–"


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """A Markdown table."""
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |" for row in rows]
    return lines


def main() -> int:
    """Writes or checks the page; the exit status is 1 if it is stale."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing, fail where the page is stale")
    only_check = parser.parse_args().check
    text = page()
    if PAGE.exists() and PAGE.read_text(encoding="utf-8") == text:
        return 0
    if only_check:
        print(f"stale: {PAGE.name}; run python tools/make_operator_page.py", file=sys.stderr)
        return 1
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
