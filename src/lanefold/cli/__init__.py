"""The command line; each command is a few calls into the package."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer
import typer.core

from lanefold.cli import models, streams, sweeps, tables
from lanefold.cli.common import DONE, FINDINGS, USAGE, print_findings, print_json
from lanefold.diagnostics import Diagnostic, LanefoldError, Place, Rule
from lanefold.program.files import said


class _ReaderGoneError(Exception):
    """Whoever reads the answer wants no more of it, such as ``head``; typer would call that a failure."""


class _Commands(typer.core.TyperGroup):
    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise _ReaderGoneError from None


app = typer.Typer(
    name="lanefold",
    cls=_Commands,
    help="Route, check, encode, simulate and price pooling, reduction and expansion instructions of AI accelerators.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
)


@app.callback(invoke_without_command=True)
def _root(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        from lanefold import __version__

        typer.echo(__version__)
        raise typer.Exit(DONE)


_USAGE = Rule(
    "CLI-USAGE", "A command is given the arguments and options that its --help lists.", "Command line", usage=True
)
_PRINT = Rule("CLI-PRINT", "Answers are printed to standard output.", "Command line", usage=True)
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""What the system says of an output that takes no more."""
_UsageError: Any = typer.BadParameter.__base__
"""What the option parser raises for arguments and options that it cannot take."""


def _misused(error: Any) -> Diagnostic:
    """The finding for a command line that cannot be read, where an answer in JSON is asked for."""
    command = str(error.ctx.command_path if error.ctx else app.info.name)
    return _USAGE.finding(
        error.format_message(),
        got=" ".join(sys.argv[1:]),
        allowed=error.ctx.get_usage().removeprefix("Usage: ") if error.ctx else f"{command} COMMAND",
        place=Place(instruction=command),
        cures=[f"read {command} --help and give what it lists"],
    )


_COMMANDS: tuple[tuple[str, Callable[..., None], str], ...] = (
    ("compile", models.compile_command, "Compile an ONNX model, price it, and write the program."),
    ("run", models.run, "Run a model; --verify compares it with onnxruntime."),
    ("route", models.route, "Show every route of one node: legal or not, and why."),
    ("asm", streams.asm, "Turn assembly text or BIR JSON into streams of bundles."),
    ("disasm", streams.disasm, "Print a stream as assembly text."),
    ("explain", streams.explain_command, "Explain one bundle byte by byte, with sources."),
    ("check", streams.check_command, "Check a program against every rule."),
    ("sim", streams.sim, "Execute bundles on simulated memory."),
    ("cost", streams.cost, "Price a program, instruction by instruction."),
    ("sweep", sweeps.sweep, "Price many shapes, targets and models at once."),
    ("targets", tables.targets, "List the targets and their readings."),
    ("ops", tables.ops, "List the instructions or operations of a target."),
)
"""Name, function, and the line of the list of commands, short enough for 80 columns."""
for _name, _function, _short in _COMMANDS:
    app.command(_name, short_help=_short)(_function)


def main() -> None:
    """Runs the command line; the entry point of the ``lanefold`` command."""
    as_json = "--json" in sys.argv
    try:
        sys.exit(app(prog_name=app.info.name, standalone_mode=not as_json))
    except _UsageError as error:
        _tell([_misused(error)], as_json=True)
        sys.exit(USAGE)
    except LanefoldError as error:
        _tell(error.diagnostics, as_json=as_json)
        sys.exit(USAGE if error.usage else FINDINGS)
    except (BrokenPipeError, _ReaderGoneError):
        _drop_output()
        sys.exit(DONE)
    except OSError as error:
        if error.errno not in _FULL or error.filename is not None:
            raise
        _drop_output()
        print_findings([_unwritten(error)])
        sys.exit(USAGE)


def _tell(findings: Sequence[Diagnostic], *, as_json: bool) -> None:
    """Prints findings; the status that follows is the same where nobody reads them."""
    try:
        if as_json:
            print_json({"findings": [finding.to_dict() for finding in findings]})
        else:
            print_findings(list(findings))
    except BrokenPipeError:
        _drop_output()


def _drop_output() -> None:
    """Sends what is still to be printed nowhere, so that leaving does not try it again."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def _unwritten(error: OSError) -> Diagnostic:
    """The finding for an answer that cannot be printed."""
    return _PRINT.finding(
        f"the answer cannot be printed: {said(error)}",
        got="standard output that takes no more",
        allowed="a terminal, a pipe, or a file with room",
        cures=["make room, or send the answer elsewhere"],
    )
