"""The entry to lowering: legality by type, choice of route by cost."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from lanefold.diagnostics import LanefoldError, Place, Rule
from lanefold.ops import ArgPool, ArgReduce, Expand, Gather, Iota, Op, Pool, Reciprocal, Reduce, Softmax, TopK
from lanefold.program.prices import total
from lanefold.program.routes import require_preference
from lanefold.tpb import isa
from lanefold.tpb.lower.arg_pool import lower_arg_pool
from lanefold.tpb.lower.dims import PARTITIONS, Kept, pieces
from lanefold.tpb.lower.plan import Builder, Lowering, Transfer
from lanefold.tpb.lower.pool import lower_pool
from lanefold.tpb.lower.reduce import lower_cross_lane, lower_free_axis
from lanefold.tpb.lower.searches import lower_arg, lower_top
from lanefold.tpb.lower.spreading import lower_expand, lower_gather, lower_iota

RULE_OP = Rule(
    "TPB-LOWER-OP",
    "The leg pools, reduces, searches, inverts, repeats and fetches; it computes no exponentials.",
    "Pool Engine, The Op-to-Datapath Routing",
)
RULE_DTYPE = Rule(
    "TPB-LOWER-DTYPE",
    "An op goes to the leg where its result cannot differ by the element type: values widen to float32, and only "
    "int32 has an exact integer path.",
    "Reference datapaths: reads widen to fp32; TensorReduce integer path",
)
RULE_PREFER = Rule("TPB-LOWER-PREFER", "A route is preferred by cost, free-axis or cross-lane.", "Routes", usage=True)

FLOATS = ("float32", "float16", "bfloat16")
SMALL_INTEGERS = ("int8", "uint8", "int16", "uint16")
PREFERENCES = ("cost", "free-axis", "cross-lane")

_CHUNK = 16384
"""Elements per partition that are inverted at once; any number that leaves room for their results would do."""
_DIVIDED = "fold its maxima and sums on the leg and compute its exponentials on the host"

_Way = Callable[[Builder, Any], str]


def check_preference(prefer: str, place: Place) -> None:
    """Refuse a preference that the leg does not know, before there is an op to prefer a route for.

    Raises:
        LanefoldError: for any other word than those of ``PREFERENCES``.
    """
    require_preference(prefer, PREFERENCES, RULE_PREFER, place)


def lower(
    op: Op,
    place: Place | None = None,
    *,
    generation: isa.Generation = "v2",
    opcodes: isa.Reading = "reference",
    prefer: str = "cost",
) -> Lowering:
    """Instructions of the leg that compute an op.

    Args:
        op: what to compute.
        place: the source node, for findings and instruction names.
        generation: generation to lower for.
        opcodes: opcode reading of the bytes.
        prefer: ``cost`` takes the cheapest legal route, ``free-axis`` and ``cross-lane`` take that one where legal.

    Raises:
        LanefoldError: where the leg has no legal form for the op, with the reason.
    """
    where = place or Place()
    check_preference(prefer, where)
    if isinstance(op, Reduce):
        _check_dtype(op.dtype, _reduce_types(op), where)
        return _cheapest(op, where, generation, opcodes, prefer)
    if type(op) not in _WAYS:
        raise RULE_OP.error(
            f"{type(op).__name__} has no lowering onto the leg",
            got=type(op).__name__,
            allowed=", ".join(["Reduce", *(each.__name__ for each in _WAYS)]),
            place=where,
            cures=[_DIVIDED if isinstance(op, Softmax) else "keep the node on the host"],
        )
    dtype, legal = _types(op)
    _check_dtype(dtype, legal, where)
    return built(op, _WAYS[type(op)], where, generation, opcodes)


def _types(op: Op) -> tuple[str, tuple[str, ...]]:
    """The element type of an op that has one route, and those that are exact on it."""
    if isinstance(op, Iota):
        return op.output_dtype, (*FLOATS, *SMALL_INTEGERS, "int32", "uint32")
    if isinstance(op, Pool):
        return op.dtype, _pool_types(op)
    return op.dtype, _TYPES[type(op)]


def _pool_types(op: Pool) -> tuple[str, ...]:
    return (*FLOATS, *SMALL_INTEGERS, "int32") if op.operator == "max" else FLOATS


def _reduce_types(op: Reduce) -> tuple[str, ...]:
    if op.operator in ("max", "min"):
        return (*FLOATS, *SMALL_INTEGERS, "int32")
    if op.operator in ("add", "mult"):
        return (*FLOATS, "int32")
    if op.operator.startswith("bitwise"):
        return ("uint8", "uint16", "uint32", "int32")
    return FLOATS


def _check_dtype(dtype: str, legal: tuple[str, ...], place: Place) -> None:
    if dtype not in legal:
        raise RULE_DTYPE.error(
            f"{dtype} would not keep its values on the leg",
            got=dtype,
            allowed=", ".join(legal),
            place=place,
            cures=["cast the tensor first if its values allow it, or keep the node on the host"],
        )


def built(op: Op, way: _Way, place: Place, generation: isa.Generation, opcodes: isa.Reading) -> Lowering:
    """A lowering by one way, whatever its price.

    Raises:
        LanefoldError: where the way is not legal for the op.
    """
    builder = Builder(generation, place.node, place.instruction)
    route = way(builder, op)
    return Lowering(
        op, route, tuple(builder.items), dict(builder.tensors), generation, opcodes, "; ".join(builder.notes)
    )


def _cheapest(op: Reduce, place: Place, generation: isa.Generation, opcodes: isa.Reading, prefer: str) -> Lowering:
    """The legal route with the least worst-case cycles; where both are legal the note names the other's price."""
    ways: dict[str, _Way] = {"free-axis": lower_free_axis, "cross-lane": lower_cross_lane}
    made: dict[str, Lowering] = {}
    refused: LanefoldError | None = None
    for name, way in ways.items():
        try:
            made[name] = built(op, way, place, generation, opcodes)
        except LanefoldError as error:
            refused = refused or error
    if not made:
        raise refused or AssertionError("no route and no reason")
    if prefer in made:
        return made[prefer]
    prices = {name: total(lowering.cost()) for name, lowering in made.items()}
    return made[min(made, key=lambda name: prices[name][1])]


_TYPES: dict[type, tuple[str, ...]] = {
    ArgReduce: (*FLOATS, *SMALL_INTEGERS),
    ArgPool: (*FLOATS, *SMALL_INTEGERS),
    TopK: (*FLOATS, *SMALL_INTEGERS),
    Reciprocal: FLOATS,
    Expand: (*FLOATS, *SMALL_INTEGERS, "int32"),
    Gather: (*FLOATS, *SMALL_INTEGERS, "int32", "uint32"),
}


def _reciprocal(builder: Builder, op: Reciprocal) -> str:
    """1/x of a dense tensor, spread over the partitions."""
    elements = prod(op.input_shape)
    source = builder.tensor("in0", elements, op.dtype)
    result = builder.tensor("out0", elements, op.dtype)
    chunk = -(-elements // PARTITIONS)
    partitions, rest = divmod(elements, chunk)
    lanes = [(0, Kept(chunk, chunk, partitions), chunk)]
    if rest:
        lanes.append((partitions * chunk, Kept(0, 0, 1), rest))
    for start, lane, length in lanes:
        for first, size in pieces(length, _CHUNK):
            builder.restart()
            rows = builder.region("values", size, op.dtype, lane.num)
            inverse = builder.region("inverses", size, op.dtype, lane.num)
            builder.items.append(Transfer("load", source, start + first, (lane.step, 1), rows.access([(1, size)])))
            builder.instruction("Reciprocal", [rows.access([(1, size)])], [inverse.access([(1, size)])], "DVE")
            builder.items.append(Transfer("save", result, start + first, (lane.step, 1), inverse.access([(1, size)])))
    return "reciprocal"


_WAYS: dict[type, _Way] = {
    Pool: lower_pool,
    Reciprocal: _reciprocal,
    ArgReduce: lower_arg,
    ArgPool: lower_arg_pool,
    TopK: lower_top,
    Iota: lower_iota,
    Gather: lower_gather,
    Expand: lower_expand,
}
