"""The examples of the README are run, and its figures are the ones this code gives."""

from __future__ import annotations

import doctest
from pathlib import Path

import onnx

README = Path(__file__).parent.parent / "README.md"
RESNET50 = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light" / "light_resnet50.onnx"


def test_examples() -> None:
    outcome = doctest.testfile(
        str(README),
        module_relative=False,
        globs={"resnet50": RESNET50},
        optionflags=doctest.NORMALIZE_WHITESPACE,
        verbose=False,
    )
    assert outcome.attempted > 8
    assert outcome.failed == 0


def test_named_files_exist() -> None:
    for line in README.read_text().splitlines():
        for part in line.split("](")[1:]:
            name = part.split(")")[0]
            if "://" not in name:
                assert (README.parent / name).exists(), name


def test_first_screen_says_what_it_is_not() -> None:
    text = README.read_text()
    assert "## What it is not" in text
    assert "no vendor code" in text
    assert "Nothing has been verified on hardware" in text


def test_makefile_has_the_two_commands() -> None:
    text = (README.parent / "Makefile").read_text()
    assert "\nrun:" in text
    assert "\ntest:" in text
