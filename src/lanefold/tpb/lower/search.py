"""Searches: the largest or smallest values of a row and where they stand, by Max8, MaxIndex and MatchReplace."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

from lanefold.diagnostics import Place, Rule
from lanefold.numerics.dtypes import by_name
from lanefold.tpb import isa
from lanefold.tpb.lower.dims import PARTITIONS, Folded, Kept, lanes_of, strides_of
from lanefold.tpb.lower.elements import signed
from lanefold.tpb.lower.plan import Builder, Region, Transfer
from lanefold.tpb.patterns import Access, Pair

EIGHT, GREATEST_ROW = isa.SEARCH_COUNT
"""Values that one search finds, and elements that it reads at most."""
INDEX_DTYPES = ("uint32", "int32")
BETWEEN = "tops"
"""How the tensors of values that wait for another search are named."""
_SIGNED, _UNSIGNED = "int32", "uint32"

RULE_INDEX = Rule(
    "TPB-LOWER-INDEX",
    "A search writes its indices as 32-bit integers.",
    "Pool Engine, FIND_INDEX8",
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
    of the results. ``chunked`` is set for chunks and for their candidates. ``positions`` names the tensor that says
    where candidates stand in their chunk, which has ``size`` elements and gave a run of ``run``; with ``run`` 0 it says
    where they stand in the whole row.
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


def work_dtype(rows: Rows) -> str:
    """The type that a row is searched in: integers that are negated or marked by NaN become float32, which is exact."""
    changed = rows.passes > 1 or not rows.wish.largest
    return "float32" if changed and not by_name(rows.dtype).is_float else rows.dtype


def _row_bytes(rows: Rows) -> int:
    work, found = by_name(work_dtype(rows)).bytes, rows.passes * EIGHT
    copied = 0 if _in_place(rows) else by_name(rows.dtype).bytes
    positions = (12 if rows.run else 4) if rows.positions else 0
    return rows.length * (work + copied + positions) + (found + rows.guards + EIGHT) * 16 + 256


def _in_place(rows: Rows) -> bool:
    """Whether a row is searched where it was loaded."""
    return work_dtype(rows) == rows.dtype


def fits(builder: Builder, rows: Rows) -> bool:
    """Whether one search reads a row, and a partition holds it with its results."""
    return rows.length + rows.guards <= GREATEST_ROW and _row_bytes(rows) <= builder.capacity


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
    work, found = work_dtype(rows), rows.passes * EIGHT
    row = builder.region("row", rows.guards + rows.length, work, lanes)
    loaded = row if _in_place(rows) else builder.region("loaded", rows.length, rows.dtype, lanes)
    values = builder.region("values", found, work, lanes)
    indices = builder.region("indices", found, _UNSIGNED, lanes)
    # Chunks hand on values as they were searched; only the last stage turns their sign back.
    final = builder.tensors[rows.values].dtype if rows.values else work
    back = final != work or not (rows.wish.largest or not rows.values or rows.values.startswith(BETWEEN))
    saved = builder.region("saved", found, final, lanes) if back else values
    positions = places = fetched = None
    if rows.positions:
        positions = builder.region("positions", rows.length * (2 if rows.run else 1), _UNSIGNED, lanes)
        places = builder.region("places", rows.length, _UNSIGNED, lanes) if rows.run else positions
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


class Runs(NamedTuple):
    """Consecutive candidates from ``first`` on, in runs of ``run`` from chunks of ``size`` elements."""

    first: int
    length: int
    run: int
    size: int


def shifted(builder: Builder, positions: Region, places: Region, lanes: int, runs: Runs) -> None:
    """Positions in chunks plus the start of each chunk; ``positions`` has room for the starts behind them."""
    length, run = runs.length, runs.run
    whole = _as(positions, _SIGNED)
    even, rest = divmod(length, run)
    for start, part, count in ((0, run, even), (even * run, rest, 1)):
        if part and count:
            out = whole.access([(1, part * count)], length + start, lanes)
            _iota(builder, out, (runs.first + start) // run * runs.size, [(runs.size, count), (0, part)])
    pair = whole.access([(1, length), (length, 2)], 0, lanes)
    sums = _as(places, _SIGNED).access([(1, length)], 0, lanes)
    builder.instruction("TensorReduce", [pair], [sums], "DVE", op="add", axis="X")


def _positions(builder: Builder, rows: Rows, room: _Room, lane: Kept) -> Region:
    """Indices among the candidates exchanged for the indices in the whole row."""
    lanes, length = lane.num, rows.length
    if room.positions is None or room.places is None or room.fetched is None:
        raise AssertionError("a stage with positions has room for them")
    inside = room.positions.access([(1, length)], 0, lanes)
    builder.items.append(Transfer("load", rows.positions, rows.start, (lane.step, 1), inside))
    if rows.run:
        shifted(builder, room.positions, room.places, lanes, Runs(0, length, rows.run, rows.size))
    table = room.places.access([(1, length)], 0, lanes)
    for number in range(rows.passes):
        chosen = room.indices.access([(1, EIGHT)], number * EIGHT, lanes)
        out = room.fetched.access([(1, EIGHT)], number * EIGHT, lanes)
        builder.instruction("Gather", [table, chosen], [out], "Pool")
    return room.fetched
