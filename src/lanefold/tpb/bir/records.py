"""The records of a BIR-JSON module: typed where the leg needs them, and never losing a key."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeAlias

import msgspec

from lanefold.diagnostics import Place
from lanefold.tpb import isa
from lanefold.tpb.bir.form import bad_form, mismatch

if TYPE_CHECKING:
    Operands: TypeAlias = "list[Operand]"
    Entries: TypeAlias = "list[Entry]"
    Allocations: TypeAlias = "list[Allocation]"
else:
    # Which record an item becomes is decided by `Record.INNER`, not by the type converter.
    Operands = Entries = Allocations = list[Any]

LOOP = "Loop"
LOCATION_SET = "memory_location_set"
LOCATION = "memory_location"
AXIS_KEY = "LoopAxis"
BUNDLES_KEY = "bundles"
"""Our own key, like ``node``: how many bundles of its engine's file are the instruction's, where it is not one."""
HEADER_KEYS = frozenset(
    {
        "opcode",
        "name",
        "engine",
        "engine_id",
        "origin",
        "scheduled_start",
        "scheduled_end",
        "optin_passes",
        "dependencies",
        "loop_carried_dependencies",
        "unroll_dependencies",
        "sync_info",
        "indirection_ins",
        "debug",
        "loopnest",
        "predicates",
        "order",
        "node",
        BUNDLES_KEY,
        "ins",
        "outs",
    }
)
"""Keys that any instruction may carry beside its own (BIR JSON record schema: instruction header; two of ours)."""


class Record(msgspec.Struct, kw_only=True):
    """A JSON object with typed keys.

    ``rest`` holds the keys that the type does not name; ``written`` those that stood in the file, so that a key at
    its default is written again exactly where it was read.
    """

    INNER: ClassVar[dict[str, Callable[[Any, Place], Any]]] = {}
    """For keys that hold lists of records: what reads one of them."""

    ALWAYS: ClassVar[tuple[str, ...]] = ()
    """Keys that are written even at their default."""

    rest: dict[str, Any] = {}
    written: frozenset[str] = frozenset()

    @classmethod
    def called(cls) -> str:
        """What a record is called in findings: an operand by its kind, others by their plain name."""
        words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", cls.__name__).lower()
        return words.replace(" ", "_") if cls in OPERAND_KINDS.values() else words.removesuffix(" record")

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """The keys that the type names."""
        return tuple(name for name in cls.__struct_fields__ if name not in ("rest", "written"))

    @classmethod
    def read(cls, value: object, place: Place) -> Self:
        """The typed form of a JSON object.

        Raises:
            LanefoldError: ``TPB-BIR-FORM`` if a required key is missing or a key has the wrong kind.
        """
        what = cls.called()
        if not isinstance(value, Mapping):
            raise bad_form(f"a {what} is not an object", got=value, allowed="an object", place=place)
        names = cls.names()
        known = {key: item for key, item in value.items() if key in names}
        inner = {key: read_list(known.pop(key), key, cls.INNER[key], place) for key in cls.INNER if key in known}
        # Lists of records are read by their own types; an empty list satisfies the required key until then.
        stand_in: dict[str, list[Any]] = {key: [] for key in inner}
        try:
            made = msgspec.convert(known | stand_in, cls)
        except (msgspec.ValidationError, OverflowError) as error:
            wanted = f"an object with {', '.join(names)}"
            raise bad_form(mismatch(what, error), got=value, allowed=wanted, place=place) from None
        for key, items in inner.items():
            setattr(made, key, items)
        made.rest = {key: item for key, item in value.items() if key not in names}
        made.written = frozenset(value)
        return made

    def write(self) -> dict[str, Any]:
        """The JSON object; optional keys at their default are left out unless they were read."""
        made = dict(self.rest)
        for field in _fields(type(self)):
            value = getattr(self, field.name)
            if field.name in self.written or field.name in self.ALWAYS or field.required or value != _default(field):
                made[field.name] = written(value)
        return made


@cache
def _fields(record: type[Record]) -> tuple[msgspec.structs.FieldInfo, ...]:
    return tuple(field for field in msgspec.structs.fields(record) if field.name in record.names())


def _default(field: msgspec.structs.FieldInfo) -> Any:
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return field.default


def written(value: Any) -> Any:
    """A value with the records in it as JSON objects."""
    if isinstance(value, (Record, Other)):
        return value.write()
    if isinstance(value, (list, tuple)):
        return [written(item) for item in value]
    return value


def read_list(value: object, key: str, read: Callable[[Any, Place], Any], place: Place) -> list[Any]:
    """A list of records.

    Raises:
        LanefoldError: ``TPB-BIR-FORM`` if it is no list or a record in it is malformed.
    """
    if not isinstance(value, list):
        message = f"{key} is missing" if value is None else f"{key} is not a list"
        cure = f"write {key} as a list, [] where there are none"
        raise bad_form(message, got=value, allowed="a list", place=_at(place, key), cure=cure)
    return [read(item, place) for item in value]


def _at(place: Place, field: str) -> Place:
    return Place(file=place.file, instruction=place.instruction, operand=place.operand, field=field)


class Other(msgspec.Struct):
    """A JSON object that is kept as it is: an operation of another leg, or an allocation of another kind."""

    content: dict[str, Any]

    @property
    def opcode(self) -> str:
        """The operation's name, ``""`` where the object has none."""
        return str(self.content.get("opcode", ""))

    def write(self) -> dict[str, Any]:
        """The JSON object."""
        return self.content


class PhysicalAp(Record):
    """An operand at a known place: (step, num) pairs outermost first and an offset, both in elements.

    Indirect ones name their index tensor by its place among the instruction's ``indirection_ins``, and may say how
    many indices they read (keys of symbolic_ap in the schema; on a known place they are our convention).
    """

    ALWAYS = ("kind",)

    ap: list[tuple[int, int]]
    dtype: str
    memref: str
    kind: Literal["physical_ap"] = "physical_ap"
    memsetref: str = ""
    offset: int = 0
    access_shape: Any = None
    dynamic_ap_info: Any = None
    memref_owner_func: Any = None
    tensor_indirect_arg_id: int | None = None
    num_tensor_indirect_indices: int | None = None


class SymbolicAp(Record):
    """An operand whose address is an expression that is not known yet."""

    ALWAYS = ("kind",)

    kind: Literal["symbolic_ap"] = "symbolic_ap"
    ap: Any = None
    dtype: str = ""
    memsetref: str = ""
    addrs: Any = None
    access_shape: Any = None


class RegisterAp(Record):
    """An operand whose start address stands in a register: (step, num) pairs outermost first, in elements."""

    ALWAYS = ("kind",)

    ap: list[tuple[int, int]]
    dtype: str
    regref: str | int
    kind: Literal["register_ap"] = "register_ap"
    memsetref: str = ""
    reg_ap_offset: Any = None
    is_regloc_offset: Any = None


class RegisterAccess(Record):
    """A register as a value."""

    ALWAYS = ("kind",)

    kind: Literal["register_access"] = "register_access"
    dtype: str = ""
    regref: str | int = ""


class ImmValue(Record):
    """One immediate value."""

    ALWAYS = ("kind",)

    kind: Literal["imm_value"] = "imm_value"
    dtype: str = ""
    value: Any = None


class ImmArray(Record):
    """Several immediate values."""

    ALWAYS = ("kind",)

    kind: Literal["imm_array"] = "imm_array"
    dtype: str = ""
    value_array: Any = None


class SymbolicImmValue(Record):
    """Immediate values given by an expression."""

    ALWAYS = ("kind",)

    kind: Literal["symbolic_imm_value"] = "symbolic_imm_value"
    dtype: str = ""
    value_list: Any = None
    expr: Any = None


class OtherOperand(Record):
    """An operand of a kind that is not documented; it is kept."""

    kind: str


Operand: TypeAlias = (
    PhysicalAp | SymbolicAp | RegisterAp | RegisterAccess | ImmValue | ImmArray | SymbolicImmValue | OtherOperand
)

OPERAND_KINDS: dict[str, type[Operand]] = {
    "physical_ap": PhysicalAp,
    "symbolic_ap": SymbolicAp,
    "register_ap": RegisterAp,
    "register_access": RegisterAccess,
    "imm_value": ImmValue,
    "imm_array": ImmArray,
    "symbolic_imm_value": SymbolicImmValue,
}
"""Operand types by the word that stands under ``kind``."""


def read_operand(value: object, place: Place) -> Operand:
    """An operand of the type that its kind names.

    Raises:
        LanefoldError: ``TPB-BIR-FORM`` if it has no kind, or lacks a key of its kind.
    """
    kind = value.get("kind") if isinstance(value, Mapping) else None
    if not isinstance(kind, str):
        raise bad_form(
            "an operand has no kind",
            got=value,
            allowed=", ".join(OPERAND_KINDS),
            place=place,
            cure="write {kind: physical_ap, ap, dtype, memref, offset}",
        )
    return OPERAND_KINDS.get(kind, OtherOperand).read(value, place)


class MemoryLocation(Record):
    """Where a tensor lies: ``addr`` is a byte inside a partition, ``base`` its first partition.

    ``dims`` is [partitions, bytes per partition]; ``bank`` counts in PSUM.
    """

    type: str
    Skind: str = LOCATION
    name: str = ""
    addr: int = 0
    base: int = 0
    bank: int = 0
    dims: list[int] = []
    dtype: str = ""


class MemoryLocationSet(Record):
    """A tensor and the places it lies in; all have its element type."""

    name: str
    Skind: str = LOCATION_SET
    dtype: str = ""
    kind: str = ""
    memorylocations: list[MemoryLocation] = []


class InstructionRecord(Record):
    """One instruction of this leg as it stands in the file; the operation's own keys are in ``rest``."""

    opcode: str
    ins: Operands
    outs: Operands
    name: str = ""
    engine: str = "Unassigned"
    node: str = ""
    sync_info: Any = None
    predicates: Any = None
    indirection_ins: Any = None

    def own(self) -> dict[str, Any]:
        """The keys that are not part of the common header."""
        return {key: item for key, item in self.rest.items() if key not in HEADER_KEYS}


class LoopAxis(Record):
    """The counter of a loop: from ``lb`` up to, not including, ``ub``."""

    ub: Any
    name: str = ""
    lb: Any = 0
    stride: Any = 1


class Loop(Record):
    """Blocks that are run once per value of the axis."""

    axis: LoopAxis
    blocks: list[Block] = []
    opcode: str = LOOP

    @classmethod
    def read(cls, value: object, place: Place) -> Self:
        """The typed form of a loop instruction.

        Raises:
            LanefoldError: ``TPB-BIR-FORM`` if axis or blocks are missing or malformed.
        """
        if not isinstance(value, Mapping) or not {AXIS_KEY, "blocks"} <= value.keys():
            raise bad_form(
                "a Loop lacks its axis or its blocks",
                got=value,
                allowed=f"an object with opcode, {AXIS_KEY} and blocks",
                place=place,
            )
        own = ("opcode", AXIS_KEY, "blocks")
        return cls(
            axis=LoopAxis.read(value[AXIS_KEY], place),
            blocks=read_list(value["blocks"], "blocks", Block.read, place),
            rest={key: item for key, item in value.items() if key not in own},
        )

    def write(self) -> dict[str, Any]:
        """The JSON object."""
        return self.rest | {"opcode": LOOP, AXIS_KEY: self.axis.write(), "blocks": written(self.blocks)}


Entry: TypeAlias = InstructionRecord | Loop | Other


class Block(Record):
    """Instructions in program order."""

    instructions: Entries
    name: str = ""


Allocation: TypeAlias = MemoryLocationSet | MemoryLocation | Other


class Function(Record):
    """Allocations and code; the first function of a module is the main one."""

    blocks: list[Block]
    name: str = ""
    allocations: Allocations = []

    def locations(self) -> dict[str, MemoryLocation]:
        """Memory locations by the name that a memref uses; those of a set have the set's element type."""
        found: dict[str, MemoryLocation] = {}
        for entry in self.allocations:
            if isinstance(entry, MemoryLocation):
                found[entry.name] = entry
            elif isinstance(entry, MemoryLocationSet):
                for location in entry.memorylocations:
                    typed = location.dtype or entry.dtype
                    found[location.name] = msgspec.structs.replace(location, dtype=typed)
        return found


def read_entry(value: object, place: Place) -> Entry:
    """An instruction of this leg, a loop, or an operation that is kept as it is.

    Raises:
        LanefoldError: ``TPB-BIR-FORM`` if it has no opcode, or lacks a key of its record.
    """
    opcode = value.get("opcode") if isinstance(value, Mapping) else None
    if not isinstance(value, Mapping) or not isinstance(opcode, str):
        raise bad_form("the instruction has no opcode", got=value, allowed=", ".join(isa.BIR_BY_OPCODE), place=place)
    here = Place(file=place.file, instruction=str(value.get("name", "")) or opcode)
    if opcode == LOOP:
        return Loop.read(value, here)
    if opcode in isa.BIR_BY_OPCODE:
        return InstructionRecord.read(value, here)
    return Other(dict(value))


def read_allocation(value: object, place: Place) -> Allocation:
    """A set of memory locations, a single one, or an allocation of another kind, which is kept.

    Raises:
        LanefoldError: ``TPB-BIR-FORM`` if it lacks a key of its record.
    """
    if not isinstance(value, Mapping):
        raise bad_form("an allocation is not an object", got=value, allowed="an object", place=place)
    if "memorylocations" in value or value.get("Skind") == LOCATION_SET:
        return MemoryLocationSet.read(value, place)
    if value.get("Skind") == LOCATION:
        return MemoryLocation.read(value, place)
    return Other(dict(value))


InstructionRecord.INNER = {"ins": read_operand, "outs": read_operand}
MemoryLocationSet.INNER = {"memorylocations": MemoryLocation.read}
Block.INNER = {"instructions": read_entry}
Function.INNER = {"blocks": Block.read, "allocations": read_allocation}
