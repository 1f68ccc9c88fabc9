"""Comparing what the leg computed with onnxruntime, node by node and at the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from lanefold import arguments
from lanefold.frontends.onnx.casts import other_forms
from lanefold.frontends.onnx.causes import APART, CARRIED, CAUSES, DEPARTS, NAN, NAN_COUNTERS, ROUNDINGS, Case, explain
from lanefold.frontends.onnx.comparing import WHOLE, VerifyRow, compare, text_at, ulp_distance
from lanefold.frontends.onnx.decompose import decompose
from lanefold.frontends.onnx.departures import standard_pads
from lanefold.frontends.onnx.exact import evaluate, rounded_to
from lanefold.frontends.onnx.pieces import LegPiece, Parts, leg_pieces
from lanefold.frontends.onnx.read import Model, read_model
from lanefold.frontends.onnx.references import reference, reference_model
from lanefold.program import LegStep, Program, Step

Array = np.ndarray[Any, np.dtype[Any]]

TOLERANCE = 1e-5
"""Largest difference allowed, relative to the largest magnitude of the reference."""


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
    def causes(self) -> dict[str, int]:
        """Cells of the leg's results in which each known cause occurred, over all nodes."""
        total: dict[str, int] = {}
        for row in self.rows:
            for name, count in row.causes:
                if row.kind == "output" and name != DEPARTS:
                    continue
                total[name] = total.get(name, 0) + count
        return total

    def to_dict(self) -> dict[str, object]:
        """The report as plain data: rows with their causes, and what each cause that occurred means."""
        return {
            "ok": self.ok,
            "line": self.line,
            "rows": [asdict(row) | {"causes": dict(row.causes)} for row in self.rows],
            "causes": {name: {"cells": cells, "meaning": CAUSES[name]} for name, cells in self.causes.items()},
        }

    def __str__(self) -> str:
        wrong = [f"{row.node} ({row.kind}): {row.got} for {row.wanted}" for row in self.rows if not row.ok]
        return "\n".join([f"verification {'passed' if self.ok else 'FAILED'}: {self.line}", *wrong])

    def __repr__(self) -> str:
        return f"<Verification {'passed' if self.ok else 'FAILED'}: {self.line}>"

    @property
    def line(self) -> str:
        """The outcome in one line."""
        legs = [row for row in self.rows if row.kind != "output"]
        ends = [row for row in self.rows if row.kind == "output"]
        # What NaN, ties and ranges make of a result is told as such; here are the roundings, and what is wrong.
        rounded = (row.relative for row in self.rows if not row.ok or {name for name, _ in row.causes} <= ROUNDINGS)
        worst = max((each for each in rounded if each < np.inf), default=0.0)
        return (
            f"{sum(row.ok for row in legs)} of {len(legs)} leg results and {sum(row.ok for row in ends)} of "
            f"{len(ends)} outputs agree, largest relative difference {worst:.2g}"
        )


def verify(
    model: Model | str | Path | onnx.ModelProto,
    program: Program,
    feeds: Mapping[str, Array],
    *,
    tolerance: float = TOLERANCE,
) -> Verification:
    """Run a program and compare each step of the leg with its ONNX node on the same inputs, then the outputs.

    A result of the leg may differ from the reference only by known causes that the machine counted or the lowering
    brings along, each proved on the cell that differs. An output may differ by ``tolerance``, or by what explained
    differences of the leg become on their way to it. What the program passed over silently is noted in its ledger.

    Args:
        model: the source of the program.
        program: compiled from it.
        feeds: input arrays by name.
        tolerance: of outputs, relative to the largest magnitude of the reference; integers must be equal.

    Raises:
        LanefoldError: the feeds do not fit, a step fails, or no reference can run the model.
    """
    if not isinstance(program, Program):
        raise arguments.refused("verify", "program", program, "a program", "give program=lanefold.compile(model)")
    tolerance = arguments.number("verify", "tolerance", tolerance, low=0.0)
    read = model if isinstance(model, Model) else read_model(model)
    pieces = _leg_pieces(read)
    made: list[_Made] = []

    def observe(step: Step, inputs: Sequence[Array], results: Sequence[Array]) -> None:
        if isinstance(step, LegStep):
            made.append(_referred(pieces[step.name], step, inputs, results))

    outputs = program.run(feeds, observe, count=True)
    rows = [row for each in made for row in _leg_rows(each, dict(program.ledger.row(each.piece.node.name).counted))]
    return Verification((*rows, *_output_rows(read, program, feeds, outputs, made, rows, tolerance)), outputs)


@dataclass(frozen=True, slots=True)
class _Made:
    """What a leg step computed and what its reference computes from the same inputs, in the extents of the op."""

    piece: LegPiece
    step: LegStep
    inputs: tuple[Array, ...]
    results: tuple[Array, ...]
    wanted: tuple[Array, ...]
    against: str


def _leg_pieces(model: Model) -> dict[str, LegPiece]:
    return {
        piece.name: piece
        for parts in decompose(model)
        if isinstance(parts, Parts)
        for form in (parts, *other_forms(parts, model.opset))
        for piece in leg_pieces(form.pieces)
    }


def _referred(piece: LegPiece, step: LegStep, inputs: Sequence[Array], results: Sequence[Array]) -> _Made:
    # A leg op sees elements in order, whatever extents the graph gives them; its reference has the op's extents.
    shaped = tuple(np.asarray(value).reshape(shape) for value, (_, shape) in zip(inputs, piece.operands, strict=True))
    feeds = dict(zip(piece.inputs, shaped, strict=True))
    wanted, against = reference(reference_model(piece), piece.outputs, feeds, piece.name)
    return _Made(piece, step, shaped, tuple(results), tuple(wanted), against)


def _leg_rows(made: _Made, counted: Mapping[str, int]) -> list[VerifyRow]:
    piece = made.piece
    exact = evaluate(piece, made.inputs)
    names = [piece.name] if len(made.results) == 1 else [f"{piece.name}: {output}" for output in piece.outputs]
    rows = []
    for index, (name, result, want) in enumerate(zip(names, made.results, made.wanted, strict=True)):
        got = np.asarray(result).reshape(want.shape) if result.size == want.size else result
        kind = "exact" if piece.exact or got.dtype.kind in WHOLE else "close"
        row = compare(name, kind, made.against, got, want, 0.0)
        if row.cell is not None:
            found = explain(Case(piece, made.inputs, got, want, counted, made.step.code.accumulators))
            row = replace(row, ok=found.unexplained is None, causes=tuple(found.causes.items()))
            if found.unexplained is not None:
                cell = found.unexplained
                row = replace(row, cell=cell, got=text_at(got, cell), wanted=text_at(want, cell))
        if exact.results:
            nearest = rounded_to(exact.results[index].reshape(got.shape), got.dtype)
            distance = ulp_distance(np.atleast_1d(got), np.atleast_1d(nearest))
            row = replace(row, exact_ulp=int(distance.max()) if distance.size else 0)
        rows.append(replace(row, exact_reason=exact.reason))
    return rows


def _output_rows(
    model: Model,
    program: Program,
    feeds: Mapping[str, Array],
    outputs: Mapping[str, Array],
    made: Sequence[_Made],
    rows: Sequence[VerifyRow],
    tolerance: float,
) -> list[VerifyRow]:
    """The outputs, and again with the references in place of the leg's results where one lies apart."""
    names = [value.name for value in model.outputs]
    wanted, against = reference(model.proto, names, feeds, model.source)
    found = [
        compare(name, "output", against, outputs[name], array, tolerance)
        for name, array in zip(names, wanted, strict=True)
    ]
    found = [_nan_met(row, program, feeds) for row in found]
    standard = None if all(row.ok for row in found) else standard_pads(model)
    if standard is not None:
        again, _ = reference(standard, names, feeds, model.source)
        found = [
            row
            if row.ok
            else _departing(row, compare(row.node, "output", against, outputs[row.node], array, tolerance))
            for row, array in zip(found, again, strict=True)
        ]
    differing = any(row.causes for row in rows)
    if differing and all(row.ok for row in rows) and not all(row.ok for row in found):
        without = _replayed(program, feeds, {each.step.name: each for each in made})
        found = [
            row
            if row.ok
            else replace(row, ok=compare(row.node, "output", against, without[row.node], array, tolerance).ok)
            for row, array in zip(found, wanted, strict=True)
        ]
    return [replace(row, causes=row.causes or _carried(row, differing), exact_reason=_NO_EXACT_OUTPUT) for row in found]


def _departing(row: VerifyRow, standard: VerifyRow) -> VerifyRow:
    """An output that differs, unless it is that of the model whose pads are written out as the standard has them."""
    cells = row.cells or 1
    return replace(row, ok=True, causes=((DEPARTS, cells),)) if standard.ok else row


def _carried(row: VerifyRow, differing: bool) -> tuple[tuple[str, int], ...]:
    """What an output's differences come from where it has none of its own."""
    return ((CARRIED if differing else APART, row.cells),) if row.ok and row.cells else ()


def _nan_met(row: VerifyRow, program: Program, feeds: Mapping[str, Array]) -> VerifyRow:
    """An output that differs where NaN was fed and the machine counted that it passed over some.

    Steps of a node can agree with their references, which pass over NaN alike, while the node as a whole does not.
    """
    counted = program.ledger.counted
    met = any(value.dtype.kind not in _TEXTS and np.isnan(value).any() for value in map(np.asarray, feeds.values()))
    if row.ok or row.cell is None or not met or not any(counted.get(name, 0) for name in NAN_COUNTERS):
        return row
    return replace(row, ok=True, causes=((NAN, row.cells),))


_TEXTS = "iubOSU"
_NO_EXACT_OUTPUT = "parts of the model on the host have no float64 evaluation"


def _replayed(program: Program, feeds: Mapping[str, Array], made: Mapping[str, _Made]) -> dict[str, Array]:
    """The outputs of a run in which every leg step answers with its reference."""
    values: dict[str, Array] = dict(feeds)
    for step in program.steps:
        inputs = [values[name] for name in step.inputs]
        if isinstance(step, LegStep):
            known = made[step.name]
            now = _referred(known.piece, step, inputs, known.results)
            results = [want.reshape(old.shape) for want, old in zip(now.wanted, known.results, strict=True)]
        else:
            results = step.run(inputs)
        values.update(zip(step.outputs, results, strict=True))
    return {info.name: values[info.name] for info in program.outputs}
