"""Rules on the operands of any instruction: types, pairs, partitions, events."""

from __future__ import annotations

from lanefold.diagnostics import RULES, Cure, Diagnostic, Place, Rule, Severity
from lanefold.numerics import dtypes
from lanefold.tpb import isa
from lanefold.tpb.instruction import Instruction
from lanefold.tpb.limits.findings import INT32, Findings, named_operands
from lanefold.tpb.patterns import NUM_RANGE, ON_CHIP, STEP_RANGE, Access, Pair, nearest_pair

_DTYPE = Rule(
    "TPB-DTYPE",
    "An operand's element type is one of the 20 BIR types.",
    "Element type table",
)


CHANNELS = Rule(
    "TPB-CHANNELS",
    "An instruction takes 1 to 128 partitions.",
    "ISA headers: active channel range",
    predicate="has_valid_active_channel_range, check_active_channels",
)


_PARTITIONS = Rule(
    "TPB-OPERAND-CHANNELS",
    "All operands of an instruction span the same number of partitions; a cross-lane result spans one.",
    "Pool Engine, getNumPartitionsAccessed; ISA headers: start_addr_active_channels",
)


ADDRESS_REGISTER = Rule(
    "TPB-ADDRESS-REGISTER",
    "A register address names one of 64 address registers in its lowest byte and is zero up to the marker.",
    "ADDR4: register form",
    predicate="tensor_start_addr_valid",
)
_PACKED = Rule(
    "TPB-DTYPE-PACKED",
    "A packed or scale type has no tag of its own: the hardware sees its bytes as another type, of another size.",
    "BIR dtype table; ISA headers: DTYPE",
    Severity.WARNING,
)
_ENGINE = Rule(
    "TPB-ENGINE-NAME",
    "An engine is called by its BIR name; under other names no rule on engines can be checked.",
    "BIR engine enumeration",
    Severity.WARNING,
)
_SYNC_FIELD = Rule(
    "TPB-SYNC-FIELD",
    "Modes and indices of a wait and an update are bytes, their shared value is a 32-bit number.",
    "Bundle events",
)


_STEP = RULES["TPB-PATTERN-STEP"]


_NUM = RULES["TPB-PATTERN-NUM"]
_INSIDE = RULES["TPB-OPERAND-PARTITION"]


DTYPE_NAMES = {row.name: row for row in dtypes.DTYPES}


def type_findings(instruction: Instruction) -> Findings:
    """Element types that BIR does not have."""
    for side, operands in (("ins", instruction.ins), ("outs", instruction.outs)):
        for index, operand in enumerate(operands):
            if operand.dtype not in DTYPE_NAMES:
                near = dtypes.nearest_names(operand.dtype, list(DTYPE_NAMES))[0]
                yield _DTYPE.finding(
                    f"{operand.dtype!r} is no BIR element type",
                    got=operand.dtype or "nothing",
                    allowed=", ".join(DTYPE_NAMES),
                    place=instruction.place("dtype", operand.name),
                    cures=[Cure(f"use {near}, casting the tensor first", {f"{side}.{index}.dtype": near})],
                )


def pattern_findings(instruction: Instruction) -> Findings:
    """Pairs that do not fit their fields, and partition counts that do not exist."""
    for path, operand in named_operands(instruction):
        for at, (step, num) in enumerate(operand.pattern):
            if not at:
                yield from _partition_pair(instruction, path, operand)
                continue
            if not STEP_RANGE[0] <= step <= STEP_RANGE[1]:
                yield _pair_finding(_STEP, instruction, path, at, "step")
            if not NUM_RANGE[0] <= num <= NUM_RANGE[1]:
                yield _pair_finding(_NUM, instruction, path, at, "num")


def _partition_pair(instruction: Instruction, path: str, operand: Access) -> Findings:
    most = isa.GEOMETRY["v2"].partitions
    if not 1 <= operand.channels <= most:
        near = min(max(operand.channels, 1), most)
        changes = {
            f"{other}.pattern": [(each.pattern[0][0], near), *each.free]
            for other, each in named_operands(instruction)
            if each.channels == operand.channels
        }
        yield CHANNELS.finding(
            f"operand {operand.name} spans {operand.channels} partitions",
            got=operand.channels,
            allowed=f"1 to {most}",
            place=instruction.place("ap", operand.name),
            cures=[Cure(f"span {near} partitions, the others in another instruction", changes)],
        )


def _fitted(pair: Pair, part: str) -> Pair:
    step, num = nearest_pair(pair)
    return (step, pair[1]) if part == "step" else (pair[0], num)


def _pair_finding(rule: Rule, instruction: Instruction, path: str, at: int, part: str) -> Diagnostic:
    operand = dict(named_operands(instruction))[path]
    step, num = operand.pattern[at]
    (low, high), got = (STEP_RANGE, step) if part == "step" else (NUM_RANGE, num)
    near = nearest_pair((step, num))[part == "num"]
    fitted = [operand.pattern[0], *(_fitted(pair, part) for pair in operand.free)]
    kind = "a signed 16-bit step" if part == "step" else "a 16-bit count of at least 1"
    cures: list[Cure | str] = [Cure(f"re-tile the operand so that the {part} is {near}", {f"{path}.pattern": fitted})]
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


def place_findings(instruction: Instruction, generation: isa.Generation) -> Findings:
    """Operands that start outside the memories there are."""
    geometry = isa.GEOMETRY[generation]
    for path, operand in named_operands(instruction):
        place = instruction.place(operand=operand.name)
        if operand.register is not None:
            yield from _register(operand, path, place)
            continue
        if operand.memory not in ("SB", "PSUM"):
            yield ON_CHIP.finding(
                f"operand {operand.name} lies in {operand.memory}",
                got=repr(operand.memory),
                allowed="SB, PSUM",
                place=place,
                cures=[Cure("load the tensor into the state buffer first", {f"{path}.memory": "SB"})],
            )
            continue
        size = geometry.sbuf_bytes if operand.memory == "SB" else geometry.psum_bytes
        if not (0 <= operand.partition < geometry.partitions and 0 <= operand.byte < size):
            home = {f"{path}.partition": 0, f"{path}.byte": 0}
            yield _INSIDE.finding(
                f"operand {operand.name} starts at {operand.memory} partition {operand.partition}, byte {operand.byte}",
                got=f"partition {operand.partition}, byte {operand.byte}",
                allowed=f"partition 0 to {geometry.partitions - 1}, byte 0 to {size - 1} on {generation}",
                place=place,
                cures=[Cure("place the tensor at partition 0, byte 0", home)],
            )


def _register(operand: Access, path: str, place: Place) -> Findings:
    number, most = operand.register or 0, isa.ADDRESS_REGISTERS - 1
    if not 0 <= number <= most:
        near = min(max(number, 0), most)
        yield ADDRESS_REGISTER.finding(
            f"operand {operand.name} starts at register {number}",
            got=number,
            allowed=f"0 to {most}",
            place=place,
            cures=[Cure(f"use register {near}", {f"{path}.register": near})],
        )


def packed_findings(instruction: Instruction, generation: isa.Generation, reading: isa.Reading) -> Findings:
    """Element types that the wire has no tag of their own for."""
    for path, operand in named_operands(instruction):
        row = DTYPE_NAMES.get(operand.dtype)
        if row is None or row.is_number:
            continue
        wire = dtypes.wire_dtype(row.tag(generation))
        if wire.name != "FP4_EXP2":
            yield _PACKED.finding(
                f"operand {operand.name} is {operand.dtype}, which the bundle calls {wire.name}",
                got=operand.dtype,
                allowed=", ".join(name for name, other in DTYPE_NAMES.items() if other.is_number),
                place=instruction.place("dtype", operand.name),
                cures=[Cure("unpack to bfloat16 first", {f"{path}.dtype": "bfloat16"})],
            )


def engine_findings(instruction: Instruction, generation: isa.Generation, reading: isa.Reading) -> Findings:
    """Engines that BIR does not have; their public names are taken as a hint only."""
    if not instruction.engine or instruction.engine in isa.ENGINES:
        return
    usual = isa.BIR_BY_OPCODE[instruction.opcode].engine
    meant = next((name for name, row in isa.ENGINES.items() if row[2] == instruction.engine), usual)
    yield _ENGINE.finding(
        f"there is no engine {instruction.engine!r}; rules on engines do not apply",
        got=instruction.engine,
        allowed=", ".join(isa.ENGINES),
        place=instruction.place("engine"),
        cures=[Cure(f"bind it to {meant}", {"engine": meant})],
    )


def sync_findings(instruction: Instruction) -> Findings:
    """Events that do not fit their bytes."""
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


def channel_findings(instruction: Instruction, generation: isa.Generation, reading: isa.Reading) -> Findings:
    """Operands that span different numbers of partitions."""
    cross = instruction.attributes.get("axis") in isa.BIR_CROSS_LANE_AXES
    wanted = (instruction.ins or instruction.outs)[0].channels
    for side, operands in (("ins", instruction.ins), ("outs", instruction.outs)):
        for index, operand in enumerate(operands):
            need = 1 if cross and side == "outs" else wanted
            if operand.channels != need:
                pattern = [(operand.pattern[0][0], need), *operand.pattern[1:]]
                yield _PARTITIONS.finding(
                    f"operand {operand.name} spans {operand.channels} partition{'s' * (operand.channels != 1)} where "
                    f"{need} {'is' if need == 1 else 'are'} needed",
                    got=operand.channels,
                    allowed=str(need),
                    place=instruction.place("ap", operand.name),
                    cures=[Cure(f"make its partition pair span {need}", {f"{side}.{index}.pattern": pattern})],
                )
