"""Running PTO programs as batches: one compiled call per operation over all tiles of one kind."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from lanefold.diagnostics import Cure, Diagnostic, LanefoldError, Place, Rule, errors
from lanefold.pto.isa import ELEMENTS
from lanefold.pto.names import element
from lanefold.pto.program.check import check_program
from lanefold.pto.program.model import Compute, GlobalArray, Instruction, Load, Program, Store
from lanefold.pto.program.resolve import number, resolve
from lanefold.pto.simulate import Plan, plan
from lanefold.pto.simulate.blocks import Block
from lanefold.pto.simulate.readings import READINGS
from lanefold.pto.tiles import TileType, numpy_type

Array = npt.NDArray[Any]

MISSING = Rule(
    "PTO-RUN-MISSING",
    "Every array that is loaded from, and every parameter, has a value.",
    "PTO AS: kernel arguments",
    usage=True,
)
SHAPE = Rule(
    "PTO-RUN-SHAPE",
    "Arrays end in the rows and columns that the program declares; leading axes are the same for all.",
    "PTO AS: kernel arguments",
    usage=True,
)
TYPE = Rule(
    "PTO-RUN-TYPE",
    "Arrays have the element type that the program declares.",
    "PTO AS: kernel arguments",
    usage=True,
)


@dataclass(frozen=True, slots=True)
class Run:
    """What a run gave.

    ``outputs`` are the arrays that were stored to; ``batches`` counts compiled calls by operation; ``distances`` holds,
    for every other reading that was asked for, the largest distance of each float output in units of the last place;
    ``counters`` says what was passed over silently, where that was asked for.
    """

    outputs: dict[str, Array]
    target: str
    numerics: str
    exact: bool
    findings: tuple[Diagnostic, ...]
    batches: dict[str, int]
    distances: dict[str, dict[str, int]] = field(default_factory=dict)
    counters: dict[str, int] = field(default_factory=dict)

    def to_text(self) -> str:
        """The report: target, reading, compiled calls, what was counted, and how far other orders of addition lie."""
        exact = "bit-exact to the CPU simulator" if self.exact else READINGS[self.numerics].confidence
        lines = [f"target {self.target}; numerics {self.numerics}, {exact}; not verified on hardware"]
        calls = ", ".join(f"{op} {count}" for op, count in self.batches.items())
        lines.append(f"compiled calls: {calls or 'none'}")
        seen = ", ".join(f"{name.replace('_', ' ')} {count}" for name, count in self.counters.items() if count)
        if self.counters:
            lines.append(f"counted while running: {seen or 'nothing unusual'}")
        for other, found in self.distances.items():
            most = ", ".join(f"%{name} {ulps}" for name, ulps in found.items())
            lines.append(f"largest distance from {other} in units of the last place: {most or 'no floats'}")
        return "\n".join([*lines, *(finding.to_text() for finding in self.findings)])


@dataclass(slots=True)
class _Memory:
    """Global arrays of a run, as flat arrays [batch, rows, cols] in logical order."""

    flat: dict[str, Array]
    rows: dict[str, int]
    cols: dict[str, int]
    batched: dict[str, bool]
    lead: tuple[int, ...]

    @property
    def batch(self) -> int:
        return int(np.prod(self.lead, dtype=np.int64))

    def starts(self, array: str, row: int, col: int) -> npt.NDArray[np.int64]:
        size = self.rows[array] * self.cols[array] if self.batched[array] else 0
        return np.arange(self.batch, dtype=np.int64) * size + (row * self.cols[array] + col)

    def block(self, array: str, row: int, col: int) -> Block:
        return Block(self.flat[array], self.starts(array, row, col), self.cols[array], 1)


def _all_parameters(program: Program, parameters: Mapping[str, int]) -> None:
    for name in program.parameters:
        if name not in parameters:
            raise MISSING.error(
                f"parameter %{name} has no value",
                got=", ".join(parameters) or "no parameters",
                allowed=", ".join(program.parameters),
                cures=[Cure(f"pass parameters={{{name!r}: ...}} with a whole number")],
                place=Place(operand=f"%{name}"),
            )


def _wanted(array: GlobalArray, parameters: Mapping[str, int]) -> tuple[int, int]:
    return number(array.rows, parameters) or 0, number(array.cols, parameters) or 0


def _given(program: Program, arrays: Mapping[str, Array]) -> None:
    for name in program.inputs:
        if name not in arrays:
            raise MISSING.error(
                f"array %{name} is loaded from, but has no value",
                got=", ".join(arrays) or "no arrays",
                allowed=", ".join(program.globals),
                cures=[Cure(f"pass an array as {name!r}")],
                place=Place(operand=f"%{name}"),
            )
    for name in arrays:
        if name not in program.globals:
            known = list(program.globals)
            raise MISSING.error(
                f"the program has no array {name!r}",
                got=repr(name),
                allowed=", ".join(known),
                cures=[Cure(f"rename it to {known[0]!r}") if known else Cure("leave it out")],
                place=Place(operand=name),
            )


def _fit(array: GlobalArray, values: Array, shape: tuple[int, int]) -> None:
    dtype = numpy_type(element(array.dtype))
    if values.dtype != dtype:
        known = [row.name for row in ELEMENTS.values() if numpy_type(row) == values.dtype]
        raise TYPE.error(
            f"%{array.name} holds {array.dtype}, and the values are {values.dtype}",
            got=known[0] if known else str(values.dtype),
            allowed=array.dtype,
            cures=[Cure(f"convert the values: {array.name}.astype({dtype.name!r})")],
            place=Place(operand=f"%{array.name}"),
        )
    if values.shape[-2:] != shape:
        raise SHAPE.error(
            f"%{array.name} has {shape[0]} rows and {shape[1]} columns, and the values have shape {values.shape}",
            got=str(values.shape),
            allowed=f"(..., {shape[0]}, {shape[1]})",
            cures=[Cure(f"give values whose last axes are {shape[0]} and {shape[1]}")],
            place=Place(operand=f"%{array.name}"),
        )


def _lead(arrays: Mapping[str, Array]) -> tuple[int, ...]:
    leads = {name: values.shape[:-2] for name, values in arrays.items() if values.ndim > 2}
    if len(set(leads.values())) > 1:
        raise SHAPE.error(
            "the leading axes of the arrays differ",
            got=", ".join(f"%{name} {lead}" for name, lead in leads.items()),
            allowed="the same leading axes, or none",
            cures=[Cure("broadcast the arrays to one batch shape first")],
        )
    return next(iter(leads.values()), ())


def _memory(program: Program, arrays: Mapping[str, Array], parameters: Mapping[str, int]) -> _Memory:
    _given(program, arrays)
    shapes = {array.name: _wanted(array, parameters) for array in program.arrays}
    for name, values in arrays.items():
        _fit(program.globals[name], values, shapes[name])
    lead = _lead(arrays)
    memory = _Memory({}, {}, {}, {}, lead)
    for array in program.arrays:
        name = array.name
        rows, cols = shapes[name]
        stored = name in program.outputs
        if name not in arrays:
            full = np.zeros((*lead, rows, cols), numpy_type(element(array.dtype)))
        else:
            values = arrays[name]
            full = np.ascontiguousarray(np.broadcast_to(values, (*lead, rows, cols)) if stored else values)
            full = full.copy() if stored and np.shares_memory(full, values) else full
        memory.flat[name] = full.reshape(-1)
        memory.rows[name], memory.cols[name] = rows, cols
        memory.batched[name] = full.ndim > 2 and bool(lead)
    return memory


def _rectangles_meet(program: Program, name: str, types: Mapping[str, TileType], parameters: Mapping[str, int]) -> bool:
    """Whether two stores to an array touch the same element."""
    rows, cols = _wanted(program.globals[name], parameters)
    seen = np.zeros((rows, cols), bool)
    for i in program.instructions:
        if isinstance(i, Store) and i.array == name:
            r, c = number(i.row, parameters) or 0, number(i.col, parameters) or 0
            kind = types[i.tile]
            part = seen[r : r + (kind.valid_rows or 0), c : c + (kind.valid_cols or 0)]
            if part.any():
                return True
            part[...] = True
    return False


class _Schedule:
    """The level of each instruction: those of one level depend on earlier levels only and may run in any order."""

    def __init__(self, ordered: set[str]) -> None:
        self._ordered = ordered
        self._written: dict[str, int] = defaultdict(int)
        self._read: dict[str, int] = defaultdict(int)

    def level(self, instruction: Instruction) -> int:
        reads, writes = self._effects(instruction)
        before = [self._written[name] for name in (*reads, *writes)] + [self._read[name] for name in writes]
        level = max(before, default=0) + 1
        for name in reads:
            self._read[name] = max(self._read[name], level)
        for name in writes:
            self._written[name] = level
        return level

    def _effects(self, instruction: Instruction) -> tuple[list[str], list[str]]:
        if isinstance(instruction, Compute):
            return [f"%{t}" for t in instruction.sources], [f"%{t}" for t in instruction.outputs]
        array = [instruction.array] if instruction.array in self._ordered else []
        tile = [f"%{instruction.tile}"]
        return (array, tile) if isinstance(instruction, Load) else (tile, array)


class _Runner:
    """One run of one program."""

    def __init__(
        self, program: Program, memory: _Memory, types: Mapping[str, TileType], parameters: Mapping[str, int]
    ) -> None:
        self.program = program
        self.memory = memory
        self.types = types
        self.parameters = parameters
        shared = {i.array for i in program.instructions if isinstance(i, Load)} & set(program.outputs)
        met = {name for name in program.outputs if _rectangles_meet(program, name, types, parameters)}
        self.ordered = shared | met
        self.blocks: dict[str, Block] = {}
        self.counters: dict[str, int] | None = None
        self.aliased: set[int] = set()
        self._alias()
        self._allocate()

    def _writers(self) -> dict[str, list[int]]:
        writers = defaultdict(list)
        for at, i in enumerate(self.program.instructions):
            outputs = i.outputs if isinstance(i, Compute) else (i.tile,) if isinstance(i, Load) else ()
            for name in outputs:
                writers[name].append(at)
        return writers

    def _alias(self) -> None:
        """Let a tile that is written once stand in its array, where nobody can tell the difference."""
        writers = self._writers()
        stores = defaultdict(list)
        for at, i in enumerate(self.program.instructions):
            if isinstance(i, Store):
                stores[i.tile].append(at)
        for name, places in writers.items():
            if len(places) != 1:
                continue
            maker = self.program.instructions[places[0]]
            mover = places if isinstance(maker, Load) else stores[name]
            if len(mover) != 1:
                continue
            move = self.program.instructions[mover[0]]
            if isinstance(move, Compute) or move.array in self.ordered:
                continue
            self.blocks[name] = self._region(move)
            self.aliased.add(mover[0])

    def _region(self, move: Load | Store) -> Block:
        return self.memory.block(
            move.array, number(move.row, self.parameters) or 0, number(move.col, self.parameters) or 0
        )

    def _allocate(self) -> None:
        kinds = defaultdict(list)
        for slot in self.program.tiles:
            if slot.name not in self.blocks:
                kinds[self.types[slot.name]].append(slot.name)
        batch = self.memory.batch
        for kind, members in kinds.items():
            size = kind.rows * kind.cols
            flat = np.zeros(len(members) * batch * size, numpy_type(kind.element))
            steps = (1, kind.rows) if kind.layout == "DN" else (kind.cols, 1)
            for at, name in enumerate(members):
                starts = (np.arange(batch, dtype=np.int64) + at * batch) * size
                self.blocks[name] = Block(flat, starts, *steps)

    def _key(self, instruction: Instruction) -> tuple[object, ...]:
        if isinstance(instruction, Compute):
            tiles = tuple(
                (self.types[t], id(b.flat), b.row_step, b.column_step)
                for t in instruction.tiles
                for b in (self.blocks[t],)
            )
            return (instruction.op, instruction.form, instruction.is_binary, tiles)
        return (type(instruction).__name__,)

    def run(self, target: str, numerics: str) -> dict[str, int]:
        schedule = _Schedule(self.ordered)
        groups: dict[tuple[int, tuple[object, ...]], list[Instruction]] = defaultdict(list)
        for at, instruction in enumerate(self.program.instructions):
            level = schedule.level(instruction)
            if at not in self.aliased:
                groups[level, self._key(instruction)].append(instruction)
        batches: dict[str, int] = defaultdict(int)
        for _, members in sorted(groups.items(), key=lambda item: item[0][0]):
            first = members[0]
            if isinstance(first, Compute):
                ready = self._plan(first, target, numerics)
                self._compute(ready, [i for i in members if isinstance(i, Compute)])
                batches[first.op] += 1
            else:
                for move in members:
                    self._move(move)
        return dict(batches)

    def _plan(self, instruction: Compute, target: str, numerics: str) -> Plan:
        types = tuple(self.types[name] for name in instruction.tiles)
        key = (target, numerics, instruction.op, instruction.form, instruction.is_binary, types)
        if key not in self.program.plans:
            self.program.plans[key] = plan(self.program.call(instruction, target, self.types), numerics)
        return self.program.plans[key]

    def _compute(self, ready: Plan, members: list[Compute]) -> None:
        roles = ready.call.form.operands
        gathered = {}
        for at, role in enumerate(roles[: len(members[0].tiles)]):
            if role == "tmp":
                continue
            blocks = [self.blocks[i.tiles[at]] for i in members]
            starts = blocks[0].starts if len(blocks) == 1 else np.concatenate([b.starts for b in blocks])
            gathered[role] = Block(blocks[0].flat, starts, blocks[0].row_step, blocks[0].column_step)
        if self.counters is None:
            ready.run(gathered)
            return
        for name, amount in ready.counted(gathered).items():
            self.counters[name] = self.counters.get(name, 0) + amount

    def _move(self, move: Instruction) -> None:
        if isinstance(move, Compute):
            return
        kind = self.types[move.tile]
        rows, cols = kind.valid_rows or 0, kind.valid_cols or 0
        tile, region = self.blocks[move.tile].view(rows, cols), self._region(move).view(rows, cols)
        if tile is None or region is None:
            return
        if isinstance(move, Load):
            tile[...] = region
        else:
            region[...] = tile


def ulps(a: Array, b: Array) -> int:
    """Largest distance of two float arrays in units of the last place; NaN against NaN counts 0."""
    kind = np.dtype(f"int{a.dtype.itemsize * 8}")
    both = (a != a) & (b != b)

    def line(values: Array) -> Array:
        bits = np.ascontiguousarray(values).view(kind).astype(np.int64)
        return np.where(bits < 0, -(bits & np.iinfo(kind).max), bits)

    return int(np.max(np.where(both, 0, np.abs(line(a) - line(b))), initial=0))


def _once(
    program: Program,
    arrays: Mapping[str, Array],
    types: Mapping[str, TileType],
    parameters: Mapping[str, int],
    target: str,
    numerics: str,
    counters: dict[str, int] | None = None,
) -> tuple[dict[str, Array], dict[str, int]]:
    memory = _memory(program, arrays, parameters)
    runner = _Runner(program, memory, types, parameters)
    runner.counters = counters
    batches = runner.run(target, numerics)
    shapes = {name: (*memory.lead, memory.rows[name], memory.cols[name]) for name in program.outputs}
    return {name: memory.flat[name].reshape(shapes[name]) for name in program.outputs}, batches


def _checked(
    program: Program, target: str, parameters: Mapping[str, int]
) -> tuple[tuple[Diagnostic, ...], Mapping[str, TileType]]:
    """Findings and tile types; a program remembers them, because it is often run again."""
    key = (target, tuple(sorted(parameters.items())))
    if key not in program.checked:
        findings = check_program(program, target, parameters)
        wrong = errors(findings)
        if wrong:
            raise LanefoldError(wrong)
        program.checked[key] = (tuple(findings), resolve(program, parameters))
    return program.checked[key]


def run_program(
    program: Program,
    arrays: Mapping[str, Array],
    *,
    target: str,
    numerics: str,
    parameters: Mapping[str, int],
    compare: bool = False,
    count: bool = False,
) -> Run:
    """See `Program.run`; ``compare`` runs the other readings too and reports how far apart they are."""
    _all_parameters(program, parameters)
    findings, types = _checked(program, target, parameters)
    counters: dict[str, int] = {}
    outputs, batches = _once(program, arrays, types, parameters, target, numerics, counters if count else None)
    distances = {}
    for other in READINGS if compare else ():
        if other != numerics:
            found, _ = _once(program, arrays, types, parameters, target, other)
            floats = [name for name in outputs if element(program.globals[name].dtype).kind == "float"]
            distances[other] = {name: ulps(outputs[name], found[name]) for name in floats}
    return Run(outputs, target, numerics, numerics == "cpu", tuple(findings), batches, distances, counters)
