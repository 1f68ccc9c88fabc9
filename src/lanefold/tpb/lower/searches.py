"""ArgReduce and TopK: one search of each row, or searches of its chunks and then of their candidates."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from lanefold.diagnostics import Cure, Place, Rule
from lanefold.numerics.dtypes import by_name
from lanefold.ops import ArgReduce, TopK
from lanefold.tpb.lower.dims import Kept, lanes_of, merge_kept, pieces, strides_of
from lanefold.tpb.lower.plan import Builder, Transfer
from lanefold.tpb.lower.search import (
    BETWEEN,
    EIGHT,
    GREATEST_ROW,
    Rows,
    Runs,
    Wish,
    check_index,
    fits,
    search_rows,
    shifted,
    work_dtype,
)

_PLACES, _INDEX = "places", "uint32"

RULE_CANDIDATES = Rule(
    "TPB-LOWER-CANDIDATES",
    "The candidates of all chunks of a row fit one search and one partition.",
    "Pool Engine, MAX8 and FIND_INDEX8; state-buffer size per partition",
)


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
    k, last = rows.wish.k, rows.wish.last
    few = "of nothing but NaN" if k == 1 else f"of fewer than {k} numbers"
    if not fits(builder, rows):
        return f"NaN is passed over; indices of a row {few} mean nothing"
    index = "an index one past the last" if last else "an index of all ones"
    lacking = f"a row {few} has {index}" + (" for each that it lacks" if k > 1 else "")
    if rows.guards:
        return f"NaN is passed over; {lacking}"
    end = "last" if last else "first"
    return (
        f"NaN among the {end} eight elements keeps its slot in Max8 (birsim), with {index}; else passed over; {lacking}"
    )


def _cut(builder: Builder, rows: Rows) -> tuple[int, int]:
    """Into how many chunks of how many elements a row is cut: as few as fit a search."""
    count = max(2, -(-rows.length // (GREATEST_ROW - EIGHT)))
    while not fits(builder, _chunk(rows, -(-rows.length // count))):
        count += 1
    return count, -(-rows.length // count)


def _chunk(rows: Rows, size: int) -> Rows:
    """One chunk of ``size`` elements of each row, from which no more than it holds are taken."""
    return replace(rows, length=size, wish=rows.wish._replace(k=min(rows.wish.k, size)), chunked=True)


def _width(length: int, size: int, k: int) -> int:
    """Candidates that chunks of ``size`` elements give."""
    even, rest = divmod(length, size)
    return even * min(k, size) + min(k, rest)


def _chunked(builder: Builder, rows: Rows, out_step: int) -> None:
    """Candidates of every chunk, in the order of the row, then a search among them; ties keep their order.

    Where the candidates are too many for one search they are cut into chunks in turn, until they are few enough.

    Raises:
        LanefoldError: where cutting does not make them fewer.
    """
    if not _shrinks(builder, rows):
        _refuse(builder, rows)
    count, size = _cut(builder, rows)
    among = _candidates(builder, rows, size, 0)
    final = replace(among, run=min(rows.wish.k, size), size=size)
    levels = 1
    if not fits(builder, final):
        _absolute(builder, final)
        final = among
    while not fits(builder, final):
        final = _candidates(builder, final, _cut(builder, final)[1], levels)
        levels += 1
    search_rows(builder, final, out_step)
    told = "searched again" if levels == 1 else f"their candidates in {levels} levels"
    builder.note(f"rows of {rows.length} elements in {count} chunks of at most {size}, {told}")


def _shrinks(builder: Builder, rows: Rows) -> bool:
    """Whether cutting and searching leaves few enough candidates at last."""
    while not fits(builder, rows):
        _, size = _cut(builder, rows)
        width = _width(rows.length, size, rows.wish.k)
        final = replace(rows, dtype=work_dtype(rows), length=width, positions=_PLACES, chunked=True, window=())
        if fits(builder, replace(final, run=min(rows.wish.k, size), size=size)):
            return True
        if width >= rows.length:
            return False
        rows = final
    return True


def _refuse(builder: Builder, rows: Rows) -> None:
    low, high = 1, rows.wish.k
    while high - low > 1:
        middle = (low + high) // 2
        legal = _shrinks(builder, replace(rows, wish=rows.wish._replace(k=middle)))
        low, high = (middle, high) if legal else (low, middle)
    end = "largest" if rows.wish.largest else "smallest"
    raise RULE_CANDIDATES.error(
        f"the {rows.wish.k} {end} of {rows.length} elements do not come down to the candidates of one search",
        got=rows.wish.k,
        allowed=f"1 to {low} of {rows.length} elements of {rows.dtype}",
        place=Place(node=builder.node),
        cures=[Cure(f"take at most {low} values of the row", {"k": low}), "keep the node on the host"],
    )


def _candidates(builder: Builder, rows: Rows, size: int, level: int) -> Rows:
    """Searches every chunk of ``size`` elements of each row, and gives the rows of what was found."""
    wish = rows.wish
    even, rest = divmod(rows.length, size)
    run, width = min(wish.k, size), _width(rows.length, size, wish.k)
    outputs = prod(dim.num for dim in rows.kept)
    dtype = work_dtype(rows)
    values = builder.tensor(f"{BETWEEN}{level or ''}", outputs * width, dtype)
    places = builder.tensor(f"{_PLACES}{level or ''}", outputs * width, _INDEX)
    steps = strides_of([dim.num for dim in rows.kept])
    found = Rows(
        source=values,
        dtype=dtype,
        kept=tuple(Kept(step * width, dim.out_step, dim.num) for step, dim in zip(steps, rows.kept, strict=True)),
        step=1,
        length=width,
        wish=wish,
        values=rows.values,
        indices=rows.indices,
        chunked=True,
        positions=places,
    )
    # A dense row of candidates for each row of the source.
    spread = tuple(Kept(dim.step, to.step, dim.num) for dim, to in zip(rows.kept, found.kept, strict=True))
    part = replace(rows, values=values, indices=places, chunked=True)
    chunks = merge_kept((*spread, Kept(size * rows.step, run, even)))
    search_rows(builder, replace(part, kept=chunks, length=size, wish=wish._replace(k=run)), 1)
    if rest:
        few = wish._replace(k=min(run, rest))
        last = replace(part, kept=spread, length=rest, wish=few, start=even * size * rows.step, out_start=even * run)
        search_rows(builder, last, 1)
    return found


def _absolute(builder: Builder, rows: Rows) -> None:
    """Positions in chunks become positions in the whole row, where they lie."""
    limit = max((builder.capacity - 64) // 12 // rows.run, 1) * rows.run
    outputs = prod(dim.num for dim in rows.kept)
    for start, out_start, lane in lanes_of((Kept(rows.length, rows.length, outputs),)):
        for first, length in pieces(rows.length, limit):
            builder.restart()
            positions = builder.region("positions", 2 * length, _INDEX, lane.num)
            places = builder.region("moved", length, _INDEX, lane.num)
            inside, out = positions.access([(1, length)]), places.access([(1, length)])
            builder.items.append(Transfer("load", rows.positions, start + first, (lane.step, 1), inside))
            shifted(builder, positions, places, lane.num, Runs(first, length, rows.run, rows.size))
            builder.items.append(Transfer("save", rows.positions, out_start + first, (lane.out_step, 1), out))
