"""The ledger: what became of every node of the source, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from lanefold import arguments
from lanefold.diagnostics import Rule, number_of
from lanefold.numerics.dtypes import nearest_names
from lanefold.program.prices import known

_NODE = Rule("PROGRAM-LEDGER-NODE", "A row of the ledger is asked for by the name of its node.", "Ledger", usage=True)
_FEW = 8
LARGEST = "largest_"
"""Beginning of the names of counters that hold a greatest value instead of a number of cases."""


def with_more(name: str, known: int, more: int) -> int:
    """A counter after one more count: the sum, or the greater of the two for a greatest value."""
    return max(known, more) if name.startswith(LARGEST) else known + more


DISPOSITIONS = ("emitted", "rewritten", "host", "refused")
"""What can become of a node: instructions of its own, instructions after a rewrite, host code, or nothing."""


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """One node of the source.

    Args:
        node: its name.
        op_type: its operator.
        disposition: one of `DISPOSITIONS`.
        route: datapath its instructions take, empty on the host.
        opcodes: opcode bytes of its instructions, in order of first use.
        bundles: instructions emitted; for tile targets, tile operations.
        bytes: size of those instructions.
        cycles: estimated cycles, least and greatest.
        reason: why, in one sentence: the rewrite, the re-tiling, or what keeps the node on the host.
        steps: what was done, piece by piece, where there are several pieces.
        counted: after a counting run, what its instructions passed over silently (NaN dropped, ties, …), by counter.
    """

    node: str
    op_type: str
    disposition: str
    route: str = ""
    opcodes: tuple[int, ...] = ()
    bundles: int = 0
    bytes: int = 0
    cycles: tuple[float, float] = (0.0, 0.0)
    reason: str = ""
    steps: tuple[str, ...] = ()
    counted: tuple[tuple[str, int], ...] = ()

    def to_text(self) -> str:
        """The row in one line."""
        low, high = self.cycles
        cycles = f"{low:,.0f}" if low == high else f"{low:,.0f} to {high:,.0f}"
        opcodes = " ".join(str(opcode) for opcode in self.opcodes)
        route = f"{self.route} [{opcodes}]" if opcodes else self.route
        size = number_of(self.bundles, "bundle" if self.bytes else "instruction")
        made = f" {route}, {size}, {cycles} cycles" if self.bundles else ""
        seen = "".join(f"; {name.replace('_', ' ')} {count:,}" for name, count in self.counted)
        return f"{self.node} {self.op_type} {self.disposition}:{made}" + (
            f" ({self.reason}{seen})" if self.reason or seen else ""
        )

    def to_dict(self) -> dict[str, object]:
        """The row as plain data; a greatest number of cycles that nobody knows is None."""
        return asdict(self) | {"cycles": known(self.cycles)}


class Ledger(Sequence[LedgerRow]):
    """All rows, in the order of the source."""

    def __init__(self, rows: Sequence[LedgerRow]) -> None:
        self.rows = tuple(rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index):  # type: ignore[no-untyped-def]
        if not isinstance(index, slice) and arguments.as_integer(index) is None:
            wanted = "an integer or a slice; rows by name are given by row(name)"
            raise arguments.refused("Ledger", "index", index, wanted, "ask ledger.row(name)")
        return self.rows[index]

    def __iter__(self) -> Iterator[LedgerRow]:
        return iter(self.rows)

    def row(self, node: str) -> LedgerRow:
        """The row of a node.

        Raises:
            LanefoldError: if no node has that name.
        """
        for row in self.rows:
            if isinstance(node, str) and row.node == node:
                return row
        names = [row.node for row in self.rows]
        near = nearest_names(node, names) if isinstance(node, str) and names else names[:1]
        raise _NODE.error(
            f"the ledger has no node {arguments.shown(node)}",
            got=arguments.shown(node),
            allowed=f"{', '.join(names[:_FEW])}{', …' * (len(names) > _FEW)} ({number_of(len(names), 'name')})",
            cures=[f"ask for {name!r}" for name in near] or ["compile a model that has nodes"],
        )

    def counting(self, counted: Mapping[str, Mapping[str, int]]) -> Ledger:
        """The ledger with what a run counted, by node and counter; counters at zero are left out."""
        return Ledger(
            [
                replace(row, counted=tuple((name, n) for name, n in counted.get(row.node, {}).items() if n))
                for row in self.rows
            ]
        )

    @property
    def counted(self) -> dict[str, int]:
        """What a run counted, over all nodes."""
        total: dict[str, int] = {}
        for row in self.rows:
            for name, count in row.counted:
                total[name] = with_more(name, total.get(name, 0), count)
        return total

    @property
    def counts(self) -> dict[str, int]:
        """Rows per disposition; they add up to the number of nodes."""
        return {name: sum(row.disposition == name for row in self.rows) for name in DISPOSITIONS}

    @property
    def bundles(self) -> int:
        """Instructions of all nodes."""
        return sum(row.bundles for row in self.rows)

    @property
    def bytes(self) -> int:
        """Bytes of all instructions."""
        return sum(row.bytes for row in self.rows)

    @property
    def cycles(self) -> tuple[float, float]:
        """Estimated cycles of all instructions one after the other, least and greatest."""
        return sum(row.cycles[0] for row in self.rows), sum(row.cycles[1] for row in self.rows)

    def to_text(self) -> str:
        """A line for each node that is not on the host, and the counts."""
        lines = [row.to_text() for row in self.rows if row.disposition != "host"]
        counts = ", ".join(f"{count} {name}" for name, count in self.counts.items())
        return "\n".join([*lines, f"{number_of(len(self.rows), 'node')}: {counts}"])

    def __str__(self) -> str:
        return self.to_text()

    def __repr__(self) -> str:
        counts = ", ".join(f"{count:,} {name}" for name, count in self.counts.items())
        return f"<Ledger of {number_of(len(self.rows), 'node')}: {counts}>"

    def to_dict(self) -> dict[str, object]:
        """Rows and totals as plain data."""
        return {
            "rows": [row.to_dict() for row in self.rows],
            "counts": self.counts,
            "nodes": len(self.rows),
            "bundles": self.bundles,
            "bytes": self.bytes,
            "cycles": known(self.cycles),
        }
