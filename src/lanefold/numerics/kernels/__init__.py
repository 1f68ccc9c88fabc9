"""Compiled loops over memory: folds, searches, sequences, reads and casting writes.

Operands are `Access` patterns over a two-dimensional byte memory; nothing but what the pattern names is touched, and
nothing is copied beyond small tiles. Importing this package imports the compiler; machine code is kept on disk.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lanefold.numerics.alu import AluOp
from lanefold.numerics.casts import FORMATS, require_number, widen
from lanefold.numerics.dtypes import by_name
from lanefold.numerics.kernels import bits, shapes, steps, stores, vector, walk
from lanefold.numerics.kernels import fold as folds
from lanefold.numerics.kernels import search as searches
from lanefold.numerics.kernels.access import Access, Pairs

__all__ = [
    "CODECS",
    "Access",
    "cross_lane",
    "cross_lane_whole",
    "exchange32",
    "find_index8",
    "fold",
    "fold_into",
    "fold_whole",
    "iota",
    "load",
    "load_raw",
    "look_up",
    "match_replace8",
    "max8",
    "reciprocal",
    "store",
    "store_raw",
    "sum_in_fours",
    "threads",
]

Floats = NDArray[np.float32]

CODECS: dict[str, int] = {
    "float32": walk.F32,
    "float32r": walk.F32,
    "bfloat16": walk.BF16,
    "float16": walk.F16,
    "float8e3": walk.TABLE,
    "float8e4": walk.TABLE,
    "float8_e4m3fn": walk.TABLE,
    "float8e5": walk.TABLE,
    "uint8": walk.U8,
    "int8": walk.I8,
    "uint16": walk.U16,
    "int16": walk.I16,
    "uint32": walk.U32,
    "int32": walk.I32,
    "uint64": walk.U64,
    "int64": walk.I64,
}
"""How the loops read and write each element type."""

_PARALLEL_FROM = (1 << 20) + 1
_PARALLEL_WINDOWS_FROM = 1 << 23
"""Steps from which threads are worth waking; windows take less time per step."""
_SMALL = 4096
_LONG_RUN = 32
_LARGEST_WINDOW = 4096
"""Reach of a window in elements, up to which its rows stay in the nearest cache."""
_NO_TABLE = np.empty(0, np.float32)
_NO_VALUES = np.empty((0, 0), np.float32)


@cache
def _reading(name: str) -> tuple[int, Floats]:
    dtype = by_name(name)
    require_number(dtype)
    codec = CODECS[name]
    return codec, widen(np.arange(256, dtype=np.uint8), dtype) if codec == walk.TABLE else _NO_TABLE


@cache
def _writing(name: str) -> tuple[int, NDArray[np.int64]]:
    dtype = by_name(name)
    require_number(dtype)
    form = FORMATS.get(name)
    numbers = [0] * 8
    if form is not None:
        sign = 8 * dtype.bytes - 1 - form.shift
        numbers = [form.mantissa, form.lowest, form.largest, form.overflow, form.nan, form.saturates, form.shift, sign]
    return CODECS[name], np.array(numbers, np.int64)


@lru_cache(maxsize=256)
def _numbers(start: float, sign: float, scale: float, divisor: int, factor: float) -> NDArray[np.float64]:
    # Zeros of both signs are equal as keys, hence the sign apart.
    return np.array([math.copysign(start, sign), scale, divisor, factor], np.float64)


@cache
def threads() -> int:
    """How many cores the loops use for large work."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def _workers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads(), thread_name_prefix="lanefold")


def _share(count: int, work: int, run: Callable[[int, int], Any], parallel: bool) -> None:
    # What is shared out is independent of each other, so that sharing changes no result.
    parts = min(threads(), max(1, count // 8)) if parallel and work >= _PARALLEL_FROM else 1
    if parts == 1:
        run(0, count)
        return
    size = -(-count // parts // 16) * 16
    jobs = [_workers().submit(run, low, min(low + size, count)) for low in range(size, count, size)]
    run(0, min(size, count))
    for job in jobs:
        job.result()


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

    Raises:
        LanefoldError: TPB-CAST-TYPE for packed and scale types.
    """
    task, numbers = _task(op, start, scale, divisor, factor, double_factor, negate)
    out = np.empty((source.channels, math.prod(source.nums[inner:])), np.float32)
    _fold(source, source.pairs, inner, task, numbers, out.reshape(-1), parallel)
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
    codec, form = _writing(target.dtype.name)
    outputs = math.prod(source.nums[inner:])
    first, pitch = _checked(target, source.channels * outputs), target.pitch
    flat = target.memory.reshape(-1)

    direct = source.channels * source.elements >= _SMALL and _is_direct(target, source, inner, outputs, task)
    begun = source.memory.reshape(-1), source.first

    def run(low: int, high: int) -> None:
        part = source.part(low, high)
        if direct:
            op_code, _, finish, sign = task
            place = first + low * pitch
            start_at = begun[1] + low * source.pitch
            folds.fold_windows(
                begun[0], op_code, start_at, finish, sign, inner, part.pairs, numbers, flat, outputs, place, pitch
            )
            return
        out = np.empty((high - low) * outputs, np.float32)
        _fold(part, part.pairs, inner, task, numbers, out, False)
        stores.store_flat(flat, codec, form, saturate, first + low * pitch, _part(target.pairs, low, high), out)

    work = source.channels * source.elements
    _share(source.channels, work, run, not direct or work >= _PARALLEL_WINDOWS_FROM)


def _is_direct(target: Access, source: Access, inner: int, outputs: int, task: tuple[int, int, int, int]) -> bool:
    """Whether windows can be written where they belong: float32, side by side, and away from what is read."""
    codec, _ = _reading(source.dtype.name)
    op, begin, _, _ = task
    if target.dtype.name != "float32" or codec != walk.F32:
        return False
    pairs = source.pairs.tolist()
    num, step = _innermost(target.pairs[:-1].tolist())
    lane, _ = _innermost(pairs[inner:])
    if (num, step) != (outputs, 1) or outputs % lane or _loop(pairs, inner, codec, op, begin) != folds.fold_windows:
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
    finish = folds.PLAIN
    if factor is not None:
        finish = folds.TIMES_DOUBLE if double_factor else folds.TIMES_FLOAT
    begin = folds.FROM_FIRST if start is None else folds.FROM_VALUE
    if start is None and op.ordinal == steps.ADD:
        # Adding to -0.0 gives the first element itself, whatever it is.
        begin, start = folds.FROM_VALUE, -0.0
    value = 0.0 if start is None else start
    numbers = _numbers(value, math.copysign(1.0, value), scale, divisor, 1.0 if factor is None else factor)
    return (op.ordinal, begin, finish, int(negate)), numbers


def cross_lane(source: Access, op: AluOp, *, everything: bool, scale: float = 1.0, parallel: bool = True) -> Floats:
    """Fold partitions in ascending order, position by position, or all elements to one; float32 [outputs].

    With ``everything`` the partition is the outer and the pattern the inner order. ``average`` multiplies each element
    by ``scale``, then adds.

    Raises:
        LanefoldError: TPB-CAST-TYPE for packed and scale types.
    """
    task, numbers = _task(op, None, scale, 0, None, True, False)
    pairs, inner = _across(source, everything)
    out = np.empty(1 if everything else source.elements, np.float32)
    _fold(source, pairs, inner, task, numbers, out, parallel and not everything)
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
    codec, table = _reading(source.dtype.name)
    op, begin, finish, negate = task
    flat, first = source.memory.reshape(-1), source.first
    work = source.channels * source.elements
    loop: Callable[..., None] = folds.fold_runs if work < _SMALL else _loop(pairs.tolist(), inner, codec, op, begin)

    windows = loop == folds.fold_windows

    def part_of(start: int, part: Pairs, target: Floats) -> None:
        if windows:
            raw = target.view(np.uint8)
            folds.fold_windows(flat, op, start, finish, negate, inner, part, numbers, raw, target.size, 0, 0)
        else:
            loop(flat, table, codec, op, begin, start, finish, negate, inner, part, numbers, target)

    if not parallel or work < _PARALLEL_FROM:
        part_of(first, pairs, out)
        return
    count, step = (int(number) for number in pairs[-1])
    each = out.size // count

    def run(low: int, high: int) -> None:
        part_of(first + low * step, _part(pairs, low, high), out[low * each : high * each])

    _share(count, work, run, parallel)


def _loop(pairs: list[list[int]], inner: int, codec: int, op: int, begin: int) -> Callable[..., None]:
    lane, apart = _innermost(pairs[inner:])
    if (
        lane >= vector.LANES
        and apart in (1, 2)
        and codec == walk.F32
        and begin == folds.FROM_VALUE
        and op in (steps.ADD, steps.MAX)
        and inner <= 2
        and sum(abs(num * step) for num, step in pairs[:inner]) <= _LARGEST_WINDOW
    ):
        return folds.fold_windows
    run, step = _innermost(pairs[:inner])
    if lane < vector.LANES // 2 or (run >= _LONG_RUN and abs(step) <= abs(apart)):
        return folds.fold_runs
    return folds.fold_rows


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
    codec, table = _reading(source.dtype.name)
    out = np.empty((source.channels, math.prod(source.nums[inner:])), np.float32)
    folds.sum_in_fours(source.memory.reshape(-1), table, codec, source.first, inner, source.pairs, out.reshape(-1))
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


def load(source: Access) -> Floats:
    """Read a pattern as float32 [channels, elements].

    Raises:
        LanefoldError: TPB-CAST-TYPE for packed and scale types.
    """
    codec, table = _reading(source.dtype.name)
    out = np.empty((source.channels, source.elements), np.float32)
    bytes_out = out.reshape(-1).view(np.uint8)
    walk.load_flat(source.memory.reshape(-1), table, codec, source.first, source.pairs, bytes_out)
    return out


def load_raw(source: Access) -> NDArray[Any]:
    """Read a pattern as it is, unsigned integers of the element size, [channels, elements]."""
    out = np.empty((source.channels, source.elements), source.dtype.raw)
    walk.gather_raw(source.memory.reshape(-1), source.first, source.pairs, out.reshape(-1))
    return out


def store(target: Access, values: Floats, saturate: bool = True) -> None:
    """Cast float32 values, [channels, elements] in pattern order, and write them along a pattern.

    ``saturate`` is that of `lanefold.numerics.casts.narrow`.

    Raises:
        LanefoldError: TPB-CAST-TYPE for packed and scale types.
    """
    codec, form = _writing(target.dtype.name)
    flat = np.ascontiguousarray(values, np.float32).reshape(-1)
    first = _checked(target, flat.size)
    stores.store_flat(target.memory.reshape(-1), codec, form, saturate, first, target.pairs, flat)


def store_raw(target: Access, codes: NDArray[Any]) -> None:
    """Write bits, [channels, elements] in pattern order, along a pattern; the low bits of wider integers are kept."""
    if codes.dtype.itemsize == target.dtype.bytes:
        flat = np.ascontiguousarray(codes).view(target.dtype.raw).reshape(-1)
    else:
        flat = codes.astype(target.dtype.raw).reshape(-1)
    walk.scatter_raw(target.memory.reshape(-1), _checked(target, flat.size), target.pairs, flat)


def _checked(target: Access, size: int) -> int:
    if size != target.channels * target.elements:
        raise IndexError(f"{size} values for a pattern of {target.channels * target.elements} elements")
    return target.first


def reciprocal(source: Access) -> Floats:
    """1/x of every element in float32, correctly rounded, [channels, elements]."""
    values = load(source)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.divide(np.float32(1), values, out=values)


def max8(source: Access, drop_nan: bool = False, parallel: bool = True) -> Floats:
    """The eight largest elements of each channel, descending, [channels, 8]; channels have at least eight.

    Equal values keep their order. With ``drop_nan`` NaN is passed over and missing values are -Inf; without it a NaN
    among the first eight elements keeps its slot for good.
    """
    codec, table = _reading(source.dtype.name)
    pairs, flat, first, pitch = source.pairs, source.memory.reshape(-1), source.first, source.pitch
    out = np.empty((source.channels, 8), np.float32)

    def run(low: int, high: int) -> None:
        searches.max8_flat(flat, table, codec, first + low * pitch, pitch, pairs, drop_nan, out[low:high])

    _share(source.channels, source.channels * source.elements, run, parallel)
    return out


def find_index8(source: Access, keys: Floats, absent: int, parallel: bool = True) -> NDArray[np.int64]:
    """Where the eight keys of each channel stand in it, int64 [channels, 8]; ``absent`` where they do not.

    Elements come in pattern order; each goes to the first of the keys [channels, 8] that equals it and is still
    without a place.
    """
    return _find(source, keys, absent, 0.0, _NO_VALUES, parallel)


def match_replace8(
    source: Access, keys: Floats, replacement: float, absent: int = -1, parallel: bool = True
) -> tuple[Floats, NDArray[np.int64]]:
    """The elements, float32 [channels, elements], with those that match a key replaced, and their places."""
    values = load(source)
    return values, _find(source, keys, absent, replacement, values, parallel)


def _find(
    source: Access, keys: Floats, absent: int, replacement: float, replaced: Floats, parallel: bool
) -> NDArray[np.int64]:
    codec, table = _reading(source.dtype.name)
    pairs, flat, first, pitch = source.pairs, source.memory.reshape(-1), source.first, source.pitch
    keys = np.ascontiguousarray(keys, np.float32)
    places = np.full((source.channels, 8), absent, np.int64)
    value = np.float32(replacement)

    def run(low: int, high: int) -> None:
        kept, begin = replaced[low:high], first + low * pitch
        searches.find_flat(flat, table, codec, begin, pitch, pairs, keys[low:high], value, kept, places[low:high])

    _share(source.channels, source.channels * source.elements, run, parallel)
    return places


def iota(
    channels: int, base: int, multiplier: int, nums: tuple[int, ...], strides: tuple[int, ...]
) -> NDArray[np.int32]:
    """The values base + channel * multiplier + the steps of the position, in wrapping int32, [channels, elements]."""
    out = np.empty((channels, math.prod(nums)), np.int32)
    shapes.iota_flat(base, multiplier, np.array(list(zip(nums, strides, strict=True)), np.int64), out)
    return out


def look_up(table: NDArray[Any], window: int, mask: int, indices: NDArray[Any], out: NDArray[Any]) -> NDArray[np.bool_]:
    """Look indices [channels, n] up in a table [channels, m] into ``out``; tells which of them hit.

    An index hits where its bits outside ``mask`` equal ``window``; its other bits number the element.
    """
    hits = np.zeros(indices.shape, np.bool_)
    shapes.look_up(table, window, mask, indices, out, hits)
    return hits


def exchange32(values: NDArray[Any]) -> NDArray[Any]:
    """Exchange partitions and elements inside every 32 x 32 block of [channels, elements], multiples of 32 both."""
    if values.shape[0] % 32 or values.shape[1] % 32:
        raise IndexError(f"{values.shape[0]} x {values.shape[1]} values are no whole blocks of 32 x 32")
    out = np.empty_like(values)
    shapes.exchange32(values, out)
    return out
