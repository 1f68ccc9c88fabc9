"""The stream model: the instruction sequence of the real kernel, each instruction with head, slope and tail."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from lanefold.pto.cost.sequence import WORD, Instructions, Loop, Node, Step
from lanefold.pto.cost.tables import BANDWIDTH_GIB, CLOCK_MHZ, MASKED_FLOOR, STREAM

GIB = 2.0**30


def copy_cycles(name: str, size: int) -> int:
    """Cycles of a copy of ``size`` bytes, rounded down."""
    rate = next(rate for stem, rate in BANDWIDTH_GIB.items() if name.startswith(stem))
    return int(size / GIB / rate * (CLOCK_MHZ * 1e6))


@dataclass
class _Walk:
    cold: bool = True
    partial: bool = False
    terms: dict[str, float] = field(default_factory=dict)

    def price(self, step: Step) -> int:
        """Cycles of one step in the present state, and the state after it."""
        if step.name.startswith("copy_"):
            unit = 32 if step.name == "copy_ubuf_to_ubuf" else 1
            cycles = copy_cycles(step.name, step.operands[0] * step.operands[1] * unit)
            self._add("copies", cycles)
            return cycles
        if step.name in _CONTROL:
            self._control(step)
            self._add(_CONTROL[step.name], 1)
            return 1
        pipe = STREAM["vconv" if step.name.startswith("vconv_") else step.name]
        cycles = pipe.slope * (step.operands[0] % 256)
        self._add("repeats", cycles)
        if self.cold:
            cycles += pipe.head + pipe.tail
            self._add("fill and drain", pipe.head + pipe.tail)
            self.cold = False
        if self.partial and pipe.floor:
            cycles += MASKED_FLOOR
            self._add("masked floor", MASKED_FLOOR)
        return cycles

    def _control(self, step: Step) -> None:
        if step.name == "pipe_barrier" or (step.name == "wait_flag" and step.pipes == "V->S"):
            self.cold = True
        elif step.name == "set_mask_count":
            self.partial = True
        elif step.name == "set_mask_norm":
            self.partial = False
        elif step.name == "set_vector_mask":
            self.partial = step.operands != (WORD, WORD)

    def _add(self, term: str, cycles: float) -> None:
        self.terms[term] = self.terms.get(term, 0) + cycles


_CONTROL = {
    "pipe_barrier": "barriers",
    "set_mask_count": "masks",
    "set_mask_norm": "masks",
    "set_vector_mask": "masks",
    "set_flag": "scalar hand-over",
    "wait_flag": "scalar hand-over",
}


def walk(sequence: Instructions) -> tuple[int, Instructions, dict[str, float]]:
    """Cycles, the sequence with the cycles of each step, and the cycles by kind of term."""
    state = _Walk()
    nodes, total = _walk(sequence.nodes, state)
    return total, Instructions(tuple(nodes)), state.terms


def _walk(nodes: Sequence[Node], state: _Walk) -> tuple[list[Node], int]:
    priced: list[Node] = []
    total = 0
    for node in nodes:
        if isinstance(node, Step):
            cycles = state.price(node)
            priced.append(replace(node, cycles=cycles))
            total += cycles
        else:
            part, cycles = _loop(node, state)
            priced += part
            total += cycles
    return priced, total


def _loop(loop: Loop, state: _Walk) -> tuple[list[Node], int]:
    """A loop as its first pass and the rest: the state after a body does not depend on how often it ran."""
    first, once = _walk(loop.body, state)
    if loop.times == 1:
        return first, once
    before = dict(state.terms)
    again, steady = _walk(loop.body, state)
    rest = loop.times - 1
    for term, value in state.terms.items():
        known = before.get(term, 0)
        state.terms[term] = known + (value - known) * rest
    total = once + steady * rest
    if first == again:
        return [Loop(loop.times, tuple(again))], total
    return [*first, *([Loop(rest, tuple(again))] if rest > 1 else again)], total
