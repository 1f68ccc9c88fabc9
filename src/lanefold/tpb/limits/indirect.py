"""Rules on indirect operands: which may be, and where their indices and data lie."""

from __future__ import annotations

from lanefold.diagnostics import Cure, Diagnostic, Place, Rule
from lanefold.tpb import isa
from lanefold.tpb.instruction import Instruction
from lanefold.tpb.limits.findings import Findings, named_operands
from lanefold.tpb.patterns import INDIRECT_SINCE, NUM_RANGE, Access

INDIRECT = Rule(
    "TPB-INDIRECT-OPERAND",
    "Only the operands of S4D4_TR may be indirect, and only from v4 on.",
    "ISA headers: MEM_PATTERN4D, architecture diff",
    predicate="mem4d_valid",
)
INDEX = Rule(
    "TPB-INDIRECT-INDEX",
    "The indices of an indirect operand are 4-byte numbers at a 4-byte-aligned address in the state buffer.",
    "INDIRECT20B; MEM_PATTERN4D",
    predicate="mem4d_valid",
)
DATA = Rule(
    "TPB-INDIRECT-DATA",
    "The top three bits of the data address of an indirect operand are zero: it stands in no register.",
    "INDIRECT20B; MEM_PATTERN4D",
    predicate="mem4d_valid",
)
COUNT = Rule(
    "TPB-INDIRECT-COUNT",
    "An indirect operand reads 1 to 65535 elements, one per index.",
    "INDIRECT20B; MEM_PATTERN4D",
    predicate="mem4d_valid",
)
_INDEX_TYPES = ("uint32", "int32")


def indirect_findings(instruction: Instruction, generation: isa.Generation) -> Findings:
    """Indirect operands that the wire cannot carry."""
    for path, operand in named_operands(instruction):
        if operand.indices is None:
            continue
        place = instruction.place(operand=operand.name)
        if not (_has_place(instruction) and _rank(generation) >= _rank(INDIRECT_SINCE)):
            yield _never(instruction, path, operand, generation, place)
            continue
        yield from _parts(path, operand, operand.indices, place)


def _rank(generation: isa.Generation) -> int:
    return isa.GENERATIONS.index(generation)


def _has_place(instruction: Instruction) -> bool:
    """Whether the operation becomes an S4D4_TR bundle."""
    free_axis = instruction.attributes.get("axis") in isa.BIR_AXES
    return instruction.opcode == "Reciprocal" or (instruction.opcode == "TensorReduce" and free_axis)


def _never(
    instruction: Instruction, path: str, operand: Access, generation: isa.Generation, place: Place
) -> Diagnostic:
    where = "" if _has_place(instruction) else f" of {instruction.opcode}"
    if instruction.attributes.get("axis") in isa.BIR_CROSS_LANE_AXES:
        where = " of a cross-lane reduce"
    return INDIRECT.finding(
        f"operand {operand.name}{where} is indirect on {generation}",
        got=f"{instruction.opcode}, {generation}",
        allowed=f"free-axis TensorReduce and Reciprocal, from {INDIRECT_SINCE} on",
        place=place,
        cures=[Cure("gather the data first and give its own address", {f"{path}.indices": None})],
    )


def _parts(path: str, operand: Access, indices: Access, place: Place) -> Findings:
    if indices.dtype not in _INDEX_TYPES or indices.memory != "SB" or indices.register is not None:
        held = f"r{indices.register}" if indices.register is not None else indices.memory
        yield INDEX.finding(
            f"the indices of operand {operand.name} are {indices.dtype} in {held}",
            got=f"{indices.dtype} in {held}",
            allowed=f"{' or '.join(_INDEX_TYPES)} in SB",
            place=place,
            cures=["put the indices into the state buffer as uint32"],
        )
    if operand.register is not None:
        yield DATA.finding(
            f"the data of the indirect operand {operand.name} starts at register {operand.register}",
            got=f"r{operand.register}",
            allowed="a known place",
            place=place,
            cures=[Cure("place the data at partition 0, byte 0", {f"{path}.register": None})],
        )
    low, high = NUM_RANGE
    if not low <= indices.elements <= high:
        near = min(max(indices.elements, low), high)
        yield COUNT.finding(
            f"operand {operand.name} reads {indices.elements} indices per partition",
            got=indices.elements,
            allowed=f"{low} to {high}",
            place=place,
            cures=[f"read {near} indices, the others in another instruction"],
        )
