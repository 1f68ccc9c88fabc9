"""Rules about valid extents: zero, mismatched, and too large ones."""

from __future__ import annotations

from collections.abc import Iterator

from lanefold.diagnostics import Cure, number_of
from lanefold.pto.calls import Call
from lanefold.pto.isa import BLOCK_BYTES, EXTENT_LIMIT, INDEX_EXACT_HALF, REPEAT_LIMIT
from lanefold.pto.rules.base import Evidence, rule
from lanefold.pto.rules.shapes import domain, extents, fitted, prefixed, resized, typed

_IDENTITY = {
    "sum": "0, the sum of no elements",
    "prod": "1, the product of no elements",
    "max": "the lowest value of the type, the maximum of no elements",
    "min": "the highest value of the type, the minimum of no elements",
}


def _known(call: Call) -> bool:
    return all(o.rows is not None and o.cols is not None for role, o in call.operands.items() if role != "tmp")


def _shape(call: Call, role: str) -> tuple[int, int]:
    operand = call.operands[role]
    return operand.rows or 0, operand.cols or 0


@rule("PTO-EXTENT-ZERO", "PTO overview: Cases That Are Not Allowed; CPU simulator, measured")
def zero_extents(call: Call) -> Iterator[Evidence]:
    """No operand has an empty valid region."""
    for role, operand in call.operands.items():
        empty = [name for name, value in (("rows", operand.rows), ("cols", operand.cols)) if value == 0]
        if role == "tmp" or not empty:
            continue
        rows, cols = (value or capacity for value, capacity in zip(domain(call), _capacity(call), strict=True))
        cures = [Cure(f"work on {rows}×{cols} elements", fitted(call, rows, cols))]
        identity = _IDENTITY.get(call.op.operator)
        folded = "cols" if call.op.axis == "row" else "rows"
        if role == "src" and call.op.reduces and not call.op.arg and identity and empty == [folded]:
            cures.append(Cure(f"leave the call out and use {identity}"))
        yield Evidence(
            f"{call.role_text(role)} has no valid {' and no valid '.join(empty)}",
            got=f"{operand.rows}×{operand.cols}",
            allowed="1 or more valid rows and columns",
            cures=cures,
            role=role,
            field=f"valid_{empty[0]}",
        )


def _capacity(call: Call) -> tuple[int, int]:
    leading = call.source if call.op.reduces else call.result
    return leading.type.rows, leading.type.cols


def _wrong_extents(call: Call, role: str, wanted: tuple[int, int]) -> Evidence:
    found = _shape(call, role)
    rows, cols = domain(call)
    return Evidence(
        f"{call.role_text(role)} is valid in {found[0]}×{found[1]}, but {call.op.name} on {rows}×{cols} "
        f"elements needs {wanted[0]}×{wanted[1]}",
        got=f"{found[0]}×{found[1]}",
        allowed=f"{wanted[0]}×{wanted[1]}",
        cures=[
            Cure(
                f"set the valid region of {role} to {wanted[0]}×{wanted[1]}",
                prefixed(role, resized(call.operands[role].type, *wanted)),
            ),
            Cure(f"set all valid regions for {rows}×{cols}", fitted(call, rows, cols)),
        ],
        role=role,
        field="valid_rows" if found[0] != wanted[0] else "valid_cols",
    )


@rule("PTO-EXTENT-RESULT", "PTO overview: Output Shape; A2/A3 and A5 run-time conditions")
def result_extents(call: Call) -> Iterator[Evidence]:
    """Results of a reduction are valid in R×1 for rows and in 1×C for columns of an R×C source."""
    if not call.op.reduces or not _known(call):
        return
    for role in call.form.operands[: call.form.outputs]:
        wanted = extents(call, role, *domain(call))
        if _shape(call, role) != wanted:
            yield _wrong_extents(call, role, wanted)


@rule("PTO-EXTENT-SOURCE", "PTO overview: Cases That Are Not Allowed; A2/A3 and A5 run-time conditions")
def source_extents(call: Call) -> Iterator[Evidence]:
    """The source of an expansion has as many valid rows (row expansion) or columns (column expansion) as the result."""
    if call.op.reduces or call.op.binary or not _known(call):
        return
    (rows, cols), (wanted_rows, wanted_cols) = _shape(call, "src"), domain(call)
    wanted = (wanted_rows, max(cols, 1)) if call.op.axis == "row" else (max(rows, 1), wanted_cols)
    if (rows, cols) != wanted:
        yield _wrong_extents(call, "src", wanted)


def _swapped(call: Call) -> dict[str, object]:
    return {"src0": call.operands["src1"].type, "src1": call.operands["src0"].type}


@rule("PTO-EXTENT-COLUMN", "PTO headers: TCOLEXPAND with an operator")
def column_extents(call: Call) -> Iterator[Evidence]:
    """A column expansion with an operator takes one source in the result's extents and one of a single row.

    The single row is src1 on cpu; A2/A3 and A5 take it on either side.
    """
    if not call.op.binary or call.op.axis != "column" or not _known(call):
        return
    rows, cols = domain(call)
    full, line = (rows, cols), (1, cols)
    first, second = _shape(call, "src0"), _shape(call, "src1")
    if (first, second) == (full, line) or (call.target.name != "cpu" and (first, second) == (line, full)):
        return
    if (first, second) == (line, full):
        yield Evidence(
            "the CPU simulator reads src0 in full and broadcasts src1 only, but here src0 is the single row",
            got=f"src0 {first[0]}×{first[1]}, src1 {second[0]}×{second[1]}",
            allowed=f"src0 {rows}×{cols}, src1 1×{cols}",
            cures=[
                Cure(
                    "give the full tile as src0 and the row as src1; mind the order of SUB, DIV, EXPDIF", _swapped(call)
                ),
                Cure("use target a2a3 or a5, which broadcast either side", {"target": "a5"}),
            ],
            role="src0",
            field="valid_rows",
        )
        return
    if first != full:
        yield _wrong_extents(call, "src0", full)
    if second != line:
        yield _wrong_extents(call, "src1", line)


def _mode(call: Call, role: str) -> int:
    """1 for a scalar per row, 2 for a 32-byte block per row, 0 for neither."""
    shape = call.operands[role].type
    rows, cols = _shape(call, role)
    if rows != call.result.rows:
        return 0
    if shape.layout == "DN" and cols == 1:
        return 1
    return 2 if shape.order.base == "RowMajor" and cols == BLOCK_BYTES // shape.element.bytes else 0


def per_row(call: Call) -> tuple[str, int] | None:
    """The per-row operand of a row expansion and its mode, or None where the operands do not fit."""
    full = domain(call)
    for whole, narrow in (("src0", "src1"), ("src1", "src0")):
        mode = _mode(call, narrow)
        if _shape(call, whole) == full and mode:
            return narrow, mode
    return None


def _mode_cures(call: Call, narrow: str, whole: str) -> list[Cure]:
    rows, cols = domain(call)
    shape = call.operands[narrow].type
    unit = BLOCK_BYTES // shape.element.bytes
    others = prefixed(whole, resized(call.operands[whole].type, rows, cols))
    tall = -(-max(rows, 1) // unit) * unit
    one: dict[str, object] = {"layout": "DN", "rows": tall, "cols": 1, "valid_rows": rows, "valid_cols": 1}
    two: dict[str, object] = {"layout": "ND", "rows": rows, "cols": unit, "valid_rows": rows, "valid_cols": unit}
    return [
        Cure(f"mode 1: make {narrow} a DN tile of {tall}×1, valid {rows}×1", prefixed(narrow, one) | others),
        Cure(f"mode 2: make {narrow} an ND tile of {rows}×{unit}, all valid", prefixed(narrow, two) | others),
    ]


@rule("PTO-ROW-MODE", "PTO headers: TROWEXPAND with an operator, the per-row operand")
def row_modes(call: Call) -> Iterator[Evidence]:
    """A row expansion with an operator takes one source in the result's extents and one value or 32-byte block per row.

    Mode 1 is a DN tile valid in R×1, mode 2 a row-major tile valid in R×(32 / element bytes).
    """
    if not call.op.binary or call.op.axis != "row" or not _known(call) or per_row(call) is not None:
        return
    rows, cols = domain(call)
    whole = "src1" if _shape(call, "src1") == (rows, cols) and _shape(call, "src0") != (rows, cols) else "src0"
    narrow = "src0" if whole == "src1" else "src1"
    shape = call.operands[narrow].type
    unit = BLOCK_BYTES // shape.element.bytes
    yield Evidence(
        f"{call.role_text(narrow)} is {shape}, which is neither mode of a per-row operand of {number_of(rows, 'row')}",
        got=f"src0 {call.operands['src0'].type}, src1 {call.operands['src1'].type}",
        allowed=f"{whole} valid {rows}×{cols}; {narrow} DN valid {rows}×1 (mode 1) or ND valid {rows}×{unit} (mode 2)",
        cures=_mode_cures(call, narrow, whole),
        role=narrow,
        field="valid_cols",
    )


@rule("PTO-ROW-MODE-SCRATCH", "PTO headers: A2/A3 TROWEXPAND with an operator and scratch")
def scratch_mode(call: Call) -> Iterator[Evidence]:
    """On A2/A3 the form with scratch takes one value per row (mode 1), not a block."""
    if call.form.name != "E3" or call.target.name != "a2a3" or not _known(call):
        return
    found = per_row(call)
    if found is None or found[1] == 1:
        return
    narrow = found[0]
    whole = "src0" if narrow == "src1" else "src1"
    plain: dict[str, object] = {"form": "E2"} | ({"tmp": None} if "tmp" in call.operands else {})
    yield Evidence(
        f"{call.role_text(narrow)} is a block per row (mode 2), which the form with scratch does not take on a2a3",
        got="mode 2 with scratch",
        allowed="mode 1 with scratch, or mode 2 without",
        cures=[Cure("leave the scratch tile out", plain), *_mode_cures(call, narrow, whole)[:1]],
        role=narrow,
    )


@rule("PTO-EXTENT-16BIT", "PTO headers: CPU simulator, sums and products (measured)")
def sixteen_bits(call: Call) -> Iterator[Evidence]:
    """Sums and products of the CPU simulator keep extents in 16 bits; larger ones are cut silently."""
    if not call.support.sixteen_bit_extents:
        return
    for axis, value in (("rows", call.source.rows), ("cols", call.source.cols)):
        if value is None or value <= EXTENT_LIMIT:
            continue
        rows, cols = (min(v, EXTENT_LIMIT) for v in domain(call))
        yield Evidence(
            f"{call.op.name} on cpu would use {value % (EXTENT_LIMIT + 1)} of {value} {axis}",
            got=f"{value} {axis}",
            allowed=f"up to {EXTENT_LIMIT}",
            cures=[Cure(f"split the call into pieces of at most {EXTENT_LIMIT} {axis}", fitted(call, rows, cols))],
            role="src",
            field=f"valid_{axis}",
        )


@rule("PTO-INDEX-EXACT", "PTO headers: A2/A3 TColArg, row numbers in the source type")
def exact_indices(call: Call) -> Iterator[Evidence]:
    """A2/A3 column arg counts rows in the source type, so that half sources are exact up to 2,048 rows."""
    if call.op.family.value != "column_arg" or call.target.name != "a2a3" or call.source.type.dtype != "f16":
        return
    rows = call.source.rows or 0
    if rows <= INDEX_EXACT_HALF:
        return
    index = {"dstIdx.dtype": "i32"}
    yield Evidence(
        f"row numbers above {INDEX_EXACT_HALF} are not exact in f16, and the source has {rows} rows",
        got=f"{rows} rows of f16",
        allowed=f"up to {INDEX_EXACT_HALF} rows of f16",
        cures=[
            Cure(
                f"split the call into pieces of {INDEX_EXACT_HALF} rows",
                fitted(call, INDEX_EXACT_HALF, call.source.cols or 1),
            ),
            Cure("convert the source to f32", typed(call, "f32", "f32") | index),
        ],
        role="src",
        field="valid_rows",
    )


@rule("PTO-ROWS-255", "PTO headers: A2/A3 TCOLEXPAND with an operator, repeat count")
def repeat_limit(call: Call) -> Iterator[Evidence]:
    """A2/A3 column expansions with an operator handle at most 255 rows of a full static tile and drop the rest."""
    if not call.op.binary or call.op.axis != "column" or call.target.name != "a2a3" or call.result.dynamic:
        return
    rows, cols = domain(call)
    if rows <= REPEAT_LIMIT or cols != call.result.type.cols:
        return
    yield Evidence(
        f"{call.op.name} on a2a3 would handle {rows % (REPEAT_LIMIT + 1)} of {rows} rows of a full static tile",
        got=f"{rows} rows",
        allowed=f"up to {REPEAT_LIMIT} rows, or dynamic extents",
        cures=[
            Cure("make the valid extents of dst dynamic", {"dst.dynamic": True}),
            Cure(f"split the call into pieces of {REPEAT_LIMIT} rows", fitted(call, REPEAT_LIMIT, cols)),
        ],
        role="dst",
        field="valid_rows",
    )
