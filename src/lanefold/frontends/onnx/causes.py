"""Why a result of the leg differs from the reference: the known causes, each proved on the cell it explains.

A cause explains a cell only if the machine counted it or the lowering brings it along, and if the two values are what
the cause makes of the cell's own inputs. What no cause explains is a finding.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import ml_dtypes
import numpy as np

from lanefold.frontends.onnx.exact import UNIT, elements, rounded_to, spacing
from lanefold.frontends.onnx.pieces import LegPiece
from lanefold.ops import ArgPool, ArgReduce, Expand, Pool, Reduce, Softmax, TopK
from lanefold.ops.groups import divisors, folded

Array = np.ndarray[Any, np.dtype[Any]]

SCALE = "1/N fold"
NAN = "NaN dropped"
ORDER = "order of additions"
PRODUCTS = "order of multiplications"
WIDENED = "widening above 2^24"
SATURATED = "saturation"
TIES = "ties"
OVERFLOW = "overflow in the accumulator"
START = "start of the maximum"
EXPONENTIALS = "exponentials"
DEPARTS = "auto_pad of onnxruntime"

CAUSES: Mapping[str, str] = {
    SCALE: "an average multiplies its sum by the constant 1/N instead of dividing by N",
    NAN: "a maximum, minimum or search passes over NaN, which the other hands on",
    ORDER: "a sum is added in another order, or with another accumulator, and rounds at other places",
    PRODUCTS: "a product is multiplied in another order and rounds, or leaves the range, at other places",
    WIDENED: "integers of more than 24 bits pass through float32",
    SATURATED: "an integer beyond the range of its type is clamped by one and wrapped by the other",
    OVERFLOW: "a sum of finite numbers leaves the range of the type that it is added up in",
    TIES: "of equal values another one's index is given",
    START: "a maximum begins at the least finite value, so that −Inf or NaN alone gives that value",
    EXPONENTIALS: "exponentials and quotients of a softmax are rounded by another library",
    DEPARTS: "onnxruntime departs from the standard: it reads auto_pad otherwise, and agrees with pads written out",
}
"""The known causes and what each means."""


CARRIED = "carried on from the leg"
APART = "host parts run apart"
"""Causes of outputs: what differences of the leg become on their way, and sessions that are optimised one by one."""
ROUNDINGS = frozenset((SCALE, ORDER, PRODUCTS, EXPONENTIALS, CARRIED, APART))
"""Causes that only round at other places."""
NAN_COUNTERS = ("nan_dropped", "absent_keys")
"""Counters that tell of NaN passed over; a search for NaN finds no element that equals it."""


_OVERFLOWS = ("overflow_in_accumulator", "overflow_in_operation", "overflow_in_final_cast")


@dataclass(frozen=True)
class Explained:
    """The cells in which each cause occurred, and the first cell that none explains, if any."""

    causes: Mapping[str, int] = field(default_factory=dict)
    unexplained: tuple[int, ...] | None = None


@dataclass
class Case:
    """One result of a leg piece beside its reference.

    ``differs`` marks the cells that are not equal; ``counted`` is what the machine counted for the piece;
    ``accumulators`` are the float types in which the target may round on the way.
    """

    piece: LegPiece
    inputs: Sequence[Array]
    got: Array
    wanted: Array
    counted: Mapping[str, int]
    accumulators: tuple[str, ...] = ("float32",)

    @cached_property
    def differs(self) -> Array:
        """Cells with other values; NaN equals NaN and −0 equals 0."""
        both_nan = _nan(self.got) & _nan(self.wanted)
        return np.asarray((self.got != self.wanted) & ~both_nan)

    @cached_property
    def values(self) -> Array:
        """The elements that are folded, in float64."""
        return elements(self.piece.op, self.inputs[0])  # type: ignore[arg-type]

    def folded(self, value: Array, combine: Any) -> Array:
        """A ufunc over every group of the op."""
        return folded(self.piece.op, value, combine)  # type: ignore[arg-type]

    @cached_property
    def count(self) -> Array:
        """Elements in each group."""
        return self.folded(np.ones(self.values.shape), np.add)

    @cached_property
    def magnitude(self) -> Array:
        """Sum of magnitudes in each group."""
        return self.folded(np.abs(self.values), np.add)


def _nan(value: Array) -> Array:
    return np.zeros(value.shape, bool) if value.dtype.kind in "iub" else np.asarray(np.isnan(value))


Marks = dict[str, Array]


def explain(case: Case) -> Explained:
    """The causes of every cell that differs."""
    if not case.differs.any():
        return Explained()
    with np.errstate(all="ignore"):
        marks = _explainer(case)(case)
    rest = case.differs.copy()
    causes = {}
    for name, mark in marks.items():
        here = mark & case.differs
        rest &= ~here
        if here.any():
            causes[name] = int(here.sum())
    first = tuple(int(each) for each in np.argwhere(np.atleast_1d(rest))[0]) if rest.any() else None
    return Explained(causes, first)


def _explainer(case: Case) -> Callable[[Case], Marks]:
    op = case.piece.op
    if not isinstance(op, Pool | Reduce):
        return _EXPLAINERS.get(type(op), lambda case: {})
    if op.operator in ("max", "min"):
        return _extreme
    if case.inputs[0].dtype.kind in "iu":
        return _whole
    return _product if op.operator == "mult" else _sum


def _extreme(case: Case) -> Marks:
    """Maxima and minima: NaN passed over, the finite start, integers that float32 does not hold."""
    largest = case.piece.op.operator == "max"  # type: ignore[union-attr]
    combine, neutral = (np.fmax, -np.inf) if largest else (np.fmin, np.inf)
    if case.got.dtype.kind in "iu":
        near = case.wanted.astype(np.float32).astype(np.float64)
        return {WIDENED: _hit(case, "rounded_integers") & (case.got.astype(np.float64) == near)}
    values = case.values
    lowest = float(ml_dtypes.finfo(np.float32).max) * (-1 if largest else 1)  # type: ignore[no-untyped-call]
    start = rounded_to(np.asarray(lowest), case.got.dtype)
    some_nan = case.folded(np.isnan(values), np.logical_or)
    left = case.folded(np.where(np.isnan(values), neutral, values), combine)
    none_left = left == neutral
    got, wanted = case.got.astype(np.float64), case.wanted.astype(np.float64)
    first = float(start.astype(np.float64))
    # Ours is one of the values that the rule of the machine gives; a runtime may let the place of a NaN decide, and
    # tile operations do: what stands behind a NaN in first place is lost with it.
    proved = (got == left) | (np.isnan(got) & some_nan) | (none_left & (got == first)) | (some_nan & _held(case))
    return {
        NAN: (_hit(case, "nan_dropped") | np.isnan(got)) & some_nan & proved,
        START: none_left & ~some_nan & ((got == first) & _hit(case, "finite_starts") | (wanted == first)) & proved,
    }


def _held(case: Case) -> Array:
    """Cells whose result is an element of their own group."""
    held = np.zeros(case.got.shape, bool)
    for value in np.unique(case.got[case.differs].astype(np.float64)):
        held |= (case.got == value) & case.folded(case.values == value, np.logical_or)
    return held


def _hit(case: Case, *counters: str) -> bool:
    return any(case.counted.get(name, 0) for name in counters)


def _quantum(values: Array) -> Array:
    """The place value of the lowest bit of each number; infinity for 0."""
    mantissa, exponent = np.frexp(values)
    whole = np.abs(np.ldexp(mantissa, 53)).astype(np.int64)
    lowest = np.where(whole == 0, 1, whole & -whole).astype(np.float64)
    return np.where(values == 0, np.inf, np.ldexp(lowest, exponent - 53))


def _sum(case: Case) -> Marks:
    """Sums and averages of floats: any order of additions in any of the accumulators, and the fold of 1/N."""
    op = case.piece.op
    average = op.operator == "average"  # type: ignore[union-attr]
    divisor = divisors(op) if average else np.ones(case.got.shape)  # type: ignore[arg-type]
    total = case.folded(case.values, np.add)
    exact = total / divisor
    unit = max(UNIT[name] for name in case.accumulators)
    limit = min(float(ml_dtypes.finfo(name).max) for name in case.accumulators)  # type: ignore[no-untyped-call]
    # Squares of elements round once each, and an average rounds 1/N and the product.
    steps = case.count - 1 + (op.element == "square") + 2 * average  # type: ignore[union-attr]
    slack = steps * unit / np.maximum(1 - steps * unit, 1e-3) * case.magnitude / divisor
    # Below the normal numbers the two products of an average round to the least number apart.
    slack = slack + average * max(float(ml_dtypes.finfo(name).smallest_subnormal) for name in case.accumulators)  # type: ignore[no-untyped-call]
    near = _near(case, exact, slack)
    # The reference may add up in the type of its result, and round where float32 does not.
    coarse = max(unit, UNIT[case.got.dtype.name])
    mixed = case.magnitude / case.folded(_quantum(case.values), np.minimum) > 1 / coarse
    order = near & (case.count > 2) & (mixed | ~np.isfinite(exact))
    squares = near & (op.element == "square")  # type: ignore[union-attr]
    # Products with 1/N are exact where N is a power of two, except below the normal numbers.
    least = min(float(ml_dtypes.finfo(name).smallest_normal) for name in case.accumulators)  # type: ignore[no-untyped-call]
    folds = near & average & ((np.frexp(divisor)[0] != 0.5) | (np.abs(exact) < least))
    finite = case.folded(np.where(np.isfinite(case.values), np.abs(case.values), 0), np.add)
    endless = (finite > limit) & ~np.isfinite(case.got.astype(np.float64))
    overflow = endless & np.isfinite(exact) & _hit(case, *_OVERFLOWS)
    order |= endless & ~overflow & (case.count > 2)
    # Where the additions are exact the fold of 1/N alone remains, which may also turn one result into its neighbour.
    return {
        SCALE: folds & ~(order & _only_order(case, total, divisor)),
        ORDER: order | (squares & ~folds),
        OVERFLOW: overflow,
    }


def _only_order(case: Case, total: Array, divisor: Array) -> Array:
    """Cells whose result is not what 1/N alone would make of the nearest sum."""
    nearest = total.astype(np.float32)
    scaled = (nearest * (1 / divisor).astype(np.float32)).astype(case.got.dtype)
    return np.asarray((scaled != case.got) & (scaled == case.wanted))


def _near(case: Case, exact: Array, slack: Array) -> Array:
    """Cells whose result lies within the roundings of the exact one."""
    got = case.got.astype(np.float64)
    reach = slack + spacing(np.abs(exact) + slack, case.got.dtype)
    within = np.abs(got - exact) <= reach
    low, high = (rounded_to(edge, case.got.dtype).astype(np.float64) for edge in (exact - reach, exact + reach))
    infinite = np.isinf(got) & ((got == low) | (got == high))
    return np.asarray(within | infinite | (got == exact) | (np.isnan(got) & np.isnan(exact)))


def _product(case: Case) -> Marks:
    values = case.values
    exact = case.folded(values, np.multiply)
    unit = max(UNIT[name] for name in case.accumulators)
    info = ml_dtypes.finfo(case.accumulators[-1])  # type: ignore[no-untyped-call]
    sizes = np.abs(values)
    top = case.folded(np.where(np.isnan(values), 1, np.maximum(sizes, 1)), np.multiply)
    bottom = case.folded(np.where(np.isnan(values), 1, np.minimum(sizes, 1)), np.multiply)
    leaves = (top > float(info.max)) | (bottom < float(info.smallest_normal))
    steps = case.count - 1
    slack = steps * unit / np.maximum(1 - steps * unit, 1e-3) * np.abs(exact)
    return {PRODUCTS: (case.count > 2) & (_near(case, exact, slack) | leaves)}


_RAW: Mapping[str, Callable[[Array], Array]] = {"identity": lambda x: x, "abs": np.abs, "square": lambda x: x * x}


def _whole(case: Case) -> Marks:
    """Sums and products of integers: clamped beyond the range, rounded where they pass through float32."""
    op, dtype = case.piece.op, case.got.dtype
    raw = case.inputs[0].astype(object)
    raw = _RAW[op.element](raw)  # type: ignore[union-attr]
    product = op.operator == "mult"  # type: ignore[union-attr]
    combine = np.multiply if product else np.add
    total, reach = (case.folded(each, combine) for each in (raw, np.abs(raw)))
    low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    got = case.got.astype(object)
    outside = _truth((total < low) | (total > high))
    ends = _truth((got == np.clip(total, low, high)) | (got == (total - low) % (high - low + 1) + low))
    on_the_way = _hit(case, "saturated", "integer_overflows") & _truth(reach > high)
    # Whole numbers throughout: products of many integers have no float64.
    steps = case.count.astype(np.int64).astype(object) + 1
    rounded = np.abs(got - total) * _EXACT <= steps * reach + _EXACT
    wide = _truth(reach > _EXACT) & _truth(rounded)
    return {
        SATURATED: (outside & ends) | on_the_way,
        WIDENED: _hit(case, "rounded_integers", "widened_sums") & wide,
    }


_EXACT = 1 << 24
"""Up to here float32 holds every integer."""


def _truth(value: Any) -> Array:
    return np.asarray(value, bool)


def _softmax(case: Case) -> Marks:
    """Softmax: exponentials of two libraries, and any order of the sum."""
    op = case.piece.op
    wide = case.inputs[0].astype(np.float64)
    axes = op.axes  # type: ignore[union-attr]
    shifted = wide - wide.max(axis=axes, keepdims=True)
    powers = np.exp(shifted)
    exact = powers / powers.sum(axis=axes, keepdims=True)
    count = wide.size // max(exact.sum(axis=axes).size, 1)
    unit = max(UNIT[name] for name in case.accumulators)
    least = float(ml_dtypes.finfo(case.got.dtype).smallest_normal)  # type: ignore[no-untyped-call]
    deepest = np.where(powers > 0, np.abs(shifted), 0)
    relative = (deepest + deepest.max(axis=axes, keepdims=True) + count + 8) * unit
    return {EXPONENTIALS: _near(case, exact, relative * exact + least)}


def _spread(case: Case) -> Marks:
    """A tensor with a repeated vector: NaN passed over by a maximum or minimum, exponentials of another library."""
    op = case.piece.op
    full, vector = (np.broadcast_to(each, case.got.shape) for each in (case.inputs[0], case.inputs[-1]))
    if op.operator in ("max", "min"):  # type: ignore[union-attr]
        choose = np.fmax if op.operator == "max" else np.fmin  # type: ignore[union-attr]
        one = _nan(full) ^ _nan(vector)
        return {NAN: _hit(case, "nan_dropped") & one & ((case.got == choose(full, vector)) | _nan(case.got))}
    if op.operator != "exp_difference":  # type: ignore[union-attr]
        return {}
    exact = np.exp(full.astype(np.float64) - vector.astype(np.float64))
    unit = max(UNIT[name] for name in case.accumulators)
    least = float(ml_dtypes.finfo(case.got.dtype).smallest_normal)  # type: ignore[no-untyped-call]
    depth = np.where(exact > 0, np.abs(full.astype(np.float64) - vector.astype(np.float64)), 0)
    return {EXPONENTIALS: _near(case, exact, (depth + _LIBRARY) * unit * exact + least)}


_LIBRARY = 8
"""Units in the last place within which the exponentials of a library lie."""


def _placed(case: Case) -> Marks:
    """Maxima of windows and their places: NaN passed over, which leaves a window of NaN without a place."""
    pool = case.piece.op.pool  # type: ignore[union-attr]
    nan = folded(pool, _nan(case.inputs[0]), np.logical_or)
    return {NAN: _hit(case, *NAN_COUNTERS) & nan}


def _search(case: Case) -> Marks:
    """Indices and sorted values: another of equal values, or NaN passed over."""
    op, values = case.piece.op, case.inputs[0]
    axis = op.axis  # type: ignore[union-attr]
    nan: Array = np.asarray(_nan(values).any(axis=axis, keepdims=True))
    nan = np.broadcast_to(_like(nan, case.got, axis), case.got.shape)
    # Ours may also hand NaN on where the reference passes over it: as a value, or by the index of one.
    handed = _nan(case.got)
    marks: Marks = {}
    if case.got.dtype.kind in "iu":
        indices = [_like(each, values, axis).astype(np.int64) for each in (case.got, case.wanted)]
        if all(((each >= 0) & (each < values.shape[axis])).all() for each in indices):
            ours, theirs = (np.take_along_axis(values, each, axis) for each in indices)
            handed = _like(_nan(ours), case.got, axis)
            equal = _like(ours == theirs, case.got, axis)
            marks[TIES] = _hit(case, "ties") & equal
            rounded = _like(ours.astype(np.float32) == theirs.astype(np.float32), case.got, axis)
            marks[WIDENED] = _hit(case, "rounded_integers") & rounded & ~equal
    return {NAN: nan & (handed | _hit(case, *NAN_COUNTERS)), **marks}


def _like(value: Array, other: Array, axis: int) -> Array:
    """The folded axis put in or taken out, so that ranks agree."""
    if value.ndim == other.ndim:
        return value
    return np.squeeze(value, axis) if value.ndim > other.ndim else np.expand_dims(value, axis)


_EXPLAINERS: Mapping[type, Callable[[Case], Marks]] = {
    ArgReduce: _search,
    TopK: _search,
    ArgPool: _placed,
    Expand: _spread,
    Softmax: _softmax,
}
"""What explains the ops that are no plain folds."""
