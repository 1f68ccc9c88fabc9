"""The 28 reduction and expansion operations of PTO, one row each."""

from __future__ import annotations

from lanefold.pto.isa.ground import FORMS
from lanefold.pto.isa.rows import Family, Operation
from lanefold.pto.isa.support import support

_OPERATORS = {
    "SUM": ("sum", "+"),
    "PROD": ("prod", "×"),
    "MAX": ("max", "max"),
    "MIN": ("min", "min"),
}
_BINARY = {
    "ADD": ("add", "{a} + {b}"),
    "SUB": ("sub", "{a} − {b}"),
    "MUL": ("mul", "{a} × {b}"),
    "DIV": ("div", "{a} ÷ {b}"),
    "MAX": ("max", "{b} > {a} ? {b} : {a}"),
    "MIN": ("min", "{b} < {a} ? {b} : {a}"),
    "EXPDIF": ("expdif", "exp({a} − {b})"),
}
_PAGE = "PTO overview: Reduce And Expand Instruction Set"

PAGE_ALIASES: dict[str, str] = {
    f"T{axis}EXP{short}": f"T{axis}EXPAND{full}"
    for axis in ("ROW", "COL")
    for short, full in (("SUB", "SUB"), ("MUL", "MUL"), ("DIV", "DIV"), ("DIF", "EXPDIF"))
}
"""Short names that stand on the overview page only; accepted on input, never written."""


def _aliases(name: str) -> tuple[str, ...]:
    return tuple(short for short, full in PAGE_ALIASES.items() if full == name)


def _reduction(axis: str, suffix: str) -> Operation:
    operator, sign = _OPERATORS[suffix]
    row = axis == "row"
    name = f"T{'ROW' if row else 'COL'}{suffix}"
    family = Family.ROW_REDUCE if row else Family.COLUMN_REDUCE
    names = ("R1",) if row else ("C1", "C2") if name == "TCOLSUM" else ("C1",)
    forms = tuple(FORMS[form] for form in names)
    effect = f"dst[i,0] = {sign} over j of src[i,j]" if row else f"dst[0,j] = {sign} over i of src[i,j]"
    source = f"PTO headers: {name}"
    return Operation(name, family, axis, operator, forms, (), effect, support(family, operator), name.lower(), source)


def _arg(axis: str, suffix: str) -> Operation:
    row = axis == "row"
    name = f"T{'ROW' if row else 'COL'}ARG{suffix}"
    family = Family.ROW_ARG if row else Family.COLUMN_ARG
    forms = (FORMS["R2"], FORMS["R3"]) if row else (FORMS["C3"], FORMS["C4"])
    extreme = "largest" if suffix == "MAX" else "smallest"
    effect = (
        f"dstIdx[i,0] = first j of the {extreme} src[i,j]"
        if row
        else f"dstIdx[0,j] = first i of the {extreme} src[i,j]"
    )
    rows = support(family, suffix.lower())
    return Operation(name, family, axis, suffix.lower(), forms, (), effect, rows, name.lower(), f"PTO headers: {name}")


def _expand(axis: str) -> Operation:
    row = axis == "row"
    name = f"T{'ROW' if row else 'COL'}EXPAND"
    family = Family.ROW_EXPAND if row else Family.COLUMN_EXPAND
    effect = "dst[i,j] = src[i,0]" if row else "dst[i,j] = src[0,j]"
    rows = support(family, "")
    return Operation(name, family, axis, "copy", (FORMS["E1"],), (), effect, rows, name.lower(), f"PTO headers: {name}")


def _expand_binary(axis: str, suffix: str) -> Operation:
    operator, formula = _BINARY[suffix]
    row = axis == "row"
    name = f"T{'ROW' if row else 'COL'}EXPAND{suffix}"
    family = Family.ROW_EXPAND_BINARY if row else Family.COLUMN_EXPAND_BINARY
    forms = (FORMS["E2"], FORMS["E3"]) if row else (FORMS["E2"],)
    places = ("src0[i,·]", "src1[i,·]") if row else ("src0[i,j]", "src1[0,j]")
    effect = "dst[i,j] = " + formula.format(a=places[0], b=places[1])
    aliases = _aliases(name)
    source = f"PTO headers: {name}" + (f"; short name from {_PAGE}" if aliases else "")
    rows = support(family, operator)
    return Operation(name, family, axis, operator, forms, aliases, effect, rows, name.lower(), source)


def _rows() -> list[Operation]:
    rows: list[Operation] = []
    for axis in ("row", "column"):
        rows += [_reduction(axis, suffix) for suffix in _OPERATORS]
        rows += [_arg(axis, suffix) for suffix in ("MAX", "MIN")]
    for axis in ("row", "column"):
        rows.append(_expand(axis))
        rows += [_expand_binary(axis, suffix) for suffix in _BINARY]
    return rows


OPERATIONS: dict[str, Operation] = {row.name: row for row in _rows()}
"""Every operation by its C++ name."""

NAMES: dict[str, str] = {
    spelling.lower(): row.name for row in OPERATIONS.values() for spelling in (row.name, *row.aliases)
}
"""Every accepted spelling in lower case, with the C++ name it stands for."""
