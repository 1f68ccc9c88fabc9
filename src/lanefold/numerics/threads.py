"""Threads that large work is spread over; what is spread is independent of each other, so they change no result."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import cache

from lanefold.diagnostics import Rule

VARIABLE = "LANEFOLD_THREADS"
MOST = 64

THREADS = Rule(
    "CALL-THREADS",
    f"The environment variable {VARIABLE}, where it is set, is a number of threads from 1 to {MOST}.",
    "Simulators: threads",
    usage=True,
)


def threads() -> int:
    """Threads that large work is spread over: as many as there are cores, or as the environment says.

    Raises:
        LanefoldError: CALL-THREADS where the environment says no such number.
    """
    given = os.environ.get(VARIABLE)
    if given is None:
        return _cores()
    if not given.isdecimal() or not 1 <= int(given) <= MOST:
        raise THREADS.error(
            f"{VARIABLE} is {given!r}",
            got=given,
            allowed=f"1 to {MOST}",
            cures=[f"set {VARIABLE}=1", f"leave {VARIABLE} unset"],
        )
    return int(given)


@cache
def workers(count: int) -> ThreadPoolExecutor:
    """Threads that wait for work, kept from call to call."""
    return ThreadPoolExecutor(count, thread_name_prefix="lanefold")


def _cores() -> int:
    return min(MOST, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
