"""Columnar rules against a scalar model, over legal bundles with random damage."""

from __future__ import annotations

import random
from collections import Counter

import pytest

import lanefold.tpb as tpb
from tests.tpb import rule_bundles, slow_rules

# What needs a neighbour, an engine, or is said once about the whole.
NOT_OF_ONE_BUNDLE = {"TPB-GATHER-PAIR", "TPB-SEARCH-KEYS", "TPB-READING", "TPB-INTEGER-EXACT"}

BYTES = (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 14, 16, 32, 33, 64, 96, 127, 128, 129, 255, 0x1B, 0xC4, 0xC8, 0xDE)
WORDS = (
    0,
    2,
    4,
    28,
    0x300,
    0x10000,
    0x10004,
    0x2FFFC,
    0x30000,
    0x37FF8,
    0x800000,
    0x1000010,
    0x1800000,
    0x140000,
    0x2000000,
    0x2003FF0,
    0x2008000,
    0x2100000,
    0x3000000,
    0x20000000,
    0x20000404,
    0x40000000,
    0x60000000,
    0x80000007,
    0x80000040,
    0x80010001,
    0x81000001,
    0xA0000003,
    0xC0000002,
)
SHORTS = (0, 1, 2, 3, 7, 8, 16, 31, 32, 33, 64, 512, 513, 1000, 0x7FFF, 0x8000, 0xFFFF, 0xFFF8)


def damaged(random_: random.Random, name: str, reading: str) -> bytes:
    word = bytearray(rule_bundles.bundle(name, reading))
    kind = rule_bundles.struct_of(name)
    starts = [at for at, _ in rule_bundles.DESCRIPTORS.get(kind, {"src": (0x0C, 4), "dst": (0x2C, 4)}).values()]
    for _ in range(random_.randint(0, 3)):
        choice = random_.random()
        if choice < 0.35:
            at = random_.choice(starts)
            word[at : at + 4] = random_.choice(WORDS).to_bytes(4, "little")
        elif choice < 0.6:
            at = random_.choice(starts) + 4 + 2 * random_.randrange(8)
            word[at : at + 2] = random_.choice(SHORTS).to_bytes(2, "little")
        elif choice < 0.9:
            word[random_.randrange(0x20, 0x27)] = random_.choice(BYTES)
        elif choice < 0.95:
            word[random_.randrange(64)] = random_.choice(BYTES)
        else:
            word[random_.randrange(1, 64)] = random_.randrange(256)
    return bytes(word[:64])


@pytest.mark.parametrize("generation", ["v2", "v3", "v4"])
@pytest.mark.parametrize("reading", ["reference", "headers"])
def test_columns_agree_with_the_scalar_model(generation: str, reading: str) -> None:
    random_ = random.Random(f"{generation} {reading}")
    names = sorted(rule_bundles.OPCODES[reading])
    words = [damaged(random_, random_.choice(names), reading) for _ in range(4000)]
    found: list[set[str]] = [set() for _ in words]
    for finding in tpb.check(rule_bundles.stream(*words, generation=generation, reading=reading)):
        if finding.code not in NOT_OF_ONE_BUNDLE:
            found[int(finding.place.instruction.split()[1])].add(finding.code)
    seen: Counter[str] = Counter()
    for word, got in zip(words, found, strict=True):
        wanted = slow_rules.codes(word, generation, reading)
        if slow_rules.too_long_to_walk(word, generation, reading):
            got.discard("TPB-OVERLAP")
        seen.update(wanted)
        assert got == wanted, (word.hex(), generation, reading)
    assert len(seen) > 45, "the damage reaches most rules"


def test_random_bytes_raise_nothing() -> None:
    random_ = random.Random(7)
    for generation in ("v2", "v3", "v4"):
        words = [random_.randbytes(64) for _ in range(300)]
        for reading in ("reference", "headers"):
            opcodes = sorted(rule_bundles.OPCODES[reading].values())
            made = [bytes((random_.choice(opcodes), 16)) + word[2:] for word in words]
            for finding in tpb.check(b"".join(made), generation, reading):
                assert finding.message
                assert finding.to_text()
                assert finding.cures
