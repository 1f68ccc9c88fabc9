"""Where operands lie, in words and as changes."""

from __future__ import annotations

from lanefold.tpb import isa
from lanefold.tpb.rules.batch import Walk


def start_path(role: isa.Role) -> str:
    """Path of a descriptor's start address."""
    return f"{role.field}.start_addr"


def hexadecimal(word: int) -> str:
    """An address word as eight hexadecimal digits."""
    return f"0x{word:08X}"


def spot(walk: Walk, at: int) -> str:
    """Memory, partition and byte of a walk's first element."""
    memory = "PSUM" if walk.psum[at] else "SB"
    return f"{memory} partition {int(walk.partition[at])}, byte {int(walk.byte[at])}"


def moved(walk: Walk, at: int, *, psum: bool | None = None, partition: int | None = None, byte: int) -> dict[str, int]:
    """The change that moves an operand: its data address where it is indirect, else its start address."""
    geometry = walk.batch.geometry
    into_psum = bool(walk.psum[at]) if psum is None else psum
    lane = int(walk.partition[at]) if partition is None else partition
    stride, base = (geometry.psum_stride, geometry.psum_base) if into_psum else (geometry.sbuf_stride, 0)
    address = base + lane * stride + byte
    if walk.indirect[at]:
        return {f"{walk.role.field}.data_addr": address}
    keep = int(walk.word[at]) & isa.SHAPE_REGISTER_BIT
    return {start_path(walk.role): keep | address}
