"""The one signed pooling-shape function: outputs, dropped windows and window classes of a pooling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, product
from math import prod

import numpy as np

from lanefold import arguments
from lanefold.diagnostics import Cure, Diagnostic, Place, Rule, Severity
from lanefold.ops.checks import GREATEST_SIZE, size_error

RULE_NO_EFFECT = Rule(
    "OP-POOL-NO-EFFECT",
    "An attribute that another attribute overrides has no effect and is reported.",
    "ONNX operators: MaxPool, attributes auto_pad, pads and ceil_mode",
    severity=Severity.WARNING,
)
RULE_AUTO_PAD = Rule(
    "OP-POOL-AUTO-PAD",
    "auto_pad is one of NOTSET, SAME_UPPER, SAME_LOWER and VALID.",
    "ONNX operators: MaxPool, attribute auto_pad",
)
AUTO_PADS = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")


@dataclass(frozen=True, slots=True)
class WindowClass:
    """Consecutive outputs of one axis whose windows, clipped to the real elements, have one size.

    Output ``first + n`` (0 ≤ n < ``outputs``) reads the ``size`` elements ``begin + n·stride + j·dilation``; ``tap`` is
    the kernel position of the first of them and ``counted`` the number of positions the divisor counts on this axis.
    """

    first: int
    outputs: int
    begin: int
    tap: int
    size: int
    counted: int


@dataclass(frozen=True, slots=True)
class AxisWindows:
    """The windows of one spatial axis, all numbers in elements.

    ``outputs`` is signed: zero or less where the window is wider than the padded input. ``dropped`` says that ceil mode
    had one more window, which began at or beyond ``size + pad_begin``. ``empty`` lists the outputs (first, count) whose
    windows hold no real element.
    """

    size: int
    kernel: int
    stride: int
    dilation: int
    pad_begin: int
    pad_end: int
    ceil_mode: bool
    effective: int
    outputs: int
    dropped: bool
    classes: tuple[WindowClass, ...]

    @property
    def empty(self) -> tuple[tuple[int, int], ...]:
        """Ranges (first output, number of outputs) of windows without any real element."""
        return tuple((each.first, each.outputs) for each in self.classes if not each.size)

    @property
    def reason(self) -> str:
        """Why ceil mode's last window is dropped, with its numbers; empty if none is."""
        if not self.dropped:
            return ""
        start, edge = self.outputs * self.stride, self.size + self.pad_begin
        return (
            f"window {self.outputs} begins at {start} of the padded axis, at or beyond "
            f"input {self.size} + pad_begin {self.pad_begin} = {edge}, and holds end padding only"
        )


@dataclass(frozen=True, slots=True)
class Window:
    """Outputs of all axes that share one clipped window: the part of a pooling that one constant divisor covers."""

    axes: tuple[WindowClass, ...]

    @property
    def size(self) -> int:
        """Real elements in each window."""
        return prod(axis.size for axis in self.axes)

    @property
    def divisor(self) -> int:
        """The N of the average's 1/N."""
        return prod(axis.counted for axis in self.axes)

    @property
    def outputs(self) -> int:
        """Windows of this kind per channel."""
        return prod(axis.outputs for axis in self.axes)


@dataclass(frozen=True)
class PoolShape:
    """What a pooling's attributes come to: per axis the outputs, the dropped window and the window classes."""

    axes: tuple[AxisWindows, ...]

    @property
    def output(self) -> tuple[int, ...]:
        """Outputs per spatial axis."""
        return tuple(axis.outputs for axis in self.axes)

    @property
    def pads(self) -> tuple[int, ...]:
        """Resolved pads, all begins and then all ends."""
        return tuple(axis.pad_begin for axis in self.axes) + tuple(axis.pad_end for axis in self.axes)

    @property
    def dropped(self) -> dict[int, str]:
        """Spatial axes on which ceil mode's last window was dropped, and why."""
        return {number: axis.reason for number, axis in enumerate(self.axes) if axis.dropped}

    @cached_property
    def windows(self) -> tuple[Window, ...]:
        """The products of the axes' classes (interior, edges, corners), first axis outermost."""
        return tuple(Window(classes) for classes in product(*(axis.classes for axis in self.axes)))


def outputs_of(
    size: int, kernel: int, stride: int, dilation: int, pad_begin: int, pad_end: int, *, ceil_mode: bool
) -> tuple[int, bool]:
    """Windows of one axis, signed, and whether ceil mode dropped its last one.

    Source: ONNX operators, MaxPool and AveragePool, output shape.
    """
    room = size + pad_begin + pad_end - dilation * (kernel - 1) - 1
    outputs = (-(-room // stride) if ceil_mode else room // stride) + 1
    dropped = ceil_mode and outputs > 0 and (outputs - 1) * stride >= size + pad_begin
    return outputs - dropped, dropped


def axis_windows(
    size: int,
    kernel: int,
    stride: int = 1,
    dilation: int = 1,
    pad_begin: int = 0,
    pad_end: int = 0,
    *,
    ceil_mode: bool = False,
    count_include_pad: bool = False,
) -> AxisWindows:
    """The windows of one axis of ``size`` elements, on signed numbers and without judging them.

    The outputs are floor or ceil of (size + pads − effective)/stride, plus one; ceil mode drops its last window where
    that begins beyond the input and its begin padding. A divisor that counts pads counts the window clipped to the
    padded axis.

    Source: ONNX operators, MaxPool and AveragePool, output shape.
    """
    size = arguments.integer("axis_windows", "size", size, low=0)
    kernel = arguments.integer("axis_windows", "kernel", kernel, low=1)
    stride = arguments.integer("axis_windows", "stride", stride, low=1)
    dilation = arguments.integer("axis_windows", "dilation", dilation, low=1)
    pad_begin = arguments.integer("axis_windows", "pad_begin", pad_begin)
    pad_end = arguments.integer("axis_windows", "pad_end", pad_end)
    ceil_mode = arguments.flag("axis_windows", "ceil_mode", ceil_mode)
    count_include_pad = arguments.flag("axis_windows", "count_include_pad", count_include_pad)
    effective = dilation * (kernel - 1) + 1
    outputs, dropped = outputs_of(size, kernel, stride, dilation, pad_begin, pad_end, ceil_mode=ceil_mode)
    if outputs > GREATEST_SIZE:
        greater = -(-(size + pad_begin + pad_end) // GREATEST_SIZE)
        cure = Cure(f"use a stride of at least {greater}, or smaller pads", {"stride": greater})
        raise size_error("Pool", "output", [outputs], outputs, cure)
    classes: tuple[WindowClass, ...] = ()
    if outputs > 0:
        start = np.arange(outputs, dtype=np.int64) * stride - pad_begin
        tap = np.maximum(-(start // dilation), 0)
        stop = np.minimum(-((start - size) // dilation), kernel)
        real = np.maximum(stop - tap, 0)
        padded = np.minimum(-((start - size - pad_end) // dilation), kernel)
        classes = _runs(start + tap * dilation, tap, real, padded if count_include_pad else real)
    return AxisWindows(
        size, kernel, stride, dilation, pad_begin, pad_end, ceil_mode, effective, outputs, dropped, classes
    )


def _runs(
    begin: np.ndarray[tuple[int], np.dtype[np.int64]],
    tap: np.ndarray[tuple[int], np.dtype[np.int64]],
    real: np.ndarray[tuple[int], np.dtype[np.int64]],
    counted: np.ndarray[tuple[int], np.dtype[np.int64]],
) -> tuple[WindowClass, ...]:
    """Runs of outputs with the same first tap, size and divisor; inside a run the windows are one stride apart."""
    changes = (np.diff(tap) != 0) | (np.diff(real) != 0) | (np.diff(counted) != 0)
    edges = [0, *(int(place) + 1 for place in np.flatnonzero(changes)), len(begin)]
    return tuple(
        WindowClass(first, stop - first, int(begin[first]), int(tap[first]), int(real[first]), int(counted[first]))
        for first, stop in pairwise(edges)
    )


def pool_shape(
    sizes: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    pads: Sequence[int],
    *,
    ceil_mode: bool = False,
    count_include_pad: bool = False,
) -> PoolShape:
    """The windows of all spatial axes; pads are all begins and then all ends, in elements.

    Raises:
        LanefoldError: CALL-ARGUMENT for numbers that make no windows, OP-SIZE for more outputs than are simulated.

    Source: ONNX operators, MaxPool and AveragePool, output shape.
    """
    sizes = arguments.integers("pool_shape", "sizes", sizes, low=0)
    rank = len(sizes)
    kernel = arguments.integers("pool_shape", "kernel", kernel, count=rank)
    strides = arguments.integers("pool_shape", "strides", strides, count=rank)
    dilations = arguments.integers("pool_shape", "dilations", dilations, count=rank)
    pads = arguments.integers("pool_shape", "pads", pads, count=2 * rank)
    rows = zip(sizes, kernel, strides, dilations, pads[:rank], pads[rank:], strict=True)
    return PoolShape(
        tuple(axis_windows(*row, ceil_mode=ceil_mode, count_include_pad=count_include_pad) for row in rows)
    )


@dataclass(frozen=True, slots=True)
class ResolvedPads:
    """Explicit pads (all begins, then all ends) and ceil mode that stand for an auto_pad, and what had no effect."""

    pads: tuple[int, ...]
    ceil_mode: bool
    findings: tuple[Diagnostic, ...]


def resolve_pads(
    auto_pad: str,
    pads: Sequence[int] | None,
    sizes: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    *,
    ceil_mode: bool = False,
    place: Place | None = None,
) -> ResolvedPads:
    """Turn auto_pad into explicit pads, before any output is computed.

    SAME gives ceil(size/stride) outputs and VALID gives only whole windows, whatever ceil mode says; both take floor
    mode after that, so that one formula serves all.

    Raises:
        LanefoldError: auto_pad is not a known name.

    Source: ONNX operators, MaxPool, attribute auto_pad.
    """
    if not isinstance(auto_pad, str) or auto_pad not in AUTO_PADS:
        raise RULE_AUTO_PAD.error(
            f"auto_pad {arguments.shown(auto_pad)} is not known",
            got=arguments.shown(auto_pad),
            allowed=", ".join(AUTO_PADS),
            cures=["write auto_pad NOTSET and explicit pads"],
            place=place,
        )
    call, any_number = "resolve_pads", (1 << 63) - 1
    sizes = arguments.integers(call, "sizes", sizes, low=0)
    rank = len(sizes)
    kernel = arguments.integers(call, "kernel", kernel, low=-any_number, high=any_number, count=rank)
    strides = arguments.integers(call, "strides", strides, low=1, high=any_number, count=rank)
    dilations = arguments.integers(call, "dilations", dilations, low=-any_number, high=any_number, count=rank)
    pads = arguments.integers(call, "pads", () if pads is None else pads, low=-any_number, high=any_number)
    if auto_pad == "NOTSET":
        return ResolvedPads(tuple(pads) if pads else (0,) * (2 * rank), ceil_mode, ())
    findings = []
    if pads and any(pads):
        findings.append(_no_effect("pads", list(pads), auto_pad, place))
    if ceil_mode:
        findings.append(_no_effect("ceil_mode", 1, auto_pad, place))
    begins, ends = [0] * rank, [0] * rank
    if auto_pad != "VALID":
        for axis, (size, k, stride, dilation) in enumerate(zip(sizes, kernel, strides, dilations, strict=True)):
            total = max((-(-size // stride) - 1) * stride + dilation * (k - 1) + 1 - size, 0)
            small, large = total // 2, total - total // 2
            begins[axis], ends[axis] = (small, large) if auto_pad == "SAME_UPPER" else (large, small)
    return ResolvedPads((*begins, *ends), False, tuple(findings))


def _no_effect(attribute: str, value: object, auto_pad: str, place: Place | None) -> Diagnostic:
    return RULE_NO_EFFECT.finding(
        f"{attribute} {value} has no effect beside auto_pad {auto_pad}",
        got=f"{attribute} {value}, auto_pad {auto_pad}",
        allowed=f"{attribute} with auto_pad NOTSET, or auto_pad {auto_pad} alone",
        cures=[f"leave {attribute} out", "write auto_pad NOTSET and explicit pads"],
        place=place,
    )
