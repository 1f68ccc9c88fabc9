"""PTO tiles: their types, the rules that every tile type obeys, and tiles that hold data."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from lanefold import arguments
from lanefold.diagnostics import Cure, Diagnostic, LanefoldError, Place, Rule
from lanefold.pto import names
from lanefold.pto.isa import BLOCK_BYTES, FRACTALS, ElementType, Layout

Array = npt.NDArray[Any]

CAPACITY = Rule(
    "PTO-TILE-CAPACITY",
    "A tile has at least one row, one column and at most 2^26 elements; its valid extents do not exceed its capacity.",
    "PTO headers: tile type; PTO tile programming model: valid region",
)
BLOCKS = Rule(
    "PTO-TILE-BLOCKS",
    "The contiguous line of an unboxed tile (a row of ND, a column of DN) is a multiple of 32 bytes.",
    "PTO headers: tile type, alignment of the contiguous line",
)
BOXES = Rule(
    "PTO-TILE-BOXES",
    "A boxed tile is made of whole boxes: columns always, rows unless the location is vec, the fractal 32 or Rows 1.",
    "PTO headers: tile type, boxed layouts",
)
FRACTAL = Rule(
    "PTO-TILE-FRACTAL",
    "The fractal size is 512, 1024 or 32 bytes.",
    "PTO headers: tile type, fractal size",
)
DATA = Rule(
    "PTO-TILE-DATA",
    "The array behind a tile has the shape rows × cols of its capacity.",
    "PTO tile programming model: capacity and valid region",
    usage=True,
)


GREATEST_TILE = 1 << 26
"""Elements of the largest tile that is simulated; the local memories of the chips hold far less."""
_EXTENTS = (("rows", False), ("cols", False), ("valid_rows", True), ("valid_cols", True), ("fractal", False))
_ANY = (1 << 63) - 1


def _whole(call: str, name: str, value: Any, *, may_lack: bool) -> Any:
    """A whole number, of any size, or None where it may be left out; most are plain integers already."""
    if type(value) is int or (value is None and may_lack):
        return value
    return arguments.integer(call, name, value, low=-_ANY, high=_ANY)


def _round_up(value: int, unit: int) -> int:
    return -(-max(value, 1) // unit) * unit


def box_shape(element: ElementType, layout: Layout, fractal: int) -> tuple[int, int]:
    """Rows and columns of one box, in elements (PTO headers: boxed layouts)."""
    if fractal == 1024:
        return 16, 16
    short = BLOCK_BYTES // element.bytes
    return (16, short) if layout.box == "RowMajor" else (short, 16)


@dataclass(frozen=True, slots=True)
class TileType:
    """The type of a tile: element type, capacity, valid extents, layout, location, fractal, pad and compact mode.

    Extents count elements; a valid extent of None is dynamic. Names are those of the texts (``f32``, ``ND``, ``vec``).

    Raises:
        LanefoldError: PTO-TILE-* where no such tile type exists, PTO-*-NAME for unknown names.
    """

    dtype: str
    rows: int
    cols: int
    valid_rows: int | None
    valid_cols: int | None
    layout: str = "ND"
    location: str = "vec"
    fractal: int = FRACTALS[0]
    pad: str = "null"
    compact: str = "null"

    def __post_init__(self) -> None:
        for field, may_lack in _EXTENTS:
            object.__setattr__(self, field, _whole("TileType", field, getattr(self, field), may_lack=may_lack))
        for field, find in (("location", names.location), ("pad", names.pad), ("compact", names.compact)):
            object.__setattr__(self, field, find(getattr(self, field)))
        object.__setattr__(self, "dtype", names.element(self.dtype).name)
        object.__setattr__(self, "layout", names.layout(self.layout).name)
        findings = check_type(self)
        if findings:
            raise LanefoldError(findings)

    @property
    def element(self) -> ElementType:
        """The row of the element type."""
        return names.element(self.dtype)

    @property
    def order(self) -> Layout:
        """The row of the layout."""
        return names.layout(self.layout)

    @property
    def bytes(self) -> int:
        """Bytes of the whole capacity."""
        return self.rows * self.cols * self.element.bytes

    @property
    def static(self) -> bool:
        """Whether both valid extents are part of the type."""
        return self.valid_rows is not None and self.valid_cols is not None

    def __str__(self) -> str:
        rows = "?" if self.valid_rows is None else self.valid_rows
        cols = "?" if self.valid_cols is None else self.valid_cols
        return f"{self.dtype} {self.layout} {self.rows}×{self.cols} (valid {rows}×{cols})"

    def offsets(self) -> npt.NDArray[np.int64]:
        """Position of every element in memory, in elements, shape rows × cols (PTO headers: tile offsets)."""
        r = np.arange(self.rows, dtype=np.int64)[:, None]
        c = np.arange(self.cols, dtype=np.int64)[None, :]
        order = self.order
        if not order.boxed:
            return r * self.cols + c if order.base == "RowMajor" else c * self.rows + r
        br, bc = box_shape(self.element, order, self.fractal)
        inner = (r % br) * bc + c % bc if order.box == "RowMajor" else (c % bc) * br + r % br
        if order.base == "ColMajor":
            return (c // bc) * (_round_up(self.rows, br) * bc) + (r // br) * (br * bc) + inner
        return (r // br) * (self.cols * br) + (c // bc) * (br * bc) + inner


def _extent_findings(shape: TileType) -> list[Diagnostic]:
    findings = []
    for axis, capacity, valid in (
        ("rows", shape.rows, shape.valid_rows),
        ("cols", shape.cols, shape.valid_cols),
    ):
        if capacity < 1:
            changes = {axis: BLOCK_BYTES, f"valid_{axis}": BLOCK_BYTES if valid else valid}
            findings.append(
                CAPACITY.finding(
                    f"a tile of {capacity} {axis} holds nothing",
                    got=f"{axis} = {capacity}",
                    allowed="1 or more",
                    cures=[Cure(f"give the tile {BLOCK_BYTES} {axis}", changes)],
                    place=Place(field=axis),
                )
            )
        elif valid is not None and not 0 <= valid <= capacity:
            findings.append(
                CAPACITY.finding(
                    f"valid {axis} {valid} lie outside the capacity of {capacity} {axis}",
                    got=f"valid_{axis} = {valid}",
                    allowed=f"0 to {capacity}",
                    cures=[Cure(f"set valid_{axis} to {capacity}", {f"valid_{axis}": capacity})],
                    place=Place(field=f"valid_{axis}"),
                )
            )
    return findings


def _size_findings(shape: TileType) -> list[Diagnostic]:
    size = shape.rows * shape.cols
    if size <= GREATEST_TILE:
        return []
    axis = "rows" if shape.rows >= shape.cols else "cols"
    valid = getattr(shape, f"valid_{axis}")
    changes = {axis: BLOCK_BYTES, f"valid_{axis}": valid if valid is None else min(valid, BLOCK_BYTES)}
    return [
        CAPACITY.finding(
            f"a tile of {shape.rows} rows and {shape.cols} cols has {size} elements",
            got=f"{size} elements",
            allowed=f"at most {GREATEST_TILE} elements",
            cures=[Cure(f"give each tile a part of them, for example {BLOCK_BYTES} {axis}", changes)],
            place=Place(field=axis),
        )
    ]


def _line_findings(shape: TileType) -> list[Diagnostic]:
    axis = "cols" if shape.order.base == "RowMajor" else "rows"
    count = getattr(shape, axis)
    unit = BLOCK_BYTES // shape.element.bytes
    if count % unit == 0:
        return []
    padded = _round_up(count, unit)
    article = "an ND" if shape.layout == "ND" else f"a {shape.layout}"
    unit_word = ("column" if axis == "cols" else "row") + "s" * (count != 1)
    return [
        BLOCKS.finding(
            f"{article} tile of {shape.dtype} with {count} {unit_word} has lines of {count * shape.element.bytes} "
            f"bytes, which is not a multiple of {BLOCK_BYTES}",
            got=f"{axis} = {count} ({count * shape.element.bytes} bytes)",
            allowed=f"{axis} a multiple of {unit} for {shape.dtype}",
            cures=[Cure(f"give the tile {padded} {axis} and keep its valid extents", {axis: padded})],
            place=Place(field=axis),
        )
    ]


def _box_findings(shape: TileType) -> list[Diagnostic]:
    br, bc = box_shape(shape.element, shape.order, shape.fractal)
    free_rows = shape.location == "vec" or shape.fractal == 32 or shape.rows == 1
    findings = []
    for axis, count, unit, free in (("rows", shape.rows, br, free_rows), ("cols", shape.cols, bc, False)):
        if free or count % unit == 0:
            continue
        padded = _round_up(count, unit)
        findings.append(
            BOXES.finding(
                f"{axis} = {count} is no whole number of boxes of {br}×{bc} {shape.dtype}",
                got=f"{axis} = {count}",
                allowed=f"{axis} a multiple of {unit}",
                cures=[Cure(f"give the tile {padded} {axis} and keep its valid extents", {axis: padded})],
                place=Place(field=axis),
            )
        )
    return findings


def check_type(shape: TileType) -> list[Diagnostic]:
    """Findings of the rules that hold for every tile type, on every target (PTO headers: tile type)."""
    if shape.fractal not in FRACTALS:
        cures = [Cure(f"use {size}", {"fractal": size}) for size in FRACTALS]
        allowed = ", ".join(str(size) for size in FRACTALS)
        message = f"a fractal of {shape.fractal} bytes does not exist"
        return [FRACTAL.finding(message, got=shape.fractal, allowed=allowed, cures=cures, place=Place(field="fractal"))]
    findings = _extent_findings(shape) or _size_findings(shape)
    if findings:
        return findings
    return _box_findings(shape) if shape.order.boxed else _line_findings(shape)


def numpy_type(element: ElementType) -> np.dtype[Any]:
    """The NumPy type of an element type; ``bfloat16`` comes from ml_dtypes."""
    if element.numpy == "bfloat16":
        import ml_dtypes

        narrow: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
        return narrow
    return np.dtype(element.numpy)


def _storage(shape: TileType) -> tuple[Array, Array, int, int]:
    """Zeroed memory, its logical view, and the steps between rows and columns, in elements.

    Boxed tiles are kept in logical order: the order of boxes changes no result.
    """
    flat = np.zeros(shape.rows * shape.cols, numpy_type(shape.element))
    if shape.layout == "DN":
        return flat, flat.reshape(shape.cols, shape.rows).T, 1, shape.rows
    return flat, flat.reshape(shape.rows, shape.cols), shape.cols, 1


_SIGNATURES: dict[tuple[TileType, bool, int | None], int] = {}
"""A number for every kind of tile met so far, so that calls on tiles of known kinds are recognised quickly."""


class Tile:
    """A tile with data: ``array`` is its capacity in logical order (rows × cols), ``valid`` the valid part of it.

    Args:
        array_or_dtype: values of the whole capacity, which are copied, or an element type for a zeroed tile.
        rows: rows of capacity; left out, those of the array.
        cols: columns of capacity; left out, those of the array.
        valid_rows: valid rows; left out, all of them.
        valid_cols: valid columns; left out, all of them.
        layout: ND, DN, NZ, ZN or ZZ.
        location: memory that holds the tile; the operations want ``vec``.
        fractal: bytes of a fractal.
        pad: what a load fills the rest with.
        compact: compact mode.
        dynamic: whether the valid extents are run-time values, which `resize` may change.
        address: byte address in local memory, None where it is not placed.

    Raises:
        LanefoldError: PTO-TILE-* for tiles that cannot exist, PTO-*-NAME for unknown names.
    """

    __slots__ = ("_address", "array", "column_step", "dynamic", "flat", "row_step", "signature", "type", "valid")

    type: TileType
    array: Array
    valid: Array
    flat: Array
    row_step: int
    column_step: int
    dynamic: bool
    signature: int
    _address: int | None

    def __init__(
        self,
        array_or_dtype: Array | str | np.dtype[Any],
        rows: int | None = None,
        cols: int | None = None,
        valid_rows: int | None = None,
        valid_cols: int | None = None,
        layout: str = "ND",
        *,
        location: str = "vec",
        fractal: int = FRACTALS[0],
        pad: str = "null",
        compact: str = "null",
        dynamic: bool = False,
        address: int | None = None,
    ) -> None:
        if isinstance(array_or_dtype, np.ma.MaskedArray):
            arguments.array("Tile", "array_or_dtype", array_or_dtype)
        data = array_or_dtype if isinstance(array_or_dtype, np.ndarray) else None
        name = _type_name(data.dtype if data is not None else array_or_dtype)
        rows, cols = _capacity(data, rows, cols)
        self.type = TileType(
            dtype=name,
            rows=rows,
            cols=cols,
            valid_rows=rows if valid_rows is None else valid_rows,
            valid_cols=cols if valid_cols is None else valid_cols,
            layout=layout,
            location=location,
            fractal=fractal,
            pad=pad,
            compact=compact,
        )
        self.flat, self.array, self.row_step, self.column_step = _storage(self.type)
        if data is not None:
            self.array[...] = data
        self._address = _address("Tile", address)
        self.dynamic = arguments.flag("Tile", "dynamic", dynamic)
        self._settle()

    def _settle(self) -> None:
        self.valid = self.array[: self.type.valid_rows, : self.type.valid_cols]
        key = (self.type, self.dynamic, self._address)
        self.signature = _SIGNATURES.setdefault(key, len(_SIGNATURES))

    @property
    def address(self) -> int | None:
        """Byte address in local memory, None where the tile is not placed."""
        return self._address

    def place(self, address: int | None) -> None:
        """Give the tile a byte address in local memory, or take it away with None.

        Raises:
            LanefoldError: CALL-ARGUMENT for what is no address.
        """
        self._address = _address("place", address)
        self._settle()

    @property
    def valid_rows(self) -> int:
        """Valid rows."""
        return self.type.valid_rows or 0

    @property
    def valid_cols(self) -> int:
        """Valid columns."""
        return self.type.valid_cols or 0

    @property
    def dtype(self) -> str:
        """Name of the element type."""
        return self.type.dtype

    @property
    def layout(self) -> str:
        """Name of the layout."""
        return self.type.layout

    def resize(self, valid_rows: int, valid_cols: int) -> None:
        """Set the valid extents of a tile whose extents are dynamic.

        Raises:
            LanefoldError: PTO-TILE-CAPACITY beyond the capacity, PTO-TILE-STATIC where the extents are static.
        """
        if not self.dynamic:
            raise STATIC.error(
                f"the valid extents {self.valid_rows}×{self.valid_cols} are part of this tile's type",
                got=f"{valid_rows}×{valid_cols}",
                allowed=f"{self.valid_rows}×{self.valid_cols}",
                cures=[Cure("make the tile with dynamic=True", {"dynamic": True})],
            )
        rows, cols = (
            _whole("resize", name, value, may_lack=False)
            for name, value in (("valid_rows", valid_rows), ("valid_cols", valid_cols))
        )
        self.type = replace(self.type, valid_rows=rows, valid_cols=cols)
        self._settle()

    def memory(self) -> Array:
        """A copy of the tile's memory in the order of its layout, one dimension; gaps of padded boxes are zero."""
        offsets = self.type.offsets()
        image = np.zeros(int(offsets.max()) + 1, self.array.dtype)
        image[offsets] = self.array
        return image

    def __repr__(self) -> str:
        return f"Tile({self.type})"


STATIC = Rule(
    "PTO-TILE-STATIC",
    "Valid extents that are part of the type do not change at run time.",
    "PTO headers: tile type, dynamic valid extents",
)


def _type_name(dtype: object) -> str:
    if isinstance(dtype, str):
        return names.element(dtype).name
    if not isinstance(dtype, type | np.dtype):
        wanted = "an array, or the name of an element type"
        raise arguments.refused("Tile", "array_or_dtype", dtype, wanted, "give a numpy array, or a name such as 'f32'")
    try:
        text = np.dtype(dtype).name
    except TypeError:
        text = repr(dtype)
    return names.element(text).name


def _address(call: str, value: int | None) -> int | None:
    return None if value is None else arguments.integer(call, "address", value, low=0)


def _capacity(data: Array | None, rows: int | None, cols: int | None) -> tuple[int, int]:
    rows, cols = (_whole("Tile", name, value, may_lack=True) for name, value in (("rows", rows), ("cols", cols)))
    shape = data.shape if data is not None else None
    if shape is not None and len(shape) == 2:
        rows = shape[0] if rows is None else rows
        cols = shape[1] if cols is None else cols
    if rows is None or cols is None:
        raise DATA.error(
            "a tile needs rows and cols",
            got=f"rows = {rows}, cols = {cols}",
            allowed="two whole numbers, or an array of two dimensions",
            cures=["give rows and cols, for example Tile('f32', 16, 32)"],
            place=Place(field="rows" if rows is None else "cols"),
        )
    if shape is not None and shape != (rows, cols):
        raise DATA.error(
            f"an array of shape {shape} does not fill a tile of {rows}×{cols}",
            got=f"shape {shape}",
            allowed=f"shape ({rows}, {cols})",
            cures=["give the whole capacity and name the valid part with valid_rows and valid_cols"],
            place=Place(field="array"),
        )
    return rows, cols
