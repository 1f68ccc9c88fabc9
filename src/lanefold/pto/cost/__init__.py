"""Cycles of PTO tile operations under five named models, each number with its model, validity and expected error.

The module is called like its function `cost`, whose arguments ``help(lanefold.pto.cost.cost)`` lists:
``lanefold.pto.cost("TROWSUM", "f32", 64, 64, model="stream")`` is the cost of one configuration, and
``lanefold.pto.cost.cost_columns`` prices many at once.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import signature
from types import MappingProxyType, ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from lanefold.pto.cost import calibrated, fit, kernels, page, reference, request, stream, stream_columns, validity
from lanefold.pto.cost.case import Case, Columns
from lanefold.pto.cost.request import MODELS
from lanefold.pto.cost.sequence import Instructions
from lanefold.pto.cost.tables import CLOCK_MHZ
from lanefold.pto.cost.validity import LEVELS, Validity

__all__ = ["LEVELS", "MODELS", "VERSIONS", "Cost", "CostColumns", "Validity", "cost", "cost_columns"]

VERSIONS: Mapping[str, str] = MappingProxyType(
    {
        "calibrated": "lanefold 1: kernel sequences fitted to the published lines and figures",
        "stream": "instruction stream model, July 2026",
        "reference": "parametric model as coded, April 2026",
        "page": "formula of the overview page, read literally",
        "fit": "fitted lines, August 2026",
    }
)
"""What each model is and of which date."""


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of one configuration.

    ``cycles`` and ``us`` are None where nothing is known. ``rule`` names the path the kernel takes, ``terms`` splits
    the cycles by kind (barriers apart from repeats). ``error`` is the expected relative error, None where unknown.
    """

    op: str
    dtype: str
    target: str
    model: str
    version: str
    cycles: float | None
    us: float | None
    frequency_mhz: float
    rule: str
    sequence: Instructions | None
    terms: Mapping[str, float]
    validity: str
    error: float | None
    note: str = ""

    @property
    def bounds(self) -> tuple[float, float]:
        """Cycles at least and at most, by the expected error; from 0 to infinity where it is unknown."""
        if self.cycles is None or self.error is None:
            return 0.0, math.inf
        return self.cycles * max(0.0, 1.0 - self.error), self.cycles * (1.0 + self.error)

    def to_dict(self) -> dict[str, object]:
        """The cost as plain data for JSON."""
        low, high = self.bounds
        return {
            **{name: getattr(self, name) for name in ("op", "dtype", "target", "model", "version", "cycles", "us")},
            **{name: getattr(self, name) for name in ("frequency_mhz", "rule", "validity", "error", "note")},
            "bounds": [low, None if math.isinf(high) else high],
            "terms": dict(self.terms),
            "sequence": self.sequence.to_list() if self.sequence else None,
        }

    def __str__(self) -> str:
        head = f"{self.op} {self.dtype} on {self.target}"
        if self.cycles is None:
            return f"{head}: unknown; model {self.model}: {self.note}"
        ordered = sorted(self.terms.items(), key=lambda item: -item[1])
        terms = ", ".join(f"{kind} {cycles:,.0f}" for kind, cycles in ordered if cycles)
        spread = "error unknown" if self.error is None else f"error up to {self.error:.0%}"
        number = f"{self.cycles:,.0f} cycles, {self.us:.3f} µs at {self.frequency_mhz:g} MHz"
        return f"{head}: {number} ({terms}); model {self.model}; validity {self.validity}, {spread}"

    def __repr__(self) -> str:
        return f"<Cost of {self}>"


@dataclass(frozen=True, slots=True)
class CostColumns:
    """Costs of many configurations of one operation: cycles, microseconds, validity codes and expected errors.

    Unknown cycles and errors are not a number; ``validity`` indexes `lanefold.pto.cost.validity.LEVELS`.
    """

    model: str
    version: str
    frequency_mhz: float
    cycles: npt.NDArray[np.float64]
    us: npt.NDArray[np.float64]
    validity: npt.NDArray[np.uint8]
    error: npt.NDArray[np.float64]


@dataclass(frozen=True)
class _Answer:
    cycles: float
    rule: str
    sequence: Instructions | None
    terms: Mapping[str, float]
    note: str = ""


def _stream(case: Case, _: Columns) -> _Answer:
    rule, sequence = kernels.build(case)
    total, priced, terms = stream.walk(sequence)
    return _Answer(total, rule, priced, terms)


def _reference(case: Case, c: Columns) -> _Answer:
    rule, sequence = reference.build(case)
    total, priced, terms = reference.walk(sequence, case.dtype)
    if not sequence.nodes:
        total = int(reference.cycles(c)[0])
        terms = {"copies": total}
    missing = reference.unpriced(sequence, case.dtype)
    note = f"no parameters for {', '.join(missing)}: the model answers 0" if missing else ""
    return _Answer(total, rule, priced, terms, note)


def _page(case: Case, _: Columns) -> _Answer:
    rule, sequence = page.build(case)
    terms = page.walk(sequence, case.dtype)
    return _Answer(sum(terms.values()), rule, sequence, terms)


def _fit(case: Case, _: Columns) -> _Answer:
    slope, intercept = request.check_line(case)
    total = fit.cycles(slope, intercept, case.valid_rows, case.valid_cols)
    return _Answer(
        total,
        f"{slope:g} x rows x cols + {intercept:g}",
        None,
        {"all rows and columns": total - intercept, "intercept": intercept},
    )


def _calibrated(case: Case, c: Columns) -> _Answer:
    rule, sequence = kernels.build(case)
    terms = calibrated.by_kind(c)
    note = "a measured figure that no rule explains" if "measured" in terms else ""
    return _Answer(float(calibrated.cycles(c)[0]), rule, sequence, terms, note)


_SINGLE: dict[str, Callable[[Case, Columns], _Answer]] = {
    "calibrated": _calibrated,
    "stream": _stream,
    "reference": _reference,
    "page": _page,
    "fit": _fit,
}


_MANY: dict[str, Callable[[Columns], npt.NDArray[np.float64] | npt.NDArray[np.int64]]] = {
    "calibrated": calibrated.cycles,
    "stream": stream_columns.cycles,
    "reference": reference.cycles,
    "page": page.cycles,
    "fit": fit.columns,
}
_CHUNK = 1 << 15
ON_A5 = "no reduction or expansion was measured or modelled on A5, and its kernels differ from those of A2/A3"
"""Why nothing is known there."""


def cost(
    op: str,
    dtype: str,
    rows: int,
    cols: int,
    valid_rows: int | None = None,
    valid_cols: int | None = None,
    *,
    layout: str = "ND",
    dst_layout: str = "ND",
    src_layout: str = "ND",
    src1_layout: str | None = None,
    static_shape: bool = True,
    form: str = "",
    idx_bytes: int = 4,
    tmp: bool = False,
    path: str = "",
    wired: bool | None = None,
    target: str = "a2a3",
    model: str = "calibrated",
    frequency_mhz: float = CLOCK_MHZ,
) -> Cost:
    """The cycles of one tile operation, with model, rule, instruction sequence, validity and expected error.

    Args:
        op: name of the operation (``TROWSUM``), in any case; short names of the overview page are read as well.
        dtype: element type.
        rows: static rows of the full-size operand (destination of an expand, source of a reduction).
        cols: static columns of it.
        valid_rows: valid rows, all where left out.
        valid_cols: valid columns, all where left out.
        layout: layout of the full-size operand, ``ND``.
        dst_layout: of a reduction's destination, ``ND`` or ``DN``.
        src_layout: of the source of TROWEXPAND, ``ND`` or ``DN``.
        src1_layout: of the second operand: ``DN`` (the default) or ``ND32B`` for row expansions, ``ND`` for columns.
        static_shape: whether the valid extents are known at compile time.
        form: call form: ``sequential``, ``binary``, ``no_tmp`` (TCOLSUM); ``index``, ``value_index`` (arg operations).
        idx_bytes: bytes per index of arg operations.
        tmp: whether a scratch tile is passed; no model charges for it.
        path: path of a transfer, ``GM->UB`` or ``UB->GM``.
        wired: whether the public cost-model build reaches the operation; changes no number.
        target: ``a2a3`` or ``a5``.
        model: ``calibrated``, ``stream``, ``reference``, ``page`` or ``fit``.
        frequency_mhz: clock that turns cycles into microseconds.

    Raises:
        LanefoldError: PTO-COST-… for anything that the model cannot price.

    Source: PTO headers: A2/A3 cost models; PTO overview: Reduce And Expand Instruction Set.
    """
    request.check_flags(tmp=tmp, wired=wired)
    name = request.model_name(model)
    recipe = request.recipe_of(op)
    where = request.target_of(target, name)
    kind = request.dtype_of(dtype, recipe, where)
    chosen = request.form_of(recipe, form, path)
    layouts = request.Layouts(recipe, layout, dst_layout, src_layout, src1_layout)
    mhz = request.clock(frequency_mhz)
    sizes = (rows, cols, valid_rows, valid_cols)
    c = request.columns(recipe, kind, layouts, chosen, request.index_bytes(idx_bytes), sizes, static_shape)
    request.check_single(sizes, c)
    request.check_model(name, recipe, kind, chosen)
    if where == "a5":
        return unknown(recipe.op, kind, where, name, mhz, ON_A5)
    answer = _SINGLE[name](request.single(c), c)
    codes, errors = _trust(name, c)
    level, error = validity.LEVELS[int(codes[0])], float(errors[0])
    if answer.note and name == "reference":
        level, error = Validity.UNKNOWN, math.nan
    return Cost(
        op=recipe.op,
        dtype=kind,
        target=where,
        model=name,
        version=VERSIONS[name],
        cycles=answer.cycles,
        us=answer.cycles / mhz,
        frequency_mhz=mhz,
        rule=answer.rule,
        sequence=answer.sequence,
        terms=dict(answer.terms),
        validity=str(level),
        error=None if math.isnan(error) else error,
        note=answer.note,
    )


def unknown(op: str, dtype: str, target: str, model: str, mhz: float, note: str) -> Cost:
    """The cost of what nobody knows, and why."""
    return Cost(
        op=op,
        dtype=dtype,
        target=target,
        model=model,
        version=VERSIONS[model],
        cycles=None,
        us=None,
        frequency_mhz=mhz,
        rule="none",
        sequence=None,
        terms={},
        validity=str(Validity.UNKNOWN),
        error=None,
        note=note,
    )


def _trust(model: str, c: Columns) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.float64]]:
    return validity.calibrated(c) if model == "calibrated" else validity.public(model, c)


def cost_columns(
    op: str,
    dtype: str,
    rows: npt.ArrayLike,
    cols: npt.ArrayLike,
    valid_rows: npt.ArrayLike | None = None,
    valid_cols: npt.ArrayLike | None = None,
    *,
    layout: str = "ND",
    dst_layout: str = "ND",
    src_layout: str = "ND",
    src1_layout: str | None = None,
    static_shape: npt.ArrayLike = True,
    form: str = "",
    idx_bytes: int = 4,
    path: str = "",
    target: str = "a2a3",
    model: str = "calibrated",
    frequency_mhz: float = CLOCK_MHZ,
) -> CostColumns:
    """The same as `cost` for many shapes at once: extents and ``static_shape`` may be arrays of one length.

    Raises:
        LanefoldError: as `cost`, but shapes outside the lines of the fit model are unknown instead of refused.
    """
    name = request.model_name(model)
    recipe = request.recipe_of(op)
    where = request.target_of(target, name)
    kind = request.dtype_of(dtype, recipe, where)
    chosen = request.form_of(recipe, form, path)
    layouts = request.Layouts(recipe, layout, dst_layout, src_layout, src1_layout)
    mhz = request.clock(frequency_mhz)
    sizes = (rows, cols, valid_rows, valid_cols)
    c = request.columns(recipe, kind, layouts, chosen, request.index_bytes(idx_bytes), sizes, static_shape)
    request.check_model(name, recipe, kind, chosen)
    count = len(c.rows)
    cycles, errors = np.full(count, np.nan), np.full(count, np.nan)
    codes = np.full(count, validity.UNKNOWN, np.uint8)
    for start in range(0, count if where == "a2a3" else 0, _CHUNK):
        part = c.part(slice(start, start + _CHUNK))
        span = slice(start, start + _CHUNK)
        cycles[span] = _MANY[name](part)
        codes[span], errors[span] = _trust(name, part)
    return CostColumns(name, VERSIONS[name], mhz, cycles, cycles / mhz, codes, errors)


class _CallableModule(ModuleType):
    """This module, which is called as `cost`: the public name ``lanefold.pto.cost`` is both."""

    def __call__(self, *arguments: Any, **keywords: Any) -> Cost:
        called = signature(cost)
        try:
            called.bind(*arguments, **keywords)
        except TypeError:
            raise request.bad_call(len(arguments), list(keywords), list(called.parameters)) from None
        return cost(*arguments, **keywords)


sys.modules[__name__].__class__ = _CallableModule
