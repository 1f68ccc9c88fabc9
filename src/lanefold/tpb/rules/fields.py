"""Rules on single fields: header, events, reserved bytes, numbers from tables, factors."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import numpy.typing as npt

from lanefold.diagnostics import Cure, Rule, Severity
from lanefold.numerics.alu import WIRE_ALU
from lanefold.numerics.dtypes import WIRE_DTYPES
from lanefold.tpb import isa
from lanefold.tpb.limits import CHANNELS
from lanefold.tpb.rules.batch import Batch, Mask
from lanefold.tpb.rules.checks import Check, Checks, Explained, listed
from lanefold.tpb.rules.counts import folded

_LENGTH = Rule(
    "TPB-WORD-LENGTH",
    "inst_word_len is 16, the length of every bundle in 4-byte words.",
    "ISA headers: bundle header; Pool Encoding: header skeleton",
    predicate="has_valid_inst_len",
)
_EVENTS = {
    "wait_mode": Rule(
        "TPB-WAIT-MODE",
        "wait_mode is a known wait condition; the published list may lack some.",
        "ISA headers: bundle events",
        Severity.WARNING,
        predicate="has_valid_neuron_events, valid_event_modes",
    ),
    "update_mode": Rule(
        "TPB-UPDATE-MODE",
        "update_mode is a known update action; the published list may lack some.",
        "ISA headers: bundle events",
        Severity.WARNING,
        predicate="has_valid_neuron_events, valid_event_modes",
    ),
    "debug_cmd": Rule(
        "TPB-DEBUG-COMMAND",
        "debug_cmd is a known debug command, 0 as encoded.",
        "Runtime instruction record: debug command",
        Severity.WARNING,
    ),
}
_SCALE = Rule(
    "TPB-POOL-SCALE",
    "pool_scale is exactly 1.0 unless the pool function is average.",
    "ISA headers: is_valid_s4d4_pl",
    predicate="s4d4_pool_scale_valid",
)
_AVERAGE_SCALE = Rule(
    "TPB-POOL-SCALE-AVERAGE",
    "pool_scale of an average pool is the single-precision 1/N of its window.",
    "Pool Engine, The Window-as-Reciprocal Fold",
    Severity.WARNING,
)
_LANE_SCALE = Rule(
    "TPB-CROSS-LANE-SCALE",
    "scale of a cross-lane average is 1/N, N the channels, times the elements per partition where all are reduced.",
    "Pool Encoding 2B; ISA headers: S4D4_CR",
    Severity.WARNING,
)
_MASK = Rule(
    "TPB-GATHER-CHUNK",
    "The mask of a pool buffer load is one less than a power of two up to 512, and start_index has no bit in it.",
    "ISA headers: pool buffer load",
    Severity.WARNING,
)


def _number(code: str, text: str, source: str, predicate: str) -> Rule:
    return Rule(f"TPB-{code}", text, source, predicate=predicate)


NUMBER_RULES: dict[tuple[str, str], Rule] = {
    ("pool_func", "has_valid_pooltype"): _number(
        "POOL-TYPE",
        "pool_func of a pool is 1 (MAX) or 2 (AVG), that of MaxPoolSelect is 0.",
        "ISA headers: is_valid_s4d4_pl; Pool Encoding 1",
        "has_valid_pooltype",
    ),
    ("pool_dim", "is_valid_subdim"): _number(
        "POOL-DIM",
        "pool_dim is 2 (X), 3 (XY), 4 (XYZ) or 5 (XYZW).",
        "ISA headers: is_valid_s4d4_pl",
        "is_valid_subdim (valid_subdim)",
    ),
    ("op_dim", "is_valid_subdim"): _number(
        "REDUCE-DIM",
        "op_dim of a tensor reduce is 2 (X), 3 (XY), 4 (XYZ) or 5 (XYZW).",
        "ISA headers: is_valid_tensor_reduce; Pool Encoding 2A",
        "is_valid_subdim (valid_subdim)",
    ),
    ("mask_enable", "mask_enable_zero"): _number(
        "MASK-ENABLE", "mask_enable is 0.", "ISA headers: S4D4_TR", "mask_enable_zero"
    ),
    ("negated", "has_valid_reduce_negated"): _number(
        "REDUCE-NEGATED",
        "negated is 0 or 1 with an arithmetic operator and 0 with a bit-vector operator.",
        "ISA headers: is_valid_tensor_reduce",
        "has_valid_reduce_negated",
    ),
    ("negated", "has_zero_negated_field"): _number(
        "RECIPROCAL-NEGATED",
        "negated of a reciprocal is 0.",
        "ISA headers: is_valid_reciprocal",
        "has_zero_negated_field",
    ),
    ("op", "s4d4_tr_op_bypass"): _number(
        "RECIPROCAL-OPERATOR",
        "op of a reciprocal is 0 (BYPASS).",
        "ISA headers: is_valid_reciprocal",
        "s4d4_tr_op_bypass",
    ),
    ("op_dim", "is_zero_subdim"): _number(
        "RECIPROCAL-DIM",
        "op_dim of a reciprocal is 0 (UNUSED) or 2 (X).",
        "ISA headers: is_valid_reciprocal; Pool Encoding 3",
        "is_zero_subdim",
    ),
    ("op", ""): _number(
        "BF16-OPERATOR",
        "op of the bfloat16 reduces is ADD (0x04) in the one and MAX (0x08) in the other.",
        "ISA headers: is_valid_tensor_reduce_bf16; the byte itself is a convention",
        "",
    ),
    ("in_dtype", "has_valid_tensor_reduce_bf16_in_dtype"): _number(
        "BF16-DTYPE",
        "in_dtype of the bfloat16 reduces is 6 (BFLOAT16).",
        "ISA headers: is_valid_tensor_reduce_bf16",
        "has_valid_tensor_reduce_bf16_in_dtype",
    ),
    ("out_dtype", "s4d4_pl_dtype_check"): _number(
        "POOL-SELECT-DTYPE",
        "out_dtype of MaxPoolSelect is UINT8, UINT16 or UINT32.",
        "ISA headers: is_valid_s4d4_pl",
        "s4d4_pl_dtype_check",
    ),
    ("reduce_op", "valid_reduce_op_for_opcode"): _number(
        "CROSS-LANE-COMMAND",
        "reduce_op is 0 to 2 (add, average, max) on the arithmetic opcode and 3 to 5 (or, and, xor) on the "
        "bit-vector opcode.",
        "ISA headers: is_valid_cross_lane_reduce; Pool Encoding 2B",
        "valid_reduce_op_for_opcode",
    ),
    ("reduce_axis", "valid_reduce_axis_enum"): _number(
        "CROSS-LANE-AXIS",
        "reduce_axis is 0 (ALL) or 1 (PARTITIONS).",
        "ISA headers: is_valid_cross_lane_reduce; Pool Encoding 2B",
        "valid_reduce_axis_enum",
    ),
    ("out_dtype", "has_find_index8_dst_type"): _number(
        "FIND-INDEX-DTYPE",
        "out_dtype of FindIndex8 is UINT16 or UINT32.",
        "ISA headers: is_valid_find_index8",
        "has_find_index8_dst_type",
    ),
    ("even_count", "s4d2_bn_zero_counts"): _number(
        "SEARCH-EVEN-COUNT",
        "even_count of Max8 and FindIndex8 is 0.0.",
        "ISA headers: is_valid_max8, is_valid_find_index8",
        "s4d2_bn_zero_counts",
    ),
    ("odd_count", "s4d2_bn_zero_counts"): _number(
        "SEARCH-ODD-COUNT",
        "odd_count of Max8 and FindIndex8 is 0.0.",
        "ISA headers: is_valid_max8, is_valid_find_index8",
        "s4d2_bn_zero_counts",
    ),
    ("imm1", ""): _number("KEYS-IMM1", "imm1 of MatchValueLoad is 0.", "ISA headers: is_valid_match_value_load", ""),
    ("imm0_ptr", ""): _number(
        "KEYS-IMM0", "imm0_ptr of MatchValueLoad is 0.", "ISA headers: is_valid_match_value_load", ""
    ),
    ("imm0_src", ""): _number(
        "KEYS-IMM0-SOURCE", "imm0_src of MatchValueLoad is 0.", "ISA headers: is_valid_match_value_load", ""
    ),
    ("in_dtype", "has_gather_index_dtype"): _number(
        "GATHER-INDEX-DTYPE",
        "in_dtype of a gather, the type of its indices, is UINT8, UINT16 or UINT32.",
        "ISA headers: has_gather_index_dtype",
        "has_gather_index_dtype",
    ),
    ("index_miss_behavior", "gather_valid_options"): _number(
        "GATHER-MISS",
        "index_miss_behavior is 0 (write the immediate) or 1 (skip the write).",
        "ISA headers: S4D4_GT",
        "gather_valid_options",
    ),
    ("free_pool_buffer", "gather_valid_options"): _number(
        "GATHER-FREE", "free_pool_buffer is 0 or 1.", "ISA headers: S4D4_GT", "gather_valid_options"
    ),
}
"""Rules on fields whose legal numbers an instruction's row lists, by field and the vendor's name of the check."""


def _spans(struct: isa.Struct) -> tuple[tuple[int, int], ...]:
    return tuple((f.offset, f.count) for f in struct.fields if f.kind is isa.Kind.RESERVED)


def _span_text(struct: isa.Struct) -> str:
    return ", ".join(
        f"0x{offset:02X}" if size == 1 else f"0x{offset:02X}..0x{offset + size - 1:02X}"
        for offset, size in _spans(struct)
    )


RESERVED_RULES: dict[str, Rule] = {
    struct.name: Rule(
        f"TPB-RESERVED-{struct.name.replace('_', '-')}",
        f"Reserved bytes of {struct.name} ({_span_text(struct)}) are zero.",
        struct.source,
        predicate=struct.reserved_predicate,
    )
    for struct in isa.STRUCTS.values()
}
"""One rule per wire struct."""


def names_of(values: str) -> dict[int, str]:
    """Names of the numbers of a wire enumeration."""
    if values == "dtype":
        return {row.tag: row.name for row in WIRE_DTYPES}
    if values == "alu":
        return {row.code: row.name for row in WIRE_ALU}
    return {value.number: value.name for value in isa.ENUMS.get(values, ())}


DTYPE_NAMES = names_of("dtype")
"""Names of the type tags."""


def named(number: int, names: dict[int, str]) -> str:
    """A number with its name, where it has one."""
    return f"{number} ({names[number]})" if number in names else str(number)


def table_check(rule: Rule, field: str, allowed: tuple[int, ...], names: dict[int, str], kind: isa.Kind) -> Check:
    """A check that a scalar field holds one of the numbers listed."""
    if kind is isa.Kind.U8:
        table = np.zeros(256, bool)
        table[list(allowed)] = True

        def ok(batch: Batch) -> Mask:
            found: Mask = table[batch.column(field)]
            return found
    else:

        def ok(batch: Batch) -> Mask:
            column = batch.column(field)
            found: Mask = column == allowed[0]
            for number in allowed[1:]:
                found |= column == number
            return found

    def explain(batch: Batch, at: int) -> Explained:
        got = batch.column(field)[at].item()
        shown = named(got, names)
        return Explained(
            f"{field} of {batch.row.mnemonic} is {shown}",
            shown,
            listed(allowed, names),
            tuple(Cure(f"write {named(number, names)}", {field: number}) for number in allowed[:3]),
        )

    return Check(rule, field, ok, explain)


def header_checks(row: isa.BundleKind, generation: isa.Generation) -> Checks:
    """Length, events and debug command."""
    yield table_check(_LENGTH, "inst_word_len", (isa.WORD_LENGTH,), {}, isa.Kind.U8)
    for field, rule in _EVENTS.items():
        names = names_of(field)
        yield table_check(rule, field, tuple(names), names, isa.Kind.U8)


def number_checks(row: isa.BundleKind, generation: isa.Generation) -> Checks:
    """Fields whose legal numbers the row lists."""
    fields = {field.name: field for field in isa.STRUCTS[row.struct].fields}
    for name, allowed in row.allowed.items():
        rule = NUMBER_RULES[name, row.predicates.get(name, "")]
        yield table_check(rule, name, allowed, names_of(fields[name].values), fields[name].kind)


def channel_checks(row: isa.BundleKind, generation: isa.Generation) -> Checks:
    """num_active_channels."""
    most = isa.GEOMETRY[generation].partitions
    field = "num_active_channels"

    def ok(batch: Batch) -> Mask:
        # 0 wraps to 255.
        found: Mask = (batch.column(field) - np.uint8(1)) < most
        return found

    def explain(batch: Batch, at: int) -> Explained:
        got = int(batch.column(field)[at])
        near = min(max(got, 1), most)
        return Explained(
            f"{field} of {batch.row.mnemonic} is {got}",
            got,
            f"1 to {most}",
            (Cure(f"use {near} partitions", {field: near}),),
        )

    yield Check(CHANNELS, field, ok, explain)


@cache
def _reserved_mask(struct: str) -> npt.NDArray[np.uint64]:
    mask = np.zeros(isa.BUNDLE_BYTES, np.uint8)
    for offset, size in _spans(isa.STRUCTS[struct]):
        mask[offset : offset + size] = 0xFF
    return mask.view(np.uint64)


def reserved_checks(row: isa.BundleKind, generation: isa.Generation) -> Checks:
    """Reserved bytes, eight at a time."""
    struct = isa.STRUCTS[row.struct]
    spans = _spans(struct)
    mask = _reserved_mask(struct.name)
    used = [int(word) for word in np.flatnonzero(mask)]
    if not spans:
        return

    def ok(batch: Batch) -> Mask:
        wide = batch.words.view(np.uint64)
        odd = wide[:, used[0]] & mask[used[0]]
        for word in used[1:]:
            odd |= wide[:, word] & mask[word]
        found: Mask = odd == 0
        return found

    def explain(batch: Batch, at: int) -> Explained:
        word = batch.words[at]
        odd = {o + i: int(word[o + i]) for o, size in spans for i in range(size) if word[o + i]}
        text = ", ".join(f"+0x{offset:02X} = 0x{value:02X}" for offset, value in odd.items())
        names = [f.name for f in struct.fields if f.kind is isa.Kind.RESERVED and batch.record[at][f.name].any()]
        sizes = {f.name: f.count for f in struct.fields}
        return Explained(
            f"reserved bytes of {batch.row.mnemonic} are not zero: {text}",
            text,
            f"zero in {_span_text(struct)}",
            (Cure("clear the reserved bytes", {name: [0] * sizes[name] for name in names}),),
            offset=min(odd),
        )

    yield Check(RESERVED_RULES[struct.name], "", ok, explain)


def _float_check(
    rule: Rule,
    field: str,
    ok: Callable[[Batch], Mask],
    wanted: Callable[[Batch, int], tuple[np.float32, str]],
) -> Check:
    def explain(batch: Batch, at: int) -> Explained:
        got = batch.column(field)[at]
        value, why = wanted(batch, at)
        shown = f"{got} (0x{int(got.view(np.uint32)):08X})"
        return Explained(
            f"{field} of {batch.row.mnemonic} is {shown}, {why}",
            shown,
            f"{value} (0x{int(value.view(np.uint32)):08X})",
            (Cure(f"write {value}", {field: float(value)}),),
        )

    return Check(rule, field, ok, explain)


_AVERAGE = isa.BIR_POOL_FUNCTIONS["Avg"]


def _period(batch: Batch) -> npt.NDArray[np.int64]:
    return folded(batch, "pool_dim")


def _reciprocal(count: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
    found: npt.NDArray[np.float32] = np.float32(1.0) / np.maximum(count, 1).astype(np.float32)
    return found


def _pool_scale(row: isa.BundleKind) -> Checks:
    def plain_ok(batch: Batch) -> Mask:
        found: Mask = batch.column("pool_scale") == np.float32(1.0)
        found |= batch.column("pool_func") == _AVERAGE
        return found

    yield _float_check(
        _SCALE,
        "pool_scale",
        plain_ok,
        lambda batch, at: (np.float32(1.0), "and the function is not average"),
    )
    if _AVERAGE not in row.allowed["pool_func"]:
        return

    def average_ok(batch: Batch) -> Mask:
        found: Mask = batch.column("pool_func") != _AVERAGE
        found |= batch.column("pool_scale") == _reciprocal(_period(batch))
        found |= batch.walk("src").shape
        return found

    def wanted(batch: Batch, at: int) -> tuple[np.float32, str]:
        period = _period(batch)[at : at + 1]
        return _reciprocal(period)[0], f"the window has {period[0]} elements"

    yield _float_check(_AVERAGE_SCALE, "pool_scale", average_ok, wanted)


def _lane_scale() -> Checks:
    average = isa.CROSS_LANE_COMMANDS["average"]

    def count(batch: Batch) -> npt.NDArray[np.int64]:
        everything = batch.column("reduce_axis") == isa.BIR_CROSS_LANE_AXES["XYZWC"][1]
        per_partition = np.where(everything, batch.walk("src").count, np.uint64(1))
        lanes: npt.NDArray[np.int64] = batch.column("num_active_channels") * per_partition.astype(np.int64)
        return lanes

    def ok(batch: Batch) -> Mask:
        found: Mask = batch.column("reduce_op") != average
        found |= batch.column("scale") == _reciprocal(count(batch))
        found |= batch.walk("src").shape
        return found

    def wanted(batch: Batch, at: int) -> tuple[np.float32, str]:
        elements = count(batch)[at : at + 1]
        return _reciprocal(elements)[0], f"{elements[0]} elements are averaged"

    yield _float_check(_LANE_SCALE, "scale", ok, wanted)


def _chunk_mask() -> Checks:
    def ok(batch: Batch) -> Mask:
        mask, start = batch.column("mask"), batch.column("start_index")
        found: Mask = (mask & (mask + np.uint32(1))) == 0
        found &= mask < isa.GATHER_CHUNK
        found &= (start & mask) == 0
        return found

    def explain(batch: Batch, at: int) -> Explained:
        mask, start = int(batch.column("mask")[at]), int(batch.column("start_index")[at])
        whole = isa.GATHER_CHUNK - 1
        return Explained(
            f"mask 0x{mask:X} and start_index {start} do not select one chunk",
            f"mask 0x{mask:X}, start_index 0x{start:X}",
            f"mask 0x{whole:X} or a shorter run of ones, start_index a multiple of mask + 1",
            (Cure("select a chunk of 512", {"mask": whole, "start_index": start & ~whole}),),
        )

    yield Check(_MASK, "mask", ok, explain)


def factor_checks(row: isa.BundleKind, generation: isa.Generation) -> Checks:
    """Scale words and the index bits of a pool buffer load."""
    if row.struct == "S4D4_PL":
        yield from _pool_scale(row)
    elif isa.CROSS_LANE_COMMANDS["average"] in row.allowed.get("reduce_op", ()):
        yield from _lane_scale()
    elif row.counts == "chunk512":
        yield from _chunk_mask()
