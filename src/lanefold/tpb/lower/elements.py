"""Passes over single elements: |x|, x·x and −x, done by folds of a pair that a zero step repeats."""

from __future__ import annotations

from dataclasses import replace

from lanefold.numerics.dtypes import by_name
from lanefold.tpb.lower.dims import GREATEST_NUM, pieces
from lanefold.tpb.lower.plan import Builder, Region
from lanefold.tpb.patterns import Access

_OPERATORS = {"abs": "abs", "square": "mult"}


def mapped(builder: Builder, source: Region, element: str) -> Region:
    """A region with ``element`` (``abs`` or ``square``) applied to every element of ``source``.

    Folding the pair (x, x) that a step of 0 makes gives abs: |x|, and mult: x·x. The result is float32, or int32
    where the source is.
    """
    dtype = "int32" if source.dtype == "int32" else "float32"
    made = builder.region(f"{source.name}_{element}", source.elements, dtype, source.partitions)
    for start, length in pieces(source.elements, GREATEST_NUM):
        builder.instruction(
            "TensorReduce",
            [source.access([(1, length), (0, 2)], start)],
            [made.access([(1, length)], start)],
            "DVE",
            op=_OPERATORS[element],
            axis="X",
        )
    builder.note(f"{element} by a fold of each element with itself (step 0)")
    return made


def negated(builder: Builder, source: Region, partitions: int = 0) -> None:
    """Flips the sign of every element in place, by a bypass fold of one element with negate."""
    for start, length in pieces(source.elements, GREATEST_NUM):
        operand = source.access([(1, length), (1, 1)], start, partitions)
        out = source.access([(1, length)], start, partitions)
        builder.instruction("TensorReduce", [operand], [out], "DVE", op="bypass", axis="X", negate=True)


def mapped_bytes(dtype: str, element: str) -> int:
    """Bytes per element that `mapped` adds; 0 where there is nothing to map."""
    return 0 if element == "identity" else by_name("int32" if dtype == "int32" else "float32").bytes


def signed(builder: Builder, source: Access, out: Access, *, negate: bool) -> None:
    """Copies a row of elements to another row, cast to its type, with or without its sign turned.

    One free pair each; a bypass fold of one element.
    """
    ((step, count),) = source.free
    operand = replace(source, pattern=(source.pattern[0], (step, count), (1, 1)))
    builder.instruction("TensorReduce", [operand], [out], "DVE", op="bypass", axis="X", negate=negate)
