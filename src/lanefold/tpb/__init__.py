"""Trainium TPB, the pooling and reduction leg."""

from lanefold.tpb import bir
from lanefold.tpb.binary import Bundle, Stream, decode, encode
from lanefold.tpb.instruction import Instruction, Sync
from lanefold.tpb.patterns import Access

__all__ = ["Access", "Bundle", "Instruction", "Stream", "Sync", "bir", "decode", "encode"]
