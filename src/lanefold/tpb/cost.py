"""Cycles of instructions: the published formulas, and a model with the fixed overheads."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from lanefold.diagnostics import Rule
from lanefold.numerics.dtypes import by_name
from lanefold.program.prices import CostRow
from lanefold.tpb import isa
from lanefold.tpb.instruction import Instruction
from lanefold.tpb.isa import timing
from lanefold.tpb.patterns import Access

MODELS = ("documented", "detailed")
"""Cost models by name, the default first."""

RULE_MODEL = Rule(
    "TPB-COST-MODEL", "A price names a cost model that exists: documented or detailed.", "Cost models", usage=True
)


class Work(NamedTuple):
    """What an instruction has to do: cycles of streaming, least and greatest, and the formula that says so.

    ``start`` is start-up that the formula itself contains; ``published`` tells a vendor's formula from ours.
    """

    low: float
    high: float
    rule: str
    start: int = 0
    published: bool = True


def price(instruction: Instruction, generation: isa.Generation, model: str = "") -> CostRow:
    """The price of one instruction.

    ``documented`` is start-up of the formula plus max(MIN_II, work). ``detailed`` adds 100 cycles on Vector, or 150
    on GpSimd where the formula has none, and 60 for the first operand access; on v2 the work doubles where an
    innermost stride leaves the fast port rate. Source: NKI ISA reference, October 2025; architecture guides.

    Raises:
        LanefoldError: if there is no such model.
    """
    chosen = model or MODELS[0]
    if chosen not in MODELS:
        raise RULE_MODEL.error(
            f"there is no cost model {chosen!r}",
            got=chosen,
            allowed=", ".join(MODELS),
            cures=[f"write {MODELS[0]}"],
        )
    work = _WORK[instruction.opcode](instruction, generation)
    engine = instruction.engine if instruction.engine in timing.CLOCK_GHZ[generation] else _home(instruction)
    start, factor = work.start, 1
    if chosen == "detailed":
        start = max(start, timing.GPSIMD_START if engine == "Pool" else timing.VECTOR_START) + timing.ACCESS_START
        factor = 2 if generation == "v2" and _leaves_fast_port(instruction) else 1
    low, high = (max(timing.MINIMUM_INTERVAL, value * factor) for value in (work.low, work.high))
    return CostRow(
        instruction=instruction.name or instruction.opcode,
        engine=engine,
        low=start + low,
        high=start + high,
        clock_ghz=timing.CLOCK_GHZ[generation][engine],
        model=chosen,
        rule=f"{start} + max({timing.MINIMUM_INTERVAL}, {work.rule})" + (" x 2 (port)" if factor == 2 else ""),
        bound=_bound(start, work.high * factor, factor),
        validity="published formula" if work.published else "model, nothing is published",
        node=instruction.node,
        elements=_data(instruction).elements,
        source=timing.SOURCE_FORMULA if work.published else timing.SOURCE_MODEL,
    )


def _bound(start: int, work: float, factor: int) -> str:
    if work <= max(timing.MINIMUM_INTERVAL, start):
        return "start-up"
    return "port" if factor == 2 else "streaming"


def _home(instruction: Instruction) -> str:
    return isa.BIR_BY_OPCODE[instruction.opcode].engine


def _data(instruction: Instruction) -> Access:
    """The operand whose elements the formulas count: the greatest one."""
    return max((*instruction.ins, *instruction.outs), key=lambda access: access.elements)


def _leaves_fast_port(instruction: Instruction) -> bool:
    for access in (*instruction.ins, *instruction.outs):
        step = next((step for step, num in reversed(access.free) if num > 1), 1)
        if abs(step) * by_name(access.dtype).bytes >= timing.PORT_STRIDE_BYTES:
            return True
    return False


def _pool(instruction: Instruction, generation: isa.Generation) -> Work:
    elements = instruction.ins[0].elements
    return Work(elements, elements, f"{elements} elements read", published=False)


def _reduce(instruction: Instruction, generation: isa.Generation) -> Work:
    source, operator = instruction.ins[0], instruction.attributes["op"]
    elements = source.elements
    if instruction.attributes["axis"] in isa.BIR_CROSS_LANE_AXES:
        serial = timing.CROSS_LANE_SERIAL
        return Work(
            elements, serial * elements, f"{elements} to {serial} x {elements}", timing.GPSIMD_START, published=False
        )
    if instruction.attributes.get("apply_transpose"):
        return Work(2 * elements, 2 * elements, f"2 x {elements} (transposed)", published=False)
    if generation == "v2" and operator in ("add", "max") and _is_fast_bf16(source, instruction.outs[0]):
        return Work(elements / 2, elements / 2, f"{elements} / 2 (bfloat16 pairs)")
    return Work(elements, elements, f"{elements}")


def _is_fast_bf16(source: Access, out: Access) -> bool:
    """The conditions under which bfloat16 pairs go through at once (ISA headers: is_valid_tensor_reduce_bf16)."""
    step, num = source.pattern[-1]
    return source.dtype == out.dtype == "bfloat16" and step == 1 and num % 2 == 0 and source.byte % 4 == 0


def _one_pass(instruction: Instruction, generation: isa.Generation) -> Work:
    elements = _data(instruction).elements
    return Work(elements, elements, f"{elements}")


def _max_index(instruction: Instruction, generation: isa.Generation) -> Work:
    elements = _data(instruction).elements
    cycles = elements + timing.MINIMUM_INTERVAL
    return Work(cycles, cycles, f"{elements} + {timing.MINIMUM_INTERVAL} (two bundles)")


def _reciprocal(instruction: Instruction, generation: isa.Generation) -> Work:
    elements, factor = _data(instruction).elements, timing.RECIPROCAL_CYCLES
    return Work(factor * elements, factor * elements, f"{factor} x {elements}")


def _iota(instruction: Instruction, generation: isa.Generation) -> Work:
    elements = instruction.outs[0].elements
    return Work(elements, elements, f"{elements}", timing.GPSIMD_START)


def _gather(instruction: Instruction, generation: isa.Generation) -> Work:
    table, indices = instruction.ins[0].elements, instruction.ins[1].elements
    chunks = -(-table // isa.GATHER_CHUNK)
    each = 2 * timing.GPSIMD_START + min(isa.GATHER_CHUNK, table) + indices
    rule = f"{chunks} x (2 x {timing.GPSIMD_START} + {min(isa.GATHER_CHUNK, table)} + {indices})"
    return Work(chunks * each, chunks * each, rule, published=False)


_WORK: dict[str, Callable[[Instruction, isa.Generation], Work]] = {
    "Pool": _pool,
    "TensorReduce": _reduce,
    "Max": _one_pass,
    "MaxIndex": _max_index,
    "MatchReplace": _one_pass,
    "Reciprocal": _reciprocal,
    "Iota": _iota,
    "Gather": _gather,
}
