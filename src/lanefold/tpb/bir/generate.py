"""The three modes in which the reference code generator walks a program."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import IntEnum

from lanefold.diagnostics import Diagnostic
from lanefold.tpb.binary import Stream
from lanefold.tpb.bir.module import Module


class CodeGenMode(IntEnum):
    """What a walk over the program is for (Pool Encoding, CodeGenMode arms)."""

    COLLECT_OPCODES = 0
    GENERATE_ISACODE = 1
    RUN_ISA_CHECKS = 2


@dataclass(frozen=True, slots=True)
class Generated:
    """What a walk leaves behind.

    ``census`` counts bundles by mnemonic in every mode; ``streams`` holds them by file name when generating,
    ``findings`` what the check said when checking.
    """

    mode: CodeGenMode
    census: dict[str, int]
    streams: dict[str, Stream] = field(default_factory=dict)
    findings: list[Diagnostic] = field(default_factory=list)


def generate(
    module: Module,
    mode: CodeGenMode = CodeGenMode.GENERATE_ISACODE,
    generation: str | None = None,
    opcodes: str = "reference",
    *,
    check: Callable[[Stream], Iterable[Diagnostic]] | None = None,
) -> Generated:
    """Walks a module in one mode; ``check`` is called with each engine's stream when checking.

    Raises:
        LanefoldError: as `Module.streams`.
    """
    streams = module.streams(generation, opcodes)
    census: Counter[str] = Counter()
    for stream in streams.values():
        census.update(stream.census())
    if mode is CodeGenMode.COLLECT_OPCODES:
        return Generated(mode, dict(census))
    if mode is CodeGenMode.GENERATE_ISACODE:
        return Generated(mode, dict(census), streams)
    found = [finding for stream in streams.values() for finding in (check(stream) if check else ())]
    return Generated(mode, dict(census), findings=found)
