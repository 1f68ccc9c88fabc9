"""The written orders give the bits of the machine."""

from __future__ import annotations

import numpy as np
import pytest

from lanefold.diagnostics import LanefoldError
from lanefold.tpb import Machine
from lanefold.tpb.machine.orders import FOLDS, expression
from tests.tpb.test_machine import FLT_MAX, across, at, pool, put, reduce, stream, take, tensor

CHOICES = [{}, {"numerics": "device"}, {"pool_sum": "lanes4"}, {"average_step": "divide"}]


def worked_out(text: str, values: np.ndarray, scale: np.float32) -> np.float32:
    """The value of an expression, every operation in NumPy's own float32 and float64."""
    names = {f"x{i}": value for i, value in enumerate(values)}
    functions = {"f32": np.float32, "f64": np.float64, "max": lambda a, x: x if x > a else a}
    names |= functions | {"scale": scale, "lowest": np.float32(-FLT_MAX), "inf": np.float32(np.inf)}
    return np.float32(eval(text, {"__builtins__": {}}, names))  # noqa: S307


def executed(fold: str, values: np.ndarray, scale: np.float32, machine: Machine) -> np.float32:
    """The result of the machine."""
    instruction, operator = fold.split()
    count, dst = len(values), tensor(at(0, 4096), (1,), (1,))
    if fold == "tensor_reduce average":
        return machine.tensor_average(values)
    if instruction == "cross_lane":
        put(machine, 0, 0, values[:, None])
        number = {"add": 0, "average": 1, "max": 2}[operator]
        machine.run(stream(across(number, 1, scale, tensor(at(0, 0), (1,), (1,)), dst, channels=count)))
    else:
        put(machine, 0, 0, values[None])
        source = tensor(at(0, 0), (count, 1), (1, 1))
        if instruction == "pool":
            words = pool(1, 1.0, source, dst) if operator == "max" else pool(2, scale, source, dst)
        else:
            words = reduce({"add": 4, "max": 8}[operator], 1, source, dst)
        machine.run(stream(words))
    return take(machine, 0, 4096, 1, np.float32)[0, 0]


@pytest.mark.parametrize("count", [1, 2, 7, 12, 33])
@pytest.mark.parametrize("chosen", CHOICES)
@pytest.mark.parametrize("fold", FOLDS)
def test_the_expression_has_the_bits_of_the_machine(fold, chosen, count):
    values = (np.random.default_rng(count).standard_normal(count) * 1e3).astype(np.float32)
    scale = np.float32(1 / count)
    machine = Machine("v2", **chosen)
    text = expression(fold, count, machine.options)
    assert worked_out(text, values, scale).tobytes() == np.float32(executed(fold, values, scale, machine)).tobytes()


def test_expressions_read_as_a_tree():
    assert expression("tensor_reduce add", 4) == "(((x0 + x1) + x2) + x3)"
    assert expression("pool average", 2) == "f32(f64(((0 + x0) + x1)) * (1 / 2))"
    assert (
        expression("cross_lane average", 2, Machine("v2", numerics="device").options) == "((x0 * scale) + (x1 * scale))"
    )
    assert expression("pool max", 2) == "max(max(lowest, x0), x1)"


@pytest.mark.parametrize(("fold", "count"), [("pool min", 3), ("pool max", 0), ("pool max", 10**6)])
def test_other_orders_are_refused_with_a_cure_that_works(fold, count):
    with pytest.raises(LanefoldError) as caught:
        expression(fold, count)
    finding = caught.value.diagnostics[0]
    assert finding.code == "TPB-MACHINE-ORDER"
    assert expression(**({"fold": fold, "count": count} | dict(finding.cures[0].changes)))
