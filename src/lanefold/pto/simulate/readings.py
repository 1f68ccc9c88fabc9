"""Named orders of addition of the devices, as documented: unverified, offered so that their spread can be seen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from lanefold.diagnostics import Cure, Place, Rule
from lanefold.pto.calls import Call
from lanefold.pto.isa import TARGETS
from lanefold.pto.simulate.blocks import Block, scatter_lines

Array = npt.NDArray[Any]
Runner = Callable[[dict[str, Block]], None]

NUMERICS_NAME = Rule(
    "PTO-NUMERICS-NAME",
    "A numeric reading is cpu, or one of the named orders of addition of the devices.",
    "PTO headers: CPU simulator, A2/A3 and A5 reductions",
    usage=True,
)


@dataclass(frozen=True, slots=True)
class Reading:
    """One reading of the numerics; ``odd_first`` says which partial row of a paired column sum takes an odd last row.

    ``tree`` is true where whole vector registers of a row are added in pairs before the lanes are. ``gaps`` lists what
    the reading does not reproduce. ``changed`` says how many of the CPU simulator's reference cases come out otherwise
    than there, out of how many, by operation and element type: sums of floats, which depend on the order.
    """

    name: str
    title: str
    odd_first: bool
    tree: bool
    confidence: str
    source: str
    gaps: tuple[str, ...] = ()
    changed: Mapping[tuple[str, str], tuple[int, int]] = field(default_factory=dict)


_DEVICE_GAPS = (
    "the order inside a cross-lane addition is not documented; neighbours are added in pairs here",
    "the documents say that subnormals are flushed; they are kept here",
)

_CHANGED = {
    ("TROWSUM", "f32"): (4, 6),
    ("TROWSUM", "f16"): (7, 9),
    ("TROWSUM", "bf16"): (4, 9),
    ("TCOLSUM", "f32"): (3, 9),
    ("TCOLSUM", "f16"): (3, 12),
    ("TCOLSUM", "bf16"): (3, 12),
}

READINGS: dict[str, Reading] = {
    row.name: row
    for row in (
        Reading("cpu", "one addition after the other", False, False, "measured", "PTO headers: CPU simulator"),
        Reading(
            "a2a3-order",
            "registers of a row in pairs, then their lanes in pairs; an odd last row into the first partial row",
            True,
            True,
            "read, unverified",
            "PTO headers: A2/A3 TRowSum, TColSum",
            _DEVICE_GAPS,
            _CHANGED,
        ),
        Reading(
            "a5-order",
            "lanes of each register in pairs, registers in order; an odd last row into the last partial row",
            False,
            False,
            "read, unverified",
            "PTO headers: A5 TRowSum, TColSum",
            (
                *_DEVICE_GAPS,
                "EXPDIF on f32 is one fused instruction there; it is a subtraction and an exponential here",
            ),
            _CHANGED,
        ),
    )
}


def reading(name: object) -> Reading:
    """The reading of this name.

    Raises:
        LanefoldError: PTO-NUMERICS-NAME for an unknown name.
    """
    found = READINGS.get(name) if isinstance(name, str) else None
    if found is None:
        raise NUMERICS_NAME.error(
            f"numeric reading {name!r} is not known",
            got=repr(name),
            allowed=", ".join(READINGS),
            cures=[Cure("use cpu, the bit-exact one", {"numerics": "cpu"})],
            place=Place(field="numerics"),
        )
    return found


def _pairs(values: Array) -> Array:
    """Sum over the first axis by adding neighbours until one is left, an odd last one staying for the next round."""
    while len(values) > 1:
        half = len(values) // 2
        summed = values[0 : 2 * half : 2] + values[1 : 2 * half : 2]
        values = np.concatenate([summed, values[2 * half :]])
    result: Array = values[0]
    return result


def _row_pairs(values: Array, odd_first: bool) -> Array:
    """Column sum that adds pairs of rows and halves repeatedly; see `Reading.odd_first`."""
    while len(values) > 1:
        half = len(values) // 2
        summed = values[0 : 2 * half : 2] + values[1 : 2 * half : 2]
        if len(values) % 2:
            place = 0 if odd_first else -1
            summed[place] = summed[place] + values[-1]
        values = summed
    result: Array = values[0]
    return result


def _row_sum(values: Array, lanes: int, tree: bool) -> Array:
    """Row sum of [length, ...] in registers of ``lanes`` elements."""
    registers = [values[first : first + lanes] for first in range(0, len(values), lanes)]
    if not tree:
        total = _pairs(registers[0])
        for register in registers[1:]:
            total = total + _pairs(register)
        return total
    whole = [register for register in registers if len(register) == lanes]
    lane_sums = _pairs(np.stack(whole)) if whole else registers[0]
    if whole and len(registers) > len(whole):
        lane_sums = lane_sums.copy()
        lane_sums[: len(registers[-1])] += registers[-1]
    return _pairs(lane_sums)


def reading_runner(call: Call, row: Reading) -> Runner | None:
    """The loop of a device's order, or None where the order changes nothing: only float sums depend on it."""
    sums = call.op.operator == "sum" and call.source.type.element.kind == "float"
    by_row = call.op.axis == "row"
    if row.name == "cpu" or not sums or not (by_row or call.is_binary):
        return None
    rows, cols = call.source.rows or 0, call.source.cols or 0
    lanes = TARGETS["a2a3"].register_bytes // call.source.type.element.bytes

    def total(values: Array) -> Array:
        """Sums of [tiles, rows, cols] along the axis that goes, [tiles, lines]."""
        with np.errstate(all="ignore"):
            if by_row:
                return _row_sum(np.moveaxis(values, 2, 0), lanes, row.tree)
            return _row_pairs(np.moveaxis(values, 1, 0), row.odd_first)

    def run(blocks: dict[str, Block]) -> None:
        source, result = blocks["src"], blocks["dst"]
        lines = np.concatenate([total(part) for part in source.views(rows, cols)])
        with np.errstate(all="ignore"):
            narrow = lines.astype(result.flat.dtype)
        scatter_lines(result, narrow, result.row_step if by_row else result.column_step)

    return run
