"""One call of a PTO operation: which form it is, and which tile plays which part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from lanefold.diagnostics import Cure, Place, Rule
from lanefold.pto import names
from lanefold.pto.isa import Form, Operation, Support, Target
from lanefold.pto.tiles import Tile, TileType

OPERANDS = Rule(
    "PTO-OPERANDS",
    "A call names its output tiles first, then its sources, then its scratch tile, as one of the operation's forms.",
    "PTO headers: common instruction declarations",
    usage=True,
)
BINARY_FLAG = Rule(
    "PTO-BINARY-FLAG",
    "TCOLSUM with a scratch tile says whether rows are added in pairs; no other call has that flag.",
    "PTO headers: TCOLSUM",
    usage=True,
)
FORM_NAME = Rule(
    "PTO-FORM-NAME",
    "A form is one of those that the operation has.",
    "PTO headers: common instruction declarations",
    usage=True,
)


@dataclass(frozen=True, slots=True)
class Operand:
    """A tile as the rules see it: its type with the extents that hold in the call (None where not known yet)."""

    type: TileType
    dynamic: bool = False
    address: int | None = None
    name: str = ""

    @property
    def rows(self) -> int | None:
        """Valid rows."""
        return self.type.valid_rows

    @property
    def cols(self) -> int | None:
        """Valid columns."""
        return self.type.valid_cols


@dataclass(frozen=True, slots=True)
class Call:
    """An operation on operands, for one target."""

    op: Operation
    form: Form
    operands: Mapping[str, Operand]
    target: Target
    is_binary: bool | None = None
    place: Place = field(default_factory=Place)

    @property
    def support(self) -> Support:
        """What the target accepts for the operation."""
        return self.op.support[self.target.name]

    @property
    def with_value(self) -> bool:
        """Whether an arg operation writes values beside indices."""
        return "dstVal" in self.form.operands

    @property
    def source(self) -> Operand:
        """The source of a reduction or of a plain expansion."""
        return self.operands["src"]

    @property
    def result(self) -> Operand:
        """The first output."""
        return self.operands[self.form.operands[0]]

    def role_text(self, role: str) -> str:
        """The role with its place in the call, for messages."""
        return f"operand {self.form.operands.index(role) + 1} ({role})"

    def changed(self, changes: Mapping[str, object]) -> Call:
        """The call after the changes of a cure: keys are ``role.field``, ``role`` (None removes it), or ``target``.

        Raises:
            LanefoldError: PTO-TILE-* where a changed tile cannot exist.
        """
        operands = dict(self.operands)
        fields: dict[str, dict[str, object]] = {}
        target, form, op, flag = self.target, self.form, self.op, self.is_binary
        for key, value in changes.items():
            role, _, field = key.partition(".")
            if key == "target":
                target = names.target(value)
            elif key == "form":
                form = next(row for row in op.forms if row.name == value)
            elif key == "op":
                op = names.operation(value)
            elif key == "is_binary":
                flag = bool(value)
            elif field:
                fields.setdefault(role, {})[field] = value
            elif isinstance(value, TileType):
                operands[role] = Operand(value)
            else:
                del operands[role]
        for role, changed in fields.items():
            operands[role] = _changed_operand(operands[role], changed)
        return replace(self, op=op, form=form, operands=MappingProxyType(operands), target=target, is_binary=flag)


def _changed_operand(operand: Operand, changes: Mapping[str, object]) -> Operand:
    outer = {name: value for name, value in changes.items() if name in ("address", "dynamic")}
    inner = {name: value for name, value in changes.items() if name not in outer}
    return replace(operand, type=replace(operand.type, **inner), **outer)  # type: ignore[arg-type]


def operand_of(tile: Tile) -> Operand:
    """A data tile as an operand."""
    return Operand(tile.type, tile.dynamic, tile.address)


def _form_text(op: Operation, form: Form) -> str:
    tail = ", isBinary" if form.name == "C2" else ""
    return f"{op.name}({', '.join(form.operands)}{tail})"


def _all_forms(op: Operation) -> str:
    return " or ".join(_form_text(op, form) for form in op.forms)


def _named_form(op: Operation, name: str) -> Form:
    for form in op.forms:
        if form.name == name.upper():
            return form
    raise FORM_NAME.error(
        f"{op.name} has no form {name!r}",
        got=repr(name),
        allowed=", ".join(form.name for form in op.forms),
        cures=[Cure(f"use form {form.name}: {_form_text(op, form)}", {"form": form.name}) for form in op.forms],
        place=Place(instruction=op.name),
    )


def _sizes(shape: TileType) -> tuple[int, int]:
    return shape.rows, shape.cols


def _outputs_first(op: Operation, kinds: Sequence[TileType]) -> bool:
    """Whether value, index and source is the likelier reading of three tiles whose types allow both.

    As a source the second tile would be a single column (row) with a scratch tile behind it; extents and layouts that
    only one reading allows decide, then a scratch tile of the source's size, then two equal tiles before a larger one.
    """
    first, second, third = kinds
    reduced, kept = ("valid_cols", "valid_rows") if op.axis == "row" else ("valid_rows", "valid_cols")
    if getattr(second, reduced) != 1 or getattr(third, kept) != getattr(first, kept):
        return False
    if (second if op.axis == "row" else first).layout != "ND":
        return True
    if getattr(third, reduced) == 1:
        return _sizes(first) == _sizes(second) and second.bytes < third.bytes
    return _sizes(third) != _sizes(second) or _sizes(first) == _sizes(second)


def _is_value_form(op: Operation, kinds: Sequence[TileType]) -> bool:
    """Whether three tiles of an arg operation are value, index and source rather than index, source and scratch."""
    first, second, third = kinds
    outputs_alike = (first.valid_rows, first.valid_cols) == (second.valid_rows, second.valid_cols)
    value = second.element.kind != "float" and first.dtype == third.dtype and outputs_alike
    plain = first.element.kind != "float" and second.dtype == third.dtype
    return _outputs_first(op, kinds) if value and plain else value


def _arg_form(op: Operation, kinds: Sequence[TileType]) -> Form | None:
    plain, value = op.forms
    if len(kinds) == 3:
        return value if _is_value_form(op, kinds) else plain
    return {2: plain, 4: value}.get(len(kinds))


def _form(op: Operation, kinds: Sequence[TileType], flagged: bool) -> Form | None:
    if op.arg:
        return _arg_form(op, kinds)
    if flagged:
        return op.forms[-1] if len(kinds) in (2, 3) else None
    for form in op.forms:
        least = len(form.operands) - (1 if form.scratch and form.name not in ("C2", "E3") else 0)
        if least <= len(kinds) <= len(form.operands) and (form.name != "C2" or len(kinds) == 3):
            return form
    return None


def _split_flag(op: Operation, operands: Sequence[object], flag: bool | None) -> tuple[list[object], bool | None]:
    given = list(operands)
    if given and isinstance(given[-1], bool):
        if flag is not None and flag != given[-1]:
            raise BINARY_FLAG.error(
                "isBinary is given twice with different values",
                got=f"{given[-1]} and {flag}",
                allowed="True or False, once",
                cures=["leave out is_binary="],
                place=Place(instruction=op.name),
            )
        flag = bool(given.pop())
    if flag is not None and op.name != "TCOLSUM":
        raise BINARY_FLAG.error(
            f"{op.name} has no isBinary",
            got=f"isBinary = {flag}",
            allowed=_all_forms(op),
            cures=["leave the flag out"],
            place=Place(instruction=op.name),
        )
    return given, flag


def _tiles(op: Operation, operands: Sequence[object]) -> list[Operand]:
    found: list[Operand] = []
    for number, operand in enumerate(operands, 1):
        if isinstance(operand, Tile):
            found.append(operand_of(operand))
        elif isinstance(operand, Operand):
            found.append(operand)
        elif isinstance(operand, TileType):
            found.append(Operand(operand))
        else:
            raise OPERANDS.error(
                f"operand {number} of {op.name} is a {type(operand).__name__}, not a tile",
                got=type(operand).__name__,
                allowed=f"lanefold.pto.Tile; the call is {_all_forms(op)}",
                cures=[f"wrap the values of operand {number}: Tile(array)"],
                place=Place(instruction=op.name, operand=str(number)),
            )
    return found


def _wrong_count(op: Operation, count: int) -> Exception:
    return OPERANDS.error(
        f"{op.name} does not take {count} tile{'' if count == 1 else 's'}",
        got=f"{count} tiles",
        allowed=_all_forms(op),
        cures=[f"call {_form_text(op, form)}" for form in op.forms],
        place=Place(instruction=op.name),
    )


def _want_flag(op: Operation, form: Form, flag: bool | None) -> None:
    if (form.name == "C2") == (flag is not None):
        return
    cures = (
        Cure("end the call with isBinary = False: rows are added one by one", {"is_binary": False}),
        Cure("end the call with isBinary = True: rows are added in pairs", {"is_binary": True}),
    )
    raise BINARY_FLAG.error(
        "TCOLSUM with a scratch tile needs isBinary",
        got="no flag",
        allowed=_all_forms(op),
        cures=cures,
        place=Place(instruction=op.name),
    )


def make_call(
    op: str,
    operands: Sequence[object],
    *,
    target: str,
    form: str | None = None,
    is_binary: bool | None = None,
    place: Place | None = None,
) -> Call:
    """The call of an operation on tiles in the order of its C++ form; a scratch tile at the end may be left out.

    Raises:
        LanefoldError: PTO-OP-NAME, PTO-TARGET-NAME, PTO-OPERANDS, PTO-BINARY-FLAG, PTO-FORM-NAME.
    """
    row = names.operation(op)
    where = names.target(target)
    given, flag = _split_flag(row, operands, is_binary)
    tiles = _tiles(row, given)
    chosen = _named_form(row, form) if form is not None else _form(row, [tile.type for tile in tiles], flag is not None)
    if chosen is None:
        raise _wrong_count(row, len(tiles))
    roles = chosen.operands
    fewest = len(roles) - 1 if chosen.scratch else len(roles)
    if not fewest <= len(tiles) <= len(roles):
        raise _wrong_count(row, len(tiles))
    _want_flag(row, chosen, flag)
    parts = MappingProxyType(dict(zip(roles, tiles, strict=False)))
    return Call(row, chosen, parts, where, flag, place or Place(instruction=row.name))
