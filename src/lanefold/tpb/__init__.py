"""Trainium TPB, the pooling and reduction leg."""

from lanefold.tpb import bir
from lanefold.tpb.binary import Bundle, Stream, decode, encode
from lanefold.tpb.instruction import Instruction, Sync
from lanefold.tpb.patterns import Access
from lanefold.tpb.rules import check
from lanefold.tpb.text import Explanation, assemble, disassemble, explain

__all__ = [
    "Access",
    "Bundle",
    "Explanation",
    "Instruction",
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
