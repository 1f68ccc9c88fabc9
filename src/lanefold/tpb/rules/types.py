"""Rules on element types and operators."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import numpy.typing as npt

from lanefold.diagnostics import RULES, Cure, Rule, Severity
from lanefold.numerics.alu import WIRE_ALU, WireAlu
from lanefold.numerics.dtypes import WIRE_DTYPES, by_name
from lanefold.tpb import isa
from lanefold.tpb.rules.batch import Batch, Mask
from lanefold.tpb.rules.checks import Check, Checks, Explained
from lanefold.tpb.rules.fields import DTYPE_NAMES, named, names_of

_MEMBER = RULES["TPB-DTYPE-TAG"]
_OPERATOR = RULES["TPB-ALU-CODE"]
_ROUNDED = Rule(
    "TPB-DTYPE-FP32R",
    "FP32R is an output type only; sources are never FP32R.",
    "ISA headers: is_valid_dtype",
    predicate="dtype_fp32r_illegal_check",
)
_WIDE = Rule(
    "TPB-DTYPE-64BIT",
    "64-bit integers are legal in a tensor reduce from v3 on and nowhere else.",
    "ISA headers: is_valid_dtype, is_valid_dtype_64",
    predicate="dtype_uint64_illegal_check, dtype_int64_illegal_check (is_valid_dtype_64)",
)
_PACKED = Rule(
    "TPB-DTYPE-FP4",
    "The 4-bit type FP4_EXP2 (float4_e2m1fn_x4 on v4) is never legal on this leg.",
    "ISA headers: is_valid_dtype from v4 on",
    predicate="dtype_fp4_illegal_check",
)
_CLASS = Rule(
    "TPB-REDUCE-ALU-CLASS",
    "An arithmetic tensor reduce folds with a general arithmetic operator, or with an integer operator over 32- or "
    "64-bit integers; a bit-vector one with a bit-vector operator.",
    "ISA headers: is_valid_tensor_reduce; ALU operator classes",
    predicate="tensor_reduce_valid_alu_op",
)
_BITVEC = Rule(
    "TPB-REDUCE-BITVEC-DTYPE",
    "A bit-vector tensor reduce has the same type on both sides, UINT8, UINT16, UINT32 or INT32; a logical shift "
    "right has INT32.",
    "ISA headers: is_valid_tensor_reduce",
    predicate="tensor_reduce_valid_dtype",
)
_ARGUMENT = Rule(
    "TPB-REDUCE-ARG-DTYPE",
    "A tensor reduce that finds positions (AMAX, AMIN) writes UINT32.",
    "ISA headers: ALU operator classes",
    predicate="tensor_reduce_valid_dtype",
)
_LANE_BITS = Rule(
    "TPB-CROSS-LANE-DTYPE",
    "A bit-vector cross-lane reduce has the same type on both sides, an integer of 1, 2 or 4 bytes.",
    "ISA headers: cross-lane reduce on raw bits; ALU type matrix",
)
_PAIRS = Rule(
    "TPB-BF16-PATTERN",
    "The source of a bfloat16 reduce is read in pairs: innermost step 1 and an even innermost num.",
    "ISA headers: is_valid_tensor_reduce_bf16",
    predicate="tensor_reduce_bf16_access_pattern_check",
)
_RANGE = Rule(
    "TPB-IOTA-RANGE",
    "The values of an iota are exact in its output type.",
    "Pool Encoding 4; ISA headers: iota, 32-bit counter and cast",
    Severity.WARNING,
)

_ALU_NAMES = names_of("alu")
_TAGS = {row.name: row.tag for row in WIRE_DTYPES}
_WIDE_TAGS = tuple(row.tag for row in WIRE_DTYPES if row.alignment == 8)
_BITVEC_TAGS = tuple(_TAGS[name] for name in ("UINT8", "UINT16", "UINT32", "INT32"))
_LANE_TAGS = tuple(_TAGS[name] for name in ("INT8", "UINT8", "INT16", "UINT16", "INT32", "UINT32"))
_SAME_SIZE = {row.tag: _TAGS[{1: "UINT8", 2: "UINT16"}.get(row.alignment, "UINT32")] for row in WIRE_DTYPES}
_INTEGER_TAGS = tuple(_TAGS[name] for name in ("INT32", "UINT32", "INT64", "UINT64"))
_PLAIN = "INT8, UINT8, INT16, UINT16, INT32, UINT32, FP16, BFLOAT16, FP32, FP8_EXP3, FP8_EXP4, FP8_EXP5"


def lookup(numbers: tuple[int, ...], *, inside: bool = True) -> npt.NDArray[np.bool_]:
    """A table over a byte, true for the numbers given (or for all others)."""
    table = np.full(256, not inside)
    table[list(numbers)] = inside
    return table


def _tag_check(rule: Rule, field: str, table: npt.NDArray[np.bool_], why: str, allowed: str) -> Check:
    def ok(batch: Batch) -> Mask:
        found: Mask = table[batch.column(field)]
        return found

    def explain(batch: Batch, at: int) -> Explained:
        got = named(int(batch.column(field)[at]), DTYPE_NAMES)
        return Explained(
            f"{field} of {batch.row.mnemonic} is {got}, {why}",
            got,
            allowed,
            (
                Cure("cast to FP32", {field: _TAGS["FP32"]}),
                Cure("cast to BFLOAT16", {field: _TAGS["BFLOAT16"]}),
            ),
        )

    return Check(rule, field, ok, explain)


def dtype_checks(row: isa.BundleKind, generation: isa.Generation) -> Checks:
    """Membership and the types that a role may not have."""
    known = tuple(r.tag for r in WIRE_DTYPES if isa.GENERATIONS.index(r.since) <= isa.GENERATIONS.index(generation))
    wide = row.family == "tensor_reduce" and row.generations == isa.GENERATIONS and generation != "v2"
    for role in row.roles:
        field = role.dtype_field
        output = role.access == "write"
        plain = _PLAIN + (", INT64, UINT64" if wide else "") + (", FP32R" if output else "")
        yield _tag_check(_MEMBER, field, lookup(known), f"which means nothing on {generation}", plain)
        if not output:
            yield _tag_check(_ROUNDED, field, lookup((_TAGS["FP32R"],), inside=False), "legal only as an output", plain)
        if not wide:
            yield _tag_check(_WIDE, field, lookup(_WIDE_TAGS, inside=False), f"a 64-bit integer on {generation}", plain)
        if generation == "v4":
            yield _tag_check(_PACKED, field, lookup((_TAGS["FP4_EXP2"],), inside=False), "a 4-bit type", plain)


def _entries(generation: isa.Generation, wanted: Callable[[WireAlu], bool]) -> tuple[WireAlu, ...]:
    return tuple(row for row in WIRE_ALU if row.exists(generation) and wanted(row))


def integer_codes(generation: isa.Generation) -> tuple[int, ...]:
    """Operator bytes that the Pool engine folds in exact integers: the integer class and argmax, argmin."""
    return tuple(row.code for row in _entries(generation, lambda r: r.integer or r.name.startswith("AM")))


@cache
def _class_tables(generation: isa.Generation, bits: bool) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    own = _entries(generation, lambda r: r.bitvec if bits else r.general_arith)
    return lookup(tuple(r.code for r in own)), lookup(() if bits else integer_codes(generation))


def operator_checks(row: isa.BundleKind, generation: isa.Generation) -> Checks:
    """The operator byte of a tensor reduce."""
    if row.family not in ("tensor_reduce", "reciprocal"):
        return
    known = _entries(generation, lambda r: True)
    member = lookup(tuple(r.code for r in known))

    def member_ok(batch: Batch) -> Mask:
        found: Mask = member[batch.column("op")]
        return found

    def member_explain(batch: Batch, at: int) -> Explained:
        got = f"0x{int(batch.column('op')[at]):02X}"
        return Explained(
            f"op of {batch.row.mnemonic} is {got}, which is no operator of {generation}",
            got,
            ", ".join(f"0x{r.code:02X} {r.name}" for r in known),
            (_operator_cure(batch.row),),
        )

    yield Check(_OPERATOR, "op", member_ok, member_explain)
    if row.family == "tensor_reduce" and "op" not in row.allowed:
        yield _class_check(row, generation)
        yield from _operator_dtypes(row, generation)


def is_bitvec(row: isa.BundleKind) -> bool:
    """Whether an instruction works on raw bits."""
    return row.name.endswith("_bitvec")


def _operator_cure(row: isa.BundleKind) -> Cure:
    name = "BITWISE_OR" if is_bitvec(row) else "BYPASS" if row.family == "reciprocal" else "ADD"
    code = next(r.code for r in WIRE_ALU if r.name == name)
    return Cure(f"use 0x{code:02X} {name}", {"op": code})


def _class_check(row: isa.BundleKind, generation: isa.Generation) -> Check:
    bits = is_bitvec(row)
    own, integers = _class_tables(generation, bits)
    integer_types = lookup(_INTEGER_TAGS)
    wanted = _entries(generation, lambda r: r.bitvec if bits else r.general_arith)

    def ok(batch: Batch) -> Mask:
        column = batch.column("op")
        found: Mask = own[column]
        if not bits:
            found |= integers[column] & integer_types[batch.column("in_dtype")]
        return found

    def explain(batch: Batch, at: int) -> Explained:
        code = int(batch.column("op")[at])
        name = _ALU_NAMES.get(code, "unassigned")
        kind = "bit-vector" if bits else "general arithmetic"
        also = "" if bits else "; integer operators over 32- and 64-bit integers"
        return Explained(
            f"op 0x{code:02X} ({name}) is no {kind} operator, which {batch.row.mnemonic} needs",
            f"0x{code:02X} {name} over {named(int(batch.column('in_dtype')[at]), DTYPE_NAMES)}",
            ", ".join(f"0x{r.code:02X} {r.name}" for r in wanted) + also,
            (_operator_cure(batch.row),),
        )

    return Check(_CLASS, "op", ok, explain)


def _operator_dtypes(row: isa.BundleKind, generation: isa.Generation) -> Checks:
    if is_bitvec(row):
        yield _bitvec_check()
        return
    positions = lookup(tuple(r.code for r in _entries(generation, lambda r: r.name.startswith("AM"))))
    if not positions.any():
        return

    def ok(batch: Batch) -> Mask:
        found: Mask = ~positions[batch.column("op")]
        found |= batch.column("out_dtype") == _TAGS["UINT32"]
        return found

    def explain(batch: Batch, at: int) -> Explained:
        got = named(int(batch.column("out_dtype")[at]), DTYPE_NAMES)
        name = _ALU_NAMES[int(batch.column("op")[at])]
        return Explained(
            f"{name} writes positions as {got}",
            got,
            named(_TAGS["UINT32"], DTYPE_NAMES),
            (Cure("write UINT32", {"out_dtype": _TAGS["UINT32"]}),),
        )

    yield Check(_ARGUMENT, "out_dtype", ok, explain)


def _bitvec_check() -> Check:
    legal = lookup(_BITVEC_TAGS)
    shift = next(r.code for r in WIRE_ALU if r.name == "LOGICAL_SHIFT_RIGHT")

    def ok(batch: Batch) -> Mask:
        source = batch.column("in_dtype")
        found: Mask = legal[source]
        found &= source == batch.column("out_dtype")
        found &= (batch.column("op") != shift) | (source == _TAGS["INT32"])
        return found

    def explain(batch: Batch, at: int) -> Explained:
        source, out = int(batch.column("in_dtype")[at]), int(batch.column("out_dtype")[at])
        shifting = int(batch.column("op")[at]) == shift
        got = f"{named(source, DTYPE_NAMES)} in, {named(out, DTYPE_NAMES)} out"
        tags = (_TAGS["INT32"],) if shifting else _BITVEC_TAGS
        choice = source if source in tags else out if out in tags else tags[-1]
        what = f"{_ALU_NAMES[shift]} of {batch.row.mnemonic}" if shifting else batch.row.mnemonic
        return Explained(
            f"{what} works on raw bits and has {got}",
            got,
            "the same type on both sides: " + ", ".join(DTYPE_NAMES[tag] for tag in tags),
            (Cure(f"use {DTYPE_NAMES[choice]} on both sides", {"in_dtype": choice, "out_dtype": choice}),),
        )

    return Check(_BITVEC, "in_dtype", ok, explain)


def lane_dtype_checks(row: isa.BundleKind, generation: isa.Generation) -> Checks:
    """Types of a bit-vector cross-lane reduce."""
    if row.family != "cross_lane_reduce" or not is_bitvec(row):
        return

    legal = lookup(_LANE_TAGS)

    def ok(batch: Batch) -> Mask:
        source = batch.column("in_dtype")
        found: Mask = legal[source] & (source == batch.column("out_dtype"))
        return found

    def explain(batch: Batch, at: int) -> Explained:
        source, out = int(batch.column("in_dtype")[at]), int(batch.column("out_dtype")[at])
        got = f"{named(source, DTYPE_NAMES)} in, {named(out, DTYPE_NAMES)} out"
        choice = source if source in _LANE_TAGS else _SAME_SIZE.get(source, _TAGS["UINT32"])
        return Explained(
            f"{batch.row.mnemonic} moves raw bits and has {got}",
            got,
            "the same type on both sides: " + ", ".join(DTYPE_NAMES[tag] for tag in _LANE_TAGS),
            (
                Cure("write the type that is read", {"out_dtype": source})
                if choice == source
                else Cure(f"move the bits as {DTYPE_NAMES[choice]}", {"in_dtype": choice, "out_dtype": choice}),
            ),
        )

    yield Check(_LANE_BITS, "out_dtype", ok, explain)


def pair_checks(row: isa.BundleKind, generation: isa.Generation) -> Checks:
    """The source walk of the bfloat16 reduces."""
    if row.predicates.get("in_dtype") != "has_valid_tensor_reduce_bf16_in_dtype":
        return

    def ok(batch: Batch) -> Mask:
        walk = batch.walk("src")
        found: Mask = (walk.steps[0] == 1) & ((walk.nums[0] & 1 == 0) | walk.shape)
        return found

    def explain(batch: Batch, at: int) -> Explained:
        walk = batch.walk("src")
        steps = [int(step[at]) for step in walk.steps]
        nums = [int(num[at]) for num in walk.nums]
        return Explained(
            f"the innermost pair of {batch.row.mnemonic} is step {steps[0]}, num {nums[0]}",
            f"step {steps[0]}, num {nums[0]}",
            "step 1, an even num",
            (
                Cure(
                    "read neighbouring elements in pairs",
                    {"src.step_elem": [1, *steps[1:]], "src.num_elem": [max(nums[0] & ~1, 2), *nums[1:]]},
                ),
                "use the plain TensorReduceArithOp",
            ),
        )

    yield Check(_PAIRS, "src.num_elem", ok, explain)


@cache
def _exact() -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    low, high = np.full(256, -np.inf), np.full(256, np.inf)
    for row in WIRE_DTYPES:
        dtype = by_name(row.canonical)
        if dtype.is_integer:
            signed = dtype.kind == "signed"
            high[row.tag] = float(dtype.largest)
            low[row.tag] = -float(dtype.largest) - 1 if signed else 0.0
        elif dtype.is_float:
            high[row.tag] = min(2.0 ** (dtype.mantissa + 1), float(dtype.largest))
            low[row.tag] = -high[row.tag]
    return low, high


def range_checks(row: isa.BundleKind, generation: isa.Generation) -> Checks:
    """The values of an iota against its output type."""
    if row.counts != "generator":
        return
    low, high = _exact()

    def span(batch: Batch) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        least = batch.column("base").astype(np.float64)
        most = least.copy()
        steps, nums = batch.record["step_elem"], batch.record["num_elem"]
        reaches = [steps[:, slot] * (nums[:, slot].astype(np.float64) - 1) for slot in range(4)]
        lanes = batch.column("num_active_channels").astype(np.float64) - 1
        reaches.append(batch.column("channel_multiplier") * lanes)
        for reach in reaches:
            least += np.minimum(reach, 0)
            most += np.maximum(reach, 0)
        return least, most

    def ok(batch: Batch) -> Mask:
        least, most = span(batch)
        tags = batch.column("out_dtype")
        found: Mask = (least >= low[tags]) & (most <= high[tags])
        return found

    def explain(batch: Batch, at: int) -> Explained:
        least, most = (int(ends[at]) for ends in span(batch))
        tag = int(batch.column("out_dtype")[at])
        name = DTYPE_NAMES.get(tag, str(tag))
        wide = _TAGS["INT32"]
        fits = low[wide] <= least and most <= high[wide]
        quiet = {"base": 0, "step_elem": [0, 0, 0, 0], "channel_multiplier": 0}
        return Explained(
            f"the iota counts from {least} to {most}, beyond what {name} holds exactly",
            f"{least} to {most} in {name}",
            f"{low[tag]:.0f} to {high[tag]:.0f}",
            (Cure("write INT32", {"out_dtype": wide}) if fits else Cure("count in smaller ranges", quiet),),
        )

    yield Check(_RANGE, "out_dtype", ok, explain)
