"""What the loops have in common on the side of Python: codecs, formats, work in parts."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lanefold.numerics.casts import FORMATS, require_number, widen
from lanefold.numerics.dtypes import by_name
from lanefold.numerics.kernels import walk
from lanefold.numerics.threads import threads, workers

Floats = NDArray[np.float32]

CODECS: dict[str, int] = {
    "float32": walk.F32,
    "float32r": walk.F32,
    "bfloat16": walk.BF16,
    "float16": walk.F16,
    "float8e3": walk.TABLE,
    "float8e4": walk.TABLE,
    "float8_e4m3fn": walk.TABLE,
    "float8e5": walk.TABLE,
    "uint8": walk.U8,
    "int8": walk.I8,
    "uint16": walk.U16,
    "int16": walk.I16,
    "uint32": walk.U32,
    "int32": walk.I32,
    "uint64": walk.U64,
    "int64": walk.I64,
}
"""How the loops read and write each element type."""

PARALLEL_FROM = (1 << 20) + 1
"""Steps from which threads are worth waking."""
_NO_TABLE = np.empty(0, np.float32)


@cache
def reading(name: str) -> tuple[int, Floats]:
    """Codec of an element type, and the values of its codes where a table is the way to read them.

    Raises:
        LanefoldError: TPB-CAST-TYPE for packed and scale types.
    """
    dtype = by_name(name)
    require_number(dtype)
    codec = CODECS[name]
    return codec, widen(np.arange(256, dtype=np.uint8), dtype) if codec == walk.TABLE else _NO_TABLE


@cache
def writing(name: str) -> tuple[int, NDArray[np.int64]]:
    """Codec of an element type, and the numbers of its float format for the casting loops.

    Raises:
        LanefoldError: TPB-CAST-TYPE for packed and scale types.
    """
    dtype = by_name(name)
    require_number(dtype)
    form = FORMATS.get(name)
    numbers = [0] * 8
    if form is not None:
        sign = 8 * dtype.bytes - 1 - form.shift
        numbers = [form.mantissa, form.lowest, form.largest, form.overflow, form.nan, form.saturates, form.shift, sign]
    return CODECS[name], np.array(numbers, np.int64)


def share(count: int, work: int, run: Callable[[int, int], Any], parallel: bool) -> None:
    """Calls ``run`` with parts of 0 to ``count``, in threads where there is work for them."""
    # What is shared out is independent of each other, so that sharing changes no result.
    most = threads() if parallel and work >= PARALLEL_FROM else 1
    parts = min(most, max(1, count // 8))
    if parts == 1:
        run(0, count)
        return
    size = -(-count // parts // 16) * 16
    jobs = [workers(most).submit(run, low, min(low + size, count)) for low in range(size, count, size)]
    run(0, min(size, count))
    for job in jobs:
        job.result()
