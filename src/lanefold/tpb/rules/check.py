"""Every rule over a stream, a program or single instructions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from lanefold.diagnostics import Diagnostic, LanefoldError, Place, Rule, Severity
from lanefold.tpb import isa
from lanefold.tpb.binary import Stream, decode, detect_reading, encode, layout
from lanefold.tpb.binary.encode import HasInstructions, bundles_of, generation_of, listed_instructions
from lanefold.tpb.instruction import Instruction
from lanefold.tpb.limits import front_end
from lanefold.tpb.rules import counts, fields, forms, overlap, places, streams, types
from lanefold.tpb.rules.batch import Batch, engine_codes, offset_of, role_of
from lanefold.tpb.rules.checks import Check, Factory
from lanefold.tpb.rules.streams import Placer
from lanefold.tpb.rules.terms import in_terms_of, in_words, of_instruction, operand_path

_FACTORIES: tuple[Factory, ...] = (
    fields.header_checks,
    fields.reserved_checks,
    fields.number_checks,
    fields.channel_checks,
    types.dtype_checks,
    types.operator_checks,
    types.lane_dtype_checks,
    types.pair_checks,
    types.range_checks,
    places.num_checks,
    forms.form_checks,
    places.place_checks,
    places.bounds_checks,
    counts.count_checks,
    fields.factor_checks,
    overlap.overlap_checks,
    streams.engine_checks,
)
_INPUT = Rule(
    "TPB-CHECK-INPUT",
    "What is checked is a stream, its bytes, or typed instructions.",
    "Public interface",
    usage=True,
)
BLOCK = 16384
"""Bundles that are checked at a time: their columns stay in the cache."""

Found = tuple[int, int, Diagnostic]


@cache
def checks_of(
    name: str, generation: isa.Generation, severities: frozenset[Severity] = frozenset(Severity)
) -> tuple[Check, ...]:
    """The checks of one instruction with the severities given, in the order in which findings are reported."""
    row = isa.BY_NAME[name]
    every = (check for factory in _FACTORIES for check in factory(row, generation))
    return tuple(check for check in every if check.rule.severity in severities)


def check(
    program: Stream | Instruction | HasInstructions | Iterable[Instruction] | bytes | bytearray | memoryview | str,
    generation: str | None = None,
    opcodes: str | None = None,
) -> list[Diagnostic]:
    """Findings of every rule, in program order; what a module keeps comes first, notes on the whole come last.

    Args:
        program: a stream, its bytes or hexadecimal digits, one instruction, several, or anything with a method
            ``instructions()``.
        generation: ``"v2"``, ``"v3"`` or ``"v4"``; that of the stream or of the module, else v2, where left out.
        opcodes: opcode reading; that of the stream, or reference, where left out; ``"auto"`` for bytes.

    Raises:
        LanefoldError: if the bytes are no stream or an argument is unknown.
    """
    if isinstance(program, Stream):
        return check_stream(_reread(program, generation, opcodes))
    reading = "reference" if opcodes is None else opcodes
    if isinstance(program, bytes | bytearray | memoryview | str | np.ndarray):
        return check_stream(decode(program, isa.GENERATIONS[0] if generation is None else generation, reading))
    known = generation_of(program, generation)
    found = _check_instructions(_listed(program), known, layout.check_reading(reading))
    # A module has findings of its own: what it keeps without translating it.
    kept = getattr(program, "findings", None)
    return [*kept(), *found] if callable(kept) else found


def _reread(stream: Stream, generation: str | None, opcodes: str | None) -> Stream:
    known = stream.generation if generation is None else layout.check_generation(generation)
    reading: str = stream.opcodes if opcodes is None else opcodes
    if isinstance(reading, str) and reading == "auto":
        reading = detect_reading(stream.words, known).reading
    return Stream(
        stream.words,
        known,
        layout.check_reading(reading),
        instructions=stream.instructions,
        origin=stream.origin,
        engine=stream.engine,
    )


def _listed(program: Any) -> tuple[Instruction, ...]:
    try:
        return listed_instructions(program)
    except LanefoldError as error:
        # Bytes and streams may be checked too, so the refusal names more than the encoder's.
        if error.diagnostics[0].code == "TPB-INSTRUCTIONS":
            raise _not_a_program(error.diagnostics[0].got) from None
        raise


def _not_a_program(got: str) -> LanefoldError:
    return _INPUT.error(
        f"{got} is neither a stream nor an instruction",
        got=got,
        allowed="Stream, bytes, hexadecimal text, Instruction, several of them, anything with instructions()",
        cures=["read BIR JSON with bir.load, bytes with decode, text with assemble"],
    )


def _check_instructions(
    listed: tuple[Instruction, ...], generation: isa.Generation, reading: isa.Reading
) -> list[Diagnostic]:
    found: list[tuple[int, Diagnostic]] = []
    encoded: list[int] = []
    for index, instruction in enumerate(listed):
        early = front_end(instruction, generation, reading)
        found += [(index, finding) for finding in early]
        if any(finding.severity is Severity.ERROR for finding in early):
            continue
        try:
            bundles_of(instruction, generation, reading)
        except LanefoldError as error:
            found += [(index, of_instruction(instruction, finding)) for finding in error.diagnostics]
            continue
        encoded.append(index)
    stream = encode([listed[index] for index in encoded], generation, reading)
    origin = stream.origin
    late, ends = _sorted(stream)
    for at, _, finding in late:
        index = encoded[int(origin[at])] if origin is not None else at
        found.append((index, finding))
    found.sort(key=lambda entry: entry[0])
    return [finding for _, finding in found] + [in_words(note) for note in ends]


def check_stream(stream: Stream) -> list[Diagnostic]:
    """Findings of the bundle rules and the stream rules on one stream, in stream order; notes come last."""
    found, ends = _sorted(stream)
    return [finding for _, _, finding in found] + ends


def stream_errors(stream: Stream) -> list[Diagnostic]:
    """Only what stops a stream from being executed: the rules whose findings are errors, in stream order."""
    found = _of_opcodes_and_bundles(stream, _placer(stream), frozenset((Severity.ERROR,)), lambda batch: None)
    return [finding for _, _, finding in sorted(found, key=lambda entry: entry[:2])]


def findings_of(stream: Stream, chosen: Callable[[Batch], Iterable[Check]]) -> list[Diagnostic]:
    """Findings of some checks only, in stream order."""
    place = _placer(stream)
    found = [found for batch in batches(stream) for found in _run(batch, chosen(batch), stream, place)]
    return [finding for _, _, finding in sorted(found, key=lambda entry: entry[:2])]


def _of_opcodes_and_bundles(
    stream: Stream, place: Placer, severities: frozenset[Severity], visit: Callable[[Batch], None]
) -> list[Found]:
    found: list[Found] = [(index, -1, finding) for index, finding in streams.opcode_findings(stream, place)]
    for batch in batches(stream):
        chosen = checks_of(batch.row.name, stream.generation, severities)
        found += _run(batch, chosen, stream, place)
        visit(batch)
    return found


def _sorted(stream: Stream) -> tuple[list[Found], list[Diagnostic]]:
    place = _placer(stream)
    integers, first = 0, len(stream)

    def count_integers(batch: Batch) -> None:
        nonlocal integers, first
        noted = streams.integer_note(batch)
        if noted is not None and noted.any():
            integers += int(noted.sum())
            first = min(first, int(batch.indices[noted][0]))

    found = _of_opcodes_and_bundles(stream, place, frozenset(Severity), count_integers)
    found += [(index, len(_FACTORIES), finding) for index, finding in streams.pair_findings(stream, place)]
    found.sort(key=lambda entry: entry[:2])
    ends = [finding for _, finding in streams.notes(stream, place)]
    if integers:
        ends.append(streams.integer_finding(integers, first))
    return found, ends


def batches(stream: Stream) -> Iterator[Batch]:
    """The bundles of a stream, sorted by instruction, in blocks."""
    kinds = stream.kinds
    engines = _engines(stream)
    for number in np.unique(kinds):
        if number == layout.UNKNOWN:
            continue
        indices = np.flatnonzero(kinds == number)
        for start in range(0, len(indices), BLOCK):
            part = indices[start : start + BLOCK]
            whole = len(part) == part[-1] - part[0] + 1
            words = stream.words[part[0] : part[-1] + 1] if whole else stream.words[part]
            yield Batch(
                isa.BUNDLES[number],
                stream.generation,
                stream.opcodes,
                np.ascontiguousarray(words),
                part,
                None if engines is None else engines[part],
            )


def _engines(stream: Stream) -> npt.NDArray[np.int8] | None:
    if stream.origin is not None and stream.instructions:
        codes = engine_codes([instruction.engine for instruction in stream.instructions])
        return codes[stream.origin] if codes.any() else None
    if stream.engine:
        return np.repeat(engine_codes([stream.engine]), len(stream))
    return None


def _run(batch: Batch, checks: Iterable[Check], stream: Stream, place: Placer) -> Iterator[Found]:
    for order, entry in enumerate(checks):
        kept = entry.ok(batch)
        if kept.all():
            continue
        for at in np.flatnonzero(~kept):
            index = int(batch.indices[at])
            yield index, order, _finding(batch, entry, int(at), index, stream, place)


def _finding(
    batch: Batch,
    entry: Check,
    at: int,
    index: int,
    stream: Stream,
    place: Placer,
) -> Diagnostic:
    why = entry.explain(batch, at)
    offset = why.offset
    if offset is None and entry.field:
        offset = offset_of(batch.row.struct, entry.field)
    cures = why.cures
    if stream.origin is not None and stream.instructions:
        instruction = stream.instructions[int(stream.origin[index])]
        cures = tuple(in_terms_of(instruction, batch, at, cure) for cure in cures)
    return entry.rule.finding(
        why.message, got=why.got, allowed=why.allowed, cures=cures, place=place(index, entry.field, offset)
    )


def _placer(stream: Stream) -> Placer:
    def place(index: int, field: str, offset: int | None) -> Place:
        number = int(stream.kinds[index])
        row = None if number == layout.UNKNOWN else isa.BUNDLES[number]
        if stream.origin is None or not stream.instructions:
            name = f"bundle {index} ({row.mnemonic if row else 'Unknown'})"
            return Place(instruction=name, operand=_role_name(row, field), field=field, offset=offset)
        instruction = stream.instructions[int(stream.origin[index])]
        operand = ""
        if row and (role := _role_name(row, field)):
            side, slot = operand_path(row, role_of(row, role))
            operand = getattr(instruction, side)[slot].name or role
        return Place(
            node=instruction.node,
            instruction=instruction.name or instruction.opcode,
            operand=operand,
            field=field,
            offset=offset,
        )

    return place


def _role_name(row: isa.BundleKind | None, field: str) -> str:
    if row is None or not field:
        return ""
    head = field.split(".")[0]
    for role in row.roles:
        if head in (role.field, role.dtype_field):
            return role.field
    return ""
