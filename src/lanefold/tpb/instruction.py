"""Typed instructions: what the encoder takes, wherever it came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from lanefold.diagnostics import Place
from lanefold.tpb.patterns import Access

_NONE: Mapping[str, object] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Sync:
    """The events block of a bundle: at most one wait and one update, which share one value.

    The numbers are wire numbers of the wait_mode and update_mode tables; all zero means no wait and no update.
    Source: bundle events, bytes +0x04 to +0x0B.
    """

    wait_mode: int = 0
    wait_index: int = 0
    update_mode: int = 0
    update_index: int = 0
    value: int = 0


@dataclass(frozen=True, slots=True)
class Instruction:
    """One BIR instruction with its operands resolved to on-chip addresses.

    Args:
        opcode: BIR opcode, such as ``"Pool"``.
        ins: source operands, in the order of the BIR operation's row.
        outs: destination operands.
        attributes: the operation's own keys, such as ``{"func": "Max"}``.
        engine: BIR engine it is bound to; the opcode never tells.
        name: its name in the program.
        node: name of the model node it came from, if any.
        sync: waits and updates.
    """

    opcode: str
    ins: tuple[Access, ...]
    outs: tuple[Access, ...]
    attributes: Mapping[str, object] = field(default_factory=lambda: _NONE)
    engine: str = "Unassigned"
    name: str = ""
    node: str = ""
    sync: Sync = Sync()

    def place(self, field_name: str = "", operand: str = "") -> Place:
        """Where a finding about this instruction stands."""
        return Place(node=self.node, instruction=self.name or self.opcode, field=field_name, operand=operand)
