"""What windows and groups of an op tell better than its tile operations: NaN dropped, sums that left their type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from lanefold.ops import Op, Pool, Reduce
from lanefold.ops.groups import folded

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
    # Sums of up to 32 bits are exact in 64 bits; products and wider sums need whole numbers without an end.
    narrow = op.operator == "add" and source.dtype.itemsize <= np.dtype(np.int32).itemsize
    whole = source.astype(np.int64 if narrow else object)
    exact = folded(op, whole, np.add if op.operator == "add" else np.multiply)
    return int(np.asarray((exact < int(bounds.min)) | (exact > int(bounds.max)), bool).sum())
