"""Instruction sequences of tile operations: steps, counted loops and the mask register they run under."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from lanefold.pto.isa import REPEAT_LIMIT

WORD = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Step:
    """One instruction: its name, its operands in trace order, the pipes it joins and, where priced, its cycles."""

    name: str
    operands: tuple[int, ...] = ()
    pipes: str = ""
    cycles: float | None = None

    def __str__(self) -> str:
        if self.name == "set_vector_mask":
            shown = [hex(word) for word in self.operands]
        else:
            shown = [str(value) for value in self.operands]
        words = [self.name, *([self.pipes] if self.pipes else []), *shown]
        if self.cycles is not None:
            words.append(f"c={self.cycles:g}")
        return " ".join(words)


@dataclass(frozen=True, slots=True)
class Loop:
    """A part of a sequence that is issued several times in a row."""

    times: int
    body: tuple[Node, ...]


Node = Step | Loop


@dataclass(frozen=True, slots=True)
class Instructions:
    """The instruction sequence of one tile operation, with repeated parts kept as loops."""

    nodes: tuple[Node, ...]

    def __iter__(self) -> Iterator[Step]:
        """Every step in the order of issue, loops unrolled."""
        return _unrolled(self.nodes)

    def __str__(self) -> str:
        return "\n".join(_lines(self.nodes, ""))

    def count(self, name: str) -> int:
        """How many times an instruction is issued."""
        return _count(self.nodes, name)

    def to_list(self) -> list[object]:
        """The sequence as plain data: ``[name, operand, …]`` per step, ``{"times", "body"}`` per loop."""
        return _plain(self.nodes)


def _unrolled(nodes: Sequence[Node]) -> Iterator[Step]:
    for node in nodes:
        if isinstance(node, Step):
            yield node
        else:
            for _ in range(node.times):
                yield from _unrolled(node.body)


def _lines(nodes: Sequence[Node], indent: str) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, Step):
            yield f"{indent}{node}"
        else:
            yield f"{indent}{node.times} times"
            yield from _lines(node.body, indent + "  ")


def _count(nodes: Sequence[Node], name: str) -> int:
    total = 0
    for node in nodes:
        total += int(node.name == name) if isinstance(node, Step) else node.times * _count(node.body, name)
    return total


def _plain(nodes: Sequence[Node]) -> list[object]:
    rows: list[object] = []
    for node in nodes:
        if isinstance(node, Loop):
            rows.append({"times": node.times, "body": _plain(node.body)})
            continue
        row: list[object] = [node.name]
        row += [hex(v) for v in node.operands] if node.name == "set_vector_mask" else list(node.operands)
        if node.cycles is not None:
            row.append(f"c={node.cycles:g}")
        rows.append(row)
    return rows


class Writer:
    """Collects the steps of a sequence in the order of issue."""

    def __init__(self) -> None:
        self._open: list[list[Node]] = [[]]

    def done(self) -> Instructions:
        """The sequence written so far."""
        return Instructions(tuple(self._open[0]))

    def issue(self, name: str, *operands: int, pipes: str = "") -> None:
        """One instruction."""
        self._open[-1].append(Step(name, operands, pipes))

    @contextmanager
    def loop(self, times: int) -> Iterator[None]:
        """The steps written inside the block, ``times`` times; none at all for 0."""
        self._open.append([])
        yield
        body = tuple(self._open.pop())
        if times == 1:
            self._open[-1].extend(body)
        elif times > 1 and body:
            self._open[-1].append(Loop(times, body))

    def barrier(self) -> None:
        """Wait until the vector pipe is empty."""
        self.issue("pipe_barrier")

    def lanes(self, count: int) -> None:
        """Mask off all but the first ``count`` lanes of every repeat (normal mode)."""
        bits = (1 << count) - 1
        self.issue("set_vector_mask", bits >> 64, bits & WORD)

    def length(self, elements: int) -> None:
        """The element count that the mask register holds in count mode."""
        self.issue("set_vector_mask", 0, elements)

    def full(self) -> None:
        """All lanes of every repeat."""
        self.issue("set_vector_mask", WORD, WORD)

    def counting(self) -> None:
        """Enter count mode: instructions take their length from the mask register."""
        self.issue("set_mask_count")

    def normal(self) -> None:
        """Leave count mode, all lanes on."""
        self.issue("set_mask_norm")
        self.full()

    def counted(self, name: str, elements: int) -> None:
        """One instruction in count mode over ``elements`` elements, and back to normal mode."""
        self.counting()
        self.length(elements)
        self.issue(name, 0)
        self.normal()

    def scalar_round_trip(self) -> None:
        """Hand over from the vector pipe to the scalar unit and back."""
        for pipes in ("V->S", "S->V"):
            self.issue("set_flag", pipes=pipes)
            self.issue("wait_flag", pipes=pipes)


def pieces(count: int, largest: int = REPEAT_LIMIT) -> list[tuple[int, int]]:
    """``count`` repeats as (how many instructions, repeats of each); the last piece is issued even when it is 0."""
    whole, rest = divmod(count, largest)
    return [(whole, largest), (1, rest)] if whole else [(1, rest)]
