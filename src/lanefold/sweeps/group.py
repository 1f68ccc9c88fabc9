"""Groups: all configurations of a sweep that share everything but their shape, and what is found out about each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from lanefold.diagnostics import Diagnostic, Rule
from lanefold.pto.cost import LEVELS
from lanefold.sweeps.axes import Ints
from lanefold.tpb.cost import PUBLISHED, UNPUBLISHED
from lanefold.tpb.cost.columns import BOUNDS as TPB_BOUNDS

EXTENT = Rule("SWEEP-EXTENT", "Valid extents are at most those of the tile.", "Sweep files")

VALIDITIES = (*(str(level) for level in LEVELS), PUBLISHED, UNPUBLISHED)
"""Words of the column ``validity`` in the order of their codes."""
UNKNOWN = VALIDITIES.index("unknown")
BOUNDS = ("", *TPB_BOUNDS)
"""Words of the column ``bound`` in the order of their codes; nothing where the model does not tell."""


@dataclass(frozen=True)
class Group:
    """One operation, element type, target, model and choice of layouts and options.

    Args:
        op: operation, in the spelling of its instruction set.
        dtype: element type, in that spelling.
        target: target name.
        model: cost model.
        version: what the model is and of which date.
        clock_ghz: clock that turns cycles into nanoseconds.
        settings: layouts and options that matter to the operation, by their key in the sweep file.
        refused: why no configuration of the group is priced, None where they are.
        illegal: code of the rule that the whole group breaks, empty where it breaks none.
    """

    op: str
    dtype: str
    target: str
    model: str
    version: str
    clock_ghz: float
    settings: Mapping[str, object]
    refused: Diagnostic | None = field(default=None, compare=False)
    illegal: str = ""

    @property
    def label(self) -> str:
        """The group in a few words."""
        words = [f"{key.partition('.')[2]} {value}" for key, value in self.settings.items()]
        return ", ".join([f"{self.op} {self.dtype} on {self.target}", f"model {self.model}", *words])


@dataclass(frozen=True)
class Evaluated:
    """Numbers of some configurations: cycles with least and greatest, codes of validity, bound and rule.

    Unknown numbers are not a number. ``rules`` are the codes that ``rule`` counts in; the first, empty, is legal.
    """

    cycles: npt.NDArray[np.float64]
    low: npt.NDArray[np.float64]
    high: npt.NDArray[np.float64]
    validity: npt.NDArray[np.uint8]
    bound: npt.NDArray[np.uint8]
    rule: npt.NDArray[np.uint8]
    rules: tuple[str, ...] = ("",)

    def blank(self, where: npt.NDArray[np.bool_]) -> None:
        """Makes some configurations unknown."""
        for numbers in (self.cycles, self.low, self.high):
            numbers[where] = np.nan
        self.validity[where] = UNKNOWN
        self.bound[where] = 0


def nothing_known(count: int, rule: str) -> Evaluated:
    """Configurations of a group that is not priced."""
    cycles, low, high = (np.full(count, np.nan) for _ in range(3))
    validity, bound, broken = (np.full(count, code, np.uint8) for code in (UNKNOWN, 0, 1 if rule else 0))
    return Evaluated(cycles, low, high, validity, bound, broken, ("", rule) if rule else ("",))


Shape = tuple[Ints, Ints, Ints, Ints]
"""Rows, columns, valid rows and valid columns."""


class InstructionSet(Protocol):
    """What a sweep asks of an instruction set."""

    targets: tuple[str, ...]
    models: tuple[str, ...]
    ops: tuple[str, ...]
    dtypes: tuple[str, ...]

    def op(self, name: str) -> str | None:
        """The operation of this name, None where the set has none."""
        ...

    def dtype(self, name: str) -> str | None:
        """The element type of this name, None where the set has none."""
        ...

    def keys(self, op: str) -> tuple[str, ...]:
        """Layouts and options that matter to an operation."""
        ...

    def choices(self, op: str, key: str) -> tuple[object, ...]:
        """Values of a layout or option, the default first; a range stands for all its numbers."""
        ...

    def group(self, op: str, dtype: str, target: str, model: str, settings: Mapping[str, object], mhz: float) -> Group:
        """The group, with what is wrong about the whole of it."""
        ...

    def evaluate(self, group: Group, shape: Shape) -> Evaluated:
        """Cost and legality of some shapes."""
        ...

    def findings(self, group: Group, shape: tuple[int, int, int, int]) -> list[Diagnostic]:
        """Findings of every rule on one configuration."""
        ...
