"""Normalisations: means and sums of squares on the leg, roots on the host, everything between in float32."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import NamedTuple

from lanefold.frontends.onnx.chains import FIRST_SET, WORK, Chain
from lanefold.frontends.onnx.nodes import Node
from lanefold.frontends.onnx.pieces import OnHost, Parts, Source, leg_source
from lanefold.frontends.onnx.read import Model
from lanefold.ops.checks import is_float

_STASH_FLOAT32 = 1
_GROUPS_PER_CHANNEL = 21
"""Operator set from which a GroupNormalization has a scale per channel; before, it has one per group."""
_VARIANCE_FLOOR = 1e-9
"""What a MeanVarianceNormalization adds to the deviation."""


def _source(model: Model, node: Node) -> Source | OnHost:
    source = leg_source(model, node)
    if isinstance(source, OnHost):
        return source
    if not source.shape or not is_float(source.dtype):
        return OnHost(f"its input {source.name} is {source.dtype} of {len(source.shape)} dimensions")
    if model.opset < FIRST_SET:
        return OnHost(f"operator set {model.opset} cannot subtract a row's mean from its row")
    stash = node.integer("stash_type", _STASH_FLOAT32)
    if stash != _STASH_FLOAT32:
        return OnHost(f"stash_type {stash} asks for another type than float32 between the steps")
    return source


class _Rows(NamedTuple):
    """What is normalised: a float32 tensor, its extents, and the axes of one mean."""

    name: str
    shape: tuple[int, ...]
    axes: tuple[int, ...]

    @property
    def small(self) -> tuple[int, ...]:
        """Extents of the means."""
        return tuple(1 if axis in self.axes else extent for axis, extent in enumerate(self.shape))


def _deviation(chain: Chain, rows: _Rows, squares: str, floor: float, *, inside: bool = True) -> str:
    """The square root of a mean of squares with a small number added, before the root or behind it."""
    small = chain.constant("epsilon", floor)
    if inside:
        added = chain.host("added", "Add", [squares, small], rows.small)
        return chain.host("deviation", "Sqrt", [added], rows.small)
    root = chain.host("root", "Sqrt", [squares], rows.small)
    return chain.host("deviation", "Add", [root, small], rows.small)


def _centred(chain: Chain, rows: _Rows, into: str = "") -> tuple[str, str]:
    """The distance of every element from its mean, and the mean of the squared distances."""
    mean = chain.fold("mean", "average", rows.name, rows.shape, rows.axes, into=into)
    centred = chain.spread("centred", "subtract", rows.name, mean, rows.shape, rows.small)
    squares = chain.fold("variance", "average", centred, rows.shape, rows.axes, element="square")
    return centred, squares


_Vector = tuple[str, str, tuple[int, ...]]
"""``scale`` or ``bias``, its tensor, and the extents that make it repeat."""


def _vector(chain: Chain, word: str, name: str, shape: Sequence[int]) -> tuple[str, tuple[int, ...]]:
    """A scale or bias in float32 with the given extents, and these extents."""
    model = chain.model
    dtype, given = model.dtype(name), model.shape(name)
    if dtype != WORK:
        name = chain.cast(f"{word}/wide", name, given or shape, WORK)
    if given != tuple(shape):
        name = chain.reshape(f"{word}/shape", name, shape)
    return name, tuple(shape)


def _known(model: Model, names: Sequence[str]) -> OnHost | None:
    """Why scale and bias cannot be used, if they cannot."""
    for name in names:
        if not is_float(model.dtype(name)) or model.shape(name) is None:
            return OnHost(f"the type or the extents of {name} are known only while the model runs")
    return None


def _affine(chain: Chain, source: str, shape: tuple[int, ...], vectors: Sequence[_Vector], into: str) -> str:
    """A tensor times the scale plus the bias, each in its own extents; what is missing is left out."""
    for number, (word, name, extents) in enumerate(vectors):
        vector, small = _vector(chain, word, name, extents)
        done, operator = ("scaled", "mult") if word == "scale" else ("moved", "add")
        last = number == len(vectors) - 1
        source = chain.spread(done, operator, source, vector, shape, small, into=into if last else "")
    return source


def _in_float32(source: Source) -> str:
    return "" if source.dtype == WORK else f", in float32 although {source.name} is {source.dtype}"


def _note(what: str, rows: _Rows, source: Source, *, roots: bool = True) -> str:
    words = f"{what} over axes {list(rows.axes)} of {list(rows.shape)}{_in_float32(source)}"
    return f"{words}; roots on the host" if roots else words


def _from_axis(node: Node, rank: int) -> tuple[int, ...] | OnHost:
    axis = node.integer("axis", -1)
    if not -rank <= axis < rank:
        return OnHost(f"axis {axis} is none of {rank} dimensions")
    return tuple(range(axis % rank, rank))


def _layer(model: Model, node: Node) -> Parts | OnHost:
    """LayerNormalization with its mean and inverse deviation, and RMSNormalization."""
    source = _source(model, node)
    if isinstance(source, OnHost):
        return source
    axes = _from_axis(node, len(source.shape))
    if isinstance(axes, OnHost):
        return axes
    scale, bias = (*node.inputs[1:], "", "")[:2]
    unknown = _known(model, [name for name in (scale, bias) if name])
    if unknown is not None:
        return unknown
    output, mean, inverse = (*node.outputs, "", "")[:3]
    chain = Chain(model, node)
    rows = _Rows(chain.widened(source), source.shape, axes)
    if node.op_type == "RMSNormalization":
        centred, what = rows.name, "mean of squares"
        squares = chain.fold("squares", "average", rows.name, rows.shape, axes, element="square")
    else:
        centred, squares = _centred(chain, rows, into=mean)
        what = "mean and variance"
    deviation = _deviation(chain, rows, squares, _epsilon(node))
    inverted = chain.inverse("inverse", deviation, rows.small, into=inverse)
    vectors = [(word, name, model.shape(name) or ()) for word, name in (("scale", scale), ("bias", bias)) if name]
    dtype = model.dtype(output) or source.dtype
    last = chain.last(output, dtype)
    normal = chain.spread("normal", "mult", centred, inverted, rows.shape, rows.small, into="" if vectors else last)
    chain.narrow(_affine(chain, normal, rows.shape, vectors, last), output, rows.shape, dtype)
    return chain.parts(_note(what, rows, source))


def _epsilon(node: Node, default: float = 1e-5) -> float:
    value = node.attributes.get("epsilon", default)
    return float(value) if isinstance(value, int | float) else default


def _instance(model: Model, node: Node) -> Parts | OnHost:
    """InstanceNormalization: every channel of every sample by itself."""
    return _by_channel(model, node, None)


def _group(model: Model, node: Node) -> Parts | OnHost:
    """GroupNormalization: the channels of a group together."""
    return _by_channel(model, node, node.integer("num_groups", 1))


def _by_channel(model: Model, node: Node, groups: int | None) -> Parts | OnHost:
    source = _source(model, node)
    if isinstance(source, OnHost):
        return source
    unknown = _known(model, node.inputs[1:3])
    if unknown is not None:
        return unknown
    if len(source.shape) < 3:
        return OnHost(f"{source.name} has {len(source.shape)} dimensions and no spatial axis")
    samples, channels, *spatial = source.shape
    together = channels if groups is None else groups
    if together < 1 or channels % together:
        return OnHost(f"{channels} channels do not divide into {together} groups")
    area = prod(spatial)
    chain, output = Chain(model, node), node.outputs[0]
    shape = (samples, together, channels // together * area)
    rows = _Rows(_reshaped(chain, chain.widened(source), source.shape, shape, "grouped"), shape, (2,))
    centred, squares = _centred(chain, rows)
    inverted = chain.inverse("inverse", _deviation(chain, rows, squares, _epsilon(node)), rows.small)
    normal = chain.spread("normal", "mult", centred, inverted, shape, rows.small)
    per_group = groups is None or model.opset < _GROUPS_PER_CHANNEL
    vector = (1, together if per_group else channels, 1)
    if not per_group:
        normal = _reshaped(chain, normal, shape, (samples, channels, area), "channels")
        shape = (samples, channels, area)
    flat = shape == source.shape
    last = chain.last(output, source.dtype) if flat else ""
    vectors = [(word, name, vector) for word, name in zip(("scale", "bias"), node.inputs[1:3], strict=False)]
    made = _affine(chain, normal, shape, vectors, last)
    if not flat:
        last = chain.last(output, source.dtype)
        made = chain.reshape("shape", made, source.shape, into=last)
    chain.narrow(made, output, source.shape, source.dtype)
    return chain.parts(_note("mean and variance", rows, source))


def _reshaped(chain: Chain, name: str, given: Sequence[int], wanted: Sequence[int], word: str) -> str:
    return name if tuple(given) == tuple(wanted) else chain.reshape(word, name, wanted)


def _mean_variance(model: Model, node: Node) -> Parts | OnHost:
    """MeanVarianceNormalization: the distance from the mean divided by the deviation."""
    source = _source(model, node)
    if isinstance(source, OnHost):
        return source
    rank = len(source.shape)
    given = node.integers("axes") or (0, 2, 3)
    if any(not -rank <= axis < rank for axis in given):
        return OnHost(f"axes {list(given)} are none of {rank} dimensions")
    axes = tuple(sorted({axis % rank for axis in given}))
    chain, output = Chain(model, node), node.outputs[0]
    rows = _Rows(chain.widened(source), source.shape, axes)
    centred, squares = _centred(chain, rows)
    deviation = _deviation(chain, rows, squares, _VARIANCE_FLOOR, inside=False)
    made = chain.quotient("quotient", centred, deviation, rows.shape, rows.small, into=chain.last(output, source.dtype))
    chain.narrow(made, output, rows.shape, source.dtype)
    return chain.parts(_note("mean and variance", rows, source))


def _lp(model: Model, node: Node) -> Parts | OnHost:
    """LpNormalization: a row divided by its norm; a row of zeros stays one."""
    source = _source(model, node)
    if isinstance(source, OnHost):
        return source
    p, axis, rank = node.integer("p", 2), node.integer("axis", -1), len(source.shape)
    if p not in (1, 2):
        return OnHost(f"p = {p}; the leg sums magnitudes (p = 1) and squares (p = 2)")
    if not -rank <= axis < rank:
        return OnHost(f"axis {axis} is none of {rank} dimensions")
    chain, output = Chain(model, node), node.outputs[0]
    rows = _Rows(chain.widened(source), source.shape, (axis % rank,))
    element = "abs" if p == 1 else "square"
    norm = chain.fold("norm" if p == 1 else "squares", "add", rows.name, rows.shape, rows.axes, element=element)
    if p == 2:
        norm = chain.host("root", "Sqrt", [norm], rows.small)
    some = chain.cast("some", norm, rows.small, "bool")
    none = chain.cast("none", chain.host("empty", "Not", [some], rows.small, dtype="bool"), rows.small, WORK)
    divisor = chain.host("divisor", "Add", [norm, none], rows.small)
    made = chain.quotient("quotient", rows.name, divisor, rows.shape, rows.small, into=chain.last(output, source.dtype))
    chain.narrow(made, output, rows.shape, source.dtype)
    what = "sum of magnitudes" if p == 1 else "sum of squares"
    return chain.parts(_note(what, rows, source, roots=p == 2))


NORMS: dict[str, Callable[[Model, Node], Parts | OnHost]] = {
    "LayerNormalization": _layer,
    "RMSNormalization": _layer,
    "GroupNormalization": _group,
    "InstanceNormalization": _instance,
    "MeanVarianceNormalization": _mean_variance,
    "LpNormalization": _lp,
}
"""What each normalisation comes to."""
