"""What a field of one bundle means beside its neighbours: what a value is used for, how far a walk reaches."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from lanefold.diagnostics import LanefoldError
from lanefold.numerics import dtypes
from lanefold.tpb import isa
from lanefold.tpb.binary import layout
from lanefold.tpb.binary.stream import Bundle
from lanefold.tpb.patterns import locate


def note(bundle: Bundle, name: str) -> str:
    """What this bundle uses a field for, "" where there is nothing to add to the field's own meaning."""
    if name == "semaphore_value":
        return _value(bundle)
    if name in ("wait_idx", "update_idx"):
        return _index(bundle, name.partition("_")[0])
    if name in ("pool_dim", "op_dim"):
        return _folded(bundle, name)
    return ""


def _mode(bundle: Bundle, side: str) -> tuple[int, str]:
    number = int(bundle.record[f"{side}_mode"])
    return number, next((value.name for value in isa.ENUMS[f"{side}_mode"] if value.number == number), "")


def _value(bundle: Bundle) -> str:
    uses = []
    for side, needing, use in (
        ("wait", isa.WAIT_NEEDS_VALUE, "the wait compares with it"),
        ("update", isa.UPDATE_NEEDS_VALUE, "the update takes it"),
    ):
        number, name = _mode(bundle, side)
        if number in needing:
            uses.append(f"{use}, a register number" if "_REG" in name else use)
    return " and ".join(uses) or "not used by these modes"


def _index(bundle: Bundle, side: str) -> str:
    number, name = _mode(bundle, side)
    if not number or name == "UNORDERED":
        return "not used by this mode"
    kinds = {"SEM": "a semaphore", "EVT": "an event"}
    return kinds.get(name.partition("_")[0], "")


def _folded(bundle: Bundle, name: str) -> str:
    slots = isa.FOLDED_SLOTS.get(int(bundle.record[name]))
    word = int(bundle.record["src"]["start_addr"])
    indirect = word & isa.INDIRECT_BIT and layout.indirect_exists(bundle.generation)
    if slots is None or indirect or word & isa.SHAPE_REGISTER_BIT:
        return ""
    nums = bundle.record["src"]["num_elem"].tolist()[:slots]
    product = math.prod(nums)
    return f"{' × '.join(map(str, nums))} = {product} elements each" if slots > 1 else f"{product} elements each"


def reach(bundle: Bundle, name: str, steps: list[int], nums: list[int]) -> str:
    """How many elements a walk has per partition, and which bytes of a partition it touches, where both are known."""
    word = int(bundle.record[name]["start_addr"])
    if word & isa.SHAPE_REGISTER_BIT:
        return "a register says how many"
    count = math.prod(nums)
    told = f"{count} element{'s' * (count != 1)} per partition"
    size = _element_bytes(bundle, name)
    if word & (isa.ADDRESS_REGISTER_BIT | isa.INDIRECT_BIT) or not (count and size):
        return told
    byte = locate(word, bundle.generation).byte
    ends = [step * (num - 1) for step, num in zip(steps, nums, strict=True)]
    first = byte + size * sum(min(end, 0) for end in ends)
    last = byte + size * sum(max(end, 0) for end in ends) + size - 1
    return f"{told}, between bytes 0x{max(first, 0):X} and 0x{last:X}" if first >= 0 else told


def _element_bytes(bundle: Bundle, name: str) -> int:
    """Bytes of an element of an operand, 0 where its type means nothing."""
    role = next((role for role in bundle.row.roles if role.field == name), None) if bundle.row else None
    if role is None:
        return 0
    try:
        return dtypes.by_tag(int(bundle.record[role.dtype_field]), bundle.generation).bytes
    except LanefoldError:
        return 0


def misfits(bundle: Bundle) -> Iterator[str]:
    """What about the bytes contradicts the struct that the reading gives them."""
    row = bundle.row
    if row is None:
        yield f"opcode 0x{bundle.opcode:02X} is not of this leg"
        return
    record = bundle.record
    if int(record["inst_word_len"]) != isa.WORD_LENGTH:
        yield f"inst_word_len is {int(record['inst_word_len'])}"
    for field in isa.STRUCTS[row.struct].fields:
        value = record[field.name]
        if field.kind is isa.Kind.RESERVED:
            if np.any(value):
                yield f"reserved bytes from +0x{field.offset:02X} are not zero"
        elif field.name in row.allowed and value.tolist() not in row.allowed[field.name]:
            yield f"{field.name} is {value.tolist()}"


def elsewhere(opcode: int) -> str:
    """Where an opcode that a reading does not know is an instruction of this leg."""
    found = [
        f"{row.mnemonic} on {', '.join(row.generations)} with opcodes {reading}"
        for row in isa.BUNDLES
        for reading in isa.READINGS
        if row.opcode(reading) == opcode
    ]
    return "; ".join(dict.fromkeys(found))
