"""The examples of the page on PTO tiles are run."""

from __future__ import annotations

import doctest
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "pto.md"


def test_examples() -> None:
    outcome = doctest.testfile(str(PAGE), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert outcome.attempted > 12
    assert outcome.failed == 0


def test_the_page_is_linked_and_its_links_exist() -> None:
    assert "(pto.md)" in (PAGE.parent / "README.md").read_text()
    for line in PAGE.read_text().splitlines():
        for part in line.split("](")[1:]:
            assert (PAGE.parent / part.split(")")[0]).exists()
