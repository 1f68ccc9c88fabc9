"""Plots of sweeps and the sweep command: what is drawn is what the table says, and nothing is fetched."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

import lanefold as lf
from lanefold.cli import app
from lanefold.diagnostics import LanefoldError
from lanefold.report.plots import Cell, Map, map_svg, number_text
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
        assert ('class="best"' in map_svg(plot.maps[0])) == (wanted is not None)


def test_greatest_term_of_a_tile_operation(table) -> None:
    from lanefold.pto.cost import cost

    place, cell = list(plots(table)[0].maps[2].cells.items())[100]
    terms = cost("TROWSUM", "f32", *place).terms
    assert terms[cell.region] == max(terms.values())


class Outside(HTMLParser):
    """Collects every attribute that could fetch something."""

    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.fetched += [f"{tag} {name}={value}" for name, value in attrs if name in ("src", "href", "xlink:href")]
        if tag in ("script", "link", "img", "iframe"):
            self.fetched.append(tag)


def test_the_page_needs_nothing_else(table, tmp_path: Path) -> None:
    text = table.write_plot(tmp_path / "plot.html").read_text()
    parser = Outside()
    parser.feed(text)
    assert parser.fetched == []
    assert not re.search(r"url\((?!#)|@import", text)
    assert text.count('role="img"') == 9
    assert "TROWSUM f32 on a5" in text
    assert list(tmp_path.iterdir()) == [tmp_path / "plot.html"]


def test_the_picture_is_svg(table, tmp_path: Path) -> None:
    root = ElementTree.parse(table.write_plot(tmp_path / "plot.svg")).getroot()  # noqa: S314 - written by ourselves
    assert root.tag == f"{SVG}svg"
    titles = [title.text or "" for title in root.iter(f"{SVG}title")]
    assert any("not legal: PTO-MEMORY-SIZE" in title for title in titles)
    assert any("cycles unknown" in title for title in titles)


def test_words_are_escaped() -> None:
    drawn = Map("<b>", [1], [1], {(1, 1): Cell(1.0, "<i>", True, "<u>")})
    assert not re.search("<[biu]>", map_svg(drawn))


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (1234.5, "1,234"), (12.345, "12.3"), (0.012345, "0.0123"), (7.0, "7.00")]
)
def test_numbers(value: float, text: str) -> None:
    assert number_text(value) == text


def test_other_endings_are_refused(table, tmp_path: Path) -> None:
    with pytest.raises(LanefoldError, match="SWEEP-OUTPUT"):
        table.write_plot(tmp_path / "plot.png")
    with pytest.raises(LanefoldError, match="SWEEP-OUTPUT"):
        table.write_plot(tmp_path / "nowhere" / "plot.svg")


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
