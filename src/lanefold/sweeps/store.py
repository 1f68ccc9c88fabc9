"""Finished chunks, kept beside the output until it is written: an interrupted sweep goes on where it stopped."""

from __future__ import annotations

import io
import os
import shutil
import zipfile
from pathlib import Path

import numpy as np

from lanefold.diagnostics import Place, Rule
from lanefold.program.files import cannot_write, said, write_whole
from lanefold.sweeps.group import Evaluated
from lanefold.sweeps.space import Chunk, Space

OUTPUT = Rule(
    "SWEEP-OUTPUT",
    "A table is written to a .csv or .parquet file and a plot to a .html, .png or .svg file, in places that can be "
    "written.",
    "Sweeps",
    usage=True,
)
RESUME = Rule(
    "SWEEP-RESUME",
    "An interrupted sweep goes on with the same configurations, the same version and the same output.",
    "Sweeps",
    usage=True,
)
_FIELDS = ("cycles", "low", "high", "validity", "bound", "rule")


def pack(found: Evaluated) -> bytes:
    """The numbers of a chunk as the bytes of an .npz file."""
    buffer = io.BytesIO()
    np.savez(buffer, rules=np.array(found.rules), **{name: getattr(found, name) for name in _FIELDS})
    return buffer.getvalue()


def unpack(data: bytes) -> Evaluated:
    """The numbers that `pack` packed."""
    with np.load(io.BytesIO(data), allow_pickle=False) as file:
        cycles, low, high, validity, bound, rule = (file[name] for name in _FIELDS)
        return Evaluated(cycles, low, high, validity, bound, rule, tuple(str(word) for word in file["rules"]))


class Store:
    """The finished chunks of one sweep, in memory, and in files where there is an output.

    Args:
        space: the sweep.
        output: the file that the table will be written to; None keeps everything in memory only.

    Raises:
        LanefoldError: SWEEP-OUTPUT if the place cannot be written, SWEEP-RESUME if it holds chunks of another sweep.
    """

    def __init__(self, space: Space, output: Path | None) -> None:
        self.space = space
        self.found: dict[int, Evaluated] = {}
        self.folder = output.with_name(f"{output.name}.parts") / space.digest if output else None
        if self.folder is not None and output is not None:
            _check_other_sweeps(self.folder, output)
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise cannot_write(output, said(error), OUTPUT) from None
            self._read()
        self.resumed = len(self.found)

    def _read(self) -> None:
        for chunk in self.space.chunks:
            path = self._path(chunk)
            if path is None or not path.exists():
                continue
            try:
                found = unpack(path.read_bytes())
            except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
                path.unlink(missing_ok=True)  # it is made again
                continue
            if len(found.cycles) == chunk.count:
                self.found[chunk.number] = found

    def _path(self, chunk: Chunk) -> Path | None:
        return self.folder / f"{chunk.number:08d}.npz" if self.folder else None

    @property
    def missing(self) -> tuple[Chunk, ...]:
        """Chunks that are still to be made."""
        return tuple(chunk for chunk in self.space.chunks if chunk.number not in self.found)

    def keep(self, chunk: Chunk, found: Evaluated) -> None:
        """Keeps a finished chunk; its file appears whole or not at all.

        Raises:
            LanefoldError: SWEEP-OUTPUT if the file cannot be written.
        """
        path = self._path(chunk)
        if path is not None:
            write_whole(path, pack(found), OUTPUT)
        self.found[chunk.number] = found

    def in_order(self) -> list[Evaluated]:
        """The numbers of all chunks, in order."""
        return [self.found[chunk.number] for chunk in self.space.chunks]

    def clear(self) -> None:
        """Removes the files of this sweep."""
        if self.folder is None:
            return
        shutil.rmtree(self.folder, ignore_errors=True)
        if self.folder.parent.is_dir() and not any(self.folder.parent.iterdir()):
            self.folder.parent.rmdir()


def _check_other_sweeps(folder: Path, output: Path) -> None:
    others = [each for each in folder.parent.glob("*/*.npz") if each.parent != folder]
    if not others:
        return
    digests = sorted({each.parent.name for each in others})
    raise RESUME.error(
        f"{folder.parent} holds {len(others)} finished chunks of another sweep, {', '.join(digests)}",
        got=f"sweep {folder.name}",
        allowed=f"sweep {' or '.join(digests)}, with the sweep file and the version of lanefold it was started with",
        cures=[
            f"remove {folder.parent} to start anew",
            "take the changes of the sweep file back to go on",
            f"write to another file than {output}",
        ],
        place=Place(file=str(folder.parent)),
    )


def check_writable(path: Path) -> None:
    """Whether a file of this name can be written; the folder it goes to is made where it does not exist.

    Raises:
        LanefoldError: SWEEP-OUTPUT if not.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(path, said(error), OUTPUT) from None
    if path.is_dir():
        raise cannot_write(path, "it is a folder", OUTPUT)
    if not os.access(path.parent, os.W_OK):
        raise cannot_write(path, "its folder may not be written", OUTPUT)
