"""Rules and small checks that all target-neutral ops share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from math import prod
from typing import Any

import numpy as np

from lanefold import arguments
from lanefold.diagnostics import Cure, LanefoldError, Place, Rule
from lanefold.numerics import dtypes

ELEMENTS = ("identity", "abs", "square")

RULE_WORD = Rule(
    "OP-WORD",
    "A word that chooses a variant of an op is one of those the op knows.",
    "lanefold ops: fields operator and element",
)
RULE_SHAPE = Rule(
    "OP-SHAPE",
    "Every extent of an op's shapes is a positive integer, and the rank fits the op.",
    "lanefold ops: field input_shape",
)
RULE_SIZE = Rule(
    "OP-SIZE",
    "A tensor of an op has at most 2^28 elements, which is 1 GiB of float32.",
    "lanefold ops: what a simulation on one machine holds",
)
GREATEST_SIZE = 1 << 28
"""Elements of the largest tensor of an op."""
RULE_AXIS = Rule(
    "OP-AXIS",
    "An axis lies in −rank … rank − 1, and no axis stands twice.",
    "ONNX operators: ReduceSum, input axes",
)
RULE_DTYPE = Rule(
    "OP-DTYPE",
    "Bitwise operators take integers; the element mappings abs and square belong to arithmetic operators.",
    "NKI ISA: common fields, supported math operators",
)


_TEXTS = ("operator", "element", "dtype", "output_dtype", "index_dtype")
_TYPE_NAMES = tuple(row.name for row in reversed(dtypes.DTYPES) if row.is_number)
_KNOWN = {"operator": ("max", "min", "add", "…"), "element": ELEMENTS}
_WIDE = ("input_shape", "shape", "indices_shape", "axes", "kernel", "strides", "dilations", "pads")
_ANY = (1 << 63) - 1
_INTEGERS = ("base",)
_WIDE_INTEGERS = ("axis", "k")
_FLAGS = ("keepdims", "select_last_index", "ceil_mode", "count_include_pad", "largest", "sorted")


def _text(owner: str, name: str, value: object) -> str:
    return arguments.text(owner, name, value, _KNOWN.get(name, _TYPE_NAMES))


def _wide(owner: str, name: str, value: object) -> tuple[int, ...]:
    """Extents, axes and windows; too large ones are refused by their own rules, which say what could be given."""
    return arguments.integers(owner, name, value, low=-_ANY, high=_ANY)


def _wide_integer(owner: str, name: str, value: object) -> int:
    return arguments.integer(owner, name, value, low=-_ANY, high=_ANY)


_TAKEN: dict[str, Callable[[str, str, Any], object]] = {
    **dict.fromkeys(_TEXTS, _text),
    **dict.fromkeys(_WIDE, _wide),
    **dict.fromkeys(_INTEGERS, arguments.integer),
    **dict.fromkeys(_WIDE_INTEGERS, _wide_integer),
    **dict.fromkeys(_FLAGS, arguments.flag),
}


def take_fields(op: Any) -> None:
    """Refuse fields of another type than the op documents; all that are no word, number or truth value are integers."""
    owner = type(op).__name__
    for each in fields(op):
        taken = _TAKEN.get(each.name, arguments.integers)(owner, each.name, getattr(op, each.name))
        object.__setattr__(op, each.name, taken)


def check_size(owner: str, field: str, shape: Sequence[int]) -> None:
    """Refuse a shape of more than `GREATEST_SIZE` elements.

    Raises:
        LanefoldError: OP-SIZE with the number of elements.
    """
    size = prod(shape)
    if size <= GREATEST_SIZE:
        return
    healed = list(shape)
    while prod(healed) > GREATEST_SIZE:
        at = max(range(len(healed)), key=healed.__getitem__)
        healed[at] = max(healed[at] * GREATEST_SIZE // prod(healed), 1)
    raise size_error(owner, field, shape, size, Cure(f"give {field} {healed}", {field: tuple(healed)}))


def size_error(owner: str, field: str, shape: Sequence[int], size: int, *cures: Cure) -> LanefoldError:
    """The exception for a tensor that is too large to simulate."""
    return RULE_SIZE.error(
        f"{owner} cannot work on a tensor of {size} elements, {field} {list(shape)}",
        got=f"{size} elements",
        allowed=f"at most {GREATEST_SIZE} elements",
        cures=cures,
        place=Place(operand=owner, field=field),
    )


def check_word(owner: str, field: str, got: str, allowed: Sequence[str]) -> None:
    """Refuse a word that is not one of ``allowed``.

    Raises:
        LanefoldError: OP-WORD with the words that are.
    """
    if got not in allowed:
        raise RULE_WORD.error(
            f"{owner} has no {field} {got!r}",
            got=repr(got),
            allowed=", ".join(allowed),
            cures=[Cure(f"use {field} {allowed[0]!r}", {field: allowed[0]})],
            place=Place(operand=owner, field=field),
        )


def check_shape(owner: str, field: str, shape: Sequence[int], low: int = 1, high: int = 32, room: int = 1) -> None:
    """Refuse a rank outside ``low`` … ``high``, an extent below 1, too many elements; cures give ``room`` instead.

    Raises:
        LanefoldError: OP-SHAPE for rank and extents, OP-SIZE for the number of elements.
    """
    rank = len(shape)
    if low <= rank <= high and all(extent >= 1 for extent in shape):
        check_size(owner, field, shape)
        return
    healed = tuple(int(extent) if extent >= 1 else room for extent in shape)[:high]
    healed = healed + (room,) * (low - len(healed))
    raise RULE_SHAPE.error(
        f"{owner} cannot work on {field} {list(shape)}",
        got=list(shape),
        allowed=f"{low} to {high} dimensions, each at least 1" if low != high else f"{low} dimensions, each at least 1",
        cures=[Cure(f"give {field} {list(healed)}", {field: healed})],
        place=Place(operand=owner, field=field),
    )


def normal_axes(owner: str, axes: Sequence[int], rank: int) -> tuple[int, ...]:
    """The axes counted from 0 and in ascending order; an axis out of range or named twice is refused.

    Raises:
        LanefoldError: OP-AXIS for such axes.
    """
    inside = [axis + rank if axis < 0 else axis for axis in axes if -rank <= axis < rank]
    if len(inside) == len(axes) and len(set(inside)) == len(inside) and inside:
        return tuple(sorted(inside))
    healed = tuple(sorted(set(inside))) or (rank - 1,)
    raise RULE_AXIS.error(
        f"{owner} cannot reduce or walk axes {list(axes)} of a tensor with {rank} dimensions",
        got=list(axes),
        allowed=f"at least one axis, different axes from {-rank} to {rank - 1}",
        cures=[Cure(f"use axes {list(healed)}", {"axes": healed, "axis": healed[0]})],
        place=Place(operand=owner, field="axes"),
    )


def check_dtype(*names: str) -> None:
    """Refuse names that are no element types."""
    for name in names:
        dtypes.by_name(name)


def is_float(dtype: str) -> bool:
    """Whether a type name is that of a floating-point type."""
    return dtype.startswith(("float", "bfloat"))


def identity(operator: str, dtype: str) -> int | float | None:
    """The value that leaves ``operator`` unchanged in ``dtype``; None for an average, which has none.

    A maximum starts at −inf or the lowest integer, a minimum at +inf or the highest.

    Raises:
        LanefoldError: CALL-ARGUMENT, TPB-DTYPE-NAME for what names no operator or element type.

    Source: ONNX operators, ReduceMax, ReduceMin, ReduceProd and ReduceSum, empty sets.
    """
    arguments.text("identity", "operator", operator, ("add", "mult", "max", "min"))
    if not is_float(arguments.text("identity", "dtype", dtype, _TYPE_NAMES)) and dtype != "bool":
        check_dtype(dtype)
    if operator.startswith("bitwise") and is_float(dtype):
        raise _dtype_error(
            "identity", f"{operator} on {dtype}", "an integer type with a bitwise operator", dtype="int32"
        )
    if operator in ("max", "min"):
        sign = -1 if operator == "max" else 1
        if is_float(dtype):
            return sign * float("inf")
        if dtype == "bool":
            return int(operator == "min")
        limits = np.iinfo(dtype)
        return int(limits.min if operator == "max" else limits.max)
    if operator == "bitwise_and":
        return 1 if dtype == "bool" else -1 if dtype.startswith("int") else int(np.iinfo(dtype).max)
    fixed = {"add": 0, "mult": 1, "bitwise_or": 0, "bitwise_xor": 0, "logical_and": 1, "logical_or": 0}
    return fixed.get(operator, 0 if operator == "logical_xor" else None)


def identity_text(operator: str, dtype: str) -> str:
    """The identity in words for messages."""
    value = identity(operator, dtype)
    if value is None:
        return f"{operator} has no identity: it would divide 0 by 0"
    return f"the identity of {operator} in {dtype} is {value}"


def check_element(owner: str, operator: str, element: str, dtype: str) -> None:
    """Refuse an unknown element mapping, and one that does not fit operator or type.

    Raises:
        LanefoldError: OP-WORD for the mapping, OP-DTYPE for operator or type.
    """
    check_dtype(dtype)
    check_word(owner, "element", element, ELEMENTS)
    bitwise = operator.startswith("bitwise")
    if bitwise and is_float(dtype):
        raise _dtype_error(owner, f"{operator} on {dtype}", "an integer type with a bitwise operator", dtype="int32")
    if element != "identity" and operator.startswith(("bitwise", "logical")):
        raise _dtype_error(
            owner, f"{operator} of {element}", "element identity with a bitwise or logical operator", element="identity"
        )


def _dtype_error(owner: str, got: str, allowed: str, **change: object) -> LanefoldError:
    (field,) = change
    text = ", ".join(f"{name} {value}" for name, value in change.items())
    return RULE_DTYPE.error(
        f"{owner} does not take {got}",
        got=got,
        allowed=allowed,
        cures=[Cure(f"use {text}", change)],
        place=Place(operand=owner, field=field),
    )
