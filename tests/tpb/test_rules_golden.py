"""The reference data: every illegal case is found, no legal one is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import lanefold.tpb as tpb
from lanefold.diagnostics import Diagnostic, LanefoldError, errors

# Which of our rules speak of the fact that a case breaks.
SPOKEN_BY = {
    "pool_function": {"TPB-POOL-FUNCTION"},
    "dtype_fp4_illegal_check": {"TPB-DTYPE-FP4"},
    "psum_write_4_bytes": {"TPB-PSUM-WRITE"},
    "start_addr_active_channels": {"TPB-START-PARTITION"},
    "step_fits_i16": {"TPB-PATTERN-STEP"},
    "start_addr_aligned": {"TPB-ALIGNMENT"},
    "operand_on_chip": {"TPB-OPERAND-ON-CHIP"},
    "tensor_reduce_valid_alu_op": {"TPB-REDUCE-ALU-CLASS"},
    "alu_op_generation": {"TPB-REDUCE-WIRE"},
    "tensor_reduce_valid_dtype": {"TPB-REDUCE-BITVEC-DTYPE"},
    "known_alu_op": {"TPB-REDUCE-OPERATOR"},
    "dst_element_count_8": {"TPB-SEARCH-EIGHT"},
    "pattern_rank": {"TPB-SEARCH-RANK"},
    "has_find_index8_dst_type": {"TPB-FIND-INDEX-DTYPE"},
    "dtype_fp32r_illegal_check": {"TPB-DTYPE-FP32R"},
    "d4_iota_same_src_dst_count": {"TPB-IOTA-COUNT"},
    "operand_must_be_in_sbuf": {"TPB-OPERAND-PLACEMENT"},
    "dtype_int64_illegal_check": {"TPB-DTYPE-64BIT"},
    "is_valid_enum_dtype": {"TPB-DTYPE-TAG"},
    "valid_subdim": {"TPB-POOL-DIM", "TPB-REDUCE-DIM"},
    "has_valid_active_channel_range": {"TPB-CHANNELS"},
    "num_elem_not_zero": {"TPB-PATTERN-NUM"},
    "s4d4_tr_reserved_zero": {"TPB-RESERVED-S4D4-TR"},
    "s4d4_cr_reserved_zero": {"TPB-RESERVED-S4D4-CR"},
    "valid_reduce_op_for_opcode": {"TPB-CROSS-LANE-COMMAND"},
    "s4d2_bn_reserved_zero": {"TPB-RESERVED-S4D2-BN"},
    "s4d2_bn_zero_counts": {"TPB-SEARCH-EVEN-COUNT", "TPB-SEARCH-ODD-COUNT"},
    "s2_bn_reserved_zero": {"TPB-RESERVED-S2-BN"},
    "d4_gt_reserved_z": {"TPB-RESERVED-S4D4-GT"},
}


@pytest.fixture(scope="module")
def vectors(reference_data: Path) -> dict[str, list[dict[str, Any]]]:
    loaded: dict[str, list[dict[str, Any]]] = json.loads((reference_data / "golden/tpb/vectors.json").read_text())
    return loaded


def findings(case: dict[str, Any], reading: str) -> list[Diagnostic]:
    if case["level"] == "bundle":
        return tpb.check(case["bundle"][reading], case["gen"], reading)
    try:
        return tpb.check(tpb.bir.instruction(case["bir"], case["allocations"]), case["gen"], reading)
    except LanefoldError as error:
        return list(error.diagnostics)


def test_every_illegal_case_is_found_by_the_rule_that_it_breaks(vectors: dict[str, list[dict[str, Any]]]) -> None:
    for case in vectors["illegal"]:
        for reading in case["maps"]:
            codes = {finding.code for finding in errors(findings(case, reading))}
            assert codes & SPOKEN_BY[case["rule"]], (case["id"], reading, codes)


def test_legal_instructions_and_bundles_have_no_errors(vectors: dict[str, list[dict[str, Any]]]) -> None:
    for case in vectors["encode"]:
        made = tpb.bir.instruction(case["bir"], case["allocations"])
        for reading, bundles in case["bundles"].items():
            found = tpb.check(made, case["gen"], reading)
            if bundles is None:
                assert errors(found), case["id"]
                continue
            found += tpb.check("".join(bundles), case["gen"], reading)
            assert not errors(found), (case["id"], [finding.message for finding in found])


def test_executed_programs_have_no_errors(vectors: dict[str, list[dict[str, Any]]]) -> None:
    for case in vectors["execute"]:
        made = [tpb.bir.instruction(bir, case["allocations"]) for bir in case["bir"]]
        for reading in ("reference", "headers"):
            assert not errors(tpb.check(made, case["gen"], reading)), case["id"]


def test_decoded_bundles_have_no_errors(vectors: dict[str, list[dict[str, Any]]]) -> None:
    for case in vectors["decode"]:
        assert not errors(tpb.check(case["hex"], case["gen"], case["map"])), case["id"]
