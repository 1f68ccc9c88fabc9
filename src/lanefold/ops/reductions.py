"""Reduce, ArgReduce and TopK: operations that fold whole axes."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from lanefold.diagnostics import Cure, Place, Rule
from lanefold.ops.checks import (
    check_dtype,
    check_element,
    check_shape,
    check_word,
    identity_text,
    normal_axes,
    take_fields,
)

REDUCE_OPERATORS = (
    "add",
    "mult",
    "max",
    "min",
    "average",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "logical_and",
    "logical_or",
    "logical_xor",
)

RULE_EMPTY_SET = Rule(
    "OP-REDUCE-EMPTY",
    "A reduction folds at least one element into each output.",
    "ONNX operators: ReduceSum, ReduceMax, ArgMax, empty sets",
)
RULE_K = Rule(
    "OP-TOPK-K",
    "TopK asks for at least one value and for no more than the axis holds.",
    "ONNX operators: TopK, input K",
)


def _reduced(shape: tuple[int, ...], axes: tuple[int, ...], keepdims: bool) -> tuple[int, ...]:
    if keepdims:
        return tuple(1 if axis in axes else extent for axis, extent in enumerate(shape))
    return tuple(extent for axis, extent in enumerate(shape) if axis not in axes)


def _check_extents(owner: str, shape: tuple[int, ...], axes: tuple[int, ...], consequence: str) -> None:
    empty = [axis for axis in axes if shape[axis] == 0]
    if not empty:
        return
    healed = tuple(1 if axis in empty else extent for axis, extent in enumerate(shape))
    raise RULE_EMPTY_SET.error(
        f"axis {empty[0]} of {list(shape)} holds no element to fold; {consequence}",
        got=f"extent 0 on axis {empty[0]}",
        allowed="extents of at least 1",
        cures=[
            Cure(f"give input_shape {list(healed)}", {"input_shape": healed}),
            "fold the result as a constant before the op",
        ],
        place=Place(operand=owner, field="input_shape"),
    )


@dataclass(frozen=True)
class Reduce:
    """``out[kept] = operator over reduced of element(in[kept, reduced])``.

    Args:
        operator: one of `REDUCE_OPERATORS`, in the words of the ALU operator table.
        input_shape: extents in elements.
        axes: axes to fold, negative ones counted from the end; held from 0 in ascending order.
        keepdims: folded axes stay with extent 1.
        element: mapping of each input value before the operator: identity, abs or square.
        dtype: type name of the input.
        output_dtype: type name of the output; ``dtype`` if empty.

    Raises:
        LanefoldError: an unknown word, an axis out of range, a type the operator does not take, or an empty set.

    Source: ONNX operators, Reduce family; NKI ISA, tensor_reduce.
    """

    operator: str
    input_shape: tuple[int, ...]
    axes: tuple[int, ...]
    keepdims: bool = True
    element: str = "identity"
    dtype: str = "float32"
    output_dtype: str = ""

    def __post_init__(self) -> None:
        take_fields(self)
        check_word("Reduce", "operator", self.operator, REDUCE_OPERATORS)
        check_element("Reduce", self.operator, self.element, self.dtype)
        axes = normal_axes("Reduce", self.axes, len(self.input_shape))
        object.__setattr__(self, "axes", axes)
        object.__setattr__(self, "output_dtype", self.output_dtype or self.dtype)
        check_dtype(self.output_dtype)
        _check_extents("Reduce", self.input_shape, axes, identity_text(self.operator, self.dtype))
        check_shape("Reduce", "input_shape", self.input_shape)

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Extents of the result."""
        return _reduced(self.input_shape, self.axes, self.keepdims)

    @property
    def count(self) -> int:
        """Elements folded into each output."""
        return prod(self.input_shape[axis] for axis in self.axes)


@dataclass(frozen=True)
class ArgReduce:
    """``out[kept] = index i of the largest or smallest in[kept, i]``; the first of equals, or the last if asked.

    Args:
        operator: max or min.
        input_shape: extents in elements.
        axis: the axis to search, negative counted from the end.
        keepdims: the searched axis stays with extent 1.
        select_last_index: of equal values take the last index instead of the first.
        dtype: type name of the input.
        output_dtype: type name of the indices.

    Raises:
        LanefoldError: an unknown operator, an axis out of range, or an axis without elements.

    Source: ONNX operators, ArgMax and ArgMin.
    """

    operator: str
    input_shape: tuple[int, ...]
    axis: int
    keepdims: bool = True
    select_last_index: bool = False
    dtype: str = "float32"
    output_dtype: str = "uint32"

    def __post_init__(self) -> None:
        take_fields(self)
        check_word("ArgReduce", "operator", self.operator, ("max", "min"))
        check_dtype(self.dtype, self.output_dtype)
        (axis,) = normal_axes("ArgReduce", (self.axis,), len(self.input_shape))
        object.__setattr__(self, "axis", axis)
        _check_extents("ArgReduce", self.input_shape, (axis,), "an index of no element does not exist")
        check_shape("ArgReduce", "input_shape", self.input_shape)

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Extents of the indices."""
        return _reduced(self.input_shape, (self.axis,), self.keepdims)


@dataclass(frozen=True)
class TopK:
    """``values[kept, r], indices[kept, r] = the r-th largest (smallest) in[kept, i] and its i``, r < k; low i first.

    Args:
        input_shape: extents in elements.
        axis: the axis to search, negative counted from the end.
        k: values wanted from each row.
        largest: the largest values, else the smallest.
        sorted: values come in descending (ascending) order.
        dtype: type name of input and values.
        index_dtype: type name of the indices.

    Raises:
        LanefoldError: an axis out of range, or k below 1 or beyond the axis.

    Source: ONNX operators, TopK.
    """

    input_shape: tuple[int, ...]
    axis: int
    k: int
    largest: bool = True
    sorted: bool = True
    dtype: str = "float32"
    index_dtype: str = "uint32"

    def __post_init__(self) -> None:
        take_fields(self)
        check_dtype(self.dtype, self.index_dtype)
        (axis,) = normal_axes("TopK", (self.axis,), len(self.input_shape))
        object.__setattr__(self, "axis", axis)
        check_shape("TopK", "input_shape", self.input_shape)
        extent = self.input_shape[axis]
        if not 1 <= self.k <= extent:
            healed = min(max(self.k, 1), extent)
            raise RULE_K.error(
                f"TopK cannot take {self.k} of {extent} elements on axis {axis}",
                got=self.k,
                allowed=f"1 to {extent}",
                cures=[Cure(f"use k {healed}", {"k": healed})],
                place=Place(operand="TopK", field="k"),
            )

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Extents of values and of indices."""
        return tuple(self.k if axis == self.axis else extent for axis, extent in enumerate(self.input_shape))
