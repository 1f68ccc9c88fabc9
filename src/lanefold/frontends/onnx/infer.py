"""Types and shapes of a graph, with the pooling shapes of the one signed shape function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx
from onnx import helper, shape_inference

from lanefold.diagnostics import LanefoldError
from lanefold.frontends.onnx.nodes import DEFAULT_DOMAINS, Node
from lanefold.ops import PoolShape, pool_shape, resolve_pads

_SHAPED = frozenset({"MaxPool", "AveragePool", "LpPool"})
_KEEPS_TYPE = frozenset({"GroupNormalization"})
"""Operators without inference of their own in some operator sets, whose result has the type of their first input."""
_WINDOW = frozenset({"auto_pad", "ceil_mode", "dilations", "kernel_shape", "pads", "strides"})


def infer(proto: onnx.ModelProto, nodes: Sequence[Node]) -> onnx.ModelProto:
    """The model with types from the operators' own rules; shapes written inside the graph are not trusted.

    The onnx package keeps the last window of ceil mode where the operator's rule drops it. For inference such a node
    is therefore given a plain window that leads to the right number of outputs, until all pooling shapes agree.
    """
    bare = onnx.ModelProto()
    bare.CopyFrom(proto)
    del bare.graph.value_info[:]
    for value in bare.graph.output:
        value.ClearField("type")
    kept = [node for node in nodes if node.op_type in _KEEPS_TYPE and node.proto.domain in DEFAULT_DOMAINS]
    for node in kept:
        copy = helper.make_node("Identity", node.proto.input[:1], node.proto.output[:1])
        bare.graph.node[node.index].CopyFrom(copy)
    inferred = shape_inference.infer_shapes(bare, data_prop=True)
    doubtful = [node for node in nodes if _is_doubtful(node)]
    while _settle(bare, doubtful, _extents(inferred)):
        inferred = shape_inference.infer_shapes(bare, data_prop=True)
    for node in (*doubtful, *kept):
        inferred.graph.node[node.index].CopyFrom(node.proto)
    _add_written(inferred, proto)
    return inferred


def _is_doubtful(node: Node) -> bool:
    return node.op_type in _SHAPED and (
        bool(node.integer("ceil_mode")) or node.attributes.get("auto_pad", "NOTSET") != "NOTSET"
    )


def _extents(inferred: onnx.ModelProto) -> dict[str, tuple[int, ...]]:
    graph = inferred.graph
    known = {}
    for value in (*graph.value_info, *graph.output, *graph.input):
        kind = value.type.tensor_type
        if kind.HasField("shape") and all(dim.HasField("dim_value") for dim in kind.shape.dim):
            known[value.name] = tuple(dim.dim_value for dim in kind.shape.dim)
    return known


def _settle(bare: onnx.ModelProto, nodes: Sequence[Node], extents: Mapping[str, tuple[int, ...]]) -> bool:
    """Correct the first node whose inferred outputs are not ours; whether there was one."""
    for node in nodes:
        source, result = extents.get(node.inputs[0]), extents.get(node.outputs[0])
        shape = None if source is None else _shape(node, source[2:])
        if shape is None or result is None or shape.output == result[2:] or min(shape.output) < 1:
            continue
        patched = bare.graph.node[node.index]
        kept = [each for each in node.proto.attribute if each.name not in _WINDOW]
        kernel = [max(axis.size - axis.outputs + 1, 1) for axis in shape.axes]
        pads = [0] * len(kernel) + [max(axis.outputs - axis.size, 0) for axis in shape.axes]
        del patched.attribute[:]
        patched.attribute.extend(
            [*kept, helper.make_attribute("kernel_shape", kernel), helper.make_attribute("pads", pads)]
        )
        return True
    return False


def _shape(node: Node, sizes: tuple[int, ...]) -> PoolShape | None:
    """The pooling's shape; None where its attributes are refused later on."""
    rank = len(sizes)
    kernel = node.integers("kernel_shape") or ()
    strides = node.integers("strides") or (1,) * rank
    dilations = node.integers("dilations") or (1,) * rank
    given = node.integers("pads")
    lengths = {len(kernel), len(strides), len(dilations), rank, rank if given is None else len(given) // 2}
    if lengths != {rank} or not rank or min(*kernel, *strides, *dilations, *sizes) < 1:
        return None
    try:
        pads = resolve_pads(
            str(node.attributes.get("auto_pad", "NOTSET")),
            given,
            sizes,
            kernel,
            strides,
            dilations,
            ceil_mode=bool(node.integer("ceil_mode")),
        )
        return pool_shape(sizes, kernel, strides, dilations, pads.pads, ceil_mode=pads.ceil_mode)
    except LanefoldError:
        return None


def _add_written(inferred: onnx.ModelProto, proto: onnx.ModelProto) -> None:
    """Keep what the model writes about tensors of which inference knows nothing."""
    known = {v.name for v in inferred.graph.value_info}
    inferred.graph.value_info.extend(v for v in proto.graph.value_info if v.name not in known)
    for value, written in zip(inferred.graph.output, proto.graph.output, strict=True):
        open_shape = value.type.HasField("tensor_type") and not value.type.tensor_type.HasField("shape")
        if not value.HasField("type") or (open_shape and _same_element(value, written)):
            value.type.CopyFrom(written.type)


def _same_element(left: onnx.ValueInfoProto, right: onnx.ValueInfoProto) -> bool:
    return left.type.tensor_type.elem_type == right.type.tensor_type.elem_type
