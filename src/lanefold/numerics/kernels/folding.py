"""Folds of operands: which loop takes them, and how work is shared out."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from lanefold.numerics.alu import AluOp
from lanefold.numerics.kernels import bits, serial, steps, stores, vector, walk, windows
from lanefold.numerics.kernels.access import Access, Pairs, checked
from lanefold.numerics.kernels.common import PARALLEL_FROM, Floats, reading, share, writing

_PARALLEL_WINDOWS_FROM = 1 << 23
"""The same for windows, which take less time per step."""
_SMALL = 4096
_LONG_RUN = 32
_LARGEST_WINDOW = 4096
"""Reach of a window in elements, up to which its rows stay in the nearest cache."""


@lru_cache(maxsize=256)
def _numbers(start: float, sign: float, scale: float, divisor: int, factor: float) -> NDArray[np.float64]:
    # Zeros of both signs are equal as keys, hence the sign apart.
    return np.array([math.copysign(start, sign), scale, divisor, factor], np.float64)


def _part(pairs: Pairs, low: int, high: int) -> Pairs:
    """The dims with a part of the last one; the caller moves the start."""
    if low == 0 and high == pairs[-1, 0]:
        return pairs
    part = pairs.copy()
    part[-1, 0] = high - low
    return part


def fold(
    source: Access,
    inner: int,
    op: AluOp,
    *,
    start: float | None = None,
    scale: float = 1.0,
    divisor: int = 0,
    factor: float | None = None,
    double_factor: bool = True,
    negate: bool = False,
    parallel: bool = True,
    keep_first_nan: bool = False,
) -> Floats:
    """Fold the ``inner`` innermost dims of a pattern in float32, strictly in order; returns [channels, outputs].

    Args:
        source: what is read; elements are widened on the way.
        inner: how many dims are folded.
        op: the operator; ``average`` adds each element times ``scale``.
        start: value the fold starts from; None starts from the first element.
        scale: factor of each element, of ``average`` only.
        divisor: what ``average`` divides the first element by instead, 0 to multiply it too.
        factor: what each result is multiplied by, before ``negate``.
        double_factor: whether that product is formed in double.
        negate: whether the sign of each result is flipped.
        parallel: whether large work may use several threads.
        keep_first_nan: whether a sum that is NaN has the sign of the NaN that came first, as integers need.

    Raises:
        LanefoldError: TPB-CAST-TYPE for packed and scale types.
    """
    task, numbers = _task(op, start, scale, divisor, factor, double_factor, negate)
    out = np.empty((source.channels, math.prod(source.nums[inner:])), np.float32)
    _fold(source, source.pairs, inner, task, numbers, out.reshape(-1), parallel)
    if keep_first_nan:
        _keep_first_nan(source, source.pairs, inner, task, numbers, out.reshape(-1))
    return out


def fold_into(
    target: Access,
    source: Access,
    inner: int,
    op: AluOp,
    *,
    start: float | None = None,
    factor: float | None = None,
    double_factor: bool = True,
    negate: bool = False,
    saturate: bool = True,
) -> None:
    """As `fold`, with the results cast and written along ``target``; threads share both parts of large work.

    Raises:
        LanefoldError: TPB-CAST-TYPE for packed and scale types.
    """
    task, numbers = _task(op, start, 1.0, 0, factor, double_factor, negate)
    codec, form = writing(target.dtype.name)
    outputs = math.prod(source.nums[inner:])
    first, pitch = checked(target, source.channels * outputs), target.pitch
    flat = target.memory.reshape(-1)

    direct = source.channels * source.elements >= _SMALL and _is_direct(target, source, inner, outputs, task)
    begun = source.memory.reshape(-1), source.first

    def run(low: int, high: int) -> None:
        part = source.part(low, high)
        if direct:
            op_code, _, finish, sign = task
            place = first + low * pitch
            start_at = begun[1] + low * source.pitch
            windows.fold_windows(
                begun[0], op_code, start_at, finish, sign, inner, part.pairs, numbers, flat, outputs, place, pitch
            )
            return
        out = np.empty((high - low) * outputs, np.float32)
        _fold(part, part.pairs, inner, task, numbers, out, False)
        if target.dtype.is_integer:
            _keep_first_nan(part, part.pairs, inner, task, numbers, out)
        stores.store_flat(flat, codec, form, saturate, first + low * pitch, _part(target.pairs, low, high), out)

    work = source.channels * source.elements
    share(source.channels, work, run, not direct or work >= _PARALLEL_WINDOWS_FROM)


def _is_direct(target: Access, source: Access, inner: int, outputs: int, task: tuple[int, int, int, int]) -> bool:
    """Whether windows can be written where they belong: float32, side by side, and away from what is read."""
    codec, _ = reading(source.dtype.name)
    op, begin, _, _ = task
    if target.dtype.name != "float32" or codec != walk.F32:
        return False
    pairs = source.pairs.tolist()
    num, step = _innermost(target.pairs[:-1].tolist())
    lane, _ = _innermost(pairs[inner:])
    if (num, step) != (outputs, 1) or outputs % lane or _loop(pairs, inner, codec, op, begin) != windows.fold_windows:
        return False
    low, high = source.span
    start, end = target.span
    return source.memory is not target.memory or end <= low or high <= start


def _task(
    op: AluOp,
    start: float | None,
    scale: float,
    divisor: int,
    factor: float | None,
    double_factor: bool,
    negate: bool,
) -> tuple[tuple[int, int, int, int], NDArray[np.float64]]:
    finish = serial.PLAIN
    if factor is not None:
        finish = serial.TIMES_DOUBLE if double_factor else serial.TIMES_FLOAT
    begin = serial.FROM_FIRST if start is None else serial.FROM_VALUE
    if start is None and op.ordinal == steps.ADD:
        # Adding to -0.0 gives the first element itself, whatever it is.
        begin, start = serial.FROM_VALUE, -0.0
    value = 0.0 if start is None else start
    numbers = _numbers(value, math.copysign(1.0, value), scale, divisor, 1.0 if factor is None else factor)
    return (op.ordinal, begin, finish, int(negate)), numbers


def cross_lane(
    source: Access,
    op: AluOp,
    *,
    everything: bool,
    scale: float = 1.0,
    parallel: bool = True,
    keep_first_nan: bool = False,
) -> Floats:
    """Fold partitions in ascending order, position by position, or all elements to one; float32 [outputs].

    With ``everything`` the partition is the outer and the pattern the inner order. ``average`` multiplies each element
    by ``scale``, then adds. With ``keep_first_nan`` a sum that is NaN has the sign of the NaN that came first, as
    integers need that are made of it.

    Raises:
        LanefoldError: TPB-CAST-TYPE for packed and scale types.
    """
    task, numbers = _task(op, None, scale, 0, None, True, False)
    pairs, inner = _across(source, everything)
    out = np.empty(1 if everything else source.elements, np.float32)
    _fold(source, pairs, inner, task, numbers, out, parallel and not everything)
    if keep_first_nan:
        _keep_first_nan(source, pairs, inner, task, numbers, out)
    return out


def _across(source: Access, everything: bool) -> tuple[Pairs, int]:
    if everything:
        return source.pairs, len(source.pairs)
    pairs = np.roll(source.pairs, 1, axis=0)
    # Leading dims of one element must not hide the dim that work is shared out along.
    last = max((k for k in range(1, len(pairs)) if pairs[k, 0] > 1), default=1)
    return np.ascontiguousarray(pairs[: last + 1]), 1


def _fold(
    source: Access,
    pairs: Pairs,
    inner: int,
    task: tuple[int, int, int, int],
    numbers: NDArray[np.float64],
    out: Floats,
    parallel: bool,
) -> None:
    codec, table = reading(source.dtype.name)
    op, begin, finish, negate = task
    flat, first = source.memory.reshape(-1), source.first
    work = source.channels * source.elements
    loop: Callable[..., None] = serial.fold_runs if work < _SMALL else _loop(pairs.tolist(), inner, codec, op, begin)

    windowed = loop == windows.fold_windows

    def part_of(start: int, part: Pairs, target: Floats) -> None:
        if windowed:
            raw = target.view(np.uint8)
            windows.fold_windows(flat, op, start, finish, negate, inner, part, numbers, raw, target.size, 0, 0)
        else:
            loop(flat, table, codec, op, begin, start, finish, negate, inner, part, numbers, target)

    if not parallel or work < PARALLEL_FROM:
        part_of(first, pairs, out)
        return
    count, step = (int(number) for number in pairs[-1])
    each = out.size // count

    def run(low: int, high: int) -> None:
        part_of(first + low * step, _part(pairs, low, high), out[low * each : high * each])

    share(count, work, run, parallel)


def _keep_first_nan(
    source: Access,
    pairs: Pairs,
    inner: int,
    task: tuple[int, int, int, int],
    numbers: NDArray[np.float64],
    out: Floats,
) -> None:
    # Of two NaN an addition keeps the running one; where a vector addition swaps its sides, it keeps the other.
    op, begin, finish, negate = task
    nan = np.isnan(out)
    if op != steps.ADD or not nan.any():
        return
    codec, table = reading(source.dtype.name)
    again = np.empty_like(out)
    flat, first = source.memory.reshape(-1), source.first
    serial.fold_runs(flat, table, codec, steps.ADD_IN_ORDER, begin, first, finish, negate, inner, pairs, numbers, again)
    np.copyto(out, again, where=nan)


def _loop(pairs: list[list[int]], inner: int, codec: int, op: int, begin: int) -> Callable[..., None]:
    lane, apart = _innermost(pairs[inner:])
    if (
        lane >= vector.LANES
        and apart in (1, 2)
        and codec == walk.F32
        and begin == serial.FROM_VALUE
        and op in (steps.ADD, steps.MAX)
        and inner <= 2
        and sum(abs(num * step) for num, step in pairs[:inner]) <= _LARGEST_WINDOW
    ):
        return windows.fold_windows
    run, step = _innermost(pairs[:inner])
    if lane < vector.LANES // 2 or (run >= _LONG_RUN and abs(step) <= abs(apart)):
        return serial.fold_runs
    return serial.fold_rows


def _innermost(dims: list[list[int]]) -> tuple[int, int]:
    """The innermost dim after dims that continue each other are joined."""
    num, step = 1, 0
    for more, onward in dims:
        if more == 1:
            continue
        if num == 1:
            num, step = more, onward
        elif onward == step * num:
            num *= more
        else:
            break
    return num, step


def sum_in_fours(source: Access, inner: int, factor: float, double_factor: bool = True) -> Floats:
    """Windows summed with four running values, then multiplied; [channels, outputs].

    The sums s0 to s3 take blocks of four elements and are joined as (s0+s2)+(s1+s3); the rest is added one by one.
    """
    codec, table = reading(source.dtype.name)
    out = np.empty((source.channels, math.prod(source.nums[inner:])), np.float32)
    serial.sum_in_fours(source.memory.reshape(-1), table, codec, source.first, inner, source.pairs, out.reshape(-1))
    return (out * np.float64(factor)).astype(np.float32) if double_factor else out * np.float32(factor)


def fold_whole(source: Access, inner: int, op: AluOp, *, raw: bool, saturate: bool = True) -> NDArray[np.int64]:
    """Fold whole numbers exactly; int64 [channels, outputs].

    With ``raw`` the bits of the elements are folded and given zero-extended; without it int32 values, which
    ``saturate`` or wrap at every step.
    """
    out = np.empty((source.channels, math.prod(source.nums[inner:])), np.int64)
    _fold_whole(source, source.pairs, inner, op, raw, saturate, out.reshape(-1))
    return out


def cross_lane_whole(
    source: Access, op: AluOp, *, everything: bool, raw: bool = True, saturate: bool = True
) -> NDArray[np.int64]:
    """As `cross_lane` on the bits of the elements, or on int32 values as `fold_whole`; int64 [outputs]."""
    pairs, inner = _across(source, everything)
    out = np.empty(1 if everything else source.elements, np.int64)
    _fold_whole(source, pairs, inner, op, raw, saturate, out)
    return out


def _fold_whole(
    source: Access, pairs: Pairs, inner: int, op: AluOp, raw: bool, saturate: bool, out: NDArray[np.int64]
) -> None:
    dtype = source.dtype
    like = (dtype.numpy if dtype.is_integer else dtype.raw).type(0)
    flat = source.memory.reshape(-1)
    bits.fold_whole(flat, like, 8 * dtype.bytes, op.ordinal, raw, saturate, source.first, inner, pairs, out)
