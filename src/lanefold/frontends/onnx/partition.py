"""Dividing a model between leg and host, in as few host steps as possible, with one ledger row per node."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import onnx
from onnx import helper

from lanefold.diagnostics import Diagnostic, LanefoldError, Place
from lanefold.frontends.onnx import rules
from lanefold.frontends.onnx.decompose import decompose
from lanefold.frontends.onnx.host import host_step, names_read
from lanefold.frontends.onnx.nodes import Node
from lanefold.frontends.onnx.pieces import HostPiece, LegPiece, OnHost, Parts, Piece
from lanefold.frontends.onnx.read import Model
from lanefold.host import HostStep
from lanefold.ops import Op

Array = np.ndarray[Any, np.dtype[Any]]


class Code(Protocol):
    """What a target makes of one op: instructions that can run, and what they cost."""

    @property
    def route(self) -> str:
        """Datapath the op takes."""

    @property
    def opcodes(self) -> Sequence[int | str]:
        """Opcodes of the instructions, each once."""

    @property
    def bundles(self) -> int:
        """Number of instructions."""

    @property
    def size(self) -> int:
        """Bytes of the instructions."""

    @property
    def cycles(self) -> float:
        """Estimated cycles."""

    def run(self, machine: Any, inputs: Sequence[Array]) -> list[Array]:
        """Compute the op's outputs from its inputs."""


class Target(Protocol):
    """What the front end asks of a target."""

    @property
    def name(self) -> str:
        """Name of the target."""

    def lower(self, op: Op, place: Place) -> Code:
        """The code of one op; raises LanefoldError where the target refuses it."""


@dataclass(frozen=True, slots=True)
class LegWork:
    """One op on the leg: its code, and the tensors it reads and writes."""

    name: str
    node: str
    op: Op
    code: Code
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NodeRow:
    """What became of one node of the source graph; sizes in bytes, cycles as the target estimates them."""

    node: str
    op_type: str
    disposition: str
    route: str
    opcodes: tuple[int | str, ...]
    bundles: int
    size: int
    cycles: float
    reason: str


@dataclass
class Plan:
    """A model divided: steps in order, one row per node, and the findings made on the way."""

    model: Model
    steps: tuple[LegWork | HostStep, ...]
    rows: tuple[NodeRow, ...]
    findings: tuple[Diagnostic, ...]


@dataclass
class _Lowered:
    """Pieces of all nodes in order, the code of the leg's, and what belongs to them."""

    pieces: list[Piece] = field(default_factory=list)
    codes: dict[str, Code] = field(default_factory=dict)
    rows: list[NodeRow] = field(default_factory=list)
    types: dict[str, onnx.TypeProto] = field(default_factory=dict)
    constants: dict[str, onnx.TensorProto] = field(default_factory=dict)
    findings: list[Diagnostic] = field(default_factory=list)


def partition(model: Model, target: Target, *, strict: bool = False) -> Plan:
    """Divide a model between the leg of a target and the host.

    Args:
        model: as read.
        target: lowers ops or refuses them.
        strict: refuse to leave a pooling or reduction to the host.

    Raises:
        LanefoldError: a node that cannot be at all, or with ``strict`` one diagnostic per pooling or reduction that
            would go to the host.
    """
    lowered = _lower(model, target, strict)
    steps = _steps(model, lowered)
    return Plan(model, steps, tuple(lowered.rows), (*model.findings, *lowered.findings))


def _lower(model: Model, target: Target, strict: bool) -> _Lowered:
    lowered = _Lowered(types=dict(model.types), constants=dict(model.initializers))
    refused: list[Diagnostic] = []
    for node, made in zip(model.nodes, decompose(model), strict=True):
        lowered.findings += made.findings
        outcome = made
        if isinstance(made, Parts):
            codes = _codes(model, target, made.pieces)
            if isinstance(codes, OnHost):
                outcome = codes
            else:
                _take(lowered, node, made, codes)
        if isinstance(outcome, OnHost):
            lowered.pieces.append(HostPiece(node.name, node, node.proto))
            lowered.rows.append(NodeRow(node.name, node.op_type, "host", "", (), 0, 0, 0.0, outcome.reason))
            if strict and outcome.leg_family:
                refused.append(_strict_finding(model, node, outcome.reason))
    if refused:
        raise LanefoldError(refused)
    return lowered


def _codes(model: Model, target: Target, pieces: Iterable[Piece]) -> dict[str, Code] | OnHost:
    codes: dict[str, Code] = {}
    for piece in pieces:
        if isinstance(piece, LegPiece):
            try:
                codes[piece.name] = target.lower(piece.op, model.place(piece.node))
            except LanefoldError as error:
                return OnHost(f"{target.name}: {error.diagnostics[0].message}")
    return codes


def _take(lowered: _Lowered, node: Node, parts: Parts, codes: Mapping[str, Code]) -> None:
    lowered.pieces += parts.pieces
    lowered.codes.update(codes)
    lowered.types.update(parts.types)
    lowered.constants.update((tensor.name, tensor) for tensor in parts.constants)
    whole = len(parts.pieces) == 1
    lowered.rows.append(
        NodeRow(
            node=node.name,
            op_type=node.op_type,
            disposition="emitted" if whole else "rewritten",
            route=" + ".join(dict.fromkeys(code.route for code in codes.values())),
            opcodes=tuple(dict.fromkeys(opcode for code in codes.values() for opcode in code.opcodes)),
            bundles=sum(code.bundles for code in codes.values()),
            size=sum(code.size for code in codes.values()),
            cycles=sum(code.cycles for code in codes.values()),
            reason=parts.note,
        )
    )


def _strict_finding(model: Model, node: Node, reason: str) -> Diagnostic:
    return rules.STRICT.finding(
        f"{node.op_type} {node.name} would run on the host: {reason}",
        got="host",
        allowed="emitted or rewritten",
        cures=["compile without strict", "change the node so that the leg takes it"],
        place=model.place(node),
    )


def _steps(model: Model, lowered: _Lowered) -> tuple[LegWork | HostStep, ...]:
    reads = [list(p.inputs) if isinstance(p, LegPiece) else names_read(p.proto) for p in lowered.pieces]
    writes = [[t for t in _outputs(piece) if t] for piece in lowered.pieces]
    stages = _stages(model, lowered, reads, writes)
    legs: dict[int, list[LegWork]] = defaultdict(list)
    hosts: dict[int, list[int]] = defaultdict(list)
    for index, piece in enumerate(lowered.pieces):
        if isinstance(piece, LegPiece):
            code = lowered.codes[piece.name]
            work = LegWork(piece.name, piece.node.name, piece.op, code, piece.inputs, piece.outputs)
            legs[stages[index]].append(work)
        else:
            hosts[stages[index]].append(index)
    results = {value.name for value in model.proto.graph.output}
    steps: list[LegWork | HostStep] = []
    for stage in range(max((*legs, *hosts), default=-1) + 1):
        if hosts[stage]:
            inside = set(hosts[stage])
            wanted = results | {t for i, names in enumerate(reads) if i not in inside for t in names}
            protos = [p.proto for i in hosts[stage] if isinstance(p := lowered.pieces[i], HostPiece)]
            steps.append(host_step(model, f"host_{stage}", protos, wanted, lowered.types, lowered.constants))
        steps += legs[stage]
    constant_results = [name for name in results if name in model.initializers]
    if constant_results:
        steps.append(_constants_step(model, constant_results))
    return tuple(steps)


def _outputs(piece: Piece) -> Sequence[str]:
    return piece.outputs if isinstance(piece, LegPiece) else list(piece.proto.output)


def _stages(model: Model, lowered: _Lowered, reads: list[list[str]], writes: list[list[str]]) -> list[int]:
    """Stage of each piece: the longest chain of leg pieces before it.

    Host pieces that depend on constants alone wait for the first stage that reads them, so that weights do not travel.
    """
    ready: dict[str, int] = {}
    fixed = {*lowered.constants, *(each.values.name for each in model.proto.graph.sparse_initializer)}
    stages, waits = [], []
    for piece, read, written in zip(lowered.pieces, reads, writes, strict=True):
        stage = max((ready.get(name, 0) for name in read), default=0)
        on_leg = isinstance(piece, LegPiece)
        stages.append(stage)
        waits.append(not on_leg and fixed.issuperset(read))
        if waits[-1]:
            fixed.update(written)
        ready.update((name, stage + on_leg) for name in written)
    first_read: dict[str, int] = {}
    for index in reversed(range(len(stages))):
        if waits[index]:
            stages[index] = min((first_read[name] for name in writes[index] if name in first_read), default=0)
        for name in reads[index]:
            first_read[name] = min(first_read.get(name, stages[index]), stages[index])
    return stages


def _constants_step(model: Model, names: Sequence[str]) -> HostStep:
    """A step that hands out results which are constants of the model."""
    nodes, tensors = [], {}
    for name in names:
        tensor = onnx.TensorProto()
        tensor.CopyFrom(model.initializers[name])
        tensor.name = f"{name}/constant"
        tensors[tensor.name] = tensor
        nodes.append(helper.make_node("Identity", [tensor.name], [name]))
    return host_step(model, "constants", nodes, set(names), model.types, tensors)
