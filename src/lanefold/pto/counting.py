"""What windows and groups of an op tell better than its tile operations: NaN dropped, sums that left their type.

The tile operations of a pooling also fold what no output reads, such as windows that reach over the end of a row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from lanefold.ops import ArgPool, Op, Pool, Reduce
from lanefold.ops.groups import folded

Array = npt.NDArray[Any]


def passed_over(op: Op, inputs: Sequence[Array], result: Array, counted: Mapping[str, int]) -> dict[str, int]:
    """The counters of one op: what its tile operations ``counted``, corrected by its own inputs and its result."""
    found = dict(counted)
    if isinstance(op, ArgPool):
        source = inputs[0].reshape(op.input_shape)
        nan = folded(op.pool, np.isnan(source).astype(np.int64), np.add) if source.dtype.kind not in "iu" else None
        dropped = 0 if nan is None else int(nan[~np.isnan(result)].sum())
        return found | {"nan_dropped": dropped, "ties": _ties(op.pool, source)}
    if not isinstance(op, Pool | Reduce):
        return found
    source = inputs[0].reshape(op.input_shape)
    if source.dtype.kind in "iu":
        return found | ({"integer_overflows": _overflows(op, source)} if op.operator in ("add", "mult") else {})
    if op.operator in ("max", "min"):
        nan = folded(op, np.isnan(source).astype(np.int64), np.add)
        return found | {"nan_dropped": int(nan[~np.isnan(result)].sum())}
    return found | _sums(op, source, result, counted) if isinstance(op, Pool) else found


def _ties(op: Pool, source: Array) -> int:
    """Values of all windows, after the first, that equal the largest; none of a window that begins with NaN."""
    pairs = np.zeros(source.shape, [("value", np.float64), ("equal", np.int64)])
    pairs["value"] = source

    def combine(a: Array, b: Array) -> Array:
        made = a.copy()
        larger = b["value"] > a["value"]
        made["value"] = np.where(larger, b["value"], a["value"])
        made["equal"] = np.where(larger, 0, a["equal"] + (a["value"] == b["value"]))
        return made

    return int(folded(op, pairs, combine)["equal"].sum())


def _overflows(op: Pool | Reduce, source: Array) -> int:
    bounds = np.iinfo(source.dtype)
    # Sums of up to 32 bits are exact in 64 bits; products and wider sums need whole numbers without an end.
    narrow = op.operator == "add" and source.dtype.itemsize <= np.dtype(np.int32).itemsize
    whole = source.astype(np.int64 if narrow else object)
    exact = folded(op, whole, np.add if op.operator == "add" else np.multiply)
    return int(np.asarray((exact < int(bounds.min)) | (exact > int(bounds.max)), bool).sum())


def _sums(op: Pool, source: Array, result: Array, counted: Mapping[str, int]) -> dict[str, int]:
    """Windows of finite elements whose sum is not, and windows of numbers that are none."""
    names = ("overflow_in_accumulator", "overflow_in_final_cast", "nan_made")
    found = dict.fromkeys(names, 0)
    if not any(counted.get(name) for name in names):
        return found
    odd = ~np.isfinite(result)
    infinite = folded(op, (~np.isfinite(source)).astype(np.int64), np.add)
    nan = folded(op, np.isnan(source).astype(np.int64), np.add)
    late = not counted.get("overflow_in_accumulator")
    found["overflow_in_final_cast" if late else "overflow_in_accumulator"] = int((odd & (infinite == 0)).sum())
    found["nan_made"] = int((np.isnan(result) & (nan == 0)).sum())
    return found
