"""Finding out which opcode reading a stream follows, from bytes that only one struct allows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lanefold.tpb import isa
from lanefold.tpb.binary import layout
from lanefold.tpb.binary.stream import rows


class Detection(NamedTuple):
    """The reading chosen and how many bundles speak for each one."""

    reading: isa.Reading
    votes: dict[isa.Reading, int]

    @property
    def sure(self) -> bool:
        """True where at least one bundle decides and none contradicts."""
        return sum(count > 0 for count in self.votes.values()) == 1

    def __str__(self) -> str:
        if not any(self.votes.values()):
            return f"opcodes {self.reading}: no bundle tells the readings apart, the default is used"
        spoken = {reading: count for reading, count in self.votes.items() if count}
        counted = " and ".join(_voices(count, reading) for reading, count in spoken.items())
        return f"opcodes {self.reading}: {counted}" + ("" if self.sure else "; the stream contradicts itself")


def _voices(count: int, reading: str) -> str:
    """Bundles whose reserved bytes, numbers or order suit one reading only."""
    return f"{count} bundle{'s fit' if count != 1 else ' fits'} {reading} only"


def _possible(words: npt.NDArray[np.uint8], row: isa.BundleKind) -> npt.NDArray[np.bool_]:
    """Which words keep the row's reserved bytes zero and its restricted fields inside their legal numbers."""
    record = words.view(layout.record(row.struct))[:, 0]
    fits = np.ones(len(words), bool)
    for field in isa.STRUCTS[row.struct].fields:
        if field.kind is isa.Kind.RESERVED:
            fits &= ~record[field.name].any(axis=1)
        elif field.name in row.allowed:
            fits &= np.isin(record[field.name], row.allowed[field.name])
    return fits


def detect_reading(words: npt.NDArray[np.uint8], generation: isa.Generation) -> Detection:
    """The reading under which more of the ambiguous bundles are well formed; ``reference`` where none decides.

    A bundle votes where its bytes suit exactly one of the two structs its opcode may have, and a gather pair votes by
    its order. Source: Readings; Pool Encoding 2A and 2B.

    Raises:
        LanefoldError: if the words are no uint8 array of shape (bundles, 64) or the generation is unknown.
    """
    words, generation = rows(words), layout.check_generation(generation)
    votes: dict[isa.Reading, int] = dict.fromkeys(isa.READINGS, 0)
    kinds = {reading: layout.kinds_by_opcode(generation, reading) for reading in isa.READINGS}
    first, second = isa.READINGS
    for opcode in np.flatnonzero(kinds[first] != kinds[second]):
        chosen = words[words[:, 0] == opcode]
        fits = {
            reading: _possible(chosen, isa.BUNDLES[kind])
            if (kind := int(kinds[reading][opcode])) != layout.UNKNOWN
            else np.zeros(len(chosen), bool)
            for reading in isa.READINGS
        }
        votes[first] += int((fits[first] & ~fits[second]).sum())
        votes[second] += int((fits[second] & ~fits[first]).sum())
    for reading, (earlier, later) in isa.GATHER_ORDER.items():
        votes[reading] += _pairs(words, earlier, later, reading)
    winner = second if votes[second] > votes[first] else first
    return Detection(winner, votes)


def _pairs(words: npt.NDArray[np.uint8], earlier: str, later: str, reading: isa.Reading) -> int:
    """Streams of gather bundles vote once, by the half that comes first."""
    opcodes = np.array([isa.BY_NAME[name].opcode(reading) for name in (earlier, later)], np.uint8)
    first_bytes = words[:, 0]
    gathers = first_bytes[np.isin(first_bytes, opcodes)]
    return int(len(gathers) > 1 and gathers[0] == opcodes[0])
