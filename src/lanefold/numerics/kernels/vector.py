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


def intrinsic(function: Callable[..., Any]) -> Any:
    """A function of the compiled code; callers leave out the first argument, which is the typing context."""
    return numba_intrinsic(function)


def _data(context: Any, builder: Any, kind: Any, array: Any, element: Any = _FLOAT) -> Any:
    return builder.bitcast(context.make_array(kind)(context, builder, array).data, element.as_pointer())


@intrinsic
def peek(typing: Any, memory: Any, position: Any, like: Any) -> Any:
    """The element at ``position`` of an array of elements of the type of ``like`` that fills the bytes ``memory``."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = _data(context, builder, signature.args[0], args[0], context.get_value_type(signature.args[2]))
        loaded = builder.load(builder.gep(data, [args[1]]))
        loaded.align = 1
        return loaded

    return like(memory, position, like), generate


@intrinsic
def poke(typing: Any, memory: Any, position: Any, value: Any) -> Any:
    """Write an element at ``position`` of an array of elements of its type that fills the bytes ``memory``."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = _data(context, builder, signature.args[0], args[0], context.get_value_type(signature.args[2]))
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


def _spread(builder: Any, value: Any) -> Any:
    single = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), value, ir.Constant(_INT32, 0))
    return builder.shuffle_vector(single, single, _mask([0] * LANES))


def _exchanged(builder: Any, rows: list[Any]) -> list[Any]:
    # Swaps the off-diagonal blocks of growing squares until rows are columns.
    size = 1
    while size < LANES:
        low = _mask([(e ^ size) + LANES if e & size else e for e in range(LANES)])
        high = _mask([e + LANES if e & size else e | size for e in range(LANES)])
        swapped = list(rows)
        for i in range(LANES):
            if not i & size:
                swapped[i] = builder.shuffle_vector(rows[i], rows[i | size], low)
                swapped[i | size] = builder.shuffle_vector(rows[i], rows[i | size], high)
        rows = swapped
        size *= 2
    return rows


def _load(builder: Any, data: Any, position: Any) -> Any:
    loaded = builder.load(builder.bitcast(builder.gep(data, [position]), _VECTOR.as_pointer()))
    loaded.align = 1
    return loaded


def _save(builder: Any, vector: Any, data: Any, position: Any) -> None:
    place = builder.gep(data, [position])
    builder.store(vector, builder.bitcast(place, _VECTOR.as_pointer())).align = 1


def _block(step: Step) -> Any:
    @intrinsic
    def block(typing: Any, values: Any, at: Any, offset: Any, acc: Any) -> Any:
        """Fold elements offset to offset+15 of the runs that begin at ``at`` into the sixteen values of ``acc``."""

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            data = _data(context, builder, signature.args[0], args[0])
            places = _data(context, builder, signature.args[1], args[1], args[2].type)
            running = _data(context, builder, signature.args[3], args[3])
            rows = []
            for lane in range(LANES):
                place = builder.load(builder.gep(places, [ir.Constant(_INT32, lane)]))
                rows.append(_load(builder, data, builder.add(place, args[2])))
            front = ir.Constant(_INT32, 0)
            a = _load(builder, running, front)
            for column in _exchanged(builder, rows):
                a = step(builder, a, column)
            _save(builder, a, running, front)
            return context.get_dummy_value()

        return types.void(values, at, offset, acc), generate

    return block


def _window(step: Step, spacing: int) -> Any:
    picks = [spacing * i for i in range(LANES)]

    def lanes(builder: Any, data: Any, position: Any) -> Any:
        near = _load(builder, data, position)
        if spacing == 1:
            return near
        far = _load(builder, data, builder.add(position, ir.Constant(position.type, LANES)))
        return builder.shuffle_vector(near, far, _mask(picks))

    @intrinsic
    def window(
        typing: Any, values: Any, position: Any, nx: Any, sx: Any, ny: Any, sy: Any, start: Any, out: Any, place: Any
    ) -> Any:
        """Fold the window of ny rows of nx elements at ``position`` for sixteen outputs, starting from ``start``."""

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            data = _data(context, builder, signature.args[0], args[0])
            target = _data(context, builder, signature.args[7], args[7])
            wide, right, tall, down = args[2], args[3], args[4], args[5]
            running = builder.alloca(_VECTOR)
            builder.store(_spread(builder, args[6]), running)
            with cgutils.for_range(builder, tall) as rows:  # type: ignore[no-untyped-call, unused-ignore]
                row = builder.add(args[1], builder.mul(rows.index, down))
                with cgutils.for_range(builder, wide) as columns:  # type: ignore[no-untyped-call, unused-ignore]
                    x = lanes(builder, data, builder.add(row, builder.mul(columns.index, right)))
                    builder.store(step(builder, builder.load(running), x), running)
            _save(builder, builder.load(running), target, args[8])
            return context.get_dummy_value()

        return types.void(values, position, nx, sx, ny, sy, start, out, place), generate

    return window


def _sum(builder: Any, a: Any, x: Any) -> Any:
    return builder.fadd(a, x)


def _larger(builder: Any, a: Any, x: Any) -> Any:
    return builder.select(builder.fcmp_ordered(">", x, a), x, a)


def _smaller(builder: Any, a: Any, x: Any) -> Any:
    return builder.select(builder.fcmp_ordered("<", x, a), x, a)


add_block = _block(_sum)
max_block = _block(_larger)
"""As operator max where no running value is NaN."""
min_block = _block(_smaller)
"""As operator min where no running value is NaN."""

add_window_1 = _window(_sum, 1)
add_window_2 = _window(_sum, 2)
max_window_1 = _window(_larger, 1)
max_window_2 = _window(_larger, 2)


@intrinsic
def meets(typing: Any, values: Any, position: Any, keys: Any) -> Any:
    """Whether any of sixteen elements from ``position`` on equals any of eight keys."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = _data(context, builder, signature.args[0], args[0])
        wanted = _data(context, builder, signature.args[2], args[2])
        x = _load(builder, data, args[1])
        hits = None
        for k in range(8):
            key = _spread(builder, builder.load(builder.gep(wanted, [ir.Constant(_INT32, k)])))
            here = builder.fcmp_ordered("==", x, key)
            hits = here if hits is None else builder.or_(hits, here)
        word = builder.bitcast(hits, ir.IntType(LANES))
        return builder.icmp_unsigned("!=", word, ir.Constant(word.type, 0))

    return types.boolean(values, position, keys), generate
