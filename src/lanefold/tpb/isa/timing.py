"""Clocks and the constants of the published cycle formulas."""

from __future__ import annotations

from lanefold.numerics.dtypes import Generation

CLOCK_GHZ: dict[Generation, dict[str, float]] = {
    "v2": {"DVE": 1.12, "Pool": 1.4, "Activation": 1.4, "PE": 2.8},
    "v3": {"DVE": 0.96, "Pool": 1.2, "Activation": 1.2, "PE": 2.4},
    "v4": {"DVE": 1.2, "Pool": 1.2, "Activation": 1.2, "PE": 2.4},
}
"""Engine clocks (architecture guides of the three generations)."""

MINIMUM_INTERVAL = 64
"""MIN_II: least cycles between the starts of two instructions (NKI ISA reference of October 2025)."""
GPSIMD_START = 150
"""Start-up cycles that the GpSimd formulas contain (NKI ISA reference of October 2025)."""
VECTOR_START = 100
"""Overhead of a short or dependent Vector instruction (Trainium2 architecture guide)."""
ACCESS_START = 60
"""Cycles to start a tensor access (Trainium2 architecture guide, performance guide)."""
RECIPROCAL_CYCLES = 8
"""Cycles per element of a reciprocal on Vector (NKI ISA reference of October 2025)."""
PORT_STRIDE_BYTES = 16
"""v2: an innermost stride of this many bytes or more halves the port rate (Trainium/Inferentia2 guide)."""
CROSS_LANE_SERIAL = 16
"""Partitions that one GpSimd core walks at worst in a cross-lane reduce (project model; nothing is published)."""

SOURCE_FORMULA = "NKI ISA reference, October 2025, instruction cost"
SOURCE_MODEL = "project model; no formula is published"

DISPATCH_OVERLAP = 100
"""Cycles by which an instruction may overlap the one before it on its engine, where it does not depend on it
(performance model of the compiler)."""
EXCLUSIVE: dict[Generation, tuple[tuple[str, str, str], ...]] = {
    "v2": (("DVE", "Pool", "SB"), ("DVE", "Activation", "PSUM")),
    "v3": (),
    "v4": (),
}
"""Pairs of engines that never access a memory at the same time (architecture guides: lifted from v3 on)."""
