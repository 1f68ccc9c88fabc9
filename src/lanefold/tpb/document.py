"""Lowered ops as BIR JSON functions and per-engine streams, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lanefold.numerics.dtypes import by_name
from lanefold.ops import Op
from lanefold.tpb import isa
from lanefold.tpb.binary import Stream
from lanefold.tpb.bir import instruction
from lanefold.tpb.bir.form import plain
from lanefold.tpb.bir.records import BUNDLES_KEY
from lanefold.tpb.cost.formulas import FILL
from lanefold.tpb.instruction import Instruction
from lanefold.tpb.lower.plan import Fill, Item, Lowering, Tensor, Transfer
from lanefold.tpb.patterns import Access

DMA_OPCODE = "DMACopy"
"""BIR opcode of a transfer between DRAM and on-chip memory."""
_QUEUE_ENGINE = "SP"


def function(name: str, lowering: Lowering) -> dict[str, Any]:
    """A lowered op as a BIR JSON function: allocations, and one block of transfers and instructions."""
    locations: dict[str, dict[str, Any]] = {}
    for tensor_name, tensor in lowering.tensors.items():
        size = by_name(tensor.dtype).bytes
        locations[tensor_name] = {
            "type": "DRAM",
            "addr": 0,
            "base": 0,
            "bank": 0,
            "dims": [1, tensor.elements * size],
            "dtype": tensor.dtype,
        }
    records = [_record(item, locations) for item in lowering.items]
    written = [record for record, item in zip(records, lowering.items, strict=True) if isinstance(item, Instruction)]
    for record, start, stop in zip(written, lowering.starts, lowering.starts[1:], strict=False):
        if stop - start > 1:
            record[BUNDLES_KEY] = stop - start
    return {
        "name": name,
        "attributes": [],
        "allocations": [_allocation(memref, location) for memref, location in locations.items()],
        "blocks": [{"name": "block0", "instructions": records}],
    }


def _allocation(memref: str, location: Mapping[str, Any]) -> dict[str, Any]:
    elements = location["dims"][1] // by_name(location["dtype"]).bytes
    outside = location["type"] == "DRAM"
    kind = {"i": "Input", "o": "Output"}.get(memref[0], "Internal") if outside else "Internal"
    return {
        "Skind": "memory_location_set",
        "name": f"{memref}_set",
        "addr_space": "Local",
        "dtype": location["dtype"],
        "kind": kind,
        "partition_dim": 0,
        "tensor_class": "Tensor" if outside else "NeuronSBTensor",
        "tensor_shape": [location["dims"][0], elements],
        "memorylocations": [{"Skind": "memory_location", "name": memref, "allocated": True, **location}],
    }


def _record(item: Item, locations: dict[str, dict[str, Any]]) -> dict[str, Any]:
    if isinstance(item, Fill):
        return {
            "opcode": FILL,
            "name": "fill",
            "engine": "DVE",
            "mode": "Const",
            "constant": 0,
            "ins": [],
            "outs": [_operand(item.access, locations)],
        }
    if isinstance(item, Transfer):
        nums = [num for _, num in item.access.pattern]
        outside = {
            "kind": "physical_ap",
            "ap": [[step, num] for step, num in zip(item.steps, nums, strict=True)],
            "dtype": item.access.dtype,
            "memref": item.tensor,
            "memsetref": f"{item.tensor}_set",
            "offset": item.offset,
        }
        sides = [outside, _operand(item.access, locations)]
        if item.direction == "save":
            sides.reverse()
        return {
            "opcode": DMA_OPCODE,
            "name": item.direction,
            "engine": _QUEUE_ENGINE,
            "ins": sides[:1],
            "outs": sides[1:],
        }
    return {
        "opcode": item.opcode,
        "name": item.name,
        "node": item.node,
        "engine": item.engine,
        "ins": [_operand(access, locations) for access in item.ins],
        "outs": [_operand(access, locations) for access in item.outs],
        **plain(item.attributes, item.place()),
    }


def _operand(access: Access, locations: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """An operand relative to its memory location, which is declared where it is new."""
    size = by_name(access.dtype).bytes
    pitch, partitions = access.pattern[0]
    home = access.byte - access.offset * size
    memref = f"{access.name}@{home}.{access.dtype}x{pitch}"
    location = locations.setdefault(
        memref,
        {
            "type": access.memory,
            "addr": home,
            "base": access.partition,
            "bank": 0,
            "dims": [partitions, pitch * size],
            "dtype": access.dtype,
        },
    )
    location["dims"][0] = max(location["dims"][0], partitions)
    return {
        "kind": "physical_ap",
        "ap": [list(pair) for pair in access.pattern],
        "dtype": access.dtype,
        "memref": memref,
        "memsetref": f"{memref}_set",
        "offset": access.offset,
    }


def restored(
    record: Mapping[str, Any],
    op: Op,
    route: str,
    note: str,
    words: Sequence[np.ndarray[Any, Any]],
    generation: isa.Generation,
    reading: isa.Reading,
) -> Lowering:
    """A lowering read back from its BIR function; ``words`` are its bundles in program order, and what runs.

    Raises:
        LanefoldError: where a record is malformed.
    """
    tensors: dict[str, Tensor] = {}
    locations: dict[str, Mapping[str, Any]] = {}
    for entry in record["allocations"]:
        for place in entry["memorylocations"]:
            if place["type"] == "DRAM":
                size = by_name(place["dtype"]).bytes
                tensors[place["name"]] = Tensor(place["dims"][1] // size, place["dtype"])
            else:
                locations[place["name"]] = place
    items = tuple(_item(bir, tensors, locations) for block in record["blocks"] for bir in block["instructions"])
    made = Lowering(op, route, items, tensors, generation, reading, note)
    instructions = made.instructions
    origin = np.repeat(np.arange(len(instructions)), [len(each) for each in words])
    joined = np.concatenate(words) if words else np.zeros((0, isa.BUNDLE_BYTES), np.uint8)
    # The saved bytes take the place of what encoding anew would give.
    made.__dict__["stream"] = Stream(joined, generation, reading, instructions=instructions, origin=origin)
    return made


def _item(bir: Mapping[str, Any], tensors: Mapping[str, Tensor], locations: Mapping[str, Mapping[str, Any]]) -> Item:
    if bir["opcode"] == FILL:
        return Fill(_access(bir["outs"][0], locations))
    if bir["opcode"] == DMA_OPCODE:
        load = bir["ins"][0]["memref"] in tensors
        outside, inside = (bir["ins"][0], bir["outs"][0]) if load else (bir["outs"][0], bir["ins"][0])
        return Transfer(
            "load" if load else "save",
            outside["memref"],
            outside["offset"],
            tuple(step for step, _ in outside["ap"]),
            _access(inside, locations),
        )
    return instruction(bir, locations)


def _access(operand: Mapping[str, Any], locations: Mapping[str, Mapping[str, Any]]) -> Access:
    """One on-chip operand, resolved the way operands of instructions are."""
    wrapped: Instruction = instruction({"opcode": FILL, "ins": [], "outs": [operand]}, locations)
    return wrapped.outs[0]


def engine_files(lowerings: Sequence[Lowering]) -> dict[str, bytes]:
    """One ``.bin`` per engine: the bundles of its instructions in program order."""
    parts: dict[str, list[bytes]] = {}
    for lowering in lowerings:
        for index, item in enumerate(lowering.instructions):
            start, stop = lowering.starts[index], lowering.starts[index + 1]
            parts.setdefault(item.engine, []).append(lowering.stream.words[start:stop].tobytes())
    return {f"{engine}.bin": b"".join(chunks) for engine, chunks in sorted(parts.items())}
