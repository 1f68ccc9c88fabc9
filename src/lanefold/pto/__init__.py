"""Ascend PTO: tiles, the 28 reduction and expansion operations, their rules, simulator, texts and C++."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lanefold.pto.cost import cost as cost
    from lanefold.pto.program import Program as Program
    from lanefold.pto.rules import check as check
    from lanefold.pto.simulate import execute as execute
    from lanefold.pto.text import parse as parse
    from lanefold.pto.tiles import Tile as Tile
    from lanefold.pto.tiles import TileType as TileType

_HOMES = {
    "Program": "lanefold.pto.program",
    "Tile": "lanefold.pto.tiles",
    "TileType": "lanefold.pto.tiles",
    "check": "lanefold.pto.rules",
    "cost": "lanefold.pto.cost",
    "execute": "lanefold.pto.simulate",
    "parse": "lanefold.pto.text",
}

__all__ = ["Program", "Tile", "TileType", "check", "cost", "execute", "parse"]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "cost":
        return import_module("lanefold.pto.cost")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted(__all__)
