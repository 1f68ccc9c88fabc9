"""Pool: one window function over the spatial axes of a batch of channels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

from lanefold.arguments import GREATEST
from lanefold.diagnostics import Cure, Diagnostic, LanefoldError, Place, Rule
from lanefold.ops.checks import (
    GREATEST_SIZE,
    check_dtype,
    check_element,
    check_shape,
    check_word,
    identity_text,
    size_error,
    take_fields,
)
from lanefold.ops.windows import AxisWindows, PoolShape, outputs_of, pool_shape

POOL_OPERATORS = ("max", "average", "add")

RULE_ATTRIBUTE = Rule(
    "OP-POOL-ATTRIBUTE",
    "Kernel, strides and dilations hold one integer of at least 1 per spatial axis, pads two of at least 0; none has "
    "more than 31 bits.",
    "ONNX operators: MaxPool, attributes kernel_shape, strides, dilations and pads",
)
RULE_WIDE = Rule(
    "OP-POOL-WINDOW-WIDE",
    "The effective window dilation·(kernel − 1) + 1 fits the padded input at least once.",
    "ONNX operators: MaxPool, output shape",
)
RULE_EMPTY = Rule(
    "OP-POOL-WINDOW-EMPTY",
    "Every window holds at least one real element.",
    "ONNX operators: AveragePool, attributes pads and count_include_pad; an empty window would divide by zero",
)


@dataclass(frozen=True)
class Pool:
    """``out[n, c, o] = operator over j of element(in[n, c, o·stride + j·dilation − pad_begin])``, pads left out.

    Args:
        operator: max, average (sum times 1/N) or add.
        input_shape: (N, C, *spatial) with 1 to 3 spatial axes, in elements.
        kernel: window per spatial axis, in elements.
        strides: step from window to window; ones if empty. None is held beyond the padded axis and the window.
        dilations: step inside a window; ones if empty.
        pads: all begins, then all ends, in elements; zeros if empty.
        ceil_mode: round the number of outputs up; a last window that would begin beyond the input is dropped.
        count_include_pad: the average's N counts the window clipped to the padded input, else its real elements only.
        element: mapping of each input value before the operator: identity, abs or square.
        dtype: type name of the input.
        output_dtype: type name of the output; ``dtype`` if empty.

    Raises:
        LanefoldError: an unknown word, an attribute out of range, a window wider than the padded input, or a window
            without a real element.

    Source: ONNX operators, MaxPool, AveragePool and LpPool.
    """

    operator: str
    input_shape: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...] = ()
    dilations: tuple[int, ...] = ()
    pads: tuple[int, ...] = ()
    ceil_mode: bool = False
    count_include_pad: bool = False
    element: str = "identity"
    dtype: str = "float32"
    output_dtype: str = ""

    def __post_init__(self) -> None:
        take_fields(self)
        rank = len(self.input_shape) - 2
        filled = {
            "strides": self.strides or (1,) * rank,
            "dilations": self.dilations or (1,) * rank,
            "pads": self.pads or (0,) * (2 * rank),
            "output_dtype": self.output_dtype or self.dtype,
        }
        for name, value in filled.items():
            object.__setattr__(self, name, value)
        check_word("Pool", "operator", self.operator, POOL_OPERATORS)
        check_element("Pool", self.operator, self.element, self.dtype)
        check_dtype(self.output_dtype)
        room = max([1, *(d * (k - 1) + 1 for k, d in zip(self.kernel, self.dilations, strict=False))])
        check_shape("Pool", "input_shape", self.input_shape, 3, 5, room)
        self._check_attributes(rank)
        object.__setattr__(self, "strides", self._needed_strides(rank))
        self._check_windows()

    @cached_property
    def shape(self) -> PoolShape:
        """Outputs, dropped windows and window classes of the spatial axes."""
        return pool_shape(
            self.input_shape[2:],
            self.kernel,
            self.strides,
            self.dilations,
            self.pads,
            ceil_mode=self.ceil_mode,
            count_include_pad=self.count_include_pad,
        )

    @property
    def output_shape(self) -> tuple[int, ...]:
        """(N, C, *outputs)."""
        return (*self.input_shape[:2], *self.shape.output)

    def _needed_strides(self, rank: int) -> tuple[int, ...]:
        """The strides, none beyond padded axis and window: such a step leaves one window, as any longer one does."""
        rows = zip(
            self.strides,
            self.input_shape[2:],
            self.pads[:rank],
            self.pads[rank:],
            self.kernel,
            self.dilations,
            strict=True,
        )
        return tuple(min(stride, max(n + begin + end, d * (k - 1) + 1)) for stride, n, begin, end, k, d in rows)

    def _check_attributes(self, rank: int) -> None:
        wanted = (("kernel", rank, 1), ("strides", rank, 1), ("dilations", rank, 1), ("pads", 2 * rank, 0))
        found = []
        for name, length, low in wanted:
            value: tuple[int, ...] = getattr(self, name)
            if len(value) == length and all(low <= each <= GREATEST for each in value):
                continue
            healed = tuple(each if low <= each <= GREATEST else low for each in value[:length])
            healed += (low,) * (length - len(value))
            found.append(
                RULE_ATTRIBUTE.finding(
                    f"Pool over {rank} spatial axes cannot take {name} {list(value)}",
                    got=list(value),
                    allowed=f"{length} integers from {low} to {GREATEST}",
                    cures=[Cure(f"use {name} {list(healed)}", {name: healed})],
                    place=Place(operand="Pool", field=name),
                )
            )
        if found:
            raise LanefoldError(found)

    def _check_windows(self) -> None:
        size = self._size(self.kernel, self.pads)
        if size > GREATEST_SIZE:
            raise size_error("Pool", "output", self._outputs(self.kernel, self.pads), size, *self._cures())
        found = [self._wide(axis, at) for at, axis in enumerate(self.shape.axes) if axis.outputs < 1]
        found += [self._empty(axis, at) for at, axis in enumerate(self.shape.axes) if axis.outputs > 0 and axis.empty]
        if found:
            raise LanefoldError(found)

    def _wide(self, axis: AxisWindows, at: int) -> Diagnostic:
        padded = axis.size + axis.pad_begin + axis.pad_end
        return RULE_WIDE.finding(
            f"effective window {axis.effective} (kernel {axis.kernel}, dilation {axis.dilation}) is wider than the "
            f"input {axis.size} + pads {axis.pad_begin} + {axis.pad_end} = {padded} on spatial axis {at}",
            got=f"effective window {axis.effective}",
            allowed=f"at most {padded}",
            cures=self._cures(),
            place=Place(operand="Pool", field="kernel"),
        )

    def _empty(self, axis: AxisWindows, at: int) -> Diagnostic:
        first, count = axis.empty[0]
        start = first * axis.stride - axis.pad_begin
        which = f"output {first}" if count == 1 else f"outputs {first} to {first + count - 1}"
        return RULE_EMPTY.finding(
            f"the window of {which} on spatial axis {at} begins at {start} and holds no element of the input "
            f"0 … {axis.size - 1}; {identity_text(self.operator, self.dtype)}",
            got=f"{sum(number for _, number in axis.empty)} windows with 0 real elements",
            allowed="at least 1 real element in each window",
            cures=self._cures(),
            place=Place(operand="Pool", field="pads"),
        )

    def _cures(self) -> Sequence[Cure]:
        """Changes that make all windows legal: without pads, with a kernel that fits, or with both."""
        sizes, rank = self.input_shape[2:], len(self.kernel)
        none = (0,) * (2 * rank)
        padded = [n + b + e for n, b, e in zip(sizes, self.pads[:rank], self.pads[rank:], strict=True)]
        fitting = tuple(min(k, (n - 1) // d + 1) for n, k, d in zip(padded, self.kernel, self.dilations, strict=True))
        inside = tuple(min(k, (n - 1) // d + 1) for n, k, d in zip(sizes, self.kernel, self.dilations, strict=True))
        changes = (
            (f"use pads {list(none)}", self.kernel, none),
            (f"use kernel {list(fitting)}", fitting, self.pads),
            (f"use kernel {list(inside)} and pads {list(none)}", inside, none),
        )
        return [
            Cure(text, {"kernel": kernel, "pads": pads})
            for text, kernel, pads in changes
            if self._is_legal_with(kernel, pads)
        ]

    def _is_legal_with(self, kernel: tuple[int, ...], pads: tuple[int, ...]) -> bool:
        if self._size(kernel, pads) > GREATEST_SIZE:
            return False
        made = pool_shape(
            self.input_shape[2:], kernel, self.strides, self.dilations, pads, ceil_mode=self.ceil_mode
        ).axes
        return all(axis.outputs > 0 and not axis.empty for axis in made)

    def _outputs(self, kernel: tuple[int, ...], pads: tuple[int, ...]) -> tuple[int, ...]:
        """(N, C, *outputs), signed."""
        rank = len(kernel)
        rows = zip(self.input_shape[2:], kernel, self.strides, self.dilations, pads[:rank], pads[rank:], strict=True)
        return (*self.input_shape[:2], *(outputs_of(*row, ceil_mode=self.ceil_mode)[0] for row in rows))

    def _size(self, kernel: tuple[int, ...], pads: tuple[int, ...]) -> int:
        """Elements of the output; windows that do not fit count as none."""
        return prod(max(extent, 0) for extent in self._outputs(kernel, pads))


@dataclass(frozen=True)
class ArgPool:
    """``values = the maximum of each window, places = where in its window the first of equal maxima stands``.

    A place counts the elements of the window, clipped to the real elements, from 0 on, last axis fastest.

    Args:
        input_shape: (N, C, *spatial) with 1 to 3 spatial axes, in elements.
        kernel: window per spatial axis, in elements.
        strides: step from window to window; ones if empty.
        dilations: step inside a window; ones if empty.
        pads: all begins, then all ends, in elements; zeros if empty.
        ceil_mode: round the number of outputs up; a last window that would begin beyond the input is dropped.
        dtype: type name of input and values.
        index_dtype: type name of the places.

    Raises:
        LanefoldError: as for `Pool`.

    Source: ONNX operators, MaxPool, output Indices.
    """

    input_shape: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...] = ()
    dilations: tuple[int, ...] = ()
    pads: tuple[int, ...] = ()
    ceil_mode: bool = False
    dtype: str = "float32"
    index_dtype: str = "uint32"

    def __post_init__(self) -> None:
        take_fields(self)
        pool = self.pool
        for name in ("strides", "dilations", "pads"):
            object.__setattr__(self, name, getattr(pool, name))
        check_dtype(self.index_dtype)

    @cached_property
    def pool(self) -> Pool:
        """The pooling whose maxima are placed."""
        return Pool(
            "max",
            self.input_shape,
            self.kernel,
            self.strides,
            self.dilations,
            self.pads,
            ceil_mode=self.ceil_mode,
            dtype=self.dtype,
        )

    @property
    def output_shape(self) -> tuple[int, ...]:
        """(N, C, *outputs), of values and of places."""
        return self.pool.output_shape
