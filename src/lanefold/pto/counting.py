"""What tile programs pass over silently, counted for a whole op: for people who want to know, at the price of time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from lanefold.ops import Op, Pool, Reduce
from lanefold.ops.groups import folded

COUNTERS: tuple[str, ...] = ("nan_dropped", "integer_overflows")
"""NaN that a maximum or minimum skipped; sums and products of integers that wrapped."""

Array = npt.NDArray[Any]


def passed_over(op: Op, inputs: Sequence[Array], result: Array) -> Mapping[str, int]:
    """The counters of one op from its inputs and its result."""
    if not isinstance(op, Pool | Reduce):
        return {}
    source = inputs[0].reshape(op.input_shape)
    if source.dtype.kind in "iu":
        return {"integer_overflows": _overflows(op, source)} if op.operator in ("add", "mult") else {}
    if op.operator not in ("max", "min"):
        return {}
    nan = folded(op, np.isnan(source).astype(np.int64), np.add)
    return {"nan_dropped": int(nan[~np.isnan(result)].sum())}


def _overflows(op: Pool | Reduce, source: Array) -> int:
    bounds = np.iinfo(source.dtype)
    whole = source.astype(object)
    exact = folded(op, whole, np.add if op.operator == "add" else np.multiply)
    return int(np.asarray((exact < int(bounds.min)) | (exact > int(bounds.max)), bool).sum())
