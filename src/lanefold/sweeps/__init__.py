"""Sweeps: many shapes × layouts × operations × element types × targets × models, priced at once."""

from __future__ import annotations

from lanefold.sweeps.run import sweep
from lanefold.sweeps.space import Space, resolve
from lanefold.sweeps.spec import OBJECTIVES, Spec, read_spec
from lanefold.sweeps.table import Best, SweepTable

__all__ = ["OBJECTIVES", "Best", "Space", "Spec", "SweepTable", "read_spec", "resolve", "sweep"]
