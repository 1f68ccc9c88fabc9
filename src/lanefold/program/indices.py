"""Indices that searches answer where they found nothing: outside the axis, and never passed on without a word."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from lanefold.ops import ArgPool, ArgReduce, Op, TopK

Array = np.ndarray[Any, np.dtype[Any]]

COUNTER = "indices_outside_axis"
"""Name of the counter of indices that point at no element."""


def outside(op: Op, results: Sequence[Array]) -> int:
    """How many indices of a search lie outside what it searched; 0 for all other ops.

    A NaN that takes a place among the values found has no index in the hardware's search: the instruction answers
    with all ones, or with one past the last index where the row is searched backwards.
    """
    extent = _searched(op)
    return int(np.count_nonzero(results[-1].astype(np.int64) >= extent)) if extent else 0


def _searched(op: Op) -> int:
    if isinstance(op, ArgReduce | TopK):
        return op.input_shape[op.axis]
    return prod(op.kernel) if isinstance(op, ArgPool) else 0


def warn(name: str, op: Op, results: Sequence[Array]) -> None:
    """Warns of indices outside the axis, if there are any; ``name`` is the node or the call."""
    number = outside(op, results)
    if number:
        total = results[-1].size
        warnings.warn(
            f"{name}: {number:,} of {total:,} indices {'lies' if number == 1 else 'lie'} outside the "
            f"{_searched(op):,} elements searched, because NaN was found there, which has no index; "
            "take NaN out of the input first",
            RuntimeWarning,
            stacklevel=3,
        )
