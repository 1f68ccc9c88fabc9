"""Arguments of public calls: each is taken as what its documentation names, or refused; none is misread."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from lanefold.diagnostics import LanefoldError, Place, Rule

Array = np.ndarray[Any, np.dtype[Any]]

ARGUMENT = Rule(
    "CALL-ARGUMENT",
    "An argument is of the type that the call's documentation names; nothing is rounded, cut or read as a truth value.",
    "Public calls: arguments",
    usage=True,
)
GREATEST = (1 << 31) - 1
"""Largest magnitude of an extent, a step or an index."""
_SHOWN = 60
_NUMBERS = "biufcV"
"""NumPy kinds of numbers; the narrow floats of ml_dtypes have the kind V."""


def shown(value: object) -> str:
    """A value in a few words: its text where that is short, else its type and what is known of its size."""
    if isinstance(value, np.ndarray):
        kind = "a masked array" if isinstance(value, np.ma.MaskedArray) else "an array"
        return f"{kind} of {value.dtype} {list(value.shape)}"
    if isinstance(value, bool | int | float | str | bytes | type(None) | tuple | list | np.generic):
        try:
            text = repr(value.item() if isinstance(value, np.generic) and value.dtype.kind in "biuf" else value)
        except ValueError:  # Python refuses to write whole numbers of thousands of digits
            return f"a number of {value.bit_length()} bits" if isinstance(value, int) else f"a {type(value).__name__}"
        return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… ({type(value).__name__})"
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiouAEIO' else 'a'} {name}"


def refused(call: str, name: str, value: object, allowed: str, cure: str) -> LanefoldError:
    """The exception for an argument that cannot be taken; ``call`` is the name of the public call."""
    got = shown(value)
    return ARGUMENT.error(
        f"{call} cannot take {got} as {name}",
        got=got,
        allowed=allowed,
        cures=[cure],
        place=Place(instruction=call, field=name),
    )


def text(call: str, name: str, value: object, known: Sequence[str]) -> str:
    """A text; ``known`` are the texts that the call may know, for the message alone.

    Raises:
        LanefoldError: CALL-ARGUMENT for anything else.
    """
    if isinstance(value, str):
        return value
    raise refused(call, name, value, ", ".join(known), f"give {name}={known[0]!r}")


def flag(call: str, name: str, value: object) -> bool:
    """A truth value: True or False, or NumPy's; numbers and texts are not read as one.

    Raises:
        LanefoldError: CALL-ARGUMENT for anything else.
    """
    if isinstance(value, bool | np.bool_):
        return bool(value)
    raise refused(call, name, value, "True or False", f"give {name}=False or {name}=True")


def as_integer(value: object) -> int | None:
    """A Python or NumPy integer, or an array of one integer without axes; None for anything else, truth values too."""
    if isinstance(value, bool | np.bool_):
        return None
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, np.ndarray) and value.ndim == 0 and value.dtype.kind in "iu":
        return int(value)
    return None


def integer(call: str, name: str, value: object, *, low: int = -GREATEST, high: int = GREATEST, hint: str = "") -> int:
    """An integer from ``low`` to ``high``.

    Raises:
        LanefoldError: CALL-ARGUMENT for anything else.
    """
    found = as_integer(value)
    if found is not None and low <= found <= high:
        return found
    example = hint or str(min(max(found if found is not None else 1, low), high))
    raise refused(call, name, value, f"an integer from {low} to {high}", f"give {name}={example}")


def number(call: str, name: str, value: object, *, low: float) -> float:
    """A finite real number of at least ``low``.

    Raises:
        LanefoldError: CALL-ARGUMENT for anything else, truth values too.
    """
    found = math.nan
    if isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool):
        with suppress(OverflowError):
            found = float(value)
    if math.isfinite(found) and found >= low:
        return found
    raise refused(call, name, value, f"a finite number of at least {low:g}", f"give {name}={max(low, 0.0):g}")


def integers(
    call: str,
    name: str,
    value: object,
    *,
    low: int = -GREATEST,
    high: int = GREATEST,
    count: int | None = None,
    hint: str = "",
) -> tuple[int, ...]:
    """Integers from ``low`` to ``high``, given as a sequence or an integer array of one axis.

    Raises:
        LanefoldError: CALL-ARGUMENT for anything else, or another number of them than ``count``.
    """
    found: list[int] = []
    listed = isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray)
    fits = listed or (isinstance(value, np.ndarray) and value.ndim == 1) or isinstance(value, range)
    for each in value if fits else ():  # type: ignore[attr-defined]
        one = as_integer(each)
        fits = fits and one is not None and low <= one <= high
        found.append(0 if one is None else one)
    if fits and count in (None, len(found)):
        return tuple(found)
    how_many = "integers" if count is None else f"{count} integers"
    one = as_integer(value)
    if one is not None and low <= one <= high and count:
        hint = str((one,) * count)
    healed = tuple(min(max(each, low), high) for each in found) if count in (None, len(found)) and found else ()
    example = hint or str(healed or (max(low, 1),) * (count or 1))
    raise refused(call, name, value, f"{how_many} from {low} to {high}", f"give {name}={example}")


def path(call: str, name: str, value: object, example: str) -> Path:
    """A path, given as a text or a path object.

    Raises:
        LanefoldError: CALL-ARGUMENT for anything else, an empty text, or one with a zero byte.
    """
    found = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if isinstance(found, str) and found and "\0" not in found:
        return Path(found)
    raise refused(call, name, value, "a path, as a text or a pathlib.Path", f"give {name}={example!r}")


def mapping(call: str, name: str, value: object, holds: str, example: str) -> Mapping[str, Any]:
    """A mapping from texts.

    Raises:
        LanefoldError: CALL-ARGUMENT for anything else.
    """
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return value
    raise refused(call, name, value, holds, f"give {name}={example}")


def function(call: str, name: str, value: object, allowed: str) -> None:
    """Refuses what is neither a function nor None.

    Raises:
        LanefoldError: CALL-ARGUMENT for anything else.
    """
    if value is not None and not callable(value):
        raise refused(call, name, value, allowed, f"leave {name} out")


def array(call: str, name: str, value: object) -> Array:
    """An array of numbers in the byte order of this machine; array-likes are converted as NumPy does.

    Raises:
        LanefoldError: CALL-ARGUMENT for what NumPy cannot turn into an array of numbers, and for masked arrays, whose
            mask would be lost.
    """
    cure = f"give {name} as an array of numbers, for example numpy.asarray(values, numpy.float32)"
    if isinstance(value, np.ma.MaskedArray):
        raise refused(call, name, value, "an array without a mask", f"give {name}.filled(value) with a value you mean")
    try:
        found = np.asarray(value)
    except (ValueError, TypeError, OverflowError, RuntimeError, AttributeError):
        raise refused(call, name, value, "an array of numbers, all rows of one length", cure) from None
    if found.dtype.kind not in _NUMBERS or (found.dtype.kind == "V" and found.dtype.type is np.void):
        raise refused(call, name, found if found.ndim else value, "an array of numbers", cure)
    return found if found.dtype.isnative else found.astype(found.dtype.newbyteorder("="))
