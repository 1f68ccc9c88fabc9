"""Writing PTO programs in the three text forms."""

from __future__ import annotations

from collections.abc import Iterator

from lanefold.diagnostics import Cure, Place, Rule
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
    touched,
)
from lanefold.pto.program.resolve import extent_values
from lanefold.pto.text.types import memory_text, tile_text

FORM = Rule(
    "PTO-TEXT-FORM",
    "A text form is asm, ssa or dps.",
    "PTO overview: assembly, SSA and DPS forms",
    usage=True,
)
SSA = Rule(
    "PTO-TEXT-SSA",
    "In assembly and SSA form every tile is the result of one line at most.",
    "PTO AS: level 1",
)

FORMS = ("asm", "ssa", "dps")


def _index(value: Value) -> str:
    return str(value) if isinstance(value, int) else f"%{value}"


def _attribute(value: Attribute) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(str(v) for v in value)}]"
    return str(value)


def _list(values: tuple[Value, ...]) -> str:
    return f"[{', '.join(_index(v) for v in values)}]"


class _Writer:
    """Lines of one program in one form."""

    def __init__(self, program: Program, form: str) -> None:
        self.program = program
        self.form = form
        self.slots = program.slots
        self.arrays = program.globals
        self.extents = extent_values(program)
        self.known: set[str] = set()
        self.views: dict[str, str] = {}
        self.used = {*self.slots, *self.arrays, *program.parameters}
        self.parts = 0

    def lines(self) -> Iterator[str]:
        for instruction in self.program.instructions:
            for name in self._to_allocate(instruction):
                yield self._allocation(self.slots[name])
            if isinstance(instruction, Compute):
                yield from self._compute(instruction)
            elif self.form == "asm":
                yield from self._plain_move(instruction)
            else:
                yield from self._viewed_move(instruction)
        for slot in self.program.tiles:
            if slot.name not in self.known:
                yield self._allocation(slot)

    def _defines(self, instruction: Instruction) -> tuple[str, ...]:
        if self.form == "dps":
            return ()
        if isinstance(instruction, Compute):
            return instruction.outputs
        return (instruction.tile,) if isinstance(instruction, Load) else ()

    def _to_allocate(self, instruction: Instruction) -> list[str]:
        """Tiles that need a line of their own before the instruction."""
        names = []
        defined = self._defines(instruction)
        for name in dict.fromkeys(touched(instruction)):
            slot = self.slots[name]
            if name in self.known or name in defined:
                continue
            scratch = isinstance(instruction, Compute) and instruction.scratch == name
            if self.form == "dps" or scratch or slot.address is not None or slot.valid_row or slot.valid_col:
                names.append(name)
            self.known.add(name)
        return names

    def _allocation(self, slot: TileSlot) -> str:
        self.known.add(slot.name)
        words = []
        if slot.address is not None:
            words.append(f"addr = {slot.address:#x}")
        words += self._extents(slot)
        middle = f" {' '.join(words)}" if words else ""
        return f"%{slot.name} = pto.alloc_tile{middle} : {tile_text(slot.type, buffer=True)}"

    def _extents(self, slot: TileSlot) -> list[str]:
        pairs = (("valid_row", slot.valid_row), ("valid_col", slot.valid_col))
        return [f"{key} = {_index(value)}" for key, value in pairs if value is not None]

    def _type(self, name: str) -> str:
        return tile_text(self.slots[name].type, buffer=self.form == "dps")

    def _finish(self, instruction: Instruction) -> Iterator[str]:
        """Placements of the tiles that a line has defined."""
        for name in self._defines(instruction):
            slot = self.slots[name]
            if name not in self.known and slot.address is not None:
                yield f"pto.tassign %{name}, @tile({slot.address:#x})"
            self.known.add(name)

    def _braces(self, words: list[str]) -> str:
        return f" {{{', '.join(words)}}}" if words else ""

    def _new_extents(self, names: tuple[str, ...]) -> list[str]:
        if self.form == "dps":
            return []
        words = [word for name in names if name not in self.known for word in self._extents(self.slots[name])]
        return list(dict.fromkeys(words))

    def _compute(self, i: Compute) -> Iterator[str]:
        inputs = i.tiles[len(i.outputs) :]
        flag = [] if i.is_binary is None else [f"isBinary = {'true' if i.is_binary else 'false'}"]
        flag += [f"{key} = {_attribute(value)}" for key, value in i.attributes]
        sources = ", ".join(f"%{name}" for name in inputs)
        types = ", ".join(self._type(name) for name in inputs)
        results = ", ".join(f"%{name}" for name in i.outputs)
        result_types = ", ".join(self._type(name) for name in i.outputs)
        mnemonic = i.row.mnemonic
        if self.form == "dps":
            inner = f"{sources}{self._braces(flag)} : {types}"
            yield f"pto.{mnemonic} ins({inner}) outs({results} : {result_types})"
            return
        braces = self._braces(flag + self._new_extents(i.outputs))
        prefix = "" if self.form == "asm" else "pto."
        if self.form == "ssa" and not i.row.binary and len(inputs) > 1:
            types = f"({types})"
        if self.form == "ssa" and len(i.outputs) > 1:
            result_types = f"({result_types})"
        yield f"{results} = {prefix}{mnemonic} {sources}{braces} : {types} -> {result_types}"
        yield from self._finish(i)

    def _memref(self, array: GlobalArray) -> tuple[str, list[str]]:
        """A memory reference type, and the keywords for what it cannot say."""
        shape, strides = array.shape, array.strides
        dense = not array.outer and array.row_stride == array.cols and array.column_stride == 1
        words = [] if array.static else [f"shape = {_list(shape)}", f"strides = {_list(strides)}"]
        return memory_text("memref", array.dtype, shape, None if dense else strides), words

    def _plain_move(self, i: Load | Store) -> Iterator[str]:
        array = self.arrays[i.array]
        memref, words = self._memref(array)
        place = f"%{i.array}{_list((*(0 for _ in array.outer), i.row, i.col))}"
        indices = ", ".join(["index"] * len(array.shape))
        if isinstance(i, Load):
            braces = self._braces(words + self._new_extents((i.tile,)))
            yield f"%{i.tile} = tload {place}{braces} : ({memref}, {indices}) -> {self._type(i.tile)}"
            yield from self._finish(i)
        else:
            yield f"tstore %{i.tile}, {place}{self._braces(words)} : ({self._type(i.tile)}, {memref}, {indices})"

    def _fresh(self, name: str) -> str:
        while name in self.used:
            name += "_"
        self.used.add(name)
        return name

    def _view(self, array: GlobalArray) -> Iterator[str]:
        if array.name in self.views:
            return
        view = self._fresh(f"{array.name}_view")
        self.views[array.name] = view
        shape, strides = _list(array.shape), _list(array.strides)
        kind = memory_text("tensor_view", array.dtype, array.shape)
        yield f"%{view} = pto.make_tensor_view %{array.name}, shape = {shape}, strides = {strides} : {kind}"

    def _sizes(self, name: str) -> tuple[Value, Value]:
        """Extents of a part: the tile's, by number or by parameter; the capacity where nothing is known."""
        kind = self.slots[name].type
        rows, cols = self.extents[name]
        return kind.rows if rows is None else rows, kind.cols if cols is None else cols

    def _viewed_move(self, i: Load | Store) -> Iterator[str]:
        array = self.arrays[i.array]
        yield from self._view(array)
        part = self._fresh(f"{array.name}_part{self.parts}")
        self.parts += 1
        rows, cols = self._sizes(i.tile)
        sizes = (*array.shape[:-1], cols) if array.outer else (rows, cols)
        offsets = _list((*(0 for _ in array.outer), i.row, i.col))
        kind = memory_text("partition_tensor_view", array.dtype, sizes)
        whole = memory_text("tensor_view", array.dtype, array.shape)
        yield (
            f"%{part} = pto.partition_view %{self.views[i.array]}, offsets = {offsets}, "
            f"sizes = {_list(sizes)} : {whole} -> {kind}"
        )
        tile = self._type(i.tile)
        if self.form == "dps":
            load = f"pto.tload ins(%{part} : {kind}) outs(%{i.tile} : {tile})"
            yield load if isinstance(i, Load) else f"pto.tstore ins(%{i.tile} : {tile}) outs(%{part} : {kind})"
        elif isinstance(i, Load):
            braces = self._braces(self._new_extents((i.tile,)))
            yield f"%{i.tile} = pto.tload %{part}{braces} : {kind} -> {tile}"
            yield from self._finish(i)
        else:
            yield f"pto.tstore %{i.tile}, %{part} : {tile}, {kind}"


def _check_single(program: Program, form: str) -> None:
    seen: set[str] = set()
    for i in program.instructions:
        made = i.outputs if isinstance(i, Compute) else (i.tile,) if isinstance(i, Load) else ()
        for name in made:
            if name in seen:
                raise SSA.error(
                    f"%{name} is written by more than one line, which the {form} form cannot say",
                    got=f"%{name}",
                    allowed="one line for each result",
                    cures=[Cure("write the program as dps", {"form": "dps"})],
                    place=Place(operand=f"%{name}"),
                )
            seen.add(name)


def write(program: Program, form: str) -> str:
    """See `Program.to_text`.

    Raises:
        LanefoldError: PTO-TEXT-FORM for an unknown form.
    """
    if form not in FORMS:
        raise FORM.error(
            f"there is no text form {form!r}",
            got=repr(form),
            allowed=", ".join(FORMS),
            cures=[Cure("use asm", {"form": "asm"})],
            place=Place(field="form"),
        )
    if form != "dps":
        _check_single(program, form)
    told = program.without_scratch() if form == "asm" else program
    return "\n".join(_Writer(told, form).lines()) + "\n"
