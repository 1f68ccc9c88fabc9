"""Loading a model file and checking that it is one."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from onnx import defs

from lanefold import arguments
from lanefold.diagnostics import LanefoldError, Place
from lanefold.frontends.onnx import rules
from lanefold.frontends.onnx.nodes import DEFAULT_DOMAINS

_DEPRECATED = "deprecated"


def load(model: str | Path | onnx.ModelProto) -> tuple[str, onnx.ModelProto]:
    """Name and content of a model; one in memory is copied.

    Raises:
        LanefoldError: the file cannot be read or holds no model.
    """
    if isinstance(model, onnx.ModelProto):
        proto = onnx.ModelProto()
        proto.CopyFrom(model)
        return proto.graph.name or "model", proto
    path = _path(model)
    place = Place(file=str(path))
    cures = ["name an existing .onnx file"]
    try:
        what = "" if path.is_file() else "is a folder" if path.is_dir() else "does not exist"
    except (OSError, ValueError) as error:
        what = f"cannot be read: {getattr(error, 'strerror', None) or error}"
    if what:
        raise rules.FILE.error(f"{path} {what}", got=str(path), allowed="an ONNX file", cures=cures, place=place)
    try:
        proto = onnx.load(str(path), load_external_data=False)
    except (OSError, ValueError) as error:
        raise rules.FILE.error(
            f"{path} cannot be read: {first_line(error)}",
            got=path.name,
            allowed="an ONNX file",
            cures=cures,
            place=place,
        ) from error
    except DecodeError as error:
        raise _not_a_model(path) from error
    if not proto.graph.node and not proto.graph.output:
        raise _not_a_model(path)
    _load_weights(proto, path)
    return str(path), proto


def _path(model: object) -> Path:
    """The path of a model file.

    Raises:
        LanefoldError: CALL-ARGUMENT for anything that is neither a path nor a model, with the way from what it is.
    """
    if isinstance(model, str | os.PathLike):
        return arguments.path("compile", "model", model, "model.onnx")
    ways = {
        bytes: "give onnx.load_model_from_string(model)",
        onnx.GraphProto: "give onnx.helper.make_model(model)",
    }
    way = ways.get(type(model), "give model='model.onnx', the path of an ONNX file")
    raise arguments.refused("compile", "model", model, "the path of an ONNX file, or an onnx.ModelProto", way)


def _load_weights(proto: onnx.ModelProto, path: Path) -> None:
    """Bring in the tensors that lie in files of their own.

    Raises:
        LanefoldError: one of these files is missing, too short, or not beside the model.
    """
    try:
        onnx.load_external_data_for_model(proto, str(path.parent))
    except (OSError, ValueError, onnx.checker.ValidationError) as error:
        names = ", ".join(dict.fromkeys(_external_files(proto))) or "a file of its own"
        raise rules.FILE.error(
            f"{path} keeps tensors in {names}, which cannot be read: {first_line(error)}",
            got=first_line(error),
            allowed=f"{names} as written with the model, in the folder {path.parent}",
            cures=[f"put {names} beside {path.name}", "save the model as one file with onnx.save"],
            place=Place(file=str(path)),
        ) from error


def _external_files(proto: onnx.ModelProto) -> list[str]:
    return [
        entry.value
        for tensor in proto.graph.initializer
        if tensor.data_location == onnx.TensorProto.EXTERNAL
        for entry in tensor.external_data
        if entry.key == "location"
    ]


def check_text(proto: onnx.ModelProto, source: str) -> None:
    """Refuse names that are not UTF-8, which the protobuf package hands out as bytes."""
    graph = proto.graph
    names: list[object] = [graph.name]
    for node in graph.node:
        names += [node.op_type, node.domain, node.name, *node.input, *node.output]
        names += [attribute.name for attribute in node.attribute]
    names += [each.name for each in (*graph.input, *graph.output, *graph.value_info, *graph.initializer)]
    wrong = [name for name in names if isinstance(name, bytes)]
    if wrong:
        raise rules.CHECK.error(
            f"{source} holds a name that is not UTF-8 text",
            got=repr(wrong[0]),
            allowed="names in UTF-8",
            cures=["export the model again"],
            place=Place(file=source),
        )


def _not_a_model(path: Path) -> LanefoldError:
    size = path.stat().st_size
    return rules.FILE.error(
        f"{path} ({size} bytes) is not an ONNX model",
        got=f"{size} bytes that do not decode as a ModelProto with a graph",
        allowed="a serialized ONNX ModelProto",
        cures=["export the model again with onnx.save", "check that the file was copied whole"],
        place=Place(file=str(path)),
    )


def first_line(error: Exception) -> str:
    """What another package says, in one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def default_opset(proto: onnx.ModelProto, source: str) -> int:
    """Version of the default operator set that the model imports.

    Raises:
        LanefoldError: there is none, or the onnx package does not know it.
    """
    newest = defs.onnx_opset_version()
    versions = [each.version for each in proto.opset_import if each.domain in DEFAULT_DOMAINS]
    if versions and 1 <= versions[0] <= newest:
        return int(versions[0])
    got = f"version {versions[0]}" if versions else "no import of the default operator set"
    raise rules.OPSET.error(
        f"{source} has {got}",
        got=got,
        allowed=f"versions 1 to {newest}",
        cures=[f"convert the model to operator set {newest} with onnx.version_converter"],
        place=Place(file=source),
    )


def check(proto: onnx.ModelProto, source: str) -> None:
    """Refuse a model that the checker of the onnx package refuses; deprecated operators may stay.

    A tensor at the edge may lack a shape, and an output even a type, as onnxruntime takes such models too: those of an
    output are inferred, the shape of an input is asked for later on.
    """
    edges = (*proto.graph.input, *proto.graph.output)
    untyped = [v for v in proto.graph.output if v.type.WhichOneof("value") is None]
    for value in untyped:
        value.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    bare = [v.type.tensor_type for v in edges if v.type.HasField("tensor_type") and not _has_shape(v)]
    for kind in bare:
        kind.shape.SetInParent()
    try:
        onnx.checker.check_model(_without_deprecated(proto))
    except (onnx.checker.ValidationError, ValueError) as error:
        raise rules.CHECK.error(
            f"{source} is not a well-formed model: {first_line(error)}",
            got=first_line(error),
            allowed="a model that onnx.checker.check_model accepts",
            cures=["correct the named part and export the model again"],
            place=Place(file=source),
        ) from error
    finally:
        for kind in bare:
            kind.ClearField("shape")
        for value in untyped:
            value.ClearField("type")


def _without_deprecated(proto: onnx.ModelProto) -> onnx.ModelProto:
    """The model with the operators that its set has deprecated in a domain of their own, where nothing checks them.

    Their set still defines them, as set 18 does GroupNormalization with a scale per group.
    """
    versions = [each.version for each in proto.opset_import if each.domain in DEFAULT_DOMAINS]
    places = [at for at, node in enumerate(proto.graph.node) if versions and _is_deprecated(node, versions[0])]
    if not places:
        return proto
    made = onnx.ModelProto()
    made.CopyFrom(proto)
    for at in places:
        made.graph.node[at].domain = _DEPRECATED
    made.opset_import.append(onnx.helper.make_opsetid(_DEPRECATED, 1))
    return made


def _is_deprecated(node: onnx.NodeProto, opset: int) -> bool:
    return node.domain in DEFAULT_DOMAINS and defs.has(node.op_type) and _schema_deprecated(node.op_type, opset)


@lru_cache(maxsize=512)
def _schema_deprecated(op_type: str, opset: int) -> bool:
    try:
        return bool(defs.get_schema(op_type, opset, "").deprecated)
    except defs.SchemaError:
        return False


def _has_shape(value: onnx.ValueInfoProto) -> bool:
    return bool(value.type.tensor_type.HasField("shape"))
