"""ONNX's own conformance suite, driven through the backend interface, with a list of failures that have reasons."""

from __future__ import annotations

import tomllib
import unittest
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.backend.test
import pytest
from onnx import TensorProto, helper

from lanefold.diagnostics import LanefoldError
from lanefold.frontends.backend import DEVICES, LanefoldBackend

FAMILIES = [
    "maxpool",
    "averagepool",
    "lppool",
    "lp_pool",
    "global",
    "reduce",
    "argmax",
    "argmin",
    "top_k",
    "softmax",
    "logsoftmax",
    "hardmax",
    "layer_norm",
    "rms_",
    "group_norm",
    "instancenorm",
    "mvn",
    "lpnorm",
    "reciprocal",
    "MaxPool",
    "AvgPool",
    "Softmax",
    "LogSoftmax",
    "Softmin",
    "operator_maxpool",
]
PATTERN = f"test_({'|'.join(FAMILIES)}).*_cpu"
EXPECTED = tomllib.loads((Path(__file__).parent / "expected_failures.toml").read_text())


def cases(device: str, counts: Counter[str]) -> dict[str, unittest.TestCase]:
    """The suite's cases by name; each runs on ``device`` and adds the ledger's dispositions to ``counts``."""

    class Here(LanefoldBackend):
        @classmethod
        def supports_device(cls, device: str) -> bool:
            return device in ("CPU", *DEVICES)

        @classmethod
        def prepare(cls, model: onnx.ModelProto, asked: str = "CPU", **kwargs: Any) -> Any:
            prepared = LanefoldBackend.prepare(model, device, **kwargs)

            class Counting:
                def run(self, inputs: Any, **more: Any) -> Any:
                    outputs = prepared.run(inputs, **more)
                    ledger = prepared.plan.program.ledger
                    counts["on the leg" if ledger.bundles else "on the host"] += 1
                    return outputs

            return Counting()

    with warnings.catch_warnings():
        # The suite computes its data while it is collected, overflows included.
        warnings.simplefilter("ignore")
        suite = onnx.backend.test.BackendTest(Here, __name__).include(PATTERN)
        found = {}
        for case in suite.test_cases.values():
            for name in unittest.defaultTestLoader.getTestCaseNames(case):
                found[name.removesuffix("_cpu")] = case(name)
    return found


@pytest.mark.parametrize("device", ["TRN1", "TRN3", "A2A3"])
def test_conformance(device: str, capsys: pytest.CaptureFixture[str]) -> None:
    counts: Counter[str] = Counter()
    failed, passed, skipped = {}, [], 0
    for name, case in cases(device, counts).items():
        result = unittest.TestResult()
        case.run(result)
        if result.skipped:
            skipped += 1
        elif result.wasSuccessful():
            passed.append(name)
        else:
            failed[name] = (result.failures + result.errors)[0][1]
    expected = EXPECTED[device]
    with capsys.disabled():
        print(f"\n{device}: {len(passed)} passed, {len(failed)} failed as expected, {dict(counts)}")
    assert all(reason.strip() for reason in expected.values())
    assert set(failed) == set(expected), {name: text[-400:] for name, text in failed.items() if name not in expected}
    assert len(passed) > 380
    assert counts["on the leg"] > 170


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
