"""A PTO target: lowering onto tiles, and files of a program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy.typing as npt

from lanefold.diagnostics import LanefoldError, Place, number_of
from lanefold.ops import Op
from lanefold.program import Program
from lanefold.program.files import MARK, damaged, read_file, to_json
from lanefold.program.ledger import LARGEST
from lanefold.program.routes import Candidate
from lanefold.program.saved import describe, op_from, restore, shared_files
from lanefold.pto.cost.request import MODELS
from lanefold.pto.counting import passed_over
from lanefold.pto.lower import Lowering, Stage, Tensor, View, check_preference, lower, routes
from lanefold.pto.lower.prices import NO_MODEL
from lanefold.pto.simulate.counting import COUNTERS

Array = npt.NDArray[Any]


@dataclass
class PtoMachine:
    """What runs tile programs of a target; it counts tile operations by name and, with ``count``, what they drop."""

    target: str
    numerics: str
    operations: dict[str, int] = field(default_factory=dict)
    count: bool = False
    counters: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTERS, 0))

    def __repr__(self) -> str:
        seen = ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in self.counters.items() if count)
        ran = number_of(sum(self.operations.values()), "tile operation")
        return f"<PtoMachine {self.target}, numerics {self.numerics}, {ran}; counted: {seen or 'nothing unusual'}>"

    def note(self, op: Op, inputs: Sequence[Array], result: Array, counted: Mapping[str, int]) -> None:
        """Adds what an op passed over to the counters, if counting is on.

        ``counted`` is what its tile operations did.
        """
        if self.count:
            for name, amount in passed_over(op, inputs, result, counted).items():
                self.counters[name] = self.counters.get(name, 0) + amount

    def apart(self, numerics: str, ulps: int) -> None:
        """Note how far the result of an op lies from that of another reading, in units of the last place."""
        name = f"{LARGEST}ulps_from_{numerics}"
        self.counters[name] = self.counters.get(name, 0) + ulps

    def done(self, stage: Stage) -> None:
        """Note the operations of a stage that has run."""
        for each in stage.computes:
            self.operations[each.op] = self.operations.get(each.op, 0) + stage.tiles


@dataclass(frozen=True)
class PtoTarget:
    """One PTO target with its reading.

    Args:
        name: ``cpu``, ``a2a3`` or ``a5``.
        numerics: numeric reading: ``cpu``, which is exact to the CPU simulator, or an unverified order of a device.
    """

    name: str
    numerics: str = "cpu"

    @property
    def cost_models(self) -> tuple[str, ...]:
        """Models that price this target; the CPU simulator has no cycles and the model ``none``."""
        return {"cpu": (NO_MODEL,), "a2a3": MODELS}.get(self.name, MODELS[:1])

    @property
    def readings(self) -> Mapping[str, str]:
        """The numeric reading."""
        return {"numerics": self.numerics}

    def check_preference(self, prefer: str, place: Place) -> None:
        """Refuse a preference that the target does not know, whether there is an op to lower or not.

        Raises:
            LanefoldError: for a word that is no preference of this target.
        """
        check_preference(prefer, place)

    def lower(self, op: Op, place: Place, prefer: str = "cost") -> Lowering:
        """Tile programs for an op.

        Raises:
            LanefoldError: where the target has no legal form for it.
        """
        return lower(op, place, target=self.name, numerics=self.numerics, prefer=prefer)

    def routes(self, op: Op, place: Place, prefer: str = "cost") -> list[Candidate]:
        """Every route of an op, legal or not, the chosen one marked.

        Raises:
            LanefoldError: if the preference is unknown.
        """
        return routes(op, place, target=self.name, numerics=self.numerics, prefer=prefer)

    def machine(self, *, count: bool = False) -> PtoMachine:
        """A fresh machine; it always counts the tile operations, with ``count`` also what they pass over."""
        return PtoMachine(self.name, self.numerics, count=count)

    def counters(self, machine: PtoMachine) -> Mapping[str, int]:
        """What the machine has counted so far."""
        return machine.counters

    def files(self, program: Program) -> dict[str, bytes]:
        """program.json with the views, a text and a C++ kernel per stage of each leg step, ledger, host models."""
        codes = {}
        files: dict[str, bytes] = {}
        for index, step in enumerate(program.leg_steps):
            code = step.code
            if not isinstance(code, Lowering):
                continue
            stages = []
            for number, stage in enumerate(code.stages):
                stem = f"leg-{index}-{number}"
                files[f"{stem}.pto"] = stage.program.to_text("dps").encode()
                files[f"{stem}.cpp"] = stage.program.to_cpp(self.name).encode()
                views = {name: asdict(view) for name, view in stage.views.items()}
                stages.append({"text": f"{stem}.pto", "kernel": f"{stem}.cpp", "views": views})
            tensors = {name: asdict(tensor) for name, tensor in code.tensors.items()}
            codes[step.name] = {"tensors": tensors, "stages": stages}
        document = {"attributes": {"lanefold": describe(program)}, "codes": codes}
        return {MARK: to_json(document), **files, **shared_files(program)}

    def load(self, folder: Path, document: Mapping[str, Any]) -> Program:
        """A program saved for this target; its saved texts are what runs.

        Raises:
            LanefoldError: if a file is missing or does not fit.
        """
        try:
            codes = document["codes"]
            described = document["attributes"]["lanefold"]
            return restore(folder, described, self, lambda step: self._code(folder, step, codes[step["name"]]))
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise damaged(
                folder, MARK, f"{MARK} does not describe a program: {error!r}", repr(error)[:80], "a saved program"
            ) from None

    def _code(self, folder: Path, step: Mapping[str, Any], saved: Mapping[str, Any]) -> Lowering:
        tensors = {
            name: Tensor(each["elements"], each["dtype"], tuple((value, count) for value, count in each["runs"]))
            for name, each in saved["tensors"].items()
        }
        stages = tuple(_stage(folder, each) for each in saved["stages"])
        return Lowering(op_from(step["op"]), stages, tensors, self.name, self.numerics, step["note"])


def _stage(folder: Path, saved: Mapping[str, Any]) -> Stage:
    from lanefold.pto.text import parse

    name = saved["text"]
    try:
        program = parse(read_file(folder, name).decode())
    except (LanefoldError, UnicodeDecodeError) as error:
        raise damaged(folder, name, f"{name} is no tile program: {error}", name, "the text as saved") from None
    views = {
        array: View(each["tensor"], tuple(each["shape"]), tuple(each["strides"]), each["offset"], each["row_axes"])
        for array, each in saved["views"].items()
    }
    stage = Stage(program, views)
    # The texts do not tell the kernel's name, which is that of its operation.
    kernel = stage.computes[0].op.lower() if stage.computes else "move"
    return replace(stage, program=replace(program, name=kernel))
