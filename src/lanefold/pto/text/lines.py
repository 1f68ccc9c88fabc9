"""Reading PTO text into statements, before any meaning is given to them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from lanefold.diagnostics import Cure, Place, Rule

SYNTAX = Rule(
    "PTO-TEXT-SYNTAX",
    "Every line is a statement of one of the three text forms.",
    "PTO AS: grammar; PTO overview: assembly, SSA and DPS forms",
    usage=True,
)

Scalar = int | float | str
"""A number, a register (with %), or a word."""


@dataclass(slots=True)
class Register:
    """A register as an operand, with subscripts where there are some."""

    name: str
    subscripts: list[Scalar] | None = None


@dataclass(slots=True)
class Statement:
    """One line: results, operation, operands, keywords, and the types in front of and behind the arrow."""

    name: str
    line: int
    results: list[str] = field(default_factory=list)
    registers: list[Register] = field(default_factory=list)
    numbers: list[Scalar] = field(default_factory=list)
    place: Scalar | None = None
    keywords: dict[str, Scalar | list[Scalar]] = field(default_factory=dict)
    outputs: list[Register] | None = None
    types: list[str] = field(default_factory=list)
    result_types: list[str] | None = None

    @property
    def at(self) -> Place:
        """The line as a place."""
        return Place(line=self.line, instruction=self.name)


@cache
def _parser() -> Any:
    from lark import Lark

    return Lark(
        (Path(__file__).parent / "pto.lark").read_text(encoding="utf-8"),
        parser="lalr",
        maybe_placeholders=True,
        propagate_positions=True,
    )


def _number(token: Any) -> int | float:
    text = str(token)
    if token.type == "FLOAT":
        return float(text)
    return int(text, 16) if token.type == "HEX" else int(text)


def _value(node: Any) -> Scalar | list[Scalar]:
    inner = node.children[0]
    if not hasattr(inner, "data"):
        return str(inner)
    if inner.data == "number":
        return _number(inner.children[0])
    return _list(inner)


def _list(node: Any) -> list[Scalar]:
    values = [_value(child) for child in node.children if child is not None]
    return [value for value in values if not isinstance(value, list)]


def _register(token: Any, subscripts: Any) -> Register:
    return Register(str(token)[1:], None if subscripts is None else _list(subscripts))


def _keyword(node: Any, statement: Statement) -> None:
    statement.keywords[str(node.children[0])] = _value(node.children[1])


def _argument(node: Any, statement: Statement) -> None:
    children = node.children
    if node.data == "register":
        statement.registers.append(_register(children[0], children[1] if len(children) > 1 else None))
    elif node.data == "immediate":
        statement.numbers.append(_number(children[0].children[0]))
    elif node.data == "place":
        statement.place = _number(children[1].children[0])
    else:
        _keyword(children[0], statement)


def _attributes(node: Any, statement: Statement) -> None:
    for child in node.children:
        if child is not None:
            _keyword(child, statement)


def _types(node: Any) -> list[str]:
    return [str(child.children[0]) for child in node.children]


def _inner(node: Any, statement: Statement) -> tuple[list[Register], list[str]]:
    registers: list[Register] = []
    types: list[str] = []
    for child in node.children[0].children:
        if child is None:
            continue
        if not hasattr(child, "data"):
            registers.append(Register(str(child)[1:]))
        elif child.data == "list":
            registers[-1].subscripts = _list(child)
        elif child.data == "types":
            types = _types(child)
        else:
            _attributes(child, statement)
    return registers, types


def _part(node: Any, statement: Statement) -> None:
    kind = node.data
    if kind == "results":
        statement.results = [str(token)[1:] for token in node.children]
    elif kind == "arguments":
        for child in node.children:
            _argument(child, statement)
    elif kind == "attributes":
        _attributes(node, statement)
    elif kind == "ins":
        statement.registers, statement.types = _inner(node, statement)
    elif kind == "outs":
        statement.outputs, statement.result_types = _inner(node, statement)
    else:
        first, second = node.children
        statement.types = _types(first)
        statement.result_types = None if second is None else _types(second)


def _statement(tree: Any) -> Statement:
    made: Statement | None = None
    later = []
    for child in tree.children:
        if child is None:
            continue
        if not hasattr(child, "data"):
            if child.type == "NAME":
                made = Statement(str(child), child.line)
        else:
            later.append(child)
    statement = made or Statement("", 0)
    for child in later:
        _part(child, statement)
    return statement


_WORDS = {
    "LPAR": "(",
    "RPAR": ")",
    "LSQB": "[",
    "RSQB": "]",
    "LBRACE": "{",
    "RBRACE": "}",
    "COMMA": ",",
    "COLON": ":",
    "EQUAL": "=",
    "HASH": "#",
    "PLACE": "@tile",
    "REGISTER": "%name",
    "STRING": "text in quotes",
    "TYPE": "!pto type",
    "FLOAT": "number",
    "HEX": "number",
    "INT": "number",
    "_NL": "end of line",
}
"""Names of the grammar's words for people."""


def _syntax_error(wrong: Any, text: str) -> Exception:
    lines = text.splitlines() or [""]
    line = wrong.line if getattr(wrong, "line", -1) and wrong.line > 0 else len(lines)
    column = wrong.column if getattr(wrong, "column", -1) and wrong.column > 0 else len(lines[-1]) + 1
    found = lines[line - 1].strip() if line <= len(lines) else ""
    expected = sorted(
        getattr(wrong, "accepts", None) or getattr(wrong, "expected", None) or getattr(wrong, "allowed", [])
    )
    words = ", ".join(dict.fromkeys(_WORDS.get(name, name.lower()) for name in expected)) or "the end of the line"
    return SYNTAX.error(
        f"the line is not understood from column {column} on",
        got=found or "the end of the text",
        allowed=words,
        cures=[
            Cure("write the line as in: %d = trowmax %s : !pto.tile<f32, 16, 32> -> !pto.tile<f32, 16, 8, valid=16x1>")
        ],
        place=Place(line=line, column=column),
    )


def read_lines(text: str) -> list[Statement]:
    """The statements of a text.

    Raises:
        LanefoldError: PTO-TEXT-SYNTAX with line and column.
    """
    from lark.exceptions import UnexpectedInput

    try:
        tree = _parser().parse(text + "\n")
    except UnexpectedInput as wrong:
        raise _syntax_error(wrong, text) from None
    return [_statement(child) for child in tree.children if hasattr(child, "data")]
