"""The published constants of the A2/A3 cost models."""

from __future__ import annotations

from dataclasses import dataclass

CLOCK_MHZ = 1850.0
"""Main clock of A2/A3 (PTO headers: cost model, clock)."""


@dataclass(frozen=True, slots=True)
class Pipe:
    """Cycles of a vector instruction: to fill the pipe, per repeat, to drain it; ``floor`` where a minimum holds."""

    head: int
    slope: int
    tail: int
    floor: bool = False


MASKED_FLOOR = 16
"""Cycles added once to a binary instruction under a partial mask (PTO headers: instruction stream model)."""
UNCALIBRATED = Pipe(6, 2, 0)
"""What an instruction costs that nobody measured."""

STREAM: dict[str, Pipe] = {
    **{name: Pipe(10, 2, 14, True) for name in ("vadd", "vsub", "vmax", "vmin")},
    "vmul": Pipe(10, 2, 15, True),
    "vdiv": Pipe(11, 4, 19, True),
    "vand": Pipe(8, 2, 12, True),
    "vor": Pipe(8, 2, 12, True),
    "vnot": Pipe(8, 2, 12),
    "vabs": Pipe(13, 1, 16),
    "vrelu": Pipe(10, 1, 13),
    "vlrelu": Pipe(11, 1, 15),
    "vgather": Pipe(24, 2, 0),
    "vcadd": Pipe(14, 7, 32),
    "vcmax": UNCALIBRATED,
    "vcmin": UNCALIBRATED,
    "vcgadd": Pipe(14, 1, 24),
    "vcgmax": Pipe(14, 1, 17),
    "vcgmin": Pipe(14, 1, 17),
    "vreducev2": Pipe(14, 14, 20),
    "vadds": Pipe(13, 1, 18),
    "vmuls": Pipe(11, 1, 15),
    "vmins": Pipe(14, 1, 16),
    "vmaxs": Pipe(10, 1, 13),
    "vbitsort": Pipe(20, 16, 0),
    "vector_dup": Pipe(11, 1, 13),
    "vcopy": Pipe(11, 1, 13),
    "vbrcb": Pipe(0, 0, 18),
    "vsel": Pipe(13, 2, 14),
    "vconv": Pipe(14, 1, 13),
    "vexp": Pipe(13, 2, 18),
    "vln": Pipe(13, 2, 20),
    "vsqrt": Pipe(14, 2, 25),
    "vrsqrt": Pipe(10, 1, 14),
    "vmrgsort4": Pipe(20, 78, 0),
    "vcmpv_ge": Pipe(14, 2, 22),
    "vcmpv_ne": Pipe(14, 2, 22),
}
"""Vector instructions of the stream model (PTO headers: instruction stream model, revision of July 2026)."""

BANDWIDTH_GIB: dict[str, float] = {
    "copy_gm_to_ubuf": 100.9,
    "copy_ubuf_to_gm": 188.46,
    "copy_ubuf_to_ubuf": 1024.0,
}
"""GiB per second of the copies of the stream model (PTO headers: bandwidth table)."""


@dataclass(frozen=True, slots=True)
class Parameters:
    """Cycles of an instruction in the reference model; completion is stored there but never added."""

    startup: int
    completion: int
    per_repeat: int
    interval: int


STARTUP_REDUCE, STARTUP_BINARY = 13, 14
COMPLETION_INT = 17
INTERVAL, INTERVAL_COPY, COMPLETION_COPY = 18, 13, 14


def _by_type(
    startup: int, completions: dict[str, int], repeats: dict[str, int], name: str
) -> dict[tuple[str, str], Parameters]:
    return {(name, dtype): Parameters(startup, completions[dtype], repeats[dtype], INTERVAL) for dtype in completions}


def _same(value: int) -> dict[str, int]:
    return dict.fromkeys(("f32", "f16", "i32", "i16"), value)


def _reference() -> dict[tuple[str, str], Parameters]:
    table: dict[tuple[str, str], Parameters] = {}
    additive = {"f32": 19, "f16": 19, "i32": COMPLETION_INT, "i16": COMPLETION_INT}
    product = {"f32": 20, "f16": 20, "i32": 18, "i16": 18}
    across = {"f32": 19, "f16": 21, "i32": 19, "i16": 17}
    for name, completions in (
        ("vadd", additive),
        ("vsub", additive),
        ("vmul", product),
        ("vmax", _same(COMPLETION_INT)),
        ("vmin", _same(COMPLETION_INT)),
    ):
        table |= _by_type(STARTUP_BINARY, completions, _same(2), name)
    for name in ("vcadd", "vcmax", "vcmin", "vcgadd", "vcgmax", "vcgmin"):
        table |= _by_type(STARTUP_REDUCE, across, {**_same(2), "i16": 1}, name)
    table |= _by_type(STARTUP_BINARY, _same(COMPLETION_COPY), _same(1), "vector_dup")
    for dtype in additive:
        table["copy_ubuf_to_ubuf", dtype] = Parameters(STARTUP_REDUCE, COMPLETION_COPY, 1, INTERVAL_COPY)
        table["mask", dtype] = Parameters(0, 0, 0, 0)
    return table


REFERENCE: dict[tuple[str, str], Parameters] = _reference()
"""Parameters by instruction and element type (PTO headers: parametric model, April 2026); ``vbrcb`` has none."""

REFERENCE_BYTES_PER_CYCLE = 128
"""Global memory to and inside the unified buffer, in the reference model."""
REFERENCE_DUP_REPEATS = 8
"""Repeats that the reference model books for the ``vector_dup`` of one expanded row."""
