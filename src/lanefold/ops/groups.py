"""The groups of elements that poolings and reductions fold, walked with NumPy: for counting and for comparisons."""

from __future__ import annotations

from functools import reduce
from itertools import product
from typing import Any

import numpy as np

from lanefold.ops.pooling import Pool
from lanefold.ops.reductions import Reduce

Array = np.ndarray[Any, np.dtype[Any]]


def folded(op: Pool | Reduce, value: Array, combine: Any) -> Array:
    """A ufunc over every window or group of an op; one strided pass per place of the window."""
    if isinstance(op, Reduce):
        return np.asarray(combine.reduce(value, axis=op.axes, keepdims=op.keepdims, dtype=value.dtype))
    out = np.zeros(op.output_shape, value.dtype)
    for window in op.shape.windows:
        parts = []
        for taps in product(*(range(axis.size) for axis in window.axes)):
            cut = [slice(None), slice(None)]
            for axis, tap, stride, dilation in zip(window.axes, taps, op.strides, op.dilations, strict=True):
                start = axis.begin + tap * dilation
                cut.append(slice(start, start + (axis.outputs - 1) * stride + 1, stride))
            parts.append(value[tuple(cut)])
        place = (slice(None), slice(None), *(slice(a.first, a.first + a.outputs) for a in window.axes))
        out[place] = reduce(combine, parts)
    return out


def divisors(op: Pool | Reduce) -> Array:
    """The N that each output cell of an average is divided by."""
    if isinstance(op, Reduce):
        return np.full(op.output_shape, float(op.count))
    out = np.ones(op.output_shape)
    for window in op.shape.windows:
        out[(slice(None), slice(None), *(slice(a.first, a.first + a.outputs) for a in window.axes))] = window.divisor
    return out
