"""Programs and what they are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from lanefold import arguments
from lanefold.diagnostics import Diagnostic, LanefoldError, Place, Rule, number_of
from lanefold.host import HostStep
from lanefold.ops import Op
from lanefold.program.files import sealed, write_folder
from lanefold.program.indices import COUNTER, outside, warn
from lanefold.program.ledger import Ledger, with_more
from lanefold.program.prices import CostRow, ProgramCost, cycles_text

if TYPE_CHECKING:
    from lanefold.program.timeline import Timeline

Array = np.ndarray[Any, np.dtype[Any]]

_FEED_NAME = Rule("PROGRAM-INPUT-NAME", "Inputs are fed by the names the program has.", "Program inputs", usage=True)
_FEED_SHAPE = Rule(
    "PROGRAM-INPUT-SHAPE", "An input has the shape the program was made for.", "Program inputs", usage=True
)
_FEED_DTYPE = Rule(
    "PROGRAM-INPUT-DTYPE", "An input has the element type the program was made for.", "Program inputs", usage=True
)
_COST_MODEL = Rule(
    "PROGRAM-COST-MODEL", "A program is priced by a cost model of its target.", "Target table", usage=True
)


_TEXT_TYPES = ("string",)


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """Name, shape and NumPy type name of an input or output; an extent that only a run can tell is -1."""

    name: str
    shape: tuple[int, ...]
    dtype: str

    def __str__(self) -> str:
        extents = "×".join("?" if extent < 0 else str(extent) for extent in self.shape)
        return f"{self.name} {self.dtype} {extents or 'scalar'}"


class Code(Protocol):
    """What a target made of one op."""

    @property
    def op(self) -> Op:
        """The op it computes."""
        ...

    @property
    def route(self) -> str:
        """The datapath its instructions take."""
        ...

    @property
    def opcodes(self) -> tuple[int, ...]:
        """Opcode bytes in order of first use; empty where the target has none."""
        ...

    @property
    def bundles(self) -> int:
        """How many instructions it is."""
        ...

    @property
    def size(self) -> int:
        """Bytes of those instructions."""
        ...

    @property
    def note(self) -> str:
        """How it was re-tiled or rewritten, empty if it was not."""
        ...

    @property
    def accumulators(self) -> tuple[str, ...]:
        """Float types in which values may be rounded on the way from input to result."""
        ...

    def run(self, machine: Any, inputs: Sequence[Array]) -> list[Array]:
        """Computes the op by executing its instructions."""
        ...

    def check(self) -> list[Diagnostic]:
        """Findings about its instructions."""
        ...

    def cost(self, model: str = "") -> list[CostRow]:
        """One price per instruction; the target's default model if none is named."""
        ...


class Target(Protocol):
    """One instruction set of one chip, with its readings."""

    @property
    def name(self) -> str:
        """The name users give it by."""
        ...

    @property
    def readings(self) -> Mapping[str, str]:
        """The named choices between documented interpretations that it follows."""
        ...

    @property
    def cost_models(self) -> tuple[str, ...]:
        """Cost models by name, the default first."""
        ...

    def check_preference(self, prefer: str, place: Place) -> None:
        """Refuses a preference that the target does not know.

        Raises:
            LanefoldError: for a word that is no preference of this target.
        """
        ...

    def lower(self, op: Op, place: Place, prefer: str = "cost") -> Code:
        """Instructions for an op.

        Raises:
            LanefoldError: where the target has no legal form for it.
        """
        ...

    def machine(self, *, count: bool = False) -> Any:
        """A fresh machine that runs this target's code; with ``count`` it fills its counters, at the price of time."""
        ...

    def counters(self, machine: Any) -> Mapping[str, int]:
        """What a machine has counted so far: NaN dropped, ties, saturations and alike."""
        ...

    def files(self, program: Program) -> dict[str, bytes]:
        """The files of a saved program."""
        ...


@dataclass(frozen=True, slots=True)
class LegStep:
    """One op on the leg: reads and writes named tensors. ``node`` is the source node it serves."""

    name: str
    op: Op
    code: Code
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    node: str = ""

    def __repr__(self) -> str:
        return f"<LegStep {self.name}: {', '.join(self.inputs)} → {', '.join(self.outputs)}, {self.code!r}>"


Step = LegStep | HostStep
Observer = Callable[[Step, Sequence[Array], Sequence[Array]], None]


@dataclass
class Program:
    """Steps in order, for one target.

    Args:
        target: what the leg steps were lowered for.
        steps: leg and host steps in order of execution.
        ledger: one row per source node.
        inputs: tensors to be fed.
        outputs: tensors the program answers with.
        name: of the source.
    """

    target: Target
    steps: tuple[Step, ...]
    ledger: Ledger
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    name: str = ""

    @property
    def leg_steps(self) -> tuple[LegStep, ...]:
        """The steps that the leg computes."""
        return tuple(step for step in self.steps if isinstance(step, LegStep))

    @property
    def without_kernel(self) -> dict[str, str]:
        """Host steps that the reference evaluator of onnx has run, and what onnxruntime has no kernel for in each."""
        return {step.name: step.no_kernel for step in self.steps if isinstance(step, HostStep) and step.no_kernel}

    @property
    def _size(self) -> str:
        words = [number_of(self.ledger.bundles, "bundle" if self.ledger.bytes else "instruction")]
        return ", ".join([*words, *([f"{self.ledger.bytes:,} bytes"] if self.ledger.bytes else [])])

    def __str__(self) -> str:
        readings = ", ".join(f"{name} {value}" for name, value in self.target.readings.items())
        host = len(self.steps) - len(self.leg_steps)
        counts = ", ".join(f"{count:,} {name}" for name, count in self.ledger.counts.items())
        ends = (", ".join(map(str, infos)) or "none" for infos in (self.inputs, self.outputs))
        leg = number_of(len(self.leg_steps), "leg step")
        if self.leg_steps:
            leg += f" of {self._size}, {cycles_text(self.ledger.cycles)} cycles"
        return "\n".join(
            [
                f"program {self.name or 'without a name'} for {self.target.name}; readings: {readings}",
                f"{number_of(len(self.ledger), 'node')}: {counts}",
                f"{leg}; {number_of(host, 'host step')}",
                " → ".join(ends),
            ]
        )

    def __repr__(self) -> str:
        name = f" {self.name}" if self.name else ""
        return f"<Program{name} for {self.target.name}: {number_of(len(self.ledger), 'node')}, {self._size}>"

    def run(
        self, feeds: Mapping[str, Array], observe: Observer | None = None, *, count: bool = False
    ) -> dict[str, Array]:
        """Runs the program: leg steps by their instructions, host steps by onnxruntime.

        A host step for which onnxruntime has no kernel is run by the reference evaluator of onnx; ``without_kernel``
        names it afterwards.

        Args:
            feeds: input arrays by name, shapes and types as in ``inputs``.
            observe: called after each step with the step, its inputs and its outputs.
            count: note in the ledger what each node passed over silently: NaN dropped, ties, saturations and alike.

        Warns:
            RuntimeWarning: a search found NaN, whose index lies outside the axis; with ``count`` the ledger has their
                number instead.

        Raises:
            LanefoldError: for every input that is missing, unknown or ill-shaped, and where a step fails.
        """
        arguments.function("run", "observe", observe, "a function of step, inputs and outputs, or None")
        count = arguments.flag("run", "count", count)
        values: dict[str, Array] = dict(check_feeds(self.inputs, feeds))
        last_use = {name: index for index, step in enumerate(self.steps) for name in step.inputs}
        kept = {info.name for info in self.outputs}
        machine = self.target.machine(count=count)
        counted: dict[str, dict[str, int]] = {}
        before: dict[str, int] = {}
        for index, step in enumerate(self.steps):
            inputs = [values[name] for name in step.inputs]
            made = step.code.run(machine, inputs) if isinstance(step, LegStep) else step.run(inputs)
            if count and isinstance(step, LegStep):
                now = dict(self.target.counters(machine))
                mine = counted.setdefault(step.node, {})
                for name, value in now.items():
                    mine[name] = with_more(name, mine.get(name, 0), value - before.get(name, 0))
                before = now
                lost = outside(step.op, made)
                if lost:
                    mine[COUNTER] = mine.get(COUNTER, 0) + lost
            elif isinstance(step, LegStep):
                warn(step.node, step.op, made)
            if observe is not None:
                observe(step, inputs, made)
            values.update(zip(step.outputs, made, strict=True))
            for name in set(step.inputs):
                if last_use[name] == index and name not in kept:
                    values.pop(name, None)
        if count:
            self.ledger = self.ledger.counting(counted)
        return {info.name: values[info.name] for info in self.outputs}

    def check(self) -> list[Diagnostic]:
        """Findings of every rule on every instruction; what is said of several steps alike is said once."""
        found = [finding for step in self.leg_steps for finding in step.code.check()]
        return list({(each.code, each.message, str(each.place)): each for each in found}.values())

    def cost(self, model: str = "") -> ProgramCost:
        """The price of all instructions under a cost model, the target's first one if none is named.

        Raises:
            LanefoldError: if the target has no such model.
        """
        model = arguments.text("cost", "model", model, self.target.cost_models)
        rows = tuple(row for step in self.leg_steps for row in _named(step, step.code.cost(model)))
        if rows or model in ("", *self.target.cost_models):
            chosen = rows[0].model if rows else model or self.target.cost_models[0]
            return ProgramCost(rows, chosen, self.target.name)
        raise _COST_MODEL.error(
            f"target {self.target.name} has no cost model {model!r}",
            got=repr(model),
            allowed=", ".join(self.target.cost_models),
            cures=[f"use {self.target.cost_models[0]}"],
        )

    def timeline(self, model: str = "", drawn: str = "high") -> Timeline:
        """When each instruction, transfer and host step runs at the earliest, the critical path, and the total.

        Args:
            model: cost model, the target's first one if empty.
            drawn: draw the ``low`` or the ``high`` durations.

        Raises:
            LanefoldError: if there is no such model or bound.
        """
        from lanefold.program.timeline import timeline

        named = arguments.text("timeline", "model", model, self.target.cost_models)
        if not self.leg_steps:
            self.cost(named)
        return timeline(self, named, arguments.text("timeline", "drawn", drawn, ("high", "low")))

    def save(self, path: str | Path) -> Path:
        """Writes the program into a folder, whole or not at all; `lanefold.load` reads it back.

        Raises:
            LanefoldError: if the folder cannot be written or is taken by something else.
        """
        return write_folder(path, sealed(self.target.files(self)))


def _named(step: LegStep, rows: Sequence[CostRow]) -> list[CostRow]:
    """The rows of a step; those that know their operation alone are named after the step, as others are."""
    return [
        row if row.node else replace(row, node=step.node, instruction=f"{step.name}.{number} {row.instruction}")
        for number, row in enumerate(rows)
    ]


def check_feeds(inputs: Sequence[TensorInfo], feeds: Mapping[str, Array]) -> dict[str, Array]:
    """The feeds themselves, if they fit.

    Raises:
        LanefoldError: with one finding for every name, shape or type that does not.
    """
    wanted = {info.name: info for info in inputs}
    names = ", ".join(wanted) or "none"
    example = "{" + ", ".join(f"{name!r}: array" for name in wanted) + "}"
    feeds = arguments.mapping("run", "feeds", feeds, f"a mapping from the names of the inputs ({names})", example)
    found = [
        _FEED_NAME.finding(
            f"the program has no input {name!r}",
            got=name,
            allowed=names,
            place=Place(operand=name),
            cures=[f"feed {names}" if wanted else "feed nothing: the program has no inputs"],
        )
        for name in feeds
        if name not in wanted
    ]
    arrays: dict[str, Array] = {}
    for info in inputs:
        if info.name in feeds:
            arrays[info.name] = _fed(info, feeds[info.name])
            found += _unfit(info, arrays[info.name])
        else:
            found.append(
                _FEED_NAME.finding(
                    f"input {info.name!r} is missing",
                    got="nothing",
                    allowed=f"{info.dtype} of shape {list(info.shape)}",
                    place=Place(operand=info.name),
                    cures=[f"feed {info.name!r}"],
                )
            )
    if found:
        raise LanefoldError(found, usage=True)
    # Machine and host read memory as it lies, so other byte orders are turned into the native one here.
    return {name: _native(value) for name, value in arrays.items()}


def _fed(info: TensorInfo, value: object) -> Array:
    """A feed as an array; texts stay texts, whose inputs ONNX types as string."""
    if info.dtype in _TEXT_TYPES:
        return _texts(info, value)
    return arguments.array("run", f"feeds[{info.name!r}]", value)


def _texts(info: TensorInfo, value: object) -> Array:
    made = np.asarray(value, dtype=object) if isinstance(value, str | list | tuple | np.ndarray) else None
    if made is None or not all(isinstance(each, str) for each in made.reshape(-1)):
        name = f"feeds[{info.name!r}]"
        raise arguments.refused("run", name, value, "an array of texts", f"give {name} as a list of texts")
    return made


def _native(value: Array) -> Array:
    return value.astype(value.dtype.newbyteorder("="), copy=False)


def _unfit(info: TensorInfo, value: Array) -> list[Diagnostic]:
    found = []
    if tuple(value.shape) != info.shape:
        found.append(
            _FEED_SHAPE.finding(
                f"input {info.name!r} has shape {list(value.shape)}",
                got=list(value.shape),
                allowed=str(list(info.shape)),
                place=Place(operand=info.name),
                cures=[f"reshape it to {list(info.shape)}, or compile the model for the other shape"],
            )
        )
    if value.dtype.name != info.dtype and info.dtype not in _TEXT_TYPES:
        found.append(
            _FEED_DTYPE.finding(
                f"input {info.name!r} is {value.dtype.name}",
                got=value.dtype.name,
                allowed=info.dtype,
                place=Place(operand=info.name),
                cures=[f"convert it to {info.dtype}"],
            )
        )
    return found
