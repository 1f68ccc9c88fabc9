"""Searches, expansions and reciprocals on tiles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from lanefold.diagnostics import LanefoldError, Place, Rule
from lanefold.ops import ArgReduce, Expand, Reciprocal, TopK
from lanefold.pto.isa import INDEX_EXACT_HALF, REPEAT_LIMIT
from lanefold.pto.lower import tiles
from lanefold.pto.lower.fold import fold_axis
from lanefold.pto.lower.plan import Builder
from lanefold.pto.lower.views import View, even, split_rows
from lanefold.pto.names import element

EXPANSIONS = {
    "bypass": "",
    "add": "ADD",
    "subtract": "SUB",
    "mult": "MUL",
    "divide": "DIV",
    "max": "MAX",
    "min": "MIN",
    "exp_difference": "EXPDIF",
}
"""Ending of the expansion that computes an operator."""

RULE_LAST = Rule(
    "PTO-LOWER-LAST",
    "A search on tiles answers with the first of equal values.",
    "PTO headers: TROWARGMAX, TCOLARGMAX",
)
RULE_LONG = Rule(
    "PTO-LOWER-SEARCH",
    "A search on tiles keeps its whole axis in one tile; on A2/A3 the rows of an f16 column count up to 2,048.",
    "PTO headers: TROWARGMAX, TCOLARGMAX; PTO tile programming model: local memory",
)
RULE_TOP = Rule(
    "PTO-LOWER-TOP",
    "A search on tiles finds the one extreme value; no tile operation takes it out, so that the next could be found.",
    "PTO overview: Reduce And Expand Instruction Set",
)
RULE_INDEX = Rule(
    "PTO-LOWER-INDEX",
    "Indices of a search are 32-bit integers.",
    "PTO headers: TROWARGMAX, TCOLARGMAX, index types",
)
_WIDEST = 2048
"""Columns of the widest tile of an expansion."""
_INDEX_TYPES = ("uint32", "int32")


def around(shape: Sequence[int], axis: int) -> tuple[int, int, int]:
    """Extents before, on and behind an axis."""
    return prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])


def lower_arg(b: Builder, op: ArgReduce, place: Place) -> None:
    """Rows of tiles where the axis is the last one, else columns.

    Raises:
        LanefoldError: PTO-LOWER-LAST, PTO-LOWER-INDEX, PTO-LOWER-SEARCH.
    """
    if op.select_last_index:
        raise RULE_LAST.error(
            f"arg{op.operator} with select_last_index 1 wants the last of equal values",
            got="select_last_index 1",
            allowed="select_last_index 0",
            place=place,
            cures=[
                "write select_last_index 0 if the first of equals will do",
                "keep the node on the host",
            ],
        )
    check_index(op.output_dtype, place)
    shape = around(op.input_shape, op.axis)
    source = b.tensor("in0", prod(shape))
    result = b.tensor("out0", shape[0] * shape[2], dtype=element(op.output_dtype).name)
    _search(b, op.operator.upper(), (source, result), shape, place)


def lower_top(b: Builder, op: TopK, place: Place) -> None:
    """One value and its index.

    Raises:
        LanefoldError: PTO-LOWER-TOP for more values, PTO-LOWER-SEARCH.
    """
    if op.k != 1:
        raise RULE_TOP.error(
            f"the {op.k} {'largest' if op.largest else 'smallest'} values of an axis are not found on tiles",
            got=f"k {op.k}",
            allowed="k 1",
            place=place,
            cures=["keep the node on the host", "take k 1"],
        )
    shape = around(op.input_shape, op.axis)
    ending = "MAX" if op.largest else "MIN"
    source = b.tensor("in0", prod(shape))
    values = b.tensor("out0", shape[0] * shape[2])
    fold_axis(b, ending, source, shape, values)
    indices = b.tensor("out1", shape[0] * shape[2], dtype=element(op.index_dtype).name)
    _search(b, ending, (source, indices), shape, place)


def check_exact(b: Builder, n: int, place: Place) -> None:
    """Refuse searches of columns of more halves than A2/A3 counts exactly."""
    if b.target == "a2a3" and b.dtype == "f16" and n > INDEX_EXACT_HALF:
        raise RULE_LONG.error(
            f"row numbers of a column of {n} f16 values are not all exact on a2a3",
            got=n,
            allowed=f"up to {INDEX_EXACT_HALF} elements of f16 that lie apart",
            place=place,
            cures=["cast the tensor to float32 first", "keep the node on the host"],
        )


def check_index(dtype: str, place: Place) -> None:
    """Refuse indices of a type that no search writes."""
    if dtype not in _INDEX_TYPES:
        raise RULE_INDEX.error(
            f"indices of {dtype} are not made on tiles",
            got=dtype,
            allowed=" or ".join(_INDEX_TYPES),
            place=place,
            cures=["take uint32 indices and cast them on the host"],
        )


def _search(b: Builder, ending: str, names: tuple[str, str], shape: tuple[int, int, int], place: Place) -> None:
    outer, n, inner = shape
    row = inner == 1
    if not row:
        check_exact(b, n, place)
    source, result = names
    views = (
        View(source, (outer, n), (n, 1)) if row else View(source, (outer, n, inner), (n * inner, inner, 1)),
        View(result, (outer, 1), (1, 1)) if row else View(result, (outer, 1, inner), (inner, inner, 1)),
    )
    name, form = (f"TROWARG{ending}", "R2") if row else (f"TCOLARG{ending}", "C3")
    limit = min(tiles.MOST, outer) if row else min(inner, tiles.widest(b, n))

    def stages(trial: Builder, size: int) -> None:
        pieces = split_rows(views, size) if row else zip(*(view.split(-1, size) for view in views), strict=True)
        for src, dst in pieces:
            tiles.stage(trial, name, form, {"dstIdx": dst, "src": src})

    fitting(b, stages, (outer if row else inner, limit), n, place)


def fitting(b: Builder, stages: Callable[[Builder, int], None], extent: tuple[int, int], n: int, place: Place) -> None:
    """The stages of a search over ``n`` elements in the largest pieces that fit beside their scratch.

    Scratch grows in steps that depend on everything, so that the pieces shrink until one fits. ``extent`` is what is
    cut, and the largest piece to try.

    Raises:
        LanefoldError: PTO-LOWER-SEARCH where not even a piece of 1 fits.
    """
    whole, limit = extent
    while True:
        trial = Builder(b.target, b.dtype, b.prefer, tensors=dict(b.tensors))
        try:
            stages(trial, even(whole, limit))
        except LanefoldError as error:
            if limit > 1:
                limit = -(-limit // 2)
                continue
            finding = error.diagnostics[0]
            raise RULE_LONG.error(
                f"a search over {n} elements does not fit into local memory: {finding.message}",
                got=n,
                allowed="an axis that fits into one tile beside its scratch",
                place=place,
                cures=["keep the node on the host", "search the axis in parts"],
            ) from None
        b.stages += trial.stages
        return


def lower_expand(b: Builder, op: Expand) -> None:
    """A vector along rows or columns of tiles; all operators but bypass combine ``in0`` with the vector ``in1``."""
    groups = expand_groups(op)
    full_steps: list[int] = []
    vector_steps: list[int] = []
    whole = narrow = 1
    for repeated, extent in reversed(groups):
        full_steps.insert(0, whole)
        vector_steps.insert(0, 0 if repeated else narrow)
        whole *= extent
        narrow *= 1 if repeated else extent
    extents = tuple(extent for _, extent in groups)
    names = {"dst": "out0", "src0": "in0", "src1": "in1"}
    if op.operator == "bypass":
        names = {"dst": "out0", "src": "in0"}
    vector = list(names)[-1]
    for role in list(names)[1:]:
        b.tensor(names[role], narrow if role == vector else whole)
    b.tensor("out0", whole)
    by_row = groups[-1][0]
    views = []
    for role, name in names.items():
        steps, shape = (tuple(vector_steps), list(extents)) if role == vector else (tuple(full_steps), list(extents))
        if role == vector:
            shape[-1 if by_row else -2] = 1
        views.append(View(name, tuple(shape), (*steps[:-1], 1 if role == vector and by_row else steps[-1])))
    name = f"T{'ROW' if by_row else 'COL'}EXPAND{EXPANSIONS[op.operator]}"
    form = "E1" if op.operator == "bypass" else "E2"
    _spread(b, name, form, dict(zip(names, views, strict=True)), vector)


def expand_groups(op: Expand) -> list[tuple[bool, int]]:
    """Neighbouring axes that are all repeated or all kept, as one extent each; at least two groups."""
    groups: list[tuple[bool, int]] = []
    for axis, extent in enumerate(op.input_shape):
        repeated = axis in op.axes
        if extent == 1:
            continue
        if groups and groups[-1][0] == repeated:
            groups[-1] = (repeated, groups[-1][1] * extent)
        else:
            groups.append((repeated, extent))
    groups = groups or [(True, 1)]
    return groups if len(groups) > 1 else [(not groups[0][0], 1), *groups]


def _spread(b: Builder, name: str, form: str, views: dict[str, View], vector: str) -> None:
    """Stages over pieces of rows and columns; the vector is split along the axis that it has."""
    by_row = name.startswith("TROW")
    full = views["dst"]
    # Two tiles of the full extents at most, and the vector beside them.
    count = len(views) - 1
    share = tiles.room(b.target) // (count + 1)
    unit = tiles.unit(b.dtype)
    most = min(_WIDEST, share // tiles.line_bytes(b.dtype, 1) * unit) // unit * unit
    cols = even(full.cols, max(unit, most))
    for each in _cut(views, vector, by_row, -1, cols):
        tall = tiles.MOST // unit * unit if by_row or form == "E1" else REPEAT_LIMIT
        rows = min(tall, max(1, share // tiles.line_bytes(b.dtype, each["dst"].cols)))
        for part in _cut(each, vector, by_row, -2, even(full.shape[-2], rows)):
            tiles.stage(b, name, form, part, (vector,) if by_row and form == "E2" else ())


def _cut(views: dict[str, View], vector: str, by_row: bool, axis: int, size: int) -> list[dict[str, View]]:
    """The views in pieces of ``size``; a vector without that axis meets every piece anew."""
    constant = (axis == -1) == by_row
    pieces = {role: view.split(axis, size) for role, view in views.items() if role != vector or not constant}
    found: list[dict[str, View]] = []
    for at in range(len(pieces["dst"])):
        each = {role: pieces[role][at] for role in views if role in pieces}
        if constant:
            each[vector] = _again(views[vector], each["dst"])
        found.append({role: each[role] for role in views})
    return found


def _again(vector: View, full: View) -> View:
    """The vector once more for every further step over the tiles."""
    more = len(full.shape) - len(vector.shape)
    lead, last = len(vector.shape) - 2, len(full.shape) - 2
    return View(
        vector.tensor,
        (*vector.shape[:lead], *full.shape[lead:last], *vector.shape[lead:]),
        (*vector.strides[:lead], *(0,) * more, *vector.strides[lead:]),
        vector.offset,
    )


def lower_reciprocal(b: Builder, op: Reciprocal) -> None:
    """Ones, one per row, divided by the elements."""
    elements = prod(op.input_shape)
    source, result = b.tensor("in0", elements), b.tensor("out0", elements)
    width = min(elements, 512)
    count, rest = divmod(elements, width)
    share = tiles.room(b.target) // 3
    most = min(tiles.MOST, max(1, share // tiles.line_bytes(b.dtype, width)))
    size = even(count, most)
    ones = b.tensor("ones", size, ((1.0, size),))
    shapes = [(count, width, 0)] + [(1, rest, count * width)] * bool(rest)
    for rows, cols, offset in shapes:
        pair = [View(name, (rows, cols), (cols, 1), offset) for name in (source, result)]
        for src, dst in split_rows(pair, size):
            each = View(ones, (*src.shape[:-2], src.shape[-2], 1), (*(0 for _ in src.shape[:-2]), 1, 1))
            tiles.stage(b, "TROWEXPANDDIV", "E2", {"dst": dst, "src0": each, "src1": src}, ("src0",))
