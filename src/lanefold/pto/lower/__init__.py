"""Lowering of ops onto PTO tiles: stages, each one tile program run over many strided blocks of a tensor."""

from lanefold.pto.lower.lower import PREFERENCES, check_preference, lower, routes
from lanefold.pto.lower.plan import Lowering, Stage, Tensor
from lanefold.pto.lower.views import View

__all__ = ["PREFERENCES", "Lowering", "Stage", "Tensor", "View", "check_preference", "lower", "routes"]
