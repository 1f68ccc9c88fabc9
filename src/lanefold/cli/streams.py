"""Commands on streams and BIR programs: asm, disasm, explain, check, sim and cost."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lanefold.cli.common import (
    COST_MODELS,
    DONE,
    FINDINGS,
    AsJson,
    announce_compilation,
    make_folder,
    print_findings,
    print_json,
    read_arrays,
    write_arrays,
    write_bytes,
)
from lanefold.diagnostics import number_of

if TYPE_CHECKING:
    from lanefold.pto.program.run import Run
    from lanefold.tpb.binary import Stream

Program = Annotated[
    Path, typer.Argument(help="BIR JSON (.json), stream (.bin), assembly text (.s) or PTO text (.pto).")
]
AnyProgram = Annotated[
    Path, typer.Argument(help="BIR JSON (.json), stream (.bin, .s), PTO text (.pto), or a folder of `compile`.")
]
Parameter = Annotated[list[str] | None, typer.Option(help="Index parameter of a PTO text, as NAME=8.")]
_LEFT_OUT = "what the file says if left out"
GenerationOrFile = Annotated[str | None, typer.Option(help=f"Generation: v2, v3 or v4; {_LEFT_OUT}, else v2.")]
OpcodesOrFile = Annotated[
    str | None, typer.Option(help=f"Opcode reading: reference or headers; {_LEFT_OUT}, else reference.")
]
OpcodesOrAuto = Annotated[
    str | None,
    typer.Option(help=f"Opcode reading: reference, headers, or auto to find it out; {_LEFT_OUT}, else reference."),
]


def asm(
    program: Annotated[Path, typer.Argument(help="Assembly text, or BIR JSON (.json).")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Stream to write; for BIR JSON the folder of one stream per engine."),
    ] = None,
    generation: GenerationOrFile = None,
    opcodes: OpcodesOrFile = None,
    as_json: AsJson = False,
) -> None:
    """Turn text or BIR JSON into streams of 64-byte bundles; without -o, print them as hexadecimal digits."""
    from lanefold.frontends.streams import assembled

    if program.suffix == ".json":
        _module_streams(program, output, generation, opcodes, as_json=as_json)
        return
    stream = assembled(program, generation, opcodes)
    if output is not None:
        write_bytes(output, stream.tobytes())
    words = _digits(stream) if output is None or as_json else []
    if as_json:
        print_json({"generation": stream.generation, "opcodes": stream.opcodes, "bundles": words})
    elif output is None:
        typer.echo("\n".join(words))
    else:
        typer.echo(f"wrote {output}: {number_of(len(stream), 'bundle')}, {stream.words.size:,} bytes")


def _module_streams(
    program: Path, output: Path | None, generation: str | None, opcodes: str | None, *, as_json: bool
) -> None:
    """The streams of a module, one file per engine."""
    from lanefold.frontends.streams import machine_streams

    streams = {f"{engine}.bin": stream for engine, stream in machine_streams(program, generation, opcodes).items()}
    if output is not None:
        make_folder(output)
        for name, stream in streams.items():
            write_bytes(output / name, stream.tobytes())
    first = next(iter(streams.values()))
    if as_json:
        told = {name: _digits(stream) for name, stream in streams.items()}
        print_json({"generation": first.generation, "opcodes": first.opcodes, "streams": told})
        return
    for name, stream in streams.items():
        if output is None:
            typer.echo("\n".join([f"; {name}", *_digits(stream)]))
        else:
            typer.echo(f"wrote {output / name}: {number_of(len(stream), 'bundle')}, {stream.words.size:,} bytes")


def _digits(stream: Stream) -> list[str]:
    return [bundle.tobytes().hex() for bundle in stream]


def disasm(
    program: Annotated[str, typer.Argument(help="Stream (.bin), BIR JSON, assembly text, or hexadecimal digits.")],
    generation: GenerationOrFile = None,
    opcodes: OpcodesOrAuto = None,
    with_hex: Annotated[bool, typer.Option("--hex", help="Append the bytes of every bundle.")] = False,
    as_json: AsJson = False,
) -> None:
    """Print a stream as assembly text; `asm` reads it back to the same bytes."""
    from lanefold.tpb import disassemble

    stream, note = _stream(program, generation, opcodes)
    if as_json:
        bundles = [bundle.to_dict() | {"hex": bundle.tobytes().hex()} for bundle in stream]
        print_json({"generation": stream.generation, "opcodes": stream.opcodes, "reading": note, "bundles": bundles})
        return
    if note:
        typer.echo(f"; {note}")
    if generation is None and program.lower().endswith(".bin"):
        typer.echo(
            f"bundles do not tell their generation; read as {stream.generation}, opcodes {stream.opcodes} "
            "(--generation and --opcodes choose)",
            err=True,
        )
    typer.echo(disassemble(stream, hex=with_hex), nl=False)


def explain_command(
    program: Annotated[str, typer.Argument(help="128 hexadecimal digits, or FILE:INDEX.")],
    generation: GenerationOrFile = None,
    opcodes: OpcodesOrAuto = None,
    as_json: AsJson = False,
) -> None:
    """Explain one bundle byte by byte: field, value, meaning, source and confidence."""
    from lanefold.frontends.streams import split_index
    from lanefold.tpb import explain

    source, index = split_index(program)
    stream, note = _stream(source, generation, opcodes)
    from lanefold.frontends.streams import one_bundle

    bundle = one_bundle(stream, index, source)
    explanation = explain(bundle.tobytes(), stream.generation, stream.opcodes)
    if as_json:
        print_json(explanation.to_dict())
        return
    if note:
        typer.echo(f"; {note}")
    if not sys.stdout.isatty():
        typer.echo(explanation.to_text())
        return
    from lanefold.report.table import show, table

    columns = ("offset", "bytes", "field", "value", "meaning", "source", "confidence")
    for head, fields in explanation.parts():
        told = ((r.bytes, r.field, r.value, r.meaning, r.source.partition(";")[0], r.confidence) for r in fields)
        rows = [(f"+0x{row.offset:02X}", *rest) for row, rest in zip(fields, told, strict=True)]
        show([*head, "", table("", columns, rows)])


def check_command(
    program: AnyProgram,
    generation: GenerationOrFile = None,
    opcodes: OpcodesOrAuto = None,
    target: Annotated[
        str, typer.Option("--target", "-t", help="trn1, trn2 or trn3; for PTO texts cpu, a2a3 or a5, cpu if left out.")
    ] = "",
    parameter: Parameter = None,
    as_json: AsJson = False,
) -> None:
    """Check a program against every rule of its generation or target; exit status 1 if an error is found."""
    from lanefold.diagnostics import errors
    from lanefold.frontends.streams import check_file

    given = dict(_parameter(text) for text in parameter or [])
    findings, told = check_file(program, generation, opcodes, target, given)
    wrong = errors(findings)
    if as_json:
        print_json({"file": str(program), **told, "findings": [finding.to_dict() for finding in findings]})
    else:
        print_findings(findings)
        counted = {"instruction": told.get("instructions"), "bundle": told.get("bundles"), "error": len(wrong)}
        words = [number_of(count, word) for word, count in counted.items() if count is not None]
        on = f" on {told['target']}" if "target" in told else ""
        typer.echo(f"{program}{on}: {', '.join([*words, number_of(len(findings) - len(wrong), 'other finding')])}")
    raise typer.Exit(FINDINGS if wrong else DONE)


def sim(
    program: Program,
    memory: Annotated[
        Path | None,
        typer.Option(help="Memory before: .npz with sbuf and/or psum as bytes; for PTO texts its arrays by name."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="Memory after, as .npz; for PTO texts the arrays stored to.")
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option(help="A record per executed bundle, as one JSON list (.json) or one object per line (.jsonl)."),
    ] = None,
    generation: GenerationOrFile = None,
    opcodes: OpcodesOrFile = None,
    numerics: Annotated[
        str,
        typer.Option(
            help="Numeric reading: birsim or device; for PTO texts cpu, a2a3-order, a5-order. First if left out."
        ),
    ] = "",
    target: Annotated[
        str, typer.Option("--target", "-t", help="trn1, trn2 or trn3; for PTO texts cpu, a2a3 or a5, cpu if left out.")
    ] = "",
    parameter: Parameter = None,
    option: Annotated[
        list[str] | None,
        typer.Option(help="Reading of the machine, as NAME=VALUE, e.g. pool_sum=lanes4; see docs/tables-machine.md."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Execute bundles on simulated memory, count what they pass over silently, and write the memory they leave."""
    from lanefold.frontends.streams import PTO_SUFFIX, chosen_generation, load_memory, machine_streams, run_tiles
    from lanefold.tpb import Machine
    from lanefold.tpb.machine.options import from_texts
    from lanefold.tpb.machine.tracing import Record, to_text

    if not as_json:
        announce_compilation()

    given = dict(_parameter(text) for text in parameter or [])
    if program.suffix == PTO_SUFFIX:
        refused = {"--generation": generation, "--opcodes": opcodes, "--option": option, "--trace": trace}
        arrays = None if memory is None else read_arrays(memory)
        found = run_tiles(program, arrays, target, numerics, given, refused)
        if output is not None:
            write_arrays(output, found.outputs)
        _show_tiles(found, output, as_json=as_json)
        return
    streams = machine_streams(program, chosen_generation(program, generation, target, given), opcodes)
    first = next(iter(streams.values()))
    chosen: dict[str, Any] = {"numerics": numerics or "birsim", "count": True, **from_texts(option or [])}
    machine = Machine(first.generation, **chosen)
    if memory is not None:
        load_memory(machine, read_arrays(memory), str(memory))
    records: list[Record] = []
    machine.run(first if len(streams) == 1 else streams, trace=records.append if trace is not None else None)
    if output is not None:
        write_arrays(output, {"sbuf": machine.sbuf, "psum": machine.psum})
    if trace is not None:
        write_bytes(trace, to_text(records, lines=trace.suffix == ".jsonl").encode())
    bundles = sum(len(stream) for stream in streams.values())
    counters = machine.counters if machine.options.count else None
    if as_json:
        print_json({"bundles": bundles, "numerics": machine.options.numerics, "counters": counters})
        return
    from lanefold.report.table import counter_line

    told = f"{first.generation}, opcodes {first.opcodes}, numerics {machine.options.numerics}"
    typer.echo(f"executed {number_of(bundles, 'bundle')} on {told}")
    if counters is not None:
        typer.echo(counter_line(counters))
    for path in (output, trace):
        if path is not None:
            typer.echo(f"wrote {path}")


def _show_tiles(found: Run, output: Path | None, *, as_json: bool) -> None:
    if as_json:
        outputs = {name: {"shape": list(each.shape), "dtype": each.dtype.name} for name, each in found.outputs.items()}
        told = {"target": found.target, "numerics": found.numerics, "counters": found.counters, "outputs": outputs}
        print_json(told | {"findings": [finding.to_dict() for finding in found.findings]})
        return
    print_findings(list(found.findings))
    typer.echo(found.to_text())
    for name, value in found.outputs.items():
        typer.echo(f"output {name}: {value.dtype.name} {list(value.shape)}")
    if output is not None:
        typer.echo(f"wrote {output}")


def cost(
    program: AnyProgram,
    generation: GenerationOrFile = None,
    opcodes: OpcodesOrFile = None,
    target: Annotated[str, typer.Option("--target", "-t", help="trn1, trn2 or trn3; for PTO texts a2a3 or a5.")] = "",
    model: Annotated[str, typer.Option(help=COST_MODELS)] = "",
    parameter: Parameter = None,
    skip_unknown: Annotated[bool, typer.Option("--skip-unknown", help="Leave out, and count, unknown prices.")] = False,
    as_json: AsJson = False,
) -> None:
    """Price the instructions of a program, one row each with its rule, bound and validity, and the total."""
    from lanefold.frontends.costs import price_file

    given = dict(_parameter(text) for text in parameter or [])
    priced = price_file(program, model=model, generation=generation, target=target, opcodes=opcodes, parameters=given)
    if skip_unknown:
        priced = priced.without_unknown()
    if as_json:
        print_json(priced.to_dict())
        return
    from lanefold.report.table import cost_parts, foundation_line, show

    show([*cost_parts(priced), str(priced), *foundation_line(priced)])


def _parameter(text: str) -> tuple[str, int]:
    name, equals, value = text.partition("=")
    if not name or not equals or not (value.isascii() and value.isdigit() and len(value) < 10):
        raise typer.BadParameter(f"{text!r} is not NAME=VALUE with a whole number", param_hint="--parameter")
    return name, int(value)


def _stream(source: str, generation: str | None, opcodes: str | None) -> tuple[Stream, str]:
    """The stream a text argument stands for, and what was found out about its reading."""
    from lanefold.frontends.streams import read_stream

    found: tuple[Any, str] = read_stream(source, generation, opcodes)
    return found
