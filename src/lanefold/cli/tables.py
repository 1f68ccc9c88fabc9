"""Commands that print the tables: targets and ops."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from lanefold.cli.common import AsJson, print_json

_WORDS = {"sbuf": "SBUF", "psum": "PSUM", "ghz": "GHz"}


def targets(as_json: AsJson = False) -> None:
    """List the targets with their chips, memories, clocks and readings."""
    from lanefold.targets import TARGETS, facts

    rows = [
        {"name": row.name, "chip": row.chip, "instruction_set": row.instruction_set} | facts(row)
        for row in TARGETS.values()
    ]
    if as_json:
        print_json(rows)
        return
    from lanefold.report.table import show, table

    for kind in dict.fromkeys(row["instruction_set"] for row in rows):
        members = [row for row in rows if row["instruction_set"] == kind]
        facts_of_kind = [key for key in members[0] if key not in ("name", "instruction_set")]
        cells = ([_title(key), *(_cell(row[key]) or "–" for row in members)] for key in facts_of_kind)
        show([table(kind, ["", *(row["name"] for row in members)], cells)])


def ops(
    target: Annotated[str, typer.Option("--target", "-t", help="Target whose operations are listed.")] = "trn1",
    opcodes: Annotated[str, typer.Option(help="Opcode reading: reference or headers.")] = "reference",
    as_json: AsJson = False,
) -> None:
    """List the operations of a target: names, opcodes or call forms, what they do, and how well that is founded."""
    from lanefold.targets import confidences, operations

    rows = operations(target, opcodes)
    if as_json:
        print_json(rows)
        return
    from lanefold.report.table import show, table

    columns = [name for name in rows[0] if name != "source"]
    cells = [[_opcode(row[column]) if column == "opcode" else _cell(row[column]) for column in columns] for row in rows]
    used = {row["confidence"] for row in rows}
    words = [f"{word}: {meaning}" for word, meaning in confidences(target).items() if word in used]
    show([table("", columns, cells), "; ".join(words), "the source of each row: lanefold ops --json"])


def _opcode(opcode: int) -> str:
    return f"{opcode} (0x{opcode:02X})"


def _title(key: str) -> str:
    words = (_WORDS.get(word, word) for word in key.split("_"))
    return " ".join(words)


def _cell(value: Any) -> str:
    if isinstance(value, dict):
        return "; ".join(f"{key}: {_cell(each)}" for key, each in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(str(each) for each in value)
    return str(value)
