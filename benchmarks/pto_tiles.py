"""Speed of a PTO program on 1,000 f32 tiles of 128×128 against NumPy: python benchmarks/pto_tiles.py."""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np
from harness import Table, arguments, interleaved, publish, reading, second_core

from lanefold.pto import Program, Tile, execute, parse

TILES, SIDE, ROUNDS = 1000, 128, 3
FULL = f"!pto.tile<f32, {SIDE}, {SIDE}>"
COLUMN = f"!pto.tile<loc=vec, f32, {SIDE}, 1, ColMajor, NoneBox, None, Null>"
INDEX = COLUMN.replace("f32", "i32")
LINE = f"!pto.tile<f32, 1, {SIDE}>"
X = np.random.default_rng(1).standard_normal((TILES, SIDE, SIDE), np.float32)
MATRIX, VECTOR, ROW = f"{SIDE}x{SIDE}xf32", f"{SIDE}x1xf32", f"1x{SIDE}xf32"


def program(op: str, result: str, memory: str, second: tuple[str, str] | None = None) -> str:
    """One load or two, one operation, one store."""
    lines = [f"%x = tload %gx[0, 0] : (!pto.memref<{MATRIX}>, index, index) -> {FULL}"]
    operands, types = "%x", FULL
    if second is not None:
        lines.append(f"%y = tload %gy[0, 0] : (!pto.memref<{second[1]}>, index, index) -> {second[0]}")
        operands, types = "%x, %y", f"{FULL}, {second[0]}"
    lines.append(f"%z = {op} {operands} : {types} -> {result}")
    lines.append(f"tstore %z, %gz[0, 0] : ({result}, !pto.memref<{memory}>, index, index)")
    return "\n".join(lines)


def threaded(count: int, work: Callable[[], object]) -> Callable[[], object]:
    """The work on so many cores."""

    def run() -> None:
        os.environ["LANEFOLD_THREADS"] = str(count)
        work()

    return run


def cases() -> dict[str, tuple[str, np.ndarray | None, Callable[[], object]]]:
    """Program text, second operand, and the same in NumPy, by operation; the first operand is ``X``."""
    generator = np.random.default_rng(2)
    column = generator.standard_normal((TILES, SIDE, 1), np.float32)
    row = generator.standard_normal((TILES, 1, SIDE), np.float32)
    wide = X.astype(np.float64)
    per_row, per_column = (COLUMN, VECTOR), (LINE, ROW)
    return {
        "TROWSUM": (program("trowsum", COLUMN, VECTOR), None, lambda: X.sum(axis=2)),
        "TROWMAX": (program("trowmax", COLUMN, VECTOR), None, lambda: X.max(axis=2)),
        "TCOLSUM": (program("tcolsum", LINE, ROW), None, lambda: X.sum(axis=1)),
        "TCOLMAX": (program("tcolmax", LINE, ROW), None, lambda: X.max(axis=1)),
        "TROWARGMAX": (program("trowargmax", INDEX, f"{SIDE}x1xi32"), None, lambda: X.argmax(axis=2)),
        "TROWEXPANDADD": (program("trowexpandadd", FULL, MATRIX, per_row), column, lambda: X + column),
        "TCOLEXPANDMUL": (program("tcolexpandmul", FULL, MATRIX, per_column), row, lambda: X * row),
        "TROWEXPANDEXPDIF": (program("trowexpandexpdif", FULL, MATRIX, per_row), column, lambda: np.exp(wide)),
    }


def main() -> None:
    """Print one line per operation: against NumPy on one core, on one core and on two."""
    given = arguments(__doc__).parse_args()
    rows = []
    for name, (text, second, numpy_work) in cases().items():
        ready = parse(text)
        arrays = {"gx": X} if second is None else {"gx": X, "gy": second}

        def ours(ready: Program = ready, arrays: dict[str, np.ndarray] = arrays) -> None:
            ready.run(arrays)

        works = {"one": threaded(1, ours), "two": threaded(2, ours), "numpy": numpy_work}
        found = interleaved({**works, "read": reading(X.nbytes)}, ROUNDS)
        ratios = [f"{found['numpy'] / found[each]:.2f}" for each in ("one", "two")]
        times = [f"{found[each] * 1e3:.2f}" for each in ("one", "two", "numpy")]
        rate = f"{X.nbytes / found['one'] / 1e9:.1f}"
        rows.append((name, *ratios, *times, rate, f"{found['read'] / found['one']:.0%}"))
    tile, result = Tile(X[0]), Tile("f32", SIDE, 1, layout="DN")
    count = 2000
    spent = interleaved({"one": lambda: [execute("TROWSUM", result, tile) for _ in range(count)]}, ROUNDS)["one"]
    columns = (
        "operation", "ratio, one core", "ratio, two cores", "one core, ms", "two cores, ms", "NumPy, ms",
        "tile bytes, GB/s", "of read bandwidth",
    )  # fmt: skip
    notes = [
        f"{TILES:,} f32 tiles of {SIDE}×{SIDE}, against NumPy in one thread.",
        "Share of read bandwidth: one core, beside a pass over the tiles that only reads.",
        second_core(),
        f"One TROWSUM on one tile: {spent / count * 1e6:.1f} µs.",
    ]
    publish(Table("pto_tiles", "PTO tiles", columns, rows, notes), given.markdown)


if __name__ == "__main__":
    main()
