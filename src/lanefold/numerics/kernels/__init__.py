"""Compiled loops over memory: folds, searches, sequences, reads and casting writes.

Operands are `Access` patterns over a two-dimensional byte memory; nothing but what the pattern names is touched, and
nothing is copied beyond small tiles. Importing this package imports the compiler; machine code is kept on disk.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lanefold.numerics.kernels import search as searches
from lanefold.numerics.kernels import shapes, stores, walk
from lanefold.numerics.kernels.access import Access, checked
from lanefold.numerics.kernels.common import CODECS, Floats, reading, share, writing
from lanefold.numerics.kernels.folding import cross_lane, cross_lane_whole, fold, fold_into, fold_whole, sum_in_fours

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
]

_NO_VALUES = np.empty((0, 0), np.float32)


def load(source: Access) -> Floats:
    """Read a pattern as float32 [channels, elements].

    Raises:
        LanefoldError: TPB-CAST-TYPE for packed and scale types.
    """
    codec, table = reading(source.dtype.name)
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
    codec, form = writing(target.dtype.name)
    flat = np.ascontiguousarray(values, np.float32).reshape(-1)
    first = checked(target, flat.size)
    stores.store_flat(target.memory.reshape(-1), codec, form, saturate, first, target.pairs, flat)


def store_raw(target: Access, codes: NDArray[Any]) -> None:
    """Write bits, [channels, elements] in pattern order, along a pattern; the low bits of wider integers are kept."""
    if codes.dtype.itemsize == target.dtype.bytes:
        flat = np.ascontiguousarray(codes).view(target.dtype.raw).reshape(-1)
    else:
        flat = codes.astype(target.dtype.raw).reshape(-1)
    walk.scatter_raw(target.memory.reshape(-1), checked(target, flat.size), target.pairs, flat)


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
    codec, table = reading(source.dtype.name)
    pairs, flat, first, pitch = source.pairs, source.memory.reshape(-1), source.first, source.pitch
    out = np.empty((source.channels, 8), np.float32)

    def run(low: int, high: int) -> None:
        searches.max8_flat(flat, table, codec, first + low * pitch, pitch, pairs, drop_nan, out[low:high])

    share(source.channels, source.channels * source.elements, run, parallel)
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
    codec, table = reading(source.dtype.name)
    pairs, flat, first, pitch = source.pairs, source.memory.reshape(-1), source.first, source.pitch
    keys = np.ascontiguousarray(keys, np.float32)
    places = np.full((source.channels, 8), absent, np.int64)
    value = np.float32(replacement)

    def run(low: int, high: int) -> None:
        kept, begin = replaced[low:high], first + low * pitch
        searches.find_flat(flat, table, codec, begin, pitch, pairs, keys[low:high], value, kept, places[low:high])

    share(source.channels, source.channels * source.elements, run, parallel)
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
