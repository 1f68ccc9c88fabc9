"""What the cost models refuse, and that the first cure of each refusal is itself accepted."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lanefold as lf
from lanefold.diagnostics import LanefoldError
from lanefold.pto.cost import cost, cost_columns
from tests.hostile import HOSTILE

GOOD: dict[str, Any] = {"op": "TROWSUM", "dtype": "f32", "rows": 64, "cols": 64}

OPTIONS = ["valid_rows", "valid_cols", "layout", "dst_layout", "src_layout", "src1_layout", "static_shape", "form"]
OPTIONS += ["idx_bytes", "path", "target", "model", "frequency_mhz"]

REFUSED: list[tuple[str, dict[str, Any]]] = [
    ("PTO-COST-OP", {"op": "TROWSUMM"}),
    ("PTO-COST-OP", {"op": 3}),
    ("PTO-COST-MODEL", {"model": "best"}),
    ("PTO-COST-MODEL", {"model": None}),
    ("PTO-COST-TARGET", {"target": "cpu"}),
    ("PTO-COST-TARGET", {"target": "a5", "model": "stream"}),
    ("PTO-TARGET-NAME", {"target": "a9"}),
    ("PTO-TYPE-NAME", {"dtype": "f33"}),
    ("PTO-COST-DTYPE", {"dtype": "bf16"}),
    ("PTO-COST-DTYPE", {"op": "TROWEXPANDDIV", "dtype": "i32"}),
    ("PTO-COST-EXTENT", {"rows": 0}),
    ("PTO-COST-EXTENT", {"rows": -5}),
    ("PTO-COST-EXTENT", {"cols": 70000}),
    ("PTO-COST-EXTENT", {"cols": 64.0}),
    ("PTO-COST-EXTENT", {"rows": "many"}),
    ("PTO-COST-EXTENT", {"rows": True}),
    ("PTO-COST-EXTENT", {"rows": [64, 32]}),
    ("PTO-COST-EXTENT", {"rows": None}),
    ("PTO-COST-EXTENT", {"valid_rows": 65}),
    ("PTO-COST-EXTENT", {"valid_cols": 65}),
    ("PTO-COST-EXTENT", {"valid_cols": 0}),
    ("PTO-COST-FLAG", {"static_shape": "yes"}),
    ("PTO-COST-FLAG", {"static_shape": None}),
    ("PTO-COST-FLAG", {"tmp": "yes"}),
    ("PTO-COST-FLAG", {"wired": 1}),
    ("PTO-COST-EXTENT", {"rows": 10**30}),
    ("PTO-COST-EXTENT", {"cols": np.zeros((2, 2), int)}),
    ("PTO-COST-FORM", {"form": None}),
    ("PTO-COST-FORM", {"form": np.array([1, 2])}),
    ("PTO-COST-LAYOUT", {"op": "TROWEXPANDADD", "src1_layout": ""}),
    ("PTO-COST-CLOCK", {"frequency_mhz": True}),
    ("PTO-COST-CLOCK", {"frequency_mhz": 10**400}),
    ("PTO-COST-LAYOUT", {"layout": "NZ"}),
    ("PTO-COST-LAYOUT", {"dst_layout": "NZ"}),
    ("PTO-COST-LAYOUT", {"src_layout": "ZN"}),
    ("PTO-COST-LAYOUT", {"op": "TROWEXPANDADD", "src1_layout": "ND"}),
    ("PTO-COST-LAYOUT", {"op": "TCOLEXPANDADD", "src1_layout": "DN"}),
    ("PTO-COST-FORM", {"form": "binary"}),
    ("PTO-COST-FORM", {"op": "TCOLSUM", "form": "index"}),
    ("PTO-COST-FORM", {"op": "TLOAD", "path": "UB->GM"}),
    ("PTO-COST-FORM", {"path": "GM->UB"}),
    ("PTO-COST-INDEX", {"op": "TROWARGMAX", "idx_bytes": 8}),
    ("PTO-COST-CLOCK", {"frequency_mhz": 0}),
    ("PTO-COST-CLOCK", {"frequency_mhz": float("nan")}),
    ("PTO-COST-CLOCK", {"frequency_mhz": "fast"}),
    ("PTO-COST-DOMAIN", {"cols": 72, "model": "fit"}),
    ("PTO-COST-DOMAIN", {"dtype": "i32", "model": "fit"}),
    ("PTO-COST-SEQUENCE", {"op": "TROWMIN", "model": "fit"}),
    ("PTO-COST-SEQUENCE", {"op": "TCOLMIN", "model": "reference"}),
    ("PTO-COST-SEQUENCE", {"dtype": "i32", "model": "reference"}),
    ("PTO-COST-SEQUENCE", {"op": "TCOLSUM", "form": "no_tmp", "model": "reference"}),
    ("PTO-COST-SEQUENCE", {"op": "TCOLARGMAX", "model": "stream"}),
    ("PTO-COST-SEQUENCE", {"op": "TROWPROD", "model": "page"}),
    ("PTO-COST-SEQUENCE", {"op": "TROWEXPAND", "dtype": "u8", "model": "page"}),
]


@pytest.mark.parametrize(("code", "change"), REFUSED)
def test_refusal_and_first_cure(code: str, change: dict[str, Any]) -> None:
    asked = GOOD | change
    with pytest.raises(LanefoldError) as caught:
        cost(**asked)
    (finding,) = caught.value.diagnostics
    assert finding.code == code
    assert finding.message
    assert finding.got
    assert finding.allowed
    assert finding.source
    cured = asked | dict(finding.cures[0].changes)
    assert repr(cured) != repr(asked)
    assert cost(**cured).validity


@pytest.mark.parametrize(
    ("arguments", "keywords", "message", "cure"),
    [
        ((), {}, "without op, dtype, rows and cols", "give op='TROWSUM', dtype='f32', rows=64, cols=64"),
        (("TROWSUM", "f32", 64), {}, "without cols", "give cols=64"),
        (("TROWSUM", "f32", 64, 64), {"speed": 3}, "no argument 'speed'", "leave speed out"),
        (("TROWSUM", "f32", 64, 64), {"valid_row": 3}, "no argument 'valid_row'", "write valid_rows"),
        (("TROWSUM", "f32", 64, 64), {"rows": 3}, "given twice", "give layout, "),
        (("TROWSUM", "f32", 64, 64, 64, 64, "ND"), {}, "by place instead of by name", "give layout, "),
    ],
)
def test_calls_with_other_arguments(
    arguments: tuple[Any, ...], keywords: dict[str, Any], message: str, cure: str
) -> None:
    with pytest.raises(LanefoldError) as caught:
        lf.pto.cost(*arguments, **keywords)
    (finding,) = caught.value.diagnostics
    assert finding.code == "PTO-COST-KEYWORD"
    assert message in finding.message
    assert finding.cures[0].text.startswith(cure)
    assert "valid_rows" in finding.allowed


@pytest.mark.parametrize("field", [*GOOD, *OPTIONS, "tmp", "wired"])
def test_hostile_values_of_every_argument(field: str) -> None:
    calls = [lf.pto.cost] if field in ("tmp", "wired") else [lf.pto.cost, cost_columns]
    for value in HOSTILE:
        for priced in calls:
            try:
                priced(**(GOOD | {field: value}))
            except LanefoldError as error:
                (finding,) = error.diagnostics
                assert finding.cures
                assert len(finding.message) < 400, finding.message


SAID = {
    "a measured shape": (
        {},
        "TROWSUM f32 on a2a3: 492 cycles, 0.266 µs at 1850 MHz (repeats 448, launch 43);",
        "model calibrated; validity calibrated, error up to 4%",
    ),
    "barriers apart": (
        {"op": "TCOLSUM", "form": "binary"},
        "TCOLSUM f32 on a2a3: 1,151 cycles, 0.622 µs at 1850 MHz (repeats 1,008, barriers 107, launch 28, copies 8);",
        "model calibrated; validity extrapolated, error up to 50%",
    ),
    "a model that nobody measured": (
        {"op": "TROWPROD", "model": "stream", "rows": 16},
        "TROWPROD f32 on a2a3: 6,131 cycles, 3.314 µs at 1850 MHz (fill and drain 3,584, masked floor 2,048, repeats",
        "272, barriers 144, scalar hand-over 64, masks 19);",
        "model stream; validity unknown, error unknown",
    ),
    "no model": (
        {"target": "a5"},
        "TROWSUM f32 on a5: unknown; model calibrated: no reduction or expansion was measured or modelled on A5,",
        "and its kernels differ from those of A2/A3",
    ),
}


@pytest.mark.parametrize("name", SAID)
def test_costs_read_aloud(name: str) -> None:
    asked, *words = SAID[name]
    assert str(lf.pto.cost(**(GOOD | asked))) == " ".join(words)


def test_good_question_is_answered() -> None:
    assert cost(**GOOD).cycles is not None


def test_spellings() -> None:
    assert cost("pto.trowsum", "float", 64, 64).op == "TROWSUM"
    assert cost("TROWEXPSUB", "half", 64, 64).op == "TROWEXPANDSUB"
    assert cost("TROWSUM", "fp32", 64, 64, model="seed").model == "reference"


def test_columns_of_different_length_are_refused() -> None:
    for change in ({"rows": [1, 2, 3], "cols": [8, 16]}, {"rows": [8, 8], "valid_rows": [1, 2, 3]}):
        with pytest.raises(LanefoldError, match="differ in length"):
            cost_columns(**(GOOD | change))
    with pytest.raises(LanefoldError, match="valid_rows is 9"):
        cost_columns("TROWSUM", "f32", [8, 8], 64, [8, 9])


JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=True),
    st.text(max_size=8),
    st.lists(st.integers(-3, 70), max_size=3),
    st.sampled_from(["TROWSUM", "TCOLARGMAX", "f16", "i8", "ND", "DN", "binary", "a5", "cpu", "fit", "page", "stream"]),
)


@given(st.dictionaries(st.sampled_from([*GOOD, *OPTIONS]), JUNK, max_size=3))
@settings(max_examples=300, deadline=None)
def test_no_input_raises_anything_but_a_diagnostic(change: dict[str, Any]) -> None:
    for priced in (cost, cost_columns):
        with contextlib.suppress(LanefoldError):
            priced(**(GOOD | change))
