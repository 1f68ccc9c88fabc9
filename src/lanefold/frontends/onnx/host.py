"""Cutting self-contained host models out of a graph."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import onnx
from onnx import helper

from lanefold.diagnostics import LanefoldError
from lanefold.frontends.onnx import rules
from lanefold.frontends.onnx.read import Model
from lanefold.host import HostStep

_OLDEST_FORMAT = 4
"""From this format version on, constants need not be inputs too, and onnxruntime may fold them."""


def names_read(node: onnx.NodeProto) -> list[str]:
    """Tensors a node reads, those that its inner graphs take from outside included."""
    names = [name for name in node.input if name]
    for attribute in node.attribute:
        for graph in (*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])):
            names += _read_from_outside(graph)
    return list(dict.fromkeys(names))


def _read_from_outside(graph: onnx.GraphProto) -> list[str]:
    inside = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    inside |= {tensor.values.name for tensor in graph.sparse_initializer}
    found = []
    for node in graph.node:
        found += [name for name in names_read(node) if name not in inside]
        inside.update(node.output)
    found += [value.name for value in graph.output if value.name not in inside]
    return found


def host_step(
    model: Model,
    name: str,
    nodes: Sequence[onnx.NodeProto],
    wanted: Collection[str],
    types: Mapping[str, onnx.TypeProto],
    constants: Mapping[str, onnx.TensorProto],
) -> HostStep:
    """One model of the given nodes, in order, with only the constants and inputs they need.

    Args:
        model: the source.
        name: of the step.
        nodes: in an order in which they can run.
        wanted: tensors that other steps or the user need.
        types: of all tensors of the source and of its parts.
        constants: by name.

    Raises:
        LanefoldError: a tensor that comes from another step has no known type.
    """
    read = dict.fromkeys(each for node in nodes for each in names_read(node))
    made = dict.fromkeys(each for node in nodes for each in node.output if each)
    inputs = [each for each in read if each not in made and each not in constants]
    outputs = [each for each in made if each in wanted]
    graph = helper.make_graph(
        list(nodes),
        name,
        _typed(model, inputs, types),
        [_value(each, types) for each in outputs],
        [constants[each] for each in read if each in constants],
    )
    made_model = helper.make_model(
        graph,
        opset_imports=model.proto.opset_import,
        functions=list(model.proto.functions),
        ir_version=max(model.proto.ir_version, _OLDEST_FORMAT),
    )
    return HostStep(name, made_model.SerializeToString(), tuple(inputs), tuple(outputs))


def _value(name: str, types: Mapping[str, onnx.TypeProto]) -> onnx.ValueInfoProto:
    value = onnx.ValueInfoProto(name=name)
    if name in types:
        value.type.CopyFrom(types[name])
    return value


def _typed(model: Model, names: Iterable[str], types: Mapping[str, onnx.TypeProto]) -> list[onnx.ValueInfoProto]:
    found = [
        rules.TYPE.finding(
            f"the type of {name}, which passes from one step to another, is not known",
            got="no type",
            allowed="a type for each tensor between host and leg",
            cures=[f"write the type of {name} into the value_info of the graph"],
            place=model.place(model.producers.get(name), name),
        )
        for name in names
        if name not in types
    ]
    if found:
        raise LanefoldError(found, usage=True)
    return [_value(name, types) for name in names]
