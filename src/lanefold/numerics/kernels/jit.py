"""How the loops are compiled: strict IEEE order, no interpreter lock, machine code kept between processes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., Any])


def compiled(function: F) -> F:
    """Compile a function on its first call; floats are never reassociated and a division by zero is an infinity."""
    # Numba notices changes of the file a function stands in, not of the files it calls into: whoever edits these loops
    # clears the cache (find src -name "*.nb?" -delete).
    return cast(F, numba.njit(cache=True, nogil=True, error_model="numpy")(function))
