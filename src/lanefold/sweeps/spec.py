"""What a sweep is asked for: a TOML file or a mapping, read into checked values."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from lanefold.arguments import path as path_argument
from lanefold.arguments import shown
from lanefold.diagnostics import Cure, LanefoldError, Place, Rule
from lanefold.pto.cost.request import GREATEST_MHZ
from lanefold.sweeps.axes import Axis, Shapes, read_shapes

_SOURCE = "Sweep files"


def _rule(code: str, text: str) -> Rule:
    return Rule(code, text, _SOURCE, usage=True)


READ = _rule("SWEEP-READ", "A sweep is a TOML file, or a mapping with the same keys.")
KEY = _rule("SWEEP-KEY", "A sweep has the keys that the page on sweeps lists, and no others.")
MISSING = _rule("SWEEP-MISSING", "A sweep names its operations, element types, targets and shapes.")
VALUE = _rule("SWEEP-VALUE", "A key of a sweep holds the kind of value that the page on sweeps lists for it.")
SIZE = _rule("SWEEP-SIZE", "A sweep has at most as many configurations as its limit.")

OBJECTIVES = ("cycles", "ns", "cycles_per_element")
"""What can be made least."""
LIMIT = 20_000_000
"""Configurations of a sweep that sets no limit of its own."""
CHUNK = 1 << 17
"""Configurations that are evaluated, kept and sent to a worker at a time."""

TOP = ("ops", "dtypes", "targets", "models", "objective", "frequency_mhz", "limit", "chunk")
FLAGS = ("skip_unknown", "keep_unknown")
TABLES = ("shapes", "layouts", "options")

_WORDS: Mapping[str, tuple[str, ...]] = {
    "layouts.dst": ("ND", "DN"),
    "layouts.src": ("ND", "DN"),
    "layouts.src1": ("ND", "DN", "ND32B"),
}
_SETTINGS: Mapping[str, type] = {
    "options.form": str,
    "options.idx_bytes": int,
    "options.static_shape": bool,
    "options.operator": str,
    "options.axis": str,
    "options.transpose": bool,
    "options.step": int,
    "options.indices": int,
}
_FEW_KEYS, _SHORT = 4, 80
_KINDS = {str: "a text", int: "a whole number", bool: "true or false"}
SETTINGS = (*_WORDS, *_SETTINGS)
"""Keys of the tables ``layouts`` and ``options``; each holds a value or a list of values."""


class Lines:
    """Where the keys of a TOML text stand."""

    def __init__(self, text: str, file: str = "") -> None:
        self.file = file
        self.found: dict[str, int] = {}
        table = ""
        for number, line in enumerate(text.splitlines(), 1):
            head = re.match(r"\s*\[+\s*([\w.\-]+)\s*\]", line)
            key = re.match(r"""\s*["']?([\w.\-]+)["']?\s*=""", line)
            if head:
                table = f"{head[1]}."
                self.found.setdefault(head[1], number)
            elif key:
                self.found.setdefault(table + key[1], number)

    def place(self, key: str) -> Place:
        """The place of a key; of its table where the key itself has no line."""
        line = self.found.get(key) or self.found.get(key.rpartition(".")[0])
        return Place(file=self.file, field=key, line=line)


@dataclass(frozen=True)
class Spec:
    """A checked sweep; names of operations, types, targets and models are checked where their instruction set is known.

    Args:
        ops: operations as written.
        dtypes: element types as written.
        targets: targets as written.
        models: cost models as written; empty for the default one of each instruction set.
        shapes: the shapes.
        settings: values of each layout or option that is given, by ``layouts.…`` or ``options.…``.
        objective: what to make least, or empty.
        frequency_mhz: clock of PTO targets, 0 for the published one.
        limit: most configurations.
        chunk: configurations evaluated at a time.
        skip_unknown: leave out, and count, the rows whose cost is unknown.
        keep_unknown: keep the number of a model of which no error is known, instead of leaving it empty.
        lines: where the keys stand.
    """

    ops: tuple[str, ...]
    dtypes: tuple[str, ...]
    targets: tuple[str, ...]
    models: tuple[str, ...]
    shapes: Shapes
    settings: Mapping[str, tuple[object, ...]]
    objective: str = ""
    frequency_mhz: float = 0.0
    limit: int = LIMIT
    chunk: int = CHUNK
    skip_unknown: bool = False
    keep_unknown: bool = False
    lines: Lines = field(default_factory=lambda: Lines(""), compare=False)

    def place(self, key: str) -> Place:
        """Where a key stands."""
        return self.lines.place(key)


def read_spec(source: str | Path | Mapping[str, Any], **changes: object) -> Spec:
    """The sweep of a TOML file or of a mapping; ``changes`` that are neither empty nor None replace keys of it.

    Raises:
        LanefoldError: SWEEP-… with the key, and the line where there is one.
    """
    changed = {key: value for key, value in changes.items() if not (value is None or _is_empty(value))}
    if isinstance(source, Mapping):
        return _spec({**source, **changed}, Lines(""))
    path = path_argument("sweep", "spec", source, "sweep.toml")
    try:
        text = path.read_text(encoding="utf-8").removeprefix("\ufeff")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no UTF-8 text"
        raise READ.error(
            f"{path} cannot be read: {reason}",
            got=str(path),
            allowed="a TOML file",
            cures=["give the path of a sweep file"],
            place=Place(file=str(path)),
        ) from None
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        where = re.search(r"line (\d+), column (\d+)", str(error))
        line, column = (int(where[1]), int(where[2])) if where else (len(text.splitlines()), 1)
        raise READ.error(
            f"{path} is no TOML: {error}",
            got=_line(text, line),
            allowed='keys such as ops = ["TROWSUM"]',
            cures=["correct this line; texts stand in quotes, lists in brackets"],
            place=Place(file=str(path), line=line, column=column),
        ) from None
    return _spec({**data, **changed}, Lines(text, str(path)))


def _is_empty(value: object) -> bool:
    return isinstance(value, str) and not value


def _line(text: str, number: int) -> str:
    lines = text.splitlines()
    return (lines[number - 1].strip() if 0 < number <= len(lines) else "") or "the end of the file"


def _spec(data: Mapping[str, Any], lines: Lines) -> Spec:
    _check_keys(data, lines)
    _check_missing(data, lines)
    value = _Reader(data, lines)
    spec = Spec(
        ops=value.texts("ops"),
        dtypes=value.texts("dtypes"),
        targets=value.texts("targets"),
        models=value.texts("models") if "models" in data else (),
        shapes=read_shapes(data["shapes"], _shape_error(lines)),
        settings=value.settings(),
        objective=value.word("objective", OBJECTIVES),
        frequency_mhz=value.number("frequency_mhz"),
        limit=value.whole("limit", LIMIT),
        chunk=value.whole("chunk", CHUNK),
        skip_unknown=value.flag("skip_unknown"),
        keep_unknown=value.flag("keep_unknown"),
        lines=lines,
    )
    _check_product(spec)
    return spec


def _check_keys(data: Mapping[str, Any], lines: Lines) -> None:
    known = {"": (*TOP, *FLAGS, *TABLES), "shapes.": Shapes.KEYS}
    for key in SETTINGS:
        table, _, name = key.partition(".")
        known[f"{table}."] = (*known.get(f"{table}.", ()), name)
    found = []
    for table, names in known.items():
        part = data.get(table.rstrip("."), {}) if table else data
        if not isinstance(part, Mapping):
            raise bad_value(table.rstrip("."), part, "a table", _example(table.rstrip(".")), lines)
        for name in part:
            if name not in names:
                near = get_close_matches(str(name), names, n=1, cutoff=0.5)
                cure = Cure(f"write {near[0]}", {"key": table + near[0]}) if near else Cure(f"leave {name} out")
                found.append(
                    KEY.finding(
                        f"a sweep has no key {table + str(name)!r}",
                        got=table + str(name),
                        allowed=", ".join(table + each for each in names),
                        cures=[cure],
                        place=lines.place(table + str(name)),
                    )
                )
    if found:
        raise LanefoldError(found, usage=True)


_EXAMPLES = {
    "ops": 'ops = ["TROWSUM"]',
    "dtypes": 'dtypes = ["f32"]',
    "targets": 'targets = ["a2a3"]',
    "models": 'models = ["calibrated"]',
    "shapes": "[shapes] with rows = [16, 32] and cols = [64]",
    "layouts": '[layouts] with dst = ["ND"]',
    "options": "[options] with static_shape = [true]",
}


def _example(key: str) -> str:
    return _EXAMPLES[key]


def _check_missing(data: Mapping[str, Any], lines: Lines) -> None:
    found = [
        MISSING.finding(
            f"the sweep has no {key}",
            got="nothing",
            allowed=_EXAMPLES[key],
            cures=[f"add {_EXAMPLES[key]}"],
            place=Place(file=lines.file, field=key),
        )
        for key in ("ops", "dtypes", "targets", "shapes")
        if key not in data
    ]
    if found:
        raise LanefoldError(found, usage=True)


def bad_value(key: str, got: object, allowed: str, cure: str, lines: Lines) -> LanefoldError:
    """The error of a key whose value cannot be used."""
    return VALUE.error(
        f"{key} is {_written(got)}, not {allowed}",
        got=_written(got),
        allowed=allowed,
        cures=[f"write {cure}"],
        place=lines.place(key),
    )


def _shape_error(lines: Lines) -> Callable[[str, object, str, str], LanefoldError]:
    def error(key: str, got: object, allowed: str, cure: str) -> LanefoldError:
        return bad_value(f"shapes.{key}" if key else "shapes", got, allowed, cure, lines)

    return error


class _Reader:
    """Values of single keys, checked."""

    def __init__(self, data: Mapping[str, Any], lines: Lines) -> None:
        self.data, self.lines = data, lines

    def texts(self, key: str) -> tuple[str, ...]:
        value = self.data[key]
        items = [value] if isinstance(value, str) else value
        good = isinstance(items, Sequence) and items and all(isinstance(item, str) and item for item in items)
        if not good:
            raise bad_value(key, value, "a text or a list of texts", _EXAMPLES[key], self.lines)
        return tuple(dict.fromkeys(items))

    def settings(self) -> dict[str, tuple[object, ...]]:
        found: dict[str, tuple[object, ...]] = {}
        for key in SETTINGS:
            table, _, name = key.partition(".")
            if name in self.data.get(table, {}):
                found[key] = self._setting(key, self.data[table][name])
        return found

    def _setting(self, key: str, value: object) -> tuple[object, ...]:
        items = list(value) if isinstance(value, list | tuple) else [value]
        if key in _WORDS:
            allowed = _WORDS[key]
            if not items or any(not isinstance(item, str) or item not in allowed for item in items):
                raise bad_value(key, value, f"one or several of {', '.join(allowed)}", f'["{allowed[0]}"]', self.lines)
        else:
            kind = _SETTINGS[key]
            if not items or any(type(item) is not kind for item in items):
                allowed_text = f"{_KINDS[kind]} or a list of such"
                raise bad_value(key, value, allowed_text, "a list, or leave it out", self.lines)
        return tuple(dict.fromkeys(items))

    def word(self, key: str, allowed: Sequence[str]) -> str:
        value = self.data.get(key, "")
        if not isinstance(value, str) or (value and value not in allowed):
            raise bad_value(key, value, f"one of {', '.join(allowed)}", f'"{allowed[-1]}"', self.lines)
        return str(value)

    def number(self, key: str) -> float:
        value = self.data.get(key, 0.0)
        good = isinstance(value, int | float) and not isinstance(value, bool) and value <= GREATEST_MHZ
        if not good or value < 0 or (key in self.data and value == 0):
            raise bad_value(key, value, f"a number above 0, up to {GREATEST_MHZ:g}", "1850.0", self.lines)
        return float(value)

    def whole(self, key: str, default: int) -> int:
        value = self.data.get(key, default)
        if type(value) is not int or value < 1:
            raise bad_value(key, value, "a whole number from 1 on", str(default), self.lines)
        return value

    def flag(self, key: str) -> bool:
        value = self.data.get(key, False)
        if type(value) is not bool:
            raise bad_value(key, value, "true or false", "true", self.lines)
        return value


def _check_product(spec: Spec) -> None:
    """The shapes alone must stay below the limit before they are ever written out."""
    check_size(spec, spec.shapes.count)


def check_size(spec: Spec, count: int) -> None:
    """Whether so many configurations are within the limit.

    Raises:
        LanefoldError: SWEEP-SIZE if not.
    """
    if count <= spec.limit:
        return
    longest = spec.shapes.longest
    cures = [Cure(f"set limit = {count}", {"limit": count})]
    if longest:
        cures.append(Cure(f"thin out shapes.{longest}, which has {len(spec.shapes.axis(longest))} values"))
    raise SIZE.error(
        f"the sweep has {count:,} configurations, more than its limit of {spec.limit:,}",
        got=f"{count}",
        allowed=f"up to {spec.limit}",
        cures=cures,
        place=spec.place("limit" if "limit" in spec.lines.found else "shapes"),
    )


__all__ = ["Axis", "Lines", "Spec", "bad_value", "check_size", "read_spec"]


def _written(value: object) -> str:
    """A value as a sweep file has it, where that is short."""
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        return shown(value)
    text = "{ " + ", ".join(f"{key} = {shown(each)}" for key, each in value.items()) + " }"
    return text if 0 < len(value) <= _FEW_KEYS and len(text) <= _SHORT else shown(value)
