"""Operands of the compiled loops: a pattern over a memory of bytes."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from lanefold.numerics.dtypes import Dtype

Pairs = NDArray[np.int64]


class Access:
    """A pattern over a memory of uint8 [partitions, bytes]: channel c starts at partition + c.

    ``start`` and ``steps`` count elements, ``nums`` and ``steps`` are innermost first; ``start`` is relative to the
    beginning of a partition.

    Args:
        memory: C-contiguous bytes [partitions, bytes].
        dtype: type of the elements.
        partition: partition of channel 0.
        channels: how many partitions are walked.
        start: first element inside a partition.
        nums: elements per dim.
        steps: elements from one to the next, per dim.
        pairs: the dims as `Access.pairs` makes them, where the caller has them already.
        first: position of the first element in the whole memory, where the caller has checked the pattern already.
    """

    __slots__ = ("_first", "_pairs", "channels", "dtype", "memory", "nums", "partition", "start", "steps")

    def __init__(
        self,
        memory: NDArray[np.uint8],
        dtype: Dtype,
        partition: int,
        channels: int,
        start: int,
        nums: tuple[int, ...],
        steps: tuple[int, ...],
        pairs: Pairs | None = None,
        first: int = -1,
    ) -> None:
        self.memory = memory
        self.dtype = dtype
        self.partition = partition
        self.channels = channels
        self.start = start
        self.nums = nums
        self.steps = steps
        self._pairs = pairs
        self._first = first

    def over(self, memory: NDArray[np.uint8]) -> Access:
        """The same pattern over another memory of the same shape."""
        return Access(memory, self.dtype, self.partition, self.channels, self.start, self.nums, self.steps)

    def part(self, low: int, high: int) -> Access:
        """Channels low to high-1 of the pattern."""
        if low == 0 and high == self.channels:
            return self
        first, pairs = self.first + low * self.pitch, self.pairs.copy()
        pairs[-1, 0] = high - low
        place = self.partition + low
        return Access(self.memory, self.dtype, place, high - low, self.start, self.nums, self.steps, pairs, first)

    @property
    def elements(self) -> int:
        """Elements per channel."""
        return math.prod(self.nums)

    @property
    def pitch(self) -> int:
        """Elements from one partition to the next."""
        return int(self.memory.shape[1]) // self.dtype.bytes

    @property
    def pairs(self) -> Pairs:
        """A (num, step) row per dim, innermost first, and a last one for the channels; int64 [dims + 1, 2]."""
        if self._pairs is None:
            rows = [*zip(self.nums, self.steps, strict=True), (self.channels, self.pitch)]
            self._pairs = np.array(rows, np.int64)
        return self._pairs

    @property
    def span(self) -> tuple[int, int]:
        """Bytes of a partition between which the pattern stays, the second exclusive."""
        reach = [(num - 1) * step for num, step in zip(self.nums, self.steps, strict=True)]
        low = self.start + sum(min(each, 0) for each in reach)
        high = self.start + sum(max(each, 0) for each in reach)
        return low * self.dtype.bytes, (high + 1) * self.dtype.bytes

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
        if self._first < 0:
            problem = self.problem
            if problem:
                raise IndexError(problem)
            self._first = self.partition * self.pitch + self.start
        return self._first


def checked(target: Access, size: int) -> int:
    """Position of the first element of a pattern that is to take ``size`` values.

    Raises:
        IndexError: if it has another number of elements or does not stay inside its memory.
    """
    if size != target.channels * target.elements:
        raise IndexError(f"{size} values for a pattern of {target.channels * target.elements} elements")
    return target.first
