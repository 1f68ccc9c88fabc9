"""Prices of PTO programs: what each load, operation and store is asked for, and the row of its answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lanefold.arguments import as_integer, mapping, shown
from lanefold.diagnostics import Place, Rule
from lanefold.program.prices import ProgramCost
from lanefold.pto.cost import Cost, request
from lanefold.pto.cost.rows import cost_or_unknown, cost_row
from lanefold.pto.isa import Family
from lanefold.pto.program.model import Compute, Instruction, Load, Program
from lanefold.pto.program.resolve import resolve

if TYPE_CHECKING:
    from lanefold.pto.tiles import TileType

EXTENT = Rule(
    "PTO-TIMELINE-EXTENT",
    "A price or a timeline needs the valid extents of every tile, by the index parameters that the program has.",
    "PTO AS: index parameters",
    usage=True,
)
LOADS, VECTOR, STORES = "MTE2", "V", "MTE3"
"""Pipes of loads, vector instructions and stores (PTO headers: A2/A3 cost models, pipes)."""
_FORMS = {"C1": "no_tmp", "R2": "index", "C3": "index", "R3": "value_index", "C4": "value_index"}


@dataclass(frozen=True)
class Question:
    """What the cost of one instruction depends on.

    Args:
        op: operation, ``TLOAD`` or ``TSTORE``.
        pipe: what runs it.
        full: the full-size tile.
        arguments: layouts, form and alike.
    """

    op: str
    pipe: str
    full: TileType
    arguments: Mapping[str, object]

    @property
    def elements(self) -> int:
        """Valid elements of the full-size tile."""
        return (self.full.valid_rows or 0) * (self.full.valid_cols or 0)

    def answer(self, target: str, model: str) -> Cost:
        """What the model says; unknown where it has no price.

        Raises:
            LanefoldError: PTO-COST-… for a wrong target or model.
        """
        full = self.full
        sizes = (full.rows, full.cols, full.valid_rows, full.valid_cols)
        return cost_or_unknown(self.op, full.dtype, sizes, target, model, **self.arguments)


def program_cost(program: Program, target: str, model: str, parameters: Mapping[str, int]) -> ProgramCost:
    """The price of every load, operation and store, and totals with the bounds of the expected errors.

    Raises:
        LanefoldError: PTO-TIMELINE-EXTENT where an extent is not known, PTO-COST-… for a wrong target or model.
    """
    name = request.model_name(model or request.MODELS[0])
    where = request.target_of(target, name)
    types = resolve(program, known_parameters(program, parameters))
    asked = [question(program, instruction, types) for instruction in program.instructions]
    rows = tuple(cost_row(each.answer(where, name), each.pipe, each.elements) for each in asked)
    return ProgramCost(rows, name, where, not_priced=("the hand-over between pipes",))


def known_parameters(program: Program, parameters: Mapping[str, int]) -> Mapping[str, int]:
    """The values of index parameters, all of them names that the program has and whole numbers from 1 on.

    Raises:
        LanefoldError: PTO-TIMELINE-EXTENT for anything else.
    """
    example = ", ".join(f"{name!r}: 8" for name in program.parameters)
    given = mapping("cost", "parameters", parameters, "a mapping of names to whole numbers", f"{{{example}}}")
    for name, value in given.items():
        if name not in program.parameters or not (as_integer(value) or 0) > 0:
            known = name in program.parameters
            raise EXTENT.error(
                f"parameter {name} cannot be {shown(value)}" if known else f"the program has no index parameter {name}",
                got=f"{name} = {shown(value)}",
                allowed=", ".join(f"{each} from 1 on" for each in program.parameters) or "no parameters",
                cures=[f"give {name} a whole number from 1 on" if known else f"leave {name} out"],
                place=Place(field=name),
            )
    return given


def question(program: Program, instruction: Instruction, types: Mapping[str, TileType]) -> Question:
    """What the cost of an instruction of a program depends on.

    Raises:
        LanefoldError: PTO-TIMELINE-EXTENT where an extent is not known.
    """
    load = isinstance(instruction, Load)
    if isinstance(instruction, Compute):
        op, pipe, arguments = instruction.op, VECTOR, _call(program, instruction, types)
    else:
        op, pipe = ("TLOAD", LOADS) if load else ("TSTORE", STORES)
        arguments = {"path": "GM->UB" if load else "UB->GM"}
    full = types[_full(instruction)]
    if full.valid_rows is None or full.valid_cols is None:
        raise EXTENT.error(
            f"the valid extents of %{_full(instruction)} are not known",
            got=str(full),
            allowed="whole numbers",
            cures=[f"give parameters for {', '.join(program.parameters) or 'the tile'}"],
            place=Place(instruction=op, operand=_full(instruction), line=instruction.line),
        )
    return Question(op, pipe, full, arguments)


def _full(instruction: Instruction) -> str:
    """The tile whose extents a cost is asked for: the source of a reduction, the result of an expansion."""
    if not isinstance(instruction, Compute):
        return instruction.tile
    return instruction.sources[0] if instruction.row.reduces else instruction.outputs[0]


def _call(program: Program, instruction: Compute, types: Mapping[str, TileType]) -> dict[str, object]:
    row = instruction.row
    found: dict[str, object] = {"static_shape": program.slots[_full(instruction)].type.static}
    if row.family in (Family.ROW_REDUCE, Family.ROW_ARG):
        found["dst_layout"] = types[instruction.outputs[0]].layout
    if row.family is Family.ROW_EXPAND:
        found["src_layout"] = types[instruction.sources[0]].layout
    if row.family is Family.ROW_EXPAND_BINARY:
        column = any(types[name].layout == "DN" for name in instruction.sources)
        found["src1_layout"] = "DN" if column else "ND32B"
    if row.arg:
        found["form"] = _FORMS[instruction.form]
        found["idx_bytes"] = min(types[instruction.outputs[-1]].element.bytes, 4)
    if row.name == "TCOLSUM":
        found["form"] = _FORMS.get(instruction.form) or ("binary" if instruction.is_binary else "sequential")
    return found
