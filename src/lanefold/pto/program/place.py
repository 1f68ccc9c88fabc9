"""Giving the tiles of a program their scratch and their addresses."""

from __future__ import annotations

from dataclasses import replace

from lanefold.diagnostics import Cure, Place, Rule
from lanefold.pto import names
from lanefold.pto.program.check import lifetimes
from lanefold.pto.program.model import Compute, Instruction, Program, TileSlot
from lanefold.pto.program.resolve import resolve
from lanefold.pto.rules.scratch import scratch_need
from lanefold.pto.rules.shapes import round_up
from lanefold.pto.tiles import TileType

MEMORY = Rule(
    "PTO-PROGRAM-MEMORY",
    "Tiles that live at the same time fit into local memory together.",
    "PTO headers: local memory sizes",
)


def _blocked(program: Program, target: str) -> int:
    """Bytes of local memory that tiles may use."""
    row = names.target(target)
    spreads = any(isinstance(i, Compute) and i.form == "E2" and i.row.axis == "row" for i in program.instructions)
    if row.broadcast_scratch and spreads:
        return row.broadcast_scratch[0]
    return row.ub_bytes


def _hole(taken: list[tuple[int, int]], size: int) -> int:
    """Lowest address with ``size`` free bytes."""
    at = 0
    for first, end in sorted(taken):
        if first - at >= size:
            break
        at = max(at, end)
    return at


def place_tiles(program: Program, target: str) -> Program:
    """See `Program.placed`; tiles that have an address keep it."""
    row = names.target(target)
    limit = _blocked(program, target)
    spans = lifetimes(program)
    slots = program.slots
    size = {name: round_up(slot.type.bytes, row.alignment) for name, slot in slots.items()}
    address = {name: slot.address for name, slot in slots.items()}
    fixed = [name for name in spans if address[name] is not None]
    living: list[str] = []
    for name in sorted(spans, key=lambda other: spans[other]):
        if address[name] is not None:
            continue
        first, last = spans[name]
        living = [other for other in living if spans[other][1] >= first]
        beside = [*living, *(other for other in fixed if spans[other][0] <= last and spans[other][1] >= first)]
        taken = [(at, at + size[other]) for other in beside for at in (address[other],) if at is not None]
        at = _hole(taken, size[name])
        if at + size[name] > limit:
            sizes = ", ".join(f"%{other} {size[other]}" for other in beside)
            raise MEMORY.error(
                f"%{name} needs {size[name]} bytes in one piece, but of the {limit} bytes of the local memory the "
                f"tiles that live at the same time leave none so large",
                got=f"{sizes} bytes" if beside else f"{size[name]} bytes",
                allowed=f"{limit} bytes in all on {row.name}",
                cures=[Cure("work on smaller tiles: halve their rows"), Cure("store a value and load it again later")],
                place=Place(operand=f"%{name}", line=program.instructions[first].line),
            )
        address[name] = at
        living.append(name)
    tiles = tuple(replace(slot, address=address[slot.name]) for slot in program.tiles)
    return replace(program, tiles=tiles)


def _scratch_type(program: Program, instruction: Compute, target: str, types: dict[str, TileType]) -> TileType:
    """Type of a scratch tile: what the target reads, or the smallest tile where it reads none."""
    call = program.call(instruction, target, types)
    need = scratch_need(call)
    if need is not None:
        return need.tile()
    source = types[instruction.sources[0]]
    cols = 32 // source.element.bytes
    return TileType(source.dtype, 1, cols, 1, cols)


def supply_scratch(program: Program, target: str) -> Program:
    """See `Program.with_scratch`."""
    types = resolve(program, {})
    used = set(program.slots)
    tiles: list[TileSlot] = list(program.tiles)
    instructions: list[Instruction] = []
    for i in program.instructions:
        missing = isinstance(i, Compute) and i.scratch is None and _has_scratch(i)
        if not isinstance(i, Compute) or not missing:
            instructions.append(i)
            continue
        name = _fresh("tmp", used)
        used.add(name)
        tiles.append(TileSlot(name, _scratch_type(program, i, target, types)))
        instructions.append(replace(i, tiles=(*i.tiles, name)))
    return replace(program, tiles=tuple(tiles), instructions=tuple(instructions))


def _has_scratch(instruction: Compute) -> bool:
    return any(form.name == instruction.form and form.scratch for form in instruction.row.forms)


def _fresh(stem: str, used: set[str]) -> str:
    number = 0
    while f"{stem}{number}" in used:
        number += 1
    return f"{stem}{number}"
