"""The rule page of the documentation."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def pages() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_rule_pages", ROOT / "tools/make_rule_pages.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_page_is_up_to_date(pages: ModuleType) -> None:
    assert pages.page("TPB") == pages.path_of("TPB").read_text(), "run python tools/make_rule_pages.py TPB"


def test_every_rule_stands_once(pages: ModuleType) -> None:
    text = pages.page("TPB")
    for rule in pages.rules_of("TPB"):
        assert text.count(f"| `{rule.code}` |") == 1


def test_unknown_family_is_refused(pages: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refusal:
        pages.main(["XYZ"])
    assert refusal.value.code == 2
    assert "write TPB, PTO, ONNX, OP" in capsys.readouterr().err


def test_check_finds_a_stale_page(pages: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "DOCS", tmp_path)
    assert pages.main(["TPB", "--check"]) == 1
    assert pages.main(["TPB"]) == 0
    assert pages.main(["TPB", "--check"]) == 0
