"""Compiled: reads and writes of any element type in plain bytes, and inner loops written as vector instructions.

Compilers keep a strict order only in scalar form, hence the second part. A block takes sixteen lanes and sixteen
elements of each: the elements are loaded lane by lane, exchanged in registers and folded element by element, so that
every lane keeps its own order. A window folds sixteen neighbouring outputs. Positions count elements, not bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic as numba_intrinsic

LANES = 16

_FLOAT = ir.FloatType()
_INT32 = ir.IntType(32)
_VECTOR = ir.VectorType(_FLOAT, LANES)

Step = Callable[[Any, Any, Any], Any]
Convert = Callable[[Any, Any], Any]


def intrinsic(function: Callable[..., Any]) -> Any:
    """A function of the compiled code; callers leave out the first argument, which is the typing context."""
    return numba_intrinsic(function)


def data_of(context: Any, builder: Any, kind: Any, array: Any, element: Any = _FLOAT) -> Any:
    """Pointer to the elements of an array."""
    return builder.bitcast(context.make_array(kind)(context, builder, array).data, element.as_pointer())


@intrinsic
def peek(typing: Any, memory: Any, position: Any, like: Any) -> Any:
    """The element at ``position`` of an array of elements of the type of ``like`` that fills the bytes ``memory``."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = data_of(context, builder, signature.args[0], args[0], context.get_value_type(signature.args[2]))
        loaded = builder.load(builder.gep(data, [args[1]]))
        loaded.align = 1
        return loaded

    return like(memory, position, like), generate


@intrinsic
def poke(typing: Any, memory: Any, position: Any, value: Any) -> Any:
    """Write an element at ``position`` of an array of elements of its type that fills the bytes ``memory``."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = data_of(context, builder, signature.args[0], args[0], context.get_value_type(signature.args[2]))
        builder.store(args[2], builder.gep(data, [args[1]])).align = 1
        return context.get_dummy_value()

    return types.void(memory, position, value), generate


@intrinsic
def same_size(typing: Any, whole: Any, like: Any) -> Any:
    """The low bits of an int64 in the integer type of ``like``."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.trunc(args[0], context.get_value_type(signature.args[1]))

    return like(types.int64, like), generate


@intrinsic
def float_of(typing: Any, bits: Any) -> Any:
    """The float32 with these 32 bits."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], _FLOAT)

    return types.float32(types.uint32), generate


@intrinsic
def bits_of(typing: Any, value: Any) -> Any:
    """The 32 bits of a float32."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], _INT32)

    return types.uint32(types.float32), generate


def _mask(picks: list[int]) -> Any:
    return ir.Constant(ir.VectorType(_INT32, len(picks)), [ir.Constant(_INT32, pick) for pick in picks])


def spread(builder: Any, value: Any) -> Any:
    """Vector of sixteen times a float."""
    single = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), value, ir.Constant(_INT32, 0))
    return builder.shuffle_vector(single, single, _mask([0] * LANES))


def _quads(low: bool, both: bool) -> Any:
    # Inside every group of four: one element of each source in turn, or two of the first and two of the second.
    first = 0 if low else 2
    picks = (
        [first, first + 1, LANES + first, LANES + first + 1]
        if both
        else [first, LANES + first, first + 1, LANES + first + 1]
    )
    return _mask([group + pick for group in range(0, LANES, 4) for pick in picks])


def _groups(*picks: int) -> Any:
    return _mask([4 * pick + i for pick in picks for i in range(4)])


_SINGLES = (_quads(True, False), _quads(False, False))
_DOUBLES = (_quads(True, True), _quads(False, True))
_HALVES = (_groups(0, 1, 4, 5), _groups(2, 3, 6, 7))
_EVERY_OTHER = (_groups(0, 2, 4, 6), _groups(1, 3, 5, 7))


def _exchanged(builder: Any, rows: list[Any]) -> list[Any]:
    # Rows become columns: first inside groups of four elements, then whole groups, by shuffles that cost one
    # instruction each.
    pairs = [builder.shuffle_vector(rows[r], rows[r + 1], mask) for r in range(0, LANES, 2) for mask in _SINGLES]
    fours = []
    for r in range(0, LANES, 4):
        for low in (0, 1):
            fours += [builder.shuffle_vector(pairs[r + low], pairs[r + 2 + low], mask) for mask in _DOUBLES]
    columns: list[Any] = [None] * LANES
    for c in range(4):
        upper = [builder.shuffle_vector(fours[c], fours[4 + c], mask) for mask in _HALVES]
        lower = [builder.shuffle_vector(fours[8 + c], fours[12 + c], mask) for mask in _HALVES]
        for half in (0, 1):
            for odd in (0, 1):
                column = builder.shuffle_vector(upper[half], lower[half], _EVERY_OTHER[odd])
                columns[4 * (2 * half + odd) + c] = column
    return columns


def load(builder: Any, data: Any, position: Any) -> Any:
    """Vector of the sixteen floats from a position on."""
    loaded = builder.load(builder.bitcast(builder.gep(data, [position]), _VECTOR.as_pointer()))
    loaded.align = 1
    return loaded


AHEAD = 1024
"""How many elements before their use the loops announce what they will read."""


def _announce(builder: Any, data: Any, position: Any) -> None:
    # Asks for a cache line early; an address outside the memory does no harm.
    byte = ir.IntType(8).as_pointer()
    kind = ir.FunctionType(ir.VoidType(), [byte, _INT32, _INT32, _INT32])
    function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")  # type: ignore[no-untyped-call, unused-ignore]
    place = builder.bitcast(builder.gep(data, [position]), byte)
    builder.call(function, [place, *(ir.Constant(_INT32, number) for number in (0, 3, 1))])


@intrinsic
def announce(typing: Any, values: Any, position: Any) -> Any:
    """Ask for the cache line of an element early; a position outside the array does no harm."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        _announce(builder, data_of(context, builder, signature.args[0], args[0]), args[1])
        return context.get_dummy_value()

    return types.void(values, position), generate


def _save(builder: Any, vector: Any, data: Any, position: Any) -> None:
    place = builder.gep(data, [position])
    builder.store(vector, builder.bitcast(place, _VECTOR.as_pointer())).align = 1


def _widened(builder: Any, data: Any, position: Any, convert: Convert) -> Any:
    element = data.type.pointee
    codes = ir.VectorType(element, LANES)
    loaded = builder.load(builder.bitcast(builder.gep(data, [position]), codes.as_pointer()))
    loaded.align = 1
    return convert(builder, loaded)


def _block(step: Step, element: Any, convert: Convert) -> Any:
    @intrinsic
    def block(typing: Any, values: Any, at: Any, offset: Any, acc: Any) -> Any:
        """Fold elements offset to offset+15 of the runs that begin at ``at`` into the sixteen values of ``acc``."""

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            data = data_of(context, builder, signature.args[0], args[0], element)
            places = data_of(context, builder, signature.args[1], args[1], args[2].type)
            running = data_of(context, builder, signature.args[3], args[3])
            rows = []
            for lane in range(LANES):
                place = builder.load(builder.gep(places, [ir.Constant(_INT32, lane)]))
                rows.append(_widened(builder, data, builder.add(place, args[2]), convert))
            front = ir.Constant(_INT32, 0)
            a = load(builder, running, front)
            for column in _exchanged(builder, rows):
                a = step(builder, a, column)
            _save(builder, a, running, front)
            return context.get_dummy_value()

        return types.void(values, at, offset, acc), generate

    return block


def _fixed_row(builder: Any, data: Any, first: Any, spacing: int, wide: int) -> list[Any]:
    # The elements of a plain window row for sixteen outputs; vectors of every second element share their loads.
    def at(distance: int) -> Any:
        return builder.add(first, ir.Constant(first.type, distance))

    if spacing == 1:
        return [load(builder, data, at(x)) for x in range(wide)]
    near, far = load(builder, data, first), load(builder, data, at(LANES))
    found = [builder.shuffle_vector(near, far, _mask(list(range(x, 2 * LANES, 2)))) for x in (0, 1)]
    if wide == 3:
        last = spread(builder, builder.load(builder.gep(data, [at(2 * LANES)])))
        found.append(builder.shuffle_vector(found[0], last, _mask(list(range(1, LANES + 1)))))
    return found


def _window(step: Step, spacing: int, side: int = 0) -> Any:
    every = _mask([spacing * i for i in range(LANES)])

    def lanes(builder: Any, data: Any, position: Any) -> Any:
        near = load(builder, data, position)
        if spacing == 1:
            return near
        far = load(builder, data, builder.add(position, ir.Constant(position.type, LANES)))
        return builder.shuffle_vector(near, far, every)

    def any_window(builder: Any, data: Any, shape: Any, a: Any) -> Any:
        position, wide, right, tall, down = shape
        running = cgutils.alloca_once(builder, _VECTOR)  # type: ignore[no-untyped-call, unused-ignore]
        builder.store(a, running)
        with cgutils.for_range(builder, tall) as rows:  # type: ignore[no-untyped-call, unused-ignore]
            first = builder.add(position, builder.mul(rows.index, down))
            with cgutils.for_range(builder, wide) as columns:  # type: ignore[no-untyped-call, unused-ignore]
                x = lanes(builder, data, builder.add(first, builder.mul(columns.index, right)))
                builder.store(step(builder, builder.load(running), x), running)
        return builder.load(running)

    def square(builder: Any, data: Any, shape: Any, a: Any) -> Any:
        first, _, _, _, down = shape
        for row in range(side):
            if row < spacing:
                for k in range(spacing):
                    _announce(builder, data, builder.add(first, ir.Constant(first.type, AHEAD + k * LANES)))
            for vector in _fixed_row(builder, data, first, spacing, side):
                a = step(builder, a, vector)
            first = builder.add(first, down)
        return a

    @intrinsic
    def window(
        typing: Any,
        values: Any,
        position: Any,
        nx: Any,
        sx: Any,
        ny: Any,
        sy: Any,
        start: Any,
        factor: Any,
        out: Any,
        place: Any,
    ) -> Any:
        """Fold the window of ny rows of nx elements at ``position`` for sixteen outputs, starting from ``start``.

        Sums are multiplied by ``factor`` in double; with 1.0 nothing changes.
        """

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            data = data_of(context, builder, signature.args[0], args[0])
            target = data_of(context, builder, signature.args[8], args[8])
            fold = square if side else any_window
            a = fold(builder, data, args[1:6], spread(builder, args[6]))
            if step is _sum:
                doubles = ir.VectorType(ir.DoubleType(), LANES)
                single = builder.insert_element(ir.Constant(doubles, ir.Undefined), args[7], ir.Constant(_INT32, 0))
                factors = builder.shuffle_vector(single, single, _mask([0] * LANES))
                a = builder.fptrunc(builder.fmul(builder.fpext(a, doubles), factors), _VECTOR)
            _save(builder, a, target, args[9])
            return context.get_dummy_value()

        return types.void(values, position, nx, sx, ny, sy, start, factor, out, place), generate

    return window


def _sum(builder: Any, a: Any, x: Any) -> Any:
    return builder.fadd(a, x)


def exceeding(builder: Any, a: Any, x: Any) -> Any:
    """The elements of ``x`` where they exceed those of ``a``, elsewhere those of ``a``."""
    return builder.select(builder.fcmp_ordered(">", x, a), x, a)


_BYTE, _HALF_WORD = ir.IntType(8), ir.IntType(16)
_WORDS = ir.VectorType(_INT32, LANES)


def _brain(builder: Any, codes: Any) -> Any:
    wide = builder.zext(codes, _WORDS)
    return builder.bitcast(builder.shl(wide, ir.Constant(_WORDS, [16] * LANES)), _VECTOR)


def _half(builder: Any, codes: Any) -> Any:
    # Exponent and fraction move into place, a product sets the bias right and normalises subnormals. Plain vector
    # operations, since not every processor converts halves by itself.
    def every(number: int) -> Any:
        return ir.Constant(_WORDS, [number] * LANES)

    wide = builder.zext(codes, _WORDS)
    size = builder.bitcast(builder.shl(builder.and_(wide, every(0x7FFF)), every(13)), _VECTOR)
    scaled = builder.fmul(size, ir.Constant(_VECTOR, [ir.Constant(_FLOAT, 2.0**112)] * LANES))
    top = builder.icmp_unsigned("==", builder.and_(wide, every(0x7C00)), every(0x7C00))
    special = builder.select(top, every(0x7F800000), every(0))
    sign = builder.shl(builder.and_(wide, every(0x8000)), every(16))
    return builder.bitcast(builder.or_(builder.or_(builder.bitcast(scaled, _WORDS), special), sign), _VECTOR)


add_block = _block(_sum, _FLOAT, lambda builder, codes: codes)
add_block_bfloat16 = _block(_sum, _HALF_WORD, _brain)
add_block_float16 = _block(_sum, _HALF_WORD, _half)
add_block_uint8 = _block(_sum, _BYTE, lambda builder, codes: builder.uitofp(codes, _VECTOR))
add_block_int8 = _block(_sum, _BYTE, lambda builder, codes: builder.sitofp(codes, _VECTOR))
"""Sums, by the type of the elements."""

STREAM = 8 * LANES
"""Elements that `max_run` and `min_run` take at a time."""


def _run(step: Step) -> Any:
    @intrinsic
    def run(typing: Any, values: Any, position: Any, blocks: Any, acc: Any) -> Any:
        """Fold so many times 128 elements from ``position`` on into the sixteen values of ``acc``, in any order."""

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            data = data_of(context, builder, signature.args[0], args[0])
            running = data_of(context, builder, signature.args[3], args[3])
            front = ir.Constant(_INT32, 0)
            begun = load(builder, running, front)
            slots = [cgutils.alloca_once(builder, _VECTOR) for _ in range(8)]  # type: ignore[no-untyped-call, unused-ignore]
            for slot in slots:
                builder.store(begun, slot)
            with cgutils.for_range(builder, args[2]) as loop:  # type: ignore[no-untyped-call, unused-ignore]
                first = builder.add(args[1], builder.mul(loop.index, ir.Constant(args[1].type, STREAM)))
                for k, slot in enumerate(slots):
                    _announce(builder, data, builder.add(first, ir.Constant(args[1].type, AHEAD + k * LANES)))
                    x = load(builder, data, builder.add(first, ir.Constant(args[1].type, k * LANES)))
                    builder.store(step(builder, builder.load(slot), x), slot)
            a = builder.load(slots[0])
            for slot in slots[1:]:
                a = step(builder, a, builder.load(slot))
            _save(builder, a, running, front)
            return context.get_dummy_value()

        return types.void(values, position, blocks, acc), generate

    return run


def _smaller(builder: Any, a: Any, x: Any) -> Any:
    return builder.select(builder.fcmp_ordered("<", x, a), x, a)


max_run = _run(exceeding)
min_run = _run(_smaller)
"""Extremes where no running value is NaN, but for the sign of a zero."""

STRIP = 4 * LANES
"""Neighbouring values that `add_rows` and `max_rows` take at a time."""


def _rows(step: Step) -> Any:
    @intrinsic
    def rows(typing: Any, values: Any, at: Any, left: Any, onward: Any, acc: Any) -> Any:
        """Fold eight rows, which begin at ``at``, into 64 values of ``acc`` from ``left`` on, one row after another.

        The rows ``onward`` elements further are asked for on the way.
        """

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            data = data_of(context, builder, signature.args[0], args[0])
            places = data_of(context, builder, signature.args[1], args[1], args[2].type)
            running = data_of(context, builder, signature.args[4], args[4])
            columns = [builder.add(args[2], ir.Constant(args[2].type, k * LANES)) for k in range(STRIP // LANES)]
            folded = [load(builder, running, column) for column in columns]
            for row in range(8):
                place = builder.load(builder.gep(places, [ir.Constant(_INT32, row)]))
                for k, column in enumerate(columns):
                    here = builder.add(place, column)
                    _announce(builder, data, builder.add(here, args[3]))
                    folded[k] = step(builder, folded[k], load(builder, data, here))
            for column, a in zip(columns, folded, strict=True):
                _save(builder, a, running, column)
            return context.get_dummy_value()

        return types.void(values, at, left, onward, acc), generate

    return rows


add_rows, max_rows = _rows(_sum), _rows(exceeding)

add_window_1, add_square_1x2, add_square_1x3 = (_window(_sum, 1, side) for side in (0, 2, 3))
add_window_2, add_square_2x2, add_square_2x3 = (_window(_sum, 2, side) for side in (0, 2, 3))
max_window_1, max_square_1x2, max_square_1x3 = (_window(exceeding, 1, side) for side in (0, 2, 3))
max_window_2, max_square_2x2, max_square_2x3 = (_window(exceeding, 2, side) for side in (0, 2, 3))
"""By operator and distance of the outputs; squares are windows of two or three rows of as many adjacent elements."""
