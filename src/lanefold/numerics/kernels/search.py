"""Compiled: the eight largest values of a row, where values stand, and replacing them."""

from __future__ import annotations

from typing import Any

import numpy as np

from lanefold.numerics.kernels.jit import compiled, inner
from lanefold.numerics.kernels.scan import BLOCK, between, greatest, meets, reaches
from lanefold.numerics.kernels.vector import LANES, peek
from lanefold.numerics.kernels.walk import F32, FRONT, advance, dims_of, load_run

_SLOTS = 8
_ZERO = np.float32(0)
_LOWEST = np.float32(-np.inf)


@inner
def _worst(slots: Any) -> Any:
    # What an element must exceed to enter: the least slot that is no NaN; nothing exceeds a row of NaN slots.
    for k in range(_SLOTS - 1, -1, -1):
        if slots[k] == slots[k]:
            return slots[k]
    return np.float32(np.inf)


@inner
def _insert(slots: Any, value: Any, filled: Any) -> None:
    for k in range(filled):
        if value > slots[k]:
            slots[k], value = value, slots[k]
    if filled < _SLOTS:
        slots[filled] = value


@inner
def _one_by_one(
    memory: Any, table: Any, codec: Any, position: Any, total: Any, walk: Any, tile: Any, slots: Any
) -> Any:
    # The walk as it is written down: the first eight fill the slots, whatever they are.
    dims, strides, kept, index = walk
    limit = _LOWEST
    for done in range(total):
        load_run(memory, codec, table, position, 0, 1, tile, FRONT)
        x = peek(tile, 0, _ZERO)
        if done < _SLOTS or x > limit:
            _insert(slots, x, min(done, _SLOTS))
            limit = _worst(slots)
        position = advance(index, dims, strides, 0, kept, position)


@inner
def _begins_with_nan(memory: Any, table: Any, codec: Any, position: Any, walk: Any, tile: Any) -> Any:
    dims, strides, kept, index = walk
    found = False
    for _ in range(_SLOTS):
        load_run(memory, codec, table, position, 0, 1, tile, FRONT)
        x = peek(tile, 0, _ZERO)
        found |= x != x
        position = advance(index, dims, strides, 0, kept, position)
    index[:] = 0
    return found


@inner
def _block_greatest(values: Any, at: Any, count: Any) -> Any:
    if count == BLOCK:
        return greatest(values, at, _LOWEST)
    a = _LOWEST
    for i in range(at, at + count):
        x = peek(values, i, _ZERO)
        a = x if x > a else a
    return a


@inner
def _eighth(tops: Any, blocks: Any, slots: Any) -> Any:
    # Eight blocks reach this value, so that no element below it is among the eight largest.
    if blocks < _SLOTS:
        return _LOWEST
    slots[:] = _LOWEST
    for k in range(blocks):
        if tops[k] > slots[_SLOTS - 1]:
            _insert(slots, tops[k], _SLOTS)
    return slots[_SLOTS - 1]


@inner
def _search_block(values: Any, at: Any, count: Any, least: Any, slots: Any) -> None:
    for near in range(at, at + count, LANES):
        few = min(LANES, at + count - near)
        if few == LANES and not reaches(values, near, least):
            continue
        for i in range(near, near + few):
            x = peek(values, i, _ZERO)
            if x >= least and x > slots[_SLOTS - 1]:
                _insert(slots, x, _SLOTS)


@compiled
def max8_flat(memory: Any, table: Any, codec: Any, start: Any, pitch: Any, pairs: Any, drop_nan: Any, out: Any) -> None:
    """The eight largest elements of each channel, descending, into ``out`` [channels, 8].

    An element moves ahead only of what is strictly smaller. ``drop_nan`` starts from eight infinities below zero and
    passes over NaN; without it the first eight elements fill the slots whatever they are, and a NaN never moves.
    """
    dims, strides, kept, total = dims_of(pairs, 0, pairs.shape[0] - 1)
    walk = (dims, strides, kept, np.zeros(dims.size, np.int64))
    index = walk[3]
    tile = np.empty(4 * BLOCK, np.uint8)
    in_place = codec == F32 and strides[0] == 1
    blocks = total // dims[0] * ((dims[0] + BLOCK - 1) // BLOCK)
    tops, places, sizes = np.empty(blocks, np.float32), np.empty(blocks, np.int64), np.empty(blocks, np.int64)
    for channel in range(out.shape[0]):
        slots = out[channel]
        position = start + channel * pitch
        # A NaN counts only where it comes first; any other is never larger than what it meets.
        if not drop_nan and _begins_with_nan(memory, table, codec, position, walk, tile):
            _one_by_one(memory, table, codec, position, total, walk, tile, slots)
            continue
        block = 0
        for _ in range(0, total, dims[0]):
            for left in range(0, dims[0], BLOCK):
                places[block], sizes[block] = position + left * strides[0], min(BLOCK, dims[0] - left)
                values, at = memory, places[block]
                if not in_place:
                    values, at = tile, 0
                    load_run(memory, codec, table, places[block], strides[0], sizes[block], tile, FRONT)
                tops[block] = _block_greatest(values, at, sizes[block])
                block += 1
            position = advance(index, dims, strides, 1, kept, position)
        least = _eighth(tops, blocks, slots)
        slots[:] = _LOWEST
        for block in range(blocks):
            if tops[block] < least or tops[block] <= slots[_SLOTS - 1]:
                continue
            values, at = memory, places[block]
            if not in_place:
                values, at = tile, 0
                load_run(memory, codec, table, places[block], strides[0], sizes[block], tile, FRONT)
            _search_block(values, at, sizes[block], least, slots)


@inner
def _any_between(values: Any, at: Any, count: Any, low: Any, high: Any) -> Any:
    if count == BLOCK:
        return between(values, at, low, high)
    hits = np.int32(0)
    for i in range(count):
        x = peek(values, at + i, _ZERO)
        hits |= np.int32(x >= low) & np.int32(x <= high)
    return hits != 0


@inner
def _bounds(keys: Any) -> Any:
    low, high = np.float32(np.inf), np.float32(-np.inf)
    for k in range(_SLOTS):
        if keys[k] == keys[k]:
            low, high = min(low, keys[k]), max(high, keys[k])
    return low, high


@inner
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


@inner
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
    tile = np.empty(4 * BLOCK, np.uint8)
    in_place = codec == F32 and strides[0] == 1
    waiting = np.empty(_SLOTS, np.float32)
    for channel in range(places.shape[0]):
        waiting[:] = keys[channel]
        hits = replaced[channel] if replaced.shape[0] else replaced.reshape(-1)
        position = start + channel * pitch
        number = 0
        index[:] = 0
        low, high = _bounds(waiting)
        while number < total and low <= high:
            for left in range(0, dims[0], BLOCK):
                count = min(BLOCK, dims[0] - left)
                values, at = memory, position + left
                if not in_place:
                    values, at = tile, 0
                    load_run(memory, codec, table, position + left * strides[0], strides[0], count, tile, FRONT)
                if _any_between(values, at, count, low, high):
                    _mark_block(values, at, count, number, waiting, places[channel], replacement, hits)
                    low, high = _bounds(waiting)
                    # A key that is found is waited for no longer; without keys there is nothing left to look for.
                    if low > high:
                        break
                number += count
            position = advance(index, dims, strides, 1, kept, position)
