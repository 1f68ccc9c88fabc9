"""Giving meaning to the statements of a PTO text: a program."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import prod

from lanefold.diagnostics import Cure, LanefoldError, Rule
from lanefold.pto import names
from lanefold.pto.isa import Operation
from lanefold.pto.program.model import (
    Attribute,
    Compute,
    GlobalArray,
    Instruction,
    Load,
    Program,
    Store,
    TileSlot,
    Value,
)
from lanefold.pto.text.forms import flat_form, form_of, run_flag
from lanefold.pto.text.lines import Register, Scalar, Statement
from lanefold.pto.text.types import MemoryType, parse
from lanefold.pto.tiles import TileType

MISMATCH = Rule(
    "PTO-TEXT-MISMATCH",
    "A name stands for one thing, with the same type wherever it is written.",
    "PTO AS: registers and types",
    usage=True,
)
UNKNOWN = Rule(
    "PTO-TEXT-UNKNOWN",
    "A name has a definition or a type in the text before it is used.",
    "PTO AS: registers and types",
    usage=True,
)
STATEMENT = Rule(
    "PTO-TEXT-STATEMENT",
    "A load, store, view or placement has the operands that its form asks for.",
    "PTO AS: tload, tstore, alloc_tile, tassign, make_tensor_view, partition_view",
    usage=True,
)


_MEANT = ("isBinary", "valid_row", "valid_col")
MOST_DIMS = 5
"""Dimensions of an array in global memory (PTO headers: GlobalTensor)."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a global array: where it starts and how large it is, where that is said."""

    array: str
    row: Value = 0
    col: Value = 0
    sizes: tuple[Value, Value] | None = None


@dataclass(slots=True)
class Reader:
    """What is known while a text is read."""

    constants: dict[str, int] = field(default_factory=dict)
    tiles: dict[str, TileSlot] = field(default_factory=dict)
    arrays: dict[str, GlobalArray] = field(default_factory=dict)
    parts: dict[str, Part] = field(default_factory=dict)
    results: set[str] = field(default_factory=set)
    instructions: list[Instruction] = field(default_factory=list)
    placements: dict[str, Statement] = field(default_factory=dict)

    def value(self, scalar: Scalar, at: Statement) -> Value:
        """A number, or the name of a parameter; constants are looked up."""
        if isinstance(scalar, int):
            return scalar
        if isinstance(scalar, str) and scalar.startswith("%"):
            name = scalar[1:]
            return self.constants.get(name, name)
        raise _malformed(at, f"{scalar} is no index", "a whole number or a register")

    def tile(self, name: str, text: str | None, at: Statement) -> None:
        """A tile is named, with a type or without."""
        known = self.tiles.get(name)
        if text is None:
            if known is None:
                raise UNKNOWN.error(
                    f"%{name} has no type here, and none before",
                    got=f"%{name}",
                    allowed=", ".join(f"%{other}" for other in self.tiles) or "a register with a type",
                    cures=[Cure(f"write the type of %{name} behind a colon")],
                    place=replace(at.at, operand=f"%{name}"),
                )
            return
        kind = parse(text, at.at)
        if not isinstance(kind, TileType):
            raise self._differs(name, text, "a tile type", at)
        if known is None:
            self.tiles[name] = TileSlot(name, kind)
            if name in self.placements:
                _place(self, name, self.placements.pop(name))
        elif known.type != kind:
            raise self._differs(name, str(kind), str(known.type), at)

    def _differs(self, name: str, got: str, wanted: str, at: Statement) -> Exception:
        return MISMATCH.error(
            f"%{name} is {got} here, and {wanted} elsewhere",
            got=got,
            allowed=wanted,
            cures=[Cure(f"write the type of %{name} as before"), Cure("use another name")],
            place=replace(at.at, operand=f"%{name}"),
        )

    def define(self, name: str, at: Statement) -> None:
        """A result is named; it must be new."""
        if name in self.results:
            raise MISMATCH.error(
                f"%{name} is the result of two lines",
                got=f"%{name}",
                allowed="a new name",
                cures=[Cure(f"call this result %{name}_2"), Cure("use the DPS form, which writes into buffers")],
                place=replace(at.at, operand=f"%{name}"),
            )
        self.results.add(name)

    def array(self, name: str, kind: MemoryType, at: Statement) -> None:
        """A global array is named with a type; shape and strides may be given by keywords."""
        shape = at.keywords.get("shape")
        strides = at.keywords.get("strides")
        dims = self._values(shape, at) or kind.shape
        grouped = len(dims) > 2
        if not 2 <= len(dims) <= MOST_DIMS or any(d is None or (grouped and isinstance(d, str)) for d in dims):
            wanted = f"two dimensions that are known, or three to {MOST_DIMS} in whole numbers"
            raise _malformed(at, f"%{name} has the shape {kind.shape}", wanted)
        dense = tuple(prod(d for d in dims[at:] if isinstance(d, int)) for at in range(1, len(dims) + 1))
        steps = self._values(strides, at) or kind.strides or (dense if grouped else (dims[1], 1))
        if len(steps) != len(dims) or any(step is None or (grouped and isinstance(step, str)) for step in steps):
            raise _malformed(at, f"%{name} has the strides {steps}", f"{len(dims)} strides that are known")
        outer = tuple(
            (n, s) for n, s in zip(dims[:-2], steps[:-2], strict=True) if isinstance(n, int) and isinstance(s, int)
        )
        rows = dims[-2] if not outer else prod(n for n in dims[:-1] if isinstance(n, int))
        made = GlobalArray(name, kind.dtype, rows or 0, dims[-1] or 0, steps[-2] or 0, steps[-1] or 0, outer)
        known = self.arrays.setdefault(name, made)
        if known != made:
            raise self._differs(name, _array_text(made), _array_text(known), at)

    def _values(self, given: object, at: Statement) -> tuple[Value | None, ...] | None:
        return tuple(self.value(v, at) for v in given) if isinstance(given, list) else None

    def pair(self, key: str, array: str, at: Statement) -> tuple[Value, Value]:
        """Rows and columns of a keyword; groups of rows are taken whole, from 0 on."""
        given = at.keywords.get(key)
        outer = self.arrays[array].outer
        if not isinstance(given, list) or len(given) != 2 + len(outer):
            raise _malformed(at, f"{key} is {given}", f"{key} = [{'…, ' if outer else ''}rows, columns]")
        values = [self.value(each, at) for each in given]
        if not outer:
            return values[0], values[1]
        return _whole(self.arrays[array], values, key == "sizes", at), values[-1]


def _whole(array: GlobalArray, values: list[Value], sizes: bool, at: Statement) -> Value:
    """The rows that the values of all axes but the last come to, which are all of them or start at none."""
    wanted = array.shape[:-1] if sizes else (0,) * (len(array.outer) + 1)
    if tuple(values[:-1]) != wanted:
        raise _malformed(at, f"%{array.name} with groups of rows is moved at {values}", f"all its rows: {list(wanted)}")
    return array.rows if sizes else 0


def _array_text(array: GlobalArray) -> str:
    strides = f"strides {', '.join(map(str, array.strides))}"
    return f"{array.dtype} {'×'.join(map(str, array.shape))} with {strides}"


def _malformed(at: Statement, message: str, wanted: str) -> Exception:
    example = _EXAMPLES.get(at.name.removeprefix("pto."), "%d = trowmax %s : T -> T")
    return STATEMENT.error(
        f"{at.name}: {message}",
        got=message,
        allowed=wanted,
        cures=[Cure(f"write it as in: {example}")],
        place=at.at,
    )


_EXAMPLES = {
    "tload": "%t = tload %x[0, 0] : (!pto.memref<64x32xf32>, index, index) -> !pto.tile<f32, 16, 32>",
    "tstore": "tstore %t, %y[0, 0] : (!pto.tile<f32, 16, 32>, !pto.memref<64x32xf32>, index, index)",
    "tassign": "pto.tassign %t, @tile(0x1000)",
    "alloc_tile": "%t = pto.alloc_tile addr = 0x0 : !pto.tile_buf<vec, 16x32xf32>",
    "make_tensor_view": "%v = pto.make_tensor_view %x, shape = [64, 32], strides = [32, 1] : "
    "!pto.tensor_view<64x32xf32>",
    "partition_view": "%p = pto.partition_view %v, offsets = [0, 0], sizes = [16, 32] : "
    "!pto.tensor_view<64x32xf32> -> !pto.partition_tensor_view<16x32xf32>",
    "constant": "%c0 = arith.constant 0 : index",
}


def _one(registers: list[Register], count: int, at: Statement) -> list[Register]:
    if len(registers) != count:
        raise _malformed(at, f"{len(registers)} operands", f"{count} operands")
    return registers


def _constant(reader: Reader, at: Statement) -> None:
    if len(at.results) != 1 or len(at.numbers) != 1 or not isinstance(at.numbers[0], int):
        raise _malformed(at, "no whole number with a name", "one whole number")
    reader.constants[at.results[0]] = at.numbers[0]


def _alloc(reader: Reader, at: Statement) -> None:
    if len(at.results) != 1 or len(at.types) != 1:
        raise _malformed(at, "no buffer with a type", "one result and one type")
    name = at.results[0]
    if name in reader.tiles:
        reader.results.add(name)
        reader.define(name, at)
    reader.tile(name, at.types[0], at)
    _extents(reader, name, at)
    address = at.keywords.get("addr")
    if address is not None:
        _address(reader, name, address, at)


def _extents(reader: Reader, name: str, at: Statement) -> None:
    """Values of dynamic extents among the keywords of a line."""
    row, col = at.keywords.get("valid_row"), at.keywords.get("valid_col")
    slot = reader.tiles[name]
    if row is not None and not isinstance(row, list):
        slot = replace(slot, valid_row=reader.value(row, at))
    if col is not None and not isinstance(col, list):
        slot = replace(slot, valid_col=reader.value(col, at))
    reader.tiles[name] = slot


def _address(reader: Reader, name: str, scalar: object, at: Statement) -> None:
    value = reader.value(scalar, at) if isinstance(scalar, int | float | str) else None
    if isinstance(scalar, str) and not isinstance(value, int):
        raise STATEMENT.error(
            f"{at.name}: the address {scalar} is not known",
            got=str(scalar),
            allowed="a whole number, or a register that a constant gave one",
            cures=[
                Cure(f"define it in a line before: {scalar} = arith.constant 0x1000 : i64"),
                Cure(f"write it as in: {_EXAMPLES['alloc_tile']}"),
            ],
            place=at.at,
        )
    if not isinstance(value, int):
        raise _malformed(at, f"{scalar} is no address", "a whole number")
    reader.tiles[name] = replace(reader.tiles[name], address=value)


def _assign(reader: Reader, at: Statement) -> None:
    (register,) = _one(at.registers, 1, at)
    if at.types:
        reader.tile(register.name, at.types[0], at)
    if register.name in reader.tiles:
        _place(reader, register.name, at)
    else:
        reader.placements[register.name] = at


def _place(reader: Reader, name: str, at: Statement) -> None:
    if at.place is None:
        raise _malformed(at, "no place", "@tile(address)")
    _address(reader, name, at.place, at)


def _view(reader: Reader, at: Statement) -> None:
    (pointer,) = _one(at.registers, 1, at)
    if len(at.results) != 1 or len(at.types) != 1:
        raise _malformed(at, "no view with a type", "one result and one type")
    kind = parse(at.types[0], at.at)
    if not isinstance(kind, MemoryType):
        raise _malformed(at, f"{at.types[0]} is no view", "!pto.tensor_view<64x32xf32>")
    reader.array(pointer.name, kind, at)
    reader.parts[at.results[0]] = Part(pointer.name)


def _partition(reader: Reader, at: Statement) -> None:
    (view,) = _one(at.registers, 1, at)
    whole = reader.parts.get(view.name)
    if whole is None or len(at.results) != 1:
        raise _malformed(at, f"%{view.name} is no view", "a view made by make_tensor_view")
    (row, col), sizes = reader.pair("offsets", whole.array, at), reader.pair("sizes", whole.array, at)
    reader.parts[at.results[0]] = Part(whole.array, row, col, sizes)


def _part(reader: Reader, register: Register, types: list[str], at: Statement) -> Part:
    """The part of global memory that a load or store names."""
    known = reader.parts.get(register.name)
    if known is not None and register.subscripts is None:
        return known
    kinds = [parse(text, at.at) for text in types if text.startswith("!")]
    memory = [kind for kind in kinds if isinstance(kind, MemoryType)]
    if known is None and memory:
        reader.array(register.name, memory[0], at)
    array = known.array if known is not None else register.name
    if array not in reader.arrays:
        raise UNKNOWN.error(
            f"%{register.name} is no array that was named before",
            got=f"%{register.name}",
            allowed=", ".join(f"%{name}" for name in reader.arrays) or "an array with a type",
            cures=[Cure("write its type behind a colon, as in !pto.memref<64x32xf32>")],
            place=replace(at.at, operand=f"%{register.name}"),
        )
    named = reader.arrays[array]
    axes = len(named.shape)
    places = register.subscripts or [0] * axes
    if len(places) != axes:
        raise _malformed(at, f"{len(places)} subscript{'s' * (len(places) != 1)}", f"{axes} subscripts")
    values = [reader.value(each, at) for each in places]
    row = _whole(named, values, False, at) if named.outer else values[0]
    return Part(array, row, values[-1])


def _sizes(reader: Reader, name: str, part: Part, at: Statement) -> None:
    """A part's sizes have to be the static extents of the tile."""
    if part.sizes is None:
        return
    slot = reader.tiles[name]
    wanted = (slot.type.valid_rows, slot.type.valid_cols)
    for size, fixed, axis in zip(part.sizes, wanted, ("rows", "columns"), strict=True):
        if fixed is not None and isinstance(size, int) and size != fixed:
            raise MISMATCH.error(
                f"the part of %{part.array} has {size} {axis}, and %{name} has {fixed} valid {axis}",
                got=str(size),
                allowed=str(fixed),
                cures=[Cure(f"cut the part to {fixed} {axis}")],
                place=replace(at.at, operand=f"%{name}"),
            )


def _take_sizes(reader: Reader, name: str, part: Part) -> None:
    """A loaded tile whose dynamic extents are given nowhere has those of the part."""
    slot = reader.tiles[name]
    if part.sizes is None:
        return
    row, col = slot.valid_row, slot.valid_col
    if slot.type.valid_rows is None and row is None:
        row = part.sizes[0]
    if slot.type.valid_cols is None and col is None:
        col = part.sizes[1]
    reader.tiles[name] = replace(slot, valid_row=row, valid_col=col)


def _load(reader: Reader, at: Statement) -> None:
    if at.outputs is not None:
        (source,), (tile,) = _one(at.registers, 1, at), _one(at.outputs, 1, at)
        name, kinds = tile.name, at.result_types or []
    elif at.results:
        (source,) = _one(at.registers, 1, at)
        name, kinds = at.results[0], at.result_types or []
        reader.define(name, at)
    else:
        tile, source = _one(at.registers, 2, at)
        name, kinds = tile.name, at.types[:1]
    reader.tile(name, kinds[0] if kinds else None, at)
    _extents(reader, name, at)
    part = _part(reader, source, at.types, at)
    _sizes(reader, name, part, at)
    _take_sizes(reader, name, part)
    reader.instructions.append(Load(name, part.array, part.row, part.col, at.line))


def _store(reader: Reader, at: Statement) -> None:
    if at.outputs is not None:
        (tile,), (target,) = _one(at.registers, 1, at), _one(at.outputs, 1, at)
        types = at.result_types or []
    else:
        tile, target = _one(at.registers, 2, at)
        types = at.types[1:]
    reader.tile(tile.name, at.types[0] if at.types else None, at)
    part = _part(reader, target, types, at)
    _sizes(reader, tile.name, part, at)
    reader.instructions.append(Store(tile.name, part.array, part.row, part.col, at.line))


def _texts(types: list[str], count: int) -> list[str | None]:
    return [*types[:count], *[None] * (count - len(types[:count]))]


def _attributes(at: Statement) -> tuple[tuple[str, Attribute], ...]:
    """Keywords that say nothing about the operation or its extents."""
    others = [(key, value) for key, value in at.keywords.items() if key not in _MEANT]
    return tuple((key, tuple(value) if isinstance(value, list) else value) for key, value in others)


def _compute(reader: Reader, op: Operation, at: Statement) -> None:
    flag = run_flag(op, at)
    if at.outputs is None and not at.results:
        form = flat_form(op, len(at.registers), flag, at)
        registers = [register.name for register in at.registers]
        texts = _texts(at.types * len(registers) if len(at.types) == 1 else at.types, len(registers))
        texts = [
            None if name in reader.tiles and len(at.types) == 1 else t for name, t in zip(registers, texts, strict=True)
        ]
        outputs = registers[: form.outputs]
    else:
        outputs = at.results or [register.name for register in at.outputs or []]
        inputs = [register.name for register in at.registers]
        form = form_of(op, len(outputs), len(inputs), flag, at)
        registers = [*outputs, *inputs]
        texts = [*_texts(at.result_types or [], len(outputs)), *_texts(at.types, len(inputs))]
    for name, text in zip(registers, texts, strict=True):
        reader.tile(name, text, at)
    for name in at.results:
        reader.define(name, at)
        if not reader.tiles[name].type.static:
            _extents(reader, name, at)
    reader.instructions.append(Compute(op.name, form.name, tuple(registers), flag, at.line, _attributes(at)))


_HANDLERS: dict[str, Callable[[Reader, Statement], None]] = {
    "tload": _load,
    "tstore": _store,
    "tassign": _assign,
    "alloc_tile": _alloc,
    "make_tensor_view": _view,
    "partition_view": _partition,
    "constant": _constant,
    "arith.constant": _constant,
}


def _read(reader: Reader, at: Statement) -> None:
    name = at.name.removeprefix("pto.")
    handler = _HANDLERS.get(name)
    if handler is not None:
        handler(reader, at)
    else:
        _compute(reader, names.operation(name), at)


def build(statements: list[Statement]) -> Program:
    """The program of the statements.

    Raises:
        LanefoldError: PTO-TEXT-*, PTO-OP-NAME, PTO-TILE-*, each with its line.
    """
    reader = Reader()
    for at in statements:
        try:
            _read(reader, at)
        except LanefoldError as wrong:
            located = [replace(d, place=replace(d.place, line=d.place.line or at.line)) for d in wrong.diagnostics]
            raise LanefoldError(located, usage=wrong.usage) from None
    for name, at in reader.placements.items():
        reader.tile(name, None, at)
    return Program(tuple(reader.arrays.values()), tuple(reader.tiles.values()), tuple(reader.instructions))
