"""Rules on addresses: how they are given, where they may point, and whether the walk stays inside."""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

from lanefold.diagnostics import RULES, Cure, Rule, Severity
from lanefold.numerics.dtypes import WIRE_DTYPES
from lanefold.tpb import isa
from lanefold.tpb.rules.batch import Batch, Mask, Walk
from lanefold.tpb.rules.checks import Check, Checks, Explained, joined
from lanefold.tpb.rules.fields import named, names_of

_NUM = RULES["TPB-PATTERN-NUM"]
_INSIDE = RULES["TPB-OPERAND-PARTITION"]
_MARKER = Rule(
    "TPB-ADDRESS-FORM",
    "The top bits of a start address are those of an immediate, a register, a shape-register or an indirect form.",
    "ADDR4: marker bits",
    predicate="tensor_start_addr_valid",
)
_REGISTER = Rule(
    "TPB-ADDRESS-REGISTER",
    "A register address names one of 64 address registers in its lowest byte and is zero up to the marker.",
    "ADDR4: register form",
    predicate="tensor_start_addr_valid",
)
_INDIRECT = Rule(
    "TPB-INDIRECT-OPERAND",
    "Only the operands of S4D4_TR may be indirect, and only from v4 on.",
    "ISA headers: MEM_PATTERN4D, architecture diff",
    predicate="mem4d_valid",
)
_INDIRECT_AXIS = Rule(
    "TPB-INDIRECT-AXIS",
    "A tensor reduce with an indirect operand folds X only.",
    "Pool Engine, TensorReduce (indirection only for axis X)",
)
_INDEX = Rule(
    "TPB-INDIRECT-INDEX",
    "The index address of an indirect operand is a 4-byte-aligned address in the state buffer.",
    "INDIRECT20B; MEM_PATTERN4D",
    predicate="mem4d_valid",
)
_DATA = Rule(
    "TPB-INDIRECT-DATA",
    "The top three bits of the data address of an indirect operand are zero.",
    "INDIRECT20B; MEM_PATTERN4D",
    predicate="mem4d_valid",
)
_INDEX_COUNT = Rule(
    "TPB-INDIRECT-COUNT",
    "The element count of an indirect operand is not zero.",
    "INDIRECT20B; MEM_PATTERN4D",
    predicate="mem4d_valid",
)
_QUADRANT = Rule(
    "TPB-INDIRECT-QUADRANT",
    "Indices and data of an indirect operand lie in one quadrant of 32 partitions.",
    "ISA headers: indirect quadrant check",
    predicate="indirect_quadrant_check_src4d, indirect_quadrant_check_src4d_dst4d",
)
_SPARE = Rule(
    "TPB-INDIRECT-SPARE",
    "The ten bytes behind the count of an indirect operand are zero.",
    "INDIRECT20B",
    Severity.WARNING,
)
_MEMORY = Rule(
    "TPB-OPERAND-PLACEMENT",
    "Operands of a cross-lane reduce, and the table of a gather, lie in the state buffer.",
    "ISA headers: tensor4d_valid per operand",
    predicate="operand_must_be_in_sbuf (tensor_start_addr_valid)",
)
_PSUM_WRITE = Rule(
    "TPB-PSUM-WRITE",
    "A write to PSUM has a 4-byte type.",
    "ISA headers: PSUM bank model; ADDR4",
    predicate="tensor_start_addr_valid",
)
_ALIGNED = Rule(
    "TPB-ALIGNMENT",
    "A start address is a multiple of its element type's alignment, or of 4 for the source of a bfloat16 reduce.",
    "ADDR4: alignment table; ISA headers: tensor_reduce_bf16_access_pattern_check",
    predicate="tensor_start_addr_valid",
)
_START = Rule(
    "TPB-START-PARTITION",
    "65 to 128 channels start at partition 0, 33 to 64 at 0 or 64, 1 to 32 at 0, 32, 64 or 96.",
    "Architecture guide: start partitions; ISA headers",
    predicate="start_addr_active_channels (check_m4d_active_channels on v4)",
)
_BOUNDS = Rule(
    "TPB-WALK-BOUNDS",
    "Every element that a walk touches lies inside the bytes of its partition.",
    "ISA headers: state-buffer and PSUM sizes; end-of-walk check by convention",
)

_DTYPE_NAMES = names_of("dtype")
_FOUR_BYTES = tuple(row.tag for row in WIRE_DTYPES if row.alignment == 4)
_ANY_REGISTER = np.uint32(isa.ADDRESS_REGISTER_BIT)


def _start(role: isa.Role) -> str:
    return f"{role.field}.start_addr"


def _hex(word: int) -> str:
    return f"0x{word:08X}"


def _spot(walk: Walk, at: int) -> str:
    memory = "PSUM" if walk.psum[at] else "SB"
    return f"{memory} partition {int(walk.partition[at])}, byte {int(walk.byte[at])}"


def _moved(walk: Walk, at: int, *, psum: bool | None = None, partition: int | None = None, byte: int) -> dict[str, int]:
    """The change that moves an operand: its data address where it is indirect, else its start address."""
    geometry = walk.batch.geometry
    into_psum = bool(walk.psum[at]) if psum is None else psum
    lane = int(walk.partition[at]) if partition is None else partition
    stride, base = (geometry.psum_stride, geometry.psum_base) if into_psum else (geometry.sbuf_stride, 0)
    address = base + lane * stride + byte
    if walk.indirect[at]:
        return {f"{walk.role.field}.data_addr": address}
    keep = int(walk.word[at]) & isa.SHAPE_REGISTER_BIT
    return {_start(walk.role): keep | address}


def num_checks(row: isa.BundleKind, generation: isa.Generation) -> Checks:
    """No num is zero."""
    for role in row.roles:
        field = role.field

        def ok(batch: Batch, field: str = field) -> Mask:
            walk = batch.walk(field)
            return walk.counted | ~walk.plain if walk.marked else walk.counted

        def explain(batch: Batch, at: int, field: str = field) -> Explained:
            return _zero_num(batch, f"{field}.num_elem", [int(num[at]) for num in batch.walk(field).nums])

        yield Check(_NUM, f"{field}.num_elem", ok, explain)
    if row.counts == "generator":

        def generator_ok(batch: Batch) -> Mask:
            found: Mask = np.logical_and.reduce(batch.column("num_elem"), axis=1)
            return found

        def generator_explain(batch: Batch, at: int) -> Explained:
            return _zero_num(batch, "num_elem", [int(num) for num in batch.record["num_elem"][at]])

        yield Check(_NUM, "num_elem", generator_ok, generator_explain)


def _zero_num(batch: Batch, path: str, nums: list[int]) -> Explained:
    return Explained(
        f"{path} of {batch.row.mnemonic} is {nums}: a count of 0 is illegal",
        nums,
        "1 to 65535 in every slot, 1 where a slot is not used",
        (Cure("write 1 for an unused slot", {path: [max(num, 1) for num in nums]}),),
    )


def form_checks(row: isa.BundleKind, generation: isa.Generation) -> Checks:
    """Register and indirect forms of an address."""
    for role in row.roles:
        yield from _form(role)
        yield from _indirect(row, role, generation)


def _form(role: isa.Role) -> Checks:
    field = role.field

    def marker_ok(batch: Batch) -> Mask:
        walk = batch.walk(field)
        # Indirect together with a shape register has neither producer nor consumer.
        return ~(walk.indirect & walk.shape) if walk.marked else batch.everywhere(True)

    def marker_explain(batch: Batch, at: int) -> Explained:
        word = int(batch.walk(field).word[at])
        return Explained(
            f"start address {_hex(word)} is marked as indirect and as shaped by a register",
            _hex(word),
            "top byte & 0xE0 one of 0x00, 0x20, 0x40, 0x80, 0xA0, 0xC0",
            (Cure("use the immediate form", {_start(role): word & isa.ADDRESS_MASK}),),
        )

    yield Check(_MARKER, _start(role), marker_ok, marker_explain)

    def register_ok(batch: Batch) -> Mask:
        walk = batch.walk(field)
        if not walk.marked:
            return batch.everywhere(True)
        # v2 wants every bit up to the markers zero, later generations only the two middle bytes.
        middle = 0x1FFFFF00 if batch.generation == "v2" else 0x00FFFF00
        found: Mask = ~walk.register
        found |= ((walk.word & np.uint32(0xFF)) < isa.ADDRESS_REGISTERS) & ((walk.word & np.uint32(middle)) == 0)
        return found

    def register_explain(batch: Batch, at: int) -> Explained:
        word = int(batch.walk(field).word[at])
        number = min(word & 0xFF, isa.ADDRESS_REGISTERS - 1)
        clean = (word & 0xE0000000) | number
        return Explained(
            f"start address {_hex(word)} names no address register",
            _hex(word),
            f"register 0 to {isa.ADDRESS_REGISTERS - 1} in the lowest byte, zero bytes above it",
            (Cure(f"name register {number}", {_start(role): clean}),),
        )

    yield Check(_REGISTER, _start(role), register_ok, register_explain)


def _indirect(row: isa.BundleKind, role: isa.Role, generation: isa.Generation) -> Checks:
    field = role.field
    kinds = {f.name: f.kind for f in isa.STRUCTS[row.struct].fields}
    if not (generation == "v4" and kinds[field] is isa.Kind.MEMORY4D):

        def never_ok(batch: Batch) -> Mask:
            return ~batch.walk(field).indirect

        def never_explain(batch: Batch, at: int) -> Explained:
            word = int(batch.walk(field).word[at])
            return Explained(
                f"{field} of {row.mnemonic} is indirect on {generation}",
                _hex(word),
                "an immediate or register address; indirect operands exist in S4D4_TR from v4 on",
                (Cure("give the data's own address", {_start(role): word & isa.ADDRESS_MASK}),),
            )

        yield Check(_INDIRECT, _start(role), never_ok, never_explain)
        return
    yield from _indirect_words(role)
    if row.family == "tensor_reduce":
        yield _indirect_axis(role)


def _when_indirect(field: str, batch: Batch) -> tuple[Walk, Mask] | None:
    walk = batch.walk(field)
    return (walk, ~walk.indirect) if walk.marked and walk.indirect.any() else None


def _indirect_axis(role: isa.Role) -> Check:
    inner = isa.BIR_AXES["X"][1]

    def ok(batch: Batch) -> Mask:
        some = _when_indirect(role.field, batch)
        return batch.everywhere(True) if some is None else some[1] | (batch.column("op_dim") == inner)

    def explain(batch: Batch, at: int) -> Explained:
        got = int(batch.column("op_dim")[at])
        return Explained(
            f"{role.field} is indirect and op_dim is {got}",
            got,
            f"{inner} (X)",
            (Cure("fold X only", {"op_dim": inner}),),
        )

    return Check(_INDIRECT_AXIS, "op_dim", ok, explain)


def _indirect_words(role: isa.Role) -> Checks:
    field = role.field

    def index_ok(batch: Batch) -> Mask:
        some = _when_indirect(field, batch)
        if some is None:
            return batch.everywhere(True)
        walk, ok = some
        word = walk.word & np.uint32(isa.ADDRESS_MASK)
        inside = word % np.uint32(batch.geometry.sbuf_stride) < batch.geometry.sbuf_bytes
        inside &= word < np.uint32(isa.SBUF_WINDOW[1])
        inside &= (word & np.uint32(3)) == 0
        found: Mask = ok | walk.register | inside
        return found

    def index_explain(batch: Batch, at: int) -> Explained:
        word = int(batch.walk(field).word[at])
        return Explained(
            f"the indices of {field} are at {_hex(word & isa.ADDRESS_MASK)}",
            _hex(word),
            "a multiple of 4 inside the state buffer",
            (Cure("place the indices on a 4-byte boundary of the state buffer", {_start(role): _index_home(word)}),),
        )

    yield Check(_INDEX, _start(role), index_ok, index_explain)

    def data_ok(batch: Batch) -> Mask:
        some = _when_indirect(field, batch)
        return batch.everywhere(True) if some is None else some[1] | (some[0].record20["data_addr"] >> 29 == 0)

    def data_explain(batch: Batch, at: int) -> Explained:
        word = int(batch.walk(field).record20["data_addr"][at])
        return Explained(
            f"the data address of {field} is {_hex(word)}",
            _hex(word),
            "an immediate address, top three bits zero",
            (Cure("clear the top three bits", {f"{field}.data_addr": word & isa.ADDRESS_MASK}),),
        )

    yield Check(_DATA, _start(role), data_ok, data_explain)

    def count_ok(batch: Batch) -> Mask:
        some = _when_indirect(field, batch)
        return batch.everywhere(True) if some is None else some[1] | (some[0].record20["num_elem"] != 0)

    def count_explain(batch: Batch, at: int) -> Explained:
        return Explained(
            f"the indirect {field} reads 0 elements",
            0,
            "1 to 65535",
            (Cure("read at least one element", {f"{field}.num_elem_indirect": 1}),),
        )

    yield Check(_INDEX_COUNT, _start(role), count_ok, count_explain)
    yield from _indirect_relations(role)


def _index_home(word: int) -> int:
    address = word & isa.ADDRESS_MASK
    if address >= isa.SBUF_WINDOW[1]:
        address = 0
    stride = isa.GEOMETRY["v2"].sbuf_stride
    inside = address % stride
    if inside >= isa.GEOMETRY["v2"].sbuf_bytes:
        address -= inside
    return (word & ~isa.ADDRESS_MASK) | (address & ~3)


def _indirect_relations(role: isa.Role) -> Checks:
    field = role.field

    def quadrant_ok(batch: Batch) -> Mask:
        some = _when_indirect(field, batch)
        if some is None:
            return batch.everywhere(True)
        walk, ok = some
        quadrant = batch.geometry.quadrant
        index = (walk.word & np.uint32(isa.ADDRESS_MASK)) // np.uint32(batch.geometry.sbuf_stride)
        same: Mask = index // quadrant == walk.partition // quadrant
        return ok | walk.register | walk.psum | same

    def quadrant_explain(batch: Batch, at: int) -> Explained:
        walk = batch.walk(field)
        stride, quadrant = batch.geometry.sbuf_stride, batch.geometry.quadrant
        index = (int(walk.word[at]) & isa.ADDRESS_MASK) // stride
        data = int(walk.partition[at])
        home = index // quadrant * quadrant
        return Explained(
            f"the indices of {field} start at partition {index}, its data at partition {data}",
            f"quadrants {index // quadrant} and {data // quadrant}",
            f"one quadrant of {quadrant} partitions",
            (
                Cure(
                    f"move the data to partition {home}",
                    _moved(walk, at, psum=False, partition=home, byte=int(walk.byte[at])),
                ),
            ),
        )

    yield Check(_QUADRANT, _start(role), quadrant_ok, quadrant_explain)

    def spare_ok(batch: Batch) -> Mask:
        some = _when_indirect(field, batch)
        return batch.everywhere(True) if some is None else some[1] | ~some[0].record20["reserved"].any(axis=1)

    def spare_explain(batch: Batch, at: int) -> Explained:
        spare = batch.walk(field).record20["reserved"][at].tobytes().hex(" ")
        return Explained(
            f"the bytes behind the count of the indirect {field} are {spare}",
            spare,
            "ten zero bytes",
            (Cure("clear them", {f"{field}.reserved": [0] * 10}),),
        )

    yield Check(_SPARE, _start(role), spare_ok, spare_explain)


def place_checks(row: isa.BundleKind, generation: isa.Generation) -> Checks:
    """Memory, backed bytes, alignment, start partition and the PSUM write rule."""
    for role in row.roles:
        yield _inside(role)
        if "PSUM" not in role.memories:
            yield _memory(role)
        elif role.access == "write":
            yield _psum_write(role)
        yield _alignment(role)
        yield _start_partition(role)


def _inside(role: isa.Role) -> Check:
    field = role.field

    def ok(batch: Batch) -> Mask:
        walk = batch.walk(field)
        found: Mask = walk.byte < walk.room
        found &= walk.address < np.uint32(isa.PSUM_WINDOW[1])
        if walk.marked:
            found |= ~walk.placed
        return found

    def explain(batch: Batch, at: int) -> Explained:
        walk = batch.walk(field)
        address = int(walk.address[at])
        geometry = batch.geometry
        sizes = f"byte 0 to {geometry.sbuf_bytes - 1} of SB or 0 to {geometry.psum_bytes - 1} of PSUM"
        if address >= isa.PSUM_WINDOW[1]:
            message, partition = f"{field} starts at {_hex(address)}, outside SB and PSUM", 0
        else:
            message, partition = f"{field} starts at {_spot(walk, at)}, beyond the bytes there are", None
        return Explained(
            message,
            _hex(address),
            f"{sizes} on {batch.generation}, partitions 0 to {geometry.partitions - 1}",
            (Cure("place the tensor at byte 0 of the partition", _moved(walk, at, partition=partition, byte=0)),),
        )

    return Check(_INSIDE, _start(role), ok, explain)


def _memory(role: isa.Role) -> Check:
    field = role.field

    def ok(batch: Batch) -> Mask:
        walk = batch.walk(field)
        return ~walk.psum | ~walk.placed if walk.marked else ~walk.psum

    def explain(batch: Batch, at: int) -> Explained:
        walk = batch.walk(field)
        return Explained(
            f"{field} of {batch.row.mnemonic} lies in PSUM ({_spot(walk, at)})",
            "PSUM",
            "SB, the state buffer",
            (Cure("copy the tensor to the state buffer", _moved(walk, at, psum=False, byte=int(walk.byte[at]))),),
        )

    return Check(_MEMORY, _start(role), ok, explain)


def _psum_write(role: isa.Role) -> Check:
    field = role.field
    wide = np.zeros(256, bool)
    wide[list(_FOUR_BYTES)] = True

    def ok(batch: Batch) -> Mask:
        walk = batch.walk(field)
        found: Mask = ~walk.psum
        found |= wide[walk.tag]
        if walk.marked:
            found |= ~walk.placed
        return found

    def explain(batch: Batch, at: int) -> Explained:
        walk = batch.walk(field)
        got = named(int(walk.tag[at]), _DTYPE_NAMES)
        fp32 = next(number for number, name in _DTYPE_NAMES.items() if name == "FP32")
        return Explained(
            f"{batch.row.mnemonic} writes {got} to PSUM ({_spot(walk, at)})",
            got,
            "4-byte types: " + ", ".join(_DTYPE_NAMES[tag] for tag in _FOUR_BYTES),
            (
                Cure("write FP32 to PSUM", {role.dtype_field: fp32}),
                Cure("write to the state buffer", _moved(walk, at, psum=False, byte=int(walk.byte[at]))),
            ),
        )

    return Check(_PSUM_WRITE, role.dtype_field, ok, explain)


@cache
def _alignments(least: int) -> npt.NDArray[np.uint32]:
    table = np.full(256, max(least, 1), np.uint32)
    for row in WIRE_DTYPES:
        table[row.tag] = max(row.alignment, least)
    return table


def _alignment(role: isa.Role) -> Check:
    field = role.field
    table = _alignments(role.alignment)

    def ok(batch: Batch) -> Mask:
        walk = batch.walk(field)
        found: Mask = (walk.address & (table[walk.tag] - np.uint32(1))) == 0
        if walk.marked:
            found |= ~walk.placed
        return found

    def explain(batch: Batch, at: int) -> Explained:
        walk = batch.walk(field)
        need = int(table[walk.tag[at]])
        byte = int(walk.byte[at])
        name = _DTYPE_NAMES.get(int(walk.tag[at]), "?")
        return Explained(
            f"{field} of {batch.row.mnemonic} starts at {_spot(walk, at)}, not a multiple of {need} ({name})",
            f"byte {byte}",
            f"a multiple of {need}",
            (
                Cure(f"start at byte {byte // need * need}", _moved(walk, at, byte=byte // need * need)),
                f"pad the tensor to byte {-(-byte // need) * need}",
            ),
        )

    return Check(_ALIGNED, _start(role), ok, explain)


@cache
def _greatest_channels(partitions: int) -> npt.NDArray[np.uint8]:
    table = np.zeros(partitions, np.uint8)
    for start, most in isa.START_PARTITIONS:
        table[start] = most
    return table


def _legal_starts(channels: int) -> tuple[int, ...]:
    return tuple(start for start, most in isa.START_PARTITIONS if channels <= most)


def _start_partition(role: isa.Role) -> Check:
    field = role.field

    def ok(batch: Batch) -> Mask:
        walk = batch.walk(field)
        partitions = batch.geometry.partitions
        most = _greatest_channels(partitions)[np.minimum(walk.partition, np.uint32(partitions - 1))]
        found: Mask = most >= walk.channels
        # Illegal channel counts and addresses have rules of their own.
        if role.channels == "active":
            found |= batch.column("num_active_channels") > partitions
        found |= walk.partition >= partitions
        if walk.marked:
            found |= ~walk.placed
        return found

    def explain(batch: Batch, at: int) -> Explained:
        walk = batch.walk(field)
        channels = int(walk.channels[at]) if not isinstance(walk.channels, int) else walk.channels
        start = int(walk.partition[at])
        legal = _legal_starts(channels)
        near = min(legal, key=lambda candidate: abs(candidate - start))
        where = f"partition {joined(tuple(str(s) for s in legal))}"
        cures: list[Cure | str] = [
            Cure(f"start at partition {near}", _moved(walk, at, partition=near, byte=int(walk.byte[at])))
        ]
        fitting = dict(isa.START_PARTITIONS).get(start)
        if fitting and role.channels == "active":
            cures.append(Cure(f"use at most {fitting} channels", {"num_active_channels": fitting}))
        return Explained(
            f"{field} of {batch.row.mnemonic} spans {channels} channels from partition {start}",
            f"partition {start} with {channels} channels",
            where,
            tuple(cures),
        )

    return Check(_START, _start(role), ok, explain)


def bounds_checks(row: isa.BundleKind, generation: isa.Generation) -> Checks:
    """The end of every walk."""
    for role in row.roles:
        yield _bounds(role)


def _bounds(role: isa.Role) -> Check:
    field = role.field

    def ok(batch: Batch) -> Mask:
        walk = batch.walk(field)
        low, high = walk.extremes
        last = high + 1
        last *= walk.size
        last += walk.byte
        found: Mask = last <= walk.room
        if low.any():
            found &= walk.byte + low * walk.size >= 0
        found |= ~walk.known_walk
        # A start outside the partition has a rule of its own.
        found |= walk.byte >= walk.room
        return found

    def explain(batch: Batch, at: int) -> Explained:
        return _explain_bounds(batch.walk(field), at)

    return Check(_BOUNDS, field, ok, explain)


def _explain_bounds(walk: Walk, at: int) -> Explained:
    size, byte, room = int(walk.size[at]), int(walk.byte[at]), int(walk.room[at])
    steps = [int(step[at]) for step in walk.steps]
    nums = [int(num[at]) for num in walk.nums]
    first = byte + int(walk.extremes.low[at]) * size
    last = byte + (int(walk.extremes.high[at]) + 1) * size - 1
    corner = tuple(
        num - 1 if (step > 0) == (last >= room) and step else 0 for step, num in zip(steps, nums, strict=True)
    )
    element = byte + sum(step * place for step, place in zip(steps, corner, strict=True)) * size
    memory = "PSUM" if walk.psum[at] else "SB"
    return Explained(
        f"{walk.role.field} of {walk.batch.row.mnemonic} touches byte {element} of its partition "
        f"(element {list(reversed(corner))}, outermost first), {memory} has {room}",
        f"bytes {first} to {last}",
        f"bytes 0 to {room - 1} of {memory} on {walk.batch.generation}",
        (_fitting(walk, at, steps, nums), "split the walk into several instructions, or re-tile the tensor"),
    )


def _span(steps: list[int], nums: list[int]) -> tuple[int, int]:
    reaches = [step * (num - 1) for step, num in zip(steps, nums, strict=True)]
    return sum(min(reach, 0) for reach in reaches), sum(max(reach, 0) for reach in reaches)


def _fitting(walk: Walk, at: int, steps: list[int], nums: list[int]) -> Cure:
    """Moves the start; where the walk is wider than a partition, shortens it from the outermost slot inwards."""
    size, byte, room = int(walk.size[at]), int(walk.byte[at]), int(walk.room[at])
    places = room // size
    shorter = list(nums)
    for slot in reversed(range(len(steps))):
        low, high = _span(steps, shorter)
        if high - low < places:
            break
        rest = high - low - abs(steps[slot]) * (shorter[slot] - 1)
        free = places - 1 - rest
        shorter[slot] = min(shorter[slot], free // abs(steps[slot]) + 1 if free >= 0 and steps[slot] else 1)
    low, high = _span(steps, shorter)
    start = min(max(byte, -low * size), (places - high - 1) * size)
    changes: dict[str, object] = dict(_moved(walk, at, byte=start))
    text = f"start the walk at byte {start}"
    if shorter != nums:
        changes[f"{walk.role.field}.num_elem"] = shorter
        text += f" and walk nums {list(reversed(shorter))}"
    return Cure(text, changes)
