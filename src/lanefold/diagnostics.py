"""Findings about programs and inputs: what is wrong, where, by which rule, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

_NOTHING: Mapping[str, object] = MappingProxyType({})


def number_of(number: int, noun: str) -> str:
    """A number of things, in the singular where it is one."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


class Severity(StrEnum):
    """How much a finding weighs: errors stop a program, warnings and infos do not."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a finding stands, in the user's own terms; every part may be left out.

    ``offset`` is a byte offset inside a bundle or file, ``line`` and ``column`` count from 1.
    """

    file: str = ""
    node: str = ""
    instruction: str = ""
    operand: str = ""
    field: str = ""
    offset: int | None = None
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        words = []
        if self.file:
            where = self.file
            if self.line is not None:
                where += f":{self.line}" + (f":{self.column}" if self.column is not None else "")
            words.append(where)
        elif self.line is not None:
            words.append(f"line {self.line}" + (f", column {self.column}" if self.column is not None else ""))
        named = (
            ("node", self.node),
            ("instruction", self.instruction),
            ("operand", self.operand),
            ("field", self.field),
        )
        words += [f"{name} {value}" for name, value in named if value]
        if self.offset is not None:
            words.append(f"byte +0x{self.offset:02X}")
        return ", ".join(words)


@dataclass(frozen=True, slots=True)
class Cure:
    """One way out: a sentence for people and, where it can be applied by a program, the values to set."""

    text: str
    changes: Mapping[str, object] = field(default_factory=lambda: _NOTHING)


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding of a rule.

    ``message`` is one sentence that names the value; ``got`` and ``allowed`` repeat the value and what could stand
    there; ``rule``, ``predicate`` and ``source`` say which rule speaks, what its vendor calls it, and where it is
    written.
    """

    code: str
    severity: Severity
    message: str
    place: Place
    got: str
    allowed: str
    rule: str
    source: str
    predicate: str
    cures: tuple[Cure, ...]

    def to_text(self) -> str:
        """The finding as a few lines of text."""
        where = str(self.place)
        lines = [f"{self.severity}[{self.code}] {self.message}"]
        if where:
            lines.append(f"  where    {where}")
        lines += [f"  got      {self.got}", f"  allowed  {self.allowed}"]
        named = f" ({self.predicate})" if self.predicate else ""
        lines.append(f"  rule     {self.rule}{named}")
        lines.append(f"  source   {self.source}")
        lines += [f"  cure     {cure.text}" for cure in self.cures]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, object]:
        """The finding as plain data for JSON; parts of the place that are not known are left out."""
        place = {name: getattr(self.place, name) for name in self.place.__slots__}
        return {
            "code": self.code,
            "severity": str(self.severity),
            "message": self.message,
            "place": {name: value for name, value in place.items() if value not in ("", None)},
            "got": self.got,
            "allowed": self.allowed,
            "rule": self.rule,
            "predicate": self.predicate,
            "source": self.source,
            "cures": [{"text": cure.text, "changes": dict(cure.changes)} for cure in self.cures],
        }


class LanefoldError(Exception):
    """The only exception that bad input raises; it carries one or more diagnostics.

    ``usage`` is true where the input could not be read or the request makes no sense (exit status 2), false where
    the input was understood and found illegal (exit status 1).
    """

    def __init__(self, diagnostics: Diagnostic | Iterable[Diagnostic], *, usage: bool = False) -> None:
        self.diagnostics: tuple[Diagnostic, ...] = (
            (diagnostics,) if isinstance(diagnostics, Diagnostic) else tuple(diagnostics)
        )
        self.usage = usage
        super().__init__("\n".join(d.to_text() for d in self.diagnostics))


RULES: dict[str, Rule] = {}
"""Every rule by its code; filled as the modules that own the rules are imported."""


@dataclass(frozen=True)
class Rule:
    """The published form of one rule; findings are made from it, so that none can lack its text or source.

    Args:
        code: stable code, such as ``TPB-POOL-FUNCTION``.
        text: the rule in one sentence, as the rule pages print it.
        source: document and section the rule comes from.
        severity: of its findings.
        predicate: the vendor's own name of the check, where it has one.
        usage: true for unreadable input and impossible requests, see `LanefoldError`.
    """

    code: str
    text: str
    source: str
    severity: Severity = Severity.ERROR
    predicate: str = ""
    usage: bool = False

    def __post_init__(self) -> None:
        if self.code in RULES:
            raise ValueError(f"rule code {self.code} stands twice")
        RULES[self.code] = self

    def finding(
        self, message: str, *, got: object, allowed: str, cures: Sequence[Cure | str], place: Place | None = None
    ) -> Diagnostic:
        """A finding of this rule.

        Raises:
            ValueError: if a part is missing; a finding without message, allowed set or cure is a defect of ours.
        """
        made = tuple(cure if isinstance(cure, Cure) else Cure(cure) for cure in cures)
        if not (message and allowed and made and all(cure.text for cure in made)):
            raise ValueError(f"finding of {self.code} is incomplete")
        return Diagnostic(
            code=self.code,
            severity=self.severity,
            message=message,
            place=place or Place(),
            got=str(got) or "an empty text",
            allowed=allowed,
            rule=self.text,
            source=self.source,
            predicate=self.predicate,
            cures=made,
        )

    def error(
        self, message: str, *, got: object, allowed: str, cures: Sequence[Cure | str], place: Place | None = None
    ) -> LanefoldError:
        """The exception that carries one finding of this rule; for use behind ``raise``."""
        finding = self.finding(message, got=got, allowed=allowed, cures=cures, place=place)
        return LanefoldError(finding, usage=self.usage)


def errors(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Those of the findings that stop a program."""
    return [d for d in diagnostics if d.severity is Severity.ERROR]
