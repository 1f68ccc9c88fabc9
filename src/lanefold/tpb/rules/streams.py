"""Rules on whole streams: opcodes, engines, pairs of bundles, and notes that are made once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

import numpy as np
import numpy.typing as npt

from lanefold.diagnostics import Cure, Diagnostic, Place, Rule, Severity
from lanefold.tpb import isa
from lanefold.tpb.binary import Stream, layout
from lanefold.tpb.rules.batch import ENGINES, Batch, Mask
from lanefold.tpb.rules.checks import Check, Checks, Explained
from lanefold.tpb.rules.fields import named, names_of
from lanefold.tpb.rules.types import integer_codes, is_bitvec, lookup

_OPCODE = Rule(
    "TPB-OPCODE",
    "Byte 0 is an opcode of this leg in the generation and reading that are checked.",
    "ISA headers: opcode map per generation; Pool Engine",
    predicate="has_valid_neuron_header (is_valid_enum), has_s4d4_pl_opcode, has_gather_opcode",
)
_ENGINE = Rule(
    "TPB-ENGINE",
    "An instruction stands in the stream of an engine that executes it.",
    "ISA headers and compiler: opcode on engine",
    predicate="instruction_engine_check (v2), neuron_isa_check_opcode_on_engine (v3, v4)",
)
_ENGINE_RARE = Rule(
    "TPB-ENGINE-UNUSUAL",
    "An instruction stands in the stream of the engine that compilers give it to.",
    "DVE microcode table; Pool Encoding",
    Severity.WARNING,
)
_ARM_DVE = Rule(
    "TPB-REDUCE-ENGINE-DVE",
    "On DVE a tensor reduce takes no integer operator and finds no positions.",
    "ISA headers: is_valid_tensor_reduce, engine arms",
)
_ARM_POOL = Rule(
    "TPB-REDUCE-ENGINE-POOL",
    "On Pool a tensor reduce takes integer operators over 32- or 64-bit integers in the state buffer.",
    "ISA headers: is_valid_tensor_reduce, engine arms",
    Severity.WARNING,
)
_POOL_PSUM = Rule(
    "TPB-POOL-ENGINE-PSUM",
    "Instructions of the Pool engine keep out of PSUM, which its cores cannot reach.",
    "On-chip memory model: GpSimd",
    Severity.WARNING,
)
_PAIR = Rule(
    "TPB-GATHER-PAIR",
    "Gather and PoolBufferLoad alternate: Gather first in the reference reading, PoolBufferLoad first in the headers "
    "one.",
    "Pool Encoding 5; ISA headers: S4D4_GT",
    Severity.WARNING,
)
_KEYS = Rule(
    "TPB-SEARCH-KEYS",
    "MatchValueLoad is followed by FindIndex8 or MatchReplace8, and these follow a MatchValueLoad.",
    "Pool Engine, FIND_INDEX8; DVE search encoding",
    Severity.WARNING,
)
_READING = Rule(
    "TPB-READING",
    "The reference and the headers reading give some reduce opcodes different structs; the one in use is named.",
    "Readings; Pool Engine, The Cross-Lane Opcode Fork; ISA headers: opcode map",
    Severity.INFO,
)
_INTEGERS = Rule(
    "TPB-INTEGER-EXACT",
    "Integers beyond 2^24 lose bits where they are computed in single precision.",
    "Element type table; NKI tensor_reduce",
    Severity.INFO,
)

_KNOWN_ENGINES = isa.STREAM_ENGINES


def _engine_table(names: tuple[str, ...]) -> npt.NDArray[np.bool_]:
    # Code 0 and engines without a stream of their own, such as Unassigned, say nothing.
    return np.array([name in names or name not in _KNOWN_ENGINES for name in ENGINES])


def engine_checks(row: isa.BundleKind, generation: isa.Generation) -> Checks:
    """The engine, where the stream or the instruction names one."""
    yield _engine(_ENGINE, row, (*row.engines, *row.lint_engines))
    if row.lint_engines:
        yield _engine(_ENGINE_RARE, row, (*row.engines, *(e for e in _KNOWN_ENGINES if e not in row.lint_engines)))
    if row.family == "tensor_reduce" and "Pool" in row.engines:
        yield from _arms(row, generation)
    if "Pool" in row.engines:
        yield from _psum(row)


def _engine(rule: Rule, row: isa.BundleKind, legal: tuple[str, ...]) -> Check:
    table = _engine_table(legal)

    def ok(batch: Batch) -> Mask:
        return batch.everywhere(True) if batch.engines is None else table[batch.engines]

    def explain(batch: Batch, at: int) -> Explained:
        got = ENGINES[int(batch.engines[at])] if batch.engines is not None else ""
        return Explained(
            f"{row.mnemonic} stands in the stream of {got}",
            got,
            ", ".join(row.engines if rule is _ENGINE_RARE else legal),
            (Cure(f"bind it to {row.engines[0]}", {"engine": row.engines[0]}),),
        )

    return Check(rule, "", ok, explain)


def _on(batch: Batch, engine: str) -> Mask | None:
    if batch.engines is None:
        return None
    found: Mask = batch.engines == ENGINES.index(engine)
    return found if found.any() else None


def _arms(row: isa.BundleKind, generation: isa.Generation) -> Checks:
    integers = lookup(() if is_bitvec(row) else integer_codes(generation))
    wide = lookup(tuple(n for n, name in names_of("dtype").items() if name in ("INT32", "UINT32", "INT64", "UINT64")))
    names = names_of("alu")
    add = next(code for code, name in names.items() if name == "ADD")

    def dve_ok(batch: Batch) -> Mask:
        here = _on(batch, "DVE")
        return batch.everywhere(True) if here is None else ~(here & integers[batch.column("op")])

    def dve_explain(batch: Batch, at: int) -> Explained:
        code = int(batch.column("op")[at])
        return Explained(
            f"{row.mnemonic} on DVE has the integer operator 0x{code:02X} {names[code]}",
            f"0x{code:02X} {names[code]} on DVE",
            "operators that are not integer operators; or the Pool engine",
            (Cure("bind it to Pool", {"engine": "Pool"}), Cure(f"use 0x{add:02X} {names[add]}", {"op": add})),
        )

    yield Check(_ARM_DVE, "op", dve_ok, dve_explain)

    def pool_ok(batch: Batch) -> Mask:
        here = _on(batch, "Pool")
        if here is None:
            return batch.everywhere(True)
        fits = integers[batch.column("op")] & wide[batch.column("in_dtype")]
        fits &= ~batch.walk("src").psum & ~batch.walk("dst").psum
        found: Mask = ~here | fits
        return found

    def pool_explain(batch: Batch, at: int) -> Explained:
        code = int(batch.column("op")[at])
        tag = named(int(batch.column("in_dtype")[at]), names_of("dtype"))
        return Explained(
            f"{row.mnemonic} on Pool folds {tag} with 0x{code:02X} {names.get(code, '?')}",
            f"0x{code:02X} over {tag} on Pool",
            "an integer operator over INT32, UINT32, INT64 or UINT64 in SB; or the DVE engine",
            (Cure("bind it to DVE", {"engine": "DVE"}),),
        )

    yield Check(_ARM_POOL, "op", pool_ok, pool_explain)


def _psum(row: isa.BundleKind) -> Checks:
    for role in row.roles:
        if "PSUM" not in role.memories:
            continue
        field = role.field

        def ok(batch: Batch, field: str = field) -> Mask:
            here = _on(batch, "Pool")
            walk = batch.walk(field)
            return batch.everywhere(True) if here is None else ~(here & walk.psum & walk.placed)

        def explain(batch: Batch, at: int, field: str = field) -> Explained:
            walk = batch.walk(field)
            address = int(walk.partition[at]) * batch.geometry.sbuf_stride + int(walk.byte[at])
            return Explained(
                f"{field} of {row.mnemonic} on Pool lies in PSUM",
                "PSUM",
                "SB, the state buffer",
                (Cure("copy the tensor to the state buffer", {f"{field}.start_addr": address}),),
            )

        yield Check(_POOL_PSUM, f"{field}.start_addr", ok, explain)


Placer = Callable[[int, str, int | None], Place]
"""Place of a finding: bundle index, field, byte offset."""


def opcode_findings(stream: Stream, place: Placer) -> Iterator[tuple[int, Diagnostic]]:
    """Bundles whose opcode means nothing."""
    for index in np.flatnonzero(stream.kinds == layout.UNKNOWN):
        opcode = int(stream.words[index, 0])
        elsewhere = next((row for row in isa.BUNDLES if opcode in row.opcodes.values()), None)
        legal = sorted(
            (number, row.mnemonic)
            for row in isa.BUNDLES
            if (number := row.opcode(stream.opcodes)) is not None and stream.generation in row.generations
        )
        cures: list[Cure | str] = []
        message = f"opcode 0x{opcode:02X} is no instruction of this leg on {stream.generation}"
        if elsewhere:
            message += f"; {elsewhere.mnemonic} exists on {', '.join(elsewhere.generations)}"
            cures.append(Cure(f"check it as {elsewhere.generations[0]}", {"generation": elsewhere.generations[0]}))
        cures += [
            Cure(f"write an opcode of the leg, such as 0x{legal[0][0]:02X} {legal[0][1]}", {"opcode": legal[0][0]}),
            "leave the bundle to a tool that knows its engine",
        ]
        yield (
            int(index),
            _OPCODE.finding(
                message,
                got=f"0x{opcode:02X}",
                allowed=", ".join(f"0x{number:02X} {name}" for number, name in legal),
                place=place(int(index), "opcode", 0),
                cures=cures,
            ),
        )


def _numbers(names: tuple[str, ...]) -> tuple[int, ...]:
    return tuple(layout.kind_numbers(name)[0] for name in names)


def _lonely(kinds: npt.NDArray[np.int8], first: tuple[int, ...], second: tuple[int, ...]) -> npt.NDArray[np.int64]:
    """Positions where a first is not followed by a second, or a second not preceded by a first.

    Bundles of other kinds between them do not count.
    """
    positions = np.flatnonzero(np.isin(kinds, (*first, *second)))
    leads = np.isin(kinds[positions], first)
    followed = np.append(~leads[1:], False)
    preceded = np.insert(leads[:-1], 0, False)
    odd = np.where(leads, ~followed, ~preceded)
    found: npt.NDArray[np.int64] = positions[odd]
    return found


def pair_findings(stream: Stream, place: Placer) -> Iterator[tuple[int, Diagnostic]]:
    """Gather pairs and search pairs."""
    order = isa.GATHER_ORDER[stream.opcodes]
    first, second = order
    for index in _lonely(stream.kinds, _numbers((first,)), _numbers((second,))):
        name = isa.BUNDLES[stream.kinds[index]].name
        partner = second if name == first else first
        mnemonic, other = isa.BY_NAME[name].mnemonic, isa.BY_NAME[partner].mnemonic
        where = "behind" if name == first else "before"
        yield (
            int(index),
            _PAIR.finding(
                f"{mnemonic} has no {other} {where} it",
                got=f"{mnemonic} alone",
                allowed=f"{' then '.join(isa.BY_NAME[half].mnemonic for half in order)} ({stream.opcodes} reading)",
                place=place(int(index), "", None),
                cures=[
                    Cure(f"put a {other} {where} it", {f"insert {where}": partner}),
                    "decode under the other reading if every pair is turned round",
                ],
            ),
        )
    consumers = ("find_index8", "match_replace8")
    for index in _lonely(stream.kinds, _numbers(("match_value_load",)), _numbers(consumers)):
        name = isa.BUNDLES[stream.kinds[index]].name
        loads = name == "match_value_load"
        mnemonic = isa.BY_NAME[name].mnemonic
        partner = consumers[0] if loads else "match_value_load"
        missing = "FindIndex8 or MatchReplace8 behind" if loads else "MatchValueLoad before"
        yield (
            int(index),
            _KEYS.finding(
                f"{mnemonic} has no {missing} it",
                got=f"{mnemonic} alone",
                allowed="MatchValueLoad, then FindIndex8 or MatchReplace8",
                place=place(int(index), "", None),
                cures=[
                    Cure(
                        f"put a {isa.BY_NAME[partner].mnemonic} {'behind' if loads else 'before'} it",
                        {f"insert {'behind' if loads else 'before'}": partner},
                    )
                ],
            ),
        )


@cache
def _contested() -> frozenset[int]:
    """Numbers of the rows whose opcode means another struct in the other reading."""
    structs: dict[int, set[str]] = {}
    for row in isa.BUNDLES:
        for opcode in row.opcodes.values():
            if opcode is not None:
                structs.setdefault(opcode, set()).add(row.struct)
    return frozenset(
        number
        for number, row in enumerate(isa.BUNDLES)
        if any(len(structs[opcode]) > 1 for opcode in row.opcodes.values() if opcode is not None)
    )


def notes(stream: Stream, place: Placer) -> Iterator[tuple[int, Diagnostic]]:
    """What is said once about a stream."""
    present = np.unique(stream.kinds)
    contested = [int(number) for number in present if int(number) in _contested()]
    if contested and stream.opcodes == "reference":
        rows = [isa.BUNDLES[number] for number in contested]
        meanings = ", ".join(f"0x{row.opcode('reference'):02X} is {row.mnemonic}" for row in rows)
        these = "it" if len(rows) == 1 else "them"
        yield (
            int(np.flatnonzero(np.isin(stream.kinds, contested))[0]),
            _READING.finding(
                f"in the opcode reading reference {meanings}; shipped headers give {these} the other reduce struct",
                got="opcodes reference",
                allowed="opcodes reference or headers, as the producer of the stream has it",
                place=Place(),
                cures=[Cure("use opcodes='headers' for streams of a shipped compiler", {"opcodes": "headers"})],
            ),
        )


_SINGLE_PRECISION = ("window", "fold", "transpose_fold", "equal", "cross_lane", "transpose_cross_lane", "search8")


def integer_note(batch: Batch) -> Mask | None:
    """Bundles that read 32-bit integers into single precision; ``None`` where the instruction never does."""
    row = batch.row
    raw = is_bitvec(row) or row.family == "gather"
    if raw or row.counts not in _SINGLE_PRECISION:
        return None
    tags = [number for number, name in names_of("dtype").items() if name in ("INT32", "UINT32")]
    source = batch.column("in_dtype")
    found: Mask = (source == tags[0]) | (source == tags[1])
    if row.family == "tensor_reduce":
        found &= ~(lookup(integer_codes(batch.generation))[batch.column("op")])
        found &= batch.column("out_dtype") != tags[0]
    return found


def integer_finding(count: int, first: int) -> Diagnostic:
    """The note on integers, made once per stream."""
    return _INTEGERS.finding(
        f"{count} bundle{'s' * (count != 1)}, bundle {first} first, read{'s' * (count == 1)} 32-bit integers that are "
        "computed in single precision",
        got=f"{count} bundle{'s' * (count != 1)}",
        allowed="integers within -2^24 to 2^24",
        cures=[
            Cure("keep values within 24 bits, or use 16-bit integers", {"in_dtype": 4}),
            "fold with an integer operator",
        ],
    )
