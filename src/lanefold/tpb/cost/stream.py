"""Prices of streams: every bundle is read back into what the formulas are written in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from lanefold.diagnostics import LanefoldError
from lanefold.numerics.alu import by_byte
from lanefold.numerics.dtypes import by_tag
from lanefold.program.prices import CostRow, ProgramCost, unpriced
from lanefold.tpb.binary import Bundle, Stream
from lanefold.tpb.cost import model_name, price
from lanefold.tpb.instruction import Instruction
from lanefold.tpb.patterns import Access

_OPCODES: Mapping[str, tuple[str, Mapping[str, object]]] = {
    "pool": ("Pool", {}),
    "tensor_reduce_arith": ("TensorReduce", {"axis": "X"}),
    "tensor_reduce_bitvec": ("TensorReduce", {"axis": "X"}),
    "transpose_tensor_reduce_arith": ("TensorReduce", {"axis": "X", "apply_transpose": True}),
    "transpose_tensor_reduce_bitvec": ("TensorReduce", {"axis": "X", "apply_transpose": True}),
    "tensor_reduce_add_bf16": ("TensorReduce", {"axis": "X"}),
    "tensor_reduce_max_bf16": ("TensorReduce", {"axis": "X"}),
    "cross_lane_reduce_arith": ("TensorReduce", {"axis": "C"}),
    "cross_lane_reduce_bitvec": ("TensorReduce", {"axis": "C"}),
    "transpose_cross_lane_reduce_arith": ("TensorReduce", {"axis": "C", "apply_transpose": True}),
    "transpose_cross_lane_reduce_bitvec": ("TensorReduce", {"axis": "C", "apply_transpose": True}),
    "reciprocal": ("Reciprocal", {}),
    "max8": ("Max", {}),
    "iota": ("Iota", {}),
}
"""BIR operation and attributes of the bundles that are priced alone, by the name of the bundle."""
_PAIRS = {
    ("match_value_load", "find_index8"): "MaxIndex",
    ("match_value_load", "match_replace8"): "MatchReplace",
    ("pool_buffer_load", "gather"): "Gather",
    ("gather", "pool_buffer_load"): "Gather",
}
"""BIR operation of two bundles that follow one another and are priced as one."""
_LOADS = ("match_value_load", "pool_buffer_load")
"""The one of two bundles that loads keys, or a chunk of a table; the order of a gather pair differs by reading."""
_ODD_BYTE = 1
"""Stands for a place that only a run can tell: nothing is aligned there."""
RUN_TIME = "its counts are known only when it runs"


def price_stream(stream: Stream, model: str = "") -> ProgramCost:
    """The price of every bundle; pairs such as MatchValueLoad and FindIndex8 are priced as one.

    Unknown are bundles whose opcode the reading does not know, whose counts stand in registers or an index tensor, and
    those without a formula.

    Raises:
        LanefoldError: if there is no such model.

    Source: NKI ISA reference, October 2025; wire struct tables.
    """
    chosen = model_name(model)
    return ProgramCost(tuple(_rows(stream, chosen)), chosen, _target(stream), not_priced=())


def _target(stream: Stream) -> str:
    return f"{stream.generation}, opcodes {stream.opcodes}"


def _rows(stream: Stream, model: str) -> Iterator[CostRow]:
    # Loops repeat their bundles: equal ones are priced once.
    known: dict[bytes, tuple[CostRow, int]] = {}
    bundles = list(stream)
    at = 0
    while at < len(bundles):
        key = b"".join(bundle.tobytes() for bundle in bundles[at : at + 2])
        if key not in known:
            used = 2 if tuple(_name(bundle) for bundle in bundles[at : at + 2]) in _PAIRS else 1
            known[key] = _row(stream, bundles[at : at + used], at, model), used
        row, used = known[key]
        shown = " + ".join(bundle.mnemonic for bundle in bundles[at : at + used])
        yield replace(row, instruction=f"{at} {shown}")
        at += used


def _name(bundle: Bundle) -> str:
    return bundle.row.name if bundle.row else ""


def _row(stream: Stream, bundles: list[Bundle], at: int, model: str) -> CostRow:
    shown = " + ".join(bundle.mnemonic for bundle in bundles)
    name = f"{at} {shown}"
    try:
        made = _pair(stream, bundles, name) if len(bundles) > 1 else _single(stream, bundles[0], name)
    except LanefoldError as error:
        finding = error.diagnostics[0]
        return unpriced(name, stream.engine or "none", model, f"{shown}: {finding.code}, {finding.message}")
    if isinstance(made, str):
        return unpriced(name, stream.engine or "none", model, f"{shown}: {made}")
    return price(made, stream.generation, model)


def _single(stream: Stream, bundle: Bundle, name: str) -> Instruction | str:
    if bundle.row is None:
        return f"no instruction of the reading {stream.opcodes} has opcode 0x{bundle.opcode:02X}"
    if bundle.row.name not in _OPCODES:
        return "nothing is published about it alone"
    opcode, attributes = _OPCODES[bundle.row.name]
    fields = bundle.to_dict()
    ins = () if opcode == "Iota" else (_access(stream, fields, "src", "in_dtype"),)
    made = (*ins, _access(stream, fields, "dst", "out_dtype"))
    operands = [each for each in made if each is not None]
    if len(operands) < len(made):
        return RUN_TIME
    operator = by_byte(int(fields.get("op", fields.get("reduce_op", 0))))
    told = {**attributes, "op": operator.name if operator else ""} if opcode == "TensorReduce" else {}
    return Instruction(opcode, tuple(operands[:-1]), (operands[-1],), told, stream.engine, name)


def _pair(stream: Stream, bundles: list[Bundle], name: str) -> Instruction | str:
    """Two bundles as one instruction: keys and data of a search, or a chunk of a table and its indices."""
    opcode = _PAIRS[_name(bundles[0]), _name(bundles[1])]
    first, second = (bundle.to_dict() for bundle in sorted(bundles, key=lambda each: _name(each) not in _LOADS))
    loaded = _access(stream, first, "src", "dtype" if "dtype" in first else "in_dtype")
    read = _access(stream, second, "src", "in_dtype")
    result = _access(stream, second, "dst", "out_dtype")
    if loaded is None or read is None or result is None:
        return RUN_TIME
    return Instruction(opcode, (loaded, read), (result,), {}, stream.engine, name)


def _access(stream: Stream, fields: Mapping[str, Any], role: str, dtype: str) -> Access | None:
    """An operand as far as prices look at it; None where its counts are not in the bundle."""
    told = fields[role]
    if told["address"] not in ("immediate", "register"):
        return None
    byte = told["byte"] if told["address"] == "immediate" else _ODD_BYTE
    memory = told.get("memory", "SB")
    walked = tuple(zip(reversed(told["step_elem"]), reversed(told["num_elem"]), strict=True))
    kind = by_tag(int(fields[dtype]), stream.generation).name
    return Access(memory, 0, byte, kind, ((1, int(fields["num_active_channels"])), *walked))
