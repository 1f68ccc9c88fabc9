"""Runs ONNX's own conformance suite on the targets and writes the page that says how far they come.

Run from the root of the repository: ``python tools/make_conformance_page.py``; ``--check`` writes nothing and fails
where the page is stale.
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
import unittest
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import onnx

from lanefold.frontends.backend import DEVICES, LanefoldBackend
from lanefold.frontends.onnx.decompose import HANDLERS

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "conformance.md"
EXPECTED = ROOT / "tests" / "frontends" / "expected_failures.toml"
RUN_ON = ("TRN1", "TRN3", "PTO_CPU", "A2A3")
SETS = {
    "node": "OnnxBackendNodeModelTest",
    "pytorch-operator": "OnnxBackendPyTorchOperatorModelTest",
    "pytorch-converted": "OnnxBackendPyTorchConvertedModelTest",
    "simple": "OnnxBackendSimpleModelTest",
}
FOLDS = frozenset(name for name in HANDLERS if name.startswith(("Reduce", "Arg")) or name.endswith("Pool")) | {"TopK"}
"""Poolings, reductions and searches: what the leg is for."""


@dataclass
class Outcome:
    """What became of one test: passed, on the leg alone, with host steps, or on the host alone, and why it failed.

    ``host`` are the poolings, reductions and searches that ran on the host, with the reason the ledger gives.
    """

    passed: bool = False
    failure: str = ""
    leg: int = 0
    steps: int = 0
    host: dict[str, str] = field(default_factory=dict)

    @property
    def where(self) -> str:
        """Where it ran: on the leg, host-assisted, on the host, or refused."""
        if not self.passed:
            return "refused"
        if not self.leg:
            return "on the host"
        return "on the leg" if self.leg == self.steps else "host-assisted"


@cache
def suite() -> dict[str, dict[str, onnx.ModelProto]]:
    """The models of every set that hold an operator of the leg, by the name of their test."""
    from onnx.backend.test.loader import load_model_tests

    found: dict[str, dict[str, onnx.ModelProto]] = {}
    with warnings.catch_warnings():
        # The suite computes its data while it is collected, overflows included.
        warnings.simplefilter("ignore")
        for kind in SETS:
            tests = [
                (each.name, each.model or onnx.load(Path(each.model_dir) / "model.onnx"))
                for each in load_model_tests(kind=kind)
            ]
            found[kind] = {
                name: model for name, model in tests if any(node.op_type in HANDLERS for node in model.graph.node)
            }
    return found


def cases(device: str, now: dict[str, Outcome]) -> Iterator[tuple[str, str, unittest.TestCase]]:
    """Set, name and case of every test; running one fills its outcome in ``now``."""
    import onnx.backend.test

    class Here(LanefoldBackend):
        """The backend on one device, whatever device the suite asks for."""

        @classmethod
        def supports_device(cls, device: str) -> bool:
            """The suite's own device, and those of lanefold."""
            return device in ("CPU", *DEVICES)

        @classmethod
        def prepare(cls, model: onnx.ModelProto, asked: str = "CPU", **kwargs: Any) -> Any:
            """The model on the device, noting what its ledger says."""
            prepared = LanefoldBackend.prepare(model, device, **kwargs)

            class Noting:
                """A prepared model that notes where its nodes ran."""

                def run(self, inputs: Any, **more: Any) -> Any:
                    """Runs the model."""
                    outputs = prepared.run(inputs, **more)
                    program = prepared.plan.program
                    outcome = now["now"]
                    outcome.leg, outcome.steps = len(program.leg_steps), len(program.steps)
                    outcome.host = {
                        row.op_type: _plain(row.reason)
                        for row in program.ledger
                        if row.disposition == "host" and row.op_type in FOLDS
                    }
                    return outputs

            return Noting()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = onnx.backend.test.BackendTest(Here, __name__).test_cases
    for kind, title in SETS.items():
        wanted = suite()[kind]
        for name in unittest.defaultTestLoader.getTestCaseNames(made[title]):
            if name.removesuffix("_cpu") in wanted:
                yield kind, name.removesuffix("_cpu"), made[title](name)


def _plain(reason: str) -> str:
    """A reason of the ledger without the names of the model's tensors."""
    return re.sub(r"^(the extents of|its axes) \S+ are", r"\1 its input are", reason).replace("axes its input", "axes")


def allowed_hosts() -> Mapping[str, str]:
    """Reasons, as patterns, for which a pooling, reduction or search may run on the host, and why they hold."""
    found: Mapping[str, str] = tomllib.loads(EXPECTED.read_text(encoding="utf-8"))["hosts"]
    return found


@cache
def run(device: str) -> dict[str, dict[str, Outcome]]:
    """The outcome of every test on a device, by set and name."""
    outcomes: dict[str, dict[str, Outcome]] = {kind: {} for kind in SETS}
    now: dict[str, Outcome] = {}
    for kind, name, case in cases(device, now):
        outcome = now["now"] = Outcome()
        result = unittest.TestResult()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            case.run(result)
        wrong = [*result.failures, *result.errors]
        outcome.passed = not wrong and not result.skipped
        outcome.failure = wrong[0][1] if wrong else "skipped" if result.skipped else ""
        outcomes[kind][name] = outcome
    return outcomes


def expected(device: str) -> Mapping[str, str]:
    """Tests that cannot pass on a device, with the limit that stands in the way."""
    found: Mapping[str, Mapping[str, str]] = tomllib.loads(EXPECTED.read_text(encoding="utf-8"))
    return {**found.get("every device", {}), **found.get(device, {})}


def because(reason: str) -> str:
    """Why a reason for the host holds; empty if it is none that may be."""
    return next((why for pattern, why in allowed_hosts().items() if re.search(pattern, reason)), "")


def hosted(device: str) -> Counter[tuple[str, str]]:
    """Poolings, reductions and searches on the host in tests of a device: operator and reason, with their number."""
    return Counter(
        (op_type, reason)
        for tests in run(device).values()
        for outcome in tests.values()
        for op_type, reason in outcome.host.items()
    )


def table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """A Markdown table."""
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    return [*lines, *("| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |" for row in rows)]


PLACES = ("on the leg", "host-assisted", "on the host", "refused")


def section(device: str) -> str:
    """What the page says of one device."""
    rows = []
    for kind, tests in run(device).items():
        where = Counter(each.where for each in tests.values())
        rows.append((kind, len(tests), len(tests) - where["refused"], *(where[each] for each in PLACES)))
    rows.append(("all", *(sum(column) for column in zip(*(row[1:] for row in rows), strict=True))))
    lines = [f"## {device}", "", *table(("set", "run", "passed", *PLACES), rows), ""]
    lines += table(
        ("pooling, reduction or search on the host", "nodes", "reason", "why it holds"),
        [(op_type, count, reason, because(reason)) for (op_type, reason), count in sorted(hosted(device).items())],
    )
    return "\n".join([*lines, ""])


def frame() -> tuple[str, str]:
    """What stands before and behind the devices' sections; it needs no run."""
    before = [
        "# Conformance",
        "",
        "Generated by `tools/make_conformance_page.py` from a run of ONNX's own suite; do not edit by hand.",
        "",
        f"Every test of the suite whose model holds an operator of the leg, onnx {onnx.__version__}, through",
        "`lanefold.frontends.backend.LanefoldBackend`. *On the leg*: instructions alone computed the outputs;",
        "*host-assisted*: some nodes, or steps of nodes, ran on the host, in onnxruntime or, where that has no kernel,",
        "in the reference evaluator of onnx; *on the host*: all of them;",
        "*refused*: the model could not be run, for one of the reasons at the end.",
        "",
        "Poolings, reductions and searches are what the leg is for: each on the host is listed with its reason.",
        "",
        "",
    ]
    behind = ["## Tests that cannot pass", ""]
    behind += table(
        ("test", "devices", "limit"),
        [
            (f"`{name}`", ", ".join(device for device in RUN_ON if expected(device).get(name) == reason), reason)
            for name, reason in sorted({item for device in RUN_ON for item in expected(device).items()})
        ],
    )
    return "\n".join(before), "\n".join([*behind, ""])


def page() -> str:
    """The conformance page."""
    before, behind = frame()
    return before + "".join(section(device) + "\n" for device in RUN_ON) + behind


def main() -> int:
    """Writes or checks the page; the exit status is 1 if it is stale."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing, fail where the page is stale")
    text = page()
    if PAGE.exists() and PAGE.read_text(encoding="utf-8") == text:
        return 0
    if parser.parse_args().check:
        print("stale: conformance.md; run python tools/make_conformance_page.py", file=sys.stderr)
        return 1
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
