"""Plots of sweeps and the sweep command: what is drawn is what the table says, and nothing is fetched."""

from __future__ import annotations

import itertools
import json
import re
import struct
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from typer.testing import CliRunner

import lanefold as lf
from lanefold.cli import app
from lanefold.diagnostics import LanefoldError
from lanefold.report.plots import COLOURS, Cell, Map, Plot, number_text, page, plan, region_colours, specification
from lanefold.sweeps.plot import plots

SPEC = {
    "ops": ["TROWSUM", "TensorReduce"],
    "dtypes": ["f32"],
    "targets": ["a2a3", "a5", "trn1"],
    "objective": "cycles_per_element",
    "shapes": {"rows": {"from": 1, "to": 200}, "cols": {"from": 8, "to": 1024, "step": 8}},
}
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def table():
    return lf.sweep(SPEC)


@pytest.fixture(scope="module")
def vector(table, tmp_path_factory: pytest.TempPathFactory) -> str:
    return table.write_plot(tmp_path_factory.mktemp("vector") / "plot.svg").read_text()


def test_cells_are_rows_of_the_table(table) -> None:
    rows = {(row["op"], row["target"], row["rows"], row["cols"]): row for row in table.rows()}
    for group, plot in zip(table.space.groups, plots(table), strict=True):
        costs, validity, bound = plot.maps
        assert costs.cells.keys() == validity.cells.keys() == bound.cells.keys()
        assert (costs.rows[0], costs.rows[-1], costs.cols[0], costs.cols[-1]) == (1, 200, 8, 1024)
        assert len(costs.cells) == len(costs.rows) * len(costs.cols)
        for place, cell in validity.cells.items():
            row = rows[(group.op, group.target, *place)]
            assert (cell.region, cell.legal, cell.value) == (row["validity"], row["legal"], row["cycles_per_element"])
            if row["bound"]:
                assert bound.cells[place].region == row["bound"]


def test_the_best_cell_is_marked(table) -> None:
    for best, plot in zip(table.best(), plots(table), strict=True):
        wanted = (best.row["valid_rows"], best.row["valid_cols"]) if best.row else None
        assert all(drawn.best == wanted for drawn in plot.maps)
        assert wanted is None or wanted in plot.maps[0].cells
        drawing = specification(plot)
        marked = [(cell["row"], cell["col"]) for cell in drawing["data"]["values"] if cell["best"]]
        assert marked == ([wanted] if wanted else [])
        for each in drawing["hconcat"]:
            rings = [layer for layer in each["layer"] if layer["encoding"].get("shape", {}).get("datum") == "best"]
            assert bool(rings) == (wanted is not None)


def test_greatest_term_of_a_tile_operation(table) -> None:
    from lanefold.pto.cost import cost

    place, cell = list(plots(table)[0].maps[2].cells.items())[100]
    terms = cost("TROWSUM", "f32", *place).terms
    assert terms[cell.region] == max(terms.values())


def test_the_plan_holds_every_cell_and_colours_it_by_what_it_is(table) -> None:
    for plot in plots(table):
        drawing = specification(plot)
        costs, validity, bound = plot.maps
        records = {(each["row"], each["col"]): each for each in drawing["data"]["values"]}
        assert records.keys() == costs.cells.keys()
        for place, record in records.items():
            assert record.get("number 0") == costs.cells[place].value
            assert record["region 1"] == validity.cells[place].region
            assert record["region 2"] == bound.cells[place].region
            assert record["not legal"] == (not costs.cells[place].legal)
            assert record["says"] == costs.cells[place].says
        for each, drawn in zip(drawing["hconcat"], plot.maps, strict=True):
            assert each["encoding"]["x"]["scale"]["domain"] == list(drawn.cols)
            assert each["encoding"]["y"]["scale"]["domain"] == list(reversed(drawn.rows))
            ends = {drawn.cols[0], drawn.cols[-1]}
            assert ends <= set(each["encoding"]["x"]["axis"]["values"]) <= set(drawn.cols)
            if not drawn.numbers:
                colour = each["layer"][0]["encoding"]["color"]["scale"]
                assert dict(zip(colour["domain"], colour["range"], strict=True)) == region_colours(drawn)
                assert set(colour["domain"]) == {cell.region for cell in drawn.cells.values()}


def distance(first: str, second: str, kept: np.ndarray) -> float:
    """Distance of two colours as somebody sees them who lacks one kind of cone."""
    linear = []
    for colour in (first, second):
        channels = np.array([int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)])
        linear.append(kept @ np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4))
    return float(np.abs(linear[0] - linear[1]).max())


DEUTERAN = np.array([[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]])
PROTAN = np.array([[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]])
"""Full deuteranopia and protanopia on linear RGB (Machado, Oliveira and Fernandes 2009)."""


@pytest.mark.parametrize("kept", [np.eye(3), DEUTERAN, PROTAN], ids=["all", "deuteranopia", "protanopia"])
@pytest.mark.parametrize(
    "together",
    [
        ("calibrated", "interpolated", "extrapolated", "unknown"),
        ("published formula", "model, nothing is published", "unknown"),
        ("start-up", "streaming", "port"),
        ("launch", "repeats", "barriers", "copies", "masks"),
    ],
)
def test_colours_that_stand_together_are_told_apart(together: tuple[str, ...], kept: np.ndarray) -> None:
    for first, second in itertools.combinations(together, 2):
        assert distance(COLOURS[first], COLOURS[second], kept) > 0.08, (first, second)


class Outside(HTMLParser):
    """Collects every attribute that could fetch something, and the texts of the scripts."""

    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.scripts: list[str] = []
        self.labels: list[str] = []
        self.inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        links = [named[name] for name in ("src", "href", "xlink:href") if named.get(name)]
        self.fetched += [link for link in links if not link.startswith("#")]
        if tag in ("link", "img", "iframe"):
            self.fetched.append(tag)
        self.labels += [named["aria-label"] or ""] if named.get("role") == "img" else []
        self.inside = tag == "script"
        self.scripts += [""] if self.inside else []

    def handle_endtag(self, tag: str) -> None:
        self.inside = False

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.scripts[-1] += data


def read(text: str) -> Outside:
    parser = Outside()
    parser.feed(text)
    return parser


def test_the_page_needs_nothing_else(table, tmp_path: Path) -> None:
    text = table.write_plot(tmp_path / "plot.html").read_text()
    parser = read(text)
    assert parser.fetched == []
    assert "@import" not in text.split("<script>")[0]
    drawings = json.loads(parser.scripts[1])
    assert len(drawings) == len(parser.labels) == 3
    assert parser.labels[0] == "Cycles per element, Validity, Greatest term"
    assert not any("url" in drawing["data"] for drawing in drawings)
    assert "TROWSUM f32 on a5" in text
    assert list(tmp_path.iterdir()) == [tmp_path / "plot.html"]


def test_the_vector_picture_holds_all_words(table, vector: str) -> None:
    root = ElementTree.fromstring(vector)  # noqa: S314 - written by ourselves
    assert root.tag == f"{SVG}svg"
    words = {text.text for text in root.iter(f"{SVG}text")} | {text.text for text in root.iter(f"{SVG}tspan")}
    for plot in plots(table):
        assert plot.title in words
        assert plot.note in words
        assert {drawn.title for drawn in plot.maps} <= words
    assert {"not legal", "best", "unknown", "extrapolated", "streaming"} <= words


def test_the_bitmap_shows_the_same_plan(table, vector: str, tmp_path: Path) -> None:
    """A bitmap of about the size of the vector picture, with the colours of its cells."""
    data = table.write_plot(tmp_path / "plot.png").read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", data[16:24])
    wide, high = (float(number) for number in re.search(r'width="([\d.]+)" height="([\d.]+)"', vector).groups())
    assert (width, height) == (pytest.approx(2 * wide, rel=0.02), pytest.approx(2 * high, rel=0.02))


def test_words_are_escaped() -> None:
    drawn = Map("<b>", [1], [1], {(1, 1): Cell(1.0, "</script><i>", True, "<u>")})
    text = page("<em>", {"<s>": "<p>"}, [Plot("<h6>", "<q>", (drawn,))])
    assert not re.search("<(b|i|u|em|s|h6|q)>", text.split("<script>")[0])
    parser = read(text)
    assert len(parser.scripts) == 3
    assert json.loads(parser.scripts[1])[0]["data"]["values"][0]["region 0"] == "</script><i>"


def test_everything_unknown_still_has_a_plan() -> None:
    drawn = Map("m", [1, 2], [1], {(1, 1): Cell(None, "", True, "unknown")}, numbers=True)
    (layer,) = plan("t", {}, [Plot("p", "", (drawn,))])["vconcat"][0]["hconcat"][0]["layer"]
    assert layer["encoding"]["fill"]["datum"] == "unknown"


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (1234.5, "1,234"), (12.345, "12.3"), (0.012345, "0.0123"), (7.0, "7.00")]
)
def test_numbers(value: float, text: str) -> None:
    assert number_text(value) == text


def test_other_endings_are_refused(table, tmp_path: Path) -> None:
    with pytest.raises(LanefoldError, match="SWEEP-OUTPUT"):
        table.write_plot(tmp_path / "plot.pdf")
    with pytest.raises(LanefoldError, match="has no ending"):
        table.write_plot(tmp_path / "plot")
    (tmp_path / "file").write_text("")
    with pytest.raises(LanefoldError, match="SWEEP-OUTPUT"):
        table.write_plot(tmp_path / "file" / "plot.svg")
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(LanefoldError, match="it is a folder"):
        table.write_plot(tmp_path / "folder.png")


def test_plots_need_their_package(table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lanefold.sweeps import plot

    monkeypatch.setattr(plot, "find_spec", lambda name: None)
    with pytest.raises(LanefoldError) as caught:
        table.write_plot(tmp_path / "plot.png")
    assert caught.value.diagnostics[0].cures[0].text == "python -m pip install 'lanefold[plot]'"


def test_a_bad_plot_file_is_told_before_anything_is_priced(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["sweep", str(tmp_path / "none.toml"), "--plot", str(tmp_path / "plot.gif")])
    assert isinstance(result.exception, LanefoldError)
    assert result.exception.diagnostics[0].code == "SWEEP-OUTPUT"


def written(tmp_path: Path) -> Path:
    path = tmp_path / "sweep.toml"
    path.write_text(
        'ops = ["TROWSUM", "TROWPROD"]\ndtypes = ["f32"]\ntargets = ["a2a3"]\nmodels = ["stream"]\n'
        "[shapes]\nrows = [16, 32]\ncols = [64, 4096]\n"
    )
    return path


def test_the_command_as_json(tmp_path: Path) -> None:
    names = [str(tmp_path / "out.csv"), str(tmp_path / "out.svg")]
    arguments = ["-o", names[0], "--plot", names[1], "--objective", "ns", "--skip-unknown", "--json"]
    result = CliRunner().invoke(app, ["sweep", str(written(tmp_path)), *arguments])
    assert result.exit_code == 0, result.output
    said = json.loads(result.stdout)
    assert said["counts"] == {"configurations": 8, "rows": 4, "skipped": 4, "unknown": 4, "not_legal": 4}
    assert said["files"] == names
    assert [best["objective"] for best in said["best"]] == ["ns", "ns"]
    assert said["best"][0]["row"]["legal"] is True
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 5


def test_the_command_in_words(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["sweep", str(written(tmp_path)), "--objective", "cycles"])
    assert result.exit_code == 0, result.output
    assert "8 configurations, 8 rows; 4 unknown (0 left out); 4 not legal" in result.stdout
    assert "least cycles" in result.stdout


def test_the_command_with_a_bad_sweep(tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text("ops = 3\n")
    result = CliRunner().invoke(app, ["sweep", str(path)])
    assert isinstance(result.exception, LanefoldError)
    assert result.exception.usage
