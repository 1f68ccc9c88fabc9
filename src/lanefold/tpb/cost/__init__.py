"""Cycles of instructions: the published formulas, and a model with the fixed overheads."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from lanefold.diagnostics import Cure, Rule
from lanefold.numerics.dtypes import by_name
from lanefold.program.prices import CostRow
from lanefold.tpb import isa
from lanefold.tpb.binary.layout import check_generation
from lanefold.tpb.cost.formulas import FILL, Formula, Sizes, formula
from lanefold.tpb.instruction import Instruction
from lanefold.tpb.isa import timing
from lanefold.tpb.patterns import Access

MODELS = ("documented", "detailed")
"""Cost models by name, the default first."""

VERSIONS: Mapping[str, str] = MappingProxyType(
    {
        "documented": "published formulas, October 2025",
        "detailed": "published formulas, October 2025, with the overheads of the architecture guides",
    }
)
"""What each model is and of which date."""

PUBLISHED, UNPUBLISHED = "published formula", "model, nothing is published"
"""How a number is founded: on a vendor's formula, or on ours."""

RULE_MODEL = Rule(
    "TPB-COST-MODEL", "A price names a cost model that exists: documented or detailed.", "Cost models", usage=True
)


def model_name(model: str) -> str:
    """The model of this name, the default one if it is empty.

    Raises:
        LanefoldError: if there is no such model.
    """
    if isinstance(model, str) and model in ("", *MODELS):
        return model or MODELS[0]
    raise RULE_MODEL.error(
        f"there is no cost model {model!r}",
        got=repr(model),
        allowed=", ".join(MODELS),
        cures=[Cure(f"write {MODELS[0]}", {"model": MODELS[0]})],
    )


def start_up(row: Formula, engine: str, model: str) -> int:
    """Start-up cycles of an instruction before its work: those of its formula, or all of them under ``detailed``."""
    if model != "detailed":
        return row.start
    if row.starts_within:
        return timing.ACCESS_START
    return max(row.start, timing.GPSIMD_START if engine == "Pool" else timing.VECTOR_START) + timing.ACCESS_START


def price(instruction: Instruction, generation: isa.Generation, model: str = "") -> CostRow:
    """The price of one instruction.

    ``documented`` is start-up of the formula plus max(MIN_II, work). ``detailed`` adds 100 cycles on Vector, or 150
    on GpSimd where the formula has none, and 60 for the first operand access; on v2 the work doubles where an
    innermost stride leaves the fast port rate. Source: NKI ISA reference, October 2025; architecture guides.

    Raises:
        LanefoldError: if there is no such model or generation.
    """
    chosen, generation = model_name(model), check_generation(generation)
    sizes = sizes_of(instruction, generation)
    row = formula(sizes)
    engine = instruction.engine if instruction.engine in timing.CLOCK_GHZ[generation] else home(sizes)
    start = start_up(row, engine, chosen)
    factor = 2 if chosen == "detailed" and generation == "v2" and _leaves_fast_port(instruction) else 1
    work = row.span(sizes)
    low, high = (max(timing.MINIMUM_INTERVAL, value * factor) for value in work)
    return CostRow(
        instruction=instruction.name or instruction.opcode,
        engine=engine,
        low=start + low,
        high=start + high,
        clock_ghz=timing.CLOCK_GHZ[generation][engine],
        model=chosen,
        rule=f"{start} + max({timing.MINIMUM_INTERVAL}, {row.rule(sizes)})" + (" × 2 (port)" if factor == 2 else ""),
        bound=_bound(start, work[1] * factor, factor),
        validity=PUBLISHED if row.published else UNPUBLISHED,
        node=instruction.node,
        elements=_data(instruction).elements,
        source=timing.SOURCE_FORMULA if row.published else timing.SOURCE_MODEL,
        estimate=start + low if low == high else None,
    )


def price_fill(access: Access, generation: isa.Generation, model: str = "", node: str = "") -> CostRow:
    """The price of setting on-chip elements to zero, on Vector.

    Raises:
        LanefoldError: if there is no such model or generation.

    Source: NKI ISA reference, October 2025, memset.
    """
    chosen, generation = model_name(model), check_generation(generation)
    sizes = Sizes(FILL, access.elements, pairs=access.dtype in ("bfloat16", "float16"))
    engine = home(sizes)
    row = formula(sizes)
    start = start_up(row, engine, chosen)
    work, _ = row.span(sizes)
    cycles = start + max(timing.MINIMUM_INTERVAL, work)
    return CostRow(
        instruction=FILL,
        engine=engine,
        low=cycles,
        high=cycles,
        clock_ghz=timing.CLOCK_GHZ[generation][engine],
        model=chosen,
        rule=f"{start} + max({timing.MINIMUM_INTERVAL}, {row.rule(sizes)})",
        bound=_bound(start, work, 1),
        validity=PUBLISHED,
        node=node,
        elements=access.elements,
        source=timing.SOURCE_FORMULA,
        estimate=cycles,
    )


def _bound(start: int, work: float, factor: int) -> str:
    if work <= max(timing.MINIMUM_INTERVAL, start):
        return "start-up"
    return "port" if factor == 2 else "streaming"


def home(sizes: Sizes) -> str:
    """The engine that runs an instruction where the program binds it to none; Vector sets elements to zero."""
    if sizes.cross_lane:
        return isa.BIR_BY_OPCODE["Iota"].engine  # partitions are folded by the engine that counts and gathers
    return isa.BIR_BY_OPCODE["Max" if sizes.opcode == FILL else sizes.opcode].engine


def _data(instruction: Instruction) -> Access:
    """The operand whose elements most formulas count: the greatest one."""
    return max((*instruction.ins, *instruction.outs), key=lambda access: access.elements)


def _leaves_fast_port(instruction: Instruction) -> bool:
    for access in (*instruction.ins, *instruction.outs):
        step = next((step for step, num in reversed(access.free) if num > 1), 1)
        if abs(step) * by_name(access.dtype).bytes >= timing.PORT_STRIDE_BYTES:
            return True
    return False


def sizes_of(instruction: Instruction, generation: isa.Generation) -> Sizes:
    """The numbers that the formulas are written in, of one instruction."""
    opcode = instruction.opcode
    if opcode == "Gather":
        return Sizes(opcode, instruction.ins[0].elements, instruction.ins[1].elements)
    if opcode == "Pool":
        return Sizes(opcode, instruction.ins[0].elements)
    if opcode != "TensorReduce":
        return Sizes(opcode, _data(instruction).elements, scalar=instruction.engine == "Activation")
    source, attributes = instruction.ins[0], instruction.attributes
    return Sizes(
        opcode,
        source.elements,
        cross_lane=attributes["axis"] in isa.BIR_CROSS_LANE_AXES,
        transposed=bool(attributes.get("apply_transpose")),
        pairs=has_pairs(generation, str(attributes["op"]), source.dtype, instruction.outs[0].dtype)
        and _is_aligned(source),
    )


def has_pairs(generation: isa.Generation, operator: str, source: str, result: str) -> bool:
    """Whether bfloat16 pairs may go through at once; step, count and address decide then (is_valid_tensor_reduce_bf16).

    Source: ISA headers, tensor reduce in bfloat16.
    """
    return generation == "v2" and operator in ("add", "max") and source == result == "bfloat16"


def _is_aligned(source: Access) -> bool:
    step, num = source.pattern[-1]
    return step == 1 and num % 2 == 0 and source.byte % 4 == 0
