"""Streams, assembly texts and BIR programs from files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lanefold.diagnostics import Diagnostic, LanefoldError, Place, Rule
from lanefold.program.files import said
from lanefold.tpb import Bundle, Instruction, Stream, assemble, bir, check, decode, encode
from lanefold.tpb.binary import detect_reading
from lanefold.tpb.isa import GENERATIONS, READINGS

if TYPE_CHECKING:
    from lanefold.pto.program import Program as TileProgram
    from lanefold.pto.program.run import Run
    from lanefold.tpb.bir import Module
    from lanefold.tpb.machine import Machine

_FILE = Rule(
    "STREAM-FILE",
    "A program of bundles is BIR JSON (.json), a stream of 64-byte bundles (.bin) or assembly text (.s); "
    "tile programs are PTO texts (.pto).",
    "Program files",
    usage=True,
)
_CHECK = Rule(
    "STREAM-CHECK",
    "Bundles are checked for a generation or its target, PTO texts for a target, saved programs for their own.",
    "Program files",
    usage=True,
)
_INDEX = Rule(
    "STREAM-INDEX", "One bundle is named by its index in its file, counted from 0.", "Program files", usage=True
)
_MEMORY = Rule(
    "STREAM-MEMORY",
    "Memory is given as arrays of numbers named sbuf and psum, of up to 128 partitions and at most the bytes that a "
    "partition has; a PTO text is given its arrays by name.",
    "Machine memory",
    usage=True,
)

_PARAMETER = Rule(
    "STREAM-PARAMETER", "A value is given to an index parameter that the PTO text has.", "Program files", usage=True
)

TEXT_SUFFIXES = (".s", ".asm", ".txt")
PTO_SUFFIX = ".pto"
_BUNDLE_DIGITS = 128
_MOST_INDEX_DIGITS = 100
"""Longer indices are beyond any file, and beyond what is read as a number."""
_HEX = re.compile(r"[0-9a-fA-F\s]+")


def is_folder(path: Path) -> bool:
    """Whether a path names a folder; one that no file system takes names none."""
    try:
        return path.is_dir()
    except OSError:
        return False


def read_text(path: str | Path) -> str:
    """The content of a text file.

    Raises:
        LanefoldError: if it cannot be read as UTF-8 text.
    """
    try:
        return _read(path).decode().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise _FILE.error(
            f"{path} is no text: {error.reason} at byte {error.start}",
            got=f"byte 0x{error.object[error.start]:02X}",
            allowed="UTF-8 text",
            place=Place(file=str(path), offset=error.start),
            cures=[_cure_of_bytes(Path(path))],
        ) from None


def _cure_of_bytes(path: Path) -> str:
    """What to do about bytes where a text is wanted."""
    if path.suffix == PTO_SUFFIX:
        return "save the PTO text as UTF-8"
    if path.suffix in TEXT_SUFFIXES:
        return f"save the text as UTF-8, or name a stream {path.with_suffix('.bin').name}"
    return f"print a stream as text by `lanefold disasm {path}`"


def assembled(path: str | Path, generation: str | None, opcodes: str | None) -> Stream:
    """The bundles of a text file.

    Raises:
        LanefoldError: if it cannot be read; with file, line and column of every mistake.
    """
    text = read_text(path)
    try:
        return assemble(text, generation, opcodes)
    except LanefoldError as error:
        placed = [replace(found, place=replace(found.place, file=str(path))) for found in error.diagnostics]
        raise LanefoldError(placed, usage=error.usage) from None


def _read(path: str | Path) -> bytes:
    try:
        return Path(path).read_bytes()
    except (OSError, ValueError) as error:
        inside = Path(path) / "program.json"
        raise _FILE.error(
            f"{path} cannot be read: {said(error)}",
            got=str(path),
            allowed="a readable file, or hexadecimal digits where a command takes them",
            place=Place(file=str(path)),
            cures=[f"give {inside}" if is_folder(Path(path)) and inside.is_file() else "check the path"],
        ) from None


def read_module(path: str | Path) -> Module:
    """A BIR program from its JSON file.

    Raises:
        LanefoldError: if it is missing or no BIR module.
    """
    if Path(path).suffix != ".json":
        raise _FILE.error(
            f"{path} is no BIR JSON file",
            got=Path(path).suffix or "no suffix",
            allowed=".json",
            place=Place(file=str(path)),
            cures=["give the program.json of a compiled program"],
        )
    _read(path)
    return bir.load(Path(path))


def read_stream(source: str, generation: str | None = None, opcodes: str | None = None) -> tuple[Stream, str]:
    """The bundles of a file or of hexadecimal digits, and what was found out about their reading (with ``auto``).

    What the call leaves out is taken from the text or the module, else v2 and reference.

    Raises:
        LanefoldError: if the source is neither a readable file nor hexadecimal digits, or says otherwise than the call.
    """
    path = Path(source)
    if _HEX.fullmatch(source) and (len(source) >= _BUNDLE_DIGITS or not path.exists()):
        return _decoded(_digits(source), generation, opcodes)
    if path.suffix in TEXT_SUFFIXES:
        stream = assembled(path, generation, None if opcodes == "auto" else opcodes)
        return stream, f"opcodes {stream.opcodes}: the text says so" if opcodes == "auto" else ""
    if path.suffix == ".json":
        stream = encode(read_module(path), generation, _reading(opcodes))
        return stream, f"opcodes {stream.opcodes}: a module has no bytes yet, the default" if opcodes == "auto" else ""
    if path.suffix == PTO_SUFFIX:
        raise _FILE.error(
            f"{path} is a PTO text, which has tile operations and no bundles",
            got=PTO_SUFFIX,
            allowed=".bin, .json, " + ", ".join(TEXT_SUFFIXES),
            place=Place(file=str(path)),
            cures=["check it by lanefold check, price it by lanefold cost, run it by lanefold sim"],
        )
    return _decoded(_read(path), generation, opcodes)


def _digits(source: str) -> bytes:
    """The bytes that hexadecimal digits stand for: one bundle, or several one after the other."""
    digits = "".join(source.split())
    missing = -len(digits) % _BUNDLE_DIGITS or (0 if digits else _BUNDLE_DIGITS)
    if missing:
        raise _FILE.error(
            f"{len(digits)} hexadecimal digits are no whole number of bundles, and no file has this name",
            got=f"{len(digits)} digits",
            allowed=f"{_BUNDLE_DIGITS} digits for each bundle, or the name of a file",
            place=Place(file=source if len(source) <= _BUNDLE_DIGITS else f"{source[:16]}…"),
            cures=[f"give {missing} more digit{'s' * (missing != 1)}", "check the name of the file"],
        )
    return bytes.fromhex(digits)


def _reading(opcodes: str | None) -> str:
    """The reading to encode in; bytes that are still to be made speak for none, so ``auto`` is the default one."""
    return READINGS[0] if opcodes in (None, "auto") else opcodes


def _decoded(data: bytes, generation: str | None, opcodes: str | None) -> tuple[Stream, str]:
    stream = decode(data, generation or GENERATIONS[0], opcodes or READINGS[0])
    return stream, str(detect_reading(stream.words, stream.generation)) if opcodes == "auto" else ""


def split_index(source: str) -> tuple[str, int]:
    """``FILE:INDEX`` taken apart; the index is 0 where none is given."""
    name, colon, index = source.rpartition(":")
    if not colon or not index.isascii() or not index.isdigit():
        return source, 0
    return name, int(index) if len(index) <= _MOST_INDEX_DIGITS else 10**_MOST_INDEX_DIGITS


def one_bundle(stream: Stream, index: int, source: str) -> Bundle:
    """One bundle of a stream.

    Raises:
        LanefoldError: if the stream has none of that index.
    """
    if index >= len(stream):
        raise _INDEX.error(
            f"{source} has {len(stream)} bundle{'s' * (len(stream) != 1)}, none of index {index}",
            got=index,
            allowed=f"0 to {len(stream) - 1}" if len(stream) else "no index, the stream is empty",
            place=Place(file=source),
            cures=[f"write {source}:0" if len(stream) else "give a stream with bundles"],
        )
    return stream[index]


def check_file(
    path: Path,
    generation: str | None,
    opcodes: str | None,
    target: str = "",
    parameters: Mapping[str, int] | None = None,
) -> tuple[list[Diagnostic], dict[str, Any]]:
    """Findings of every rule on a file or saved program, and what was checked: instructions, bundles, readings.

    Args:
        path: BIR program, stream or its text, PTO text, or folder of a saved program.
        generation: of bundles; what the file says where left out.
        opcodes: opcode reading of bundles; what the file says where left out.
        target: of a PTO text, ``cpu`` where left out.
        parameters: values of the index parameters of a PTO text.

    Raises:
        LanefoldError: if the file cannot be read, or an argument does not go with its kind.
    """
    if is_folder(path) or path.suffix == PTO_SUFFIX:
        return _check_target(path, generation, opcodes, target, parameters)
    generation = chosen_generation(path, generation, target, parameters)
    if path.suffix == ".json":
        module = read_module(path)
        known, reading = module.generation(generation), _reading(opcodes)
        listed = module.instructions()
        found = check(module, known, reading)
        told: dict[str, Any] = {"instructions": len(listed), "bundles": _bundles(listed, known, reading)}
        return found, told | {"generation": known, "opcodes": reading}
    stream, note = read_stream(str(path), generation, opcodes)
    told = {"bundles": len(stream), "generation": stream.generation, "opcodes": stream.opcodes}
    return check(stream), told | ({"reading": note} if note else {})


def chosen_generation(
    path: Path, generation: str | None, target: str, parameters: Mapping[str, int] | None
) -> str | None:
    """The generation that is asked for by its own name or by that of a target, None where none is.

    Raises:
        LanefoldError: for a target without bundles, two generations, or index parameters, which bundles do not have.
    """
    from lanefold.targets import TARGETS
    from lanefold.targets import target as find_target

    if parameters:
        raise _unfit(path, "has no index parameters", "--parameter", "--parameter with a PTO text (.pto)")
    if not target:
        return generation
    row = TARGETS[find_target(target).name]
    if row.instruction_set != "TPB" or generation not in (None, row.generation):
        got = f"target {target}" + (f" and generation {generation}" if generation else "")
        raise _unfit(path, f"has bundles, which are not for {got}", "--target", "trn1, trn2 or trn3")
    return row.generation


def _check_target(
    path: Path, generation: str | None, opcodes: str | None, target: str, parameters: Mapping[str, int] | None
) -> tuple[list[Diagnostic], dict[str, Any]]:
    """Findings on a saved program or on a PTO text, whose target says what is legal."""
    saved = is_folder(path)
    given: dict[str, object] = {"--generation": generation, "--opcodes": opcodes}
    if saved:
        given |= {"--target": target, "--parameter": parameters}
    for option in (name for name, value in given.items() if value):
        if saved:
            raise _unfit(path, "is a saved program, which knows its target and readings", option, "no option")
        raise _unfit(path, "is a PTO text, which has tile operations and no bundles", option, "--target, --parameter")
    if saved:
        from lanefold.targets import load

        program = load(path)
        size = {"bundles" if program.ledger.bytes else "instructions": program.ledger.bundles}
        return program.check(), size | {"target": program.target.name}
    text = tile_program(path, parameters or {})
    chosen = target or "cpu"
    return text.check(chosen, parameters), {"instructions": len(text.instructions), "target": chosen}


def run_tiles(
    path: Path,
    arrays: Mapping[str, Any] | None,
    target: str,
    numerics: str,
    parameters: Mapping[str, int],
    unfit: Mapping[str, object],
) -> Run:
    """Runs a PTO text on named arrays.

    Args:
        path: the text.
        arrays: values of its arrays by name; None where none are given.
        target: whose rules hold, ``cpu`` where left out.
        numerics: reading of the numerics, ``cpu`` where left out.
        parameters: values of its index parameters.
        unfit: options of bundles alone by name, with what was given for each.

    Raises:
        LanefoldError: if the file cannot be read, an option of bundles is given, or the program does not run.
    """
    for option in (name for name, value in unfit.items() if value):
        allowed = "--memory, --output, --numerics, --target and --parameter"
        raise _unfit(path, "is a PTO text, which has tile operations and no bundles", option, allowed)
    text = tile_program(path, parameters)
    if arrays is None and text.inputs:
        names = ", ".join(text.inputs)
        raise _MEMORY.error(
            f"{path} reads {names}, and no arrays are given",
            got="nothing",
            allowed=f"arrays named {names}",
            place=Place(file=str(path)),
            cures=["give --memory X.npz, written by numpy.savez('X.npz', " + f"{text.inputs[0]}=array)"],
        )
    return text.run(arrays or {}, target=target or "cpu", numerics=numerics or "cpu", parameters=parameters, count=True)


def tile_program(path: Path, parameters: Mapping[str, int]) -> TileProgram:
    """The program of a PTO text whose index parameters get these values.

    Raises:
        LanefoldError: if it cannot be read, or has no parameter of a name.
    """
    from lanefold.pto import parse

    text = parse(read_text(path))
    for name in parameters:
        if name not in text.parameters:
            known = ", ".join(text.parameters)
            raise _PARAMETER.error(
                f"{path} has no index parameter {name!r}",
                got=name,
                allowed=known or "no parameter, the text has none",
                place=Place(file=str(path)),
                cures=[f"write --parameter {text.parameters[0]}=8" if known else "leave --parameter out"],
            )
    return text


def _unfit(path: Path, what: str, option: str, allowed: str) -> LanefoldError:
    return _CHECK.error(
        f"{path} {what}", got=option, allowed=allowed, place=Place(file=str(path)), cures=[f"leave {option} out"]
    )


def _bundles(listed: list[Instruction], generation: str, opcodes: str) -> int:
    """How many bundles instructions have; those that a rule keeps from having any count none."""
    made: dict[int, int] = {}
    for instruction in listed:
        if id(instruction) not in made:
            try:
                made[id(instruction)] = len(encode(instruction, generation, opcodes))
            except LanefoldError:
                made[id(instruction)] = 0
    return sum(made[id(instruction)] for instruction in listed)


def machine_streams(path: Path, generation: str | None, opcodes: str | None) -> dict[str, Stream]:
    """The streams a machine is to run: one of a file, or one per engine of a BIR program.

    Raises:
        LanefoldError: if the file cannot be read or holds nothing to run.
    """
    if path.suffix == ".json":
        streams = read_module(path).streams(generation, _reading(opcodes))
        if streams:
            return {Path(name).stem: stream for name, stream in streams.items()}
        raise _FILE.error(
            f"{path} has no instruction of the leg",
            got="0 instructions",
            allowed="at least one",
            place=Place(file=str(path)),
            cures=["give a program with pooling or reduction instructions"],
        )
    return {"": read_stream(str(path), generation, opcodes)[0]}


def load_memory(machine: Machine, arrays: dict[str, Any], source: str) -> None:
    """Copies arrays into a machine's memories, from byte 0 of every partition on.

    Raises:
        LanefoldError: if a name is unknown or an array does not fit.
    """
    for name, value in arrays.items():
        memory = {"sbuf": machine.sbuf, "psum": machine.psum}.get(name)
        given = np.ascontiguousarray(value)
        fits = memory is not None and given.ndim == 2 and given.shape[0] <= len(memory) and _is_plain(given.dtype)
        given = given.astype(given.dtype.newbyteorder("<"), copy=False)  # the byte order of the machine
        data = given.view(np.uint8) if fits else given
        if memory is None or not fits or data.shape[1] > memory.shape[1]:
            raise _MEMORY.error(
                f"array {name!r} is {given.dtype} {list(given.shape)}",
                got=f"{name}: {given.dtype} {list(given.shape)}",
                allowed=f"numbers; sbuf: up to 128 × {machine.sbuf.shape[1]} bytes; "
                f"psum: up to 128 × {machine.psum.shape[1]}",
                place=Place(file=source, operand=name),
                cures=["save the arrays as uint8 of shape (128, bytes per partition)"],
            )
        memory[: data.shape[0], : data.shape[1]] = data
        machine.mark_written("SB" if name == "sbuf" else "PSUM", 0, data.shape[0], 0, data.shape[1])


def _is_plain(dtype: np.dtype[Any]) -> bool:
    """Whether elements are numbers of 1 to 8 bytes; those of types that .npz has no name for come as bare bytes."""
    return dtype.itemsize <= 8 and (dtype.kind in "biuf" or (dtype.kind == "V" and dtype.names is None))
