"""The tasks of a lowered op: instructions on their engines, fills, and transfers of unknown duration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from lanefold.numerics.dtypes import by_name
from lanefold.program.prices import CostRow
from lanefold.program.timeline import TRANSFERS, Region, Task, facts
from lanefold.tpb import isa
from lanefold.tpb.cost import price, price_fill
from lanefold.tpb.cost.formulas import FILL
from lanefold.tpb.instruction import Instruction
from lanefold.tpb.isa import timing
from lanefold.tpb.lower.plan import Fill, Lowering, Transfer
from lanefold.tpb.patterns import Access


def region(access: Access) -> Region:
    """What an operand touches: its partitions, and the bytes of one partition that it walks."""
    size = by_name(access.dtype).bytes
    steps = [(step * size, num) for step, num in access.free if num > 1]
    low = access.byte + sum(min(0, step * (num - 1)) for step, num in steps)
    high = access.byte + sum(max(0, step * (num - 1)) for step, num in steps) + size

    def offsets() -> npt.NDArray[np.int64]:
        found = np.arange(access.byte, access.byte + size, dtype=np.int64)
        for step, num in steps:
            found = np.add.outer(np.arange(num, dtype=np.int64) * step, found)
        return found.reshape(-1)

    rows = (access.partition, access.partition + access.channels)
    return Region(access.memory, rows, (low, high), None if _is_dense(steps, size) else offsets)


def _is_dense(steps: Sequence[tuple[int, int]], size: int) -> bool:
    """Whether a walk leaves no gap: each step, from the smallest on, is within what the smaller ones cover."""
    covered = size
    for step, num in sorted((abs(step), num) for step, num in steps):
        if step > covered:
            return False
        covered += step * (num - 1)
    return True


def operand_text(access: Access) -> str:
    """An operand in one line: type, place, and (step, num) pairs with the outermost first."""
    last = access.partition + access.channels - 1
    pattern = " ".join(f"[{step},{num}]" for step, num in access.free)
    name = f"{access.name} " if access.name else ""
    return f"{name}{access.dtype} {access.memory} partitions {access.partition} to {last} byte {access.byte} {pattern}"


def tasks(lowering: Lowering, model: str, inputs: Sequence[str], outputs: Sequence[str]) -> list[Task]:
    """The tasks of a lowering in order; ``inputs`` and ``outputs`` are the program's names of its DRAM tensors.

    Raises:
        LanefoldError: if there is no such model.
    """
    names = {f"in{at}": name for at, name in enumerate(inputs)} | {f"out{at}": name for at, name in enumerate(outputs)}
    found = []
    for number, item in enumerate(lowering.items):
        if isinstance(item, Transfer):
            found.append(_transfer(item, names.get(item.tensor, f"{'/'.join(outputs)}/{item.tensor}"), number))
        elif isinstance(item, Fill):
            row = price_fill(item.access, lowering.generation, model)
            named = replace(row, instruction=f"fill.{number}")
            found.append(_task(FILL, named, (), (item.access,), lowering.generation))
        else:
            found.append(_instruction(item, lowering.generation, model))
    return found


def _instruction(item: Instruction, generation: isa.Generation, model: str) -> Task:
    return _task(item.opcode, price(item, generation, model), item.ins, item.outs, generation)


def _task(kind: str, row: CostRow, ins: Sequence[Access], outs: Sequence[Access], generation: isa.Generation) -> Task:
    memories = {access.memory for access in (*ins, *outs)}
    turns = {
        f"{memory}: {first} or {second}"
        for first, second, memory in timing.EXCLUSIVE[generation]
        if memory in memories and row.engine in (first, second)
    }
    overlap = timing.DISPATCH_OVERLAP / row.clock_ghz if row.clock_ghz and row.model == "detailed" else 0.0
    operands = {"reads": [operand_text(each) for each in ins], "writes": [operand_text(each) for each in outs]}
    return Task(
        name=row.instruction,
        track=row.engine,
        kind=kind,
        ns=row.ns,
        reads=tuple(map(region, ins)),
        writes=tuple(map(region, outs)),
        holds=frozenset(turns),
        hides_ns=overlap,
        details=facts(row) | operands,
    )


def _transfer(item: Transfer, tensor: str, number: int) -> Task:
    on_chip, outside = (region(item.access),), (Region(tensor),)
    load = item.direction == "load"
    size = item.elements * by_name(item.access.dtype).bytes
    return Task(
        name=f"{item.direction} {tensor}",
        track=TRANSFERS,
        kind=item.direction,
        ns=(0.0, None),
        in_order=False,
        reads=outside if load else on_chip,
        writes=on_chip if load else outside,
        details={"bytes": size, "operand": operand_text(item.access), "number": number, "validity": "unknown"},
    )
