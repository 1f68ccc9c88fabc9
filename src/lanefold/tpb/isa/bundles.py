"""Every instruction of the leg as it stands on the wire: opcode per reading, struct, operands, legal numbers."""

from __future__ import annotations

from lanefold.tpb.isa.rows import BundleKind, Confidence, Reading, Role

_SBUF = ("SB",)
_BOTH = ("SB", "PSUM")
_I = Confidence.INFERRED
_C = Confidence.CONVENTION
_D = Confidence.DISASSEMBLY


def _same(opcode: int) -> dict[Reading, int | None]:
    return {"reference": opcode, "headers": opcode}


def _read(field: str = "src", dtype: str = "in_dtype", **more: object) -> Role:
    return Role(field, "read", dtype, **more)  # type: ignore[arg-type]


def _write(field: str = "dst", dtype: str = "out_dtype", **more: object) -> Role:
    return Role(field, "write", dtype, **more)  # type: ignore[arg-type]


_GROUPED = (_read(grouped=True), _write())
_PLAIN = (_read(), _write())
_CROSS_LANE = (_read(memories=_SBUF), _write(memories=_SBUF, channels="one"))
_SEARCH = (_read(confidence=_C), _write(confidence=_C))

_POOL_PREDICATES = {"pool_func": "has_valid_pooltype", "pool_dim": "is_valid_subdim"}
_REDUCE_PREDICATES = {
    "op_dim": "is_valid_subdim",
    "mask_enable": "mask_enable_zero",
    "negated": "has_valid_reduce_negated",
}
_CROSS_LANE_PREDICATES = {"reduce_op": "valid_reduce_op_for_opcode", "reduce_axis": "valid_reduce_axis_enum"}
_FOLDED_DIMS = (2, 3, 4, 5)
_NO_COUNTS = {"even_count": (0,), "odd_count": (0,)}
_NO_COUNTS_PREDICATES = {"even_count": "s4d2_bn_zero_counts", "odd_count": "s4d2_bn_zero_counts"}

_READINGS_NOTE = "the two readings attach the same struct to different opcodes"

BUNDLES: tuple[BundleKind, ...] = (
    BundleKind(
        "pool",
        "Pool",
        "pool",
        "maximum or average of each window of the innermost slots",
        "dst[o] = max or sum of src[o, window] (times pool_scale)",
        "S4D4_PL",
        _same(0x45),
        _GROUPED,
        ("Pool",),
        "Pool Encoding 1; ISA headers: is_valid_s4d4_pl",
        lint_engines=("DVE",),
        allowed={"pool_func": (1, 2), "pool_dim": _FOLDED_DIMS},
        predicates=_POOL_PREDICATES,
        counts="window",
    ),
    BundleKind(
        "max_pool_select",
        "MaxPoolSelect",
        "pool",
        "position of the largest element of each window",
        "dst[o] = argmax over the window of src[o, window]",
        "S4D4_PL",
        _same(0x58),
        _GROUPED,
        ("Pool",),
        "ISA headers: is_valid_s4d4_pl",
        lint_engines=("DVE",),
        allowed={"pool_func": (0,), "pool_dim": _FOLDED_DIMS, "out_dtype": (3, 5, 9)},
        predicates={**_POOL_PREDICATES, "out_dtype": "s4d4_pl_dtype_check"},
        counts="window",
    ),
    BundleKind(
        "tensor_reduce_arith",
        "TensorReduceArithOp",
        "tensor_reduce",
        "fold of the innermost slots by an arithmetic operator",
        "acc = src[o, 0]; acc = op(acc, src[o, j]) in order; dst[o] = acc or -acc",
        "S4D4_TR",
        {"reference": 0x7C, "headers": 0x42},
        _GROUPED,
        ("DVE", "Pool"),
        f"Pool Engine, TensorReduce; Pool Encoding 2A; ISA headers: is_valid_tensor_reduce; {_READINGS_NOTE}",
        allowed={"op_dim": _FOLDED_DIMS, "mask_enable": (0,), "negated": (0, 1)},
        predicates=_REDUCE_PREDICATES,
        counts="fold",
        aliases=("tr_arith",),
    ),
    BundleKind(
        "tensor_reduce_bitvec",
        "TensorReduceBitvecOp",
        "tensor_reduce",
        "fold of the innermost slots by a bit-vector operator on raw bits",
        "acc = src[o, 0]; acc = op(acc, src[o, j]) in order; dst[o] = acc",
        "S4D4_TR",
        {"reference": 0x7D, "headers": 0x52},
        _GROUPED,
        ("DVE", "Pool"),
        f"Pool Engine, TensorReduce; Pool Encoding 2A; ISA headers: is_valid_tensor_reduce; {_READINGS_NOTE}",
        allowed={"op_dim": _FOLDED_DIMS, "mask_enable": (0,), "negated": (0,)},
        predicates=_REDUCE_PREDICATES,
        counts="fold",
        aliases=("tr_bitvec",),
    ),
    BundleKind(
        "transpose_tensor_reduce_arith",
        "TransposeTensorReduceArithOp",
        "tensor_reduce",
        "32×32 transposition of partitions and elements, then an arithmetic fold",
        "src := transpose32(src); then as TensorReduceArithOp",
        "S4D4_TR",
        {"reference": None, "headers": 0x83},
        _GROUPED,
        ("DVE", "Pool"),
        "ISA headers: is_valid_tensor_reduce",
        allowed={"op_dim": _FOLDED_DIMS, "mask_enable": (0,), "negated": (0, 1)},
        predicates=_REDUCE_PREDICATES,
        counts="transpose_fold",
        aliases=("tr_transpose_arith", "tr_arith_transpose"),
    ),
    BundleKind(
        "transpose_tensor_reduce_bitvec",
        "TransposeTensorReduceBitvecOp",
        "tensor_reduce",
        "32×32 transposition of partitions and elements, then a bit-vector fold",
        "src := transpose32(src); then as TensorReduceBitvecOp",
        "S4D4_TR",
        {"reference": None, "headers": 0x84},
        _GROUPED,
        ("DVE", "Pool"),
        "ISA headers: is_valid_tensor_reduce",
        allowed={"op_dim": _FOLDED_DIMS, "mask_enable": (0,), "negated": (0,)},
        predicates=_REDUCE_PREDICATES,
        counts="transpose_fold",
        aliases=("tr_transpose_bitvec", "tr_bitvec_transpose"),
    ),
    BundleKind(
        "tensor_reduce_add_bf16",
        "TensorReduceAddBf16",
        "tensor_reduce",
        "sum over bfloat16 at twice the rate, NeuronCore-v2 only, on explicit request",
        "as TensorReduceArithOp with add",
        "S4D4_TR",
        _same(0x8C),
        (_read(grouped=True, alignment=4), _write()),
        ("DVE",),
        "ISA headers: is_valid_tensor_reduce_bf16",
        generations=("v2",),
        allowed={"in_dtype": (6,), "op": (4,), "op_dim": _FOLDED_DIMS, "mask_enable": (0,), "negated": (0, 1)},
        predicates={**_REDUCE_PREDICATES, "in_dtype": "has_valid_tensor_reduce_bf16_in_dtype"},
        counts="fold",
    ),
    BundleKind(
        "tensor_reduce_max_bf16",
        "TensorReduceMaxBf16",
        "tensor_reduce",
        "maximum over bfloat16 at twice the rate, NeuronCore-v2 only, on explicit request",
        "as TensorReduceArithOp with max",
        "S4D4_TR",
        _same(0x8D),
        (_read(grouped=True, alignment=4), _write()),
        ("DVE",),
        "ISA headers: is_valid_tensor_reduce_bf16",
        generations=("v2",),
        allowed={"in_dtype": (6,), "op": (8,), "op_dim": _FOLDED_DIMS, "mask_enable": (0,), "negated": (0, 1)},
        predicates={**_REDUCE_PREDICATES, "in_dtype": "has_valid_tensor_reduce_bf16_in_dtype"},
        counts="fold",
    ),
    BundleKind(
        "reciprocal",
        "Reciprocal",
        "reciprocal",
        "1/x of every element",
        "dst[i] = 1.0 / src[i]",
        "S4D4_TR",
        _same(0x48),
        _PLAIN,
        ("DVE",),
        "Pool Encoding 3; ISA headers: is_valid_reciprocal",
        allowed={"negated": (0,), "op": (0,), "op_dim": (0, 2), "mask_enable": (0,)},
        predicates={
            "negated": "has_zero_negated_field",
            "op": "s4d4_tr_op_bypass",
            "op_dim": "is_zero_subdim",
            "mask_enable": "mask_enable_zero",
        },
        counts="equal",
    ),
    BundleKind(
        "cross_lane_reduce_arith",
        "CrossLaneReduceArith",
        "cross_lane_reduce",
        "sum, average or maximum across partitions",
        "dst[i] = op over partitions p of src[p, i]; axis ALL: also over i",
        "S4D4_CR",
        {"reference": 0x42, "headers": 0x7C},
        _CROSS_LANE,
        ("Pool",),
        f"Pool Engine, cross-lane fork; Pool Encoding 2B; ISA headers: is_valid_cross_lane_reduce; {_READINGS_NOTE}",
        allowed={"reduce_op": (0, 1, 2), "reduce_axis": (0, 1)},
        predicates=_CROSS_LANE_PREDICATES,
        counts="cross_lane",
        aliases=("cr_arith",),
    ),
    BundleKind(
        "cross_lane_reduce_bitvec",
        "CrossLaneReduceBitvec",
        "cross_lane_reduce",
        "bitwise or, and, xor across partitions on raw bits",
        "dst[i] = op over partitions p of src[p, i]; axis ALL: also over i",
        "S4D4_CR",
        {"reference": 0x52, "headers": 0x7D},
        _CROSS_LANE,
        ("Pool",),
        f"Pool Engine, cross-lane fork; Pool Encoding 2B; ISA headers: is_valid_cross_lane_reduce; {_READINGS_NOTE}",
        allowed={"reduce_op": (3, 4, 5), "reduce_axis": (0, 1)},
        predicates=_CROSS_LANE_PREDICATES,
        counts="cross_lane",
        aliases=("cr_bitvec",),
    ),
    BundleKind(
        "transpose_cross_lane_reduce_arith",
        "TransposeCrossLaneReduceArith",
        "cross_lane_reduce",
        "32×32 transposition of partitions and elements, then an arithmetic reduction across partitions",
        "src := transpose32(src); then as CrossLaneReduceArith",
        "S4D4_CR",
        {"reference": 0x83, "headers": None},
        _CROSS_LANE,
        ("Pool",),
        "Pool Engine, cross-lane fork; the headers know no such instruction",
        confidence=_D,
        allowed={"reduce_op": (0, 1, 2), "reduce_axis": (0, 1)},
        predicates=_CROSS_LANE_PREDICATES,
        counts="transpose_cross_lane",
        aliases=("cr_transpose_arith", "cr_arith_transpose"),
    ),
    BundleKind(
        "transpose_cross_lane_reduce_bitvec",
        "TransposeCrossLaneReduceBitvec",
        "cross_lane_reduce",
        "32×32 transposition of partitions and elements, then a bitwise reduction across partitions",
        "src := transpose32(src); then as CrossLaneReduceBitvec",
        "S4D4_CR",
        {"reference": 0x84, "headers": None},
        _CROSS_LANE,
        ("Pool",),
        "Pool Engine, cross-lane fork; the headers know no such instruction",
        confidence=_D,
        allowed={"reduce_op": (3, 4, 5), "reduce_axis": (0, 1)},
        predicates=_CROSS_LANE_PREDICATES,
        counts="transpose_cross_lane",
        aliases=("cr_transpose_bitvec", "cr_bitvec_transpose"),
    ),
    BundleKind(
        "max8",
        "Max8",
        "max8",
        "the eight largest elements of each partition, descending in memory",
        "dst[7-k] = k-th smallest of the eight largest of src",
        "S4D2_BN",
        _same(0x6C),
        _SEARCH,
        ("DVE",),
        "Pool Engine, MAX8; ISA headers: is_valid_max8",
        allowed=_NO_COUNTS,
        predicates=_NO_COUNTS_PREDICATES,
        counts="search8",
    ),
    BundleKind(
        "match_value_load",
        "MatchValueLoad",
        "max_index",
        "loads the eight keys of a search; key k goes to match register 7-k",
        "match[7-k] = src[k]",
        "S2_BN",
        _same(0x6D),
        (_read(dtype="dtype", confidence=_C),),
        ("DVE",),
        "ISA headers: is_valid_match_value_load",
        allowed={"imm1": (0,), "imm0_ptr": (0,), "imm0_src": (0,)},
        counts="keys8",
    ),
    BundleKind(
        "find_index8",
        "FindIndex8",
        "max_index",
        "the index of the first element that equals each of the eight keys, all ones where none does",
        "dst[n] = first i not yet taken with src[i] == match[n]",
        "S4D2_BN",
        _same(0x6E),
        _SEARCH,
        ("DVE",),
        "Pool Engine, FIND_INDEX8; ISA headers: is_valid_find_index8",
        allowed={"out_dtype": (5, 9), **_NO_COUNTS},
        predicates={"out_dtype": "has_find_index8_dst_type", **_NO_COUNTS_PREDICATES},
        counts="search8",
    ),
    BundleKind(
        "match_replace8",
        "MatchReplace8",
        "match_replace",
        "copies the data, with one element per key overwritten by the immediate",
        "dst[i] = immediate if src[i] == some match register not yet used, else src[i]",
        "S4D4_MR",
        _same(0x6F),
        _SEARCH,
        ("DVE",),
        "ISA headers: is_valid_match_replace8",
        counts="replace",
    ),
    BundleKind(
        "iota",
        "Iota",
        "iota",
        "a counting pattern",
        "dst[c, w, z, y, x] = base + c*channel_multiplier + w*step3 + z*step2 + y*step1 + x*step0",
        "D4_IOTA",
        _same(0x7E),
        (_write(),),
        ("Pool",),
        "Pool Encoding 4; ISA headers: is_valid_iota",
        counts="generator",
    ),
    BundleKind(
        "pool_buffer_load",
        "PoolBufferLoad",
        "gather",
        "copies a chunk of up to 512 raw elements into the pool buffer",
        "buffer[i] = src[i]",
        "S4_PB",
        _same(0x67),
        (_read(memories=_SBUF),),
        ("Pool",),
        "Pool Encoding 5; ISA headers: is_valid_pool_buffer_load",
        counts="chunk512",
        lint_engines=("DVE",),
    ),
    BundleKind(
        "gather",
        "Gather",
        "gather",
        "looks indices up in the pool buffer",
        "dst[i] = buffer[src[i] & mask] if src[i] & ~mask == start_index, else by index_miss_behavior",
        "S4D4_GT",
        _same(0x68),
        (_read(), _write()),
        ("Pool",),
        "Pool Encoding 5; ISA headers: S4D4_GT",
        lint_engines=("DVE",),
        allowed={"in_dtype": (3, 5, 9), "index_miss_behavior": (0, 1), "free_pool_buffer": (0, 1)},
        predicates={
            "in_dtype": "has_gather_index_dtype",
            "index_miss_behavior": "gather_valid_options",
            "free_pool_buffer": "gather_valid_options",
        },
        counts="equal",
        aliases=("reg_load",),
    ),
)
"""Every instruction of the leg, in the order of the documents."""

BY_NAME: dict[str, BundleKind] = {row.name: row for row in BUNDLES}

GATHER_ORDER: dict[Reading, tuple[str, str]] = {
    "reference": ("gather", "pool_buffer_load"),
    "headers": ("pool_buffer_load", "gather"),
}
"""Order in which the two bundles of one gather chunk are emitted; the pair acts as one, buffer first."""
GATHER_CHUNK = 512
"""Elements of the pool buffer per partition (ISA headers: pool buffer load)."""
SEARCH_COUNT = (8, 16384)
"""Least and greatest element count per partition of Max8 and FindIndex8 (Pool Engine, MAX8)."""
TRANSPOSE_BLOCK = 32
"""Side of the square blocks that the transposing reductions exchange (ISA headers: stream transpose)."""
