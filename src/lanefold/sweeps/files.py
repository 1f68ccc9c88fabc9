"""The table of a sweep in a file: CSV always, Parquet where pyarrow is installed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from lanefold.diagnostics import Place, Rule
from lanefold.program.files import replacing
from lanefold.sweeps.axes import Shapes
from lanefold.sweeps.store import OUTPUT, check_writable
from lanefold.sweeps.table import Part, SweepTable

EXTRA = Rule(
    "SWEEP-EXTRA",
    "Parquet files and sweeps over many workers need the extra packages of lanefold[scale], plots those of "
    "lanefold[plot].",
    "Sweeps",
    usage=True,
)
_BLOCK = 1 << 15
"""Rows that become text at a time."""


def missing_extra(what: str, package: str, extra: str = "scale") -> Exception:
    """The error of a package that is not installed."""
    return EXTRA.error(
        f"{what} need the package {package}, which is not installed",
        got=f"no {package}",
        allowed=f"{package} installed beside lanefold",
        cures=[f"python -m pip install 'lanefold[{extra}]'"],
    )


def writer_of(path: Path) -> Callable[[SweepTable, Path], None]:
    """The function that writes a file of this name.

    Raises:
        LanefoldError: SWEEP-OUTPUT for another ending than .csv and .parquet or a place that cannot be written,
            SWEEP-EXTRA where pyarrow is missing.
    """
    if path.suffix == ".csv":
        check_writable(path)
        return write_csv
    if path.suffix == ".parquet":
        check_writable(path)
        if find_spec("pyarrow") is None:
            raise missing_extra("Parquet files", "pyarrow")
        return write_parquet
    raise OUTPUT.error(
        f"{path} ends in {path.suffix!r}" if path.suffix else f"{path} has no ending",
        got=str(path),
        allowed="a name that ends in .csv or .parquet",
        cures=[f"write to {path.with_suffix('.csv') if path.name else 'sweep.csv'}"],
        place=Place(file=str(path)),
    )


def _plain(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, float) else str(value)


def _quoted(value: object) -> str:
    word = _plain(value)
    return f'"{word.replace(chr(34), chr(34) * 2)}"' if any(sign in word for sign in ',"\n') else word


_CODED = ("legal", "rule", "validity", "bound")
_VARYING = (*Shapes.NAMES, *_CODED, "cycles", "cycles_low", "cycles_high", "ns", "cycles_per_element")
"""Columns that differ from row to row of a chunk."""


def _texts(part: Part, name: str, span: slice) -> list[str]:
    values = part.column(name)[span].tolist()
    if name in Shapes.NAMES:
        return [str(value) for value in values]
    if name in _CODED:
        words = {value: _quoted(value) for value in set(values)}
        return [words[value] for value in values]
    return ["" if value != value else repr(value) for value in values]


def _lines(table: SweepTable, part: Part) -> Iterable[str]:
    """The rows of a part as text, a block at a time."""
    names = [name for name in table.columns if name in _VARYING]
    pieces = [
        "{}" if name in _VARYING else _quoted(part.constant(name)).replace("{", "{{").replace("}", "}}")
        for name in table.columns
    ]
    row = (",".join(pieces) + "\n").format
    for start in range(0, len(part), _BLOCK):
        span = slice(start, start + _BLOCK)
        columns = [_texts(part, name, span) for name in names]
        yield "".join(map(row, *columns))


def write_csv(table: SweepTable, path: Path) -> None:
    """Writes the table as CSV: a head line, numbers with all their digits, unknown numbers empty.

    Raises:
        LanefoldError: SWEEP-OUTPUT if the file cannot be written.
    """
    with replacing(path, OUTPUT) as place, place.open("w", encoding="utf-8", newline="\n") as file:
        file.write(",".join(table.columns) + "\n")
        for part in table.parts():
            file.writelines(_lines(table, part))


def write_parquet(table: SweepTable, path: Path) -> None:
    """Writes the table as Parquet: texts as dictionaries, unknown numbers null.

    Raises:
        LanefoldError: SWEEP-OUTPUT if the file cannot be written.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = {name: _kind(pa, name) for name in table.columns}
    schema = pa.schema(list(kinds.items()))
    with replacing(path, OUTPUT) as place, pq.ParquetWriter(place, schema) as writer:
        for part in table.parts():
            arrays = [_arrow(pa, part, name, kind) for name, kind in kinds.items()]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))


_NUMBERS = ("cycles", "cycles_low", "cycles_high", "clock_ghz", "ns", "cycles_per_element")


def _kind(pa: Any, name: str) -> Any:
    if name in Shapes.NAMES:
        return pa.uint16()
    if name in _NUMBERS:
        return pa.float64()
    return pa.bool_() if name == "legal" else pa.dictionary(pa.int32(), pa.string())


def _arrow(pa: Any, part: Part, name: str, kind: Any) -> Any:
    values = part.column(name)
    if name in _NUMBERS:
        return pa.array(values, kind, mask=np.isnan(values))
    if name in Shapes.NAMES or name == "legal":
        return pa.array(values, kind)
    words, codes = np.unique(values, return_inverse=True)
    return pa.DictionaryArray.from_arrays(
        pa.array(codes, pa.int32()), pa.array([_plain(word) for word in words.tolist()])
    )
