"""Findings about assembly text: line, column, and a caret under the place."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from lanefold.diagnostics import Cure, Diagnostic, LanefoldError, Place, Rule
from lanefold.tpb.text.nodes import Spot

SYNTAX = Rule(
    "TPB-TEXT-SYNTAX",
    "A line is a directive, a raw bundle, or an instruction name followed by items of the form name=value.",
    "Assembly text grammar",
    usage=True,
)
NAME = Rule(
    "TPB-TEXT-NAME",
    "Instructions, items, modes, operators and element types are written by the names of the instruction tables.",
    "Instruction table; wire struct tables",
    usage=True,
)
VALUE = Rule(
    "TPB-TEXT-VALUE",
    "A value has the form that its item takes and fits the bytes of its field.",
    "Wire struct tables",
    usage=True,
)
ITEMS = Rule(
    "TPB-TEXT-ITEMS",
    "An instruction names each of its operands and its counting pattern, and no item twice.",
    "Wire struct tables",
    usage=True,
)
OPCODE = Rule(
    "TPB-TEXT-OPCODE",
    "An instruction has an opcode in the reading and exists in the generation that the header names.",
    "Instruction table: opcodes per reading",
    usage=True,
)
DIRECTIVE = Rule(
    "TPB-TEXT-DIRECTIVE",
    "The header has at most one .generation, .opcodes and .engine, before all bundles, in agreement with the call.",
    "Assembly text grammar",
    usage=True,
)


class Context(NamedTuple):
    """Where the reader stands: the text of the line and its number, counted from 1."""

    text: str
    line: int

    def finding(
        self,
        rule: Rule,
        spot: Spot,
        message: str,
        *,
        allowed: str,
        cures: Sequence[Cure | str],
        got: str = "",
        field: str = "",
    ) -> Diagnostic:
        """A finding that points at a piece of the line."""
        # Tabs keep their width, so the caret stands under the piece in any terminal.
        margin = "".join("\t" if letter == "\t" else " " for letter in self.text[: spot.column - 1])
        caret = "^" * max(1, len(spot.text))
        return rule.finding(
            f"{message}\n    {self.text}\n    {margin}{caret}",
            got=got or spot.text or "the end of the line",
            allowed=allowed,
            cures=cures,
            place=Place(line=self.line, column=spot.column, field=field),
        )

    def mistake(
        self,
        rule: Rule,
        spot: Spot,
        message: str,
        *,
        allowed: str,
        cures: Sequence[Cure | str],
        got: str = "",
        field: str = "",
    ) -> LanefoldError:
        """The exception that carries `finding`."""
        found = self.finding(rule, spot, message, allowed=allowed, cures=cures, got=got, field=field)
        return LanefoldError(found, usage=True)


def unknown(
    context: Context, spot: Spot, what: str, known: Iterable[str], *, other: str = "", field: str = ""
) -> LanefoldError:
    """The exception for a name that is none of the known ones; it suggests the nearest."""
    names = list(known)
    lower = {name.lower(): name for name in names}
    wrong = spot.text.lower()
    # A shortened name says more than one that merely has similar letters.
    near = [name for name in lower if len(wrong) > 1 and name.startswith(wrong)]
    near += [name for name in difflib.get_close_matches(wrong, lower, 3) if name not in near]
    cures = [Cure(f"write {lower[name]}", {"text": lower[name]}) for name in near[:3]]
    return context.mistake(
        NAME,
        spot,
        f"{spot.text!r} is no {what}",
        allowed=", ".join(names) + (f", or {other}" if other else ""),
        cures=cures or [f"write {names[0]}, or another of the names above"],
        field=field,
    )
