"""Every check that the validator sheet names has a rule of ours that carries the vendor's name of it."""

from __future__ import annotations

import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import lanefold.tpb
from lanefold.diagnostics import RULES
from lanefold.tpb import isa

SHEET = "spec/tpb/structs-enums-validators.md"

ENTRIES = re.compile(r"is_valid_(s4d4_pl|tensor_reduce|reciprocal|cross_lane_reduce|max8|find_index8|iota)\w*|"
                     r"is_valid_(match_value_load|pool_buffer_load)")  # fmt: skip
"""Entry functions of an opcode: their rules name them as the source, their parts as the predicate."""

EXCEPTIONS = {
    "dtype_4bit_illegal_check": "generation after v4, which is not covered",
    "dtype_scale_illegal_check": "generation after v4, which is not covered",
    "is_valid_neuron_instruction": "gate around all checks of v2: the whole of check()",
    "is_valid_neuron_isa_instruction": "gate around all checks of v3: the whole of check()",
    "is_valid_neuron_engine_instruction": "gate around all checks of v4: the whole of check()",
    "same_element_count_": "a family of names; each opcode's own stands at its rule",
    "same_or_fewer_element_count_": "a family of names; no opcode of this leg is given one",
    "has_transpose_src_element_count_": "a family of names; the rule carries the common part",
    "valid_reduce_n": "a clipped name of has_valid_reduce_negated",
}
"""Names without a rule of that very name, and why."""

WORDS = {"num_elem", "step_elem", "op_dim", "start_index"}
"""Fields that the sheet writes in the same type as predicates."""


@pytest.fixture(scope="module")
def named(reference_data: Path) -> set[str]:
    sheet = reference_data / SHEET
    if not sheet.exists():
        pytest.skip(f"{SHEET} is not among the reference data")
    text = sheet.read_text()
    validators = text[text.index("## 6. Validators") : text.index("### 6.4")]
    return set(re.findall(r"`([a-z0-9_]{6,})[^`]*`", validators)) - WORDS


@pytest.fixture(scope="module")
def carried() -> set[str]:
    for module in pkgutil.walk_packages(lanefold.tpb.__path__, "lanefold.tpb."):
        importlib.import_module(module.name)
    texts = [rule.predicate for rule in RULES.values()]
    texts += [predicate for row in isa.BUNDLES for predicate in row.predicates.values()]
    texts += [struct.reserved_predicate for struct in isa.STRUCTS.values()]
    return {word for text in texts for word in re.findall(r"\w+", text)}


def test_every_predicate_has_its_rule(named: set[str], carried: set[str]) -> None:
    assert len(named) > 50
    missing = named - carried - EXCEPTIONS.keys()
    assert {name for name in missing if not ENTRIES.fullmatch(name)} == set()


def test_entry_functions_are_sources(named: set[str]) -> None:
    sources = " ".join([*(rule.source for rule in RULES.values()), *(row.source for row in isa.BUNDLES)])
    assert {name for name in named if ENTRIES.fullmatch(name) and name not in sources} == set()


def test_exceptions_are_needed(named: set[str], carried: set[str]) -> None:
    assert {name for name in EXCEPTIONS if name not in named or name in carried} == set()
