"""From assembly text to bundles."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from lanefold.arguments import shown
from lanefold.diagnostics import Diagnostic, LanefoldError
from lanefold.tpb import isa
from lanefold.tpb.binary import layout
from lanefold.tpb.binary.stream import Stream
from lanefold.tpb.text import mistakes
from lanefold.tpb.text.lines import Lines
from lanefold.tpb.text.mistakes import Context, unknown
from lanefold.tpb.text.nodes import (
    Directive,
    Raw,
    Statement,
)
from lanefold.tpb.text.statement import StatementWriter

MOST_FINDINGS = 20
"""Lines with mistakes that one call reports; the rest of the text is not read."""

_HEADER: dict[str, tuple[str, ...]] = {
    ".generation": isa.GENERATIONS,
    ".opcodes": isa.READINGS,
    ".engine": tuple(isa.ENGINES),
}


def assemble(text: str, generation: str | None = None, opcodes: str | None = None) -> Stream:
    """Reads assembly text into a stream of bundles; the inverse of `disassemble` for every bundle.

    Args:
        text: header directives and lines; comments run from ``;`` to the end of the line.
        generation: what ``.generation`` would say; ``"v2"`` where neither does.
        opcodes: what ``.opcodes`` would say; ``"reference"`` where neither does.

    Raises:
        LanefoldError: with line, column and a caret for every line that cannot be read, at most 20.
    """
    if not isinstance(text, str):
        raise mistakes.SYNTAX.error(
            f"{shown(text)} is no text",
            got=shown(text),
            allowed="text",
            cures=["decode the bytes of a .s file as UTF-8; read the bytes of a .bin file with decode"],
        )
    given: dict[str, str] = {}
    if generation is not None:
        given[".generation"] = layout.check_generation(generation)
    if opcodes is not None:
        given[".opcodes"] = layout.check_reading(opcodes)
    reader = _Reader(given)
    found: list[Diagnostic] = []
    for number, line in enumerate(text.split("\n"), 1):
        try:
            reader.line(line, number)
        except LanefoldError as error:
            found += error.diagnostics
            if len(found) >= MOST_FINDINGS:
                break
    if found:
        raise LanefoldError(found, usage=True)
    return reader.stream()


class _Reader:
    """Reads lines one by one and collects the bundles."""

    def __init__(self, given: Mapping[str, str]) -> None:
        from lanefold.tpb.text.parse import parse

        self.parse = parse
        self.given = given
        self.header: dict[str, str] = {}
        self.bundles: list[bytes] = []
        self.lines: Lines | None = None

    def setting(self, name: str) -> str:
        """What a directive says, or the call, or the default: the first of the possible values."""
        return self.header.get(name) or self.given.get(name) or _HEADER[name][0]

    def line(self, text: str, number: int) -> None:
        """Reads one line; lines that differ only in addresses and value are parsed once."""
        bundle = self.lines.bundle(text) if self.lines else None
        if bundle is None:
            context = Context(text.rstrip("\r"), number)
            node = self.parse(context.text, context)
            if node is None:
                return
            if isinstance(node, Directive):
                self.directive(node, context)
                return
            bundle = self.bundle(node, context)
        self.bundles.append(bundle)

    def bundle(self, node: Raw | Statement, context: Context) -> bytes:
        """The 64 bytes of a line."""
        if isinstance(node, Raw):
            return _raw(node, context)
        generation = layout.check_generation(self.setting(".generation"))
        reading = layout.check_reading(self.setting(".opcodes"))
        # From the first bundle on the header is settled, and with it what a shape of lines stands for.
        self.lines = self.lines or Lines(generation)
        made = StatementWriter(node, context, generation, reading).bundle()
        self.lines.remember(context.text, node, made, int(layout.kinds_by_opcode(generation, reading)[made[0]]))
        return made

    def directive(self, node: Directive, context: Context) -> None:
        """Takes a header directive over."""
        name, value = node
        if name.text not in _HEADER:
            raise unknown(context, name, "directive", _HEADER)
        if value.text not in _HEADER[name.text]:
            raise unknown(context, value, f"value of {name.text}", _HEADER[name.text])
        reason = ""
        if self.bundles:
            reason = f"{name.text} stands behind the first bundle"
        elif name.text in self.header:
            reason = f"{name.text} stands twice"
        elif self.given.get(name.text, value.text) != value.text:
            reason = f"{name.text} says {value.text}, the call says {self.given[name.text]}"
        if reason:
            raise context.mistake(
                mistakes.DIRECTIVE,
                name,
                reason,
                allowed=", ".join(_HEADER),
                cures=["keep one directive of each kind, at the top of the text, that agrees with the call"],
            )
        self.header[name.text] = value.text

    def stream(self) -> Stream:
        """The bundles read."""
        joined = np.frombuffer(bytearray(b"".join(self.bundles)), np.uint8).reshape(-1, isa.BUNDLE_BYTES)
        return Stream(
            joined,
            layout.check_generation(self.setting(".generation")),
            layout.check_reading(self.setting(".opcodes")),
            engine=self.header.get(".engine", ""),
        )


def _raw(node: Raw, context: Context) -> bytes:
    digits = node.digits.text.translate({ord(letter): None for letter in " \t_"})
    if len(digits) != 2 * isa.BUNDLE_BYTES:
        raise context.mistake(
            mistakes.VALUE,
            node.digits,
            f"a raw bundle of {len(digits)} hexadecimal digits",
            got=f"{len(digits)} digits",
            allowed=f"{2 * isa.BUNDLE_BYTES} digits",
            cures=["give all 64 bytes, two digits each"],
        )
    return bytes.fromhex(digits)
