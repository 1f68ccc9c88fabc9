"""Whether the parts of a typed instruction are of the types that it is declared with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from numbers import Integral
from typing import NamedTuple

from lanefold.arguments import shown
from lanefold.diagnostics import Cure, Diagnostic, Place, Rule
from lanefold.tpb.instruction import Instruction, Sync
from lanefold.tpb.limits.findings import Findings
from lanefold.tpb.patterns import Access

_PART = Rule(
    "TPB-INSTRUCTION-PART",
    "The parts of a typed instruction, of its operands and of its events are of the types they are declared with.",
    "Typed instructions: Instruction, Access, Sync",
    usage=True,
)


_MOST = 2**63 - 1
"""Greatest magnitude of a number in an instruction; every field is far smaller, and rules count in 64 bits."""


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_whole(value: object) -> bool:
    whole = type(value) is int or (isinstance(value, Integral) and not isinstance(value, bool))
    return whole and -_MOST <= value <= _MOST  # type: ignore[operator]


def _is_register(value: object) -> bool:
    return value is None or _is_whole(value)


def _is_pair(value: object) -> bool:
    return isinstance(value, tuple | list) and len(value) == 2 and all(map(_is_whole, value))


def _is_pattern(value: object) -> bool:
    return isinstance(value, tuple | list) and all(map(_is_pair, value))


def _are_operands(value: object) -> bool:
    return isinstance(value, tuple | list) and all(isinstance(entry, Access) for entry in value)


def _are_keys(value: object) -> bool:
    return isinstance(value, Mapping) and all(map(_is_text, value))


class _Part(NamedTuple):
    """A part by its name: what it is to be, in a test and in words, and a value that does."""

    fits: Callable[[object], bool]
    words: str
    example: object


_TEXT = _Part(_is_text, "a text", "")
_WHOLE = _Part(_is_whole, "a whole number", 0)
_OPERANDS = _Part(_are_operands, "a tuple of Access", ())
_INSTRUCTION = {
    "opcode": _Part(_is_text, "a text", "Pool"),
    "ins": _OPERANDS,
    "outs": _OPERANDS,
    "attributes": _Part(_are_keys, "a mapping with texts as keys", {}),
    "engine": _TEXT,
    "name": _TEXT,
    "node": _TEXT,
    "sync": _Part(lambda value: isinstance(value, Sync), "a Sync", Sync()),
}
_ACCESS = {
    "memory": _Part(_is_text, "a text", "SB"),
    "partition": _WHOLE,
    "byte": _WHOLE,
    "dtype": _Part(_is_text, "a text", "float32"),
    "pattern": _Part(_is_pattern, "a tuple of pairs (step, num) of whole numbers", ((1, 1), (1, 1))),
    "name": _TEXT,
    "offset": _WHOLE,
    "register": _Part(_is_register, "a whole number or None", None),
    "indices": _Part(lambda value: value is None or isinstance(value, Access), "an Access or None", None),
}
_SYNC = dict.fromkeys(("wait_mode", "wait_index", "update_mode", "update_index", "value"), _WHOLE)


def part_findings(instruction: Instruction) -> list[Diagnostic]:
    """Parts of another type; no other rule can be asked where there are some."""
    made = [*_of(instruction, _INSTRUCTION, "", instruction)]
    if made:
        return made
    for side, operands in (("ins", instruction.ins), ("outs", instruction.outs)):
        for index, operand in enumerate(operands):
            made += _of(operand, _ACCESS, f"{side}.{index}.", instruction)
            if isinstance(operand.indices, Access):
                made += _of(operand.indices, _ACCESS, f"{side}.{index}.indices.", instruction)
    return [*made, *_of(instruction.sync, _SYNC, "sync.", instruction)]


def _of(owner: object, parts: Mapping[str, _Part], path: str, instruction: Instruction) -> Findings:
    for name, part in parts.items():
        value = getattr(owner, name)
        if not part.fits(value):
            yield _PART.finding(
                f"{name} of {_called(owner)} is {shown(value)}, not {part.words}",
                got=shown(value),
                allowed=part.words,
                place=_place(instruction, path + name),
                cures=[Cure(f"write {part.words}, such as {part.example!r}", {path + name: part.example})],
            )


def _called(owner: object) -> str:
    kinds = {Access: "an operand", Sync: "the events"}
    return kinds.get(type(owner), "the instruction")


def _place(instruction: Instruction, path: str) -> Place:
    name = next(_texts(instruction.name, instruction.opcode), "")
    return Place(node=next(_texts(instruction.node), ""), instruction=name, field=path)


def _texts(*values: object) -> Iterator[str]:
    return (value for value in values if isinstance(value, str) and value)
