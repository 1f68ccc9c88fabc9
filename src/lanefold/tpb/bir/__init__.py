"""BIR JSON in and out."""

from lanefold.tpb.bir.generate import CodeGenMode, Generated, generate
from lanefold.tpb.bir.module import Module, dump, load
from lanefold.tpb.bir.operands import instruction
from lanefold.tpb.bir.records import (
    Block,
    Function,
    InstructionRecord,
    Loop,
    MemoryLocation,
    MemoryLocationSet,
    Other,
    PhysicalAp,
    RegisterAp,
)
from lanefold.tpb.bir.write import from_instructions

__all__ = [
    "Block",
    "CodeGenMode",
    "Function",
    "Generated",
    "InstructionRecord",
    "Loop",
    "MemoryLocation",
    "MemoryLocationSet",
    "Module",
    "Other",
    "PhysicalAp",
    "RegisterAp",
    "dump",
    "from_instructions",
    "generate",
    "instruction",
    "load",
]
