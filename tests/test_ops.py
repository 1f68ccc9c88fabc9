"""Target-neutral ops against a slow model that walks windows and cells one by one."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from itertools import pairwise, product

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from lanefold.diagnostics import RULES, LanefoldError
from lanefold.ops import (
    ArgReduce,
    Expand,
    Gather,
    Iota,
    Pool,
    Reciprocal,
    Reduce,
    TopK,
    axis_windows,
    identity,
    resolve_pads,
)


def walk_axis(size, kernel, stride, dilation, begin, end, ceil_mode):
    """Start of every window: move a window until it leaves the padded axis.

    Ceil mode takes one more where cells of the padded axis are left over, and gives up a last one that begins behind
    the input.
    """
    reach = dilation * (kernel - 1)
    starts = []
    start = -begin
    while start + reach < size + end:
        starts.append(start)
        start += stride
    if ceil_mode:
        last_cell = start - stride + reach
        if last_cell < size + end - 1:
            starts.append(start)
        if starts and starts[-1] >= size:
            starts.pop()
    return starts


def taps(start, kernel, dilation, size):
    return [start + j * dilation for j in range(kernel) if 0 <= start + j * dilation < size]


axes = st.tuples(
    st.integers(1, 12), st.integers(1, 5), st.integers(1, 5), st.integers(1, 3), st.integers(0, 4), st.integers(0, 4)
)


@given(axes, st.booleans(), st.booleans())
def test_axis_windows_equal_walked_windows(axis, ceil_mode, count_include_pad) -> None:
    size, kernel, stride, dilation, _, end = axis
    made = axis_windows(*axis, ceil_mode=ceil_mode, count_include_pad=count_include_pad)
    starts = walk_axis(*axis, ceil_mode)
    assert max(made.outputs, 0) == len(starts)
    cells = {}
    for each in made.classes:
        for n in range(each.outputs):
            first = each.begin + n * stride
            cells[each.first + n] = ([first + j * dilation for j in range(each.size)], each.tap, each.counted)
    assert list(cells) == list(range(len(starts)))
    for output, start in enumerate(starts):
        real = taps(start, kernel, dilation, size)
        padded = [j for j in range(kernel) if start + j * dilation < size + end]
        got, tap, counted = cells[output]
        assert got == real
        assert counted == (len(padded) if count_include_pad else len(real))
        if real:
            assert start + tap * dilation == real[0]
    assert [n for first, count in made.empty for n in range(first, first + count)] == [
        n for n, start in enumerate(starts) if not taps(start, kernel, dilation, size)
    ]
    assert bool(made.reason) == made.dropped


@given(axes, st.booleans())
def test_neighbouring_classes_differ(axis, ceil_mode) -> None:
    classes = axis_windows(*axis, ceil_mode=ceil_mode).classes
    for left, right in pairwise(classes):
        assert (left.tap, left.size, left.counted) != (right.tap, right.size, right.counted)
        assert left.first + left.outputs == right.first


@given(st.integers(-40, -1), st.integers(1, 7))
def test_negative_room_rounds_down(room, stride) -> None:
    kernel = 3 - room
    made = axis_windows(3, kernel, stride)
    count = 1
    while room < (count - 1) * stride:
        count -= 1
    assert made.outputs == count <= 0


@given(st.integers(1, 20), st.integers(1, 6), st.integers(1, 6), st.integers(1, 3), st.booleans())
def test_auto_pad_keeps_its_promises(size, kernel, stride, dilation, ceil_mode) -> None:
    shapes = {}
    for word in ("SAME_UPPER", "SAME_LOWER", "VALID"):
        made = resolve_pads(word, None, [size], [kernel], [stride], [dilation], ceil_mode=ceil_mode)
        shapes[word] = made.pads
        outputs = axis_windows(size, kernel, stride, dilation, *made.pads, ceil_mode=made.ceil_mode).outputs
        if word == "VALID":
            assert made.pads == (0, 0)
            assert max(outputs, 0) == len(walk_axis(size, kernel, stride, dilation, 0, 0, False))
        else:
            assert outputs == len(range(0, size, stride))
        assert bool(made.findings) == ceil_mode
    assert shapes["SAME_UPPER"] == shapes["SAME_LOWER"][::-1]
    assert 0 <= shapes["SAME_UPPER"][1] - shapes["SAME_UPPER"][0] <= 1


def test_windows_of_all_axes_tile_the_outputs() -> None:
    pool = Pool("average", (1, 2, 7, 9), (3, 4), (2, 3), (), (1, 2, 1, 1), ceil_mode=True, count_include_pad=True)
    seen = {}
    for window in pool.shape.windows:
        ranges = [range(each.first, each.first + each.outputs) for each in window.axes]
        for cell in product(*ranges):
            assert cell not in seen
            seen[cell] = (window.size, window.divisor)
        assert window.outputs == len(list(product(*ranges)))
    starts = [walk_axis(7, 3, 2, 1, 1, 1, True), walk_axis(9, 4, 3, 1, 2, 1, True)]
    assert sorted(seen) == list(product(*(range(len(each)) for each in starts)))
    assert pool.output_shape == (1, 2, *(len(each) for each in starts))
    for (row, column), (size, divisor) in seen.items():
        y, x = starts[0][row], starts[1][column]
        assert size == len(taps(y, 3, 1, 7)) * len(taps(x, 4, 1, 9))
        assert divisor == sum(y + j < 8 for j in range(3)) * sum(x + j < 10 for j in range(4))


def _rows():
    """Valid op, change that breaks it, code of the rule that says so."""
    pool = Pool("max", (1, 2, 8, 8), (3, 3))
    fold = Reduce("add", (2, 3, 4), (-1,))
    arg = ArgReduce("max", (2, 3), -1)
    return [
        (pool, {"operator": "min"}, "OP-WORD"),
        (pool, {"element": "cube"}, "OP-WORD"),
        (pool, {"input_shape": (1, 2, 0, 8)}, "OP-SHAPE"),
        (pool, {"input_shape": (1, 2, 1 << 20, 1 << 20)}, "OP-SIZE"),
        (pool, {"pads": (1 << 30, 0, 1 << 30, 0)}, "OP-SIZE"),
        (pool, {"kernel": (3,)}, "OP-POOL-ATTRIBUTE"),
        (pool, {"kernel": (0, 3)}, "OP-POOL-ATTRIBUTE"),
        (pool, {"strides": (0, 1)}, "OP-POOL-ATTRIBUTE"),
        (pool, {"dilations": (1, 1, 1)}, "OP-POOL-ATTRIBUTE"),
        (pool, {"pads": (-1, 0, 0, 0)}, "OP-POOL-ATTRIBUTE"),
        (pool, {"kernel": (3, 9)}, "OP-POOL-WINDOW-WIDE"),
        (pool, {"kernel": (9, 9)}, "OP-POOL-WINDOW-WIDE"),
        (pool, {"dilations": (4, 1)}, "OP-POOL-WINDOW-WIDE"),
        (pool, {"dilations": (5, 5), "pads": (1, 1, 1, 0)}, "OP-POOL-WINDOW-WIDE"),
        (pool, {"pads": (3, 0, 0, 0)}, "OP-POOL-WINDOW-EMPTY"),
        (pool, {"pads": (0, 3, 0, 3)}, "OP-POOL-WINDOW-EMPTY"),
        (pool, {"kernel": (9, 9), "pads": (9, 9, 9, 9)}, "OP-POOL-WINDOW-EMPTY"),
        (fold, {"operator": "subtract"}, "OP-WORD"),
        (fold, {"axes": (3,)}, "OP-AXIS"),
        (fold, {"axes": (1, -2)}, "OP-AXIS"),
        (fold, {"axes": ()}, "OP-AXIS"),
        (fold, {"input_shape": (2, 3, 0)}, "OP-REDUCE-EMPTY"),
        (fold, {"input_shape": (0, 3, 1)}, "OP-SHAPE"),
        (fold, {"input_shape": (1 << 40, 1 << 30, 3)}, "OP-SIZE"),
        (fold, {"operator": "bitwise_or"}, "OP-DTYPE"),
        (fold, {"operator": "logical_or", "element": "abs"}, "OP-DTYPE"),
        (arg, {"axis": 2}, "OP-AXIS"),
        (arg, {"input_shape": (2, 0)}, "OP-REDUCE-EMPTY"),
        (arg, {"operator": "add"}, "OP-WORD"),
        (TopK((2, 5), 1, 3), {"k": 6}, "OP-TOPK-K"),
        (TopK((2, 5), 1, 3), {"k": 0}, "OP-TOPK-K"),
        (Expand("add", (2, 3), (1,)), {"operator": "power"}, "OP-WORD"),
        (Expand("add", (2, 3), (1,)), {"axes": (2,)}, "OP-AXIS"),
        (Reciprocal((2, 3)), {"input_shape": (0,)}, "OP-SHAPE"),
        (Iota((2, 3), (3, 1)), {"steps": (1,)}, "OP-IOTA-STEPS"),
        (Gather((2, 3), (4,)), {"axis": -3}, "OP-AXIS"),
        (Gather((2, 3), (4,)), {"indices_shape": (0,)}, "OP-SHAPE"),
        (Gather((2, 3), (4,)), {"input_shape": (2, 1 << 20), "axis": 0, "indices_shape": (1 << 10,)}, "OP-SIZE"),
    ]


@pytest.mark.parametrize(("op", "change", "code"), _rows())
def test_rules_and_their_cures(op, change, code) -> None:
    with pytest.raises(LanefoldError) as caught:
        replace(op, **change)
    for finding in caught.value.diagnostics:
        assert finding.code == code
        assert finding.place.operand == type(op).__name__
    fields = set(type(op).__dataclass_fields__)
    for cure in finding.cures:
        if cure.changes:
            replace(op, **change | {name: value for name, value in cure.changes.items() if name in fields})
    assert finding.cures[0].changes


def test_every_rule_of_the_ops_has_an_invalid_row() -> None:
    tested = {code for _, _, code in _rows()} | {"OP-POOL-NO-EFFECT", "OP-POOL-AUTO-PAD"}
    assert {code for code in RULES if code.startswith("OP-")} == tested


def test_an_unknown_type_is_refused_by_every_op() -> None:
    makers = [
        lambda: Pool("max", (1, 1, 4), (2,), dtype="float12"),
        lambda: Reduce("max", (4,), (0,), output_dtype="float12"),
        lambda: ArgReduce("max", (4,), 0, dtype="float12"),
        lambda: TopK((4,), 0, 1, dtype="float12"),
        lambda: Expand("add", (4,), (0,), dtype="float12"),
        lambda: Reciprocal((4,), dtype="float12"),
        lambda: Iota((4,), (1,), output_dtype="float12"),
        lambda: Gather((4,), (1,), index_dtype="float12"),
    ]
    for make in makers:
        with pytest.raises(LanefoldError, match="float12"):
            make()


def test_an_unknown_auto_pad_is_refused() -> None:
    with pytest.raises(LanefoldError, match="OP-POOL-AUTO-PAD"):
        resolve_pads("SAME", None, [4], [2], [1], [1])


def test_output_shapes() -> None:
    assert Reduce("max", (2, 3, 4), (-1, 0), keepdims=False).output_shape == (3,)
    assert Reduce("max", (2, 3, 4), (-1, 0)).output_shape == (1, 3, 1)
    assert Reduce("max", (2, 3, 4), (-1, 0)).count == 8
    assert ArgReduce("min", (2, 3, 4), 1, keepdims=False).output_shape == (2, 4)
    assert TopK((2, 30), -1, 8).output_shape == (2, 8)
    assert Expand("bypass", (4, 5), (-1,)).vector_shape == (4, 1)
    assert Gather((4, 5, 6), (2, 3), axis=1).output_shape == (4, 2, 3, 6)
    assert Gather((4, 5), (), axis=0).output_shape == (5,)
    assert Iota((3, 2), (2, 1)).output_shape == (3, 2)
    assert Reciprocal((3, 2)).output_shape == (3, 2)


@given(axes, st.booleans(), st.sampled_from(["max", "average", "add"]))
def test_cures_of_windows_are_legal(axis, ceil_mode, operator) -> None:
    size, kernel, stride, dilation, begin, end = axis
    fields = {
        "operator": operator,
        "input_shape": (1, 1, size),
        "kernel": (kernel,),
        "strides": (stride,),
        "dilations": (dilation,),
        "pads": (begin, end),
        "ceil_mode": ceil_mode,
    }
    try:
        Pool(**fields)
    except LanefoldError as error:
        for finding in error.diagnostics:
            assert finding.cures
            for cure in finding.cures:
                Pool(**fields | dict(cure.changes))
    else:
        assume(False)


@pytest.mark.parametrize(
    ("operator", "dtype", "value"),
    [
        ("max", "float32", float("-inf")),
        ("max", "int8", -128),
        ("max", "uint8", 0),
        ("min", "int32", 2**31 - 1),
        ("min", "bfloat16", float("inf")),
        ("add", "float16", 0),
        ("mult", "int32", 1),
        ("average", "float32", None),
        ("bitwise_and", "uint16", 0xFFFF),
        ("bitwise_and", "int16", -1),
        ("logical_and", "float32", 1),
        ("logical_xor", "float32", 0),
    ],
)
def test_identity(operator, dtype, value) -> None:
    assert identity(operator, dtype) == value


def test_ops_import_nothing_heavy() -> None:
    script = (
        "import sys, lanefold.ops; print(sorted({'numba', 'onnx', 'onnxruntime', 'rich', 'lark'} & set(sys.modules)))"
    )
    made = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)  # noqa: S603
    assert made.stdout.strip() == "[]"
