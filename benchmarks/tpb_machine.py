"""Speed of the TPB machine against NumPy and onnxruntime: python benchmarks/tpb_machine.py [--markdown FILE].

Every peer is measured in the same run, on the same data, in one thread, in turns with the machine. Ratios above 1 say
how much faster the machine is. The share of read bandwidth compares with a pass of one core over as many bytes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
from harness import Table, Work, arguments, interleaved, publish, ratio, reading, second_core
from onnx import helper

from lanefold.numerics.dtypes import by_name
from lanefold.tpb import Access, Instruction, Machine, encode

LANES, WIDE = 128, 49152


class Case(NamedTuple):
    """What is done, by whom, how many bytes it reads, and the ratios required on one core and on two."""

    name: str
    peer: str
    ours: Work
    theirs: Work
    read: int
    wanted: float
    two: float | None = None


def operand(memory: str, byte: int, dtype: str, channels: int, *free: tuple[int, int]) -> Access:
    """An operand at partition 0 whose partition pitch is that of the memory."""
    pitch = {"SB": 192 * 1024, "PSUM": 16 * 1024}[memory] // by_name(dtype).bytes
    return Access(memory, 0, byte, dtype, ((pitch, channels), *free))


def machine_run(data: np.ndarray, *instructions: Instruction) -> Callable[[], object]:
    """A machine with data at byte 0 of every partition, and a run of instructions on it."""
    machine = Machine("v2")
    rows = np.ascontiguousarray(data).reshape(LANES, -1).view(np.uint8)
    machine.sbuf[:, : rows.shape[1]] = rows
    stream = encode(list(instructions), "v2")
    return lambda: machine.run(stream)


def fold(op: str, axis: str, dtype: str, source: list[tuple[int, int]], out: tuple[int, int]) -> Instruction:
    """A free-axis reduction into PSUM."""
    ins, outs = operand("SB", 0, dtype, LANES, *source), operand("PSUM", 0, "float32", LANES, out)
    return Instruction("TensorReduce", (ins,), (outs,), {"op": op, "axis": axis}, engine="DVE")


def pooling(func: str, size: int, kernel: int, stride: int) -> Instruction:
    """A pooling of square maps, results behind them in the state buffer."""
    out = (size - kernel) // stride + 1
    source = operand("SB", 0, "float32", LANES, (stride * size, out), (stride, out), (size, kernel), (1, kernel))
    target = operand("SB", 4 * size * size, "float32", LANES, (out, out), (1, out))
    return Instruction("Pool", (source,), (target,), {"func": func}, engine="Pool")


def top_eight(count: int) -> tuple[Instruction, Instruction]:
    """Max8 and MaxIndex over the first elements of every partition."""
    data = operand("SB", 0, "float32", LANES, (1, count))
    values = operand("SB", 4 * count, "float32", LANES, (1, 8))
    places = operand("SB", 4 * count + 64, "uint32", LANES, (1, 8))
    return (
        Instruction("Max", (data,), (values,), engine="DVE"),
        Instruction("MaxIndex", (values, data), (places,), engine="DVE"),
    )


def onnx_pool(op: str, data: np.ndarray, kernel: int, stride: int) -> Callable[[], object]:
    """The same pooling in onnxruntime, one thread."""
    node = helper.make_node(op, ["x"], ["y"], kernel_shape=[kernel] * 2, strides=[stride] * 2)
    value = helper.make_tensor_value_info
    shape = (1, *data.shape)
    graph = helper.make_graph(
        [node], "pool", [value("x", onnx.TensorProto.FLOAT, shape)], [value("y", onnx.TensorProto.FLOAT, None)]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), settings, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, {"x": data[None]})


def largest_eight(data: np.ndarray) -> np.ndarray:
    """Places of the eight largest of every row, in order, with NumPy."""
    chosen = np.argpartition(data, -8, axis=1)[:, -8:]
    order = np.argsort(-np.take_along_axis(data, chosen, 1), axis=1)
    return np.take_along_axis(chosen, order, 1)


def cases() -> list[Case]:
    """The rows of the table."""
    generator = np.random.default_rng(1)
    rows = generator.standard_normal((LANES, WIDE), np.float32)
    planes = rows.reshape(LANES, 64, WIDE // 64)
    brain, small = rows.astype(ml_dtypes.bfloat16), (rows * 30).astype(np.int8)
    lanes = np.ascontiguousarray(rows[:, :8192])
    long = np.ascontiguousarray(rows[:, :16384])
    maps = generator.standard_normal((LANES, 112, 112), np.float32)
    run, whole = (1, WIDE), (1, 1)
    down, right = (WIDE // 64, 64), (1, WIDE // 64)
    cross = Instruction(
        "TensorReduce",
        (operand("SB", 0, "float32", LANES, (1, 8192)),),
        (operand("SB", 65536, "float32", 1, (1, 8192)),),
        {"op": "add", "axis": "C"},
        engine="Pool",
    )
    table = [
        Case(
            "TensorReduce add X, serial",
            "numpy.sum",
            machine_run(rows, fold("add", "X", "float32", [run], whole)),
            lambda: rows.sum(axis=1),
            rows.nbytes,
            1.15,
            2.2,
        ),
        Case(
            "TensorReduce max XY",
            "numpy.max",
            machine_run(rows, fold("max", "XY", "float32", [down, right], whole)),
            lambda: planes.max(axis=(1, 2)),
            rows.nbytes,
            1.0,
        ),
        Case(
            "TensorReduce add over Y",
            "numpy.sum",
            machine_run(rows, fold("add", "X", "float32", [right, down], right)),
            lambda: planes.sum(axis=1),
            rows.nbytes,
            1.0,
        ),
    ]
    for kernel in (3, 2):
        for func, op, wanted in (("Max", "MaxPool", 2.0), ("Avg", "AveragePool", 1.3)):
            ours = machine_run(maps, pooling(func, 112, kernel, 2))
            theirs = onnx_pool(op, maps, kernel, 2)
            table.append(Case(f"Pool {func} {kernel}x{kernel} s2", "onnxruntime", ours, theirs, maps.nbytes, wanted))
    table += [
        Case(
            "Max8 + MaxIndex, 16384",
            "argpartition",
            machine_run(long, *top_eight(16384)),
            lambda: largest_eight(long),
            2 * long.nbytes,
            3.0,
        ),
        Case(
            "cross-lane add C, 8192",
            "numpy.sum",
            machine_run(lanes, cross),
            lambda: lanes.sum(axis=0),
            lanes.nbytes,
            0.8,
        ),
        Case(
            "add X from bfloat16",
            "ml_dtypes sum",
            machine_run(brain, fold("add", "X", "bfloat16", [run], whole)),
            lambda: brain.sum(axis=1),
            brain.nbytes,
            5.0,
        ),
        Case(
            "add X from int8",
            "astype + sum",
            machine_run(small, fold("add", "X", "int8", [run], whole)),
            lambda: small.astype(np.float32).sum(axis=1),
            small.nbytes,
            5.0,
        ),
    ]
    return table


@contextmanager
def on_cores(name: str) -> Iterator[None]:
    """The first core for what is named so, the first two for ``two``; the loops see no others."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(allowed)[: 2 if name == "two" else 1])
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def small_instruction() -> float:
    """Seconds per instruction in a stream of small reductions."""
    count = 4000
    source = operand("SB", 0, "float32", 4, (1, 16))
    instructions = [
        Instruction(
            "TensorReduce",
            (source,),
            (operand("SB", 4096 + 4 * (n % 1000), "float32", 4, (1, 1)),),
            {"op": "add", "axis": "X"},
            engine="DVE",
        )
        for n in range(count)
    ]
    machine, stream = Machine("v2"), encode(instructions, "v2")
    return interleaved({"one": lambda: machine.run(stream)}, within=on_cores)["one"] / count


def measured(case: Case) -> tuple[str, ...]:
    """The cells of one row."""
    works = {"peer": case.theirs, "one": case.ours, "two": case.ours, "read": reading(case.read)}
    found = interleaved(works, within=on_cores)
    one, required = ratio(found["peer"] / found["one"], case.wanted)
    two, both = ratio(found["peer"] / found["two"], case.two)
    times = [f"{found[name] * 1e3:.3f}" for name in ("one", "two", "peer")]
    return (case.name, case.peer, one, required, two, both, *times, f"{found['read'] / found['one']:.0%}")


def main() -> None:
    """Print the table."""
    given = arguments(__doc__).parse_args()
    columns = (
        "work", "against", "ratio, one core", "required", "ratio, two cores", "required",
        "one core, ms", "two cores, ms", "peer, ms", "of read bandwidth",
    )  # fmt: skip
    rows = [measured(case) for case in cases()]
    notes = [
        "The peer runs in one thread. Share of read bandwidth: one core, beside a pass over as many bytes.",
        second_core(),
        f"One small instruction in a stream of 4,000: {small_instruction() * 1e6:.1f} µs.",
    ]
    publish(Table("tpb_machine", "TPB machine", columns, rows, notes), given.markdown)


if __name__ == "__main__":
    main()
