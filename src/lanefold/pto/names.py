"""Looking up PTO names as people write them, with a suggestion where a name is unknown."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches

from lanefold.arguments import shown
from lanefold.diagnostics import Cure, Diagnostic, Place, Rule, Severity
from lanefold.pto.isa import (
    COMPACT_MODES,
    ELEMENTS,
    LAYOUTS,
    LOCATIONS,
    NAMES,
    OPERATIONS,
    PADS,
    PAGE_ALIASES,
    TARGETS,
    ElementType,
    Layout,
    Operation,
    Target,
)

_HEADERS = "PTO headers: tile and instruction declarations"


def _rule(code: str, text: str) -> Rule:
    return Rule(code, text, _HEADERS, usage=True)


OP_NAME = _rule("PTO-OP-NAME", "An operation is one of the 28 reductions and expansions, or an accepted alias of one.")
TARGET_NAME = _rule("PTO-TARGET-NAME", "A PTO target is cpu, a2a3 or a5.")
TYPE_NAME = _rule("PTO-TYPE-NAME", "An element type is one of the eleven types that tiles may hold.")
LAYOUT_NAME = _rule("PTO-LAYOUT-NAME", "A layout is one of the five pairs of base order and box order.")
LOCATION_NAME = _rule("PTO-LOCATION-NAME", "A tile location is one of the ten memories of a core.")
PAD_NAME = _rule("PTO-PAD-NAME", "A pad value is null, zero, max or min.")
COMPACT_NAME = _rule("PTO-COMPACT-NAME", "A compact mode is null, normal, rowplusone or rowalignedpadding.")

OP_ALIAS = Rule(
    "PTO-OP-ALIAS",
    "The short names of the overview page stand for the names of the headers, which are the only ones that compile.",
    "PTO overview: Reduce And Expand Instruction Set; PTO headers: common instruction declarations",
    severity=Severity.INFO,
)

TYPE_ALIASES: dict[str, str] = (
    {row.numpy: row.name for row in ELEMENTS.values()}
    | {row.cpp: row.name for row in ELEMENTS.values()}
    | {"fp32": "f32", "fp16": "f16"}
)
"""Other spellings of element types that are read."""


def _word(rule: Rule, kind: str, name: object, known: Collection[str], field: str) -> str:
    found = name.strip().lower() if isinstance(name, str) else ""
    if found not in known:
        raise _unknown(rule, kind, name, known, field)
    return found


def _unknown(rule: Rule, kind: str, got: object, allowed: Iterable[str], field: str) -> Exception:
    known = list(allowed)
    near = get_close_matches(
        got.lower() if isinstance(got, str) else "", [name.lower() for name in known], n=1, cutoff=0.5
    )
    best = next((name for name in known if near and name.lower() == near[0]), known[0])
    return rule.error(
        f"{kind} {shown(got)} is not known",
        got=shown(got),
        allowed=", ".join(known),
        cures=[Cure(f"write {best}", {field: best})],
        place=Place(field=field),
    )


def _find(table: Mapping[str, str], name: object) -> str | None:
    return table.get(name.strip().lower()) if isinstance(name, str) else None


_ELEMENT_NAMES = {name: name for name in ELEMENTS} | TYPE_ALIASES
_LAYOUT_NAMES = {name.lower(): name for name in LAYOUTS}
_TARGET_NAMES = {name: name for name in TARGETS}


def element(name: object) -> ElementType:
    """The element type of this name; NumPy and C++ spellings are read as well.

    Raises:
        LanefoldError: PTO-TYPE-NAME for an unknown name.
    """
    found = ELEMENTS.get(_find(_ELEMENT_NAMES, name) or "")
    if found is None:
        raise _unknown(TYPE_NAME, "element type", name, ELEMENTS, "dtype")
    return found


def layout(name: object) -> Layout:
    """The layout of this name.

    Raises:
        LanefoldError: PTO-LAYOUT-NAME for an unknown name.
    """
    found = _find(_LAYOUT_NAMES, name)
    if found is None:
        raise _unknown(LAYOUT_NAME, "layout", name, LAYOUTS, "layout")
    return LAYOUTS[found]


def layout_of(base: str, box: str) -> Layout:
    """The layout with this base and box order, in the C++ words.

    Raises:
        LanefoldError: PTO-LAYOUT-NAME for a pair that has no name.
    """
    for row in LAYOUTS.values():
        if (row.base.lower(), row.box.lower()) == (base.lower(), box.lower()):
            return row
    raise _unknown(
        LAYOUT_NAME, "layout", f"{base}, {box}", (f"{row.base}, {row.box}" for row in LAYOUTS.values()), "layout"
    )


def target(name: object) -> Target:
    """The PTO target of this name.

    Raises:
        LanefoldError: PTO-TARGET-NAME for an unknown name.
    """
    found = _find(_TARGET_NAMES, name)
    if found is None:
        raise _unknown(TARGET_NAME, "target", name, TARGETS, "target")
    return TARGETS[found]


def operation(name: object) -> Operation:
    """The operation of this name; the short names of the overview page and any case are read as well.

    Raises:
        LanefoldError: PTO-OP-NAME for an unknown name.
    """
    found = _find(NAMES, name.removeprefix("pto.") if isinstance(name, str) else name)
    if found is None:
        raise _unknown(OP_NAME, "operation", name, OPERATIONS, "op")
    return OPERATIONS[found]


def alias_note(name: str) -> list[Diagnostic]:
    """A note where an operation is given by a short name of the overview page."""
    short = name.removeprefix("pto.").upper()
    full = PAGE_ALIASES.get(short)
    if full is None:
        return []
    return [
        OP_ALIAS.finding(
            f"{short} is read as {full}; no header declares {short}",
            got=short,
            allowed=full,
            cures=[Cure(f"write {full}", {"op": full})],
            place=Place(instruction=full),
        )
    ]


def location(name: object) -> str:
    """The location's name in texts, from any spelling.

    Raises:
        LanefoldError: PTO-LOCATION-NAME for an unknown name.
    """
    return _word(LOCATION_NAME, "location", name, LOCATIONS, "location")


def pad(name: object) -> str:
    """The pad value's name in texts, from any spelling.

    Raises:
        LanefoldError: PTO-PAD-NAME for an unknown name.
    """
    return _word(PAD_NAME, "pad value", name, PADS, "pad")


def compact(name: object) -> str:
    """The compact mode's name in texts, from any spelling.

    Raises:
        LanefoldError: PTO-COMPACT-NAME for an unknown name.
    """
    return _word(COMPACT_NAME, "compact mode", name, COMPACT_MODES, "compact")
