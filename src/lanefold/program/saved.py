"""What all targets share of a saved program: steps, tensors and ledger as plain data, and back."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lanefold import ops
from lanefold.host import HostStep
from lanefold.program.files import MARK, damaged, read_file
from lanefold.program.ledger import Ledger, LedgerRow
from lanefold.program.program import Code, LegStep, Program, Step, Target, TensorInfo

if TYPE_CHECKING:
    from lanefold.ops import Op

LEDGER = "ledger.json"


def to_json(data: object) -> bytes:
    """Plain data as JSON text, keys sorted, two blanks of indent."""
    return (json.dumps(data, indent=2, sort_keys=True) + "\n").encode()


def shared_files(program: Program) -> dict[str, bytes]:
    """The host models and the ledger."""
    files = {LEDGER: to_json(program.ledger.to_dict())}
    for index, step in enumerate(program.steps):
        if isinstance(step, HostStep):
            files[_model_file(index)] = step.model_bytes
    return files


def _model_file(index: int) -> str:
    return f"host-{index}.onnx"


def describe(program: Program) -> dict[str, Any]:
    """Steps, inputs and outputs as plain data; the code of leg steps is the target's business."""
    return {
        "name": program.name,
        "target": program.target.name,
        "readings": dict(program.target.readings),
        "inputs": [_tensor(info) for info in program.inputs],
        "outputs": [_tensor(info) for info in program.outputs],
        "steps": [_step(index, step) for index, step in enumerate(program.steps)],
    }


def _tensor(info: TensorInfo) -> dict[str, Any]:
    return asdict(info) | {"shape": list(info.shape)}


def _step(index: int, step: Step) -> dict[str, Any]:
    common = {"name": step.name, "inputs": list(step.inputs), "outputs": list(step.outputs)}
    if isinstance(step, HostStep):
        return common | {"kind": "host", "model": _model_file(index)}
    return common | {
        "kind": "leg",
        "node": step.node,
        "op": {"type": type(step.op).__name__, **asdict(step.op)},
        "route": step.code.route,
        "note": step.code.note,
    }


def op_from(data: Mapping[str, Any]) -> Op:
    """An op from its plain data."""
    values = {key: tuple(value) if isinstance(value, list) else value for key, value in data.items() if key != "type"}
    return getattr(ops, data["type"])(**values)  # type: ignore[no-any-return]


def read_document(folder: Path) -> dict[str, Any]:
    """The content of a folder's program.json.

    Raises:
        LanefoldError: if it is missing or no JSON object.
    """
    try:
        document = json.loads(read_file(folder, MARK))
    except ValueError as error:
        raise damaged(folder, MARK, f"{MARK} is no JSON: {error}", "broken JSON", "a saved program") from None
    if not isinstance(document, dict):
        raise damaged(folder, MARK, f"{MARK} holds no program", type(document).__name__, "a JSON object")
    return document


def restore(
    folder: Path, described: Mapping[str, Any], target: Target, code_of: Callable[[Mapping[str, Any]], Code]
) -> Program:
    """A program from its described steps; ``code_of`` gives the code of a leg step.

    Raises:
        LanefoldError: if a file is missing.
    """
    steps: list[Step] = []
    for each in described["steps"]:
        inputs, outputs = tuple(each["inputs"]), tuple(each["outputs"])
        if each["kind"] == "host":
            steps.append(HostStep(each["name"], read_file(folder, each["model"]), inputs, outputs))
        else:
            code = code_of(each)
            steps.append(LegStep(each["name"], code.op, code, inputs, outputs, each["node"]))
    ledger = json.loads(read_file(folder, LEDGER))
    return Program(
        target,
        tuple(steps),
        Ledger([_row(row) for row in ledger["rows"]]),
        tuple(_info(info) for info in described["inputs"]),
        tuple(_info(info) for info in described["outputs"]),
        described["name"],
    )


def _info(data: Mapping[str, Any]) -> TensorInfo:
    return TensorInfo(data["name"], tuple(data["shape"]), data["dtype"])


def _row(data: Mapping[str, Any]) -> LedgerRow:
    lists = ("opcodes", "cycles", "steps")
    values: dict[str, Any] = {key: tuple(value) if key in lists else value for key, value in data.items()}
    values["cycles"] = tuple(math.inf if each is None else each for each in values["cycles"])
    values["counted"] = tuple((name, count) for name, count in data.get("counted", ()))
    return LedgerRow(**values)
