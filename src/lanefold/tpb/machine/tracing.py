"""One record per executed bundle: what it read and wrote, its first results, and how far they are from double."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from lanefold.numerics import alu, kernels
from lanefold.numerics.dtypes import Dtype
from lanefold.numerics.kernels import Access
from lanefold.tpb import isa
from lanefold.tpb.machine.execute import REDUCE_OPS, exchanged, inner_slots, is_everything, is_pool_max
from lanefold.tpb.machine.tasks import Memories, Task

Record = dict[str, Any]
Trace = Callable[[Record], None]
Doubles = npt.NDArray[np.float64]

_FIRST = 4
_FOLDS: dict[str, Callable[[Doubles], Doubles]] = {
    "add": lambda values: values.sum(axis=-1),
    "average": lambda values: values.sum(axis=-1),
    "subtract": lambda values: 2 * values[..., 0] - values.sum(axis=-1),
    "mult": lambda values: values.prod(axis=-1),
    "max": lambda values: np.fmax.reduce(values, axis=-1),
    "min": lambda values: np.fmin.reduce(values, axis=-1),
}


def _windows(source: Access, inner: int) -> Doubles:
    count = math.prod(source.nums[:inner])
    return kernels.load(source).astype(np.float64).reshape(source.channels, -1, count)


def _pooled(task: Task) -> Doubles:
    values = _windows(task.src, inner_slots(task, "pool_dim"))
    return _FOLDS["max"](values) if is_pool_max(task) else values.mean(axis=-1)


def _reduced(task: Task, source: Access) -> Doubles | None:
    op = alu.by_byte(task["op"])
    if op is None or op.name not in _FOLDS:
        return None
    values = _FOLDS[op.name](_windows(source, inner_slots(task, "op_dim")))
    return -values if task["negated"] else values


def _across(task: Task, source: Access) -> Doubles:
    op = REDUCE_OPS[task["reduce_op"]]
    values = kernels.load(source).astype(np.float64)
    if op.name == "average":
        values = values * task["scale"]
    return _FOLDS[op.name](values.reshape(1, -1) if is_everything(task) else values.T)


_REFERENCES: dict[str, Callable[[Task], Doubles | None]] = {
    "pool": _pooled,
    "tensor_reduce_arith": lambda task: _reduced(task, task.src),
    "tensor_reduce_add_bf16": lambda task: _reduced(task, task.src),
    "tensor_reduce_max_bf16": lambda task: _reduced(task, task.src),
    "transpose_tensor_reduce_arith": lambda task: _reduced(task, exchanged(task)),
    "cross_lane_reduce_arith": lambda task: _across(task, task.src),
    "transpose_cross_lane_reduce_arith": lambda task: _across(task, exchanged(task)),
    "reciprocal": lambda task: 1.0 / kernels.load(task.src).astype(np.float64),
}


def reference(task: Task) -> Doubles | None:
    """The results of an arithmetic bundle in double, computed before it runs; None for all others."""
    made = _REFERENCES.get(task.row.name)
    return None if made is None else made(task)


def distance(got: npt.NDArray[np.float32], wanted: Doubles, dtype: Dtype) -> float:
    """Largest distance in units of the last place of the element type, over results finite on both sides."""
    flat, exact = got.astype(np.float64).reshape(-1), wanted.reshape(-1)
    both = np.isfinite(flat) & np.isfinite(exact)
    if not both.any():
        return 0.0
    exact = exact[both]
    unit = np.ones_like(exact)
    if dtype.is_float:
        lowest = 2 - 2 ** (dtype.exponent - 1)
        exponent = np.maximum(np.frexp(exact)[1] - 1, lowest)
        unit = np.ldexp(unit, exponent - dtype.mantissa)
    return float((np.abs(flat[both] - exact) / unit).max())


def record(task: Task, memories: Memories, wanted: Doubles | None) -> Record:
    """What is told about a bundle after it ran; places are given as memory, partitions, bytes and type."""
    told: Record = {
        "bundle": task.index,
        "instruction": task.row.mnemonic,
        "place": str(task.place),
        "reads": [],
        "writes": [],
        "first": [],
        "ulp": None,
    }
    for role in task.row.roles:
        access = task.group.operands[role.field][task.at]
        told["reads" if role.access == "read" else "writes"].append(_told(role, access, memories))
        if role.access == "write":
            few = access.part(0, 1)
            if access.dtype.is_number:
                told["first"] = kernels.load(few)[0, :_FIRST].tolist()
    if wanted is not None and task.dst.dtype.is_number:
        told["ulp"] = distance(kernels.load(task.dst), wanted, task.dst.dtype)
    return told


def _told(role: isa.Role, access: Access, memories: Memories) -> Record:
    low, high = access.span
    return {
        "operand": role.field,
        "memory": "PSUM" if access.memory is memories.psum else "SB",
        "partitions": [access.partition, access.partition + access.channels - 1],
        "bytes": [low, high - 1],
        "dtype": access.dtype.name,
        "elements": access.elements,
    }
