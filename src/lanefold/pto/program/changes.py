"""Applying the changes of a cure to a program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from lanefold.diagnostics import Cure, Place, Rule
from lanefold.pto.program.model import Compute, GlobalArray, Instruction, Load, Program, Store, TileSlot
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


@dataclass(frozen=True, slots=True)
class Conversion:
    """A value of one row or one column in another layout: its new tile type, and the instruction that wants it."""

    type: TileType
    instruction: int


def _converted(program: Program, tile: str, wanted: Conversion) -> Program:
    """The program with a store of a tile and a load into a new one before the instruction, which then reads that."""
    kind = wanted.type
    used = {*program.slots, *program.globals}
    names = []
    for stem in (f"{tile}_{kind.layout.lower()}", f"{tile}_memory"):
        name = stem
        while name in used:
            name += "_"
        used.add(name)
        names.append(name)
    made, memory = names
    rows, cols = kind.valid_rows or 1, kind.valid_cols or 1
    array = GlobalArray(memory, kind.dtype, rows, cols, cols, 1)
    before, reader, behind = (
        program.instructions[: wanted.instruction],
        program.instructions[wanted.instruction],
        program.instructions[wanted.instruction + 1 :],
    )
    if isinstance(reader, Compute):
        roles = next(form for form in reader.row.forms if form.name == reader.form).operands
        tiles = tuple(
            made if name == tile and role.startswith("src") else name
            for name, role in zip(reader.tiles, roles, strict=False)
        )
        reader = replace(reader, tiles=tiles)
    return replace(
        program,
        arrays=(*program.arrays, array),
        tiles=(*program.tiles, TileSlot(made, kind)),
        instructions=(*before, Store(tile, memory), Load(made, memory), reader, *behind),
    )


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
    conversions = []
    for name, wanted in _grouped(changes).items():
        if name in slots and isinstance(wanted.get("conversion"), Conversion):
            conversions.append((name, wanted.pop("conversion")))
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
    made = replace(program, arrays=tuple(arrays.values()), tiles=tuple(slots.values()), instructions=instructions)
    # Later instructions first, so that the numbers of the others hold.
    for name, conversion in sorted(conversions, key=lambda each: -each[1].instruction):
        made = _converted(made, name, conversion)
    return made
