"""Expand, Reciprocal, Iota and Gather: operations that spread, invert, count and fetch."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from lanefold.diagnostics import Cure, Place, Rule
from lanefold.ops.checks import (
    GREATEST_SIZE,
    check_dtype,
    check_shape,
    check_word,
    normal_axes,
    size_error,
    take_fields,
)

EXPAND_OPERATORS = ("bypass", "add", "subtract", "mult", "divide", "max", "min", "exp_difference")

RULE_STEPS = Rule(
    "OP-IOTA-STEPS",
    "Iota has one step per dimension of its output.",
    "NKI ISA: iota, pattern of (step, num) pairs",
)


@dataclass(frozen=True)
class Expand:
    """``out[i] = operator(in[i], vector[i with 0 on the repeated axes])``; bypass takes the vector's value alone.

    Args:
        operator: one of `EXPAND_OPERATORS`; exp_difference is exp(in − vector).
        input_shape: extents of the full tensor, in elements.
        axes: axes along which the vector, of extent 1 there, is repeated.
        dtype: type name of tensor and vector.
        output_dtype: type name of the output; ``dtype`` if empty.

    Raises:
        LanefoldError: an unknown operator, or an axis out of range.

    Source: PTO headers, TRowExpand and TColExpand families; ONNX operators, Expand.
    """

    operator: str
    input_shape: tuple[int, ...]
    axes: tuple[int, ...]
    dtype: str = "float32"
    output_dtype: str = ""

    def __post_init__(self) -> None:
        take_fields(self)
        check_word("Expand", "operator", self.operator, EXPAND_OPERATORS)
        check_shape("Expand", "input_shape", self.input_shape)
        object.__setattr__(self, "axes", normal_axes("Expand", self.axes, len(self.input_shape)))
        object.__setattr__(self, "output_dtype", self.output_dtype or self.dtype)
        check_dtype(self.dtype, self.output_dtype)

    @property
    def vector_shape(self) -> tuple[int, ...]:
        """Extents of the operand that is repeated."""
        return tuple(1 if axis in self.axes else extent for axis, extent in enumerate(self.input_shape))

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Extents of the result."""
        return self.input_shape


@dataclass(frozen=True)
class Reciprocal:
    """``out[i] = 1 / in[i]``.

    Args:
        input_shape: extents in elements.
        dtype: type name of the input.
        output_dtype: type name of the output; ``dtype`` if empty.

    Raises:
        LanefoldError: an extent below 1.

    Source: ONNX operators, Reciprocal; NKI ISA, reciprocal.
    """

    input_shape: tuple[int, ...]
    dtype: str = "float32"
    output_dtype: str = ""

    def __post_init__(self) -> None:
        take_fields(self)
        check_shape("Reciprocal", "input_shape", self.input_shape)
        object.__setattr__(self, "output_dtype", self.output_dtype or self.dtype)
        check_dtype(self.dtype, self.output_dtype)

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Extents of the result."""
        return self.input_shape


@dataclass(frozen=True)
class Iota:
    """``out[i] = base + Σ over axes of step[axis]·i[axis]``, in 32-bit integers, then cast.

    Args:
        shape: extents of the output, in elements.
        steps: one integer per dimension.
        base: the first value.
        output_dtype: type name of the output.

    Raises:
        LanefoldError: an extent below 1, or a number of steps other than the number of dimensions.

    Source: NKI ISA, iota.
    """

    shape: tuple[int, ...]
    steps: tuple[int, ...]
    base: int = 0
    output_dtype: str = "int32"

    def __post_init__(self) -> None:
        take_fields(self)
        check_dtype(self.output_dtype)
        check_shape("Iota", "shape", self.shape)
        if len(self.steps) != len(self.shape):
            healed = (self.steps + (0,) * len(self.shape))[: len(self.shape)]
            raise RULE_STEPS.error(
                f"Iota over {len(self.shape)} dimensions cannot take {len(self.steps)} steps",
                got=list(self.steps),
                allowed=f"{len(self.shape)} integers",
                cures=[Cure(f"use steps {list(healed)}", {"steps": healed})],
                place=Place(operand="Iota", field="steps"),
            )

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Extents of the result."""
        return self.shape


@dataclass(frozen=True)
class Gather:
    """``out[before, j, after] = in[before, indices[j], after]`` along one axis.

    Args:
        input_shape: extents of the data, in elements.
        indices_shape: extents of the indices; empty for one scalar index.
        axis: the axis to fetch from, negative counted from the end.
        dtype: type name of data and output.
        index_dtype: type name of the indices.

    Raises:
        LanefoldError: an extent below 1, or an axis out of range.

    Source: ONNX operators, Gather; NKI ISA, nc_n_gather.
    """

    input_shape: tuple[int, ...]
    indices_shape: tuple[int, ...]
    axis: int = -1
    dtype: str = "float32"
    index_dtype: str = "uint32"

    def __post_init__(self) -> None:
        take_fields(self)
        check_dtype(self.dtype, self.index_dtype)
        check_shape("Gather", "input_shape", self.input_shape)
        check_shape("Gather", "indices_shape", self.indices_shape, 0)
        (axis,) = normal_axes("Gather", (self.axis,), len(self.input_shape))
        object.__setattr__(self, "axis", axis)
        size = prod(self.output_shape)
        if size > GREATEST_SIZE:
            room = GREATEST_SIZE * self.input_shape[axis] // prod(self.input_shape)
            cure = Cure(f"give indices_shape [{room}] or less", {"indices_shape": (room,)})
            raise size_error("Gather", "output", self.output_shape, size, cure)

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Extents of the result."""
        return (*self.input_shape[: self.axis], *self.indices_shape, *self.input_shape[self.axis + 1 :])
