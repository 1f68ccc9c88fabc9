"""Softmax: exponentials of the distance from the largest element, divided by their sum."""

from __future__ import annotations

from dataclasses import dataclass

from lanefold.diagnostics import Cure, Place
from lanefold.ops.checks import RULE_DTYPE, check_dtype, check_shape, is_float, normal_axes, take_fields


@dataclass(frozen=True)
class Softmax:
    """``out = e / Σ e`` with ``e = exp(in − max in)``, maximum and sum over the axes.

    Args:
        input_shape: extents in elements.
        axes: axes that are normalised together, negative ones counted from the end; held from 0 in ascending order.
        dtype: type name of input and output, a floating-point type.

    Raises:
        LanefoldError: an extent below 1, an axis out of range, or a type without exponentials.

    Source: ONNX operators, Softmax.
    """

    input_shape: tuple[int, ...]
    axes: tuple[int, ...] = (-1,)
    dtype: str = "float32"

    def __post_init__(self) -> None:
        take_fields(self)
        check_dtype(self.dtype)
        check_shape("Softmax", "input_shape", self.input_shape)
        object.__setattr__(self, "axes", normal_axes("Softmax", self.axes, len(self.input_shape)))
        if not is_float(self.dtype):
            raise RULE_DTYPE.error(
                f"Softmax does not take {self.dtype}",
                got=self.dtype,
                allowed="a floating-point type",
                cures=[Cure("use dtype float32", {"dtype": "float32"})],
                place=Place(operand="Softmax", field="dtype"),
            )

    @property
    def output_dtype(self) -> str:
        """Type name of the output."""
        return self.dtype

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Extents of the result."""
        return self.input_shape
