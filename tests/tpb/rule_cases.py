"""One case per rule: something legal, something that breaks the rule, and the sentence that says so."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np

import lanefold.tpb as tpb
from lanefold.tpb.binary import layout
from lanefold.tpb.binary.encode import encode_columns, joined_sync
from lanefold.tpb.patterns import address_word
from tests.tpb.rule_bundles import OTHER, PSUM

NONE: Mapping[str, Any] = MappingProxyType({})
REGISTER, SHAPE, INDIRECT = 1 << 31, 1 << 30, 1 << 29


@dataclass(frozen=True)
class BundleCase:
    """Fields of a legal bundle that are changed so that one rule is broken."""

    code: str
    name: str
    changes: Mapping[str, Any]
    message: str
    generation: str = "v2"
    reading: str = "reference"
    engine: str = ""
    legal_engine: str = ""
    legal: Mapping[str, Any] = field(default_factory=lambda: NONE)
    """Changes that make the valid row, where the plain legal bundle will not do."""


@dataclass(frozen=True)
class InstructionCase:
    """Parts of a legal instruction that are changed so that one rule is broken."""

    code: str
    opcode: str
    changes: Mapping[str, Any]
    message: str
    generation: str = "v2"
    reading: str = "reference"


@dataclass(frozen=True)
class CallCase:
    """A call that refuses its argument, or returns findings about it.

    ``cure`` is what the first cure says, ``cured`` the argument with just that done.
    """

    code: str
    call: Callable[[Any], object]
    valid: Any
    invalid: Any
    message: str
    cure: str
    cured: Any


BUNDLE_CASES = (
    BundleCase("TPB-WORD-LENGTH", "pool", {"inst_word_len": 17}, "inst_word_len of Pool is 17"),
    BundleCase("TPB-WAIT-MODE", "pool", {"wait_mode": 0x08}, "wait_mode of Pool is 8"),
    BundleCase("TPB-UPDATE-MODE", "pool", {"update_mode": 0x06}, "update_mode of Pool is 6"),
    BundleCase("TPB-DEBUG-COMMAND", "pool", {"debug_cmd": 2}, "debug_cmd of Pool is 2"),
    BundleCase(
        "TPB-POOL-SCALE",
        "pool",
        {"pool_scale": 0.25},
        "pool_scale of Pool is 0.25 (0x3E800000), and the function is not average",
    ),
    BundleCase(
        "TPB-POOL-SCALE-AVERAGE",
        "pool",
        {"pool_func": 2},
        "pool_scale of Pool is 1.0 (0x3F800000), the window has 4 elements",
        legal={"pool_func": 2, "pool_scale": 0.25},
    ),
    BundleCase(
        "TPB-CROSS-LANE-SCALE",
        "cross_lane_reduce_arith",
        {"reduce_op": 1},
        "scale of CrossLaneReduceArith is 0.0 (0x00000000), 32 elements are averaged",
        legal={"reduce_op": 1, "scale": 2**-5},
    ),
    BundleCase(
        "TPB-GATHER-CHUNK",
        "pool_buffer_load",
        {"start_index": 513},
        "mask 0x1FF and start_index 513 do not select one chunk",
    ),
    BundleCase("TPB-POOL-TYPE", "pool", {"pool_func": 3}, "pool_func of Pool is 3"),
    BundleCase("TPB-POOL-DIM", "pool", {"pool_dim": 1}, "pool_dim of Pool is 1"),
    BundleCase("TPB-REDUCE-DIM", "tensor_reduce_arith", {"op_dim": 6}, "op_dim of TensorReduceArithOp is 6"),
    BundleCase("TPB-MASK-ENABLE", "tensor_reduce_arith", {"mask_enable": 1}, "mask_enable of TensorReduceArithOp is 1"),
    BundleCase(
        "TPB-REDUCE-NEGATED", "tensor_reduce_bitvec", {"negated": 1}, "negated of TensorReduceBitvecOp is 1 (yes)"
    ),
    BundleCase("TPB-RECIPROCAL-NEGATED", "reciprocal", {"negated": 1}, "negated of Reciprocal is 1 (yes)"),
    BundleCase("TPB-RECIPROCAL-OPERATOR", "reciprocal", {"op": 4}, "op of Reciprocal is 4 (ADD)"),
    BundleCase("TPB-RECIPROCAL-DIM", "reciprocal", {"op_dim": 3}, "op_dim of Reciprocal is 3 (XY)"),
    BundleCase("TPB-BF16-OPERATOR", "tensor_reduce_add_bf16", {"op": 8}, "op of TensorReduceAddBf16 is 8 (MAX)"),
    BundleCase(
        "TPB-BF16-DTYPE", "tensor_reduce_max_bf16", {"in_dtype": 7}, "in_dtype of TensorReduceMaxBf16 is 7 (FP16)"
    ),
    BundleCase(
        "TPB-POOL-SELECT-DTYPE", "max_pool_select", {"out_dtype": 10}, "out_dtype of MaxPoolSelect is 10 (FP32)"
    ),
    BundleCase(
        "TPB-CROSS-LANE-COMMAND",
        "cross_lane_reduce_bitvec",
        {"reduce_op": 2},
        "reduce_op of CrossLaneReduceBitvec is 2 (max)",
    ),
    BundleCase(
        "TPB-CROSS-LANE-AXIS", "cross_lane_reduce_arith", {"reduce_axis": 2}, "reduce_axis of CrossLaneReduceArith is 2"
    ),
    BundleCase("TPB-FIND-INDEX-DTYPE", "find_index8", {"out_dtype": 8}, "out_dtype of FindIndex8 is 8 (INT32)"),
    BundleCase("TPB-SEARCH-EVEN-COUNT", "max8", {"even_count": 1.0}, "even_count of Max8 is 1.0"),
    BundleCase("TPB-SEARCH-ODD-COUNT", "find_index8", {"odd_count": 0.5}, "odd_count of FindIndex8 is 0.5"),
    BundleCase("TPB-KEYS-IMM1", "match_value_load", {"imm1": 7}, "imm1 of MatchValueLoad is 7"),
    BundleCase("TPB-KEYS-IMM0", "match_value_load", {"imm0_ptr": 7}, "imm0_ptr of MatchValueLoad is 7"),
    BundleCase("TPB-KEYS-IMM0-SOURCE", "match_value_load", {"imm0_src": 7}, "imm0_src of MatchValueLoad is 7"),
    BundleCase("TPB-GATHER-INDEX-DTYPE", "gather", {"in_dtype": 8}, "in_dtype of Gather is 8 (INT32)"),
    BundleCase("TPB-GATHER-MISS", "gather", {"index_miss_behavior": 2}, "index_miss_behavior of Gather is 2"),
    BundleCase("TPB-GATHER-FREE", "gather", {"free_pool_buffer": 2}, "free_pool_buffer of Gather is 2"),
    BundleCase(
        "TPB-RESERVED-S4D4-PL", "pool", {"reserved1": [0, 5]}, "reserved bytes of Pool are not zero: +0x27 = 0x05"
    ),
    BundleCase(
        "TPB-RESERVED-S4D4-TR",
        "tensor_reduce_arith",
        {"reserved": [1, 0, 0, 0, 2]},
        "reserved bytes of TensorReduceArithOp are not zero: +0x27 = 0x01, +0x2B = 0x02",
    ),
    BundleCase(
        "TPB-RESERVED-S4D4-CR",
        "cross_lane_reduce_arith",
        {"reserved": [0, 0, 9]},
        "reserved bytes of CrossLaneReduceArith are not zero: +0x27 = 0x09",
    ),
    BundleCase(
        "TPB-RESERVED-S4D2-BN", "max8", {"reserved1": [0, 0, 0, 1]}, "reserved bytes of Max8 are not zero: +0x3F = 0x01"
    ),
    BundleCase(
        "TPB-RESERVED-S2-BN",
        "match_value_load",
        {"reserved3": [1] + [0] * 14},
        "reserved bytes of MatchValueLoad are not zero: +0x31 = 0x01",
    ),
    BundleCase(
        "TPB-RESERVED-S4D4-MR",
        "match_replace8",
        {"reserved": [0, 0, 1, 0, 0]},
        "reserved bytes of MatchReplace8 are not zero: +0x25 = 0x01",
    ),
    BundleCase(
        "TPB-RESERVED-D4-IOTA", "iota", {"reserved0": [10]}, "reserved bytes of Iota are not zero: +0x20 = 0x0A"
    ),
    BundleCase(
        "TPB-RESERVED-S4-PB",
        "pool_buffer_load",
        {"reserved2": [0] * 15 + [1]},
        "reserved bytes of PoolBufferLoad are not zero: +0x3F = 0x01",
    ),
    BundleCase(
        "TPB-RESERVED-S4D4-GT", "gather", {"reserved0": [1]}, "reserved bytes of Gather are not zero: +0x23 = 0x01"
    ),
    BundleCase("TPB-CHANNELS", "pool", {"num_active_channels": 129}, "num_active_channels of Pool is 129"),
    BundleCase("TPB-DTYPE-TAG", "pool", {"in_dtype": 0}, "in_dtype of Pool is 0, which means nothing on v2"),
    BundleCase(
        "TPB-DTYPE-FP32R",
        "reciprocal",
        {"in_dtype": 11},
        "in_dtype of Reciprocal is 11 (FP32R), legal only as an output",
        legal={"out_dtype": 11},
    ),
    BundleCase(
        "TPB-DTYPE-64BIT",
        "tensor_reduce_arith",
        {"in_dtype": 12},
        "in_dtype of TensorReduceArithOp is 12 (INT64), a 64-bit integer on v2",
    ),
    BundleCase(
        "TPB-DTYPE-FP4", "pool", {"in_dtype": 16}, "in_dtype of Pool is 16 (FP4_EXP2), a 4-bit type", generation="v4"
    ),
    BundleCase(
        "TPB-ALU-CODE",
        "tensor_reduce_arith",
        {"op": 0x1F},
        "op of TensorReduceArithOp is 0x1F, which is no operator of v2",
    ),
    BundleCase(
        "TPB-REDUCE-ALU-CLASS",
        "tensor_reduce_arith",
        {"op": 0x1A},
        "op 0x1A (POW) is no general arithmetic operator, which TensorReduceArithOp needs",
    ),
    BundleCase(
        "TPB-REDUCE-BITVEC-DTYPE",
        "tensor_reduce_bitvec",
        {"op": 0x11},
        "LOGICAL_SHIFT_RIGHT of TensorReduceBitvecOp works on raw bits and has 9 (UINT32) in, 9 (UINT32) out",
    ),
    BundleCase(
        "TPB-REDUCE-ARG-DTYPE",
        "tensor_reduce_arith",
        {"op": 0xDE, "in_dtype": 8, "out_dtype": 8},
        "AMAX_INT writes positions as 8 (INT32)",
        generation="v3",
        legal={"op": 0xDE, "in_dtype": 8, "out_dtype": 9},
    ),
    BundleCase(
        "TPB-CROSS-LANE-DTYPE",
        "cross_lane_reduce_bitvec",
        {"out_dtype": 9},
        "CrossLaneReduceBitvec moves raw bits and has 5 (UINT16) in, 9 (UINT32) out",
    ),
    BundleCase(
        "TPB-BF16-PATTERN",
        "tensor_reduce_add_bf16",
        {"src.step_elem": [2, 64, 1, 1]},
        "the innermost pair of TensorReduceAddBf16 is step 2, num 32",
    ),
    BundleCase(
        "TPB-IOTA-RANGE",
        "iota",
        {"out_dtype": 6},
        "the iota counts from 5 to 31136, beyond what BFLOAT16 holds exactly",
    ),
    BundleCase(
        "TPB-PATTERN-NUM",
        "pool",
        {"dst.num_elem": [8, 0, 1, 1]},
        "dst.num_elem of Pool is [8, 0, 1, 1]: a count of 0 is illegal",
    ),
    BundleCase(
        "TPB-ADDRESS-FORM",
        "pool",
        {"src.start_addr": INDIRECT | SHAPE},
        "start address 0x60000000 is marked as indirect and as shaped by a register",
    ),
    BundleCase(
        "TPB-ADDRESS-REGISTER",
        "pool",
        {"src.start_addr": REGISTER | 64},
        "start address 0x80000040 names no address register",
        legal={"src.start_addr": REGISTER | 63},
    ),
    BundleCase("TPB-INDIRECT-OPERAND", "pool", {"src.start_addr": INDIRECT | 64}, "src of Pool is indirect on v2"),
    BundleCase(
        "TPB-OPERAND-PARTITION",
        "pool",
        {"src.start_addr": 192 << 10},
        "src starts at SB partition 0, byte 196608, beyond the bytes there are",
    ),
    BundleCase(
        "TPB-OPERAND-PLACEMENT",
        "cross_lane_reduce_arith",
        {"src.start_addr": PSUM},
        "src of CrossLaneReduceArith lies in PSUM (PSUM partition 0, byte 0)",
    ),
    BundleCase(
        "TPB-PSUM-WRITE",
        "pool",
        {"dst.start_addr": PSUM, "out_dtype": 6},
        "Pool writes 6 (BFLOAT16) to PSUM (PSUM partition 0, byte 0)",
        legal={"dst.start_addr": PSUM},
    ),
    BundleCase(
        "TPB-ALIGNMENT",
        "pool",
        {"src.start_addr": 6},
        "src of Pool starts at SB partition 0, byte 6, not a multiple of 4 (FP32)",
        legal={"src.start_addr": 6, "in_dtype": 7},
    ),
    BundleCase(
        "TPB-START-PARTITION",
        "pool",
        {"src.start_addr": 40 << 18},
        "src of Pool spans 32 channels from partition 40",
        legal={"src.start_addr": 96 << 18},
    ),
    BundleCase(
        "TPB-WALK-BOUNDS",
        "reciprocal",
        {"src.start_addr": (192 << 10) - 252},
        "src of Reciprocal touches byte 196608 of its partition (element [0, 0, 0, 63], outermost first), "
        "SB has 196608",
    ),
    BundleCase(
        "TPB-POOL-COUNT",
        "pool",
        {"dst.num_elem": [8, 3, 1, 1]},
        "Pool writes 24 elements per partition, its source makes 32: nums [4, 8, 2, 2], 2 folded",
    ),
    BundleCase(
        "TPB-REDUCE-COUNT",
        "tensor_reduce_arith",
        {"dst.num_elem": [7, 1, 1, 1]},
        "TensorReduceArithOp writes 7 elements per partition, its source makes 8: nums [1, 1, 8, 32], 1 folded",
    ),
    BundleCase(
        "TPB-RECIPROCAL-COUNT",
        "reciprocal",
        {"dst.num_elem": [63, 1, 1, 1]},
        "Reciprocal writes 63 elements per partition, it reads 64",
    ),
    BundleCase(
        "TPB-GATHER-COUNT",
        "gather",
        {"dst.num_elem": [65, 1, 1, 1]},
        "Gather writes 65 elements per partition, it reads 64",
    ),
    BundleCase(
        "TPB-CROSS-LANE-COUNT",
        "cross_lane_reduce_arith",
        {"reduce_axis": 0},
        "CrossLaneReduceArith writes 64 elements per partition, reduce_axis ALL leaves one",
    ),
    BundleCase(
        "TPB-KEYS-COUNT", "match_value_load", {"src.num_elem": [4, 1]}, "MatchValueLoad reads 4 elements per partition"
    ),
    BundleCase(
        "TPB-REPLACE-COUNT",
        "match_replace8",
        {"dst.num_elem": [32, 1, 1, 1]},
        "MatchReplace8 writes 32 elements per partition, it reads 64",
    ),
    BundleCase(
        "TPB-IOTA-COUNT",
        "iota",
        {"num_elem": [32, 3, 1, 1]},
        "Iota writes 64 elements per partition, its pattern generates 96",
    ),
    BundleCase(
        "TPB-CHUNK-COUNT",
        "pool_buffer_load",
        {"src.num_elem": [513, 1, 1, 1]},
        "PoolBufferLoad reads 513 elements per partition",
    ),
    BundleCase(
        "TPB-TRANSPOSE-CHANNELS",
        "transpose_tensor_reduce_arith",
        {"num_active_channels": 33},
        "TransposeTensorReduceArithOp spans 33 channels",
        reading="headers",
    ),
    BundleCase(
        "TPB-TRANSPOSE-COUNT",
        "transpose_cross_lane_reduce_arith",
        {"src.num_elem": [33, 1, 1, 1], "dst.num_elem": [33, 1, 1, 1]},
        "TransposeCrossLaneReduceArith reads 33 elements per partition",
    ),
    BundleCase(
        "TPB-OVERLAP",
        "reciprocal",
        {"dst.start_addr": 16},
        "Reciprocal writes bytes that it also reads: SB partitions 0 to 31, bytes 0 to 255 and "
        "SB partitions 0 to 31, bytes 16 to 271",
        legal={"dst.start_addr": 0},
    ),
    BundleCase("TPB-OPCODE", "pool", {"opcode": 0x99}, "opcode 0x99 is no instruction of this leg on v2"),
    BundleCase(
        "TPB-ENGINE", "max8", {}, "Max8 stands in the stream of Activation", engine="Activation", legal_engine="DVE"
    ),
    BundleCase("TPB-ENGINE-UNUSUAL", "pool", {}, "Pool stands in the stream of DVE", engine="DVE", legal_engine="Pool"),
    BundleCase(
        "TPB-REDUCE-ENGINE-DVE",
        "tensor_reduce_arith",
        {"op": 0xC4, "in_dtype": 8, "out_dtype": 8},
        "TensorReduceArithOp on DVE has the integer operator 0xC4 ADD_INT",
        engine="DVE",
        legal_engine="Pool",
        legal={"op": 0xC4, "in_dtype": 8, "out_dtype": 8},
    ),
    BundleCase(
        "TPB-REDUCE-ENGINE-POOL",
        "tensor_reduce_arith",
        {},
        "TensorReduceArithOp on Pool folds 10 (FP32) with 0x04 ADD",
        engine="Pool",
        legal_engine="DVE",
    ),
    BundleCase(
        "TPB-POOL-ENGINE-PSUM",
        "pool",
        {"src.start_addr": PSUM},
        "src of Pool on Pool lies in PSUM",
        engine="Pool",
        legal_engine="Pool",
    ),
    BundleCase("TPB-GATHER-PAIR", "gather", {}, "Gather has no PoolBufferLoad behind it"),
    BundleCase("TPB-SEARCH-KEYS", "find_index8", {}, "FindIndex8 has no MatchValueLoad before it"),
    BundleCase(
        "TPB-READING",
        "tensor_reduce_arith",
        {},
        "in the opcode reading reference 0x7C is TensorReduceArithOp; shipped headers give it the other reduce struct",
    ),
    BundleCase(
        "TPB-INTEGER-EXACT",
        "reciprocal",
        {"in_dtype": 8},
        "1 bundle, bundle 0 first, reads 32-bit integers that are computed in single precision",
    ),
)

# Operands of this form exist in S4D4_TR on v4 only.
LEGAL_INDIRECT: dict[str, Any] = {
    "src.start_addr": INDIRECT | 0x400,
    "src.data_addr": 0x800,
    "src.count": 64,
    "src.reserved": [0] * 10,
}


def _indirect(code: str, changes: dict[str, Any], message: str, name: str = "reciprocal") -> BundleCase:
    return BundleCase(code, name, LEGAL_INDIRECT | changes, message, generation="v4", legal=LEGAL_INDIRECT)


INDIRECT_CASES = (
    _indirect("TPB-INDIRECT-AXIS", {"op_dim": 3}, "src is indirect and op_dim is 3", "tensor_reduce_arith"),
    _indirect("TPB-INDIRECT-INDEX", {"src.start_addr": INDIRECT | 0x402}, "the indices of src are at 0x00000402"),
    _indirect("TPB-INDIRECT-DATA", {"src.data_addr": 0x20000800}, "the data address of src is 0x20000800"),
    _indirect("TPB-INDIRECT-COUNT", {"src.count": 0}, "the indirect src reads 0 elements"),
    _indirect(
        "TPB-INDIRECT-QUADRANT",
        {"src.data_addr": 32 << 18},
        "the indices of src start at partition 0, its data at partition 32",
    ),
    _indirect(
        "TPB-INDIRECT-SPARE",
        {"src.reserved": [0] * 9 + [1]},
        "the bytes behind the count of the indirect src are 00 00 00 00 00 00 00 00 00 01",
    ),
)

INSTRUCTION_CASES = (
    InstructionCase("TPB-BIR-OPCODE", "Pool", {"opcode": "MaxPool"}, "'MaxPool' is not an operation of this leg"),
    InstructionCase("TPB-BIR-OPERANDS", "Pool", {"extra ins": 1}, "Pool takes 1 ins (in), 2 given"),
    InstructionCase("TPB-BIR-KEY", "Pool", {"attributes.kernel": 3}, "Pool has no key 'kernel'"),
    InstructionCase("TPB-POOL-FUNCTION", "Pool", {"attributes.func": "Sum"}, "pool function 'Sum' does not exist"),
    InstructionCase("TPB-REDUCE-OPERATOR", "TensorReduce", {"attributes.op": "sum"}, "operator 'sum' does not exist"),
    InstructionCase(
        "TPB-REDUCE-WIRE", "TensorReduce", {"attributes.op": "abs_max"}, "v2 has no byte for operator abs_max"
    ),
    InstructionCase("TPB-REDUCE-AXIS", "TensorReduce", {"attributes.axis": "Z"}, "axis 'Z' does not exist"),
    InstructionCase(
        "TPB-REDUCE-RANK",
        "TensorReduce",
        {"attributes.axis": "XYZ"},
        "axis XYZ folds 3 pairs, the source has 2 beside the partition pair",
    ),
    InstructionCase(
        "TPB-CROSS-LANE-OPERATOR",
        "TensorReduce",
        {"attributes.axis": "C", "attributes.op": "min", "outs.0.pattern": [(64, 1), (1, 64)]},
        "operator min does not exist across lanes",
    ),
    InstructionCase(
        "TPB-CROSS-LANE-NEGATE",
        "TensorReduce",
        {"attributes.axis": "C", "attributes.negate": True, "outs.0.pattern": [(64, 1), (1, 64)]},
        "negate is set on a cross-lane reduce",
    ),
    InstructionCase(
        "TPB-REDUCE-NEGATE-BITVEC",
        "TensorReduce",
        {"attributes.op": "bitwise_or", "attributes.negate": True},
        "negate is set with the bit-vector operator bitwise_or",
    ),
    InstructionCase(
        "TPB-TRANSPOSE-READING",
        "TensorReduce",
        {"attributes.apply_transpose": True},
        "the reference reading has no opcode for a transposing free-axis reduce",
    ),
    InstructionCase(
        "TPB-POOL-AVERAGE-RANK",
        "Pool",
        {"attributes.func": "Avg", "ins.0.pattern": [(64, 32), (8, 4), (1, 4)]},
        "the source pattern of the average pool has 3 pairs",
    ),
    InstructionCase(
        "TPB-POOL-WINDOW-RANK",
        "Pool",
        {"ins.0.pattern": [(64, 32), (1, 64)]},
        "the source pattern of the pool has 2 pairs",
    ),
    InstructionCase("TPB-DTYPE", "Pool", {"ins.0.dtype": "float64"}, "'float64' is no BIR element type"),
    InstructionCase(
        "TPB-SEARCH-COUNT", "Max", {"ins.0.pattern": [(64, 32), (1, 5)]}, "the data has 5 elements per partition"
    ),
    InstructionCase(
        "TPB-SEARCH-EIGHT", "Max", {"outs.0.pattern": [(16, 32), (1, 16)]}, "the values have 16 elements per partition"
    ),
    InstructionCase(
        "TPB-SEARCH-RANK", "Max", {"ins.0.pattern": [(64, 32), *[(2, 2)] * 5, (1, 2)]}, "the data pattern has 7 pairs"
    ),
    InstructionCase(
        "TPB-OPERAND-CHANNELS",
        "Pool",
        {"outs.0.pattern": [(16, 16), (4, 4), (1, 4)]},
        "operand y spans 16 partitions where 32 are needed",
    ),
    InstructionCase(
        "TPB-IOTA-PATTERN", "Iota", {"attributes.pattern": [(1, 70000)]}, "the iota pattern is [[1, 70000]]"
    ),
    InstructionCase("TPB-IOTA-INTEGER", "Iota", {"attributes.base": 2**31}, "base is 2147483648"),
    InstructionCase(
        "TPB-GATHER-TABLE",
        "Gather",
        {"ins.0.pattern": [(64, 32), (16, 4), (1, 16)]},
        "the table is walked by 2 free pairs",
    ),
    InstructionCase(
        "TPB-GATHER-DTYPE", "Gather", {"outs.0.dtype": "bfloat16"}, "the table is float32, the result bfloat16"
    ),
    InstructionCase("TPB-REPLACE-VALUE", "MatchReplace", {"attributes.imm_value": 1e300}, "imm_value is 1e+300"),
    InstructionCase("TPB-SYNC-FIELD", "Pool", {"sync.wait_index": 256}, "wait_index of the events is 256"),
    InstructionCase(
        "TPB-ENGINE-NAME", "Pool", {"engine": "GpSimd"}, "there is no engine 'GpSimd'; rules on engines do not apply"
    ),
    InstructionCase(
        "TPB-DTYPE-PACKED",
        "Pool",
        {"ins.0.dtype": "float8_e4m3fn_x4"},
        "operand x is float8_e4m3fn_x4, which the bundle calls FP8_EXP4",
    ),
    InstructionCase(
        "TPB-PATTERN-STEP",
        "Reciprocal",
        {"ins.0.pattern": [(64, 32), (46208, 2), (1, 32)]},
        "step 46208 of pair 1 of operand x does not fit a signed 16-bit step",
    ),
)


def _place(access: tpb.Access) -> object:
    return address_word(access, "v2")


def _packed(pattern: Any) -> object:
    return tpb.encode(
        tpb.Instruction(
            "Reciprocal",
            (tpb.Access("SB", 0, 0, "float32", tuple(pattern)),),
            (tpb.Access("SB", 0, OTHER, "float32", tuple(pattern)),),
        )
    )


_OWNER = tpb.Instruction("Reciprocal", (), (), name="I-1")
_WAIT = tpb.Sync(wait_mode=5, value=3)
_ACCESS = tpb.Access("SB", 0, 0, "float32", ((1, 1), (1, 8)), "x")

CALL_CASES = (
    CallCase(
        "TPB-CHECK-INPUT",
        tpb.check,
        b"",
        5,
        "5 is neither a stream nor an instruction",
        "read BIR JSON with bir.load, bytes with decode, text with assemble",
        b"",
    ),
    CallCase(
        "TPB-PATTERN-RANK",
        _packed,
        [(64, 32), (2, 2), (4, 2), (8, 2), (1, 2)],
        [(64, 32), (2, 2), (4, 2), (8, 2), (16, 2), (1, 2)],
        "the pattern has 5 free pairs, a 4D descriptor takes 4",
        "merge neighbouring pairs where outer step = inner step x inner num, or split the instruction",
        [(64, 32), (2, 8), (8, 2), (16, 2), (1, 2)],
    ),
    CallCase(
        "TPB-OPERAND-ON-CHIP",
        _place,
        _ACCESS,
        tpb.Access("DRAM", 0, 0, "float32", ((1, 1), (1, 8)), "x"),  # type: ignore[arg-type]
        "the operand lies in DRAM",
        "load the tensor into the state buffer first",
        _ACCESS,
    ),
    CallCase(
        "TPB-SYNC-SHARED-VALUE",
        lambda update: joined_sync(_WAIT, update, _OWNER),
        tpb.Sync(update_mode=0x15, value=3),
        tpb.Sync(update_mode=0x15, value=4),
        "the wait needs value 3 and the update value 4",
        "use an increment or decrement, which needs no value, or an event-semaphore bundle of its own",
        tpb.Sync(update_mode=0x13),
    ),
    CallCase(
        "TPB-COLUMN",
        lambda columns: encode_columns("pool", columns),
        {"pool_func": np.array([1, 2])},
        {"pool_func": np.array([1, 2]), "in_dtype": np.array([10, 10, 10])},
        "column 'lengths [2, 3]' of pool does not fit struct S4D4_PL",
        "give equally long columns, named as above, with values inside the fields' ranges",
        {"pool_func": np.array([1, 2]), "in_dtype": np.array([10, 10])},
    ),
    CallCase(
        "TPB-INSTRUCTION-NAME",
        layout.kind_numbers,
        "pool",
        "poool",
        "no instruction is called 'poool'",
        "write 'pool'",
        "pool",
    ),
    CallCase(
        "TPB-GENERATION",
        layout.check_generation,
        "v3",
        "v5",
        "there is no generation 'v5'",
        "write 'v2' for Trainium and Inferentia2, 'v3' for Trainium2, 'v4' for Trainium3",
        "v2",
    ),
    CallCase(
        "TPB-OPCODES",
        layout.check_reading,
        "headers",
        "hearsay",
        "there is no opcode reading 'hearsay'",
        "write 'reference' to follow the reference documents, 'headers' to follow the shipped headers",
        "reference",
    ),
    CallCase(
        "TPB-STREAM-INPUT",
        tpb.disassemble,
        tpb.decode(bytes(64)),
        bytes(64),
        f"{bytes(64)!r:.60}… (bytes) is no stream",
        "read bytes and hexadecimal digits with decode, text with assemble; encode instructions and modules",
        tpb.decode(bytes(64)),
    ),
    CallCase(
        "TPB-STREAM-INDEX",
        lambda index: tpb.decode(bytes(128))[index],
        -2,
        2,
        "the stream of 2 bundles has none at 2",
        "write stream[0]",
        0,
    ),
    CallCase(
        "TPB-STRUCT",
        lambda name: tpb.decode(bytes(64)).columns(name),
        "S4D4_PL",
        "s4d4_pl",
        "there is no wire struct 's4d4_pl'",
        "write 'S4D4_PL'",
        "S4D4_PL",
    ),
    CallCase(
        "TPB-BUNDLE-FIELD",
        lambda name: tpb.decode("45" * 64)[0][name],
        "pool_func",
        "pool_fun",
        "Pool has no field 'pool_fun'",
        "write 'pool_func'",
        "pool_func",
    ),
    CallCase(
        "TPB-INSTRUCTIONS",
        tpb.encode,
        [],
        [None],
        "None is no instruction",
        "read a BIR module with bir.load, one BIR-JSON instruction with bir.instruction",
        [],
    ),
    CallCase(
        "TPB-INSTRUCTION-PART",
        lambda byte: tpb.check(tpb.Instruction("Iota", (), (replace(_ACCESS, byte=byte),), {"pattern": [(1, 8)]})),
        0,
        2.5,
        "byte of an operand is 2.5, not a whole number",
        "write a whole number, such as 0",
        0,
    ),
    CallCase(
        "TPB-STREAM-LENGTH",
        tpb.decode,
        bytes(64),
        bytes(100),
        "100 bytes are not a whole number of bundles",
        "drop the last 36 bytes, 64 remain",
        bytes(64),
    ),
    CallCase(
        "TPB-STREAM-BUFFER",
        tpb.decode,
        "00" * 64,
        "0x45",
        "the text is not hexadecimal",
        "give 128 hexadecimal digits per bundle",
        "45" * 64,
    ),
)
