"""PTO programs: what they are made of, their rules, places, and running them."""

from lanefold.pto.program.model import Compute, GlobalArray, Load, Program, Store, TileSlot

__all__ = ["Compute", "GlobalArray", "Load", "Program", "Store", "TileSlot"]
