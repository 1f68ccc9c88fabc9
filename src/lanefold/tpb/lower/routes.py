"""All routes of an op side by side: legal or not, why, and at what price."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lanefold.diagnostics import LanefoldError, Place
from lanefold.ops import Op, Reduce
from lanefold.program.routes import Candidate
from lanefold.tpb import isa
from lanefold.tpb.lower.lower import built, lower
from lanefold.tpb.lower.plan import Builder
from lanefold.tpb.lower.reduce import lower_cross_lane, lower_free_axis

_REDUCE_WAYS: dict[str, Callable[[Builder, Any], str]] = {
    "free-axis": lower_free_axis,
    "cross-lane": lower_cross_lane,
}


def routes(
    op: Op, place: Place, generation: isa.Generation, opcodes: isa.Reading, prefer: str = "cost"
) -> list[Candidate]:
    """Every route of an op, the chosen one marked.

    Raises:
        LanefoldError: if the preference is unknown.
    """
    found: list[Candidate] = []
    try:
        chosen = lower(op, place, generation=generation, opcodes=opcodes, prefer=prefer)
    except LanefoldError as error:
        if error.usage:
            raise
        return [Candidate(type(op).__name__.lower(), None, error.diagnostics)]
    if not isinstance(op, Reduce):
        return [Candidate(chosen.route, chosen, chosen=True)]
    for name, way in _REDUCE_WAYS.items():
        try:
            code = built(op, way, place, generation, opcodes)
        except LanefoldError as error:
            found.append(Candidate(name, None, error.diagnostics))
            continue
        found.append(Candidate(name, code, chosen=code.route == chosen.route))
    return found
