"""Maxima of windows with their places, run on the machine, against a walk over every window."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lanefold.diagnostics import LanefoldError, Severity
from lanefold.ops import ArgPool
from lanefold.tpb.lower import lower
from lanefold.tpb.machine import Machine
from tests.arg_pools import walked, windows


def run(op: ArgPool, x: np.ndarray, generation: str = "v2", numerics: str = "birsim") -> list[np.ndarray]:
    code = lower(op, generation=generation)
    assert not [each for each in code.check() if each.severity is not Severity.INFO]
    machine = Machine(generation, numerics=numerics)
    machine.sbuf[:] = 0xA5
    return code.run(machine, [x])


@settings(max_examples=40, deadline=None)
@given(windows(), st.integers(0, 99), st.sampled_from(["v2", "v3", "v4"]), st.sampled_from(["birsim", "device"]))
def test_values_and_places_of_any_window(op: ArgPool, seed: int, generation: str, numerics: str) -> None:
    dtype = np.dtype(getattr(ml_dtypes, op.dtype, op.dtype))
    low = 0 if op.dtype.startswith("u") else -3
    x = np.random.default_rng(seed).integers(low, 4, op.input_shape).astype(dtype)
    for made, wanted in zip(run(op, x, generation, numerics), walked(op, x), strict=True):
        np.testing.assert_array_equal(made.astype(np.float64), wanted.astype(np.float64))
        assert made.dtype == wanted.dtype


def test_a_window_of_minus_infinity_has_its_first_place() -> None:
    x = np.full((1, 1, 4, 4), -np.inf, np.float32)
    values, places = run(ArgPool(x.shape, (2, 2), (2, 2)), x)
    assert (values == -np.inf).all()
    assert (places == 0).all()


def test_windows_of_fewer_than_eight_elements_are_repeated_and_said_to_be() -> None:
    code = lower(ArgPool((1, 1, 8, 8), (2, 2)))
    (read,) = {each.ins[0].pattern[1:] for each in code.instructions if each.opcode == "Max"}
    assert read == ((0, 2), (1, 4))
    assert "fewer than 8 elements are repeated by a step of 0" in code.note


@pytest.mark.parametrize(
    ("op", "code"),
    [
        (ArgPool((1, 1, 300, 300), (200, 200)), "TPB-LOWER-WINDOW-ROW"),
        (ArgPool((1, 1, 3), (2,), dtype="int32"), "TPB-LOWER-DTYPE"),
        (ArgPool((1, 1, 3), (2,), index_dtype="int64"), "TPB-LOWER-INDEX"),
    ],
)
def test_what_the_leg_cannot_do_is_refused(op: ArgPool, code: str) -> None:
    with pytest.raises(LanefoldError) as caught:
        lower(op)
    assert caught.value.diagnostics[0].code == code


def test_windows_are_those_of_a_pooling() -> None:
    with pytest.raises(LanefoldError) as caught:
        ArgPool((1, 1, 3), (4,))
    assert caught.value.diagnostics[0].code == "OP-POOL-WINDOW-WIDE"
