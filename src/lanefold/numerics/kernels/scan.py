"""Compiled: whole blocks at once - greatest element, any element within bounds, equal to a key, sums of bytes.

None of these results depends on the order of the elements, so that each is written as plain vector instructions.
Positions count elements, not bytes.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from lanefold.numerics.kernels.vector import LANES, data_of, exceeding, intrinsic, load, spread

BLOCK = 256
"""Elements of a block of the float scans."""
BYTES, SUMS = 64, 128
"""Bytes that `byte_sum` takes at a time, and how often at most: the 16-bit sums of both signs hold so many."""

_FLOAT, _INT32, _INT64 = ir.FloatType(), ir.IntType(32), ir.IntType(64)
_MASK = ir.IntType(LANES)


def _picks(*numbers: int) -> Any:
    return ir.Constant(ir.VectorType(_INT32, len(numbers)), [ir.Constant(_INT32, number) for number in numbers])


def _halves(builder: Any, vector: Any, join: Any) -> Any:
    """Joins the halves of a vector until one element is left."""
    size = vector.type.count
    while size > 1:
        size //= 2
        low = builder.shuffle_vector(vector, vector, _picks(*range(size)))
        high = builder.shuffle_vector(vector, vector, _picks(*range(size, 2 * size)))
        vector = join(builder, low, high)
    return builder.extract_element(vector, ir.Constant(_INT32, 0))


def _at(builder: Any, position: Any, distance: int) -> Any:
    return builder.add(position, ir.Constant(position.type, distance))


def _any(builder: Any, hits: Any) -> Any:
    return builder.icmp_unsigned("!=", builder.bitcast(hits, _MASK), ir.Constant(_MASK, 0))


@intrinsic
def greatest(typing: Any, values: Any, position: Any, least: Any) -> Any:
    """The greatest of 256 elements from ``position`` on that exceed ``least``, else ``least``; NaN is passed over."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = data_of(context, builder, signature.args[0], args[0])
        found = [spread(builder, args[2])] * 4
        for k in range(BLOCK // LANES):
            found[k % 4] = exceeding(builder, found[k % 4], load(builder, data, _at(builder, args[1], k * LANES)))
        a = exceeding(builder, exceeding(builder, found[0], found[1]), exceeding(builder, found[2], found[3]))
        return _halves(builder, a, exceeding)

    return types.float32(values, position, types.float32), generate


@intrinsic
def reaches(typing: Any, values: Any, position: Any, least: Any) -> Any:
    """Whether any of sixteen elements from ``position`` on is ``least`` or more."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = data_of(context, builder, signature.args[0], args[0])
        return _any(builder, builder.fcmp_ordered(">=", load(builder, data, args[1]), spread(builder, args[2])))

    return types.boolean(values, position, types.float32), generate


@intrinsic
def between(typing: Any, values: Any, position: Any, low: Any, high: Any) -> Any:
    """Whether any of 256 elements from ``position`` on lies within bounds, both included."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = data_of(context, builder, signature.args[0], args[0])
        low, high = spread(builder, args[2]), spread(builder, args[3])
        hits = None
        for k in range(BLOCK // LANES):
            x = load(builder, data, _at(builder, args[1], k * LANES))
            here = builder.and_(builder.fcmp_ordered(">=", x, low), builder.fcmp_ordered("<=", x, high))
            hits = here if hits is None else builder.or_(hits, here)
        return _any(builder, hits)

    return types.boolean(values, position, types.float32, types.float32), generate


@intrinsic
def meets(typing: Any, values: Any, position: Any, keys: Any) -> Any:
    """Whether any of sixteen elements from ``position`` on equals any of eight keys."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = data_of(context, builder, signature.args[0], args[0])
        wanted = data_of(context, builder, signature.args[2], args[2])
        x = load(builder, data, args[1])
        hits = None
        for k in range(8):
            key = spread(builder, builder.load(builder.gep(wanted, [ir.Constant(_INT32, k)])))
            here = builder.fcmp_ordered("==", x, key)
            hits = here if hits is None else builder.or_(hits, here)
        return _any(builder, hits)

    return types.boolean(values, position, keys), generate


def _byte_sum(signed: bool) -> Any:
    @intrinsic
    def byte_sum(typing: Any, values: Any, position: Any, blocks: Any) -> Any:
        """Sum of so many times 64 bytes from ``position`` on, at most 128 times."""

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            data = data_of(context, builder, signature.args[0], args[0], ir.IntType(8))
            codes = ir.VectorType(ir.IntType(8), BYTES)
            halves, words = ir.VectorType(ir.IntType(16), BYTES), ir.VectorType(_INT32, BYTES)
            total = cgutils.alloca_once_value(builder, ir.Constant(halves, [0] * BYTES))  # type: ignore[no-untyped-call, unused-ignore]
            with cgutils.for_range(builder, args[2]) as loop:  # type: ignore[no-untyped-call, unused-ignore]
                first = builder.add(args[1], builder.mul(loop.index, ir.Constant(args[1].type, BYTES)))
                loaded = builder.load(builder.bitcast(builder.gep(data, [first]), codes.as_pointer()))
                loaded.align = 1
                wide = builder.sext(loaded, halves) if signed else builder.zext(loaded, halves)
                builder.store(builder.add(builder.load(total), wide), total)
            sums = builder.sext(builder.load(total), words)
            return builder.sext(_halves(builder, sums, lambda at, a, b: at.add(a, b)), _INT64)

        return types.int64(values, position, blocks), generate

    return byte_sum


byte_sum_signed, byte_sum_unsigned = _byte_sum(True), _byte_sum(False)
"""Sums of int8 and of uint8."""
