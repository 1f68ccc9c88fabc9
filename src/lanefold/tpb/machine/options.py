"""What can be chosen about a machine, with the documents' choice first."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Literal

from lanefold.arguments import shown
from lanefold.diagnostics import Cure, Rule

NUMERICS: tuple[str, ...] = ("birsim", "device")
"""Numeric readings: the compiler's simulator, and the device as its public documents and headers describe it."""

_OPTION = Rule(
    "TPB-MACHINE-OPTION",
    "Options of the machine have the values that the reference page lists.",
    "Readings",
    usage=True,
)


@dataclass(frozen=True, slots=True)
class Options:
    """Choices where the documents leave one; each changes some result.

    `MEANINGS` says what each is for.
    """

    numerics: Literal["birsim", "device"] = "birsim"
    pool_sum: Literal["serial", "lanes4"] = "serial"
    cross_lane_average: Literal["word", "product"] = "word"
    average_step: Literal["multiply", "divide"] = "multiply"
    accumulate: bool = False
    fp8_overflow: Literal["saturate", "infinity"] = "saturate"
    fp8_exp4: Literal["float8e4", "float8_e4m3fn"] = "float8e4"
    fp32r: Literal["round", "copy"] = "round"
    match_order: Literal["register", "value"] = "register"
    nan_store: Literal["allow", "error"] = "allow"
    track_uninitialised: bool = False
    legality: Literal["strict", "bounds"] = "strict"
    count: bool = False

    @property
    def device(self) -> bool:
        """Whether the numeric reading is that of the device."""
        return self.numerics == "device"


CHOICES: dict[str, tuple[object, ...]] = {
    "numerics": NUMERICS,
    "pool_sum": ("serial", "lanes4"),
    "cross_lane_average": ("word", "product"),
    "average_step": ("multiply", "divide"),
    "accumulate": (False, True),
    "fp8_overflow": ("saturate", "infinity"),
    "fp8_exp4": ("float8e4", "float8_e4m3fn"),
    "fp32r": ("round", "copy"),
    "match_order": ("register", "value"),
    "nan_store": ("allow", "error"),
    "track_uninitialised": (False, True),
    "legality": ("strict", "bounds"),
    "count": (False, True),
}
"""The values of every option, the default first."""

MEANINGS: dict[str, str] = {
    "numerics": "`birsim` starts pooled maxima at the least finite value, averages in float64, clamps int32 and lets "
    "an early NaN keep its slot in Max8; `device` starts at -Inf, averages with the scale word, wraps int32 and drops "
    "NaN",
    "pool_sum": "order of additions in a pooled sum: one after another, or four running sums",
    "cross_lane_average": "factor of an average across partitions: the scale word of the bundle, or 1 over the product "
    "of partitions and elements per partition, whatever the axis and the word",
    "average_step": "what `Machine.tensor_average` adds for each element after the first: x times 1/N, or x divided by "
    "N, both in float32",
    "accumulate": "whether a TensorReduce adds what stood in its destination before, after its fold",
    "fp8_overflow": "what an 8-bit float too large is written as: the greatest finite value, or infinity (NaN where "
    "there is none)",
    "fp8_exp4": "type of dtype tag 14: greatest value 240 or 448",
    "fp32r": "whether float32r writes round to 11 fraction bits or copy float32",
    "match_order": "whether MatchReplace8 serves equal keys by register (key 7 first) or by value (key 0 first)",
    "nan_store": "whether a NaN that reaches memory is left alone, or an error as the simulator has it",
    "track_uninitialised": "whether reads of bytes that nothing has written are errors",
    "legality": "whether streams must pass every legality rule, or only be executable",
    "count": "whether the machine fills its counters, at the price of time",
}
"""What every option is for."""


def options(**chosen: object) -> Options:
    """Options from keywords.

    Raises:
        LanefoldError: TPB-MACHINE-OPTION for unknown names and values.
    """
    for name, value in chosen.items():
        if name not in CHOICES:
            raise _OPTION.error(
                f"the machine has no option {name}",
                got=name,
                allowed=", ".join(field.name for field in fields(Options)),
                cures=["leave the option out"],
            )
        allowed = CHOICES[name]
        if not any(type(value) is type(choice) and value == choice for choice in allowed):
            raise _OPTION.error(
                f"{name} cannot be {shown(value)}",
                got=shown(value),
                allowed=", ".join(repr(each) for each in allowed),
                cures=[Cure(f"{name}={allowed[0]!r}", {name: allowed[0]})],
            )
    return Options(**chosen)  # type: ignore[arg-type]


_WORDS: dict[str, object] = {"true": True, "false": False}


def from_texts(texts: Iterable[str]) -> dict[str, object]:
    """Options from texts ``NAME=VALUE``; true and false stand for themselves.

    Raises:
        LanefoldError: TPB-MACHINE-OPTION for a text of any other form.
    """
    chosen: dict[str, object] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            example = "pool_sum=lanes4" if name not in CHOICES else f"{name}={_spelt(CHOICES[name][0])}"
            raise _OPTION.error(
                f"{text!r} gives an option no value",
                got=repr(text),
                allowed="NAME=VALUE, with one of: " + ", ".join(CHOICES),
                cures=[f"write {example}"],
            )
        chosen[name] = _WORDS.get(value, value)
    return chosen


def _spelt(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
