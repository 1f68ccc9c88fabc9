"""The table pages of the documentation say what the tables say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_pages_are_current() -> None:
    command = [sys.executable, "tools/make_table_pages.py", "--check"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603
    assert run.returncode == 0, run.stderr
