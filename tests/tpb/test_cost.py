"""Cycle formulas against the published ones, written out once more by hand: each row, model, generation and size."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from lanefold import tpb
from lanefold.diagnostics import LanefoldError
from lanefold.tpb import Access, Instruction
from lanefold.tpb.cost import MODELS, price, price_fill
from lanefold.tpb.cost.stream import price_stream

GENERATIONS = ("v2", "v3", "v4")
CLOCKS = {"v2": {"DVE": 1.12, "Pool": 1.4, "Activation": 1.4}, "v3": {"DVE": 0.96, "Pool": 1.2, "Activation": 1.2}}
CLOCKS["v4"] = {"DVE": 1.2, "Pool": 1.2, "Activation": 1.2}
"""GHz."""


def access(elements: int, dtype: str = "float32", step: int = 1, partitions: int = 128, byte: int = 0) -> Access:
    return Access("SB", 0, byte, dtype, ((elements, partitions), (step, elements)))


def reduce(elements: int, dtype: str = "float32", op: str = "add", axis: str = "X", **more) -> Instruction:
    out = Access("SB", 0, 0, dtype, ((1, 128), (1, 1)))
    engine = "Pool" if axis in ("C", "XYZWC") else "DVE"
    return Instruction("TensorReduce", (access(elements, dtype),), (out,), {"op": op, "axis": axis, **more}, engine)


def pool(elements: int) -> Instruction:
    """Windows of 2 elements, each read once."""
    outputs = -(-elements // 2)
    source = Access("SB", 0, 0, "float32", ((64, 128), (2, outputs), (1, 2)))
    return Instruction("Pool", (source,), (access(outputs),), {"func": "Max"}, "Pool")


def max8(elements: int) -> Instruction:
    return Instruction("Max", (access(elements),), (access(min(8, elements)),), {}, "DVE")


def max_index(elements: int, keys: int = 1) -> Instruction:
    return Instruction("MaxIndex", (access(keys), access(elements)), (access(keys, "uint32"),), {}, "DVE")


def match_replace(elements: int, keys: int = 1) -> Instruction:
    return Instruction("MatchReplace", (access(keys), access(elements)), (access(elements),), {"imm_value": 0.0}, "DVE")


def iota(elements: int) -> Instruction:
    return Instruction("Iota", (), (access(elements, "int32"),), {"pattern": [[1, elements]]}, "Pool")


def reciprocal(elements: int, engine: str = "DVE") -> Instruction:
    return Instruction("Reciprocal", (access(elements),), (access(elements),), {}, engine)


def gather(elements: int) -> Instruction:
    return Instruction("Gather", (access(elements), access(263, "uint16")), (access(263),), {}, "Pool")


class Row(NamedTuple):
    """One row of the published table: an instruction of N elements, its work, and start-up cycles in the formula.

    ``within`` tells that the work contains all start-ups.
    """

    make: Callable[[int], Instruction]
    engine: str
    low: Callable[[int], float]
    high: Callable[[int], float]
    start: int = 0
    within: bool = False
    published: bool = True
    only: tuple[str, ...] = GENERATIONS


def one(make: Callable[[int], Instruction], engine: str, work: Callable[[int], float], **more) -> Row:
    return Row(make, engine, work, work, **more)


ROWS = {
    "Pool": one(pool, "Pool", lambda n: 2 * -(-n // 2), published=False),
    "TensorReduce": one(reduce, "DVE", lambda n: n),
    "TensorReduce of bfloat16 pairs": one(
        lambda n: reduce(n, "bfloat16"), "DVE", lambda n: n if n % 2 else n / 2, only=("v2",)
    ),
    "TensorReduce of bfloat16, max": one(
        lambda n: reduce(n, "bfloat16", "max"), "DVE", lambda n: n if n % 2 else n / 2, only=("v2",)
    ),
    "TensorReduce of bfloat16, later generations": one(
        lambda n: reduce(n, "bfloat16"), "DVE", lambda n: n, only=("v3", "v4")
    ),
    "TensorReduce of bfloat16, min": one(lambda n: reduce(n, "bfloat16", "min"), "DVE", lambda n: n),
    "transposed TensorReduce": one(lambda n: reduce(n, apply_transpose=True), "DVE", lambda n: 2 * n, published=False),
    "cross-lane": Row(lambda n: reduce(n, axis="C"), "Pool", lambda n: n, lambda n: 16 * n, 150, published=False),
    "cross-lane over all axes": Row(
        lambda n: reduce(n, axis="XYZWC"), "Pool", lambda n: n, lambda n: 16 * n, 150, published=False
    ),
    "Max8": one(max8, "DVE", lambda n: n),
    "MaxIndex": one(max_index, "DVE", lambda n: n + 64),
    "MatchReplace": one(match_replace, "DVE", lambda n: n),
    "Reciprocal": one(reciprocal, "DVE", lambda n: 8 * n),
    "Reciprocal on Scalar": one(lambda n: reciprocal(n, "Activation"), "Activation", lambda n: n),
    "Iota": one(iota, "Pool", lambda n: n, start=150),
    "Gather": one(gather, "Pool", lambda n: -(-n // 512) * (2 * 150 + min(512, n) + 263), within=True, published=False),
}
"""The rows of the instruction cost table, and of the project's model where nothing is published."""
SIZES = (1, 2, 8, 63, 64, 65, 150, 160, 511, 512, 513, 4096, 16384)


def fixed(row: Row, model: str) -> int:
    """Cycles before the work: 100 on Vector and Scalar or 150 on GpSimd, and 60 for the first access."""
    if model == "documented":
        return row.start
    if row.within:
        return 60
    return max(row.start, 150 if row.engine == "Pool" else 100) + 60


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", ROWS)
def test_formula_rows(name: str, model: str) -> None:
    row = ROWS[name]
    for generation in row.only:
        for n in SIZES:
            found = price(row.make(n), generation, model)
            start, low, high = fixed(row, model), row.low(n), row.high(n)
            assert (found.low, found.high) == (start + max(64, low), start + max(64, high)), (generation, n)
            assert found.estimate == (found.low if max(64, low) == max(64, high) else None)
            assert (found.model, found.engine, found.clock_ghz) == (model, row.engine, CLOCKS[generation][row.engine])
            assert found.ns == pytest.approx((found.low / found.clock_ghz, found.high / found.clock_ghz))
            assert found.bound == ("start-up" if high <= max(64, start) else "streaming"), (generation, n)
            assert found.validity == ("published formula" if row.published else "model, nothing is published")
            assert found.rule.startswith(f"{start} + max(64, ")


@pytest.mark.parametrize(
    ("dtype", "work"), [("float32", 512), ("int32", 512), ("bfloat16", 256), ("float16", 256), ("uint8", 512)]
)
@pytest.mark.parametrize("generation", GENERATIONS)
def test_zeros_are_set_by_the_memset_row(dtype: str, work: int, generation: str) -> None:
    for model, start in (("documented", 0), ("detailed", 160)):
        found = price_fill(access(512, dtype), generation, model)
        assert (found.low, found.high, found.engine) == (start + work, start + work, "DVE")
        assert price_fill(access(8, dtype), generation, model).low == start + 64


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
def test_check_values(instruction: Instruction, generation: str, cycles: int, ns: int) -> None:
    row = price(instruction, generation)
    assert (row.low, row.high) == (cycles, cycles)
    assert round(row.ns[0]) == ns
    assert row.validity == "published formula"
    assert (row.model, row.bound) == ("documented", "streaming")


def test_bfloat16_pairs_need_their_conditions() -> None:
    assert price(reduce(511, "bfloat16"), "v2").low == 511
    out = (access(1, "bfloat16"),)
    attributes = {"op": "add", "axis": "X"}
    for source in (access(512, "bfloat16", byte=2), access(512, "bfloat16", step=2)):
        assert price(Instruction("TensorReduce", (source,), out, attributes, "DVE"), "v2").low == 512
    wide = Instruction("TensorReduce", (access(512, "bfloat16"),), (access(1),), attributes, "DVE")
    assert price(wide, "v2").low == 512


@pytest.mark.parametrize(
    ("step", "dtype", "factor"), [(1, "float32", 1), (3, "float32", 1), (4, "float32", 2), (7, "bfloat16", 1)]
)
def test_wide_strides_halve_the_port_rate_on_v2(step: int, dtype: str, factor: int) -> None:
    """From 16 bytes on, in the detailed model only."""
    wide = Instruction("TensorReduce", (access(512, dtype, step),), (access(1),), {"op": "max", "axis": "X"}, "DVE")
    row = price(wide, "v2", "detailed")
    assert (row.low, row.bound) == (160 + 512 * factor, "port" if factor == 2 else "streaming")
    assert row.rule.endswith("(port)") == (factor == 2)
    assert price(wide, "v2").low == 512
    assert {price(wide, generation, "detailed").low for generation in ("v3", "v4")} == {160 + 512}


@pytest.mark.parametrize("axis", ["X", "C"])
def test_instructions_bound_to_no_engine_run_where_they_usually_do(axis: str) -> None:
    bound = reduce(512, axis=axis)
    free = Instruction(bound.opcode, bound.ins, bound.outs, bound.attributes, "")
    assert price(free, "v3").engine == bound.engine
    assert price(free, "v3").low == price(bound, "v3").low


def test_streams_cost_what_their_instructions_cost(reference_data: Path) -> None:
    """Instructions of the reference vectors, encoded and priced from their bytes alone, in both readings."""
    seen: Counter[str] = Counter()
    for case in json.loads((reference_data / "golden/tpb/vectors.json").read_text())["encode"]:
        instruction = tpb.bir.instruction(case["bir"], case["allocations"])
        for reading, generation in itertools.product(("reference", "headers"), GENERATIONS):
            try:
                words = tpb.encode([instruction], generation, reading).tobytes()
            except LanefoldError:
                continue  # that reading or generation has no such instruction
            stream = tpb.decode(words, generation, reading)
            stream.engine = instruction.engine
            for model in MODELS:
                found, wanted = price_stream(stream, model), price(instruction, generation, model)
                assert found.unknown == ()
                if instruction.opcode == "Gather" and len(found.rows) > 1:
                    assert found.cycles[1] < wanted.high + 60 * len(found.rows)  # the last chunk is shorter
                else:
                    assert found.cycles == (wanted.low, wanted.high), wanted
                    assert [row.bound for row in found.rows] == [wanted.bound]
                seen[instruction.opcode] += 1
    assert seen.keys() == {"Pool", "TensorReduce", "Max", "MaxIndex", "Reciprocal", "Iota", "Gather"}
    assert min(seen.values()) >= 10


def test_replacing_is_priced_from_its_bytes() -> None:
    whole = match_replace(512, 8)
    assert [row.low for row in price_stream(tpb.encode([whole], "v2")).rows] == [price(whole, "v2").low] == [512]


def test_streams_are_priced_around_what_nobody_knows() -> None:
    known = tpb.encode([reduce(512), reciprocal(64)], "v2").tobytes()
    stream = tpb.decode(known + bytes([0xEE]) + bytes(63) + known, "v2")
    found = price_stream(stream)
    assert [row.low for row in found.rows] == [512, 512, 0, 512, 512]
    assert found.cycles == (2048, math.inf)
    (row,) = found.unknown
    assert row.instruction == "2 Unknown"
    assert "opcode 0xEE" in row.note
    assert found.without_unknown().cycles == (2048, 2048)
    assert found.without_unknown().skipped == 1


def test_halves_of_pairs_are_unknown_alone() -> None:
    whole = tpb.encode([max_index(512, 8)], "v2")
    assert [row.unknown for row in price_stream(whole).rows] == [False]
    for half in (whole[:1], whole[1:]):
        assert [row.note.split(": ")[1] for row in price_stream(half).rows] == ["nothing is published about it alone"]


def test_rows_say_where_they_come_from() -> None:
    row = price(reduce(512), "v2").to_dict()
    assert row["rule"] == "0 + max(64, 512)"
    assert "NKI ISA reference" in row["source"]
    assert price(reduce(512, axis="C"), "v2").validity == "model, nothing is published"


@pytest.mark.parametrize("model", ["exact", "Documented", None, 0, ["documented"], b"documented"])
def test_unknown_models(model: object) -> None:
    with pytest.raises(LanefoldError, match="there is no cost model") as caught:
        price(reduce(8), "v2", model)
    (finding,) = caught.value.diagnostics
    assert price(reduce(8), "v2", finding.cures[0].changes["model"]).low == 64


@pytest.mark.parametrize("generation", ["v1", "trn2", None, 3])
def test_unknown_generations(generation: object) -> None:
    for priced in (lambda: price(reduce(8), generation), lambda: price_fill(access(8), generation)):
        with pytest.raises(LanefoldError):
            priced()
