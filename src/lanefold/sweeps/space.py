"""The space of a sweep: its groups and shapes, and the chunks they are cut into."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from itertools import product

import numpy as np

from lanefold import __version__
from lanefold.diagnostics import Cure, LanefoldError, Rule
from lanefold.sweeps.group import Evaluated, Group, InstructionSet
from lanefold.sweeps.pto import PtoSet
from lanefold.sweeps.spec import Spec, check_size
from lanefold.sweeps.tpb import TpbSet

SETS: tuple[InstructionSet, ...] = (PtoSet(), TpbSet())

NAME = Rule(
    "SWEEP-NAME",
    "Operations, element types, targets and models are known, and fit together.",
    "Sweep files",
    usage=True,
)
SETTING = Rule(
    "SWEEP-SETTING",
    "A layout or option has values that at least one operation of the sweep takes.",
    "Sweep files",
    usage=True,
)
NOTHING = Rule("SWEEP-NOTHING", "At least one group of a sweep has a price.", "Sweep files")


@dataclass(frozen=True)
class Chunk:
    """Some shapes of one group: ``start`` to ``stop`` of the shapes in their order."""

    number: int
    group: int
    start: int
    stop: int

    @property
    def count(self) -> int:
        """Configurations in it."""
        return self.stop - self.start


@dataclass(frozen=True)
class Space:
    """A sweep with everything resolved: its groups, each of which takes every shape.

    Args:
        spec: what was asked for.
        groups: groups in the order of targets, operations, element types, settings and models.
        sets: the instruction set of each group.
    """

    spec: Spec
    groups: tuple[Group, ...]
    sets: tuple[InstructionSet, ...]

    @property
    def count(self) -> int:
        """Configurations of the whole sweep."""
        return len(self.groups) * self.spec.shapes.count

    @cached_property
    def chunks(self) -> tuple[Chunk, ...]:
        """The chunks, in order."""
        shapes, size = self.spec.shapes.count, self.spec.chunk
        spans = [(start, min(start + size, shapes)) for start in range(0, shapes, size)]
        pairs = product(range(len(self.groups)), spans)
        return tuple(Chunk(number, group, *span) for number, (group, span) in enumerate(pairs))

    def evaluate(self, chunk: Chunk) -> Evaluated:
        """The numbers of a chunk."""
        shape = self.spec.shapes.part(chunk.start, chunk.stop)
        return self.sets[chunk.group].evaluate(self.groups[chunk.group], shape)

    @cached_property
    def digest(self) -> str:
        """What the numbers depend on, as 16 hexadecimal digits: groups, shapes, chunks and versions."""
        spec = self.spec
        said = {
            "lanefold": __version__,
            "groups": [
                [group.op, group.dtype, group.target, group.model, group.version, group.clock_ghz, *_flat(group)]
                for group in self.groups
            ],
            "listed": spec.shapes.listed,
            "chunk": spec.chunk,
        }
        found = hashlib.sha256(json.dumps(said, sort_keys=True).encode())
        for axis in spec.shapes.axes:
            found.update(b"whole" if axis is None else np.ascontiguousarray(axis, "<i8").tobytes())
            found.update(b"|")
        return found.hexdigest()[:16]


def _flat(group: Group) -> list[object]:
    return [item for pair in group.settings.items() for item in pair]


def resolve(spec: Spec) -> Space:
    """The groups of a sweep.

    Raises:
        LanefoldError: SWEEP-NAME, SWEEP-SETTING or SWEEP-SIZE where the sweep cannot be made; where no group has a
            price, the findings of all of them.
    """
    used = _sets(spec)
    ops = {each: _known(spec, "ops", each.op, each) for each in used}
    dtypes = {each: _known(spec, "dtypes", each.dtype, each) for each in used}
    models = {each: _models(spec, each) for each in used}
    for key in _NOUNS:
        _all_known(spec, key, used)
    _all_settings(spec, ops)
    _all_served(spec, used, ops, dtypes, models)
    wanted: list[tuple[InstructionSet, str, str, str, dict[str, object], str]] = []
    for target in dict.fromkeys(name.strip().lower() for name in spec.targets):
        each = _set_of(target)
        for op, dtype in product(ops[each], dtypes[each]):
            for settings in _settings(spec, each, op):
                wanted += [(each, op, dtype, target, settings, model) for model in models[each]]
    check_size(spec, len(wanted) * spec.shapes.count)
    made = [
        each.group(op, dtype, target, model, settings, spec.frequency_mhz)
        for each, op, dtype, target, settings, model in wanted
    ]
    if all(group.refused is not None for group in made):
        raise _nothing(spec, made)
    return Space(spec, tuple(made), tuple(row[0] for row in wanted))


def _set_of(target: str) -> InstructionSet:
    return next(each for each in SETS if target.strip().lower() in each.targets)


def _sets(spec: Spec) -> list[InstructionSet]:
    every = [name for each in SETS for name in each.targets]
    for name in spec.targets:
        if name.strip().lower() not in every:
            raise _unknown(spec, "targets", name, every)
    return list(dict.fromkeys(_set_of(name) for name in spec.targets))


_NOUNS = {"ops": "operation", "dtypes": "element type", "models": "cost model"}


def _unknown(spec: Spec, key: str, name: str, allowed: Sequence[str]) -> LanefoldError:
    near = get_close_matches(name.lower(), [each.lower() for each in allowed], n=1, cutoff=0.4)
    best = next((each for each in allowed if near and each.lower() == near[0]), allowed[0])
    cures = [Cure(f"write {best}", {key: best})]
    if key == "targets":
        message = f"there is no target {name!r}"
    else:
        targets = f"target{'s' * (len(spec.targets) > 1)} {', '.join(spec.targets)}"
        message = f"{_NOUNS[key]} {name!r} is not known to {targets}"
        owner = next((each for each in SETS if _knows(each, key, name)), None)
        if owner is not None:
            cures.insert(0, Cure(f"name a target that knows {name}: {', '.join(owner.targets)}"))
        else:
            elsewhere = _elsewhere(key, name, allowed)
            cures = elsewhere + (cures if near or not elsewhere else [])
    return NAME.error(message, got=repr(name), allowed=", ".join(allowed), cures=cures, place=spec.place(key))


def _elsewhere(key: str, name: str, allowed: Sequence[str]) -> list[Cure]:
    """The nearest name that other targets know, where it is nearer than any that is allowed."""
    owners = {word: each.targets for each in SETS for word in getattr(each, key) if word not in allowed}
    folded = {word.lower(): word for word in (*allowed, *owners)}
    near = get_close_matches(name.lower(), list(folded), n=1, cutoff=0.6)
    best = folded[near[0]] if near else ""
    if best not in owners:
        return []
    return [Cure(f"write {best} and name a target that knows it: {', '.join(owners[best])}")]


def _knows(each: InstructionSet, key: str, name: str) -> bool:
    find = {"ops": each.op, "dtypes": each.dtype}.get(key)
    return name in each.models if find is None else find(name) is not None


def _known(spec: Spec, key: str, find: object, each: InstructionSet) -> list[str]:
    found = (find(name) for name in getattr(spec, key))  # type: ignore[operator]
    return list(dict.fromkeys(name for name in found if name is not None))


def _models(spec: Spec, each: InstructionSet) -> list[str]:
    return [name for name in spec.models if name in each.models] if spec.models else [each.models[0]]


def _all_known(spec: Spec, key: str, used: Sequence[InstructionSet]) -> None:
    for name in getattr(spec, key):
        if not any(_knows(each, key, name) for each in used):
            raise _unknown(spec, key, name, [word for each in used for word in getattr(each, key)])


def _all_served(spec: Spec, used: Sequence[InstructionSet], *found: Mapping[InstructionSet, list[str]]) -> None:
    """Whether every target has an operation, an element type and a model."""
    for key, names in zip(("ops", "dtypes", "models"), found, strict=True):
        for each in used:
            if names[each]:
                continue
            targets = [name for name in spec.targets if _set_of(name) is each]
            known = getattr(each, key)
            raise NAME.error(
                f"none of {key} {', '.join(getattr(spec, key))} is known to {', '.join(targets)}",
                got=", ".join(getattr(spec, key)),
                allowed=", ".join(known),
                cures=[
                    Cure(f"add {known[0]} to {key}"),
                    Cure(f"leave {', '.join(targets)} out of targets"),
                ],
                place=spec.place(key),
            )


def _takes(choices: Iterable[object], value: object) -> bool:
    """Whether a value is one of the choices; true and 1 are not the same."""
    return any(
        (value in choice if isinstance(choice, range) and type(value) is int else False)
        or (type(choice) is type(value) and choice == value)
        for choice in choices
    )


def _words(choices: Iterable[object]) -> str:
    return ", ".join(
        f"{choice.start} to {choice.stop - 1}" if isinstance(choice, range) else str(choice) for choice in choices
    )


def _all_settings(spec: Spec, ops: Mapping[InstructionSet, list[str]]) -> None:
    """Whether every value of every setting is taken by some operation, and every operation has one to take."""
    for key, values in spec.settings.items():
        takers = [(each, op) for each, names in ops.items() for op in names if key in each.keys(op)]
        if not takers:
            raise SETTING.error(
                f"{key} matters to none of the operations {', '.join(spec.ops)}",
                got=key,
                allowed=", ".join(
                    sorted({word for each, names in ops.items() for op in names for word in each.keys(op)})
                ),
                cures=[f"leave {key} out"],
                place=spec.place(key),
            )
        for value in values:
            choices = [choice for each, op in takers for choice in each.choices(op, key)]
            if not _takes(choices, value):
                raise _not_taken(spec, key, value, takers[0][1], list(dict.fromkeys(choices)))
        for each, op in takers:
            if not any(_takes(each.choices(op, key), value) for value in values):
                raise _not_taken(spec, key, values[0], op, each.choices(op, key))


def _not_taken(spec: Spec, key: str, value: object, op: str, choices: Sequence[object]) -> LanefoldError:
    return SETTING.error(
        f"{key} has no value that {op} takes: {value!r}",
        got=repr(value),
        allowed=_words(choices),
        cures=[Cure(f"write {choices[0]!r}", {key: choices[0]})],
        place=spec.place(key),
    )


def _settings(spec: Spec, each: InstructionSet, op: str) -> list[dict[str, object]]:
    keys = each.keys(op)
    options = []
    for key in keys:
        choices = each.choices(op, key)
        given = spec.settings.get(key)
        options.append([value for value in given if _takes(choices, value)] if given else [choices[0]])
    return [dict(zip(keys, values, strict=True)) for values in product(*options)]


def _nothing(spec: Spec, groups: Sequence[Group]) -> LanefoldError:
    refusals = [group.refused for group in groups if group.refused is not None]
    unique = {(finding.code, finding.message): finding for finding in refusals}
    head = NOTHING.finding(
        f"none of the {len(groups)} groups of the sweep has a price",
        got=f"{len(groups)} groups without a price",
        allowed="at least one group with a price",
        cures=[cure for finding in unique.values() for cure in finding.cures][:3],
        place=spec.place("ops"),
    )
    return LanefoldError([head, *unique.values()])
