"""The public cost models against counts of the real ones, worked examples and a slow scalar model."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lanefold.diagnostics import LanefoldError
from lanefold.pto.cost import cost, cost_columns
from lanefold.pto.cost.validity import PUBLIC_ERRORS

RESULT_FIELDS = {"cycles", "trace", "id", "us", "model_error"}


@pytest.fixture(scope="module")
def records(reference_data: Path) -> list[dict[str, Any]]:
    return json.loads((reference_data / "golden/pto/cycles.json").read_text())["records"]


@pytest.fixture(scope="module")
def profiled(reference_data: Path) -> dict[str, Any]:
    return json.loads((reference_data / "golden/pto/profiled.json").read_text())


def question(record: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in record.items() if name not in RESULT_FIELDS}


def unrolled(nodes: list[Any]) -> Iterator[list[Any]]:
    for node in nodes:
        if isinstance(node, dict):
            body = list(unrolled(node["body"]))
            for _ in range(node["times"]):
                yield from body
        else:
            yield node


@pytest.mark.parametrize("model", ["seed", "stream", "fit"])
def test_every_record_of_the_real_model(records: list[dict[str, Any]], model: str) -> None:
    chosen = [record for record in records if record["model"] == model]
    assert chosen
    for record in chosen:
        found = cost(**question(record))
        assert found.cycles == record["cycles"], record["id"]
        assert found.model == {"seed": "reference"}.get(model, model)
        if "us" in record:
            assert found.us == pytest.approx(record["us"], abs=1e-9)
        if "model_error" in record:
            assert found.validity == "unknown"
            assert "vbrcb" in found.note


def test_every_trace_of_the_stream_model(records: list[dict[str, Any]]) -> None:
    for record in records:
        if record["model"] == "stream":
            found = cost(**question(record))
            assert found.sequence is not None
            assert list(unrolled(found.sequence.to_list())) == list(unrolled(record["trace"])), record["id"]
            assert sum(found.terms.values()) == record["cycles"]


def test_every_trace_of_the_reference_model(records: list[dict[str, Any]]) -> None:
    for record in records:
        if record["model"] == "seed":
            found = cost(**question(record))
            assert found.sequence is not None
            own = [[step.name, *step.operands] for step in found.sequence]
            assert own == list(unrolled(record["trace"])), record["id"]
            assert sum(found.terms.values()) == record["cycles"]


def test_stream_model_of_the_building_blocks(profiled: dict[str, Any]) -> None:
    padded = {("TLOAD", 127), ("TLOAD", 60), ("TMOV", 125)}
    compared = 0
    for case in profiled["cases"]:
        if case.get("role") == "building block" and (case["op"], case["cols"]) not in padded:
            found = cost(case["op"], case["dtype"], case["rows"], case["cols"], model="stream")
            assert found.cycles == case["stream_cycles"], case["case"]
            compared += 1
    assert compared > 30


@pytest.mark.parametrize(
    ("rows", "cols", "cycles"),
    [(64, 128, 2896), (32, 256, 2897), (16, 512, 2936), (8, 1024, 13 + 4 * 19 + 2 * 160 + 18 * (127 + 15 + 7 + 7))],
)
def test_page_formula_read_literally(rows: int, cols: int, cycles: int) -> None:
    found = cost("TROWSUM", "fp32", rows, cols, model="page")
    assert found.cycles == cycles
    assert sum(found.terms.values()) == cycles


SLOW_PIPES = {
    "vadd": (24, 2, True),
    "vsub": (24, 2, True),
    "vmul": (25, 2, True),
    "vdiv": (30, 4, True),
    "vmax": (24, 2, True),
    "vmin": (24, 2, True),
    "vcadd": (46, 7, False),
    "vcmax": (6, 2, False),
    "vcmin": (6, 2, False),
    "vcgadd": (38, 1, False),
    "vcgmax": (31, 1, False),
    "vcgmin": (31, 1, False),
    "vreducev2": (34, 14, False),
    "vector_dup": (24, 1, False),
    "vbrcb": (18, 0, False),
    "vexp": (31, 2, False),
}


def slow_stream(steps: list[list[Any]]) -> int:
    """One step after the other, loops unrolled, from the description of the real model alone."""
    total, cold, partial, seen_flags = 0, True, False, 0
    for name, *operands in steps:
        if name == "copy_ubuf_to_ubuf":
            total += math.floor(operands[0] * operands[1] * 32 / 2**30 / 1024 * 1.85e9)
        elif name in SLOW_PIPES or name.startswith("vconv"):
            fill, slope, floor = SLOW_PIPES.get(name, (27, 1, False))
            total += slope * (operands[0] % 256) + (fill if cold else 0) + (16 if partial and floor else 0)
            cold = False
        else:
            total += 1
            if name == "pipe_barrier":
                cold = True
            elif name == "set_flag":
                seen_flags += 1
            elif name == "wait_flag" and seen_flags % 2:
                cold = True
            elif name.startswith("set_mask"):
                partial = name == "set_mask_count"
            elif name == "set_vector_mask":
                partial = operands != ["0xffffffffffffffff"] * 2
    return total


OPS = [
    *("TROWSUM", "TROWMAX", "TROWMIN", "TROWPROD", "TROWARGMAX", "TCOLSUM", "TCOLMAX", "TCOLPROD", "TROWEXPAND"),
    *("TROWEXPANDADD", "TROWEXPANDDIV", "TROWEXPANDEXPDIF", "TCOLEXPAND", "TCOLEXPANDMUL", "TCOLEXPANDEXPDIF"),
]


def random_questions(count: int, ops: list[str]) -> Iterator[dict[str, Any]]:
    draw = np.random.default_rng(20)
    for _ in range(count):
        op = str(draw.choice(ops))
        rows = int(draw.choice([1, 2, 7, 16, 64, 240, 255, 256, 300, 510, 512, 700]))
        cols = int(draw.choice([8, 16, 32, 64, 72, 96, 128, 192, 256, 320, 512, 1024, 2048, 4160]))
        yield {
            "op": op,
            "dtype": str(draw.choice(["f32", "f16"] if op[-3:] in ("DIV", "DIF") else ["f32", "f16", "i32", "i16"])),
            "rows": rows,
            "cols": cols,
            "valid_rows": rows if draw.random() < 0.5 else int(draw.integers(1, rows + 1)),
            "valid_cols": cols if draw.random() < 0.5 else int(draw.integers(1, cols + 1)),
            "dst_layout": str(draw.choice(["ND", "DN"])),
            "src_layout": str(draw.choice(["ND", "DN"])),
            "src1_layout": str(draw.choice(["DN", "ND32B"])) if op.startswith("TROWEXPAND") and op[10:] else None,
            "static_shape": bool(draw.random() < 0.5),
            "form": {
                "TCOLSUM": str(draw.choice(["sequential", "binary", "no_tmp"])),
                "TROWARGMAX": str(draw.choice(["index", "value_index"])),
            }.get(op, ""),
        }


def test_stream_model_is_a_walk_over_its_sequence() -> None:
    for asked in random_questions(250, OPS):
        found = cost(**asked, model="stream")
        assert found.sequence is not None
        steps = [[node[0], *node[1:-1]] for node in unrolled(found.sequence.to_list())]
        assert found.cycles == slow_stream(steps), asked


@pytest.mark.parametrize("model", ["stream", "reference", "page"])
def test_closed_forms_equal_the_sequences(model: str) -> None:
    known = {"stream": OPS, "reference": ["TROWSUM", "TROWMAX", "TCOLSUM", "TCOLMAX", "TROWEXPAND"]}
    compared = 0
    for asked in random_questions(800, known.get(model, known["reference"])):
        try:
            single = cost(**asked, model=model)
        except LanefoldError:
            assert model != "stream"
            continue
        many = cost_columns(**asked, model=model)
        assert many.cycles[0] == single.cycles, asked
        assert many.error[0] == single.error or single.error is None
        compared += 1
    assert compared > 400


def test_fit_rounds_half_up_and_ignores_the_tile() -> None:
    assert cost("TROWSUM", "fp32", 64, 64, model="fit").cycles == 492
    assert cost("TROWSUM", "fp32", 128, 128, 64, 64, dst_layout="DN", model="fit").cycles == 492
    assert cost("TEXP", "fp16", 64, 64, model="fit").cycles == math.floor(0.0314 * 4096 + 30.1 + 0.5)
    many = cost_columns("TROWSUM", "fp32", [64, 64], [64, 72], model="fit")
    assert many.cycles[0] == 492
    assert np.isnan(many.cycles[1])


def test_stated_errors_of_the_public_models(profiled: dict[str, Any]) -> None:
    """The stated medians and worst errors are recomputed from the published lines."""
    for (model, op, form), (median, worst) in PUBLIC_ERRORS.items():
        errors = []
        for line in profiled["lines"]:
            if line["op"] == op:
                for rows in (16, 32, 64, 128):
                    measured = line["slope_per_element"] * rows * line["cols"] + line["intercept"]
                    found = cost(op, line["dtype"], rows, line["cols"], form=form, static_shape=False, model=model)
                    assert found.cycles is not None
                    errors.append(abs(found.cycles / measured - 1))
        assert np.median(errors) == pytest.approx(median, abs=0.011), (model, op, form)
        assert max(errors) == pytest.approx(worst, abs=0.011), (model, op, form)


def test_reference_model_by_type() -> None:
    """Unknown types count as 16-bit floats; types without parameters give 0, and the answer says so."""
    expected = cost("TROWEXPAND", "f16", 32, 64, model="reference").cycles
    assert cost("TROWEXPAND", "u32", 32, 64, model="reference").cycles == expected
    for dtype in ("bf16", "i8"):
        found = cost("TROWEXPAND", dtype, 32, 64, model="reference")
        assert found.cycles == 0
        assert found.validity == "unknown"
        assert "vector_dup" in found.note
