"""Folders of files that appear whole or not at all."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from lanefold.diagnostics import Place, Rule

_TARGET = Rule(
    "PROGRAM-FOLDER",
    "A program is written to a new folder, an empty one, or one that holds an earlier program.",
    "Program files",
    usage=True,
)
_READ = Rule(
    "PROGRAM-FILE",
    "A saved program has the files that its program.json names, unchanged.",
    "Program files",
    usage=True,
)
MARK = "program.json"


def write_folder(path: str | Path, files: Mapping[str, bytes]) -> Path:
    """Writes files into a folder that replaces what stood there in one move.

    Raises:
        LanefoldError: if the place is taken by something else or cannot be written.
    """
    folder = Path(path)
    if folder.exists() and not (folder.is_dir() and ((folder / MARK).exists() or not any(folder.iterdir()))):
        raise _TARGET.error(
            f"{folder} is taken by something that is no program",
            got=str(folder),
            allowed="a new folder, an empty folder, or an earlier program's folder",
            place=Place(file=str(folder)),
            cures=["choose another folder, or move away what stands there"],
        )
    staged: Path | None = None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        staged = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
        for name, content in files.items():
            target = staged / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        if folder.exists():
            old = Path(tempfile.mkdtemp(prefix=f".{folder.name}-old-", dir=folder.parent))
            folder.rename(old / folder.name)
            staged.rename(folder)
            shutil.rmtree(old)
        else:
            staged.rename(folder)
        folder.chmod(0o755)
    except OSError as error:
        if staged is not None:
            shutil.rmtree(staged, ignore_errors=True)
        raise _TARGET.error(
            f"{folder} cannot be written: {error.strerror or error}",
            got=str(folder),
            allowed="a place where this user may write",
            place=Place(file=str(folder)),
            cures=["choose a folder that can be written"],
        ) from None
    return folder


def read_file(folder: Path, name: str) -> bytes:
    """The content of one file of a saved program.

    Raises:
        LanefoldError: if it is missing or unreadable.
    """
    try:
        return (folder / name).read_bytes()
    except OSError as error:
        raise _READ.error(
            f"{folder / name} cannot be read: {error.strerror or error}",
            got=str(folder / name),
            allowed="a folder written by Program.save",
            place=Place(file=str(folder / name)),
            cures=["save the program again"],
        ) from None


def damaged(folder: Path, name: str, message: str, got: object, allowed: str) -> Exception:
    """The exception for a saved file whose content does not fit the program."""
    return _READ.error(
        message, got=got, allowed=allowed, place=Place(file=str(folder / name)), cures=["save the program again"]
    )
