"""Rules about locations, layouts and capacities."""

from __future__ import annotations

from collections.abc import Iterator

from lanefold.diagnostics import Cure
from lanefold.pto.calls import Call
from lanefold.pto.isa import LayoutRule
from lanefold.pto.rules.base import Evidence, rule
from lanefold.pto.rules.extents import per_row
from lanefold.pto.rules.shapes import layout_cures


def _layouts(call: Call) -> dict[str, LayoutRule]:
    special = call.support.value_layouts
    return dict(special if call.with_value and special is not None else call.support.layouts)


@rule("PTO-LOCATION", "PTO headers: tile locations; PTO overview: Reduce And Expand")
def locations(call: Call) -> Iterator[Evidence]:
    """Every operand lives in vector memory; the CPU simulator asks for that in the arg operations only."""
    if call.target.name == "cpu" and not call.support.vec_only:
        return
    for role, operand in call.operands.items():
        if operand.type.location != "vec":
            yield Evidence(
                f"{call.role_text(role)} lives in {operand.type.location}, not in vector memory",
                got=operand.type.location,
                allowed="vec",
                cures=[Cure(f"make {role} a vec tile", {f"{role}.location": "vec"})],
                role=role,
                field="location",
            )


@rule("PTO-LAYOUT", "PTO headers: layout checks of each operation")
def legal_layouts(call: Call) -> Iterator[Evidence]:
    """Each operand has a layout that the operation accepts for it on the target."""
    for role, allowed in _layouts(call).items():
        operand = call.operands.get(role)
        if operand is None or allowed.permits(operand.type.layout, operand.type.cols):
            continue
        cols = operand.type.cols
        shape = (
            f"{operand.type.layout} with {cols} column{'s' * (cols != 1)}"
            if operand.type.layout == "DN"
            else operand.type.layout
        )
        yield Evidence(
            f"{call.role_text(role)} of {call.op.name} is {shape}; {call.target.name} wants {allowed}",
            got=shape,
            allowed=str(allowed),
            cures=layout_cures(role, operand.type, allowed),
            role=role,
            field="layout",
        )


@rule("PTO-CAPACITY-EQUAL", "PTO headers: CPU simulator, TROWSUM, TCOLSUM, TCOLMAX")
def equal_capacities(call: Call) -> Iterator[Evidence]:
    """On the CPU simulator TROWSUM wants equal row capacities, TCOLSUM and TCOLMAX equal column capacities."""
    axis = call.support.equal_capacity
    if not axis:
        return
    wanted, found = getattr(call.source.type, axis), getattr(call.result.type, axis)
    if wanted == found:
        return
    larger = max(wanted, found)
    cures = [Cure(f"give {role} {larger} {axis} of capacity", {f"{role}.{axis}": larger}) for role in ("dst", "src")]
    yield Evidence(
        f"{call.op.name} on cpu wants src and dst with equally many {axis} of capacity",
        got=f"src {wanted}, dst {found}",
        allowed=f"{wanted} and {wanted}",
        cures=cures,
        role="dst",
        field=axis,
    )


@rule("PTO-STATIC-COLUMN", "PTO headers: A5 TROWEXPAND")
def static_column(call: Call) -> Iterator[Evidence]:
    """A5 TROWEXPAND takes a source whose valid columns are 1 or dynamic."""
    if call.op.name != "TROWEXPAND" or call.target.name != "a5" or call.source.dynamic or call.source.cols in (1, None):
        return
    yield Evidence(
        f"{call.role_text('src')} has {call.source.cols} static valid columns; a5 compiles 1 or dynamic ones",
        got=f"valid_cols = {call.source.cols}",
        allowed="1, or dynamic",
        cures=[
            Cure("set the valid columns of src to 1; only column 0 is read", {"src.valid_cols": 1}),
            Cure("make the valid extents of src dynamic", {"src.dynamic": True}),
        ],
        role="src",
        field="valid_cols",
    )


def _full_role(call: Call) -> str | None:
    """The source of a row expansion that is not the per-row one; of two in the result's extents a row-major one."""
    found = per_row(call)
    if found is not None:
        return "src0" if found[0] == "src1" else "src1"
    extents = (call.result.rows, call.result.cols)
    full = [role for role in ("src0", "src1") if (call.operands[role].rows, call.operands[role].cols) == extents]
    full.sort(key=lambda role: call.operands[role].type.order.base != "RowMajor")
    return full[0] if full else None


@rule("PTO-FULL-LAYOUT", "PTO headers: A2/A3 and A5 TROWEXPAND with an operator, source layouts")
def full_layout(call: Call) -> Iterator[Evidence]:
    """On A2/A3 and A5 the operand of a row expansion that has the destination's extents is row-major."""
    if not call.op.binary or call.op.axis != "row" or call.target.name == "cpu":
        return
    role = _full_role(call)
    if role is None or call.operands[role].type.order.base == "RowMajor":
        return
    shape = call.operands[role].type
    rule_text = LayoutRule(("ND",))
    yield Evidence(
        f"{call.role_text(role)} has the destination's extents but is {shape.layout}, which is not row-major",
        got=shape.layout,
        allowed="ND, ZN or ZZ",
        cures=layout_cures(role, shape, rule_text),
        role=role,
        field="layout",
    )
