"""What an instruction must satisfy before it has bytes: the front-end limits of every BIR operation."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator

from lanefold.diagnostics import RULES, Cure, Diagnostic, Rule
from lanefold.numerics import alu, dtypes
from lanefold.tpb import isa
from lanefold.tpb.instruction import Instruction
from lanefold.tpb.patterns import NUM_RANGE, STEP_RANGE, Access, Pair

_OPCODE = Rule(
    "TPB-BIR-OPCODE",
    "The instruction is one of the operations of the pooling and reduction leg.",
    "BIR JSON record schema",
)
_OPERANDS = Rule(
    "TPB-BIR-OPERANDS",
    "An instruction has exactly the operands of its operation.",
    "BIR JSON record schema, operands per operation",
)
_KEY = Rule(
    "TPB-BIR-KEY",
    "An instruction carries the required keys of its operation, each with a value of the right kind, and no other.",
    "BIR JSON record schema, keys per operation",
)
_POOL_FUNCTION = Rule(
    "TPB-POOL-FUNCTION",
    "The pool function is Max or Avg; sums and minima are TensorReduce.",
    "Pool Engine, The Pool / Reduce Semantic Split",
    predicate="has_valid_pooltype",
)
_ALU_OPERATOR = Rule(
    "TPB-REDUCE-OPERATOR",
    "The operator is one of the 33 ALU operators.",
    "ALU operator enumeration",
)
_ALU_WIRE = Rule(
    "TPB-REDUCE-WIRE",
    "A free-axis reduce takes operators that the generation's converter has a byte for.",
    "Pool Engine, The Reduce-Command; ALU operator converters per generation",
)
_AXIS = Rule(
    "TPB-REDUCE-AXIS",
    "The axis is X, XY, XYZ, XYZW (free-axis) or XYZWC, C (cross-lane).",
    "Pool Engine, The Axis Fork",
)
_AXIS_RANK = Rule(
    "TPB-REDUCE-RANK",
    "A free-axis reduce folds as many innermost pairs as its axis names, and its source has at least those.",
    "Pool Engine, AxisListType",
)
_CROSS_OPERATOR = Rule(
    "TPB-CROSS-LANE-OPERATOR",
    "A cross-lane reduce takes add, average, max, bitwise_or, bitwise_and or bitwise_xor.",
    "Pool Engine, The Reduce-Command",
)
_CROSS_NEGATE = Rule(
    "TPB-CROSS-LANE-NEGATE",
    "A cross-lane reduce cannot negate; its struct has no negate field.",
    "Pool Engine, Negate / Abs / Accumulate Modifiers",
)
_NEGATE_BITS = Rule(
    "TPB-REDUCE-NEGATE-BITVEC",
    "Only arithmetic operators can be negated.",
    "ISA headers: has_valid_reduce_negated; NKI tensor_reduce",
    predicate="has_valid_reduce_negated",
)
_TRANSPOSE = Rule(
    "TPB-TRANSPOSE-READING",
    "A transposing reduce exists on the free-axis path in the headers reading and across lanes in the reference one.",
    "Pool Engine, The Cross-Lane Opcode Fork; ISA headers: opcode map",
)
_AVERAGE_RANK = Rule(
    "TPB-POOL-AVERAGE-RANK",
    "The source pattern of an average pool has exactly 5 pairs, the partition pair and two window pairs among them.",
    "Pool Engine, The Window-as-Reciprocal Fold (in0.size() == 5)",
)
_WINDOW_RANK = Rule(
    "TPB-POOL-WINDOW-RANK",
    "The source pattern of a pool has at least 3 pairs: partitions, window rows, window columns.",
    "Pool Engine, InstPool",
)
_DTYPE = Rule(
    "TPB-DTYPE",
    "An operand's element type is one of the 20 BIR types.",
    "Element type table",
)
_SEARCH_COUNT = Rule(
    "TPB-SEARCH-COUNT",
    "A search reads 8 to 16384 elements per partition.",
    "Pool Engine, MAX8 and FIND_INDEX8",
    predicate="d2_bn_ge8_src_element_cnt",
)
_EIGHT = Rule(
    "TPB-SEARCH-EIGHT",
    "Keys, values and indices of a search are exactly 8 per partition.",
    "Pool Engine, MAX8 and FIND_INDEX8",
)
_RANK = Rule(
    "TPB-SEARCH-RANK",
    "Search operands keep to the pattern ranks of their role.",
    "Pool Engine, MAX8 and FIND_INDEX8 (two-tier dim cap)",
)
_PARTITIONS = Rule(
    "TPB-OPERAND-CHANNELS",
    "All operands of an instruction span the same number of partitions; a cross-lane result spans one.",
    "Pool Engine, getNumPartitionsAccessed; ISA headers: start_addr_active_channels",
)
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

CHANNELS = Rule(
    "TPB-CHANNELS",
    "An instruction takes 1 to 128 partitions.",
    "ISA headers: active channel range",
    predicate="has_valid_active_channel_range",
)
_SYNC_FIELD = Rule(
    "TPB-SYNC-FIELD",
    "Modes and indices of a wait and an update are bytes, their shared value is a 32-bit number.",
    "Bundle events",
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
_STEP = RULES["TPB-PATTERN-STEP"]
_NUM = RULES["TPB-PATTERN-NUM"]

_DTYPE_NAMES = {row.name: row for row in dtypes.DTYPES}
_OPERATORS = {row.name: row for row in alu.ALU_OPS}

Findings = Iterator[Diagnostic]
INT32 = (-(2**31), 2**31 - 1)


def front_end(instruction: Instruction, generation: isa.Generation, reading: isa.Reading) -> list[Diagnostic]:
    """Findings of every front-end rule on one instruction; an instruction without errors has bytes.

    Source: the limits that the reference encoder asserts per operation.
    """
    row = isa.BIR_BY_OPCODE.get(instruction.opcode)
    if row is None:
        return [_unknown_opcode(instruction)]
    shape = list(_operands(instruction, row)) + list(_keys(instruction, row))
    if shape:
        return shape
    found = [*_types(instruction), *_pattern_fields(instruction), *_sync_fields(instruction)]
    for rule in _RULES[instruction.opcode]:
        found += rule(instruction, generation, reading)
    return found


def _unknown_opcode(instruction: Instruction) -> Diagnostic:
    near = difflib.get_close_matches(instruction.opcode, isa.BIR_BY_OPCODE, 1)
    hint = f"write {near[0]}" if near else "use one of the leg's operations, or keep the instruction for another tool"
    return _OPCODE.finding(
        f"{instruction.opcode!r} is not an operation of this leg",
        got=instruction.opcode or "nothing",
        allowed=", ".join(isa.BIR_BY_OPCODE),
        place=instruction.place("opcode"),
        cures=[Cure(hint, {"opcode": near[0]} if near else {})],
    )


def _operands(instruction: Instruction, row: isa.BirOperation) -> Findings:
    for key, given, wanted in (
        ("ins", len(instruction.ins), row.operands_in),
        ("outs", len(instruction.outs), row.operands_out),
    ):
        if given != len(wanted):
            names = ", ".join(wanted) or "none"
            yield _OPERANDS.finding(
                f"{row.opcode} takes {len(wanted)} {key} ({names}), {given} given",
                got=f"{given} {key}",
                allowed=f"{len(wanted)}: {names}",
                place=instruction.place(key),
                cures=[f"give exactly: {names}"],
            )
    for operand in (*instruction.ins, *instruction.outs):
        if not operand.pattern:
            yield _OPERANDS.finding(
                f"operand {operand.name} has an empty pattern",
                got="[]",
                allowed="at least the partition pair [pitch, partitions]",
                place=instruction.place("ap", operand.name),
                cures=["give the partition pair first, then the free pairs, outermost first"],
            )


def _keys(instruction: Instruction, row: isa.BirOperation) -> Findings:
    known = {attribute.name: attribute for attribute in row.attributes}
    for name in instruction.attributes:
        if name not in known:
            yield _KEY.finding(
                f"{row.opcode} has no key {name!r}",
                got=name,
                allowed=", ".join(known) or "no keys",
                place=instruction.place(name),
                cures=[f"remove {name!r}"],
            )
    for attribute in row.attributes:
        value = instruction.attributes.get(attribute.name)
        if value is None:
            if attribute.required:
                yield _KEY.finding(
                    f"{row.opcode} lacks its required key {attribute.name!r}",
                    got="nothing",
                    allowed=_kind_text(attribute),
                    place=instruction.place(attribute.name),
                    cures=[f"set {attribute.name!r} to {_kind_text(attribute)}"],
                )
        elif not _is_kind(attribute, value):
            yield _KEY.finding(
                f"{attribute.name} of {row.opcode} is {value!r}",
                got=repr(value),
                allowed=_kind_text(attribute),
                place=instruction.place(attribute.name),
                cures=[f"write {_kind_text(attribute)}"],
            )


def _kind_text(attribute: isa.Attribute) -> str:
    texts = {
        "enum": "one of " + ", ".join(attribute.values) if attribute.values else "a name",
        "bool": "true or false",
        "int": "an integer",
        "float": "a number",
        "pattern": "a list of 1 to 4 [step, num] pairs",
    }
    return texts[attribute.type]


def _is_pattern(value: object) -> bool:
    if not isinstance(value, list | tuple):
        return False
    pairs = (pair for pair in value)
    return all(
        isinstance(pair, list | tuple) and len(pair) == 2 and all(type(number) is int for number in pair)
        for pair in pairs
    )


def _is_kind(attribute: isa.Attribute, value: object) -> bool:
    checks: dict[str, Callable[[object], bool]] = {
        "enum": lambda v: isinstance(v, str),
        "bool": lambda v: isinstance(v, bool),
        "int": lambda v: type(v) is int,
        "float": lambda v: isinstance(v, int | float) and not isinstance(v, bool),
        "pattern": _is_pattern,
    }
    return checks[attribute.type](value)


def _types(instruction: Instruction) -> Findings:
    for side, operands in (("ins", instruction.ins), ("outs", instruction.outs)):
        for index, operand in enumerate(operands):
            if operand.dtype not in _DTYPE_NAMES:
                near = dtypes.nearest_names(operand.dtype, list(_DTYPE_NAMES))[0]
                yield _DTYPE.finding(
                    f"{operand.dtype!r} is no BIR element type",
                    got=operand.dtype,
                    allowed=", ".join(_DTYPE_NAMES),
                    place=instruction.place("dtype", operand.name),
                    cures=[Cure(f"use {near}, casting the tensor first", {f"{side}.{index}.dtype": near})],
                )


def _named_operands(instruction: Instruction) -> Iterator[tuple[str, Access]]:
    """Every operand with its path, such as ``ins.0``."""
    for side, operands in (("ins", instruction.ins), ("outs", instruction.outs)):
        for index, operand in enumerate(operands):
            yield f"{side}.{index}", operand


def _pattern_fields(instruction: Instruction) -> Findings:
    for path, operand in _named_operands(instruction):
        for at, (step, num) in enumerate(operand.pattern):
            if not at:
                yield from _partition_pair(instruction, path, operand)
                continue
            if not STEP_RANGE[0] <= step <= STEP_RANGE[1] and num != 1:
                yield _pair_finding(_STEP, instruction, path, at, "step")
            if not NUM_RANGE[0] <= num <= NUM_RANGE[1]:
                yield _pair_finding(_NUM, instruction, path, at, "num")


def _partition_pair(instruction: Instruction, path: str, operand: Access) -> Findings:
    most = isa.GEOMETRY["v2"].partitions
    if not 1 <= operand.channels <= most:
        near = min(max(operand.channels, 1), most)
        changes = {
            f"{other}.pattern": [(each.pattern[0][0], near), *each.free]
            for other, each in _named_operands(instruction)
            if each.channels == operand.channels
        }
        yield CHANNELS.finding(
            f"operand {operand.name} spans {operand.channels} partitions",
            got=operand.channels,
            allowed=f"1 to {most}",
            place=instruction.place("ap", operand.name),
            cures=[Cure(f"span {near} partitions, the others in another instruction", changes)],
        )


def _pair_finding(rule: Rule, instruction: Instruction, path: str, at: int, part: str) -> Diagnostic:
    operand = dict(_named_operands(instruction))[path]
    pattern: list[Pair] = list(operand.pattern)
    step, num = pattern[at]
    (low, high), got = (STEP_RANGE, step) if part == "step" else (NUM_RANGE, num)
    near = min(max(got, low), high)
    pattern[at] = (near, num) if part == "step" else (step, near)
    kind = "a signed 16-bit step" if part == "step" else "a 16-bit count of at least 1"
    cures: list[Cure | str] = [Cure(f"re-tile the operand so that the {part} is {near}", {f"{path}.pattern": pattern})]
    if part == "step" and num > 0:
        cures.append(f"write the {num} outer indices as {num} instructions, each with its own start address")
    elif num > high:
        cures.append("split the pair into two pairs, outer step = inner step x inner num, or into instructions")
    return rule.finding(
        f"{part} {got} of pair {at} of operand {operand.name} does not fit {kind}",
        got=[list(pair) for pair in operand.pattern],
        allowed=f"{low} to {high}",
        place=instruction.place("ap", operand.name),
        cures=cures,
    )


def _sync_fields(instruction: Instruction) -> Findings:
    sync = instruction.sync
    byte, word = (0, 255), (INT32[0], 2**32 - 1)
    for name, value, (low, high) in (
        ("wait_mode", sync.wait_mode, byte),
        ("wait_index", sync.wait_index, byte),
        ("update_mode", sync.update_mode, byte),
        ("update_index", sync.update_index, byte),
        ("value", sync.value, word),
    ):
        if not low <= value <= high:
            near = min(max(value, low), high)
            yield _SYNC_FIELD.finding(
                f"{name} of the events is {value}",
                got=value,
                allowed=f"{low} to {high}",
                place=instruction.place(name),
                cures=[Cure(f"write {near}", {f"sync.{name}": near})],
            )


def _pool(instruction: Instruction, generation: isa.Generation, reading: isa.Reading) -> Findings:
    function = instruction.attributes["func"]
    source = instruction.ins[0]
    if function not in isa.BIR_POOL_FUNCTIONS:
        yield _POOL_FUNCTION.finding(
            f"pool function {function!r} does not exist",
            got=function,
            allowed=", ".join(isa.BIR_POOL_FUNCTIONS),
            place=instruction.place("func"),
            cures=[
                Cure("use Max", {"attributes.func": "Max"}),
                Cure("use Avg on a 5-pair source", {"attributes.func": "Avg"}),
                "for a sum use TensorReduce with op add, for a minimum with op min, over the window pairs",
            ],
        )
        return
    rank = len(source.pattern)
    if function == "Avg" and rank != isa.AVERAGE_POOL_RANK:
        wanted = isa.AVERAGE_POOL_RANK
        pattern = list(source.pattern)
        padded = [pattern[0], *([(1, 1)] * (wanted - rank)), *pattern[1:]]
        changes = {"ins.0.pattern": padded} if rank < wanted else {}
        yield _AVERAGE_RANK.finding(
            f"the source pattern of the average pool has {rank} pairs",
            got=[list(pair) for pair in source.pattern],
            allowed=f"exactly {wanted} pairs",
            place=instruction.place("ap", source.name),
            cures=[Cure("insert [1, 1] pairs behind the partition pair, or merge outer pairs", changes)],
        )
    elif rank < 3:
        yield _WINDOW_RANK.finding(
            f"the source pattern of the pool has {rank} pairs",
            got=[list(pair) for pair in source.pattern],
            allowed="at least 3 pairs",
            place=instruction.place("ap", source.name),
            cures=[
                Cure("write a one-row window as [1, 1], [step, num]", {"ins.0.pattern": _with_unit_row(source.pattern)})
            ],
        )


def _with_unit_row(pattern: tuple[tuple[int, int], ...]) -> list[tuple[int, int]]:
    padded = list(pattern)
    while len(padded) < 3:
        padded.insert(1, (1, 1))
    return padded


def _reduce(instruction: Instruction, generation: isa.Generation, reading: isa.Reading) -> Findings:
    operator, axis = str(instruction.attributes["op"]), str(instruction.attributes["axis"])
    if operator not in _OPERATORS:
        near = difflib.get_close_matches({"sum": "add", "prod": "mult"}.get(operator, operator), _OPERATORS, 1)
        choice = near[0] if near else "add"
        yield _ALU_OPERATOR.finding(
            f"operator {operator!r} does not exist",
            got=operator,
            allowed=", ".join(_OPERATORS),
            place=instruction.place("op"),
            cures=[Cure(f"use {choice}", {"attributes.op": choice})],
        )
        return
    if axis in isa.BIR_AXES:
        yield from _free_axis(instruction, operator, axis, generation, reading)
    elif axis in isa.BIR_CROSS_LANE_AXES:
        yield from _cross_lane(instruction, operator, reading)
    else:
        yield _AXIS.finding(
            f"axis {axis!r} does not exist",
            got=axis,
            allowed=", ".join((*isa.BIR_AXES, *isa.BIR_CROSS_LANE_AXES)),
            place=instruction.place("axis"),
            cures=[Cure("use X for the innermost dim", {"attributes.axis": "X"})],
        )


def _free_axis(
    instruction: Instruction, operator: str, axis: str, generation: isa.Generation, reading: isa.Reading
) -> Findings:
    row = _OPERATORS[operator]
    if row.byte(generation) is None:
        cures = [Cure("use add", {"attributes.op": "add"})]
        if row.byte("v4") is not None:
            cures.append(Cure("target v4, whose converter has the operator"))
        if operator == "average":
            cures = [Cure("use add and scale by 1/N afterwards, or an average pool", {"attributes.op": "add"})]
        yield _ALU_WIRE.finding(
            f"{generation} has no byte for operator {operator}",
            got=operator,
            allowed=", ".join(name for name, entry in _OPERATORS.items() if entry.byte(generation) is not None),
            place=instruction.place("op"),
            cures=cures,
        )
    if instruction.attributes.get("negate") and row.bitvec:
        yield _NEGATE_BITS.finding(
            f"negate is set with the bit-vector operator {operator}",
            got="negate true",
            allowed="negate false",
            place=instruction.place("negate"),
            cures=[Cure("leave negate out", {"attributes.negate": False})],
        )
    pairs, wanted = len(instruction.ins[0].free), isa.BIR_AXES[axis][0] + 1
    if pairs < wanted:
        shorter = next((name for name, (ordinal, _) in isa.BIR_AXES.items() if ordinal + 1 == pairs), "X")
        yield _AXIS_RANK.finding(
            f"axis {axis} folds {wanted} pairs, the source has {pairs} beside the partition pair",
            got=[list(pair) for pair in instruction.ins[0].pattern],
            allowed=f"at least {wanted + 1} pairs",
            place=instruction.place("axis"),
            cures=[Cure(f"use axis {shorter}", {"attributes.axis": shorter})],
        )
    if instruction.attributes.get("apply_transpose") and reading == "reference":
        yield _no_transpose(instruction, "free-axis", reading)


def _cross_lane(instruction: Instruction, operator: str, reading: isa.Reading) -> Findings:
    if operator not in isa.CROSS_LANE_COMMANDS:
        cures = [Cure("use the free-axis path over a transposed placement", {"attributes.axis": "X"})]
        if operator == "min":
            cures.insert(0, Cure("negate the data, reduce with max, negate the result", {"attributes.op": "max"}))
        yield _CROSS_OPERATOR.finding(
            f"operator {operator} does not exist across lanes",
            got=operator,
            allowed=", ".join(isa.CROSS_LANE_COMMANDS),
            place=instruction.place("op"),
            cures=cures,
        )
    if instruction.attributes.get("negate"):
        yield _CROSS_NEGATE.finding(
            "negate is set on a cross-lane reduce",
            got="negate true",
            allowed="negate false",
            place=instruction.place("negate"),
            cures=[
                Cure(
                    "leave negate out and flip the sign by a free-axis bypass with negate", {"attributes.negate": False}
                )
            ],
        )
    if instruction.attributes.get("apply_transpose") and reading == "headers":
        yield _no_transpose(instruction, "cross-lane", reading)


def _no_transpose(instruction: Instruction, path: str, reading: isa.Reading) -> Diagnostic:
    other = "headers" if reading == "reference" else "reference"
    return _TRANSPOSE.finding(
        f"the {reading} reading has no opcode for a transposing {path} reduce",
        got="apply_transpose true",
        allowed=f"apply_transpose false; or opcodes={other!r}",
        place=instruction.place("apply_transpose"),
        cures=[
            Cure("leave apply_transpose out and transpose the data first", {"attributes.apply_transpose": False}),
            Cure(f"encode with opcodes={other!r}"),
        ],
    )


def _search(instruction: Instruction, generation: isa.Generation, reading: isa.Reading) -> Findings:
    row = isa.BIR_BY_OPCODE[instruction.opcode]
    named = [*zip(row.operands_in, instruction.ins, strict=True), *zip(row.operands_out, instruction.outs, strict=True)]
    for role, operand in named:
        ranks = isa.PATTERN_RANKS.get((instruction.opcode, role))
        if ranks and not ranks[0] <= len(operand.pattern) <= ranks[1]:
            yield _RANK.finding(
                f"the {role} pattern has {len(operand.pattern)} pairs",
                got=[list(pair) for pair in operand.pattern],
                allowed=f"{ranks[0]} to {ranks[1]} pairs",
                place=instruction.place("ap", operand.name),
                cures=["merge neighbouring pairs where outer step = inner step x inner num"],
            )
        least, greatest = isa.SEARCH_COUNT
        if role == "data" and not least <= operand.elements <= greatest:
            short = operand.elements < least
            cure = (
                f"repeat the row with an outer pair [0, {-(-least // max(operand.elements, 1))}]"
                if short
                else f"search in chunks of {greatest} and merge the eights"
            )
            yield _SEARCH_COUNT.finding(
                f"the data has {operand.elements} elements per partition",
                got=operand.elements,
                allowed=f"{least} to {greatest}",
                place=instruction.place("ap", operand.name),
                cures=[cure],
            )
        if role in ("values", "indices") and operand.elements != least:
            yield _EIGHT.finding(
                f"the {role} have {operand.elements} elements per partition",
                got=operand.elements,
                allowed=str(least),
                place=instruction.place("ap", operand.name),
                cures=[
                    Cure("walk exactly 8 elements", {_path(instruction, operand): [operand.pattern[0], (1, least)]})
                ],
            )


def _path(instruction: Instruction, operand: object) -> str:
    for side, operands in (("ins", instruction.ins), ("outs", instruction.outs)):
        for index, candidate in enumerate(operands):
            if candidate is operand:
                return f"{side}.{index}.pattern"
    raise LookupError("operand does not belong to the instruction")


def _channels(instruction: Instruction, generation: isa.Generation, reading: isa.Reading) -> Findings:
    cross = instruction.attributes.get("axis") in isa.BIR_CROSS_LANE_AXES
    wanted = (instruction.ins or instruction.outs)[0].channels
    for side, operands in (("ins", instruction.ins), ("outs", instruction.outs)):
        for index, operand in enumerate(operands):
            need = 1 if cross and side == "outs" else wanted
            if operand.channels != need:
                pattern = [(operand.pattern[0][0], need), *operand.pattern[1:]]
                yield _PARTITIONS.finding(
                    f"operand {operand.name} spans {operand.channels} partitions where {need} are needed",
                    got=operand.channels,
                    allowed=str(need),
                    place=instruction.place("ap", operand.name),
                    cures=[Cure(f"make its partition pair span {need}", {f"{side}.{index}.pattern": pattern})],
                )


def _iota(instruction: Instruction, generation: isa.Generation, reading: isa.Reading) -> Findings:
    pattern = instruction.attributes["pattern"]
    pairs: list[tuple[int, int]] = [tuple(pair) for pair in pattern]  # type: ignore[attr-defined]
    fits = all(-32768 <= step <= 32767 and 1 <= num <= 65535 for step, num in pairs)
    if not (1 <= len(pairs) <= 4 and fits):
        yield _ITERATION.finding(
            f"the iota pattern is {[list(pair) for pair in pairs]}",
            got=[list(pair) for pair in pairs],
            allowed="1 to 4 pairs, steps -32768 to 32767, nums 1 to 65535",
            place=instruction.place("pattern"),
            cures=["split the range into several iota instructions"],
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


def _gather(instruction: Instruction, generation: isa.Generation, reading: isa.Reading) -> Findings:
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


def _gather_types(instruction: Instruction, generation: isa.Generation, reading: isa.Reading) -> Findings:
    table, out = instruction.ins[0], instruction.outs[0]
    if table.dtype != out.dtype:
        yield _SAME_TABLE.finding(
            f"the table is {table.dtype}, the result {out.dtype}",
            got=out.dtype,
            allowed=table.dtype,
            place=instruction.place("dtype", out.name),
            cures=[Cure(f"write {table.dtype}", {"outs.0.dtype": table.dtype})],
        )


def _replace(instruction: Instruction, generation: isa.Generation, reading: isa.Reading) -> Findings:
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


_Check = Callable[[Instruction, isa.Generation, isa.Reading], Findings]
_RULES: dict[str, tuple[_Check, ...]] = {
    "Pool": (_pool, _channels),
    "TensorReduce": (_reduce, _channels),
    "Max": (_search, _channels),
    "MaxIndex": (_search, _channels),
    "MatchReplace": (_search, _channels, _replace),
    "Reciprocal": (_channels,),
    "Iota": (_iota,),
    "Gather": (_gather, _gather_types, _channels),
}
