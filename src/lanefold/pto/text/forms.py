"""Which call form of its operation a PTO statement is written in."""

from __future__ import annotations

from lanefold.diagnostics import Cure
from lanefold.pto.calls import BINARY_FLAG, OPERANDS
from lanefold.pto.isa import Form, Operation
from lanefold.pto.text.lines import Statement


def run_flag(op: Operation, at: Statement) -> bool | None:
    """The run-time flag isBinary of a statement, None where it is not written.

    Raises:
        LanefoldError: PTO-BINARY-FLAG where it is no truth value, or stands with another operation.
    """
    given = at.keywords.get("isBinary")
    if given is None:
        return None
    given = given.lower() if isinstance(given, str) else given
    if op.name != "TCOLSUM" or given not in ("true", "false", 0, 1):
        raise BINARY_FLAG.error(
            f"isBinary = {given} does not go with {at.name}",
            got=str(given),
            allowed="true or false, with tcolsum",
            cures=["write {isBinary = false} with tcolsum", "leave it out"],
            place=at.at,
        )
    return given in ("true", 1)


def form_of(op: Operation, outputs: int, inputs: int, flag: bool | None, at: Statement) -> Form:
    """The form with so many outputs and inputs, scratch among the inputs or left out."""
    forms = [form for form in op.forms if form.outputs == outputs and (flag is None or form.name == "C2")]
    for form in forms:
        sources = len(form.operands) - form.outputs - form.scratch
        least = sources + (form.name == "E3") + (form.name == "C2" and flag is None)
        if least <= inputs <= sources + form.scratch:
            if form.name == "C2" and flag is None:
                break
            return form
    if op.name == "TCOLSUM" and inputs == 2 and flag is None:
        raise BINARY_FLAG.error(
            "tcolsum with a scratch tile needs isBinary",
            got="no isBinary",
            allowed="{isBinary = true} or {isBinary = false}",
            cures=["add {isBinary = false}: rows are added one by one"],
            place=at.at,
        )
    allowed = " or ".join(f"{op.mnemonic}({', '.join(form.operands)})" for form in op.forms)
    results, operands = f"{outputs} result{'s' * (outputs != 1)}", f"{inputs} operand{'s' * (inputs != 1)}"
    raise OPERANDS.error(
        f"{at.name} has no form with {results} and {operands}",
        got=f"{results}, {operands}",
        allowed=allowed,
        cures=[Cure(f"write it as {allowed}")],
        place=at.at,
    )


def flat_form(op: Operation, total: int, flag: bool | None, at: Statement) -> Form:
    """The form of a line that lists destinations and sources in one row; with scratch where that fits."""
    for least in (0, 1):
        for form in op.forms:
            if len(form.operands) - least * form.scratch == total and (form.name == "C2") == (flag is not None):
                return form
    return form_of(op, op.forms[-1].outputs, total - op.forms[-1].outputs, flag, at)
