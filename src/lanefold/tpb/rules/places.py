"""Rules on places: where operands may lie, and whether their walks stay inside."""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

from lanefold.diagnostics import RULES, Cure, Rule
from lanefold.numerics.dtypes import WIRE_DTYPES
from lanefold.tpb import isa
from lanefold.tpb.patterns import STEP_RANGE
from lanefold.tpb.rules.batch import Batch, Mask, Walk
from lanefold.tpb.rules.checks import Check, Checks, Explained, joined
from lanefold.tpb.rules.fields import DTYPE_NAMES, named
from lanefold.tpb.rules.spots import hexadecimal, moved, spot, start_path

_NUM = RULES["TPB-PATTERN-NUM"]


_INSIDE = RULES["TPB-OPERAND-PARTITION"]


_MEMORY = Rule(
    "TPB-OPERAND-PLACEMENT",
    "Operands of a cross-lane reduce, and the table of a gather, lie in the state buffer.",
    "ISA headers: tensor4d_valid per operand",
    predicate="tensor_start_addr_valid",
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


_FOUR_BYTES = tuple(row.tag for row in WIRE_DTYPES if row.alignment == 4)


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
            message, partition = f"{field} starts at {hexadecimal(address)}, outside SB and PSUM", 0
        else:
            message, partition = f"{field} starts at {spot(walk, at)}, beyond the bytes there are", None
        return Explained(
            message,
            hexadecimal(address),
            f"{sizes} on {batch.generation}, partitions 0 to {geometry.partitions - 1}",
            (Cure("place the tensor at byte 0 of the partition", moved(walk, at, partition=partition, byte=0)),),
        )

    return Check(_INSIDE, start_path(role), ok, explain)


def _memory(role: isa.Role) -> Check:
    field = role.field

    def ok(batch: Batch) -> Mask:
        walk = batch.walk(field)
        return ~walk.psum | ~walk.placed if walk.marked else ~walk.psum

    def explain(batch: Batch, at: int) -> Explained:
        walk = batch.walk(field)
        return Explained(
            f"{field} of {batch.row.mnemonic} lies in PSUM ({spot(walk, at)})",
            "PSUM",
            "SB, the state buffer",
            (Cure("copy the tensor to the state buffer", moved(walk, at, psum=False, byte=int(walk.byte[at]))),),
        )

    return Check(_MEMORY, start_path(role), ok, explain)


def _psum_type(row: isa.BundleKind, role: isa.Role) -> int | None:
    """A 4-byte type that the instruction may write; none where it moves raw bits of its source's type."""
    if row.name.endswith("_bitvec"):
        return None
    legal = row.allowed.get(role.dtype_field, _FOUR_BYTES)
    preferred = sorted(_FOUR_BYTES, key=lambda tag: DTYPE_NAMES[tag] != "FP32")
    return next((tag for tag in preferred if tag in legal), None)


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
        got = named(int(walk.tag[at]), DTYPE_NAMES)
        into_sbuf = Cure("write to the state buffer", moved(walk, at, psum=False, byte=int(walk.byte[at])))
        wide_tag = _psum_type(batch.row, role)
        cures: tuple[Cure | str, ...] = (into_sbuf,)
        if wide_tag is not None:
            name = DTYPE_NAMES[wide_tag]
            cures = (Cure(f"write {name} to PSUM", {role.dtype_field: wide_tag}), into_sbuf)
        return Explained(
            f"{batch.row.mnemonic} writes {got} to PSUM ({spot(walk, at)})",
            got,
            "4-byte types: " + ", ".join(DTYPE_NAMES[tag] for tag in _FOUR_BYTES),
            cures,
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
        name = DTYPE_NAMES.get(int(walk.tag[at]), "?")
        return Explained(
            f"{field} of {batch.row.mnemonic} starts at {spot(walk, at)}, not a multiple of {need} ({name})",
            f"byte {byte}",
            f"a multiple of {need}",
            (
                Cure(f"start at byte {byte // need * need}", moved(walk, at, byte=byte // need * need)),
                f"pad the tensor to byte {-(-byte // need) * need}",
            ),
        )

    return Check(_ALIGNED, start_path(role), ok, explain)


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
        counted = f"{channels} channel{'s' * (channels != 1)}"
        near = min(legal, key=lambda candidate: abs(candidate - start))
        where = f"partition {joined(tuple(str(s) for s in legal))}"
        cures: list[Cure | str] = [
            Cure(f"start at partition {near}", moved(walk, at, partition=near, byte=int(walk.byte[at])))
        ]
        fitting = dict(isa.START_PARTITIONS).get(start)
        if fitting and role.channels == "active":
            cures.append(Cure(f"use at most {fitting} channels", {"num_active_channels": fitting}))
        return Explained(
            f"{field} of {batch.row.mnemonic} spans {counted} from partition {start}",
            f"partition {start} with {counted}",
            where,
            tuple(cures),
        )

    return Check(_START, start_path(role), ok, explain)


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


def _dense(steps: list[int], nums: list[int]) -> list[int] | None:
    """Steps that walk as many elements without gaps, in the innermost direction; ``None`` if one is too wide."""
    packed, width = [], 1 if steps[0] >= 0 else -1
    for num in nums:
        packed.append(width if num != 1 else 1)
        width *= num
    return packed if all(STEP_RANGE[0] <= step <= STEP_RANGE[1] for step in packed) else None


def _shortened(steps: list[int], nums: list[int], places: int) -> list[int]:
    """Nums cut from the outermost slot inwards until the walk spans no more than the places there are."""
    shorter = list(nums)
    for slot in reversed(range(len(steps))):
        low, high = _span(steps, shorter)
        if high - low < places:
            break
        rest = high - low - abs(steps[slot]) * (shorter[slot] - 1)
        free = places - 1 - rest
        shorter[slot] = min(shorter[slot], free // abs(steps[slot]) + 1 if free >= 0 and steps[slot] else 1)
    return shorter


def _fitting(walk: Walk, at: int, steps: list[int], nums: list[int]) -> Cure:
    """Moves the start; a walk wider than a partition is laid out without gaps, or shortened where that is too much."""
    size, byte, room = int(walk.size[at]), int(walk.byte[at]), int(walk.room[at])
    places = room // size
    field = walk.role.field
    changes: dict[str, object] = {}
    text = ""
    low, high = _span(steps, nums)
    if high - low >= places:
        packed = _dense(steps, nums)
        if packed is not None and int(walk.count[at]) <= places:
            steps, text = packed, f" in a tensor without gaps, steps {packed[::-1]}"
            changes[f"{field}.step_elem"] = packed
        else:
            nums = _shortened(steps, nums, places)
            text = f" and walk nums {nums[::-1]}"
            changes[f"{field}.num_elem"] = nums
        low, high = _span(steps, nums)
    start = min(max(byte, -low * size), (places - high - 1) * size)
    return Cure(f"start the walk at byte {start}{text}", dict(moved(walk, at, byte=start)) | changes)
