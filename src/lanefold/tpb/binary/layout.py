"""NumPy record types of the wire structs, made from the tables, and the ways to name an instruction."""

from __future__ import annotations

import difflib
from functools import cache
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from lanefold.arguments import shown
from lanefold.diagnostics import Cure, Rule
from lanefold.tpb import isa
from lanefold.tpb.patterns import INDIRECT_SINCE

_NAME = Rule(
    "TPB-INSTRUCTION-NAME",
    "An instruction is named by its plain name, its mnemonic, its family or its wire struct.",
    "Instruction table",
    usage=True,
)
_GENERATION = Rule(
    "TPB-GENERATION", "The generation is v2, v3 or v4 (NeuronCore-v2, -v3, -v4).", "Generation table", usage=True
)
_READING = Rule(
    "TPB-OPCODES", "The opcode reading is reference, headers, or auto where bytes are read.", "Readings", usage=True
)

_SCALARS = {
    isa.Kind.U8: "u1",
    isa.Kind.U16: "<u2",
    isa.Kind.U32: "<u4",
    isa.Kind.I16: "<i2",
    isa.Kind.I32: "<i4",
    isa.Kind.F32: "<f4",
    isa.Kind.RESERVED: "u1",
}
DESCRIPTOR_SLOTS = {isa.Kind.TENSOR2D: 2, isa.Kind.TENSOR4D: 4, isa.Kind.MEMORY4D: 4}
"""Number of slots of each kind of descriptor."""

UNKNOWN = -1
"""Kind number of a word whose opcode the reading does not know."""

INDIRECT20B = np.dtype([("index_addr", "<u4"), ("data_addr", "<u4"), ("num_elem", "<u2"), ("reserved", "u1", (10,))])
"""The indirect form of a 20-byte descriptor (INDIRECT20B)."""


def indirect_exists(generation: isa.Generation) -> bool:
    """Whether the memory patterns of a generation may be indirect records."""
    return isa.GENERATIONS.index(generation) >= isa.GENERATIONS.index(INDIRECT_SINCE)


def descriptor(slots: int) -> np.dtype[np.void]:
    """Record of a TENSORnD descriptor: address, then all steps, then all nums; 4 + 4n bytes."""
    return np.dtype([("start_addr", "<u4"), ("step_elem", "<i2", (slots,)), ("num_elem", "<u2", (slots,))])


def _format(field: isa.Field) -> Any:
    if field.kind in DESCRIPTOR_SLOTS:
        return descriptor(DESCRIPTOR_SLOTS[field.kind])
    scalar = np.dtype(_SCALARS[field.kind])
    many = field.count > 1 or field.kind is isa.Kind.RESERVED
    return np.dtype((scalar, (field.count,))) if many else scalar


def size(field: isa.Field) -> int:
    """Bytes a field takes."""
    return int(np.dtype(_format(field)).itemsize)


@cache
def record(struct: str) -> np.dtype[np.void]:
    """The 64-byte record type of a wire struct."""
    fields = isa.STRUCTS[struct].fields
    return np.dtype(
        {
            "names": [field.name for field in fields],
            "formats": [_format(field) for field in fields],
            "offsets": [field.offset for field in fields],
            "itemsize": isa.BUNDLE_BYTES,
        }
    )


@cache
def kinds_by_opcode(generation: isa.Generation, reading: isa.Reading) -> npt.NDArray[np.int8]:
    """For every value of byte 0 the number of its row in the instruction table, or `UNKNOWN`."""
    table = np.full(256, UNKNOWN, np.int8)
    for number, row in enumerate(isa.BUNDLES):
        opcode = row.opcode(reading)
        if opcode is not None and generation in row.generations:
            table[opcode] = number
    table.flags.writeable = False
    return table


def kind_numbers(name: str) -> tuple[int, ...]:
    """Row numbers of the instructions that a name stands for; case does not matter.

    Raises:
        LanefoldError: if nothing has that name.
    """
    return _kind_numbers(name) if isinstance(name, str) else _no_instruction(name)


@cache
def _kind_numbers(name: str) -> tuple[int, ...]:
    wanted = name.lower()
    exact = tuple(
        number for number, row in enumerate(isa.BUNDLES) if wanted in (row.name, row.mnemonic.lower(), *row.aliases)
    )
    if exact:
        return exact
    family = tuple(number for number, row in enumerate(isa.BUNDLES) if wanted in (row.family, row.struct.lower()))
    if family:
        return family
    return _no_instruction(name)


def _no_instruction(name: object) -> NoReturn:
    names = sorted({name for row in isa.BUNDLES for name in (row.name, row.family, row.struct)})
    near = difflib.get_close_matches(name.lower(), names, 1) if isinstance(name, str) else []
    raise _NAME.error(
        f"no instruction is called {shown(name)}",
        got=shown(name),
        allowed=", ".join(names),
        cures=[
            Cure(f"write {near[0]!r}" if near else "write one of the names above", {"name": near[0]} if near else {})
        ],
    )


def check_generation(generation: str) -> isa.Generation:
    """The generation itself.

    Raises:
        LanefoldError: if there is no such generation.
    """
    for known in isa.GENERATIONS:
        if isinstance(generation, str) and generation == known:
            return known
    raise _GENERATION.error(
        f"there is no generation {shown(generation)}",
        got=shown(generation),
        allowed=", ".join(isa.GENERATIONS),
        cures=["write 'v2' for Trainium and Inferentia2, 'v3' for Trainium2, 'v4' for Trainium3"],
    )


def check_reading(reading: str) -> isa.Reading:
    """The opcode reading itself.

    Raises:
        LanefoldError: if there is no such reading.
    """
    for known in isa.READINGS:
        if isinstance(reading, str) and reading == known:
            return known
    raise _READING.error(
        f"there is no opcode reading {shown(reading)}",
        got=shown(reading),
        allowed=", ".join(isa.READINGS),
        cures=["write 'reference' to follow the reference documents, 'headers' to follow the shipped headers"],
    )
