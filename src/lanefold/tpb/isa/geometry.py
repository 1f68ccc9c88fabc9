"""On-chip memories per generation, and the address word's bits."""

from __future__ import annotations

from lanefold.numerics.dtypes import Generation
from lanefold.tpb.isa.rows import Geometry

_SOURCE = (
    "ISA headers: state-buffer and PSUM constants; PSUM banks from the compiler's constants and the architecture guide"
)


SBUF_WINDOW = (0x0000000, 0x2000000)
PSUM_WINDOW = (0x2000000, 0x2400000)
"""Address windows of the two memories, end excluded, the same on all three generations."""


def _geometry(generation: Generation, chip: str, core: str, sbuf_kib: int) -> Geometry:
    return Geometry(
        generation=generation,
        chip=chip,
        core=core,
        partitions=128,
        sbuf_bytes=sbuf_kib << 10,
        sbuf_stride=0x40000,
        psum_bytes=16 << 10,
        psum_stride=0x8000,
        psum_base=PSUM_WINDOW[0],
        psum_bank_bytes=2048,
        quadrant=32,
        source=_SOURCE,
    )


GEOMETRY: dict[Generation, Geometry] = {
    "v2": _geometry("v2", "Trainium / Inferentia2", "NeuronCore-v2", 192),
    "v3": _geometry("v3", "Trainium2", "NeuronCore-v3", 224),
    "v4": _geometry("v4", "Trainium3", "NeuronCore-v4", 256),
}

ADDRESS_MASK = 0x1FFFFFFF
"""Bits of ADDR4 that hold an on-chip byte address (immediate form)."""
INDIRECT_BIT = 0x20000000
"""ADDR4: the word is an index address and the descriptor an indirect record."""
SHAPE_REGISTER_BIT = 0x40000000
"""ADDR4: element counts come from a register."""
ADDRESS_REGISTER_BIT = 0x80000000
"""ADDR4: the address comes from a register, named in the lowest byte."""
ADDRESS_REGISTERS = 64

START_PARTITIONS: tuple[tuple[int, int], ...] = ((0, 128), (32, 32), (64, 64), (96, 32))
"""Legal start partitions, each with the greatest channel count from there; documented."""
