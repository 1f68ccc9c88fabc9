"""The difference report of a verification: a row per node, and the known causes with the cells they occurred in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from lanefold.report.table import number_text, table

if TYPE_CHECKING:
    from rich.console import RenderableType

_COLUMNS = ("node", "kind", "against", "largest", "ulp", "ulp to float64", "causes", "verdict", "first difference")


class Differences(Protocol):
    """What a verification found."""

    @property
    def rows(self) -> Sequence[Any]:
        """Comparisons."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data, with the meaning of every cause."""
        ...


def difference_parts(found: Differences) -> list[RenderableType | str]:
    """A table of all comparisons, and a line for each known cause that occurred."""
    rows = [
        (
            row.node,
            row.kind,
            row.against,
            number_text(row.largest),
            f"{row.ulp:,}",
            "" if row.exact_ulp is None else f"{row.exact_ulp:,}",
            ", ".join(f"{name} {cells:,}" for name, cells in row.causes),
            _verdict(row),
            "" if row.cell is None else f"{list(row.cell)}: {row.got} for {row.wanted}",
        )
        for row in found.rows
    ]
    causes: Mapping[str, Any] = found.to_dict()["causes"]
    return [
        table("", _COLUMNS, rows, ("largest", "ulp", "ulp to float64")),
        *(f"{name}, {_cells(each['cells'])}: {each['meaning']}" for name, each in causes.items()),
    ]


def _cells(count: int) -> str:
    return f"{count:,} cell{'s' * (count != 1)}"


def _verdict(row: Any) -> str:
    if row.cell is None:
        return "equal" if row.ok else f"differs in type or extents: {row.got} for {row.wanted}"
    if row.ok:
        return "explained by its causes" if row.causes else "within the tolerance"
    return "differs without a counted cause" if row.kind != "output" else "differs"
