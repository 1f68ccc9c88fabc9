"""A picture of local memory: which tile lives where, from which instruction to which, and what overlaps."""

from __future__ import annotations

from lanefold.pto import names
from lanefold.pto.program.check import lifetimes
from lanefold.pto.program.model import Compute, Load, Program, TileSlot
from lanefold.pto.rules.shapes import round_up

LIVES, SHARES, REST = "#", "X", "."


def memory_map(program: Program, target: str) -> str:
    """See `Program.memory_map`."""
    row = names.target(target)
    spans = lifetimes(program)
    used = [slot for slot in program.tiles if slot.name in spans]
    placed = sorted((slot for slot in used if slot.address is not None), key=lambda slot: slot.address or 0)
    steps = range(len(program.instructions))
    lines = [f"local memory of {row.name}: {row.ub_bytes:,} bytes; a column per instruction"]
    width = max((len(slot.name) for slot in used), default=0)
    for slot in placed:
        first, last = spans[slot.name]
        marks = "".join(
            REST if not first <= at <= last else SHARES if _shares(slot, placed, spans, at) else LIVES for at in steps
        )
        start, end = _bytes(slot)
        lines.append(f"  {start:#8x} to {end:#8x}  %{slot.name:<{width}}  {marks}")
    lines += [f"  {'not placed':>20}  %{slot.name}" for slot in used if slot.address is None]
    if any(SHARES in line for line in lines[1:]):
        lines.append(f"  {SHARES} shares bytes with another living tile")
    at, peak = _peak(program, target)
    if steps:
        lines.append(f"at most {peak:,} bytes live together, at instruction {at + 1} ({_name(program, at)})")
        if peak > row.ub_bytes:
            lines.append(f"that is {peak - row.ub_bytes:,} bytes more than there are")
    return "\n".join(lines)


def _bytes(slot: TileSlot) -> tuple[int, int]:
    first = slot.address or 0
    return first, first + slot.type.bytes


def _shares(slot: TileSlot, placed: list[TileSlot], spans: dict[str, tuple[int, int]], at: int) -> bool:
    """Whether another tile that lives at an instruction holds a byte of this one; a handover at one is none."""
    start, end = _bytes(slot)
    for other in placed:
        first, last = spans[other.name]
        if other is slot or not first <= at <= last:
            continue
        mine = spans[slot.name]
        handed_over = (first == at and mine[1] == at) or (mine[0] == at and last == at)
        a, b = _bytes(other)
        if max(start, a) < min(end, b) and not handed_over:
            return True
    return False


def _peak(program: Program, target: str) -> tuple[int, int]:
    """The instruction at which the living tiles take most bytes, and how many."""
    unit = names.target(target).alignment
    spans = lifetimes(program)
    sizes = {slot.name: round_up(slot.type.bytes, unit) for slot in program.tiles}
    totals = [
        sum(sizes[name] for name, (first, last) in spans.items() if first <= at <= last)
        for at in range(len(program.instructions))
    ]
    peak = max(totals, default=0)
    return (totals.index(peak) if totals else 0), peak


def _name(program: Program, at: int) -> str:
    instruction = program.instructions[at]
    if isinstance(instruction, Compute):
        return instruction.op
    return "TLOAD" if isinstance(instruction, Load) else "TSTORE"
