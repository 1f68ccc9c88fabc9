"""How the loops are compiled: strict IEEE order, no interpreter lock, machine code kept between processes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar, cast

import numba
from llvmlite import binding as llvm
from numba.core import event
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler

from lanefold.numerics.kernels.kept import Kept

F = TypeVar("F", bound=Callable[..., Any])


def compiled(function: F) -> F:
    """Compile a function on its first call; floats are never reassociated and a division by zero is an infinity."""
    kept: Any = numba.njit(nogil=True, error_model="numpy")(function)
    # Where nothing can be written, every process compiles for itself; results are the same.
    with suppress(RuntimeError):
        kept._cache = Kept(function)
    return cast(F, kept)


_GLOBALS = "_ZN08NumbaEnv"


class _Part(JITCodeLibrary):  # type: ignore[misc, no-any-unimported, unused-ignore]
    """Code that is linked into the code of its callers, and optimised and turned into machine code only there."""

    def _optimize_final_module(self) -> None:
        """Leave it to the callers."""

    def _finalize_final_module(self) -> None:
        # All that has to exist by itself is the pointer to the globals of the function, which is set once it stands.
        names = [each.name for each in self._final_module.global_variables if each.name.startswith(_GLOBALS)]
        module = llvm.parse_assembly("\n".join(f'@"{name}" = common global i64 0' for name in names))
        self._codegen._add_module(module)  # type: ignore[no-untyped-call, unused-ignore]
        self._finalized = True


class _PartCompiler(Compiler):  # type: ignore[misc, no-any-unimported, unused-ignore]
    """The usual steps, up to code that is only linked."""

    def define_pipelines(self) -> Any:
        """The steps."""
        self.state.library = _Part(self.state.targetctx.codegen(), self.state.func_id.func_qualname)  # type: ignore[no-untyped-call, unused-ignore]
        return super().define_pipelines()  # type: ignore[no-untyped-call, unused-ignore]


_TRIED = ((0, 68),)
"""Versions of numba whose inner workings `_Part` has been tried with; with others, parts are compiled as usual."""
_LINKED_ONLY: dict[str, Any] = {
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
    "pipeline_class": _PartCompiler,
}
_AS_A_PART = _LINKED_ONLY if numba.version_info[:2] in _TRIED else {}


def inner(function: F) -> F:
    """Compile a function that only compiled functions call: as a part of each of them, not by itself.

    Otherwise a chain of calls is optimised and turned into machine code once more at every step up, which takes three
    times as long and gives the same results.
    """
    return cast(F, numba.njit(nogil=True, error_model="numpy", **_AS_A_PART)(function))


def contracted(function: F) -> F:
    """As `inner`, for a function in which a product and the sum it goes into may be rounded once."""
    return cast(F, numba.njit(nogil=True, error_model="numpy", fastmath={"contract"}, **_AS_A_PART)(function))


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
