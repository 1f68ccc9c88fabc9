"""Dims of tensors and regions: merging, ordering and cutting them so that patterns fit their fields."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from typing import NamedTuple

from lanefold.tpb import isa
from lanefold.tpb.patterns import NUM_RANGE, STEP_RANGE

GREATEST_NUM = NUM_RANGE[1]
GREATEST_STEP = STEP_RANGE[1]
PARTITIONS = min(geometry.partitions for geometry in isa.GEOMETRY.values())


class Kept(NamedTuple):
    """A dim that survives: element steps in the source and in the result, and its extent."""

    step: int
    out_step: int
    num: int


class Folded(NamedTuple):
    """A dim that is folded: element step in the source and its extent."""

    step: int
    num: int


def merge_kept(dims: Sequence[Kept]) -> tuple[Kept, ...]:
    """Joins neighbours that one step walks on both sides, outermost first; dims of extent 1 vanish."""
    merged: list[Kept] = []
    for dim in dims:
        if dim.num == 1:
            continue
        last = merged[-1] if merged else None
        if last and last.step == dim.step * dim.num and last.out_step == dim.out_step * dim.num:
            merged[-1] = Kept(dim.step, dim.out_step, last.num * dim.num)
        else:
            merged.append(dim)
    return tuple(merged)


def merge_folded(dims: Sequence[Folded]) -> tuple[Folded, ...]:
    """Joins neighbours that one step walks, outermost first; dims of extent 1 vanish."""
    merged: list[Folded] = []
    for dim in dims:
        if dim.num == 1:
            continue
        if merged and merged[-1].step == dim.step * dim.num:
            merged[-1] = Folded(dim.step, merged[-1].num * dim.num)
        else:
            merged.append(dim)
    return tuple(merged)


def count(dims: Sequence[Kept] | Sequence[Folded]) -> int:
    """Elements that dims walk."""
    return prod(dim.num for dim in dims)


def strides_of(shape: Sequence[int]) -> tuple[int, ...]:
    """Element steps of a dense row-major tensor."""
    steps: list[int] = []
    step = 1
    for extent in reversed(shape):
        steps.append(step)
        step *= extent
    return tuple(reversed(steps))


def split_axes(shape: Sequence[int], axes: Sequence[int]) -> tuple[tuple[Kept, ...], tuple[Folded, ...]]:
    """The kept and the folded dims of a dense tensor, merged, outermost first."""
    steps = strides_of(shape)
    kept_shape = [extent for axis, extent in enumerate(shape) if axis not in axes]
    out_steps = iter(strides_of(kept_shape))
    kept, folded = [], []
    for axis, (step, extent) in enumerate(zip(steps, shape, strict=True)):
        if axis in axes:
            folded.append(Folded(step, extent))
        else:
            kept.append(Kept(step, next(out_steps), extent))
    return merge_kept(kept), merge_folded(folded)


def pieces(total: int, size: int) -> list[tuple[int, int]]:
    """Ranges (first, length) of at most ``size`` that cover ``total``."""
    return [(start, min(size, total - start)) for start in range(0, total, size)]


def lanes_of(kept: Sequence[Kept]) -> Iterator[tuple[int, int, Kept]]:
    """The widest dim in stretches of at most 128, once for each index of the others.

    Gives the first element in source and result, and the stretch.
    """
    if not kept:
        yield 0, 0, Kept(0, 0, 1)
        return
    widest = max(range(len(kept)), key=lambda at: kept[at].num)
    spread = kept[widest]
    others = (*kept[:widest], *kept[widest + 1 :])
    for index in product(*(range(dim.num) for dim in others)):
        start = sum(place * dim.step for place, dim in zip(index, others, strict=True))
        out_start = sum(place * dim.out_step for place, dim in zip(index, others, strict=True))
        for first, length in pieces(spread.num, PARTITIONS):
            lane = Kept(spread.step, spread.out_step, length)
            yield start + first * spread.step, out_start + first * spread.out_step, lane
