"""Poolings that onnxruntime pads otherwise than the standard: named as such, and nothing else is."""

from __future__ import annotations

import numpy as np
import pytest
from fake_target import one_node_model

import lanefold as lf
from lanefold.frontends.onnx import verify
from lanefold.frontends.onnx.causes import DEPARTS

X = np.random.default_rng(0).standard_normal((1, 1, 8)).astype(np.float32)


@pytest.mark.parametrize(
    ("attributes", "shape"),
    [
        ({"kernel_shape": [3], "strides": [2], "auto_pad": "VALID", "ceil_mode": 1}, (1, 1, 3)),
        ({"kernel_shape": [3], "dilations": [2], "auto_pad": "SAME_UPPER"}, (1, 1, 8)),
    ],
)
def test_the_departure_is_named_where_it_is_proved(attributes: dict[str, object], shape: tuple[int, ...]) -> None:
    model = one_node_model("MaxPool", X.shape, opset=13, **attributes)
    found = verify(model, lf.compile(model, "trn1"), {"x": X})
    assert found.outputs["y"].shape == shape
    assert found.ok
    assert found.causes.keys() == {DEPARTS}
    broken = lf.compile(model, "trn1")
    run = broken.run
    broken.run = lambda *given, **named: {name: each + 1 for name, each in run(*given, **named).items()}  # type: ignore[method-assign]
    assert not verify(model, broken, {"x": X}).ok


@pytest.mark.parametrize("attributes", [{"auto_pad": "VALID"}, {"auto_pad": "SAME_UPPER"}, {"ceil_mode": 1}])
def test_no_departure_is_named_elsewhere(attributes: dict[str, object]) -> None:
    model = one_node_model("MaxPool", X.shape, opset=13, kernel_shape=[3], strides=[2], **attributes)
    found = verify(model, lf.compile(model, "trn1"), {"x": X})
    assert found.ok
    assert not found.causes
