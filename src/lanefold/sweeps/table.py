"""The table of a sweep: one row per configuration, in columns, and what can be read off it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lanefold.arguments import shown
from lanefold.diagnostics import Rule, errors, number_of
from lanefold.sweeps.axes import Shapes
from lanefold.sweeps.group import BOUNDS, UNKNOWN, VALIDITIES, Evaluated, Group, Shape
from lanefold.sweeps.space import Chunk, Space
from lanefold.sweeps.spec import OBJECTIVES

COLUMN = Rule("SWEEP-COLUMN", "A table of a sweep has the columns that it lists.", "Sweeps", usage=True)
OBJECTIVE = Rule("SWEEP-OBJECTIVE", "What is made least is one of the numbers of a row.", "Sweeps", usage=True)

HEAD = ("op", "dtype", "target", "model", "version")
TAIL = (
    *Shapes.NAMES,
    "legal",
    "rule",
    "validity",
    "cycles",
    "cycles_low",
    "cycles_high",
    "clock_ghz",
    "ns",
    "cycles_per_element",
    "bound",
)

Column = npt.NDArray[Any]
_FEW = 8


def column_name(key: str) -> str:
    """The column of a layout or option: ``layouts.dst`` stands in ``dst_layout``."""
    table, _, name = key.partition(".")
    return f"{name}_layout" if table == "layouts" else name


def _plain(value: object) -> object:
    """A value for plain data: None in place of what is not a number."""
    return None if isinstance(value, float) and math.isnan(value) else value


@dataclass(frozen=True)
class Part:
    """The rows of one chunk: its group, shapes and numbers, without those that are left out."""

    group: Group
    shape: Shape
    found: Evaluated

    def __len__(self) -> int:
        return len(self.found.cycles)

    @cached_property
    def numbers(self) -> dict[str, npt.NDArray[np.float64]]:
        """The numbers that can be made least."""
        cycles = self.found.cycles
        elements = self.shape[2] * self.shape[3]
        return {"cycles": cycles, "ns": cycles / self.group.clock_ghz, "cycles_per_element": cycles / elements}

    @cached_property
    def legal(self) -> npt.NDArray[np.bool_]:
        """Whether each configuration breaks no rule; those of a group without a price count as not legal."""
        legal: npt.NDArray[np.bool_] = self.found.rule == 0
        return legal

    def column(self, name: str) -> Column:
        """One column, as an array of numbers, truths or texts; unknown numbers are not a number."""
        if name in Shapes.NAMES:
            return self.shape[Shapes.NAMES.index(name)]
        if name in self.numbers:
            return self.numbers[name]
        found = self.found
        columns: Mapping[str, Column] = {"legal": self.legal, "cycles_low": found.low, "cycles_high": found.high}
        if name in columns:
            return columns[name]
        coded = {"rule": (found.rules, found.rule), "validity": (VALIDITIES, found.validity)}
        coded["bound"] = (BOUNDS, found.bound)
        if name in coded:
            words, codes = coded[name]
            return np.array(words)[codes]
        return np.full(len(self), self.constant(name))

    def constant(self, name: str) -> object:
        """A column that is the same in all rows; an empty text where it does not matter to the operation."""
        if name in HEAD or name == "clock_ghz":
            return getattr(self.group, name)
        return {column_name(key): value for key, value in self.group.settings.items()}.get(name, "")


@dataclass(frozen=True, slots=True)
class Best:
    """The cheapest legal shape of one operation, element type, target and model, None where there is none.

    ``value`` is in the unit of ``objective``; ``unknown`` and ``illegal`` count the configurations that could not win.
    """

    op: str
    dtype: str
    target: str
    model: str
    objective: str
    value: float | None
    row: Mapping[str, object] | None
    unknown: int
    illegal: int

    def to_dict(self) -> dict[str, object]:
        """The result as plain data."""
        return {name: getattr(self, name) for name in self.__slots__}


class SweepTable:
    """All rows of a sweep, in the order of its groups and shapes.

    Args:
        space: the sweep.
        found: the numbers of its chunks, in order.
        resumed: chunks that were finished in an earlier, interrupted run.
    """

    def __init__(self, space: Space, found: Sequence[Evaluated], resumed: int = 0) -> None:
        self.space = space
        self._found = tuple(found)
        self.resumed = resumed

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""
        keys = dict.fromkeys(key for group in self.space.groups for key in group.settings)
        return (*HEAD, *(column_name(key) for key in keys), *TAIL)

    @cached_property
    def counts(self) -> dict[str, int]:
        """Configurations in all, rows, rows left out as unknown, and among the configurations unknown and not legal."""
        unknown = sum(int((found.validity == UNKNOWN).sum()) for found in self._found)
        illegal = sum(int((found.rule > 0).sum()) for found in self._found)
        skipped = unknown if self.space.spec.skip_unknown else 0
        total = self.space.count
        return {
            "configurations": total,
            "rows": total - skipped,
            "skipped": skipped,
            "unknown": unknown,
            "not_legal": illegal,
        }

    def __len__(self) -> int:
        return self.counts["rows"]

    def __str__(self) -> str:
        counts = self.counts
        lines = [f"sweep: {number_of(counts['configurations'], 'configuration')}, {number_of(counts['rows'], 'row')}"]
        for name in ("skipped", "unknown", "not_legal"):
            lines[0] += f", {counts[name]:,} {name.replace('_', ' ')}" if counts[name] else ""
        groups = self.space.groups
        lines += [f"{each.op} {each.dtype} on {each.target}, model {each.model}" for each in groups[:_FEW]]
        more = len(groups) - _FEW
        return "\n".join([*lines, *([f"and {number_of(more, 'group')} more"] if more > 0 else [])])

    def __repr__(self) -> str:
        counts = self.counts
        groups = number_of(len(self.space.groups), "group")
        return f"<SweepTable of {number_of(counts['rows'], 'row')} in {groups}, {len(self.columns)} columns>"

    def part(self, chunk: Chunk, found: Evaluated) -> Part:
        """The rows of a chunk, as the sweep wants unknown ones treated."""
        spec = self.space.spec
        shape = spec.shapes.part(chunk.start, chunk.stop)
        unknown = found.validity == UNKNOWN
        if unknown.any() and spec.skip_unknown:
            known = ~unknown
            rows, cols, valid_rows, valid_cols = (axis[known] for axis in shape)
            shape = (rows, cols, valid_rows, valid_cols)
            arrays = (found.cycles, found.low, found.high, found.validity, found.bound, found.rule)
            cycles, low, high, validity, bound, rule = (array[known] for array in arrays)
            found = Evaluated(cycles, low, high, validity, bound, rule, found.rules)
        elif unknown.any() and not spec.keep_unknown:
            cycles, low, high = (np.where(unknown, np.nan, array) for array in (found.cycles, found.low, found.high))
            found = Evaluated(cycles, low, high, found.validity, found.bound, found.rule, found.rules)
        return Part(self.space.groups[chunk.group], shape, found)

    def parts(self) -> Iterator[Part]:
        """The rows, chunk by chunk."""
        for chunk, found in zip(self.space.chunks, self._found, strict=True):
            yield self.part(chunk, found)

    def of_group(self, at: int) -> Iterator[Part]:
        """The rows of one group, chunk by chunk."""
        for chunk, found in zip(self.space.chunks, self._found, strict=True):
            if chunk.group == at:
                yield self.part(chunk, found)

    def column(self, name: str) -> Column:
        """One column as an array; unknown numbers are not a number, what does not matter is an empty text.

        Raises:
            LanefoldError: SWEEP-COLUMN if there is no such column.
        """
        if not isinstance(name, str) or name not in self.columns:
            raise COLUMN.error(
                f"the table has no column {shown(name)}",
                got=shown(name),
                allowed=", ".join(self.columns),
                cures=["use one of the columns"],
            )
        found = [part.column(name) for part in self.parts()]
        if len({part.dtype.kind for part in found}) > 1:
            found = [part.astype(object) for part in found]
        return np.concatenate(found)

    def write_plot(self, path: str | Path, objective: str = "") -> Path:
        """Writes maps of cost, validity and bounds over the shapes: a ``.html`` page, a ``.png`` or ``.svg`` picture.

        Raises:
            LanefoldError: SWEEP-OUTPUT for another ending, or a place that cannot be written; SWEEP-EXTRA without the
                package that draws.
        """
        from lanefold.sweeps.plot import write_plot

        return write_plot(self, path, objective)

    def rows(self) -> Iterator[dict[str, object]]:
        """The rows as plain data, one after the other; unknown numbers are None."""
        for part in self.parts():
            listed = [part.column(name).tolist() for name in self.columns]
            for values in zip(*listed, strict=True):
                yield {name: _plain(value) for name, value in zip(self.columns, values, strict=True)}

    @property
    def refusals(self) -> list[dict[str, Any]]:
        """The groups without a price, with the finding and the number of configurations."""
        return [
            {"group": group.label, "configurations": self.space.spec.shapes.count, "finding": group.refused.to_dict()}
            for group in self.space.groups
            if group.refused is not None
        ]

    def best(self, objective: str = "") -> list[Best]:
        """The cheapest legal shape for each operation, element type, target and model, over layouts and options.

        Of equal ones the shape with most elements wins, then the first. Every winner has passed all rules once more.

        Args:
            objective: ``cycles``, ``ns`` or ``cycles_per_element``; that of the sweep where left out.

        Raises:
            LanefoldError: SWEEP-OBJECTIVE if there is no such number, or none is named at all.
        """
        wanted = self.chosen(objective)
        families: dict[tuple[str, str, str, str], list[int]] = {}
        for at, group in enumerate(self.space.groups):
            families.setdefault((group.op, group.dtype, group.target, group.model), []).append(at)
        return [self._best(names, at, wanted) for names, at in families.items()]

    def best_of_group(self, at: int, objective: str = "") -> Best:
        """The cheapest legal shape of one group.

        Raises:
            LanefoldError: SWEEP-OBJECTIVE as `best`.
        """
        group = self.space.groups[at]
        names = (group.op, group.dtype, group.target, group.model)
        return self._best(names, [at], self.chosen(objective))

    def chosen(self, objective: str, otherwise: str = "") -> str:
        """What is made least: the objective, that of the sweep where it is empty, or ``otherwise``.

        Raises:
            LanefoldError: SWEEP-OBJECTIVE if there is no such number, or none is named at all.
        """
        wanted = objective
        if isinstance(objective, str):
            wanted = objective or self.space.spec.objective or otherwise
            if wanted in OBJECTIVES:
                return wanted
        raise OBJECTIVE.error(
            f"{shown(wanted)} cannot be made least",
            got=shown(wanted),
            allowed=", ".join(OBJECTIVES),
            cures=["use cycles_per_element"],
        )

    def _best(self, names: tuple[str, str, str, str], groups: Sequence[int], objective: str) -> Best:
        best: tuple[float, int] | None = None
        row: dict[str, object] | None = None
        unknown = illegal = 0
        for at in groups:
            for part in self.of_group(at):
                lost = part.found.validity == UNKNOWN
                unknown += int(lost.sum())
                illegal += int((~part.legal).sum())
                found = self._winner(part, at, objective, part.legal & ~lost)
                if found is not None and (best is None or found[0] < best):
                    best, place = found
                    row = {name: _plain(part.column(name)[place : place + 1].tolist()[0]) for name in self.columns}
        return Best(*names, objective, best[0] if best else None, row, unknown, illegal)

    def _winner(
        self, part: Part, at: int, objective: str, open_: npt.NDArray[np.bool_]
    ) -> tuple[tuple[float, int], int] | None:
        """Value with number of elements taken negative, and place in the part."""
        values = np.where(open_ & np.isfinite(part.numbers["cycles"]), part.numbers[objective], np.inf)
        elements = part.shape[2] * part.shape[3]
        while len(values) and np.isfinite(values.min()):
            place = int(np.argmax(np.where(values == values.min(), elements, -1)))
            rows, cols, valid_rows, valid_cols = (int(axis[place]) for axis in part.shape)
            if not errors(self.space.sets[at].findings(part.group, (rows, cols, valid_rows, valid_cols))):
                return (float(values[place]), -int(elements[place])), place
            values[place] = np.inf
        return None
