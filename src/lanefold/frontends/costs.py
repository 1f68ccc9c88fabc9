"""Prices of program files: BIR programs, streams, PTO texts and saved programs."""

from __future__ import annotations

import os.path
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from lanefold.diagnostics import LanefoldError, Place, Rule
from lanefold.frontends.streams import PTO_SUFFIX, TEXT_SUFFIXES, is_folder, read_module, read_stream, tile_program
from lanefold.targets import TARGETS, TargetRow, load
from lanefold.targets import target as find_target

if TYPE_CHECKING:
    from lanefold.program import ProgramCost

_FILE = Rule(
    "STREAM-COST",
    "A price is asked for a BIR program (.json), a stream (.bin) or its text (.s), a PTO text (.pto), or a folder with "
    "a saved program; an opcode reading goes with streams.",
    "Program files",
    usage=True,
)
_TARGET = Rule(
    "STREAM-COST-TARGET",
    "A program is priced for a target of its own instruction set, named once.",
    "Target table",
    usage=True,
)
BIR_SUFFIX = ".json"
STREAM_SUFFIXES = (".bin", *TEXT_SUFFIXES)


def price_file(
    path: Path,
    *,
    model: str = "",
    generation: str | None = None,
    target: str = "",
    opcodes: str | None = None,
    parameters: Mapping[str, int] | None = None,
) -> ProgramCost:
    """The price of every instruction of a file, under one cost model.

    Args:
        path: BIR program, stream or its text, PTO text, or folder of a saved program.
        model: cost model, the first one of the target if empty.
        generation: of a BIR program or stream; what the file says where left out.
        target: the same by the name of a target; for a PTO text ``a2a3`` or ``a5``, ``a2a3`` where left out.
        opcodes: opcode reading of a stream; what the file says where left out.
        parameters: values of the index parameters of a PTO text.

    Raises:
        LanefoldError: if the file cannot be read, or there is no such model for the target.
    """
    if path.suffix in STREAM_SUFFIXES and not is_folder(path):
        return _stream(path, model, generation, target, opcodes)
    if opcodes is not None:
        raise _FILE.error(
            f"{path} is no stream, which an opcode reading is for",
            got=f"opcodes {opcodes}",
            allowed=f"opcodes with {', '.join(STREAM_SUFFIXES)}",
            place=Place(file=str(path)),
            cures=["leave --opcodes out"],
        )
    if is_folder(path):
        program = load(path)
        _agree(path, "program", program.target.name, target, generation)
        return program.cost(model)
    if path.suffix == BIR_SUFFIX:
        return _module(path, model, generation, target)
    if path.suffix == PTO_SUFFIX:
        return _tiles(path, model, generation, target, parameters or {})
    raise _FILE.error(
        f"{path} has no price" if os.path.lexists(path) else f"{path} does not exist",
        got=path.suffix or "no suffix",
        allowed=f".json, {', '.join(STREAM_SUFFIXES)}, .pto, or a folder",
        place=Place(file=str(path)),
        cures=["give a file of one of these kinds, or the folder that lanefold compile wrote"],
    )


def _module(path: Path, model: str, generation: str | None, target: str) -> ProgramCost:
    from lanefold.tpb.cost.program import price_module

    wanted = _generation(path, "a BIR program", generation, target)
    module = read_module(path)
    return price_module(module, module.generation(wanted), model)


def _stream(path: Path, model: str, generation: str | None, target: str, opcodes: str | None) -> ProgramCost:
    from lanefold.tpb import isa
    from lanefold.tpb.cost.stream import price_stream

    wanted = _generation(path, "a stream", generation, target)
    stream, _ = read_stream(str(path), wanted, opcodes)
    if not stream.engine and path.stem in isa.STREAM_ENGINES:
        stream.engine = path.stem
    return price_stream(stream, model)


def _generation(path: Path, what: str, generation: str | None, target: str) -> str | None:
    """The generation that is asked for, by its own name or that of a target."""
    if not target:
        return generation
    row = _row(target)
    if row.instruction_set != "TPB" or generation not in (None, row.generation):
        raise _foreign(path, what, _named(target, generation), "TPB")
    return row.generation


def _tiles(path: Path, model: str, generation: str | None, target: str, parameters: Mapping[str, int]) -> ProgramCost:
    if generation is not None or (target and _row(target).instruction_set != "PTO"):
        raise _foreign(path, "a PTO text", _named(target, generation), "PTO")
    return tile_program(path, parameters).cost(model, target or "a2a3", parameters)


def _row(target: str) -> TargetRow:
    return TARGETS[find_target(target).name]


def _agree(path: Path, what: str, known: str, target: str, generation: str | None) -> None:
    row = TARGETS[known]
    if (target and _row(target).name != known) or generation not in (None, row.generation):
        raise _foreign(path, f"a {what} for {known}", _named(target, generation), "", known)


def _named(target: str, generation: str | None) -> str:
    return " and ".join(
        ([f"target {target}"] if target else []) + ([f"generation {generation}"] if generation is not None else [])
    )


def _foreign(path: Path, what: str, got: str, instruction_set: str, only: str = "") -> LanefoldError:
    allowed = [only] if only else [row.name for row in TARGETS.values() if row.instruction_set == instruction_set]
    allowed = [name for name in allowed if name != "cpu"]
    return _TARGET.error(
        f"{path} is {what}; it cannot be priced for {got}",
        got=got,
        allowed=f"target {', '.join(allowed)}",
        place=Place(file=str(path)),
        cures=[f"give --target {allowed[0]} alone"],
    )
