"""Compiled: the eight largest values of a row, where values stand, and replacing them."""

from __future__ import annotations

from typing import Any

import numpy as np

from lanefold.numerics.kernels.jit import compiled
from lanefold.numerics.kernels.vector import LANES, meets, peek
from lanefold.numerics.kernels.walk import F32, advance, dims_of, load_run

_SLOTS = 8
_BLOCK = 256
_ZERO = np.float32(0)


@compiled
def _worst(slots: Any) -> Any:
    # What an element must exceed to enter: the least slot that is no NaN; nothing exceeds a row of NaN slots.
    for k in range(_SLOTS - 1, -1, -1):
        if slots[k] == slots[k]:
            return slots[k]
    return np.float32(np.inf)


@compiled
def _insert(slots: Any, value: Any, filled: Any) -> None:
    for k in range(filled):
        if value > slots[k]:
            slots[k], value = value, slots[k]
    if filled < _SLOTS:
        slots[filled] = value


@compiled
def _exceeds(values: Any, at: Any, count: Any, limit: Any) -> Any:
    hits = np.int32(0)
    for i in range(count):
        hits |= np.int32(peek(values, at + i, _ZERO) > limit)
    return hits != 0


@compiled
def max8_flat(memory: Any, table: Any, codec: Any, start: Any, pitch: Any, pairs: Any, drop_nan: Any, out: Any) -> None:
    """The eight largest elements of each channel, descending, into ``out`` [channels, 8].

    An element moves ahead only of what is strictly smaller. ``drop_nan`` starts from eight infinities below zero and
    passes over NaN; without it the first eight elements fill the slots whatever they are, and a NaN never moves.
    """
    dims, strides, kept, total = dims_of(pairs, 0, pairs.shape[0] - 1)
    index = np.zeros(dims.size, np.int64)
    tile = np.empty(4 * _BLOCK, np.uint8)
    in_place = codec == F32 and strides[0] == 1
    for channel in range(out.shape[0]):
        slots = out[channel]
        filled = 0
        if drop_nan:
            slots[:] = np.float32(-np.inf)
            filled = _SLOTS
        limit = np.float32(-np.inf)
        position = start + channel * pitch
        for _ in range(0, total, dims[0]):
            for left in range(0, dims[0], _BLOCK):
                count = min(_BLOCK, dims[0] - left)
                values, at = memory, position + left
                if not in_place:
                    values, at = tile, 0
                    load_run(memory, codec, table, position + left * strides[0], strides[0], count, tile, 0)
                if filled == _SLOTS and not _exceeds(values, at, count, limit):
                    continue
                for near in range(at, at + count, LANES):
                    few = min(LANES, at + count - near)
                    if filled == _SLOTS and not _exceeds(values, near, few, limit):
                        continue
                    for i in range(near, near + few):
                        x = peek(values, i, _ZERO)
                        if filled < _SLOTS or x > limit:
                            _insert(slots, x, filled)
                            filled = min(filled + 1, _SLOTS)
                            limit = _worst(slots)
            position = advance(index, dims, strides, 1, kept, position)


@compiled
def _between(values: Any, at: Any, count: Any, low: Any, high: Any) -> Any:
    hits = np.int32(0)
    for i in range(count):
        x = peek(values, at + i, _ZERO)
        hits |= np.int32(x >= low) & np.int32(x <= high)
    return hits != 0


@compiled
def _bounds(keys: Any) -> Any:
    low, high = np.float32(np.inf), np.float32(-np.inf)
    for k in range(_SLOTS):
        if keys[k] == keys[k]:
            low, high = min(low, keys[k]), max(high, keys[k])
    return low, high


@compiled
def _mark(
    values: Any, at: Any, count: Any, number: Any, waiting: Any, places: Any, replacement: Any, hits: Any
) -> None:
    # A NaN equals nothing, so a key that is found becomes one.
    for i in range(count):
        x = peek(values, at + i, _ZERO)
        for k in range(_SLOTS):
            if x == waiting[k]:
                waiting[k] = np.float32(np.nan)
                places[k] = number + i
                if hits.size:
                    hits[number + i] = replacement
                break


@compiled
def _mark_block(
    values: Any, at: Any, count: Any, number: Any, waiting: Any, places: Any, replacement: Any, hits: Any
) -> None:
    for left in range(0, count, LANES):
        few = min(LANES, count - left)
        if few < LANES or meets(values, at + left, waiting):
            _mark(values, at + left, few, number + left, waiting, places, replacement, hits)


@compiled
def find_flat(
    memory: Any,
    table: Any,
    codec: Any,
    start: Any,
    pitch: Any,
    pairs: Any,
    keys: Any,
    replacement: Any,
    replaced: Any,
    places: Any,
) -> None:
    """Where the eight keys of each channel stand, into ``places`` [channels, 8], which holds what absent keys keep.

    The last row of ``pairs`` is that of the channels. Elements come in pattern order; each goes to the lowest key that
    equals it and has not been found yet. ``replaced`` [channels, elements], unless it is empty, holds the elements and
    receives ``replacement`` where a key was found.
    """
    dims, strides, kept, total = dims_of(pairs, 0, pairs.shape[0] - 1)
    index = np.zeros(dims.size, np.int64)
    tile = np.empty(4 * _BLOCK, np.uint8)
    in_place = codec == F32 and strides[0] == 1
    waiting = np.empty(_SLOTS, np.float32)
    for channel in range(places.shape[0]):
        waiting[:] = keys[channel]
        hits = replaced[channel] if replaced.shape[0] else replaced.reshape(-1)
        position = start + channel * pitch
        number = 0
        low, high = _bounds(waiting)
        for _ in range(0, total, dims[0]):
            for left in range(0, dims[0], _BLOCK):
                count = min(_BLOCK, dims[0] - left)
                values, at = memory, position + left
                if not in_place:
                    values, at = tile, 0
                    load_run(memory, codec, table, position + left * strides[0], strides[0], count, tile, 0)
                if _between(values, at, count, low, high):
                    _mark_block(values, at, count, number, waiting, places[channel], replacement, hits)
                    low, high = _bounds(waiting)
                number += count
            position = advance(index, dims, strides, 1, kept, position)
