"""Every rule: legal input passes, illegal input is refused in known words, and the first cure works."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

import lanefold
import lanefold.tpb as tpb
from lanefold.diagnostics import RULES, Diagnostic, LanefoldError, Rule
from tests.tpb.rule_bundles import bundle, changed, stream
from tests.tpb.rule_calls import OTHER_CALLS
from tests.tpb.rule_cases import (
    BUNDLE_CASES,
    CALL_CASES,
    INDIRECT_CASES,
    INSTRUCTION_CASES,
    BundleCase,
    CallCase,
    InstructionCase,
)


def with_code(found: list[Diagnostic], code: str) -> list[Diagnostic]:
    return [finding for finding in found if finding.code == code]


def access(start: int, dtype: str, *pairs: tuple[int, int], name: str) -> tpb.Access:
    return tpb.Access("SB", 0, start, dtype, pairs, name)


def legal_instruction(opcode: str) -> tpb.Instruction:
    row = access(0, "float32", (64, 32), (1, 64), name="x")
    copy = access(0x8000, "float32", (64, 32), (1, 64), name="y")
    eight = access(0x8000, "float32", (8, 32), (1, 8), name="eight")
    made = {
        "Pool": (
            (access(0, "float32", (64, 32), (16, 4), (2, 4), (8, 2), (1, 2), name="x"),),
            (access(0x8000, "float32", (16, 32), (4, 4), (1, 4), name="y"),),
            {"func": "Max"},
        ),
        "TensorReduce": (
            (access(0, "float32", (64, 32), (8, 8), (1, 8), name="x"),),
            (access(0x8000, "float32", (8, 32), (1, 8), name="y"),),
            {"op": "add", "axis": "X"},
        ),
        "Max": ((row,), (eight,), {}),
        "MatchReplace": ((eight, row), (access(0x9000, "float32", (64, 32), (1, 64), name="y"),), {"imm_value": 0.0}),
        "Reciprocal": ((row,), (copy,), {}),
        "Iota": ((), (access(0, "int32", (64, 32), (1, 64), name="y"),), {"pattern": [(1, 64)]}),
        "Gather": ((row, access(0x4000, "uint32", (64, 32), (1, 64), name="i")), (copy,), {}),
    }
    ins, outs, attributes = made[opcode]
    return tpb.Instruction(opcode, ins, outs, attributes, name="I-1")


def set_part(made: tpb.Instruction, path: str, value: Any) -> tpb.Instruction:
    head, *rest = path.split(".")
    if path == "extra ins":
        return replace(made, ins=(*made.ins, made.ins[0]))
    if head == "attributes":
        kept = {name: old for name, old in made.attributes.items() if name != rest[0]}
        return replace(made, attributes=kept if value is None else {**kept, rest[0]: value})
    if head == "sync":
        return replace(made, sync=replace(made.sync, **{rest[0]: value}))
    if not rest:
        return replace(made, **{head: tuple(value) if isinstance(value, list) else value})
    operands = list(getattr(made, head))
    part = tuple(tuple(pair) for pair in value) if rest[1] == "pattern" else value
    operands[int(rest[0])] = replace(operands[int(rest[0])], **{rest[1]: part})
    return replace(made, **{head: tuple(operands)})


def set_parts(made: tpb.Instruction, changes: Mapping[str, Any]) -> tpb.Instruction:
    for path, value in changes.items():
        made = set_part(made, path, value)
    return made


ALL_BUNDLE_CASES = (*BUNDLE_CASES, *INDIRECT_CASES)


def built(case: BundleCase, changes: Mapping[str, Any], engine: str) -> tpb.Stream:
    word = changed(bundle(case.name, case.reading), case.name, dict(changes))
    return stream(word, generation=case.generation, reading=case.reading, engine=engine)


PARTNERS = {"TPB-GATHER-PAIR": "pool_buffer_load", "TPB-SEARCH-KEYS": "match_value_load"}


def legal_stream(case: BundleCase) -> tpb.Stream:
    if case.code == "TPB-READING":
        return stream(bundle(case.name, "headers"), reading="headers")
    made = built(case, case.legal, case.legal_engine)
    if case.code in PARTNERS:
        words = [made.tobytes(), bundle(PARTNERS[case.code])]
        made = stream(*(words if case.code == "TPB-GATHER-PAIR" else words[::-1]))
    return made


def cured_stream(case: BundleCase, made: tpb.Stream, changes: Mapping[str, Any]) -> tpb.Stream:
    left = dict(changes)
    engine = left.pop("engine", made.engine)
    generation = left.pop("generation", made.generation)
    reading = left.pop("opcodes", made.opcodes)
    behind = [bundle(left.pop("insert behind"))] if "insert behind" in left else []
    before = [bundle(left.pop("insert before"))] if "insert before" in left else []
    word = changed(made.tobytes(), case.name, left)
    return stream(*before, word, *behind, generation=generation, reading=reading, engine=engine)


@pytest.mark.parametrize("case", ALL_BUNDLE_CASES, ids=lambda case: case.code)
def test_bundle_rule(case: BundleCase) -> None:
    assert not with_code(tpb.check(legal_stream(case)), case.code)
    broken = built(case, case.changes, case.engine)
    found = with_code(tpb.check(broken), case.code)
    assert [finding.message for finding in found] == [case.message]
    cure = found[0].cures[0]
    assert cure.changes, "the first cure can be applied"
    assert not with_code(tpb.check(cured_stream(case, broken, cure.changes)), case.code)


@pytest.mark.parametrize("case", INSTRUCTION_CASES, ids=lambda case: case.code)
def test_instruction_rule(case: InstructionCase) -> None:
    legal = legal_instruction(case.opcode)
    assert not with_code(tpb.check(legal, case.generation, case.reading), case.code)
    broken = set_parts(legal, case.changes)
    found = with_code(tpb.check(broken, case.generation, case.reading), case.code)
    assert [finding.message for finding in found] == [case.message]
    assert found[0].place.instruction == "I-1"
    cure = found[0].cures[0]
    assert cure.changes, "the first cure can be applied"
    assert not with_code(tpb.check(set_parts(broken, cure.changes), case.generation, case.reading), case.code)


ALL_CALL_CASES = (*CALL_CASES, *OTHER_CALLS)


def found_by(case: CallCase, argument: Any) -> list[Diagnostic]:
    """The findings of a call on one argument, returned or raised."""
    try:
        made = case.call(argument)
    except LanefoldError as error:
        return with_code(list(error.diagnostics), case.code)
    listed = made if isinstance(made, (list, tuple)) else []
    return with_code([entry for entry in listed if isinstance(entry, Diagnostic)], case.code)


@pytest.mark.parametrize("case", ALL_CALL_CASES, ids=lambda case: case.code)
def test_refused_call(case: CallCase) -> None:
    assert not found_by(case, case.valid)
    found = found_by(case, case.invalid)
    assert {finding.message for finding in found} == {case.message}
    assert found[0].cures[0].text == case.cure
    assert not found_by(case, case.cured)


@pytest.mark.parametrize(("tag", "name", "cure"), [(7, "FP16", 5), (10, "FP32", 9), (14, "FP8_EXP4", 3)])
def test_bits_across_lanes_are_those_of_integers(tag: int, name: str, cure: int) -> None:
    kind = "cross_lane_reduce_bitvec"
    word = bundle(kind, in_dtype=tag, out_dtype=tag)
    (found,) = (finding for finding in tpb.check(stream(word)) if finding.severity == "error")
    assert found.code == "TPB-CROSS-LANE-DTYPE"
    assert found.message == f"CrossLaneReduceBitvec moves raw bits and has {tag} ({name}) in, {tag} ({name}) out"
    assert dict(found.cures[0].changes) == {"in_dtype": cure, "out_dtype": cure}
    cured = changed(word, kind, dict(found.cures[0].changes))
    assert not [finding for finding in tpb.check(stream(cured)) if finding.severity == "error"]


@pytest.fixture(scope="module")
def rules() -> dict[str, Rule]:
    """Every rule of this leg, all modules of the package imported."""
    for module in pkgutil.walk_packages(lanefold.__path__, "lanefold."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    return {code: rule for code, rule in RULES.items() if code.startswith("TPB-")}


def test_every_rule_has_a_row_with_all_its_parts(rules: dict[str, Rule]) -> None:
    by_changes = [*ALL_BUNDLE_CASES, *INSTRUCTION_CASES]
    codes = [case.code for case in (*by_changes, *ALL_CALL_CASES)]
    assert set(codes) == set(rules)
    assert sorted(codes) == sorted(set(codes)), "one row per rule"
    for case in (*by_changes, *ALL_CALL_CASES):
        assert case.message, f"{case.code} lacks a pinned message"
    for case in ALL_CALL_CASES:
        assert case.cure, f"{case.code} lacks a pinned cure"
    # A row of changes applies its cure as the finding gives it; a call on input without bytes follows its words.
    assert not {case.code for case in by_changes if rules[case.code].usage}


def test_every_rule_is_complete(rules: dict[str, Rule]) -> None:
    for rule in rules.values():
        assert rule.text.endswith("."), rule.code
        assert len(rule.source) > 5, rule.code
