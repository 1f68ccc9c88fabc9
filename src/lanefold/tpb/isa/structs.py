"""The nine wire structs of the leg, field by field; every struct covers its 64 bytes without gap or overlap."""

from __future__ import annotations

from lanefold.tpb.isa.rows import Confidence, Field, Kind, Struct

BUNDLE_BYTES = 64
WORD_LENGTH = 16
"""Value of inst_word_len in every bundle, in dwords."""

_D = Confidence.DISASSEMBLY
_I = Confidence.INFERRED

COMMON: tuple[Field, ...] = (
    Field("opcode", 0x00, Kind.U8, "instruction", source="Pool Encoding: header skeleton"),
    Field("inst_word_len", 0x01, Kind.U8, "length in dwords, always 16", source="Pool Encoding: header skeleton"),
    Field("debug_cmd", 0x02, Kind.U8, "debug notification", values="debug_cmd", confidence=_D),
    Field("debug_hint", 0x03, Kind.U8, "free byte of the debugger"),
    Field("wait_mode", 0x04, Kind.U8, "condition before the start", values="wait_mode"),
    Field("wait_idx", 0x05, Kind.U8, "semaphore or event waited on"),
    Field("update_mode", 0x06, Kind.U8, "action afterwards", values="update_mode"),
    Field("update_idx", 0x07, Kind.U8, "semaphore or event updated"),
    Field("semaphore_value", 0x08, Kind.U32, "one operand shared by wait and update"),
)
"""Header and events, the same in every struct."""


def _reserved(name: str, offset: int, size: int, confidence: Confidence = Confidence.HEADER) -> Field:
    return Field(name, offset, Kind.RESERVED, "zero", count=size, confidence=confidence)


_SRC = Field("src", 0x0C, Kind.TENSOR4D, "source")
_DST = Field("dst", 0x2C, Kind.TENSOR4D, "destination")
_IN = Field("in_dtype", 0x20, Kind.U8, "element type read", values="dtype")
_OUT = Field("out_dtype", 0x21, Kind.U8, "element type written", values="dtype")
_CHANNELS = Field("num_active_channels", 0x22, Kind.U8, "partitions taking part, 1 to 128")

_STRUCTS = (
    Struct(
        "S4D4_PL",
        (
            *COMMON,
            _SRC,
            _IN,
            _OUT,
            _CHANNELS,
            _reserved("reserved0", 0x23, 1),
            Field("pool_func", 0x24, Kind.U8, "what is done with a window", values="pool_func"),
            Field("pool_dim", 0x25, Kind.U8, "slots that form the window", values="subdim"),
            _reserved("reserved1", 0x26, 2),
            Field("pool_scale", 0x28, Kind.F32, "factor after the sum: 1/N for average, else 1.0"),
            _DST,
        ),
        "s4d4_pl_reserved_zero",
        "ISA headers: S4D4_PL; stores in Pool Encoding 1",
    ),
    Struct(
        "S4D4_TR",
        (
            *COMMON,
            Field("src", 0x0C, Kind.MEMORY4D, "source; from v4 on it may be indirect"),
            _IN,
            _OUT,
            _CHANNELS,
            Field("negated", 0x23, Kind.U8, "flip the sign of the folded value", values="flag"),
            Field("op", 0x24, Kind.U8, "ALU operator", values="alu"),
            Field("op_dim", 0x25, Kind.U8, "slots that are folded", values="subdim"),
            Field("mask_enable", 0x26, Kind.U8, "zero for reductions"),
            _reserved("reserved", 0x27, 5),
            Field("dst", 0x2C, Kind.MEMORY4D, "destination; from v4 on it may be indirect"),
        ),
        "s4d4_tr_reserved_zero",
        "ISA headers: S4D4_TR; stores in Pool Encoding 2A and 3",
    ),
    Struct(
        "S4D4_CR",
        (
            *COMMON,
            _SRC,
            _IN,
            _OUT,
            _CHANNELS,
            Field("reduce_op", 0x23, Kind.U8, "one of six operators", values="reduce_op"),
            Field("reduce_axis", 0x24, Kind.U8, "everything, or partitions only", values="reduce_axis"),
            _reserved("reserved", 0x25, 3),
            Field("scale", 0x28, Kind.F32, "factor of each element, for average only"),
            _DST,
        ),
        "s4d4_cr_reserved_zero",
        "ISA headers: S4D4_CR; stores in Pool Encoding 2B",
    ),
    Struct(
        "S4D2_BN",
        (
            *COMMON,
            _SRC,
            _IN,
            _OUT,
            _CHANNELS,
            _reserved("reserved0", 0x23, 5),
            Field("even_count", 0x28, Kind.F32, "0.0 on this leg"),
            Field("odd_count", 0x2C, Kind.F32, "0.0 on this leg"),
            Field("dst", 0x30, Kind.TENSOR2D, "the eight results"),
            _reserved("reserved1", 0x3C, 4),
        ),
        "s4d2_bn_reserved_zero",
        "ISA headers: S4D2_BN; stores in the DVE search encoding",
    ),
    Struct(
        "S2_BN",
        (
            *COMMON,
            _reserved("reserved0", 0x0C, 4),
            Field("src", 0x10, Kind.TENSOR2D, "the eight keys"),
            Field("imm1", 0x1C, Kind.U32, "0 on this leg"),
            Field("dtype", 0x20, Kind.U8, "element type of the keys", values="dtype"),
            _reserved("reserved1", 0x21, 1),
            _CHANNELS,
            _reserved("reserved2", 0x23, 9),
            Field("imm0_ptr", 0x2C, Kind.U32, "0 on this leg"),
            Field("imm0_src", 0x30, Kind.U8, "0 on this leg"),
            _reserved("reserved3", 0x31, 15),
        ),
        "s2_bn_reserved_zero",
        "ISA headers: S2_BN; stores in the DVE search encoding",
    ),
    Struct(
        "S4D4_MR",
        (
            *COMMON,
            _SRC,
            _IN,
            _OUT,
            _CHANNELS,
            _reserved("reserved", 0x23, 5),
            Field("immediate", 0x28, Kind.F32, "value written over a match"),
            _DST,
        ),
        "",
        "ISA headers: S4D4_MR",
    ),
    Struct(
        "D4_IOTA",
        (
            *COMMON,
            Field("base", 0x0C, Kind.I32, "first value"),
            Field("step_elem", 0x10, Kind.I16, "value steps, slot 0 innermost", count=4),
            Field("num_elem", 0x18, Kind.U16, "element counts, slot 0 innermost", count=4),
            _reserved("reserved0", 0x20, 1),
            _OUT,
            _CHANNELS,
            _reserved("reserved1", 0x23, 1),
            Field("channel_multiplier", 0x24, Kind.I32, "added once per channel"),
            _reserved("reserved2", 0x28, 4),
            _DST,
        ),
        "d4_iota_reserved_zero",
        "ISA headers: D4_IOTA; stores in Pool Encoding 4",
    ),
    Struct(
        "S4_PB",
        (
            *COMMON,
            Field("src", 0x0C, Kind.TENSOR4D, "chunk of the table, at most 512 elements"),
            Field("in_dtype", 0x20, Kind.U8, "sizes the element", values="dtype"),
            _reserved("reserved0", 0x21, 1, _I),
            _CHANNELS,
            _reserved("reserved1", 0x23, 5, _I),
            Field("start_index", 0x28, Kind.U32, "index of the chunk's first element"),
            Field("mask", 0x2C, Kind.U32, "index bits inside the chunk, 0x1FF"),
            _reserved("reserved2", 0x30, 16),
        ),
        "s4_pb_reserved_zero",
        "ISA headers: pool buffer load; stores in Pool Encoding 5",
    ),
    Struct(
        "S4D4_GT",
        (
            *COMMON,
            Field("src", 0x0C, Kind.TENSOR4D, "indices"),
            Field("in_dtype", 0x20, Kind.U8, "element type of the indices", values="dtype"),
            _OUT,
            _CHANNELS,
            _reserved("reserved0", 0x23, 1, _I),
            Field("index_miss_behavior", 0x24, Kind.U8, "what an index outside the chunk does", values="index_miss"),
            Field("free_pool_buffer", 0x25, Kind.U8, "release the buffer afterwards", values="flag", confidence=_I),
            _reserved("reserved1", 0x26, 2, _I),
            Field("immediate", 0x28, Kind.U32, "raw bits written on a miss"),
            _DST,
        ),
        "d4_gt_reserved_z",
        "ISA headers: S4D4_GT; stores in Pool Encoding 5",
    ),
)

STRUCTS: dict[str, Struct] = {struct.name: struct for struct in _STRUCTS}
"""Wire structs by name."""
