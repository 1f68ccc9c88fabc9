"""Speed of TPB streams on one core: decode, encode, check, text both ways, beside a plain struct loop."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable

import numpy as np
from harness import Table, arguments, publish

from lanefold import tpb
from lanefold.tpb.binary import encode_columns

BUNDLES = 1_000_000
TEXT_BUNDLES = 200_000
ASSEMBLED = 20_000
ROUNDS = 5


def columns(name: str, count: int, seed: int) -> dict[str, object]:
    """Columns of a plausible stream: every bundle at its own address, a few patterns, most of them waiting."""
    random = np.random.default_rng(seed)
    patterns = np.array([[[1, 4, 2, 8], [2, 2, 2, 2]], [[1, 64, 1, 1], [64, 8, 1, 1]], [[1, 8, 1, 1], [8, 8, 1, 1]]])
    chosen = patterns[random.integers(0, len(patterns), count)]
    common: dict[str, object] = {
        "src.start_addr": (random.integers(0, 4, count) * 32 << 18 | random.integers(0, 0x8000, count) * 4).astype(
            "u4"
        ),
        "src.step_elem": chosen[:, 0].astype("i2"),
        "src.num_elem": chosen[:, 1].astype("u2"),
        "dst.start_addr": (random.integers(0, 0x8000, count) * 4).astype("u4"),
        "dst.step_elem": chosen[:, 0].astype("i2"),
        "dst.num_elem": chosen[:, 1].astype("u2"),
        "in_dtype": np.full(count, 10, "u1"),
        "out_dtype": np.full(count, 10, "u1"),
        "num_active_channels": np.full(count, 128, "u1"),
        "wait_mode": np.full(count, 5, "u1"),
        "wait_idx": random.integers(0, 16, count).astype("u1"),
        "semaphore_value": np.arange(count, dtype="u4"),
    }
    if name == "pool":
        return common | {"pool_func": np.full(count, 1, "u1"), "pool_scale": np.full(count, 1.0, "f4")}
    return common | {"op": np.full(count, 4, "u1"), "op_dim": np.full(count, 3, "u1")}


def rate(count: int, run: Callable[[], object], rounds: int = ROUNDS) -> float:
    """Bundles per second, best of several rounds."""
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
    return count / best


def plain_loop(raw: bytes) -> int:
    """What a script without a library does: one unpack per bundle, fields by number."""
    unpack = struct.Struct("<4B4BIIhhhhHHHH8BfIhhhhHHHH").unpack_from
    waiting = 0
    for offset in range(0, len(raw), 64):
        waiting += unpack(raw, offset)[4] != 0
    return waiting


def decode_all(raw: bytes) -> int:
    """Decodes, classifies every bundle, and reaches each field of both structs as a column."""
    stream = tpb.decode(raw)
    kinds = stream.kinds
    for struct_name in ("S4D4_PL", "S4D4_TR"):
        view = stream.columns(struct_name)
        for field in view.dtype.names or ():
            view[field]
    return int(kinds[-1])


def legal_columns(name: str, count: int, seed: int) -> dict[str, object]:
    """Columns of a stream that every rule passes: random places and counts, source and destination apart."""
    random = np.random.default_rng(seed)
    outputs, window = random.integers(1, 64, count), random.integers(1, 9, count)
    ones = np.ones(count, "i8")
    common: dict[str, object] = {
        "src.start_addr": (random.integers(0, 0x4000, count) * 4).astype("u4"),
        "src.step_elem": np.stack([ones, window, window * 2, ones], 1).astype("i2"),
        "src.num_elem": np.stack([window, 2 * ones, outputs, ones], 1).astype("u2"),
        "dst.start_addr": (0x20000 + random.integers(0, 0x1000, count) * 4).astype("u4"),
        "dst.step_elem": np.ones((count, 4), "i2"),
        "dst.num_elem": np.stack([outputs, ones, ones, ones], 1).astype("u2"),
        "in_dtype": random.choice(np.array([6, 10], "u1"), count),
        "out_dtype": np.full(count, 10, "u1"),
        "num_active_channels": random.integers(65, 129, count).astype("u1"),
    }
    if name == "pool":
        fields = {"pool_func": np.full(count, 1, "u1"), "pool_dim": np.full(count, 3, "u1")}
        return common | fields | {"pool_scale": np.full(count, 1.0, "f4")}
    return common | {"op": random.choice(np.array([4, 6, 8, 9], "u1"), count), "op_dim": np.full(count, 3, "u1")}


def legal_stream() -> tpb.Stream:
    """Pools and reductions in turn, none with a finding beyond the note on the reading."""
    half = BUNDLES // 2
    words = [encode_columns(name, legal_columns(name, half, 3)).words for name in ("pool", "tensor_reduce_arith")]
    stream = tpb.decode(np.stack(words, axis=1).reshape(-1, 64))
    found = {finding.severity for finding in tpb.check(stream)}
    if found - {"info"}:
        raise SystemExit(f"the stream to check is not legal: {found}")
    return stream


def main() -> None:
    """Prints one table."""
    given = arguments(__doc__).parse_args()
    half = BUNDLES // 2
    pool, reduce = columns("pool", half, 1), columns("tensor_reduce_arith", half, 2)
    words = np.stack([encode_columns("pool", pool).words, encode_columns("tensor_reduce_arith", reduce).words], axis=1)
    raw = words.reshape(-1, 64).tobytes()
    part = tpb.decode(raw[: 64 * TEXT_BUNDLES])
    text = tpb.disassemble(part[:ASSEMBLED])
    tpb.assemble(text)
    legal = legal_stream()
    plain = rate(BUNDLES, lambda: plain_loop(raw), 2)
    decoded = rate(BUNDLES, lambda: decode_all(raw))
    goals: list[tuple[str, float, float]] = [
        ("plain struct.unpack_from loop", plain, 0.0),
        ("decode, classify, all fields as columns", decoded, max(20e6, 8 * plain)),
        ("encode from columns (pool)", rate(half, lambda: encode_columns("pool", pool)), 10e6),
        ("check every rule (legal stream)", rate(BUNDLES, lambda: tpb.check(legal), 3), 2e6),
        ("disassemble to text", rate(TEXT_BUNDLES, lambda: tpb.disassemble(part), 3), 3e5),
        ("assemble from text", rate(ASSEMBLED, lambda: tpb.assemble(text), 2), 0.0),
    ]
    rows = [(name, f"{found / plain:.2f}", f"{found:,.0f}", _goal(found, least)) for name, found, least in goals]
    heads = ("work", "times the plain loop", "bundles per second", "required")
    notes = ["One core. Decoding is required to reach 20 million bundles per second and 8 times the plain loop."]
    publish(Table("tpb_streams", "TPB streams", heads, rows, notes), given.markdown)


def _goal(found: float, least: float) -> str:
    if not least:
        return "–"
    return f"{least:,.0f}" + ("" if found >= least else " (missed)")


if __name__ == "__main__":
    main()
