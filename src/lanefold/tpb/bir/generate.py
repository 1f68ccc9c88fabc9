"""The three modes in which the reference code generator walks a program."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from enum import IntEnum

from lanefold.arguments import shown
from lanefold.diagnostics import Diagnostic, Rule
from lanefold.tpb.binary import Stream
from lanefold.tpb.bir.module import Module, as_module

_MODE = Rule(
    "TPB-BIR-MODE",
    "A program is walked to collect its opcodes, to generate its bundles, or to run the checks on them.",
    "Pool Encoding, CodeGenMode arms",
    usage=True,
)


class CodeGenMode(IntEnum):
    """What a walk over the program is for (Pool Encoding, CodeGenMode arms)."""

    COLLECT_OPCODES = 0
    GENERATE_ISACODE = 1
    RUN_ISA_CHECKS = 2


@dataclass(frozen=True, slots=True)
class Generated:
    """What a walk leaves behind.

    In every mode ``census`` counts bundles by mnemonic, ``opcodes`` by byte 0 and ``engines`` by engine; ``streams``
    holds them by file name when generating, ``findings`` what the check said when checking.
    """

    mode: CodeGenMode
    census: dict[str, int]
    opcodes: dict[int, int] = field(default_factory=dict)
    engines: dict[str, int] = field(default_factory=dict)
    streams: dict[str, Stream] = field(default_factory=dict)
    findings: list[Diagnostic] = field(default_factory=list)


def generate(
    module: Module,
    mode: CodeGenMode | int | str = CodeGenMode.GENERATE_ISACODE,
    generation: str | None = None,
    opcodes: str = "reference",
    *,
    check: Callable[[Stream], Iterable[Diagnostic]] | None = None,
) -> Generated:
    """Walks a module in one mode, the reference code generator's own three.

    Args:
        module: the program.
        mode: a `CodeGenMode`, its number or its name.
        generation: ``"v2"``, ``"v3"`` or ``"v4"``; by default the one that the module's ``arch`` names.
        opcodes: opcode reading, ``"reference"`` or ``"headers"``.
        check: called with each engine's stream when checking; every legality rule where left out.

    Raises:
        LanefoldError: ``TPB-BIR-MODE`` for another mode; as `Module.streams`.
    """
    mode = _mode(mode)
    streams = as_module(module).streams(generation, opcodes)
    census: Counter[str] = Counter()
    counted: Counter[int] = Counter()
    for stream in streams.values():
        census.update(stream.census())
        counted.update(stream.words[:, 0].tolist())
    engines = {stream.engine: len(stream) for stream in streams.values()}
    made = Generated(mode, dict(census), dict(sorted(counted.items())), engines)
    if mode is CodeGenMode.COLLECT_OPCODES:
        return made
    if mode is CodeGenMode.GENERATE_ISACODE:
        return replace(made, streams=streams)
    found = [finding for stream in streams.values() for finding in (check or _every_rule)(stream)]
    return replace(made, findings=found)


def _every_rule(stream: Stream) -> list[Diagnostic]:
    from lanefold.tpb.rules import check_stream

    return check_stream(stream)


def _mode(given: object) -> CodeGenMode:
    for mode in CodeGenMode:
        if isinstance(given, (int, str)) and not isinstance(given, bool) and given in (mode.value, mode.name):
            return mode
    raise _MODE.error(
        f"there is no mode {shown(given)}",
        got=shown(given),
        allowed=", ".join(f"{mode.value} {mode.name}" for mode in CodeGenMode),
        cures=["write CodeGenMode.GENERATE_ISACODE"],
    )
