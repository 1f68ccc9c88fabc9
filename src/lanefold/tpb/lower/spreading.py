"""Iota, Gather and Expand: counting, table look-up and repetition, spread over the partitions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from typing import NamedTuple

from lanefold.diagnostics import Place, Rule
from lanefold.numerics.dtypes import by_name
from lanefold.ops import Expand, Gather, Iota
from lanefold.tpb.lower.dims import (
    GREATEST_NUM,
    GREATEST_STEP,
    PARTITIONS,
    Kept,
    lanes_of,
    merge_kept,
    pieces,
    strides_of,
)
from lanefold.tpb.lower.plan import Builder, Transfer

RULE_EXPAND = Rule(
    "TPB-LOWER-EXPAND",
    "The leg repeats a vector; it has no instruction that combines two tensors.",
    "Pool Engine, The Op-to-Datapath Routing",
)
RULE_TABLE = Rule(
    "TPB-LOWER-TABLE",
    "A row of the table of a gather, with an index and a result, fits a partition and one 16-bit num.",
    "Pool Encoding 5; state-buffer size per partition",
)
RULE_TABLE_INDEX = Rule(
    "TPB-LOWER-TABLE-INDEX",
    "The indices of a gather are unsigned integers of 8, 16 or 32 bits.",
    "GPSIMD firmware: gather",
)
INDICES = ("uint8", "uint16", "uint32")
_IOTA_PAIRS, _COPY_PAIRS = 4, 3
_WORD = 1 << 32


class _Block(NamedTuple):
    """What one instruction makes: start in source and result, the lanes, and the dims inside a partition."""

    start: int
    out_start: int
    lane: Kept
    inner: tuple[Kept, ...]

    @property
    def elements(self) -> int:
        """Elements per partition."""
        return prod(dim.num for dim in self.inner)


def _blocks(dims: Sequence[Kept], room: int, limit: int) -> Iterator[_Block]:
    """Cuts merged dims: the widest over the partitions, up to ``room`` pairs and ``limit`` elements inside them."""
    listed = list(dims) or [Kept(0, 0, 1)]
    widest = max(range(len(listed)), key=lambda at: listed[at].num)
    spread = listed[widest]
    chunk = -(-spread.num // PARTITIONS)
    partitions, rest = divmod(spread.num, chunk)
    done = partitions * chunk
    lanes = [(0, 0, Kept(spread.step * chunk, spread.out_step * chunk, partitions), chunk)]
    if rest:
        lanes.append((done * spread.step, done * spread.out_step, Kept(0, 0, 1), rest))
    for start, out_start, lane, length in lanes:
        inner = [*listed[:widest], Kept(spread.step, spread.out_step, length), *listed[widest + 1 :]]
        for moved, out_moved, block in _cuts(inner, room, limit):
            yield _Block(start + moved, out_start + out_moved, lane, block)


def _cuts(dims: Sequence[Kept], room: int, limit: int) -> Iterator[tuple[int, int, tuple[Kept, ...]]]:
    sizes = [dim.num if abs(dim.step) <= GREATEST_STEP else 1 for dim in dims]
    for at in range(len(sizes)):
        if sum(size > 1 for size in sizes) > room:
            sizes[at] = 1
    while prod(sizes) > limit:
        largest = max(range(len(sizes)), key=lambda at: sizes[at])
        sizes[largest] = -(-sizes[largest] // 2)
    for cut in product(*(pieces(dim.num, size) for dim, size in zip(dims, sizes, strict=True))):
        start = sum(first * dim.step for (first, _), dim in zip(cut, dims, strict=True))
        out_start = sum(first * dim.out_step for (first, _), dim in zip(cut, dims, strict=True))
        block = [Kept(dim.step, dim.out_step, length) for (_, length), dim in zip(cut, dims, strict=True)]
        yield start, out_start, tuple(dim for dim in block if dim.num > 1)


def _save(builder: Builder, block: _Block, byte_dtype: str, name: str) -> Transfer:
    """A fresh region for a block of the result, and its transfer to ``out0``."""
    region = builder.region(name, block.elements, byte_dtype, block.lane.num)
    steps = strides_of([dim.num for dim in block.inner])
    pairs = [(step, dim.num) for step, dim in zip(steps, block.inner, strict=True)] or [(1, 1)]
    outside = tuple(dim.out_step for dim in block.inner) or (1,)
    return Transfer("save", "out0", block.out_start, (block.lane.out_step, *outside), region.access(pairs))


def _row(transfer: Transfer, count: int) -> Transfer:
    """The same region as one run of elements, which is how an instruction writes it."""
    access = transfer.access
    made = type(access)(
        access.memory,
        access.partition,
        access.byte,
        access.dtype,
        (access.pattern[0], (1, count)),
        access.name,
        access.offset,
    )
    return Transfer(transfer.direction, transfer.tensor, transfer.offset, transfer.steps[:2], made)


def lower_iota(builder: Builder, op: Iota) -> str:
    """Adds the items of an Iota to a builder and returns its route; steps beyond 16 bits become instructions."""
    builder.tensor("out0", prod(op.shape), op.output_dtype)
    dims = merge_kept([Kept(*each) for each in zip(op.steps, strides_of(op.shape), op.shape, strict=True)])
    limit = min(GREATEST_NUM, builder.capacity // by_name(op.output_dtype).bytes)
    count = 0
    for block in _blocks(dims, _IOTA_PAIRS, limit):
        builder.restart()
        save = _save(builder, block, op.output_dtype, "counted")
        builder.instruction(
            "Iota",
            [],
            [_row(save, block.elements).access],
            "Pool",
            pattern=[(dim.step, dim.num) for dim in block.inner] or [(0, 1)],
            base=_wrapped(op.base + block.start),
            channel_multiplier=_wrapped(block.lane.step),
        )
        builder.items.append(save)
        count += 1
    if count > 1:
        builder.note(f"{count} passes")
    return "iota"


def _wrapped(value: int) -> int:
    """A value as the signed 32-bit number that wrapping arithmetic sees."""
    return (value + _WORD // 2) % _WORD - _WORD // 2


def lower_expand(builder: Builder, op: Expand) -> str:
    """Adds the items of an Expand to a builder and returns its route; ``in0`` is the vector.

    Raises:
        LanefoldError: where the operator combines two tensors.
    """
    if op.operator != "bypass" or op.output_dtype != op.dtype:
        raise RULE_EXPAND.error(
            f"the leg repeats a vector as it is; {_more(op)} takes an instruction it lacks",
            got=f"{op.operator}, {op.dtype} to {op.output_dtype}",
            allowed="bypass, input and output of one type",
            place=Place(node=builder.node),
            cures=["repeat the vector by bypass and combine on the host", "keep the node on the host"],
        )
    builder.tensor("in0", prod(op.vector_shape), op.dtype)
    builder.tensor("out0", prod(op.output_shape), op.dtype)
    steps = [0 if axis in op.axes else step for axis, step in enumerate(strides_of(op.vector_shape))]
    dims = merge_kept([Kept(*each) for each in zip(steps, strides_of(op.output_shape), op.output_shape, strict=True)])
    limit = min(GREATEST_NUM, (builder.capacity - 64) // (2 * by_name(op.dtype).bytes))
    count = 0
    for block in _blocks(dims, _COPY_PAIRS, limit):
        _copies(builder, op.dtype, block)
        count += 1
    if count > 1:
        builder.note(f"{count} passes")
    builder.note("repeated by steps of 0")
    return "tensor_reduce (bypass)"


def _more(op: Expand) -> str:
    """What an Expand asks for beyond repetition."""
    if op.operator == "bypass":
        return f"casting {op.dtype} to {op.output_dtype}"
    return f"combining it with a tensor by {op.operator}"


def _copies(builder: Builder, dtype: str, block: _Block) -> None:
    builder.restart()
    held = [dim for dim in block.inner if dim.step]
    source = builder.region("vector", prod(dim.num for dim in held), dtype, block.lane.num)
    near = iter(strides_of([dim.num for dim in held]))
    steps = [next(near) if dim.step else 0 for dim in block.inner]
    loaded = [(step, dim.num) for step, dim in zip(steps, block.inner, strict=True) if dim.step] or [(1, 1)]
    outside = tuple(dim.step for dim in held) or (1,)
    builder.items.append(Transfer("load", "in0", block.start, (block.lane.step, *outside), source.access(loaded)))
    save = _save(builder, block, dtype, "repeated")
    walked = [(step, dim.num) for step, dim in zip(steps, block.inner, strict=True)]
    builder.instruction(
        "TensorReduce",
        [source.access([*walked, (1, 1)])],
        [_row(save, block.elements).access],
        "DVE",
        op="bypass",
        axis="X",
    )
    builder.items.append(save)


def lower_gather(builder: Builder, op: Gather) -> str:
    """Adds the items of a Gather to a builder and returns its route; ``in0`` is the table, ``in1`` the indices.

    Raises:
        LanefoldError: where a row of the table fits no partition, or the indices have another type.
    """
    if op.index_dtype not in INDICES:
        raise RULE_TABLE_INDEX.error(
            f"indices cannot be {op.index_dtype}",
            got=op.index_dtype,
            allowed=", ".join(INDICES),
            place=Place(node=builder.node),
            cures=["cast the indices to uint32 first"],
        )
    length, count = op.input_shape[op.axis], prod(op.indices_shape)
    size, wide = by_name(op.dtype).bytes, by_name(op.index_dtype).bytes
    room = min((builder.capacity - 64 - length * size) // (size + wide), GREATEST_NUM)
    if room < 1 or length > GREATEST_NUM:
        most = min((builder.capacity - 64 - size - wide) // size, GREATEST_NUM)
        raise RULE_TABLE.error(
            f"rows of {length} elements do not fit",
            got=length,
            allowed=f"1 to {most} elements of {op.dtype}",
            place=Place(node=builder.node),
            cures=["split the table along the axis", "keep the node on the host"],
        )
    for name, elements, dtype in (
        ("in0", prod(op.input_shape), op.dtype),
        ("in1", count, op.index_dtype),
        ("out0", prod(op.output_shape), op.dtype),
    ):
        builder.tensor(name, elements, dtype)
    flat = tuple(count if axis == op.axis else extent for axis, extent in enumerate(op.input_shape))
    steps, outs = strides_of(op.input_shape), strides_of(flat)
    kept = [Kept(steps[axis], outs[axis], n) for axis, n in enumerate(op.input_shape) if axis != op.axis]
    for start, out_start, lane in lanes_of(merge_kept(kept)):
        builder.restart()
        table = builder.region("table", length, op.dtype, lane.num)
        row = table.access([(1, length)])
        builder.items.append(Transfer("load", "in0", start, (lane.step, steps[op.axis]), row))
        most = min(room, count)
        indices = builder.region("indices", most, op.index_dtype, lane.num)
        found = builder.region("found", most, op.dtype, lane.num)
        for first, part in pieces(count, most):
            chosen, out = indices.access([(1, part)]), found.access([(1, part)])
            builder.items.append(Transfer("load", "in1", first, (0, 1), chosen))
            builder.instruction("Gather", [row, chosen], [out], "Pool")
            at = out_start + first * outs[op.axis]
            builder.items.append(Transfer("save", "out0", at, (lane.out_step, outs[op.axis]), out))
    builder.note("an index beyond the table gives 0")
    return "pool_buffer_load + gather"
