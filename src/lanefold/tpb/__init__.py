"""Trainium TPB, the pooling and reduction leg."""

from typing import TYPE_CHECKING

from lanefold.tpb import bir
from lanefold.tpb.binary import Bundle, Stream, decode, encode
from lanefold.tpb.instruction import Instruction, Sync
from lanefold.tpb.patterns import Access
from lanefold.tpb.rules import check
from lanefold.tpb.text import Explanation, assemble, disassemble, explain

if TYPE_CHECKING:
    from lanefold.tpb.machine import Machine

__all__ = [
    "Access",
    "Bundle",
    "Explanation",
    "Instruction",
    "Machine",
    "Stream",
    "Sync",
    "assemble",
    "bir",
    "check",
    "decode",
    "disassemble",
    "encode",
    "explain",
]


def __getattr__(name: str) -> object:
    # The machine brings the compiler along, which whoever only encodes or checks does not need.
    if name == "Machine":
        from lanefold.tpb.machine import Machine

        return Machine
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
