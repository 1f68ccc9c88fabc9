"""Searches: the largest or smallest values of a row and where they stand, by Max8, MaxIndex and MatchReplace."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from math import prod
from typing import NamedTuple

from lanefold.diagnostics import Place, Rule
from lanefold.numerics.dtypes import by_name
from lanefold.ops import ArgReduce, TopK
from lanefold.tpb import isa
from lanefold.tpb.lower.dims import PARTITIONS, Folded, Kept, lanes_of, merge_kept, strides_of
from lanefold.tpb.lower.elements import signed
from lanefold.tpb.lower.plan import Builder, Region, Transfer
from lanefold.tpb.patterns import Access, Pair

EIGHT, GREATEST_ROW = isa.SEARCH_COUNT
"""Values that one search finds, and elements that it reads at most."""
INDEX_DTYPES = ("uint32", "int32")
_SIGNED, _UNSIGNED = "int32", "uint32"

RULE_INDEX = Rule(
    "TPB-LOWER-INDEX",
    "A search writes its indices as 32-bit integers.",
    "Pool Engine, FIND_INDEX8",
)
RULE_CANDIDATES = Rule(
    "TPB-LOWER-CANDIDATES",
    "The candidates of all chunks of a row fit one search and one partition.",
    "Pool Engine, MAX8 and FIND_INDEX8; state-buffer size per partition",
)


class Wish(NamedTuple):
    """What is searched: how many values, which end of the row, which of equal ones."""

    k: int
    largest: bool
    last: bool


@dataclass(frozen=True)
class Rows:
    """Rows of a DRAM tensor: kept dims with steps in source and results, the row's own step and its length.

    ``window`` holds the dims of a row that walks several, in place of ``step``. ``values`` and ``indices`` name the
    result tensors, ``values`` empty where they are not wanted; rows begin at ``start`` of the source and ``out_start``
    of the results. ``chunked`` is set for chunks and for their candidates. Candidates come from chunks of ``size``
    elements in runs of ``run``; ``positions`` names the tensor that says where they stand in their chunk.
    """

    source: str
    dtype: str
    kept: tuple[Kept, ...]
    step: int
    length: int
    wish: Wish
    values: str
    indices: str
    start: int = 0
    out_start: int = 0
    chunked: bool = False
    positions: str = ""
    size: int = 0
    run: int = 0
    window: tuple[Folded, ...] = ()

    @property
    def dims(self) -> tuple[Folded, ...]:
        """The dims that a row walks, outermost first."""
        return self.window or (Folded(self.step, self.length),)

    @property
    def passes(self) -> int:
        """Times that the eight largest are taken."""
        return -(-self.wish.k // EIGHT)

    @property
    def guards(self) -> int:
        """Elements of −∞ that stand before a row.

        They fill the slots of Max8, so that short rows have eight elements, and a NaN, which marks what was taken, is
        passed over.
        """
        wanted = self.chunked or self.passes > 1 or (self.wish.k > 1 and self.length < EIGHT)
        return EIGHT if wanted else 0


def lower_arg(builder: Builder, op: ArgReduce) -> str:
    """Adds the items of an ArgReduce to a builder and returns its route.

    Raises:
        LanefoldError: where the index type is none of the leg's.
    """
    check_index(builder, op.output_dtype)
    wish = Wish(1, op.operator == "max", op.select_last_index)
    builder.tensor("in0", prod(op.input_shape), op.dtype)
    builder.tensor("out0", prod(op.output_shape), op.output_dtype)
    return _search(builder, op, wish, "", "out0")


def lower_top(builder: Builder, op: TopK) -> str:
    """Adds the items of a TopK to a builder and returns its route; ``out0`` are the values, ``out1`` the indices.

    Raises:
        LanefoldError: where the index type is none of the leg's, or the candidates of a long row are too many.
    """
    check_index(builder, op.index_dtype)
    builder.tensor("in0", prod(op.input_shape), op.dtype)
    builder.tensor("out0", prod(op.output_shape), op.dtype)
    builder.tensor("out1", prod(op.output_shape), op.index_dtype)
    return _search(builder, op, Wish(op.k, op.largest, False), "out0", "out1")


def check_index(builder: Builder, dtype: str) -> None:
    """Refuse indices of a type that no search writes."""
    if dtype not in INDEX_DTYPES:
        raise RULE_INDEX.error(
            f"indices cannot be {dtype}",
            got=dtype,
            allowed=", ".join(INDEX_DTYPES),
            place=Place(node=builder.node),
            cures=["take uint32 and cast it afterwards"],
        )


def _kept(op: ArgReduce | TopK, wide: int) -> tuple[tuple[Kept, ...], int]:
    """The kept dims with steps in the source and in a result whose axis has ``wide`` elements, and the axis' step."""
    steps = strides_of(op.input_shape)
    outs = strides_of(tuple(wide if axis == op.axis else n for axis, n in enumerate(op.input_shape)))
    dims = [Kept(steps[axis], outs[axis], extent) for axis, extent in enumerate(op.input_shape) if axis != op.axis]
    return merge_kept(dims), steps[op.axis]


def _search(builder: Builder, op: ArgReduce | TopK, wish: Wish, values: str, indices: str) -> str:
    kept, step = _kept(op, wish.k)
    length = op.input_shape[op.axis]
    out_step = strides_of(op.output_shape)[op.axis] if isinstance(op, TopK) else 1
    rows = Rows("in0", op.dtype, kept, step, length, wish, values, indices)
    if fits(builder, rows):
        search_rows(builder, rows, out_step)
    else:
        _chunked(builder, rows, out_step)
    _notes(builder, rows)
    return "max8 + find_index8" if rows.passes == 1 else "max8 + find_index8 + match_replace8"


def _notes(builder: Builder, rows: Rows) -> None:
    wish = rows.wish
    if not wish.largest:
        builder.note("smallest as the largest of the negated values")
    if wish.last:
        builder.note("the last of equal values by a reversed pattern")
    if rows.passes > 1:
        builder.note(f"{rows.passes} passes of eight, what was taken is overwritten by NaN")
    if by_name(rows.dtype).is_float:
        builder.note(_not_a_number(builder, rows))


def _not_a_number(builder: Builder, rows: Rows) -> str:
    if not fits(builder, rows):
        return f"NaN is passed over; indices of a row with fewer than {rows.wish.k} numbers mean nothing"
    if rows.guards:
        return f"NaN is passed over; a row with fewer than {rows.wish.k} numbers has indices of all ones"
    return "NaN among the first eight elements keeps its slot in Max8 (birsim), its index is all ones; else passed over"


def _work_dtype(rows: Rows) -> str:
    """The type that a row is searched in: integers that are negated or marked by NaN become float32, which is exact."""
    changed = rows.passes > 1 or not rows.wish.largest
    return "float32" if changed and not by_name(rows.dtype).is_float else rows.dtype


def _row_bytes(rows: Rows) -> int:
    work, found = by_name(_work_dtype(rows)).bytes, rows.passes * EIGHT
    copied = 0 if _in_place(rows) else by_name(rows.dtype).bytes
    positions = 12 if rows.positions else 0
    return rows.length * (work + copied + positions) + (found + rows.guards + EIGHT) * 16 + 256


def _in_place(rows: Rows) -> bool:
    """Whether a row is searched where it was loaded."""
    return _work_dtype(rows) == rows.dtype


def fits(builder: Builder, rows: Rows) -> bool:
    """Whether one search reads a row, and a partition holds it with its results."""
    return rows.length + rows.guards <= GREATEST_ROW and _row_bytes(rows) <= builder.capacity


def _chunked(builder: Builder, rows: Rows, out_step: int) -> None:
    """Candidates of every chunk, in the order of the row, then a search among them; ties keep their order."""
    wish = rows.wish
    count = -(-rows.length // (GREATEST_ROW - EIGHT))
    while not fits(builder, _chunk(rows, -(-rows.length // count))):
        count += 1
    size = -(-rows.length // count)
    even, rest = divmod(rows.length, size)
    run = min(wish.k, size)
    width = even * run + min(run, rest)
    work = _work_dtype(rows)
    outputs = prod(dim.num for dim in rows.kept)
    final = Rows(
        chunked=True,
        source="tops",
        dtype=work,
        kept=_between(rows.kept, width),
        step=1,
        length=width,
        wish=wish,
        values=rows.values,
        indices=rows.indices,
        positions="places",
        size=size,
        run=run,
    )
    if not fits(builder, final):
        raise RULE_CANDIDATES.error(
            f"the {wish.k} largest of {rows.length} elements need {width} candidates from {count} chunks",
            got=width,
            allowed=f"candidates of all chunks of at most {GREATEST_ROW - EIGHT} elements together, in one partition",
            place=Place(node=builder.node),
            cures=["take fewer values of the row", "keep the node on the host"],
        )
    builder.tensor("tops", outputs * width, work)
    builder.tensor("places", outputs * width, _UNSIGNED)
    # A dense row of candidates for each row of the source.
    spread = tuple(Kept(dim.step, to.step, dim.num) for dim, to in zip(rows.kept, final.kept, strict=True))
    part = replace(rows, values="tops", indices="places", chunked=True)
    chunks = merge_kept((*spread, Kept(size * rows.step, run, even)))
    search_rows(builder, replace(part, kept=chunks, length=size, wish=wish._replace(k=run)), 1)
    if rest:
        few = min(run, rest)
        search_rows(
            builder,
            replace(
                part,
                kept=spread,
                length=rest,
                wish=wish._replace(k=few),
                start=even * size * rows.step,
                out_start=even * run,
            ),
            1,
        )
    search_rows(builder, final, out_step)
    builder.note(f"rows of {rows.length} elements in {count} chunks of at most {size}, searched again")


def _chunk(rows: Rows, size: int) -> Rows:
    """One chunk of ``size`` elements of each row, from which no more than it holds are taken."""
    return replace(rows, length=size, wish=rows.wish._replace(k=min(rows.wish.k, size)), chunked=True)


def _between(kept: tuple[Kept, ...], width: int) -> tuple[Kept, ...]:
    """The kept dims of rows of ``width`` candidates, laid out densely."""
    steps = strides_of([dim.num for dim in kept])
    return tuple(Kept(step * width, dim.out_step, dim.num) for step, dim in zip(steps, kept, strict=True))


@dataclass(frozen=True)
class _Room:
    """The regions of a stage; ``row`` holds guards and row, ``loaded`` what comes from DRAM."""

    loaded: Region
    row: Region
    values: Region
    indices: Region
    saved: Region
    positions: Region | None
    places: Region | None
    fetched: Region | None
    ends: Region | None


def search_rows(builder: Builder, rows: Rows, out_step: int) -> None:
    """One search of all rows, up to 128 side by side on the partitions."""
    builder.restart()
    lanes = max((dim.num for dim in rows.kept), default=1)
    room = _room(builder, rows, min(lanes, PARTITIONS))
    _constants(builder, rows, room)
    for start, out_start, lane in lanes_of(rows.kept):
        moved = replace(rows, start=rows.start + start, out_start=rows.out_start + out_start)
        _pass(builder, moved, room, lane, out_step)


def _room(builder: Builder, rows: Rows, lanes: int) -> _Room:
    work, found = _work_dtype(rows), rows.passes * EIGHT
    row = builder.region("row", rows.guards + rows.length, work, lanes)
    loaded = row if _in_place(rows) else builder.region("loaded", rows.length, rows.dtype, lanes)
    values = builder.region("values", found, work, lanes)
    indices = builder.region("indices", found, _UNSIGNED, lanes)
    # Chunks hand on values as they were searched; only the last stage turns their sign back.
    final = builder.tensors[rows.values].dtype if rows.values else work
    back = final != work or not (rows.wish.largest or rows.values in ("", "tops"))
    saved = builder.region("saved", found, final, lanes) if back else values
    positions = places = fetched = None
    if rows.positions:
        positions = builder.region("positions", 2 * rows.length, _UNSIGNED, lanes)
        places = builder.region("places", rows.length, _UNSIGNED, lanes)
        fetched = builder.region("fetched", found, _UNSIGNED, lanes)
    ends = builder.region("ends", 2, _SIGNED, lanes) if rows.wish.last else None
    return _Room(loaded, row, values, indices, saved, positions, places, fetched, ends)


def _as(region: Region, dtype: str) -> Region:
    """The same bytes as elements of another type of the same size."""
    return replace(region, dtype=dtype)


def _constants(builder: Builder, rows: Rows, room: _Room) -> None:
    """What stays the same for all rows of a stage: guards, and the last index."""
    if rows.guards:
        zeros = room.values.access([(1, EIGHT)])
        guards = room.row.access([(1, EIGHT)])
        _iota(builder, zeros, 0, [(0, EIGHT)])
        builder.instruction("MatchReplace", [zeros, zeros], [guards], "DVE", imm_value=-math.inf)
    if room.ends is not None:
        _iota(builder, room.ends.access([(1, 1)]), rows.length - 1, [(0, 1)])


def _iota(builder: Builder, out: Access, base: int, pattern: list[Pair]) -> None:
    builder.instruction("Iota", [], [out], "Pool", pattern=pattern, base=base, channel_multiplier=0)


def _pass(builder: Builder, rows: Rows, room: _Room, lane: Kept, out_step: int) -> None:
    """Up to 128 rows: load, search, save."""
    lanes, guards = lane.num, rows.guards
    start = guards if _in_place(rows) else 0
    loaded = room.loaded.access([(1, rows.length)], start, lanes)
    near = strides_of([dim.num for dim in rows.dims])
    inside = room.loaded.access([(step, dim.num) for step, dim in zip(near, rows.dims, strict=True)], start, lanes)
    outside = tuple(dim.step for dim in rows.dims)
    builder.items.append(Transfer("load", rows.source, rows.start, (lane.step, *outside), inside))
    first_stage = not rows.positions
    if first_stage and not rows.wish.largest:
        signed(builder, loaded, room.row.access([(1, rows.length)], guards, lanes), negate=True)
    elif not _in_place(rows):
        signed(builder, loaded, room.row.access([(1, rows.length)], guards, lanes), negate=False)
    for number in range(rows.passes):
        _eight(builder, rows, room, number, lanes)
    found = _positions(builder, rows, room, lane) if rows.positions else room.indices
    count = rows.wish.k
    steps = (lane.out_step, out_step)
    if rows.values:
        if room.saved is not room.values:
            signed(
                builder,
                room.values.access([(1, count)], 0, lanes),
                room.saved.access([(1, count)], 0, lanes),
                negate=not rows.wish.largest,
            )
        kept = room.saved.access([(1, count)], 0, lanes)
        builder.items.append(Transfer("save", rows.values, rows.out_start, steps, kept))
    dtype = builder.tensors[rows.indices].dtype
    kept = _as(found, dtype).access([(1, count)], 0, lanes)
    builder.items.append(Transfer("save", rows.indices, rows.out_start, steps, kept))


def _eight(builder: Builder, rows: Rows, room: _Room, number: int, lanes: int) -> None:
    """The next eight values and where they stand; what was found is overwritten where another pass follows."""
    at = number * EIGHT
    values = room.values.access([(1, EIGHT)], at, lanes)
    indices = room.indices.access([(1, EIGHT)], at, lanes)
    walked = _walked(rows, room, lanes)
    everything = room.row.access([(1, rows.guards + rows.length)], 0, lanes) if rows.guards else walked
    builder.instruction("Max", [everything], [values], "DVE")
    builder.instruction("MaxIndex", [values, walked], [indices], "DVE")
    if number + 1 < rows.passes:
        builder.instruction("MatchReplace", [values, walked], [walked], "DVE", imm_value=math.nan)
    if room.ends is not None:
        # The index in the reversed row is taken from the last index: the pair (last, found) folded by subtract.
        moved = room.ends.access([(1, 1)], 1, lanes)
        found = _as(room.indices, _SIGNED)
        signed(builder, found.access([(1, 1)], 0, lanes), moved, negate=False)
        pair = room.ends.access([(1, 1), (1, 2)], 0, lanes)
        result = found.access([(1, 1)], 0, lanes)
        builder.instruction("TensorReduce", [pair], [result], "DVE", op="subtract", axis="X")


def _walked(rows: Rows, room: _Room, lanes: int) -> Access:
    """The row as a search reads it: repeated where it is short, reversed where the last of equals is wanted."""
    pairs: list[Pair] = [(-1 if rows.wish.last else 1, rows.length)]
    if rows.length < EIGHT:
        pairs.insert(0, (0, -(-EIGHT // rows.length)))
    return room.row.access(pairs, rows.guards + (rows.length - 1 if rows.wish.last else 0), lanes)


def _positions(builder: Builder, rows: Rows, room: _Room, lane: Kept) -> Region:
    """Indices among the candidates exchanged for the indices in the whole row."""
    lanes, length = lane.num, rows.length
    if room.positions is None or room.places is None or room.fetched is None:
        raise AssertionError("a stage with positions has room for them")
    inside = room.positions.access([(1, length)], 0, lanes)
    builder.items.append(Transfer("load", rows.positions, rows.start, (lane.step, 1), inside))
    whole = _as(room.positions, _SIGNED)
    even, rest = divmod(length, rows.run)
    for start, run, count in ((0, rows.run, even), (even * rows.run, rest, 1)):
        if run:
            out = whole.access([(1, run * count)], length + start, lanes)
            _iota(builder, out, start // rows.run * rows.size, [(rows.size, count), (0, run)])
    pair = whole.access([(1, length), (length, 2)], 0, lanes)
    places = _as(room.places, _SIGNED).access([(1, length)], 0, lanes)
    builder.instruction("TensorReduce", [pair], [places], "DVE", op="add", axis="X")
    table = room.places.access([(1, length)], 0, lanes)
    for number in range(rows.passes):
        chosen = room.indices.access([(1, EIGHT)], number * EIGHT, lanes)
        out = room.fetched.access([(1, EIGHT)], number * EIGHT, lanes)
        builder.instruction("Gather", [table, chosen], [out], "Pool")
    return room.fetched
