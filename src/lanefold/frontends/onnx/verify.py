"""Comparing what the leg computed with onnxruntime, node by node and at the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from lanefold.diagnostics import LanefoldError
from lanefold.frontends.onnx.decompose import decompose
from lanefold.frontends.onnx.elements import host_elements
from lanefold.frontends.onnx.pieces import LegPiece, Parts, leg_pieces, tensor_type
from lanefold.frontends.onnx.read import Model, read_model
from lanefold.host import open_session, run_session
from lanefold.program import LegStep, Program, Step

Array = np.ndarray[Any, np.dtype[Any]]

TOLERANCE = 1e-5
"""Largest difference allowed, relative to the largest magnitude of the reference."""
_REFERENCE_FORMAT = 8
_WHOLE = "iub"
"""NumPy kinds whose values are whole: only one result is right, and they are told without fractions."""
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


@dataclass(frozen=True, slots=True)
class VerifyRow:
    """One comparison: largest absolute difference, the same relative to the largest magnitude, and in ulp.

    ``cell`` is the first that breaks the bound or, where none does, the first that differs at all; ``got`` and
    ``wanted`` are its values. ``against`` names the reference.
    """

    node: str
    kind: str
    against: str
    largest: float
    relative: float
    ulp: int
    cell: tuple[int, ...] | None
    got: str
    wanted: str
    ok: bool


@dataclass(frozen=True, slots=True)
class Verification:
    """All comparisons of one run, and what the run answered."""

    rows: tuple[VerifyRow, ...]
    outputs: Mapping[str, Array]

    @property
    def ok(self) -> bool:
        """Whether every comparison holds."""
        return all(row.ok for row in self.rows)

    @property
    def line(self) -> str:
        """The outcome in one line."""
        legs = [row for row in self.rows if row.kind != "output"]
        ends = [row for row in self.rows if row.kind == "output"]
        worst = max((row.relative for row in self.rows), default=0.0)
        return (
            f"{sum(row.ok for row in legs)} of {len(legs)} leg results and {sum(row.ok for row in ends)} of "
            f"{len(ends)} outputs agree, largest relative difference {worst:.2g}"
        )


def _whole_difference(left: Array, right: Array) -> Array:
    """Magnitudes of the differences of integers or truth values, exact in all types."""
    wide = np.dtype(np.uint64 if left.dtype == np.uint64 else np.int64)
    both = [each.astype(wide) for each in (left, right)]
    difference: Array = np.maximum(*both) - np.minimum(*both)
    # A distance of two 64-bit integers may lie beyond them; as unsigned it is exact.
    return difference.view(np.uint64) if left.dtype.itemsize == wide.itemsize else difference


def ulp_distance(left: Array, right: Array) -> Array:
    """Steps between neighbouring numbers of the common type from one array to the other; 0 where both are NaN.

    One NaN against a number counts as the whole range of the type. Integers give their difference.
    """
    if left.dtype.kind in _WHOLE:
        return _whole_difference(left, right)
    bits = left.dtype.itemsize * 8
    both = [
        each.view(f"int{bits}").astype(np.int64) for each in (np.ascontiguousarray(left), np.ascontiguousarray(right))
    ]
    low = -(1 << (bits - 1))
    ordered = [np.where(each < 0, low - each, each) for each in both]
    distance: Array = np.abs(ordered[0] - ordered[1])
    nans = [np.isnan(left), np.isnan(right)]
    distance[nans[0] & nans[1]] = 0
    distance[nans[0] ^ nans[1]] = (1 << (bits - 1)) - 1
    return distance


def compare(node: str, kind: str, against: str, got: Array, wanted: Array, tolerance: float) -> VerifyRow:
    """One row for two arrays; a tolerance of 0 asks for equal values (NaN equals NaN, −0 equals 0).

    Integers and truth values must be equal whatever the tolerance.
    """
    if got.shape != wanted.shape or got.dtype != wanted.dtype:
        texts = [f"{each.dtype} {list(each.shape)}" for each in (got, wanted)]
        return VerifyRow(node, kind, against, np.inf, np.inf, -1, None, texts[0], texts[1], False)
    if got.dtype.kind in "OSU":
        return _compare_objects(node, kind, against, got, wanted)
    if got.dtype.kind in _WHOLE:
        return _compare_whole(node, kind, against, got, wanted)
    wide = [np.atleast_1d(each).astype(np.float64) for each in (got, wanted)]
    with np.errstate(invalid="ignore", over="ignore"):
        difference = np.abs(wide[0] - wide[1])
    equal = (wide[0] == wide[1]) | (np.isnan(wide[0]) & np.isnan(wide[1]))
    difference[equal] = 0
    difference[np.isnan(difference)] = np.inf
    finite = np.abs(wide[1][np.isfinite(wide[1])])
    scale = float(finite.max()) if finite.size else 0.0
    broken = difference > tolerance * scale
    ok = not broken.any()
    which = broken if not ok else difference > 0
    cell = tuple(int(each) for each in np.argwhere(which)[0]) if which.any() else None
    largest = float(difference.max()) if difference.size else 0.0
    relative = largest / scale if scale else (0.0 if largest == 0 else np.inf)
    steps = ulp_distance(np.atleast_1d(got), np.atleast_1d(wanted))
    steps[equal] = 0
    return VerifyRow(
        node=node,
        kind=kind,
        against=against,
        largest=largest,
        relative=relative,
        ulp=int(steps.max()) if steps.size else 0,
        cell=cell,
        got="" if cell is None else repr(wide[0][cell].item()),
        wanted="" if cell is None else repr(wide[1][cell].item()),
        ok=ok,
    )


def _compare_whole(node: str, kind: str, against: str, got: Array, wanted: Array) -> VerifyRow:
    left, right = (np.atleast_1d(each) for each in (got, wanted))
    difference = _whole_difference(left, right)
    largest = int(difference.max()) if difference.size else 0
    if not largest:
        return VerifyRow(node, kind, against, 0, 0.0, 0, None, "", "", True)
    scale = max(abs(int(right.min())), abs(int(right.max())))
    cell = tuple(int(each) for each in np.argwhere(difference)[0])
    texts = [str(each[cell].item()) for each in (left, right)]
    return VerifyRow(
        node, kind, against, largest, largest / scale if scale else np.inf, largest, cell, texts[0], texts[1], False
    )


def _compare_objects(node: str, kind: str, against: str, got: Array, wanted: Array) -> VerifyRow:
    places = np.argwhere(np.atleast_1d(got) != np.atleast_1d(wanted))
    if not len(places):
        return VerifyRow(node, kind, against, 0.0, 0.0, 0, None, "", "", True)
    cell = tuple(int(each) for each in places[0])
    texts = [repr(np.atleast_1d(each)[cell]) for each in (got, wanted)]
    return VerifyRow(node, kind, against, np.inf, np.inf, -1, cell, texts[0], texts[1], False)


def verify(
    model: Model | str | Path | onnx.ModelProto,
    program: Program,
    feeds: Mapping[str, Array],
    *,
    tolerance: float = TOLERANCE,
    count: bool = False,
) -> Verification:
    """Run a program and compare each step of the leg with its ONNX node on the same inputs, then the outputs.

    Args:
        model: the source of the program.
        program: compiled from it.
        feeds: input arrays by name.
        tolerance: relative to the largest magnitude of the reference; maxima, minima and integers must be equal.
        count: note in the program's ledger what each node passed over silently.

    Raises:
        LanefoldError: the feeds do not fit, a step fails, or no reference can run the model.
    """
    read = model if isinstance(model, Model) else read_model(model)
    pieces = {
        piece.name: piece
        for parts in decompose(read)
        if isinstance(parts, Parts)
        for form in (parts, host_elements(parts))
        if form is not None
        for piece in leg_pieces(form.pieces)
    }
    rows: list[VerifyRow] = []

    def observe(step: Step, inputs: Sequence[Array], made: Sequence[Array]) -> None:
        if isinstance(step, LegStep):
            rows.extend(_leg_rows(pieces[step.name], inputs, made, tolerance))

    outputs = program.run(feeds, observe, count=count)
    names = [value.name for value in read.outputs]
    wanted, against = _reference(read.proto, names, feeds, read.source)
    rows += [
        compare(name, "output", against, outputs[name], array, tolerance)
        for name, array in zip(names, wanted, strict=True)
    ]
    return Verification(tuple(rows), outputs)


def _leg_rows(piece: LegPiece, inputs: Sequence[Array], made: Sequence[Array], tolerance: float) -> list[VerifyRow]:
    # A leg op sees elements in order, whatever extents the graph gives them; its reference has the op's extents.
    feeds = {
        name: np.asarray(value).reshape(shape)
        for name, value, (_, shape) in zip(piece.inputs, inputs, piece.operands, strict=True)
    }
    wanted, against = _reference(reference_model(piece), piece.outputs, feeds, piece.name)
    names = [piece.name] if len(made) == 1 else [f"{piece.name}: {output}" for output in piece.outputs]
    rows = []
    for name, got, want in zip(names, made, wanted, strict=True):
        exact = piece.exact or got.dtype.kind in _WHOLE
        rows.append(compare(name, "exact" if exact else "close", against, got, want, 0.0 if exact else tolerance))
    return rows


def reference_model(piece: LegPiece) -> onnx.ModelProto:
    """The ONNX model of one leg piece alone."""
    reference, op = piece.reference, piece.op
    sources = [tensor_type(*operand) for operand in piece.operands]
    results = [tensor_type(dtype, op.output_shape) for dtype in piece.result_dtypes]
    graph = helper.make_graph(
        list(reference.nodes),
        "reference",
        [helper.make_value_info(name, source) for name, source in zip(piece.inputs, sources, strict=True)],
        [helper.make_value_info(name, result) for name, result in zip(piece.outputs, results, strict=True)],
        [numpy_helper.from_array(np.asarray(value, np.int64), name) for name, value in reference.constants],
    )
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", reference.opset)], ir_version=_REFERENCE_FORMAT
    )


def _reference(
    proto: onnx.ModelProto, outputs: Sequence[str], feeds: Mapping[str, Array], name: str
) -> tuple[list[Array], str]:
    """Outputs by onnxruntime or, for types it does not support, by the evaluator of the onnx package."""
    try:
        session = open_session(proto.SerializeToString(), name)
        return run_session(session, outputs, dict(feeds), name), "onnxruntime"
    except LanefoldError as refused:
        from onnx.reference import ReferenceEvaluator

        try:
            made = ReferenceEvaluator(proto).run(list(outputs), dict(feeds))
        except _EVALUATOR_REFUSALS:
            raise refused from None
        return [np.asarray(each) for each in made], "onnx reference evaluator"
