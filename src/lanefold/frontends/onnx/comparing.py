"""Two arrays side by side: differences in absolute terms, relative ones, in units in the last place, and where."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

WHOLE = "iub"
"""NumPy kinds whose values are whole: only one result is right, and they are told without fractions."""


@dataclass(frozen=True, slots=True)
class VerifyRow:
    """One comparison: largest absolute difference, the same relative to the largest magnitude, and in ulp.

    Args:
        node: source node or leg piece of it, or output of the model.
        kind: ``exact`` where only one result is right, ``close`` where roundings differ, ``output``.
        against: names the reference.
        largest: largest absolute difference.
        relative: the same over the largest magnitude of the reference.
        ulp: largest distance from the reference in units in the last place.
        cell: the first that no cause explains or, where there is none, the first that differs at all.
        got: its value.
        wanted: the reference's.
        ok: whether all cells are equal or explained.
        exact_ulp: largest distance from a float64 evaluation rounded to the type; None where there is none.
        exact_reason: why there is no float64 evaluation.
        causes: known causes of the differences, each with the number of cells it occurred in.
        cells: how many differ from the reference at all.
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
    exact_ulp: int | None = None
    exact_reason: str = ""
    causes: tuple[tuple[str, int], ...] = ()
    cells: int = 0


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
    if left.dtype.kind in WHOLE:
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


def compare(
    node: str, kind: str, against: str, got: Array | list[Any], wanted: Array | list[Any], tolerance: float
) -> VerifyRow:
    """One row for two arrays or sequences; a tolerance of 0 asks for equal values (NaN equals NaN, −0 equals 0).

    Integers and truth values must be equal whatever the tolerance.
    """
    if isinstance(got, list) or isinstance(wanted, list):
        return _compare_sequences(node, kind, against, got, wanted, tolerance)
    if got.shape != wanted.shape or got.dtype != wanted.dtype:
        texts = [f"{each.dtype} {list(each.shape)}" for each in (got, wanted)]
        return VerifyRow(node, kind, against, np.inf, np.inf, -1, None, texts[0], texts[1], False)
    if got.dtype.kind in "OSU":
        return _compare_objects(node, kind, against, got, wanted)
    if got.dtype.kind in WHOLE:
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
        cells=int((~equal).sum()),
    )


def _compare_sequences(node: str, kind: str, against: str, got: Any, wanted: Any, tolerance: float) -> VerifyRow:
    """The row of the element that lies farthest apart; the first index of its cell is that of the element."""
    both = got, wanted
    texts = [f"a sequence of {len(each)}" if isinstance(each, list) else f"{each.dtype} array" for each in both]
    if texts[0] != texts[1]:
        return VerifyRow(node, kind, against, np.inf, np.inf, -1, None, texts[0], texts[1], False)
    rows = [compare(node, kind, against, left, right, tolerance) for left, right in zip(*both, strict=True)]
    if not rows:
        return VerifyRow(node, kind, against, 0.0, 0.0, 0, None, "", "", True)
    at = max(range(len(rows)), key=lambda index: (not rows[index].ok, rows[index].relative))
    cell = rows[at].cell
    return rows[at] if cell is None else replace(rows[at], cell=(at, *cell))


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
        node=node,
        kind=kind,
        against=against,
        largest=largest,
        relative=largest / scale if scale else np.inf,
        ulp=largest,
        cell=cell,
        got=texts[0],
        wanted=texts[1],
        ok=False,
        cells=int((difference != 0).sum()),
    )


def _compare_objects(node: str, kind: str, against: str, got: Array, wanted: Array) -> VerifyRow:
    places = np.argwhere(np.atleast_1d(got) != np.atleast_1d(wanted))
    if not len(places):
        return VerifyRow(node, kind, against, 0.0, 0.0, 0, None, "", "", True)
    cell = tuple(int(each) for each in places[0])
    texts = [repr(np.atleast_1d(each)[cell]) for each in (got, wanted)]
    return VerifyRow(node, kind, against, np.inf, np.inf, -1, cell, texts[0], texts[1], False, cells=len(places))


def text_at(value: Array, cell: tuple[int, ...]) -> str:
    """The value of a cell in full; a scalar has the cell (0,)."""
    found = np.atleast_1d(value)[cell]
    return str(found.item()) if value.dtype.kind in WHOLE else repr(float(found))
