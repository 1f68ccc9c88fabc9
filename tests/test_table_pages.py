"""The table pages of the documentation say what the tables say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("tool", ["make_table_pages.py", "make_cost_page.py", "make_operator_page.py"])
def test_pages_are_current(tool: str) -> None:
    command = [sys.executable, f"tools/{tool}", "--check"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603
    assert run.returncode == 0, run.stderr


def test_every_operator_of_the_leg_is_on_its_page() -> None:
    from lanefold.frontends.onnx.decompose import HANDLERS

    text = (ROOT / "docs" / "operators.md").read_text()
    assert [name for name in HANDLERS if text.count(f"\n| {name} ") < 2] == []
