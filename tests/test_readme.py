"""The examples of the README are run, and its figures are the ones this code gives."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

README = Path(__file__).parent.parent / "README.md"
DOCS = README.parent / "docs"


def test_examples() -> None:
    outcome = doctest.testfile(
        str(README),
        module_relative=False,
        optionflags=doctest.NORMALIZE_WHITESPACE,
        verbose=False,
    )
    assert outcome.attempted > 8
    assert outcome.failed == 0


@pytest.mark.parametrize("page", sorted(page.name for page in DOCS.glob("*.md") if ">>> " in page.read_text()))
def test_examples_of_the_pages(page: str) -> None:
    outcome = doctest.testfile(str(DOCS / page), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert outcome.failed == 0


@pytest.mark.parametrize("page", [README, *sorted(DOCS.glob("*.md"))], ids=lambda page: page.name)
def test_named_files_exist(page: Path) -> None:
    for line in page.read_text().splitlines():
        for part in line.split("](")[1:]:
            name, _, heading = part.split(")")[0].partition("#")
            if "://" not in name:
                target = page.parent / name if name else page
                assert target.exists(), name
                assert not heading or heading in _anchors(target), f"{name}#{heading}"


def _anchors(page: Path) -> set[str]:
    titles = [line.lstrip("#").strip() for line in page.read_text().splitlines() if line.startswith("#")]
    return {title.lower().replace(" ", "-") for title in titles}


def test_first_screen_says_what_it_is_not() -> None:
    text = README.read_text()
    assert "## What it is not" in text
    assert "no vendor code" in text
    assert "Nothing has been verified on hardware" in text


def test_makefile_has_the_two_commands() -> None:
    text = (README.parent / "Makefile").read_text()
    assert "\nrun:" in text
    assert "\ntest:" in text
