"""Executing PTO operations on tiles, bit for bit as the CPU simulator does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from lanefold import arguments
from lanefold.diagnostics import Diagnostic, LanefoldError, Rule, errors
from lanefold.pto.calls import Call, make_call
from lanefold.pto.isa import OPERATIONS, TARGETS, Family
from lanefold.pto.names import alias_note
from lanefold.pto.rules import check_call
from lanefold.pto.simulate.blocks import Block, block_of
from lanefold.pto.simulate.expand import binary_runner, copy_runner
from lanefold.pto.simulate.readings import READINGS, reading, reading_runner
from lanefold.pto.simulate.reduce import arg_runner, extreme_runner, fold_runner
from lanefold.pto.tiles import Tile

__all__ = ["Execution", "Plan", "execute", "plan"]

Runner = Callable[[dict[str, Block]], None]

_PLAN_LIMIT = 4096

CONVERSION = Rule(
    "PTO-CONVERSION",
    "A call is executed where every source value is a value of the result type; other conversions are not documented.",
    "PTO headers: CPU simulator, compiled calls",
)


@dataclass(frozen=True, slots=True)
class Execution:
    """What was executed: operation, form, target, the numeric reading, and whether that reading is bit-exact.

    ``findings`` are the warnings and infos of the rules; ``outputs`` the tiles that were written; ``counters`` what was
    passed over silently, where that was asked for.
    """

    op: str
    form: str
    target: str
    numerics: str
    exact: bool
    outputs: tuple[Tile, ...]
    findings: tuple[Diagnostic, ...]
    counters: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Plan:
    """A checked call on tiles of known types, ready to run on any tiles of these types."""

    call: Call
    run: Runner
    numerics: str
    exact: bool
    findings: tuple[Diagnostic, ...]

    def counted(self, blocks: dict[str, Block]) -> dict[str, int]:
        """Run, and say what was passed over; see `COUNTERS`."""
        from lanefold.pto.simulate import counting

        kept = counting.sources_kept(blocks)
        self.run(blocks)
        return counting.count(self.call, kept)


def _cpu_runner(call: Call) -> Runner:
    if call.op.arg:
        return arg_runner(call)
    if call.op.reduces:
        return extreme_runner(call) if call.op.operator in ("max", "min") else fold_runner(call)
    return copy_runner(call) if call.op.family in (Family.ROW_EXPAND, Family.COLUMN_EXPAND) else binary_runner(call)


def _refuse_conversions(findings: list[Diagnostic]) -> None:
    for found in findings:
        if found.code == "PTO-MIXED-TYPES":
            raise CONVERSION.error(
                found.message, got=found.got, allowed=found.allowed, cures=found.cures, place=found.place
            )


def plan(call: Call, numerics: str = "cpu") -> Plan:
    """Check a call and choose its loops.

    Raises:
        LanefoldError: with every error that the rules find, or PTO-NUMERICS-NAME.
    """
    row = reading(numerics)
    findings = check_call(call)
    wrong = errors(findings)
    if wrong:
        raise LanefoldError(wrong)
    _refuse_conversions(findings)
    runner = reading_runner(call, row) or _cpu_runner(call)
    return Plan(call, runner, row.name, row.name == "cpu", tuple(findings))


def _check_words(op: object, target: object, numerics: object, form: object, is_binary: object) -> None:
    """Refuse words that are none before they are looked up."""
    arguments.text("execute", "op", op, list(OPERATIONS))
    arguments.text("execute", "target", target, list(TARGETS))
    arguments.text("execute", "numerics", numerics, list(READINGS))
    if form is not None:
        arguments.text(
            "execute", "form", form, sorted({each.name for row in OPERATIONS.values() for each in row.forms})
        )
    if is_binary is not None:
        arguments.flag("execute", "is_binary", is_binary)


_PLANS: dict[tuple[object, ...], Plan] = {}


def _known_plan(
    op: str, operands: tuple[object, ...], target: str, form: str | None, is_binary: bool | None, numerics: str
) -> Plan:
    if not (type(op) is type(target) is type(numerics) is str and form is None and is_binary is None):
        _check_words(op, target, numerics, form, is_binary)
    signatures = tuple(o.signature if isinstance(o, Tile) else repr(o) for o in operands)
    key = (op, target, form, is_binary, numerics, signatures)
    found = _PLANS.get(key)
    if found is None:
        found = plan(make_call(op, operands, target=target, form=form, is_binary=is_binary), numerics)
        found = replace(found, findings=(*found.findings, *alias_note(op)))
        if len(_PLANS) >= _PLAN_LIMIT:
            _PLANS.clear()
        _PLANS[key] = found
    return found


def execute(
    op: str,
    *operands: object,
    target: str = "cpu",
    numerics: str = "cpu",
    form: str | None = None,
    is_binary: bool | None = None,
    count: bool = False,
) -> Execution:
    """Check one operation for a target and execute it on tiles, given in the order of the C++ call.

    Only the valid result is written. The scratch tile at the end may be left out where the target does not read it.

    Args:
        op: name of the operation; short names of the overview page are read as well.
        operands: tiles, outputs first; TCOLSUM with scratch ends with ``isBinary``.
        target: ``cpu``, ``a2a3`` or ``a5``: whose rules hold.
        numerics: ``cpu`` is bit-exact to the CPU simulator; other readings are named orders of addition, unverified.
        form: name of the call form, where the tiles could be read in two ways.
        is_binary: the flag of TCOLSUM with scratch, instead of the last operand.
        count: say in ``counters`` what was passed over silently (NaN dropped, ties, overflows), at the price of time.

    Raises:
        LanefoldError: every error that the rules find before any data is read; PTO-DIVIDE-ZERO from the data.
    """
    known = _known_plan(op, operands, target, form, is_binary, numerics)
    roles = known.call.form.operands
    tiles = [o for o in operands if isinstance(o, Tile)]
    blocks = {role: block_of(tile) for role, tile in zip(roles, tiles, strict=False)}
    counters: Mapping[str, int] = {}
    if count:
        counters = known.counted(blocks)
    else:
        known.run(blocks)
    outputs = tuple(tiles[: known.call.form.outputs])
    call = known.call
    return Execution(
        call.op.name, call.form.name, call.target.name, known.numerics, known.exact, outputs, known.findings, counters
    )
