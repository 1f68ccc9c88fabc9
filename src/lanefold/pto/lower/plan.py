"""What a lowering onto tiles is made of: stages over named tensors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lanefold.diagnostics import Diagnostic, LanefoldError, Place, errors, number_of
from lanefold.ops import Op
from lanefold.program import CostRow
from lanefold.pto import names
from lanefold.pto.lower.views import View
from lanefold.pto.program import Compute, Program
from lanefold.pto.program.run import ulps
from lanefold.pto.simulate.readings import READINGS
from lanefold.pto.tiles import numpy_type

if TYPE_CHECKING:
    from lanefold.program.timeline import Task
    from lanefold.pto.target import PtoMachine

Array = npt.NDArray[Any]

_PART = 1 << 24
"""Elements of the largest array that one run of a tile program is given."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor in global memory: its elements and PTO type; ``runs`` are (value, count) pairs of a constant."""

    elements: int
    dtype: str
    runs: tuple[tuple[float, int], ...] = ()

    def fresh(self) -> Array:
        """The flat array at the start of a run: a constant's values, else zeros."""
        kind = numpy_type(names.element(self.dtype))
        if not self.runs:
            return np.zeros(self.elements, kind)
        values, counts = zip(*self.runs, strict=True)
        return np.repeat(np.array(values, kind), counts)


@dataclass(frozen=True)
class Stage:
    """One tile program and the views that its arrays stand for; it runs once for every tile of the views."""

    program: Program
    views: Mapping[str, View]

    @property
    def tiles(self) -> int:
        """How often the program runs."""
        return max(view.tiles for view in self.views.values())

    def parts(self) -> Iterator[dict[str, View]]:
        """The views in parts of a few tiles, outermost walk first.

        Windows that overlap are copied for a run, and all copies of a map may be thousands of times the map.
        """
        walk = max((view.shape[0] for view in self.views.values() if view.tiles > 1), default=1)
        largest = max(1, *(prod(view.shape) for view in self.views.values()))
        step = max(1, walk * _PART // largest)
        for start in range(0, walk, step):
            yield {name: view.part(start, start + step) for name, view in self.views.items()}

    @cached_property
    def computes(self) -> tuple[Compute, ...]:
        """The operations of the program."""
        return tuple(i for i in self.program.instructions if isinstance(i, Compute))


@dataclass(frozen=True)
class Lowering:
    """One op as stages of tile programs; it runs, checks and prices itself.

    Args:
        op: what it computes.
        stages: in order.
        tensors: by name; ``in0`` … are the op's inputs, ``out0`` … its outputs, others lie between or are constant.
        target: ``cpu``, ``a2a3`` or ``a5``.
        numerics: numeric reading.
        note: how it was re-tiled or rewritten.
    """

    op: Op
    stages: tuple[Stage, ...] = field(repr=False)
    tensors: Mapping[str, Tensor]
    target: str
    numerics: str = "cpu"
    note: str = ""

    @property
    def route(self) -> str:
        """The operations, in order of first use."""
        return " + ".join(dict.fromkeys(each.op for stage in self.stages for each in stage.computes))

    def __repr__(self) -> str:
        size = f"{number_of(self.bundles, 'tile operation')}, {self.target}"
        return f"<Lowering of {type(self.op).__name__} by {self.route}: {size}>"

    @property
    def accumulators(self) -> tuple[str, ...]:
        """float32, and the 16-bit float that tiles between operations are stored in."""
        kinds = (numpy_type(names.element(tensor.dtype)).name for tensor in self.tensors.values())
        return tuple(dict.fromkeys(("float32", *(kind for kind in kinds if kind in ("float16", "bfloat16")))))

    @property
    def opcodes(self) -> tuple[int, ...]:
        """Empty: tile operations have no opcode bytes."""
        return ()

    @property
    def bundles(self) -> int:
        """Tile operations, each counted as often as it runs."""
        return sum(stage.tiles * len(stage.computes) for stage in self.stages)

    @property
    def size(self) -> int:
        """0: tile operations have no binary form here."""
        return 0

    def check(self) -> list[Diagnostic]:
        """Findings about every tile program."""
        return [finding for stage in self.stages for finding in stage.program.check(self.target)]

    def cost(self, model: str = "") -> list[CostRow]:
        """One row per operation of a stage, over all its tiles; none on the CPU simulator, which has no cycles.

        Raises:
            LanefoldError: if there is no such model, or it cannot price an operation.
        """
        from lanefold.pto.lower.prices import price

        return [row for stage in self.stages for row in price(stage, self.target, model)]

    def tasks(self, model: str, inputs: Sequence[str], outputs: Sequence[str]) -> list[Task]:
        """Loads, operations and stores in order, tiles of one stage in groups; the arrays go by the program's names.

        Raises:
            LanefoldError: if there is no such model for the target.
        """
        from lanefold.pto.lower.tasks import tasks

        return tasks(self, model, inputs, outputs)

    def run(self, machine: PtoMachine, inputs: Sequence[Array]) -> list[Array]:
        """Computes the op: every stage runs its program over all tiles and stores into its tensors.

        Args:
            machine: counts the tile operations.
            inputs: arrays in the order of the op's inputs.
        """
        results, counted = self._computed(machine, inputs, machine.count)
        machine.note(self.op, inputs, results[0], counted)
        if machine.count and self._ordered:
            for other in [name for name in READINGS if name != self.numerics]:
                again, _ = replace(self, numerics=other)._computed(machine, inputs, False)
                machine.apart(other, max(ulps(a, b) for a, b in zip(results, again, strict=True)))
        return results

    @property
    def _ordered(self) -> bool:
        """Whether a result depends on the order in which a device adds floats."""
        computes = [each for stage in self.stages for each in stage.computes]
        floats = all(names.element(tensor.dtype).kind == "float" for tensor in self.tensors.values())
        return floats and any(each.op == "TROWSUM" or each.is_binary for each in computes)

    def _computed(
        self, machine: PtoMachine, inputs: Sequence[Array], count: bool
    ) -> tuple[list[Array], dict[str, int]]:
        """The results, and what the tile operations passed over, if counting is on."""
        flat = {name: tensor.fresh() for name, tensor in self.tensors.items() if not name.startswith("in")}
        for index, value in enumerate(inputs):
            flat[f"in{index}"] = np.ascontiguousarray(value).reshape(-1)
        counted: dict[str, int] = {}
        for stage in self.stages:
            for views in stage.parts():
                arrays = {name: views[name].blocks(flat[views[name].tensor]) for name in stage.program.inputs}
                made = stage.program.run(arrays, target=self.target, numerics=self.numerics, count=count)
                for name, values in made.outputs.items():
                    view = views[name]
                    view.of(flat[view.tensor])[...] = values.reshape(view.shape)
                for counter, amount in made.counters.items():
                    counted[counter] = counted.get(counter, 0) + amount
            if count == machine.count:
                machine.done(stage)
        results = [flat[name].reshape(self.op.output_shape) for name in sorted(flat) if name.startswith("out")]
        return results, counted

    def checked(self, place: Place) -> Lowering:
        """The lowering itself, if every program of it is legal.

        Raises:
            LanefoldError: with every error, at the place of the source node.
        """
        wrong = errors(self.check())
        if wrong:
            raise LanefoldError([replace(each, place=replace(each.place, node=place.node)) for each in wrong])
        return self


@dataclass
class Builder:
    """Collects the stages of one lowering."""

    target: str
    dtype: str
    prefer: str
    stages: list[Stage] = field(default_factory=list)
    tensors: dict[str, Tensor] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def tensor(self, stem: str, elements: int, runs: tuple[tuple[float, int], ...] = (), dtype: str = "") -> str:
        """A new tensor; its name is the stem, with a number where it is one of several between input and output."""
        name = stem
        if not stem.startswith(("in", "out")):
            name = f"{stem}{sum(other.startswith(stem) for other in self.tensors)}"
        self.tensors[name] = Tensor(elements, dtype or self.dtype, runs)
        return name

    def note(self, text: str) -> None:
        """Something the ledger tells, once."""
        if text not in self.notes:
            self.notes.append(text)
