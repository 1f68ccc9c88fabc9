"""What all targets share of a saved program: steps, tensors and ledger as plain data, and back."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from lanefold import ops
from lanefold.diagnostics import Place, Rule
from lanefold.host import HostStep
from lanefold.program.files import MARK, damaged, digest, read_file, said, to_json
from lanefold.program.ledger import Ledger, LedgerRow
from lanefold.program.program import Code, LegStep, Program, Step, Target, TensorInfo

if TYPE_CHECKING:
    from lanefold.ops import Op

LEDGER = "ledger.json"
_DIGITS = 12
"""Digits of a digest that a message shows."""
_SHOWN = 120
_FOLDER = Rule("PROGRAM-NONE", "A program is loaded from the folder that it was saved in.", "Program files", usage=True)


class SavedTensor(msgspec.Struct, forbid_unknown_fields=True):
    """An input or output in program.json."""

    name: str
    shape: list[int]
    dtype: str


class SavedHost(msgspec.Struct, tag_field="kind", tag="host", forbid_unknown_fields=True):
    """A host step in program.json; ``model`` is the file of its ONNX model."""

    name: str
    inputs: list[str]
    outputs: list[str]
    model: str


class SavedLeg(msgspec.Struct, tag_field="kind", tag="leg", forbid_unknown_fields=True):
    """A leg step in program.json; its instructions stand in the target's own files."""

    name: str
    inputs: list[str]
    outputs: list[str]
    node: str
    op: dict[str, str | bool | int | list[int]]
    route: str
    note: str


class Described(msgspec.Struct, forbid_unknown_fields=True):
    """What all targets write into program.json, under ``attributes.lanefold``."""

    name: str
    target: str
    readings: dict[str, str]
    inputs: list[SavedTensor]
    outputs: list[SavedTensor]
    steps: list[SavedHost | SavedLeg]
    files: dict[str, str]
    sha256: str


class SavedRow(msgspec.Struct, forbid_unknown_fields=True):
    """A row of ledger.json."""

    node: str
    op_type: str
    disposition: str
    route: str
    opcodes: tuple[int, ...]
    bundles: int
    bytes: int
    cycles: tuple[float | None, float | None]
    reason: str
    steps: tuple[str, ...]
    counted: tuple[tuple[str, int], ...] = ()


class SavedLedger(msgspec.Struct):
    """The rows of ledger.json; its totals follow from them."""

    rows: list[SavedRow]


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
    """The content of a folder's program.json, once every file of the folder is found to be as it was written.

    Raises:
        LanefoldError: if the folder holds no program, or a file is missing, changed or of another form.
    """
    problem = _problem(folder)
    if problem:
        raise _FOLDER.error(
            problem,
            got=str(folder),
            allowed="a folder that `lanefold compile` or Program.save wrote",
            place=Place(file=str(folder)),
            cures=["name the folder of a saved program", f"write one with `lanefold compile MODEL.onnx -o {folder}`"],
        )
    content = read_file(folder, MARK)
    try:
        document = json.loads(content)
        described = msgspec.convert(document["attributes"]["lanefold"], Described, strict=True)
        found = _own_digest(content, document)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise damaged(
            folder, MARK, f"{MARK} is not as lanefold wrote it: {_told(error)}", _told(error), "the file as written"
        ) from None
    _check_digest(folder, MARK, described.sha256, found)
    for name, expected in described.files.items():
        if Path(name).name != name:
            raise damaged(folder, MARK, f"{MARK} names {name!r}, which is no file of its folder", name, "file names")
        _check_digest(folder, name, expected, digest(read_file(folder, name)))
    return dict(document)


def _problem(folder: Path) -> str:
    """Why a place is no folder of a program; empty if it is one."""
    try:
        if (folder / MARK).exists():
            return ""
        if folder.is_dir():
            return f"{folder} holds no program: it has no {MARK}"
        return f"{folder} is a file, not the folder of a program" if folder.exists() else f"{folder} does not exist"
    except (OSError, ValueError) as error:
        return f"{folder} cannot be read: {said(error)}"


def _told(error: Exception) -> str:
    """An error in one line, a missing key by its name."""
    return f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else " ".join(str(error).split())[:_SHOWN]


def _own_digest(content: bytes, document: dict[str, Any]) -> str:
    """The digest of program.json without its own digest; of all its bytes where they are not in the written form."""
    if to_json(document) != content:
        return digest(content)
    bare = json.loads(content)
    bare["attributes"]["lanefold"]["sha256"] = ""
    return digest(to_json(bare))


def _check_digest(folder: Path, name: str, expected: str, found: str) -> None:
    if expected != found:
        raise damaged(
            folder,
            name,
            f"{name} was changed after the program was saved: its SHA-256 is {found[:_DIGITS]}…, not "
            f"{expected[:_DIGITS]}…",
            f"SHA-256 {found[:_DIGITS]}…",
            f"SHA-256 {expected[:_DIGITS]}…",
        )


def restore(
    folder: Path, described: Mapping[str, Any], target: Target, code_of: Callable[[Mapping[str, Any]], Code]
) -> Program:
    """A program from its described steps; ``code_of`` gives the code of a leg step.

    Raises:
        LanefoldError: if a file is missing or of another form, or a step reads what nothing has made.
    """
    steps: list[Step] = []
    for each in described["steps"]:
        inputs, outputs = tuple(each["inputs"]), tuple(each["outputs"])
        if each["kind"] == "host":
            steps.append(HostStep(each["name"], _host_model(folder, described, each), inputs, outputs))
        else:
            code = code_of(each)
            steps.append(LegStep(each["name"], code.op, code, inputs, outputs, each["node"]))
    try:
        ledger = msgspec.json.decode(read_file(folder, LEDGER), type=SavedLedger, strict=True)
    except msgspec.DecodeError as error:
        raise damaged(
            folder, LEDGER, f"{LEDGER} is not as lanefold wrote it: {error}", _told(error), "the file as written"
        ) from None
    restored = Program(
        target,
        tuple(steps),
        Ledger([_row(row) for row in ledger.rows]),
        tuple(_info(info) for info in described["inputs"]),
        tuple(_info(info) for info in described["outputs"]),
        described["name"],
    )
    _check_names(folder, restored)
    return restored


def _host_model(folder: Path, described: Mapping[str, Any], step: Mapping[str, Any]) -> bytes:
    """The model of a host step, from a file of the program and from nowhere else."""
    name, files = step["model"], described["files"]
    if name not in files:
        message = f"{MARK} names {name!r} as the model of step {step['name']}, which is no file of the program"
        raise damaged(folder, MARK, message, name, ", ".join(sorted(files)))
    return read_file(folder, name)


def _check_names(folder: Path, program: Program) -> None:
    made = {info.name for info in program.inputs}
    for step in program.steps:
        _check_made(folder, f"step {step.name} reads", step.inputs, made)
        made.update(step.outputs)
    _check_made(folder, "the program answers with", [info.name for info in program.outputs], made)


def _check_made(folder: Path, reader: str, names: Sequence[str], made: set[str]) -> None:
    unknown = [name for name in names if name not in made]
    if unknown:
        message = f"{MARK} does not fit together: {reader} {unknown[0]!r}, which nothing makes before"
        raise damaged(folder, MARK, message, unknown[0], ", ".join(sorted(made)) or "nothing")


def _info(data: Mapping[str, Any]) -> TensorInfo:
    return TensorInfo(data["name"], tuple(data["shape"]), data["dtype"])


def _row(row: SavedRow) -> LedgerRow:
    values = {name: getattr(row, name) for name in row.__struct_fields__}
    values["cycles"] = tuple(math.inf if each is None else each for each in row.cycles)
    return LedgerRow(**values)
