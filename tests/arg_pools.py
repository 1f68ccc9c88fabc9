"""Maxima of windows with their places, walked window by window, and windows to try."""

from __future__ import annotations

from itertools import product

import numpy as np
from hypothesis import strategies as st

from lanefold.ops import ArgPool


def walked(op: ArgPool, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Every window by itself: its real elements in order, the first of the largest, and its number."""
    values, places = np.zeros(op.output_shape, x.dtype), np.zeros(op.output_shape, np.uint32)
    rank = x.ndim - 2
    for n, c, *at in product(*(range(extent) for extent in op.output_shape)):
        taps = []
        for axis in range(rank):
            start = at[axis] * op.strides[axis] - op.pads[axis]
            along = [start + j * op.dilations[axis] for j in range(op.kernel[axis])]
            taps.append([i for i in along if 0 <= i < x.shape[2 + axis]])
        window = [float(x[(n, c, *tap)]) for tap in product(*taps)]
        place = window.index(max(window))
        places[(n, c, *at)], values[(n, c, *at)] = place, window[place]
    return values, places


@st.composite
def windows(draw) -> ArgPool:
    rank = draw(st.integers(1, 3))
    kernel = draw(st.lists(st.integers(1, 4), min_size=rank, max_size=rank))
    dilations = draw(st.lists(st.integers(1, 2), min_size=rank, max_size=rank))
    spatial = [draw(st.integers(d * (k - 1) + 1, d * (k - 1) + 5)) for k, d in zip(kernel, dilations, strict=True)]
    strides = draw(st.lists(st.integers(1, 3), min_size=rank, max_size=rank))
    pads = [draw(st.integers(0, k - 1)) if d == 1 else 0 for k, d in zip(kernel, dilations, strict=True)]
    shape = (draw(st.integers(1, 2)), draw(st.sampled_from([1, 3, 70])), *spatial)
    dtype = draw(st.sampled_from(["float32", "float16", "bfloat16", "int8", "uint8", "int16", "uint16"]))
    return ArgPool(shape, kernel, strides, dilations, [*pads, *(0 for _ in pads)], draw(st.booleans()), dtype)
