"""Rules about places in local memory."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from lanefold.diagnostics import Cure
from lanefold.pto.calls import Call, Operand
from lanefold.pto.isa import BLOCK_BYTES
from lanefold.pto.rules.base import Evidence, rule
from lanefold.pto.rules.extents import per_row
from lanefold.pto.rules.shapes import domain, extents, prefixed, round_up


def _range(operand: Operand) -> tuple[int, int]:
    first = operand.address or 0
    return first, first + operand.type.bytes


def _read(call: Call) -> list[tuple[str, Operand]]:
    """Operands that take up memory: all but scratch that the target does not read."""
    return [(role, o) for role, o in call.operands.items() if role != "tmp" or call.support.scratch]


def _packed(call: Call, limit: int) -> list[Cure]:
    """A cure that places all operands one behind the other, where they fit."""
    changes: dict[str, object] = {}
    at = 0
    for role, operand in call.operands.items():
        changes[f"{role}.address"] = at
        at += round_up(operand.type.bytes, call.target.alignment)
    if at > limit:
        return [Cure("leave the addresses out, and let the tiles be placed", dict.fromkeys(changes))]
    places = ", ".join(f"{role} at {value:#x}" for role, value in zip(call.operands, changes.values(), strict=True))
    return [Cure(f"place {places}", changes)]


def usable_bytes(call: Call) -> int:
    """Bytes of local memory that the tiles of a call may take."""
    reserved = call.target.broadcast_scratch
    return reserved[0] if reserved and _takes_reserved(call) else call.target.ub_bytes


@rule("PTO-ADDRESS-ALIGNMENT", "PTO headers: TASSIGN checks")
def aligned(call: Call) -> Iterator[Evidence]:
    """A tile's address is a multiple of 32 bytes."""
    unit = call.target.alignment
    for role, operand in call.operands.items():
        address = operand.address
        if address is not None and address % unit:
            below, above = address - address % unit, round_up(address, unit)
            yield Evidence(
                f"{call.role_text(role)} stands at {address:#x}, which is not a multiple of {unit}",
                got=f"{address:#x}",
                allowed=f"multiples of {unit}",
                cures=[
                    Cure(f"place it at {above:#x}", {f"{role}.address": above}),
                    Cure(f"place it at {below:#x}", {f"{role}.address": below}),
                    *_packed(call, usable_bytes(call)),
                ],
                role=role,
                field="address",
            )


@rule("PTO-ADDRESS-RANGE", "PTO headers: TASSIGN checks; local memory sizes")
def inside_memory(call: Call) -> Iterator[Evidence]:
    """A tile lies inside local memory: 192 KiB on cpu and A2/A3, 256 KiB on A5."""
    size = call.target.ub_bytes
    for role, operand in call.operands.items():
        if operand.address is None:
            continue
        first, end = _range(operand)
        if first < 0 or end > size:
            yield Evidence(
                f"{call.role_text(role)} takes bytes {first:#x} to {end:#x} of a memory of {size:#x} bytes",
                got=f"{first:#x} to {end:#x}",
                allowed=f"0 to {size:#x}",
                cures=_packed(call, usable_bytes(call)),
                role=role,
                field="address",
            )


@rule("PTO-ADDRESS-OVERLAP", "PTO tile programming model: local memory")
def overlap(call: Call) -> Iterator[Evidence]:
    """Operands of a call share no memory; only an expansion's result may replace a source of its type in place."""
    placed = [(role, o) for role, o in _read(call) if o.address is not None]
    for (role, a), (other, b) in combinations(placed, 2):
        (a_first, a_end), (b_first, b_end) = _range(a), _range(b)
        same = a_first == b_first and a.type == b.type and not call.op.reduces and role == "dst" and other != "tmp"
        if max(a_first, b_first) < min(a_end, b_end) and not same:
            yield Evidence(
                f"{role} ({a_first:#x} to {a_end:#x}) and {other} ({b_first:#x} to {b_end:#x}) overlap",
                got=f"{min(a_end, b_end) - max(a_first, b_first)} bytes in common",
                allowed="no byte in common",
                cures=_packed(call, usable_bytes(call)),
                role=other,
                field="address",
            )


def _takes_reserved(call: Call) -> bool:
    if call.form.name != "E2" or not call.op.binary or call.op.axis != "row":
        return False
    found = per_row(call)
    return found is not None and found[1] == 1


@rule("PTO-ADDRESS-RESERVED", "PTO headers: A2/A3 TROWEXPAND with an operator, broadcast buffer")
def reserved_area(call: Call) -> Iterator[Evidence]:
    """No tile lies in bytes 184 KiB to 192 KiB while A2/A3 expands rows from one value each without a scratch tile."""
    reserved = call.target.broadcast_scratch
    if reserved is None or not _takes_reserved(call):
        return
    for role, operand in call.operands.items():
        if operand.address is None:
            continue
        first, end = _range(operand)
        if max(first, reserved[0]) < min(end, reserved[1]):
            yield Evidence(
                f"{call.role_text(role)} takes bytes {first:#x} to {end:#x}, of which {call.op.name} overwrites those "
                f"from {reserved[0]:#x} on",
                got=f"{first:#x} to {end:#x}",
                allowed=f"below {reserved[0]:#x}",
                cures=_packed(call, reserved[0]),
                role=role,
                field="address",
            )


@rule("PTO-MEMORY-SIZE", "PTO headers: local memory sizes")
def memory_size(call: Call) -> Iterator[Evidence]:
    """On A2/A3 and A5 the operands of a call fit into local memory together; unread scratch does not count."""
    if call.target.name == "cpu":
        return
    limit = usable_bytes(call)
    total = sum(round_up(operand.type.bytes, call.target.alignment) for _, operand in _read(call))
    if total <= limit:
        return
    sizes = ", ".join(f"{role} {operand.type.bytes}" for role, operand in _read(call))
    yield Evidence(
        f"the tiles of {call.op.name} take {total} bytes ({sizes}), and {call.target.name} has {limit}",
        got=f"{total} bytes",
        allowed=f"{limit} bytes",
        cures=_smaller(call),
        field="rows",
    )


def _piece(call: Call, rows: int, cols: int) -> tuple[dict[str, object], int]:
    """Changes that cut every operand down to a piece, and the bytes that the operands then take."""
    changes: dict[str, object] = {}
    total = 0
    for role, operand in call.operands.items():
        high, wide = extents(call, role, rows, cols) if role != "tmp" else (rows, cols)
        unit = BLOCK_BYTES // operand.type.element.bytes
        column = operand.type.layout == "DN"
        size = (round_up(high, unit), wide) if column else (high, round_up(wide, unit))
        changes |= prefixed(role, {"rows": size[0], "cols": size[1], "valid_rows": high, "valid_cols": wide})
        total += size[0] * size[1] * operand.type.element.bytes
    return changes, total


def _smaller(call: Call) -> list[Cure]:
    """Halve rows, then columns, until the operands fit together."""
    rows, cols = domain(call)
    while rows > 1 or cols > 1:
        rows, cols = ((rows + 1) // 2, cols) if rows > 1 else (rows, (cols + 1) // 2)
        changes, total = _piece(call, rows, cols)
        if total <= usable_bytes(call):
            return [Cure(f"work on pieces of {rows}×{cols}", changes)]
    return []
