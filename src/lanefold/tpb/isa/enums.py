"""Enumerations of the wire, member by member."""

from __future__ import annotations

from lanefold.tpb.isa.rows import Confidence, Value

_I = Confidence.INFERRED
_D = Confidence.DISASSEMBLY

DEBUG_CMD = (
    Value(0, "NONE", confidence=_D),
    Value(1, "NOTIFY", confidence=_D),
    Value(3, "START", confidence=_D),
    Value(5, "END", confidence=_D),
    Value(7, "START_END", confidence=_D),
    Value(9, "INS_FIELD", confidence=_D),
)

WAIT_MODE = (
    Value(0x00, "NONE", "no condition"),
    Value(0x01, "SEM_EQ_IMM", "semaphore = value"),
    Value(0x02, "SEM_LT_IMM", "semaphore < value"),
    Value(0x03, "SEM_LE_IMM", "semaphore <= value"),
    Value(0x04, "SEM_GT_IMM", "semaphore > value"),
    Value(0x05, "SEM_GE_IMM", "semaphore >= value"),
    Value(0x06, "EVT_SET", "event is set"),
    Value(0x07, "EVT_SET_THEN_CLEAR", "event is set, then cleared"),
    Value(0x0E, "EVT_CLEAR", "event is clear"),
    Value(0x0F, "EVT_CLEAR_THEN_SET", "event is clear, then set"),
    Value(0x81, "SEM_EQ_REG", "semaphore = register", confidence=_I),
    Value(0x82, "SEM_LT_REG", "semaphore < register", confidence=_I),
    Value(0x83, "SEM_LE_REG", "semaphore <= register", confidence=_I),
    Value(0x84, "SEM_GT_REG", "semaphore > register", confidence=_I),
    Value(0x85, "SEM_GE_REG", "semaphore >= register", confidence=_D),
    Value(0xFE, "UNORDERED", "waits for nothing, not even for earlier waits"),
)

UPDATE_MODE = (
    Value(0x00, "NONE", "no action"),
    Value(0x01, "EVT_SET_READ", "set event once reads are done"),
    Value(0x02, "EVT_CLR_READ", "clear event once reads are done"),
    Value(0x03, "SEM_INC_READ", "semaphore + 1 once reads are done"),
    Value(0x04, "SEM_DEC_READ", "semaphore - 1 once reads are done"),
    Value(0x05, "SEM_ADD_IMM_READ", "semaphore + value once reads are done"),
    Value(0x07, "SEM_SUB_IMM_READ", "semaphore - value once reads are done"),
    Value(0x09, "SEM_WR_IMM_READ", "semaphore := value once reads are done"),
    Value(0x11, "EVT_SET_COMPLETE", "set event on completion"),
    Value(0x12, "EVT_CLR_COMPLETE", "clear event on completion"),
    Value(0x13, "SEM_INC_COMPLETE", "semaphore + 1 on completion"),
    Value(0x14, "SEM_DEC_COMPLETE", "semaphore - 1 on completion"),
    Value(0x15, "SEM_ADD_IMM_COMPLETE", "semaphore + value on completion"),
    Value(0x17, "SEM_SUB_IMM_COMPLETE", "semaphore - value on completion"),
    Value(0x19, "SEM_WR_IMM_COMPLETE", "semaphore := value on completion"),
    Value(0x85, "SEM_ADD_REG_READ", "semaphore + register once reads are done", confidence=_I),
    Value(0x87, "SEM_SUB_REG_READ", "semaphore - register once reads are done"),
    Value(0x89, "SEM_WR_REG_READ", "semaphore := register once reads are done", confidence=_I),
    Value(0x95, "SEM_ADD_REG_COMPLETE", "semaphore + register on completion", confidence=_I),
    Value(0x97, "SEM_SUB_REG_COMPLETE", "semaphore - register on completion", confidence=_I),
    Value(0x99, "SEM_WR_REG_COMPLETE", "semaphore := register on completion"),
)

POOL_FUNC = (
    Value(0, "NONE", "only MaxPoolSelect"),
    Value(1, "MAX", "largest of the window"),
    Value(2, "AVG", "sum of the window times pool_scale"),
)

SUBDIM = (
    Value(0, "UNUSED", "no dim"),
    Value(2, "X", "slot 0"),
    Value(3, "XY", "slots 0 and 1"),
    Value(4, "XYZ", "slots 0 to 2"),
    Value(5, "XYZW", "all four slots"),
)

REDUCE_OP = (
    Value(0, "add"),
    Value(1, "average", "each element times scale, then added"),
    Value(2, "max"),
    Value(3, "bitwise_or"),
    Value(4, "bitwise_and"),
    Value(5, "bitwise_xor"),
)

REDUCE_AXIS = (
    Value(0, "ALL", "every element of every partition to one (BIR XYZWC)"),
    Value(1, "PARTITIONS", "over partitions, position by position (BIR C)"),
)

INDEX_MISS = (
    Value(0, "IMMEDIATE_WRITE", "a miss writes the immediate"),
    Value(1, "SKIP_WRITE", "a miss leaves the destination alone"),
)

FLAG = (Value(0, "no"), Value(1, "yes"))

ENUMS: dict[str, tuple[Value, ...]] = {
    "debug_cmd": DEBUG_CMD,
    "wait_mode": WAIT_MODE,
    "update_mode": UPDATE_MODE,
    "pool_func": POOL_FUNC,
    "subdim": SUBDIM,
    "reduce_op": REDUCE_OP,
    "reduce_axis": REDUCE_AXIS,
    "index_miss": INDEX_MISS,
    "flag": FLAG,
}
"""Enumerations by the name that `Field.values` uses; ``dtype`` and ``alu`` stand in `lanefold.numerics`."""

WAIT_NEEDS_VALUE = tuple(v.number for v in WAIT_MODE if v.name.startswith("SEM_"))
"""Wait modes that read semaphore_value."""
UPDATE_NEEDS_VALUE = tuple(v.number for v in UPDATE_MODE if "_IMM" in v.name or "_REG" in v.name)
"""Update modes that read semaphore_value."""

BIR_AXES: dict[str, tuple[int, int]] = {
    "X": (0, 2),
    "XY": (1, 3),
    "XYZ": (2, 4),
    "XYZW": (3, 5),
}
"""Free-axis BIR axes: ordinal and wire op_dim."""
FOLDED_SLOTS: dict[int, int] = {number: ordinal + 1 for ordinal, number in BIR_AXES.values()}
"""How many slots, from the innermost on, an op_dim or pool_dim names."""
BIR_CROSS_LANE_AXES: dict[str, tuple[int, int]] = {"XYZWC": (4, 0), "C": (5, 1)}
"""Cross-lane BIR axes: ordinal and wire reduce_axis."""
BIR_POOL_FUNCTIONS: dict[str, int] = {"Max": 1, "Avg": 2}
"""BIR pool functions and their wire number (BIR ordinal + 1)."""

ENGINES: dict[str, tuple[int, int | None, str]] = {
    "Unassigned": (0, None, ""),
    "Pool": (1, 2, "GpSimd"),
    "Activation": (2, 1, "Scalar"),
    "PE": (3, 0, "Tensor"),
    "DMA": (4, None, "SyncDMA"),
    "DVE": (5, 3, "Vector"),
    "SP": (6, 4, "Sync"),
    "ALL": (7, None, "All"),
}
"""BIR engines: BIR ordinal, wire ordinal, public name."""
STREAM_ENGINES = ("PE", "Pool", "Activation", "SP", "DVE")
"""Engines that own an instruction stream, one ``.bin`` file each."""
