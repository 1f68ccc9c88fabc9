"""Writing PTO programs as C++ of the public library: a kernel, and a driver for the CPU simulator.

A fragment, which neither loads nor stores, becomes a function of its tiles.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lanefold.diagnostics import Diagnostic, LanefoldError, errors
from lanefold.pto import names
from lanefold.pto.isa import COMPACT_MODES, LOCATIONS, PADS
from lanefold.pto.names import element
from lanefold.pto.program.check import NEVER_GIVEN, NEVER_WRITTEN
from lanefold.pto.program.model import Compute, GlobalArray, Instruction, Load, Program, Store, TileSlot, Value
from lanefold.pto.program.resolve import extent_values
from lanefold.pto.tiles import TileType

_INDENT = "    "

_DRIVER_HELP = (
    "// Driver for the CPU simulator: reads <array>.bin for every input, writes <array>.bin for every output.",
    "// Build: g++ -std=c++23 -O2 -D__CPU_SIM -include stdint.h -include stddef.h -I<pto>/include {name}.cpp",
)


def _identifier(prefix: str, name: str) -> str:
    """A C++ name for a register; the prefix keeps it apart from words of the language and of the library."""
    return f"{prefix}_{re.sub(r'[^A-Za-z0-9_]', '_', name)}"


class _Names:
    """C++ names of arrays, tiles and parameters; two registers never share one."""

    def __init__(self, program: Program) -> None:
        self._taken: set[str] = set()
        self.arrays = {array.name: self._fresh("g", array.name) for array in program.arrays}
        self.tiles = {slot.name: self._fresh("t", slot.name) for slot in program.tiles}
        self.parameters = {name: self._fresh("p", name) for name in program.parameters}

    def _fresh(self, prefix: str, name: str) -> str:
        found = _identifier(prefix, name)
        while found in self._taken:
            found += "_"
        self._taken.add(found)
        return found

    def value(self, value: Value) -> str:
        return str(value) if isinstance(value, int) else self.parameters[value]


def _pipe(instruction: Instruction) -> str:
    if isinstance(instruction, Load):
        return "PIPE_MTE2"
    return "PIPE_MTE3" if isinstance(instruction, Store) else "PIPE_V"


def tile_type(shape: TileType) -> str:
    """The C++ type of a tile; dynamic valid extents are written as DYNAMIC."""
    row = shape.element
    order = shape.order
    valid = ["DYNAMIC" if extent is None else str(extent) for extent in (shape.valid_rows, shape.valid_cols)]
    fields = [
        f"TileType::{LOCATIONS[shape.location]}",
        row.cpp,
        str(shape.rows),
        str(shape.cols),
        f"BLayout::{order.base}",
        *valid,
        f"SLayout::{order.box}",
        str(shape.fractal),
        f"PadValue::{PADS[shape.pad]}",
    ]
    if shape.compact != "null":
        fields.append(f"CompactMode::{COMPACT_MODES[shape.compact]}")
    return f"Tile<{', '.join(fields)}>"


class _Kernel:
    """Lines of the kernel function."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.handed = [slot for slot in program.tiles if slot.address is None] if is_fragment(program) else []
        self.names = _Names(program)
        self.slots = program.slots
        self.arrays = program.globals
        self.extents = extent_values(program)
        self.moves = 0

    def signature(self) -> str:
        arrays = [
            f"__gm__ {element(array.dtype).cpp}* {self.names.arrays[array.name]}" for array in self.program.arrays
        ]
        tiles = [f"{tile_type(slot.type)}& {self.names.tiles[slot.name]}" for slot in self.handed]
        parameters = [f"int {name}" for name in self.names.parameters.values()]
        return (
            f"AICORE inline void {_identifier('run', self.program.name)}({', '.join([*arrays, *tiles, *parameters])})"
        )

    def body(self) -> Iterator[str]:
        for slot in self.program.tiles:
            if slot not in self.handed:
                yield self._declaration(slot)
        for slot in self.program.tiles:
            if slot.address is not None:
                yield f"TASSIGN({self.names.tiles[slot.name]}, {slot.address:#x});"
        before = ""
        for instruction in self.program.instructions:
            pipe = _pipe(instruction)
            yield from self._order(before, pipe)
            yield from self._instruction(instruction)
            before = pipe

    def _declaration(self, slot: TileSlot) -> str:
        fixed = (slot.type.valid_rows, slot.type.valid_cols)
        given = [self.names.value(e) for e, known in zip(self._extents(slot), fixed, strict=True) if known is None]
        arguments = f"({', '.join(given)})" if given else ""
        return f"{tile_type(slot.type)} {self.names.tiles[slot.name]}{arguments};"

    def _extents(self, slot: TileSlot) -> tuple[Value, Value]:
        """Valid extents as numbers or parameters; the capacity where nothing gives them."""
        rows, cols = self.extents[slot.name]
        return slot.type.rows if rows is None else rows, slot.type.cols if cols is None else cols

    def _order(self, before: str, pipe: str) -> Iterator[str]:
        """Events that keep the instructions in their order; on the CPU simulator they do nothing."""
        if not before or (before == pipe and pipe != "PIPE_V"):
            return
        if before == pipe:
            yield "pipe_barrier(PIPE_V);"
            return
        yield f"set_flag({before}, {pipe}, EVENT_ID0);"
        yield f"wait_flag({before}, {pipe}, EVENT_ID0);"

    def _instruction(self, instruction: Instruction) -> Iterator[str]:
        if isinstance(instruction, Compute):
            operands = [self.names.tiles[name] for name in instruction.tiles]
            if instruction.is_binary is not None:
                operands.append("true" if instruction.is_binary else "false")
            yield f"{instruction.op}({', '.join(operands)});"
            return
        tile = self.names.tiles[instruction.tile]
        view = f"v{self.moves}"
        self.moves += 1
        yield self._view(view, instruction)
        yield f"TLOAD({tile}, {view});" if isinstance(instruction, Load) else f"TSTORE({view}, {tile});"

    def _view(self, view: str, move: Load | Store) -> str:
        array = self.arrays[move.array]
        slot = self.slots[move.tile]
        rows, cols = self._extents(slot)
        groups = array.shape[:-1] if array.outer else (rows,)
        shape = self._five("Shape", (*(1,) * (4 - len(groups)), *groups, cols))
        strides = self._strides(array, rows)
        layout = "DN" if slot.type.layout == "DN" else "ND"
        cpp = element(array.dtype).cpp
        offset = self._offset(array, move)
        return (
            f"GlobalTensor<{cpp}, {shape[0]}, {strides[0]}, Layout::{layout}> {view}("
            f"{self.names.arrays[array.name]}{offset}, {shape[0]}({shape[1]}), {strides[0]}({strides[1]}));"
        )

    def _strides(self, array: GlobalArray, rows: Value) -> tuple[str, str]:
        if array.outer:
            first = int(array.strides[0]) * int(array.shape[0])
            return self._five("Stride", (*(first,) * (5 - len(array.strides)), *array.strides))
        outer: Value = 1
        if all(isinstance(v, int) for v in (array.row_stride, rows)):
            outer = int(array.row_stride) * int(rows)
        return self._five("Stride", (outer, outer, outer, array.row_stride, array.column_stride))

    def _five(self, kind: str, values: tuple[Value, ...]) -> tuple[str, str]:
        """A shape or stride type of five numbers, and the values of its dynamic ones."""
        fixed = [str(v) if isinstance(v, int) else "DYNAMIC" for v in values]
        given = [self.names.value(v) for v in values if not isinstance(v, int)]
        return f"{kind}<{', '.join(fixed)}>", ", ".join(given)

    def _offset(self, array: GlobalArray, move: Load | Store) -> str:
        steps = ((move.row, array.row_stride), (move.col, array.column_stride))
        if all(isinstance(v, int) for pair in steps for v in pair):
            total = sum(int(place) * int(step) for place, step in steps)
            return f" + {total}" if total else ""
        words = [f"{self.names.value(place)} * {self.names.value(step)}" for place, step in steps if place != 0]
        return "".join(f" + {word}" for word in words)


class _Driver:
    """Lines of the host program."""

    def __init__(self, program: Program, kernel: _Kernel) -> None:
        self.program = program
        self.kernel = kernel

    def lines(self) -> Iterator[str]:
        inputs, outputs = set(self.program.inputs), set(self.program.outputs)
        yield "int main(int argc, char** argv)"
        yield "{"
        parameters = list(self.kernel.names.parameters.values())
        yield f"{_INDENT}if (argc != {len(parameters) + 1}) {{"
        usage = " ".join(["%s", *(f"<{name[2:]}>" for name in parameters)])
        yield f'{_INDENT * 2}std::fprintf(stderr, "usage: {usage}\\n", argv[0]);'
        yield f"{_INDENT * 2}return 2;"
        yield f"{_INDENT}}}"
        for at, name in enumerate(parameters, 1):
            yield f"{_INDENT}const int {name} = std::atoi(argv[{at}]);"
        for array in self.program.arrays:
            yield from self._storage(array, array.name in inputs)
        arguments = [f"{self.kernel.names.arrays[a.name]}.data()" for a in self.program.arrays]
        yield f"{_INDENT}{_identifier('run', self.program.name)}({', '.join([*arguments, *parameters])});"
        for array in self.program.arrays:
            if array.name in outputs:
                yield f'{_INDENT}write_array("{array.name}.bin", {self.kernel.names.arrays[array.name]});'
        yield f"{_INDENT}return 0;"
        yield "}"

    def _storage(self, array: GlobalArray, read: bool) -> Iterator[str]:
        name = self.kernel.names.arrays[array.name]
        value = self.kernel.names.value
        axes = zip(array.shape, array.strides, strict=True)
        last = " + ".join(f"(size_t)({value(extent)} - 1) * {value(step)}" for extent, step in axes) + " + 1"
        yield f"{_INDENT}std::vector<{element(array.dtype).cpp}> {name}({last});"
        if read:
            yield f'{_INDENT}if (!read_array("{array.name}.bin", {name})) {{'
            yield f"{_INDENT * 2}return 1;"
            yield f"{_INDENT}}}"


_FILES = """\
template <typename T>
static bool read_array(const char* path, std::vector<T>& values)
{
    std::FILE* file = std::fopen(path, "rb");
    const bool done = file != nullptr && std::fread(values.data(), sizeof(T), values.size(), file) == values.size();
    if (file != nullptr) {
        std::fclose(file);
    }
    if (!done) {
        std::fprintf(stderr, "cannot read %zu elements from %s\\n", values.size(), path);
    }
    return done;
}

template <typename T>
static void write_array(const char* path, const std::vector<T>& values)
{
    std::FILE* file = std::fopen(path, "wb");
    if (file != nullptr) {
        std::fwrite(values.data(), sizeof(T), values.size(), file);
        std::fclose(file);
    }
}
"""

_BFLOAT_GUARD = (
    '#ifdef __CPU_SIM\nstatic_assert(!std::is_same_v<bfloat16_t, half>, "bf16 needs g++ 14 and -std=c++23");\n#endif\n'
)


def _needs_bfloat(program: Program) -> bool:
    return any(slot.type.dtype == "bf16" for slot in program.tiles)


def is_fragment(program: Program) -> bool:
    """Whether the program neither loads nor stores, so that its tiles come from its caller."""
    return all(isinstance(instruction, Compute) for instruction in program.instructions)


def _faults(program: Program, target: str) -> list[Diagnostic]:
    """Errors of a program; what a fragment reads was written by its caller, who hands over extents as well."""
    found = errors(program.check(target))
    if not is_fragment(program):
        return found
    placed = {f"%{slot.name}" for slot in program.tiles if slot.address is not None}
    found = [d for d in found if not d.message.endswith(NEVER_WRITTEN)]
    return [d for d in found if d.place.operand in placed or not d.message.endswith(NEVER_GIVEN)]


def emit(program: Program, target: str) -> str:
    """See `Program.to_cpp`."""
    row = names.target(target)
    fragment = is_fragment(program)
    ready = program.with_scratch(row.name)
    ready = ready if fragment else ready.placed(row.name)
    wrong = _faults(ready, row.name)
    if wrong:
        raise LanefoldError(wrong)
    kernel = _Kernel(ready)
    count = len(program.instructions)
    what = "on tiles of the caller" if fragment else f"on tiles, placed for {row.title}"
    text = [f"// {program.name}: {count} instruction{'s' * (count != 1)} {what}."]
    if not fragment:
        text += [line.format(name=program.name) for line in _DRIVER_HELP]
        text += [f"#include <{header}>" for header in ("cstdio", "cstdlib", "type_traits", "vector")]
    elif _needs_bfloat(ready):
        text.append("#include <type_traits>")
    text += ["#include <pto/pto-inst.hpp>", "", "using namespace pto;", ""]
    if _needs_bfloat(ready):
        text.append(_BFLOAT_GUARD)
    text += [kernel.signature(), "{"]
    text += [_INDENT + line for line in kernel.body()]
    text += ["}", ""]
    if not fragment:
        text += ["#ifdef __CPU_SIM", _FILES, *_Driver(ready, kernel).lines(), "#endif", ""]
    return "\n".join(text)
