"""NumPy calls: each lowers one op, runs its instructions on the simulated machine, and gives the result back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lanefold import arguments
from lanefold.diagnostics import Place, Rule
from lanefold.numerics.dtypes import from_numpy
from lanefold.ops import (
    AUTO_PADS,
    POOL_OPERATORS,
    REDUCE_OPERATORS,
    ArgReduce,
    Expand,
    Op,
    Pool,
    Reduce,
    TopK,
    resolve_pads,
)
from lanefold.ops.checks import identity_text
from lanefold.program import Target
from lanefold.program.indices import warn
from lanefold.program.routes import PREFERENCES
from lanefold.targets import TARGETS
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
_SCALAR = Rule(
    "ARRAY-AXES", "An array that is reduced or searched has at least one axis.", "Array calls: axis", usage=True
)
_EMPTY = Rule("ARRAY-EMPTY", "An array has at least one element along each axis.", "Array calls: x", usage=True)
_DTYPE = Rule(
    "ARRAY-DTYPE",
    "The element type of an array is one that instructions of the leg or tiles compute with.",
    "Array calls: x; reference datapaths; PTO headers: element types",
    usage=True,
)
_TYPES = ("float32", "float16", "bfloat16", "int8", "uint8", "int16", "uint16", "int32", "uint32")
"""Element types that a target may take; for one operator it may take fewer, which its own rules say."""
_CONVERSIONS = {
    "b": "convert it with x.astype(numpy.uint8)",
    "i": "convert it with x.astype(numpy.int32) if its values fit",
    "u": "convert it with x.astype(numpy.uint32) if its values fit",
    "c": "give x.real or x.imag as numpy.float32",
}
"""What to do with an array of another type, by NumPy kind."""


def _value(call: str, x: object, target: Target, folded: str = "") -> Array:
    """The array to work on; ``folded`` is the operator of a reduction, whose identity is told where there is nothing.

    Raises:
        LanefoldError: it is no array of numbers, holds no element, or has a type that no target computes with.
    """
    value = arguments.array(call, "x", x)
    place = Place(instruction=call, field="x")
    if not value.size:
        known = folded and value.dtype.name in _TYPES
        instead = [f"fill in the result yourself: {identity_text(folded, value.dtype.name)}"] if known else []
        raise _EMPTY.error(
            f"an array of shape {list(value.shape)} holds no element",
            got=list(value.shape),
            allowed="at least 1 element along each axis",
            cures=[f"give an array of shape {[max(extent, 1) for extent in value.shape]}", *instead],
            place=place,
        )
    if value.dtype.name not in _TYPES:
        raise _DTYPE.error(
            f"{call} on {target.name} does not take an array of {value.dtype.name}",
            got=value.dtype.name,
            allowed=", ".join(_TYPES),
            cures=[_CONVERSIONS.get(value.dtype.kind, "convert it with x.astype(numpy.float32)")],
            place=place,
        )
    return value


def _with_axes(call: str, value: Array) -> Array:
    if value.ndim:
        return value
    raise _SCALAR.error(
        f"{call} cannot work on a scalar, which has no axis",
        got="an array of no axes",
        allowed="an array of at least 1 axis",
        cures=["give numpy.atleast_1d(x), whose one axis has 1 element"],
        place=Place(instruction=call, field="x"),
    )


def _chosen(call: str, target: str, readings: Mapping[str, str]) -> Target:
    return find_target(arguments.text(call, "target", target, list(TARGETS)), **readings)


def _run(op: Op, arrays: Sequence[Array], target: Target, call: str, prefer: str = "cost") -> list[Array]:
    return target.lower(op, Place(node=call), prefer).run(target.machine(), arrays)


def _axes(call: str, axis: object, rank: int) -> tuple[int, ...]:
    """Axes given as None for all, as one integer, or as several."""
    if axis is None:
        return tuple(range(rank))
    one = arguments.as_integer(axis)
    if one is not None and -rank <= one < rank:
        return (one,)
    if isinstance(axis, Sequence | np.ndarray) and not isinstance(axis, str | bytes):
        return arguments.integers(call, "axis", axis, low=-rank, high=rank - 1, hint=f"({rank - 1},)")
    allowed = f"an integer from {-rank} to {rank - 1}, several of them, or None for all axes"
    raise arguments.refused(call, "axis", axis, allowed, f"give axis={rank - 1}")


def _axis(call: str, axis: object, rank: int) -> int:
    return arguments.integer(call, "axis", axis, low=-rank, high=rank - 1, hint=str(rank - 1))


def _window(call: str, name: str, value: object, count: int, low: int) -> tuple[int, ...]:
    """Integers of a window; empty where the argument is left out, given as None or empty."""
    if value is None or (isinstance(value, list | tuple) and not value):
        return ()
    if isinstance(value, np.ndarray) and value.shape == (0,):
        return ()
    return arguments.integers(call, name, value, low=low, count=count)


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
        prefer: ``cost``; ``free-axis`` or ``cross-lane`` on trn targets, ``row`` or ``column`` on PTO targets.
        readings: readings of the target, such as ``numerics="device"``.

    Raises:
        LanefoldError: if the target has no legal form for it.
    """
    chosen = _chosen("reduce", target, readings)
    operator = arguments.text("reduce", "op", op, REDUCE_OPERATORS)
    value = _with_axes("reduce", _value("reduce", x, chosen, operator))
    made = Reduce(
        operator,
        value.shape,
        _axes("reduce", axis, value.ndim),
        arguments.flag("reduce", "keepdims", keepdims),
        dtype=from_numpy(value.dtype).name,
    )
    return _run(made, [value], chosen, "reduce", arguments.text("reduce", "prefer", prefer, PREFERENCES))[0]


def pool2d(
    x: Array,
    kernel: Sequence[int],
    strides: Sequence[int] | None = (),
    pads: Sequence[int] | None = (),
    *,
    mode: str = "max",
    dilations: Sequence[int] | None = (),
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
        strides: steps between windows; ones if empty or ``None``.
        pads: top, left, bottom, right; zeros if empty or ``None``.
        mode: ``max``, ``average`` or ``add``.
        dilations: steps inside a window; ones if empty or ``None``.
        ceil_mode: round the output extents up; windows that begin beyond the input are dropped.
        count_include_pad: the average's divisor counts padded cells.
        auto_pad: ``NOTSET``, ``SAME_UPPER``, ``SAME_LOWER`` or ``VALID``.
        target: target name.
        readings: readings of the target.

    Raises:
        LanefoldError: if a window is empty or too wide, or the target has no legal form.
    """
    chosen = _chosen("pool2d", target, readings)
    value = _value("pool2d", x, chosen)
    if not 2 <= value.ndim <= 4:
        raise _RANK.error(
            f"an array of {value.ndim} axes cannot be pooled in two dims",
            got=list(value.shape),
            allowed="2, 3 or 4 axes",
            cures=["reshape it to (N, C, H, W)"],
        )
    full = value.reshape((1,) * (4 - value.ndim) + value.shape)
    fitting = str(tuple(min(extent, 2) for extent in full.shape[2:]))
    window = arguments.integers("pool2d", "kernel", kernel, low=1, count=2, hint=fitting)
    steps = _window("pool2d", "strides", strides, 2, 1) or (1, 1)
    inner = _window("pool2d", "dilations", dilations, 2, 1) or (1, 1)
    resolved = resolve_pads(
        arguments.text("pool2d", "auto_pad", auto_pad, AUTO_PADS),
        _window("pool2d", "pads", pads, 4, 0),
        full.shape[2:],
        window,
        steps,
        inner,
        ceil_mode=arguments.flag("pool2d", "ceil_mode", ceil_mode),
    )
    made = Pool(
        arguments.text("pool2d", "mode", mode, POOL_OPERATORS),
        full.shape,
        window,
        steps,
        inner,
        resolved.pads,
        resolved.ceil_mode,
        arguments.flag("pool2d", "count_include_pad", count_include_pad),
        dtype=from_numpy(value.dtype).name,
    )
    result = _run(made, [full], chosen, "pool2d")[0]
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

    Warns:
        RuntimeWarning: NaN was found, whose index lies outside the axis.

    Raises:
        LanefoldError: if the target has no legal form for it.
    """
    chosen = _chosen("argmax", target, readings)
    value = _with_axes("argmax", _value("argmax", x, chosen))
    flat = value.reshape(-1) if axis is None else value
    made = ArgReduce(
        "max",
        flat.shape,
        -1 if axis is None else _axis("argmax", axis, value.ndim),
        arguments.flag("argmax", "keepdims", keepdims),
        arguments.flag("argmax", "select_last_index", select_last_index),
        from_numpy(value.dtype).name,
    )
    (result,) = _run(made, [flat], chosen, "argmax")
    warn("argmax", made, [result])
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

    Warns:
        RuntimeWarning: NaN was found, whose index lies outside the axis.

    Raises:
        LanefoldError: if k does not fit the axis, or the target has no legal form for it.
    """
    chosen = _chosen("topk", target, readings)
    value = _with_axes("topk", _value("topk", x, chosen))
    along = _axis("topk", axis, value.ndim)
    made = TopK(
        value.shape,
        along,
        arguments.integer("topk", "k", k, low=1, high=value.shape[along]),
        arguments.flag("topk", "largest", largest),
        dtype=from_numpy(value.dtype).name,
    )
    values, indices = _run(made, [value], chosen, "topk")
    warn("topk", made, [indices])
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
    chosen = _chosen("top8", target, readings)
    value = _with_axes("top8", _value("top8", x, chosen))
    made = TopK(value.shape, -1, _EIGHT, dtype=from_numpy(value.dtype).name)
    return _run(made, [value], chosen, "top8")[0]


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
    chosen = _chosen("expand", target, readings)
    value = _value("expand", x, chosen)
    wanted = arguments.integers("expand", "shape", shape, low=1, hint=str(tuple(value.shape)))
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
    return _run(made, [value], chosen, "expand")[0].reshape(wanted)
