"""From target-neutral ops to instructions of the leg."""

from lanefold.tpb.lower.lower import lower
from lanefold.tpb.lower.plan import Fill, Lowering, Transfer

__all__ = ["Fill", "Lowering", "Transfer", "lower"]
