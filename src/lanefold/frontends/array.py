"""NumPy calls: each lowers one op, runs its instructions on the simulated machine, and gives the result back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lanefold.diagnostics import Place, Rule
from lanefold.numerics.dtypes import from_numpy
from lanefold.ops import ArgReduce, Expand, Op, Pool, Reduce, TopK, resolve_pads
from lanefold.targets import target as find_target

Array = np.ndarray[Any, np.dtype[Any]]
_EIGHT = 8

_BROADCAST = Rule(
    "ARRAY-EXPAND-SHAPE",
    "An array expands where each of its extents, counted from the last, is 1 or the one that is wanted.",
    "Array calls: expand",
    usage=True,
)
_RANK = Rule(
    "ARRAY-POOL-RANK",
    "A pooled array has the axes (N, C, H, W); two axes (H, W) and three (C, H, W) are taken as one map each.",
    "Array calls: pool2d",
    usage=True,
)


def _computed(op: Op, arrays: Sequence[Array], target: str, prefer: str, readings: dict[str, str], call: str) -> Array:
    return _all_computed(op, arrays, target, prefer, readings, call)[0]


def _all_computed(
    op: Op, arrays: Sequence[Array], target: str, prefer: str, readings: dict[str, str], call: str
) -> list[Array]:
    chosen = find_target(target, **readings)
    code = chosen.lower(op, Place(node=call), prefer)
    return code.run(chosen.machine(), arrays)


def reduce(
    x: Array,
    op: str = "add",
    axis: int | Sequence[int] | None = None,
    *,
    keepdims: bool = False,
    target: str = "trn1",
    prefer: str = "cost",
    **readings: str,
) -> Array:
    """Folds axes of an array by an ALU operator, computed by the instructions of a target.

    Args:
        x: array of any rank.
        op: operator by its ALU name: add, mult, max, min, average, bitwise_and, …
        axis: axes to fold; all of them if ``None``.
        keepdims: folded axes stay with extent 1.
        target: target name.
        prefer: ``cost``, ``free-axis`` or ``cross-lane``.
        readings: readings of the target, such as ``numerics="device"``.

    Raises:
        LanefoldError: if the target has no legal form for it.
    """
    value = np.asarray(x)
    axes = tuple(range(value.ndim)) if axis is None else (axis,) if isinstance(axis, int) else tuple(axis)
    made = Reduce(op, value.shape, axes, keepdims, dtype=from_numpy(value.dtype).name)
    return _computed(made, [value], target, prefer, readings, "reduce")


def pool2d(
    x: Array,
    kernel: Sequence[int],
    strides: Sequence[int] = (),
    pads: Sequence[int] = (),
    *,
    mode: str = "max",
    dilations: Sequence[int] = (),
    ceil_mode: bool = False,
    count_include_pad: bool = False,
    auto_pad: str = "NOTSET",
    target: str = "trn1",
    **readings: str,
) -> Array:
    """Pools the last two axes of an array, computed by the instructions of a target.

    Args:
        x: array (N, C, H, W), (C, H, W) or (H, W).
        kernel: window height and width.
        strides: steps between windows; ones if empty.
        pads: top, left, bottom, right; zeros if empty.
        mode: ``max``, ``average`` or ``add``.
        dilations: steps inside a window; ones if empty.
        ceil_mode: round the output extents up; windows that begin beyond the input are dropped.
        count_include_pad: the average's divisor counts padded cells.
        auto_pad: ``NOTSET``, ``SAME_UPPER``, ``SAME_LOWER`` or ``VALID``.
        target: target name.
        readings: readings of the target.

    Raises:
        LanefoldError: if a window is empty or too wide, or the target has no legal form.
    """
    value = np.asarray(x)
    if not 2 <= value.ndim <= 4:
        raise _RANK.error(
            f"an array of {value.ndim} axes cannot be pooled in two dims",
            got=list(value.shape),
            allowed="2, 3 or 4 axes",
            cures=["reshape it to (N, C, H, W)"],
        )
    full = value.reshape((1,) * (4 - value.ndim) + value.shape)
    steps, inner = tuple(strides) or (1, 1), tuple(dilations) or (1, 1)
    resolved = resolve_pads(auto_pad, pads, full.shape[2:], kernel, steps, inner, ceil_mode=ceil_mode)
    made = Pool(
        mode,
        full.shape,
        tuple(kernel),
        steps,
        inner,
        resolved.pads,
        resolved.ceil_mode,
        count_include_pad,
        dtype=from_numpy(value.dtype).name,
    )
    result = _computed(made, [full], target, "cost", readings, "pool2d")
    return result.reshape(result.shape[4 - value.ndim :])


def argmax(
    x: Array,
    axis: int | None = None,
    *,
    keepdims: bool = False,
    select_last_index: bool = False,
    target: str = "trn1",
    **readings: str,
) -> Array:
    """The index of the largest element along an axis as uint32, computed by the instructions of a target.

    Args:
        x: array of any rank.
        axis: axis to search; the flattened array if ``None``.
        keepdims: the searched axis stays with extent 1.
        select_last_index: of equal elements take the last index instead of the first.
        target: target name.
        readings: readings of the target; they differ in what a NaN does.

    Raises:
        LanefoldError: if the target has no legal form for it.
    """
    value = np.asarray(x)
    flat = value.reshape(-1) if axis is None else value
    made = ArgReduce(
        "max", flat.shape, -1 if axis is None else axis, keepdims, select_last_index, from_numpy(value.dtype).name
    )
    result = _computed(made, [flat], target, "cost", readings, "argmax")
    return result.reshape((1,) * value.ndim) if axis is None and keepdims else result


def topk(
    x: Array,
    k: int,
    axis: int = -1,
    *,
    largest: bool = True,
    target: str = "trn1",
    **readings: str,
) -> tuple[Array, Array]:
    """The k largest or smallest elements along an axis, in order, and their uint32 indices; equal ones by index.

    Args:
        x: array of at least one axis.
        k: elements wanted, 1 to the extent of the axis.
        axis: axis to search.
        largest: the largest in descending order, else the smallest in ascending order.
        target: target name.
        readings: readings of the target; they differ in what a NaN does.

    Raises:
        LanefoldError: if k does not fit the axis, or the target has no legal form for it.
    """
    value = np.asarray(x)
    made = TopK(value.shape, axis, k, largest, dtype=from_numpy(value.dtype).name)
    values, indices = _all_computed(made, [value], target, "cost", readings, "topk")
    return values, indices


def top8(x: Array, *, target: str = "trn1", **readings: str) -> Array:
    """The eight largest elements of each row of the last axis, descending, computed by the instructions of a target.

    Args:
        x: array whose last axis has at least eight elements.
        target: target name.
        readings: readings of the target; they differ in what a NaN does.

    Raises:
        LanefoldError: if a row is shorter, or the target has no legal form for it.
    """
    value = np.asarray(x)
    made = TopK(value.shape, -1, _EIGHT, dtype=from_numpy(value.dtype).name)
    return _computed(made, [value], target, "cost", readings, "top8")


def expand(x: Array, shape: Sequence[int], *, target: str = "trn1", **readings: str) -> Array:
    """Repeats an array along its axes of extent 1 to a wanted shape, computed by the instructions of a target.

    Args:
        x: array of any rank up to that of ``shape``.
        shape: extents of the result.
        target: target name.
        readings: readings of the target.

    Raises:
        LanefoldError: if an extent does not fit, or the target has no legal form for it.
    """
    value, wanted = np.asarray(x), tuple(int(extent) for extent in shape)
    full = (1,) * (len(wanted) - value.ndim) + value.shape
    fits = len(full) == len(wanted) and all(has in (1, want) for has, want in zip(full, wanted, strict=True))
    if not fits:
        raise _BROADCAST.error(
            f"an array of extents {list(value.shape)} does not expand to {list(wanted)}",
            got=list(wanted),
            allowed=f"{list(value.shape)} with any extent for each 1, and any axes before them",
            cures=[f"expand to {list(value.shape)}"],
        )
    # An axis of its own in front, so that there is always one to repeat along.
    axes = (0, *(axis + 1 for axis, extent in enumerate(full) if extent == 1))
    made = Expand("bypass", (1, *wanted), axes, from_numpy(value.dtype).name)
    return _computed(made, [value], target, "cost", readings, "expand").reshape(wanted)
