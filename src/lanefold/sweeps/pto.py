"""PTO tile operations in sweeps: cost and legality of many tile shapes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from lanefold.diagnostics import Diagnostic, LanefoldError, Severity, errors
from lanefold.pto import names
from lanefold.pto.cost import MODELS, VERSIONS, CostColumns, cost_columns
from lanefold.pto.cost.recipes import NAMES, RECIPES, Family
from lanefold.pto.cost.tables import CLOCK_MHZ
from lanefold.pto.isa import ELEMENTS, OPERATIONS, TARGETS
from lanefold.pto.rules import check_call
from lanefold.sweeps.group import Evaluated, Group, Shape, nothing_known
from lanefold.sweeps.pto_calls import RULES, call_of, legal_columns, small_shape

_KEYS: dict[Family, tuple[str, ...]] = {
    Family.ROW_REDUCE: ("layouts.dst",),
    Family.ROW_PRODUCT: ("layouts.dst",),
    Family.ROW_ARG: ("layouts.dst", "options.form", "options.idx_bytes"),
    Family.COLUMN_ARG: ("options.form", "options.idx_bytes"),
    Family.COLUMN_SUM: ("options.form",),
    Family.ROW_EXPAND: ("layouts.src",),
    Family.ROW_EXPAND_OP: ("layouts.src1",),
}
_CHOICES: dict[str, tuple[object, ...]] = {
    "layouts.dst": ("ND", "DN"),
    "layouts.src": ("ND", "DN"),
    "layouts.src1": ("DN", "ND32B"),
    "options.idx_bytes": (4, 2),
    "options.static_shape": (True, False),
}
_ARGUMENTS = {"layouts.dst": "dst_layout", "layouts.src": "src_layout", "layouts.src1": "src1_layout"}
_ILLEGAL = ("PTO-COST-DTYPE", "PTO-COST-LAYOUT", "PTO-COST-FORM", "PTO-COST-INDEX")
"""Findings about a whole group that are about the operation, not about what the model knows."""


class PtoSet:
    """The 28 tile operations and the measured building blocks around them."""

    targets: tuple[str, ...] = tuple(TARGETS)
    models: tuple[str, ...] = MODELS
    ops: tuple[str, ...] = tuple(RECIPES)
    dtypes: tuple[str, ...] = tuple(ELEMENTS)

    def op(self, name: str) -> str | None:
        """The operation of this name, None where there is none."""
        return NAMES.get(name.strip().lower().removeprefix("pto."))

    def dtype(self, name: str) -> str | None:
        """The element type of this name, None where there is none."""
        try:
            return names.element(name).name
        except LanefoldError:
            return None

    def keys(self, op: str) -> tuple[str, ...]:
        """Layouts and options that matter to an operation."""
        return (*_KEYS.get(RECIPES[op].family, ()), "options.static_shape")

    def choices(self, op: str, key: str) -> tuple[object, ...]:
        """Values of a layout or option that the operation has, the default first."""
        return RECIPES[op].forms if key == "options.form" else _CHOICES[key]

    def group(self, op: str, dtype: str, target: str, model: str, settings: Mapping[str, object], mhz: float) -> Group:
        """The group, with what is wrong about the whole of it."""
        clock = mhz or CLOCK_MHZ
        small = np.array([small_shape(dtype)], np.int64).T
        plain = Group(op, dtype, target, model, VERSIONS[model], clock / 1000, settings)
        try:
            _columns(plain, (small[0], small[1], small[2], small[3]))
        except LanefoldError as error:
            finding = error.diagnostics[0]
            illegal = finding.code if finding.code in _ILLEGAL else ""
            return Group(op, dtype, target, model, VERSIONS[model], clock / 1000, settings, finding, illegal)
        found = errors(self.findings(plain, small_shape(dtype)))
        return Group(
            op, dtype, target, model, VERSIONS[model], clock / 1000, settings, None, found[0].code if found else ""
        )

    def evaluate(self, group: Group, shape: Shape) -> Evaluated:
        """Cost and legality of some shapes."""
        count = len(shape[0])
        if group.refused is not None:
            return nothing_known(count, group.refused.code)
        rows, cols, valid_rows, valid_cols = shape
        impossible = (valid_rows > rows) | (valid_cols > cols)
        inside = (rows, cols, np.minimum(valid_rows, rows), np.minimum(valid_cols, cols))
        found = _columns(group, inside)
        rules: tuple[str, ...] = ("", group.illegal) if group.illegal else RULES
        rule = np.ones(count, np.uint8)
        if not group.illegal:
            rule = legal_columns(group.op, group.dtype, group.target, group.settings, shape)
        known = found.error
        made = Evaluated(
            cycles=found.cycles,
            low=found.cycles * np.maximum(0.0, 1.0 - known),
            high=found.cycles * (1.0 + known),
            validity=found.validity,
            bound=np.zeros(count, np.uint8),
            rule=rule,
            rules=rules,
        )
        if impossible.any():
            made.blank(impossible)
        return made

    def findings(self, group: Group, shape: tuple[int, int, int, int]) -> list[Diagnostic]:
        """Findings of every rule on one configuration; none for building blocks, which no rule is about."""
        if group.op not in OPERATIONS:
            return []
        try:
            call = call_of(group.op, group.dtype, group.target, group.settings, shape)
        except LanefoldError as error:
            return [finding for finding in error.diagnostics if finding.severity is Severity.ERROR]
        return check_call(call)


def arguments_of(settings: Mapping[str, object]) -> dict[str, object]:
    """Layouts and options as arguments of the cost functions."""
    return {_ARGUMENTS.get(key, key.partition(".")[2]): value for key, value in settings.items() if value != ""}


def _columns(group: Group, shape: Shape) -> CostColumns:
    return cost_columns(
        group.op,
        group.dtype,
        *shape,
        target=group.target,
        model=group.model,
        frequency_mhz=group.clock_ghz * 1000,
        **arguments_of(group.settings),  # type: ignore[arg-type]
    )
