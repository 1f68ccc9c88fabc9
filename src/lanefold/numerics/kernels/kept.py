"""Machine code kept on disk: never that of older sources, and written by one process at a time."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from numba.core.caching import FunctionCache

from lanefold.numerics import alu


@cache
def _digest(folder: Path) -> str:
    """SHA-256 of the sources that go into the loops of a folder: its own, those of this one, and the operators."""
    sources = sorted({*folder.glob("*.py"), *Path(__file__).parent.glob("*.py"), Path(alu.__file__)})
    return hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Keeps other processes waiting that want the same; on Windows, which has no such locks, it does not."""
    if os.name != "posix":
        yield
        return
    import fcntl

    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


class Kept(FunctionCache):  # type: ignore[misc, no-any-unimported, unused-ignore]
    """The machine code of a function, by its types, the processor and the sources of all loops.

    An entry is two files, a row of the index and the code. Without a lock two processes that add entries at the same
    time may give both the same number, and one then runs the code of the other.

    Raises:
        RuntimeError: if there is no folder that machine code can be written to.
    """

    def __init__(self, function: Any) -> None:
        super().__init__(function)  # type: ignore[no-untyped-call, unused-ignore]
        self._sources = _digest(Path(function.__code__.co_filename).parent)
        self._lock = Path(self._cache_path) / f"{self._impl.filename_base}.lock"

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        return (*super()._index_key(sig, codegen), self._sources)  # type: ignore[no-untyped-call, unused-ignore]

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The code for these types; None where there is none."""
        # Most processes find no folder the first time, and nothing in it.
        if not self._lock.parent.is_dir():
            return None
        with _alone(self._lock):
            return super().load_overload(sig, target_context)  # type: ignore[no-untyped-call, unused-ignore]

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep the code for these types; code that the disk does not take is compiled again the next time."""
        with suppress(OSError):
            self._impl.locator.ensure_cache_path()
            with _alone(self._lock):
                super().save_overload(sig, data)  # type: ignore[no-untyped-call, unused-ignore]
