"""Where documents disagree or leave a choice: what the machine does, what else it can do, and how that is asked for."""

from __future__ import annotations

from typing import NamedTuple

from lanefold.tpb import isa


class Reading(NamedTuple):
    """One point on which public documents differ or say nothing.

    ``default`` is what happens without a choice, ``other`` what happens with ``choice``; both are empty where only one
    side is followed, and ``instead_of`` then says what is not.
    """

    number: str
    subject: str
    default: str
    other: str = ""
    choice: str = ""
    instead_of: str = ""


_DEVICE = "numerics=device"


def _opcodes(reading: isa.Reading) -> str:
    """Opcodes of the two reduction structs in an opcode reading."""
    words = []
    for name, part in (("free-axis", "tensor_reduce_"), ("cross-lane", "cross_lane_reduce_")):
        kinds = [kind for kind in isa.BUNDLES if kind.name.endswith((f"{part}arith", f"{part}bitvec"))]
        *found, last = sorted(code for code in (kind.opcode(reading) for kind in kinds) if code is not None)
        words.append(f"{name} {', '.join(map(str, found))} and {last}")
    return ", ".join(words)


READINGS: tuple[Reading, ...] = (
    Reading(
        "0.1",
        "opcodes of the two reduction structs",
        _opcodes("reference"),
        _opcodes("headers"),
        "opcodes=headers",
    ),
    Reading("0.2", "which axes go across partitions", "XYZWC and C", instead_of="every axis beyond XY"),
    Reading("0.3", "byte +0x25 of Pool", "pool_dim, 3 for XY", instead_of="a mode without a name"),
    Reading(
        "0.4", "pool function 0", "the function of MaxPoolSelect; illegal for Pool", instead_of="reserved everywhere"
    ),
    Reading("0.5", "byte +0x24 of Iota", "channel_multiplier", instead_of="a value or step"),
    Reading("0.6", "opcode 104", "Gather, with the alias reg_load", instead_of="a register load"),
    Reading(
        "0.7",
        "bytes +0x28 and +0x2C of PoolBufferLoad",
        "start index and index mask",
        instead_of="element count and vector depth",
    ),
    Reading("0.8", "operand of MatchValueLoad", "one two-dimensional source at +0x10", instead_of="values at +0x30"),
    Reading("0.9", "byte +0x22 of searches", "active partitions", instead_of="elements per partition"),
    Reading(
        "0.10",
        "bytes of abs_max, abs_min and mod_int",
        "known where the generation's headers have them",
        instead_of="known everywhere",
    ),
    Reading("0.11", "float32 to integers", "nearest-even, then clamped", instead_of="truncated"),
    Reading(
        "0.12",
        "8-bit floats beyond their range",
        "the greatest finite value",
        "infinity, or NaN where the type has none",
        "fp8_overflow=infinity",
    ),
    Reading("0.13", "FindIndex8, key absent", "all ones", instead_of="undefined"),
    Reading("0.14", "MatchReplace8, equal keys", "key 7 is served first", "key 0 is served first", "match_order=value"),
    Reading("0.15", "start of a pooled maximum", "the least finite float32", "-Inf", _DEVICE),
    Reading(
        "0.16",
        "scale of an average",
        "Pool: the sum times 1/N in float64; across partitions: each element times the scale word, then added",
        "Pool: the sum times the scale word in float32; across partitions the same as by default",
        _DEVICE,
    ),
    Reading(
        "0.17",
        "average of TensorReduce, after the first element (no bundle asks for it)",
        "x times 1/N is added",
        "x divided by N is added",
        "average_step=divide",
    ),
    Reading("0.18", "rank of a search input", "four free dims", instead_of="up to three"),
    Reading(
        "0.19",
        "rate of bfloat16 reductions",
        "half the cycles for add and max from bfloat16 to bfloat16 on v2; no gain on v3 and v4, whose guides list none",
        instead_of="half the cycles on every generation",
    ),
    Reading("0.20", "numbers of the accumulation types", "not used: no instruction of the leg has such a field"),
    Reading("0.21", "axis W", "the fourth free dim; XYZW asks for four of them", instead_of="the partition"),
    Reading("1.1", "NaN that reaches memory", "stored and counted", "an error", "nan_store=error"),
    Reading("1.2", "additions of a pooled sum", "one after another", "four running sums", "pool_sum=lanes4"),
    Reading("1.3", "int32 beyond its range", "clamped at every step", "wraps at every step", _DEVICE),
    Reading("1.4", "int32 sums across partitions", "in float32, then cast", "in int32, wrapping", _DEVICE),
    Reading(
        "1.5", "NaN in Max8", "keeps its slot if it is among the first eight, else passed over", "passed over", _DEVICE
    ),
    Reading(
        "1.6",
        "accumulation of TensorReduce",
        "off",
        "the fold, then what stood in the destination is added",
        "accumulate=True",
    ),
    Reading("1.7", "8-bit float of tag 14", "greatest value 240", "greatest value 448", "fp8_exp4=float8_e4m3fn"),
    Reading("1.8", "writes of float32r", "rounded to 11 fraction bits", "float32 as it is", "fp32r=copy"),
    Reading(
        "1.9",
        "N of an average over partitions alone",
        "what the scale word says; this encoder writes 1 over the partitions",
        "1 over partitions times elements per partition, as one reading of the reference encoder has it",
        "cross_lane_average=product",
    ),
)
"""The readings by number; those of 0 stem from documents that disagree, those of 1 from what they leave open."""
