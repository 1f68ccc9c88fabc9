"""The simulator against a slow scalar model written from the rules of the numerics, on random calls."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from lanefold.diagnostics import LanefoldError
from lanefold.pto import Tile, check, execute
from lanefold.pto.isa import OPERATIONS, Family, Operation

Array = np.ndarray[Any, Any]

NUMPY = {
    "f32": np.float32,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    **{
        f"{sign}{bits}": np.dtype(f"{word}{bits}").type
        for sign, word in (("i", "int"), ("u", "uint"))
        for bits in (8, 16, 32, 64)
    },
}
LAYOUTS = ("ND", "DN", "NZ", "ZN", "ZZ")
SPECIAL = [0.0, -0.0, math.inf, -math.inf, math.nan, 1e-40, -1e-7, 6.5e4, -6.5e4, 1.0, 1.0]


def bits(values: Array) -> Array:
    return np.ascontiguousarray(values).view(f"u{values.dtype.itemsize}")


def same(found: Array, wanted: Array) -> bool:
    return bool(np.all((bits(found) == bits(wanted)) | ((found != found) & (wanted != wanted))))


def values(rng: np.random.Generator, name: str, shape: tuple[int, int]) -> Array:
    dtype = NUMPY[name]
    if name in ("f32", "f16", "bf16"):
        data = rng.standard_normal(shape) * 10.0 ** rng.integers(-3, 4)
        mask = rng.random(shape) < rng.choice([0.0, 0.3])
        data[mask] = rng.choice(SPECIAL, mask.sum())
        with np.errstate(all="ignore"):
            return data.astype(np.float32).astype(dtype)
    limits = np.iinfo(dtype)
    wide = rng.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True)
    return wide if rng.random() < 0.5 else rng.integers(0, 4, shape).astype(dtype)


# --- the scalar model ------------------------------------------------------------------------------------------------


def wrap(value: int, name: str) -> int:
    limits = np.iinfo(NUMPY[name])
    span = int(limits.max) - int(limits.min) + 1
    return (value - int(limits.min)) % span + int(limits.min)


def fold(line: list[Any], op: Operation, source: str, result: str) -> Any:
    if source[0] in "iu":
        total = 0 if op.operator == "sum" else 1
        for x in line:
            total = wrap(total + int(x) if op.operator == "sum" else total * int(x), result)
        return NUMPY[result](total)
    inside = NUMPY["f32"] if op.name == "TROWSUM" else NUMPY[result]
    total = inside(0 if op.operator == "sum" else 1)
    for x in line:
        exact = np.float32(total) + np.float32(x) if op.operator == "sum" else np.float32(total) * np.float32(x)
        total = inside(exact)
    return NUMPY[result](total)


def first_extreme(line: list[Any], minimum: bool) -> int:
    best = 0
    for j, x in enumerate(line):
        if (x < line[best]) if minimum else (x > line[best]):
            best = j
    return best


def quotient(a: int, b: int) -> int:
    size = abs(a) // abs(b)
    return size if (a < 0) == (b < 0) else -size


def combine(op: str, a: Any, b: Any, name: str) -> Any:
    if op == "max":
        return b if b > a else a
    if op == "min":
        return b if b < a else a
    if name[0] in "iu":
        x, y = int(a), int(b)
        return NUMPY[name](
            wrap({"add": x + y, "sub": x - y, "mul": x * y}.get(op, 0) if op != "div" else quotient(x, y), name)
        )
    x, y = np.float32(a), np.float32(b)
    if op == "expdif":
        difference = NUMPY[name](x - y)
        return NUMPY[name](np.float32(exponential(float(difference))))
    return NUMPY[name]({"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}[op](x, y))


def exponential(x: float) -> float:
    try:
        return math.exp(x)
    except OverflowError:
        return math.inf


def model(op: Operation, sources: list[Array], result: str, shape: tuple[int, int]) -> list[Array]:
    rows, cols = shape
    if op.reduces:
        lines = sources[0] if op.axis == "row" else sources[0].T
        lists = [list(line) for line in lines]
        place = (len(lists), 1) if op.axis == "row" else (1, len(lists))
        name = next(key for key, kind in NUMPY.items() if kind == sources[0].dtype.type)
        if op.operator in ("sum", "prod"):
            return [np.array([fold(line, op, name, result) for line in lists], NUMPY[result]).reshape(place)]
        index = [first_extreme(line, op.operator == "min") for line in lists]
        picked = np.array([line[j] for line, j in zip(lists, index, strict=True)], sources[0].dtype)
        return [picked.astype(NUMPY[result]).reshape(place), np.array(index).reshape(place)]
    out = np.empty(shape, NUMPY[result])
    for i in range(rows):
        for j in range(cols):
            picks = [s[i if s.shape[0] > 1 else 0, j % s.shape[1]] for s in sources]
            out[i, j] = picks[0] if len(picks) == 1 else combine(op.operator, *picks, result)
    return [out]


# --- random calls ----------------------------------------------------------------------------------------------------


def tile(rng: np.random.Generator, name: str, rows: int, cols: int, layout: str) -> Tile:
    """A tile of a capacity that the layout allows, poisoned outside its valid region."""
    unit = 32 // np.dtype(NUMPY[name]).itemsize
    box = {"ND": (1, unit), "DN": (unit, 1), "NZ": (16, unit), "ZN": (unit, 16), "ZZ": (16, unit)}[layout]
    high = -(-rows // box[0]) * box[0]
    wide = -(-cols // box[1]) * box[1]
    if rng.random() < 0.5 and not (layout == "DN" and cols == 1):
        high, wide = high + box[0], wide + box[1]
    made = Tile(name, high, wide, rows, cols, layout)
    made.array[...] = 3 if name[0] in "iu" else np.nan
    return made


def filled(rng: np.random.Generator, name: str, rows: int, cols: int, layout: str) -> Tile:
    made = tile(rng, name, rows, cols, layout)
    made.valid[...] = values(rng, name, (rows, cols))
    return made


def pick_layout(rng: np.random.Generator, op: Operation, role: str) -> str:
    rule = op.support["cpu"].layouts.get(role)
    return str(rng.choice(rule.layouts if rule else ("ND",)))


def make(
    rng: np.random.Generator, op: Operation, source: str, result: str
) -> tuple[list[Tile], list[Tile], list[Array]]:
    """Outputs and sources of a random legal call, and the sources as the model wants them."""
    rows, cols = (int(v) for v in rng.integers(1, 40, 2))
    if op.reduces:
        place = (rows, 1) if op.axis == "row" else (1, cols)
        src = filled(rng, source, rows, cols, pick_layout(rng, op, "src"))
        out = tile(rng, result, *place, pick_layout(rng, op, "dst") if not op.arg else "ND")
        return [out], [src], [src.valid.copy()]
    out = tile(rng, result, rows, cols, pick_layout(rng, op, "dst"))
    if not op.binary:
        place = (rows, int(rng.integers(1, 5))) if op.axis == "row" else (int(rng.integers(1, 5)), cols)
        src = filled(rng, source, *place, pick_layout(rng, op, "src"))
        return [out], [src], [src.valid[:, :1] if op.axis == "row" else src.valid[:1]]
    order = str(rng.choice(LAYOUTS)) if op.axis == "row" else pick_layout(rng, op, "src0")
    full = filled(rng, source, rows, cols, order)
    if op.axis == "column":
        line = filled(rng, source, 1, cols, pick_layout(rng, op, "src1"))
        return [out], [full, line], [full.valid.copy(), line.valid.copy()]
    unit = 32 // np.dtype(NUMPY[source]).itemsize
    narrow = filled(rng, source, rows, 1, "DN") if rng.random() < 0.5 else filled(rng, source, rows, unit, "ND")
    pair = [full, narrow]
    if rng.random() < 0.4 and cols not in (1, unit):
        pair.reverse()
    return [out], pair, [t.valid.copy() for t in pair]


def safe_divisors(op: Operation, tiles: list[Tile], copies: list[Array]) -> None:
    if op.operator == "div" and tiles[1].dtype[0] in "iu":
        for array in (tiles[1].valid, copies[1]):
            array[...] = np.where((array == 0) | (array == np.array(-1).astype(array.dtype)), 7, array)


PAIRS = [(op, pair) for op in OPERATIONS.values() for pair in sorted(op.support["cpu"].types) if pair[0] == pair[1]]
PAIRS += [
    (OPERATIONS[n], p)
    for n, p in (("TROWSUM", ("f16", "f32")), ("TROWSUM", ("bf16", "f32")), ("TROWSUM", ("i16", "i32")))
]
PAIRS += [(OPERATIONS[n], p) for n in ("TCOLSUM", "TCOLMAX") for p in (("f16", "f32"), ("bf16", "f32"))]
PAIRS += [
    (OPERATIONS[n], p)
    for n in ("TROWMIN", "TCOLMIN", "TROWEXPAND")
    for p in (("u8", "i32"), ("i16", "f32"), ("f16", "f32"))
]


@pytest.mark.parametrize("op", OPERATIONS.values(), ids=lambda op: op.name)
def test_random_calls_agree_with_the_scalar_model(op: Operation) -> None:
    rng = np.random.default_rng(sum(op.name.encode()))
    for _, (source, result) in [entry for entry in PAIRS if entry[0] is op]:
        for _ in range(4 if op.binary else 6):
            outputs, sources, copies = make(rng, op, source, "i32" if op.arg else result)
            if op.name in ("TROWSUM", "TCOLSUM", "TCOLMAX"):
                outputs = [fit_capacity(outputs[0], sources[0], op)]
            safe_divisors(op, sources, copies)
            before = [t.array.copy() for t in outputs]
            execute(op.name, *outputs, *sources)
            with np.errstate(all="ignore"):
                wanted = model(op, copies, result, (outputs[0].valid_rows, outputs[0].valid_cols))
            found = outputs[0].valid
            expected = wanted[1].astype(found.dtype) if op.arg else wanted[0]
            assert same(found, expected), (op.name, source, result, sources)
            untouched = np.ones(outputs[0].array.shape, bool)
            untouched[: found.shape[0], : found.shape[1]] = False
            assert same(outputs[0].array[untouched], before[0][untouched])


def fit_capacity(out: Tile, src: Tile, op: Operation) -> Tile:
    """The same result in a tile with the capacity that these operations want."""
    rows, cols = (src.type.rows, out.type.cols) if op.axis == "row" else (out.type.rows, src.type.cols)
    layout = "ND"
    unit = 32 // out.type.element.bytes
    return (
        Tile(
            out.dtype,
            rows,
            -(-cols // unit) * unit if op.axis == "row" else cols,
            out.valid_rows,
            out.valid_cols,
            layout,
        )
        if (op.axis == "row" or cols % unit == 0)
        else Tile(out.dtype, unit, cols, out.valid_rows, out.valid_cols, "DN")
    )


@pytest.mark.parametrize("name", [n for n, op in OPERATIONS.items() if op.arg])
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16", "i8", "u16", "i64", "u64"])
def test_value_and_index_agree(name: str, dtype: str) -> None:
    op = OPERATIONS[name]
    rng = np.random.default_rng(3)
    src = filled(rng, dtype, 13, 70, "ND")
    place = (13, 1) if op.axis == "row" else (1, 70)
    value, index = tile(rng, dtype, *place, "ND"), tile(rng, "u32", *place, "ND")
    execute(name, value, index, src)
    picked, where = model(op, [src.valid.copy()], dtype, place)
    assert same(value.valid, picked)
    assert np.array_equal(index.valid, where)


@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("TROWARGMAX", [((5, 8), (3, 1), "ND"), ((4, 8), (3, 1), "ND"), ((3, 136), (3, 129), "ND")]),
        ("TROWARGMAX", [((16, 2), (15, 1), "DN"), ((16, 1), (15, 1), "DN"), ((16, 72), (15, 65), "ND")]),
        ("TCOLARGMAX", [((8, 16), (1, 7), "ZN"), ((8, 8), (1, 7), "DN"), ((8, 16), (8, 7), "ND")]),
        ("TCOLARGMAX", [((1, 8), (1, 2), "ND"), ((8, 3), (1, 2), "DN"), ((2, 8), (2, 2), "ND")]),
        ("TROWARGMAX", [((16, 32), (16, 1), "ND"), ((16, 32), (16, 1), "ND"), ((16, 32), (16, 32), "ND")]),
    ],
)
def test_value_and_index_of_whole_numbers_without_scratch(
    name: str, shapes: list[tuple[tuple[int, int], tuple[int, int], str]]
) -> None:
    """All three tiles have one type, and only extents and layouts tell that the source comes last."""
    value, index, src = (Tile("i32", *size, *valid, layout) for size, valid, layout in shapes)
    rows, cols = src.valid.shape
    src.valid[...] = np.random.default_rng(7).permutation(rows * cols).reshape(rows, cols)
    execute(name, value, index, src)
    axis = 1 if name.startswith("TROW") else 0
    assert np.array_equal(value.valid, src.valid.max(axis=axis, keepdims=True))
    assert np.array_equal(index.valid, src.valid.argmax(axis=axis, keepdims=True))


@pytest.mark.parametrize(
    ("index", "src", "tmp"),
    [
        (((32, 8), (29, 1)), ((32, 64), (29, 1)), ((32, 64), (32, 64))),
        (((32, 8), (32, 1)), ((32, 64), (32, 1)), ((32, 64), (32, 64))),
        (((16, 8), (16, 1)), ((16, 16), (16, 1)), ((16, 16), (16, 1))),
    ],
)
def test_index_alone_of_a_single_column_with_scratch(
    index: tuple[tuple[int, int], ...], src: tuple[tuple[int, int], ...], tmp: tuple[tuple[int, int], ...]
) -> None:
    result, source, scratch = (Tile("i32", *size, *valid) for size, valid in (index, src, tmp))
    result.valid[...] = 9
    source.valid[...] = 5
    execute("TROWARGMAX", result, source, scratch)
    assert not result.valid.any()
    assert (source.valid == 5).all()


@pytest.mark.parametrize("dtype", ["f32", "i32", "f16"])
def test_row_expansion_of_two_full_sources(dtype: str) -> None:
    """A block per row as wide as the result is read element by element, whichever source is column-major."""
    cols = 32 // NUMPY[dtype]().itemsize
    first, second = np.arange(16 * cols).reshape(16, cols), np.arange(16 * cols).reshape(16, cols)[::-1] * 2
    for layouts in (("ND", "DN"), ("DN", "ND"), ("ND", "ND")):
        out = Tile(dtype, 16, cols)
        a, b = (Tile(v.astype(NUMPY[dtype]), layout=name) for v, name in zip((first, second), layouts, strict=True))
        execute("TROWEXPANDSUB", out, a, b)
        assert np.array_equal(out.array, (first - second).astype(NUMPY[dtype]))


def test_worked_sums() -> None:
    line = np.full((1, 16), 0, np.float16)
    line[0, :3] = 65504, 65504, -65504
    src = Tile(line, 1, 16, 1, 3)
    out = Tile("f16", 1, 16, 1, 1)
    execute("TROWSUM", out, src)
    assert out.valid[0, 0] == 65504
    column = Tile(np.repeat(line.T[:3], 16, axis=1), 3, 16)
    result = Tile("f16", 1, 16)
    execute("TCOLSUM", result, column)
    assert np.all(np.isposinf(result.valid))


@pytest.mark.parametrize(
    ("line", "index", "value"),
    [
        ([math.nan, 1, 2], 0, math.nan),
        ([1, math.nan, 2], 2, 2.0),
        ([-0.0, 0.0, -1.0], 0, -0.0),
        ([0.0, -0.0, -1.0], 0, 0.0),
        ([-math.inf, math.nan, -math.inf], 0, -math.inf),
    ],
)
def test_maxima_keep_the_first(line: list[float], index: int, value: float) -> None:
    src = Tile(np.array([line + [math.nan] * 5], np.float32), 1, 8, 1, 3)
    out, where = Tile("f32", 1, 8, 1, 1), Tile("i32", 1, 8, 1, 1)
    execute("TROWARGMAX", out, where, src, form="R3")
    assert where.valid[0, 0] == index
    assert same(out.valid, np.array([[value]], np.float32))
    execute("TROWMAX", out, src)
    assert same(out.valid, np.array([[value]], np.float32))


def test_sums_of_negative_zero_are_positive() -> None:
    src = Tile(np.full((8, 8), -0.0, np.float32))
    out = Tile("f32", 8, 1, layout="DN")
    execute("TROWSUM", out, src)
    assert not np.signbit(out.valid).any()


def test_half_exponential_of_every_difference() -> None:
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16).reshape(256, 256)
    zero = Tile("f16", 256, 1, layout="DN")
    out = Tile("f16", 256, 256)
    execute("TROWEXPANDEXPDIF", out, Tile(every), zero)
    with np.errstate(all="ignore"):
        wanted = np.exp(every.astype(np.float64)).astype(np.float32).astype(np.float16)
    assert same(out.valid, wanted)


def test_exponential_rounds_as_the_library_does() -> None:
    rng = np.random.default_rng(5)
    x = np.concatenate([rng.uniform(-110, 95, 6000), rng.standard_normal(2000), SPECIAL, [-150, 88.72284, 89.0]])
    x = np.resize(x, (64, 128)).astype(np.float32)
    out = Tile("f32", 64, 128)
    execute("TROWEXPANDEXPDIF", out, Tile(x), Tile("f32", 64, 1, layout="DN"))
    wanted = np.array([exponential(float(v)) for v in x.ravel()])
    with np.errstate(all="ignore"):
        assert same(out.valid.ravel(), wanted.astype(np.float32))


@pytest.mark.parametrize(("dtype", "divisor"), [("i32", 0), ("u16", 0), ("i32", -1)])
def test_impossible_divisions_are_findings(dtype: str, divisor: int) -> None:
    src = Tile(np.full((8, 16), np.iinfo(NUMPY[dtype]).min, NUMPY[dtype]))
    per_row = Tile(dtype, 16, 1, 8, 1, "DN")
    per_row.array[...] = 3
    per_row.array[2] = divisor
    out = Tile(dtype, 8, 16)
    with pytest.raises(LanefoldError) as caught:
        execute("TROWEXPANDDIV", out, src, per_row)
    finding = caught.value.diagnostics[0]
    assert finding.code == "PTO-DIVIDE-ZERO"
    assert "(2, 0)" in finding.message
    assert np.all(out.array == 0)


def test_short_division_wraps() -> None:
    src = Tile(np.full((1, 16), -32768, np.int16))
    minus = Tile(np.full((1, 16), -1, np.int16))
    out = Tile("i16", 1, 16)
    execute("TCOLEXPANDDIV", out, src, minus)
    assert np.all(out.array == -32768)


def test_undocumented_conversions_are_refused() -> None:
    out, src = Tile("i32", 8, 1, layout="DN"), Tile("f32", 8, 8)
    assert [d.code for d in check("TROWPROD", out, src)] == ["PTO-MIXED-TYPES"]
    with pytest.raises(LanefoldError, match="PTO-CONVERSION"):
        execute("TROWPROD", out, src)


def test_readings_of_the_devices_differ_and_say_so() -> None:
    rng = np.random.default_rng(9)
    src = Tile(rng.standard_normal((16, 512)).astype(np.float32))
    results = {}
    for numerics in ("cpu", "a2a3-order", "a5-order"):
        out = Tile("f32", 16, 1, layout="DN")
        done = execute("TROWSUM", out, src, numerics=numerics)
        assert (done.numerics, done.exact) == (numerics, numerics == "cpu")
        results[numerics] = out.valid.copy()
    assert not np.array_equal(results["cpu"], results["a2a3-order"])
    assert not np.array_equal(results["a5-order"], results["a2a3-order"])
    assert np.allclose(results["cpu"], results["a2a3-order"], rtol=1e-4, atol=1e-4)
    with pytest.raises(LanefoldError, match="PTO-NUMERICS-NAME"):
        execute("TROWSUM", out, src, numerics="exact")


def test_paired_column_sum_orders() -> None:
    column = np.array([1e8, 1.0, -1e8, 1.0, 3.0], np.float32)
    src, tmp = Tile(np.repeat(column[:, None], 8, axis=1)), Tile("f32", 4, 8)
    out = Tile("f32", 1, 8)
    execute("TCOLSUM", out, src, tmp, True, target="a2a3", numerics="a2a3-order")
    pair = np.float32(np.float32(1e8) + np.float32(1.0))
    first = np.float32(pair + np.float32(3.0))
    assert out.valid[0, 0] == np.float32(first + np.float32(np.float32(-1e8) + np.float32(1.0)))
    execute("TCOLSUM", out, src, tmp, True, target="a5", numerics="a5-order")
    last = np.float32(np.float32(np.float32(-1e8) + np.float32(1.0)) + np.float32(3.0))
    assert out.valid[0, 0] == np.float32(pair + last)


def test_families_cover_the_operations() -> None:
    counts = {family: sum(op.family is family for op in OPERATIONS.values()) for family in Family}
    assert sorted(counts.values()) == [1, 1, 2, 2, 4, 4, 7, 7]
