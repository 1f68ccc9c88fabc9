"""Type texts of PTO: tiles, tile buffers, memory references and tensor views."""

from __future__ import annotations

import re
from dataclasses import dataclass

from lanefold.diagnostics import Cure, Place, Rule
from lanefold.pto import names
from lanefold.pto.isa import COMPACT_MODES, FRACTALS, LOCATIONS, PADS
from lanefold.pto.tiles import TileType

TYPE = Rule(
    "PTO-TEXT-TYPE",
    "Types are !pto.tile, tile_buf, memref, tensor_view, partition_tensor_view or ptr, with their fields in <>.",
    "PTO AS: types",
    usage=True,
)

_DIMENSIONS = re.compile(r"((?:(?:[0-9]{1,18}|\?)x)+)([A-Za-z]\w*)")
_PAIR = re.compile(r"([0-9]{1,18})x([0-9]{1,18})")
_WHOLE = re.compile(r"0[xX][0-9A-Fa-f]{1,15}|[0-9]{1,18}")
_STRIDED = re.compile(r"strided<\[\s*((?:[0-9]{1,18}|\?)(?:\s*,\s*(?:[0-9]{1,18}|\?))*)\s*\]>")
_TILE = ("tile", "tile_buf")
_MEMORY = ("memref", "tensor_view", "partition_tensor_view", "ptr")
_EXAMPLE = "!pto.tile<loc=vec, f32, 16, 16, RowMajor, NoneBox, None, Null>"

FRACTAL_NAMES = ("None", "NZ", "ZN", "FR", "RN")
"""Words in the fractal place of a tile type; they repeat the layout and say nothing more."""

_ORDER_WORDS = {"rowmajor": "RowMajor", "colmajor": "ColMajor", "nonebox": "NoneBox"}
_PAD_WORDS = {name.lower(): name for name in PADS} | {"invalid": "null"}


@dataclass(frozen=True, slots=True)
class MemoryType:
    """Element type, dimensions (None where written as ?) and strides of a global array or a part of one."""

    kind: str
    dtype: str
    shape: tuple[int | None, ...]
    strides: tuple[int | None, ...] | None = None


def wrong_type(text: str, why: str, place: Place) -> Exception:
    """The finding for a type that cannot be read."""
    return TYPE.error(
        f"{text} is no PTO type: {why}",
        got=text,
        allowed=f"{_EXAMPLE}, !pto.tile_buf<vec, 16x16xf16, valid=?x?>, !pto.memref<64x64xf32>, ...",
        cures=[Cure(f"write the type as in {_EXAMPLE}")],
        place=place,
    )


def _split(body: str) -> list[str]:
    """Parts between commas that stand outside brackets."""
    parts, depth, word = [], 0, ""
    for letter in body:
        depth += (letter in "<[") - (letter in ">]")
        if letter == "," and depth == 0:
            parts.append(word.strip())
            word = ""
        else:
            word += letter
    return [part for part in [*parts, word.strip()] if part]


def _dimension(text: str) -> int | None:
    return None if text == "?" else int(text)


def parse(text: str, place: Place) -> TileType | MemoryType:
    """The type that a text names.

    Raises:
        LanefoldError: PTO-TEXT-TYPE, PTO-TYPE-NAME, PTO-TILE-*.
    """
    name, _, body = text.removeprefix("!pto.").partition("<")
    body = body.removesuffix(">")
    if name in _TILE:
        return _tile(text, _split(body), place)
    if name in _MEMORY:
        return _memory(text, name, body, place)
    raise wrong_type(text, f"there is no !pto.{name}", place)


def _memory(text: str, kind: str, body: str, place: Place) -> MemoryType:
    if kind == "ptr":
        return MemoryType(kind, names.element(body.split(",")[0].strip()).name, ())
    found = _DIMENSIONS.match(body.strip())
    if found is None:
        raise wrong_type(text, "dimensions and element type are missing, as in 64x64xf32", place)
    shape = tuple(_dimension(part) for part in found.group(1).rstrip("x").split("x"))
    strides = _STRIDED.search(body)
    if strides is None and "strided" in body:
        raise wrong_type(text, "its strides are no whole numbers, as in strided<[64, 1]>", place)
    steps = tuple(_dimension(part.strip()) for part in strides.group(1).split(",")) if strides else None
    return MemoryType(kind, names.element(found.group(2)).name, shape, steps)


class _Fields:
    """Fields of a tile type as they are met, in full or in short form."""

    def __init__(self, text: str, place: Place) -> None:
        self.text = text
        self.place = place
        self.numbers: list[int] = []
        self.words: dict[str, str] = {}
        self.valid: tuple[int | None, int | None] | None = None
        self.orders: list[str] = []
        self.named_orders: dict[str, str] = {}
        self.lone_extents: dict[str, int | None] = {}

    def number(self, key: str, value: str) -> int:
        """A whole number in decimal or hexadecimal."""
        if not _WHOLE.fullmatch(value):
            raise wrong_type(self.text, f"{key} is {value!r}, not a whole number", self.place)
        return int(value, 16 if value[:2].lower() == "0x" else 10)

    def extent(self, key: str, value: str) -> int | None:
        """A valid extent, None where written as ?."""
        return None if value == "?" else self.number(key, value)

    def keyword(self, key: str, value: str) -> None:
        if key == "valid":
            parts = [part.strip() for part in value.split("x")]
            if len(parts) != 2 or not all(part == "?" or _WHOLE.fullmatch(part) for part in parts):
                raise wrong_type(
                    self.text, f"valid={value} is not two extents, as in valid=7x19 or valid=?x?", self.place
                )
            self.valid = (_dimension(parts[0]), _dimension(parts[1]))
        elif key in ("v_row", "v_col"):
            self.lone_extents[key] = self.extent(key, value)
        elif key in ("loc", "dtype", "rows", "cols", "blayout", "slayout", "fractal", "pad", "compact"):
            self._named(key, value)
        else:
            raise wrong_type(self.text, f"{key}= is not a field of a tile", self.place)

    def _named(self, key: str, value: str) -> None:
        if key in ("blayout", "slayout"):
            self.named_orders[key] = _ORDER_WORDS.get(value.lower().replace("_", ""), value)
        else:
            self.words[key] = value

    def plain(self, part: str) -> None:
        low = part.lower()
        sized = _DIMENSIONS.fullmatch(part)
        pair = _PAIR.fullmatch(part)
        if _WHOLE.fullmatch(part):
            self.numbers.append(self.number("an extent", part))
        elif pair:
            self.numbers += [int(n) for n in pair.groups()]
        elif sized:
            self.numbers += [int(n) for n in sized.group(1).rstrip("x").split("x") if n.isdigit()]
            self.words["dtype"] = sized.group(2)
        elif low.replace("_", "") in _ORDER_WORDS:
            self.orders.append(_ORDER_WORDS[low.replace("_", "")])
        elif len(self.orders) == 2 and low in {name.lower() for name in FRACTAL_NAMES}:
            return
        elif low in LOCATIONS:
            self.words["loc"] = part
        elif len(self.orders) == 2 and low in _PAD_WORDS:
            self.words["pad"] = part
        else:
            self.words["dtype"] = names.element(part).name

    def layout(self) -> str:
        base, box, *_ = [*self.orders, *("RowMajor", "NoneBox")[len(self.orders) :]]
        return names.layout_of(self.named_orders.get("blayout", base), self.named_orders.get("slayout", box)).name


def _tile(text: str, parts: list[str], place: Place) -> TileType:
    fields = _Fields(text, place)
    for part in parts:
        key, equals, value = part.partition("=")
        if equals:
            fields.keyword(key.strip().lower(), value.strip())
        else:
            fields.plain(part)
    words = fields.words
    rows = fields.number("rows", words["rows"]) if "rows" in words else None
    cols = fields.number("cols", words["cols"]) if "cols" in words else None
    if rows is None and cols is None and len(fields.numbers) == 2:
        rows, cols = fields.numbers
    if rows is None or cols is None or "dtype" not in words:
        raise wrong_type(text, "element type, rows and columns are not all there", place)
    valid = fields.valid or (fields.lone_extents.get("v_row", rows), fields.lone_extents.get("v_col", cols))
    return TileType(
        dtype=words["dtype"],
        rows=rows,
        cols=cols,
        valid_rows=valid[0],
        valid_cols=valid[1],
        layout=fields.layout(),
        location=words.get("loc", "vec"),
        fractal=fields.number("fractal", words["fractal"]) if "fractal" in words else FRACTALS[0],
        pad=_PAD_WORDS.get(words.get("pad", "null").lower(), words.get("pad", "null")),
        compact=words.get("compact", "null"),
    )


def _extent(value: int | None) -> str:
    return "?" if value is None else str(value)


def tile_text(shape: TileType, buffer: bool = False) -> str:
    """A tile type in full form; valid extents follow where they differ from the capacity."""
    order = shape.order
    fractal = shape.layout if shape.layout in FRACTAL_NAMES else "None"
    parts = [
        f"loc={shape.location}",
        shape.dtype,
        str(shape.rows),
        str(shape.cols),
        order.base,
        order.box,
        fractal,
        PADS[shape.pad],
    ]
    if (shape.valid_rows, shape.valid_cols) != (shape.rows, shape.cols):
        parts.append(f"valid={_extent(shape.valid_rows)}x{_extent(shape.valid_cols)}")
    if shape.fractal != FRACTALS[0]:
        parts.append(f"fractal={shape.fractal}")
    if shape.compact != "null":
        parts.append(f"compact={COMPACT_MODES[shape.compact]}")
    return f"!pto.{'tile_buf' if buffer else 'tile'}<{', '.join(parts)}>"


def memory_text(kind: str, dtype: str, shape: tuple[object, ...], strides: tuple[object, ...] | None = None) -> str:
    """A memory type; numbers that are not known are written as ?."""

    def dimension(value: object) -> str:
        return str(value) if isinstance(value, int) else "?"

    body = "x".join([*(dimension(v) for v in shape), dtype])
    tail = f", strided<[{', '.join(dimension(v) for v in strides)}]>" if strides is not None else ""
    return f"!pto.{kind}<{body}{tail}>"
