"""The shapes of a sweep: axes that are multiplied, or a list."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from lanefold.diagnostics import LanefoldError

Ints = npt.NDArray[np.int64]
ShapeError = Callable[[str, object, str, str], LanefoldError]

EXTENT_MAX = 65535
"""Largest extent: both instruction sets keep counts in 16 bits."""
_EXTENT_TEXT = f"a whole number from 1 to {EXTENT_MAX}"
_AXIS_TEXT = (
    f"{_EXTENT_TEXT}, a list of such, {{ from = 1, to = 64, step = 1 }} or {{ from = 1, to = 4096, factor = 2 }}"
)
_AXIS_CURE = "{ from = 16, to = 128, step = 16 }"

Axis = Ints


@dataclass(frozen=True)
class Shapes:
    """Shapes in order: rows outermost, valid columns innermost; or a list of shapes.

    ``axes`` holds rows, columns and, where given, valid rows and valid columns. A list has four arrays of one length.
    Without valid extents the whole tile is valid.
    """

    KEYS: ClassVar[tuple[str, ...]] = ("rows", "cols", "valid_rows", "valid_cols", "list")
    NAMES: ClassVar[tuple[str, ...]] = ("rows", "cols", "valid_rows", "valid_cols")

    axes: tuple[Axis | None, ...]
    listed: bool = False

    @property
    def count(self) -> int:
        """Number of shapes."""
        if self.listed:
            return len(self.axis("rows"))
        return prod(len(axis) for axis in self.axes if axis is not None)

    def axis(self, name: str) -> Axis:
        """The values of one axis; of rows or columns where a valid extent is the whole tile's."""
        at = self.NAMES.index(name)
        found = self.axes[at]
        return found if found is not None else self.axis(self.NAMES[at - 2])

    @property
    def longest(self) -> str:
        """The axis with the most values, empty for a list."""
        given = {name: len(axis) for name, axis in zip(self.NAMES, self.axes, strict=True) if axis is not None}
        return "" if self.listed else max(given, key=lambda name: given[name])

    def part(self, start: int, stop: int) -> tuple[Ints, Ints, Ints, Ints]:
        """Rows, columns, valid rows and valid columns of some of the shapes."""
        if self.listed:
            rows, cols, valid_rows, valid_cols = (self.axis(name)[start:stop] for name in self.NAMES)
            return rows, cols, valid_rows, valid_cols
        left = np.arange(start, stop, dtype=np.int64)
        found: dict[str, Ints] = {}
        for name, axis in reversed(list(zip(self.NAMES, self.axes, strict=True))):
            if axis is not None:
                left, at = np.divmod(left, len(axis))
                found[name] = axis[at]
        rows, cols = found["rows"], found["cols"]
        return rows, cols, found.get("valid_rows", rows), found.get("valid_cols", cols)


def read_shapes(data: Mapping[str, Any], error: ShapeError) -> Shapes:
    """The shapes of the table ``shapes``.

    Raises:
        LanefoldError: from ``error``, called with key, value, what is allowed and a cure.
    """
    if "list" in data:
        others = [key for key in data if key != "list"]
        if others:
            raise error(others[0], data[others[0]], "left out beside list", "list alone, or rows and cols")
        return _listed(data["list"], error)
    for key in ("rows", "cols"):
        if key not in data:
            raise error("", dict(data), "a table with rows and cols, or with list", f"{key} = [16, 32]")
    axes = tuple(_axis(name, data[name], error) if name in data else None for name in Shapes.NAMES)
    return Shapes(axes)


def _listed(value: object, error: ShapeError) -> Shapes:
    allowed = "a list of [rows, cols] or [rows, cols, valid rows, valid columns]"
    cure = "[[64, 64], [128, 32, 100, 32]]"
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if not isinstance(value, Sequence) or isinstance(value, str) or not value:
        raise error("list", value, allowed, cure)
    columns: list[list[int]] = [[], [], [], []]
    for shape in value:
        good = isinstance(shape, list | tuple) and len(shape) in (2, 4) and all(_extent(extent) for extent in shape)
        if not good:
            raise error("list", shape, f"{allowed}, each {_EXTENT_TEXT}", cure)
        for column, extent in zip(columns, (*shape, *shape) if len(shape) == 2 else shape, strict=True):
            column.append(int(extent))
    return Shapes(tuple(np.array(column, np.int64) for column in columns), listed=True)


def _extent(value: object) -> bool:
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    return whole and 1 <= int(value) <= EXTENT_MAX  # type: ignore[call-overload]


def _axis(key: str, value: object, error: ShapeError) -> Axis:
    if isinstance(value, Mapping):
        return _range(key, value, error)
    items: Sequence[Any]
    if isinstance(value, np.ndarray | range):
        items = list(value)
    elif isinstance(value, list | tuple):
        items = value
    else:
        items = [value]
    if not items or not all(_extent(item) for item in items):
        raise error(key, value, _AXIS_TEXT, _AXIS_CURE)
    return np.array(list(dict.fromkeys(int(item) for item in items)), np.int64)


def _range(key: str, value: Mapping[str, Any], error: ShapeError) -> Axis:
    known = {"from", "to", "step", "factor"}
    if not {"from", "to"} <= set(value) <= known or {"step", "factor"} <= set(value):
        raise error(key, dict(value), _AXIS_TEXT, _AXIS_CURE)
    first, last = value["from"], value["to"]
    if not (_extent(first) and _extent(last)):
        raise error(key, dict(value), f"a range with from and to, each {_EXTENT_TEXT}", _AXIS_CURE)
    if first > last:
        raise error(
            key, dict(value), "a range with from at most to (this one is empty)", f"from = {last}, to = {first}"
        )
    way = "factor" if "factor" in value else "step"
    by, least = value.get(way, 1), 2 if way == "factor" else 1
    if not _extent(by) or by < least:
        raise error(key, dict(value), f"a {way} of at least {least}", f"{way} = {least}")
    if way == "step":
        return np.arange(first, last + 1, by, dtype=np.int64)
    found = [first]
    while found[-1] * by <= last:
        found.append(found[-1] * by)
    return np.array(found, np.int64)
