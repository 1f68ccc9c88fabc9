"""Imports point down the floors of the house, never up, and tpb and pto know nothing of each other."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "src" / "lanefold"
FLOORS = (
    {"__main__"},
    {"cli"},
    {"sweep", "sweeps"},
    {"frontends", "report"},
    {"targets"},
    {"tpb", "pto"},
    {"program"},
    {"host", "ops"},
    {"numerics"},
    {"arguments"},
    {"diagnostics"},
)
LEVEL = {room: level for level, rooms in enumerate(FLOORS) for room in rooms}
TPB_FLOORS = (
    {"target"},
    {"document", "timeline"},
    {"lower"},
    {"cost", "machine"},
    {"rules", "text"},
    {"bir"},
    {"binary"},
    {"limits"},
    {"instruction"},
    {"patterns"},
    {"isa"},
)


def room_of(path: Path) -> str:
    first = path.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


def imports(path: Path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("lanefold"):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("lanefold."))


MODULES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_point_down(path: Path) -> None:
    room = room_of(path)
    for name in imports(path):
        parts = name.split(".")
        if len(parts) < 2 or parts[1] not in LEVEL:
            continue
        other = parts[1]
        if other == room:
            continue
        assert LEVEL[other] > LEVEL[room] or (LEVEL[other] == LEVEL[room] and {room, other} <= {"host", "ops"}), (
            f"{room} imports {name}"
        )


def test_every_room_has_a_floor() -> None:
    rooms = {room_of(path) for path in MODULES}
    assert rooms <= set(LEVEL)


@pytest.mark.parametrize(
    "path", sorted((PACKAGE / "tpb").rglob("*.py")), ids=lambda p: str(p.relative_to(PACKAGE / "tpb"))
)
def test_tpb_imports_point_down(path: Path) -> None:
    level = {room: number for number, rooms in enumerate(TPB_FLOORS) for room in rooms}
    room = path.relative_to(PACKAGE / "tpb").parts[0].removesuffix(".py")
    if room == "__init__":
        return
    for name in imports(path):
        parts = name.split(".")
        if parts[1] != "tpb" or len(parts) < 3 or parts[2] not in level or parts[2] == room:
            continue
        # Lowered code checks, prices and runs itself, and the code generator of modules has a mode that runs the
        # checks, so the doors to those rooms open when they are asked.
        doors = {("lower", "machine"), ("lower", "rules"), ("lower", "cost"), ("lower", "timeline"), ("bir", "rules")}
        if (room, parts[2]) in doors:
            continue
        assert level[parts[2]] > level[room], f"tpb.{room} imports {name}"


HEAVY = ("numba", "onnx", "onnxruntime", "scipy", "rich", "lark", "jinja2", "dask", "distributed", "pyarrow")


def loaded_after(code: str) -> set[str]:
    script = f"{code}\nimport sys; print(' '.join(sorted({{m.split('.')[0] for m in sys.modules}})))"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)  # noqa: S603
    return set(run.stdout.split())


@pytest.mark.parametrize(
    "code",
    [
        "import lanefold",
        "import lanefold; lanefold.tpb; lanefold.pto; lanefold.ops",
        "import lanefold.cli",
        "import lanefold; lanefold.load",
    ],
)
def test_imports_are_light(code: str) -> None:
    assert not loaded_after(code) & set(HEAVY)


def test_importing_the_package_loads_nothing_of_its_own() -> None:
    assert "numpy" not in loaded_after("import lanefold")
