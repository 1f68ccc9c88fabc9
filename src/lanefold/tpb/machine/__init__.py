"""The machine: on-chip memories and the execution of bundles, from their bytes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from lanefold.arguments import refused
from lanefold.diagnostics import Cure, LanefoldError, Rule
from lanefold.numerics import alu, kernels
from lanefold.numerics.dtypes import Dtype
from lanefold.numerics.kernels import Access
from lanefold.tpb import isa
from lanefold.tpb.binary import Stream, layout
from lanefold.tpb.binary.stream import as_stream
from lanefold.tpb.machine import counting, integers, tracing
from lanefold.tpb.machine.execute import ACCUMULATING, EXECUTORS
from lanefold.tpb.machine.options import CHOICES, NUMERICS, Options, options
from lanefold.tpb.machine.refusals import of_generation, stopping
from lanefold.tpb.machine.sync import Semaphores, run_together
from lanefold.tpb.machine.tasks import Memories, Task, element_types, tasks

__all__ = ["CHOICES", "NUMERICS", "Machine", "Options"]

_UNWRITTEN = Rule(
    "TPB-MACHINE-UNINITIALISED",
    "With track_uninitialised an instruction reads only bytes that were marked as written before.",
    "BIR simulator: uninitialised memory",
)
_NAN = Rule(
    "TPB-MACHINE-NAN",
    "With nan_store=error no instruction may leave a NaN in memory.",
    "BIR simulator: a NaN marks uninitialised memory",
)
_KEPT_STREAMS, _KEPT_BUNDLES = 64, 4096
_CACHE_LINE = 64


class Machine:
    """SBUF, PSUM and the engines of one NeuronCore.

    ``sbuf`` is uint8 [128, bytes per partition of the generation], ``psum`` uint8 [128, 16384]; both may be read and
    written at any time. ``counters`` says what was counted so far.

    Args:
        generation: ``"v2"``, ``"v3"`` or ``"v4"``.
        numerics: ``"birsim"`` or ``"device"``.
        chosen: further options, see `Options`.

    Raises:
        LanefoldError: for unknown generations, options and values.
    """

    def __init__(self, generation: str = "v2", numerics: str = "birsim", **chosen: object) -> None:
        self.generation: isa.Generation = layout.check_generation(generation)
        self.options = options(numerics=numerics, **chosen)
        geometry = isa.GEOMETRY[self.generation]
        self.sbuf = _zeros(geometry.partitions, geometry.sbuf_bytes)
        self.psum = _zeros(geometry.partitions, geometry.psum_bytes)
        self.counters: dict[str, int] = dict.fromkeys(counting.COUNTERS, 0)
        self.registers: npt.NDArray[np.float32] | None = None
        self.buffer: tuple[npt.NDArray[Any], int, int] | None = None
        self.semaphores = Semaphores()
        self._types = element_types(self.generation, self.options)
        self._saturate = self.options.fp8_overflow == "saturate"
        self._kept: dict[tuple[object, ...], tuple[object, object, list[Task]]] = {}
        self._written: dict[int, npt.NDArray[np.bool_]] = {}
        if self.options.track_uninitialised:
            self._written = {id(memory): np.zeros(memory.shape, np.bool_) for memory in (self.sbuf, self.psum)}

    def __repr__(self) -> str:
        seen = ", ".join(f"{name.replace('_', ' ')} {count}" for name, count in self.counters.items() if count)
        geometry = isa.GEOMETRY[self.generation]
        memories = f"SBUF {geometry.partitions} × {geometry.sbuf_bytes} bytes, numerics {self.options.numerics}"
        return f"<Machine {self.generation}, {memories}; counted: {seen or 'nothing unusual'}>"

    def run(self, program: Stream | Mapping[str, Stream], trace: tracing.Trace | None = None) -> None:
        """Executes a stream, or the streams of several engines together.

        A lone stream runs in order and its waits are taken as met. Streams given by engine name run side by side:
        each bundle waits for its condition, then acts, then updates. ``trace`` is called after every bundle with a
        record of plain data: operands, first results, and the largest distance from the same fold in double.

        Raises:
            LanefoldError: before anything is executed if a stream is illegal or reaches outside the memory; later for
                deadlocks and for the findings of the options ``nan_store`` and ``track_uninitialised``.
        """
        if trace is not None and not callable(trace):
            raise refused("Machine.run", "trace", trace, "a function of one record, or None", "leave trace out")
        execute = self._execute if trace is None else partial(self._traced, trace)
        if not isinstance(program, Mapping):
            with np.errstate(all="ignore"):
                for task in self._prepared(of_generation(as_stream(program), self.generation)):
                    execute(task)
            return
        prepared = {
            engine: self._prepared(of_generation(as_stream(stream), self.generation))
            for engine, stream in program.items()
        }
        with np.errstate(all="ignore"):
            run_together(prepared, program, self.semaphores, execute)

    def _prepared(self, stream: Stream) -> list[Task]:
        # The same bundles come again and again in a network; what was checked and located once is kept.
        first = -1 if stream.origin is None or not len(stream) else int(stream.origin[0])
        key = (stream.words.tobytes(), stream.generation, stream.opcodes, id(stream.instructions), first)
        memories = Memories(self.sbuf, self.psum)
        kept = self._kept.get(key)
        if kept is not None and kept[0] is memories.sbuf and kept[1] is memories.psum:
            return kept[2]
        found = stopping(stream, self.options.legality)
        if found:
            raise LanefoldError(found)
        listed = _load_first(tasks(stream, memories, self._types), stream.opcodes)
        if len(listed) <= _KEPT_BUNDLES:
            while len(self._kept) >= _KEPT_STREAMS:
                del self._kept[next(iter(self._kept))]
            # The tasks hold the stream, so that the identity in the key stays its own.
            self._kept[key] = (memories.sbuf, memories.psum, listed)
        return listed

    def _traced(self, trace: tracing.Trace, task: Task) -> None:
        wanted = tracing.reference(task)
        self._execute(task)
        trace(tracing.record(task, Memories(self.sbuf, self.psum), wanted))

    def _execute(self, task: Task) -> None:
        if self._written:
            self._require_written(task)
        EXECUTORS[task.group.row.name](self, task)

    def tensor_average(self, values: npt.ArrayLike) -> npt.NDArray[np.float32]:
        """Averages of the last axis as TensorReduce of the simulator takes them, in float32.

        The first element is divided by N, each further one is added in order as `Options.average_step` says. No bundle
        asks for it: the operator has no byte. Source: BIR simulator, reduce functors.
        """
        given = np.asarray(values, np.float32)
        count = np.float32(given.shape[-1])
        terms = given / count
        if self.options.average_step == "multiply":
            terms[..., 1:] = given[..., 1:] * np.float32(1.0 / given.shape[-1])
        return np.asarray(np.add.accumulate(terms, axis=-1)[..., -1], np.float32)

    # What the instructions call

    def write(self, task: Task, values: npt.NDArray[np.float32]) -> None:
        """Casts float32 results, in pattern order, and writes them to the destination of a task.

        Raises:
            LanefoldError: for a NaN where `Options.nan_store` is ``error``.
        """
        target = task.dst
        if self.options.count:
            self.note("saturated", counting.saturated(values, target.dtype, self._saturate))
            self.note("nan_stored", int(np.isnan(values).sum()) if target.dtype.is_float else 0)
            self.note("overflow_in_final_cast", counting.overflowed(values, target.dtype, self._saturate))
        if self.options.nan_store == "error" and np.isnan(values).any() and target.dtype.is_float:
            raise _NAN.error(
                f"{task.row.mnemonic} writes {int(np.isnan(values).sum())} NaN",
                got="NaN",
                allowed="numbers",
                cures=[Cure("run with nan_store='allow'", {"nan_store": "allow"})],
                place=task.place,
            )
        kernels.store(target, values, self._saturate)
        self._mark(target)

    def fold(self, task: Task, source: Access, inner: int, op: alu.AluOp, accumulate: bool = False, **how: Any) -> None:
        """Folds a source in float32 and writes the results to the destination of a task; see `kernels.fold`.

        With ``accumulate`` what stood in the destination before is added to them.
        """
        if accumulate or self.options.count or self.options.nan_store == "error":
            results = kernels.fold(source, inner, op, keep_first_nan=task.dst.dtype.is_integer, **how)
            self.note_fold(source, inner, op, results, how.get("start"))
            if accumulate:
                results += kernels.load(task.dst).reshape(results.shape)
            self.write(task, results)
            return
        kernels.fold_into(task.dst, source, inner, op, saturate=self._saturate, **how)
        self._mark(task.dst)

    def write_codes(self, task: Task, codes: npt.NDArray[Any]) -> None:
        """Writes bits, in pattern order, to the destination of a task."""
        kernels.store_raw(task.dst, codes)
        self._mark(task.dst)

    def note(self, counter: str, amount: int) -> None:
        """Adds to a counter."""
        self.counters[counter] += amount

    def note_fold(
        self,
        source: Access,
        inner: int,
        op: alu.AluOp,
        results: npt.NDArray[np.float32],
        start: float | None = None,
    ) -> None:
        """Counts what a float32 fold over the ``inner`` innermost slots passed over, if counting is on."""
        if self.options.count:
            self._add(counting.fold(source, inner, op, results, start))

    def note_across(self, source: Access, op: alu.AluOp, everything: bool, results: npt.NDArray[np.float32]) -> None:
        """The same for a fold across partitions."""
        if self.options.count:
            self._add(counting.across(source, op, everything, results))

    def note_eight(self, source: Access, taken: npt.NDArray[np.float32]) -> None:
        """The same for the choice of the eight largest."""
        if self.options.count:
            self._add(counting.eight(source, taken))

    def note_whole_fold(self, source: Access, inner: int, op: alu.AluOp, values: npt.NDArray[np.int64]) -> None:
        """Counts the results of an int32 fold that left the range on their way, if counting is on."""
        if self.options.count:
            other = kernels.fold_whole(source, inner, op, raw=False, saturate=self.options.device)
            self.note("integer_overflows", int((other != values).sum()))
            if integers.divides(op.name):
                self.note("divisions_by_zero", counting.zero_divisors(counting.whole_groups(source, inner)))

    def note_lanes(self, values: npt.NDArray[np.int64], name: str, results: npt.NDArray[np.int64]) -> None:
        """The same for a fold of an integer operator over the last axis of ``values``."""
        if self.options.count:
            other = integers.fold(values, name, saturate=self.options.device)
            self.note("integer_overflows", int((other != results).sum()))
            if integers.divides(name):
                self.note("divisions_by_zero", counting.zero_divisors(values))

    def note_clamped(self, values: npt.NDArray[Any], dtype: Dtype) -> None:
        """Counts whole numbers that a type cannot hold, if counting is on."""
        if self.options.count:
            self.note("saturated", counting.clamped(values, dtype))

    def _add(self, found: Mapping[str, int]) -> None:
        for name, amount in found.items():
            self.counters[name] += amount

    # Uninitialised memory

    def mark_written(self, memory: str, partition: int, partitions: int, byte: int, count: int) -> None:
        """Tells a machine with ``track_uninitialised`` that bytes of ``"SB"`` or ``"PSUM"`` hold data."""
        marks = self._written.get(id(self.sbuf if memory == "SB" else self.psum))
        if marks is not None:
            marks[partition : partition + partitions, byte : byte + count] = True

    def _mark(self, target: Access) -> None:
        if self._written:
            ones = np.full((target.channels, target.elements), _marked(target.dtype), target.dtype.raw)
            kernels.store_raw(target.over(self._written[id(target.memory)].view(np.uint8)), ones)

    def _require_written(self, task: Task) -> None:
        for role in task.row.roles:
            access = task.group.operands[role.field][task.at]
            accumulates = self.options.accumulate and task.row.name in ACCUMULATING
            if role.access != "read" and not accumulates:
                continue
            marks = self._written[id(access.memory)]
            shadow = kernels.load_raw(access.over(marks.view(np.uint8)))
            missing = int((shadow != _marked(access.dtype)).sum())
            if missing:
                raise _UNWRITTEN.error(
                    f"{task.row.mnemonic} reads {missing} element{'s' * (missing != 1)} of {role.field} that nothing "
                    "has written",
                    got=f"{missing} of {shadow.size} elements",
                    allowed="elements that were written before",
                    cures=["call mark_written for data put in by hand", "run with track_uninitialised=False"],
                    place=task.place,
                )


def _marked(dtype: Dtype) -> int:
    """An element all of whose bytes are marked as written."""
    return int.from_bytes(b"\1" * dtype.bytes, "little")


def _zeros(partitions: int, width: int) -> npt.NDArray[np.uint8]:
    # Memory begins at a cache line, so that aligned vectors of the loops never cross two of them.
    size = partitions * width
    raw = np.zeros(size + _CACHE_LINE, np.uint8)
    first = -raw.ctypes.data % _CACHE_LINE
    return raw[first : first + size].reshape(partitions, width)


def _load_first(listed: list[Task], reading: isa.Reading) -> list[Task]:
    """The two halves of a gather chunk act as one, the buffer first, whichever order the reading emits."""
    earlier, later = isa.GATHER_ORDER[reading]
    if later != "pool_buffer_load":
        return listed
    at = 0
    while at + 1 < len(listed):
        if listed[at].row.name == earlier and listed[at + 1].row.name == later:
            listed[at], listed[at + 1] = listed[at + 1], listed[at]
            at += 1
        at += 1
    return listed
