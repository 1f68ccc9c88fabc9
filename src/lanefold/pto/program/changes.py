"""Applying the changes of a cure to a program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from lanefold.diagnostics import Cure, Place, Rule
from lanefold.pto.program.model import Compute, GlobalArray, Instruction, Program, TileSlot
from lanefold.pto.tiles import TileType

CHANGE = Rule(
    "PTO-PROGRAM-CHANGE",
    "A change names a tile or an array of the program and one of its fields.",
    "PTO AS: registers",
    usage=True,
)

_SLOT_FIELDS = ("address", "valid_row", "valid_col")
_OFFSETS = {"rows_offset": "row", "cols_offset": "col"}


def _unknown(program: Program, key: str) -> Exception:
    known = [f"{name}.{field.name}" for name in program.slots for field in fields(TileSlot)]
    return CHANGE.error(
        f"the program has nothing called {key}",
        got=key,
        allowed=", ".join(known[:8]) or "no tiles",
        cures=[Cure("name a tile or an array of this program, and a field of it")],
        place=Place(field=key),
    )


def _moved(instruction: Instruction, tile: str, field: str, value: Any) -> Instruction:
    if isinstance(instruction, Compute) or instruction.tile != tile:
        return instruction
    return replace(instruction, **{_OFFSETS[field]: value})


def _grouped(changes: Mapping[str, object]) -> dict[str, dict[str, Any]]:
    groups: dict[str, dict[str, Any]] = {}
    for key, value in changes.items():
        name, _, field = key.rpartition(".")
        groups.setdefault(name, {})[field] = value
    return groups


def apply_changes(program: Program, changes: Mapping[str, object]) -> Program:
    """See `Program.changed`; all changes of one tile's type hold at once."""
    slots, arrays = dict(program.slots), dict(program.globals)
    instructions = program.instructions
    type_fields = {field.name for field in fields(TileType)}
    array_fields = {field.name for field in fields(GlobalArray)}
    for name, wanted in _grouped(changes).items():
        if name in slots:
            for field in [key for key in wanted if key in _OFFSETS]:
                value = wanted.pop(field)
                instructions = tuple(_moved(i, name, field, value) for i in instructions)
            for field in [key for key in wanted if key in _SLOT_FIELDS]:
                slots[name] = replace(slots[name], **{field: wanted.pop(field)})
            if not set(wanted) <= type_fields:
                raise _unknown(program, f"{name}.{next(iter(set(wanted) - type_fields))}")
            slots[name] = replace(slots[name], type=replace(slots[name].type, **wanted))
        elif name in arrays and set(wanted) <= array_fields:
            arrays[name] = replace(arrays[name], **wanted)
        else:
            raise _unknown(program, f"{name}.{next(iter(wanted))}")
    return replace(program, arrays=tuple(arrays.values()), tiles=tuple(slots.values()), instructions=instructions)
