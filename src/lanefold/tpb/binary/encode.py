"""From typed instructions to bundles."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from lanefold.arguments import shown
from lanefold.diagnostics import Diagnostic, LanefoldError, Rule, errors
from lanefold.numerics import alu
from lanefold.numerics.dtypes import by_name
from lanefold.tpb import isa
from lanefold.tpb.binary import layout
from lanefold.tpb.binary.stream import Stream
from lanefold.tpb.instruction import Instruction, Sync
from lanefold.tpb.limits import front_end
from lanefold.tpb.patterns import Access, Slots, address_word, reversed_slots, slots

_SHARED_VALUE = Rule(
    "TPB-SYNC-SHARED-VALUE",
    "A wait and an update of one bundle share semaphore_value; both may use it only with the same value.",
    "Bundle events: shared operand",
)
_FIXED_START = Rule(
    "TPB-OPERAND-REGISTER-START",
    "Operands walked backwards or in chunks start at an address that the encoder computes, not at a register.",
    "ADDR4, register form; Pool Engine, MAX8; Pool Encoding 5",
)
_INSTRUCTIONS = Rule(
    "TPB-INSTRUCTIONS",
    "What is encoded is one typed instruction, several, or a module that lists them.",
    "Typed instructions",
    usage=True,
)
_COLUMN = Rule(
    "TPB-COLUMN",
    "Columns are named like the fields of the struct and hold one value per bundle that fits the field.",
    "Wire struct tables",
    usage=True,
)

INDIRECT_COLUMNS = "indirect"
Fields = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Indirect:
    """What an indirect record holds: address words of the indices, marked, and of the data, and their number."""

    index: int
    data: int
    count: int


Made = tuple[str, Fields]


class HasInstructions(Protocol):
    """Anything that lists instructions in program order, such as a BIR module."""

    def instructions(self) -> Iterable[Instruction]:
        """The instructions, in program order."""
        ...


def encode(
    program: HasInstructions | Instruction | Iterable[Instruction],
    generation: str | None = None,
    opcodes: str = "reference",
) -> Stream:
    """Encodes instructions, in order, into one stream; two-bundle instructions are split here.

    Args:
        program: one instruction, several, or anything with a method ``instructions()``.
        generation: ``"v2"``, ``"v3"`` or ``"v4"``; where left out, the one that a BIR module's ``arch`` names, else v2.
        opcodes: opcode reading, ``"reference"`` or ``"headers"``.

    Raises:
        LanefoldError: if there are no instructions in the program, an argument is unknown or contradicts the module;
            with every front-end finding of every instruction that has no bytes.
    """
    known, reading = generation_of(program, generation), layout.check_reading(opcodes)
    listed = listed_instructions(program)
    found: list[Diagnostic] = []
    made: list[Made] = []
    origin: list[int] = []
    for index, instruction in enumerate(listed):
        wrong = errors(front_end(instruction, known, reading))
        if wrong:
            found += wrong
            continue
        try:
            bundles = bundles_of(instruction, known, reading)
        except LanefoldError as error:
            found += error.diagnostics
            continue
        made += bundles
        origin += [index] * len(bundles)
    if found:
        raise LanefoldError(found)
    words = np.zeros((len(made), isa.BUNDLE_BYTES), np.uint8)
    for word, (name, fields) in zip(words, made, strict=True):
        _write(word, name, fields, reading)
    return Stream(words, known, reading, instructions=listed, origin=np.array(origin, np.int64))


def generation_of(program: object, generation: str | None) -> isa.Generation:
    """The generation that the call names, else the one that the program states, else v2.

    Raises:
        LanefoldError: if the generation is unknown, or the program states another one.
    """
    stated = getattr(program, "generation", None)
    if callable(stated) and not isinstance(program, type):
        known: isa.Generation = stated(generation)
        return known
    return isa.GENERATIONS[0] if generation is None else layout.check_generation(generation)


def listed_instructions(program: object) -> tuple[Instruction, ...]:
    """The instructions of a program: one, several, or those that its method ``instructions()`` lists.

    Raises:
        LanefoldError: ``TPB-INSTRUCTIONS`` if it is none of these.
    """
    if isinstance(program, Instruction):
        return (program,)
    listed = getattr(program, "instructions", None)
    try:
        made = tuple(listed() if callable(listed) else program)  # type: ignore[arg-type]
    except (TypeError, NotImplementedError):
        raise _no_instructions(program) from None
    for entry in made:
        if not isinstance(entry, Instruction):
            raise _no_instructions(entry)
    return made


def _no_instructions(given: object) -> LanefoldError:
    return _INSTRUCTIONS.error(
        f"{shown(given)} is no instruction",
        got=shown(given),
        allowed="an Instruction, several of them, a BIR module",
        cures=[
            "read a BIR module with bir.load, one BIR-JSON instruction with bir.instruction",
            "read bytes with decode and text with assemble; they need no encoding",
        ],
    )


def _write(word: npt.NDArray[np.uint8], name: str, fields: Fields, reading: isa.Reading) -> None:
    row = isa.BY_NAME[name]
    record = word.view(layout.record(row.struct))[0]
    record["opcode"] = row.opcode(reading)
    record["inst_word_len"] = isa.WORD_LENGTH
    for field, value in fields.items():
        if isinstance(value, _Indirect):
            start = record.dtype.fields[field][1]
            place = word[start : start + layout.INDIRECT20B.itemsize].view(layout.INDIRECT20B)[0]
            place["index_addr"], place["data_addr"], place["num_elem"] = value.index, value.data, value.count
        elif isinstance(value, tuple):
            address, (steps, nums) = value
            descriptor = record[field]
            descriptor["start_addr"] = address
            descriptor["step_elem"] = steps
            descriptor["num_elem"] = nums
        else:
            record[field] = value


def encode_columns(name: str, columns: Mapping[str, Any], generation: str = "v2", opcodes: str = "reference") -> Stream:
    """Encodes many bundles of one instruction from columns, one array per field; fields left out are zero.

    Descriptors are columns ``src.start_addr``, ``src.step_elem`` (n x slots), ``src.num_elem`` and alike, or whole
    structured arrays; indirect memory patterns are ``src.indirect.index_addr`` (with its marker bit),
    ``src.indirect.data_addr`` and ``src.indirect.num_elem``. Opcode and length are filled in.

    Raises:
        LanefoldError: if a name, a reading or a column is unknown, or a column does not fit.
    """
    known, reading = layout.check_generation(generation), layout.check_reading(opcodes)
    number = layout.kind_numbers(name)[0]
    row = isa.BUNDLES[number]
    opcode = row.opcode(reading)
    if not isinstance(columns, Mapping) or not all(isinstance(column, str) for column in columns):
        raise _bad_column(name, f"columns given as {shown(columns)}", row)
    lengths = {len(value) for value in columns.values() if np.ndim(value)}
    if len(lengths) > 1 or opcode is None:
        raise _bad_column(name, f"lengths {sorted(lengths)}" if opcode is not None else reading, row)
    words = np.zeros((lengths.pop() if lengths else 1, isa.BUNDLE_BYTES), np.uint8)
    record = words.view(layout.record(row.struct))[:, 0]
    record["opcode"] = opcode
    record["inst_word_len"] = isa.WORD_LENGTH
    for column, value in columns.items():
        *path, last = column.split(".")
        target = record
        try:
            if path[1:] == [INDIRECT_COLUMNS]:
                target = _indirect_records(words, row, path[0], known)
                path = []
            for part in path:
                target = target[part]
            target[last] = _fitting(value, target.dtype[last].base)
        except (ValueError, OverflowError, TypeError, IndexError, KeyError):
            raise _bad_column(name, column, row) from None
    return Stream(words, known, reading)


def _indirect_records(
    words: npt.NDArray[np.uint8], row: isa.BundleKind, name: str, generation: isa.Generation
) -> npt.NDArray[np.void]:
    """The bytes of a memory pattern as indirect records; an error of NumPy's kind where they cannot be one."""
    field = next((field for field in isa.STRUCTS[row.struct].fields if field.name == name), None)
    if field is None or field.kind is not isa.Kind.MEMORY4D or not layout.indirect_exists(generation):
        raise ValueError(name)
    return words[:, field.offset : field.offset + layout.size(field)].view(layout.INDIRECT20B)[:, 0]


def _fitting(value: Any, target: np.dtype[Any]) -> Any:
    """The column itself, if every whole number in it fits; NumPy alone would cut numbers of arrays."""
    given = np.asarray(value)
    if target.kind not in "iu" or np.can_cast(given.dtype, target, "safe") or not given.size:
        return value
    bounds = np.iinfo(target)
    if given.dtype.kind not in "iub" or int(given.min()) < bounds.min or int(given.max()) > bounds.max:
        raise ValueError(target)
    return given


def _bad_column(name: str, got: str, row: isa.BundleKind) -> LanefoldError:
    names = ", ".join(field.name for field in isa.STRUCTS[row.struct].fields)
    return _COLUMN.error(
        f"column {got!r} of {name} does not fit struct {row.struct}",
        got=got,
        allowed=names,
        cures=["give equally long columns, named as above, with values inside the fields' ranges"],
    )


def bundles_of(instruction: Instruction, generation: isa.Generation, reading: isa.Reading) -> list[Made]:
    """The bundles of one instruction that has passed the front-end rules: (instruction row, field values) each.

    Raises:
        LanefoldError: where an operand's pattern, address or sync does not fit its fields.
    """
    made = _MAKERS[instruction.opcode](instruction, generation, reading)
    sync = _events(instruction)
    # A pair waits before its first and signals after its last bundle.
    for field in ("wait_mode", "wait_idx"):
        made[0][1][field] = sync[field]
    for field in ("update_mode", "update_idx"):
        made[-1][1][field] = sync[field]
    for fields in (made[0][1], made[-1][1]):
        if fields.get("wait_mode") in isa.WAIT_NEEDS_VALUE or fields.get("update_mode") in isa.UPDATE_NEEDS_VALUE:
            fields["semaphore_value"] = sync["semaphore_value"]
    return made


def _events(instruction: Instruction) -> Fields:
    sync = instruction.sync
    return {
        "wait_mode": sync.wait_mode,
        "wait_idx": sync.wait_index,
        "update_mode": sync.update_mode,
        "update_idx": sync.update_index,
        "semaphore_value": sync.value & 0xFFFFFFFF,
    }


def joined_sync(wait: Sync, update: Sync, instruction: Instruction) -> Sync:
    """One events block for a wait and an update.

    Raises:
        LanefoldError: ``TPB-SYNC-SHARED-VALUE`` if both need the shared value and their values differ.
    """
    needs_wait = wait.wait_mode in isa.WAIT_NEEDS_VALUE
    needs_update = update.update_mode in isa.UPDATE_NEEDS_VALUE
    if needs_wait and needs_update and wait.value != update.value:
        raise _SHARED_VALUE.error(
            f"the wait needs value {wait.value} and the update value {update.value}",
            got=f"{wait.value} and {update.value}",
            allowed="one value",
            place=instruction.place("semaphore_value"),
            cures=["use an increment or decrement, which needs no value, or an event-semaphore bundle of its own"],
        )
    value = wait.value if needs_wait else update.value
    return Sync(wait.wait_mode, wait.wait_index, update.update_mode, update.update_index, value)


_Descriptor = tuple[int, Slots] | _Indirect


def _descriptor(
    access: Access, generation: isa.Generation, packed: Slots, instruction: Instruction
) -> tuple[int, Slots]:
    return address_word(access, generation, instruction.place(operand=access.name)), packed


def _forward(
    access: Access,
    generation: isa.Generation,
    instruction: Instruction,
    *,
    places: int = 4,
    keep_unit: bool = False,
) -> _Descriptor:
    place = instruction.place("ap", access.name)
    if access.indices is not None:
        index = address_word(access.indices, generation, instruction.place(operand=access.indices.name))
        data = address_word(access, generation, instruction.place(operand=access.name))
        return _Indirect(index | isa.INDIRECT_BIT, data, access.indices.elements)
    return _descriptor(access, generation, slots(access, places, keep_unit=keep_unit, place=place), instruction)


def _backward(access: Access, generation: isa.Generation, instruction: Instruction) -> tuple[int, Slots]:
    _check_start(access, instruction)
    moved, packed = reversed_slots(access, instruction.place("ap", access.name))
    return _descriptor(moved, generation, packed, instruction)


def _check_start(access: Access, instruction: Instruction) -> None:
    if access.register is not None:
        raise _FIXED_START.error(
            f"operand {access.name} starts at register {access.register}",
            got=f"r{access.register}",
            allowed="an operand at a known place",
            place=instruction.place(operand=access.name),
            cures=["place the operand in SB or PSUM and give it as a physical_ap"],
        )


def _typed(source: Access, out: Access, generation: isa.Generation) -> Fields:
    return {
        "in_dtype": by_name(source.dtype).tag(generation),
        "out_dtype": by_name(out.dtype).tag(generation),
        "num_active_channels": source.channels & 0xFF,
    }


def reciprocal_of(count: int) -> np.float32:
    """1/N as the encoder forms it: both operands single precision, one rounding (Pool Engine: 1.0f / (float)N)."""
    return np.float32(1.0) / np.float32(count)


def _pool(i: Instruction, generation: isa.Generation, reading: isa.Reading) -> list[Made]:
    source, out = i.ins[0], i.outs[0]
    average = i.attributes["func"] == "Avg"
    window = source.pattern[-1][1] * source.pattern[-2][1]
    fields = _typed(source, out, generation) | {
        "src": _forward(source, generation, i, keep_unit=True),
        "dst": _forward(out, generation, i),
        "pool_func": isa.BIR_POOL_FUNCTIONS[str(i.attributes["func"])],
        "pool_dim": isa.BIR_AXES["XY"][1],
        "pool_scale": reciprocal_of(window) if average else np.float32(1.0),
    }
    return [("pool", fields)]


def _reduce(i: Instruction, generation: isa.Generation, reading: isa.Reading) -> list[Made]:
    source, out = i.ins[0], i.outs[0]
    operator, axis = str(i.attributes["op"]), str(i.attributes["axis"])
    bits = alu.by_name(operator).bitvec
    name = ("transpose_" if i.attributes.get("apply_transpose") else "") + (
        "tensor_reduce" if axis in isa.BIR_AXES else "cross_lane_reduce"
    )
    name += "_bitvec" if bits else "_arith"
    fields = _typed(source, out, generation)
    if axis in isa.BIR_AXES:
        fields |= {
            "src": _forward(source, generation, i, keep_unit=True),
            "dst": _forward(out, generation, i),
            "negated": int(bool(i.attributes.get("negate"))),
            "op": alu.by_name(operator).byte(generation),
            "op_dim": isa.BIR_AXES[axis][1],
        }
        return [(name, fields)]
    fields |= {
        "src": _forward(source, generation, i),
        "dst": _forward(out, generation, i),
        "reduce_op": isa.CROSS_LANE_COMMANDS[operator],
        "reduce_axis": isa.BIR_CROSS_LANE_AXES[axis][1],
    }
    if operator == "average":
        fields["scale"] = reciprocal_of(source.channels * (source.elements if axis == "XYZWC" else 1))
    return [(name, fields)]


def _reciprocal(i: Instruction, generation: isa.Generation, reading: isa.Reading) -> list[Made]:
    source, out = i.ins[0], i.outs[0]
    fields = _typed(source, out, generation) | {
        "src": _forward(source, generation, i),
        "dst": _forward(out, generation, i),
    }
    return [("reciprocal", fields)]


def _max8(i: Instruction, generation: isa.Generation, reading: isa.Reading) -> list[Made]:
    source, out = i.ins[0], i.outs[0]
    fields = _typed(source, out, generation) | {
        "src": _forward(source, generation, i),
        "dst": _backward(out, generation, i),
    }
    return [("max8", fields)]


def _keys(i: Instruction, generation: isa.Generation, src: _Descriptor) -> Made:
    values = i.ins[0]
    return (
        "match_value_load",
        {"dtype": by_name(values.dtype).tag(generation), "num_active_channels": values.channels & 0xFF, "src": src},
    )


def _max_index(i: Instruction, generation: isa.Generation, reading: isa.Reading) -> list[Made]:
    values, data = i.ins
    out = i.outs[0]
    fields = _typed(data, out, generation) | {
        "src": _forward(data, generation, i),
        "dst": _forward(out, generation, i, places=2),
    }
    return [_keys(i, generation, _backward(values, generation, i)), ("find_index8", fields)]


def _match_replace(i: Instruction, generation: isa.Generation, reading: isa.Reading) -> list[Made]:
    values, data = i.ins
    out = i.outs[0]
    fields = _typed(data, out, generation) | {
        "src": _forward(data, generation, i),
        "dst": _forward(out, generation, i),
        "immediate": np.float32(i.attributes["imm_value"]),  # type: ignore[arg-type]
    }
    return [_keys(i, generation, _forward(values, generation, i, places=2)), ("match_replace8", fields)]


def _iota(i: Instruction, generation: isa.Generation, reading: isa.Reading) -> list[Made]:
    out = i.outs[0]
    pattern: list[tuple[int, int]] = [tuple(pair) for pair in i.attributes["pattern"]]  # type: ignore[attr-defined]
    innermost_first = [*reversed(pattern), *([(1, 1)] * (4 - len(pattern)))]
    fields = {
        "base": i.attributes.get("base", 0),
        "step_elem": [step for step, _ in innermost_first],
        "num_elem": [num for _, num in innermost_first],
        "out_dtype": by_name(out.dtype).tag(generation),
        "num_active_channels": out.channels & 0xFF,
        "channel_multiplier": i.attributes.get("channel_multiplier", 0),
        "dst": _forward(out, generation, i),
    }
    return [("iota", fields)]


def _gather(i: Instruction, generation: isa.Generation, reading: isa.Reading) -> list[Made]:
    table, indices = i.ins
    out = i.outs[0]
    if table.elements > isa.GATHER_CHUNK:
        _check_start(table, i)
    step = next((step for step, num in table.free if num != 1), 1)
    element = by_name(table.dtype)
    lookup = _typed(indices, out, generation) | {
        "src": _forward(indices, generation, i),
        "dst": _forward(out, generation, i),
    }
    made: list[list[Made]] = []
    for start in range(0, table.elements, isa.GATHER_CHUNK):
        length = min(isa.GATHER_CHUNK, table.elements - start)
        moved = table.byte + start * step * element.bytes
        chunk = replace(table, byte=moved, pattern=(table.pattern[0], (step, length)))
        load = {
            "src": _forward(chunk, generation, i),
            "in_dtype": element.tag(generation),
            "num_active_channels": table.channels & 0xFF,
            "start_index": start,
            "mask": isa.GATHER_CHUNK - 1,
        }
        pair: dict[str, Made] = {
            "pool_buffer_load": ("pool_buffer_load", load),
            "gather": ("gather", lookup | {"index_miss_behavior": int(start > 0)}),
        }
        made.append([pair[name] for name in isa.GATHER_ORDER[reading]])
    return list(chain.from_iterable(made))


_MAKERS: dict[str, Callable[[Instruction, isa.Generation, isa.Reading], list[Made]]] = {
    "Pool": _pool,
    "TensorReduce": _reduce,
    "Max": _max8,
    "MaxIndex": _max_index,
    "MatchReplace": _match_replace,
    "Reciprocal": _reciprocal,
    "Iota": _iota,
    "Gather": _gather,
}
