"""Fixtures of the front-end tests."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from fake_target import FakeTarget


@pytest.fixture
def target() -> FakeTarget:
    return FakeTarget()


@pytest.fixture(scope="session")
def light_models() -> dict[str, Path]:
    folder = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
    return {path.stem: path for path in sorted(folder.glob("*.onnx"))}
