"""Values that no argument is documented to take."""

from __future__ import annotations

from typing import Any

import numpy as np


class Hostile:
    """Whatever is asked of it fails."""

    def __repr__(self) -> str:
        raise RuntimeError("no words")

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError("no array")

    def __bool__(self) -> bool:
        raise RuntimeError("no truth")

    def __eq__(self, _: object) -> bool:
        raise RuntimeError("no equality")

    __hash__ = None  # type: ignore[assignment]


HOSTILE: tuple[Any, ...] = (
    *(None, True, -1, 0, 10**400, 1e300, float("nan"), "", "x", "\x00", b"x", (), [], [[1], [2, 3]], {}, object()),
    *(int, 3 + 4j, slice(3), np.array([]), np.array(["a", "b"]), np.zeros((2, 2)), np.float64(3), np.bool_(True)),
    *("TROWSUM" * 1000, Hostile()),
)
"""One of every kind of thing that finds its way into a call."""
