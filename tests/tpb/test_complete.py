"""What every instruction, mode, address form and stream of the leg is to have, one row each."""

from __future__ import annotations

import doctest
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lanefold.tpb as tpb
from lanefold.diagnostics import LanefoldError
from lanefold.tpb import bir, isa
from lanefold.tpb.binary import detect_reading, encode_columns
from lanefold.tpb.instruction import Sync
from tests.tpb.rule_bundles import bundle

X = tpb.Access("SB", 0, 0, "float32", ((64, 32), (1, 64)), "x")
Y = tpb.Access("SB", 0, 0x8000, "float32", ((64, 32), (1, 64)), "y")
WAITS = {value.number: value.name for value in isa.ENUMS["wait_mode"]}
UPDATES = {value.number: value.name for value in isa.ENUMS["update_mode"]}


def fields(stream: tpb.Stream) -> dict[str, Any]:
    return stream[0].to_dict()


# ------------------------------------------------------------------------------------------------------------ events


@pytest.mark.parametrize("mode", WAITS)
def test_every_wait_mode_on_every_way(mode: int) -> None:
    made = tpb.Instruction("Reciprocal", (X,), (Y,), engine="DVE", sync=Sync(wait_mode=mode, wait_index=17, value=3))
    through_every_form(made, {"wait_mode": mode, "wait_idx": 17}, uses_value=mode in isa.WAIT_NEEDS_VALUE)


@pytest.mark.parametrize("mode", UPDATES)
def test_every_update_mode_on_every_way(mode: int) -> None:
    made = tpb.Instruction(
        "Reciprocal", (X,), (Y,), engine="DVE", sync=Sync(update_mode=mode, update_index=18, value=3)
    )
    through_every_form(made, {"update_mode": mode, "update_idx": 18}, uses_value=mode in isa.UPDATE_NEEDS_VALUE)


def through_every_form(made: tpb.Instruction, wanted: dict[str, int], *, uses_value: bool) -> None:
    """Typed instruction, bytes, text, BIR JSON: the events survive each step."""
    stream = tpb.encode(made)
    found = fields(stream)
    assert {name: found[name] for name in wanted} == wanted
    assert found["semaphore_value"] == (3 if uses_value else 0)
    assert tpb.assemble(tpb.disassemble(stream)) == stream
    again = bir.load(bir.dump(bir.from_instructions(made)))
    assert tpb.encode(again) == stream
    assert not [finding for finding in tpb.check(stream) if finding.severity != "info"]


def test_the_value_of_an_events_block_is_shared() -> None:
    # A wait and an update of one bundle have one operand: equal values pass, different ones are refused.
    def record(wait: int, update: int, mode: str) -> dict[str, Any]:
        operand = {"kind": "register_ap", "ap": [[64, 32], [1, 64]], "dtype": "float32", "regref": "r1"}
        sync = {
            "on_wait": [{"id": 1, "wait_value": wait}],
            "on_update": [{"id": 2, "update_value": update, "mode": mode}],
        }
        return {"opcode": "Reciprocal", "engine": "DVE", "ins": [operand], "outs": [operand], "sync_info": sync}

    for wait, update, mode in ((3, 3, "SEM_ADD_IMM_COMPLETE"), (3, 9, "SEM_INC_COMPLETE"), (3, 9, "EVT_SET_READ")):
        found = fields(tpb.encode(bir.instruction(record(wait, update, mode), {})))
        assert (found["wait_mode"], found["semaphore_value"]) == (5, 3)
    for mode in ("SEM_ADD_IMM_COMPLETE", "SEM_WR_IMM_READ", "SEM_SUB_REG_READ"):
        with pytest.raises(LanefoldError) as caught:
            bir.instruction(record(3, 9, mode), {})
        assert caught.value.diagnostics[0].code == "TPB-SYNC-SHARED-VALUE"


# ------------------------------------------------------------------------------------------------------ address forms

FORMS = {
    "immediate": 0x00001000,
    "immediate in PSUM": 0x02201840,
    "register": 0x80000005,
    "shape register": 0x40001000,
    "register and shape register": 0xC0000005,
    "indirect": 0x20003000,
    "indirect, index address in a register": 0xA0000005,
    "indirect and shape register": 0x60001000,
    "all markers": 0xE0000005,
}


@pytest.mark.parametrize("generation", isa.GENERATIONS)
@pytest.mark.parametrize("name", FORMS)
def test_every_form_of_an_address_survives_and_is_told(name: str, generation: str) -> None:
    stream = tpb.decode(bundle("tensor_reduce_arith", **{"src.start_addr": FORMS[name]}), generation)
    assert tpb.assemble(tpb.disassemble(stream)) == stream
    source = fields(stream)["src"]
    assert source["start_addr"] == FORMS[name]
    indirect = generation == "v4" and FORMS[name] & isa.INDIRECT_BIT
    wanted = "indirect" if indirect else "shape_register" if FORMS[name] & isa.SHAPE_REGISTER_BIT else None
    if wanted is None:
        wanted = "register" if FORMS[name] & isa.ADDRESS_REGISTER_BIT else "immediate"
    assert source["address"] == wanted
    if indirect and FORMS[name] & isa.ADDRESS_REGISTER_BIT:
        assert source["index"] == {"register": 5}
    assert tpb.explain(stream[0]).to_text()


@pytest.mark.parametrize(
    ("name", "generation", "legal"),
    [
        ("immediate", "v2", True),
        ("register", "v2", True),
        ("shape register", "v2", True),
        ("register and shape register", "v3", True),
        ("indirect", "v3", False),
        ("indirect, index address in a register", "v3", False),
        ("indirect and shape register", "v4", False),
        ("all markers", "v4", False),
    ],
)
def test_which_forms_of_an_address_are_legal(name: str, generation: str, legal: bool) -> None:
    stream = tpb.decode(bundle("tensor_reduce_arith", **{"src.start_addr": FORMS[name]}), generation)
    wrong = [finding.code for finding in tpb.check(stream) if finding.severity == "error"]
    assert bool(wrong) is not legal, wrong


# ------------------------------------------------------------------------------------------------------- instructions


def test_max_pool_select_is_read_checked_and_executed() -> None:
    stream = tpb.decode(bundle("max_pool_select"))
    assert stream[0].mnemonic == "MaxPoolSelect"
    assert not [finding for finding in tpb.check(stream) if finding.severity == "error"]
    # Windows of 4 in a row of 8: the places of the largest element, the first of equal ones.
    columns = {
        "src.start_addr": 0,
        "src.step_elem": [[1, 1, 4, 1]],
        "src.num_elem": [[4, 1, 2, 1]],
        "dst.start_addr": 0x100,
        "dst.step_elem": [[1, 1, 1, 1]],
        "dst.num_elem": [[2, 1, 1, 1]],
        "in_dtype": 10,
        "out_dtype": 9,
        "num_active_channels": 1,
        "pool_dim": 3,
        "pool_scale": 1.0,
    }
    made = encode_columns("max_pool_select", columns)
    machine = tpb.Machine("v2")
    machine.sbuf[0, :32] = np.array([3, 9, 9, 1, -4, -5, -2, -3], np.float32).view(np.uint8)
    machine.run(made)
    assert machine.sbuf[0, 0x100:0x108].view(np.uint32).tolist() == [1, 2]


@pytest.mark.parametrize(
    ("name", "opcode", "op"), [("tensor_reduce_add_bf16", 0x8C, 4), ("tensor_reduce_max_bf16", 0x8D, 8)]
)
def test_the_fast_bfloat16_reduces_exist_on_v2_and_on_request(name: str, opcode: int, op: int) -> None:
    stream = tpb.decode(bundle(name))
    assert stream.tobytes()[0] == opcode
    assert not [finding for finding in tpb.check(stream) if finding.severity == "error"]
    text = tpb.disassemble(stream)
    assert tpb.assemble(text) == stream
    for generation in ("v3", "v4"):
        found = [finding.code for finding in tpb.check(stream.tobytes(), generation)]
        assert found[0] == "TPB-OPCODE"
        with pytest.raises(LanefoldError, match="v2"):
            tpb.assemble(text.replace(".generation v2", f".generation {generation}"))
    # A reduction that the fast form could take is never given it unasked.
    source = tpb.Access("SB", 0, 0, "bfloat16", ((64, 32), (1, 64)), "x")
    out = tpb.Access("SB", 0, 0x8000, "bfloat16", ((1, 32), (1, 1)), "y")
    plain = tpb.Instruction("TensorReduce", (source,), (out,), {"op": "add" if op == 4 else "max", "axis": "X"})
    assert tpb.encode(plain)[0].opcode == 0x7C


# ------------------------------------------------------------------------------------------------------------ modules


def module(*records: dict[str, Any]) -> bir.Module:
    return bir.load({"functions": [{"name": "f", "blocks": [{"instructions": list(records)}]}]})


def test_the_three_modes_of_the_code_generator() -> None:
    operand = {"kind": "register_ap", "ap": [[64, 32], [1, 64]], "dtype": "float32", "regref": "r1"}
    eight = {**operand, "ap": [[8, 32], [1, 8]]}
    copy = {"opcode": "Reciprocal", "engine": "DVE", "ins": [operand], "outs": [operand]}
    made = module(copy, copy, {"opcode": "Max", "engine": "DVE", "ins": [operand], "outs": [eight]})
    with pytest.raises(LanefoldError, match="TPB-OPERAND-REGISTER-START"):
        bir.generate(made, "COLLECT_OPCODES")
    made = module(copy, copy, {**copy, "engine": "Pool"})
    collected = bir.generate(made, 0)
    assert collected.census == {"Reciprocal": 3}
    assert collected.opcodes == {0x48: 3}
    assert collected.engines == {"Pool": 1, "DVE": 2}
    assert (collected.streams, collected.findings) == ({}, [])
    assert bir.generate(made).streams == made.streams()
    checked = bir.generate(made, bir.CodeGenMode.RUN_ISA_CHECKS)
    assert {finding.code for finding in checked.findings} == {"TPB-ENGINE"}
    assert checked.streams == {}


def test_file_names_of_streams() -> None:
    operand = {"kind": "register_ap", "ap": [[64, 32], [1, 64]], "dtype": "float32", "regref": "r1"}
    records = [
        {"opcode": "Reciprocal", "engine": engine, "ins": [operand], "outs": [operand]} for engine in isa.STREAM_ENGINES
    ]
    assert set(module(*records).streams()) == {"PE.bin", "Pool.bin", "Activation.bin", "SP.bin", "DVE.bin"}


@pytest.mark.parametrize(
    ("names", "told"),
    [
        ((), "opcodes reference: no bundle tells the readings apart, the default is used"),
        (("tensor_reduce_arith",), "opcodes headers: 1 bundle fits headers only"),
        (("tensor_reduce_arith",) * 2, "opcodes headers: 2 bundles fit headers only"),
    ],
)
def test_the_reading_found_says_why(names: tuple[str, ...], told: str) -> None:
    raw = b"".join(bundle(name, "headers") for name in names)
    stream = tpb.decode(raw, "v2", "auto")
    assert str(detect_reading(stream.words, "v2")) == told


# --------------------------------------------------------------------------------------------------- documentation

PAGE = Path(__file__).parents[2] / "docs" / "bir.md"


def test_examples_of_the_page_on_bir_json() -> None:
    outcome = doctest.testfile(str(PAGE), module_relative=False)
    assert outcome.attempted > 4
    assert outcome.failed == 0


def test_the_record_of_the_page_is_legal() -> None:
    (text,) = re.findall(r"```json\n(.*?)```", PAGE.read_text(), re.DOTALL)
    place = {"type": "SB", "base": 0, "bank": 0, "dims": [128, 4096]}
    places = {
        "data": {**place, "addr": 0, "dtype": "bfloat16"},
        "index": {**place, "addr": 0x4000, "dtype": "uint32"},
        "sum": {**place, "addr": 0x8000, "dtype": "float32"},
    }
    made = bir.instruction(json.loads(text), places)
    assert not [finding for finding in tpb.check(made, "v4") if finding.severity == "error"]
    assert tpb.encode(made, "v4")[0]["src"]["num_elem"] == 64
