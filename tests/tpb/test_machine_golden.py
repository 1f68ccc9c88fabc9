"""Execution of reference bundles, bit for bit."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from lanefold.numerics.dtypes import by_name
from lanefold.tpb import Machine, decode


@pytest.fixture(scope="module")
def cases(reference_data: Path):
    return json.loads((reference_data / "golden" / "tpb" / "vectors.json").read_text())["execute"]


def region(machine: Machine, where) -> np.ndarray:
    memory = machine.sbuf if where["memory"] == "SB" else machine.psum
    rows = slice(where["partition"], where["partition"] + where["partitions"])
    return memory[rows, where["byte"] : where["byte"] + where["bytes"]]


def content(where, side: str) -> np.ndarray:
    return np.frombuffer(bytes.fromhex(where[side]), np.uint8).reshape(where["partitions"], where["bytes"])


def agree(got: np.ndarray, want: np.ndarray, dtype: str) -> bool:
    kind = by_name(dtype)
    if not kind.is_float:
        return np.array_equal(got, want)
    got, want = (np.ascontiguousarray(side).view(kind.numpy) for side in (got, want))
    with np.errstate(invalid="ignore"):
        nan = np.isnan(got.astype(np.float32)) & np.isnan(want.astype(np.float32))
    return bool(((got.view(kind.raw) == want.view(kind.raw)) | nan).all())


@pytest.mark.parametrize("opcodes", ["reference", "headers"])
def test_reference_executions(cases, opcodes):
    assert len(cases) >= 30
    for case in cases:
        bundles = case["bundles"][opcodes]
        if bundles is None:
            continue
        machine = Machine(case["gen"])
        for where in case["regions"]:
            region(machine, where)[...] = content(where, "in")
        before = machine.sbuf.copy(), machine.psum.copy()
        machine.run(decode("".join(bundles), case["gen"], opcodes))
        for where in case["regions"]:
            if "out" in where:
                assert agree(region(machine, where), content(where, "out"), where["dtype"]), case["id"]
                region(machine, where)[...] = content(where, "in")
        # Nothing else was touched.
        assert np.array_equal(machine.sbuf, before[0]), case["id"]
        assert np.array_equal(machine.psum, before[1]), case["id"]
