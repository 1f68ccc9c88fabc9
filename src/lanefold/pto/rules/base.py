"""How PTO rules are written and run: one small function per rule, its docstring the published text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from lanefold.diagnostics import Cure, Diagnostic, LanefoldError, Rule, Severity
from lanefold.pto.calls import Call


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a rule has found: the sentence, the value, what may stand there, ways out, and the operand it is about."""

    message: str
    got: str
    allowed: str
    cures: Sequence[Cure]
    role: str = ""
    field: str = ""


Check = Callable[[Call], Iterator[Evidence]]

CHECKS: list[tuple[Rule, Check]] = []
"""Every rule for single calls with its function, in the order in which they speak."""


def rule(
    code: str, source: str, *, severity: Severity = Severity.ERROR, predicate: str = ""
) -> Callable[[Check], Check]:
    """Make a function the rule of this code; the first paragraph of its docstring is the rule's text."""

    def enter(check: Check) -> Check:
        text = " ".join((check.__doc__ or "").split("\n\n")[0].split())
        CHECKS.append((Rule(code, text, source, severity=severity, predicate=predicate), check))
        return check

    return enter


def _count_errors(call: Call) -> int:
    return sum(1 for row, check in CHECKS if row.severity is Severity.ERROR for _ in check(call))


def _outcome(call: Call, check: Check, cure: Cure, before: int) -> int | None:
    """Errors left after a cure, or None where the cure does not help."""
    try:
        cured = call.changed(cure.changes)
    except LanefoldError:
        return None
    if any(True for _ in check(cured)):
        return None
    left = _count_errors(cured)
    return left if left < before or left == 0 else None


def legal_cures(call: Call, check: Check, cures: Sequence[Cure]) -> list[Cure]:
    """The cures that silence the rule without new errors, those that leave no error at all first; advice comes last."""
    before = _count_errors(call) + 1
    rated = [(cure, _outcome(call, check, cure, before)) for cure in cures if cure.changes]
    kept = sorted(
        ((left, n, cure) for n, (cure, left) in enumerate(rated) if left is not None), key=lambda row: row[:2]
    )
    return [cure for _, _, cure in kept] + [cure for cure in cures if not cure.changes]


def _finding(call: Call, row: Rule, check: Check, evidence: Evidence) -> Diagnostic:
    place = call.place
    if evidence.role:
        name = call.operands[evidence.role].name if evidence.role in call.operands else ""
        place = replace(place, operand=f"{evidence.role} {name}".strip())
    if evidence.field:
        place = replace(place, field=evidence.field)
    return row.finding(
        evidence.message,
        got=evidence.got,
        allowed=evidence.allowed,
        cures=legal_cures(call, check, evidence.cures) or elsewhere(call),
        place=place,
    )


def elsewhere(call: Call) -> list[Cure]:
    """Targets on which the same call is legal; where there is none, the advice to lower the operation by hand."""
    others = [name for name in call.op.support if name != call.target.name]
    legal = [name for name in others if not _count_errors(call.changed({"target": name}))]
    cures = [Cure(f"run it on target {name}, where the call is legal", {"target": name}) for name in legal]
    return cures or [Cure("compute this step on the host, and load its result")]


def check_call(call: Call) -> list[Diagnostic]:
    """Findings of all rules about one call; only shapes, types and places are looked at, never data."""
    return [_finding(call, row, check, evidence) for row, check in CHECKS for evidence in check(call)]
