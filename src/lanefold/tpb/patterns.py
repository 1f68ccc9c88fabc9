"""Operands: where they start, how they are walked, and the descriptor bytes that say so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from lanefold.diagnostics import Cure, Place, Rule
from lanefold.numerics.dtypes import by_name
from lanefold.tpb import isa

Memory = Literal["SB", "PSUM"]
Pair = tuple[int, int]

INDIRECT_SINCE: isa.Generation = "v4"
"""First generation whose 20-byte memory patterns may be indirect (ISA headers: MEM_PATTERN4D)."""
STEP_RANGE = (-32768, 32767)
NUM_RANGE = (1, 65535)
FIELD_RANGES = f"steps {STEP_RANGE[0]} to {STEP_RANGE[1]}, nums {NUM_RANGE[0]} to {NUM_RANGE[1]}"

_STEP = Rule(
    "TPB-PATTERN-STEP",
    "A step is a signed 16-bit number of elements, -32768 to 32767; zero repeats an element.",
    "TENSOR4D descriptor: step_elem",
)
_NUM = Rule(
    "TPB-PATTERN-NUM",
    "A num is an unsigned 16-bit count, 1 to 65535.",
    "TENSOR4D descriptor: num_elem",
    predicate="tensor4d_valid, tensor2d_valid",
)
_RANK = Rule(
    "TPB-PATTERN-RANK",
    "A pattern has the partition pair and one to four free pairs that survive packing (a 2D slot takes two).",
    'TENSOR4D descriptor: "Illegal ISA memory access dimension"',
)
ON_CHIP = Rule(
    "TPB-OPERAND-ON-CHIP",
    "Operands of this leg lie in the state buffer (SB) or in PSUM.",
    "ISA headers: tensor_start_addr_valid",
    predicate="tensor_start_addr_valid",
)
_PARTITION = Rule(
    "TPB-OPERAND-PARTITION",
    "An operand starts at one of the 128 partitions and inside the bytes a partition has.",
    "ISA headers: state-buffer and PSUM constants",
)


def nearest_pair(pair: Pair) -> Pair:
    """The pair that fits its two fields and is nearest to the one given; the step keeps room to be negated."""
    (step, num), most = pair, STEP_RANGE[1]
    return min(max(step, -most), most), min(max(num, NUM_RANGE[0]), NUM_RANGE[1])


def fits_fields(pair: Pair) -> bool:
    """Whether a step and a num fit their 16-bit fields."""
    step, num = pair
    return STEP_RANGE[0] <= step <= STEP_RANGE[1] and NUM_RANGE[0] <= num <= NUM_RANGE[1]


@dataclass(frozen=True, slots=True)
class Access:
    """One operand of an instruction.

    Args:
        memory: ``"SB"`` (state buffer) or ``"PSUM"``.
        partition: partition of the first element.
        byte: its byte inside the partition; for PSUM counted over all banks.
        dtype: BIR element type.
        pattern: (step, num) pairs in elements, outermost first; pair 0 is the partition pair (pitch, partitions), the
            last pair is innermost and fastest.
        name: what the user calls the operand, for findings.
        offset: elements between the first element of its memory location and its own.
        register: address register that holds the start address in place of memory, partition and byte.
        indices: the index tensor of an indirect operand, one index per element; the operand's own place is then that
            of the data which the indices address.
    """

    memory: Memory
    partition: int
    byte: int
    dtype: str
    pattern: tuple[Pair, ...]
    name: str = ""
    offset: int = 0
    register: int | None = None
    indices: Access | None = None

    @property
    def channels(self) -> int:
        """Partitions the operand spans."""
        return self.pattern[0][1]

    @property
    def free(self) -> tuple[Pair, ...]:
        """The pairs walked inside one partition, outermost first."""
        return self.pattern[1:]

    @property
    def elements(self) -> int:
        """Elements per partition."""
        product = 1
        for _, num in self.free:
            product *= num
        return product


class Slots(NamedTuple):
    """A descriptor's steps and nums, slot 0 innermost."""

    steps: tuple[int, ...]
    nums: tuple[int, ...]


def slots(access: Access, places: int = 4, *, keep_unit: bool = False, place: Place | None = None) -> Slots:
    """Packs the free pairs of an operand into descriptor slots.

    Walks from the innermost pair outwards; pairs of num 1 are dropped unless ``keep_unit`` is set (sources whose
    slots are named by op_dim or pool_dim), unused slots become (1, 1). Source: TENSOR4D descriptor, packer.

    Raises:
        LanefoldError: if a step or num does not fit its field or too many pairs survive.
    """
    where = place or Place(operand=access.name)
    for step, num in access.free:
        check_step(step, where)
        check_num(num, where)
    pairs = [pair for pair in reversed(access.free) if keep_unit or pair[1] != 1]
    if len(pairs) > places:
        raise _RANK.error(
            f"the pattern has {len(pairs)} free pairs, a {places}D descriptor takes {places}",
            got=[list(pair) for pair in access.pattern],
            allowed=f"1 to {places} free pairs beside the partition pair",
            place=where,
            cures=["merge neighbouring pairs where outer step = inner step x inner num, or split the instruction"],
        )
    pairs += [(1, 1)] * (places - len(pairs))
    return Slots(tuple(step for step, _ in pairs), tuple(num for _, num in pairs))


def reversed_slots(access: Access, place: Place | None = None) -> tuple[Access, Slots]:
    """The TENSOR2D that walks an operand from its last element to its first, as Max8 writes and MatchValueLoad reads.

    Returns the operand moved to its last element, and the slots with negated steps; the spare slot of a plain
    8-element row is (0, 1). Source: Pool Engine, MAX8; DVE search encoding.

    Raises:
        LanefoldError: as `slots`.
    """
    forward = slots(access, 2, place=place)
    last = sum((num - 1) * step for step, num in zip(forward.steps, forward.nums, strict=True))
    moved = Access(
        access.memory,
        access.partition,
        access.byte + last * by_name(access.dtype).bytes,
        access.dtype,
        access.pattern,
        access.name,
    )
    where = place or Place(operand=access.name)
    steps = tuple(
        0 if index and num == 1 else check_step(-step, where)
        for index, (step, num) in enumerate(zip(forward.steps, forward.nums, strict=True))
    )
    return moved, Slots(steps, forward.nums)


def check_step(step: int, place: Place) -> int:
    """The step itself, if it fits its field.

    Raises:
        LanefoldError: ``TPB-PATTERN-STEP`` where it does not.
    """
    low, high = STEP_RANGE
    if not low <= step <= high:
        raise _STEP.error(
            f"step {step} does not fit a signed 16-bit field",
            got=step,
            allowed=f"{low} to {high}",
            place=place,
            cures=[
                Cure(f"re-tile so that the step is within {low}..{high}", {"step": max(low, min(high, step))}),
                "give each outer index an instruction of its own",
            ],
        )
    return step


def check_num(num: int, place: Place) -> int:
    """The num itself, if it fits its field.

    Raises:
        LanefoldError: ``TPB-PATTERN-NUM`` where it does not.
    """
    low, high = NUM_RANGE
    if not low <= num <= high:
        raise _NUM.error(
            f"num {num} does not fit an unsigned 16-bit count of at least 1",
            got=num,
            allowed=f"{low} to {high}",
            place=place,
            cures=[Cure("split the dim in two pairs or two instructions", {"num": max(low, min(high, num))})],
        )
    return num


def address_word(access: Access, generation: isa.Generation, place: Place | None = None) -> int:
    """The ADDR4 word of an operand's first element, or of the register that holds its address.

    SBUF: partition << 18 | byte; PSUM: base 0x2000000 + partition << 15 + byte; register: 0x80000000 | number.
    Source: ADDR4, immediate and register form.

    Raises:
        LanefoldError: if the memory is not on chip or the start lies outside it.
    """
    if access.register is not None:
        return isa.ADDRESS_REGISTER_BIT | access.register
    geometry = isa.GEOMETRY[generation]
    where = place or Place(operand=access.name)
    if access.memory == "SB":
        base, stride, size = 0, geometry.sbuf_stride, geometry.sbuf_bytes
    elif access.memory == "PSUM":
        base, stride, size = geometry.psum_base, geometry.psum_stride, geometry.psum_bytes
    else:
        raise ON_CHIP.error(
            f"the operand lies in {access.memory}",
            got=access.memory,
            allowed="SB, PSUM",
            place=where,
            cures=[Cure("load the tensor into the state buffer first", {"memory": "SB"})],
        )
    if not (0 <= access.partition < geometry.partitions and 0 <= access.byte < size):
        raise _PARTITION.error(
            f"the operand starts at partition {access.partition}, byte {access.byte} of {access.memory}",
            got=f"partition {access.partition}, byte {access.byte}",
            allowed=f"partition 0 to {geometry.partitions - 1}, byte 0 to {size - 1} on {generation}",
            place=where,
            cures=[Cure("place the tensor at partition 0, byte 0", {"partition": 0, "byte": 0})],
        )
    return base + access.partition * stride + access.byte


class Location(NamedTuple):
    """An immediate address taken apart."""

    memory: Memory
    partition: int
    byte: int


def locate(word: int, generation: isa.Generation) -> Location:
    """Memory, partition and byte that an immediate ADDR4 word points at.

    Addresses outside both windows are read as state buffer, so that the walk's bounds check can name them.
    Source: ADDR4, windows and strides.
    """
    geometry = isa.GEOMETRY[generation]
    address = word & isa.ADDRESS_MASK
    low, high = isa.PSUM_WINDOW
    if low <= address < high:
        partition, byte = divmod(address - low, geometry.psum_stride)
        return Location("PSUM", partition, byte)
    partition, byte = divmod(address, geometry.sbuf_stride)
    return Location("SB", partition, byte)


def free_pairs(steps: Sequence[int], nums: Sequence[int]) -> tuple[Pair, ...]:
    """Descriptor slots as pairs, outermost first, trailing (1, 1) slots dropped, at least one pair kept."""
    pairs = [(int(step), int(num)) for step, num in zip(steps, nums, strict=True)]
    while len(pairs) > 1 and pairs[-1] == (1, 1):
        pairs.pop()
    return tuple(reversed(pairs))
