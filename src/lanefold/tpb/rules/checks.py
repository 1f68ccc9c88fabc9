"""What a bundle rule is made of: a mask over a batch, and words for the bundles that fail it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from lanefold.diagnostics import Cure, Rule
from lanefold.tpb import isa
from lanefold.tpb.rules.batch import Batch, Mask


@dataclass(frozen=True, slots=True)
class Explained:
    """Why one bundle fails a rule: the sentence, the value got, the values allowed, the ways out.

    ``offset`` is the byte that is wrong, where that is more exact than the field's own offset.
    """

    message: str
    got: object
    allowed: str
    cures: tuple[Cure | str, ...]
    offset: int | None = None


@dataclass(frozen=True, slots=True)
class Check:
    """One rule as it applies to one field of one instruction.

    ``ok`` says for a whole batch which bundles keep the rule; ``explain`` is asked about the others one by one.
    """

    rule: Rule
    field: str
    ok: Callable[[Batch], Mask]
    explain: Callable[[Batch, int], Explained]


Checks = Iterator[Check]
Factory = Callable[[isa.BundleKind, isa.Generation], Checks]


def listed(numbers: tuple[int, ...], names: dict[int, str] | None = None) -> str:
    """Legal numbers as text, with their names where the table has them."""
    if names:
        return ", ".join(f"{number} {names[number]}" if number in names else str(number) for number in numbers)
    return ", ".join(str(number) for number in numbers)


def joined(words: tuple[str, ...], last: str = "or") -> str:
    """Words as an enumeration in a sentence."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}"
