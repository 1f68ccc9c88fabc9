"""Prices of many instructions at once: one opcode, and arrays of elements per partition."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lanefold.numerics.dtypes import by_name
from lanefold.tpb import isa
from lanefold.tpb.cost import PUBLISHED, UNPUBLISHED, VERSIONS, has_pairs, home, model_name, start_up
from lanefold.tpb.cost.formulas import Sizes, formula
from lanefold.tpb.isa import timing

BOUNDS = ("start-up", "streaming", "port")
"""What limits an instruction, in the order of the codes in `PriceColumns.bound`."""

_START, _STREAMING, _PORT = range(3)


@dataclass(frozen=True, slots=True)
class PriceColumns:
    """Least and greatest cycles of many instructions, what limits each, and what holds for all of them."""

    model: str
    version: str
    engine: str
    clock_ghz: float
    validity: str
    low: npt.NDArray[np.float64]
    high: npt.NDArray[np.float64]
    bound: npt.NDArray[np.uint8]


def price_columns(
    opcode: str,
    elements: npt.NDArray[np.int64],
    generation: isa.Generation,
    model: str = "",
    *,
    dtype: str = "float32",
    operator: str = "add",
    axis: str = "X",
    transposed: bool = False,
    step: int = 1,
    indices: int = 0,
) -> PriceColumns:
    """The same as `price` for instructions over one row of elements with source and result of one type.

    Args:
        opcode: BIR opcode.
        elements: elements per partition that the work counts: of the table for Gather.
        generation: generation.
        model: ``documented`` or ``detailed``, the first if empty.
        dtype: element type of source and result.
        operator: of TensorReduce.
        axis: of TensorReduce; ``C`` and ``XYZWC`` fold partitions.
        transposed: whether TensorReduce transposes first.
        step: elements from one element of a row to the next.
        indices: of Gather, per partition.

    Raises:
        LanefoldError: if there is no such model.
    """
    chosen = model_name(model)
    pairs: npt.NDArray[np.bool_] | bool = False
    if opcode == "TensorReduce" and step == 1 and has_pairs(generation, operator, dtype, dtype):
        pairs = elements % 2 == 0
    across = opcode == "TensorReduce" and axis in isa.BIR_CROSS_LANE_AXES
    sizes = Sizes(opcode, elements, indices, across, transposed, pairs)
    row, engine = formula(sizes), home(sizes)
    start = start_up(row, engine, chosen)
    wide = abs(step) * by_name(dtype).bytes >= timing.PORT_STRIDE_BYTES
    slow = (elements > 1) & (chosen == "detailed" and generation == "v2" and wide)
    low, high = (np.asarray(value, np.float64) * (1 + slow) for value in row.span(sizes))
    bound = np.where(slow, np.uint8(_PORT), np.uint8(_STREAMING))
    bound[high <= max(timing.MINIMUM_INTERVAL, start)] = _START
    return PriceColumns(
        model=chosen,
        version=VERSIONS[chosen],
        engine=engine,
        clock_ghz=timing.CLOCK_GHZ[generation][engine],
        validity=PUBLISHED if row.published else UNPUBLISHED,
        low=start + np.maximum(low, timing.MINIMUM_INTERVAL),
        high=start + np.maximum(high, timing.MINIMUM_INTERVAL),
        bound=bound,
    )
