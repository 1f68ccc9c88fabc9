"""Bytes: record layouts, streams, encoding, and the search for a stream's opcode reading."""

from lanefold.tpb.binary.encode import encode, encode_columns, joined_sync
from lanefold.tpb.binary.reading import Detection, detect_reading
from lanefold.tpb.binary.stream import Bundle, Stream, decode

__all__ = ["Bundle", "Detection", "Stream", "decode", "detect_reading", "encode", "encode_columns", "joined_sync"]
