"""The command line; each command is a few calls into the package."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from lanefold.cli import models, streams, sweeps, tables
from lanefold.cli.common import DONE, FINDINGS, USAGE, print_findings, print_json
from lanefold.diagnostics import LanefoldError

app = typer.Typer(
    name="lanefold",
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


app.command("compile")(models.compile_command)
app.command("run")(models.run)
app.command("route")(models.route)
app.command("asm")(streams.asm)
app.command("disasm")(streams.disasm)
app.command("explain")(streams.explain_command)
app.command("check")(streams.check_command)
app.command("sim")(streams.sim)
app.command("cost")(streams.cost)
app.command("targets")(tables.targets)
app.command("ops")(tables.ops)
app.command("sweep")(sweeps.sweep)


def main() -> None:
    """Runs the command line; the entry point of the ``lanefold`` command."""
    try:
        app()
    except LanefoldError as error:
        if "--json" in sys.argv:
            print_json({"findings": [finding.to_dict() for finding in error.diagnostics]})
        else:
            print_findings(list(error.diagnostics))
        sys.exit(USAGE if error.usage else FINDINGS)
    except BrokenPipeError:
        sys.exit(DONE)
