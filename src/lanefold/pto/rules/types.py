"""Rules about element types."""

from __future__ import annotations

from collections.abc import Iterator

from lanefold.diagnostics import Cure, Severity
from lanefold.pto.calls import Call
from lanefold.pto.isa import Pairs
from lanefold.pto.rules.base import Evidence, rule
from lanefold.pto.rules.shapes import lossless, nearest_types, typed


def _pairs(call: Call) -> Pairs:
    return call.support.value_types if call.with_value else call.support.types


def _pair_text(pairs: Pairs) -> str:
    plain = sorted(source for source, result in pairs if source == result)
    mixed = sorted(f"{source}→{result}" for source, result in pairs if source != result)
    words = ", ".join(plain)
    if len(mixed) > 6:
        return words + f", and {len(mixed)} pairs of two types"
    return words + (", " + ", ".join(mixed) if mixed else "")


def _used(call: Call) -> tuple[str, str]:
    """Source and result type that the table is asked for."""
    if call.op.binary:
        name = call.result.type.dtype
        return name, name
    source = call.source.type.dtype
    if call.op.arg:
        return source, call.operands["dstVal"].type.dtype if call.with_value else source
    return source, call.result.type.dtype


def _type_cures(call: Call, pairs: Pairs, source: str) -> list[Cure]:
    ranks = {name: rank for rank, name in enumerate(nearest_types(source))}
    best = sorted(pairs, key=lambda pair: (ranks[pair[0]], pair[0] != pair[1], ranks[pair[1]]))[:4]
    cures = []
    for wanted, result in best:
        what = f"use {wanted}" if wanted == result else f"use {wanted} with a result of {result}"
        note = "" if wanted == source else f": convert the values from {source} first"
        cures.append(Cure(what + note, typed(call, wanted, result)))
    return cures


@rule("PTO-TYPES", "PTO headers: element type checks of each operation")
def legal_types(call: Call) -> Iterator[Evidence]:
    """Source and result have element types that the operation accepts on the target."""
    pairs = _pairs(call)
    source, result = _used(call)
    if (source, result) in pairs:
        return
    what = source if source == result else f"{source} to {result}"
    yield Evidence(
        f"{call.op.name} does not accept {what} on {call.target.name}",
        got=what,
        allowed=_pair_text(pairs),
        cures=_type_cures(call, pairs, source),
        role="dst" if call.op.binary else "src",
        field="dtype",
    )


@rule("PTO-SAME-TYPE", "PTO headers: two-source expansions, source types")
def same_types(call: Call) -> Iterator[Evidence]:
    """Both sources of an expansion with an operator have the element type of the destination."""
    if not call.op.binary:
        return
    wanted = call.result.type.dtype
    for role in ("src0", "src1"):
        found = call.operands[role].type.dtype
        if found != wanted:
            yield Evidence(
                f"{call.role_text(role)} is {found} but the destination is {wanted}",
                got=found,
                allowed=wanted,
                cures=[
                    Cure(f"convert {role} to {wanted}", {f"{role}.dtype": wanted}),
                    Cure(f"use {found} throughout", typed(call, found, found)),
                ],
                role=role,
                field="dtype",
            )


@rule("PTO-INDEX-TYPE", "PTO headers: index types of TROWARG and TCOLARG")
def index_types(call: Call) -> Iterator[Evidence]:
    """The index tile has an index type that the form allows for the size of the source's elements."""
    if not call.op.arg:
        return
    table = call.support.value_index_types if call.with_value else call.support.index_types
    size = call.source.type.element.bytes
    allowed = (table or {}).get(size, ())
    found = call.operands["dstIdx"].type.dtype
    if not allowed or found in allowed:
        return
    yield Evidence(
        f"{call.op.name} writes no {found} indices for {size}-byte elements in this form on {call.target.name}",
        got=found,
        allowed=", ".join(allowed),
        cures=[Cure(f"make dstIdx {name}", {"dstIdx.dtype": name}) for name in allowed],
        role="dstIdx",
        field="dtype",
    )


@rule("PTO-MIXED-TYPES", "PTO headers: CPU simulator, compiled calls", severity=Severity.WARNING)
def mixed_types(call: Call) -> Iterator[Evidence]:
    """Where the CPU simulator accepts two different types, the result type should hold every source value.

    Other pairs compile there and nowhere else, and no document says how their values are converted.
    """
    if call.op.binary or call.op.arg:
        return
    source, result = _used(call)
    if lossless(source, result) or (source, result) not in call.support.types:
        return
    wider = [name for name in nearest_types(source) if lossless(source, name) and (source, name) in call.support.types]
    yield Evidence(
        f"how {call.op.name} converts {source} to {result} is not documented",
        got=f"{source} to {result}",
        allowed=", ".join(wider),
        cures=[Cure(f"use a result of {name}", {"dst.dtype": name}) for name in wider],
        role="dst",
        field="dtype",
    )
