"""The calibrated model against published lines and enforced figures, its fit, and how it speaks of its limits."""

from __future__ import annotations

import importlib.util
import json
import math
import pickle
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from lanefold.pto.cost import LEVELS, cost, cost_columns
from lanefold.pto.cost.parameters import ACCURACY, PARAMETERS
from lanefold.pto.cost.recipes import RECIPES, dtypes
from tests.pto.accuracy import MEDIAN_LIMIT, WORST_LIMIT, Point, errors_by_op, grown, read_points


@pytest.fixture(scope="module")
def measured(reference_data: Path) -> list[Point]:
    return read_points(reference_data)


def test_errors_against_lines_and_enforced_figures(measured: list[Point], capsys: pytest.CaptureFixture[str]) -> None:
    for op, dtype, rows, cols, cycles in measured:
        found = cost(op, dtype, rows, cols)
        assert found.cycles is not None
        assert found.validity == "calibrated", (op, dtype, rows, cols)
        assert found.error is not None
        assert abs(found.cycles / cycles - 1) <= found.error + 1e-4
    errors = errors_by_op(measured)
    every = [error for part in errors.values() for error in part]
    with capsys.disabled():
        print(
            "\ncalibrated PTO cost model, relative error by operation (points, median, worst, columns left out: worst)"
        )
        for op, part in errors.items():
            outside = ACCURACY[op].left_out_worst
            shown = "     -" if math.isnan(outside) else f"{outside:6.2%}"
            print(f"  {op:<12}{len(part):>4}{np.median(part):>8.2%}{max(part):>8.2%}  {shown}")
        print(f"  {'all':<12}{len(every):>4}{np.median(every):>8.2%}{max(every):>8.2%}")
    assert grown(errors) == []


@pytest.fixture(scope="module")
def fitting() -> ModuleType:
    pytest.importorskip("scipy", reason="the fit needs scipy")
    path = Path(__file__).parents[2] / "tools/fit_pto_cost.py"
    spec = importlib.util.spec_from_file_location("fit_pto_cost", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["fit_pto_cost"] = module
    spec.loader.exec_module(module)
    return module


def test_parameters_are_those_of_the_fit_and_hold_where_columns_are_left_out(fitting: ModuleType) -> None:
    values, _, left_out = fitting.fit(fitting.points())
    stored = {row.name: row.cycles for row in PARAMETERS}
    for name, value in values.items():
        assert stored[name] == pytest.approx(value, rel=1e-4, abs=1e-4), name
    assert np.median(list(left_out.values())) <= MEDIAN_LIMIT
    assert max(left_out.values()) <= WORST_LIMIT


def test_data_of_the_fit_are_the_published_ones(reference_data: Path, fitting: ModuleType) -> None:
    data = json.loads((reference_data / "golden/pto/profiled.json").read_text())
    short = {"fp32": "f32", "fp16": "f16", "int32": "i32", "int16": "i16"}
    lines = {(r["op"], short[r["dtype"]], r["cols"], r["slope_per_element"], r["intercept"]) for r in data["lines"]}
    figures = {
        (r["op"], short[r["dtype"]], r["rows"], r["cols"], r["ref_cycles"])
        for r in data["cases"]
        if r["kind"] == "profiled"
    }
    assert {tuple(line) for line in fitting.LINES} == lines
    assert {tuple(figure) for figure in fitting.FIGURES} == figures


@pytest.mark.parametrize(("dtype", "repeat"), [("f32", 64), ("f16", 128)])
def test_row_expansion_follows_scalar_read_and_repeats(dtype: str, repeat: int) -> None:
    """13 cycles and one per repeat for each row, plus 37."""
    for rows, cols in ((16, 32), (64, 96), (100, 160), (128, 64)):
        by_hand = rows * (13 + -(-cols // repeat)) + 37
        assert cost("TROWEXPAND", dtype, rows, cols).cycles == pytest.approx(by_hand, rel=0.01)


def test_count_mode_is_charged_by_rows() -> None:
    """The public models charge 64 and 128 rows of one repeat alike; the device takes 7 cycles for each row."""
    few, many = cost("TROWSUM", "f32", 64, 64).cycles, cost("TROWSUM", "f32", 128, 64).cycles
    assert few is not None
    assert many is not None
    assert many - few == pytest.approx(7 * 64, rel=0.01)
    assert (
        cost("TROWSUM", "f32", 64, 64, model="stream").cycles == cost("TROWSUM", "f32", 128, 64, model="stream").cycles
    )


def test_min_costs_what_max_costs() -> None:
    for op, other in (("TROWMIN", "TROWMAX"), ("TCOLMIN", "TCOLMAX")):
        assert cost(op, "f32", 48, 136).cycles == cost(other, "f32", 48, 136).cycles
        assert cost(op, "f32", 48, 136).validity == "extrapolated"


SHAPES = ((1, 8), (1, 3072), (7, 33), (64, 64), (64, 128), (255, 40), (300, 520), (600, 72), (8, 4160), (2, 16384))


@pytest.mark.parametrize("op", RECIPES)
def test_every_operation_type_and_shape_has_a_cost(op: str) -> None:
    for dtype in dtypes(RECIPES[op], "a2a3"):
        for form in RECIPES[op].forms:
            for rows, cols in SHAPES:
                for valid_cols in {cols, max(1, cols - 3)}:
                    found = cost(op, dtype, rows, cols, rows, valid_cols, form=form)
                    assert found.cycles is not None
                    assert found.cycles > 0
                    assert found.error is not None
                    assert found.validity in LEVELS
                    assert sum(found.terms.values()) == pytest.approx(found.cycles)
                    assert found.sequence is not None
                    assert str(found.sequence)
                    many = cost_columns(op, dtype, [rows], [cols], [rows], [valid_cols], form=form)
                    assert many.cycles[0] == found.cycles
                    assert LEVELS[many.validity[0]] == found.validity


def test_validity_by_distance() -> None:
    assert cost("TROWSUM", "f32", 64, 64).validity == "calibrated"
    assert cost("TROWSUM", "f32", 64, 128, 64, 100).validity == "interpolated"
    assert cost("TROWSUM", "f32", 64, 1024).validity == "extrapolated"
    assert cost("TROWSUM", "f32", 64, 128, dst_layout="DN").validity == "extrapolated"
    assert cost("TCOLSUM", "f32", 64, 96, form="binary").validity == "extrapolated"
    assert cost("TROWPROD", "f32", 64, 64).validity == "extrapolated"
    errors = [cost("TROWSUM", "f32", 64, cols).error for cols in (64, 72, 2048)]
    assert errors == sorted(errors)  # type: ignore[type-var]


def test_a5_is_unknown_and_never_a_number_of_a3() -> None:
    found = cost("TROWSUM", "f32", 64, 64, target="a5")
    assert found.cycles is None
    assert found.us is None
    assert found.error is None
    assert found.validity == "unknown"
    assert found.note
    assert found.bounds == (0.0, math.inf)
    many = cost_columns("TROWSUM", "f32", [64, 128], 64, target="a5")
    assert np.isnan(many.cycles).all()
    assert {LEVELS[code] for code in many.validity} == {"unknown"}


def test_barriers_are_a_term_of_their_own() -> None:
    """TCOLSUM in pairs waits once per level, in turn once per row."""
    pairs, in_turn = (cost("TCOLSUM", "f32", 64, 64, form=form) for form in ("binary", "sequential"))
    assert pairs.terms["barriers"] * 8 < in_turn.terms["barriers"]
    stream = [cost("TCOLSUM", "f32", 64, 64, form=form, model="stream") for form in ("binary", "sequential")]
    assert [found.sequence.count("pipe_barrier") for found in stream if found.sequence] == [12, 64]
    assert [found.terms["barriers"] for found in stream] == [12, 64]


def test_costs_depend_on_the_operation() -> None:
    """No two kinds of work take the same one cycle."""
    found = {
        op: cost(op, "f32", 64, 96).cycles for op in ("TROWSUM", "TROWPROD", "TCOLSUM", "TROWEXPAND", "TCOLEXPAND")
    }
    assert len(set(found.values())) == len(found)


def test_results_say_model_clock_and_bounds() -> None:
    found = cost("TROWSUM", "f32", 64, 64)
    assert found.model == "calibrated"
    assert "lanefold" in found.version
    assert found.cycles is not None
    assert found.us == pytest.approx(found.cycles / 1850)
    assert cost("TROWSUM", "f32", 64, 64, frequency_mhz=925).us == pytest.approx(2 * found.us)
    low, high = found.bounds
    assert low < found.cycles < high
    plain: dict[str, Any] = json.loads(json.dumps(found.to_dict()))
    assert plain["validity"] == "calibrated"
    assert plain["bounds"] == [low, high]
    assert "calibrated" in str(found)


@pytest.mark.parametrize("model", ["calibrated", "stream"])
def test_a_million_configurations_per_second(model: str) -> None:
    draw = np.random.default_rng(3)
    count = 400_000
    rows, cols = draw.integers(1, 512, count), 8 * draw.integers(1, 128, count)
    best = math.inf
    for _ in range(3):
        start = time.perf_counter()
        for op in ("TROWSUM", "TROWEXPANDEXPDIF"):
            cost_columns(op, "f32", rows, cols, model=model)
        best = min(best, time.perf_counter() - start)
    assert 2 * count / best > 1e6


def test_results_can_be_sent_to_another_process() -> None:
    for found in (cost("TROWSUM", "f32", 64, 64), cost_columns("TROWSUM", "f32", [64], 64)):
        again = pickle.loads(pickle.dumps(found))  # noqa: S301
        assert str(again) == str(found)


def test_twice_the_rows_never_cost_less() -> None:
    """Whatever path the kernel takes; single rows may differ where the path changes."""
    rows = np.arange(4, 128)
    for op in RECIPES:
        for dtype in dtypes(RECIPES[op], "a2a3"):
            for cols in (8, 64, 192, 1024):
                once, twice = (
                    cost_columns(op, dtype, 512, cols, n, cols, static_shape=False) for n in (rows, 2 * rows)
                )
                assert (once.cycles <= twice.cycles).all(), (op, dtype, cols)
