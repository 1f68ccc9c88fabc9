"""Prices: cycles with the rule that gave them, never a bare number."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

UNKNOWN = "unknown"
"""Bound and validity of an instruction that nobody can price."""


@dataclass(frozen=True, slots=True)
class CostRow:
    """What one instruction costs.

    Args:
        instruction: its name in the program.
        engine: engine it is bound to.
        low: least cycles the model allows.
        high: greatest cycles; equal to ``low`` where the model gives one number, infinite where it knows none.
        clock_ghz: clock of the engine, None where an unpriced instruction runs on an engine without a known one.
        model: name of the cost model.
        rule: the formula that fired, with its numbers.
        bound: what limits it: ``start-up``, ``streaming`` or ``port``; the greatest of ``terms`` for tiles.
        validity: how the number is founded, in the model's words.
        node: source node.
        elements: elements per partition that the work counts.
        source: where the formula stands.
        terms: cycles by kind, such as ``repeats`` and ``barriers``, where the model tells them apart.
        note: why a price is unknown or unusual.
        estimate: the model's own number between the two, or with unknown bounds; None where it gives a range alone.
    """

    instruction: str
    engine: str
    low: float
    high: float
    clock_ghz: float | None
    model: str
    rule: str
    bound: str
    validity: str
    node: str = ""
    elements: int = 0
    source: str = ""
    terms: Mapping[str, float] = field(default_factory=dict)
    note: str = ""
    estimate: float | None = None

    @property
    def unknown(self) -> bool:
        """Whether nobody knows how long it takes at most."""
        return math.isinf(self.high)

    @property
    def ns(self) -> tuple[float, float]:
        """Nanoseconds, least and greatest."""
        if self.clock_ghz is None:
            return 0.0, math.inf
        return self.low / self.clock_ghz, self.high / self.clock_ghz

    def __str__(self) -> str:
        cycles = cycles_text((self.low, self.high), self.estimate)
        known = f"{cycles} cycles, {time_text(self.ns)}; rule: {self.rule}; bound: {self.bound}"
        said = f"unknown; {self.note}" if self.unknown and self.estimate is None else known
        return f"{self.instruction} on {self.engine}: {said}; model {self.model}; validity: {self.validity}"

    def to_dict(self) -> dict[str, object]:
        """The row as plain data, with nanoseconds; a greatest number that nobody knows is None."""
        low, high = known((self.low, self.high))
        return asdict(self) | {"low": low, "high": high, "ns": known(self.ns)}


def unpriced(
    instruction: str, engine: str, model: str, note: str, *, clock_ghz: float | None = None, node: str = ""
) -> CostRow:
    """The row of an instruction that the model cannot price: from 0 cycles on, without a greatest number."""
    return CostRow(
        instruction=instruction,
        engine=engine,
        low=0.0,
        high=math.inf,
        clock_ghz=clock_ghz,
        model=model,
        rule="none",
        bound=UNKNOWN,
        validity=UNKNOWN,
        node=node,
        note=note,
    )


@dataclass(frozen=True, slots=True)
class ProgramCost:
    """The price of a program: one row per instruction, and totals that keep the bounds.

    Instructions of one engine follow one another; across engines the total lies between the busiest engine (full
    overlap) and the sum of all (no overlap). Where an instruction is unknown the total has a least number only;
    ``skipped`` counts the unknown ones that were left out, ``not_priced`` names what no row stands for, ``target`` for
    what the prices hold.
    """

    rows: tuple[CostRow, ...]
    model: str
    target: str
    skipped: int = 0
    not_priced: tuple[str, ...] = ("transfers between DRAM and on-chip memory", "host steps")

    @property
    def unknown(self) -> tuple[CostRow, ...]:
        """The rows of which nobody knows the greatest number."""
        return tuple(row for row in self.rows if row.unknown)

    def without_unknown(self) -> ProgramCost:
        """The price of the known instructions alone; the others are counted in ``skipped``."""
        kept = tuple(row for row in self.rows if not row.unknown)
        return replace(self, rows=kept, skipped=self.skipped + len(self.rows) - len(kept))

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

    @property
    def estimate(self) -> float | None:
        """The model's own numbers added up, in cycles; None where a row has none."""
        found = [row.estimate for row in self.rows if row.estimate is not None]
        return sum(found) if len(found) == len(self.rows) else None

    @property
    def terms(self) -> dict[str, float]:
        """The model's own numbers by kind, such as ``barriers``, over all rows that tell them apart, in cycles."""
        found: dict[str, float] = {}
        for row in self.rows:
            for kind, cycles in row.terms.items():
                found[kind] = found.get(kind, 0.0) + cycles
        return found

    def __str__(self) -> str:
        return _line(self)

    def __repr__(self) -> str:
        return f"<ProgramCost of {_instructions(len(self.rows))}, {_line(self)}>"

    def to_dict(self) -> dict[str, object]:
        """Rows and totals as plain data."""
        return {
            "model": self.model,
            "target": self.target,
            "rows": [row.to_dict() for row in self.rows],
            "engines_ns": {name: known(bounds) for name, bounds in self.engines.items()},
            "cycles": known(self.cycles),
            "ns": known(self.ns),
            "estimate": self.estimate,
            "terms": self.terms,
            "unknown": len(self.unknown),
            "skipped": self.skipped,
            "not_priced": list(self.not_priced),
        }


def known(bounds: Sequence[float]) -> list[float | None]:
    """Least and greatest as plain data: None stands for an infinite one, which JSON does not have."""
    return [None if math.isinf(each) else each for each in bounds]


def total(rows: Sequence[CostRow]) -> tuple[float, float]:
    """Cycles of some rows added up, least and greatest."""
    return sum(row.low for row in rows), sum(row.high for row in rows)


def cycles_text(cycles: tuple[float, float], estimate: float | None = None) -> str:
    """Cycles: the model's number with its bounds, a range alone, or the least where no greatest is known."""
    low, high = (f"{each:,.0f}" for each in cycles)
    if math.isinf(cycles[1]):
        least = f"at least {low}" if low != "0" else "unknown"
        return f"{estimate:,.0f} (bounds unknown)" if estimate is not None else least
    if low == high:
        return low
    span = f"up to {high}" if low == "0" else f"{low} to {high}"
    return span if estimate is None else f"{estimate:,.0f} ({span})"


def time_text(ns: tuple[float, float]) -> str:
    """Nanoseconds, or microseconds where they are many: a number, a range, or the least where no greatest is known."""
    low, high = ns
    if math.isinf(high) and low < 0.5:
        return "unknown"
    divisor, unit, digits = (1, "ns", 0) if (low if math.isinf(high) else high) < 1000 else (1000, "µs", 2)
    least, greatest = (f"{each / divisor:,.{digits}f}" for each in ns)
    if math.isinf(high):
        return f"at least {least} {unit}"
    if least == greatest:
        return f"{least} {unit}"
    return f"up to {greatest} {unit}" if low < 0.5 else f"{least} to {greatest} {unit}"


def _line(cost: ProgramCost) -> str:
    words = [f"model {cost.model} for {cost.target}"]
    if len(cost.engines) > 1:
        low, high = cost.ns
        words += ["from engines side by side to one after the other"] if low < high < math.inf else []
        words += [f"{name} {time_text(ns)}" for name, ns in cost.engines.items()]
    if cost.unknown:
        words.append(f"{_instructions(len(cost.unknown))} of unknown price")
    if cost.skipped:
        words.append(f"{_instructions(cost.skipped)} of unknown price left out")
    detail = "; ".join(words)
    rest = f"; without {' or '.join(cost.not_priced)}" if cost.not_priced else ""
    if not cost.rows:
        return f"cost: none ({detail}){rest}"
    cycles = cycles_text(cost.cycles, None if cost.unknown else cost.estimate)
    if cycles == "unknown":
        own = "" if cost.estimate is None else f", by the model itself {cost.estimate:,.0f} cycles"
        return f"cost: unknown{own} ({detail}){rest}"
    return f"cost: {cycles} {'cycle' if cycles.endswith(' 1') else 'cycles'}, {time_text(cost.ns)} ({detail}){rest}"


def _instructions(count: int) -> str:
    return f"{count:,} instruction{'s' * (count != 1)}"


def terms_text(terms: Mapping[str, float]) -> str:
    """Cycles by kind in one line, the greatest first."""
    ordered = sorted(((kind, cycles) for kind, cycles in terms.items() if cycles), key=lambda item: -item[1])
    return ", ".join(f"{kind} {cycles:,.0f}" for kind, cycles in ordered)
