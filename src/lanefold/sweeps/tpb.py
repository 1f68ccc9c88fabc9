"""TPB instructions in sweeps: cost and legality over partitions and elements per partition.

The rows of a shape are partitions, its columns elements per partition; valid extents, where given, are what counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from lanefold.diagnostics import Diagnostic, errors
from lanefold.numerics.alu import ALU_OPS
from lanefold.numerics.dtypes import DTYPES, PTO_NAMES, by_name
from lanefold.sweeps.axes import Ints
from lanefold.sweeps.group import BOUNDS, EXTENT, VALIDITIES, Evaluated, Group, Shape, nothing_known
from lanefold.targets import TARGETS
from lanefold.tpb import Access, Instruction, isa
from lanefold.tpb.cost import MODELS, VERSIONS
from lanefold.tpb.cost.columns import PriceColumns, price_columns
from lanefold.tpb.patterns import NUM_RANGE, STEP_RANGE
from lanefold.tpb.rules import check

_KEYS: dict[str, tuple[str, ...]] = {
    "TensorReduce": ("options.operator", "options.axis", "options.transpose", "options.step"),
    "Gather": ("options.indices",),
    "Iota": (),
}
_STEP = ("options.step",)
_CHOICES: dict[str, tuple[object, ...]] = {
    "options.axis": ("X", "C"),
    "options.transpose": (False, True),
    "options.operator": ("add", *(row.name for row in ALU_OPS if row.name != "add")),
    "options.step": (1, range(2, STEP_RANGE[1] + 1)),
    "options.indices": (64, range(1, NUM_RANGE[1] + 1)),
}
_SEARCH = 8
"""Values that a search handles at a time."""
_TYPICAL = (128, 64)
"""Partitions and elements that only rules about types and operators object to."""


class TpbSet:
    """The instructions of the pooling and reduction leg."""

    targets: tuple[str, ...] = tuple(name for name, row in TARGETS.items() if row.instruction_set == "TPB")
    models: tuple[str, ...] = MODELS
    ops: tuple[str, ...] = tuple(isa.BIR_BY_OPCODE)
    dtypes: tuple[str, ...] = tuple(row.name for row in DTYPES)

    def op(self, name: str) -> str | None:
        """The instruction of this name, None where there is none."""
        return {opcode.lower(): opcode for opcode in self.ops}.get(name.strip().lower())

    def dtype(self, name: str) -> str | None:
        """The element type of this name or of its short form, None where there is none."""
        found = PTO_NAMES.get(name.strip().lower(), name.strip().lower())
        return found if found in self.dtypes else None

    def keys(self, op: str) -> tuple[str, ...]:
        """Options that matter to an instruction."""
        return _KEYS.get(op, _STEP)

    def choices(self, op: str, key: str) -> tuple[object, ...]:
        """Values of an option, the default first; a range stands for all its numbers."""
        return _CHOICES[key]

    def group(self, op: str, dtype: str, target: str, model: str, settings: Mapping[str, object], mhz: float) -> Group:
        """The group, with what is wrong about the whole of it."""
        del mhz
        found = _prices(op, dtype, target, model, settings, np.array([_TYPICAL[1]]))
        plain = Group(op, dtype, target, model, VERSIONS[model], found.clock_ghz, settings)
        broken = errors(self.findings(plain, (*_TYPICAL, *_TYPICAL)))
        illegal = broken[0].code if broken else ""
        return Group(op, dtype, target, model, VERSIONS[model], found.clock_ghz, settings, None, illegal)

    def evaluate(self, group: Group, shape: Shape) -> Evaluated:
        """Cost and legality of some shapes; cycles are the greatest where the model gives a range."""
        rows, cols, valid_rows, valid_cols = shape
        count = len(rows)
        if group.refused is not None:
            return nothing_known(count, group.refused.code)
        impossible = (valid_rows > rows) | (valid_cols > cols)
        found = _prices(group.op, group.dtype, group.target, group.model, group.settings, valid_cols)
        rules, rule = _legal(group, valid_rows, valid_cols)
        if impossible.any():
            rules = (*rules, EXTENT.code)
            rule[impossible] = len(rules) - 1
        made = Evaluated(
            cycles=found.high.copy(),
            low=found.low,
            high=found.high,
            validity=np.full(count, VALIDITIES.index(found.validity), np.uint8),
            bound=found.bound + np.uint8(BOUNDS.index("start-up")),
            rule=rule,
            rules=rules,
        )
        made.blank(impossible)
        return made

    def findings(self, group: Group, shape: tuple[int, int, int, int]) -> list[Diagnostic]:
        """Findings of every rule on one configuration."""
        made = instruction(group.op, group.dtype, group.target, group.settings, shape[2], shape[3])
        return check(made, TARGETS[group.target].generation)


def _prices(
    op: str, dtype: str, target: str, model: str, settings: Mapping[str, object], elements: Ints
) -> PriceColumns:
    return price_columns(
        op,
        elements,
        TARGETS[target].generation,  # type: ignore[arg-type]
        model,
        dtype=dtype,
        operator=str(settings.get("options.operator", "")),
        axis=str(settings.get("options.axis", "X")),
        transposed=bool(settings.get("options.transpose", False)),
        step=_whole(settings, "options.step", 1),
        indices=_whole(settings, "options.indices", 0),
    )


def _whole(settings: Mapping[str, object], key: str, default: int) -> int:
    value = settings.get(key, default)
    return value if isinstance(value, int) else default


def instruction(
    op: str, dtype: str, target: str, settings: Mapping[str, object], partitions: int, elements: int
) -> Instruction:
    """The instruction that a configuration stands for: operands side by side in the state buffer."""
    top = 0

    def operand(kind: str, count: int, step: int = 1) -> Access:
        nonlocal top
        size = by_name(kind).bytes
        start, pitch = top, max(count * abs(step), 1)
        top = -(-(start + pitch * size) // isa.BUNDLE_BYTES) * isa.BUNDLE_BYTES
        return Access("SB", 0, start, kind, ((pitch, partitions), (step, count)))

    step = _whole(settings, "options.step", 1)
    name, row = f"{partitions}x{elements}", isa.BIR_BY_OPCODE[op]
    engine = row.engine
    attributes: dict[str, object] = {}
    ins: Sequence[Access] = ()
    if op == "TensorReduce":
        axis = str(settings["options.axis"])
        attributes = {
            "op": settings["options.operator"],
            "axis": axis,
            "apply_transpose": settings["options.transpose"],
        }
        folded = axis in isa.BIR_CROSS_LANE_AXES
        engine = isa.BIR_BY_OPCODE["Iota"].engine if folded else engine
        ins = [operand(dtype, elements, step)]
        out = operand(dtype, elements if folded else 1)
        if folded:
            out = Access("SB", 0, out.byte, dtype, ((elements, 1), (1, elements)))
    elif op == "Gather":
        indices = _whole(settings, "options.indices", 1)
        ins = [operand(dtype, elements), operand("uint16", indices)]
        out = operand(dtype, indices)
    elif op == "Iota":
        out = operand(dtype, elements)
        attributes = {"pattern": [[1, elements]], "base": 0, "channel_multiplier": 0}
    elif op == "Pool":
        source = operand(dtype, elements, step)
        outer = ((source.pattern[0][0], partitions), (1, 1), (1, 1), (1, 1), (step, elements))
        ins = [Access("SB", 0, source.byte, dtype, outer)]
        out = operand(dtype, 1)
        attributes = {"func": "Max"}
    else:
        keys = [operand(dtype, _SEARCH)] if len(row.operands_in) > 1 else []
        ins = [*keys, operand(dtype, elements, step)]
        out = operand("uint32" if op == "MaxIndex" else dtype, _SEARCH if op in ("Max", "MaxIndex") else elements)
        if op == "MatchReplace":
            attributes = {"imm_value": 0.0}
    return Instruction(op, tuple(ins), (out,), attributes, engine, name)


_Key = tuple[str, str, str, tuple[tuple[str, object], ...]]
_KNOWN: dict[_Key, dict[tuple[int, int], str]] = {}
"""Code of the first rule that a configuration breaks, empty if it breaks none; filled as sweeps ask."""


def _broken(key: _Key, wanted: Sequence[tuple[int, int]]) -> list[str]:
    """Code of the first broken rule for each pair of partitions and elements."""
    known = _KNOWN.setdefault(key, {})
    op, dtype, target, settings = key
    fresh = [pair for pair in dict.fromkeys(wanted) if pair not in known]
    made = [instruction(op, dtype, target, dict(settings), *pair) for pair in fresh]
    known.update(dict.fromkeys(fresh, ""))
    by_label = {each.name: pair for each, pair in zip(made, fresh, strict=True)}
    for finding in errors(check(made, TARGETS[target].generation)) if made else []:
        pair = by_label[finding.place.instruction]
        known[pair] = known[pair] or finding.code
    return [known[pair] for pair in wanted]


def _legal(group: Group, partitions: Ints, elements: Ints) -> tuple[tuple[str, ...], npt.NDArray[np.uint8]]:
    """Rules that are broken, and which one by which configuration.

    Rules look either at the partitions or at the elements of one partition, so that each value is asked about once.
    """
    key = (group.op, group.dtype, group.target, tuple(group.settings.items()))
    rules = [""]
    rule = np.zeros(len(elements), np.uint8)
    for values, pair in (
        (elements, lambda value: (_TYPICAL[0], value)),
        (partitions, lambda value: (value, _TYPICAL[1])),
    ):
        there = np.zeros(int(values.max()) + 1, np.bool_)
        there[values] = True
        present = np.flatnonzero(there)
        codes = _broken(key, [pair(value) for value in present.tolist()])
        rules += [code for code in dict.fromkeys(codes) if code not in rules]
        table = np.zeros(len(there), np.uint8)
        table[present] = [rules.index(code) for code in codes]
        found = table[values]
        rule = np.where(found > 0, found, rule)
    return tuple(rules), rule
