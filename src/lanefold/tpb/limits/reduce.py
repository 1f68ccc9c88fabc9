"""Rules on pools and reduces."""

from __future__ import annotations

import difflib

from lanefold.diagnostics import Cure, Diagnostic, Rule
from lanefold.numerics import alu
from lanefold.tpb import isa
from lanefold.tpb.instruction import Instruction
from lanefold.tpb.limits.findings import Findings

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


_OPERATORS = {row.name: row for row in alu.ALU_OPS}


def pool_findings(instruction: Instruction, generation: isa.Generation, reading: isa.Reading) -> Findings:
    """Function and pattern rank of a pool."""
    function = instruction.attributes["func"]
    source = instruction.ins[0]
    if function not in isa.BIR_POOL_FUNCTIONS:
        yield _POOL_FUNCTION.finding(
            f"pool function {function!r} does not exist",
            got=function or "nothing",
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
        if rank > wanted:
            padded = [pattern[0], *pattern[1 - wanted :]]
        yield _AVERAGE_RANK.finding(
            f"the source pattern of the average pool has {rank} pairs",
            got=[list(pair) for pair in source.pattern],
            allowed=f"exactly {wanted} pairs",
            place=instruction.place("ap", source.name),
            cures=[
                Cure(
                    "insert [1, 1] pairs behind the partition pair, or give each outermost index its own instruction",
                    {"ins.0.pattern": padded},
                ),
                "merge neighbouring pairs where outer step = inner step x inner num",
            ],
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


def reduce_findings(instruction: Instruction, generation: isa.Generation, reading: isa.Reading) -> Findings:
    """Operator, axis and modifiers of a reduce."""
    operator, axis = str(instruction.attributes["op"]), str(instruction.attributes["axis"])
    if operator not in _OPERATORS:
        near = difflib.get_close_matches({"sum": "add", "prod": "mult"}.get(operator, operator), _OPERATORS, 1)
        choice = near[0] if near else "add"
        yield _ALU_OPERATOR.finding(
            f"operator {operator!r} does not exist",
            got=operator or "nothing",
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
            got=axis or "nothing",
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
            got=operator or "nothing",
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
        shorter = next((name for name, (ordinal, _) in isa.BIR_AXES.items() if ordinal + 1 == pairs), "")
        cure = Cure(f"use axis {shorter}", {"attributes.axis": shorter})
        if not shorter:
            unit = [(1, 1)] * wanted
            cure = Cure("add pairs of num 1", {"ins.0.pattern": [instruction.ins[0].pattern[0], *unit]})
        yield _AXIS_RANK.finding(
            f"axis {axis} folds {wanted} pairs, the source has {pairs} beside the partition pair",
            got=[list(pair) for pair in instruction.ins[0].pattern],
            allowed=f"at least {wanted + 1} pairs",
            place=instruction.place("axis"),
            cures=[cure],
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
            got=operator or "nothing",
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
