"""Lines of assembly text to nodes, by the grammar; importing this module imports lark."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

from lark import Lark, Token, Transformer, UnexpectedCharacters, UnexpectedInput, UnexpectedToken, v_args

from lanefold.diagnostics import LanefoldError
from lanefold.tpb.text.mistakes import SYNTAX, Context
from lanefold.tpb.text.nodes import (
    Address,
    Call,
    Directive,
    Indirect,
    Item,
    Line,
    Operand,
    Pattern,
    Place,
    Raw,
    Spot,
    Statement,
)

_WORDS = {
    "$END": "the end of the line",
    "DIRECTIVE": "a directive such as .generation",
    "RAW": ".raw",
    "DIGITS": "128 hexadecimal digits",
    "MEMORY": "SB[…] or PSUM[…]",
    "REGISTER": "a register such as r5",
    "SHAPED": "shape_register",
    "WORD": "an address word such as @0x00001000",
    "DECIMAL": "a decimal number",
    "INTEGER": "a whole number",
    "NAME": "a name",
    "EQUAL": "'='",
    "LSQB": "'['",
    "RSQB": "']'",
    "LPAR": "'('",
    "RPAR": "')'",
    "COMMA": "','",
    "INDIRECT": "indirect(…)",
    "INDEX": "index",
    "DATA": "data",
    "NUM_ELEM": "num_elem",
}
"""The grammar's terminals in plain words, in the order in which they are listed to the reader."""

_CURES = {
    "DIGITS": "give the 64 bytes of the bundle as 128 hexadecimal digits",
    "EQUAL": "write every item as name=value, without a blank inside a name",
    "INTEGER": "write a whole number, such as 5 or 0x1000",
    "RSQB": "close the bracket",
    "RPAR": "close the parenthesis",
    "LSQB": "write the access pattern, such as [[8,2],[1,4]]",
    "COMMA": "separate the two numbers by a comma",
    "MEMORY": "write the operand as SB[partition, byte] dtype pattern",
    "NAME": "write a name, such as num_active_channels=128 for an item",
    "$END": "end the line here, or start a comment with ';'",
}
"""What to do where a terminal is missing; the first that applies is named."""


def parse(text: str, context: Context) -> Line | None:
    """The node of one line, ``None`` for a blank or comment line.

    Raises:
        LanefoldError: ``TPB-TEXT-SYNTAX``, pointing at the first piece that does not fit.
    """
    try:
        made: Line | None = _parser().parse(text)  # type: ignore[assignment]
    except UnexpectedInput as error:
        raise _explain(error, context) from None
    return made


@cache
def _parser() -> Lark:
    grammar = files("lanefold.tpb.text").joinpath("grammar.lark").read_text(encoding="utf-8")
    return Lark(grammar, parser="lalr", transformer=_Nodes(), maybe_placeholders=True)


def _explain(error: UnexpectedInput, context: Context) -> LanefoldError:
    if isinstance(error, UnexpectedToken):
        wanted = set(error.accepts or error.expected)
        token = error.token
        ended = token.type == "$END"
        spot = Spot("", len(context.text.rstrip()) + 1) if ended else Spot(str(token), error.column)
    elif isinstance(error, UnexpectedCharacters):
        wanted = set(error.allowed or ())
        spot = Spot(context.text[error.column - 1 : error.column], error.column)
    else:
        wanted, spot = set(), Spot("", len(context.text) + 1)
    known = [terminal for terminal in _WORDS if terminal in wanted]
    expected = ", ".join(_WORDS[terminal] for terminal in known) or "nothing more"
    cures = [_CURES[terminal] for terminal in _CURES if terminal in wanted][:2]
    what = repr(spot.text) if spot.text else "the end of the line"
    return context.mistake(
        SYNTAX,
        spot,
        f"{what} does not fit here, expected {' or '.join(expected.rsplit(', ', 1))}",
        allowed=expected,
        cures=cures or ["compare with a line that the disassembler writes"],
    )


def _spot(token: Token) -> Spot:
    return Spot(str(token), token.column or 1)


@v_args(inline=True)
class _Nodes(Transformer[Token, Any]):
    """Builds the nodes while the grammar is being matched."""

    def start(self, line: Line | None = None) -> Line | None:
        return line

    def directive(self, name: Token, value: Token) -> Directive:
        return Directive(_spot(name), _spot(value))

    def raw(self, _: Token, digits: Token) -> Raw:
        return Raw(_spot(digits))

    def instruction(self, mnemonic: Token, *items: Item) -> Statement:
        return Statement(_spot(mnemonic), items)

    def item(self, name: Token, value: Any) -> Item:
        return Item(_spot(name), _spot(value) if isinstance(value, Token) else value)

    def number(self, token: Token) -> Spot:
        return _spot(token)

    def call(self, head: Token, argument: Token) -> Call:
        return Call(_spot(head), _spot(argument))

    def operand(self, place: Address | Indirect, dtype: Spot, pattern: Pattern | None = None) -> Operand:
        return Operand(place, dtype, pattern)

    def dtype(self, token: Token) -> Spot:
        return _spot(token)

    def indirect(self, word: Token, index: Address, data: Address, count: Token) -> Indirect:
        return Indirect(index, data, _spot(count), word.column or 1)

    def address(self, shaped: Token | None, place: Place | Token) -> Address:
        return Address(shaped is not None, _spot(place) if isinstance(place, Token) else place)

    def place(self, memory: Token, partition: Token, byte: Token) -> Place:
        return Place(_spot(memory), _spot(partition), _spot(byte))

    def pattern(self, bracket: Token, *pairs: tuple[Spot, Spot]) -> Pattern:
        return Pattern(pairs, bracket.column or 1)

    def pair(self, step: Token, num: Token) -> tuple[Spot, Spot]:
        return _spot(step), _spot(num)
