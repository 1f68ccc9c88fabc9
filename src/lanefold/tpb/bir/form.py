"""The rule that BIR JSON keeps its form, and values as JSON holds them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from lanefold.arguments import shown
from lanefold.diagnostics import LanefoldError, Place, Rule

FORM = Rule(
    "TPB-BIR-FORM",
    "A BIR instruction, operand or allocation has the keys of its record, each of the right kind.",
    "BIR JSON record schema",
    usage=True,
)

_MOST_BITS = 4096
"""Bits of a whole number from which on it is not written; Python itself refuses a few times as many."""
_MOST_SHOWN = 120
"""Characters that the keys of an object take in a finding."""

NOT_FINITE = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}
"""Floats that JSON cannot hold and the strings that stand for them."""


def bad_form(message: str, *, got: object, allowed: str, place: Place, cure: str = "") -> LanefoldError:
    """The exception for a record that lacks a key or has one of the wrong kind."""
    return FORM.error(
        message,
        got=_told(got),
        allowed=allowed,
        place=place,
        cures=[cure or "write the record as the BIR JSON schema has it"],
    )


def _told(got: object) -> str:
    """A JSON value in a few words: of an object its keys, of anything else what it is."""
    if not isinstance(got, Mapping):
        return shown(got)
    return f"an object with {', '.join(map(str, got))}"[:_MOST_SHOWN] if got else "an object without keys"


_KINDS = {
    "array": "a list",
    "object": "an object",
    "str": "a text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "null": "null",
}
_WRONG_KIND = re.compile(r"Expected `(?P<wanted>[^`]*)`, got `(?P<got>[^`]*)`(?: - at `\$\.?(?P<path>[^`]*)`)?")
_WRONG_LENGTH = re.compile(
    r"Expected `array` of length (?P<wanted>\d+), got (?P<got>\d+)(?: - at `\$\.?(?P<path>[^`]*)`)?"
)
_MISSING = re.compile(r"Object missing required field `(?P<key>[^`]*)`(?: - at `\$\.?(?P<path>[^`]*)`)?")


def mismatch(what: str, error: Exception) -> str:
    """What the type converter says of a record, in the words of JSON."""
    said, whole = str(error), with_article(what)
    if found := _MISSING.fullmatch(said):
        return f"{whole} lacks its key {found['key']}"
    if found := _WRONG_KIND.fullmatch(said):
        wanted = " or ".join(_KINDS.get(kind, kind) for kind in found["wanted"].split(" | "))
        return f"{found['path'] or 'the whole'} of {whole} is {_KINDS.get(found['got'], found['got'])}, not {wanted}"
    if found := _WRONG_LENGTH.fullmatch(said):
        entries = "1 entry" if found["got"] == "1" else f"{found['got']} entries"
        return f"{found['path'] or 'the whole'} of {whole} has {entries}, not {found['wanted']}"
    return f"{whole} is malformed: {said}"


def with_article(word: str) -> str:
    """A word with its indefinite article."""
    return f"{'an' if word[0] in 'aeiou' else 'a'} {word}"


def plain(value: object, place: Place) -> Any:
    """A copy of a value in the types of JSON; infinities and NaN become strings.

    Raises:
        LanefoldError: ``TPB-BIR-FORM`` for values that JSON has no form for.
    """
    if value is None or isinstance(value, (str, bool)) or (isinstance(value, int) and value.bit_length() < _MOST_BITS):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else float_name(value)
    if isinstance(value, (list, tuple)):
        return [plain(item, place) for item in value]
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: plain(item, place) for key, item in value.items()}
    number = getattr(value, "item", None)
    if callable(number) and getattr(value, "shape", None) == ():
        return plain(number(), place)
    raise bad_form(
        f"{shown(value)} has no form in JSON",
        got=value,
        allowed="objects with text keys, lists, text, numbers of up to 4096 bits, true, false, null",
        place=place,
    )


def float_name(value: float) -> str:
    """The string that stands for an infinity or NaN."""
    if math.isnan(value):
        return "nan"
    return "inf" if value > 0 else "-inf"
