"""Files and folders that appear whole or not at all."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from lanefold import arguments
from lanefold.diagnostics import LanefoldError, Place, Rule

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
_LOOKS = 3
"""How often a folder is looked at before it counts as taken: another process may be replacing it at the first look."""
_ATTEMPTS = 100
COMPILE_AGAIN = "compile the model again and save the program anew"


def to_json(data: object) -> bytes:
    """Plain data as JSON text, keys sorted, two blanks of indent."""
    return (json.dumps(data, indent=2, sort_keys=True) + "\n").encode()


def digest(content: bytes) -> str:
    """SHA-256 of some bytes, as 64 hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def sealed(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """The files of a program with their SHA-256 digests in program.json.

    ``attributes.lanefold.files`` has the digest of every other file, ``attributes.lanefold.sha256`` that of
    program.json itself as it reads with an empty text in that place.
    """
    document = json.loads(files[MARK])
    described = document["attributes"]["lanefold"]
    described["files"] = {name: digest(content) for name, content in sorted(files.items()) if name != MARK}
    described["sha256"] = ""
    described["sha256"] = digest(to_json(document))
    return {**files, MARK: to_json(document)}


@contextmanager
def replacing(path: Path, rule: Rule) -> Iterator[Path]:
    """A place to write a file to, which takes the name ``path`` when the block ends without an error.

    Raises:
        LanefoldError: a finding of ``rule`` if the place cannot be written.
    """
    staged: Path | None = None
    try:
        if path.exists() and not path.is_file():
            # A device or a pipe takes bytes but must not be replaced; a folder refuses them.
            yield path
            return
        place = path.resolve()
        staged = place.parent / f".lanefold-{os.getpid()}-{secrets.token_hex(4)}.part"
        yield staged
        staged.replace(place)
    except (OSError, ValueError) as error:
        raise cannot_write(path, said(error), rule) from None
    finally:
        if staged is not None:
            with suppress(OSError, ValueError):
                staged.unlink()


def write_whole(path: Path, content: bytes, rule: Rule) -> None:
    """Writes a file, whole or not at all.

    Raises:
        LanefoldError: a finding of ``rule`` if the place cannot be written.
    """
    with replacing(path, rule) as place:
        place.write_bytes(content)


def cannot_write(path: Path, reason: str, rule: Rule) -> LanefoldError:
    """The error of a place that cannot be written."""
    return rule.error(
        f"{path} cannot be written: {reason}",
        got=str(path),
        allowed="a place where this user may write",
        place=Place(file=str(path)),
        cures=["choose another file"],
    )


def said(error: Exception) -> str:
    """What the system says of a file, without its name."""
    return getattr(error, "strerror", None) or str(error)


def write_folder(path: str | Path, files: Mapping[str, bytes]) -> Path:
    """Writes files into a folder that replaces what stood there in one move.

    Raises:
        LanefoldError: if the place is taken by something else or cannot be written.
    """
    folder = arguments.path("save", "path", path, "out/program")
    staged: Path | None = None
    try:
        taken = all(_taken(folder) for _ in range(_LOOKS))
        if not taken and folder.exists() and folder.resolve() == Path.cwd():
            raise _TARGET.error(
                f"{folder} is the working folder, which cannot be replaced while it is in use",
                got=str(folder),
                allowed="a folder that the program may replace as a whole",
                place=Place(file=str(folder)),
                cures=[f"write {folder / 'program'}", "go to another folder first"],
            )
        if not taken:
            place = folder.resolve() if folder.is_symlink() else folder
            place.parent.mkdir(parents=True, exist_ok=True)
            staged = Path(tempfile.mkdtemp(prefix=".lanefold-", dir=place.parent))
            _write_files(staged, files)
            _move_in(staged, place)
    except (OSError, ValueError) as error:
        raise _TARGET.error(
            f"{folder} cannot be written: {said(error)}",
            got=str(folder),
            allowed="a place where this user may write",
            place=Place(file=str(folder)),
            cures=["choose a folder that can be written"],
        ) from None
    finally:
        if staged is not None:
            shutil.rmtree(staged, ignore_errors=True)
    if taken:
        raise _TARGET.error(
            f"{folder} is taken by something that is no program",
            got=str(folder),
            allowed="a new folder, an empty folder, or an earlier program's folder",
            place=Place(file=str(folder)),
            cures=["choose another folder, or move away what stands there"],
        )
    return folder


def _taken(folder: Path) -> bool:
    """Whether something stands there that is no program."""
    try:
        names = os.listdir(folder)  # noqa: PTH208 - the names at one moment
    except FileNotFoundError:
        return False
    except NotADirectoryError:
        return True
    return bool(names) and MARK not in names


def _write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    for name, content in files.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    folder.chmod(0o755)


def _move_in(staged: Path, folder: Path) -> None:
    """Puts a written folder in its place; again where another process puts its own there at the same time."""
    for _ in range(_ATTEMPTS):
        try:
            staged.rename(folder)
            return
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
        with suppress(FileNotFoundError):
            if _replaced(staged, folder):
                return
    raise OSError(errno.EBUSY, "other processes keep writing to it")


def _replaced(staged: Path, folder: Path) -> bool:
    """Whether a written folder took the place of another, which stays until then; not if a third came between."""
    aside = Path(tempfile.mkdtemp(prefix=".lanefold-", dir=folder.parent))
    try:
        folder.rename(aside / "old")
        try:
            staged.rename(folder)
        except BaseException as error:
            if not folder.exists():
                (aside / "old").rename(folder)
            if getattr(error, "errno", None) in (errno.ENOTEMPTY, errno.EEXIST):
                return False
            raise
        return True
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def read_file(folder: Path, name: str) -> bytes:
    """The content of one file of a saved program.

    Raises:
        LanefoldError: if it is missing or unreadable.
    """
    try:
        return (folder / name).read_bytes()
    except (OSError, ValueError) as error:
        raise _READ.error(
            f"{folder / name} cannot be read: {said(error)}",
            got=str(folder / name),
            allowed="the file as Program.save wrote it",
            place=Place(file=str(folder / name)),
            cures=[COMPILE_AGAIN],
        ) from None


def damaged(folder: Path, name: str, message: str, got: object, allowed: str) -> LanefoldError:
    """The exception for a saved file whose content does not fit the program."""
    return _READ.error(message, got=got, allowed=allowed, place=Place(file=str(folder / name)), cures=[COMPILE_AGAIN])
