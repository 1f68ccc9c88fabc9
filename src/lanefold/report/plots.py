"""Maps over two axes as SVG: numbers in colours, regions in colours of their own, one cell marked as the best."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

_RAMP = ("#fde725", "#a0da39", "#4ac16d", "#1fa187", "#277f8e", "#365c8d", "#46327e", "#440154")
"""Colours from the least number to the greatest (viridis, light is cheap)."""
_PALETTE = ("#009e73", "#56b4e9", "#e69f00", "#cc79a7", "#0072b2", "#d55e00", "#f0e442", "#999999")
"""Colours of regions without a colour of their own (Okabe and Ito)."""
COLOURS: Mapping[str, str] = {
    "calibrated": "#009e73",
    "interpolated": "#56b4e9",
    "extrapolated": "#e69f00",
    "published formula": "#009e73",
    "model, nothing is published": "#e69f00",
    "unknown": "#d9d9d9",
    "start-up": "#cc79a7",
    "streaming": "#0072b2",
    "port": "#d55e00",
    "launch": "#cc79a7",
    "repeats": "#0072b2",
    "barriers": "#d55e00",
    "copies": "#56b4e9",
    "masks": "#f0e442",
    "fill and drain": "#cc79a7",
    "masked floor": "#e69f00",
}
"""Colours of words that mean the same in every plot."""

_LEFT, _TOP, _WIDE, _HIGH, _LEGEND = 58, 30, 380, 240, 36
PANEL_WIDTH, PANEL_HEIGHT = _LEFT + _WIDE + 18, _TOP + _HIGH + 44 + _LEGEND
"""Size of one map in pixels."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One configuration of a map: its number (None where unknown), its region, whether it is legal, and what to say."""

    value: float | None
    region: str
    legal: bool
    says: str


@dataclass(frozen=True)
class Map:
    """Cells over columns (to the right) and rows (upwards), both evenly spaced whatever their numbers.

    Args:
        title: heading.
        rows: row numbers, ascending.
        cols: column numbers, ascending.
        cells: by (row number, column number); places without a cell stay empty.
        best: place that is marked.
        numbers: whether colours stand for the numbers instead of the regions.
        axes: what rows and columns count.
    """

    title: str
    rows: Sequence[int]
    cols: Sequence[int]
    cells: Mapping[tuple[int, int], Cell]
    best: tuple[int, int] | None = None
    numbers: bool = False
    axes: tuple[str, str] = ("rows", "columns")


@dataclass(frozen=True)
class Plot:
    """Maps of one group side by side, with a heading, a line of words and what the group's best is."""

    title: str
    note: str
    maps: tuple[Map, ...]
    facts: Mapping[str, str] = field(default_factory=dict)


def number_text(value: float) -> str:
    """A number with three digits that matter."""
    if value == 0:
        return "0"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:.{digits}f}"


def _mix(share: float) -> str:
    """The colour at a share of the ramp."""
    place = min(max(share, 0.0), 1.0) * (len(_RAMP) - 1)
    at = min(int(place), len(_RAMP) - 2)
    parts = []
    for offset in (1, 3, 5):
        low, high = (int(_RAMP[at + more][offset : offset + 2], 16) for more in (0, 1))
        parts.append(round(low + (high - low) * (place - at)))
    return "#" + "".join(f"{part:02x}" for part in parts)


@dataclass(frozen=True)
class _Scale:
    """Numbers to colours, by their logarithm."""

    low: float
    high: float

    def colour(self, value: float) -> str:
        if self.high <= self.low:
            return _RAMP[0]
        return _mix((math.log(value) - math.log(self.low)) / (math.log(self.high) - math.log(self.low)))


def _scale(drawn: Map) -> _Scale | None:
    values = [cell.value for cell in drawn.cells.values() if cell.value is not None and cell.value > 0]
    return _Scale(min(values), max(values)) if values else None


def _colours(drawn: Map) -> dict[str, str]:
    words = list(dict.fromkeys(cell.region for cell in drawn.cells.values() if cell.region))
    free = iter([colour for colour in _PALETTE if colour not in COLOURS.values()] + list(_PALETTE))
    return {word: COLOURS[word] if word in COLOURS else next(free, _PALETTE[-1]) for word in sorted(words)}


def _ticks(values: Sequence[int], most: int) -> list[int]:
    """Places of the axis that are labelled: the ends, and evenly between them."""
    if len(values) <= most:
        return list(range(len(values)))
    return sorted({round(step * (len(values) - 1) / (most - 1)) for step in range(most)})


def _text(x: float, y: float, words: str, anchor: str = "start", extra: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{extra}>{escape(words)}</text>'


def _fill(drawn: Map, cell: Cell, scale: _Scale | None, colours: Mapping[str, str]) -> str:
    if drawn.numbers:
        known = scale is not None and cell.value is not None and cell.value > 0
        return scale.colour(cell.value) if known and scale and cell.value else COLOURS["unknown"]
    return colours.get(cell.region, COLOURS["unknown"])


def _cells(drawn: Map, scale: _Scale | None, colours: Mapping[str, str]) -> list[str]:
    width, height = _WIDE / len(drawn.cols), _HIGH / len(drawn.rows)
    found, barred = [], []
    for (row, col), cell in drawn.cells.items():
        x = _LEFT + drawn.cols.index(col) * width
        y = _TOP + _HIGH - (drawn.rows.index(row) + 1) * height
        box = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
        fill = _fill(drawn, cell, scale, colours)
        found.append(f'<rect {box} fill="{fill}"><title>{escape(cell.says)}</title></rect>')
        if not cell.legal:
            barred.append(f"M{x:.1f} {y:.1f}h{width:.1f}v{height:.1f}h-{width:.1f}z")
    if barred:
        found.append(f'<path d="{"".join(barred)}" fill="url(#not-legal)" pointer-events="none"/>')
    if drawn.best in drawn.cells:
        row, col = drawn.best or (0, 0)
        x = _LEFT + (drawn.cols.index(col) + 0.5) * width
        y = _TOP + _HIGH - (drawn.rows.index(row) + 0.5) * height
        found.append(f'<circle class="best" cx="{x:.1f}" cy="{y:.1f}" r="7"/>')
        found.append(f'<circle class="ring" cx="{x:.1f}" cy="{y:.1f}" r="9"/>')
    return found


def _axes(drawn: Map) -> list[str]:
    width, height = _WIDE / len(drawn.cols), _HIGH / len(drawn.rows)
    found = [f'<rect x="{_LEFT}" y="{_TOP}" width="{_WIDE}" height="{_HIGH}" fill="none" stroke="#888"/>']
    found += [
        _text(_LEFT + (at + 0.5) * width, _TOP + _HIGH + 14, f"{drawn.cols[at]}", "middle")
        for at in _ticks(drawn.cols, 8)
    ]
    found += [
        _text(_LEFT - 5, _TOP + _HIGH - (at + 0.5) * height + 4, f"{drawn.rows[at]}", "end")
        for at in _ticks(drawn.rows, 8)
    ]
    found.append(_text(_LEFT + _WIDE / 2, _TOP + _HIGH + 30, drawn.axes[1], "middle"))
    middle = _TOP + _HIGH / 2
    found.append(_text(13, middle, drawn.axes[0], "middle", f' transform="rotate(-90 13 {middle:.0f})"'))
    return found


class _Legend:
    """Signs with their words, from left to right and then in the next line."""

    def __init__(self, x: float) -> None:
        self.x, self.y = x, _TOP + _HIGH + 44.0
        self.parts: list[str] = []

    def add(self, word: str, sign: Callable[[float, float], str]) -> None:
        wide = 27 + 5.9 * len(word)
        if self.x + wide > _LEFT + _WIDE + 14:
            self.x, self.y = float(_LEFT), self.y + 17
        self.parts += [sign(self.x, self.y), _text(self.x + 15, self.y + 10, word)]
        self.x += wide


def _square(fill: str) -> Callable[[float, float], str]:
    return lambda x, y: f'<rect x="{x:.1f}" y="{y:.1f}" width="11" height="11" fill="{fill}"/>'


def _circle(x: float, y: float) -> str:
    return f'<circle class="best" cx="{x + 6:.1f}" cy="{y + 5.5:.1f}" r="4.5"/>'


def _ramp(scale: _Scale) -> list[str]:
    steps, each, y = 40, 3, _TOP + _HIGH + 44
    found = [
        f'<rect x="{_LEFT + step * each}" y="{y}" width="3.2" height="10" fill="{_mix(step / (steps - 1))}"/>'
        for step in range(steps)
    ]
    middle = math.sqrt(scale.low * scale.high)
    for share, value in ((0.0, scale.low), (0.5, middle), (1.0, scale.high)):
        found.append(_text(_LEFT + share * steps * each, y + 22, number_text(value), "middle"))
    return found


def _legend(drawn: Map, scale: _Scale | None, colours: Mapping[str, str]) -> list[str]:
    ramp = _ramp(scale) if drawn.numbers and scale is not None else []
    legend = _Legend(_LEFT + (150 if ramp else 0))
    if drawn.numbers and any(cell.value is None for cell in drawn.cells.values()):
        legend.add("unknown", _square(COLOURS["unknown"]))
    for word, colour in colours.items():
        legend.add(word, _square(colour))
    if any(not cell.legal for cell in drawn.cells.values()):
        legend.add("not legal", _square("url(#not-legal)"))
    if drawn.best in drawn.cells:
        legend.add("best", _circle)
    return [*ramp, *legend.parts]


def map_svg(drawn: Map) -> str:
    """One map as the inside of an SVG picture."""
    scale, colours = _scale(drawn), _colours(drawn)
    parts = [_text(_LEFT, 18, drawn.title, extra=' class="head"'), *_cells(drawn, scale, colours), *_axes(drawn)]
    return "\n".join([*parts, *_legend(drawn, scale, colours)])


DEFINITIONS = """\
<defs><pattern id="not-legal" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
<rect width="6" height="6" fill="#fff" fill-opacity="0.55"/><line x1="0" y1="0" x2="0" y2="6" stroke="#444"
stroke-opacity="0.5" stroke-width="1.6"/></pattern></defs>"""
STYLE = """\
text { font: 11px system-ui, sans-serif; fill: #222; }
text.head { font-weight: 600; font-size: 13px; }
.best { fill: none; stroke: #000; stroke-width: 2; }
.ring { fill: none; stroke: #fff; stroke-width: 2; }"""


def plot_svg(plots: Sequence[Plot]) -> str:
    """All plots below one another in one SVG picture that needs nothing else."""
    wide = max(len(plot.maps) for plot in plots) * PANEL_WIDTH + 20
    high = PANEL_HEIGHT + 46
    parts = []
    for at, plot in enumerate(plots):
        inside = [_text(10, 22, plot.title, extra=' class="head"'), _text(10, 38, plot.note)]
        for column, drawn in enumerate(plot.maps):
            inside.append(f'<g transform="translate({10 + column * PANEL_WIDTH} 46)">{map_svg(drawn)}</g>')
        parts.append(f'<g transform="translate(0 {at * high})">' + "\n".join(inside) + "</g>")
    size = f'width="{wide}" height="{high * len(plots)}" viewBox="0 0 {wide} {high * len(plots)}"'
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">\n<style>{STYLE}</style>\n{DEFINITIONS}\n'
        f'<rect width="100%" height="100%" fill="#fff"/>\n{body}\n</svg>\n'
    )


def plot_page(title: str, facts: Mapping[str, str], plots: Sequence[Plot]) -> str:
    """All plots as one HTML page that needs no other file and no network."""
    from jinja2 import Environment, PackageLoader

    loader = PackageLoader("lanefold.report", "templates")
    environment = Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    template = environment.get_template("plots.html.j2")
    drawn = [(plot, [(each.title, map_svg(each)) for each in plot.maps]) for plot in plots]
    heads = list(dict.fromkeys(name for plot in plots for name in plot.facts))
    return template.render(
        title=title,
        facts=facts,
        plots=drawn,
        heads=heads,
        width=PANEL_WIDTH,
        height=PANEL_HEIGHT,
        style=STYLE,
        definitions=DEFINITIONS,
    )
