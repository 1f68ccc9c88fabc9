"""BIR modules: nothing lost on the way through, program order, one stream per engine."""

from __future__ import annotations

import copy
import json
import math
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lanefold import tpb
from lanefold.diagnostics import LanefoldError, Severity
from lanefold.tpb import bir
from lanefold.tpb.instruction import Instruction, Sync
from lanefold.tpb.patterns import Access


def operand(name, ap, dtype="float32", **more):
    return {"kind": "physical_ap", "ap": ap, "dtype": dtype, "memref": name, "memsetref": f"{name}_set", **more}


def location_set(name, dtype="float32", **more):
    location = {"Skind": "memory_location", "name": name, "type": "SB", "addr": 0, "base": 0, "dims": [128, 4096]}
    return {
        "Skind": "memory_location_set",
        "name": f"{name}_set",
        "dtype": dtype,
        "kind": "Internal",
        "tensor_class": "NeuronSBTensor",
        "memorylocations": [location | more],
    }


REDUCE = {
    "opcode": "TensorReduce",
    "name": "I-1",
    "engine": "DVE",
    "op": "add",
    "axis": "XY",
    "negate": False,
    "apply_transpose": False,
    "ins": [operand("t0", [[512, 128], [16, 8], [1, 16]], "bfloat16", offset=0)],
    "outs": [operand("t1", [[1, 128], [1, 1]], offset=0)],
}
POOL = {
    "opcode": "Pool",
    "name": "I-2",
    "engine": "Pool",
    "func": "Max",
    "ins": [operand("t1", [[64, 128], [8, 2], [2, 2], [4, 2], [1, 2]])],
    "outs": [operand("t2", [[4, 128], [2, 2], [1, 2]])],
}
ARGMAX = {
    "opcode": "MaxIndex",
    "name": "I-3",
    "engine": "DVE",
    "ins": [operand("t2", [[8, 128], [1, 8]]), operand("t1", [[64, 128], [1, 64]])],
    "outs": [operand("t3", [[8, 128], [1, 8]], "uint32")],
}
OTHER = {"opcode": "Activation", "name": "I-4", "engine": "Activation", "func": "Exp", "bias": {"kind": "imm_value"}}


def module(instructions=(REDUCE, OTHER, POOL, ARGMAX), **more):
    return {
        "arch": "gen3",
        "version": 2,
        "attributes": {"neuron_core_id": 0},
        "queues": [{"name": "q", "depth": 4}],
        "functions": [
            {
                "name": "sg0000",
                "attributes": [{"need_dce": True}],
                "allocations": [
                    location_set("t0", "bfloat16", addr=0x100),
                    location_set("t1", addr=0x2000),
                    location_set("t2", type="PSUM", bank=3, addr=0x40),
                    location_set("t3", "uint32", addr=0x6000, base=0),
                    {"Skind": "something_else", "name": "kept"},
                ],
                "blocks": [{"name": "b0", "instructions": [copy.deepcopy(dict(i)) for i in instructions]}],
            }
        ],
        **more,
    }


# ------------------------------------------------------------------------------------------ in and out


def test_nothing_is_lost():
    content = module()
    loaded = bir.load(content)
    assert loaded.to_dict() == content
    assert json.loads(bir.dump(loaded)) == content
    assert bir.load(bir.dump(loaded)).to_dict() == content
    assert content == module(), "the dictionary given is left alone"


def test_the_style_is_sorted_keys_and_two_blanks():
    text = bir.dump(bir.load(module())).decode()
    assert text == json.dumps(module(), sort_keys=True, indent=2) + "\n"


def test_paths_bytes_and_text_are_read(tmp_path):
    path = tmp_path / "module.json"
    bir.dump(bir.load(module()), path)
    for source in (path, str(path), path.read_bytes(), bytearray(path.read_bytes()), path.read_text()):
        assert bir.load(source).to_dict() == module()


def test_defaults_are_skipped_where_they_were_not_written():
    bare = {"functions": [{"blocks": [{"instructions": [{"opcode": "Iota", "ins": [], "outs": []}]}]}]}
    loaded = bir.load(bare)
    assert loaded.to_dict() == bare
    record = loaded.functions[0].blocks[0].instructions[0]
    assert isinstance(record, bir.InstructionRecord)
    assert (record.engine, record.name, loaded.arch) == ("Unassigned", "", "")
    record.name = "I-9"
    assert loaded.to_dict()["functions"][0]["blocks"][0]["instructions"][0]["name"] == "I-9"


def test_typed_containers():
    loaded = bir.load(module())
    function = loaded.functions[0]
    assert [type(entry).__name__ for entry in function.blocks[0].instructions] == [
        "InstructionRecord",
        "Other",
        "InstructionRecord",
        "InstructionRecord",
    ]
    assert function.locations()["t2"].bank == 3
    assert function.locations()["t3"].dtype == "uint32"
    assert loaded.generation() == "v3"
    assert loaded.generation("v3") == "v3"
    with pytest.raises(LanefoldError, match="is for 'gen3', which is v3, and the call says v2"):
        loaded.generation("v2")


def test_floats_without_a_json_form_are_strings():
    replace = {
        "opcode": "MatchReplace",
        "engine": "DVE",
        "imm_value": "-inf",
        "ins": [operand("t2", [[8, 128], [1, 8]]), operand("t1", [[64, 128], [1, 64]])],
        "outs": [operand("t1", [[64, 128], [1, 64]])],
    }
    loaded = bir.load(module([replace]))
    stream = loaded.streams()["DVE.bin"]
    assert struct.unpack_from("<f", stream.tobytes(), 64 + 0x28) == (-math.inf,)
    assert loaded.to_dict() == module([replace])
    given_float = module([{**replace, "imm_value": math.nan}])
    assert bir.load(given_float).to_dict() == module([{**replace, "imm_value": "nan"}])


# ------------------------------------------------------------------------------------------ program order, streams


def test_streams_by_engine_in_program_order():
    loaded = bir.load(module())
    assert [i.opcode for i in loaded.instructions()] == ["TensorReduce", "Pool", "MaxIndex"]
    streams = loaded.streams()
    assert list(streams) == ["Pool.bin", "DVE.bin"]
    assert [bundle.mnemonic for bundle in streams["DVE.bin"]] == ["TensorReduceArithOp", "MatchValueLoad", "FindIndex8"]
    assert streams["DVE.bin"].engine == "DVE"
    assert streams["Pool.bin"].generation == "v3"
    places = {
        s["memorylocations"][0]["name"]: s["memorylocations"][0] for s in module()["functions"][0]["allocations"][:4]
    }
    expected = [tpb.encode(bir.instruction(i, places), "v3").tobytes() for i in (REDUCE, ARGMAX)]
    assert streams["DVE.bin"].tobytes() == b"".join(expected)
    assert streams["DVE.bin"].origin.tolist() == [0, 1, 1]
    assert tpb.encode(loaded, "v3").tobytes().startswith(expected[0])
    assert loaded.streams("v3", "headers")["DVE.bin"][0].opcode == 0x42


def test_loops_are_kept_and_unrolled_in_order():
    loop = {
        "opcode": "Loop",
        "name": "L",
        "LoopAxis": {"name": "i", "lb": 1, "ub": 8, "stride": 3, "extra": 1},
        "blocks": [{"name": "inner", "instructions": [POOL, OTHER]}, {"name": "second", "instructions": [REDUCE]}],
        "note": "kept",
    }
    content = module([REDUCE, loop, POOL])
    loaded = bir.load(content)
    assert loaded.to_dict() == content
    body = ["Pool", "TensorReduce"]
    assert [i.opcode for i in loaded.instructions()] == ["TensorReduce", *body * 3, "Pool"]
    assert len(loaded.streams()["Pool.bin"]) == 4


@pytest.mark.parametrize(
    ("axis", "trips"),
    [
        ({"lb": 0, "ub": 4, "stride": 1}, 4),
        ({"lb": 4, "ub": 0, "stride": -2}, 2),
        ({"lb": 4, "ub": 4, "stride": 1}, 0),
        ({"ub": 3}, 3),
        ({"lb": 0, "ub": 10**9, "stride": 1}, None),
        ({"lb": 0, "ub": 4, "stride": 0}, None),
        ({"lb": 0, "ub": "n", "stride": 1}, None),
        ({"lb": 0, "ub": {"affine": 1}}, None),
    ],
)
def test_loop_bounds(axis, trips):
    loop = {"opcode": "Loop", "LoopAxis": axis, "blocks": [{"instructions": [POOL]}]}
    loaded = bir.load(module([loop]))
    if trips is None:
        with pytest.raises(LanefoldError, match="TPB-BIR-LOOP"):
            loaded.instructions()
        loop["blocks"][0]["instructions"] = [OTHER]
        assert bir.load(module([loop])).instructions() == []
    else:
        assert len(loaded.instructions()) == trips


def test_other_operations_and_keys_are_reported_once_each():
    reduce = REDUCE | {"negat": True, "debug": {"line": 3}}
    found = bir.load(module([reduce, OTHER, OTHER, POOL])).findings()
    assert [(f.code, f.severity) for f in found] == [
        ("TPB-BIR-UNKNOWN-OPCODE", Severity.WARNING),
        ("TPB-BIR-UNKNOWN-KEY", Severity.WARNING),
    ]
    assert found[0].message.startswith("2 instructions 'Activation'")
    assert found[1].cures[0].text == "write 'negate'"
    assert bir.load(module([REDUCE, POOL])).findings() == []


def test_modes_of_the_code_generator():
    loaded = bir.load(module())
    census = {"Pool": 1, "TensorReduceArithOp": 1, "MatchValueLoad": 1, "FindIndex8": 1}
    collected = bir.generate(loaded, bir.CodeGenMode.COLLECT_OPCODES)
    assert (collected.census, collected.streams) == (census, {})
    made = bir.generate(loaded)
    assert made.streams["Pool.bin"] == loaded.streams()["Pool.bin"]
    seen = []
    checked = bir.generate(loaded, bir.CodeGenMode.RUN_ISA_CHECKS, check=lambda s: seen.append(s.engine) or [])
    assert (seen, checked.findings, checked.streams) == (["Pool", "DVE"], [], {})


# ------------------------------------------------------------------------------------------ operands


def with_source(source, base=REDUCE, **more):
    return module([{**base, "ins": [source], **more}])


def test_register_addresses():
    source = {"kind": "register_ap", "ap": [[512, 128], [16, 8], [1, 16]], "dtype": "bfloat16", "memsetref": "t0_set"}
    for reference, number in (("r5", 5), (7, 7), ("63", 63), ("reg_a", 9)):
        content = with_source({**source, "regref": reference})
        content["functions"][0]["allocations"].append(
            {"Skind": "memory_location", "name": "reg_a", "type": "REG", "addr": 9}
        )
        loaded = bir.load(content)
        assert loaded.to_dict() == content
        word = loaded.streams()["DVE.bin"].tobytes()
        assert word[12:16] == bytes([number, 0, 0, 0x80])
        assert struct.unpack_from("<4h4H", word, 16) == (1, 16, 1, 1, 16, 8, 1, 1)
    for wrong in ({"regref": "r64"}, {"regref": "t0"}, {"regref": -1}, {"regref": "r1", "reg_ap_offset": "r2"}):
        with pytest.raises(LanefoldError, match=r"TPB-(OPERAND|ADDRESS)-REGISTER"):
            bir.load(with_source({**source, **wrong})).streams()


def test_register_addresses_cannot_be_walked_backwards():
    keys = {"kind": "register_ap", "ap": [[8, 128], [1, 8]], "dtype": "float32", "regref": "r5"}
    argmax = {**ARGMAX, "ins": [keys, ARGMAX["ins"][1]]}
    with pytest.raises(LanefoldError, match="TPB-OPERAND-REGISTER-START"):
        bir.load(module([argmax])).streams()


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ({"kind": "symbolic_ap", "ap": [[1, 1]], "dtype": "float32", "addrs": ["i"]}, "TPB-BIR-OPERAND-KIND"),
        ({"kind": "imm_value", "dtype": "float32", "value": 1.5}, "TPB-BIR-OPERAND-KIND"),
        ({"kind": "imm_array", "dtype": "float32", "value_array": [1]}, "TPB-BIR-OPERAND-KIND"),
        ({"kind": "symbolic_imm_value", "value_list": [{"value": 1}], "expr": "x"}, "TPB-BIR-OPERAND-KIND"),
        ({"kind": "register_access", "dtype": "int32", "regref": "a"}, "TPB-BIR-OPERAND-KIND"),
        ({"kind": "new_kind", "anything": {"deep": [1]}}, "TPB-BIR-OPERAND-KIND"),
        (operand("t0", [[512, 128], [1, 16]], "bfloat16", dynamic_ap_info={"x": 1}), "TPB-BIR-OPERAND-KIND"),
        (operand("t9", [[512, 128], [1, 16]], "bfloat16"), "TPB-BIR-MEMREF"),
        (operand("t0", [[512, 128], [1, 16]], "float32"), "TPB-OPERAND-DTYPE"),
    ],
)
def test_other_operand_kinds_are_kept_and_refused_when_encoding(source, code):
    content = with_source(source)
    loaded = bir.load(content)
    assert loaded.to_dict() == content
    with pytest.raises(LanefoldError) as caught:
        loaded.streams()
    assert [found.code for found in caught.value.diagnostics] == [code]
    assert caught.value.diagnostics[0].place.instruction == "I-1"


def test_all_wrong_instructions_are_reported():
    wrong = {**POOL, "ins": [operand("t8", [[1, 1]])]}
    dram = {**POOL, "outs": [operand("t9", [[1, 1]])]}
    with pytest.raises(LanefoldError) as caught:
        bir.load(module([wrong, REDUCE, dram])).streams()
    assert len(caught.value.diagnostics) == 2


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"predicates": ["p"]}, "TPB-BIR-UNCONDITIONAL"),
        ({"indirection_ins": [{"kind": "physical_ap"}]}, "TPB-BIR-FORM"),
        ({"engine": "DMA"}, "TPB-BIR-ENGINE"),
        ({"engine": "Unassigned"}, "TPB-BIR-ENGINE"),
        ({"engine": "Vector"}, "TPB-BIR-ENGINE"),
        ({"op": "ad"}, "TPB-REDUCE-OPERATOR"),
        ({"axis": "Q"}, "TPB-REDUCE-AXIS"),
        ({"sync_info": {"on_wait": [{"id": 1}, {"id": 2}]}}, "TPB-SYNC-ONE"),
        ({"sync_info": {"on_wait": [{"id": 256, "wait_value": 1}]}}, "TPB-SYNC-FIELD"),
        ({"sync_info": {"on_wait": [{"id": 1, "wait_value": 2**32}]}}, "TPB-SYNC-FIELD"),
        ({"sync_info": {"on_wait": 3}}, "TPB-BIR-FORM"),
        ({"sync_info": [1]}, "TPB-BIR-FORM"),
        ({"sync_info": {"on_update": [{"id": 1, "mode": "NO"}]}}, "TPB-BIR-FORM"),
    ],
)
def test_instructions_that_cannot_be_expressed(change, code):
    loaded = bir.load(module([{**REDUCE, **change}]))
    with pytest.raises(LanefoldError) as caught:
        loaded.streams()
    assert caught.value.diagnostics[0].code in (code, "TPB-BIR-KEY")
    assert loaded.to_dict() == module([{**REDUCE, **change}])


def test_unknown_architectures():
    with pytest.raises(LanefoldError, match="TPB-BIR-ARCH"):
        bir.load(module(arch="gen5")).streams()
    assert bir.load(module(arch="gen5")).streams("v4")
    assert bir.load(module(arch="")).generation() == "v2"


# ------------------------------------------------------------------------------------------ malformed input


def drop(path):
    """The module without one key."""
    content = module()
    target = content
    for part in path[:-1]:
        target = target[part]
    del target[path[-1]]
    return content


FIRST = ("functions", 0, "blocks", 0, "instructions", 0)


@pytest.mark.parametrize(
    "path",
    [
        ("functions",),
        ("functions", 0, "blocks"),
        ("functions", 0, "blocks", 0, "instructions"),
        (*FIRST, "opcode"),
        (*FIRST, "ins"),
        (*FIRST, "outs"),
        (*FIRST, "ins", 0, "kind"),
        (*FIRST, "ins", 0, "ap"),
        (*FIRST, "ins", 0, "dtype"),
        (*FIRST, "ins", 0, "memref"),
        ("functions", 0, "allocations", 0, "name"),
        ("functions", 0, "allocations", 0, "memorylocations", 0, "type"),
    ],
)
def test_required_keys_are_required(path):
    with pytest.raises(LanefoldError, match="TPB-BIR-FORM"):
        bir.load(drop(path))


@pytest.mark.parametrize(
    "path",
    [
        ("arch",),
        ("version",),
        ("attributes",),
        ("queues",),
        ("functions", 0, "name"),
        ("functions", 0, "attributes"),
        ("functions", 0, "blocks", 0, "name"),
        (*FIRST, "name"),
        (*FIRST, "engine"),
        (*FIRST, "negate"),
        (*FIRST, "ins", 0, "offset"),
        (*FIRST, "ins", 0, "memsetref"),
        ("functions", 0, "allocations", 0, "kind"),
        ("functions", 0, "allocations", 0, "memorylocations", 0, "dims"),
    ],
)
def test_optional_keys_are_optional(path):
    content = drop(path)
    assert bir.load(content).to_dict() == content


@pytest.mark.parametrize(
    "source",
    [b"", b"{", b"[]", b"3", b"\xff\xfe", b'{"functions": [' + b"[" * 100_000, "{", {}, {"functions": 3}, 7, None, []],
)
def test_what_is_no_module_is_refused(source):
    with pytest.raises(LanefoldError) as caught:
        bir.load(source)
    assert caught.value.usage


@pytest.mark.parametrize("path", ["/no/such/file.json", "", "a\0b", Path("/")])
def test_unreadable_paths_are_refused(path):
    with pytest.raises(LanefoldError, match="TPB-BIR-FILE"):
        bir.load(path)


def test_values_without_a_json_form_are_refused():
    for value in (object(), {1: 2}, {"a": {3}}):
        with pytest.raises(LanefoldError, match="TPB-BIR-FORM"):
            bir.load(module(extra=value))
    assert bir.load(module(extra=(np.int64(3), np.float32(np.inf)))).to_dict()["extra"] == [3, "inf"]


def test_a_file_that_cannot_be_written(tmp_path):
    with pytest.raises(LanefoldError, match="TPB-BIR-FILE"):
        bir.dump(bir.load(module()), tmp_path / "no" / "such" / "folder.json")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)


@st.composite
def damaged(draw):
    """A module in which some values are replaced, removed or added."""
    content = module([REDUCE, POOL, ARGMAX, {"opcode": "Loop", "LoopAxis": {"ub": 2}, "blocks": []}])
    for _ in range(draw(st.integers(1, 3))):
        target = content
        for _ in range(draw(st.integers(0, 12))):
            inner = [
                v
                for v in (target.values() if isinstance(target, dict) else target)
                if v and isinstance(v, (dict, list))
            ]
            if not inner:
                break
            target = draw(st.sampled_from(inner))
        keys = sorted(target) if isinstance(target, dict) else list(range(len(target)))
        key = draw(st.sampled_from(keys)) if keys else None
        if key is None or draw(st.integers(0, 4)) == 0:
            if isinstance(target, dict):
                target[draw(st.text(max_size=5))] = draw(JSON)
        elif draw(st.booleans()):
            target[key] = draw(JSON)
        else:
            del target[key]
    return content


@given(damaged(), st.sampled_from(["v2", "v3", "v4"]), st.sampled_from(["reference", "headers"]))
@settings(max_examples=300, deadline=None)
def test_damaged_modules_survive_or_are_refused(content, generation, opcodes):
    try:
        loaded = bir.load(content)
    except LanefoldError:
        return
    written = bir.dump(loaded)
    assert bir.dump(bir.load(written)) == written
    assert bir.load(written).to_dict() == loaded.to_dict()
    loaded.findings()
    try:
        loaded.streams(generation, opcodes)
    except LanefoldError as error:
        refused = error.diagnostics
    else:
        refused = ()
    assert all(found.message and found.cures for found in refused)


@given(st.binary(max_size=80) | JSON.map(lambda value: json.dumps(value).encode()))
@settings(max_examples=150, deadline=None)
def test_any_bytes_are_a_module_or_refused(content):
    try:
        loaded = bir.load(content)
    except LanefoldError:
        return
    bir.dump(loaded)


# ------------------------------------------------------------------------------------------ from instructions


def test_instructions_become_a_module_and_back():
    loaded = bir.load(module())
    first = [
        *loaded.instructions(),
        Instruction(
            "Reciprocal",
            (Access("PSUM", 32, 5000, "float32", ((64, 32), (2, 16))),),
            (Access("SB", 0, 0, "float32", ((16, 32), (1, 16)), register=4),),
            engine="DVE",
            sync=Sync(0x05, 17, 0x13, 18, 3),
        ),
    ]
    made = bir.from_instructions(first, "v3")
    assert made.arch == "gen3"
    again = bir.load(bir.dump(made))
    for opcodes in ("reference", "headers"):
        assert tpb.encode(again, "v3", opcodes) == tpb.encode(first, "v3", opcodes)
    record = json.loads(bir.dump(made))
    sets = record["functions"][0]["allocations"]
    assert [s["memorylocations"][0]["name"] for s in sets] == ["t0", "t1", "t2", "t3", "t4"]
    assert sets[4]["memorylocations"][0] | {"name": ""} == {
        "Skind": "memory_location",
        "name": "",
        "type": "PSUM",
        "addr": 904,
        "bank": 2,
        "base": 32,
        "dims": [32, 124],
    }


def indirect_reduce(**changes):
    """A sum over 64 elements that indices name, as a module for v4."""
    where = {"Skind": "memory_location", "type": "SB", "base": 0, "bank": 0, "dims": [128, 4096]}
    places = [
        {**where, "name": "data", "addr": 0x8000, "dtype": "bfloat16"},
        {**where, "name": "index", "addr": 0x3000, "dtype": "uint32"},
        {**where, "name": "sum", "addr": 0x9000, "dtype": "float32"},
    ]

    def operand(name, dtype, elements, **more):
        ap = [[elements, 128], [1, elements]]
        return {"kind": "physical_ap", "ap": ap, "dtype": dtype, "memref": name, "offset": 0, **more}

    data = operand("data", "bfloat16", 64, tensor_indirect_arg_id=0, num_tensor_indirect_indices=64)
    record = {
        "opcode": "TensorReduce",
        "engine": "DVE",
        "op": "add",
        "axis": "X",
        "ins": [data],
        "outs": [operand("sum", "float32", 1)],
        "indirection_ins": [operand("index", "uint32", 64)],
    }
    function = {"name": "f", "allocations": places, "blocks": [{"instructions": [{**record, **changes}]}]}
    return bir.load({"arch": "gen4", "functions": [function]})


def test_an_indirect_source_as_the_wire_format_writes_it():
    # The worked INDIRECT20B descriptor: indices at byte 0x3000, data at 0x8000, 64 of them, the rest zero.
    loaded = indirect_reduce()
    stream = tpb.encode(loaded)
    assert stream.generation == "v4"
    assert stream.tobytes()[0x0C:0x20].hex(" ") == "00 30 00 20 00 80 00 00 40 00" + " 00" * 10
    assert stream[0]["src"]["address"] == "indirect"
    assert not [finding for finding in tpb.check(loaded) if finding.severity == "error"]
    assert "src=indirect(index=SB[0, 0x3000], data=SB[0, 0x8000], num_elem=64) bfloat16" in tpb.disassemble(stream)


def test_indirect_operands_become_a_module_and_back():
    first = indirect_reduce().instructions()
    again = bir.load(bir.dump(bir.from_instructions(first, "v4")))
    assert tpb.encode(again) == tpb.encode(first, "v4")
    (record,) = json.loads(bir.dump(again))["functions"][0]["blocks"][0]["instructions"]
    assert record["indirection_ins"][0]["memref"] == "index"
    assert record["ins"][0]["tensor_indirect_arg_id"] == 0
    assert record["ins"][0]["num_tensor_indirect_indices"] == 64
    assert [i.ins[0].indices for i in again.instructions()] == [i.ins[0].indices for i in first]


def test_both_operands_may_be_indirect_and_share_their_indices():
    record = json.loads(bir.dump(indirect_reduce()))
    instruction = record["functions"][0]["blocks"][0]["instructions"][0]
    reciprocal = {key: instruction[key] for key in ("engine", "ins", "indirection_ins")} | {"opcode": "Reciprocal"}
    out = {**instruction["ins"][0], "memref": "sum", "dtype": "float32"}
    record["functions"][0]["blocks"][0]["instructions"] = [{**reciprocal, "outs": [out]}]
    loaded = bir.load(record)
    word = tpb.encode(loaded).tobytes()
    assert word[0x0C:0x10] == word[0x2C:0x30] == bytes.fromhex("00300020")
    assert word[0x30:0x34] == bytes.fromhex("00900000")
    again = bir.load(bir.dump(bir.from_instructions(loaded.instructions(), "v4")))
    assert tpb.encode(again).tobytes() == word


@pytest.mark.parametrize(
    ("generation", "changes", "code"),
    [
        ("v3", {}, "TPB-INDIRECT-OPERAND"),
        ("v4", {"axis": "C"}, "TPB-INDIRECT-OPERAND"),
        ("v4", {"indirection_ins": None}, "TPB-BIR-INDIRECTION"),
        ("v4", {"indirection_ins": "x"}, "TPB-BIR-FORM"),
        ("v4", {"axis": "XY"}, "TPB-REDUCE-RANK"),
    ],
)
def test_indirect_operands_that_are_refused(generation, changes, code):
    loaded = indirect_reduce(**changes)
    loaded.arch = ""
    with pytest.raises(LanefoldError) as caught:
        tpb.encode(loaded, generation)
    assert code in [finding.code for finding in caught.value.diagnostics]


def test_what_the_bytes_show_of_an_indirect_operand_is_checked_too():
    record = json.loads(bir.dump(indirect_reduce()))
    places = record["functions"][0]["allocations"]
    places[0]["base"] = 32
    (instruction,) = record["functions"][0]["blocks"][0]["instructions"]
    for operand in (*instruction["ins"], *instruction["outs"], *instruction["indirection_ins"]):
        operand["ap"][0][1] = 32
    found = [finding.code for finding in tpb.check(bir.load(record)) if finding.severity == "error"]
    assert found == ["TPB-INDIRECT-QUADRANT"]


def test_an_offset_in_a_register_location_is_refused():
    operand = {"kind": "register_ap", "ap": [[64, 32], [1, 64]], "dtype": "float32", "regref": "r5"}
    record = {"opcode": "Reciprocal", "ins": [operand], "outs": [operand]}
    assert tpb.encode(bir.instruction(record, {})).tobytes()[0x0C:0x10] == bytes.fromhex("05000080")
    with pytest.raises(LanefoldError, match="is_regloc_offset True"):
        bir.instruction({**record, "ins": [{**operand, "is_regloc_offset": True}]}, {})


def test_modes_without_a_name_cannot_be_written():
    made = Instruction("Iota", (), (Access("SB", 0, 0, "int32", ((1, 1), (1, 1))),), sync=Sync(wait_mode=0x33))
    with pytest.raises(LanefoldError, match="TPB-BIR-FORM"):
        bir.from_instructions([made])


def test_reference_vectors_through_a_module(reference_data):
    cases = json.loads((reference_data / "golden" / "tpb" / "vectors.json").read_text())["encode"]
    arch = {"v2": "gen2", "v3": "gen3", "v4": "gen4"}
    for case in cases:
        sets = [
            {
                "Skind": "memory_location_set",
                "name": f"{name}_set",
                "dtype": place["dtype"],
                "memorylocations": [
                    {"Skind": "memory_location", "name": name} | {k: v for k, v in place.items() if k != "dtype"}
                ],
            }
            for name, place in case["allocations"].items()
        ]
        content = {
            "arch": arch[case["gen"]],
            "functions": [{"allocations": sets, "blocks": [{"instructions": [case["bir"]]}]}],
        }
        loaded = bir.load(json.dumps(content))
        assert loaded.to_dict() == content
        for reading, bundles in case["bundles"].items():
            if bundles:
                streams = loaded.streams(opcodes=reading)
                assert list(streams) == [case["bir"]["engine"] + ".bin"]
                (stream,) = streams.values()
                assert stream.tobytes().hex() == "".join(bundles), case["id"]


def test_a_check_of_a_module_names_what_it_keeps():
    loaded = bir.load(module([REDUCE, {"opcode": "DMACopy", "ins": [], "outs": []}, {**REDUCE, "axsi": "X"}]))
    assert [finding.code for finding in tpb.check(loaded)][:2] == ["TPB-BIR-UNKNOWN-OPCODE", "TPB-BIR-UNKNOWN-KEY"]
    assert [finding.code for finding in tpb.check(loaded.instructions(), "v3")] == [
        finding.code for finding in tpb.check(loaded) if not finding.code.startswith("TPB-BIR")
    ]


PAIR = st.tuples(st.integers(-64, 64), st.integers(1, 16))


@st.composite
def operands(draw, channels, *, indirect=False):
    """An operand at some place, or in a register, or one that indices address."""
    pattern = ((draw(st.sampled_from([64, 1024])), channels), *draw(st.lists(PAIR, min_size=1, max_size=3)))
    memory = draw(st.sampled_from(["SB", "PSUM"]))
    place = (draw(st.sampled_from([0, 32, 64])), 8 * draw(st.integers(0, 1000)))
    dtype = draw(st.sampled_from(["float32", "bfloat16", "int32", "uint8"]))
    if indirect:
        count = draw(st.integers(1, 64))
        home = (draw(st.sampled_from([0, 32])), 8 * draw(st.integers(0, 4)))
        return Access(
            memory, *place, dtype, pattern, indices=Access("SB", *home, "uint32", ((count, channels), (1, count)))
        )
    return Access(memory, *place, dtype, pattern, register=draw(st.none() | st.integers(0, 63)))


@given(st.data(), st.integers(1, 128))
@settings(max_examples=60, deadline=None)
def test_instructions_survive_bir_json(data, channels):
    indirect = data.draw(st.booleans())
    made = Instruction(
        "Reciprocal",
        (data.draw(operands(channels, indirect=indirect)),),
        (data.draw(operands(channels, indirect=indirect and data.draw(st.booleans()))),),
        engine=data.draw(st.sampled_from(["DVE", "Pool"])),
        sync=Sync(
            5, data.draw(st.integers(0, 255)), 0x13, data.draw(st.integers(0, 255)), data.draw(st.integers(0, 99))
        ),
    )
    written = bir.from_instructions(made, "v4")
    (again,) = bir.load(bir.dump(written)).instructions()
    assert tpb.encode(again, "v4") == tpb.encode(made, "v4")
    assert bir.dump(bir.from_instructions(again, "v4")) == bir.dump(written)


@pytest.mark.parametrize(
    ("operand", "message"),
    [
        ({"ap": None}, "ap of a physical_ap is null, not a list"),
        ({"ap": [[1]]}, "ap[0] of a physical_ap has 1 entry, not 2"),
        ({"ap": [[1, 2.5]]}, "ap[0][1] of a physical_ap is a number, not a whole number"),
        (
            {"tensor_indirect_arg_id": "x"},
            "tensor_indirect_arg_id of a physical_ap is a text, not a whole number or null",
        ),
        ({"kind": "register_ap"}, "a register_ap lacks its key regref"),
    ],
)
def test_malformed_records_in_the_words_of_json(operand, message):
    given = {"kind": "physical_ap", "ap": [[1, 1], [1, 1]], "dtype": "float32", "memref": "x", "offset": 0, **operand}
    with pytest.raises(LanefoldError) as caught:
        bir.instruction({"opcode": "Reciprocal", "ins": [given], "outs": []}, {})
    assert caught.value.diagnostics[0].message == message


@pytest.mark.parametrize(
    ("sync", "message"),
    [
        ({"on_wait": [{"wait_value": 3}]}, "an on_wait entry lacks its key id"),
        ({"on_update": [{"id": "x"}]}, "[0].id of an on_update entry is a text, not a whole number"),
        ([1], "sync_info is no object"),
    ],
)
def test_malformed_events_in_the_words_of_json(sync, message):
    operand = {"kind": "register_ap", "ap": [[1, 1], [1, 1]], "dtype": "float32", "regref": 1}
    with pytest.raises(LanefoldError) as caught:
        bir.instruction({"opcode": "Reciprocal", "ins": [operand], "outs": [operand], "sync_info": sync}, {})
    assert caught.value.diagnostics[0].message == message
