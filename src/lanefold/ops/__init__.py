"""The target-neutral ops: what a reduction, pooling or expansion is, before any target is chosen."""

from __future__ import annotations

from lanefold.ops.checks import ELEMENTS, identity
from lanefold.ops.others import EXPAND_OPERATORS, Expand, Gather, Iota, Reciprocal
from lanefold.ops.pooling import POOL_OPERATORS, ArgPool, Pool
from lanefold.ops.reductions import REDUCE_OPERATORS, ArgReduce, Reduce, TopK
from lanefold.ops.softmax import Softmax
from lanefold.ops.windows import (
    AUTO_PADS,
    AxisWindows,
    PoolShape,
    ResolvedPads,
    Window,
    WindowClass,
    axis_windows,
    pool_shape,
    resolve_pads,
)

Op = Pool | ArgPool | Reduce | ArgReduce | TopK | Expand | Reciprocal | Iota | Gather | Softmax

__all__ = [
    "AUTO_PADS",
    "ELEMENTS",
    "EXPAND_OPERATORS",
    "POOL_OPERATORS",
    "REDUCE_OPERATORS",
    "ArgPool",
    "ArgReduce",
    "AxisWindows",
    "Expand",
    "Gather",
    "Iota",
    "Op",
    "Pool",
    "PoolShape",
    "Reciprocal",
    "Reduce",
    "ResolvedPads",
    "Softmax",
    "TopK",
    "Window",
    "WindowClass",
    "axis_windows",
    "identity",
    "pool_shape",
    "resolve_pads",
]
