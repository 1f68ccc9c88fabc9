"""Every public call with hostile values for each of its arguments: one finding of ours, or an answer that is right."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import lanefold as lf
from lanefold import ops
from lanefold.diagnostics import LanefoldError
from lanefold.frontends.backend import LanefoldBackend
from lanefold.frontends.onnx import plan_model, random_inputs, read_model, verify
from lanefold.numerics.dtypes import DTYPES
from lanefold.report.trace import write_trace
from lanefold.targets import operations, target

X = np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4)


def tiny_model(shape: tuple[object, ...] = (1, 2, 4, 4)) -> onnx.ModelProto:
    node = helper.make_node("MaxPool", ["x"], ["y"], name="pool", kernel_shape=[2, 2])
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


MODEL = tiny_model()
PROGRAM = lf.compile(MODEL)
FEED = np.zeros((1, 2, 4, 4), np.float32)
TILES = target("a2a3").lower(ops.Reduce("max", (8, 8), (1,)), lf.diagnostics.Place())
TILE_PROGRAM = TILES.stages[0].program
TILE_ARRAYS = {array.name: np.zeros((array.rows, array.cols), np.float32) for array in TILE_PROGRAM.arrays}

HOSTILE: list[Any] = [
    None,
    True,
    False,
    0,
    1,
    -1,
    9,
    2**31,
    2**40,
    2**70,
    -(2**63),
    1.5,
    2.9,
    math.nan,
    math.inf,
    1 + 2j,
    "",
    "x",
    "no",
    "a\0b",
    "x" * 300,
    b"x",
    bytearray(b"\x08\x07"),
    Path("nope"),
    [],
    (),
    {},
    set(),
    [1],
    [None],
    ["a"],
    [1.5],
    [True],
    (2, 2),
    (2.9,),
    (2, 2, 2, 2),
    [2**40, 1],
    [[1], [1, 2]],
    {1: 2},
    {"x": None},
    range(2),
    slice(None),
    object(),
    len,
    np.int64(1),
    np.float32(3),
    np.bool_(True),
    np.datetime64("2020"),
    np.array(1),
    np.array(1.5),
    np.array([1, 2]),
    np.array(["a"]),
    np.array([None]),
    np.zeros((2, 2), np.int64),
    np.zeros((0, 3), np.float32),
    np.zeros(3, [("a", "i4")]),
    np.ma.array([1.0, 2.0], mask=[False, True]),
    np.array([np.datetime64("2020")]),
    X,
    X.astype(">f4"),
    X.astype(np.float64),
    ml_dtypes.bfloat16(2),
    MODEL,
    MODEL.graph,
]

Call = tuple[Callable[..., Any], dict[str, Any]]


def _calls() -> Mapping[str, Call]:
    """Public calls with arguments that work, in a folder that holds a saved program."""
    readings = {"target": "trn1", "opcodes": "reference", "numerics": "birsim"}
    window = {"strides": (1, 1), "pads": (0, 0, 0, 0), "dilations": (1, 1), "ceil_mode": False}
    pool = {"kernel": (2, 2), **window, "count_include_pad": False}
    mapping = {"element": "identity"}
    types = {"dtype": "float32", "output_dtype": "float32"}
    tile = {"layout": "ND", "location": "vec", "fractal": 512, "pad": "null", "compact": "null"}
    extents = {"rows": 8, "cols": 8, "valid_rows": 8, "valid_cols": 8}
    on_tiles = {"target": "cpu", "form": None, "is_binary": None}

    def execute(op: Any, first: Any, second: Any, third: Any, **options: Any) -> object:
        return lf.pto.execute(op, first, second, third, **options)

    def check(op: Any, first: Any, second: Any, third: Any, **options: Any) -> object:
        return lf.pto.check(op, first, second, third, **options)

    operands = {
        "op": "TROWSUM",
        "first": lf.pto.Tile("f32", 8, 8, 8, 1),
        "second": lf.pto.Tile("f32", 8, 8),
        "third": lf.pto.Tile("f32", 8, 8),
    }
    return {
        "reduce": (lf.reduce, {"x": X, "op": "max", "axis": (-1,), "keepdims": False, "prefer": "cost", **readings}),
        "pool2d": (lf.pool2d, {"x": X, "mode": "max", "auto_pad": "NOTSET", **pool, **readings}),
        "reduce on tiles": (lf.reduce, {"x": X, "axis": (-1,), "prefer": "cost", "target": "a5", "numerics": "cpu"}),
        "pool2d on tiles": (lf.pool2d, {"x": X, "mode": "max", **pool, "target": "a2a3", "numerics": "cpu"}),
        "argmax": (lf.argmax, {"x": X, "axis": -1, "keepdims": False, "select_last_index": False, **readings}),
        "topk": (lf.topk, {"x": X, "k": 2, "axis": -1, "largest": True, **readings}),
        "top8": (lf.top8, {"x": X.reshape(2, 12), **readings}),
        "expand": (lf.expand, {"x": X[..., :1], "shape": (1, 2, 3, 4), **readings}),
        "compile": (lf.compile, {"model": MODEL, "shapes": None, "prefer": "cost", "strict": False, **readings}),
        "load": (lf.load, {"path": "program"}),
        "Program.run": (PROGRAM.run, {"feeds": {"x": FEED}, "count": False}),
        "Program.run of a feed": (lambda feed: PROGRAM.run({"x": feed}), {"feed": FEED}),
        "Program.cost": (PROGRAM.cost, {"model": ""}),
        "Program.timeline": (PROGRAM.timeline, {"model": "", "drawn": "high"}),
        "Program.save": (PROGRAM.save, {"path": "program"}),
        "Ledger.row": (PROGRAM.ledger.row, {"node": "pool"}),
        "write_trace": (write_trace, {"program": PROGRAM, "path": "t.json", "drawn": "high", "model": ""}),
        "targets.target": (lambda name, **more: target(name, **more), {"name": "trn1", "opcodes": "reference"}),
        "targets.operations": (operations, {"name": "trn1", "opcodes": "reference"}),
        "read_model": (read_model, {"model": MODEL, "shapes": None, "fixed": None}),
        "plan_model": (plan_model, {"model": MODEL, "target": target("trn1"), "strict": False, "prefer": "cost"}),
        "verify": (verify, {"model": MODEL, "program": PROGRAM, "feeds": {"x": FEED}, "tolerance": 1e-5}),
        "random_inputs": (random_inputs, {"model": MODEL, "seed": 0}),
        "Backend.prepare": (LanefoldBackend.prepare, {"model": MODEL, "device": "TRN1"}),
        "Backend.run_model": (LanefoldBackend.run_model, {"model": MODEL, "inputs": [FEED], "device": "TRN1"}),
        "Backend.run_node": (
            LanefoldBackend.run_node,
            {"node": MODEL.graph.node[0], "inputs": [FEED], "device": "TRN1"},
        ),
        "ops.ArgPool": (ops.ArgPool, {"input_shape": (1, 1, 4, 4), "kernel": (2, 2), "ceil_mode": False}),
        "ops.Pool": (
            ops.Pool,
            {"operator": "max", "input_shape": (1, 2, 3, 4), "element": "identity", **pool, **types},
        ),
        "ops.Reduce": (
            ops.Reduce,
            {"operator": "max", "input_shape": (2, 3), "axes": (1,), "keepdims": True, **mapping, **types},
        ),
        "ops.ArgReduce": (
            ops.ArgReduce,
            {
                "operator": "max",
                "input_shape": (2, 3),
                "axis": 1,
                "keepdims": True,
                "select_last_index": False,
                **types,
            },
        ),
        "ops.TopK": (ops.TopK, {"input_shape": (2, 3), "axis": 1, "k": 2, "largest": True, "sorted": True}),
        "ops.Expand": (ops.Expand, {"operator": "add", "input_shape": (2, 3), "axes": (1,), **types}),
        "ops.Reciprocal": (ops.Reciprocal, {"input_shape": (2, 3), **types}),
        "ops.Iota": (ops.Iota, {"shape": (2, 3), "steps": (3, 1), "base": 0, "output_dtype": "int32"}),
        "ops.Gather": (ops.Gather, {"input_shape": (2, 3), "indices_shape": (4,), "axis": 0, "dtype": "float32"}),
        "ops.Softmax": (ops.Softmax, {"input_shape": (2, 3), "axes": (1,), "dtype": "float32"}),
        "ops.axis_windows": (
            ops.axis_windows,
            {"size": 9, "kernel": 3, "stride": 2, "dilation": 1, "pad_begin": 1, "pad_end": 1},
        ),
        "ops.pool_shape": (
            ops.pool_shape,
            {"sizes": (9,), "kernel": (3,), "strides": (2,), "dilations": (1,), "pads": (1, 1), "ceil_mode": False},
        ),
        "ops.identity": (ops.identity, {"operator": "max", "dtype": "int8"}),
        "ops.resolve_pads": (
            ops.resolve_pads,
            {"auto_pad": "SAME_UPPER", "pads": None, "sizes": (9,), "kernel": (3,), "strides": (2,), "dilations": (1,)},
        ),
        "pto.Tile": (
            lambda values, **more: lf.pto.Tile(values, **more),
            {"values": "f32", "dynamic": False, "address": None, **extents, **tile},
        ),
        "pto.Tile of an array": (
            lambda values, rows: lf.pto.Tile(values, rows),
            {"values": X.reshape(3, 8), "rows": None},
        ),
        "pto.TileType": (lf.pto.TileType, {"dtype": "f32", **extents, **tile}),
        "pto.Tile.resize": (lf.pto.Tile("f32", 8, 8, dynamic=True).resize, {"valid_rows": 4, "valid_cols": 4}),
        "pto.Tile.place": (lf.pto.Tile("f32", 8, 8).place, {"address": 64}),
        "pto.execute": (execute, {**operands, "numerics": "cpu", **on_tiles}),
        "pto.check": (check, {**operands, **on_tiles}),
        "pto.parse": (lf.pto.parse, {"text": TILE_PROGRAM.to_text("dps")}),
        "pto.cost": (
            lf.pto.cost,
            {"op": "TROWSUM", "dtype": "fp32", **extents, "target": "a2a3", "model": "calibrated"},
        ),
        "pto.Program.check": (TILE_PROGRAM.check, {"target": "cpu", "parameters": None}),
        "pto.Program.placed": (TILE_PROGRAM.placed, {"target": "cpu"}),
        "pto.Program.with_scratch": (TILE_PROGRAM.with_scratch, {"target": "cpu"}),
        "pto.Program.changed": (TILE_PROGRAM.changed, {"changes": {}}),
        "pto.Program.run": (
            TILE_PROGRAM.run,
            {"arrays": TILE_ARRAYS, "target": "cpu", "numerics": "cpu", "parameters": None, "compare": False},
        ),
        "pto.Program.cost": (TILE_PROGRAM.cost, {"model": "", "target": "a2a3", "parameters": None}),
        "pto.Program.to_text": (TILE_PROGRAM.to_text, {"form": "asm"}),
        "pto.Program.to_cpp": (TILE_PROGRAM.to_cpp, {"target": "a2a3"}),
    }


CALLS = _calls()


def is_whole(value: object) -> bool:
    """An independent word on what may be read as an integer."""
    if isinstance(value, np.ndarray):
        return value.ndim == 0 and np.issubdtype(value.dtype, np.integer)
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def may_be_taken(usual: object, value: object) -> bool:
    """Whether a value is of the kind that the argument has, so that a call may answer at all."""
    if isinstance(usual, bool):
        return isinstance(value, bool | np.bool_)
    if isinstance(usual, float):
        return is_whole(value) or isinstance(value, float | np.floating)
    if isinstance(usual, int):
        return is_whole(value) or value is None
    if isinstance(usual, str):
        return isinstance(value, str | Path)
    if isinstance(usual, tuple):
        listed = isinstance(value, list | tuple | range) or (isinstance(value, np.ndarray) and value.ndim == 1)
        return value is None or is_whole(value) or (listed and all(map(is_whole, value)))
    return True


@pytest.mark.filterwarnings("ignore:.*NaN was found there:RuntimeWarning")
@pytest.mark.parametrize("name", CALLS)
def test_hostile_values(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    PROGRAM.save("program")
    call, usual = CALLS[name]
    call(**usual)
    refused: list[LanefoldError] = []
    for argument in usual:
        for value in HOSTILE:
            try:
                call(**usual | {argument: value})
            except LanefoldError as error:
                refused.append(error)
            else:
                assert may_be_taken(usual[argument], value), f"{argument}={value!r} was taken"
    assert len(refused) > 20
    for finding in (finding for error in refused for finding in error.diagnostics):
        assert finding.cures
        assert len(finding.message) < 1500
        assert " at 0x" not in finding.to_text()


def test_every_public_name_is_tried() -> None:
    tried = {name.split(" ")[0].split(".")[-1] for name in CALLS}
    functions = {name for name in lf.__all__ if callable(getattr(lf, name)) and not isinstance(getattr(lf, name), type)}
    assert functions - {"sweep"} <= tried
    assert {name for name in lf.pto.__all__ if name != "Program"} <= tried
    shapes = {"AxisWindows", "PoolShape", "ResolvedPads", "Window", "WindowClass"}
    made = {name for name in ops.__all__ if callable(getattr(ops, name)) and name not in shapes | {"Op"}}
    assert {name for name in made if name[0].isupper()} <= tried


@pytest.mark.parametrize(
    ("given", "same"),
    [
        ({"axis": np.int64(1)}, {"axis": 1}),
        ({"axis": np.array(-1)}, {"axis": 3}),
        ({"axis": np.array([1, 2])}, {"axis": (1, 2)}),
        ({"axis": [np.int32(0), 3]}, {"axis": (0, 3)}),
        ({"axis": range(2)}, {"axis": (0, 1)}),
        ({"keepdims": np.bool_(True)}, {"keepdims": True}),
        ({"x": X.astype(">f4")}, {}),
        ({"x": X[..., ::-1][..., ::-1]}, {}),
        ({"x": np.asfortranarray(X)}, {}),
        ({"target": "TRN1"}, {}),
    ],
)
def test_other_spellings_of_a_reduction(given: dict[str, Any], same: dict[str, Any]) -> None:
    usual = {"x": X, "op": "max"}
    np.testing.assert_array_equal(lf.reduce(**usual | given), lf.reduce(**usual | same))
    at = {"axis": tuple(same["axis"]) if isinstance(same.get("axis"), tuple) else same.get("axis")}
    np.testing.assert_array_equal(lf.reduce(**usual | given), X.max(**at, keepdims=same.get("keepdims", False)))


@pytest.mark.parametrize("name", ["trn1", "a5"])
def test_other_spellings_of_a_window(name: str) -> None:
    usual = lf.pool2d(X, (2, 2), target=name)
    for more in (
        {"strides": None, "dilations": None, "pads": None},
        {"strides": [], "dilations": (), "pads": np.array([], np.int64)},
        {"strides": np.array([1, 1]), "dilations": [np.int8(1), 1], "pads": np.zeros(4, np.uint8)},
    ):
        np.testing.assert_array_equal(lf.pool2d(X, np.array([2, 2]), target=name, **more), usual)
        np.testing.assert_array_equal(lf.pool2d(X.astype(">f4"), [2, 2], target=name, **more), usual)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: lf.reduce(np.float32(3)), ("has no axis", "numpy.atleast_1d")),
        (lambda: lf.reduce(X.astype(np.float64), target="a5"), ("reduce on a5", "float64", "x.astype(numpy.float32)")),
        (lambda: lf.reduce(X > 3), ("bool", "x.astype(numpy.uint8)")),
        (lambda: lf.reduce(X, keepdims="no"), ("'no' as keepdims", "True or False")),  # type: ignore[arg-type]
        (lambda: lf.compile(MODEL, strict="no"), ("'no' as strict", "True or False")),  # type: ignore[arg-type]
        (lambda: lf.expand(X, (2.9,)), ("(2.9,) as shape", "integers")),  # type: ignore[arg-type]
        (lambda: lf.pool2d(X, 2), ("2 as kernel", "give kernel=(2, 2)")),  # type: ignore[arg-type]
        (lambda: lf.pool2d(X, (2, 2), pads=(2**31, 0, 0, 0)), ("as pads", "give pads=")),
        (lambda: lf.pool2d(X, (2, 2), pads=(2**30,) * 4), ("OP-SIZE", "268435456", "use pads [0, 0, 0, 0]")),
        (lambda: lf.pool2d(X, (2, 2), strides=(2**40, 1)), ("as strides", "2147483647")),
        (lambda: lf.expand(np.zeros(1, np.float32), (2**20, 2**20)), ("1099511627776 elements", "268435456")),
        (lambda: lf.compile(MODEL.SerializeToString()), ("model", "onnx.load_model_from_string(model)")),  # type: ignore[arg-type]
        (lambda: lf.compile(MODEL.graph), ("a GraphProto", "onnx.helper.make_model(model)")),  # type: ignore[arg-type]
        (lambda: PROGRAM.run(None), ("None as feeds", "give feeds={'x': array}")),  # type: ignore[arg-type]
        (lambda: PROGRAM.ledger.row("nope"), ("no node 'nope'", "ask for 'pool'")),
        (lambda: PROGRAM.save("a\0b"), ("as path", "give path='out/program'")),
        (lambda: PROGRAM.save("x" * 300), ("File name too long", "choose a folder")),
        (lambda: lf.load("x" * 300), ("File name too long",)),
        (lambda: PROGRAM.cost([]), ("[] as model", "documented")),  # type: ignore[arg-type]
    ],
)
def test_what_is_said(call: Callable[[], object], words: tuple[str, ...]) -> None:
    with pytest.raises(LanefoldError) as caught:
        call()
    (finding,) = caught.value.diagnostics
    for word in words:
        assert word in finding.to_text()


def test_a_step_beyond_the_axis_leaves_one_window() -> None:
    for name in ("trn1", "a2a3"):
        made = lf.pool2d(X, (2, 2), strides=(2**31 - 1, 2**30), target=name)
        np.testing.assert_array_equal(made, X[..., :2, :2].max((2, 3), keepdims=True))
    for ceil_mode in (False, True):
        sizes = {s: ops.Pool("max", (1, 1, 9), (2,), (s,), (), (1, 0), ceil_mode).output_shape for s in range(10, 20)}
        assert set(sizes.values()) == {(1, 1, 1)}


def test_open_extents_are_given_in_python() -> None:
    program = lf.compile(tiny_model(("n", 2, "h", "w")), shapes={"x": (np.int64(1), 2, 5, 4)})
    assert program.inputs[0].shape == (1, 2, 5, 4)
    assert program.outputs[0].shape == (1, 2, 4, 3)


def test_texts_are_fed_to_models_that_take_them() -> None:
    node = helper.make_node("Identity", ["x"], ["y"], name="same")
    edges = [helper.make_tensor_value_info(name, TensorProto.STRING, [2]) for name in "xy"]
    graph = helper.make_graph([node], "g", edges[:1], edges[1:])
    program = lf.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8))
    assert list(program.run({"x": ["a", "b"]})["y"]) == ["a", "b"]
    assert list(program.run({"x": np.array(["a", "b"])})["y"]) == ["a", "b"]
    for wrong in (["a", 1], [1, 2], "a", np.zeros(2)):
        with pytest.raises(LanefoldError):
            program.run({"x": wrong})


def test_identities_of_every_operator_and_type() -> None:
    for operator in (*ops.REDUCE_OPERATORS, "none"):
        for dtype in ("bool", "float64", "none", *(row.name for row in DTYPES)):
            try:
                value = ops.identity(operator, dtype)
            except LanefoldError:
                continue
            assert value is None or isinstance(value, int | float)
