"""Prices: cycles with the rule that gave them, never a bare number."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class CostRow:
    """What one instruction costs.

    Args:
        instruction: its name in the program.
        engine: engine it is bound to.
        low: least cycles the model allows.
        high: greatest cycles; equal to ``low`` where the model gives one number, infinite where it knows none.
        clock_ghz: clock of the engine.
        model: name of the cost model.
        rule: the formula that fired, with its numbers.
        bound: what limits it: ``start-up``, ``streaming`` or ``port``.
        validity: how the number is founded, in the model's words.
        node: source node.
        elements: elements per partition that the work counts.
        source: where the formula stands.
    """

    instruction: str
    engine: str
    low: float
    high: float
    clock_ghz: float
    model: str
    rule: str
    bound: str
    validity: str
    node: str = ""
    elements: int = 0
    source: str = ""

    @property
    def ns(self) -> tuple[float, float]:
        """Nanoseconds, least and greatest."""
        return self.low / self.clock_ghz, self.high / self.clock_ghz

    def to_dict(self) -> dict[str, object]:
        """The row as plain data, with nanoseconds; a greatest number that nobody knows is None."""
        low, high = known((self.low, self.high))
        return asdict(self) | {"low": low, "high": high, "ns": known(self.ns)}


@dataclass(frozen=True, slots=True)
class ProgramCost:
    """The price of a program: one row per instruction, and totals that keep the bounds.

    Instructions of one engine follow one another; across engines the total lies between the busiest engine (full
    overlap) and the sum of all (no overlap). Transfers and host steps are not priced.
    """

    rows: tuple[CostRow, ...]
    model: str

    @property
    def engines(self) -> dict[str, tuple[float, float]]:
        """Nanoseconds per engine, least and greatest."""
        totals: dict[str, tuple[float, float]] = {}
        for row in self.rows:
            low, high = totals.get(row.engine, (0.0, 0.0))
            totals[row.engine] = (low + row.ns[0], high + row.ns[1])
        return totals

    @property
    def ns(self) -> tuple[float, float]:
        """Nanoseconds of the whole, from full overlap of the engines to none."""
        busy = self.engines.values()
        return max((low for low, _ in busy), default=0.0), sum(high for _, high in busy)

    @property
    def cycles(self) -> tuple[float, float]:
        """Cycles of all instructions added up, least and greatest, each at its engine's clock."""
        return sum(row.low for row in self.rows), sum(row.high for row in self.rows)

    def to_dict(self) -> dict[str, object]:
        """Rows and totals as plain data."""
        return {
            "model": self.model,
            "rows": [row.to_dict() for row in self.rows],
            "engines_ns": {name: known(bounds) for name, bounds in self.engines.items()},
            "cycles": known(self.cycles),
            "ns": known(self.ns),
            "not_priced": ["transfers between DRAM and on-chip memory", "host steps"],
        }


def known(bounds: Sequence[float]) -> list[float | None]:
    """Least and greatest as plain data: None stands for an infinite one, which JSON does not have."""
    return [None if math.isinf(each) else each for each in bounds]


def total(rows: Sequence[CostRow]) -> tuple[float, float]:
    """Cycles of some rows added up, least and greatest."""
    return sum(row.low for row in rows), sum(row.high for row in rows)
