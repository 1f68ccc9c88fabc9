"""Legality of bundles and instructions: the rules, and the check that runs them all."""

from lanefold.tpb.rules.check import check, check_stream, stream_errors

__all__ = ["check", "check_stream", "stream_errors"]
