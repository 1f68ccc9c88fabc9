"""Tile types, their rules, and the order of elements in memory against the published offset formulas."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from lanefold.diagnostics import RULES, LanefoldError
from lanefold.pto import Tile, TileType
from lanefold.pto.tiles import box_shape

ROWS = [
    (
        "PTO-TILE-BLOCKS",
        ("f32", 7, 8, "ND"),
        ("f32", 16, 7, "ND"),
        "an ND tile of f32 with 7 columns has lines of 28 bytes",
    ),
    (
        "PTO-TILE-BLOCKS",
        ("f32", 1, 8, "ND"),
        ("f32", 16, 1, "ND"),
        "an ND tile of f32 with 1 column has lines of 4 bytes",
    ),
    ("PTO-TILE-BLOCKS", ("f32", 8, 1, "DN"), ("f32", 7, 1, "DN"), "a DN tile of f32 with 7 rows has lines of 28 bytes"),
    ("PTO-TILE-CAPACITY", ("f32", 8, 8, "ND"), ("f32", 0, 8, "ND"), "a tile of 0 rows holds nothing"),
    (
        "PTO-TILE-BOXES",
        ("f16", 5, 16, "NZ"),
        ("f16", 16, 24, "NZ"),
        "cols = 24 is no whole number of boxes of 16×16 f16",
    ),
]


def made(row: tuple[str, int, int, str], **changes: object) -> TileType:
    dtype, rows, cols, layout = row
    fields = {"rows": rows, "cols": cols, "valid_rows": rows, "valid_cols": cols, "layout": layout} | changes
    return TileType(dtype, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(("code", "good", "bad", "message"), ROWS)
def test_rules(code: str, good: tuple[str, int, int, str], bad: tuple[str, int, int, str], message: str) -> None:
    made(good)
    with pytest.raises(LanefoldError) as caught:
        made(bad)
    finding = caught.value.diagnostics[0]
    assert finding.code == code
    assert finding.message.startswith(message)
    made(bad, **dict(finding.cures[0].changes))
    assert finding.rule == RULES[code].text


def test_valid_extents_and_fractals() -> None:
    with pytest.raises(LanefoldError) as caught:
        TileType("f32", 8, 8, 9, 8)
    assert caught.value.diagnostics[0].message == "valid rows 9 lie outside the capacity of 8 rows"
    assert dict(caught.value.diagnostics[0].cures[0].changes) == {"valid_rows": 8}
    with pytest.raises(LanefoldError, match="PTO-TILE-FRACTAL"):
        TileType("f32", 8, 8, 8, 8, fractal=100)
    with pytest.raises(LanefoldError, match="PTO-TILE-BOXES"):
        TileType("f16", 5, 16, 5, 16, "NZ", "mat")


@pytest.mark.parametrize(
    ("field", "value", "code"),
    [
        ("layout", "NN", "PTO-LAYOUT-NAME"),
        ("location", "ub", "PTO-LOCATION-NAME"),
        ("pad", "one", "PTO-PAD-NAME"),
        ("compact", "full", "PTO-COMPACT-NAME"),
        ("dtype", "double", "PTO-TYPE-NAME"),
    ],
)
def test_unknown_names(field: str, value: str, code: str) -> None:
    fields = {"dtype": "f32", "rows": 8, "cols": 8, "valid_rows": 8, "valid_cols": 8} | {field: value}
    with pytest.raises(LanefoldError) as caught:
        TileType(**fields)  # type: ignore[arg-type]
    assert caught.value.diagnostics[0].code == code
    assert caught.value.usage


def offset(layout: str, r: int, c: int, rows: int, cols: int, br: int, bc: int) -> int:
    if layout == "ND":
        return r * cols + c
    if layout == "DN":
        return c * rows + r
    if layout == "NZ":
        return (c // bc) * rows * bc + (r // br) * br * bc + (r % br) * bc + c % bc
    inner = (c % bc) * br + r % br if layout == "ZN" else (r % br) * bc + c % bc
    return (r // br) * cols * br + (c // bc) * br * bc + inner


@pytest.mark.parametrize("layout", ["ND", "DN", "NZ", "ZN", "ZZ"])
@pytest.mark.parametrize("dtype", ["f32", "f16", "i8"])
def test_memory_is_in_the_order_of_the_layout(layout: str, dtype: str) -> None:
    rows, cols = 64, 96
    kind = TileType(dtype, rows, cols, rows, cols, layout)
    box = box_shape(kind.element, kind.order, kind.fractal) if kind.order.boxed else (1, 1)
    wanted = [[offset(layout, r, c, rows, cols, *box) for c in range(cols)] for r in range(rows)]
    assert np.array_equal(kind.offsets(), wanted)
    assert len(np.unique(kind.offsets())) == rows * cols
    tile = Tile(dtype, rows, cols, layout=layout)
    tile.array[...] = np.arange(rows * cols).reshape(rows, cols) % 101
    image = tile.memory()
    assert all(image[wanted[r][c]] == tile.array[r, c] for r, c in ((0, 0), (1, 2), (17, 33), (63, 95)))


def test_arrays_are_copied_and_typed() -> None:
    values = np.arange(128, dtype=np.float32).reshape(16, 8)
    tile = Tile(values, 16, 8, 5, 3, "DN")
    values[...] = 0
    assert tile.array[1, 1] == 9
    assert tile.valid.shape == (5, 3)
    assert tile.flat.flags.c_contiguous
    assert Tile(values.astype(ml_dtypes.bfloat16).reshape(8, 16)).dtype == "bf16"
    assert Tile("float16", 8, 16).dtype == "f16"


@pytest.mark.parametrize("arguments", [("f32",), (np.zeros((4, 8), np.float32), 8, 8), (np.zeros(8, np.float32),)])
def test_arrays_that_do_not_fit(arguments: tuple[object, ...]) -> None:
    with pytest.raises(LanefoldError, match="PTO-TILE-DATA"):
        Tile(*arguments)  # type: ignore[arg-type]


def test_dynamic_extents_change_and_static_ones_do_not() -> None:
    tile = Tile("f32", 16, 8, dynamic=True)
    tile.resize(3, 4)
    assert tile.valid.shape == (3, 4)
    with pytest.raises(LanefoldError, match="PTO-TILE-CAPACITY"):
        tile.resize(17, 4)
    with pytest.raises(LanefoldError, match="PTO-TILE-STATIC"):
        Tile("f32", 16, 8).resize(3, 4)


def test_importing_is_cheap() -> None:
    heavy = "numba onnx onnxruntime rich lark scipy ml_dtypes"
    code = f"import sys, lanefold.pto as p; p.Tile; p.check; print([m for m in {heavy.split()} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603
    assert done.stdout.strip() == "[]"


def test_every_rule_is_met_in_a_test() -> None:
    import lanefold.pto.cpp
    import lanefold.pto.program.run
    import lanefold.pto.simulate
    import lanefold.pto.text.build
    import lanefold.pto.text.write  # noqa: F401

    told = "".join(path.read_text(encoding="utf-8") for path in Path(__file__).parents[1].rglob("test_*.py"))
    assert sorted(code for code in RULES if code.startswith("PTO-") and code not in told) == []


def test_the_public_names_are_there() -> None:
    import lanefold as lf

    assert {"Program", "Tile", "TileType", "check", "cost", "execute", "parse"} <= set(dir(lf.pto))
    found = lf.pto.cost(op="TROWSUM", dtype="fp32", rows=64, cols=64, valid_rows=64, valid_cols=64, target="a2a3")
    assert found.model == "calibrated"
    assert found.cycles is not None
    with pytest.raises(AttributeError):
        _ = lf.pto.costs
