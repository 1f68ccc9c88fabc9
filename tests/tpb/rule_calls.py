"""One call per rule on modules, text, prices, lowering and the machine: legal, illegal, and cured as its cure says."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

import lanefold.tpb as tpb
from lanefold.diagnostics import Place
from lanefold.numerics import alu, casts, dtypes
from lanefold.ops import ArgPool, ArgReduce, Expand, Gather, Pool, Reduce, Softmax, TopK
from lanefold.tpb.bir.operands import instruction as read_instruction
from lanefold.tpb.cost import model_name
from lanefold.tpb.lower.lower import built, lower
from lanefold.tpb.lower.reduce import lower_cross_lane, lower_free_axis
from lanefold.tpb.machine.orders import expression
from tests.tpb.rule_bundles import bundle, stream
from tests.tpb.rule_cases import CallCase

# ------------------------------------------------------------------------------------------------ BIR modules

_LOCATION = {"type": "SB", "addr": 0, "base": 0, "bank": 0, "dims": [128, 4096], "dtype": "float32"}
_ALLOCATIONS = {
    "x": _LOCATION,
    "y": _LOCATION | {"addr": 0x2000},
    "hbm": _LOCATION | {"type": "DRAM"},
}
_X = {"kind": "physical_ap", "ap": [[64, 32], [1, 64]], "dtype": "float32", "memref": "x", "offset": 0}
_Y = _X | {"memref": "y"}
_REGISTER = {"kind": "register_ap", "ap": [[64, 32], [1, 64]], "dtype": "float32", "regref": "r5"}
_COPY = {"opcode": "Reciprocal", "name": "I-1", "engine": "DVE", "ins": [_X], "outs": [_Y]}

_SUM = {**_COPY, "opcode": "TensorReduce", "op": "add", "axis": "X", "apply_transpose": False}


def _read(changes: dict[str, Any]) -> object:
    """Reads and encodes the reciprocal with keys changed; ``in`` stands for keys of its source."""
    left = dict(changes)
    source = {**_X, **left.pop("in", {})}
    return tpb.encode(read_instruction({**_COPY, "ins": [source], **left}, _ALLOCATIONS))


def _read_indirect(keys: dict[str, Any]) -> object:
    """Reads and encodes the reciprocal of elements that 32 indices name."""
    table = {"kind": "physical_ap", "ap": [[32, 32], [1, 32]], "dtype": "uint32", "memref": "i", "offset": 0}
    record = {**_COPY, "ins": [{**_X, **keys}], "indirection_ins": [table]}
    indices = _LOCATION | {"dtype": "uint32", "addr": 0x4000}
    return tpb.encode(read_instruction(record, {**_ALLOCATIONS, "i": indices}), "v4")


def _keys(source: dict[str, Any]) -> object:
    """Encodes a search for keys that lie at ``source``."""
    keys = {**source, "ap": [[8, 32], [1, 8]]}
    found = _Y | {"ap": [[8, 32], [1, 8]], "dtype": "uint32"}
    record = {"opcode": "MaxIndex", "name": "I-1", "engine": "DVE", "ins": [keys, _X], "outs": [found]}
    return tpb.encode(read_instruction(record, {**_ALLOCATIONS, "y": _LOCATION | {"dtype": "uint32"}}))


def _module(*instructions: dict[str, Any], **more: Any) -> tpb.bir.Module:
    locations = [{"Skind": "memory_location", "name": name, **place} for name, place in _ALLOCATIONS.items()]
    function = {"name": "main", "allocations": locations, "blocks": [{"instructions": list(instructions)}]}
    return tpb.bir.load({"arch": "gen3", "functions": [function], **more})


def _found(*instructions: dict[str, Any]) -> object:
    return _module(*instructions).findings()


def _loop(stride: int) -> object:
    axis = {"name": "i", "lb": 0, "ub": 4, "stride": stride}
    return _module({"opcode": "Loop", "LoopAxis": axis, "blocks": [{"instructions": [_COPY]}]}).instructions()


BIR_CALLS = (
    CallCase(
        "TPB-BIR-FILE",
        tpb.bir.load,
        {"functions": []},
        "/no/such/file.json",
        "/no/such/file.json cannot be read: [Errno 2] No such file or directory: '/no/such/file.json'",
        "give the path of a readable BIR JSON file, its content, or a dictionary",
        {"functions": []},
    ),
    CallCase(
        "TPB-BIR-ARCH",
        lambda keys: _module(_COPY, arch=keys[0]).streams(*keys[1:]),
        ["gen3"],
        ["gen9"],
        "the module is for 'gen9'",
        "give the generation in the call, such as generation='v2'",
        ["gen9", "v2"],
    ),
    CallCase(
        "TPB-BIR-MODE",
        lambda mode: tpb.bir.generate(_module(_COPY), mode),
        "COLLECT_OPCODES",
        3,
        "there is no mode 3",
        "write CodeGenMode.GENERATE_ISACODE",
        tpb.bir.CodeGenMode.GENERATE_ISACODE,
    ),
    CallCase(
        "TPB-BIR-FORM",
        _read,
        {},
        {"in": {"ap": 3}},
        "ap of a physical_ap is a whole number, not a list",
        "write the record as the BIR JSON schema has it",
        {"in": {"ap": [[64, 32], [1, 64]]}},
    ),
    CallCase(
        "TPB-BIR-MEMREF",
        _read,
        {},
        {"in": {"memref": "xx"}},
        "memref 'xx' names no allocation",
        "write x",
        {"in": {"memref": "x"}},
    ),
    CallCase(
        "TPB-OPERAND-DTYPE",
        _read,
        {},
        {"in": {"dtype": "int32"}},
        "operand x is int32, its memory location float32",
        "use float32",
        {"in": {"dtype": "float32"}},
    ),
    CallCase(
        "TPB-BIR-OPERAND-KIND",
        _read,
        {},
        {"ins": [{"kind": "imm_value", "dtype": "float32", "value": 1.5}]},
        "an operand is an imm_value",
        "let the compiler's address lowering turn it into a physical_ap or register_ap first",
        {"ins": [_REGISTER]},
    ),
    CallCase(
        "TPB-OPERAND-REGISTER",
        _read,
        {"ins": [_REGISTER]},
        {"ins": [_REGISTER | {"reg_ap_offset": "r2"}]},
        "register operand r5 has an offset register (reg_ap_offset r2)",
        "add the offset into the address register beforehand",
        {"ins": [_REGISTER | {"reg_ap_offset": None}]},
    ),
    CallCase(
        "TPB-OPERAND-REGISTER-START",
        _keys,
        _X,
        _REGISTER,
        "operand r5 starts at register 5",
        "place the operand in SB or PSUM and give it as a physical_ap",
        _X,
    ),
    CallCase(
        "TPB-BIR-UNCONDITIONAL",
        _read,
        {},
        {"predicates": ["p"]},
        "Reciprocal has predicates",
        "run the instruction without it, or keep it for the compiler that wrote it",
        {"predicates": None},
    ),
    CallCase(
        "TPB-BIR-INDIRECTION",
        _read_indirect,
        {"tensor_indirect_arg_id": 0},
        {"tensor_indirect_arg_id": 0, "num_tensor_indirect_indices": 64},
        "operand x reads 64 indices, its index tensor has 32",
        "write 32",
        {"tensor_indirect_arg_id": 0, "num_tensor_indirect_indices": 32},
    ),
    CallCase(
        "TPB-SYNC-ONE",
        _read,
        {"sync_info": {"on_wait": [{"id": 1, "wait_value": 1}]}},
        {"sync_info": {"on_wait": [{"id": 1, "wait_value": 1}, {"id": 2, "wait_value": 1}]}},
        "2 waits and 0 updates",
        "move the others to event-semaphore bundles of their own",
        {"sync_info": {"on_wait": [{"id": 2, "wait_value": 1}]}},
    ),
    CallCase(
        "TPB-BIR-LOOP",
        _loop,
        2,
        0,
        "loop i runs from 0 to 4 by 0 around 1 instruction",
        "unroll the loop in the compiler, or split it",
        1,
    ),
    CallCase(
        "TPB-BIR-ENGINE",
        lambda engine: _module(_COPY | {"engine": engine}).streams(),
        "DVE",
        "DMA",
        "Reciprocal is bound to DMA, which has no stream",
        "bind it to DVE",
        "DVE",
    ),
    CallCase(
        "TPB-BIR-UNKNOWN-KEY",
        lambda key: _found(_SUM | {key: False}),
        "debug",
        "negat",
        "1 TensorReduce with the key 'negat', which changes no bundle",
        "write 'negate'",
        "negate",
    ),
    CallCase(
        "TPB-BIR-UNKNOWN-OPCODE",
        lambda opcode: _found(_COPY | {"opcode": opcode}),
        "Reciprocal",
        "Reciprocl",
        "1 instruction 'Reciprocl' kept as read, without bundles",
        "write 'Reciprocal'",
        "Reciprocal",
    ),
)

# ----------------------------------------------------------------------------------------------- names, prices

NAME_CALLS = (
    CallCase("TPB-ALU-NAME", alu.by_name, "add", "ad", "'ad' is no BIR operator", "write add", "add"),
    CallCase(
        "TPB-DTYPE-NAME",
        dtypes.by_name,
        "float32",
        "float23",
        "'float23' is no BIR element type",
        "write float32",
        "float32",
    ),
    CallCase(
        "TPB-DTYPE-NUMPY",
        dtypes.from_numpy,
        np.dtype("f4"),
        np.dtype("c8"),
        "arrays of complex64 have no BIR element type",
        "convert the array with .astype(numpy.float32)",
        np.dtype("f4"),
    ),
    CallCase(
        "TPB-CAST-TYPE",
        lambda name: casts.require_number(dtypes.by_name(name)),
        "float32",
        "float8_e4m3fn_x4",
        "float8_e4m3fn_x4 elements are packed and have no single value",
        "use float8e4",
        "float8e4",
    ),
    CallCase(
        "TPB-COST-MODEL",
        model_name,
        "detailed",
        "exact",
        "there is no cost model 'exact'",
        "write documented",
        "documented",
    ),
    CallCase(
        "TPB-EXPLAIN-WORD",
        tpb.explain,
        bytes(64),
        bytes(128),
        "2 bundles are given, one is explained at a time",
        "choose one bundle of a stream by its index, such as stream[0]",
        bytes(64),
    ),
)

# ----------------------------------------------------------------------------------------------- assembly text

_POOL = "Pool src=r0 float32 [[1,1]] dst=r0 float32 [[1,1]]"


def _pointed(sentence: str, line: str, piece: str) -> str:
    """A message with the line behind it and a caret under a piece."""
    return f"{sentence}\n    {line}\n    {' ' * line.index(piece)}{'^' * len(piece)}"


_BF16 = "TensorReduceAddBf16 src=r0 bfloat16 [[1,1]] dst=r0 float32 [[1,1]]"

TEXT_CALLS = (
    CallCase(
        "TPB-TEXT-NAME",
        tpb.assemble,
        f"{_POOL} pool_func=AVG",
        f"{_POOL} pool_func=AVERAGE",
        _pointed("'AVERAGE' is no value of pool_func", f"{_POOL} pool_func=AVERAGE", "AVERAGE"),
        "write AVG",
        f"{_POOL} pool_func=AVG",
    ),
    CallCase(
        "TPB-TEXT-VALUE",
        tpb.assemble,
        f"{_POOL} debug_hint=1",
        f"{_POOL} debug_hint=1.5",
        _pointed("debug_hint takes a whole number", f"{_POOL} debug_hint=1.5", "1.5"),
        "write debug_hint=0",
        f"{_POOL} debug_hint=0",
    ),
    CallCase(
        "TPB-TEXT-ITEMS",
        tpb.assemble,
        _POOL,
        "Pool src=r0 float32 [[1,1]]",
        _pointed("Pool lacks dst", "Pool src=r0 float32 [[1,1]]", "Pool"),
        "add dst=SB[0, 0x0] float32 [[1,8]]",
        "Pool src=r0 float32 [[1,1]] dst=SB[0, 0x0] float32 [[1,8]]",
    ),
    CallCase(
        "TPB-TEXT-OPCODE",
        tpb.assemble,
        _BF16,
        f".generation v3\n{_BF16}",
        _pointed("TensorReduceAddBf16 does not exist on v3", _BF16, "TensorReduceAddBf16"),
        "write .generation v2 at the top",
        f".generation v2\n{_BF16}",
    ),
    CallCase(
        "TPB-TEXT-DIRECTIVE",
        tpb.assemble,
        ".opcodes headers",
        ".opcodes headers\n.opcodes headers",
        _pointed(".opcodes stands twice", ".opcodes headers", ".opcodes"),
        "keep one directive of each kind, at the top of the text, that agrees with the call",
        ".opcodes headers",
    ),
    CallCase(
        "TPB-TEXT-SYNTAX",
        tpb.assemble,
        _POOL,
        "Pool src r0",
        _pointed("'r0' does not fit here, expected '='", "Pool src r0", "r0"),
        "write every item as name=value, without a blank inside a name",
        _POOL,
    ),
)

# --------------------------------------------------------------------------------------------------- lowering


def _across(way: tuple[Reduce, Any]) -> object:
    return built(way[0], way[1], Place(), "v2", "reference")


_PRODUCT = Reduce("mult", (64, 5), (0,))

LOWER_CALLS = (
    CallCase(
        "TPB-LOWER-OP",
        lower,
        Reduce("max", (4, 4), (1,)),
        Softmax((4, 4), (1,)),
        "Softmax has no lowering onto the leg",
        "fold its maxima and sums on the leg and compute its exponentials on the host",
        Reduce("max", (4, 4), (1,)),
    ),
    CallCase(
        "TPB-LOWER-DTYPE",
        lower,
        Reduce("add", (4, 4), (1,)),
        Reduce("add", (4, 4), (1,), dtype="int64"),
        "int64 would not keep its values on the leg",
        "cast the tensor first if its values allow it, or keep the node on the host",
        Reduce("add", (4, 4), (1,)),
    ),
    CallCase(
        "TPB-LOWER-PREFER",
        lambda prefer: lower(_PRODUCT, prefer=prefer),
        "free-axis",
        "speed",
        "there is no preference 'speed'",
        "write cost",
        "cost",
    ),
    CallCase(
        "TPB-LOWER-WINDOW",
        lower,
        Pool("max", (1, 1, 400, 400), (2, 2)),
        Pool("average", (1, 1, 50_021), (50_021,)),
        "a window of 50021 elements does not fit a partition of the state buffer",
        "pool by add, whose parts may differ, and divide by the number of elements afterwards",
        Pool("add", (1, 1, 50_021), (50_021,)),
    ),
    CallCase(
        "TPB-LOWER-ROW",
        lower,
        Reduce("average", (2, 3, 10), (0, 2)),
        Reduce("average", (2, 3, 100_000), (0, 2)),
        "a row of 200000 elements does not divide into at most 49135 equal parts of at most 49135 elements",
        "reduce the axes one after the other",
        Reduce("average", (2, 3, 100_000), (2,)),
    ),
    CallCase(
        "TPB-LOWER-CROSS-LANE",
        _across,
        (Reduce("add", (64, 5), (0,)), lower_cross_lane),
        (_PRODUCT, lower_cross_lane),
        "the cross-lane path folds one run of 2 to 128 elements by add, average or max, floats also by min, not mult "
        "over 64 elements of float32 in 1 run",
        "use the free-axis path",
        (_PRODUCT, lower_free_axis),
    ),
    CallCase(
        "TPB-LOWER-INDEX",
        lower,
        ArgReduce("max", (4, 9), 1),
        ArgReduce("max", (4, 9), 1, output_dtype="int64"),
        "indices cannot be int64",
        "take uint32 and cast it afterwards",
        ArgReduce("max", (4, 9), 1, output_dtype="uint32"),
    ),
    CallCase(
        "TPB-LOWER-CANDIDATES",
        lower,
        TopK((1, 40_000), 1, 8),
        TopK((1, 40_000), 1, 20_000),
        "the 20000 largest of 40000 elements do not come down to the candidates of one search",
        "take at most 6128 values of the row",
        TopK((1, 40_000), 1, 6128),
    ),
    CallCase(
        "TPB-LOWER-WINDOW-ROW",
        lower,
        ArgPool((1, 1, 200, 200), (3, 3)),
        ArgPool((1, 1, 200, 200), (150, 150)),
        "a window of 22500 elements of float32 is no row of one search",
        "leave the output of indices out",
        Pool("max", (1, 1, 200, 200), (150, 150)),
    ),
    CallCase(
        "TPB-LOWER-EXPAND",
        lower,
        Expand("bypass", (4, 9), (1,)),
        Expand("add", (4, 9), (1,)),
        "the leg repeats a vector as it is; combining it with a tensor by add takes an instruction it lacks",
        "repeat the vector by bypass and combine on the host",
        Expand("bypass", (4, 9), (1,)),
    ),
    CallCase(
        "TPB-LOWER-TABLE",
        lower,
        Gather((4, 9), (3,)),
        Gather((4, 60_000), (3,)),
        "rows of 60000 elements do not fit",
        "split the table along the axis",
        Gather((4, 30_000), (3,)),
    ),
    CallCase(
        "TPB-LOWER-TABLE-INDEX",
        lower,
        Gather((4, 9), (3,)),
        Gather((4, 9), (3,), index_dtype="int32"),
        "indices cannot be int32",
        "cast the indices to uint32 first",
        Gather((4, 9), (3,), index_dtype="uint32"),
    ),
)

# ------------------------------------------------------------------------------------------------- the machine


def _run(*words: bytes, reading: str = "reference") -> object:
    return tpb.Machine("v2", legality="bounds").run(stream(*words, reading=reading))


def _reduce(changes: dict[str, Any]) -> object:
    return _run(bundle("tensor_reduce_arith", **changes))


def _marked(mark: bool) -> object:
    machine = tpb.Machine("v2", track_uninitialised=True)
    if mark:
        machine.mark_written("SB", 0, 128, 0, 4096)
    return machine.run(stream(bundle("reciprocal")))


def _over_nan(nan_store: str) -> object:
    """A sum over elements that are no numbers."""
    machine = tpb.Machine("v2", nan_store=nan_store)
    machine.sbuf[:, :4096] = np.frombuffer(struct.pack("<f", np.nan) * 1024, np.uint8)
    return machine.run(stream(bundle("tensor_reduce_arith")))


def _together(update_first: bool) -> object:
    """Two engines that wait for one another; the cure lets the first one update before it waits."""
    opening = bundle("pool", update_mode=3, update_idx=2)
    waiting = [
        bundle("pool", wait_mode=5, wait_idx=index, update_mode=3, update_idx=3 - index, semaphore_value=1)
        for index in (1, 2)
    ]
    first = [opening, waiting[0]] if update_first else waiting[:1]
    return tpb.Machine("v2").run({"DVE": stream(*first), "Pool": stream(waiting[1])})


def _alone(mode: int) -> object:
    """One engine with an event that is met at once."""
    return tpb.Machine("v2").run({"Pool": stream(bundle("pool", wait_mode=mode))})


MACHINE_CALLS = (
    CallCase(
        "TPB-MACHINE-OPTION",
        lambda speed: tpb.Machine("v2", numerics=speed),
        "device",
        "gpu",
        "numerics cannot be 'gpu'",
        "numerics='birsim'",
        "birsim",
    ),
    CallCase(
        "TPB-MACHINE-ORDER",
        lambda fold: expression(fold, 3),
        "pool max",
        "pool min",
        "'pool min' is no fold of the machine",
        "write 'pool average'",
        "pool average",
    ),
    CallCase(
        "TPB-MACHINE-OPERATOR",
        _reduce,
        {},
        {"op": 0x17},
        "TensorReduceArithOp: operator byte 0x17, ABSOLUTE_DIFF, has no published meaning",
        "use 0x04, ADD, on numbers",
        {"op": 0x04},
    ),
    CallCase(
        "TPB-MACHINE-NUMBER",
        _reduce,
        {},
        {"op_dim": 9},
        "op_dim of TensorReduceArithOp is 9",
        "write 2, X",
        {"op_dim": 3},
    ),
    CallCase(
        "TPB-MACHINE-FORM",
        _reduce,
        {},
        {"src__start_addr": 1 << 31 | 8},
        "src is given by an address register",
        "write the address itself: 0x00000008",
        {"src__start_addr": 8},
    ),
    CallCase(
        "TPB-MACHINE-BOUNDS",
        _reduce,
        {},
        {"src__start_addr": (192 << 10) - 4},
        "the walk of src does not fit its memory",
        "start the operand at partition 0, byte 0, or shorten its pattern",
        {"src__start_addr": 0},
    ),
    CallCase(
        "TPB-MACHINE-GENERATION",
        lambda machine: tpb.Machine(machine).run(tpb.decode(bundle("pool"), "v3")),
        "v3",
        "v2",
        "the stream is for v3, the machine is a v2",
        "run it on Machine('v3')",
        "v3",
    ),
    CallCase(
        "TPB-MACHINE-COUNT",
        lambda nums: tpb.Machine("v2").run(stream(bundle("pool", **{"dst.num_elem": nums}))),
        [8, 4, 1, 1],
        [4, 2, 1, 1],
        "Pool writes 8 elements per partition, its source makes 32: nums [4, 8, 2, 2], 2 folded",
        "write 32 elements",
        [8, 4, 1, 1],
    ),
    CallCase(
        "TPB-MACHINE-STATE",
        lambda words: _run(*words),
        [bundle("match_value_load"), bundle("find_index8")],
        [bundle("find_index8")],
        "FindIndex8 uses the match registers of 32 partitions, 0 are loaded",
        "put a MatchValueLoad over the same partitions in front",
        [bundle("match_value_load"), bundle("find_index8")],
    ),
    CallCase(
        "TPB-MACHINE-OPCODE",
        lambda words: _run(*words),
        [bundle("pool")],
        [bundle("pool"), bundle("pool", opcode=0xEE)],
        "opcode 0xEE is not known under reference on v2",
        "leave the bundle out, or decode the stream for the generation that it was made for",
        [bundle("pool")],
    ),
    CallCase(
        "TPB-MACHINE-SYNC",
        _alone,
        5,
        0x85,
        "SEM_GE_REG is not modelled",
        "use the immediate form of the wait or update",
        5,
    ),
    CallCase(
        "TPB-MACHINE-DEADLOCK",
        _together,
        True,
        False,
        "DVE waits at bundle 0 for semaphore 1 to be at least 1, it is 0, and Pool would update it at bundle 0; "
        "Pool waits at bundle 0 for semaphore 2 to be at least 1, it is 0, and DVE would update it at bundle 0",
        "move the update of semaphore 1 in Pool, bundle 0, in front of the wait of Pool",
        True,
    ),
    CallCase(
        "TPB-MACHINE-UNINITIALISED",
        _marked,
        True,
        False,
        "Reciprocal reads 2048 elements of src that nothing has written",
        "call mark_written for data put in by hand",
        True,
    ),
    CallCase(
        "TPB-MACHINE-NAN",
        _over_nan,
        "allow",
        "error",
        "TensorReduceArithOp writes 256 NaN",
        "run with nan_store='allow'",
        "allow",
    ),
)

OTHER_CALLS = (*BIR_CALLS, *NAME_CALLS, *TEXT_CALLS, *LOWER_CALLS, *MACHINE_CALLS)
