"""Bundles of every opcode under every generation and reading: executed, or refused by a rule before anything is."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import lanefold.tpb as tpb
from lanefold.diagnostics import LanefoldError
from lanefold.tpb import isa
from lanefold.tpb.binary import layout

SEED, ROUNDS = 20, 12
DESCRIPTORS = (isa.Kind.TENSOR2D, isa.Kind.TENSOR4D, isa.Kind.MEMORY4D)
TYPES = [10, 10, 10, 6, 7, 8, 9, 3, 2, 5, 4, 13, 14, 15, 11, 12]
REFUSED_LATER = {"TPB-MACHINE-STATE", "TPB-MACHINE-OPERATOR", "TPB-ALU-CODE", "TPB-CAST-TYPE"}
"""What only the memory's content, the state of the machine or the types decide when a bundle's turn comes."""


def descriptor(random: np.random.Generator, slots: int) -> tuple[int, list[int], list[int]]:
    """A walk inside one partition of the state buffer or PSUM."""
    nums = random.choice([1, 1, 2, 4, 8, 32], slots)
    while np.prod(nums) > 512:
        nums = np.maximum(nums // 2, 1)
    partition = int(random.choice([0, 32, 64, 96]))
    base = 0x2000000 + partition * 0x8000 if random.random() < 0.2 else partition << 18
    return base + 4096 + 8 * int(random.integers(0, 64)), random.choice([0, 1, 1, 2, -1], slots).tolist(), nums.tolist()


def scalar(random: np.random.Generator, row: isa.BundleKind, field: isa.Field) -> Any:
    """A number for a field: mostly a legal one."""
    if field.name in row.allowed and random.random() < 0.95:
        return random.choice(row.allowed[field.name])
    if field.values == "dtype":
        return random.choice(TYPES)
    some = {"num_active_channels": [1, 5, 32, 32], "op": [4, 8, 9, 10, 11, 7, 0xC4], "mask": [511], "num_elem": [1, 2]}
    return random.choice(some.get(field.name, [0, 1, 2, 3]))


def bundle(random: np.random.Generator, row: isa.BundleKind, opcode: int) -> bytes:
    """A bundle whose addresses and walks stay inside the memory."""
    word = np.zeros(64, np.uint8)
    record = word.view(layout.record(row.struct))[0]
    for field in isa.STRUCTS[row.struct].fields[len(isa.COMMON) :]:
        if field.kind in DESCRIPTORS:
            slots = record[field.name]["step_elem"].shape[0]
            record[field.name] = descriptor(random, slots)
        elif field.kind is not isa.Kind.RESERVED:
            record[field.name] = scalar(random, row, field)
    record["opcode"], record["inst_word_len"] = opcode, 16
    return word.tobytes()


def cured(stream: tpb.Stream, changes: dict[str, Any]) -> tpb.Stream:
    """The stream of one bundle with a cure applied."""
    made = tpb.decode(bytearray(stream.tobytes()), stream.generation, stream.opcodes)
    columns = made.columns(isa.BUNDLES[made.kinds[0]].struct)
    for path, value in changes.items():
        *outer, last = path.split(".")
        target = columns
        for part in outer:
            target = target[part]
        target[last] = value
    return made


@pytest.mark.parametrize("generation", isa.GENERATIONS)
@pytest.mark.parametrize("reading", isa.READINGS)
def test_every_opcode_is_executed_or_refused(generation: str, reading: str) -> None:
    random = np.random.default_rng(SEED)
    machine = tpb.Machine(generation, legality="bounds")
    seen: Counter[str] = Counter()
    for row in isa.BUNDLES:
        for made_for in isa.READINGS:
            opcode = row.opcode(made_for)
            for _ in range(ROUNDS if opcode is not None else 0):
                stream = tpb.decode(bundle(random, row, opcode), generation, reading)
                seen[outcome(machine, stream)] += 1
    assert seen.pop("executed") > ROUNDS
    assert set(seen) <= REFUSED_LATER | {
        "TPB-MACHINE-COUNT",
        "TPB-MACHINE-NUMBER",
        "TPB-MACHINE-BOUNDS",
        "TPB-MACHINE-OPCODE",
    }


def outcome(machine: tpb.Machine, stream: tpb.Stream) -> str:
    """What becomes of a bundle, its first cures applied where they may be."""
    for _ in range(4):
        try:
            machine.run(stream)
        except LanefoldError as error:
            finding = error.diagnostics[0]
            if finding.code not in ("TPB-MACHINE-COUNT", "TPB-MACHINE-NUMBER"):
                return finding.code
            stream = cured(stream, dict(finding.cures[0].changes))
        else:
            return "executed"
    return finding.code


def test_a_pool_with_too_few_outputs_is_refused_before_anything_is_executed() -> None:
    source = tpb.Access("SB", 0, 0, "float32", ((64, 32), (16, 4), (2, 4), (8, 2), (1, 2)), "x")
    out = tpb.Access("SB", 0, 0x8000, "float32", ((16, 32), (4, 4), (1, 4)), "y")
    first = tpb.Instruction("Pool", (source,), (out,), {"func": "Max"}, engine="Pool", name="whole")
    short = tpb.Access("SB", 0, 0x9000, "float32", ((16, 32), (1, 1)), "y")
    second = tpb.Instruction("Pool", (source,), (short,), {"func": "Max"}, engine="Pool", name="short")
    machine = tpb.Machine("v2")
    machine.sbuf[:, :256] = 1
    with pytest.raises(LanefoldError) as caught:
        machine.run(tpb.encode([first, second]))
    finding = caught.value.diagnostics[0]
    assert (finding.code, finding.place.instruction) == ("TPB-MACHINE-COUNT", "short")
    assert finding.message.startswith("Pool writes 1 element per partition, its source makes 16")
    assert not machine.sbuf[:, 0x8000:].any()
