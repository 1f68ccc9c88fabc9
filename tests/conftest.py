"""Fixtures that all tests share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def reference_data() -> Path:
    """The folder of the reference data, which is not part of this repository."""
    default = Path(__file__).parents[2] / "shared"
    folder = Path(os.environ.get("LANEFOLD_REFERENCE_DATA", default))
    if not folder.is_dir():
        pytest.skip(f"reference data not found in {folder}; set LANEFOLD_REFERENCE_DATA")
    return folder
