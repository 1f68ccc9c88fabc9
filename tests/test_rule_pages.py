"""The rule pages of the documentation."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[1]
NAMES = ("rules-tpb", "rules-pto", "rules-front-end", "rules-program", "rules-sweeps")


@pytest.fixture(scope="module")
def pages() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_rule_pages", ROOT / "tools/make_rule_pages.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", NAMES)
def test_page_is_up_to_date(pages: ModuleType, name: str) -> None:
    assert pages.page(name) == pages.path_of(name).read_text(), "run make docs"


def test_every_page_is_tested(pages: ModuleType) -> None:
    assert tuple(pages.PAGES) == NAMES


def test_every_rule_stands_once(pages: ModuleType) -> None:
    assert not pages.unlisted()
    text = "".join(pages.page(name) for name in NAMES)
    written = re.findall(r"^\| `([A-Z0-9-]+)` \|", text, re.MULTILINE)
    assert sorted(written) == sorted(pages.RULES)


def test_a_row_has_a_cell_for_each_column(pages: ModuleType) -> None:
    for name in NAMES:
        columns = 0
        for line in pages.page(name).splitlines():
            if line.startswith("| code |"):
                columns = line.count("|")
            elif line.startswith("| `"):
                assert len(re.findall(r"(?<!\\)\|", line)) == columns, line


def test_index_links_every_page() -> None:
    linked = set(re.findall(r"\]\(([\w-]+\.md)\)", (ROOT / "docs/README.md").read_text()))
    assert linked == {path.name for path in (ROOT / "docs").glob("*.md")} - {"README.md"}


def test_unknown_page_is_refused(pages: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refusal:
        pages.main(["rules-xyz"])
    assert refusal.value.code == 2
    assert "write rules-tpb, rules-pto" in capsys.readouterr().err


def test_a_family_without_a_page_is_found(
    pages: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(pages.PAGES, "rules-sweeps")
    assert pages.main(["--check"]) == 1
    assert "SWEEP" in capsys.readouterr().err


def test_check_finds_a_stale_page(pages: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "DOCS", tmp_path)
    assert pages.main(["rules-tpb", "--check"]) == 1
    assert pages.main(["rules-tpb"]) == 0
    assert pages.main(["rules-tpb", "--check"]) == 0
