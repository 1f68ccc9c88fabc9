"""The tables of the benchmarks: figures beside what is required, and pages that keep their other parts."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

FILE = Path(__file__).parent.parent / "benchmarks" / "harness.py"


@pytest.fixture(scope="module")
def harness():
    spec = importlib.util.spec_from_file_location("harness", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def table(harness):
    return harness.Table("demo", "Demo", ("work", "ratio", "required"), [("add", *harness.ratio(1.5, 2))], ["A note."])


def test_a_missed_minimum_is_marked(harness) -> None:
    assert harness.ratio(2.0, 1.15) == ("2.00", "1.15")
    assert harness.ratio(1.0, 1.15) == ("1.00", "1.15 (missed)")
    assert harness.ratio(1.0) == ("1.00", "–")


def test_a_table_takes_the_place_of_its_former_self(harness, table, tmp_path: Path, capsys) -> None:
    page = tmp_path / "speed.md"
    page.write_text("# Speed\n\nText.\n")
    harness.publish(table, page)
    assert "work" in capsys.readouterr().out
    first = page.read_text()
    assert first.startswith("# Speed\n\nText.\n\n<!-- begin demo -->\n## Demo\n")
    assert "| add | 1.50 | 2 (missed) |" in first
    assert harness.machine() in first
    other = table._replace(name="other", title="Other")
    harness.publish(other, page)
    harness.publish(table._replace(rows=[("add", "3.00", "2")]), page)
    again = page.read_text()
    assert again.count("<!-- begin demo -->") == again.count("<!-- begin other -->") == 1
    assert "| add | 3.00 | 2 |" in again
    assert again.index("Demo") < again.index("Other")


def test_works_take_turns_and_setting_up_is_not_timed(harness) -> None:
    from contextlib import contextmanager

    seen: list[str] = []

    @contextmanager
    def within(name: str):
        seen.append(f"[{name}")
        yield
        seen.append("]")

    found = harness.interleaved({"a": lambda: seen.append("a"), "b": lambda: seen.append("b")}, 2, within)
    assert set(found) == {"a", "b"}
    turn = [item for name in "ab" for item in (f"[{name}", *[name] * harness.TURN, "]")]
    assert seen == ["[a", "a", "]", "[b", "b", "]", *turn, *turn]
