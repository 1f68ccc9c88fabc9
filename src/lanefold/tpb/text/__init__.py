"""Assembly text and byte-by-byte explanations of bundles."""

from lanefold.tpb.text.assemble import assemble
from lanefold.tpb.text.disassemble import disassemble
from lanefold.tpb.text.explain import ExplainedField, Explanation, explain

__all__ = ["ExplainedField", "Explanation", "assemble", "disassemble", "explain"]
