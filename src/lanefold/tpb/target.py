"""A Trainium generation as a target: lowering, machine and files of a program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lanefold.diagnostics import LanefoldError, Place
from lanefold.ops import Op
from lanefold.program import Program
from lanefold.program.files import MARK, damaged, read_file, to_json
from lanefold.program.routes import Candidate
from lanefold.program.saved import describe, op_from, restore, shared_files
from lanefold.tpb import isa
from lanefold.tpb.bir.module import ARCH
from lanefold.tpb.bir.records import BUNDLES_KEY
from lanefold.tpb.cost import MODELS
from lanefold.tpb.document import engine_files, function, restored
from lanefold.tpb.lower import Lowering, check_preference, lower
from lanefold.tpb.lower.routes import routes

if TYPE_CHECKING:
    from lanefold.tpb.machine import Machine

LISTING = "listing.s"


@dataclass(frozen=True)
class TpbTarget:
    """One NeuronCore generation with its readings.

    Args:
        name: ``trn1``, ``trn2`` or ``trn3``.
        generation: ``v2``, ``v3`` or ``v4``.
        opcodes: opcode reading of the bytes.
        numerics: numeric reading of the machine.
    """

    name: str
    generation: isa.Generation
    opcodes: isa.Reading = "reference"
    numerics: str = "birsim"
    cost_models: tuple[str, ...] = field(default=MODELS, repr=False)

    @property
    def readings(self) -> Mapping[str, str]:
        """The opcode and the numeric reading."""
        return {"opcodes": self.opcodes, "numerics": self.numerics}

    def check_preference(self, prefer: str, place: Place) -> None:
        """Refuse a preference that the target does not know, whether there is an op to lower or not.

        Raises:
            LanefoldError: for a word that is no preference of this target.
        """
        check_preference(prefer, place)

    def lower(self, op: Op, place: Place, prefer: str = "cost") -> Lowering:
        """Instructions for an op.

        Raises:
            LanefoldError: where the leg has no legal form for it.
        """
        return lower(op, place, generation=self.generation, opcodes=self.opcodes, prefer=prefer)

    def routes(self, op: Op, place: Place, prefer: str = "cost") -> list[Candidate]:
        """Every route of an op, legal or not, the chosen one marked.

        Raises:
            LanefoldError: if the preference is unknown.
        """
        return routes(op, place, self.generation, self.opcodes, prefer)

    def machine(self, *, count: bool = False) -> Machine:
        """A fresh machine of this generation; with ``count`` it fills its counters."""
        from lanefold.tpb.machine import Machine

        return Machine(self.generation, numerics=self.numerics, count=count)

    def counters(self, machine: Machine) -> Mapping[str, int]:
        """What the machine has counted so far."""
        return machine.counters

    def files(self, program: Program) -> dict[str, bytes]:
        """program.json (a BIR module with the steps among its attributes), a stream per engine, a listing, the rest."""
        codes = {step.name: step.code for step in program.leg_steps}
        lowerings = {name: code for name, code in codes.items() if isinstance(code, Lowering)}
        document = {
            "arch": ARCH[self.generation],
            "version": 2,
            "attributes": {"lanefold": describe(program)},
            "functions": [function(name, lowering) for name, lowering in lowerings.items()],
        }
        return {
            MARK: to_json(document),
            LISTING: self._listing(lowerings).encode(),
            **engine_files(list(lowerings.values())),
            **shared_files(program),
        }

    def _listing(self, lowerings: Mapping[str, Lowering]) -> str:
        """All bundles in program order as one assembly text, each step behind a comment with its name and route."""
        from lanefold.tpb.binary import Stream
        from lanefold.tpb.text import disassemble

        words = [lowering.stream.words for lowering in lowerings.values()] or [
            np.zeros((0, isa.BUNDLE_BYTES), np.uint8)
        ]
        head, _, body = disassemble(Stream(np.concatenate(words), self.generation, self.opcodes)).partition("\n\n")
        lines = iter(body.splitlines())
        text = [head]
        for name, lowering in lowerings.items():
            text += ["", f"; {name}: {lowering.route}", *islice(lines, lowering.bundles)]
        return "\n".join(text) + "\n"

    def load(self, folder: Path, document: Mapping[str, Any]) -> Program:
        """A program saved for this target; its saved bytes are what runs.

        Raises:
            LanefoldError: if a file is missing or does not fit.
        """
        try:
            described = document["attributes"]["lanefold"]
            functions = {each["name"]: each for each in document["functions"]}
            codes = self._codes(folder, described, functions)
            return restore(folder, described, self, lambda step: codes[step["name"]])
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            if isinstance(error, LanefoldError):
                raise
            raise damaged(
                folder, MARK, f"{MARK} does not describe a program: {error!r}", repr(error)[:80], "a saved program"
            ) from None

    def _codes(self, folder: Path, described: Mapping[str, Any], functions: Mapping[str, Any]) -> dict[str, Lowering]:
        engines = {
            record["engine"]
            for each in functions.values()
            for block in each["blocks"]
            for record in block["instructions"]
            if record["opcode"] in isa.BIR_BY_OPCODE
        }
        streams = {}
        for engine in sorted(engines):
            data = np.frombuffer(read_file(folder, f"{engine}.bin"), np.uint8)
            if len(data) % isa.BUNDLE_BYTES:
                raise damaged(
                    folder,
                    f"{engine}.bin",
                    f"{engine}.bin has {len(data):,} bytes",
                    len(data),
                    f"a multiple of {isa.BUNDLE_BYTES}",
                )
            streams[engine] = data.reshape(-1, isa.BUNDLE_BYTES)
        taken = dict.fromkeys(streams, 0)
        codes: dict[str, Lowering] = {}
        for step in described["steps"]:
            if step["kind"] != "leg":
                continue
            record = functions[step["name"]]
            words = []
            for block in record["blocks"]:
                for bir in block["instructions"]:
                    if bir["opcode"] in isa.BIR_BY_OPCODE:
                        engine, count = bir["engine"], bir.get(BUNDLES_KEY, 1)
                        chunk = streams[engine][taken[engine] : taken[engine] + count]
                        if len(chunk) != count:
                            raise damaged(
                                folder, f"{engine}.bin", f"{engine}.bin ends early", len(streams[engine]), "all bundles"
                            )
                        words.append(chunk)
                        taken[engine] += count
            codes[step["name"]] = restored(
                record, op_from(step["op"]), step["route"], step["note"], words, self.generation, self.opcodes
            )
        return codes
