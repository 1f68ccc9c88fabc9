"""Maps over two axes as one drawing plan, and its renderings: a page, a vector picture, a bitmap.

The plan is a Vega-Lite specification, which vl-convert draws; neither needs a browser or a network.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

_PALETTE = ("#009e73", "#56b4e9", "#e69f00", "#cc79a7", "#0072b2", "#d55e00", "#f0e442", "#999999")
"""Colours of regions without a colour of their own; they stay apart for colour-blind readers (Okabe and Ito)."""
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

_WIDE, _HIGH, _LABELS = 340, 230, 10
"""Width and height of a map in pixels, and most labels of an axis."""
_LONGEST_BAR = 12.0
"""Pixels of the bar over a cell that is not legal, at most."""
_FINE, _FEW = 2.0, 4
"""Pixels of a bitmap for each one of the plan, where it has only a few plots."""
_HATCH, _RING = "M-1,1L1,-1", "circle"
"""Signs of cells that are not legal, and of the best one."""
_SIGNS = {"not legal": _HATCH, "best": _RING}


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
    """Maps of the same cells side by side, with a heading, a line of words and what the group's best is."""

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


def _ticks(values: Sequence[int]) -> list[int]:
    """The values of an axis that are labelled: the ends, and evenly between them."""
    if len(values) <= _LABELS:
        return list(values)
    return [values[at] for at in sorted({round(n * (len(values) - 1) / (_LABELS - 1)) for n in range(_LABELS)})]


def _axis(values: Sequence[int], title: str, *, upwards: bool) -> dict[str, Any]:
    """A band for each value, in order; ``upwards`` puts the first one at the bottom."""
    ordered = list(reversed(values)) if upwards else list(values)
    name = "row" if upwards else "col"
    axis = {"title": title, "values": _ticks(values), "labelAngle": 0, "labelOverlap": True}
    return {"field": name, "type": "ordinal", "scale": {"domain": ordered}, "axis": axis}


def region_colours(drawn: Map) -> dict[str, str]:
    """The colour of each region of a map; words that occur in all plots have the same one everywhere."""
    words = sorted({cell.region for cell in drawn.cells.values() if cell.region})
    free = iter([colour for colour in _PALETTE if colour not in COLOURS.values()] + list(_PALETTE))
    return {word: COLOURS[word] if word in COLOURS else next(free, _PALETTE[-1]) for word in words}


def _colour(drawn: Map, at: int) -> dict[str, Any]:
    """The colours of the map of this number: of its numbers, by their logarithm, or of its regions."""
    if drawn.numbers:
        numbers = [cell.value for cell in drawn.cells.values() if cell.value is not None and cell.value > 0]
        low, high = min(numbers), max(numbers)
        shown = [low, math.sqrt(low * high), high] if high > low else [low]
        legend = {"title": None, "format": ".3~g", "values": shown, "gradientLength": 150, "labelOverlap": False}
        scale = {"type": "log", "scheme": "viridis", "reverse": True, "domain": [low, high], "nice": False}
        return {"field": f"number {at}", "type": "quantitative", "scale": scale, "legend": legend}
    colours = region_colours(drawn)
    scale = {"domain": list(colours), "range": list(colours.values())}
    return {"field": f"region {at}", "type": "nominal", "scale": scale, "legend": {"title": None}}


def _layer(mark: Mapping[str, Any], keep: str, encoding: Mapping[str, Any]) -> dict[str, Any]:
    return {"transform": [{"filter": keep}], "mark": dict(mark), "encoding": dict(encoding)}


def _sign(word: str, signs: Sequence[str], mark: Mapping[str, Any]) -> dict[str, Any]:
    scale = {"domain": list(signs), "range": [_SIGNS[each] for each in signs]}
    shape = {"datum": word, "scale": scale, "legend": {"title": None}}
    return _layer({"type": "point", "filled": False, **mark}, f"datum[{json.dumps(word)}]", {"shape": shape})


def _values(plot: Plot) -> list[dict[str, Any]]:
    """One record per cell, with the number or region that each map colours it by."""
    records: dict[tuple[int, int], dict[str, Any]] = {}
    for at, drawn in enumerate(plot.maps):
        for (row, col), cell in drawn.cells.items():
            made = {"row": row, "col": col, "not legal": not cell.legal, "best": (row, col) == drawn.best}
            record = records.setdefault((row, col), {**made, "says": cell.says})
            if not drawn.numbers:
                record[f"region {at}"] = cell.region
            elif cell.value is not None and cell.value > 0:
                record[f"number {at}"] = cell.value
    return list(records.values())


def _map(drawn: Map, at: int) -> dict[str, Any]:
    """One map: cells in their colours, bars over those that are not legal, a ring around the best."""
    cells = drawn.cells.values()
    found = {"not legal": any(not cell.legal for cell in cells), "best": drawn.best in drawn.cells}
    signs = [word for word in _SIGNS if found[word]]
    known = f'isValid(datum["number {at}"])' if drawn.numbers else "true"
    numbered = [cell.value is not None and cell.value > 0 for cell in cells]
    layers = []
    if any(numbered) or not drawn.numbers:
        layers.append(_layer({"type": "rect"}, known, {"color": _colour(drawn, at)}))
    if drawn.numbers and not all(numbered):
        unknown = {"datum": "unknown", "scale": {"range": [COLOURS["unknown"]]}, "legend": {"title": None}}
        layers.append(_layer({"type": "rect"}, f"!{known}", {"fill": unknown}))
    if found["not legal"]:
        side = min(_WIDE / len(drawn.cols), _HIGH / len(drawn.rows), _LONGEST_BAR)
        bars = {"stroke": "#333", "strokeWidth": 1, "opacity": 0.75, "size": side**2}
        layers.append(_layer({"type": "rect", "color": "#fff", "opacity": 0.45}, 'datum["not legal"]', {}))
        layers.append(_sign("not legal", signs, bars))
    if found["best"]:
        layers.append(_sign("best", signs, {"stroke": "#fff", "strokeWidth": 5, "size": 170, "opacity": 1}))
        layers.append(_sign("best", signs, {"stroke": "#000", "strokeWidth": 2.5, "size": 170, "opacity": 1}))
    return {
        "title": drawn.title,
        "width": _WIDE,
        "height": _HIGH,
        "encoding": {
            "x": _axis(drawn.cols, drawn.axes[1], upwards=False),
            "y": _axis(drawn.rows, drawn.axes[0], upwards=True),
            "tooltip": {"field": "says", "type": "nominal"},
        },
        "layer": layers,
    }


_CONFIG: Mapping[str, Any] = {
    "background": "#fff",
    "font": "sans-serif",
    "view": {"stroke": "#888"},
    "title": {"anchor": "start", "fontSize": 13, "subtitleFontSize": 12, "subtitleColor": "#444"},
    "axis": {"domain": False, "ticks": False, "grid": False, "labelFontSize": 11, "titleFontWeight": "normal"},
    "aria": False,
    "legend": {
        "symbolType": "square",
        "orient": "bottom",
        "direction": "horizontal",
        "labelFontSize": 11,
        "columns": 4,
        "labelLimit": 220,
    },
    "scale": {"bandPaddingInner": 0, "bandPaddingOuter": 0},
    "range": {"category": list(_PALETTE)},
}


def specification(plot: Plot) -> dict[str, Any]:
    """The maps of one group side by side as a Vega-Lite specification that holds its data."""
    best = "; ".join(f"{name} {value}" for name, value in plot.facts.items() if value)
    lines = [text for text in (plot.note, best) if text]
    return {
        "title": {"text": plot.title, "subtitle": lines, "fontSize": 15},
        "data": {"values": _values(plot)},
        "hconcat": [_map(drawn, at) for at, drawn in enumerate(plot.maps)],
        "resolve": {"scale": {"color": "independent", "fill": "independent", "shape": "independent"}},
        "spacing": 24,
    }


def plan(title: str, facts: Mapping[str, str], plots: Iterable[Plot]) -> dict[str, Any]:
    """All groups below one another, under a heading, as one Vega-Lite specification."""
    head = [f"{name}: {value}" for name, value in facts.items()]
    return {
        "title": {"text": title, "subtitle": head, "fontSize": 18, "offset": 16},
        "vconcat": [specification(plot) for plot in plots],
        "spacing": 36,
        "padding": 16,
        "config": dict(_CONFIG),
    }


def picture(title: str, facts: Mapping[str, str], plots: Sequence[Plot], kind: str) -> bytes:
    """All plots in one picture, ``svg`` or ``png``; needs vl-convert."""
    import vl_convert

    drawing = plan(title, facts, plots)
    if kind == "svg":
        return vl_convert.vegalite_to_svg(drawing, allowed_base_urls=[]).encode()
    scale = _FINE if len(plots) <= _FEW else 1.0
    return vl_convert.vegalite_to_png(drawing, scale=scale, allowed_base_urls=[])


def page(title: str, facts: Mapping[str, str], plots: Sequence[Plot]) -> str:
    """All plots as one HTML page that needs no other file and no network; needs vl-convert."""
    import vl_convert
    from jinja2 import Environment, PackageLoader

    loader = PackageLoader("lanefold.report", "templates")
    environment = Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    template = environment.get_template("plots.html.j2")
    drawn = [{**specification(plot), "title": "", "config": dict(_CONFIG)} for plot in plots]
    heads = list(dict.fromkeys(name for plot in plots for name in plot.facts))
    return template.render(
        title=title,
        facts=facts,
        plots=plots,
        heads=heads,
        drawings=_script(drawn),
        library=vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;").replace("</script", "<\\/script"),
    )


def _script(value: object) -> str:
    """JSON that can stand in a script element."""
    return json.dumps(value, separators=(",", ":")).replace("</", "<\\/").replace("<!--", "<\\!--")
