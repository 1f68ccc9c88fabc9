"""Doors of the instruction set: whatever is handed in, the answer is a result or a finding, never another exception."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lanefold.tpb as tpb
from lanefold.diagnostics import LanefoldError
from lanefold.tpb import bir
from lanefold.tpb.binary import detect_reading, encode_columns

X = tpb.Access("SB", 0, 0, "float32", ((64, 32), (1, 64)), "x")
Y = tpb.Access("SB", 0, 0x8000, "float32", ((64, 32), (1, 64)), "y")
COPY = tpb.Instruction("Reciprocal", (X,), (Y,), engine="DVE", name="I-1")
STREAM = tpb.encode(COPY)
LOCATION = {"type": "SB", "addr": 0, "base": 0, "bank": 0, "dims": [32, 256], "dtype": "float32"}
OPERAND = {"kind": "physical_ap", "ap": [[64, 32], [1, 64]], "dtype": "float32", "memref": "x", "offset": 0}
RECORD = {"opcode": "Reciprocal", "engine": "DVE", "ins": [OPERAND], "outs": [{**OPERAND, "memref": "y"}]}
REGISTER = {"kind": "register_ap", "ap": [[64, 32], [1, 64]], "dtype": "float32", "regref": "r5"}
SYNC = {
    "on_wait": [{"id": 1, "wait_value": 2, "mode": "SEM_GE_IMM"}],
    "on_update": [{"id": 3, "update_value": 1}],
}
WINDOWS = {**OPERAND, "ap": [[64, 32], [16, 4], [2, 4], [8, 2], [1, 2]]}
MORE: list[dict[str, Any]] = [
    {
        "opcode": "TensorReduce",
        "engine": "DVE",
        "op": "add",
        "axis": "X",
        "negate": True,
        "ins": [REGISTER],
        "outs": [{**OPERAND, "ap": [[1, 32], [1, 1]]}],
        "sync_info": SYNC,
    },
    {
        "opcode": "Pool",
        "engine": "Pool",
        "func": "Avg",
        "ins": [WINDOWS],
        "outs": [{**OPERAND, "ap": [[16, 32], [1, 16]]}],
    },
    {
        "opcode": "Loop",
        "LoopAxis": {"name": "i", "lb": 0, "ub": 3, "stride": 1},
        "blocks": [
            {
                "instructions": [
                    {
                        "opcode": "Iota",
                        "engine": "Pool",
                        "pattern": [[1, 64]],
                        "base": 5,
                        "channel_multiplier": 2,
                        "ins": [],
                        "outs": [OPERAND],
                    }
                ]
            }
        ],
    },
    {
        "opcode": "MatchReplace",
        "engine": "DVE",
        "imm_value": "-inf",
        "ins": [{**OPERAND, "ap": [[8, 32], [1, 8]]}, OPERAND],
        "outs": [OPERAND],
    },
]
MODULE = {
    "arch": "gen3",
    "functions": [
        {
            "name": "main",
            "allocations": [
                {"Skind": "memory_location", "name": "x", **LOCATION},
                {"Skind": "memory_location", "name": "y", **LOCATION, "addr": 4096},
            ],
            "blocks": [{"name": "b", "instructions": [RECORD, {**RECORD, "opcode": "Memset", "constant": 0}, *MORE]}],
        }
    ],
}


class Listing:
    """Looks like a module, but what it lists is something else."""

    def __init__(self, listed: object) -> None:
        self.instructions = listed


HOSTILE: dict[str, Callable[[], Any]] = {
    "none": lambda: None,
    "zero": lambda: 0,
    "huge": lambda: 10**30,
    "longer than Python writes": lambda: 10**5000,
    "negative": lambda: -1,
    "float": lambda: 3.5,
    "nan": lambda: float("nan"),
    "true": lambda: True,
    "empty text": lambda: "",
    "letter": lambda: "a",
    "half a surrogate": lambda: "\ud800",
    "bytes": lambda: b"\xff" * 64,
    "odd bytes": lambda: b"a",
    "list": lambda: [1],
    "list of text": lambda: ["v2"],
    "list of none": lambda: [None],
    "nested": lambda: [[1, 2]],
    "tuple": lambda: (),
    "set": lambda: {1},
    "dict": dict,
    "dict of numbers": lambda: {"a": 1},
    "array of floats": lambda: np.zeros((4, 16)),
    "array of bytes": lambda: np.zeros(64, np.uint8),
    "array of text": lambda: np.array(["v2", "v3"]),
    "array without axes": lambda: np.array(5),
    "strided array": lambda: np.zeros((4, 128), np.uint8)[:, ::2],
    "memory of two axes": lambda: memoryview(np.zeros((4, 4))),
    "date": lambda: np.datetime64("2020-01-01"),
    "object": object,
    "class": lambda: type,
    "iterator": lambda: iter([1]),
    "function": lambda: len,
    "lists a number": lambda: Listing(5),
    "lists a function to a number": lambda: Listing(lambda: 5),
    "lists numbers": lambda: Listing(lambda: [1]),
}

DOORS: dict[str, Callable[[Any], object]] = {
    "encode": tpb.encode,
    "encode generation": lambda v: tpb.encode(COPY, v),
    "encode opcodes": lambda v: tpb.encode(COPY, "v2", v),
    "encode_columns name": lambda v: encode_columns(v, {}),
    "encode_columns columns": lambda v: encode_columns("pool", v),
    "encode_columns column": lambda v: encode_columns("pool", {"src": v}),
    "encode_columns steps": lambda v: encode_columns("pool", {"src.step_elem": v}),
    "decode": tpb.decode,
    "decode generation": lambda v: tpb.decode(bytes(64), v),
    "decode opcodes": lambda v: tpb.decode(bytes(64), "v2", v),
    "detect_reading": lambda v: detect_reading(v, "v2"),
    "disassemble": tpb.disassemble,
    "disassemble hex": lambda v: tpb.disassemble(STREAM, hex=v),
    "assemble": tpb.assemble,
    "assemble generation": lambda v: tpb.assemble("", v),
    "assemble opcodes": lambda v: tpb.assemble("", "v2", v),
    "check": tpb.check,
    "check generation": lambda v: tpb.check(STREAM, v),
    "check opcodes": lambda v: tpb.check(STREAM, None, v),
    "check instruction, generation": lambda v: tpb.check(COPY, v),
    "check instruction, opcodes": lambda v: tpb.check(COPY, None, v),
    "explain": tpb.explain,
    "explain generation": lambda v: tpb.explain(bytes(64), v),
    "explain opcodes": lambda v: tpb.explain(bytes(64), "v2", v),
    "bir.load": bir.load,
    "bir.load value": lambda v: bir.dump(bir.load({"functions": [], "x": v})),
    "bir.dump": bir.dump,
    "bir.instruction": lambda v: bir.instruction(v, {}),
    "bir.instruction allocations": lambda v: bir.instruction(RECORD, v),
    "bir.instruction allocation": lambda v: bir.instruction(RECORD, {"x": v, "y": v}),
    "bir.instruction ins": lambda v: bir.instruction({**RECORD, "ins": v}, {"x": LOCATION, "y": LOCATION}),
    "bir.instruction opcode": lambda v: bir.instruction({**RECORD, "opcode": v}, {"x": LOCATION, "y": LOCATION}),
    "bir.generate": bir.generate,
    "bir.generate mode": lambda v: bir.generate(bir.load(MODULE), v),
    "bir.generate generation": lambda v: bir.generate(bir.load(MODULE), 0, v),
    "bir.from_instructions": bir.from_instructions,
    "bir.from_instructions generation": lambda v: bir.from_instructions(COPY, v),
    "Module.generation": lambda v: bir.load(MODULE).generation(v),
    "Module.streams generation": lambda v: bir.load(MODULE).streams(v),
    "Module.streams opcodes": lambda v: bir.load(MODULE).streams("v3", v),
    "Stream": lambda v: tpb.Stream(v, "v2", "reference"),
    "Stream generation": lambda v: tpb.Stream(STREAM.words, v, "reference"),
    "Stream opcodes": lambda v: tpb.Stream(STREAM.words, "v2", v),
    "Stream[]": lambda v: STREAM[v],
    "Stream[:]": lambda v: STREAM[v:v],
    "Stream.fields": STREAM.fields,
    "Stream.where": STREAM.where,
    "Stream.columns": STREAM.columns,
    "Bundle[]": lambda v: STREAM[0][v],
    "Machine generation": tpb.Machine,
    "Machine numerics": lambda v: tpb.Machine("v2", v),
    "Machine option": lambda v: tpb.Machine("v2", pool_sum=v),
    "Machine count": lambda v: tpb.Machine("v2", count=v),
    "Machine unknown option": lambda v: tpb.Machine("v2", speed=v),
    "Machine.run": lambda v: MACHINE.run(v),
    "Machine.run streams": lambda v: MACHINE.run({"Pool": v}),
}
PARTS: dict[str, Callable[[Any], tpb.Instruction]] = (
    {f"Instruction.{name}": lambda v, name=name: replace(COPY, **{name: v}) for name in COPY.__slots__}
    | {f"Access.{name}": lambda v, name=name: replace(COPY, ins=(replace(X, **{name: v}),)) for name in X.__slots__}
    | {f"Sync.{name}": lambda v, name=name: replace(COPY, sync=tpb.Sync(**{name: v})) for name in COPY.sync.__slots__}
)
MACHINE = tpb.Machine("v2")


def answer(call: Callable[[Any], object], value: Any) -> tuple[object, tuple[Any, ...]]:
    """What a call returns, or its findings; any other exception is a failure."""
    try:
        return call(value), ()
    except LanefoldError as error:
        return None, error.diagnostics


@pytest.mark.parametrize("door", DOORS)
def test_hostile_values(door: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, make in HOSTILE.items():
        _, found = answer(DOORS[door], make())
        for finding in found:
            text = finding.to_text()
            assert finding.got, name
            assert finding.allowed, name
            assert all(cure.text for cure in finding.cures), name
            # Nothing of the language's own wording, and no dump of an object's address.
            assert "object at 0x" not in text, (name, text)
            assert "NoneType" not in text, (name, text)


@pytest.mark.parametrize("part", PARTS)
def test_hostile_parts_of_an_instruction(part: str) -> None:
    for name, make in HOSTILE.items():
        made = PARTS[part](make())
        found = tpb.check(made)
        made_again = PARTS[part](make())
        _, refused = answer(tpb.encode, made_again)
        answer(bir.from_instructions, PARTS[part](make()))
        stopping = [finding for finding in found if finding.severity == "error"]
        # What the encoder refuses, the check names, and the other way round where it says that a part is ill-typed.
        assert bool(refused) <= bool(stopping), name
        ill_typed = [finding.code for finding in found if finding.code == "TPB-INSTRUCTION-PART"]
        assert not ill_typed or {finding.code for finding in refused} == set(ill_typed), name


@pytest.mark.parametrize("value", [None, ["a"], "nope", 3, [COPY, None], np.zeros(3), {"x": 1}], ids=str)
def test_what_is_no_program_is_refused_everywhere(value: Any) -> None:
    for call in (tpb.encode, tpb.check, tpb.disassemble, MACHINE.run):
        assert answer(call, value)[1], call


@pytest.mark.parametrize("index", [1, -2, 10**9, "x", None, 0.5, [0], np.array([0, 0]), slice("a", 2), slice(0, 1, 0)])
def test_indices_that_a_stream_does_not_have(index: Any) -> None:
    _, found = answer(lambda key: STREAM[key], index)
    assert [finding.code for finding in found] == ["TPB-STREAM-INDEX"]


def test_indices_that_a_stream_has() -> None:
    two = tpb.decode(STREAM.tobytes() * 2)
    assert two[-1].tobytes() == two[np.int64(1)].tobytes() == STREAM.tobytes()
    assert (len(two[5:]), len(two[::-1]), len(two[:1])) == (0, 2, 1)
    assert [bundle.opcode for bundle in two] == [0x48, 0x48]
    assert tpb.check(two[::-1], "v2") == tpb.check(two)


def test_words_of_a_strided_stream_are_read_as_such() -> None:
    many = tpb.decode(b"".join(bytes([opcode]) + bytes(63) for opcode in (0x45, 0x48, 0x7C, 0x7D)))
    half = many[::2]
    assert [bundle.opcode for bundle in half] == [0x45, 0x7C]
    assert tpb.decode(half.tobytes()) == half
    assert tpb.disassemble(half).count("\n") == 5


# --------------------------------------------------------------------------------------------- random bytes and texts

QUICK = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
GENERATIONS = st.sampled_from(["v2", "v3", "v4"])
READINGS = st.sampled_from(["reference", "headers", "auto"])
OPCODES = sorted({bundle for row in tpb.isa.BUNDLES for bundle in row.opcodes.values() if bundle is not None})
BUNDLE = st.builds(
    lambda opcode, rest: bytes([opcode, 16]) + rest,
    st.sampled_from(OPCODES),
    st.binary(min_size=62, max_size=62) | st.just(bytes(62)),
)
BYTES = st.binary(max_size=200) | st.lists(BUNDLE, max_size=4).map(b"".join)


@QUICK
@given(BYTES, GENERATIONS, READINGS)
def test_any_bytes(raw: bytes, generation: str, reading: str) -> None:
    stream, found = answer(lambda data: tpb.decode(data, generation, reading), raw)
    assert bool(found) == bool(len(raw) % 64)
    if not isinstance(stream, tpb.Stream):
        return
    assert stream.tobytes() == raw
    assert tpb.assemble(tpb.disassemble(stream)) == stream
    tpb.check(stream)
    for bundle in itertools.islice(stream, 2):
        explained = tpb.explain(bundle)
        assert explained.to_text()
        assert "".join(field.bytes for field in explained.fields) == bundle.tobytes().hex()


WORDS = [
    "Pool",
    "src=",
    "dst=",
    "SB[0, 0x0]",
    "float32",
    "[[1,2]]",
    "op=add",
    ".generation v2",
    ".raw ",
    ";",
    "\n",
    "(",
]


@QUICK
@given(st.lists(st.sampled_from(WORDS) | st.text(max_size=8), max_size=20).map(" ".join))
def test_any_text(text: str) -> None:
    _, found = answer(tpb.assemble, text)
    lines = text.split("\n")
    for finding in found:
        if finding.place.line is not None:
            assert 1 <= finding.place.line <= len(lines)
            assert 1 <= (finding.place.column or 1) <= len(lines[finding.place.line - 1]) + 1


@QUICK
@given(st.text(max_size=300) | st.text("0123456789abcdefABCDEF \n", max_size=300))
def test_any_digits(text: str) -> None:
    answer(tpb.decode, text)
    answer(tpb.check, text)
    answer(tpb.explain, text)


# ------------------------------------------------------------------------------------------------------------- modules

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)


def read_through(content: Any) -> None:
    """Loads a module and walks it through everything that takes one."""
    module, found = answer(bir.load, content)
    if not isinstance(module, bir.Module):
        assert found
        return
    for call in (bir.dump, tpb.encode, tpb.check, bir.generate, bir.Module.streams, bir.Module.findings):
        answer(call, module)
    listed, _ = answer(bir.Module.instructions, module)
    if isinstance(listed, list):
        answer(lambda instructions: bir.dump(bir.from_instructions(instructions, "v4")), listed)


@QUICK
@given(JSON)
def test_any_json(value: Any) -> None:
    read_through(value)
    read_through(json.dumps(value).encode())


def paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a JSON value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(deeper for key, item in inner for deeper in paths(item, (*path, key)))]


def altered(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """A copy with another value at one place."""
    if not path:
        return new
    made = dict(value) if isinstance(value, dict) else list(value)
    made[path[0]] = altered(made[path[0]], path[1:], new)
    return made


@QUICK
@given(st.sampled_from(paths(MODULE)), JSON)
def test_mutated_modules(path: tuple[Any, ...], value: Any) -> None:
    read_through(altered(MODULE, path, value))


def test_the_module_itself_is_legal() -> None:
    module = bir.load(MODULE)
    assert [bundle.mnemonic for bundle in tpb.encode(module)] == [
        "Reciprocal",
        "TensorReduceArithOp",
        "Pool",
        *["Iota"] * 3,
        "MatchValueLoad",
        "MatchReplace8",
    ]
    assert bir.load(bir.dump(module)).to_dict() == module.to_dict()
