"""Commands on models: compile and run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lanefold.cli.common import (
    COST_MODELS,
    DONE,
    FINDINGS,
    AsJson,
    Numerics,
    Opcodes,
    announce_compilation,
    missing_arrays,
    print_findings,
    print_json,
    read_arrays,
    write_arrays,
)
from lanefold.diagnostics import Place, Rule

if TYPE_CHECKING:
    from lanefold.frontends.onnx import Plan, Verification
    from lanefold.program import Program

_GREATEST_EXTENT = 1 << 31
_OF_MODELS = ("target", "opcodes", "numerics", "prefer", "strict", "shape", "seed")
"""Options of `run` that a saved program has settled, or that make inputs for it."""
_SAVED = Rule("CLI-SAVED", "A saved program is run as it was compiled, on given inputs.", "Command line", usage=True)
_SEED = Rule("CLI-SEED", "A seed makes random inputs; inputs from a file have none.", "Command line", usage=True)
_VERIFY = Rule("CLI-VERIFY", "Verification compares a model with onnxruntime.", "Command line", usage=True)

Target = Annotated[
    str, typer.Option("--target", "-t", help="trn1, trn2, trn3, cpu, a2a3 or a5; see `lanefold targets`.")
]
Prefer = Annotated[
    str, typer.Option(help="Route preference: cost; free-axis or cross-lane (trn); row or column (cpu, a2a3, a5).")
]
Strict = Annotated[bool, typer.Option(help="Refuse pooling and reduction nodes on the host.")]
Shape = Annotated[list[str] | None, typer.Option(help="Extents of an open input, as NAME=1,3,224,224.")]
CostModel = Annotated[str, typer.Option("--cost-model", help=COST_MODELS)]
Every = Annotated[bool, typer.Option("--all", help="List host nodes one by one.")]


def compile_command(
    model: Annotated[Path, typer.Argument(help="ONNX model.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the program.")],
    target: Target = "trn1",
    opcodes: Opcodes = "",
    numerics: Numerics = "",
    prefer: Prefer = "cost",
    strict: Strict = False,
    shape: Shape = None,
    model_of_cost: CostModel = "",
    trace: Annotated[Path | None, typer.Option(help="Write the timeline here, for the Perfetto viewer.")] = None,
    every: Every = False,
    as_json: AsJson = False,
) -> None:
    """Compile a model: route, check, encode and price it, and write the program into a folder."""
    plan = _plan(model, target, opcodes, numerics, prefer, strict, shape)
    findings = [*plan.findings, *plan.program.check()]
    stop = any(finding.severity == "error" for finding in findings)
    cost = plan.program.cost(model_of_cost)
    files: list[str] = []
    if not stop:
        if trace is not None:
            from lanefold.report.trace import write_trace

            write_trace(plan.program, trace, model=model_of_cost)
        folder = plan.program.save(output)
        files = sorted(path.name for path in folder.iterdir())
    if as_json:
        print_json(
            {
                "model": str(model),
                "target": target,
                "readings": dict(plan.program.target.readings),
                "ledger": plan.program.ledger.to_dict(),
                "cost": cost.to_dict(),
                "findings": [finding.to_dict() for finding in findings],
                "folder": str(output),
                "files": files,
            }
        )
    else:
        from lanefold.report.table import files_text, foundation_line, ledger_parts, program_lines, show

        print_findings(findings, brief=True)
        told = [*ledger_parts(plan.program.ledger, every=every), *program_lines(plan.program)]
        show([*told, str(cost), *foundation_line(cost)])
        if not stop:
            show([f"wrote {output}: {files_text(files)}", *([f"wrote {trace}"] if trace else [])])
    raise typer.Exit(FINDINGS if stop else DONE)


def run(
    context: typer.Context,
    model: Annotated[Path, typer.Argument(help="ONNX model, or a folder written by `lanefold compile`.")],
    target: Target = "trn1",
    inputs: Annotated[Path | None, typer.Option("--input", help="Inputs as .npz; random values if left out.")] = None,
    output: Annotated[Path | None, typer.Option(help="Write the outputs to this .npz.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random inputs.")] = 0,
    verify: Annotated[bool, typer.Option(help="Compare every leg node and the outputs with onnxruntime.")] = False,
    opcodes: Opcodes = "",
    numerics: Numerics = "",
    prefer: Prefer = "cost",
    strict: Strict = False,
    shape: Shape = None,
    as_json: AsJson = False,
) -> None:
    """Run a model: leg nodes by their simulated instructions, the others on the host."""
    from lanefold.frontends.onnx import random_inputs
    from lanefold.frontends.onnx import verify as verified

    if not as_json:
        announce_compilation()
    if model.is_dir():
        from lanefold.targets import load

        if verify:
            raise _VERIFY.error(
                f"{model} is a saved program, which has no source to compare with",
                got="--verify with a folder",
                allowed="--verify with an ONNX model",
                place=Place(file=str(model)),
                cures=["run the ONNX model with --verify", "leave --verify out"],
            )
        _refuse_options(context, model)
        program, source, findings = load(model), None, []
        feeds = read_arrays(inputs) if inputs else _no_inputs(model)
    else:
        _refuse_seed(context, inputs, seed)
        plan = _plan(model, target, opcodes, numerics, prefer, strict, shape)
        program, source, findings = plan.program, plan.model, list(plan.findings)
        if not as_json:
            print_findings(findings)
        feeds = read_arrays(inputs) if inputs else random_inputs(source, seed)
    outcome = verified(source, program, feeds) if verify and source is not None else None
    outputs = dict(outcome.outputs) if outcome else program.run(feeds, count=True)
    if output is not None:
        write_arrays(output, outputs)
    if as_json:
        told = _run_document(outputs, program, outcome)
        print_json(told | {"findings": [finding.to_dict() for finding in findings]})
    else:
        _show_run(outputs, program, outcome, inputs, seed, output)
    raise typer.Exit(FINDINGS if outcome is not None and not outcome.ok else DONE)


def route(
    model: Annotated[Path, typer.Argument(help="ONNX model.")],
    node: Annotated[str, typer.Argument(help="Name of a node; `lanefold compile --all` lists them.")],
    target: Target = "trn1",
    opcodes: Opcodes = "",
    prefer: Prefer = "cost",
    shape: Shape = None,
    as_json: AsJson = False,
) -> None:
    """Show every route of one node: legal or not, why, size, cycles, and what would make an illegal one legal."""
    from lanefold.frontends.onnx import read_model
    from lanefold.frontends.onnx.routes import node_routes
    from lanefold.targets import TARGETS
    from lanefold.targets import target as find_target

    chosen = find_target(target, **_readings(opcodes=opcodes))
    found = node_routes(read_model(model, shapes=_shapes(shape or [])), node, chosen, prefer)
    rows = [(piece, candidate) for piece, candidates in found.pieces for candidate in candidates]
    if as_json:
        print_json(
            {
                "node": found.node,
                "op_type": found.op_type,
                "host": found.host_reason,
                "routes": [_candidate(piece, candidate) for piece, candidate in rows],
            }
        )
        return
    from lanefold.program.prices import cycles_text
    from lanefold.report.table import show, table

    if found.host_reason:
        show([f"{found.node} ({found.op_type}) runs on the host: {found.host_reason}"])
        return
    cells = [
        (
            piece,
            each.name,
            "chosen" if each.chosen else "legal",
            f"{each.code.bundles:,}",
            cycles_text(each.cycles),
            each.code.note,
        )
        if each.code
        else (piece, each.name, "illegal", "", "", each.against[0].message)
        for piece, each in rows
    ]
    size = "bundles" if TARGETS[target].instruction_set == "TPB" else "instructions"
    columns = ("piece", "route", "", size, "cycles", "why")
    show([table(f"{found.node} ({found.op_type}) on {target}", columns, cells, (size, "cycles"))])
    taken = {piece: any(each.chosen for each in candidates) for piece, candidates in found.pieces}
    divided = not taken.get(found.node, True) and any(taken.values())
    if divided:
        show([_division(found.node, taken)])
    ways: dict[str, list[str]] = {}
    other = {f"use the {each.name} path" for _, each in rows if each.chosen}
    for piece, each in rows:
        if each.against and not (divided and piece == found.node):
            cures = [cure.text for cure in each.against[0].cures if cure.text not in other]
            way = f"to make {each.name} legal: {cures[0]}" if cures else f"nothing makes {each.name} legal"
            ways.setdefault(way, []).append(piece)
    several = len(found.pieces) > 1
    show([f"{way} ({', '.join(pieces)})" if several else way for way, pieces in ways.items()])


def _division(node: str, taken: dict[str, bool]) -> str:
    """What became of the pieces of a node that no instruction takes as a whole."""
    leg = ", ".join(piece for piece, chosen in taken.items() if chosen)
    host = ", ".join(piece for piece, chosen in taken.items() if not chosen and piece != node)
    return f"{node} is divided; on the leg: {leg}" + (f"; on the host: {host}" if host else "")


def _candidate(piece: str, candidate: Any) -> dict[str, Any]:
    code = candidate.code
    return {
        "piece": piece,
        "route": candidate.name,
        "legal": code is not None,
        "chosen": candidate.chosen,
        "bundles": code.bundles if code else 0,
        "cycles": list(candidate.cycles),
        "note": code.note if code else "",
        "against": [finding.to_dict() for finding in candidate.against],
    }


def _run_document(outputs: dict[str, Any], program: Program, outcome: Verification | None) -> dict[str, Any]:
    return {
        "outputs": {name: _described(value) for name, value in outputs.items()},
        "counted": {row.node: dict(row.counted) for row in program.ledger if row.counted},
        "without_kernel": program.without_kernel,
        "verification": None if outcome is None else outcome.to_dict(),
    }


def _described(value: Any) -> Any:
    """Extents and type of an array; of a sequence, those of each element."""
    if isinstance(value, list):
        return [_described(each) for each in value]
    return {"shape": list(value.shape), "dtype": value.dtype.name}


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return f"sequence of {len(value)}: " + ", ".join(map(_shown, value))
    return f"{value.dtype.name} {list(value.shape)}"


def _show_run(
    outputs: dict[str, Any],
    program: Program,
    outcome: Verification | None,
    inputs: Path | None,
    seed: int,
    output: Path | None,
) -> None:
    from lanefold.report.differences import difference_parts
    from lanefold.report.table import counter_line, counter_text, show

    lines: list[Any] = [f"inputs: {inputs if inputs else f'random, seed {seed}'}"]
    for name, value in outputs.items():
        lines.append(f"output {name}: {_shown(value)}")
    lines.append(counter_line(program.ledger.counted))
    lines += [f"  {row.node}: {counter_text(dict(row.counted))}" for row in program.ledger if row.counted]
    lines += [f"{step} ran in the reference evaluator of onnx: {said}" for step, said in program.without_kernel.items()]
    if outcome is not None:
        lines += difference_parts(outcome)
        lines.append(f"verification {'passed' if outcome.ok else 'FAILED'}: {outcome.line}")
    if output is not None:
        lines.append(f"wrote {output}")
    show(lines)


def _readings(**given: str) -> dict[str, str]:
    """The readings that were given; the others are left to the target's defaults."""
    return {name: value for name, value in given.items() if value}


def _plan(
    model: Path, target: str, opcodes: str, numerics: str, prefer: str, strict: bool, shape: list[str] | None
) -> Plan:
    from lanefold.frontends.onnx import plan_model
    from lanefold.targets import target as find_target

    chosen = find_target(target, **_readings(opcodes=opcodes, numerics=numerics))
    return plan_model(model, chosen, shapes=_shapes(shape or []), strict=strict, prefer=prefer)


def _is_extent(text: str) -> bool:
    return text.isascii() and text.isdigit() and int(text) < _GREATEST_EXTENT


def _shapes(texts: list[str]) -> dict[str, list[int]]:
    shapes: dict[str, list[int]] = {}
    for text in texts:
        name, _, extents = text.rpartition("=")
        parts = extents.split(",")
        if not name or not all(_is_extent(part.strip()) for part in parts):
            raise typer.BadParameter(f"{text!r} is not NAME=EXTENT,EXTENT,…", param_hint="--shape")
        shapes[name] = [int(part) for part in parts]
    return shapes


def _is_given(context: typer.Context, name: str) -> bool:
    """Whether an option stands on the command line."""
    source = context.get_parameter_source(name)
    return source is not None and source.name != "DEFAULT"


def _refuse_seed(context: typer.Context, inputs: Path | None, seed: int) -> None:
    """Refuse a seed beside inputs from a file.

    Raises:
        LanefoldError: both are on the command line.
    """
    if inputs is not None and _is_given(context, "seed"):
        raise _SEED.error(
            f"inputs come from {inputs}, so that --seed {seed} would choose nothing",
            got=f"--input and --seed {seed}",
            allowed="--input or --seed",
            place=Place(file=str(inputs)),
            cures=["leave --seed out", "leave --input out"],
        )


def _refuse_options(context: typer.Context, folder: Path) -> None:
    """Refuse options that a saved program would pass over.

    Raises:
        LanefoldError: one of them is on the command line.
    """
    given = [f"--{name}" for name in _OF_MODELS if _is_given(context, name)]
    if given:
        named = " and ".join([", ".join(given[:-1]), given[-1]] if given[1:] else given)
        raise _SAVED.error(
            f"{folder} is a saved program, which runs as it was compiled, without {named}",
            got=named,
            allowed="--input, --output and --json",
            place=Place(file=str(folder)),
            cures=[f"leave {named} out", f"run the ONNX model with {named}"],
        )


def _no_inputs(folder: Path) -> dict[str, Any]:
    raise missing_arrays("a saved program is run on given inputs", str(folder))
