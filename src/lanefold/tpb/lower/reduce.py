"""Reductions: free-axis folds of a placement that spreads the outputs over partitions, or folds across lanes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import NamedTuple

from lanefold.diagnostics import Place, Rule, number_of
from lanefold.numerics.dtypes import by_name
from lanefold.ops import Reduce
from lanefold.tpb import isa
from lanefold.tpb.lower.dims import (
    GREATEST_NUM,
    GREATEST_STEP,
    PARTITIONS,
    Folded,
    Kept,
    count,
    merge_folded,
    merge_kept,
    pieces,
    split_axes,
    strides_of,
)
from lanefold.tpb.lower.elements import mapped, mapped_bytes, negated
from lanefold.tpb.lower.plan import Builder, Region, Transfer

RULE_ROW_SIZE = Rule(
    "TPB-LOWER-ROW",
    "The elements folded into one output fit a partition, or divide into equal parts that do.",
    "State-buffer size per partition; TENSOR4D descriptor",
)
RULE_CROSS_LANE = Rule(
    "TPB-LOWER-CROSS-LANE",
    "Across lanes go add, average and max, and min by a negation before and after, over at most 128 partitions.",
    "Pool Engine, The Cross-Lane Opcode Fork",
)


@dataclass(frozen=True)
class Fold:
    """One stage: ``folded`` dims of a DRAM tensor into the ``kept`` dims of another, all steps in elements."""

    source: str
    result: str
    kept: tuple[Kept, ...]
    folded: tuple[Folded, ...]
    operator: str
    element: str
    dtype: str
    out_dtype: str
    start: int = 0
    out_start: int = 0

    @property
    def row(self) -> int:
        """Elements folded into one output."""
        return count(self.folded)


def whole(builder: Builder, op: Reduce) -> Fold:
    """The reduction as a single stage, its tensors declared."""
    kept, folded = split_axes(op.input_shape, op.axes)
    source = builder.tensor("in0", prod(op.input_shape), op.dtype)
    result = builder.tensor("out0", prod(op.output_shape), op.output_dtype)
    return Fold(source, result, kept, folded, op.operator, op.element, op.dtype, op.output_dtype)


def lower_free_axis(builder: Builder, op: Reduce) -> str:
    """Adds a reduction's items on the free-axis path to a builder and returns its route.

    Rows too long for a partition, or too few to fill the partitions, are folded in two stages.

    Raises:
        LanefoldError: if a row fits no partition in any legal cut.
    """
    fold = whole(builder, op)
    parts = _parts(builder, fold)
    if parts == 1:
        _stage(builder, fold)
        return _route(fold)
    first, second = _two_stages(builder, fold, parts)
    for stage in first:
        _stage(builder, stage)
    _stage(builder, second)
    builder.note(f"rows of {fold.row} elements in {parts} parts, folded again")
    return _route(fold)


def _route(fold: Fold) -> str:
    return "pool (window is the row)" if fold.operator == "average" else "tensor_reduce (free-axis)"


def _row_limit(builder: Builder, fold: Fold) -> int:
    """Elements of a row that one partition and one 16-bit num hold."""
    per_element = by_name(fold.dtype).bytes + mapped_bytes(fold.dtype, fold.element)
    return min((builder.capacity - 64 - by_name(fold.out_dtype).bytes) // per_element, GREATEST_NUM)


def _parts(builder: Builder, fold: Fold) -> int:
    """In how many parts a row is folded first; 1 where one stage serves."""
    limit, row, outputs = _row_limit(builder, fold), fold.row, count(fold.kept)
    wanted = -(-row // limit)
    if outputs < PARTITIONS // 2 and row >= 16 * PARTITIONS:
        wanted = max(wanted, min(PARTITIONS // max(outputs, 1), row // PARTITIONS))
    if wanted == 1:
        return 1
    if fold.operator != "average" and len(fold.folded) == 1:
        return wanted
    return _cut(builder, fold, wanted, limit)


def _cut(builder: Builder, fold: Fold, wanted: int, limit: int) -> int:
    """The number of parts, nearest to the wanted one, into which the outer folded extent is cut.

    Parts are equal where that leaves them small enough and few enough to be folded again; else all but the last are,
    which an average does not allow.
    """
    outer, row = fold.folded[0].num, fold.row
    second = replace(fold, dtype=_between(fold), element="identity")
    most = _row_limit(builder, second)
    equal = [parts for parts in range(1, min(outer, most) + 1) if outer % parts == 0 and row // parts <= limit]
    if equal:
        return min(equal, key=lambda parts: abs(parts - wanted))
    size = min(-(-outer // wanted), limit // (row // outer))
    if fold.operator != "average" and size and -(-outer // size) <= most:
        return -(-outer // size)
    raise RULE_ROW_SIZE.error(
        f"a row of {row} elements does not divide into at most {most} equal parts of at most {limit} elements",
        got=f"{row} elements",
        allowed=f"at most {limit} elements, or a multiple of such a part",
        place=Place(node=builder.node),
        cures=[*_other_ways(fold), "keep the node on the host"],
    )


def _other_ways(fold: Fold) -> list[str]:
    """What computes the same where a row cannot be cut."""
    ways = ["reduce the axes one after the other"] if len(fold.folded) > 1 else []
    if fold.operator == "average":
        ways.append(f"reduce by add, whose parts may differ, and divide by {fold.row} afterwards")
    return ways


def _between(fold: Fold) -> str:
    """Element type of partial results."""
    return "int32" if fold.dtype == "int32" else "float32"


def _two_stages(builder: Builder, fold: Fold, parts: int) -> tuple[list[Fold], Fold]:
    """Partial folds of each row, and the fold of the partials."""
    outputs = count(fold.kept)
    middle_dtype = _between(fold)
    middle = builder.tensor("between", outputs * parts, middle_dtype)
    outer, inner = fold.folded[0], fold.folded[1:]
    size = -(-outer.num // parts)
    # Part k of a row goes to place k of its output's stretch in between.
    spread = tuple(Kept(dim.step, dim.out_step * parts, dim.num) for dim in fold.kept)
    even, rest = divmod(outer.num, size)
    cut = Kept(size * outer.step, 1, even)
    first = [
        replace(
            fold,
            result=middle,
            kept=merge_kept((*spread, cut)),
            folded=merge_folded((Folded(outer.step, size), *inner)),
            out_dtype=middle_dtype,
        )
    ]
    if rest:
        first.append(
            replace(
                first[0],
                kept=merge_kept(spread),
                folded=merge_folded((Folded(outer.step, rest), *inner)),
                start=fold.start + even * size * outer.step,
                out_start=even,
            )
        )
    used = even + bool(rest)
    back = tuple(Kept(dim.out_step * parts, dim.out_step, dim.num) for dim in fold.kept)
    second = replace(
        fold,
        source=middle,
        kept=merge_kept(back),
        folded=(Folded(1, used),),
        element="identity",
        dtype=middle_dtype,
        start=0,
    )
    return first, second


def _stage(builder: Builder, fold: Fold) -> None:
    """One stage: the widest kept dim is spread over partitions, the others stay inside them."""
    if not fold.kept:
        _pass(builder, fold, Kept(0, 0, 1), ())
        return
    widest = max(range(len(fold.kept)), key=lambda index: fold.kept[index].num)
    spread = fold.kept[widest]
    others = (*fold.kept[:widest], *fold.kept[widest + 1 :])
    chunk = -(-spread.num // PARTITIONS)
    partitions, rest = divmod(spread.num, chunk)
    lanes = Kept(spread.step * chunk, spread.out_step * chunk, partitions)
    _blocks(builder, fold, lanes, (*others, Kept(spread.step, spread.out_step, chunk)))
    if rest:
        done = partitions * chunk
        tail = replace(fold, start=fold.start + done * spread.step, out_start=fold.out_start + done * spread.out_step)
        _blocks(builder, tail, Kept(0, 0, 1), (*others, Kept(spread.step, spread.out_step, rest)))


def _blocks(builder: Builder, fold: Fold, lanes: Kept, inner: tuple[Kept, ...]) -> None:
    """Cuts the dims inside a partition until a pass fits the state buffer and the fields of a pattern."""
    dims = [dim for dim in inner if dim.num > 1]
    sizes = [dim.num for dim in dims]
    while not _fits(builder, fold, dims, sizes):
        largest = max(range(len(sizes)), key=lambda index: sizes[index], default=-1)
        if largest < 0 or sizes[largest] == 1:
            break
        sizes[largest] = -(-sizes[largest] // 2)
    passes = 0
    for cut in product(*(pieces(dim.num, size) for dim, size in zip(dims, sizes, strict=True))):
        start = sum(first * dim.step for (first, _), dim in zip(cut, dims, strict=True))
        out_start = sum(first * dim.out_step for (first, _), dim in zip(cut, dims, strict=True))
        block = tuple(Kept(dim.step, dim.out_step, length) for (_, length), dim in zip(cut, dims, strict=True))
        moved = replace(fold, start=fold.start + start, out_start=fold.out_start + out_start)
        _pass(builder, moved, lanes, tuple(dim for dim in block if dim.num > 1))
        passes += 1
    if passes > 1:
        builder.note(f"{passes} passes, so that the rows of one fit a partition")


def _fits(builder: Builder, fold: Fold, dims: Sequence[Kept], sizes: Sequence[int]) -> bool:
    outputs = prod(sizes)
    per_element = by_name(fold.dtype).bytes + mapped_bytes(fold.dtype, fold.element)
    needed = outputs * (fold.row * per_element + by_name(fold.out_dtype).bytes) + 64
    if needed > builder.capacity:
        return False
    block = tuple(Kept(dim.step, dim.out_step, size) for dim, size in zip(dims, sizes, strict=True) if size > 1)
    layout = _layout(fold, block)
    walked = [*layout.kept, *layout.folded]
    return all(step <= GREATEST_STEP and num <= GREATEST_NUM for step, num in walked) and outputs <= GREATEST_NUM


@dataclass(frozen=True)
class _Layout:
    """How a pass lies in a partition: the load's (tensor step, region step, num), and the pattern's pairs."""

    load: tuple[tuple[int, int, int], ...]
    kept: tuple[tuple[int, int], ...]
    folded: tuple[tuple[int, int], ...]
    save: tuple[tuple[int, int, int], ...]


class _Dim(NamedTuple):
    """A dim of a pass and where it belongs: its number among the kept or among the folded dims."""

    dim: Kept | Folded
    number: int


def _layout(fold: Fold, block: tuple[Kept, ...]) -> _Layout:
    """Elements keep the tensor's own order where the pattern can walk it; otherwise rows are laid out one by one."""
    dims = [_Dim(dim, number) for number, dim in enumerate(block)]
    dims += [_Dim(dim, number) for number, dim in enumerate(fold.folded)]
    natural = _placed(sorted(dims, key=lambda each: -each.dim.step))
    room = 2 if fold.operator == "average" else 4
    fits = len(natural.folded) <= room and len(natural.kept) + len(natural.folded) <= 4 and len(natural.kept) <= 2
    return natural if fits else _placed(dims)


def _placed(order: Sequence[_Dim]) -> _Layout:
    """A compact region whose dims lie in the given order, outermost first."""
    steps = strides_of([each.dim.num for each in order])
    load = tuple((each.dim.step, step, each.dim.num) for each, step in zip(order, steps, strict=True))
    kept = [(each.dim, step) for each, step in zip(order, steps, strict=True) if isinstance(each.dim, Kept)]
    out_steps = strides_of([dim.num for dim, _ in kept])
    save = tuple((dim.out_step, step, dim.num) for (dim, _), step in zip(kept, out_steps, strict=True))
    walked = merge_kept([Kept(step, out, dim.num) for (dim, step), out in zip(kept, out_steps, strict=True)])
    # The fold follows the order of the source, whatever order the elements lie in.
    folded = sorted(
        (each.number, step, each.dim.num)
        for each, step in zip(order, steps, strict=True)
        if isinstance(each.dim, Folded)
    )
    return _Layout(
        load,
        tuple((dim.step, dim.num) for dim in walked),
        tuple((dim.step, dim.num) for dim in merge_folded([Folded(step, num) for _, step, num in folded])),
        save,
    )


def _pass(builder: Builder, fold: Fold, lanes: Kept, block: tuple[Kept, ...]) -> None:
    """Loads one block, folds it and saves the result."""
    builder.restart()
    layout = _layout(fold, block)
    outputs = count(block)
    source = builder.region("rows", outputs * fold.row, fold.dtype, lanes.num)
    _transfer(builder, "load", fold.source, fold.start, lanes.step, layout.load, source)
    if fold.element != "identity":
        source = mapped(builder, source, fold.element)
    result = builder.region("result", outputs, fold.out_dtype, lanes.num)
    for pairs, start, out_pairs, out_start in _patterns(layout, fold.operator):
        operand, out = source.access(pairs, start), result.access(out_pairs, out_start)
        if fold.operator == "average":
            builder.instruction("Pool", [operand], [out], "Pool", func="Avg")
        else:
            axis = tuple(isa.BIR_AXES)[max(len(layout.folded), 1) - 1]
            builder.instruction("TensorReduce", [operand], [out], "DVE", op=fold.operator, axis=axis)
    _transfer(builder, "save", fold.result, fold.out_start, lanes.out_step, layout.save, result)


Pairs = list[tuple[int, int]]


def _patterns(layout: _Layout, operator: str) -> Iterator[tuple[Pairs, int, Pairs, int]]:
    """Source and result pairs of each instruction of a pass, with the elements they start at.

    A pool takes two kept pairs and two window pairs, padded with (1, 1); a fold takes four pairs in all. Kept pairs
    beyond that are walked by instructions of their own.
    """
    folded = list(layout.folded) or [(1, 1)]
    if operator == "average":
        folded = [(1, 1)] * (2 - len(folded)) + folded
    room = 4 - len(folded)
    kept, outer = list(layout.kept), []
    while len(kept) > room:
        outer.append(kept.pop(0))
    out_pairs: Pairs = []
    size = 1
    for _, num in reversed(kept):
        out_pairs.insert(0, (size, num))
        size *= num
    inner = [(1, 1)] * (room - len(kept)) + kept if operator == "average" else kept
    for position, index in enumerate(product(*(range(num) for _, num in outer))):
        start = sum(place * step for place, (step, _) in zip(index, outer, strict=True))
        yield [*inner, *folded], start, out_pairs or [(1, 1)], position * size


def _transfer(
    builder: Builder,
    direction: str,
    tensor: str,
    offset: int,
    lane_step: int,
    dims: Sequence[tuple[int, int, int]],
    region: Region,
) -> None:
    listed = list(dims) or [(0, 1, 1)]
    builder.items.append(
        Transfer(
            "load" if direction == "load" else "save",
            tensor,
            offset,
            (lane_step, *(step for step, _, _ in listed)),
            region.access([(step, num) for _, step, num in listed]),
        )
    )


def lower_cross_lane(builder: Builder, op: Reduce) -> str:
    """Adds a reduction's items on the cross-lane path to a builder and returns its route.

    The folded axis lies across partitions, the kept elements inside them; min is a negation, max, and a negation.

    Raises:
        LanefoldError: where the path has no such operator or the axis is no single run of 2 to 128 elements.
    """
    fold = whole(builder, op)
    operator = {"min": "max"}.get(op.operator, op.operator)
    legal = operator in isa.CROSS_LANE_COMMANDS and op.element == "identity" and op.dtype != "int32"
    # The negation of an unsigned integer, or of the least signed one, is clamped.
    legal = legal and not (op.operator == "min" and by_name(op.dtype).is_integer)
    if not (legal and len(fold.folded) == 1 and fold.row <= PARTITIONS):
        raise RULE_CROSS_LANE.error(
            "the cross-lane path folds one run of 2 to 128 elements by add, average or max, floats also by min, not "
            f"{op.operator} over {number_of(fold.row, 'element')} of {op.dtype} "
            f"in {number_of(len(fold.folded), 'run')}",
            got=f"{op.operator} of {op.dtype}, {number_of(fold.row, 'element')}, element {op.element}",
            allowed="add, average or max over one run of 2 to 128 elements; min of float32, float16 or bfloat16 alike",
            place=Place(node=builder.node),
            cures=[*(["fold one run of 2 to 128 elements at a time"] if legal else []), "use the free-axis path"],
        )
    lanes = fold.folded[0]
    per_element = by_name(fold.dtype).bytes + by_name(fold.out_dtype).bytes
    room = min((builder.capacity - 64) // per_element, GREATEST_NUM)
    kept = fold.kept or (Kept(0, 0, 1),)
    *outer, inner = kept
    for index in product(*(range(dim.num) for dim in outer)):
        start = sum(place * dim.step for place, dim in zip(index, outer, strict=True))
        out_start = sum(place * dim.out_step for place, dim in zip(index, outer, strict=True))
        for first, length in pieces(inner.num, room):
            builder.restart()
            source = builder.region("lanes", length, fold.dtype, lanes.num)
            result = builder.region("result", length, fold.out_dtype, 1)
            walked = ((inner.step, 1, length),)
            _transfer(builder, "load", fold.source, start + first * inner.step, lanes.step, walked, source)
            if op.operator == "min":
                negated(builder, source)
            builder.instruction(
                "TensorReduce",
                [source.access([(1, length)])],
                [result.access([(1, length)])],
                "Pool",
                op=operator,
                axis="C",
            )
            if op.operator == "min":
                negated(builder, result)
            saved = ((inner.out_step, 1, length),)
            _transfer(builder, "save", fold.result, out_start + first * inner.out_step, 0, saved, result)
    if op.operator == "min":
        builder.note("minimum as negate, max, negate")
    return "tensor_reduce (cross-lane C)"
