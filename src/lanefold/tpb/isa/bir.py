"""BIR instructions of the leg: operands, keys and the bundles they become."""

from __future__ import annotations

from lanefold.tpb.isa.enums import BIR_AXES, BIR_CROSS_LANE_AXES, BIR_POOL_FUNCTIONS
from lanefold.tpb.isa.rows import Attribute, BirOperation, Confidence

_AXES = (*BIR_AXES, *BIR_CROSS_LANE_AXES)

BIR_OPERATIONS: tuple[BirOperation, ...] = (
    BirOperation(
        "Pool",
        20,
        ("in",),
        ("out",),
        "Pool",
        "windowed maximum or average",
        (Attribute("func", True, "enum", tuple(BIR_POOL_FUNCTIONS)),),
    ),
    BirOperation(
        "TensorReduce",
        27,
        ("in",),
        ("out",),
        "DVE",
        "fold of innermost dims, or across partitions",
        (
            Attribute("op", True, "enum"),
            Attribute("axis", True, "enum", _AXES),
            Attribute("negate", False, "bool", default=False),
            Attribute("apply_transpose", False, "bool", default=False),
        ),
    ),
    BirOperation("Max", 88, ("data",), ("values",), "DVE", "eight largest elements"),
    BirOperation("MaxIndex", 89, ("values", "data"), ("indices",), "DVE", "positions of eight keys"),
    BirOperation(
        "MatchReplace",
        None,
        ("values", "data"),
        ("replaced",),
        "DVE",
        "data with eight keys overwritten",
        (Attribute("imm_value", True, "float"),),
    ),
    BirOperation("Reciprocal", 21, ("in",), ("out",), "DVE", "1/x"),
    BirOperation(
        "Iota",
        61,
        (),
        ("out",),
        "Pool",
        "counting pattern",
        (
            Attribute("pattern", True, "pattern"),
            Attribute("base", False, "int", default=0),
            Attribute("channel_multiplier", False, "int", default=0),
        ),
    ),
    BirOperation(
        "Gather",
        None,
        ("data", "indices"),
        ("out",),
        "Pool",
        "table lookup",
        confidence=Confidence.CONVENTION,
    ),
)

BIR_BY_OPCODE: dict[str, BirOperation] = {row.opcode: row for row in BIR_OPERATIONS}

CROSS_LANE_COMMANDS: dict[str, int] = {
    "add": 0,
    "average": 1,
    "max": 2,
    "bitwise_or": 3,
    "bitwise_and": 4,
    "bitwise_xor": 5,
}
"""The six operators of a cross-lane reduce and their wire command (Pool Engine, reduce command)."""

AVERAGE_POOL_RANK = 5
"""Pairs that the source pattern of an average pool has (Pool Engine, Pool: in0.size() == 5)."""
PATTERN_RANKS: dict[tuple[str, str], tuple[int, int]] = {
    ("Max", "data"): (2, 5),
    ("Max", "values"): (2, 3),
    ("MaxIndex", "data"): (2, 5),
    ("MaxIndex", "values"): (2, 3),
    ("MaxIndex", "indices"): (2, 2),
}
"""Least and greatest pattern rank of search operands, partition pair included (Pool Engine, MAX8 and FIND_INDEX8)."""
