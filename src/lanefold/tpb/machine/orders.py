"""The order of a fold written out: one expression whose every operation is one rounding of the machine."""

from __future__ import annotations

from lanefold.diagnostics import Cure, Rule
from lanefold.tpb.machine.options import Options

_FOLD = Rule(
    "TPB-MACHINE-ORDER",
    "An order is written out for a fold that the machine has, over at least one element.",
    "Orders of the machine",
    usage=True,
)
FOLDS: tuple[str, ...] = (
    "pool average",
    "pool max",
    "tensor_reduce add",
    "tensor_reduce average",
    "tensor_reduce max",
    "cross_lane add",
    "cross_lane average",
    "cross_lane max",
)
"""Folds whose order can be written out."""

_LIMIT = 4096


def expression(fold: str, count: int, options: Options | None = None) -> str:
    """The order in which a fold takes ``count`` elements, as one expression.

    Elements are x0, x1, …; ``+``, ``*``, ``/`` and ``max`` round to float32, but for what stands inside ``f64``. A
    scale word is ``scale``.

    Args:
        fold: one of `FOLDS`.
        count: elements of a result, 1 to 4096.
        options: options of the machine, those of a new one if left out.

    Raises:
        LanefoldError: TPB-MACHINE-ORDER for any other fold or count.
    """
    if fold not in FOLDS:
        raise _FOLD.error(
            f"{fold!r} is no fold of the machine",
            got=repr(fold),
            allowed=", ".join(FOLDS),
            cures=[Cure(f"write {FOLDS[0]!r}", {"fold": FOLDS[0]})],
        )
    if not 1 <= count <= _LIMIT:
        raise _FOLD.error(
            f"a fold over {count} elements is not written out",
            got=count,
            allowed=f"1 to {_LIMIT}",
            cures=[Cure("write out 8 elements", {"count": 8})],
        )
    chosen = options or Options()
    elements = [f"x{i}" for i in range(count)]
    instruction, operator = fold.split()
    if instruction == "pool":
        return _pooled(operator, elements, chosen)
    if operator == "average":
        return _serial("+", _averaged(instruction, elements, chosen))
    return _serial("max" if operator == "max" else "+", elements)


def _serial(sign: str, terms: list[str]) -> str:
    running = terms[0]
    for term in terms[1:]:
        running = f"max({running}, {term})" if sign == "max" else f"({running} {sign} {term})"
    return running


def _averaged(instruction: str, elements: list[str], chosen: Options) -> list[str]:
    count = len(elements)
    if instruction == "cross_lane":
        return [f"({x} * scale)" for x in elements]
    others = [f"({x} / {count})" if chosen.average_step == "divide" else f"({x} * f32(1 / {count}))" for x in elements]
    return [f"({elements[0]} / {count})", *others[1:]]


def _pooled(operator: str, elements: list[str], chosen: Options) -> str:
    if operator == "max":
        return _serial("max", ["-inf" if chosen.device else "lowest", *elements])
    total = _in_fours(elements) if chosen.pool_sum == "lanes4" else _serial("+", ["0", *elements])
    return f"({total} * scale)" if chosen.device else f"f32(f64({total}) * (1 / {len(elements)}))"


def _in_fours(elements: list[str]) -> str:
    whole = len(elements) // 4 * 4
    lanes = [_serial("+", ["0", *elements[lane:whole:4]]) for lane in range(4)]
    joined = f"(({lanes[0]} + {lanes[2]}) + ({lanes[1]} + {lanes[3]}))"
    return _serial("+", [joined, *elements[whole:]])
