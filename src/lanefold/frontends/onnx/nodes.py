"""The nodes of a model with names and attributes, checked against the operator set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import onnx
from onnx import defs, helper

from lanefold.diagnostics import Cure, Diagnostic, LanefoldError, Place
from lanefold.frontends.onnx import rules

DEFAULT_DOMAINS = ("", "ai.onnx")


@dataclass(frozen=True, slots=True)
class Node:
    """One node of the source graph with a name of its own and all attributes, defaults included."""

    index: int
    name: str
    proto: onnx.NodeProto
    attributes: Mapping[str, object]

    @property
    def op_type(self) -> str:
        """Operator name."""
        return self.proto.op_type

    @property
    def inputs(self) -> tuple[str, ...]:
        """Input tensor names without trailing empty ones."""
        names = list(self.proto.input)
        while names and not names[-1]:
            names.pop()
        return tuple(names)

    @property
    def outputs(self) -> tuple[str, ...]:
        """Output tensor names without trailing empty ones."""
        names = list(self.proto.output)
        while names and not names[-1]:
            names.pop()
        return tuple(names)

    def integer(self, name: str, default: int = 0) -> int:
        """An integer attribute."""
        value = self.attributes.get(name, default)
        return int(value) if isinstance(value, int | float) else default

    def integers(self, name: str) -> tuple[int, ...] | None:
        """An attribute that is a list of integers; None if it is not given."""
        value = self.attributes.get(name)
        return None if value is None else tuple(int(each) for each in value)  # type: ignore[attr-defined]


@lru_cache(maxsize=512)
def _schema(op_type: str, opset: int) -> defs.OpSchema | None:
    try:
        return defs.get_schema(op_type, opset, "")
    except defs.SchemaError:
        return None


def read_nodes(proto: onnx.ModelProto, opset: int, source: str) -> tuple[Node, ...]:
    """The nodes of a model, each with a name of its own and all its attributes.

    Raises:
        LanefoldError: one diagnostic for each operator or attribute that the operator set does not have.
    """
    made: list[Node] = []
    found: list[Diagnostic] = []
    taken: set[str] = {node.name for node in proto.graph.node}
    seen: set[str] = set()
    local = {(function.domain, function.name) for function in proto.functions}
    for index, node in enumerate(proto.graph.node):
        name = node.name
        if not name or name in seen:
            name = _free_name(f"{node.op_type}_{index}", taken)
        seen.add(name)
        attributes: dict[str, object] = {}
        if node.domain in DEFAULT_DOMAINS and (node.domain, node.op_type) not in local:
            attributes, findings = _attributes(node, opset, Place(file=source, node=name))
            found += findings
        made.append(Node(index, name, node, attributes))
    if found:
        raise LanefoldError(found, usage=True)
    return tuple(made)


def renamed(nodes: Sequence[Node], source: str) -> list[Diagnostic]:
    """A warning for each node that goes by another name here than in the model, because its own is taken."""
    return [
        rules.NODE_NAME.finding(
            f"node {node.index} ({node.op_type}) has the name {node.proto.name!r} of an earlier node; it is called "
            f"{node.name} here",
            got=repr(node.proto.name),
            allowed="a name that no other node has",
            cures=[f"name the node {node.name} in the model"],
            place=Place(file=source, node=node.name),
        )
        for node in nodes
        if node.proto.name not in ("", node.name)
    ]


def _free_name(wanted: str, taken: set[str]) -> str:
    name, count = wanted, 1
    while name in taken:
        count += 1
        name = f"{wanted}_{count}"
    taken.add(name)
    return name


def _attributes(node: onnx.NodeProto, opset: int, place: Place) -> tuple[dict[str, object], list[Diagnostic]]:
    schema = _schema(node.op_type, opset)
    if schema is None:
        newest = _schema(node.op_type, defs.onnx_opset_version())
        since = f"{node.op_type} came with operator set {newest.since_version}" if newest else "no set has it"
        finding = rules.OPERATOR.finding(
            f"operator set {opset} has no operator {node.op_type!r}; {since}",
            got=repr(node.op_type),
            allowed=f"operators of set {opset}",
            cures=[f"import operator set {newest.since_version}" if newest else "use an operator of the set"],
            place=place,
        )
        return {}, [finding]
    unknown = [each.name for each in node.attribute if each.name not in schema.attributes]
    if unknown:
        allowed = ", ".join(sorted(schema.attributes)) or "no attribute at all"
        return {}, [
            rules.ATTRIBUTE.finding(
                f"{node.op_type} has no attribute {name!r} in operator set {opset}",
                got=repr(name),
                allowed=allowed,
                cures=[Cure(f"remove {name} from the node", {"remove": name})],
                place=replace(place, field=name),
            )
            for name in unknown
        ]
    values: dict[str, object] = {}
    for name, each in schema.attributes.items():
        default = each.default_value
        if default.type != onnx.AttributeProto.UNDEFINED:
            values[name] = _plain(helper.get_attribute_value(default))
    for given in node.attribute:
        if not given.ref_attr_name:
            values[given.name] = _plain(helper.get_attribute_value(given))
    return values, []


def _plain(value: object) -> object:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
