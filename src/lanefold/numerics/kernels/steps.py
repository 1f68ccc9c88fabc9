"""Compiled: one step of a float32 fold, for every operator."""

from __future__ import annotations

from typing import Any

import numpy as np

from lanefold.numerics.alu import ALU_OPS, by_name
from lanefold.numerics.kernels.jit import inner

ADD = by_name("add").ordinal
SUBTRACT = by_name("subtract").ordinal
MULT = by_name("mult").ordinal
DIVIDE = by_name("divide").ordinal
MAX = by_name("max").ordinal
MIN = by_name("min").ordinal
LOGICAL_AND = by_name("logical_and").ordinal
LOGICAL_OR = by_name("logical_or").ordinal
LOGICAL_XOR = by_name("logical_xor").ordinal
IS_EQUAL = by_name("is_equal").ordinal
NOT_EQUAL = by_name("not_equal").ordinal
IS_GT = by_name("is_gt").ordinal
IS_GE = by_name("is_ge").ordinal
IS_LT = by_name("is_lt").ordinal
IS_LE = by_name("is_le").ordinal
AVERAGE = by_name("average").ordinal
POW = by_name("pow").ordinal
RSQRT = by_name("rsqrt").ordinal
ABS = by_name("abs").ordinal
ABS_MAX = by_name("abs_max").ordinal
ABS_MIN = by_name("abs_min").ordinal

ADD_IN_ORDER = len(ALU_OPS)
"""A sum in which a NaN stays as it is from where it comes in, which vector additions do not promise."""

_ONE = np.float32(1)
_ZERO = np.float32(0)


@inner
def larger(a: Any, x: Any) -> Any:
    """The larger of two; a NaN is skipped, ties keep ``a``."""
    return x if (x > a) | (a != a) else a


@inner
def smaller(a: Any, x: Any) -> Any:
    """The smaller of two; a NaN is skipped, ties keep ``a``."""
    return x if (x < a) | (a != a) else a


@inner
def above(a: Any, x: Any) -> Any:
    """The larger of two where ``a`` is no NaN; one in ``x`` is skipped, ties keep ``a``."""
    return x if x > a else a


@inner
def below(a: Any, x: Any) -> Any:
    """The smaller of two where ``a`` is no NaN; one in ``x`` is skipped, ties keep ``a``."""
    return x if x < a else a


@inner
def is_truth(op: Any) -> Any:
    """Whether an operator yields 1 or 0."""
    return LOGICAL_AND <= op <= LOGICAL_XOR or IS_EQUAL <= op <= IS_LE


@inner
def truth(op: Any, a: Any, x: Any) -> Any:
    """Logical and comparing operators, for floats and integers alike."""
    if op == LOGICAL_AND:
        return (a != 0) & (x != 0)
    if op == LOGICAL_OR:
        return (a != 0) | (x != 0)
    if op == LOGICAL_XOR:
        return (a != 0) != (x != 0)
    if op == IS_EQUAL:
        return a == x
    if op == NOT_EQUAL:
        return a != x
    if op == IS_GT:
        return a > x
    if op == IS_GE:
        return a >= x
    if op == IS_LT:
        return a < x
    return a <= x


@inner
def step(op: Any, a: Any, x: Any, scale: Any) -> Any:
    """One step of a fold: the running value ``a`` and the next element ``x``."""
    if is_truth(op):
        return _ONE if truth(op, a, x) else _ZERO
    if op == ADD:
        return a + x
    if op == SUBTRACT:
        return a - x
    if op == MULT:
        return a * x
    if op == MAX:
        return larger(a, x)
    if op == MIN:
        return smaller(a, x)
    if op == AVERAGE:
        return a + x * scale
    return _rare(op, a, x)


@inner
def _rare(op: Any, a: Any, x: Any) -> Any:
    if op == ADD_IN_ORDER:
        return a if a != a else (x if x != x else a + x)
    if op == DIVIDE:
        return a / x
    if op == POW:
        return np.float32(np.power(a, x))
    if op == RSQRT:
        return _ONE / np.sqrt(a)
    if op == ABS:
        return np.abs(a)
    if op == ABS_MAX:
        return larger(np.abs(a), np.abs(x))
    if op == ABS_MIN:
        return smaller(np.abs(a), np.abs(x))
    return a
