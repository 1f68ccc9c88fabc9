"""The rule on source and destination of one instruction: apart, or the very same walk."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from lanefold.diagnostics import Cure, Rule, Severity
from lanefold.tpb import isa
from lanefold.tpb.rules.batch import Batch, Mask, Walk
from lanefold.tpb.rules.checks import Check, Checks, Explained

_OVERLAP = Rule(
    "TPB-OVERLAP",
    "Source and destination of an instruction share no byte unless they are the same walk.",
    "BIR simulator: element order; convention, as no document settles it",
    Severity.WARNING,
)

Pairs = tuple[tuple[int, int], ...]


def _pairs(walk: Walk, at: int) -> Pairs:
    steps_nums = zip(walk.steps, walk.nums, strict=True)
    return tuple((int(step[at]), int(num[at])) for step, num in steps_nums if num[at] != 1)


def _touched(size: int, pairs: Pairs) -> tuple[int, int]:
    """Lowest byte relative to the start, and a set of touched bytes above it as the bits of one integer."""
    bits = (1 << size) - 1
    low = 0
    for step, num in pairs:
        low += min(step * size * (num - 1), 0)
        stride, done = abs(step) * size, 1
        while done < num and stride:
            more = min(done, num - done)
            bits |= bits << (more * stride)
            done += more
    return low, bits


@lru_cache(maxsize=4096)
def share_bytes(distance: int, first: tuple[int, Pairs], second: tuple[int, Pairs]) -> bool:
    """Whether two walks, the second starting ``distance`` bytes after the first, touch a common byte.

    A walk is its element size in bytes and its (step, num) pairs.
    """
    low_a, bits_a = _touched(*first)
    low_b, bits_b = _touched(*second)
    shift = distance + low_b - low_a
    return bool(bits_a & (bits_b << shift)) if shift >= 0 else bool((bits_a << -shift) & bits_b)


def _boxes(batch: Batch, source: Walk, out: Walk) -> Mask:
    """Bundles whose operands lie in the same memory with crossing partition and byte ranges, and are not the same."""
    first, second = source.byte, out.byte
    low_a, high_a = source.extremes
    low_b, high_b = out.extremes
    near: Mask = source.psum == out.psum
    near &= first + low_a * source.size < second + (high_b + 1) * out.size
    near &= second + low_b * out.size < first + (high_a + 1) * source.size
    near &= source.partition < out.partition + out.channels
    near &= out.partition < source.partition + source.channels
    near &= source.known_walk & out.known_walk
    if near.any():
        same: Mask = (source.address == out.address) & (source.size == out.size)
        for slot in range(min(source.slots, out.slots)):
            same &= (source.nums[slot] == out.nums[slot]) & (source.steps[slot] == out.steps[slot])
        near &= ~same
    return near


def _really(source: Walk, out: Walk, at: int) -> bool:
    first = (int(source.size[at]), _pairs(source, at))
    second = (int(out.size[at]), _pairs(out, at))
    distance = int(out.byte[at] - source.byte[at])
    if first == second and distance == 0 and source.partition[at] == out.partition[at]:
        return False
    return share_bytes(distance, first, second)


def overlap_checks(row: isa.BundleKind, generation: isa.Generation) -> Checks:
    """Instructions that read and write."""
    fields = {role.access: role.field for role in row.roles}
    if len(fields) < 2:
        return

    def ok(batch: Batch) -> Mask:
        source, out = batch.walk(fields["read"]), batch.walk(fields["write"])
        near = _boxes(batch, source, out)
        for at in np.flatnonzero(near):
            near[at] = _inside(source, int(at)) and _inside(out, int(at)) and _really(source, out, int(at))
        return ~near

    def explain(batch: Batch, at: int) -> Explained:
        source, out = batch.walk(fields["read"]), batch.walk(fields["write"])
        return Explained(
            f"{batch.row.mnemonic} writes bytes that it also reads: {_text(source, at)} and {_text(out, at)}",
            f"source {_text(source, at)}, destination {_text(out, at)}",
            "walks without a common byte, or the same walk",
            (_apart(source, out, at), "go through a buffer of its own"),
        )

    yield Check(_OVERLAP, fields["write"], ok, explain)


def _ends(walk: Walk, at: int) -> tuple[int, int]:
    size, byte = int(walk.size[at]), int(walk.byte[at])
    return byte + int(walk.extremes.low[at]) * size, byte + (int(walk.extremes.high[at]) + 1) * size


def _inside(walk: Walk, at: int) -> bool:
    """Walks that leave their partition have a rule of their own."""
    low, high = _ends(walk, at)
    return low >= 0 and high <= int(walk.room[at])


def _text(walk: Walk, at: int) -> str:
    low, high = _ends(walk, at)
    first = int(walk.partition[at])
    channels = walk.channels if isinstance(walk.channels, int) else int(walk.channels[at])
    memory = "PSUM" if walk.psum[at] else "SB"
    return f"{memory} partitions {first} to {first + channels - 1}, bytes {low} to {high - 1}"


def _apart(source: Walk, out: Walk, at: int) -> Cure:
    low, high = _ends(source, at)
    mine, end = _ends(out, at)
    room = int(out.room[at])
    behind = -(-high // 8) * 8 - mine
    before = (low - end) // 8 * 8
    move = behind if end + behind <= room else before
    text = "place the destination apart from the source"
    if not 0 <= mine + move <= room - (end - mine):
        return Cure(text)
    path = f"{out.role.field}.start_addr" if not out.indirect[at] else f"{out.role.field}.data_addr"
    return Cure(f"{text}, {move:+d} bytes", {path: int(out.word[at]) + move})
