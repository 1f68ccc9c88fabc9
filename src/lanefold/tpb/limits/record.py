"""Whether an instruction has the operands and keys of its operation."""

from __future__ import annotations

import difflib
from collections.abc import Callable

from lanefold.diagnostics import Cure, Diagnostic, Rule
from lanefold.tpb import isa
from lanefold.tpb.instruction import Instruction
from lanefold.tpb.limits.findings import Findings, named_operands

_OPCODE = Rule(
    "TPB-BIR-OPCODE",
    "The instruction is one of the operations of the pooling and reduction leg.",
    "BIR JSON record schema",
)


_OPERANDS = Rule(
    "TPB-BIR-OPERANDS",
    "An instruction has exactly the operands of its operation.",
    "BIR JSON record schema, operands per operation",
)


_KEY = Rule(
    "TPB-BIR-KEY",
    "An instruction carries the required keys of its operation, each with a value of the right kind, and no other.",
    "BIR JSON record schema, keys per operation",
)


def unknown_opcode(instruction: Instruction) -> Diagnostic:
    """The finding on an opcode that the leg does not have."""
    near = difflib.get_close_matches(instruction.opcode, isa.BIR_BY_OPCODE, 1, 0.0)[0]
    return _OPCODE.finding(
        f"{instruction.opcode!r} is not an operation of this leg",
        got=instruction.opcode or "nothing",
        allowed=", ".join(isa.BIR_BY_OPCODE),
        place=instruction.place("opcode"),
        cures=[Cure(f"write {near}, if that is meant", {"opcode": near}), "keep the instruction for another tool"],
    )


def operand_findings(instruction: Instruction, row: isa.BirOperation) -> Findings:
    """Operands that are too many, too few or empty."""
    for key, given, wanted in (
        ("ins", len(instruction.ins), row.operands_in),
        ("outs", len(instruction.outs), row.operands_out),
    ):
        if given != len(wanted):
            names = ", ".join(wanted) or "none"
            yield _OPERANDS.finding(
                f"{row.opcode} takes {len(wanted)} {key} ({names}), {given} given",
                got=f"{given} {key}",
                allowed=f"{len(wanted)}: {names}",
                place=instruction.place(key),
                cures=[Cure(f"give exactly: {names}", _cut(instruction, key, len(wanted)))],
            )
    for path, operand in named_operands(instruction):
        if not operand.pattern:
            yield _OPERANDS.finding(
                f"operand {operand.name} has an empty pattern",
                got="[]",
                allowed="at least the partition pair [pitch, partitions]",
                place=instruction.place("ap", operand.name),
                cures=[
                    Cure(
                        "give the partition pair first, then the free pairs, outermost first",
                        {f"{path}.pattern": [(1, 1), (1, 1)]},
                    )
                ],
            )


def key_findings(instruction: Instruction, row: isa.BirOperation) -> Findings:
    """Keys that are unknown, missing or of another kind."""
    known = {attribute.name: attribute for attribute in row.attributes}
    for name in instruction.attributes:
        if name not in known:
            yield _KEY.finding(
                f"{row.opcode} has no key {name!r}",
                got=name,
                allowed=", ".join(known) or "no keys",
                place=instruction.place(name),
                cures=[Cure(f"remove {name!r}", {f"attributes.{name}": None})],
            )
    for attribute in row.attributes:
        value = instruction.attributes.get(attribute.name)
        if value is None:
            if attribute.required:
                yield _KEY.finding(
                    f"{row.opcode} lacks its required key {attribute.name!r}",
                    got="nothing",
                    allowed=_kind_text(attribute),
                    place=instruction.place(attribute.name),
                    cures=[Cure(f"set {attribute.name!r} to {_kind_text(attribute)}", _example(attribute))],
                )
        elif not _is_kind(attribute, value):
            yield _KEY.finding(
                f"{attribute.name} of {row.opcode} is {value!r}",
                got=repr(value),
                allowed=_kind_text(attribute),
                place=instruction.place(attribute.name),
                cures=[Cure(f"write {_kind_text(attribute)}", _example(attribute))],
            )


def _cut(instruction: Instruction, key: str, wanted: int) -> dict[str, object]:
    given = instruction.ins if key == "ins" else instruction.outs
    return {key: list(given[:wanted])} if len(given) > wanted else {}


def _example(attribute: isa.Attribute) -> dict[str, object]:
    values: dict[str, object] = {
        "enum": attribute.values[0] if attribute.values else "add",
        "bool": False,
        "int": 0,
        "float": 0.0,
        "pattern": [(1, 1)],
    }
    return {f"attributes.{attribute.name}": values[attribute.type]}


def _kind_text(attribute: isa.Attribute) -> str:
    texts = {
        "enum": "one of " + ", ".join(attribute.values) if attribute.values else "a name",
        "bool": "true or false",
        "int": "an integer",
        "float": "a number",
        "pattern": "a list of 1 to 4 [step, num] pairs",
    }
    return texts[attribute.type]


def _is_pattern(value: object) -> bool:
    if not isinstance(value, list | tuple):
        return False
    return all(
        isinstance(pair, list | tuple) and len(pair) == 2 and all(type(number) is int for number in pair)
        for pair in value
    )


def _is_kind(attribute: isa.Attribute, value: object) -> bool:
    checks: dict[str, Callable[[object], bool]] = {
        "enum": lambda v: isinstance(v, str),
        "bool": lambda v: isinstance(v, bool),
        "int": lambda v: type(v) is int,
        "float": lambda v: isinstance(v, int | float) and not isinstance(v, bool),
        "pattern": _is_pattern,
    }
    return checks[attribute.type](value)
