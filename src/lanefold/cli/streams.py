"""Commands on streams and BIR programs: asm, disasm, explain, check, sim and cost."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lanefold.cli.common import (
    DONE,
    FINDINGS,
    AsJson,
    Generation,
    Numerics,
    Opcodes,
    print_findings,
    print_json,
    read_arrays,
    write_arrays,
    write_bytes,
)

if TYPE_CHECKING:
    from lanefold.tpb.binary import Stream

Program = Annotated[Path, typer.Argument(help="BIR JSON (.json), stream (.bin) or assembly text (.s).")]
OpcodesOrAuto = Annotated[str, typer.Option(help="Opcode reading: reference, headers, or auto to find it out.")]


def asm(
    program: Annotated[Path, typer.Argument(help="Assembly text.")],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Stream to write.")] = None,
    generation: Annotated[str | None, typer.Option(help="Generation; what the text says if left out.")] = None,
    opcodes: Annotated[str | None, typer.Option(help="Opcode reading; what the text says if left out.")] = None,
    as_json: AsJson = False,
) -> None:
    """Assemble text into a stream of 64-byte bundles; without -o, print them as hexadecimal digits."""
    from lanefold.frontends.streams import read_text
    from lanefold.tpb import assemble

    stream = assemble(read_text(program), generation, opcodes)
    if output is not None:
        write_bytes(output, stream.tobytes())
    words = [bundle.tobytes().hex() for bundle in stream] if output is None or as_json else []
    if as_json:
        print_json({"generation": stream.generation, "opcodes": stream.opcodes, "bundles": words})
    elif output is None:
        typer.echo("\n".join(words))
    else:
        typer.echo(f"wrote {output}: {len(stream)} bundles, {len(stream.words) * stream.words.shape[1]} bytes")


def disasm(
    program: Annotated[str, typer.Argument(help="Stream (.bin), BIR JSON, assembly text, or hexadecimal digits.")],
    generation: Generation = "v2",
    opcodes: OpcodesOrAuto = "reference",
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
    typer.echo(disassemble(stream, hex=with_hex), nl=False)


def explain_command(
    program: Annotated[str, typer.Argument(help="128 hexadecimal digits, or FILE:INDEX.")],
    generation: Generation = "v2",
    opcodes: OpcodesOrAuto = "reference",
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
    typer.echo(explanation.to_text())


def check_command(
    program: Program,
    generation: Annotated[str | None, typer.Option(help="Generation; what the file says if left out.")] = None,
    opcodes: OpcodesOrAuto = "reference",
    as_json: AsJson = False,
) -> None:
    """Check a program against every rule of its generation; exit status 1 if an error is found."""
    from lanefold.diagnostics import errors
    from lanefold.frontends.streams import check_file

    findings, told = check_file(program, generation, opcodes)
    wrong = errors(findings)
    if as_json:
        print_json({"file": str(program), **told, "findings": [finding.to_dict() for finding in findings]})
    else:
        print_findings(findings)
        typer.echo(
            f"{program}: {told['bundles']} bundles, {len(wrong)} errors, {len(findings) - len(wrong)} other findings"
        )
    raise typer.Exit(FINDINGS if wrong else DONE)


def sim(
    program: Program,
    memory: Annotated[Path | None, typer.Option(help="Memory before: .npz with sbuf and/or psum as bytes.")] = None,
    output: Annotated[Path | None, typer.Option(help="Memory after, as .npz.")] = None,
    generation: Generation = "v2",
    opcodes: Opcodes = "reference",
    numerics: Numerics = "birsim",
    as_json: AsJson = False,
) -> None:
    """Execute a program on simulated memory and write the memory it leaves."""
    from lanefold.frontends.streams import load_memory, machine_streams
    from lanefold.tpb import Machine

    streams = machine_streams(program, generation, opcodes)
    first = next(iter(streams.values()))
    machine = Machine(first.generation, numerics=numerics, count=True)
    if memory is not None:
        load_memory(machine, read_arrays(memory), str(memory))
    machine.run(first if len(streams) == 1 else streams)
    if output is not None:
        write_arrays(output, {"sbuf": machine.sbuf, "psum": machine.psum})
    bundles = sum(len(stream) for stream in streams.values())
    if as_json:
        print_json({"bundles": bundles, "numerics": numerics, "counters": machine.counters})
        return
    from lanefold.report.table import counter_line

    typer.echo(f"executed {bundles} bundles on {first.generation}, opcodes {first.opcodes}, numerics {numerics}")
    typer.echo(counter_line(machine.counters))
    if output is not None:
        typer.echo(f"wrote {output}")


def cost(
    program: Annotated[Path, typer.Argument(help="BIR JSON (.json), PTO text (.pto), or a folder of `compile`.")],
    generation: Annotated[str | None, typer.Option(help="Generation of a BIR program; its own if left out.")] = None,
    target: Annotated[str, typer.Option("--target", "-t", help="trn1, trn2, trn3; for PTO texts a2a3 or a5.")] = "",
    model: Annotated[str, typer.Option(help="Cost model; the target's first one if left out.")] = "",
    parameter: Annotated[list[str] | None, typer.Option(help="Index parameter of a PTO text, as NAME=8.")] = None,
    skip_unknown: Annotated[bool, typer.Option("--skip-unknown", help="Leave out, and count, unknown prices.")] = False,
    as_json: AsJson = False,
) -> None:
    """Price the instructions of a program, one row each with its rule, bound and validity, and the total."""
    from lanefold.frontends.costs import price_file

    given = dict(_parameter(text) for text in parameter or [])
    priced = price_file(program, model=model, generation=generation, target=target, parameters=given)
    if skip_unknown:
        priced = priced.without_unknown()
    if as_json:
        print_json(priced.to_dict())
        return
    from lanefold.report.table import cost_line, cost_parts, show

    show([*cost_parts(priced), cost_line(priced)])


def _parameter(text: str) -> tuple[str, int]:
    name, equals, value = text.partition("=")
    if not name or not equals or not (value.isascii() and value.isdigit() and len(value) < 10):
        raise typer.BadParameter(f"{text!r} is not NAME=VALUE with a whole number", param_hint="--parameter")
    return name, int(value)


def _stream(source: str, generation: str, opcodes: str) -> tuple[Stream, str]:
    """The stream a text argument stands for, and what was found out about its reading."""
    from lanefold.frontends.streams import read_stream

    found: tuple[Any, str] = read_stream(source, generation, opcodes)
    return found
