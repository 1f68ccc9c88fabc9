"""Element types, layouts, targets, tile parameters and call forms of PTO, one row each."""

from __future__ import annotations

from lanefold.numerics.dtypes import PTO_NAMES
from lanefold.pto.isa.rows import Confidence, ElementType, Form, Layout, Target

_KIB = 1024

ELEMENTS: dict[str, ElementType] = {
    row.name: row
    for row in (
        ElementType("f32", 4, "float", "float", PTO_NAMES["f32"]),
        ElementType("f16", 2, "float", "half", PTO_NAMES["f16"]),
        ElementType("bf16", 2, "float", "bfloat16_t", PTO_NAMES["bf16"]),
        ElementType("i8", 1, "signed", "int8_t", PTO_NAMES["i8"]),
        ElementType("u8", 1, "unsigned", "uint8_t", PTO_NAMES["u8"]),
        ElementType("i16", 2, "signed", "int16_t", PTO_NAMES["i16"]),
        ElementType("u16", 2, "unsigned", "uint16_t", PTO_NAMES["u16"]),
        ElementType("i32", 4, "signed", "int32_t", PTO_NAMES["i32"]),
        ElementType("u32", 4, "unsigned", "uint32_t", PTO_NAMES["u32"]),
        ElementType("i64", 8, "signed", "int64_t", PTO_NAMES["i64"]),
        ElementType("u64", 8, "unsigned", "uint64_t", PTO_NAMES["u64"]),
    )
}

LAYOUTS: dict[str, Layout] = {
    row.name: row
    for row in (
        Layout("ND", "RowMajor", "NoneBox"),
        Layout("DN", "ColMajor", "NoneBox"),
        Layout("NZ", "ColMajor", "RowMajor"),
        Layout("ZN", "RowMajor", "ColMajor"),
        Layout("ZZ", "RowMajor", "RowMajor"),
    )
}

LOCATIONS: dict[str, str] = {
    name.lower(): name
    for name in ("Vec", "Mat", "Left", "Right", "Acc", "Bias", "Scaling", "ScaleLeft", "ScaleRight", "Ctrl")
}
"""Tile locations: name in texts to C++ name."""

FRACTALS: tuple[int, ...] = (512, 1024, 32)
"""Legal fractal sizes in bytes; the first is the default."""

PADS: dict[str, str] = {name.lower(): name for name in ("Null", "Zero", "Max", "Min")}
"""Pad values: name in texts to C++ name."""

COMPACT_MODES: dict[str, str] = {name.lower(): name for name in ("Null", "Normal", "RowPlusOne", "RowAlignedPadding")}
"""Compact modes: name in texts to C++ name."""

BLOCK_BYTES = 32
"""Bytes of one block: rows of an ND tile and columns of a DN tile are whole blocks."""

TARGETS: dict[str, Target] = {
    row.name: row
    for row in (
        Target(
            name="cpu",
            title="PTO CPU simulator",
            ub_bytes=192 * _KIB,
            alignment=32,
            register_bytes=256,
            broadcast_scratch=None,
            load_rows=0,
            store_rows=0,
            store_cols=0,
            confidence=Confidence.MEASURED,
            source="PTO headers: CPU simulator memory model",
        ),
        Target(
            name="a2a3",
            title="Ascend A2/A3",
            ub_bytes=192 * _KIB,
            alignment=32,
            register_bytes=256,
            broadcast_scratch=(184 * _KIB, 192 * _KIB),
            load_rows=4095,
            store_rows=8192,
            store_cols=4095,
            confidence=Confidence.READ,
            source="PTO headers: A2/A3 tile memory and data movement",
        ),
        Target(
            name="a5",
            title="Ascend A5",
            ub_bytes=256 * _KIB,
            alignment=32,
            register_bytes=256,
            broadcast_scratch=None,
            load_rows=0,
            store_rows=0,
            store_cols=0,
            confidence=Confidence.READ,
            source="PTO headers: A5 tile memory",
        ),
    )
}

MOVED_BY_ALL = min(bound for row in TARGETS.values() for bound in (row.load_rows, row.store_cols) if bound)
"""Rows or columns that one load or store moves on every target."""

_CALLS = "PTO headers: common instruction declarations"

FORMS: dict[str, Form] = {
    row.name: row
    for row in (
        Form("R1", ("dst", "src", "tmp"), 1, _CALLS),
        Form("R2", ("dstIdx", "src", "tmp"), 1, _CALLS),
        Form("R3", ("dstVal", "dstIdx", "src", "tmp"), 2, _CALLS),
        Form("C1", ("dst", "src"), 1, _CALLS),
        Form("C2", ("dst", "src", "tmp"), 1, _CALLS),
        Form("C3", ("dstIdx", "src", "tmp"), 1, _CALLS),
        Form("C4", ("dstVal", "dstIdx", "src", "tmp"), 2, _CALLS),
        Form("E1", ("dst", "src"), 1, _CALLS),
        Form("E2", ("dst", "src0", "src1"), 1, _CALLS),
        Form("E3", ("dst", "src0", "src1", "tmp"), 1, _CALLS),
    )
}
"""Call forms. C2 ends with the run-time flag ``isBinary`` behind its tiles."""

INDEX_EXACT_HALF = 2048
"""A2/A3 column arg keeps row numbers in the source type: half holds whole numbers exactly up to here."""

REPEAT_LIMIT = 255
"""Largest repeat count of one vector instruction (an 8-bit field)."""

EXTENT_LIMIT = 65535
"""Largest extent where an implementation keeps extents in 16 bits."""
