"""ONNX's own conformance suite, driven through the backend interface, with a list of failures that have reasons."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from onnx import TensorProto, helper

from lanefold.diagnostics import LanefoldError
from lanefold.frontends.backend import LanefoldBackend

ROOT = Path(__file__).resolve().parents[2]
LEAST_PASSED = {"node": 690, "pytorch-operator": 8, "pytorch-converted": 24, "simple": 4}
LEAST_WITH_LEG = {"TRN1": 500, "TRN3": 500, "PTO_CPU": 430, "A2A3": 430}


@pytest.fixture(scope="module")
def suite() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_conformance_page", ROOT / "tools" / "make_conformance_page.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("device", LEAST_WITH_LEG)
def test_conformance(suite: ModuleType, device: str, capsys: pytest.CaptureFixture[str]) -> None:
    outcomes = suite.run(device)
    expected = suite.expected(device)
    assert all(reason.strip() for reason in expected.values())
    failed = {name: each.failure for tests in outcomes.values() for name, each in tests.items() if not each.passed}
    assert set(failed) == set(expected), {name: text[-400:] for name, text in failed.items() if name not in expected}
    where = Counter(each.where for tests in outcomes.values() for each in tests.values())
    with capsys.disabled():
        print(f"\n{device}: {dict(where)}")
    for kind, tests in outcomes.items():
        assert sum(each.passed for each in tests.values()) >= LEAST_PASSED[kind]
    assert where["on the leg"] + where["host-assisted"] >= LEAST_WITH_LEG[device]
    # Poolings, reductions and searches run on the host for stated reasons only.
    assert {key for key in suite.hosted(device) if not suite.because(key[1])} == set()
    assert suite.section(device) in suite.PAGE.read_text(encoding="utf-8"), "run make docs"


def test_every_reason_for_the_host_is_met(suite: ModuleType) -> None:
    text = suite.PAGE.read_text(encoding="utf-8")
    reasons = [line.split(" | ")[2] for line in text.splitlines() if line.count(" | ") == 3]
    assert [each for each in suite.allowed_hosts() if not any(re.search(each, reason) for reason in reasons)] == []
    assert all(why.strip() for why in suite.allowed_hosts().values())


def test_the_page_is_up_to_date(suite: ModuleType) -> None:
    # Every device's own section is compared where the device is run.
    text = suite.PAGE.read_text(encoding="utf-8")
    before, behind = suite.frame()
    assert text.startswith(before)
    assert text.endswith(behind)
    assert re.findall(r"^## ([A-Z0-9_]+)$", text, re.MULTILINE) == list(suite.RUN_ON) == list(LEAST_WITH_LEG)


def test_devices() -> None:
    assert LanefoldBackend.supports_device("TRN2")
    assert not LanefoldBackend.supports_device("CUDA")
    model = helper.make_model(helper.make_graph([], "g", [], []))
    with pytest.raises(LanefoldError, match=r"ONNX-DEVICE. there is no device .CUDA."):
        LanefoldBackend.prepare(model, "CUDA")


def test_run_node() -> None:
    x = np.random.default_rng(0).standard_normal((1, 2, 6, 6)).astype(np.float32)
    node = helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], strides=[2, 2])
    (y,) = LanefoldBackend.run_node(node, [x], "TRN1")
    np.testing.assert_array_equal(y, x.reshape(1, 2, 3, 2, 3, 2).max(axis=(3, 5)))


def test_axes_fed_as_an_input_decide_the_program() -> None:
    node = helper.make_node("ReduceSum", ["x", "axes"], ["y"], name="sum", keepdims=0)
    graph = helper.make_graph(
        [node],
        "g",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 4]),
            helper.make_tensor_value_info("axes", TensorProto.INT64, [1]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n"])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    prepared = LanefoldBackend.prepare(model, "TRN1")
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    for axis in (0, 1, 0):
        np.testing.assert_array_equal(prepared.run([x, np.array([axis])])[0], x.sum(axis=axis))
        assert prepared.plan is not None
        assert prepared.plan.program.ledger.row("sum").disposition == "emitted"


def test_surplus_and_unknown_inputs_are_refused() -> None:
    x = np.ones((1, 2, 4), np.float32)
    node = helper.make_node("GlobalMaxPool", ["x"], ["y"])
    edges = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in (("x", x.shape), ("y", None))
    ]
    graph = helper.make_graph([node], "g", edges[:1], edges[1:])
    prepared = LanefoldBackend.prepare(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]), "TRN1")
    assert prepared.run([x])[0].reshape(-1).tolist() == [1, 1]
    with pytest.raises(LanefoldError, match="at most 1 array, for x"):
        prepared.run([x, x])
    with pytest.raises(LanefoldError, match="ONNX-SHAPE-OPTION"):
        prepared.run({"x": x, "z": x})
    with pytest.raises(LanefoldError, match="input 'x' is missing"):
        prepared.run([])
