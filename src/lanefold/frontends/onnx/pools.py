"""Pooling nodes as Pool ops: MaxPool, AveragePool, LpPool and their global forms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import onnx
from onnx import helper

from lanefold.diagnostics import Diagnostic
from lanefold.frontends.onnx import rules
from lanefold.frontends.onnx.arg_pools import with_indices
from lanefold.frontends.onnx.elements import CAST_SET, HALVES, WORK, sums_magnitudes, wide_fold
from lanefold.frontends.onnx.nodes import Node
from lanefold.frontends.onnx.pieces import (
    HostPiece,
    LegPiece,
    OnHost,
    Parts,
    Reference,
    Source,
    leg_source,
    only_output,
    tensor_type,
)
from lanefold.frontends.onnx.read import Model
from lanefold.ops import Pool, resolve_pads


def _ranked_source(model: Model, node: Node) -> Source | OnHost:
    source = leg_source(model, node)
    if isinstance(source, Source) and not 3 <= len(source.shape) <= 5:
        return OnHost(f"{len(source.shape) - 2} spatial axes; the leg pools over 1 to 3")
    return source


def _window(model: Model, node: Node, source: Source, operator: str, element: str) -> tuple[Pool, list[Diagnostic]]:
    """The Pool of a node with kernel, strides, pads and so on.

    Raises:
        LanefoldError: an attribute or window that no pooling can have.
    """
    rank = len(source.shape) - 2
    kernel = node.integers("kernel_shape") or ()
    strides = node.integers("strides") or (1,) * rank
    dilations = node.integers("dilations") or (1,) * rank
    pads = node.integers("pads")
    ceil_mode = bool(node.integer("ceil_mode"))
    findings: tuple[Diagnostic, ...] = ()
    if len(kernel) == len(strides) == len(dilations) == rank and min(strides) > 0:
        resolved = resolve_pads(
            str(node.attributes.get("auto_pad", "NOTSET")),
            pads,
            source.shape[2:],
            kernel,
            strides,
            dilations,
            ceil_mode=ceil_mode,
            place=model.place(node),
        )
        pads, ceil_mode = resolved.pads, resolved.ceil_mode
        findings = (*resolved.findings, *_same_findings(model, node, pads, dilations, source.shape[2:]))
    pool = Pool(
        operator=operator,
        input_shape=source.shape,
        kernel=kernel,
        strides=strides,
        dilations=dilations,
        pads=pads or (),
        ceil_mode=ceil_mode,
        count_include_pad=operator == "average" and bool(node.integer("count_include_pad")),
        element=element,
        dtype=source.dtype,
    )
    return pool, list(findings)


def _same_findings(
    model: Model, node: Node, pads: tuple[int, ...], dilations: tuple[int, ...], sizes: tuple[int, ...]
) -> list[Diagnostic]:
    """A warning where onnxruntime is known to resolve SAME to other pads."""
    auto_pad = str(node.attributes.get("auto_pad", "NOTSET"))
    kernel, strides = node.integers("kernel_shape") or (), node.integers("strides") or (1,) * len(sizes)
    gaps = any(
        -(-n // s) * s - s + d * (k - 1) + 1 < n for n, s, d, k in zip(sizes, strides, dilations, kernel, strict=True)
    )
    if not auto_pad.startswith("SAME") or not (gaps or max(dilations) > 1):
        return []
    return [
        rules.AUTO_PAD.finding(
            f"{auto_pad} is resolved to pads {list(pads)}; onnxruntime resolves it differently for "
            + ("windows that skip elements" if gaps else "dilated windows"),
            got=f"{auto_pad}, strides {list(strides)}, dilations {list(dilations)}, kernel {list(kernel)}",
            allowed="explicit pads, which all runtimes read alike",
            cures=[f"write auto_pad NOTSET and pads {list(pads)}"],
            place=model.place(node),
        )
    ]


def _explicit(node: Node, pool: Pool) -> onnx.NodeProto:
    """The node with explicit pads in place of auto_pad."""
    proto = only_output(node)
    if node.attributes.get("auto_pad", "NOTSET") == "NOTSET":
        return proto
    kept = [each for each in proto.attribute if each.name not in ("auto_pad", "pads", "ceil_mode")]
    del proto.attribute[:]
    proto.attribute.extend([*kept, helper.make_attribute("pads", pool.pads)])
    return proto


def describe(pool: Pool) -> str:
    """Window, resolved pads, dropped windows and divisors of a pooling, in one line."""
    shape = pool.shape
    words = [f"{pool.operator} of windows {'×'.join(map(str, pool.kernel))}"]
    if any(pool.pads):
        words.append(f"pads {list(pool.pads)} left out by clipping")
    words += [f"spatial axis {axis}: {reason}, so it is dropped" for axis, reason in shape.dropped.items()]
    if pool.operator == "average":
        divisors = sorted({window.divisor for window in shape.windows})
        words.append(f"N = {', '.join(map(str, divisors))}")
    return "; ".join(words)


def _max_pool(model: Model, node: Node) -> Parts | OnHost:
    findings = _max_findings(model, node)
    source = _ranked_source(model, node)
    if isinstance(source, OnHost):
        return replace(source, findings=findings)
    pool, found = _window(model, node, source, "max", "identity")
    if len(node.outputs) > 1:
        return with_indices(model, node, pool, _explicit(node, pool), (*findings, *found), describe(pool))
    return _one(model, node, pool, (*findings, *found))


def _max_findings(model: Model, node: Node) -> tuple[Diagnostic, ...]:
    found = []
    if node.integer("storage_order") and len(node.outputs) < 2:
        found.append(
            rules.NO_EFFECT.finding(
                "storage_order 1 has no effect without the output of indices",
                got="storage_order 1",
                allowed="storage_order 0, or an output for the indices",
                cures=["remove storage_order from the node"],
                place=model.place(node),
            )
        )
    pad = model.producers.get(node.inputs[0])
    if pad is not None and pad.op_type == "Pad" and _pads_with_zero(model, pad):
        found.append(
            rules.PAD_ZERO_MAX.finding(
                f"{pad.name} pads {node.inputs[0]} with 0, which wins over negative values in {node.op_type}",
                got="pad value 0",
                allowed="the identity of the maximum: −inf, or the lowest integer of the type",
                cures=[f"use the attribute pads of {node.name}, which never wins", "pad with the identity"],
                place=model.place(node, node.inputs[0]),
            )
        )
    return tuple(found)


def _pads_with_zero(model: Model, pad: Node) -> bool:
    if pad.attributes.get("mode", "constant") != "constant":
        return False
    if len(pad.inputs) > 2 and pad.inputs[2]:
        value = model.constant(pad.inputs[2])
        return value is not None and float(value.reshape(-1)[0]) == 0
    fixed = pad.attributes.get("value", 0.0)
    return isinstance(fixed, int | float) and fixed == 0


def _average_pool(model: Model, node: Node) -> Parts | OnHost:
    source = _ranked_source(model, node)
    if isinstance(source, OnHost):
        return source
    pool, findings = _window(model, node, source, "average", "identity")
    return _one(model, node, pool, tuple(findings))


def _one(model: Model, node: Node, pool: Pool, findings: tuple[Diagnostic, ...] = ()) -> Parts:
    piece = LegPiece(
        name=node.name,
        node=node,
        op=pool,
        inputs=(node.inputs[0],),
        outputs=(node.outputs[0],),
        reference=Reference((_explicit(node, pool),), model.opset),
        exact=pool.operator == "max",
    )
    return Parts((piece,), describe(pool), findings=findings)


def _global(operator: str) -> Callable[[Model, Node], Parts | OnHost]:
    def whole_map(model: Model, node: Node) -> Parts | OnHost:
        source = _ranked_source(model, node)
        if isinstance(source, OnHost):
            return source
        return _one(model, node, Pool(operator, source.shape, source.shape[2:], dtype=source.dtype))

    return whole_map


def _lp_pool(model: Model, node: Node) -> Parts | OnHost:
    """LpPool and GlobalLpPool: sums of magnitudes, or of squares with a root on the host."""
    p = node.attributes.get("p", 2)
    if p not in (1, 2):
        return OnHost(f"p = {p}; the leg sums magnitudes (p = 1) and squares (p = 2)")
    source = _ranked_source(model, node)
    if isinstance(source, OnHost):
        return source
    element = "abs" if p == 1 else "square"
    findings: list[Diagnostic] = []
    if node.op_type == "GlobalLpPool":
        pool = Pool("add", source.shape, source.shape[2:], element=element, dtype=source.dtype)
    else:
        pool, findings = _window(model, node, source, "add", element)
    if p == 1:
        return _one(model, node, pool, tuple(findings))
    return _root(model, node, pool, tuple(findings))


def _root(model: Model, node: Node, pool: Pool, findings: tuple[Diagnostic, ...]) -> Parts:
    output = node.outputs[0]
    squares, mapped = f"{output}/squares", f"{output}/mapped"
    whole = sums_magnitudes(_explicit(node, pool))
    whole.input[0], whole.output[0] = mapped, squares
    source = node.inputs[0]
    piece = LegPiece(
        name=f"{node.name}/squares",
        node=node,
        op=pool,
        inputs=(source,),
        outputs=(squares,),
        reference=Reference((helper.make_node("Mul", [source, source], [mapped]), whole), max(model.opset, 7)),
        exact=False,
    )
    summed = tensor_type(pool.output_dtype, pool.output_shape)
    if pool.dtype not in HALVES or model.opset < CAST_SET:
        root = HostPiece(f"{node.name}/root", node, _named("Sqrt", squares, output, f"{node.name}/root"))
        note = f"{describe(pool)}; squares summed on the leg, square root on the host"
        return Parts((piece, root), note, types=((squares, summed),), findings=findings)
    fold, types = wide_fold(piece)
    rooted, small = f"{output}/root", tensor_type(WORK, pool.output_shape)
    cast = helper.make_node("Cast", [rooted], [output], name=f"{node.name}/cast", to=summed.tensor_type.elem_type)
    return Parts(
        (
            fold,
            HostPiece(f"{node.name}/root", node, _named("Sqrt", squares, rooted, f"{node.name}/root")),
            HostPiece(cast.name, node, cast),
        ),
        f"{describe(pool)}; squares summed on the leg and kept in float32, square root on the host",
        types=((squares, small), (rooted, small), *types),
        findings=findings,
    )


def _named(op_type: str, source: str, result: str, name: str) -> onnx.NodeProto:
    return helper.make_node(op_type, [source], [result], name=name)


POOLS: dict[str, Callable[[Model, Node], Parts | OnHost]] = {
    "MaxPool": _max_pool,
    "AveragePool": _average_pool,
    "LpPool": _lp_pool,
    "GlobalMaxPool": _global("max"),
    "GlobalAveragePool": _global("average"),
    "GlobalLpPool": _lp_pool,
}
"""What each pooling operator comes to."""
