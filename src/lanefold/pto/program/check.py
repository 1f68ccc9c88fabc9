"""Rules about whole PTO programs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, replace

from lanefold.diagnostics import Cure, Diagnostic, LanefoldError, Place, Rule, errors
from lanefold.pto import names
from lanefold.pto.isa import TARGETS, Target
from lanefold.pto.program.changes import Conversion
from lanefold.pto.program.model import (
    Compute,
    GlobalArray,
    Instruction,
    Load,
    Program,
    Store,
    TileSlot,
    touched,
    written,
)
from lanefold.pto.program.resolve import extent_values, number, resolve
from lanefold.pto.rules.base import check_call
from lanefold.pto.rules.shapes import round_up, with_layout
from lanefold.pto.tiles import TileType

_TYPE_FIELDS = tuple(field.name for field in fields(TileType))

UNDEFINED = Rule(
    "PTO-PROGRAM-UNDEFINED",
    "A tile is written, by a load or an operation, before it is read.",
    "PTO tile programming model: program order",
)
REGION = Rule(
    "PTO-PROGRAM-REGION",
    "A load or store stays inside its array.",
    "PTO headers: GlobalTensor, TLOAD, TSTORE",
)
ELEMENT = Rule(
    "PTO-PROGRAM-ELEMENT",
    "A tile and the array that it is loaded from or stored to have the same element type.",
    "PTO headers: TLOAD, TSTORE",
)
ORDER = Rule(
    "PTO-PROGRAM-ORDER",
    "ND tiles move to and from arrays with contiguous rows, DN tiles to and from arrays with contiguous columns.",
    "PTO headers: TLOAD and TSTORE layout pairs",
)
DYNAMIC = Rule(
    "PTO-PROGRAM-DYNAMIC",
    "A dynamic valid extent is given where the tile is made, a static one is not.",
    "PTO AS: alloc_tile",
)
_A2A3 = TARGETS["a2a3"]
LIMIT = Rule(
    "PTO-PROGRAM-LIMIT",
    f"A2/A3 load tiles of 1 to {_A2A3.load_rows} rows, and store tiles of 1 to {_A2A3.store_cols} columns and at most "
    f"{_A2A3.store_rows} rows.",
    "PTO headers: A2/A3 TLOAD, TSTORE",
)
OVERLAP = Rule(
    "PTO-PROGRAM-OVERLAP",
    "Tiles that live at the same time share no memory.",
    "PTO tile programming model: local memory",
)
RESERVED = Rule(
    "PTO-PROGRAM-RESERVED",
    "No living tile lies in bytes 184 KiB to 192 KiB while A2/A3 expands rows without a scratch tile.",
    "PTO headers: A2/A3 TROWEXPAND with an operator, broadcast buffer",
)


def lifetimes(program: Program) -> dict[str, tuple[int, int]]:
    """First and last instruction that touches each tile."""
    spans: dict[str, tuple[int, int]] = {}
    for at, instruction in enumerate(program.instructions):
        for name in touched(instruction):
            spans[name] = (spans[name][0] if name in spans else at, at)
    return spans


def _reads(instruction: Instruction) -> tuple[str, ...]:
    if isinstance(instruction, Compute):
        return instruction.sources
    return (instruction.tile,) if isinstance(instruction, Store) else ()


NEVER_WRITTEN = "was never written"
NEVER_GIVEN = "nothing gives their number"
"""What a fragment without loads may say of its tiles, which its caller hands over."""


def _undefined(program: Program) -> Iterator[Diagnostic]:
    known: set[str] = set()
    scratch: set[str] = set()
    for instruction in program.instructions:
        for name in _reads(instruction):
            if name in known:
                continue
            why = "served as scratch since it was written" if name in scratch else NEVER_WRITTEN
            yield UNDEFINED.finding(
                f"%{name} is read, but {why}",
                got=f"%{name}",
                allowed=", ".join(f"%{other}" for other in sorted(known)) or "a tile that was loaded",
                cures=[Cure(f"load %{name} before this line")],
                place=Place(line=instruction.line, operand=f"%{name}"),
            )
            known.add(name)
        known.update(written(instruction))
        if isinstance(instruction, Compute) and instruction.scratch:
            known.discard(instruction.scratch)
            scratch.add(instruction.scratch)


def _dynamic(slot: TileSlot) -> Iterator[Diagnostic]:
    for axis, fixed, given in (
        ("row", slot.type.valid_rows, slot.valid_row),
        ("col", slot.type.valid_cols, slot.valid_col),
    ):
        if fixed is not None and given is not None:
            yield DYNAMIC.finding(
                f"%{slot.name} has {fixed} static valid {axis}s, and valid_{axis} gives {given} as well",
                got=f"valid_{axis} = {given}",
                allowed=f"no valid_{axis}, or ? in the type",
                cures=[Cure(f"leave valid_{axis} out", {f"{slot.name}.valid_{axis}": None})],
                place=Place(operand=f"%{slot.name}", field=f"valid_{axis}"),
            )


def _unsettled(program: Program) -> Iterator[Diagnostic]:
    values = extent_values(program)
    used = {name for i in program.instructions for name in touched(i)}
    for slot in program.tiles:
        for axis, value, capacity in zip(
            ("row", "col"), values[slot.name], (slot.type.rows, slot.type.cols), strict=True
        ):
            if value is None and slot.name in used:
                yield DYNAMIC.finding(
                    f"%{slot.name} has dynamic valid {axis}s, and {NEVER_GIVEN}",
                    got="?",
                    allowed=f"valid_{axis} = 1 to {capacity}, or a parameter",
                    cures=[Cure(f"add valid_{axis} = {capacity}", {f"{slot.name}.valid_{axis}": capacity})],
                    place=Place(operand=f"%{slot.name}", field=f"valid_{axis}"),
                )


def _region(
    program: Program, at: Load | Store, types: Mapping[str, TileType], parameters: Mapping[str, int]
) -> Iterator[Diagnostic]:
    array, kind = program.globals[at.array], types[at.tile]
    yield from _whole(array, kind, at)
    for axis, size, start, count in (
        ("rows", array.rows, at.row, kind.valid_rows),
        ("cols", array.cols, at.col, kind.valid_cols),
    ):
        whole, first = number(size, parameters), number(start, parameters)
        if whole is None or first is None or count is None or (first >= 0 and first + count <= whole):
            continue
        least = max(whole - count, 0)
        cures = [Cure(f"give %{array.name} {max(first, 0) + count} {axis}", {f"{array.name}.{axis}": first + count})]
        if count <= whole:
            cures.insert(0, Cure(f"start at {least} or before", {f"{at.tile}.{axis}_offset": least}))
        yield REGION.finding(
            f"%{at.tile} covers {axis} {first} to {first + count} of %{array.name}, which has {whole}",
            got=f"{first} to {first + count}",
            allowed=f"0 to {whole}",
            cures=cures,
            place=Place(line=at.line, operand=f"%{at.tile}", field=axis),
        )


def _whole(array: GlobalArray, kind: TileType, at: Load | Store) -> Iterator[Diagnostic]:
    """An array with groups of rows has no single step between rows, so that only all of them can be moved."""
    if array.outer and kind.valid_rows is not None and (at.row, kind.valid_rows) != (0, array.rows):
        yield REGION.finding(
            f"%{at.tile} takes {kind.valid_rows} rows from row {at.row} on of %{array.name}, "
            f"whose {array.rows} rows lie in groups and move together",
            got=f"{kind.valid_rows} rows from row {at.row} on",
            allowed=f"{array.rows} rows from row 0 on",
            cures=[Cure(f"give %{array.name} rows of one stride", {f"{array.name}.outer": ()})],
            place=Place(line=at.line, operand=f"%{at.tile}", field="rows"),
        )


def _pair(array: GlobalArray, kind: TileType, at: Load | Store) -> Iterator[Diagnostic]:
    if array.dtype != kind.dtype:
        yield ELEMENT.finding(
            f"%{at.tile} holds {kind.dtype}, but %{array.name} holds {array.dtype}",
            got=kind.dtype,
            allowed=array.dtype,
            cures=[Cure(f"make %{at.tile} a tile of {array.dtype}", {f"{at.tile}.dtype": array.dtype})],
            place=Place(line=at.line, operand=f"%{at.tile}", field="dtype"),
        )
    inner = {"ND": array.column_stride, "DN": None if array.outer else array.row_stride}.get(kind.layout)
    if inner == 1 or (kind.layout == "ND" and kind.cols == 1) or _is_line(array):
        return
    boxed = kind.order.boxed
    yield ORDER.finding(
        f"%{at.tile} is {kind.layout}, but %{array.name} has strides {array.row_stride} and {array.column_stride}",
        got=kind.layout,
        allowed="ND or DN with an array in the same order" if boxed else "an array whose contiguous axis is the tile's",
        cures=[
            Cure(
                f"load %{at.tile} as {name}",
                {f"{at.tile}.{key}": value for key, value in with_layout(kind, name).items()},
            )
            for name in (("ND",) if array.column_stride == 1 else ("DN",) if array.row_stride == 1 else ("ND", "DN"))
        ],
        place=Place(line=at.line, operand=f"%{at.tile}", field="layout"),
    )


def _is_line(array: GlobalArray) -> bool:
    """Whether the array is one dense line, which both orders describe."""
    line = (array.cols == 1 and array.row_stride == 1) or (array.rows == 1 and array.column_stride == 1)
    return line and not array.outer


def _limits(kind: TileType, at: Load | Store, target: Target) -> Iterator[Diagnostic]:
    bounds = []
    if isinstance(at, Load) and target.load_rows:
        bounds.append(("rows", kind.rows, target.load_rows))
    if isinstance(at, Store) and target.store_cols:
        bounds.append(("cols", kind.cols, target.store_cols))
        if kind.layout == "ND":
            bounds.append(("rows", kind.rows, target.store_rows))
    for axis, found, most in bounds:
        if found > most:
            yield LIMIT.finding(
                f"%{at.tile} has {found} {axis}, and {target.name} moves at most {most}",
                got=f"{found} {axis}",
                allowed=f"1 to {most}",
                cures=[Cure(f"split the tile into pieces of at most {most} {axis}")],
                place=Place(line=at.line, operand=f"%{at.tile}", field=axis),
            )


def _moves(
    program: Program, types: Mapping[str, TileType], target: Target, parameters: Mapping[str, int]
) -> Iterator[Diagnostic]:
    for at in program.instructions:
        if not isinstance(at, Compute):
            kind = types[at.tile]
            yield from _pair(program.globals[at.array], kind, at)
            yield from _region(program, at, types, parameters)
            yield from _limits(kind, at, target)


def _span(slot: TileSlot, alignment: int) -> tuple[int, int]:
    first = slot.address or 0
    return first, first + round_up(slot.type.bytes, alignment)


def _overlaps(program: Program, target: Target) -> Iterator[Diagnostic]:
    spans = lifetimes(program)
    placed = sorted(
        (slot for slot in program.tiles if slot.address is not None and slot.name in spans),
        key=lambda slot: spans[slot.name],
    )
    living: list[TileSlot] = []
    for slot in placed:
        first = spans[slot.name][0]
        # A result may take the place of a source that is read for the last time by the instruction that makes it.
        living = [other for other in living if spans[other.name][1] > first]
        for other in living:
            a, b = _span(slot, 1), _span(other, 1)
            if max(a[0], b[0]) < min(a[1], b[1]):
                yield OVERLAP.finding(
                    f"%{slot.name} ({a[0]:#x} to {a[1]:#x}) is written while %{other.name} ({b[0]:#x} to {b[1]:#x}) "
                    "is still read",
                    got=f"{min(a[1], b[1]) - max(a[0], b[0])} bytes in common",
                    allowed="no byte in common",
                    cures=[
                        Cure(
                            f"place %{slot.name} at {round_up(b[1], target.alignment):#x}",
                            {f"{slot.name}.address": round_up(b[1], target.alignment)},
                        ),
                        "leave the addresses out, and let the tiles be placed",
                    ],
                    place=Place(operand=f"%{slot.name}", field="address"),
                )
        living.append(slot)


def _reserved(program: Program, spreading: Iterable[int], target: Target) -> Iterator[Diagnostic]:
    """Tiles that live across an instruction which overwrites the broadcast area; its operands have their own rule."""
    area = target.broadcast_scratch
    if area is None:
        return
    spans = lifetimes(program)
    inside = []
    for slot in program.tiles:
        start, end = _span(slot, 1)
        if slot.address is not None and slot.name in spans and max(start, area[0]) < min(end, area[1]):
            inside.append((slot, start, end))
    for at in spreading:
        for slot, start, end in inside:
            first, last = spans[slot.name]
            if not first < at < last or slot.name in touched(program.instructions[at]):
                continue
            yield RESERVED.finding(
                f"%{slot.name} lives at {start:#x} to {end:#x} while bytes from {area[0]:#x} on are overwritten",
                got=f"{start:#x} to {end:#x}",
                allowed=f"below {area[0]:#x}",
                cures=["leave the addresses out, and let the tiles be placed"],
                place=Place(line=program.instructions[at].line, operand=f"%{slot.name}", field="address"),
            )


def _reloaded(
    found: Diagnostic, program: Program, types: Mapping[str, TileType], wanted: Mapping[str, object]
) -> dict[str, object]:
    """The change that converts a value for the instruction of a finding; none for more than one row and column."""
    name = found.place.operand.rpartition("%")[2]
    kind = types[name]
    if kind.valid_rows is None or kind.valid_cols is None or 1 not in (kind.valid_rows, kind.valid_cols):
        return {}
    for at, i in enumerate(program.instructions):
        here = isinstance(i, Compute) and name in i.sources and i.op == found.place.instruction
        if here and i.line == found.place.line:
            made = replace(kind, **{key: value for key, value in wanted.items() if key in _TYPE_FIELDS})  # type: ignore[arg-type]
            return {f"{name}.conversion": Conversion(made, at)}
    return {}


def _conversion(found: Diagnostic, program: Program, types: Mapping[str, TileType]) -> Diagnostic:
    """Add, to a layout finding about a computed value, the ways to get that value in the wanted layout."""
    name = found.place.operand.rpartition("%")[2]
    makers = [i for i in program.instructions if isinstance(i, Compute) and name in i.outputs]
    if found.code != "PTO-LAYOUT" or not makers or not found.cures[0].changes:
        return found
    maker = makers[0]
    wanted = {key.partition(".")[2]: value for key, value in found.cures[0].changes.items()}
    shape = f"{wanted.get('layout')} {wanted.get('rows')}×{wanted.get('cols')}"
    cures = [
        Cure(
            f"let {maker.op} write %{name} as {shape}",
            {f"{name}.{key}": value for key, value in wanted.items()},
        ),
        Cure(
            f"convert %{name}: store it, and load it again into a tile {shape}",
            _reloaded(found, program, types, wanted),
        ),
    ]
    kind = types[name]
    role = found.place.operand.split(" ")[0]
    message = f"{found.message}; %{name} is {kind.layout} because {maker.op} writes it so"
    place = replace(found.place, operand=f"{role} %{name}")
    return replace(found, message=message, cures=(*cures, *found.cures), place=place)


def check_program(program: Program, target: str, parameters: Mapping[str, int]) -> list[Diagnostic]:
    """All findings about a program for a target, in the order of its lines where they have one."""
    row = names.target(target)
    try:
        types = resolve(program, parameters)
    except LanefoldError as wrong:
        return list(wrong.diagnostics)
    found = list(_undefined(program))
    for slot in program.tiles:
        found += _dynamic(slot)
    found += _unsettled(program)
    found += _moves(program, types, row, parameters)
    spreading = []
    for at, i, findings in _call_findings(program, row, types):
        found += [_conversion(finding, program, types) for finding in findings]
        if row.broadcast_scratch and i.form == "E2" and i.row.axis == "row" and not errors(findings):
            spreading.append(at)
    found += _overlaps(program, row)
    found += _reserved(program, spreading, row)
    return found


def _call_findings(
    program: Program, target: Target, types: Mapping[str, TileType]
) -> Iterator[tuple[int, Compute, list[Diagnostic]]]:
    """Findings of every operation; calls on the same types are looked at once."""
    seen: dict[object, list[Diagnostic]] = {}
    for at, i in enumerate(program.instructions):
        if not isinstance(i, Compute):
            continue
        key = (i.op, i.form, i.is_binary, tuple((types[t], program.slots[t].address) for t in i.tiles))
        if key not in seen:
            seen[key] = check_call(program.call(i, target.name, types))
        yield at, i, seen[key]
