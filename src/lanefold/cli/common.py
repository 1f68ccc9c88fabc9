"""What the commands share: exit statuses, options, reading and writing of arrays and texts."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from lanefold.diagnostics import Diagnostic, LanefoldError, Place, Rule, number_of
from lanefold.program.files import said, write_whole

DONE, FINDINGS, USAGE = 0, 1, 2
"""Exit statuses: done; findings (illegal, verification failed); bad usage or unreadable input."""
_MOST_FINDINGS = 20
"""Findings of one rule that are printed for people."""

_ARRAYS = Rule(
    "CLI-ARRAYS", "Arrays are read from an .npz file with one plain array per name.", "Command line", usage=True
)
_OUTPUT = Rule("CLI-OUTPUT", "An output file is written to a place that can be written.", "Command line", usage=True)

COST_MODELS = (
    "Cost model: documented or detailed (trn); calibrated, stream, reference, page or fit (PTO). "
    "The first one if left out."
)
AsJson = Annotated[bool, typer.Option("--json", help="Answer as JSON.")]
Opcodes = Annotated[str, typer.Option(help="Opcode reading of trn targets: reference or headers.")]
Numerics = Annotated[
    str, typer.Option(help="Numeric reading, birsim or device; for cpu, a2a3 and a5: cpu, a2a3-order or a5-order.")
]
Generation = Annotated[str, typer.Option(help="Generation: v2, v3 or v4.")]


def print_json(data: object) -> None:
    """Prints plain data as JSON; numbers that JSON does not have, such as infinity, become null."""
    typer.echo(json.dumps(_finite(data), indent=2, default=str, ensure_ascii=False, allow_nan=False))


def _finite(data: object) -> object:
    """Plain data with None for each number that is not finite."""
    if isinstance(data, Mapping):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_finite(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data


def print_findings(findings: list[Diagnostic], *, brief: bool = False) -> None:
    """Prints findings to the error stream; with ``brief`` those that only inform take one line.

    Of one rule the first findings are printed, and how many more there are.
    """
    met: Counter[str] = Counter()
    for finding in findings:
        met[finding.code] += 1
        if met[finding.code] > _MOST_FINDINGS:
            continue
        text = finding.to_text()
        typer.echo(text.partition("\n")[0] if brief and finding.severity == "info" else text, err=True)
    for code, count in met.items():
        if count > _MOST_FINDINGS:
            typer.echo(f"{number_of(count - _MOST_FINDINGS, 'more finding')} of {code}; --json has all", err=True)


def announce_compilation() -> None:
    """Says on the error stream that loops are compiled, should that be necessary: it happens once and takes a while."""
    from lanefold.numerics.kernels.jit import on_first_compilation

    line = "compiling the simulator's loops; this happens once and takes about ten seconds"
    on_first_compilation(lambda: typer.echo(line, err=True))


def read_arrays(path: Path) -> dict[str, Any]:
    """The arrays of an .npz file.

    Raises:
        LanefoldError: if the file cannot be read or holds no plain arrays.
    """
    import zipfile
    import zlib

    import numpy as np

    try:
        file = np.load(path, allow_pickle=False)
        if isinstance(file, np.ndarray):
            raise ValueError("it holds one array without a name")
        with file:
            return {name: file[name] for name in file.files}
    except (OSError, ValueError, AttributeError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        why = "it is no .npz file of plain arrays" if "pickle" in str(error) else said(error)
        raise _ARRAYS.error(
            f"{path} cannot be read as .npz: {why}",
            got=str(path),
            allowed="a file written by numpy.savez",
            place=Place(file=str(path)),
            cures=["write it with numpy.savez(path, name=array)"],
        ) from None


def missing_arrays(message: str, place: str) -> LanefoldError:
    """The exception for a command that needs arrays and was given none."""
    return _ARRAYS.error(
        message, got="nothing", allowed="--input X.npz", place=Place(file=place), cures=["give --input X.npz"]
    )


def write_arrays(path: Path, arrays: dict[str, Any]) -> None:
    """Writes arrays as .npz, whole or not at all; those of a sequence as NAME[0], NAME[1] and so on.

    Raises:
        LanefoldError: if the place cannot be written.
    """
    import io

    import numpy as np

    parts = {name: value for name, value in arrays.items() if not isinstance(value, list)}
    for name, values in arrays.items():
        if name not in parts:
            parts |= {f"{name}[{index}]": value for index, value in enumerate(values)}
    content = io.BytesIO()
    np.savez(content, **parts)
    write_bytes(path, content.getvalue())


def make_folder(path: Path) -> None:
    """Makes a folder where there is none.

    Raises:
        LanefoldError: if the place cannot be written.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        raise _OUTPUT.error(
            f"{path} cannot be made a folder: {said(error)}",
            got=str(path),
            allowed="a folder, or a place where one may be made",
            place=Place(file=str(path)),
            cures=["choose another folder"],
        ) from None


def write_bytes(path: Path, content: bytes) -> None:
    """Writes a file, whole or not at all.

    Raises:
        LanefoldError: if the place cannot be written.
    """
    write_whole(path, content, _OUTPUT)
