"""What the machine refuses before it executes anything: bundles that no document gives a meaning to."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np

from lanefold.diagnostics import Cure, Diagnostic, Place, Rule, Severity
from lanefold.tpb import isa
from lanefold.tpb.binary import Stream
from lanefold.tpb.machine.tasks import place_of
from lanefold.tpb.rules.batch import Batch
from lanefold.tpb.rules.check import batches, findings_of, stream_errors
from lanefold.tpb.rules.checks import Check
from lanefold.tpb.rules.counts import count_checks
from lanefold.tpb.text.syntax import words

_COUNTS = Rule(
    "TPB-MACHINE-COUNT",
    "The machine executes bundles whose operands have element counts that fit together; of others no document says "
    "what they write.",
    "ISA headers: element counts per opcode",
)
_NUMBER = Rule(
    "TPB-MACHINE-NUMBER",
    "A field holds one of the numbers that its table gives a meaning to.",
    "ISA headers: field enums",
)
_GENERATION = Rule(
    "TPB-MACHINE-GENERATION",
    "A machine executes streams of its own generation.",
    "Generation table",
    usage=True,
)
_MEANINGS = ("subdim", "pool_func", "reduce_op", "reduce_axis", "index_miss", "dtype")
"""Value tables of the fields that decide what a bundle computes."""


def stopping(stream: Stream, legality: str) -> list[Diagnostic]:
    """Findings that stop a stream from being executed: of every rule (``strict``), or of the machine's own."""
    if legality == "strict":
        # What the rules only warn of still has no meaning that could be executed.
        return stream_errors(stream) or _counts(stream, frozenset({Severity.WARNING, Severity.INFO}))
    return _numbers(stream) or _counts(stream, frozenset(Severity))


def of_generation(stream: Stream, generation: isa.Generation) -> Stream:
    """The stream itself, if it is of a machine's generation.

    Raises:
        LanefoldError: ``TPB-MACHINE-GENERATION`` if it is of another one.
    """
    if stream.generation == generation:
        return stream
    raise _GENERATION.error(
        f"the stream is for {stream.generation}, the machine is a {generation}",
        got=stream.generation,
        allowed=generation,
        cures=[f"run it on Machine({stream.generation!r})", f"make it for {generation}: decode or encode it anew"],
    )


def _counts(stream: Stream, severities: frozenset[Severity]) -> list[Diagnostic]:
    by_row = _checks(stream.generation, severities)
    if not any(isa.BUNDLES[number].name in by_row for number in np.unique(stream.kinds).tolist()):
        return []
    found = findings_of(stream, lambda batch: by_row.get(batch.row.name, ()))
    return [replace(each, code=_COUNTS.code, severity=_COUNTS.severity, rule=_COUNTS.text) for each in found]


@cache
def _checks(generation: isa.Generation, severities: frozenset[Severity]) -> dict[str, tuple[Check, ...]]:
    """The count checks with the severities given, of the instructions that have some."""
    chosen = {
        row.name: tuple(check for check in count_checks(row, generation) if check.rule.severity in severities)
        for row in isa.BUNDLES
    }
    return {name: checks for name, checks in chosen.items() if checks}


def _numbers(stream: Stream) -> list[Diagnostic]:
    found: list[tuple[int, Diagnostic]] = []
    for batch in batches(stream):
        for field in isa.STRUCTS[batch.row.struct].fields:
            allowed = batch.row.allowed.get(field.name, ()) if field.values in _MEANINGS else ()
            wrong = ~np.isin(batch.column(field.name), allowed) if allowed else np.zeros(len(batch), bool)
            for at in np.flatnonzero(wrong).tolist():
                place = place_of(stream, int(batch.indices[at]))
                found.append((int(batch.indices[at]), _number(batch, field, at, place)))
    return [finding for _, finding in sorted(found, key=lambda entry: entry[0])]


def _number(batch: Batch, field: isa.Field, at: int, place: Place) -> Diagnostic:
    names = words(field.values, batch.generation)
    allowed = batch.row.allowed[field.name]
    number, first = int(batch.column(field.name)[at]), allowed[0]
    return _NUMBER.finding(
        f"{field.name} of {batch.row.mnemonic} is {number}",
        got=f"{number} {names[number]}" if number in names else number,
        allowed=", ".join(f"{each} {names[each]}" for each in allowed),
        cures=[Cure(f"write {first}, {names[first]}", {field.name: first})],
        place=replace(place, field=field.name, offset=field.offset),
    )
