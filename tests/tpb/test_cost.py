"""Cycle formulas against worked values, one per formula row."""

from __future__ import annotations

import pytest

from lanefold.diagnostics import LanefoldError
from lanefold.tpb import Access, Instruction
from lanefold.tpb.cost import price


def access(elements: int, dtype: str = "float32", step: int = 1, partitions: int = 128, byte: int = 0) -> Access:
    return Access("SB", 0, byte, dtype, ((elements, partitions), (step, elements)))


def reduce(elements: int, dtype: str = "float32", op: str = "add", axis: str = "X", **more) -> Instruction:
    out = Access("SB", 0, 0, dtype, ((1, 128), (1, 1)))
    return Instruction("TensorReduce", (access(elements, dtype),), (out,), {"op": op, "axis": axis, **more}, "DVE")


def max8(elements: int) -> Instruction:
    return Instruction("Max", (access(elements),), (access(8),), {}, "DVE")


def iota(elements: int) -> Instruction:
    return Instruction("Iota", (), (access(elements, "int32"),), {"pattern": [[1, elements]]}, "Pool")


def reciprocal(elements: int) -> Instruction:
    return Instruction("Reciprocal", (access(elements),), (access(elements),), {}, "DVE")


@pytest.mark.parametrize(
    ("instruction", "generation", "cycles", "ns"),
    [
        (reduce(512), "v2", 512, 457),
        (reduce(512), "v3", 512, 533),
        (reduce(512), "v4", 512, 427),
        (reduce(512, "bfloat16"), "v2", 256, 229),
        (max8(16384), "v3", 16384, 17_067),
        (iota(512), "v3", 662, 552),
        (reciprocal(512), "v3", 4096, 4_267),
    ],
)
def test_published_values(instruction: Instruction, generation: str, cycles: int, ns: int) -> None:
    row = price(instruction, generation)
    assert (row.low, row.high) == (cycles, cycles)
    assert round(row.ns[0]) == ns
    assert row.validity == "published formula"
    assert (row.model, row.bound) == ("documented", "streaming")


@pytest.mark.parametrize(
    ("instruction", "low", "high"),
    [
        (reduce(512, "bfloat16", op="min"), 512, 512),
        (reduce(512, apply_transpose=True), 1024, 1024),
        (reduce(512, axis="C"), 150 + 512, 150 + 16 * 512),
        (
            Instruction("MaxIndex", (access(8), access(1000)), (access(8, "uint32"),), {}, "DVE"),
            1000 + 64,
            1000 + 64,
        ),
        (Instruction("MatchReplace", (access(8), access(30)), (access(30),), {"imm_value": 0.0}, "DVE"), 64, 64),
        (
            Instruction("Gather", (access(1500), access(263, "uint16")), (access(263),), {}, "Pool"),
            3 * (2 * 150 + 512 + 263),
            3 * (2 * 150 + 512 + 263),
        ),
        (
            Instruction(
                "Pool",
                (Access("SB", 0, 0, "float32", ((64, 128), (16, 4), (2, 4), (8, 2), (1, 2))),),
                (access(16),),
                {"func": "Max"},
                "Pool",
            ),
            64,
            64,
        ),
        (reduce(8), 64, 64),
    ],
)
def test_formula_rows(instruction: Instruction, low: int, high: int) -> None:
    row = price(instruction, "v2")
    assert (row.low, row.high) == (low, high)


def test_bfloat16_pairs_need_their_conditions() -> None:
    assert price(reduce(512, "bfloat16"), "v3").low == 512
    assert price(reduce(511, "bfloat16"), "v2").low == 511
    odd = Instruction(
        "TensorReduce",
        (access(512, "bfloat16", byte=2),),
        (access(1, "bfloat16"),),
        {"op": "add", "axis": "X"},
        "DVE",
    )
    assert price(odd, "v2").low == 512


def test_detailed_adds_overheads_and_the_port() -> None:
    assert price(reduce(512), "v3", "detailed").low == 100 + 60 + 512
    assert price(iota(512), "v3", "detailed").low == 150 + 60 + 512
    wide = Instruction("TensorReduce", (access(512, step=4),), (access(1),), {"op": "add", "axis": "X"}, "DVE")
    row = price(wide, "v2", "detailed")
    assert (row.low, row.bound) == (160 + 1024, "port")
    assert price(wide, "v3", "detailed").low == 160 + 512


def test_short_instructions_are_bound_by_their_start() -> None:
    assert price(reduce(8), "v2").bound == "start-up"


def test_rows_say_where_they_come_from() -> None:
    row = price(reduce(512), "v2").to_dict()
    assert row["rule"] == "0 + max(64, 512)"
    assert "NKI ISA reference" in row["source"]
    assert price(reduce(512, axis="C"), "v2").validity == "model, nothing is published"


def test_unknown_model() -> None:
    with pytest.raises(LanefoldError, match="no cost model 'exact'"):
        price(reduce(8), "v2", "exact")
