"""Which element types, layouts and scratch each target accepts, by family and operator of the PTO operations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lanefold.pto.isa.ground import ELEMENTS
from lanefold.pto.isa.rows import Confidence, LayoutRule, Pairs, Support

ALL = " ".join(ELEMENTS)


def same(names: str) -> Pairs:
    """Pairs in which source and destination have the same type, from names parted by blanks."""
    return frozenset((name, name) for name in names.split())


def pairs(text: str) -> Pairs:
    """Pairs written as ``f16>f32``, parted by blanks."""
    return frozenset((source, result) for source, result in (word.split(">") for word in text.split()))


def any_pair(without: str = "") -> Pairs:
    """Every pair of types but those named."""
    return frozenset((source, result) for source in ELEMENTS for result in ELEMENTS) - pairs(without)


def _sized(*sizes: int) -> str:
    return " ".join(row.name for row in ELEMENTS.values() if row.bytes in sizes)


def index(sizes: Iterable[int], names: str) -> dict[int, tuple[str, ...]]:
    """Index types for sources of these sizes in bytes."""
    return {size: tuple(names.split()) for size in sizes}


_FOUR = "f16 f32 i32 i16"
_SIX = "f32 f16 i32 u32 i16 u16"
_NINE = "f32 f16 bf16 i32 u32 i16 u16 i8 u8"
_INTEGERS = "i8 u8 i16 u16 i32 u32 i64 u64"
_WIDER_FLOAT = pairs("f16>f32 bf16>f32")
_EVERY_SIZE = (1, 2, 4, 8)

TYPES: dict[tuple[str, str], dict[str, Pairs]] = {
    ("row_reduce", "sum"): {
        "cpu": same("f32 f16 bf16 i16 i32") | _WIDER_FLOAT | pairs("i16>i32"),
        "a2a3": same(_FOUR),
        "a5": same(_FOUR + " i64 u64"),
    },
    ("row_reduce", "prod"): {"cpu": any_pair(), "a2a3": same(_FOUR), "a5": same(_FOUR)},
    ("row_reduce", "max"): {"cpu": any_pair(), "a2a3": same(_FOUR), "a5": same(_FOUR + " i8 u8 i64 u64")},
    ("row_reduce", "min"): {"cpu": any_pair(), "a2a3": same(_FOUR), "a5": same(_FOUR + " i8 u8 i64 u64")},
    ("row_arg", ""): {"cpu": same(ALL), "a2a3": same(_FOUR), "a5": same(_sized(2, 4))},
    ("column_reduce", "sum"): {
        "cpu": same("f32 f16 bf16") | _WIDER_FLOAT,
        "a2a3": same(_FOUR),
        "a5": same("f16 f32 bf16 " + _INTEGERS),
    },
    ("column_reduce", "prod"): {
        "cpu": any_pair(),
        "a2a3": same(_FOUR),
        "a5": same("f32 f16 bf16 i16 u16 i32 u32"),
    },
    ("column_reduce", "max"): {
        "cpu": same("f32 f16 bf16 i8 u8") | _WIDER_FLOAT,
        "a2a3": same(_FOUR),
        "a5": same("f16 f32 bf16 " + _INTEGERS),
    },
    ("column_reduce", "min"): {
        "cpu": any_pair(without="f16>bf16 bf16>f16"),
        "a2a3": same(_FOUR),
        "a5": same("f16 f32 bf16 " + _INTEGERS),
    },
    ("column_arg", ""): {"cpu": same(ALL), "a2a3": same("f16 f32 u16 u32"), "a5": same(_sized(1, 2, 4))},
    ("row_expand", ""): {"cpu": any_pair(), "a2a3": same(_sized(1, 2, 4)), "a5": same(ALL)},
    ("column_expand", ""): {"cpu": any_pair(), "a2a3": same(_sized(1, 2, 4)), "a5": same(ALL)},
    ("expand_binary", "add"): {"cpu": same(_SIX), "a2a3": same(_FOUR), "a5": same(_NINE)},
    ("expand_binary", "sub"): {"cpu": same(_SIX), "a2a3": same(_FOUR), "a5": same(_NINE)},
    ("expand_binary", "mul"): {"cpu": same(_SIX + " u8"), "a2a3": same(_FOUR), "a5": same(_NINE)},
    ("expand_binary", "div"): {"cpu": same(_SIX), "a2a3": same("f32 f16"), "a5": same(_NINE)},
    ("expand_binary", "max"): {"cpu": same(_SIX), "a2a3": same(_FOUR), "a5": same(_NINE)},
    ("expand_binary", "min"): {"cpu": same(_SIX), "a2a3": same(_FOUR), "a5": same(_NINE)},
    ("expand_binary", "expdif"): {"cpu": same("f32 f16"), "a2a3": same("f32 f16"), "a5": same("f32 f16")},
}
"""Legal (source, destination) types by family, operator and target."""

_INDEX_32 = index(_EVERY_SIZE, "i32 u32")
_ROW_VALUE_INDEX = index((2,), "i16 u16 i32 u32") | index((4,), "i32 u32")
_COLUMN_VALUE_INDEX = index((2,), "i16 u16") | index((4,), "i32 u32")

INDEX_TYPES: dict[tuple[str, str], tuple[Mapping[int, tuple[str, ...]], Mapping[int, tuple[str, ...]]]] = {
    ("row_arg", "cpu"): (_INDEX_32, _INDEX_32),
    ("row_arg", "a2a3"): (_INDEX_32, _ROW_VALUE_INDEX),
    ("row_arg", "a5"): (_INDEX_32, _ROW_VALUE_INDEX),
    ("column_arg", "cpu"): (_INDEX_32, _INDEX_32),
    ("column_arg", "a2a3"): (_INDEX_32, _COLUMN_VALUE_INDEX),
    ("column_arg", "a5"): (_INDEX_32, _COLUMN_VALUE_INDEX),
}
"""Index types by source bytes: of the index form, of the value-and-index form."""

ANY_LAYOUT = LayoutRule(("ND", "DN", "NZ", "ZN", "ZZ"))
_ND = LayoutRule(("ND",))
_UNBOXED = LayoutRule(("ND", "DN"))
_ND_OR_COLUMN = LayoutRule(("ND",), ("DN",))
_ROW_MAJOR = LayoutRule(("ND", "ZN", "ZZ"))

_BOTH = ("a2a3", "a5")


def _on(targets: Iterable[str], **roles: LayoutRule) -> dict[str, dict[str, LayoutRule]]:
    return {target: dict(roles) for target in targets}


LAYOUTS: dict[str, dict[str, dict[str, LayoutRule]]] = {
    "row_reduce": _on(["cpu"], src=ANY_LAYOUT, dst=ANY_LAYOUT) | _on(_BOTH, src=_ND, dst=_ND_OR_COLUMN),
    "row_arg": _on(["cpu"], src=_ND, dstIdx=_UNBOXED, dstVal=_UNBOXED)
    | _on(_BOTH, src=_ND, dstIdx=_ND_OR_COLUMN, dstVal=_ND_OR_COLUMN),
    "column_reduce": _on(["cpu"], src=ANY_LAYOUT, dst=ANY_LAYOUT)
    | _on(["a2a3"], src=_ND, dst=_ND, tmp=_ND)
    | _on(["a5"], src=_ND, dst=_ND),
    "column_arg": _on(["cpu"], src=_UNBOXED, dstIdx=_ND) | _on(_BOTH, src=_UNBOXED, dstIdx=_ND, dstVal=_ND),
    "row_expand": _on(["cpu"], src=ANY_LAYOUT, dst=ANY_LAYOUT) | _on(_BOTH, src=_UNBOXED, dst=_ND),
    "column_expand": _on(["cpu"], src=ANY_LAYOUT, dst=ANY_LAYOUT) | _on(_BOTH, src=_ND, dst=_ND),
    "row_expand_binary": _on(("cpu", *_BOTH), dst=_ROW_MAJOR),
    "column_expand_binary": _on(["cpu"], dst=_ROW_MAJOR, src0=_ROW_MAJOR, src1=_ROW_MAJOR) | _on(_BOTH, dst=_ROW_MAJOR),
}
"""Layouts by family, target and role; a role that is missing is not checked by that target."""

VALUE_LAYOUTS: dict[tuple[str, str], dict[str, LayoutRule]] = {
    ("column_arg", "cpu"): {"src": _ND, "dstIdx": _UNBOXED, "dstVal": ANY_LAYOUT},
}
"""Layouts of the value-and-index form where they differ from the index form."""

SCRATCH: dict[tuple[str, str], dict[str, str]] = {
    ("row_reduce", "sum"): {"a2a3": "row_fold"},
    ("row_reduce", "max"): {"a2a3": "row_fold"},
    ("row_reduce", "min"): {"a2a3": "row_fold"},
    ("row_reduce", "prod"): {"a2a3": "row_block"},
    ("row_arg", ""): {"a2a3": "row_arg"},
    ("column_reduce", "sum"): {"a2a3": "column_pairs", "a5": "column_pairs"},
    ("column_arg", ""): {"a2a3": "column_arg"},
    ("row_expand_binary", ""): {"a2a3": "broadcast"},
}
"""Which scratch rule holds; targets that are missing do not read scratch."""

EQUAL_CAPACITY: dict[tuple[str, str], str] = {
    ("row_reduce", "sum"): "rows",
    ("column_reduce", "sum"): "cols",
    ("column_reduce", "max"): "cols",
}
"""Capacity that source and destination must share on the CPU simulator."""

_SOURCES = {
    "cpu": "PTO headers: CPU simulator, compiled calls",
    "a2a3": "PTO headers: A2/A3 checks",
    "a5": "PTO headers: A5 checks",
}
_VEC_CHECKED_ON_NPU = ("row_reduce", "row_arg", "column_reduce", "column_arg", "row_expand", "column_expand")


def _types(family: str, operator: str, target: str) -> Pairs:
    key = "expand_binary" if family.endswith("binary") else family
    return (TYPES.get((key, operator)) or TYPES[key, ""])[target]


def _value_types(family: str, target: str, types: Pairs) -> Pairs:
    if (family, target) == ("column_arg", "a5"):
        return same(_sized(2, 4))
    return types


def support(family: str, operator: str) -> dict[str, Support]:
    """The three targets' rows for one operation of a family."""
    rows: dict[str, Support] = {}
    for target, source in _SOURCES.items():
        types = _types(family, operator, target)
        index_only, with_value = INDEX_TYPES.get((family, target), (None, None))
        scratch = SCRATCH.get((family, operator)) or SCRATCH.get((family, "")) or {}
        cpu = target == "cpu"
        rows[target] = Support(
            types=types,
            value_types=_value_types(family, target, types),
            index_types=index_only,
            value_index_types=with_value,
            layouts=LAYOUTS[family][target],
            value_layouts=VALUE_LAYOUTS.get((family, target)),
            scratch=scratch.get(target, ""),
            vec_only=family.endswith("arg") if cpu else family in _VEC_CHECKED_ON_NPU,
            equal_capacity=EQUAL_CAPACITY.get((family, operator), "") if cpu else "",
            sixteen_bit_extents=cpu and family.endswith("reduce") and operator in ("sum", "prod"),
            confidence=Confidence.MEASURED if cpu else Confidence.READ,
            source=source,
        )
    return rows
