"""What a leg piece or a model should give: by onnxruntime, or by the best that there is for its types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from lanefold.diagnostics import LanefoldError
from lanefold.frontends.onnx.pieces import LegPiece, tensor_type
from lanefold.host import evaluate, missing_kernel, open_session, run_session

Array = np.ndarray[Any, np.dtype[Any]]

_REFERENCE_FORMAT = 8
_OLDER_SET = 21
_MORE_TYPES = frozenset(("GlobalLpPool",))
"""Operators that operator set 22 gave more element types, and nothing else."""


def reference_model(piece: LegPiece) -> onnx.ModelProto:
    """The ONNX model of one leg piece alone."""
    reference, op = piece.reference, piece.op
    sources = [tensor_type(*operand) for operand in piece.operands]
    results = [tensor_type(dtype, op.output_shape) for dtype in piece.result_dtypes]
    graph = helper.make_graph(
        list(reference.nodes),
        "reference",
        [helper.make_value_info(name, source) for name, source in zip(piece.inputs, sources, strict=True)],
        [helper.make_value_info(name, result) for name, result in zip(piece.outputs, results, strict=True)],
        [numpy_helper.from_array(np.asarray(value, np.int64), name) for name, value in reference.constants],
    )
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", reference.opset)], ir_version=_REFERENCE_FORMAT
    )


def reference(
    proto: onnx.ModelProto, outputs: Sequence[str], feeds: Mapping[str, Array], name: str
) -> tuple[list[Array], str]:
    """Outputs by onnxruntime; for types it has no kernels for by its float32, or by the evaluator of the onnx package.

    Raises:
        LanefoldError: nothing can run the model.
    """
    try:
        session = open_session(proto.SerializeToString(), name)
        return run_session(session, outputs, dict(feeds), name), "onnxruntime"
    except LanefoldError as refused:
        older = in_older_set(proto)
        if older is not None and missing_kernel(refused):
            made, against = reference(older, outputs, feeds, name)
            return made, f"{against}, operator set {_OLDER_SET}"
        wide = in_float32(proto)
        if wide is not None:
            try:
                return _run_wide(wide, proto, outputs, feeds, name), "onnxruntime in float32"
            except LanefoldError:
                pass
        results = evaluate(proto.SerializeToString(), outputs, dict(feeds))
        if results is None:
            raise refused from None
        return results, "onnx reference evaluator"


_NARROW = (onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16)
_TYPED = frozenset(("Cast", "CastLike", "Constant", "ConstantOfShape", "EyeLike", "RandomNormal", "RandomUniform"))
"""Operators that state an element type of their own."""


def in_older_set(proto: onnx.ModelProto) -> onnx.ModelProto | None:
    """The model in operator set 21, if none of its operators changed after it but in the types that it takes.

    Source: ONNX operators, version history: GlobalLpPool 22 takes bfloat16 besides, and is GlobalLpPool 2 else.
    """
    (own,) = [each for each in proto.opset_import if not each.domain] or [helper.make_opsetid("", 0)]
    if own.version <= _OLDER_SET or proto.functions:
        return None
    for node in proto.graph.node:
        if node.domain or any(each.type == onnx.AttributeProto.GRAPH for each in node.attribute):
            return None
        if not onnx.defs.has(node.op_type, _OLDER_SET):
            return None
        now, then = (onnx.defs.get_schema(node.op_type, at, "") for at in (own.version, _OLDER_SET))
        if now.since_version != then.since_version and node.op_type not in _MORE_TYPES:
            return None
    older = onnx.ModelProto()
    older.CopyFrom(proto)
    for each in older.opset_import:
        if not each.domain:
            each.version = _OLDER_SET
    return older


def in_float32(proto: onnx.ModelProto) -> onnx.ModelProto | None:
    """The model with float32 in place of its 16-bit floats; None where it has none, or nodes that state a type."""
    tensors = [info.type.tensor_type for info in (*proto.graph.input, *proto.graph.output)]
    narrow = [each for each in (*tensors, *proto.graph.initializer) if _element(each) in _NARROW]
    if not narrow or proto.functions or any(node.op_type in _TYPED for node in proto.graph.node):
        return None
    wide = onnx.ModelProto()
    wide.CopyFrom(proto)
    del wide.graph.value_info[:]
    for info in (*wide.graph.input, *wide.graph.output):
        if info.type.tensor_type.elem_type in _NARROW:
            info.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    for tensor in wide.graph.initializer:
        if tensor.data_type in _NARROW:
            value = numpy_helper.to_array(tensor).astype(np.float32)
            tensor.CopyFrom(numpy_helper.from_array(value, tensor.name))
    return wide


def _element(each: onnx.TensorProto | onnx.TypeProto.Tensor) -> int:
    return each.data_type if isinstance(each, onnx.TensorProto) else each.elem_type


def _run_wide(
    wide: onnx.ModelProto, proto: onnx.ModelProto, outputs: Sequence[str], feeds: Mapping[str, Array], name: str
) -> list[Array]:
    """Results of the wide model, rounded to the types of the model itself.

    Raises:
        LanefoldError: onnxruntime does not take the wide model either.
    """
    fed = {
        each: value.astype(np.float32) if value.dtype.name in ("float16", "bfloat16") else value
        for each, value in feeds.items()
    }
    kinds = {each.name: each.type.tensor_type.elem_type for each in proto.graph.output}
    results = run_session(open_session(wide.SerializeToString(), name), outputs, fed, name)
    with np.errstate(over="ignore"):
        return [
            result.astype(helper.tensor_dtype_to_np_dtype(kinds[each])) if kinds.get(each) in _NARROW else result
            for each, result in zip(outputs, results, strict=True)
        ]
