"""The pooling and reduction cases that the onnx package publishes, with their results."""

from __future__ import annotations

import warnings
from collections import Counter
from typing import Any

import numpy as np
import pytest
from fake_target import FakeTarget

from lanefold.diagnostics import LanefoldError
from lanefold.frontends.onnx import compile_model, plan_model
from lanefold.frontends.onnx.pools import POOLS
from lanefold.frontends.onnx.reduces import REDUCES

PREFIXES = ("test_maxpool", "test_averagepool", "test_lppool", "test_global", "test_reduce")
HANDLERS = {**POOLS, **REDUCES}
UNSUPPORTED_BY_THE_HOST = "test_reduce_max_empty_set_bool"


@pytest.fixture(scope="module")
def cases() -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case.node import collect_testcases

        found = collect_testcases(None)
    return {case.name: case for case in found if case.model is not None and case.name.startswith(PREFIXES)}


def test_published_cases(cases: dict[str, Any]) -> None:
    """Every case gives its published result; axes that a case feeds as an input are fixed before compilation."""
    counts: Counter[str] = Counter()
    for name, case in cases.items():
        graph = case.model.graph
        if name == UNSUPPORTED_BY_THE_HOST or not any(node.op_type in HANDLERS for node in graph.node):
            continue
        inputs, outputs = case.data_sets[0]
        given = dict(zip((value.name for value in graph.input), inputs, strict=True))
        fixed = {each: value for each, value in given.items() if each == "axes"}
        program = compile_model(case.model, FakeTarget(), fixed=fixed)
        got = program.run({info.name: given[info.name] for info in program.inputs})
        for value, want in zip(graph.output, outputs, strict=True):
            assert got[value.name].dtype == want.dtype, name
            np.testing.assert_allclose(got[value.name], want, rtol=5e-4, atol=1e-5, err_msg=name)
        counts.update(row.disposition for row in program.ledger if row.op_type in HANDLERS)
    assert counts["emitted"] > 90
    assert counts["rewritten"] > 10
    # Empty sets, float64, bool, indices of maxima, norms other than 1 and 2.
    assert counts["host"] < 50


def test_what_the_host_refuses_is_reported(cases: dict[str, Any]) -> None:
    case = cases[UNSUPPORTED_BY_THE_HOST]
    inputs, _ = case.data_sets[0]
    names = [value.name for value in case.model.graph.input]
    program = compile_model(case.model, FakeTarget())
    with pytest.raises(LanefoldError, match="ONNX-HOST-RUN"):
        program.run(dict(zip(names, inputs, strict=True)))


def test_a_fixed_value_must_fit(cases: dict[str, Any]) -> None:
    model = cases["test_reduce_sum_keepdims_example"].model
    for fixed in ({"axis": np.asarray([1])}, {"axes": np.asarray([1.0])}, {"axes": np.asarray([1, 2, 3])}):
        with pytest.raises(LanefoldError, match="ONNX-FIXED"):
            plan_model(model, FakeTarget(), fixed=fixed)
    plan = plan_model(model, FakeTarget(), fixed={"axes": np.asarray([1])})
    assert [info.name for info in plan.program.inputs] == ["data"]
