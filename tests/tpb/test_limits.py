"""Front-end limits and the check of instructions."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import lanefold.tpb as tpb
from lanefold.diagnostics import Diagnostic, LanefoldError, errors
from tests.tpb.rule_bundles import bundle, stream
from tests.tpb.test_rules_cases import legal_instruction, set_part, set_parts

OPCODES = ("Pool", "TensorReduce", "Max", "MatchReplace", "Reciprocal", "Iota", "Gather")
NUMBERS = (-1, 0, 1, 2, 3, 5, 7, 8, 16, 32, 33, 64, 128, 129, 300, 513, 16385, 32768, 65536, -40000, 2**31, 2**40)
DTYPES = ("float32", "bfloat16", "int8", "int32", "float32r", "int64", "float4_e2m1fn_x4", "float8_e8m0fnu", "no", "")
KEYS = ("op", "axis", "func", "negate", "apply_transpose", "pattern", "base", "imm_value", "zzz", "channel_multiplier")
VALUES: tuple[Any, ...] = (
    *("add", "min", "bitwise_or", "logical_shift_right", "mod", "average", "pow", "abs_max", "mod_int", "foo", ""),
    *("X", "XYZWC", "C", "XYZW", "Max", "Avg", True, False, None, 1, 2.5, -1e39, 2**33, 10**400, float("nan")),
    *([(1, 64)], [[1, 2, 3]], [], [(1, 1)] * 5, object()),
)


def mutated(random_: random.Random, made: tpb.Instruction) -> tpb.Instruction:
    for _ in range(random_.randint(1, 3)):
        side = random_.choice(("ins", "outs"))
        operands = getattr(made, side)
        path = f"{side}.{random_.randrange(len(operands))}" if operands else ""
        choice = random_.randrange(7)
        if choice == 5:
            made = set_part(made, f"attributes.{random_.choice(KEYS)}", random_.choice(VALUES))
        elif choice == 6:
            made = set_part(made, f"sync.{random_.choice(('wait_mode', 'value'))}", random_.choice(NUMBERS))
        elif not path:
            continue
        elif choice == 0:
            made = set_part(made, f"{path}.dtype", random_.choice(DTYPES))
        elif choice in (1, 2):
            pairs = [(random_.choice(NUMBERS), random_.choice(NUMBERS)) for _ in range(random_.randint(0, 6))]
            made = set_part(made, f"{path}.pattern", pairs)
        elif choice == 3:
            made = set_part(made, f"{path}.partition", random_.choice((0, 31, 32, 40, 64, 96, 127, 128, -1, 10**9)))
        else:
            made = set_part(made, f"{path}.byte", random_.choice((0, 1, 6, 4096, 16380, 196600, 262143, -4, 10**12)))
            made = set_part(made, f"{path}.memory", random_.choice(("SB", "PSUM", "DRAM")))
    return made


def test_damaged_instructions_raise_nothing_and_are_cured() -> None:
    random_ = random.Random(11)
    for _ in range(1500):
        made = mutated(random_, legal_instruction(random_.choice(OPCODES)))
        generation, reading = random_.choice(("v2", "v3", "v4")), random_.choice(("reference", "headers"))
        for finding in tpb.check(made, generation, reading):
            assert finding.message
            changes = finding.cures[0].changes
            if not changes or "opcodes" in changes:
                continue
            cured = tpb.check(set_parts(made, changes), generation, reading)
            left = [other.message for other in cured if (other.code, other.place) == (finding.code, finding.place)]
            assert not left, (made, finding.message, changes)


def test_first_cures_lead_from_illegal_to_legal(reference_data: Path) -> None:
    vectors = json.loads((reference_data / "golden/tpb/vectors.json").read_text())
    for case in vectors["illegal"]:
        if case["level"] != "bir" or case["rule"] == "operand_on_chip":
            continue
        made = tpb.bir.instruction(case["bir"], case["allocations"])
        for _ in range(4):
            found = errors(tpb.check(made, case["gen"], "headers"))
            if not found:
                break
            made = set_parts(made, found[0].cures[0].changes)
        assert not errors(tpb.check(made, case["gen"], "headers")), case["id"]


def one(found: Iterable[Diagnostic], code: str) -> Diagnostic:
    (finding,) = [finding for finding in found if finding.code == code]
    return finding


def test_wide_steps_are_found_at_the_front_door_in_every_operand() -> None:
    made = set_parts(
        legal_instruction("Reciprocal"),
        {"ins.0.pattern": [(64, 32), (46208, 2), (1, 32)], "outs.0.pattern": [(64, 32), (-48528, 2), (1, 32)]},
    )
    found = [finding for finding in tpb.check(made) if finding.code == "TPB-PATTERN-STEP"]
    assert [finding.place.operand for finding in found] == ["x", "y"]
    assert found[0].allowed == "-32768 to 32767"
    assert [cure.text for cure in found[1].cures] == [
        "re-tile the operand so that the step is -32767",
        "write the 2 outer indices as 2 instructions, each with its own start address",
    ]


@pytest.mark.parametrize(
    ("start", "channels", "nearest", "allowed"),
    [
        (40, 32, 32, "partition 0, 32, 64 or 96"),
        (20, 64, 0, "partition 0 or 64"),
        (32, 100, 0, "partition 0"),
        (120, 1, 96, "partition 0, 32, 64 or 96"),
    ],
)
def test_start_partition_names_the_nearest_legal_one(start: int, channels: int, nearest: int, allowed: str) -> None:
    made = legal_instruction("Reciprocal")
    changes = {f"{side}.0.pattern": [(64, channels), (1, 64)] for side in ("ins", "outs")}
    made = set_parts(made, {**changes, "ins.0.partition": start})
    finding = one(tpb.check(made), "TPB-START-PARTITION")
    assert finding.allowed == allowed
    assert finding.place.operand == "x"
    assert finding.cures[0].changes["ins.0.partition"] == nearest


def test_findings_carry_node_instruction_operand_field_and_byte() -> None:
    made = replace(set_part(legal_instruction("Pool"), "ins.0.byte", 2), node="MaxPool_3")
    place = one(tpb.check(made), "TPB-ALIGNMENT").place
    assert (place.node, place.instruction, place.operand) == ("MaxPool_3", "I-1", "x")
    assert (place.field, place.offset) == ("src.start_addr", 0x0C)


def test_findings_on_bytes_name_the_bundle() -> None:
    good, bad = bundle("pool"), bundle("pool", in_dtype=0)
    place = one(tpb.check(good + bad), "TPB-DTYPE-TAG").place
    assert str(place) == "instruction bundle 1 (Pool), operand src, field in_dtype, byte +0x20"


def test_findings_come_in_program_order() -> None:
    broken = set_part(legal_instruction("Pool"), "ins.0.byte", 2)
    refused = set_part(legal_instruction("Pool"), "attributes.func", "Sum")
    found = tpb.check([replace(broken, name="a"), replace(refused, name="b"), replace(broken, name="c")])
    assert [finding.place.instruction for finding in found if finding.severity == "error"] == ["a", "b", "c"]


class Module:
    """Anything that lists instructions."""

    def instructions(self) -> list[tpb.Instruction]:
        return [set_part(legal_instruction("Pool"), "attributes.func", "Sum")]


def test_modules_single_instructions_hex_and_buffers_are_taken() -> None:
    assert one(tpb.check(Module()), "TPB-POOL-FUNCTION")
    assert not tpb.check(legal_instruction("Pool"))
    word = bundle("pool", pool_dim=0)
    for given in (word, bytearray(word), memoryview(word), word.hex(), tpb.decode(word)):
        assert one(tpb.check(given), "TPB-POOL-DIM")


def test_a_stream_brings_its_own_generation_and_reading() -> None:
    made = stream(bundle("reciprocal", src__start_addr=200 << 10), generation="v3")
    assert not tpb.check(made)
    assert one(tpb.check(made, generation="v2"), "TPB-OPERAND-PARTITION")
    reduce = stream(bundle("tensor_reduce_arith", "headers"), reading="headers")
    assert not tpb.check(reduce)
    assert errors(tpb.check(reduce, opcodes="reference"))
    assert not tpb.check(reduce, opcodes="auto")


def test_engine_comes_from_the_instruction_or_the_stream() -> None:
    made = replace(legal_instruction("Max"), engine="PE")
    finding = one(tpb.check(made), "TPB-ENGINE")
    assert finding.allowed == "DVE"
    assert finding.cures[0].changes == {"engine": "DVE"}
    assert not errors(tpb.check(replace(made, engine="Unassigned")))
    assert not errors(tpb.check(stream(bundle("max8"))))


def test_pairs_are_looked_for_in_the_order_of_the_reading() -> None:
    load, lookup = bundle("pool_buffer_load"), bundle("gather")
    assert not tpb.check(lookup + load, opcodes="reference")
    assert not tpb.check(load + lookup, opcodes="headers")
    assert {finding.code for finding in tpb.check(load + lookup)} == {"TPB-GATHER-PAIR"}
    keys, find = bundle("match_value_load"), bundle("find_index8")
    assert not tpb.check(keys + bundle("pool") + find)
    assert len(tpb.check(keys + keys + find + find)) == 2


def test_the_note_on_readings_is_made_once() -> None:
    found = tpb.check(bundle("tensor_reduce_arith") * 50 + bundle("cross_lane_reduce_arith") * 50)
    assert [finding.code for finding in found] == ["TPB-READING"]


@pytest.mark.parametrize("wrong", [5, None, [5], 3.5, object()])
def test_other_things_are_refused(wrong: Any) -> None:
    with pytest.raises(LanefoldError) as refusal:
        tpb.check(wrong)
    assert refusal.value.usage


def test_only_errors_stop_a_stream() -> None:
    from lanefold.tpb.rules import stream_errors

    odd = stream(bundle("pool", debug_cmd=2, pool_dim=1), bundle("pool", opcode=0x99))
    assert [finding.code for finding in stream_errors(odd)] == ["TPB-POOL-DIM", "TPB-OPCODE"]
