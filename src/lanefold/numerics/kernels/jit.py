"""How the loops are compiled: strict IEEE order, no interpreter lock, machine code kept between processes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
from numba.core import event

F = TypeVar("F", bound=Callable[..., Any])


def compiled(function: F) -> F:
    """Compile a function on its first call; floats are never reassociated and a division by zero is an infinity."""
    # Numba notices changes of the file a function stands in, not of the files it calls into: whoever edits these loops
    # clears the cache (find src -name "*.nb?" -delete).
    return cast(F, numba.njit(cache=True, nogil=True, error_model="numpy")(function))


class _First(event.Listener):
    """Tells of the first compilation, and of no other."""

    def __init__(self, tell: Callable[[], None]) -> None:
        self._tell: Callable[[], None] | None = tell

    def on_start(self, event: object) -> None:
        """Numba begins to compile a function."""
        del event
        tell, self._tell = self._tell, None
        if tell is not None:
            tell()

    def on_end(self, event: object) -> None:
        """Numba has compiled a function."""
        del event


def on_first_compilation(tell: Callable[[], None]) -> None:
    """Calls ``tell`` as soon as a loop has to be compiled because no machine code of it is kept on disk."""
    event.register("numba:compile", _First(tell))  # type: ignore[no-untyped-call]
