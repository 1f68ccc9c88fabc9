"""Integer operators of the wire against plain Python integers, in both readings."""

from __future__ import annotations

import numpy as np
import pytest

from lanefold.diagnostics import LanefoldError
from lanefold.numerics import alu
from lanefold.tpb import Machine
from tests.tpb.test_machine import at, put, reduce, stream, take, tensor

BYTES = {row.name: row.code for row in alu.WIRE_ALU if row.code >= 0xC4}
EDGES = [0, 1, -1, 2, 7, -7, 2**31 - 1, -(2**31), 65535, 65536, -46341, 100000]


def towards_zero(a: int, x: int) -> int:
    if x == 0:
        return 0
    size = abs(a) // abs(x)
    return size if (a < 0) == (x < 0) else -size


STEPS = {
    "ADD": lambda a, x: a + x,
    "MULT": lambda a, x: a * x,
    "SUBTRACT": lambda a, x: a - x,
    "DIVIDE": towards_zero,
    "MOD": lambda a, x: a - towards_zero(a, x) * x if x else 0,
    "IS_EQUAL": lambda a, x: int(a == x),
    "IS_NE": lambda a, x: int(a != x),
    "IS_GT": lambda a, x: int(a > x),
    "IS_GE": lambda a, x: int(a >= x),
    "IS_LE": lambda a, x: int(a <= x),
    "IS_LT": lambda a, x: int(a < x),
    "MAX": max,
    "MIN": min,
    "ABS_MAX": max,
    "ABS_MIN": min,
    "ABS_DIFF": lambda a, x: abs(a - x),
    "ABS_VALUE": lambda a, x: abs(a),
}


def lane(value: int, unsigned: bool) -> int:
    value &= 2**32 - 1
    return value if unsigned or value < 2**31 else value - 2**32


def wanted(values: list[int], name: str, device: bool) -> int:
    """The fold of one group, in Python."""
    base, _, kind = name.rpartition("_")
    unsigned = kind == "UINT"
    lanes = [lane(value, unsigned) for value in values]
    if base in ("AMAX", "AMIN"):
        return lanes.index(max(lanes) if base == "AMAX" else min(lanes))
    low, high = (0, 2**32 - 1) if unsigned else (-(2**31), 2**31 - 1)
    a = lanes[0]
    for x in lanes[1:]:
        if base in ("ABS_MAX", "ABS_MIN"):
            a, x = (lane(abs(each), False) if device else min(abs(each), high) for each in (a, x))
        a = STEPS[base](a, x)
        # |INT_MIN| and INT_MIN / -1 leave the range too; the quotient wraps in both readings.
        saturates = not device and not (base == "DIVIDE" and not unsigned)
        a = min(max(a, low), high) if saturates else lane(a, unsigned)
    return a


@pytest.mark.parametrize("numerics", ["birsim", "device"])
@pytest.mark.parametrize("name", BYTES)
def test_integer_operators(name: str, numerics: str) -> None:
    machine = Machine("v3", numerics=numerics, legality="bounds")
    rows = np.array([np.random.default_rng(seed).choice(EDGES, 4) for seed in range(32)], np.int64)
    kind = "uint32" if name.endswith("UINT") or name.startswith("AM") else "int32"
    put(machine, 0, 0, (rows & 0xFFFFFFFF).astype(np.uint32))
    src, dst = tensor(at(0, 0), (4,), (1,)), tensor(at(0, 64), (1,), (1,))
    word = reduce(BYTES[name], 1, src, dst, in_type=kind, out_type=kind, channels=32)
    machine.run(stream(word, generation="v3"))
    got = take(machine, 0, 64, 1, np.uint32, rows=32)[:, 0].tolist()
    assert got == [wanted(row.tolist(), name, numerics == "device") & 0xFFFFFFFF for row in rows]


@pytest.mark.parametrize("name", ["ADD_INT", "MAX_INT", "ABS_DIFF_INT", "MAX_UINT"])
@pytest.mark.parametrize(("in_type", "out_type"), [("int8", "int16"), ("uint16", "int8"), ("int16", "float32")])
def test_integer_operators_are_exact_between_types(name: str, in_type: str, out_type: str) -> None:
    machine = Machine("v3", legality="bounds", count=True)
    values = np.random.default_rng(3).integers(np.iinfo(in_type).min, np.iinfo(in_type).max, (1, 9)).astype(in_type)
    put(machine, 0, 0, values)
    src, dst = tensor(at(0, 0), (9,), (1,)), tensor(at(0, 64), (1,), (1,))
    machine.run(stream(reduce(BYTES[name], 1, src, dst, in_type=in_type, out_type=out_type), generation="v3"))
    total = wanted(values[0].tolist(), name, False)
    if out_type != "float32":
        bounds = np.iinfo(out_type)
        assert machine.counters["saturated"] == int(not bounds.min <= total <= bounds.max)
        total = min(max(total, bounds.min), bounds.max)
    assert take(machine, 0, 64, 1, out_type)[0, 0] == np.dtype(out_type).type(total)


def test_sums_beyond_2_to_the_24_are_exact_with_the_integer_operator_only() -> None:
    values = np.array([[2**24, 1, 1, 1]], np.int32)
    results = []
    for byte in (BYTES["ADD_INT"], 0x04):
        machine = Machine("v3", count=True)
        put(machine, 0, 0, values)
        src, dst = tensor(at(0, 0), (4,), (1,)), tensor(at(0, 64), (1,), (1,))
        word = reduce(byte, 1, src, dst, in_type="int32", out_type="uint32")
        machine.run(stream(word, generation="v3"))
        results.append((int(take(machine, 0, 64, 1, np.uint32)[0, 0]), machine.counters["widened_sums"]))
    assert results == [(2**24 + 3, 0), (2**24, 1)]


@pytest.mark.parametrize("negate", [0, 1])
def test_a_negated_sum_keeps_to_the_range(negate: int) -> None:
    for numerics, low in (("birsim", 2**31 - 1), ("device", -(2**31))):
        machine = Machine("v3", numerics=numerics)
        put(machine, 0, 0, np.array([[-(2**31), 0]], np.int32))
        src, dst = tensor(at(0, 0), (2,), (1,)), tensor(at(0, 64), (1,), (1,))
        word = reduce(BYTES["ADD_INT"], 1, src, dst, negate, in_type="int32", out_type="int32")
        machine.run(stream(word, generation="v3"))
        assert take(machine, 0, 64, 1, np.int32)[0, 0] == (low if negate else -(2**31))


def test_integer_operators_refuse_floats() -> None:
    machine = Machine("v3", legality="bounds")
    src, dst = tensor(at(0, 0), (2,), (1,)), tensor(at(0, 64), (1,), (1,))
    with pytest.raises(LanefoldError) as caught:
        machine.run(stream(reduce(BYTES["ADD_INT"], 1, src, dst), generation="v3"))
    finding = caught.value.diagnostics[0]
    assert finding.code == "TPB-MACHINE-OPERATOR"
    assert "ADD_INT folds integers of up to 4 bytes, and gets float32" in finding.message


@pytest.mark.parametrize("name", ["DIVIDE_INT", "MOD_INT", "DIVIDE_UINT", "MOD_UINT"])
def test_divisions_by_zero_give_0_and_are_counted(name: str) -> None:
    machine = Machine("v3", legality="bounds", count=True)
    put(machine, 0, 0, np.array([[9, 0, 5]], np.int32))
    src, dst = tensor(at(0, 0), (3,), (1,)), tensor(at(0, 64), (1,), (1,))
    kind = "uint32" if name.endswith("UINT") else "int32"
    machine.run(stream(reduce(BYTES[name], 1, src, dst, in_type=kind, out_type=kind), generation="v3"))
    assert take(machine, 0, 64, 1, np.int32)[0, 0] == 0
    assert machine.counters["divisions_by_zero"] == 1


def test_an_accumulating_reduction_adds_what_stood_there() -> None:
    src, dst = tensor(at(0, 0), (2,), (1,)), tensor(at(0, 64), (1,), (1,))
    machine = Machine("v2", accumulate=True)
    put(machine, 0, 0, np.array([[1.5, 2.0]], np.float32))
    put(machine, 0, 64, np.array([[100.0]], np.float32))
    word = reduce(4, 1, src, dst)
    machine.run(stream(word, word))
    assert take(machine, 0, 64, 1, np.float32)[0, 0] == 107.0
    for numerics, total in (("birsim", 2**31 - 1), ("device", -(2**31))):
        machine = Machine("v2", accumulate=True, numerics=numerics)
        put(machine, 0, 0, np.array([[1, 0]], np.int32))
        put(machine, 0, 64, np.array([[2**31 - 1]], np.int32))
        machine.run(stream(reduce(4, 1, src, dst, in_type="int32", out_type="int32")))
        assert take(machine, 0, 64, 1, np.int32)[0, 0] == total
