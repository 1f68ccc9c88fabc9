"""The rules of PTO calls: which types, layouts, extents, scratch and places are legal on each target."""

from __future__ import annotations

from lanefold import arguments
from lanefold.diagnostics import Diagnostic
from lanefold.pto.calls import Call, make_call
from lanefold.pto.isa import OPERATIONS
from lanefold.pto.names import alias_note
from lanefold.pto.rules import extents, layouts, memory, scratch, types
from lanefold.pto.rules.base import CHECKS, check_call

__all__ = ["CHECKS", "check", "check_call", "extents", "layouts", "memory", "scratch", "types"]

_ORDER = [module.__name__ for module in (types, layouts, extents, scratch, memory)]
CHECKS.sort(key=lambda entry: _ORDER.index(entry[1].__module__))


def check(
    op: str,
    *operands: object,
    target: str = "cpu",
    form: str | None = None,
    is_binary: bool | None = None,
) -> list[Diagnostic]:
    """Findings about one operation on tiles or tile types, in the order of the C++ call; an empty list is a legal call.

    Raises:
        LanefoldError: where the operands make no call at all (PTO-OP-NAME, PTO-TARGET-NAME, PTO-OPERANDS,
            PTO-BINARY-FLAG, PTO-FORM-NAME).
    """
    if form is not None:
        arguments.text("check", "form", form, sorted({each.name for row in OPERATIONS.values() for each in row.forms}))
    if is_binary is not None:
        arguments.flag("check", "is_binary", is_binary)
    call: Call = make_call(op, operands, target=target, form=form, is_binary=is_binary)
    return [*check_call(call), *alias_note(op)]
