"""Prices of program files: BIR programs, PTO texts and saved programs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from lanefold.diagnostics import LanefoldError, Place, Rule
from lanefold.frontends.streams import read_module, read_text
from lanefold.targets import TARGETS, TargetRow, load
from lanefold.targets import target as find_target

if TYPE_CHECKING:
    from lanefold.program import ProgramCost

_FILE = Rule(
    "STREAM-COST",
    "A price is asked for a BIR program (.json), a PTO text (.pto), or a folder with a saved program.",
    "Program files",
    usage=True,
)
_TARGET = Rule(
    "STREAM-COST-TARGET",
    "A program is priced for a target of its own instruction set, named once.",
    "Target table",
    usage=True,
)
PTO_SUFFIX, BIR_SUFFIX = ".pto", ".json"


def price_file(
    path: Path,
    *,
    model: str = "",
    generation: str | None = None,
    target: str = "",
    parameters: Mapping[str, int] | None = None,
) -> ProgramCost:
    """The price of every instruction of a file, under one cost model.

    Args:
        path: BIR program, PTO text, or folder of a saved program.
        model: cost model, the first one of the target if empty.
        generation: of a BIR program; what the file says where left out.
        target: the same by the name of a target; for a PTO text ``a2a3`` or ``a5``, ``a2a3`` where left out.
        parameters: values of the index parameters of a PTO text.

    Raises:
        LanefoldError: if the file cannot be read, or there is no such model for the target.
    """
    if path.is_dir():
        program = load(path)
        _agree(path, "program", program.target.name, target, generation)
        return program.cost(model)
    if path.suffix == BIR_SUFFIX:
        return _module(path, model, generation, target)
    if path.suffix == PTO_SUFFIX:
        return _tiles(path, model, generation, target, parameters or {})
    raise _FILE.error(
        f"{path} has no price" if path.exists() else f"{path} does not exist",
        got=path.suffix or "no suffix",
        allowed=".json, .pto, or a folder",
        place=Place(file=str(path)),
        cures=["give the BIR program of a stream, or the folder that lanefold compile wrote"],
    )


def _module(path: Path, model: str, generation: str | None, target: str) -> ProgramCost:
    from lanefold.tpb.cost.program import price_module

    wanted = generation
    if target:
        row = _row(target)
        if row.instruction_set != "TPB" or generation not in (None, row.generation):
            raise _foreign(path, "a BIR program", _named(target, generation), "TPB")
        wanted = row.generation
    module = read_module(path)
    return price_module(module, module.generation(wanted), model)


def _tiles(path: Path, model: str, generation: str | None, target: str, parameters: Mapping[str, int]) -> ProgramCost:
    from lanefold.pto import parse

    if generation is not None or (target and _row(target).instruction_set != "PTO"):
        raise _foreign(path, "a PTO text", _named(target, generation), "PTO")
    return parse(read_text(path)).cost(model, target or "a2a3", parameters)


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
