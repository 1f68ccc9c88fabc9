"""Which instructions each tile operation is made of on A2/A3, and the element types it takes there."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from lanefold.pto.isa import ELEMENTS, OPERATIONS
from lanefold.pto.isa import NAMES as OP_NAMES


class Family(StrEnum):
    """Operations whose instruction sequences are built alike."""

    ROW_REDUCE = "row reduce"
    ROW_PRODUCT = "row product"
    ROW_ARG = "row arg"
    COLUMN_REDUCE = "column reduce"
    COLUMN_SUM = "column sum"
    COLUMN_ARG = "column arg"
    ROW_EXPAND = "row expand"
    ROW_EXPAND_OP = "row expand with operator"
    COLUMN_EXPAND = "column expand"
    COLUMN_EXPAND_OP = "column expand with operator"
    ELEMENTWISE = "elementwise"
    TRANSFER = "transfer"


@dataclass(frozen=True, slots=True)
class Recipe:
    """One operation: its family, the vector instructions of its kernel and the element types of A2/A3.

    ``lanes`` works element by element, ``across`` folds one repeat to one element, ``blocks`` folds each 32-byte block
    to one element, ``then`` follows as a second elementwise pass. ``forms`` are the call forms with costs of their own,
    the first is the default. ``source`` says where the sequence is written.
    """

    op: str
    family: Family
    lanes: str = ""
    across: str = ""
    blocks: str = ""
    then: str = ""
    dtypes: tuple[str, ...] = ()
    forms: tuple[str, ...] = ("",)
    source: str = ""


ARITHMETIC = ("f32", "f16", "i32", "i16")
FLOATS = ("f32", "f16")
ANY = tuple(row.name for row in ELEMENTS.values() if row.bytes <= 4)

_ROW = "PTO headers: TRowReduce"
_ROW_PRODUCT = "PTO headers: TRowProd"
_ROW_ARG = "PTO headers: TRowArg"
_COLUMN = "PTO headers: TColReduce"
_COLUMN_SUM = "PTO headers: TColSum"
_COLUMN_ARG = "PTO headers: TColArg"
_ROW_EXPAND = "PTO headers: TRowExpand"
_ROW_EXPAND_OP = "PTO headers: TRowExpandBinOp"
_COLUMN_EXPAND = "PTO headers: TColExpand"
_COLUMN_EXPAND_OP = "PTO headers: TColExpandBinOp"
_TRANSFER = "PTO headers: TLoad, TStore"
_ELEMENTWISE = "PTO headers: elementwise operations"

_OPERATORS = (
    ("ADD", "vadd", ""),
    ("SUB", "vsub", ""),
    ("MUL", "vmul", ""),
    ("DIV", "vdiv", ""),
    ("MAX", "vmax", ""),
    ("MIN", "vmin", ""),
    ("EXPDIF", "vsub", "vexp"),
)


def _expand_ops(stem: str, family: Family, source: str) -> list[Recipe]:
    return [
        Recipe(
            f"{stem}EXPAND{suffix}",
            family,
            lanes,
            then=then,
            source=source,
        )
        for suffix, lanes, then in _OPERATORS
    ]


def _elementwise() -> list[Recipe]:
    named = (
        ("TADD", "vadd", ARITHMETIC),
        ("TSUB", "vsub", ARITHMETIC),
        ("TMUL", "vmul", ARITHMETIC),
        ("TDIV", "vdiv", FLOATS),
        ("TMAX", "vmax", ARITHMETIC),
        ("TMIN", "vmin", ARITHMETIC),
        ("TADDS", "vadds", ARITHMETIC),
        ("TMULS", "vmuls", ARITHMETIC),
        ("TMINS", "vmins", ARITHMETIC),
        ("TABS", "vabs", FLOATS),
        ("TEXP", "vexp", FLOATS),
        ("TSQRT", "vsqrt", FLOATS),
        ("TRSQRT", "vrsqrt", FLOATS),
    )
    return [Recipe(op, Family.ELEMENTWISE, lanes, dtypes=dtypes, source=_ELEMENTWISE) for op, lanes, dtypes in named]


_ROWS = [
    Recipe("TROWSUM", Family.ROW_REDUCE, "vadd", "vcadd", "vcgadd", source=_ROW),
    Recipe("TROWMAX", Family.ROW_REDUCE, "vmax", "vcmax", "vcgmax", source=_ROW),
    Recipe("TROWMIN", Family.ROW_REDUCE, "vmin", "vcmin", "vcgmin", source=_ROW),
    Recipe("TROWPROD", Family.ROW_PRODUCT, "vmul", source=_ROW_PRODUCT),
    *(
        Recipe(op, Family.ROW_ARG, across=across, forms=("index", "value_index"), source=_ROW_ARG)
        for op, across in (("TROWARGMAX", "vcmax"), ("TROWARGMIN", "vcmin"))
    ),
    Recipe(
        "TCOLSUM",
        Family.COLUMN_SUM,
        "vadd",
        forms=("sequential", "binary", "no_tmp"),
        source=_COLUMN_SUM,
    ),
    Recipe("TCOLMAX", Family.COLUMN_REDUCE, "vmax", source=_COLUMN),
    Recipe("TCOLMIN", Family.COLUMN_REDUCE, "vmin", source=_COLUMN),
    Recipe("TCOLPROD", Family.COLUMN_REDUCE, "vmul", source=_COLUMN),
    *(
        Recipe(
            op,
            Family.COLUMN_ARG,
            lanes,
            forms=("index", "value_index"),
            source=_COLUMN_ARG,
        )
        for op, lanes in (("TCOLARGMAX", "vmax"), ("TCOLARGMIN", "vmin"))
    ),
    Recipe("TROWEXPAND", Family.ROW_EXPAND, "vector_dup", source=_ROW_EXPAND),
    *_expand_ops("TROW", Family.ROW_EXPAND_OP, _ROW_EXPAND_OP),
    Recipe("TCOLEXPAND", Family.COLUMN_EXPAND, "copy_ubuf_to_ubuf", source=_COLUMN_EXPAND),
    *_expand_ops("TCOL", Family.COLUMN_EXPAND_OP, _COLUMN_EXPAND_OP),
    *_elementwise(),
    Recipe("TLOAD", Family.TRANSFER, "copy_gm_to_ubuf_align", dtypes=ANY, forms=("GM->UB",), source=_TRANSFER),
    Recipe("TSTORE", Family.TRANSFER, "copy_ubuf_to_gm_align", dtypes=ANY, forms=("UB->GM",), source=_TRANSFER),
    Recipe("TMOV", Family.TRANSFER, "copy_ubuf_to_ubuf", dtypes=ANY, forms=("UB->UB",), source="PTO headers: TMov"),
]

RECIPES: dict[str, Recipe] = {row.op: row for row in _ROWS}
"""The recipe of every operation by its name."""

NAMES: dict[str, str] = {name: op for name, op in OP_NAMES.items() if op in RECIPES} | {
    op.lower(): op for op in RECIPES
}
"""Every accepted spelling in lower case, with the name it stands for."""


def dtypes(recipe: Recipe, target: str) -> tuple[str, ...]:
    """Element types that an operation may have on a target (those of its source)."""
    if recipe.op not in OPERATIONS:
        return recipe.dtypes
    legal = {source for source, _ in OPERATIONS[recipe.op].support[target].types}
    return tuple(name for name in ELEMENTS if name in legal)
