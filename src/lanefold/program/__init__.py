"""Programs: steps in order, one ledger row per source node, prices, and files written whole or not at all."""

from __future__ import annotations

from lanefold.program.files import read_file, write_folder
from lanefold.program.ledger import DISPOSITIONS, Ledger, LedgerRow
from lanefold.program.prices import CostRow, ProgramCost
from lanefold.program.program import Code, LegStep, Program, Step, Target, TensorInfo, check_feeds

__all__ = [
    "DISPOSITIONS",
    "Code",
    "CostRow",
    "Ledger",
    "LedgerRow",
    "LegStep",
    "Program",
    "ProgramCost",
    "Step",
    "Target",
    "TensorInfo",
    "check_feeds",
    "read_file",
    "write_folder",
]
