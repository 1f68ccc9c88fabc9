"""BIR JSON in and out."""

from lanefold.tpb.bir.operands import MemoryLocation, PhysicalAp, instruction

__all__ = ["MemoryLocation", "PhysicalAp", "instruction"]
