"""Every reference case of the CPU simulator, bit for bit; NaN equals NaN, signs of zeros count."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from lanefold.pto import Tile, check, execute
from lanefold.pto.isa import OPERATIONS
from lanefold.pto.simulate.readings import READINGS

Array = np.ndarray[Any, Any]


@pytest.fixture(scope="session")
def golden(reference_data: Path) -> tuple[dict[str, Any], dict[str, list[dict[str, Any]]], dict[str, Array]]:
    text = json.loads((reference_data / "golden" / "pto" / "cases.json").read_text())
    with np.load(reference_data / "golden" / "pto" / "cases.npz") as arrays:
        data = dict(arrays)
    by_op = defaultdict(list)
    for case in text["cases"]:
        by_op[case["op"]].append(case)
    return text["tiles"], by_op, data


def typed(values: Array, name: str) -> Array:
    return values.view(ml_dtypes.bfloat16) if name == "bf16" else values


def bits(values: Array) -> Array:
    return np.ascontiguousarray(values).view(f"u{values.dtype.itemsize}")


def same_bits(found: Array, wanted: Array) -> bool:
    both_nan = (found != found) & (wanted != wanted)
    return bool(np.all((bits(found) == bits(wanted)) | both_nan))


def tiles_of(case: dict[str, Any], tiles: dict[str, Any], data: dict[str, Array]) -> tuple[list[Tile], list[Tile]]:
    sources = []
    for key in case["inputs"]:
        name, rows, cols, valid_rows, valid_cols, layout = tiles[key]
        sources.append(Tile(typed(data[key], name), rows, cols, valid_rows, valid_cols, layout))
    results = []
    for _, name, rows, cols, layout, valid_rows, valid_cols in case["out"]:
        tile = Tile(name, rows, cols, valid_rows, valid_cols, layout)
        tile.array[...] = 77
        results.append(tile)
    return results, sources


def scratch_for(case: dict[str, Any], sources: list[Tile]) -> list[object]:
    tail: list[object] = []
    if "tmp" in case["call"]:
        first = sources[0].type
        tail.append(Tile(first.dtype, first.rows, first.cols, layout=first.layout))
    return [*tail, True] if "true" in case["call"] else tail


@pytest.mark.parametrize("op", OPERATIONS)
@pytest.mark.parametrize("scratch", [True, False], ids=["scratch", "bare"])
def test_cases_agree_bit_for_bit(golden: Any, op: str, scratch: bool) -> None:
    tiles, by_op, data = golden
    assert by_op[op]
    for case in by_op[op]:
        results, sources = tiles_of(case, tiles, data)
        tail = scratch_for(case, sources)
        if not scratch:
            tail = [part for part in tail if isinstance(part, bool)]
        assert check(op, *results, *sources, *tail, target="cpu") == [], case
        done = execute(op, *results, *sources, *tail, target="cpu")
        assert done.exact
        assert done.outputs == tuple(results)
        for key, tile in zip(case["outputs"], results, strict=True):
            assert same_bits(tile.valid, typed(data[key], tile.dtype)), case
            rest = tile.array.astype(np.float64)
            rest[: tile.valid_rows, : tile.valid_cols] = 77
            assert np.all(rest == 77), case


def test_all_cases_are_walked(golden: Any) -> None:
    _, by_op, _ = golden
    assert set(by_op) == set(OPERATIONS)
    assert sum(len(cases) for cases in by_op.values()) == 1690


@pytest.mark.parametrize("order", [name for name in READINGS if name != "cpu"])
def test_the_cases_that_an_order_changes_are_published(golden: Any, order: str) -> None:
    tiles, by_op, data = golden
    changed: dict[tuple[str, str], tuple[int, int]] = {}
    for op, cases in by_op.items():
        for case in cases:
            results, sources = tiles_of(case, tiles, data)
            execute(op, *results, *sources, *scratch_for(case, sources), target="cpu", numerics=order)
            alike = all(
                same_bits(tile.valid, typed(data[key], tile.dtype))
                for key, tile in zip(case["outputs"], results, strict=True)
            )
            few, all_of = changed.get((op, sources[0].dtype), (0, 0))
            changed[op, sources[0].dtype] = (few + (not alike), all_of + 1)
    assert {key: found for key, found in changed.items() if found[0]} == READINGS[order].changed
