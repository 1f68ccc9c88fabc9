"""Routes: the ways that an op could go, side by side, and the preference among them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lanefold.diagnostics import Diagnostic, Place, Rule
from lanefold.program.prices import total
from lanefold.program.program import Code

PREFERENCES = ("cost", "free-axis", "cross-lane", "row", "column")
"""Route preferences of all targets; each target refuses those that are not its own."""


@dataclass(frozen=True)
class Candidate:
    """One way an op could go: its code where it is legal, else what stands against it."""

    name: str
    code: Code | None
    against: tuple[Diagnostic, ...] = ()
    chosen: bool = False

    @property
    def cycles(self) -> tuple[float, float]:
        """Estimated cycles of the default cost model, least and greatest; (0, 0) where there is no price."""
        return total(self.code.cost()) if self.code else (0.0, 0.0)


def require_preference(prefer: str, known: Sequence[str], rule: Rule, place: Place) -> None:
    """Refuse a preference that a target does not know, before there is an op to prefer a route for.

    Raises:
        LanefoldError: a finding of ``rule`` for any word that is not among ``known``.
    """
    if prefer not in known:
        raise rule.error(
            f"there is no preference {prefer!r}",
            got=prefer,
            allowed=", ".join(known),
            place=place,
            cures=["write cost"],
        )
