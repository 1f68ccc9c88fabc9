"""The targets by name; the only place that knows both instruction sets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lanefold.arguments import path as path_argument
from lanefold.arguments import shown
from lanefold.diagnostics import Cure, Rule
from lanefold.numerics.dtypes import nearest_names
from lanefold.program import Program, Target
from lanefold.program.saved import read_document

_NAME = Rule("TARGET-NAME", "A target is one that lanefold knows.", "Target table", usage=True)
_READING = Rule("TARGET-READING", "A reading is one that the target has.", "Target table, readings", usage=True)


@dataclass(frozen=True, slots=True)
class TargetRow:
    """One row of the target table: what the name stands for, and how its object is made."""

    name: str
    chip: str
    instruction_set: str
    generation: str
    readings: Mapping[str, tuple[str, ...]]
    make: Callable[..., Target]


def _tpb(name: str, generation: str) -> Callable[..., Target]:
    def make(**readings: str) -> Target:
        from lanefold.tpb.target import TpbTarget

        return TpbTarget(name, generation, **readings)  # type: ignore[arg-type]

    return make


def _pto(name: str) -> Callable[..., Target]:
    def make(**readings: str) -> Target:
        from lanefold.pto.target import PtoTarget

        return PtoTarget(name, **readings)

    return make


_PTO_READINGS = {"numerics": ("cpu", "a2a3-order", "a5-order")}
_TPB_READINGS = {"opcodes": ("reference", "headers"), "numerics": ("birsim", "device")}

TARGETS: dict[str, TargetRow] = {
    row.name: row
    for row in (
        TargetRow("trn1", "Trainium, Inferentia2", "TPB", "v2", _TPB_READINGS, _tpb("trn1", "v2")),
        TargetRow("trn2", "Trainium2", "TPB", "v3", _TPB_READINGS, _tpb("trn2", "v3")),
        TargetRow("trn3", "Trainium3", "TPB", "v4", _TPB_READINGS, _tpb("trn3", "v4")),
        TargetRow("cpu", "PTO CPU simulator", "PTO", "", _PTO_READINGS, _pto("cpu")),
        TargetRow("a2a3", "Ascend A2, Ascend A3", "PTO", "", _PTO_READINGS, _pto("a2a3")),
        TargetRow("a5", "Ascend A5", "PTO", "", _PTO_READINGS, _pto("a5")),
    )
}
"""Targets by name; the first value of a reading is its default."""


def target(name: str, /, **readings: str) -> Target:
    """The target of a name, with its readings; readings left out take their default.

    Raises:
        LanefoldError: if there is no such target or reading.
    """
    row = TARGETS.get(name.lower()) if isinstance(name, str) else None
    if row is None:
        near = nearest_names(name.lower() if isinstance(name, str) else "", list(TARGETS))[0]
        raise _NAME.error(
            f"there is no target {shown(name)}",
            got=shown(name),
            allowed=", ".join(TARGETS),
            cures=[Cure(f"write {near}", {"target": near})],
        )
    chosen = {key: values[0] for key, values in row.readings.items()}
    for key, value in readings.items():
        known = row.readings.get(key, ())
        if not isinstance(value, str) or value not in known:
            raise _READING.error(
                f"{key} {shown(value)} is no reading of {row.name}",
                got=f"{key}={shown(value)}",
                allowed=f"{key}: {', '.join(known)}" if known else f"readings {', '.join(row.readings)}",
                cures=[f"write --{key} {known[0]}, in Python {key}={known[0]!r}" if known else f"leave {key} out"],
            )
        chosen[key] = value
    return row.make(**chosen)


def facts(row: TargetRow) -> dict[str, Any]:
    """What a target's memories and clocks are, and which readings it has."""
    if row.instruction_set == "PTO":
        return _pto_facts(row)
    from lanefold.tpb import isa
    from lanefold.tpb.isa import timing

    known = next(generation for generation in isa.GENERATIONS if generation == row.generation)
    geometry = isa.GEOMETRY[known]
    return {
        "generation": f"{row.generation} ({geometry.core})",
        "sbuf_bytes_per_partition": geometry.sbuf_bytes,
        "psum_bytes_per_partition": geometry.psum_bytes,
        "partitions": geometry.partitions,
        "clock_ghz": {engine: clock for engine, clock in timing.CLOCK_GHZ[known].items() if engine in ("DVE", "Pool")},
        "readings": {name: list(values) for name, values in row.readings.items()},
    }


def _pto_facts(row: TargetRow) -> dict[str, Any]:
    from lanefold.pto.cost.tables import CLOCK_MHZ
    from lanefold.pto.isa import TARGETS as TILES

    tiles = TILES[row.name]
    return {
        "generation": tiles.title,
        "local_memory_bytes": tiles.ub_bytes,
        "vector_register_bytes": tiles.register_bytes,
        "clock_ghz": {"vector": CLOCK_MHZ / 1000} if row.name == "a2a3" else {},
        "readings": {name: list(values) for name, values in row.readings.items()},
    }


def _tile_operations(name: str) -> list[dict[str, Any]]:
    from lanefold.pto.isa import OPERATIONS

    return [
        {
            "instruction": row.name,
            "forms": [f"{row.name}({', '.join(form.operands)})" for form in row.forms],
            "types": sorted(source if source == result else f"{source} to {result}" for source, result in found.types),
            "summary": row.effect,
            "source": f"{row.source}; {found.source}",
            "confidence": str(found.confidence),
        }
        for row in OPERATIONS.values()
        for found in (row.support[name],)
    ]


def operations(name: str, opcodes: str = "reference") -> list[dict[str, Any]]:
    """The instructions of a target, one row each, as the tables have them; ``opcodes`` is a reading of TPB targets.

    Raises:
        LanefoldError: if there is no such target or reading.
    """
    row = TARGETS.get(name.lower()) if isinstance(name, str) else None
    if row is not None and row.instruction_set == "PTO":
        return _tile_operations(row.name)
    from lanefold.tpb import isa

    made: Any = target(name, opcodes=opcodes)
    return [
        {
            "instruction": kind.mnemonic,
            "opcode": kind.opcode(made.opcodes),
            "struct": kind.struct,
            "engines": list(kind.engines),
            "summary": kind.summary,
            "source": kind.source,
            "confidence": str(kind.confidence),
        }
        for kind in isa.BUNDLES
        if kind.opcode(made.opcodes) is not None and made.generation in kind.generations
    ]


def rows_of_a_search(dtype: str) -> int:
    """Elements of one search over an axis whose elements lie apart, that every target can make.

    Source: PTO headers: A2/A3 data movement, and column arg, which numbers rows in the source type.
    """
    from lanefold.pto.isa import INDEX_EXACT_HALF, MOVED_BY_ALL

    return INDEX_EXACT_HALF if dtype == "float16" else MOVED_BY_ALL


def confidences(name: str) -> dict[str, str]:
    """What the words of confidence in the tables of a target mean, best first."""
    if TARGETS[name.lower()].instruction_set == "PTO":
        from lanefold.pto.isa import Confidence as OfTiles

        return {str(word): word.meaning for word in OfTiles}
    from lanefold.tpb.isa import Confidence

    return {str(word): word.meaning for word in Confidence}


def load(path: str | Path) -> Program:
    """Reads a program that `Program.save` wrote; its saved bytes are what runs.

    Raises:
        LanefoldError: if the folder holds no program or a file of it is damaged.
    """
    folder = path_argument("load", "path", path, "out/program")
    document = read_document(folder)
    described = document["attributes"]["lanefold"]
    made: Any = target(described["target"], **described["readings"])
    loaded: Program = made.load(folder, document)
    return loaded
