"""The three text forms of PTO programs: assembly, SSA (AS level 1) and DPS (AS level 2)."""

from __future__ import annotations

from lanefold import arguments
from lanefold.pto.program.model import Program


def parse(text: str) -> Program:
    """The program of a text in any of the three forms, which may be mixed.

    Raises:
        LanefoldError: PTO-TEXT-* with line and column, PTO-OP-NAME, PTO-TYPE-NAME, PTO-TILE-*.
    """
    from lanefold.pto.text.build import build
    from lanefold.pto.text.lines import read_lines

    given: object = text
    if not isinstance(given, str):
        cure = "give text=pathlib.Path(file).read_text()"
        raise arguments.refused("parse", "text", given, "the text of a program", cure)
    return build(read_lines(given))
