"""Legal bundles of every instruction, packed by hand, and ways to change single fields of them."""

from __future__ import annotations

import struct
from typing import Any

from lanefold.tpb import Stream, decode

PSUM = 0x2000000
OTHER = 0x10000  # a place of its own in partition 0

# Offsets of the fields, written down again from the struct sheets.
SCALARS: dict[str, dict[str, tuple[int, str]]] = {
    "S4D4_PL": {"pool_func": (0x24, "B"), "pool_dim": (0x25, "B"), "pool_scale": (0x28, "f")},
    "S4D4_TR": {"negated": (0x23, "B"), "op": (0x24, "B"), "op_dim": (0x25, "B"), "mask_enable": (0x26, "B")},
    "S4D4_CR": {"reduce_op": (0x23, "B"), "reduce_axis": (0x24, "B"), "scale": (0x28, "f")},
    "S4D2_BN": {"even_count": (0x28, "f"), "odd_count": (0x2C, "f")},
    "S2_BN": {"imm1": (0x1C, "I"), "dtype": (0x20, "B"), "imm0_ptr": (0x2C, "I"), "imm0_src": (0x30, "B")},
    "S4D4_MR": {"immediate": (0x28, "f")},
    "D4_IOTA": {
        "base": (0x0C, "i"),
        "step_elem": (0x10, "4h"),
        "num_elem": (0x18, "4H"),
        "channel_multiplier": (0x24, "i"),
    },
    "S4_PB": {"start_index": (0x28, "I"), "mask": (0x2C, "I")},
    "S4D4_GT": {"index_miss_behavior": (0x24, "B"), "free_pool_buffer": (0x25, "B"), "immediate": (0x28, "I")},
}
COMMON: dict[str, tuple[int, str]] = {
    "opcode": (0, "B"),
    "inst_word_len": (1, "B"),
    "debug_cmd": (2, "B"),
    "debug_hint": (3, "B"),
    "wait_mode": (4, "B"),
    "wait_idx": (5, "B"),
    "update_mode": (6, "B"),
    "update_idx": (7, "B"),
    "semaphore_value": (8, "I"),
    "in_dtype": (0x20, "B"),
    "out_dtype": (0x21, "B"),
    "num_active_channels": (0x22, "B"),
}
DESCRIPTORS: dict[str, dict[str, tuple[int, int]]] = {
    "S4D2_BN": {"src": (0x0C, 4), "dst": (0x30, 2)},
    "S2_BN": {"src": (0x10, 2)},
    "D4_IOTA": {"dst": (0x2C, 4)},
    "S4_PB": {"src": (0x0C, 4)},
}
RESERVED: dict[str, dict[str, tuple[int, int]]] = {
    "S4D4_PL": {"reserved0": (0x23, 1), "reserved1": (0x26, 2)},
    "S4D4_TR": {"reserved": (0x27, 5)},
    "S4D4_CR": {"reserved": (0x25, 3)},
    "S4D2_BN": {"reserved0": (0x23, 5), "reserved1": (0x3C, 4)},
    "S2_BN": {
        "reserved0": (0x0C, 4),
        "reserved1": (0x21, 1),
        "reserved2": (0x23, 9),
        "reserved3": (0x31, 15),
    },
    "S4D4_MR": {"reserved": (0x23, 5)},
    "D4_IOTA": {"reserved0": (0x20, 1), "reserved1": (0x23, 1), "reserved2": (0x28, 4)},
    "S4_PB": {"reserved0": (0x21, 1), "reserved1": (0x23, 5), "reserved2": (0x30, 16)},
    "S4D4_GT": {"reserved0": (0x23, 1), "reserved1": (0x26, 2)},
}

OPCODES: dict[str, dict[str, int]] = {
    "reference": {
        "tensor_reduce_arith": 0x7C,
        "tensor_reduce_bitvec": 0x7D,
        "cross_lane_reduce_arith": 0x42,
        "cross_lane_reduce_bitvec": 0x52,
        "transpose_cross_lane_reduce_arith": 0x83,
        "transpose_cross_lane_reduce_bitvec": 0x84,
    },
    "headers": {
        "tensor_reduce_arith": 0x42,
        "tensor_reduce_bitvec": 0x52,
        "transpose_tensor_reduce_arith": 0x83,
        "transpose_tensor_reduce_bitvec": 0x84,
        "cross_lane_reduce_arith": 0x7C,
        "cross_lane_reduce_bitvec": 0x7D,
    },
}
SAME = {
    "pool": 0x45,
    "max_pool_select": 0x58,
    "tensor_reduce_add_bf16": 0x8C,
    "tensor_reduce_max_bf16": 0x8D,
    "reciprocal": 0x48,
    "max8": 0x6C,
    "match_value_load": 0x6D,
    "find_index8": 0x6E,
    "match_replace8": 0x6F,
    "iota": 0x7E,
    "pool_buffer_load": 0x67,
    "gather": 0x68,
}
for _own in OPCODES.values():
    _own.update(SAME)


def struct_of(name: str) -> str:
    """Wire struct of an instruction."""
    if "cross_lane" in name:
        return "S4D4_CR"
    if "tensor_reduce" in name or name == "reciprocal":
        return "S4D4_TR"
    return {
        "pool": "S4D4_PL",
        "max_pool_select": "S4D4_PL",
        "max8": "S4D2_BN",
        "find_index8": "S4D2_BN",
        "match_value_load": "S2_BN",
        "match_replace8": "S4D4_MR",
        "iota": "D4_IOTA",
        "pool_buffer_load": "S4_PB",
        "gather": "S4D4_GT",
    }[name]


def _walk(start: int, *pairs: tuple[int, int], slots: int = 4) -> dict[str, Any]:
    padded = [*pairs, *([(1, 1)] * (slots - len(pairs)))]
    return {"start_addr": start, "step_elem": [s for s, _ in padded], "num_elem": [n for _, n in padded]}


def _legal(name: str) -> dict[str, Any]:
    typed: dict[str, Any] = {"in_dtype": 10, "out_dtype": 10, "num_active_channels": 32}
    if "cross_lane" in name:
        bits = name.endswith("bitvec")
        kinds = {"in_dtype": 5, "out_dtype": 5} if bits else {}
        walks = {"src": _walk(0, (1, 64)), "dst": _walk(OTHER, (1, 64))}
        return typed | kinds | walks | {"reduce_op": 3 if bits else 0, "reduce_axis": 1}
    if "tensor_reduce" in name:
        kinds = {"in_dtype": 9, "out_dtype": 9, "op": 0x0B} if name.endswith("bitvec") else {"op": 4}
        if name.endswith("bf16"):
            kinds = {"in_dtype": 6, "op": 4 if "add" in name else 8}
        walks = {"src": _walk(0, (1, 32), (32, 8)), "dst": _walk(OTHER, (1, 8))}
        return typed | kinds | walks | {"op_dim": 2}
    pooled = {"src": _walk(0, (1, 2), (16, 2), (2, 8), (32, 4)), "dst": _walk(OTHER, (1, 8), (8, 4))}
    plain = {"src": _walk(0, (1, 64)), "dst": _walk(OTHER, (1, 64))}
    eight = _walk(OTHER, (1, 8), slots=2)
    own: dict[str, dict[str, Any]] = {
        "pool": pooled | {"pool_func": 1, "pool_dim": 3, "pool_scale": 1.0},
        "max_pool_select": pooled | {"pool_func": 0, "pool_dim": 3, "pool_scale": 1.0, "out_dtype": 9},
        "reciprocal": plain,
        "max8": {"src": _walk(0, (1, 64)), "dst": _walk(OTHER + 28, (-1, 8), slots=2)},
        "match_value_load": {"src": _walk(OTHER + 28, (-1, 8), slots=2), "dtype": 10},
        "find_index8": {"src": _walk(0, (1, 64)), "dst": eight, "out_dtype": 9},
        "match_replace8": plain | {"immediate": -1.0},
        "iota": {
            "base": 5,
            "step_elem": [1, 100, 1, 1],
            "num_elem": [32, 2, 1, 1],
            "channel_multiplier": 1000,
            "out_dtype": 8,
            "dst": _walk(OTHER, (1, 64)),
        },
        "pool_buffer_load": {"src": _walk(0, (1, 512)), "start_index": 512, "mask": 511},
        "gather": plain | {"in_dtype": 9, "index_miss_behavior": 1},
    }
    return typed | own[name]


def _put(word: bytearray, name: str, path: str, value: Any) -> None:
    kind = struct_of(name)
    descriptors = DESCRIPTORS.get(kind, {"src": (0x0C, 4), "dst": (0x2C, 4)})
    scalars = COMMON | SCALARS[kind]
    reserved = RESERVED[kind]
    head, _, part = path.partition(".")
    if head in descriptors:
        base, slots = descriptors[head]
        parts = [(part, value)] if part else list(value.items())
        for key, inner in parts:
            offset, form = {
                "start_addr": (0, "I"),
                "step_elem": (4, f"{slots}h"),
                "num_elem": (4 + 2 * slots, f"{slots}H"),
                "data_addr": (4, "I"),
                "count": (8, "H"),
                "num_elem_indirect": (8, "H"),
                "reserved": (10, "10B"),
            }[key]
            struct.pack_into(f"<{form}", word, base + offset, *(inner if isinstance(inner, list) else [inner]))
    elif path in reserved:
        offset, size = reserved[path]
        word[offset : offset + size] = bytes(value)
    else:
        offset, form = scalars[path]
        if kind in ("S2_BN", "D4_IOTA", "S4_PB") and path in ("in_dtype", "out_dtype") and path not in _legal(name):
            return
        struct.pack_into(f"<{form}", word, offset, *(value if isinstance(value, list) else [value]))


def _applies(name: str, path: str) -> bool:
    missing = {"S2_BN": ("in_dtype", "out_dtype"), "D4_IOTA": ("in_dtype",), "S4_PB": ("out_dtype",)}
    return path not in missing.get(struct_of(name), ())


def bundle(name: str, reading: str = "reference", **changes: Any) -> bytes:
    """A legal bundle of an instruction, with fields changed; ``__`` stands for the dot of a path."""
    word = bytearray(64)
    _put(word, name, "opcode", OPCODES[reading][name])
    _put(word, name, "inst_word_len", 16)
    for path, value in {**_legal(name), **{k.replace("__", "."): v for k, v in changes.items()}}.items():
        if _applies(name, path):
            _put(word, name, path, value)
    return bytes(word)


def changed(word: bytes, name: str, changes: dict[str, Any]) -> bytes:
    """A bundle with the fields of a cure set."""
    made = bytearray(word)
    for path, value in changes.items():
        _put(made, name, path, value)
    return bytes(made)


def stream(*bundles: bytes, generation: str = "v2", reading: str = "reference", engine: str = "") -> Stream:
    """A stream of bundles, bound to an engine where one is given."""
    made = decode(b"".join(bundles), generation, reading)
    made.engine = engine
    return made
