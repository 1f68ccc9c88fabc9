"""Compiled loops over memory: folds, searches, sequences, reads and casting writes.

Operands are `Access` patterns over a two-dimensional byte memory; nothing but what the pattern names is touched, and
nothing is copied beyond small tiles. Importing this package imports the compiler; machine code is kept on disk.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lanefold.numerics.alu import AluOp
from lanefold.numerics.casts import FORMATS, require_number, widen
from lanefold.numerics.dtypes import Dtype
from lanefold.numerics.kernels import bits, shapes, steps, stores, vector, walk
from lanefold.numerics.kernels import fold as folds
from lanefold.numerics.kernels import search as searches

Floats = NDArray[np.float32]
Dims = list[tuple[int, int]]

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

_PARALLEL_FROM = 1 << 19
_LONG_RUN = 32
_LARGEST_WINDOW = 128
_NO_TABLE = np.empty(0, np.float32)
_NO_VALUES = np.empty((0, 0), np.float32)


class Access(NamedTuple):
    """A pattern over a memory of uint8 [partitions, bytes]: channel c starts at partition + c.

    ``start`` and ``steps`` count elements, ``nums`` and ``steps`` are innermost first; ``start`` is relative to the
    beginning of a partition.
    """

    memory: NDArray[np.uint8]
    dtype: Dtype
    partition: int
    channels: int
    start: int
    nums: tuple[int, ...]
    steps: tuple[int, ...]

    @property
    def elements(self) -> int:
        """Elements per channel."""
        return math.prod(self.nums)

    @property
    def pitch(self) -> int:
        """Elements from one partition to the next."""
        return int(self.memory.shape[1]) // self.dtype.bytes

    @property
    def problem(self) -> str:
        """Why the pattern does not lie inside the memory; empty if it does."""
        low = high = self.start
        for num, step in zip(self.nums, self.steps, strict=True):
            if num < 1:
                return "a num is zero"
            if step < 0:
                low += (num - 1) * step
            else:
                high += (num - 1) * step
        if low < 0 or high >= self.pitch:
            return f"elements {low} to {high} of a partition of {self.pitch}"
        if self.partition < 0 or self.channels < 1 or self.partition + self.channels > self.memory.shape[0]:
            return f"{self.channels} partitions from {self.partition} on, of {self.memory.shape[0]}"
        if self.memory.shape[1] % self.dtype.bytes:
            return f"a partition of {self.memory.shape[1]} bytes is no whole number of {self.dtype.name}"
        return ""

    @property
    def first(self) -> int:
        """Position of the first element in the memory as a whole; checks that the pattern stays inside.

        Raises:
            IndexError: if it does not; callers check programs before they run them.
        """
        problem = self.problem
        if problem:
            raise IndexError(problem)
        return self.partition * self.pitch + self.start


@cache
def _table(dtype: Dtype) -> Floats:
    return widen(np.arange(256, dtype=np.uint8), dtype)


def _reading(dtype: Dtype) -> tuple[int, Floats]:
    require_number(dtype)
    codec = CODECS[dtype.name]
    return codec, _table(dtype) if codec == walk.TABLE else _NO_TABLE


@cache
def _form(dtype: Dtype) -> NDArray[np.int64]:
    form = FORMATS.get(dtype.name)
    if form is None:
        return np.zeros(8, np.int64)
    sign = 8 * dtype.bytes - 1 - form.shift
    return np.array(
        [form.mantissa, form.lowest, form.largest, form.overflow, form.nan, form.saturates, form.shift, sign], np.int64
    )


def _flat(access: Access) -> NDArray[np.uint8]:
    return access.memory.reshape(-1)


def _pairs(*dims: tuple[int, int]) -> NDArray[np.int64]:
    return np.array(dims, np.int64).T.copy()


@cache
def threads() -> int:
    """How many cores the loops use for large work."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def _workers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads(), thread_name_prefix="lanefold")


def _share(channels: int, work: int, run: Callable[[int, int], Any], parallel: bool) -> None:
    # Channels are independent of each other, so that sharing them out changes no result.
    parts = min(threads(), max(1, channels // 8)) if parallel and work >= _PARALLEL_FROM else 1
    if parts == 1:
        run(0, channels)
        return
    size = -(-channels // parts // 8) * 8
    jobs = [_workers().submit(run, low, min(low + size, channels)) for low in range(0, channels, size)]
    for job in jobs:
        job.result()


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
    dims = list(zip(source.nums, source.steps, strict=True))
    folded, kept = dims[:inner] or [(1, 0)], dims[inner:]
    outputs = 1
    for num, _ in kept:
        outputs *= num
    first, pitch = source.first, source.pitch
    out = np.empty((source.channels, outputs), np.float32)
    job = _FoldJob(source, op, start, scale, divisor, factor, double_factor, negate, folded)

    def run(low: int, high: int) -> None:
        job.run(first + low * pitch, [*kept, (high - low, pitch)], out[low:high].reshape(-1))

    _share(source.channels, source.channels * source.elements, run, parallel)
    return out


class _FoldJob:
    """What the parts of one fold have in common."""

    __slots__ = ("_flat", "_folded", "_plan", "_real", "_run", "_table", "_windowed")

    def __init__(
        self,
        source: Access,
        op: AluOp,
        start: float | None,
        scale: float,
        divisor: int,
        factor: float | None,
        double_factor: bool,
        negate: bool,
        folded: Dims,
    ) -> None:
        codec, self._table = _reading(source.dtype)
        finish = folds.PLAIN
        if factor is not None:
            finish = folds.TIMES_DOUBLE if double_factor else folds.TIMES_FLOAT
        begin = folds.FROM_FIRST if start is None else folds.FROM_VALUE
        self._plan = (codec, op.ordinal, begin, finish, int(negate))
        self._real = np.array([start or 0.0, scale, divisor, 1.0 if factor is None else factor], np.float64)
        self._flat = _flat(source)
        self._folded = _pairs(*folded)
        self._run = _innermost(folded)
        self._windowed = len(folded) <= 2 and math.prod(num for num, _ in folded) <= _LARGEST_WINDOW

    def run(self, first: int, lanes: Dims, out: Floats) -> None:
        codec, op, begin, finish, negate = self._plan
        plan = np.array([codec, op, begin, first, finish, negate], np.int64)
        arguments = (self._flat, self._table, plan, _pairs(*lanes), self._folded, self._real, out)
        self._loop(lanes)(*arguments)

    def _loop(self, lanes: Dims) -> Callable[..., None]:
        codec, op, begin, _, _ = self._plan
        lane, apart = _innermost(lanes)
        run, step = self._run
        if (
            lane >= vector.LANES
            and apart in (1, 2)
            and self._windowed
            and codec == walk.F32
            and begin == folds.FROM_VALUE
            and op in (steps.ADD, steps.MAX)
        ):
            return folds.fold_windows
        if lane < vector.LANES // 2 or (run >= _LONG_RUN and abs(step) <= abs(apart)):
            return folds.fold_runs
        return folds.fold_rows


def _innermost(dims: Dims) -> tuple[int, int]:
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
    codec, table = _reading(source.dtype)
    dims = list(zip(source.nums, source.steps, strict=True))
    lanes = _pairs(*dims[inner:], (source.channels, source.pitch))
    out = np.empty(int(np.prod(lanes[0])), np.float32)
    folds.sum_in_fours(_flat(source), table, codec, source.first, lanes, _pairs(*dims[:inner]), out)
    scaled = (out * np.float64(factor)).astype(np.float32) if double_factor else out * np.float32(factor)
    return np.asarray(scaled).reshape(source.channels, -1)


def cross_lane(source: Access, op: AluOp, *, everything: bool, scale: float = 1.0, parallel: bool = True) -> Floats:
    """Fold partitions in ascending order, position by position, or all elements to one; float32 [outputs].

    With ``everything`` the partition is the outer and the pattern the inner order. ``average`` multiplies each element
    by ``scale``, then adds.

    Raises:
        LanefoldError: TPB-CAST-TYPE for packed and scale types.
    """
    dims = list(zip(source.nums, source.steps, strict=True))
    channels = (source.channels, source.pitch)
    kept = [(1, 0)] if everything else dims
    folded = [*dims, channels] if everything else [channels]
    job = _FoldJob(source, op, None, scale, 0, None, True, False, folded)
    out = np.empty(1 if everything else source.elements, np.float32)
    first = source.first
    work = source.channels * source.elements
    outer, step = kept[-1]
    each = out.size // outer

    def run(low: int, high: int) -> None:
        lanes = [*kept[:-1], (high - low, step)]
        job.run(first + low * step, lanes, out[low * each : high * each])

    _share(outer, work, run, parallel)
    return out


def fold_whole(source: Access, inner: int, op: AluOp, *, raw: bool, saturate: bool = True) -> NDArray[np.int64]:
    """Fold whole numbers exactly; int64 [channels, outputs].

    With ``raw`` the bits of the elements are folded and given zero-extended; without it int32 values, which
    ``saturate`` or wrap at every step.
    """
    dims = list(zip(source.nums, source.steps, strict=True))
    kept = [*dims[inner:], (source.channels, source.pitch)]
    return _fold_whole(source, kept, dims[:inner], op, raw, saturate).reshape(source.channels, -1)


def cross_lane_whole(
    source: Access, op: AluOp, *, everything: bool, raw: bool = True, saturate: bool = True
) -> NDArray[np.int64]:
    """As `cross_lane` on the bits of the elements, or on int32 values as `fold_whole`; int64 [outputs]."""
    dims = list(zip(source.nums, source.steps, strict=True))
    channels = (source.channels, source.pitch)
    kept, folded = ([(1, 0)], [*dims, channels]) if everything else (dims, [channels])
    return _fold_whole(source, kept, folded, op, raw, saturate)


def _fold_whole(
    source: Access, kept: list[tuple[int, int]], folded: list[tuple[int, int]], op: AluOp, raw: bool, saturate: bool
) -> NDArray[np.int64]:
    lanes = _pairs(*kept)
    out = np.empty(int(np.prod(lanes[0])), np.int64)
    like = (source.dtype.numpy if source.dtype.is_integer else source.dtype.raw).type(0)
    bits.fold_whole(
        _flat(source),
        like,
        8 * source.dtype.bytes,
        op.ordinal,
        raw,
        saturate,
        source.first,
        lanes,
        _pairs(*(folded or [(1, 0)])),
        out,
    )
    return out


def load(source: Access) -> Floats:
    """Read a pattern as float32 [channels, elements].

    Raises:
        LanefoldError: TPB-CAST-TYPE for packed and scale types.
    """
    codec, table = _reading(source.dtype)
    pairs = _pairs(*zip(source.nums, source.steps, strict=True), (source.channels, source.pitch))
    out = np.empty((source.channels, source.elements), np.float32)
    walk.load_flat(_flat(source), table, codec, source.first, pairs[0], pairs[1], out.reshape(-1).view(np.uint8))
    return out


def load_raw(source: Access) -> NDArray[Any]:
    """Read a pattern as it is, unsigned integers of the element size, [channels, elements]."""
    pairs = _pairs(*zip(source.nums, source.steps, strict=True), (source.channels, source.pitch))
    out = np.empty((source.channels, source.elements), source.dtype.raw)
    walk.gather_raw(_flat(source), source.first, pairs[0], pairs[1], out.reshape(-1))
    return out


def store(target: Access, values: Floats, saturate: bool = True) -> None:
    """Cast float32 values, [channels, elements] in pattern order, and write them along a pattern.

    ``saturate`` is that of `lanefold.numerics.casts.narrow`.

    Raises:
        LanefoldError: TPB-CAST-TYPE for packed and scale types.
    """
    require_number(target.dtype)
    flat = np.ascontiguousarray(values, np.float32).reshape(-1)
    first = _checked(target, flat.size)
    pairs = _pairs(*zip(target.nums, target.steps, strict=True), (target.channels, target.pitch))
    codec = CODECS[target.dtype.name]
    stores.store_flat(_flat(target), codec, _form(target.dtype), saturate, first, pairs[0], pairs[1], flat)


def store_raw(target: Access, codes: NDArray[Any]) -> None:
    """Write bits, [channels, elements] in pattern order, along a pattern; the low bits of wider integers are kept."""
    if codes.dtype.itemsize == target.dtype.bytes:
        flat = np.ascontiguousarray(codes).view(target.dtype.raw).reshape(-1)
    else:
        flat = codes.astype(target.dtype.raw).reshape(-1)
    first = _checked(target, flat.size)
    pairs = _pairs(*zip(target.nums, target.steps, strict=True), (target.channels, target.pitch))
    walk.scatter_raw(_flat(target), first, pairs[0], pairs[1], flat)


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
    codec, table = _reading(source.dtype)
    pairs = _pairs(*zip(source.nums, source.steps, strict=True))
    flat, first, pitch = _flat(source), source.first, source.pitch
    out = np.empty((source.channels, 8), np.float32)

    def run(low: int, high: int) -> None:
        part = out[low:high]
        searches.max8_flat(flat, table, codec, first + low * pitch, pitch, pairs[0], pairs[1], drop_nan, part)

    _share(source.channels, source.channels * source.elements, run, parallel)
    return out


def find_index8(source: Access, keys: Floats, absent: int, parallel: bool = True) -> NDArray[np.int64]:
    """Where the eight keys of each channel stand in it, int64 [channels, 8]; ``absent`` where they do not.

    Elements come in pattern order; each goes to the first of the keys [channels, 8] that equals it and is still
    without a place.
    """
    return _find(source, keys, absent, 0.0, False, parallel)[1]


def match_replace8(
    source: Access, keys: Floats, replacement: float, absent: int = -1, parallel: bool = True
) -> tuple[Floats, NDArray[np.int64]]:
    """The elements, float32 [channels, elements], with those that match a key replaced, and their places."""
    return _find(source, keys, absent, replacement, True, parallel)


def _find(
    source: Access, keys: Floats, absent: int, replacement: float, replace: bool, parallel: bool
) -> tuple[Floats, NDArray[np.int64]]:
    codec, table = _reading(source.dtype)
    pairs = _pairs(*zip(source.nums, source.steps, strict=True))
    flat, first, pitch = _flat(source), source.first, source.pitch
    keys = np.ascontiguousarray(keys, np.float32)
    places = np.full((source.channels, 8), absent, np.int64)
    replaced = load(source) if replace else _NO_VALUES
    value = np.float32(replacement)

    def run(low: int, high: int) -> None:
        kept = replaced[low:high] if replace else replaced
        searches.find_flat(
            flat,
            table,
            codec,
            first + low * pitch,
            pitch,
            pairs[0],
            pairs[1],
            keys[low:high],
            value,
            kept,
            places[low:high],
        )

    _share(source.channels, source.channels * source.elements, run, parallel)
    return replaced, places


def iota(channels: int, base: int, multiplier: int, nums: tuple[int, ...], steps: tuple[int, ...]) -> NDArray[np.int32]:
    """The values base + channel * multiplier + the steps of the position, in wrapping int32, [channels, elements]."""
    pairs = _pairs(*zip(nums, steps, strict=True))
    out = np.empty((channels, int(np.prod(pairs[0]))), np.int32)
    shapes.iota_flat(base, multiplier, pairs[0], pairs[1], out)
    return out


def look_up(table: NDArray[Any], window: int, mask: int, indices: NDArray[Any], out: NDArray[Any]) -> NDArray[np.bool_]:
    """Look indices [channels, n] up in a table [channels, m] into ``out``; tells which of them hit.

    An index hits where its bits outside ``mask`` equal ``window``; its other bits number the element.
    """
    hits = np.zeros(indices.shape, np.bool_)
    shapes.look_up(table, window, mask, indices, out, hits)
    return hits


def exchange32(values: Floats) -> Floats:
    """Exchange partitions and elements inside every 32 x 32 block of [channels, elements], multiples of 32 both."""
    if values.shape[0] % 32 or values.shape[1] % 32:
        raise IndexError(f"{values.shape[0]} x {values.shape[1]} values are no whole blocks of 32 x 32")
    out = np.empty_like(values)
    shapes.exchange32(values, out)
    return out
