"""Pooling: clipped windows, one instruction per class of equal windows, tiled to the state buffer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import NamedTuple

from lanefold.diagnostics import Place, Rule
from lanefold.numerics.dtypes import by_name
from lanefold.ops import AxisWindows, Pool
from lanefold.tpb.lower.dims import GREATEST_NUM, GREATEST_STEP, PARTITIONS, pieces
from lanefold.tpb.lower.elements import mapped, mapped_bytes
from lanefold.tpb.lower.plan import Builder, Fill, Region, Transfer

RULE_WINDOW_SIZE = Rule(
    "TPB-LOWER-WINDOW",
    "The input of a window along one axis, or of one of up to 128 parts of it, equal ones for an average, fits a "
    "partition of the state buffer, and its pattern fits 16-bit steps and nums.",
    "State-buffer size per partition; TENSOR4D descriptor",
)

_MOST_PARTS = 128
"""Into how many parts, each a pass of its own, a window is cut at most."""


class Part(NamedTuple):
    """Consecutive outputs of one axis with equal windows: the windows begin at ``begin``, one stride apart."""

    first: int
    outputs: int
    begin: int
    size: int


@dataclass(frozen=True)
class Axis:
    """One axis of a plane as it lies on chip: ``extent`` elements, of which ``real`` from ``shift`` on are loaded."""

    extent: int
    real: int
    shift: int
    stride: int
    dilation: int
    outputs: int
    parts: tuple[Part, ...]

    def span(self, first: int, outputs: int) -> tuple[int, int]:
        """Elements [low, high) that some consecutive outputs read."""
        low, high = self.extent, 0
        for part in self.inside(first, outputs):
            low = min(low, part.begin)
            high = max(high, part.begin + (part.outputs - 1) * self.stride + (part.size - 1) * self.dilation + 1)
        return low, high

    def inside(self, first: int, outputs: int) -> Iterator[Part]:
        """The parts of some consecutive outputs, cut to them."""
        for part in self.parts:
            start, stop = max(part.first, first), min(part.first + part.outputs, first + outputs)
            if start < stop:
                yield Part(start, stop - start, part.begin + (start - part.first) * self.stride, part.size)


def axis_of(windows: AxisWindows, padded: bool) -> Axis:
    """One axis, either clipped to its real elements or with its pads lying in memory as zeros."""
    if not padded:
        parts = tuple(Part(each.first, each.outputs, each.begin, each.size) for each in windows.classes)
        return Axis(
            windows.size, windows.size, 0, windows.stride, windows.dilation, windows.outputs, _joined(parts, windows)
        )
    parts = tuple(Part(each.first, each.outputs, each.first * windows.stride, each.counted) for each in windows.classes)
    extent = windows.pad_begin + windows.size + windows.pad_end
    return Axis(
        extent,
        windows.size,
        windows.pad_begin,
        windows.stride,
        windows.dilation,
        windows.outputs,
        _joined(parts, windows),
    )


def _joined(parts: Sequence[Part], windows: AxisWindows) -> tuple[Part, ...]:
    """Neighbours whose windows are equally large and go on one stride apart are one part."""
    joined: list[Part] = []
    for part in parts:
        last = joined[-1] if joined else None
        if last and last.size == part.size and last.begin + last.outputs * windows.stride == part.begin:
            joined[-1] = last._replace(outputs=last.outputs + part.outputs)
        else:
            joined.append(part)
    return tuple(joined)


WHOLE = Axis(1, 1, 0, 1, 1, 1, (Part(0, 1, 0, 1),))
"""The missing row axis of a one-dimensional pooling."""


@dataclass(frozen=True)
class Plane:
    """A two-dimensional pooling of ``channels`` maps, from one DRAM tensor to another."""

    source: str
    result: str
    channels: int
    rows: Axis
    columns: Axis
    operator: str
    element: str
    dtype: str
    out_dtype: str
    result_start: int = 0


def lower_pool(builder: Builder, op: Pool) -> str:
    """Adds a pooling's items to a builder and returns its route.

    One and two spatial axes are one pass over planes; three are a pass over the last two axes and one over the first,
    which maxima and sums allow as they are and averages because their divisor is a product over the axes.

    Raises:
        LanefoldError: if a single window does not fit a partition.
    """
    padded = op.operator == "average" and op.count_include_pad and any(op.pads)
    axes = [axis_of(windows, padded) for windows in op.shape.axes]
    if padded:
        builder.note("pads are counted and lie in memory as zeros")
    channels = prod(op.input_shape[:2])
    source = builder.tensor("in0", prod(op.input_shape), op.dtype)
    result = builder.tensor("out0", prod(op.output_shape), op.output_dtype)
    if len(axes) < 3:
        rows, columns = (WHOLE, axes[0]) if len(axes) == 1 else axes
        return _planes(
            builder,
            Plane(source, result, channels, rows, columns, op.operator, op.element, op.dtype, op.output_dtype),
        )
    depth, rows, columns = axes
    middle_dtype = op.dtype if op.operator == "max" else "float32"
    slices = channels * depth.real
    middle = _middle(builder, slices * rows.outputs * columns.outputs, middle_dtype)
    builder.note("three axes in two passes: the last two, then the first")
    _planes(builder, Plane(source, middle, slices, rows, columns, op.operator, op.element, op.dtype, middle_dtype))
    area = rows.outputs * columns.outputs
    return _planes(
        builder,
        Plane(middle, result, channels, depth, _flat(area), op.operator, "identity", middle_dtype, op.output_dtype),
    )


def _planes(builder: Builder, plane: Plane) -> str:
    """Adds a plane's items and returns its route; a window that fits no partition is folded axis by axis."""
    if not _fits(builder, plane, 1, 1):
        if _widest(plane.rows) > 1 and _widest(plane.columns) > 1:
            return _axis_by_axis(builder, plane)
        route = _in_parts(builder, plane)
        if route:
            return route
    block = _block(builder, plane)
    block_rows, block_columns = block
    if block_rows < plane.rows.outputs or block_columns < plane.columns.outputs:
        builder.note(f"tiles of {block_rows} × {block_columns} outputs, so that a map fits a partition")
    groups = list(_groups(builder, plane, block))
    if len(groups) > 1:
        builder.note(f"{len(groups)} groups of partitions")
    if groups[0].maps > 1:
        builder.note(f"{groups[0].maps} maps per partition")
    for group in groups:
        for rows in pieces(plane.rows.outputs, block_rows):
            for columns in pieces(plane.columns.outputs, block_columns):
                _tile(builder, plane, group, rows, columns)
    classes = len(plane.rows.parts) * len(plane.columns.parts)
    if classes > 1:
        builder.note(f"{classes} window classes (interior, edges, corners)")
    return _route(plane)


def _axis_by_axis(builder: Builder, plane: Plane) -> str:
    """The columns of every row first, then the rows; an average of averages has the product of their divisors."""
    builder.note("a window does not fit a partition, and its two axes are folded one after the other")
    dtype, outputs, lines = _between(plane), plane.columns.outputs, plane.channels * plane.rows.real
    middle = _middle(builder, lines * outputs, dtype)
    _planes(builder, replace(plane, result=middle, channels=lines, rows=WHOLE, out_dtype=dtype))
    return _planes(builder, replace(plane, source=middle, columns=_flat(outputs), element="identity", dtype=dtype))


def _middle(builder: Builder, elements: int, dtype: str) -> str:
    """A new tensor between two passes."""
    number = sum(name.startswith("between") for name in builder.tensors)
    return builder.tensor(f"between{number or ''}", elements, dtype)


def _between(plane: Plane) -> str:
    """Element type between two passes: no maximum and no sum of integers may change, other results are floats."""
    return plane.dtype if plane.operator == "max" or plane.dtype == "int32" else "float32"


def _in_parts(builder: Builder, plane: Plane) -> str:
    """One pass for each part of the windows of the one axis that has any, and a pass over the parts; "" if none fit."""
    by_row = _widest(plane.rows) > 1
    axis = plane.rows if by_row else plane.columns
    dtype = _between(plane)
    for count in range(2, min(_MOST_PARTS + 1, *(part.size for part in axis.parts))):
        even = all(part.size % count == 0 for part in axis.parts)
        parts = [_part(axis, at, count) for at in range(count)]
        cuts = [replace(plane, rows=each) if by_row else replace(plane, columns=each) for each in parts]
        if (even or plane.operator != "average") and all(_fits(builder, each, 1, 1) for each in cuts):
            break
    else:
        return ""
    builder.note(f"windows of {_widest(axis)} elements are folded in {count} parts, and the parts again")
    outputs = plane.channels * plane.rows.outputs * plane.columns.outputs
    middle = _middle(builder, count * outputs, dtype)
    for at, each in enumerate(cuts):
        _planes(builder, replace(each, result=middle, result_start=at * outputs, out_dtype=dtype))
    whole = Axis(count, count, 0, 1, 1, 1, (Part(0, 1, 0, count),))
    again = replace(plane, source=middle, channels=1, rows=whole, columns=_flat(outputs), element="identity")
    return _planes(builder, replace(again, dtype=dtype))


def _part(axis: Axis, at: int, count: int) -> Axis:
    """The axis with one of ``count`` parts of every window in place of the window."""
    parts = []
    for part in axis.parts:
        first, behind = (place * part.size // count for place in (at, at + 1))
        parts.append(part._replace(begin=part.begin + first * axis.dilation, size=behind - first))
    return replace(axis, parts=tuple(parts))


def _flat(elements: int) -> Axis:
    """An axis whose every element is a window of its own."""
    return Axis(elements, elements, 0, 1, 1, elements, (Part(0, elements, 0, 1),))


class Group(NamedTuple):
    """Channels handled at once: ``maps`` consecutive ones in each of some partitions."""

    first: int
    partitions: int
    maps: int


def _groups(builder: Builder, plane: Plane, block: tuple[int, int]) -> Iterator[Group]:
    """Groups of channels that cover a plane.

    One map per partition is the rule. Where a map has a single row of outputs, the pattern's outermost pair is free and
    walks several maps of a partition.
    """
    maps = 1
    if plane.rows.outputs == 1 and block == (1, plane.columns.outputs):
        elements = _reach(plane.rows, 1) * _reach(plane.columns, block[1])
        room = (builder.capacity - 64) // max(_needed(plane, *block), 1)
        if elements <= GREATEST_STEP:
            maps = max(1, min(-(-plane.channels // PARTITIONS), room, GREATEST_NUM // max(block[1], 1)))
    full, rest = divmod(plane.channels, maps)
    for first, partitions in pieces(full, PARTITIONS):
        yield Group(first * maps, partitions, maps)
    if rest:
        yield Group(full * maps, 1, rest)


def _route(plane: Plane) -> str:
    return "pool" if _uses_pool(plane) else "tensor_reduce (free-axis XY)"


def _uses_pool(plane: Plane) -> bool:
    """Sums have no pool function, and 32-bit integers only stay exact on the reduce path."""
    return plane.operator != "add" and plane.dtype != "int32"


def _block(builder: Builder, plane: Plane) -> tuple[int, int]:
    """Outputs per tile, rows and columns, such that a tile fits a partition and its patterns fit their fields."""
    block_rows, block_columns = plane.rows.outputs, plane.columns.outputs
    while not _fits(builder, plane, block_rows, block_columns):
        if block_rows > 1:
            block_rows = -(-block_rows // 2)
        elif block_columns > 1:
            block_columns = -(-block_columns // 2)
        else:
            size = _widest(plane.rows) * _widest(plane.columns)
            raise RULE_WINDOW_SIZE.error(
                f"a window of {size} elements does not fit a partition of the state buffer",
                got=f"{size} × {by_name(plane.dtype).bytes} bytes",
                allowed=f"at most {builder.capacity} bytes per partition on {builder.generation}",
                place=Place(node=builder.node),
                cures=[_smaller(plane), "keep the node on the host"],
            )
    return block_rows, block_columns


def _smaller(plane: Plane) -> str:
    """What computes the same where a window cannot be cut."""
    if plane.operator == "average":
        return "pool by add, whose parts may differ, and divide by the number of elements afterwards"
    return "pool in two steps with smaller windows"


def _fits(builder: Builder, plane: Plane, block_rows: int, block_columns: int) -> bool:
    height = _reach(plane.rows, block_rows)
    width = _reach(plane.columns, block_columns)
    row_steps = _greatest_step(plane.rows, block_rows) * width
    column_steps = _greatest_step(plane.columns, block_columns)
    if max(row_steps, column_steps, block_columns) > GREATEST_STEP:
        return False
    if max(block_rows, block_columns, height, width) > GREATEST_NUM:
        return False
    return _needed(plane, block_rows, block_columns) + 16 <= builder.capacity


def _greatest_step(axis: Axis, block: int) -> int:
    """The greatest step that a pattern over ``block`` outputs takes along an axis; a single one takes none."""
    return max(axis.stride if block > 1 else 1, axis.dilation if _widest(axis) > 1 else 1)


def _pair(step: int, num: int) -> tuple[int, int]:
    """A pair of a pattern; the step of a single element is never taken, and need not fit its field otherwise."""
    return (1 if num == 1 and step > GREATEST_STEP else step), num


def _needed(plane: Plane, block_rows: int, block_columns: int) -> int:
    """Bytes of a partition that one map of a tile takes."""
    per_element = by_name(plane.dtype).bytes + mapped_bytes(plane.dtype, plane.element)
    elements = _reach(plane.rows, block_rows) * _reach(plane.columns, block_columns)
    return elements * per_element + block_rows * block_columns * by_name(plane.out_dtype).bytes


def _reach(axis: Axis, block: int) -> int:
    """Elements that ``block`` consecutive outputs read at most."""
    return min(axis.extent, (block - 1) * axis.stride + (_widest(axis) - 1) * axis.dilation + 1)


def _widest(axis: Axis) -> int:
    """Elements of the widest window."""
    return max(part.size for part in axis.parts)


def _tile(builder: Builder, plane: Plane, group: Group, rows: tuple[int, int], columns: tuple[int, int]) -> None:
    top, bottom = plane.rows.span(*rows)
    left, right = plane.columns.span(*columns)
    builder.restart()
    source = builder.region("map", group.maps * (bottom - top) * (right - left), plane.dtype, group.partitions)
    _load(builder, plane, source, group, (top, bottom), (left, right))
    if plane.element != "identity":
        source = mapped(builder, source, plane.element)
    outputs = rows[1] * columns[1]
    result = builder.region("result", group.maps * outputs, plane.out_dtype, group.partitions)
    tile = _Tile(top, left, bottom - top, right - left, rows[0], columns[0], columns[1], group.maps)
    for row_part in plane.rows.inside(*rows):
        for column_part in plane.columns.inside(*columns):
            _windows(builder, plane, source, result, row_part, column_part, tile)
    area = plane.rows.outputs * plane.columns.outputs
    builder.items.append(
        Transfer(
            "save",
            plane.result,
            plane.result_start + group.first * area + rows[0] * plane.columns.outputs + columns[0],
            (group.maps * area, area, plane.columns.outputs, 1),
            result.access([(outputs, group.maps), (columns[1], rows[1]), (1, columns[1])]),
        )
    )


class _Tile(NamedTuple):
    """Where a tile begins in its map, how large its input is, and which outputs it makes."""

    top: int
    left: int
    height: int
    width: int
    first_row: int
    first_column: int
    column_count: int
    maps: int


def _load(
    builder: Builder, plane: Plane, source: Region, group: Group, rows: tuple[int, int], columns: tuple[int, int]
) -> None:
    width = columns[1] - columns[0]
    low_row, high_row = _real(plane.rows, rows)
    low_column, high_column = _real(plane.columns, columns)
    if (high_row - low_row, high_column - low_column) != (rows[1] - rows[0], width):
        builder.items.append(Fill(source.access([(1, source.elements)])))
    if low_row >= high_row or low_column >= high_column:
        return
    start = (low_row - rows[0]) * width + low_column - columns[0]
    row, column = low_row - plane.rows.shift, low_column - plane.columns.shift
    area = plane.rows.real * plane.columns.real
    inside = source.access(
        [
            ((rows[1] - rows[0]) * width, group.maps),
            (width, high_row - low_row),
            (1, high_column - low_column),
        ],
        start,
    )
    builder.items.append(
        Transfer(
            "load",
            plane.source,
            group.first * area + row * plane.columns.real + column,
            (group.maps * area, area, plane.columns.real, 1),
            inside,
        )
    )


def _real(axis: Axis, span: tuple[int, int]) -> tuple[int, int]:
    """The part of a span that holds real elements."""
    return max(span[0], axis.shift), min(span[1], axis.shift + axis.real)


def _windows(
    builder: Builder, plane: Plane, source: Region, result: Region, row: Part, column: Part, tile: _Tile
) -> None:
    """One instruction for the windows of one class: window pairs innermost, output pairs around them."""
    outer = _pair(plane.rows.stride * tile.width, row.outputs)
    out_outer = (tile.column_count, row.outputs)
    if tile.maps > 1:
        outer, out_outer = (tile.height * tile.width, tile.maps), (tile.column_count, tile.maps)
    pairs = [
        outer,
        _pair(plane.columns.stride, column.outputs),
        _pair(plane.rows.dilation * tile.width, row.size),
        _pair(plane.columns.dilation, column.size),
    ]
    operand = source.access(pairs, (row.begin - tile.top) * tile.width + column.begin - tile.left)
    out = result.access(
        [out_outer, (1, column.outputs)],
        (row.first - tile.first_row) * tile.column_count + column.first - tile.first_column,
    )
    if _uses_pool(plane):
        builder.instruction("Pool", [operand], [out], "Pool", func="Max" if plane.operator == "max" else "Avg")
    else:
        builder.instruction("TensorReduce", [operand], [out], "DVE", op=plane.operator, axis="XY")
