"""Maxima of windows with their places on tiles, against a walk over every window."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lanefold.diagnostics import LanefoldError
from lanefold.ops import ArgPool
from lanefold.pto.lower import lower
from lanefold.targets import target
from tests.arg_pools import walked, windows


def run(op: ArgPool, x: np.ndarray, name: str) -> list[np.ndarray]:
    code = lower(op, target=name)
    assert code.check() == []
    return code.run(target(name).machine(), [x])


@settings(max_examples=40, deadline=None)
@given(windows(), st.integers(0, 99), st.sampled_from(["cpu", "a2a3", "a5"]), st.sampled_from(["float32", "float16"]))
def test_values_and_places_of_any_window(op: ArgPool, seed: int, name: str, dtype: str) -> None:
    op = replace(op, dtype=dtype)
    x = np.random.default_rng(seed).integers(-3, 4, op.input_shape).astype(dtype)
    for made, wanted in zip(run(op, x, name), walked(op, x), strict=True):
        np.testing.assert_array_equal(made, wanted)
        assert made.dtype == wanted.dtype


def test_a_map_wider_than_a_tile_is_searched_in_pieces() -> None:
    op = ArgPool((1, 2, 60, 700), (3, 3), (2, 2), (), (1, 1, 1, 1))
    x = np.random.default_rng(0).standard_normal(op.input_shape).astype(np.float32)
    values, places = run(op, x, "a2a3")
    wanted = walked(op, x)
    np.testing.assert_array_equal(values, wanted[0])
    np.testing.assert_array_equal(places, wanted[1])


@pytest.mark.parametrize(
    ("op", "name", "code"),
    [
        (ArgPool((1, 1, 3000), (2100,), dtype="float16"), "a2a3", "PTO-LOWER-SEARCH"),
        (ArgPool((1, 1, 9), (2,), index_dtype="int64"), "cpu", "PTO-LOWER-INDEX"),
        (ArgPool((1, 1, 9), (2,), dtype="int8"), "a2a3", "PTO-LOWER-DTYPE"),
    ],
)
def test_what_tiles_cannot_do_is_refused(op: ArgPool, name: str, code: str) -> None:
    with pytest.raises(LanefoldError) as caught:
        lower(op, target=name)
    assert caught.value.diagnostics[0].code == code
