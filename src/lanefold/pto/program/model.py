"""A PTO program: global arrays, tiles, and the loads, stores and operations on them, in order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, TypeVar

from lanefold import arguments
from lanefold.diagnostics import Diagnostic, Place, number_of
from lanefold.pto import names
from lanefold.pto.calls import Call, Operand, make_call
from lanefold.pto.isa import Operation
from lanefold.pto.tiles import TileType

if TYPE_CHECKING:
    import numpy as np

    from lanefold.program import ProgramCost
    from lanefold.program.timeline import Timeline
    from lanefold.pto.program.run import Run
    from lanefold.pto.simulate import Plan


def parameters_of(call: str, given: Mapping[str, int] | None) -> Mapping[str, int]:
    """Values of index parameters as whole numbers.

    Raises:
        LanefoldError: CALL-ARGUMENT for anything else.
    """
    if given is None:
        return {}
    wanted = "a mapping from names of index parameters to whole numbers, or None"
    taken = arguments.mapping(call, "parameters", given, wanted, "{'rows': 16}")
    return {name: arguments.integer(call, f"parameters[{name!r}]", value) for name, value in taken.items()}


Value = int | str
"""A whole number, or the name of an index parameter of the program."""


@dataclass(frozen=True, slots=True)
class GlobalArray:
    """An array in global memory: element type, rows × columns, and strides in elements.

    Where one stride does not reach all rows, ``outer`` holds up to three pairs of extent and stride, outermost first,
    that walk groups of rows; ``rows`` counts all of them, and ``row_stride`` is that inside a group. Such an array is
    moved whole.

    Source: PTO headers, GlobalTensor of five dimensions; TLOAD, rows of an ND tile.
    """

    name: str
    dtype: str
    rows: Value
    cols: Value
    row_stride: Value
    column_stride: Value = 1
    outer: tuple[tuple[int, int], ...] = ()

    @property
    def static(self) -> bool:
        """Whether all numbers are known."""
        return all(isinstance(v, int) for v in (self.rows, self.cols, self.row_stride, self.column_stride))

    @property
    def shape(self) -> tuple[Value, ...]:
        """Extents of the axes: groups of rows, rows, columns."""
        groups = prod(extent for extent, _ in self.outer)
        rows = self.rows // groups if isinstance(self.rows, int) else self.rows
        return (*(extent for extent, _ in self.outer), rows, self.cols)

    @property
    def strides(self) -> tuple[Value, ...]:
        """Strides of the same axes."""
        return (*(step for _, step in self.outer), self.row_stride, self.column_stride)


Attribute = int | float | str | tuple[int | float | str, ...]
"""Value of an attribute: a number, a word or register as written, or a list of them."""


@dataclass(frozen=True, slots=True)
class TileSlot:
    """A tile of the program: its type, its byte address where placed, and the values of its dynamic valid extents."""

    name: str
    type: TileType
    address: int | None = None
    valid_row: Value | None = None
    valid_col: Value | None = None


@dataclass(frozen=True, slots=True)
class Load:
    """TLOAD: the tile's valid region comes from the array, from (row, col) on."""

    tile: str
    array: str
    row: Value = 0
    col: Value = 0
    line: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Store:
    """TSTORE: the tile's valid region goes to the array, from (row, col) on."""

    tile: str
    array: str
    row: Value = 0
    col: Value = 0
    line: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Compute:
    """One of the 28 operations on tiles, in the order of its C++ form; scratch may be missing at the end.

    ``attributes`` are words of the text that mean nothing to the operation; they are kept and written again.
    """

    op: str
    form: str
    tiles: tuple[str, ...]
    is_binary: bool | None = None
    line: int | None = field(default=None, compare=False)
    attributes: tuple[tuple[str, Attribute], ...] = ()

    @property
    def row(self) -> Operation:
        """The operation's row."""
        return names.operation(self.op)

    @property
    def outputs(self) -> tuple[str, ...]:
        """Tiles that are written, scratch aside."""
        return self.tiles[: self._form_outputs()]

    @property
    def sources(self) -> tuple[str, ...]:
        """Tiles that are read."""
        roles = self._roles()
        return tuple(t for t, role in zip(self.tiles, roles, strict=False) if role.startswith("src"))

    @property
    def scratch(self) -> str | None:
        """The scratch tile, where there is one."""
        return dict(zip(self._roles(), self.tiles, strict=False)).get("tmp")

    def _roles(self) -> tuple[str, ...]:
        return next(form for form in self.row.forms if form.name == self.form).operands

    def _form_outputs(self) -> int:
        return next(form for form in self.row.forms if form.name == self.form).outputs


Instruction = Load | Store | Compute
Named = TypeVar("Named", GlobalArray, TileSlot)


def touched(instruction: Instruction) -> tuple[str, ...]:
    """Tiles that an instruction names, those that it reads first."""
    if isinstance(instruction, Compute):
        scratch = (instruction.scratch,) if instruction.scratch else ()
        return (*instruction.sources, *scratch, *instruction.outputs)
    return (instruction.tile,)


def written(instruction: Instruction) -> tuple[str, ...]:
    """Tiles that an instruction writes; scratch counts."""
    if isinstance(instruction, Load):
        return (instruction.tile,)
    if isinstance(instruction, Store):
        return ()
    return (*instruction.outputs, *((instruction.scratch,) if instruction.scratch else ()))


def _in_order(entries: Iterable[Named], used: Iterable[str]) -> tuple[Named, ...]:
    """The entries in the order in which their names are used, unused ones last."""
    found: dict[str, Named] = {entry.name: entry for entry in entries}
    order = list(dict.fromkeys(name for name in used if name in found))
    seen = set(order)
    order += [name for name in found if name not in seen]
    return tuple(found[name] for name in order)


@dataclass(frozen=True)
class Program:
    """A PTO program; arrays and tiles are kept in the order of their first use, so that equal programs compare equal.

    Raises:
        LanefoldError: from the methods, see each.
    """

    arrays: tuple[GlobalArray, ...]
    tiles: tuple[TileSlot, ...]
    instructions: tuple[Instruction, ...]
    name: str = "kernel"

    def __repr__(self) -> str:
        size = f"{number_of(len(self.instructions), 'instruction')}, {number_of(len(self.tiles), 'tile')}"
        return f"<Program {self.name}: {size}, {', '.join(self.inputs)} → {', '.join(self.outputs)}>"

    def __post_init__(self) -> None:
        memory = [i.array for i in self.instructions if not isinstance(i, Compute)]
        used = [name for i in self.instructions for name in touched(i)]
        object.__setattr__(self, "arrays", _in_order(self.arrays, memory))
        object.__setattr__(self, "tiles", _in_order(self.tiles, used))

    @cached_property
    def slots(self) -> dict[str, TileSlot]:
        """Tiles by name."""
        return {slot.name: slot for slot in self.tiles}

    @cached_property
    def globals(self) -> dict[str, GlobalArray]:
        """Arrays by name."""
        return {array.name: array for array in self.arrays}

    @cached_property
    def checked(self) -> dict[tuple[object, ...], tuple[tuple[Diagnostic, ...], Mapping[str, TileType]]]:
        """Findings and tile types of the runs so far, by target and parameters."""
        return {}

    @cached_property
    def plans(self) -> dict[tuple[object, ...], Plan]:
        """Calls that were checked and made ready by the runs so far."""
        return {}

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the index parameters, in the order of their first use."""
        return tuple(dict.fromkeys(v for v in self._values() if isinstance(v, str)))

    def _values(self) -> Iterator[Value | None]:
        for array in self.arrays:
            yield from (array.rows, array.cols, array.row_stride, array.column_stride)
        for slot in self.tiles:
            yield from (slot.valid_row, slot.valid_col)
        for i in self.instructions:
            if not isinstance(i, Compute):
                yield from (i.row, i.col)

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the arrays that are stored to, in order."""
        return tuple(dict.fromkeys(i.array for i in self.instructions if isinstance(i, Store)))

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the arrays that are loaded from before anything is stored to them, in order."""
        first: dict[str, Load | Store] = {}
        for i in self.instructions:
            if not isinstance(i, Compute):
                first.setdefault(i.array, i)
        return tuple(name for name, i in first.items() if isinstance(i, Load))

    def changed(self, changes: Mapping[str, object]) -> Program:
        """The program after the changes of a cure: keys are ``tile.field``, ``tile.rows_offset`` or ``array.field``.

        ``tile.conversion`` stores the tile and loads it again for one instruction, see `Conversion`.

        Raises:
            LanefoldError: PTO-TILE-* where a changed tile cannot exist.
        """
        from lanefold.pto.program.changes import apply_changes

        wanted = "a mapping from places of the program, such as 'tile.rows', to values"
        return apply_changes(self, arguments.mapping("changed", "changes", changes, wanted, "{}"))

    def without_scratch(self) -> Program:
        """The program as its assembly text tells it: scratch tiles are left out, but for those of form E3."""
        kept: list[Instruction] = []
        dropped = set()
        for i in self.instructions:
            if isinstance(i, Compute) and i.scratch and i.form != "E3":
                dropped.add(i.scratch)
                kept.append(replace(i, tiles=i.tiles[:-1]))
            else:
                kept.append(i)
        still = {name for i in kept for name in touched(i)}
        tiles = tuple(slot for slot in self.tiles if slot.name not in dropped - still)
        return replace(self, tiles=tiles, instructions=tuple(kept))

    def call(self, instruction: Compute, target: str, extents: Mapping[str, TileType] | None = None) -> Call:
        """One operation of the program as a call for the rules; ``extents`` are the tile types as resolved."""
        slots = self.slots
        operands = []
        for name in instruction.tiles:
            slot = slots[name]
            kind = (extents or {}).get(name, slot.type)
            operands.append(Operand(kind, not slot.type.static, slot.address, f"%{name}"))
        place = Place(instruction=instruction.op, line=instruction.line)
        return make_call(
            instruction.op,
            operands,
            target=target,
            form=instruction.form,
            is_binary=instruction.is_binary,
            place=place,
        )

    def check(self, target: str = "cpu", parameters: Mapping[str, int] | None = None) -> list[Diagnostic]:
        """Findings about the whole program: every call, every load and store, definitions and places.

        Raises:
            LanefoldError: PTO-TARGET-NAME.
        """
        from lanefold.pto.program.check import check_program

        return check_program(self, target, parameters_of("check", parameters))

    def placed(self, target: str = "cpu") -> Program:
        """The program with an address for every tile, used again as soon as a tile is dead.

        Raises:
            LanefoldError: PTO-PROGRAM-MEMORY where the tiles that live together do not fit.
        """
        from lanefold.pto.program.place import place_tiles

        return place_tiles(self, target)

    def memory_map(self, target: str = "cpu") -> str:
        """A picture of local memory: tiles by address, when each lives, which overlap, and the most bytes at once.

        Raises:
            LanefoldError: PTO-TARGET-NAME.
        """
        from lanefold.pto.program.memory import memory_map

        return memory_map(self, target)

    def with_scratch(self, target: str = "cpu") -> Program:
        """The program with a scratch tile wherever the C++ call has one; it is as small as the target allows."""
        from lanefold.pto.program.place import supply_scratch

        return supply_scratch(self, names.target(target).name)

    def run(
        self,
        arrays: Mapping[str, np.ndarray[tuple[int, ...], np.dtype[np.generic]]],
        *,
        target: str = "cpu",
        numerics: str = "cpu",
        parameters: Mapping[str, int] | None = None,
        compare: bool = False,
        count: bool = False,
    ) -> Run:
        """Check and execute the program; arrays may have leading axes, over which it runs as a batch.

        Args:
            arrays: values of the global arrays by name, shape [..., rows, cols]; arrays that are only stored to may be
                left out.
            target: whose rules hold.
            numerics: reading of the numerics, see `execute`.
            parameters: values of the index parameters.
            compare: run every other reading as well and report how far apart the results are.
            count: say in ``counters`` what the operations passed over silently, at the price of time.

        Raises:
            LanefoldError: with every error of `check`; PTO-RUN-* for arrays that do not fit.
        """
        from lanefold.pto.program.run import run_program
        from lanefold.pto.simulate.readings import READINGS

        names.target(target)
        arguments.text("run", "numerics", numerics, tuple(READINGS))
        compare, count = arguments.flag("run", "compare", compare), arguments.flag("run", "count", count)
        given = parameters_of("run", parameters)
        example = "{" + ", ".join(f"{array.name!r}: array" for array in self.arrays) + "}"
        taken = arguments.mapping("run", "arrays", arrays, "a mapping from names of arrays to values", example)
        values = {name: arguments.array("run", f"arrays[{name!r}]", value) for name, value in taken.items()}
        return run_program(
            self, values, target=target, numerics=numerics, parameters=given, compare=compare, count=count
        )

    def cost(self, model: str = "", target: str = "a2a3", parameters: Mapping[str, int] | None = None) -> ProgramCost:
        """The price of every load, operation and store, and totals with bounds.

        Args:
            model: cost model, ``calibrated`` if empty.
            target: ``a2a3`` or ``a5``.
            parameters: values of the index parameters.

        Raises:
            LanefoldError: PTO-TIMELINE-EXTENT where an extent is not known, PTO-COST-… for a wrong target or model.
        """
        from lanefold.pto.cost.request import MODELS
        from lanefold.pto.program.prices import program_cost

        arguments.text("cost", "model", model, MODELS)
        return program_cost(self, target, model, parameters_of("cost", parameters))

    def timeline(
        self,
        model: str = "",
        drawn: str = "high",
        *,
        target: str = "a2a3",
        parameters: Mapping[str, int] | None = None,
    ) -> Timeline:
        """When each load, operation and store runs at the earliest, the critical path, and the total.

        Args:
            model: cost model, ``calibrated`` if empty.
            drawn: draw the ``low`` or the ``high`` durations.
            target: ``a2a3`` or ``a5``.
            parameters: values of the index parameters.

        Raises:
            LanefoldError: as `cost`, and TIMELINE-BOUND for another word than low and high.
        """
        from lanefold.pto.cost.request import MODELS
        from lanefold.pto.program.timeline import timeline

        arguments.text("timeline", "model", model, MODELS)
        given = parameters_of("timeline", parameters)
        return timeline(self, target=target, model=model, parameters=given, drawn=drawn)

    def to_text(self, form: str = "asm") -> str:
        """The program as text: ``asm`` (assembly), ``ssa`` (AS level 1) or ``dps`` (AS level 2).

        Raises:
            LanefoldError: PTO-TEXT-FORM for another form, PTO-TEXT-SSA for tiles written twice outside ``dps``.
        """
        from lanefold.pto.text.write import write

        return write(self, arguments.text("to_text", "form", form, ("asm", "ssa", "dps")))

    def to_cpp(self, target: str = "cpu") -> str:
        """A complete C++ file of the public library: the kernel, and a driver that runs it on the CPU simulator.

        A fragment without loads and stores becomes a function of its tiles, without a driver; tiles that are placed
        by hand are declared inside.

        Raises:
            LanefoldError: with every error that `check` finds.
        """
        from lanefold.pto.cpp import emit

        return emit(self, names.target(target).name)
