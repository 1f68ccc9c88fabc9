"""Streams of bundles: bytes as columns, one bundle as named values."""

from __future__ import annotations

import difflib
import operator
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import numpy.typing as npt

from lanefold.arguments import shown
from lanefold.diagnostics import Cure, LanefoldError, Rule, number_of
from lanefold.tpb import isa
from lanefold.tpb.binary import layout
from lanefold.tpb.patterns import locate

if TYPE_CHECKING:
    from lanefold.tpb.instruction import Instruction

_LENGTH = Rule(
    "TPB-STREAM-LENGTH",
    "A stream is a sequence of whole 64-byte bundles, without header or trailer.",
    "Per-engine .bin emission",
    usage=True,
)
_BUFFER = Rule(
    "TPB-STREAM-BUFFER", "A stream is read from bytes, a buffer of bytes, or hexadecimal digits.", "Streams", usage=True
)

STREAM = Rule(
    "TPB-STREAM-INPUT",
    "What is written as text or executed is a stream, as encode, assemble and decode return it.",
    "Streams",
    usage=True,
)
_INDEX = Rule(
    "TPB-STREAM-INDEX",
    "A stream is indexed by one whole number inside it, counted from 0 or backwards from -1, or by a slice.",
    "Streams",
    usage=True,
)
_STRUCT = Rule("TPB-STRUCT", "A wire struct is named as in the struct tables.", "Wire struct tables", usage=True)
_FIELD = Rule(
    "TPB-BUNDLE-FIELD", "A bundle is indexed by the name of a field of its struct.", "Wire struct tables", usage=True
)

Bytes = npt.NDArray[np.uint8]


class Bundle:
    """One bundle of a stream: 64 bytes with the names that a reading gives them.

    Indexing by a field name gives its value; descriptors come as dictionaries.
    """

    __slots__ = ("generation", "kind", "reading", "word")

    def __init__(self, word: Bytes, kind: int, generation: isa.Generation, reading: isa.Reading) -> None:
        self.word = word
        self.kind = kind
        self.generation = generation
        self.reading = reading

    @property
    def row(self) -> isa.BundleKind | None:
        """The instruction's row in the table, ``None`` where the reading does not know the opcode."""
        return None if self.kind == layout.UNKNOWN else isa.BUNDLES[self.kind]

    @property
    def opcode(self) -> int:
        """Byte 0."""
        return int(self.word[0])

    @property
    def mnemonic(self) -> str:
        """The vendor's name of the instruction, or ``"Unknown"``."""
        return self.row.mnemonic if self.row else "Unknown"

    @property
    def record(self) -> np.void:
        """The bundle as a NumPy record of its struct; the common head only where the opcode is unknown."""
        struct = self.row.struct if self.row else isa.BUNDLES[0].struct
        return self.word.view(layout.record(struct))[0]  # type: ignore[no-any-return]

    def __getitem__(self, name: str) -> Any:
        values = self.to_dict()
        if isinstance(name, str) and name in values:
            return values[name]
        near = difflib.get_close_matches(name, values, 1) if isinstance(name, str) else []
        raise _FIELD.error(
            f"{self.mnemonic} has no field {shown(name)}",
            got=shown(name),
            allowed=", ".join(values),
            cures=[f"write {near[0] if near else next(iter(values))!r}"],
        )

    def tobytes(self) -> bytes:
        """The 64 bytes."""
        return self.word.tobytes()

    def to_dict(self) -> dict[str, Any]:
        """Every field by name, reserved bytes as one list, plus instruction, struct and opcode_map."""
        record = self.record
        row = self.row
        fields = isa.STRUCTS[row.struct].fields if row else isa.COMMON
        values: dict[str, Any] = {
            "instruction": row.name if row else "unknown",
            "struct": row.struct if row else "",
            "opcode_map": self.reading,
        }
        reserved: list[int] = []
        for field in fields:
            value = record[field.name]
            if field.kind is isa.Kind.RESERVED:
                reserved += [int(byte) for byte in value]
            elif field.kind in (isa.Kind.TENSOR2D, isa.Kind.TENSOR4D, isa.Kind.MEMORY4D):
                values[field.name] = describe_descriptor(value, field.kind, self.generation)
            else:
                values[field.name] = value.tolist()
        values["reserved"] = reserved
        return values

    def __repr__(self) -> str:
        return f"<Bundle {self.mnemonic} 0x{self.opcode:02X} ({self.reading}) {self.tobytes().hex()}>"


def describe_descriptor(value: np.void, kind: isa.Kind, generation: isa.Generation) -> dict[str, Any]:
    """A descriptor as plain data: how its address is given, where it points, and its steps and nums.

    ``address`` is ``immediate``, ``register``, ``indirect`` or ``shape_register``. Source: ADDR4, marker bits.
    """
    word = int(value["start_addr"])
    plain: dict[str, Any] = {"start_addr": word}
    if word & isa.INDIRECT_BIT and kind is isa.Kind.MEMORY4D and layout.indirect_exists(generation):
        record = np.frombuffer(value.tobytes(), layout.INDIRECT20B)[0]
        return plain | {
            "address": "indirect",
            "index": _where(int(record["index_addr"]), generation),
            "data": _where(int(record["data_addr"]), generation),
            "num_elem": int(record["num_elem"]),
        }
    if word & isa.ADDRESS_REGISTER_BIT:
        plain |= {"address": "register", "register": word & 0xFF}
    else:
        plain |= {"address": "immediate", **locate(word, generation)._asdict()}
    if word & isa.SHAPE_REGISTER_BIT:
        plain["address"] = "shape_register"
    return plain | {"step_elem": value["step_elem"].tolist(), "num_elem": value["num_elem"].tolist()}


def _where(word: int, generation: isa.Generation) -> dict[str, Any]:
    """The register or the place that an address word of an indirect record means."""
    if word & isa.ADDRESS_REGISTER_BIT:
        return {"register": word & 0xFF}
    return locate(word, generation)._asdict()


class Stream:
    """Consecutive bundles of one engine, held as their bytes.

    Args:
        words: uint8 array of shape (bundles, 64), C-contiguous.
        generation: ``"v2"``, ``"v3"`` or ``"v4"``.
        opcodes: opcode reading of byte 0.
        instructions: the typed instructions the bundles were made from, where known.
        origin: for every bundle the index of its instruction.
        engine: BIR engine the stream belongs to, ``""`` where unknown.

    Raises:
        LanefoldError: if the words are no such array, or a generation or reading is unknown.
    """

    def __init__(
        self,
        words: Bytes,
        generation: isa.Generation,
        opcodes: isa.Reading,
        *,
        instructions: Sequence[Instruction] = (),
        origin: npt.NDArray[np.int64] | None = None,
        engine: str = "",
    ) -> None:
        self.words = rows(words)
        self.generation: isa.Generation = layout.check_generation(generation)
        self.opcodes: isa.Reading = layout.check_reading(opcodes)
        self.instructions = tuple(instructions)
        self.origin = origin
        self.engine = engine

    @cached_property
    def kinds(self) -> npt.NDArray[np.int8]:
        """For every bundle the number of its row in the instruction table; -1 where the opcode is unknown."""
        return layout.kinds_by_opcode(self.generation, self.opcodes)[self.words[:, 0]]

    def __len__(self) -> int:
        return len(self.words)

    def __iter__(self) -> Iterator[Bundle]:
        for index in range(len(self)):
            yield self[index]

    @overload
    def __getitem__(self, index: int) -> Bundle: ...
    @overload
    def __getitem__(self, index: slice) -> Stream: ...
    def __getitem__(self, index: int | slice) -> Bundle | Stream:
        index = self._checked(index)
        if isinstance(index, slice):
            origin = None if self.origin is None else self.origin[index]
            return Stream(
                self.words[index],
                self.generation,
                self.opcodes,
                instructions=self.instructions,
                origin=origin,
                engine=self.engine,
            )
        return Bundle(self.words[index], int(self.kinds[index]), self.generation, self.opcodes)

    def _checked(self, index: int | slice) -> int | slice:
        """The index itself, if the stream has it."""
        try:
            if isinstance(index, slice):
                index.indices(len(self))
                return index
            number = operator.index(index)
        except (TypeError, ValueError):
            number = len(self)
        if -len(self) <= number < len(self):
            return number
        last = len(self) - 1
        raise _INDEX.error(
            f"the stream of {len(self)} bundle{'s' * (len(self) != 1)} has none at {shown(index)}",
            got=shown(index),
            allowed=_indices(last),
            cures=["write stream[0]" if len(self) else "write stream[:]"],
        )

    def columns(self, struct: str) -> npt.NDArray[np.void]:
        """The whole stream seen as one wire struct, without a copy; only bundles of that struct mean what it says.

        Raises:
            LanefoldError: if there is no such struct.
        """
        if not isinstance(struct, str) or struct not in isa.STRUCTS:
            raise _no_struct(struct)
        return self.words.view(layout.record(struct))[:, 0]

    def where(self, name: str) -> npt.NDArray[np.int64]:
        """Indices of the bundles that a name stands for (instruction, mnemonic, family or struct).

        Raises:
            LanefoldError: if nothing has that name.
        """
        numbers = layout.kind_numbers(name)
        mask = self.kinds == numbers[0]
        for number in numbers[1:]:
            mask |= self.kinds == number
        return np.flatnonzero(mask)

    def fields(self, name: str) -> npt.NDArray[np.void]:
        """The bundles that a name stands for, as a structured array with one column per field.

        Raises:
            LanefoldError: if nothing has that name.
        """
        struct = isa.BUNDLES[layout.kind_numbers(name)[0]].struct
        indices = self.where(name)
        columns = self.columns(struct)
        return columns if len(indices) == len(self) else columns[indices]

    def census(self) -> dict[str, int]:
        """How many bundles each instruction has, by mnemonic, in table order; unknown words under ``"Unknown"``."""
        numbers, counts = np.unique(self.kinds, return_counts=True)
        names = ("Unknown" if n == layout.UNKNOWN else isa.BUNDLES[n].mnemonic for n in numbers)
        return dict(zip(names, (int(count) for count in counts), strict=True))

    def tobytes(self) -> bytes:
        """The stream as it stands in a ``.bin`` file."""
        return self.words.tobytes()

    def __eq__(self, other: object) -> bool:
        """Streams are equal that have the same bytes, generation and opcode reading."""
        if not isinstance(other, Stream):
            return NotImplemented
        alike = (self.generation, self.opcodes) == (other.generation, other.opcodes)
        return alike and np.array_equal(self.words, other.words)

    # A stream can be a view of a buffer that changes.
    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<Stream of {number_of(len(self), 'bundle')}, {self.generation}, opcodes {self.opcodes}>"


def decode(
    buffer: bytes | bytearray | memoryview | str | Bytes, generation: str = "v2", opcodes: str = "reference"
) -> Stream:
    """Reads bundles from bytes (or hexadecimal digits) without losing one: ``decode(x).tobytes() == x``.

    ``opcodes="auto"`` finds the reading that the bytes follow, see `detect_reading`. Bytes are not copied.

    Raises:
        LanefoldError: if the length is not a multiple of 64 or an argument is unknown.
    """
    known = layout.check_generation(generation)
    words = _words(buffer)
    if isinstance(opcodes, str) and opcodes == "auto":
        from lanefold.tpb.binary.reading import detect_reading

        return Stream(words, known, detect_reading(words, known).reading)
    return Stream(words, known, layout.check_reading(opcodes))


def _indices(last: int) -> str:
    """The indices of a stream whose last bundle is at ``last``, in words."""
    if last < 0:
        return "a slice; the stream is empty"
    return f"0 to {last}, -{last + 1} to -1, or a slice" if last else "0, -1, or a slice"


def as_stream(given: object) -> Stream:
    """The stream itself.

    Raises:
        LanefoldError: ``TPB-STREAM-INPUT`` if it is none.
    """
    if isinstance(given, Stream):
        return given
    raise STREAM.error(
        f"{shown(given)} is no stream",
        got=shown(given),
        allowed="a Stream",
        cures=["read bytes and hexadecimal digits with decode, text with assemble; encode instructions and modules"],
    )


def _no_struct(struct: object) -> LanefoldError:
    near = difflib.get_close_matches(struct.upper(), isa.STRUCTS, 1, 0.0) if isinstance(struct, str) else []
    return _STRUCT.error(
        f"there is no wire struct {shown(struct)}",
        got=shown(struct),
        allowed=", ".join(isa.STRUCTS),
        cures=[f"write {near[0] if near else next(iter(isa.STRUCTS))!r}"],
    )


def rows(words: Bytes) -> Bytes:
    """The array itself, if it holds bundles as rows."""
    size = isa.BUNDLE_BYTES
    if isinstance(words, np.ndarray) and words.dtype == np.uint8 and words.ndim == 2 and words.shape[1] == size:
        return words
    raise _BUFFER.error(
        f"{shown(words)} is no array of bundles",
        got=f"{words.dtype} {list(words.shape)}" if isinstance(words, np.ndarray) else shown(words),
        allowed=f"a uint8 array of shape (bundles, {size})",
        cures=["read bytes with decode(data)"],
    )


def _words(buffer: bytes | bytearray | memoryview | str | Bytes) -> Bytes:
    if isinstance(buffer, str):
        try:
            buffer = bytes.fromhex(buffer)
        except ValueError:
            raise _BUFFER.error(
                "the text is not hexadecimal",
                got=buffer[:40],
                allowed="an even number of the digits 0-9 a-f, blanks between bytes",
                cures=["give 128 hexadecimal digits per bundle"],
            ) from None
    try:
        # Elements wider than a byte are refused: their order of bytes would be a guess.
        if memoryview(buffer).itemsize != 1:  # type: ignore[arg-type]
            raise TypeError
        flat = np.frombuffer(buffer, np.uint8) if len(buffer) else np.zeros(0, np.uint8)
    except (TypeError, ValueError, BufferError):
        raise _BUFFER.error(
            f"{shown(buffer)} is not a contiguous buffer of bytes",
            got=f"{buffer.dtype} array" if isinstance(buffer, np.ndarray) else shown(buffer),
            allowed="bytes, bytearray, memoryview, contiguous uint8 array, hexadecimal text",
            cures=[
                "pass the content of the .bin file as bytes",
                "pass array.view(numpy.uint8), if its bytes are meant",
            ],
        ) from None
    size = isa.BUNDLE_BYTES
    if len(flat) % size:
        over = len(flat) % size
        whole = len(flat) - over
        raise _LENGTH.error(
            f"{len(flat)} bytes are not a whole number of bundles",
            got=f"{len(flat)} bytes",
            allowed=f"a multiple of {size}",
            cures=[Cure(f"drop the last {over} byte{'s' * (over != 1)}, {whole} remain", {"length": whole})],
        )
    return flat.reshape(-1, size)
