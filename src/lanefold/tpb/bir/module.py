"""BIR modules: JSON in and out, typed instructions in program order, one stream per engine."""

from __future__ import annotations

import difflib
import json
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from lanefold.arguments import shown
from lanefold.diagnostics import Cure, Diagnostic, LanefoldError, Place, Rule, Severity
from lanefold.tpb import isa
from lanefold.tpb.binary import Stream, encode
from lanefold.tpb.binary.layout import check_generation
from lanefold.tpb.bir.form import plain
from lanefold.tpb.bir.operands import typed
from lanefold.tpb.bir.records import AXIS_KEY, Block, Entry, Function, InstructionRecord, Loop, Other, Record
from lanefold.tpb.instruction import Instruction

ARCHITECTURES: dict[str, isa.Generation] = {"gen2": "v2", "gen3": "v3", "gen4": "v4"}
"""The generation that a module's ``arch`` names (BIR JSON record schema: module)."""
ARCH: dict[isa.Generation, str] = {generation: arch for arch, generation in ARCHITECTURES.items()}
"""The ``arch`` of a module for a generation."""
STREAM_SUFFIX = ".bin"
MOST_INSTRUCTIONS = 1 << 20
"""Instructions that the loops of a module may unroll to."""

_FILE = Rule(
    "TPB-BIR-FILE",
    "A BIR module is a JSON object in UTF-8, read from a file, bytes, text or a dictionary.",
    "BIR JSON record schema",
    usage=True,
)
_UNKNOWN = Rule(
    "TPB-BIR-UNKNOWN-OPCODE",
    "Operations that are not part of this leg are kept and written back, but have no bundles here.",
    "BIR JSON record schema",
    severity=Severity.WARNING,
)
_KEPT = Rule(
    "TPB-BIR-UNKNOWN-KEY",
    "Keys that an operation of this leg does not have are kept and written back, but change no bundle.",
    "BIR JSON record schema",
    severity=Severity.WARNING,
)
_LOOP = Rule(
    "TPB-BIR-LOOP",
    f"A loop around instructions of this leg has numbers as bounds and unrolls to at most {MOST_INSTRUCTIONS} of them.",
    "BIR JSON record schema: LoopAxis",
)
_ENGINE = Rule(
    "TPB-BIR-ENGINE",
    "Streams are made of instructions whose engine owns one; the engine comes from the instruction.",
    "Per-engine .bin emission",
)
_ARCH = Rule(
    "TPB-BIR-ARCH",
    "The module's arch names a generation of this leg, unless the call does; where both do, they agree.",
    "BIR JSON record schema: module",
    usage=True,
)


class Step(NamedTuple):
    """One instruction of this leg in program order and the function it stands in."""

    record: InstructionRecord
    function: Function


class Module(Record):
    """A BIR module; ``functions`` start with the main one."""

    functions: list[Function]
    arch: str = ""
    version: int = 2
    attributes: dict[str, Any] = msgspec.field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """The module as plain data for JSON; keys are in the order of their names.

        Raises:
            LanefoldError: ``TPB-BIR-FORM`` if a value has no form in JSON.
        """
        made: dict[str, Any] = _sorted(plain(self.write(), Place()))
        return made

    def generation(self, generation: str | None = None) -> isa.Generation:
        """The generation that the call names, else the one that ``arch`` names, else ``"v2"``.

        Raises:
            LanefoldError: ``TPB-BIR-ARCH`` if ``arch`` names none and the call neither, or if the two name different
                ones.
        """
        stated = ARCHITECTURES.get(self.arch)
        if generation is not None:
            known = check_generation(generation)
            if stated not in (None, known):
                raise _contradiction(self.arch, known)
            return known
        if not self.arch:
            return isa.GENERATIONS[0]
        if stated is None:
            raise _ARCH.error(
                f"the module is for {self.arch!r}",
                got=self.arch,
                allowed=", ".join(ARCHITECTURES),
                place=Place(field="arch"),
                cures=["give the generation in the call, such as generation='v2'"],
            )
        return stated

    def steps(self) -> Iterator[Step]:
        """The instruction records of this leg in program order, function by function, loops unrolled.

        Raises:
            LanefoldError: ``TPB-BIR-LOOP`` if a loop around such instructions cannot be unrolled.
        """
        for function in self.functions:
            for record in _unrolled(function.blocks):
                yield Step(record, function)

    def instructions(self) -> list[Instruction]:
        """The typed instructions of this leg in program order; instructions of a loop once per iteration.

        Raises:
            LanefoldError: with a finding for each instruction that cannot be expressed.
        """
        steps = list(self.steps())
        locations = {id(function): function.locations() for function in self.functions}
        made: dict[int, Instruction] = {}
        found: list[Diagnostic] = []
        for record, function in {id(step.record): step for step in steps}.values():
            try:
                made[id(record)] = typed(record, locations[id(function)], _known_keys(record))
            except LanefoldError as error:
                found += error.diagnostics
        if found:
            raise LanefoldError(found)
        return [made[id(step.record)] for step in steps]

    def others(self) -> list[Other]:
        """The operations that are not part of this leg, in program order, those inside a loop once."""
        entries = _entries(block for function in self.functions for block in function.blocks)
        return [entry for entry in entries if isinstance(entry, Other)]

    def streams(self, generation: str | None = None, opcodes: str = "reference") -> dict[str, Stream]:
        """The bundles of each engine in program order, by file name: ``Pool.bin``, ``DVE.bin`` and so on.

        Args:
            generation: ``"v2"``, ``"v3"`` or ``"v4"``; by default the one that ``arch`` names.
            opcodes: opcode reading, ``"reference"`` or ``"headers"``.

        Raises:
            LanefoldError: with every finding of every instruction that has no bytes or no stream.
        """
        known = self.generation(generation)
        bound: dict[str, list[Instruction]] = {}
        for instruction in self.instructions():
            bound.setdefault(instruction.engine, []).append(instruction)
        found: list[Diagnostic] = []
        streams: dict[str, Stream] = {}
        for engine in (*isa.STREAM_ENGINES, *(name for name in bound if name not in isa.STREAM_ENGINES)):
            if engine not in bound:
                continue
            if engine not in isa.STREAM_ENGINES:
                found += [_no_stream(instruction) for instruction in {id(i): i for i in bound[engine]}.values()]
                continue
            try:
                stream = encode(bound[engine], known, opcodes)
            except LanefoldError as error:
                found += error.diagnostics
                continue
            stream.engine = engine
            streams[engine + STREAM_SUFFIX] = stream
        if found:
            raise LanefoldError(found)
        return streams

    def findings(self) -> list[Diagnostic]:
        """Warnings about what is kept but not translated: operations of other legs, unknown keys."""
        unknown: Counter[str] = Counter()
        keys: Counter[tuple[str, str]] = Counter()
        for entry in _entries(block for function in self.functions for block in function.blocks):
            if isinstance(entry, Other):
                unknown[entry.opcode] += 1
            elif isinstance(entry, InstructionRecord):
                known = _known_keys(entry)
                keys.update((entry.opcode, key) for key in entry.own() if key not in known)
        return [_unknown_opcode(opcode, count) for opcode, count in unknown.items()] + [
            _unknown_key(opcode, key, count) for (opcode, key), count in keys.items()
        ]


Module.INNER = {"functions": Function.read}


def load(source: str | Path | bytes | bytearray | Mapping[str, Any]) -> Module:
    """Reads a BIR module from a file path, JSON bytes, JSON text (it starts with a brace) or a dictionary.

    Raises:
        LanefoldError: ``TPB-BIR-FILE`` if there is no JSON object to read, ``TPB-BIR-FORM`` if a record of it lacks a
            required key or has one of the wrong kind.
    """
    place = Place(file=str(source)) if isinstance(source, Path) or _is_path(source) else Place()
    try:
        content = source if isinstance(source, Mapping) else msgspec.json.decode(_content(source))
        return Module.read(plain(content, place), place)
    except (msgspec.MsgspecError, UnicodeError) as error:
        why = str(error).removeprefix("JSON is malformed: ")
        raise _no_file(f"the JSON text is malformed: {why}", "malformed JSON", place) from None
    except RecursionError:
        raise _no_file("the JSON text is nested too deeply", "deep nesting", place) from None


def dump(module: Module, path: str | Path | None = None) -> bytes:
    """The module as JSON in UTF-8, keys in order, indented by 2; also written to a file where a path is given.

    Infinities and NaN are the strings ``"inf"``, ``"-inf"`` and ``"nan"``.

    Raises:
        LanefoldError: ``TPB-BIR-FORM`` if a value has no form in JSON, ``TPB-BIR-FILE`` if it is no module or the file
            cannot be written.
    """
    try:
        text = json.dumps(as_module(module).to_dict(), indent=2, allow_nan=False) + "\n"
    except RecursionError:
        raise _no_file("the module is nested too deeply", "deep nesting", Place()) from None
    content = text.encode()
    if path is not None:
        try:
            Path(path).write_bytes(content)
        except TypeError:
            raise _unwritable(shown(path), "it is no path") from None
        except (OSError, ValueError) as error:
            raise _unwritable(str(path), getattr(error, "strerror", None) or str(error)) from None
    return content


def _is_path(source: object) -> bool:
    return isinstance(source, str) and not source.lstrip().startswith("{")


def _content(source: object) -> bytes:
    if isinstance(source, (bytes, bytearray)):
        return bytes(source).removeprefix(BOM_UTF8)
    if isinstance(source, str) and not _is_path(source):
        return source.encode()
    if isinstance(source, (str, Path)):
        try:
            return Path(source).read_bytes().removeprefix(BOM_UTF8)
        except (OSError, ValueError) as error:
            raise _no_file(f"{source} cannot be read: {error}", str(source), Place(file=str(source))) from None
    raise _no_file(f"{shown(source)} is no module", shown(source), Place())


def _unwritable(path: str, why: str) -> LanefoldError:
    return _FILE.error(
        f"{path or 'an empty path'} cannot be written: {why}",
        got=path,
        allowed="the path of a file that may be written",
        place=Place(file=path),
        cures=["give a path in a folder that exists and may be written", "leave the path out and take the bytes"],
    )


def _no_file(message: str, got: str, place: Place) -> LanefoldError:
    return _FILE.error(
        message,
        got=got or "nothing",
        allowed="a JSON object with functions",
        place=place,
        cures=["give the path of a readable BIR JSON file, its content, or a dictionary"],
    )


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value


def _entries(blocks: Iterable[Block]) -> Iterator[Entry]:
    """All instructions, each once, those inside loops included."""
    for block in blocks:
        for entry in block.instructions:
            yield entry
            if isinstance(entry, Loop):
                yield from _entries(entry.blocks)


def _unrolled(blocks: Iterable[Block]) -> Iterator[InstructionRecord]:
    for block in blocks:
        for entry in block.instructions:
            if isinstance(entry, InstructionRecord):
                yield entry
            elif isinstance(entry, Loop):
                body = list(_unrolled(entry.blocks))
                for _ in range(_iterations(entry, len(body)) if body else 0):
                    yield from body


def _iterations(loop: Loop, size: int) -> int:
    """How often a loop runs its body of so many instructions."""
    axis = loop.axis
    bounds = (axis.lb, axis.ub, axis.stride)
    whole = all(isinstance(number, int) and not isinstance(number, bool) for number in bounds) and axis.stride
    trips = max(0, -((axis.lb - axis.ub) // axis.stride)) if whole else -1
    if 0 <= trips * size <= MOST_INSTRUCTIONS:
        return trips
    around = f"{size} instruction{'s' * (size != 1)}"
    raise _LOOP.error(
        f"loop {axis.name} runs from {axis.lb} to {axis.ub} by {axis.stride} around {around}"[:200],
        got=f"lb {axis.lb}, ub {axis.ub}, stride {axis.stride}"[:120],
        allowed=f"whole numbers, stride not 0, at most {MOST_INSTRUCTIONS} instructions in all",
        place=Place(field=AXIS_KEY),
        cures=["unroll the loop in the compiler, or split it"],
    )


def _known_keys(record: InstructionRecord) -> dict[str, Any]:
    """The operation's own keys; others are kept in the record but say nothing to the encoder."""
    names = {attribute.name for attribute in isa.BIR_BY_OPCODE[record.opcode].attributes}
    return {key: value for key, value in record.own().items() if key in names}


def _contradiction(arch: str, known: isa.Generation) -> LanefoldError:
    return _ARCH.error(
        f"the module is for {arch!r}, which is {ARCHITECTURES[arch]}, and the call says {known}",
        got=f"arch {arch}, generation {known}",
        allowed=f"generation {ARCHITECTURES[arch]}, or none",
        place=Place(field="arch"),
        cures=["leave the generation out of the call", f"write arch {ARCH[known]!r} to move the module to {known}"],
    )


def as_module(given: object) -> Module:
    """The module itself.

    Raises:
        LanefoldError: ``TPB-BIR-FILE`` if it is none.
    """
    if isinstance(given, Module):
        return given
    raise _FILE.error(
        f"{shown(given)} is no module",
        got=shown(given),
        allowed="a Module",
        cures=["read it with bir.load", "make one of typed instructions with bir.from_instructions"],
    )


def _no_stream(instruction: Instruction) -> Diagnostic:
    usual = isa.BIR_BY_OPCODE[instruction.opcode].engine
    return _ENGINE.finding(
        f"{instruction.opcode} is bound to {instruction.engine or 'no engine'}, which has no stream",
        got=instruction.engine or "nothing",
        allowed=", ".join(isa.STREAM_ENGINES),
        place=instruction.place("engine"),
        cures=[Cure(f"bind it to {usual}", {"engine": usual})],
    )


def _unknown_opcode(opcode: str, count: int) -> Diagnostic:
    near = difflib.get_close_matches(opcode, isa.BIR_BY_OPCODE, 1, 0.75)
    kept = "nothing need be done; the instruction is written back unchanged"
    return _UNKNOWN.finding(
        f"{count} instruction{'s' * (count > 1)} {opcode!r} kept as read, without bundles",
        got=opcode or "nothing",
        allowed=", ".join(isa.BIR_BY_OPCODE),
        place=Place(instruction=opcode, field="opcode"),
        cures=[Cure(f"write {near[0]!r}", {"opcode": near[0]}), kept] if near else [kept],
    )


def _unknown_key(opcode: str, key: str, count: int) -> Diagnostic:
    names = [attribute.name for attribute in isa.BIR_BY_OPCODE[opcode].attributes]
    near = difflib.get_close_matches(key, names, 1)
    return _KEPT.finding(
        f"{count} {opcode} with the key {key!r}, which changes no bundle",
        got=key or "nothing",
        allowed=", ".join(names) or "no keys beside the common ones",
        place=Place(instruction=opcode, field=key),
        cures=[f"write {near[0]!r}" if near else "nothing need be done; the key is written back unchanged"],
    )
