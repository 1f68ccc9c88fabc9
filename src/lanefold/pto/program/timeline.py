"""Timelines of PTO programs: loads, vector work and stores, each on its pipe."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from lanefold.diagnostics import LanefoldError, Place, Rule
from lanefold.program.timeline import Region, Task, Timeline, schedule
from lanefold.pto.cost import cost
from lanefold.pto.isa import Family
from lanefold.pto.program.model import Compute, Instruction, Load, Program, Store
from lanefold.pto.program.resolve import resolve

if TYPE_CHECKING:
    from lanefold.pto.cost import Cost
    from lanefold.pto.tiles import TileType

EXTENT = Rule(
    "PTO-TIMELINE-EXTENT", "A timeline needs the valid extents of every tile.", "PTO AS: index parameters", usage=True
)
LOADS, VECTOR, STORES = "MTE2", "V", "MTE3"
"""Pipes of loads, vector instructions and stores (PTO headers: A2/A3 cost models, pipes)."""
_REFUSALS = ("PTO-COST-SEQUENCE", "PTO-COST-DOMAIN", "PTO-COST-DTYPE")
"""Findings of a model that has no price; the duration is unknown then."""
_FORMS = {"C1": "no_tmp", "R2": "index", "C3": "index", "R3": "value_index", "C4": "value_index"}


def timeline(
    program: Program,
    *,
    target: str = "a2a3",
    model: str = "calibrated",
    parameters: Mapping[str, int] | None = None,
    drawn: str = "high",
) -> Timeline:
    """When each load, operation and store runs at the earliest; pipes run side by side, their hand-over costs nothing.

    Args:
        program: a PTO program; tiles that share addresses wait for each other, tiles without an address do not.
        target: ``a2a3`` or ``a5``.
        model: cost model.
        parameters: values of the index parameters.
        drawn: draw the ``low`` or the ``high`` durations.

    Raises:
        LanefoldError: PTO-TIMELINE-EXTENT where an extent is not known, PTO-COST-… for a wrong target or model.
    """
    types = resolve(program, parameters or {})
    tasks = [_task(program, instruction, types, target, model) for instruction in program.instructions]
    return schedule(tasks, model, drawn)


def _task(program: Program, instruction: Instruction, types: Mapping[str, TileType], target: str, model: str) -> Task:
    if isinstance(instruction, Compute):
        names = (*instruction.tiles,)
        reads, writes = instruction.sources, (*instruction.outputs, *filter(None, [instruction.scratch]))
        track, op = VECTOR, instruction.op
        arguments = _call(program, instruction, types)
    else:
        load = isinstance(instruction, Load)
        names, track, op = (instruction.tile,), LOADS if load else STORES, "TLOAD" if load else "TSTORE"
        reads, writes = ((), names) if load else (names, ())
        arguments = {"path": "GM->UB" if load else "UB->GM"}
    full = types[_full(instruction)]
    if full.valid_rows is None or full.valid_cols is None:
        raise EXTENT.error(
            f"the valid extents of %{_full(instruction)} are not known",
            got=str(full),
            allowed="whole numbers",
            cures=[f"give parameters for {', '.join(program.parameters) or 'the tile'}"],
            place=Place(instruction=op, operand=_full(instruction), line=instruction.line),
        )
    sizes = (full.rows, full.cols, full.valid_rows, full.valid_cols)
    priced = _priced(op, full.dtype, sizes, target, model, arguments)
    spans = [[_tile(program, types, name) for name in part] for part in (reads, writes)]
    if not isinstance(instruction, Compute):
        spans[isinstance(instruction, Store)].append(Region(f"array {instruction.array}"))
    details = {"operands": [f"%{name}: {types[name]}" for name in names], **_facts(priced, model)}
    return Task(op, track, op, _ns(priced), tuple(spans[0]), tuple(spans[1]), details=details)


def _full(instruction: Instruction) -> str:
    """The tile whose extents a cost is asked for: the source of a reduction, the result of an expansion."""
    if not isinstance(instruction, Compute):
        return instruction.tile
    return instruction.sources[0] if instruction.row.reduces else instruction.outputs[0]


def _call(program: Program, instruction: Compute, types: Mapping[str, TileType]) -> dict[str, object]:
    row = instruction.row
    found: dict[str, object] = {"static_shape": program.slots[_full(instruction)].type.static}
    if row.family in (Family.ROW_REDUCE, Family.ROW_ARG):
        found["dst_layout"] = types[instruction.outputs[0]].layout
    if row.family is Family.ROW_EXPAND:
        found["src_layout"] = types[instruction.sources[0]].layout
    if row.family is Family.ROW_EXPAND_BINARY:
        column = any(types[name].layout == "DN" for name in instruction.sources)
        found["src1_layout"] = "DN" if column else "ND32B"
    if row.arg:
        found["form"] = _FORMS[instruction.form]
        found["idx_bytes"] = min(types[instruction.outputs[-1]].element.bytes, 4)
    if row.name == "TCOLSUM":
        found["form"] = _FORMS.get(instruction.form) or ("binary" if instruction.is_binary else "sequential")
    return found


def _priced(
    op: str, dtype: str, sizes: tuple[int, int, int, int], target: str, model: str, arguments: Mapping[str, object]
) -> Cost | LanefoldError:
    try:
        return cost(op, dtype, *sizes, target=target, model=model, **arguments)  # type: ignore[arg-type]
    except LanefoldError as error:
        if error.diagnostics[0].code not in _REFUSALS:
            raise
        return error


def _ns(priced: Cost | LanefoldError) -> tuple[float, float | None]:
    if isinstance(priced, LanefoldError):
        return 0.0, None
    low, high = (cycles * 1000 / priced.frequency_mhz for cycles in priced.bounds)
    return low, None if math.isinf(high) else high


def _facts(priced: Cost | LanefoldError, model: str) -> dict[str, object]:
    if isinstance(priced, LanefoldError):
        finding = priced.diagnostics[0]
        return {"model": model, "validity": "unknown", "note": f"{finding.code}: {finding.message}"}
    names = ("model", "version", "rule", "validity", "error", "cycles", "note")
    return {name: getattr(priced, name) for name in names} | {"terms": dict(priced.terms)}


def _tile(program: Program, types: Mapping[str, TileType], name: str) -> Region:
    slot = program.slots[name]
    if slot.address is None:
        return Region(f"tile {name}")
    return Region("UB", bytes=(slot.address, slot.address + types[name].bytes))
