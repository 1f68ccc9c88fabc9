"""Rules on searches, iota and gather."""

from __future__ import annotations

from lanefold.diagnostics import Cure, Rule
from lanefold.numerics import dtypes
from lanefold.tpb import isa
from lanefold.tpb.instruction import Instruction
from lanefold.tpb.limits.findings import INT32, Findings
from lanefold.tpb.limits.operands import DTYPE_NAMES
from lanefold.tpb.patterns import FIELD_RANGES, Access, Pair, fits_fields, nearest_pair

_SEARCH_COUNT = Rule(
    "TPB-SEARCH-COUNT",
    f"A search reads {isa.SEARCH_COUNT[0]} to {isa.SEARCH_COUNT[1]} elements per partition.",
    "Pool Engine, MAX8 and FIND_INDEX8",
    predicate="d2_bn_ge8_src_element_cnt",
)


_EIGHT = Rule(
    "TPB-SEARCH-EIGHT",
    "Keys, values and indices of a search are exactly 8 per partition, in the operand and in the bundle.",
    "Pool Engine, MAX8 and FIND_INDEX8",
)


_RANK = Rule(
    "TPB-SEARCH-RANK",
    "Search operands keep to the pattern ranks of their role.",
    "Pool Engine, MAX8 and FIND_INDEX8 (two-tier dim cap)",
)


_MOST_PAIRS = 4
_ITERATION = Rule(
    "TPB-IOTA-PATTERN",
    "An iota pattern has 1 to 4 (step, num) pairs, outermost first, each within its 16-bit field.",
    "Pool Encoding 4; ISA requirement: Data Pattern Num",
)


_INTEGER = Rule(
    "TPB-IOTA-INTEGER",
    "Base and channel_multiplier of an iota are signed 32-bit integers.",
    "ISA headers: D4_IOTA",
)


_TABLE = Rule(
    "TPB-GATHER-TABLE",
    "The table of a gather is walked by a single free pair, so that it can be cut into chunks of 512.",
    "Pool Encoding 5; pool buffer load",
    predicate="valid_pool_buffer_load_element_count",
)


_SAME_TABLE = Rule(
    "TPB-GATHER-DTYPE",
    "A gather writes the element type of its table; elements are moved, not converted.",
    "NKI nc_n_gather; pool buffer load",
)


_REPLACEMENT = Rule(
    "TPB-REPLACE-VALUE",
    "The value that replaces a match is a single-precision number.",
    "ISA headers: S4D4_MR",
)


def search_findings(instruction: Instruction, generation: isa.Generation, reading: isa.Reading) -> Findings:
    """Ranks and element counts of a search."""
    row = isa.BIR_BY_OPCODE[instruction.opcode]
    named = [*zip(row.operands_in, instruction.ins, strict=True), *zip(row.operands_out, instruction.outs, strict=True)]
    for role, operand in named:
        if any(num < 1 for _, num in operand.free):
            continue  # a count of its own rule
        ranks = isa.PATTERN_RANKS.get((instruction.opcode, role))
        if ranks and not ranks[0] <= len(operand.pattern) <= ranks[1]:
            yield _RANK.finding(
                f"the {role} pattern has {len(operand.pattern)} pairs",
                got=[list(pair) for pair in operand.pattern],
                allowed=f"{ranks[0]} to {ranks[1]} pairs",
                place=instruction.place("ap", operand.name),
                cures=[
                    Cure("keep the innermost pairs", {_path(instruction, operand): _ranked(operand, *ranks)}),
                    "merge neighbouring pairs where outer step = inner step x inner num",
                ],
            )
        least, greatest = isa.SEARCH_COUNT
        if role == "data" and not least <= operand.elements <= greatest:
            cure = _repeated(instruction, operand) if operand.elements < least else _chunk(instruction, operand)
            yield _SEARCH_COUNT.finding(
                f"the data has {operand.elements} element{'s' * (operand.elements != 1)} per partition",
                got=operand.elements,
                allowed=f"{least} to {greatest}",
                place=instruction.place("ap", operand.name),
                cures=[cure],
            )
        if role in ("values", "indices") and operand.elements != least:
            yield _EIGHT.finding(
                f"the {role} have {operand.elements} element{'s' * (operand.elements != 1)} per partition",
                got=operand.elements,
                allowed=str(least),
                place=instruction.place("ap", operand.name),
                cures=[
                    Cure("walk exactly 8 elements", {_path(instruction, operand): [operand.pattern[0], (1, least)]})
                ],
            )


def _ranked(operand: Access, least: int, greatest: int) -> list[Pair]:
    pairs = list(operand.pattern)
    free = pairs[1:][-(greatest - 1) :]
    return [pairs[0], *([(1, 1)] * (least - 1 - len(free))), *free]


def _repeated(instruction: Instruction, operand: Access) -> Cure:
    times = -(-isa.SEARCH_COUNT[0] // max(operand.elements, 1))
    pattern = [operand.pattern[0], (0, times), *operand.free]
    return Cure(f"repeat the row with an outer pair [0, {times}]", {_path(instruction, operand): pattern})


def _chunk(instruction: Instruction, operand: Access) -> Cure:
    most = isa.SEARCH_COUNT[1]
    kept: list[Pair] = []
    for step, num in reversed(operand.free):
        take = min(num, most)
        most //= take
        kept.insert(0, (step, take))
    pattern = [operand.pattern[0], *kept]
    text = f"search in chunks of at most {isa.SEARCH_COUNT[1]} and merge the eights"
    return Cure(text, {_path(instruction, operand): pattern})


def _path(instruction: Instruction, operand: object) -> str:
    for side, operands in (("ins", instruction.ins), ("outs", instruction.outs)):
        for index, candidate in enumerate(operands):
            if candidate is operand:
                return f"{side}.{index}.pattern"
    raise LookupError("operand does not belong to the instruction")


def iota_findings(instruction: Instruction, generation: isa.Generation, reading: isa.Reading) -> Findings:
    """Pattern, base and multiplier of an iota."""
    pattern = instruction.attributes["pattern"]
    pairs: list[Pair] = [tuple(pair) for pair in pattern]  # type: ignore[attr-defined]
    if not (1 <= len(pairs) <= _MOST_PAIRS and all(map(fits_fields, pairs))):
        fitting = [pair if fits_fields(pair) else nearest_pair(pair) for pair in pairs[-_MOST_PAIRS:]] or [(1, 1)]
        yield _ITERATION.finding(
            f"the iota pattern is {[list(pair) for pair in pairs]}",
            got=[list(pair) for pair in pairs],
            allowed=f"1 to {_MOST_PAIRS} pairs, {FIELD_RANGES}",
            place=instruction.place("pattern"),
            cures=[Cure("split the range into several iota instructions", {"attributes.pattern": fitting})],
        )
    for name in ("base", "channel_multiplier"):
        value = instruction.attributes.get(name, 0)
        if not (isinstance(value, int) and INT32[0] <= value <= INT32[1]):
            yield _INTEGER.finding(
                f"{name} is {value}",
                got=value,
                allowed=f"{INT32[0]} to {INT32[1]}",
                place=instruction.place(name),
                cures=[Cure("keep it within 32 bits", {f"attributes.{name}": 0})],
            )


def gather_findings(instruction: Instruction, generation: isa.Generation, reading: isa.Reading) -> Findings:
    """Walk of a gather table."""
    table = instruction.ins[0]
    if sum(num != 1 for _, num in table.free) > 1:
        yield _TABLE.finding(
            f"the table is walked by {len(table.free)} free pairs",
            got=[list(pair) for pair in table.pattern],
            allowed="one free pair",
            place=instruction.place("ap", table.name),
            cures=[
                Cure(
                    "lay the table out so that one step walks it",
                    {"ins.0.pattern": [table.pattern[0], (1, table.elements)]},
                )
            ],
        )


def gather_type_findings(instruction: Instruction, generation: isa.Generation, reading: isa.Reading) -> Findings:
    """Element types of a gather."""
    table, out = instruction.ins[0], instruction.outs[0]
    if table.dtype != out.dtype and {table.dtype, out.dtype} <= DTYPE_NAMES.keys():
        yield _SAME_TABLE.finding(
            f"the table is {table.dtype}, the result {out.dtype}",
            got=out.dtype,
            allowed=table.dtype,
            place=instruction.place("dtype", out.name),
            cures=[Cure(f"write {table.dtype}", {"outs.0.dtype": table.dtype})],
        )


def replace_findings(instruction: Instruction, generation: isa.Generation, reading: isa.Reading) -> Findings:
    """The value that replaces matches."""
    value = instruction.attributes["imm_value"]
    largest = dtypes.by_name("float32").largest
    if not isinstance(value, int | float) or (largest < abs(value) and abs(value) != float("inf")):
        yield _REPLACEMENT.finding(
            f"imm_value is {value}",
            got=value,
            allowed=f"{-largest} to {largest}, infinities and NaN",
            place=instruction.place("imm_value"),
            cures=[Cure("use the lowest number", {"attributes.imm_value": -largest})],
        )
