"""Random models on every target against onnxruntime: every difference has a cause that was counted, or is a finding.

LANEFOLD_RANDOM_SEED and LANEFOLD_RANDOM_MODELS change the seed and the number of models; a failure prints both numbers
that make its model again.
"""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from error_bounds import Bounds, exact
from random_models import OPERATORS, Sample, drawn, versions

from lanefold.diagnostics import LanefoldError
from lanefold.frontends.onnx import Plan, plan_model, verify
from lanefold.frontends.onnx.references import reference
from lanefold.program import LegStep
from lanefold.targets import target

SEED = int(os.environ.get("LANEFOLD_RANDOM_SEED", "20261201"))
MODELS = int(os.environ.get("LANEFOLD_RANDOM_MODELS", "2000"))
PARTS = 8
TPB, PTO = ("trn1", "trn2", "trn3"), ("cpu", "a2a3", "a5")
READINGS: dict[str, tuple[dict[str, str], ...]] = {
    **dict.fromkeys(TPB, ({}, {}, {"numerics": "device"}, {"opcodes": "headers"})),
    **dict.fromkeys(PTO, ({}, {}, {"numerics": "a2a3-order"}, {"numerics": "a5-order"})),
}
"""Readings of a target, the defaults as often as all others together."""
NO_WINDOW = ("OP-POOL-WINDOW-EMPTY", "OP-POOL-WINDOW-WIDE")
"""Windows without an element: refused with a cure where a runtime answers with an arbitrary number."""
WARNED = ("ONNX-AUTO-PAD", "OP-POOL-NO-EFFECT")
"""Warnings where onnxruntime is known to read an attribute in another way than the specification."""
HOST = "ONNX-HOST-RUN"
"""The node stays on the host, and onnxruntime refuses it: an old softmax over an axis beyond the last, for example."""


@dataclass
class Tally:
    """What became of the models."""

    became: Counter[str] = field(default_factory=Counter)
    causes: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)


def samples(seed: int, first: int, count: int) -> Iterator[tuple[int, Sample, list[np.ndarray], Any]]:
    """Numbered models that a runtime can run, with its outputs and the generator for what else is drawn."""
    for number in range(first, first + count):
        rng = np.random.default_rng([seed, number])
        while True:
            sample = drawn(rng)
            names = [value.name for value in sample.model.graph.output]
            try:
                wanted, _ = reference(sample.model, names, sample.feeds, "model")
            except LanefoldError:
                continue
            yield number, sample, wanted, rng
            break


def check(sample: Sample, wanted: list[np.ndarray], name: str, readings: dict[str, str], tally: Tally) -> str:
    """What is wrong with a model on a target; empty if nothing."""
    try:
        plan = plan_model(sample.model, target(name, **readings))
    except LanefoldError as error:
        codes = {found.code for found in error.diagnostics}
        tally.became["no window"] += 1
        return "" if codes <= set(NO_WINDOW) else f"refused: {error.diagnostics[0].message}"
    row = plan.program.ledger.rows[0]
    try:
        outcome = verify(plan.model, plan.program, sample.feeds)
    except LanefoldError as error:
        tally.became["refused on the host"] += 1
        return "" if {found.code for found in error.diagnostics} == {HOST} else f"refused: {error}"
    tally.became[row.disposition] += 1
    tally.causes.update(outcome.causes)
    for each in outcome.rows:
        # SAME pads of dilated windows, and VALID beside ceil_mode, are the specification's; the front door has said so.
        warned = each.kind == "output" and any(found.code in WARNED for found in plan.findings)
        if not (each.ok or warned or (each.kind == "output" and row.disposition == "rewritten")):
            return f"{each.kind} {each.node} at {each.cell}: {each.got} for {each.wanted}"
        if warned:
            return ""
    if row.disposition != "rewritten":
        return ""
    return ends(plan, sample, wanted, outcome.outputs, tally, bool(outcome.causes))


def ends(plan: Plan, sample: Sample, wanted: list[np.ndarray], outputs: Any, tally: Tally, explained: bool) -> str:
    """Outputs behind host steps: within the bound that the roundings on the way give around the exact result."""
    counted = dict(plan.program.ledger.rows[0].counted)
    direct = {name for step in plan.program.steps if isinstance(step, LegStep) for name in step.outputs}
    bounds, whole = None, None
    for index, (value, want) in enumerate(zip(plan.model.proto.graph.output, wanted, strict=True)):
        got = outputs[value.name]
        if got.dtype != want.dtype or got.shape != want.shape:
            return f"{value.name} is {got.dtype} {got.shape}, not {want.dtype} {want.shape}"
        differs = different(got, want)
        if not differs.any() or value.name in direct:
            continue
        if got.dtype.kind in "iub":
            # Indices follow the search, whose own differences have been explained.
            if not (counted or explained):
                return f"{value.name}: integers differ and nothing was counted"
            continue
        if bounds is None:
            kinds = dict.fromkeys(each for step in plan.program.leg_steps for each in step.code.accumulators)
            bounds = Bounds(plan.program, sample.feeds, tuple(kinds) or ("float32",))
            try:
                whole = exact(sample.model, sample.feeds)
            except Exception:
                whole = None
                tally.became["without float64 evaluation"] += 1
        decomposed, error = bounds.pairs[value.name]
        true = decomposed if whole is None else whole[index]
        wide = got.astype(np.float64)
        fits = ~differs | ~np.isfinite(error) | (wide == true) | (np.isnan(wide) & np.isnan(true))
        with np.errstate(all="ignore"):
            fits |= np.abs(wide - true) <= error
        if (counted.get("nan_dropped", 0) or counted.get("absent_keys", 0)) and np.isnan(sample.feeds["x"]).any():
            fits |= np.isnan(wide) | np.isnan(true) | np.isnan(decomposed) | (wide == decomposed)
        if not fits.all():
            at = tuple(int(each) for each in np.argwhere(~np.atleast_1d(fits))[0])
            cells = [np.atleast_1d(each)[at] for each in (got, want, true, error)]
            return f"{value.name} at {at}: {cells[0]!r} for {cells[1]!r}, exactly {cells[2]!r} ± {cells[3]!r}"
        tally.became["ends within the bound of their roundings"] += 1
    return ""


def different(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """Cells with other values; NaN equals NaN."""
    unequal = np.asarray(got != want)
    return unequal if got.dtype.kind in "iub" else unequal & ~(np.isnan(got) & np.isnan(want))


@pytest.mark.parametrize("part", range(PARTS))
def test_random_models(part: int, capsys: pytest.CaptureFixture[str]) -> None:
    tally = Tally()
    each = MODELS // PARTS
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        # onnx's evaluator warns of the overflows that the values are made to provoke.
        warnings.simplefilter("ignore")
        for number, sample, wanted, rng in samples(SEED, part * each, each):
            for name in (TPB[rng.integers(3)], PTO[rng.integers(3)]):
                readings = READINGS[name][rng.integers(4)]
                found = check(sample, wanted, name, readings, tally)
                if found:
                    where = " ".join((name, *(f"{key}={value}" for key, value in readings.items())))
                    tally.findings.append(f"seed {SEED} model {number} on {where}: {sample.told}\n    {found}")
    if os.environ.get("LANEFOLD_RANDOM_SEED"):
        with capsys.disabled():
            print(f"\n{each} models: {dict(tally.became)}; causes {dict(tally.causes)}")
    assert not tally.findings, "\n".join(tally.findings)
    assert tally.became["emitted"] + tally.became["rewritten"] > each // 2


def test_every_operator_is_drawn_in_every_form() -> None:
    for name in OPERATORS:
        assert versions(name), name
    rng = np.random.default_rng(0)
    seen = {drawn(rng, name).model.graph.node[0].op_type for name in OPERATORS}
    assert seen == set(OPERATORS)
