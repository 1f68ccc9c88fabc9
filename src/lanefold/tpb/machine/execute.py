"""What every instruction computes, on operands in memory."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lanefold.diagnostics import Rule
from lanefold.numerics import alu, casts, kernels
from lanefold.numerics.dtypes import Dtype, by_name
from lanefold.numerics.kernels import Access
from lanefold.tpb import isa
from lanefold.tpb.machine import integers
from lanefold.tpb.machine.tasks import Task

if TYPE_CHECKING:
    from lanefold.tpb.machine import Machine

Floats = npt.NDArray[np.float32]
Wholes = npt.NDArray[np.int64]

_OPERATOR = Rule(
    "TPB-MACHINE-OPERATOR",
    "A fold uses an operator whose meaning on its elements is known.",
    "AluOpType table; BIR simulator: reduce operators",
)
_STATE = Rule(
    "TPB-MACHINE-STATE",
    "A search follows a MatchValueLoad, a gather a PoolBufferLoad, over at least as many partitions.",
    "ISA headers: FindIndex8, MatchReplace8, Gather",
)

_FLOAT32 = by_name("float32")
LOWEST = -float(np.finfo(np.float32).max)
_INT32 = "int32"
_ADD, _MAX = alu.by_name("add"), alu.by_name("max")
_AVERAGE = alu.by_name("average")
REDUCE_OPS = {value.number: alu.by_name(value.name) for value in isa.ENUMS["reduce_op"]}
_EVERYTHING = next(value.number for value in isa.ENUMS["reduce_axis"] if value.name == "ALL")
_SKIP_WRITE = next(value.number for value in isa.ENUMS["index_miss"] if value.name == "SKIP_WRITE")
_POOL_MAX = isa.BIR_POOL_FUNCTIONS["Max"]
_FIRST_INTEGER = min(row.code for row in alu.WIRE_ALU if row.name.endswith("_INT"))
# Operators of the integer engine that fold int32 exactly as a BIR operator does.
_INTEGER_OPS = {
    "ADD_INT": "add",
    "MULT_INT": "mult",
    "SUBTRACT_INT": "subtract",
    "DIVIDE_INT": "divide",
    "MOD_INT": "mod_int",
    "IS_EQUAL_INT": "is_equal",
    "IS_NE_INT": "not_equal",
    "IS_GT_INT": "is_gt",
    "IS_GE_INT": "is_ge",
    "IS_LE_INT": "is_le",
    "IS_LT_INT": "is_lt",
    "ABS_MAX_INT": "abs_max",
    "ABS_MIN_INT": "abs_min",
    "ABS_VALUE_INT": "abs",
    "MAX_INT": "max",
    "MIN_INT": "min",
}


def inner_slots(task: Task, field: str) -> int:
    """How many slots a pool_dim or op_dim names."""
    return isa.FOLDED_SLOTS[task[field]]


def is_pool_max(task: Task) -> bool:
    """Whether a pooling takes maxima."""
    return bool(task["pool_func"] == _POOL_MAX)


def is_everything(task: Task) -> bool:
    """Whether a cross-lane fold takes all elements to one."""
    return bool(task["reduce_axis"] == _EVERYTHING)


def pool(machine: Machine, task: Task) -> None:
    """Maximum or average of each window."""
    source, inner = task.src, inner_slots(task, "pool_dim")
    if is_pool_max(task):
        start = -math.inf if machine.options.device else LOWEST
        machine.fold(task, source, inner, _MAX, start=start)
        return
    double = not machine.options.device
    factor = 1.0 / math.prod(source.nums[:inner]) if double else task["pool_scale"]
    if machine.options.pool_sum == "lanes4":
        results = kernels.sum_in_fours(source, inner, factor, double)
        machine.note_fold(source, inner, _ADD, results)
        machine.write(task, results)
    else:
        machine.fold(task, source, inner, _ADD, start=0.0, factor=factor, double_factor=double)


def max_pool_select(machine: Machine, task: Task) -> None:
    """Position of the first largest element of each window; a window without one above the start value gives 0."""
    source, inner = task.src, inner_slots(task, "pool_dim")
    values = kernels.load(source).reshape(source.channels, -1, math.prod(source.nums[:inner]))
    lowest = np.float32(-np.inf if machine.options.device else LOWEST)
    places = np.fmax(values, lowest).argmax(axis=2)
    machine.write_codes(task, casts.narrow_integers(places, task.dst.dtype))


def _tensor_operator(machine: Machine, task: Task) -> alu.AluOp:
    code = task["op"]
    op = alu.by_byte(code)
    if op is None:
        row = alu.wire_alu(code, machine.generation)
        raise _no_meaning(task, f"operator byte 0x{code:02X}, {row.name}, has no published meaning")
    return op


def _no_meaning(task: Task, why: str) -> Exception:
    return _OPERATOR.error(
        f"{task.row.mnemonic}: {why}",
        got=f"0x{task['op']:02X}",
        allowed="operators with an fp32 meaning; from int32 to int32, with an int32 meaning; integer operators on "
        "integers of up to 4 bytes; bit operators on raw bits",
        cures=["use 0x04, ADD, on numbers", "use 0x0B, BITWISE_OR, on bits"],
        place=task.place,
    )


def tensor_reduce(machine: Machine, task: Task) -> None:
    """Fold of the innermost slots in fp32; exactly from int32 to int32 and with the integer operators."""
    _reduce(machine, task, task.src)


def _reduce(machine: Machine, task: Task, source: Access) -> None:
    inner = inner_slots(task, "op_dim")
    negate = bool(task["negated"])
    code = task["op"]
    name = alu.wire_alu(code, machine.generation).name if code >= _FIRST_INTEGER else ""
    whole = source.dtype.name == task.dst.dtype.name == _INT32
    if integers.has_meaning(name) and not (whole and name in _INTEGER_OPS):
        _reduce_lanes(machine, task, source, inner, name)
        return
    op = alu.by_name(_INTEGER_OPS[name]) if name in _INTEGER_OPS else _tensor_operator(machine, task)
    if whole:
        _reduce_whole(machine, task, source, inner, op, negate)
        return
    if not op.fp32:
        raise _no_meaning(task, f"{op.name} has no fp32 meaning")
    machine.fold(task, source, inner, op, accumulate=machine.options.accumulate, negate=negate)


def _reduce_whole(machine: Machine, task: Task, source: Access, inner: int, op: alu.AluOp, negate: bool) -> None:
    if not op.int32 or op.bitvec:
        raise _no_meaning(task, f"{op.name} has no int32 meaning in an arithmetic fold")
    saturate = not machine.options.device
    values = kernels.fold_whole(source, inner, op, raw=False, saturate=saturate)
    machine.note_whole_fold(source, inner, op, values)
    machine.write_codes(task, _finished(machine, task, -values if negate else values))


def _finished(machine: Machine, task: Task, values: Wholes) -> Wholes:
    """Whole results with what stood in the destination before, if that is asked for, in 32 bits."""
    if machine.options.accumulate:
        before = kernels.load_raw(task.dst).view(task.dst.dtype.numpy).astype(np.int64)
        values = values.reshape(before.shape) + before
    return integers.fitted(values, saturate=not machine.options.device)


def _reduce_lanes(machine: Machine, task: Task, source: Access, inner: int, name: str) -> None:
    dtype, target = source.dtype, task.dst.dtype
    if not dtype.is_integer or dtype.bytes > 4:
        raise _no_meaning(task, f"{name} folds integers of up to 4 bytes, and gets {dtype.name}")
    values = kernels.load_raw(source).view(dtype.numpy).astype(np.int64)
    values = values.reshape(source.channels, -1, math.prod(source.nums[:inner]))
    saturate = not machine.options.device
    results = integers.fold(values, name, saturate)
    machine.note_lanes(values, name, results)
    if task["negated"]:
        results = integers.fitted(-results, saturate)
    if machine.options.accumulate and target.is_integer:
        results = _finished(machine, task, results)
    if dtype.name == target.name:
        machine.write_codes(task, results)
    elif target.is_integer:
        machine.note_clamped(results, target)
        machine.write_codes(task, casts.narrow_integers(results, target))
    else:
        machine.write(task, results.astype(np.float32))


def tensor_reduce_bits(machine: Machine, task: Task) -> None:
    """Fold of the innermost slots on raw bits."""
    _reduce_bits(machine, task, task.src)


def _reduce_bits(machine: Machine, task: Task, source: Access) -> None:
    op = _tensor_operator(machine, task)
    if not op.bits:
        raise _no_meaning(task, f"{op.name} has no meaning on raw bits")
    machine.write_codes(task, kernels.fold_whole(source, inner_slots(task, "op_dim"), op, raw=True))


def _as_memory(task: Task, values: npt.NDArray[Any], dtype: Dtype) -> Access:
    """Exchanged elements [channels, elements] as an operand with the shape of the source."""
    nums = task.src.nums
    steps = tuple(math.prod(nums[:k]) for k in range(len(nums)))
    spare = -(values.shape[1] * values.itemsize) % 8 // values.itemsize
    padded = np.pad(values, ((0, 0), (0, spare))) if spare else values
    return Access(padded.view(np.uint8), dtype, 0, values.shape[0], 0, nums, steps)


def exchanged(task: Task) -> Access:
    """The source as float32 after the exchange of partitions and elements in 32 x 32 blocks."""
    return _as_memory(task, kernels.exchange32(kernels.load(task.src)), _FLOAT32)


def exchanged_bits(task: Task) -> Access:
    """The same on raw bits."""
    return _as_memory(task, kernels.exchange32(kernels.load_raw(task.src)), task.src.dtype)


def transposed_reduce(machine: Machine, task: Task) -> None:
    """Exchange in 32 x 32 blocks, then an arithmetic fold."""
    _reduce(machine, task, exchanged(task))


def transposed_reduce_bits(machine: Machine, task: Task) -> None:
    """Exchange in 32 x 32 blocks, then a fold on raw bits."""
    _reduce_bits(machine, task, exchanged_bits(task))


def reciprocal(machine: Machine, task: Task) -> None:
    """1/x of every element."""
    machine.write(task, kernels.reciprocal(task.src))


def _command(task: Task) -> alu.AluOp:
    return REDUCE_OPS[task["reduce_op"]]


def _across(machine: Machine, task: Task, source: Access) -> None:
    everything = is_everything(task)
    op = _command(task)
    wraps = machine.options.device and source.dtype.name == task.dst.dtype.name == _INT32
    if wraps and op is not _AVERAGE:
        machine.write_codes(
            task, kernels.cross_lane_whole(source, op, everything=everything, raw=False, saturate=False)
        )
        return
    scale = task["scale"]
    if machine.options.cross_lane_average == "product":
        scale = float(np.float32(1.0 / (source.channels * source.elements)))
    results = kernels.cross_lane(
        source, op, everything=everything, scale=scale, keep_first_nan=task.dst.dtype.is_integer
    )
    machine.note_across(source, op, everything, results)
    machine.write(task, results)


def cross_lane(machine: Machine, task: Task) -> None:
    """Sum, average or maximum across partitions, ascending."""
    _across(machine, task, task.src)


def cross_lane_bits(machine: Machine, task: Task) -> None:
    """Bitwise fold across partitions."""
    everything = is_everything(task)
    machine.write_codes(task, kernels.cross_lane_whole(task.src, _command(task), everything=everything))


def transposed_cross_lane(machine: Machine, task: Task) -> None:
    """Exchange in 32 x 32 blocks, then sum, average or maximum across partitions."""
    _across(machine, task, exchanged(task))


def transposed_cross_lane_bits(machine: Machine, task: Task) -> None:
    """Exchange in 32 x 32 blocks, then a bitwise fold across partitions."""
    everything = is_everything(task)
    machine.write_codes(task, kernels.cross_lane_whole(exchanged_bits(task), _command(task), everything=everything))


def max8(machine: Machine, task: Task) -> None:
    """The eight largest elements, written smallest first."""
    taken = kernels.max8(task.src, drop_nan=machine.options.device)
    machine.note_eight(task.src, taken)
    machine.write(task, taken[:, ::-1])


def match_value_load(machine: Machine, task: Task) -> None:
    """Loads the keys of a search; key k goes to register 7 - k."""
    machine.registers = kernels.load(task.src)[:, ::-1].copy()


def _registers(machine: Machine, task: Task) -> Floats:
    loaded = machine.registers
    if loaded is None or len(loaded) < task.src.channels:
        raise _missing(task, "match registers", 0 if loaded is None else len(loaded), "MatchValueLoad")
    return loaded[: task.src.channels]


def _missing(task: Task, what: str, loaded: int, needed: str) -> Exception:
    return _STATE.error(
        f"{task.row.mnemonic} uses the {what} of {task.src.channels} partitions, {loaded} are loaded",
        got=f"{loaded} partitions",
        allowed=f"{task.src.channels} partitions or more",
        cures=[f"put a {needed} over the same partitions in front"],
        place=task.place,
    )


def find_index8(machine: Machine, task: Task) -> None:
    """Where the keys stand; all ones for a key that is absent."""
    absent = (1 << 8 * task.dst.dtype.bytes) - 1
    places = kernels.find_index8(task.src, _registers(machine, task), absent)
    machine.note("absent_keys", int((places == absent).sum()))
    machine.write_codes(task, places)


def match_replace8(machine: Machine, task: Task) -> None:
    """The elements, with one per key overwritten by the immediate."""
    registers = _registers(machine, task)
    if machine.options.match_order == "value":
        registers = registers[:, ::-1]
    values, places = kernels.match_replace8(task.src, registers, task["immediate"])
    machine.note("absent_keys", int((places < 0).sum()))
    machine.write(task, values)


def iota(machine: Machine, task: Task) -> None:
    """A counting pattern in wrapping int32; channel 0 is the first partition of the destination."""
    nums, steps = tuple(task["num_elem"]), tuple(task["step_elem"])
    target = task.dst
    made = kernels.iota(target.channels, task["base"], task["channel_multiplier"], nums, steps)
    if target.dtype.is_integer:
        machine.note_clamped(made, target.dtype)
        machine.write_codes(task, casts.narrow_integers(made, target.dtype))
    else:
        machine.write(task, made.astype(np.float32))


def pool_buffer_load(machine: Machine, task: Task) -> None:
    """Copies a chunk of raw elements to the pool buffer."""
    machine.buffer = (kernels.load_raw(task.src), task["start_index"], task["mask"])


def gather(machine: Machine, task: Task) -> None:
    """Looks indices up in the pool buffer."""
    if machine.buffer is None or len(machine.buffer[0]) < task.src.channels:
        raise _missing(task, "pool buffer", 0 if machine.buffer is None else len(machine.buffer[0]), "PoolBufferLoad")
    table, window, mask = machine.buffer
    target = task.dst
    if table.itemsize != target.dtype.bytes:
        raise _STATE.error(
            f"the buffer holds elements of {table.itemsize} bytes, the destination of {target.dtype.bytes}",
            got=f"{target.dtype.bytes} bytes",
            allowed=f"{table.itemsize} bytes",
            cures=["give PoolBufferLoad and Gather the same element type"],
            place=task.place,
        )
    if task["index_miss_behavior"] == _SKIP_WRITE:
        out = kernels.load_raw(target)
    else:
        fill = task["immediate"] & ((1 << 8 * target.dtype.bytes) - 1)
        out = np.full((target.channels, target.elements), fill, target.dtype.raw)
    indices = kernels.load_raw(task.src)
    hits = kernels.look_up(np.ascontiguousarray(table[: len(indices)]), window, mask, indices, out)
    machine.note("missed_indices", int((~hits).sum()))
    machine.write_codes(task, out)
    if task["free_pool_buffer"]:
        machine.buffer = None


ACCUMULATING = (
    "tensor_reduce_arith",
    "transpose_tensor_reduce_arith",
    "tensor_reduce_add_bf16",
    "tensor_reduce_max_bf16",
)
"""Instructions that read their destination where the option ``accumulate`` is chosen."""

EXECUTORS: dict[str, Callable[[Machine, Task], None]] = {
    "pool": pool,
    "max_pool_select": max_pool_select,
    "tensor_reduce_arith": tensor_reduce,
    "tensor_reduce_bitvec": tensor_reduce_bits,
    "transpose_tensor_reduce_arith": transposed_reduce,
    "transpose_tensor_reduce_bitvec": transposed_reduce_bits,
    "tensor_reduce_add_bf16": tensor_reduce,
    "tensor_reduce_max_bf16": tensor_reduce,
    "reciprocal": reciprocal,
    "cross_lane_reduce_arith": cross_lane,
    "cross_lane_reduce_bitvec": cross_lane_bits,
    "transpose_cross_lane_reduce_arith": transposed_cross_lane,
    "transpose_cross_lane_reduce_bitvec": transposed_cross_lane_bits,
    "max8": max8,
    "match_value_load": match_value_load,
    "find_index8": find_index8,
    "match_replace8": match_replace8,
    "iota": iota,
    "pool_buffer_load": pool_buffer_load,
    "gather": gather,
}
"""What is called for every instruction, by its name in the instruction table."""
