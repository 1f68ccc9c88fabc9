"""One record per executed bundle: what it read and wrote, its first results, and how far they are from float64."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
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

_FIRST = 8
_FOLDS: dict[str, Callable[[Doubles], Doubles]] = {
    "add": lambda values: values.sum(axis=-1),
    "subtract": lambda values: 2 * values[..., 0] - values.sum(axis=-1),
    "mult": lambda values: values.prod(axis=-1),
    "max": lambda values: np.fmax.reduce(values, axis=-1),
    "min": lambda values: np.fmin.reduce(values, axis=-1),
}
_BITS = "bits are folded, not numbers"
_PLACES = "places are whole numbers, written exactly"
_COPIES = "elements are copied, nothing is computed"
_WITHOUT = {
    "max_pool_select": _PLACES,
    "tensor_reduce_bitvec": _BITS,
    "transpose_tensor_reduce_bitvec": _BITS,
    "cross_lane_reduce_bitvec": _BITS,
    "transpose_cross_lane_reduce_bitvec": _BITS,
    "max8": _COPIES,
    "match_value_load": "registers are loaded, nothing is written to memory",
    "find_index8": _PLACES,
    "match_replace8": _COPIES,
    "iota": "int32 counting is exact before the cast",
    "pool_buffer_load": "the pool buffer is loaded, nothing is written to memory",
    "gather": _COPIES,
}
"""Why an instruction has no distance from float64."""


def _windows(source: Access, inner: int) -> Doubles:
    count = math.prod(source.nums[:inner])
    return kernels.load(source).astype(np.float64).reshape(source.channels, -1, count)


def _pooled(task: Task) -> Doubles:
    values = _windows(task.src, inner_slots(task, "pool_dim"))
    return _FOLDS["max"](values) if is_pool_max(task) else values.mean(axis=-1)


def _factor(scale: float) -> float:
    """1/N in double where a scale word is the float32 nearest to it, else the word itself."""
    count = round(1 / scale) if math.isfinite(scale) and abs(scale) > 2.0**-32 else 0
    return 1 / count if count and np.float32(1 / count) == np.float32(scale) else scale


def _reduced(task: Task, source: Access) -> Doubles | None:
    op = alu.by_byte(task["op"])
    if op is None or op.name not in _FOLDS:
        return None
    values = _FOLDS[op.name](_windows(source, inner_slots(task, "op_dim")))
    return -values if task["negated"] else values


def _across(task: Task, source: Access) -> Doubles:
    op = REDUCE_OPS[task["reduce_op"]]
    values = kernels.load(source).astype(np.float64)
    values = values.reshape(1, -1) if is_everything(task) else values.T
    if op.name == "average":
        return _FOLDS["add"](values) * _factor(task["scale"])
    return _FOLDS[op.name](values)


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


def distance(got: npt.NDArray[np.float32], wanted: Doubles, dtype: Dtype) -> float | None:
    """Largest distance in units of the last place of the element type, over results finite on both sides.

    None where there is no such result.
    """
    flat, exact = got.astype(np.float64).reshape(-1), wanted.reshape(-1)
    both = np.isfinite(flat) & np.isfinite(exact)
    if not both.any():
        return None
    exact = exact[both]
    unit = np.ones_like(exact)
    if dtype.is_float:
        lowest = 2 - 2 ** (dtype.exponent - 1)
        exponent = np.maximum(np.frexp(exact)[1] - 1, lowest)
        unit = np.ldexp(unit, exponent - dtype.mantissa)
    return float((np.abs(flat[both] - exact) / unit).max())


def record(task: Task, memories: Memories, wanted: Doubles | None) -> Record:
    """What is told about a bundle after it ran.

    ``index`` counts the bundles of its stream; ``engine`` is empty where the stream does not name one. ``reads`` and
    ``writes`` give memory, partitions, bytes, type and number of elements; ``first`` holds the first eight results of
    the first partition; ``ulp`` is the largest distance from the same operation in float64, in units of the last place
    of the destination, or None with a ``reason``.
    """
    told: Record = {
        "index": task.index,
        "engine": _engine(task),
        "opcode": task.group.stream.words[task.index, 0].item(),
        "instruction": task.row.mnemonic,
        "place": str(task.place),
        "reads": [],
        "writes": [],
        "first": [],
        "ulp": None,
        "reason": _WITHOUT.get(task.row.name, ""),
    }
    for role in task.row.roles:
        access = task.group.operands[role.field][task.at]
        told["reads" if role.access == "read" else "writes"].append(_told(role, access, memories))
        if role.access == "write":
            told["first"] = _first(access.part(0, 1))
    if wanted is not None and task.dst.dtype.is_number:
        told["ulp"] = distance(kernels.load(task.dst), wanted, task.dst.dtype)
    if told["ulp"] is None and not told["reason"]:
        told["reason"] = _reason(task, wanted)
    return told


def _engine(task: Task) -> str:
    stream = task.group.stream
    if stream.origin is not None and stream.instructions:
        return str(stream.instructions[int(stream.origin[task.index])].engine)
    return str(stream.engine)


def _first(access: Access) -> list[float | int]:
    if access.dtype.is_number and not access.dtype.is_integer:
        return kernels.load(access)[0, :_FIRST].tolist()  # type: ignore[no-any-return]
    codes = kernels.load_raw(access)[0, :_FIRST]
    return (codes.view(access.dtype.numpy) if access.dtype.is_integer else codes).tolist()  # type: ignore[no-any-return]


def _reason(task: Task, wanted: Doubles | None) -> str:
    if wanted is not None:
        return "no result is finite both here and in float64"
    code = task["op"]
    op = alu.by_byte(code)
    return f"no float64 fold stands for {op.name if op is not None else f'operator byte 0x{code:02X}'}"


def to_text(records: Sequence[Record], lines: bool) -> str:
    """Records as one JSON list, or as one JSON object per line; NaN and infinities are the words nan, inf and -inf."""
    texts = [json.dumps(_plain(told), ensure_ascii=False, allow_nan=False) for told in records]
    return "".join(f"{text}\n" for text in texts) if lines else "[\n" + ",\n".join(texts) + "\n]\n"


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


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
