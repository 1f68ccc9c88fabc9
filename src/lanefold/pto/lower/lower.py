"""The entry to lowering onto tiles: what a target takes, and which way is cheaper."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from lanefold.diagnostics import LanefoldError, Place, Rule
from lanefold.ops import ArgPool, ArgReduce, Expand, Op, Pool, Reciprocal, Reduce, Softmax, TopK
from lanefold.program.routes import Candidate, require_preference
from lanefold.pto.isa import OPERATIONS, Family, Operation
from lanefold.pto.lower.arg_pool import OPERATIONS as ARG_POOL
from lanefold.pto.lower.arg_pool import lower_arg_pool
from lanefold.pto.lower.fold import folds, is_global, lower_pool, lower_reduce
from lanefold.pto.lower.others import (
    EXPANSIONS,
    around,
    expand_groups,
    lower_arg,
    lower_expand,
    lower_reciprocal,
    lower_top,
)
from lanefold.pto.lower.plan import Builder, Lowering
from lanefold.pto.lower.softmax import lower_softmax
from lanefold.pto.lower.softmax import operations as softmax_operations
from lanefold.pto.lower.tiles import OPERATORS, column_types
from lanefold.pto.names import element
from lanefold.pto.tiles import numpy_type

RULE_OP = Rule(
    "PTO-LOWER-OP",
    "Tile operations fold windows and axes by sum, product, maximum, minimum and average, search, expand and divide.",
    "PTO overview: Reduce And Expand Instruction Set",
)
RULE_ELEMENT = Rule(
    "PTO-LOWER-ELEMENT",
    "Tile operations fold elements as they are; none of them maps a whole tile to magnitudes or squares.",
    "PTO overview: Reduce And Expand Instruction Set",
)
RULE_DTYPE = Rule(
    "PTO-LOWER-DTYPE",
    "Every tile operation of a lowering takes the element type on the target.",
    "PTO headers: common instruction declarations and target checks",
)
RULE_COUNT = Rule(
    "PTO-LOWER-COUNT",
    "An average divides by the number of its elements, which the element type must hold.",
    "PTO headers: TCOLEXPANDDIV, element types",
)
RULE_PREFER = Rule("PTO-LOWER-PREFER", "A route is preferred by cost, row or column.", "Routes", usage=True)

PREFERENCES = ("cost", "row", "column")
_Lowered = Pool | ArgPool | Reduce | Softmax | ArgReduce | TopK | Expand | Reciprocal
FLOATS = ("float32", "float16", "bfloat16")
_LARGEST_HALF = 65_504


def check_preference(prefer: str, place: Place) -> None:
    """Refuse a preference that tiles do not know, before there is an op to prefer a route for.

    Raises:
        LanefoldError: for any other word than those of ``PREFERENCES``.
    """
    require_preference(prefer, PREFERENCES, RULE_PREFER, place)


def lower(
    op: Op, place: Place | None = None, *, target: str = "cpu", numerics: str = "cpu", prefer: str = "cost"
) -> Lowering:
    """Tile programs that compute an op.

    Args:
        op: what to compute.
        place: the source node, for findings.
        target: ``cpu``, ``a2a3`` or ``a5``.
        numerics: numeric reading of the run.
        prefer: ``cost`` takes the cheapest legal way for windows on the last axis, ``row`` and ``column`` that one
            where it is legal.

    Raises:
        LanefoldError: where the target has no legal form for the op, with the reason.
    """
    where = place or Place()
    check_preference(prefer, where)
    taken = _checked_op(op, where)
    b = Builder(target, _dtype(taken, target, where), prefer)
    _check_count(taken, where)
    _LOWER[type(taken)](b, taken, where)
    made = Lowering(op, tuple(b.stages), dict(b.tensors), target, numerics, "; ".join(b.notes))
    return made.checked(where)


def _checked_op(op: Op, where: Place) -> _Lowered:
    """The op, if tile operations compute it.

    Raises:
        LanefoldError: PTO-LOWER-OP, PTO-LOWER-ELEMENT.
    """
    if isinstance(op, Softmax | ArgPool | ArgReduce | TopK | Expand | Reciprocal):
        return op
    if not isinstance(op, Pool | Reduce) or op.operator not in OPERATORS:
        name = getattr(op, "operator", "")
        raise RULE_OP.error(
            f"{' '.join(filter(None, (type(op).__name__, name)))} has no lowering onto tiles",
            got=f"{type(op).__name__} {name}".strip(),
            allowed="ArgPool, ArgReduce, TopK, Expand, Reciprocal, Softmax, "
            f"and Pool and Reduce with {', '.join(OPERATORS)}",
            place=where,
            cures=["keep the node on the host"],
        )
    if op.element != "identity":
        raise RULE_ELEMENT.error(
            f"no tile operation gives the {op.element} of every element of a tile",
            got=f"element {op.element}",
            allowed="element identity",
            place=where,
            cures=[f"compute the {op.element} on the host and fold its result"],
        )
    return op


def _operations(op: _Lowered) -> list[Operation]:
    """What the lowering of an op may be made of."""
    return [OPERATIONS[name] for name in _names(op)]


def _names(op: _Lowered) -> list[str]:
    if isinstance(op, Softmax):
        return softmax_operations(op)
    if isinstance(op, Reciprocal):
        return ["TROWEXPANDDIV"]
    if isinstance(op, ArgPool):
        return list(ARG_POOL)
    if isinstance(op, Expand):
        return [f"T{'ROW' if expand_groups(op)[-1][0] else 'COL'}EXPAND{EXPANSIONS[op.operator]}"]
    if isinstance(op, ArgReduce | TopK):
        word = "ROW" if around(op.input_shape, op.axis)[2] == 1 else "COL"
        ending = op.operator.upper() if isinstance(op, ArgReduce) else "MAX" if op.largest else "MIN"
        return [f"T{word}ARG{ending}"] + ([f"T{word}{ending}"] if isinstance(op, TopK) else [])
    ending = OPERATORS[op.operator]
    if isinstance(op, Pool):
        by_row = {True} if is_global(op) else {True, False}
    else:
        by_row = {inner == 1 for _, _, inner in folds(op)}
    names = [f"TROW{ending}" if each else f"TCOL{ending}" for each in sorted(by_row)]
    return [*names, "TCOLEXPANDDIV"] if op.operator == "average" else names


def _check_count(op: _Lowered, place: Place) -> None:
    """Refuse an average over more elements than its type holds; as a divisor their number would be infinite.

    Raises:
        LanefoldError: PTO-LOWER-COUNT.
    """
    if not isinstance(op, Pool | Reduce) or op.operator != "average" or op.dtype != "float16":
        return
    number = (
        op.count if isinstance(op, Reduce) else prod(max(each.counted for each in a.classes) for a in op.shape.axes)
    )
    if number <= _LARGEST_HALF:
        return
    raise RULE_COUNT.error(
        f"an average of {number} elements divides by a number that float16 does not hold",
        got=f"{number} elements of float16",
        allowed=f"at most {_LARGEST_HALF} elements of float16; any number of float32 or bfloat16",
        place=place,
        cures=["convert the input to float32 first"],
    )


_LOWER: dict[type, Callable[[Builder, Any, Place], None]] = {
    Pool: lambda b, op, _: lower_pool(b, op),
    Reduce: lambda b, op, _: lower_reduce(b, op),
    Softmax: lower_softmax,
    ArgPool: lower_arg_pool,
    ArgReduce: lower_arg,
    TopK: lower_top,
    Expand: lambda b, op, _: lower_expand(b, op),
    Reciprocal: lambda b, op, _: lower_reciprocal(b, op),
}


def _dtype(op: _Lowered, target: str, place: Place) -> str:
    """The tile element type of an op.

    Raises:
        LanefoldError: PTO-LOWER-DTYPE where the target does not take it, or the result has another type.
    """
    legal = legal_types(op, target)
    result = op.dtype if isinstance(op, ArgPool | ArgReduce | TopK) else op.output_dtype
    found = op.dtype if result == op.dtype else f"{op.dtype} to {result}"
    if found not in legal:
        raise RULE_DTYPE.error(
            f"{target} does not take {found} for {' and '.join(_names(op))}",
            got=found,
            allowed=", ".join(legal),
            place=place,
            cures=[_cast(op.dtype, legal), "keep the node on the host"],
        )
    return element(op.dtype).name


def _cast(dtype: str, legal: Sequence[str]) -> str:
    """The type to cast to: one that holds every value, whole numbers for whole numbers where there are any."""
    kind = numpy_type(element(dtype))
    whole = [name for name in legal if name not in FLOATS and element(dtype).kind != "float"]
    for names in (whole, legal):
        safe = [name for name in names if name != dtype and np.can_cast(kind, numpy_type(element(name)))]
        if safe:
            least = min(safe, key=lambda name: element(name).bytes)
            return f"cast the tensor to {least} first, which holds every {dtype}"
    widest = max(whole or legal, key=lambda name: element(name).bytes)
    return f"cast the tensor to {widest} first, if its values allow it"


def legal_types(op: _Lowered, target: str) -> list[str]:
    """Element types, by NumPy name, that all tile operations of an op take on a target; averages are of floats."""
    sets = [_types(op, each, target) for each in _operations(op)]
    both = [element(name) for name in sorted(set.intersection(*sets))]
    floats = isinstance(op, Reciprocal) or getattr(op, "operator", "") == "average"
    found = [row.numpy for row in both if row.kind == "float" or not floats]
    return sorted(found, key=lambda name: (name not in FLOATS, -int("".join(filter(str.isdigit, name))), name))


def _types(op: _Lowered, operation: Operation, target: str) -> set[str]:
    """Element types of one operation of a lowering; folds of columns have a second way, see `column_types`."""
    if isinstance(op, Reduce) and operation.family is Family.COLUMN_REDUCE:
        return set(column_types(target, OPERATORS[op.operator]))
    return {source for source, result in operation.support[target].types if source == result}


def routes(op: Op, place: Place, *, target: str, numerics: str, prefer: str = "cost") -> list[Candidate]:
    """Every way of an op, the chosen one marked; ways that come to the same operations are told once.

    Raises:
        LanefoldError: if the preference is unknown.
    """
    try:
        chosen = lower(op, place, target=target, numerics=numerics, prefer=prefer)
    except LanefoldError as error:
        if error.usage:
            raise
        return [Candidate(type(op).__name__.lower(), None, error.diagnostics)]
    found = {chosen.route: Candidate(chosen.route, chosen, chosen=True)}
    for way in PREFERENCES:
        code = lower(op, place, target=target, numerics=numerics, prefer=way)
        found.setdefault(code.route, Candidate(code.route, code))
    return list(found.values())
