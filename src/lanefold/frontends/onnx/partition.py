"""Dividing a model between leg and host, in as few host steps as possible, with one ledger row per node."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import onnx
from onnx import helper

from lanefold.diagnostics import Diagnostic, LanefoldError, number_of
from lanefold.frontends.onnx import rules
from lanefold.frontends.onnx.casts import other_forms
from lanefold.frontends.onnx.decompose import decompose
from lanefold.frontends.onnx.host import host_step, names_read
from lanefold.frontends.onnx.nodes import Node
from lanefold.frontends.onnx.pieces import HostPiece, LegPiece, OnHost, Parts, Piece, leg_pieces
from lanefold.frontends.onnx.read import Model, Value
from lanefold.host import HostStep
from lanefold.program import Code, Ledger, LedgerRow, LegStep, Program, Step, Target, TensorInfo
from lanefold.program.prices import total


@dataclass
class Plan:
    """A model divided: the program, the model it came from, and the warnings of the front door."""

    program: Program
    model: Model
    findings: tuple[Diagnostic, ...]

    def __str__(self) -> str:
        return f"{self.program}\n{number_of(len(self.findings), 'finding')}"

    def __repr__(self) -> str:
        return f"<Plan of {self.program!r}, {number_of(len(self.findings), 'finding')}>"


@dataclass
class _Lowered:
    """Pieces of all nodes in order, the code of the leg's, and what belongs to them."""

    pieces: list[Piece] = field(default_factory=list)
    codes: dict[str, Code] = field(default_factory=dict)
    rows: list[LedgerRow] = field(default_factory=list)
    types: dict[str, onnx.TypeProto] = field(default_factory=dict)
    constants: dict[str, onnx.TensorProto] = field(default_factory=dict)
    findings: list[Diagnostic] = field(default_factory=list)


def partition(model: Model, target: Target, *, strict: bool = False, prefer: str = "cost") -> Plan:
    """Divide a model between the leg of a target and the host.

    Args:
        model: as read.
        target: lowers ops or refuses them.
        strict: refuse to leave a pooling or reduction to the host.
        prefer: which of several legal routes the target takes, in the target's words.

    Raises:
        LanefoldError: an unknown preference, a node that cannot be at all, or with ``strict`` one diagnostic per
            pooling or reduction that would go to the host.
    """
    target.check_preference(prefer, model.place())
    lowered = _without_unread(model, _lower(model, target, strict, prefer))
    program = Program(
        target=target,
        steps=_steps(model, lowered),
        ledger=Ledger(lowered.rows),
        inputs=tuple(_info(value) for value in model.inputs),
        outputs=tuple(_info(value) for value in model.outputs),
        name=model.source,
    )
    return Plan(program, model, (*model.findings, *lowered.findings))


def _without_unread(model: Model, lowered: _Lowered) -> _Lowered:
    """Drop host pieces whose results nothing reads, such as axes that were folded, and say so in the ledger."""
    needed = {value.name for value in model.proto.graph.output}
    kept: list[Piece] = []
    for piece in reversed(lowered.pieces):
        if isinstance(piece, LegPiece):
            needed.update(piece.inputs)
        elif needed.isdisjoint(piece.proto.output):
            continue
        else:
            needed.update(names_read(piece.proto))
        kept.append(piece)
    running = {piece.node.name for piece in kept}
    on_leg = {piece.node.name for piece in kept if isinstance(piece, LegPiece)}
    rows = [_settled_row(row, row.node in running, row.node in on_leg) for row in lowered.rows]
    return replace(lowered, pieces=kept[::-1], rows=rows)


def _settled_row(row: LedgerRow, runs: bool, on_leg: bool) -> LedgerRow:
    if not runs:
        what = "rewritten" if row.disposition == "emitted" else row.disposition
        return replace(row, disposition=what, reason=f"{row.reason}; nothing reads it while the program runs")
    return row if on_leg else replace(row, disposition="host")


def _info(value: Value) -> TensorInfo:
    """A tensor at the edge; an extent that only a run can tell is −1."""
    return TensorInfo(value.name, tuple(-1 if n is None else n for n in value.shape or ()), value.dtype)


def _lower(model: Model, target: Target, strict: bool, prefer: str) -> _Lowered:
    lowered = _Lowered(types=dict(model.types), constants=dict(model.initializers))
    refused: list[Diagnostic] = []
    for node, made in zip(model.nodes, decompose(model), strict=True):
        lowered.findings += made.findings
        outcome = made
        if isinstance(made, Parts):
            parts, codes = _legal_parts(model, target, made, prefer)
            if isinstance(codes, OnHost):
                outcome = codes
            else:
                _take(model, lowered, node, parts, codes)
        if isinstance(outcome, OnHost):
            lowered.pieces.append(HostPiece(node.name, node, node.proto))
            lowered.rows.append(LedgerRow(node.name, node.op_type, "host", reason=outcome.reason))
            if strict and outcome.leg_family:
                refused.append(_strict_finding(model, node, outcome.reason))
    if refused:
        raise LanefoldError(refused)
    return lowered


_Settled = tuple[list[Piece], dict[str, Code]]
"""Pieces in order, and the code of those on the leg by name."""


def _legal_parts(model: Model, target: Target, parts: Parts, prefer: str) -> tuple[Parts, dict[str, Code] | OnHost]:
    """The parts with their code; where the target refuses them, with mappings or types of elements made on the host."""
    settled = _settled(model, target, parts.pieces, prefer)
    for other in other_forms(parts, model.opset) if isinstance(settled, OnHost) else ():
        again = _settled(model, target, other.pieces, prefer)
        if not isinstance(again, OnHost):
            parts, settled = other, again
            break
    if isinstance(settled, OnHost):
        return parts, replace(settled, leg_family=parts.leg_family)
    pieces, codes = settled
    if not codes and parts.pieces:
        # Steps that all run on the host are better left to it as the one node they came from.
        first = next(leg_pieces(parts.pieces), None)
        refused = _lowered_piece(model, target, first, prefer) if first else None
        if isinstance(refused, OnHost):
            return parts, replace(refused, leg_family=parts.leg_family)
    return replace(parts, pieces=tuple(pieces)), codes


def _settled(model: Model, target: Target, pieces: Iterable[Piece], prefer: str) -> _Settled | OnHost:
    """The pieces that will run, with their code; a refused one gives way to those that stand for it."""
    kept: list[Piece] = []
    codes: dict[str, Code] = {}
    for piece in pieces:
        if isinstance(piece, HostPiece):
            kept.append(piece)
            continue
        made = _lowered_piece(model, target, piece, prefer)
        if not isinstance(made, OnHost):
            kept.append(piece)
            codes[piece.name] = made
            continue
        others = _settled(model, target, piece.otherwise, prefer) if piece.otherwise else made
        if isinstance(others, OnHost):
            return made
        kept += others[0]
        codes.update(others[1])
    return kept, codes


def _lowered_piece(model: Model, target: Target, piece: LegPiece, prefer: str) -> Code | OnHost:
    try:
        return target.lower(piece.op, replace(model.place(piece.node), instruction=piece.part), prefer)
    except LanefoldError as error:
        if error.usage:
            raise
        return OnHost(f"{target.name}: {error.diagnostics[0].message}")


def _take(model: Model, lowered: _Lowered, node: Node, parts: Parts, codes: Mapping[str, Code]) -> None:
    for piece in parts.pieces:
        lowered.pieces += _fed(model, lowered, piece) if isinstance(piece, LegPiece) else [piece]
    lowered.codes.update(codes)
    lowered.types.update(parts.types)
    lowered.constants.update((tensor.name, tensor) for tensor in parts.constants)
    whole = len(parts.pieces) == 1
    as_is = whole and all(getattr(code.op, "element", "identity") == "identity" for code in codes.values())
    made = codes.values()
    remarks = [each for note in (parts.note, *(code.note for code in made)) for each in note.split("; ") if each]
    lowered.rows.append(
        LedgerRow(
            node=node.name,
            op_type=node.op_type,
            disposition="emitted" if as_is else "rewritten",
            route=" + ".join(dict.fromkeys(code.route for code in made)),
            opcodes=tuple(dict.fromkeys(opcode for code in made for opcode in code.opcodes)),
            bundles=sum(code.bundles for code in made),
            bytes=sum(code.size for code in made),
            cycles=total([row for code in made for row in code.cost()]),
            reason="; ".join(dict.fromkeys(remarks)),
            steps=() if whole else tuple(_told(piece, codes) for piece in parts.pieces),
        )
    )


def _fed(model: Model, lowered: _Lowered, piece: LegPiece) -> list[Piece]:
    """The piece behind host pieces that hand it the constants of the model among its inputs."""
    made: list[Piece] = []
    inputs = list(piece.inputs)
    for place, name in enumerate(inputs):
        if name in model.initializers:
            inputs[place] = f"{piece.name}/{name}"
            proto = helper.make_node("Identity", [name], [inputs[place]], name=inputs[place])
            made.append(HostPiece(inputs[place], piece.node, proto))
            lowered.types[inputs[place]] = lowered.types[name]
    return [*made, replace(piece, inputs=tuple(inputs))]


def _told(piece: Piece, codes: Mapping[str, Code]) -> str:
    """One step of a node that was taken apart."""
    if isinstance(piece, HostPiece):
        return f"{piece.name}: {piece.proto.op_type} on the host"
    return f"{piece.name}: {piece.told} by {codes[piece.name].route}"


def _strict_finding(model: Model, node: Node, reason: str) -> Diagnostic:
    return rules.STRICT.finding(
        f"{node.op_type} {node.name} would run on the host: {reason}",
        got="host",
        allowed="emitted or rewritten",
        cures=["compile without strict", "change the node so that the leg takes it"],
        place=model.place(node),
    )


def _steps(model: Model, lowered: _Lowered) -> tuple[Step, ...]:
    reads = [list(p.inputs) if isinstance(p, LegPiece) else names_read(p.proto) for p in lowered.pieces]
    writes = [[t for t in _outputs(piece) if t] for piece in lowered.pieces]
    stages = _stages(lowered, reads, writes)
    legs: dict[int, list[LegStep]] = defaultdict(list)
    hosts: dict[int, list[int]] = defaultdict(list)
    for index, piece in enumerate(lowered.pieces):
        if isinstance(piece, LegPiece):
            code = lowered.codes[piece.name]
            work = LegStep(piece.name, piece.op, code, piece.inputs, piece.outputs, piece.node.name)
            legs[stages[index]].append(work)
        else:
            hosts[stages[index]].append(index)
    results = {value.name for value in model.proto.graph.output}
    steps: list[Step] = []
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


def _stages(lowered: _Lowered, reads: list[list[str]], writes: list[list[str]]) -> list[int]:
    """Stage of each piece: the longest chain of leg pieces before it.

    Two kinds of host pieces wait for the first stage that reads them: those that depend on constants alone, so that
    weights do not travel, and those whose results have no known type, which could not travel.
    """
    ready: dict[str, int] = {}
    fixed = set(lowered.constants)
    stages, waits = [], []
    for piece, read, written in zip(lowered.pieces, reads, writes, strict=True):
        stage = max((ready.get(name, 0) for name in read), default=0)
        on_leg = isinstance(piece, LegPiece)
        stages.append(stage)
        constant = not on_leg and fixed.issuperset(read)
        waits.append(constant or not lowered.types.keys() >= set(written))
        if constant:
            fixed.update(written)
        ready.update((name, stage + on_leg) for name in written)
    first_read: dict[str, int] = {}
    for index in reversed(range(len(stages))):
        if waits[index]:
            readers = (first_read[name] for name in writes[index] if name in first_read)
            stages[index] = min(readers, default=stages[index])
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
