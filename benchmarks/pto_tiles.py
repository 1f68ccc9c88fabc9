"""Speed of a PTO program on 1,000 f32 tiles of 128×128 against NumPy: python benchmarks/pto_tiles.py."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from lanefold.pto import Tile, execute, parse

TILES, SIDE, ROUNDS = 1000, 128, 7
FULL = f"!pto.tile<f32, {SIDE}, {SIDE}>"
COLUMN = f"!pto.tile<loc=vec, f32, {SIDE}, 1, ColMajor, NoneBox, None, Null>"
INDEX = COLUMN.replace("f32", "i32")
LINE = f"!pto.tile<f32, 1, {SIDE}>"
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


def best(work: Callable[[], object]) -> float:
    """Shortest of some runs, in seconds."""
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> None:
    """Print one line per operation."""
    generator = np.random.default_rng(1)
    x = generator.standard_normal((TILES, SIDE, SIDE), np.float32)
    column = generator.standard_normal((TILES, SIDE, 1), np.float32)
    row = generator.standard_normal((TILES, 1, SIDE), np.float32)
    wide = x.astype(np.float64)
    per_row, per_column = (COLUMN, VECTOR), (LINE, ROW)
    cases = {
        "TROWSUM": (program("trowsum", COLUMN, VECTOR), None, lambda: x.sum(axis=2)),
        "TROWMAX": (program("trowmax", COLUMN, VECTOR), None, lambda: x.max(axis=2)),
        "TCOLSUM": (program("tcolsum", LINE, ROW), None, lambda: x.sum(axis=1)),
        "TCOLMAX": (program("tcolmax", LINE, ROW), None, lambda: x.max(axis=1)),
        "TROWARGMAX": (program("trowargmax", INDEX, f"{SIDE}x1xi32"), None, lambda: x.argmax(axis=2)),
        "TROWEXPANDADD": (program("trowexpandadd", FULL, MATRIX, per_row), column, lambda: x + column),
        "TCOLEXPANDMUL": (program("tcolexpandmul", FULL, MATRIX, per_column), row, lambda: x * row),
        "TROWEXPANDEXPDIF": (program("trowexpandexpdif", FULL, MATRIX, per_row), column, lambda: np.exp(wide)),
    }
    print(f"{'':20}{'lanefold':>12}{'tile bytes':>14}{'NumPy':>12}")
    for name, (text, second, numpy_work) in cases.items():
        ready = parse(text)
        arrays = {"gx": x} if second is None else {"gx": x, "gy": second}
        ready.run(arrays)
        ours = best(lambda ready=ready, arrays=arrays: ready.run(arrays))
        theirs = best(numpy_work)
        print(f"{name:20}{ours * 1e3:9.2f} ms{x.nbytes / ours / 1e9:9.1f} GB/s{theirs * 1e3:9.2f} ms")
    tile, result = Tile(x[0]), Tile("f32", SIDE, 1, layout="DN")
    execute("TROWSUM", result, tile)
    count = 2000
    start = time.perf_counter()
    for _ in range(count):
        execute("TROWSUM", result, tile)
    print(f"one TROWSUM on one tile: {(time.perf_counter() - start) / count * 1e6:.1f} µs")


if __name__ == "__main__":
    main()
