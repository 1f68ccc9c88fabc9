"""Random models of one operator each: operator, version, element type, extents, attributes and special values."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

NEWEST = 26
"""Newest operator set that the runtimes at hand load."""
OLDEST = 7
TYPES = {
    "tensor(float)": "float32",
    "tensor(float16)": "float16",
    "tensor(bfloat16)": "bfloat16",
    "tensor(double)": "float64",
    "tensor(int8)": "int8",
    "tensor(uint8)": "uint8",
    "tensor(int16)": "int16",
    "tensor(uint16)": "uint16",
    "tensor(int32)": "int32",
    "tensor(uint32)": "uint32",
    "tensor(int64)": "int64",
}
LIKELY = ("float32", "float32", "float32", "float16", "int32")


@dataclass
class Sample:
    """One model with values for its inputs; ``told`` is all one needs to see what it is."""

    model: onnx.ModelProto
    feeds: dict[str, np.ndarray]
    told: str


@dataclass
class Draft:
    """What a recipe decides: attributes, further inputs (constants), and how many outputs."""

    attributes: dict[str, Any] = field(default_factory=dict)
    more: list[tuple[str, np.ndarray, bool]] = field(default_factory=list)
    outputs: int = 1


class UnfitError(Exception):
    """A draw that no model can have; draw again."""


Recipe = Callable[[np.random.Generator, int, tuple[int, ...], str, "onnx.defs.OpSchema"], Draft]


@cache
def versions(op_type: str) -> tuple[tuple[int, onnx.defs.OpSchema], ...]:
    """Every operator set from 7 on in which the operator has a form of its own, with that form."""
    found = {
        schema.since_version: schema
        for schema in onnx.defs.get_all_schemas_with_history()
        if schema.domain == "" and schema.name == op_type
    }
    made: dict[int, onnx.defs.OpSchema] = {}
    for opset in range(OLDEST, NEWEST + 1):
        since = max((each for each in found if each <= opset), default=0)
        if since and not found[since].deprecated:
            made[opset] = found[since]
    return tuple(made.items())


def drawn_version(rng: np.random.Generator, op_type: str) -> tuple[int, onnx.defs.OpSchema]:
    """One of the operator's forms, each as likely as the others, then one of the sets that have it."""
    by_form: dict[int, list[int]] = defaultdict(list)
    schemas = dict(versions(op_type))
    for opset, schema in schemas.items():
        by_form[schema.since_version].append(opset)
    form = by_form[sorted(by_form)[rng.integers(len(by_form))]]
    opset = form[rng.integers(len(form))]
    return opset, schemas[opset]


def numpy_type(name: str) -> np.dtype:
    return np.dtype(getattr(ml_dtypes, name, name))


def drawn_type(rng: np.random.Generator, schema: onnx.defs.OpSchema) -> str:
    kind = schema.inputs[0].type_str
    allowed = [each for row in schema.type_constraints if row.type_param_str == kind for each in row.allowed_type_strs]
    names = [TYPES[each] for each in allowed or [kind] if each in TYPES]
    likely = [each for each in LIKELY if each in names]
    return str(rng.choice(likely if likely and rng.random() < 0.7 else sorted(names)))


def drawn_extents(rng: np.random.Generator, least: int, most: int) -> tuple[int, ...]:
    rank = int(rng.integers(least, most + 1))
    high = 40 if rank <= 2 else 9 if rank == 3 else 6
    extents = rng.integers(1, high, rank)
    extents[rng.random(rank) < 0.15] = 1
    if rng.random() < 0.04 and rank:
        extents[rng.integers(rank)] = 0
    return tuple(int(each) for each in extents)


def _styles(dtype: np.dtype) -> tuple[str, ...]:
    if dtype.kind in "iu":
        return ("small", "whole range", "ties", "edges", "beyond float32")
    return ("normal", "normal", "ties", "same", "special", "special", "one nan", "huge", "tiny", "infinite", "zeros")


def values(rng: np.random.Generator, dtype_name: str, shape: tuple[int, ...]) -> tuple[np.ndarray, str]:
    """An array in one of several styles, and the style's name."""
    dtype = numpy_type(dtype_name)
    style = str(rng.choice(_styles(dtype)))
    if dtype.kind in "iu":
        return _integers(rng, dtype, shape, style), style
    info = ml_dtypes.finfo(dtype)
    base = rng.standard_normal(shape)
    if style == "ties":
        base = rng.integers(-2, 3, shape).astype(float)
    elif style == "same":
        base = np.full(shape, rng.standard_normal())
    elif style == "special":
        pool = [np.nan, np.inf, -np.inf, -0.0, 0.0, float(info.max), float(info.min), float(info.smallest_subnormal)]
        chosen = rng.random(shape) < rng.choice([0.05, 0.3, 1.0])
        base = np.where(chosen, rng.choice(pool, shape), base)
    elif style == "one nan" and base.size:
        base.reshape(-1)[rng.integers(base.size)] = np.nan
    elif style == "huge":
        base = np.clip(base, -3, 3) * (float(info.max) / 4)
    elif style == "tiny":
        base = base * float(info.smallest_normal)
    elif style == "infinite":
        base = np.where(rng.random(shape) < 0.8, rng.choice([-np.inf, np.inf]), base)
    elif style == "zeros":
        base = rng.choice([0.0, -0.0], shape)
    with np.errstate(all="ignore"):
        return np.asarray(base).astype(dtype), style


def _integers(rng: np.random.Generator, dtype: np.dtype, shape: tuple[int, ...], style: str) -> np.ndarray:
    bounds = np.iinfo(dtype)
    if style == "small":
        return rng.integers(max(bounds.min, -9), 10, shape).astype(dtype)
    if style == "ties":
        return rng.integers(0, 3, shape).astype(dtype)
    if style == "edges":
        return rng.choice(np.array([bounds.min, bounds.max, 0, 1, bounds.max - 1], dtype), shape)
    if style == "beyond float32" and dtype.itemsize > 2:
        return ((1 << 24) + rng.integers(-9, 10, shape)).astype(dtype)
    return rng.integers(bounds.min, bounds.max, shape, dtype=dtype, endpoint=True)


# Recipes: what each kind of operator needs besides its first input


def plain(rng: np.random.Generator, opset: int, shape: tuple[int, ...], dtype: str, schema: Any) -> Draft:
    return Draft()


def pooled(rng: np.random.Generator, opset: int, shape: tuple[int, ...], dtype: str, schema: Any) -> Draft:
    rank = len(shape) - 2
    known = schema.attributes
    kernel = rng.integers(1, 5, rank)
    if rng.random() < 0.15:
        kernel = np.asarray(shape[2:])
    draft: dict[str, Any] = {"kernel_shape": kernel.tolist()}
    if rng.random() < 0.7:
        draft["strides"] = rng.integers(1, 4, rank).tolist()
    dilations = np.ones(rank, int)
    if "dilations" in known and rng.random() < 0.3:
        dilations = rng.integers(1, 3, rank)
        draft["dilations"] = dilations.tolist()
    way = rng.random()
    if way < 0.15:
        draft["auto_pad"] = str(rng.choice(["SAME_UPPER", "SAME_LOWER", "VALID"]))
    elif way < 0.6:
        draft["pads"] = [int(rng.integers(0, max(k, 1))) for k in (*kernel, *kernel)]
    for name in ("ceil_mode", "count_include_pad"):
        if name in known and rng.random() < 0.4:
            draft[name] = 1
    if schema.name == "LpPool":
        draft["p"] = int(rng.integers(1, 4))
    outputs = 2 if schema.name == "MaxPool" and opset >= 8 and rng.random() < 0.25 else 1
    if outputs == 2 and rng.random() < 0.3:
        draft["storage_order"] = 1
    return Draft(draft, outputs=outputs)


def global_lp(rng: np.random.Generator, opset: int, shape: tuple[int, ...], dtype: str, schema: Any) -> Draft:
    return Draft({"p": int(rng.integers(1, 4))})


def reduced(rng: np.random.Generator, opset: int, shape: tuple[int, ...], dtype: str, schema: Any) -> Draft:
    rank = len(shape)
    draft = Draft({"keepdims": int(rng.integers(2))} if rng.random() < 0.7 else {})
    axes = rng.permutation(rank)[: rng.integers(1, rank + 1)]
    axes = np.where(rng.random(len(axes)) < 0.3 * (opset >= 11), axes - rank, axes)
    given = rng.random() < 0.8
    if "axes" in schema.attributes:
        if given:
            draft.attributes["axes"] = axes.tolist()
        return draft
    if given:
        draft.more.append(("axes", axes.astype(np.int64), True))
    if "noop_with_empty_axes" in schema.attributes and rng.random() < 0.3:
        draft.attributes["noop_with_empty_axes"] = 1
    return draft


def drawn_axis(rng: np.random.Generator, shape: tuple[int, ...], negative: bool) -> int:
    rank = len(shape)
    return int(rng.integers(-rank if negative else 0, rank))


def searched(rng: np.random.Generator, opset: int, shape: tuple[int, ...], dtype: str, schema: Any) -> Draft:
    draft = {"axis": drawn_axis(rng, shape, opset >= 11), "keepdims": int(rng.integers(2))}
    if "select_last_index" in schema.attributes and rng.random() < 0.4:
        draft["select_last_index"] = 1
    return Draft(draft)


def ranked(rng: np.random.Generator, opset: int, shape: tuple[int, ...], dtype: str, schema: Any) -> Draft:
    axis = drawn_axis(rng, shape, opset >= 11)
    k = int(rng.integers(1, shape[axis] + 1)) if shape[axis] else 0
    draft = Draft({"axis": axis}, outputs=2)
    if "largest" in schema.attributes and rng.random() < 0.5:
        draft.attributes["largest"] = int(rng.integers(2))
    if "k" in schema.attributes:
        draft.attributes["k"] = k
    else:
        draft.more.append(("k", np.asarray([k], np.int64), True))
    return draft


def along(rng: np.random.Generator, opset: int, shape: tuple[int, ...], dtype: str, schema: Any) -> Draft:
    return Draft({"axis": drawn_axis(rng, shape, opset >= 11)} if rng.random() < 0.7 else {})


def lp_normed(rng: np.random.Generator, opset: int, shape: tuple[int, ...], dtype: str, schema: Any) -> Draft:
    return Draft({"axis": drawn_axis(rng, shape, True), "p": int(rng.integers(1, 3))})


def layer_normed(rng: np.random.Generator, opset: int, shape: tuple[int, ...], dtype: str, schema: Any) -> Draft:
    axis = drawn_axis(rng, shape, True)
    inner = shape[axis:] if axis >= 0 else shape[len(shape) + axis :]
    draft = Draft({"axis": axis, "epsilon": float(rng.choice([1e-5, 1e-3]))})
    kind = numpy_type(dtype)
    draft.more.append(("scale", rng.standard_normal(inner).astype(kind), bool(rng.integers(2))))
    if schema.name == "LayerNormalization" and rng.random() < 0.6:
        draft.more.append(("bias", rng.standard_normal(inner).astype(kind), bool(rng.integers(2))))
    return draft


def channel_normed(rng: np.random.Generator, opset: int, shape: tuple[int, ...], dtype: str, schema: Any) -> Draft:
    channels = shape[1]
    if 0 in shape:
        # onnxruntime 1.32 itself breaks down on normalising no element of 16 bits.
        raise UnfitError
    draft = Draft({"epsilon": float(rng.choice([1e-5, 1e-3]))})
    extent = channels
    if schema.name == "GroupNormalization":
        groups = [n for n in range(1, channels + 1) if channels % n == 0]
        if not groups:
            raise UnfitError
        draft.attributes["num_groups"] = int(rng.choice(groups))
        extent = channels if opset >= 21 else draft.attributes["num_groups"]
    kind = numpy_type(dtype)
    for name in ("scale", "bias"):
        draft.more.append((name, rng.standard_normal(extent).astype(kind), bool(rng.integers(2))))
    return draft


def mean_variance(rng: np.random.Generator, opset: int, shape: tuple[int, ...], dtype: str, schema: Any) -> Draft:
    rank = len(shape)
    return Draft({"axes": sorted(rng.permutation(rank)[: rng.integers(1, rank + 1)].tolist())})


def gathered(rng: np.random.Generator, opset: int, shape: tuple[int, ...], dtype: str, schema: Any) -> Draft:
    axis = drawn_axis(rng, shape, opset >= 11)
    if not shape[axis]:
        raise UnfitError
    extents = tuple(int(each) for each in rng.integers(1, 4, rng.integers(0, 3)))
    low = -shape[axis] if opset >= 11 else 0
    indices = rng.integers(low, shape[axis], extents).astype(rng.choice([np.int32, np.int64]))
    return Draft({"axis": axis}, [("indices", np.asarray(indices), bool(rng.integers(2)))])


def expanded(rng: np.random.Generator, opset: int, shape: tuple[int, ...], dtype: str, schema: Any) -> Draft:
    wanted = [int(rng.integers(1, 6)) if n == 1 else (n if rng.random() < 0.7 else 1) for n in shape]
    wanted = [int(each) for each in rng.integers(1, 4, rng.integers(0, 2))] + wanted
    return Draft(more=[("shape", np.asarray(wanted, np.int64), True)])


def ranging(rng: np.random.Generator, opset: int, shape: tuple[int, ...], dtype: str, schema: Any) -> Draft:
    kind = numpy_type(dtype)
    start, delta = float(rng.integers(-20, 20)), float(rng.choice([-3, -1, 1, 2, 0.25 if kind.kind == "f" else 5]))
    limit = start + delta * float(rng.integers(0, 60))
    made = [("limit", np.asarray(limit, kind), True), ("delta", np.asarray(delta, kind), True)]
    return Draft(more=made, attributes={"first": np.asarray(start, kind)})


def binary(rng: np.random.Generator, opset: int, shape: tuple[int, ...], dtype: str, schema: Any) -> Draft:
    other = [n if rng.random() < 0.6 else 1 for n in shape][
        int(rng.integers(0, len(shape) + 1)) * (rng.random() < 0.3) :
    ]
    value, _ = values(rng, dtype, tuple(other))
    if schema.name == "Div" and value.dtype.kind in "iu":
        value = np.where(value == 0, 1, value).astype(value.dtype)
    return Draft(more=[("b", value, bool(rng.integers(2)))])


SPATIAL = (3, 5)
ANY = (1, 5)
OPERATORS: dict[str, tuple[Recipe, tuple[int, int], float]] = {
    "MaxPool": (pooled, SPATIAL, 4),
    "AveragePool": (pooled, SPATIAL, 4),
    "LpPool": (pooled, SPATIAL, 2),
    "GlobalMaxPool": (plain, SPATIAL, 1),
    "GlobalAveragePool": (plain, SPATIAL, 1),
    "GlobalLpPool": (global_lp, SPATIAL, 1),
    **dict.fromkeys(("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin"), (reduced, ANY, 2.0)),
    **dict.fromkeys(
        ("ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp"),
        (reduced, ANY, 1.0),
    ),
    "ArgMax": (searched, ANY, 2),
    "ArgMin": (searched, ANY, 2),
    "TopK": (ranked, ANY, 2),
    **dict.fromkeys(("Softmax", "LogSoftmax", "Hardmax"), (along, ANY, 1.0)),
    "LayerNormalization": (layer_normed, ANY, 1),
    "RMSNormalization": (layer_normed, ANY, 1),
    "GroupNormalization": (channel_normed, SPATIAL, 1),
    "InstanceNormalization": (channel_normed, SPATIAL, 1),
    "MeanVarianceNormalization": (mean_variance, (4, 4), 1),
    "LpNormalization": (lp_normed, ANY, 1),
    "Reciprocal": (plain, ANY, 0.5),
    "Gather": (gathered, ANY, 1),
    "Range": (ranging, (1, 1), 0.5),
    "Expand": (expanded, ANY, 1),
    **dict.fromkeys(("Add", "Sub", "Mul", "Div", "Max", "Min"), (binary, ANY, 0.5)),
}
"""Recipe, ranks, and how often each operator is drawn."""


def drawn(rng: np.random.Generator, op_type: str = "") -> Sample:
    """A random model; ``UnfitError`` draws are drawn again."""
    while True:
        try:
            return _drawn(rng, op_type)
        except UnfitError:
            continue


def _drawn(rng: np.random.Generator, op_type: str) -> Sample:
    names = list(OPERATORS)
    weights = np.array([row[2] for row in OPERATORS.values()])
    op_type = op_type or str(rng.choice(names, p=weights / weights.sum()))
    recipe, ranks, _ = OPERATORS[op_type]
    opset, schema = drawn_version(rng, op_type)
    dtype = drawn_type(rng, schema)
    shape = drawn_extents(rng, *ranks)
    draft = recipe(rng, opset, shape, dtype, schema)
    x, style = values(rng, dtype, shape)
    if "first" in draft.attributes:
        x, style, shape = draft.attributes.pop("first"), "first", ()
    inputs = [("x", x, op_type == "Range"), *draft.more]
    names_out = ["y", "z"][: draft.outputs]
    node = helper.make_node(op_type, [name for name, _, _ in inputs], names_out, name="n", **draft.attributes)
    graph = helper.make_graph(
        [node],
        "random",
        [_info(name, value) for name, value, constant in inputs if not constant],
        [_result(op_type, name, x) for name in names_out],
        [numpy_helper.from_array(value, name) for name, value, constant in inputs if constant],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    told = f"{op_type} set {opset} {dtype} {list(shape)} {style} {draft.attributes}" + "".join(
        f" {name}={value.tolist() if value.size < 9 else list(value.shape)}" for name, value, _ in draft.more
    )
    try:
        inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    except Exception as error:
        raise UnfitError from error
    if not all(_reasonable(value) for value in inferred.graph.output):
        raise UnfitError
    return Sample(inferred, {name: value for name, value, constant in inputs if not constant}, told)


def _result(op_type: str, name: str, x: np.ndarray) -> onnx.ValueInfoProto:
    """An output whose type is left to inference, except where the operator has none."""
    return _info(name, x) if op_type == "GroupNormalization" else onnx.ValueInfoProto(name=name)


def _info(name: str, value: np.ndarray) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)


def _reasonable(value: onnx.ValueInfoProto) -> bool:
    """Whether extents could be inferred and are none of a window that does not fit."""
    kind = value.type.tensor_type
    if kind.elem_type == TensorProto.UNDEFINED:
        return False
    extents = [dim.dim_value for dim in kind.shape.dim]
    return all(each >= 0 for each in extents) and math.prod(extents) < 100_000
