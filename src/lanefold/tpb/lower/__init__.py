"""From target-neutral ops to instructions of the leg."""

from lanefold.tpb.lower.lower import check_preference, lower
from lanefold.tpb.lower.plan import Fill, Lowering, Transfer

__all__ = ["Fill", "Lowering", "Transfer", "check_preference", "lower"]
