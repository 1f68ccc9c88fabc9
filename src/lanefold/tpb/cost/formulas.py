"""The cycle formulas, each written once for numbers and for arrays of numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lanefold.tpb import isa
from lanefold.tpb.isa import timing

Number = Any
"""A number, or an array of numbers over many configurations."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """What a formula is written in.

    Args:
        opcode: BIR opcode.
        elements: elements per partition that the work counts.
        indices: of a gather, per partition.
        cross_lane: whether a reduce folds partitions.
        transposed: whether a reduce transposes first.
        pairs: whether bfloat16 elements go through in pairs.
        scalar: whether the Scalar engine runs it.
    """

    opcode: str
    elements: Number
    indices: Number = 0
    cross_lane: bool = False
    transposed: bool = False
    pairs: Number = False
    scalar: bool = False


@dataclass(frozen=True, slots=True)
class Formula:
    """One row: cycles of streaming, least and greatest, and the words that say so.

    ``start`` is start-up that the formula itself contains, ``starts_within`` tells that its work contains all of it;
    ``published`` tells a vendor's formula from ours.
    """

    low: Callable[[Sizes], Number]
    rule: Callable[[Sizes], str]
    high: Callable[[Sizes], Number] | None = None
    start: int = 0
    published: bool = True
    starts_within: bool = False

    def span(self, sizes: Sizes) -> tuple[Number, Number]:
        """Cycles of streaming, least and greatest."""
        low = self.low(sizes)
        return low, low if self.high is None else self.high(sizes)


def _chunk(s: Sizes) -> Number:
    """Elements of one gather chunk: the whole table where it is smaller than a chunk."""
    whole = s.elements < isa.GATHER_CHUNK
    return s.elements * whole + isa.GATHER_CHUNK * (1 - whole)


def _chunks(s: Sizes) -> Number:
    return -(-s.elements // isa.GATHER_CHUNK)


def _paired(s: Sizes) -> Number:
    return s.elements / 2 * s.pairs + s.elements * (1 - s.pairs)


_SERIAL, _START, _INTERVAL = timing.CROSS_LANE_SERIAL, timing.GPSIMD_START, timing.MINIMUM_INTERVAL

_POOL = Formula(lambda s: s.elements, lambda s: f"{s.elements} elements read", published=False)
_REDUCE = Formula(lambda s: s.elements, lambda s: f"{s.elements}")
_PAIRS = Formula(_paired, lambda s: f"{s.elements} / 2 (bfloat16 pairs)")
_TRANSPOSED = Formula(lambda s: 2 * s.elements, lambda s: f"2 × {s.elements} (transposed)", published=False)
_CROSS_LANE = Formula(
    lambda s: s.elements,
    lambda s: f"{s.elements} to {_SERIAL} × {s.elements}",
    lambda s: _SERIAL * s.elements,
    _START,
    published=False,
)
_OTHERS: dict[str, Formula] = {
    "Pool": _POOL,
    "Max": _REDUCE,
    "MatchReplace": _REDUCE,
    "MaxIndex": Formula(lambda s: s.elements + _INTERVAL, lambda s: f"{s.elements} + {_INTERVAL} (two bundles)"),
    "Reciprocal": Formula(
        lambda s: timing.RECIPROCAL_CYCLES * s.elements, lambda s: f"{timing.RECIPROCAL_CYCLES} × {s.elements}"
    ),
    "Iota": Formula(lambda s: s.elements, lambda s: f"{s.elements}", start=_START),
    "Gather": Formula(
        lambda s: _chunks(s) * (2 * _START + _chunk(s) + s.indices),
        lambda s: f"{_chunks(s)} × (2 × {_START} + {_chunk(s)} + {s.indices})",
        published=False,
        starts_within=True,
    ),
}


FILL = "Memset"
"""Opcode of a fill, which is no instruction of the leg but runs between them."""
_OTHERS[FILL] = Formula(_paired, lambda s: f"{s.elements}" + (" / 2 (zeros of 16 bits)" if s.pairs else ""))


def formula(sizes: Sizes) -> Formula:
    """The row that holds for an instruction; source: NKI ISA reference, October 2025, and the project's model."""
    if sizes.opcode == "Reciprocal" and sizes.scalar:
        return _REDUCE
    if sizes.opcode != "TensorReduce":
        return _OTHERS[sizes.opcode]
    if sizes.cross_lane:
        return _CROSS_LANE
    if sizes.transposed:
        return _TRANSPOSED
    return _REDUCE if sizes.pairs is False else _PAIRS
