"""The difference report: every known cause provoked and counted by hand, and what no cause explains is a finding."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from fake_target import FakeTarget, one_node_model
from typer.testing import CliRunner

import lanefold.targets
from lanefold.cli import app
from lanefold.frontends.onnx import Verification, VerifyRow, plan_model, verify
from lanefold.frontends.onnx.causes import CAUSES, Case, explain
from lanefold.frontends.onnx.pieces import LegPiece
from lanefold.targets import target

GREAT = 1 << 24


def report(model: onnx.ModelProto, x: np.ndarray, name: str, **readings: str) -> Verification:
    plan = plan_model(model, target(name, **readings))
    return verify(plan.model, plan.program, {"x": x})


def first(found: Verification) -> VerifyRow:
    return found.rows[0]


def reduced(op_type: str, x: np.ndarray, axis: int = 1, **attributes: Any) -> onnx.ModelProto:
    return one_node_model(
        op_type, x.shape, dtype=x.dtype.name, opset=18, constants={"axes": np.array([axis])}, **attributes
    )


def sum_model(x: np.ndarray) -> onnx.ModelProto:
    return reduced("ReduceSum", x)


def by_onnxruntime(model: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})[0]


def steps_apart(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Neighbouring float32 numbers between two arrays of one sign."""
    return np.abs(left.view(np.int32).astype(np.int64) - right.view(np.int32).astype(np.int64))


def test_one_over_n_as_a_constant() -> None:
    # Sums of whole numbers are exact in any order, so that the constant 1/3 alone can make a difference.
    whole = np.arange(1, 65, dtype=np.float32)
    x = np.zeros((1, 64, 3), np.float32)
    x[0, :, 0] = whole
    third = np.float32(1) / np.float32(3)
    ours, theirs = whole * third, whole / np.float32(3)
    model = one_node_model("GlobalAveragePool", x.shape)
    found = report(model, x, "trn1", numerics="device")
    assert found.ok
    assert dict(first(found).causes) == {"1/N fold": int((ours != theirs).sum())}
    assert first(found).ulp == steps_apart(ours, theirs).max()
    exact = (whole.astype(np.float64) / 3).astype(np.float32)
    assert first(found).exact_ulp == steps_apart(ours, exact).max()
    cell = int(np.argmax(ours != theirs))
    assert first(found).cell == (0, cell, 0)
    assert first(found).got == repr(float(ours[cell]))
    assert first(found).wanted == repr(float(theirs[cell]))


def test_nan_dropped() -> None:
    # onnxruntime hands a NaN in first place on and passes over the others, the leg passes over all.
    x = np.array([[np.nan, 1, 3], [2, 5, 4], [6, np.nan, 0], [np.nan, -1, -2]], np.float32)
    model = reduced("ReduceMax", x)
    theirs = by_onnxruntime(model, x).reshape(-1)
    np.testing.assert_array_equal(theirs, [np.nan, 5, 6, np.nan])
    plan = plan_model(model, target("trn1"))
    found = verify(plan.model, plan.program, {"x": x})
    assert found.outputs["y"].reshape(-1).tolist() == [3, 5, 6, -1]
    assert found.ok
    assert dict(first(found).causes) == {"NaN dropped": 2}
    assert dict(plan.program.ledger.row("n").counted)["nan_dropped"] == 3
    assert (first(found).cell, first(found).got, first(found).wanted) == ((0, 0), "3.0", "nan")


@pytest.mark.parametrize("name", ["cpu", "a2a3", "a5"])
def test_nan_handed_on_where_the_reference_drops_it(name: str) -> None:
    x = np.array([[[np.nan, 1, 3, 2, np.nan, 4]]], np.float32)
    model = one_node_model("MaxPool", x.shape, kernel_shape=[3], strides=[3])
    assert by_onnxruntime(model, x).reshape(-1).tolist() == [3, 4]
    found = report(model, x, name)
    np.testing.assert_array_equal(found.outputs["y"].reshape(-1), [np.nan, 4])
    assert found.ok
    assert dict(first(found).causes) == {"NaN dropped": 1}


@pytest.mark.parametrize("name", ["trn1", "trn3", "cpu", "a5"])
def test_order_of_additions(name: str) -> None:
    x = np.random.default_rng(3).standard_normal((40, 301)).astype(np.float32)
    serial = np.zeros(40, np.float32)
    for column in x.T:
        serial = serial + column
    model = sum_model(x)
    theirs = by_onnxruntime(model, x).reshape(-1)
    found = report(model, x, name)
    ours = found.outputs["y"].reshape(-1)
    np.testing.assert_array_equal(ours, serial)
    assert found.ok
    assert dict(first(found).causes) == {"order of additions": int((serial != theirs).sum())}
    exact = np.array([math.fsum(row) for row in x.astype(np.float64)], np.float32)
    same = np.sign(ours) == np.sign(exact)
    assert first(found).exact_ulp == steps_apart(ours[same], exact[same]).max()


def test_sums_that_are_exact_have_no_order() -> None:
    x = np.arange(600, dtype=np.float32).reshape(2, 300)
    assert first(report(sum_model(x), x, "trn1")).causes == ()


def test_widening_above_two_to_the_24() -> None:
    # No lowering adds such integers up in float32, which holds 2^24 + 1 as 2^24; so that is done by hand.
    x = np.array([[GREAT, 1, 0], [5, 6, 7], [GREAT - 1, 1, 1]], np.int32)
    model = sum_model(x)
    for name in ("trn1", "trn3", "cpu", "a2a3"):
        found = report(model, x, name)
        assert found.outputs["y"].reshape(-1).tolist() == [GREAT + 1, 18, GREAT + 1]
        assert (found.ok, found.causes) == (True, {})
    piece, _ = piece_of(model)
    wanted = x.sum(axis=1, keepdims=True, dtype=np.int32)
    widened = x.astype(np.float32).sum(axis=1, keepdims=True).astype(np.int32)
    assert explain(Case(piece, [x], widened, wanted, {"widened_sums": 2})).causes == {"widening above 2^24": 2}
    assert explain(Case(piece, [x], widened, wanted, {})).unexplained == (0, 0)
    assert explain(Case(piece, [x], wanted + 64, wanted, {"widened_sums": 2})).unexplained == (0, 0)


def searching(model: onnx.ModelProto) -> onnx.ModelProto:
    model.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.INT64
    return model


@pytest.mark.parametrize(("name", "readings"), [("trn1", {}), ("trn1", {"numerics": "device"}), ("cpu", {})])
def test_saturation(name: str, readings: dict[str, str]) -> None:
    low, high = -(1 << 31), (1 << 31) - 1
    x = np.array([[high, high], [low, low], [5, 6]], np.int32)
    clamped, wrapped = np.array([high, low, 11]), np.array([-2, 0, 11])
    model = sum_model(x)
    found = report(model, x, name, **readings)
    ours = found.outputs["y"].reshape(-1)
    np.testing.assert_array_equal(ours, clamped if name == "trn1" and not readings else wrapped)
    theirs = by_onnxruntime(model, x).reshape(-1)
    differing = int((ours != theirs).sum())
    assert found.ok
    assert dict(first(found).causes) == ({"saturation": differing} if differing else {})


def test_start_of_the_maximum() -> None:
    x = np.full((1, 2, 4), -np.inf, np.float32)
    x[0, 1, 2] = 7
    found = report(one_node_model("GlobalMaxPool", x.shape), x, "cpu")
    theirs = by_onnxruntime(one_node_model("GlobalMaxPool", x.shape), x).reshape(-1)
    assert theirs.tolist() == [np.finfo(np.float32).min, 7]
    assert found.ok
    assert dict(first(found).causes) == {"start of the maximum": 1}
    assert (first(found).got, first(found).cell) == ("-inf", (0, 0, 0))


def test_overflow_in_the_accumulator() -> None:
    x = np.array([[60000, 60000], [1, 2]], np.float16)
    model = reduced("ReduceMean", x, axis=0)
    across = np.array([[60000, 1], [60000, 3]], np.float16)
    found = report(model, across, "cpu")
    assert found.outputs["y"].reshape(-1).tolist() == [np.inf, 2]
    assert found.ok
    assert dict(first(found).causes) == {"overflow in the accumulator": 1}


def piece_of(model: onnx.ModelProto, name: str = "trn1") -> tuple[LegPiece, Any]:
    from lanefold.frontends.onnx.decompose import decompose
    from lanefold.frontends.onnx.pieces import leg_pieces

    plan = plan_model(model, target(name))
    (parts,) = decompose(plan.model)
    return next(leg_pieces(parts.pieces)), plan  # type: ignore[union-attr]


def test_ties() -> None:
    # Every target finds the first of equal values, so the other index is made by hand.
    x = np.array([[4, 9, 9, 1], [3, 2, 1, 0]], np.float32)
    piece, _ = piece_of(searching(one_node_model("ArgMax", x.shape, opset=13, axis=1)))
    got, wanted = np.array([[2], [0]], np.uint32), np.array([[1], [0]], np.uint32)
    assert explain(Case(piece, [x], got, wanted, {"ties": 1})).causes == {"ties": 1}
    assert explain(Case(piece, [x], got, wanted, {})).unexplained == (0, 0)
    other = np.array([[3], [0]], np.uint32)
    assert explain(Case(piece, [x], other, wanted, {"ties": 1})).unexplained == (0, 0)


def test_a_counter_explains_no_cell_whose_inputs_do_not_bear_it_out() -> None:
    x = np.array([[1, np.nan], [1, 2]], np.float32)
    piece, _ = piece_of(reduced("ReduceMax", x))
    wanted = np.array([[np.nan], [2]], np.float32)
    fine = explain(Case(piece, [x], np.array([[1], [2]], np.float32), wanted, {"nan_dropped": 1}))
    assert (fine.causes, fine.unexplained) == ({"NaN dropped": 1}, None)
    wrong = explain(Case(piece, [x], np.array([[1], [1]], np.float32), wanted, {"nan_dropped": 1}))
    assert wrong.unexplained == (1, 0)
    made_up = explain(Case(piece, [x], np.array([[7], [2]], np.float32), wanted, {"nan_dropped": 1}))
    assert made_up.unexplained == (0, 0)
    uncounted = explain(Case(piece, [x], np.array([[1], [2]], np.float32), wanted, {}))
    assert uncounted.unexplained == (0, 0)


def test_a_sum_beyond_the_bound_of_its_roundings_is_a_finding() -> None:
    x = np.random.default_rng(5).standard_normal((1, 1000)).astype(np.float32)
    piece, _ = piece_of(sum_model(x))
    exact = math.fsum(x[0].astype(np.float64))
    wanted = np.array([[exact]], np.float32)
    # 999 additions, each off by no more than 2^-24 of the sum of magnitudes.
    bound = 999 * 2.0**-24 * math.fsum(abs(x[0].astype(np.float64)))
    inside, beyond = (np.array([[exact + part * bound]], np.float32) for part in (0.9, 1.1))
    assert explain(Case(piece, [x], inside, wanted, {})).causes == {"order of additions": 1}
    assert explain(Case(piece, [x], beyond, wanted, {})).unexplained == (0, 0)


def test_what_follows_from_an_explained_difference_is_carried_to_the_outputs() -> None:
    x = np.array([[np.nan, 1, 3]], np.float32)
    model = reduced("ReduceMax", x)
    model.graph.node[0].output[0] = "m"
    model.graph.node.append(onnx.helper.make_node("Exp", ["m"], ["y"], name="e"))
    found = report(model, x, "trn1")
    assert found.ok
    ends = [row for row in found.rows if row.kind == "output"]
    assert [dict(row.causes) for row in ends] == [{"NaN dropped": 1}]


def test_report_on_the_command_line(tmp_path: Path) -> None:
    x = np.array([[np.nan, 1, 3], [2, 5, 4]], np.float32)
    onnx.save(reduced("ReduceMax", x), tmp_path / "m.onnx")
    np.savez(tmp_path / "x.npz", x=x)
    command = ["run", str(tmp_path / "m.onnx"), "--input", str(tmp_path / "x.npz"), "--verify"]
    ran = CliRunner().invoke(app, command)
    assert ran.exit_code == 0, ran.output
    words = " ".join(ran.stdout.split())
    assert f"NaN dropped, 1 cell: {CAUSES['NaN dropped']}" in words
    document = json.loads(CliRunner().invoke(app, [*command, "--json"]).stdout)["verification"]
    assert document["rows"][0]["causes"] == {"NaN dropped": 1}
    assert document["rows"][0]["exact_ulp"] is None
    assert document["rows"][0]["exact_reason"] == "it chooses among its inputs and rounds nothing"
    assert document["causes"] == {"NaN dropped": {"cells": 1, "meaning": CAUSES["NaN dropped"]}}


def test_a_difference_without_a_cause_ends_with_status_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.array([[1, 2, 3], [2, 5, 4]], np.float32)
    onnx.save(reduced("ReduceMax", x), tmp_path / "m.onnx")
    np.savez(tmp_path / "x.npz", x=x)
    monkeypatch.setattr(lanefold.targets, "target", lambda name, **readings: FakeTarget(scale=1.5))
    ran = CliRunner().invoke(app, ["run", str(tmp_path / "m.onnx"), "--input", str(tmp_path / "x.npz"), "--verify"])
    assert ran.exit_code == 1, ran.output
    words = " ".join(ran.stdout.split())
    assert "differs without a counted cause" in words
    assert "4.5 for 3.0" in words
    assert "verification FAILED: 0 of 1 leg results and 0 of 1 outputs agree" in words


def test_every_cause_has_a_meaning_and_a_test() -> None:
    text = Path(__file__).read_text(encoding="utf-8")
    # Products and exponentials are met by the random models, pads by the departures.
    elsewhere = {"order of multiplications", "exponentials", "auto_pad of onnxruntime"}
    assert {name for name in CAUSES if f'"{name}"' in text} >= set(CAUSES) - elsewhere
    assert all(CAUSES.values())
    page = (Path(__file__).parents[2] / "docs" / "differences.md").read_text(encoding="utf-8")
    assert all(f"\n| {name} | " in page for name in CAUSES)
