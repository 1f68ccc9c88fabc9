"""A slow machine for tests: reads the bytes of a bundle with struct and computes element by element.

It shares nothing with the package but the layout of its two memories, so that both can be compared.
"""

from __future__ import annotations

import itertools
import struct

import ml_dtypes
import numpy as np

DTYPES = {
    2: np.int8,
    3: np.uint8,
    4: np.int16,
    5: np.uint16,
    6: ml_dtypes.bfloat16,
    7: np.float16,
    8: np.int32,
    9: np.uint32,
    10: np.float32,
}
POOL, TR, TR_BITS, CR, CR_BITS, RECIPROCAL = "pool", "tr", "tr_bits", "cr", "cr_bits", "reciprocal"
OPCODES = {
    "reference": {0x45: POOL, 0x7C: TR, 0x7D: TR_BITS, 0x42: CR, 0x52: CR_BITS, 0x48: RECIPROCAL},
    "headers": {0x45: POOL, 0x42: TR, 0x52: TR_BITS, 0x7C: CR, 0x7D: CR_BITS, 0x48: RECIPROCAL},
}
FLT_MAX = np.float32(3.4028234663852886e38)


def larger(acc, x):
    return np.where(np.isnan(acc) | (x > acc), x, acc)


def smaller(acc, x):
    return np.where(np.isnan(acc) | (x < acc), x, acc)


FLOAT_OPS = {
    0x00: lambda a, x: a,
    0x04: lambda a, x: a + x,
    0x05: lambda a, x: a - x,
    0x06: lambda a, x: a * x,
    0x08: larger,
    0x09: smaller,
    0x19: lambda a, x: np.abs(a),
}
BIT_OPS = {0x0A: np.bitwise_and, 0x0B: np.bitwise_or, 0x0C: np.bitwise_xor}


def saturated(wide):
    return np.clip(wide, -(2**31), 2**31 - 1)


INT_OPS = {
    0x00: lambda a, x: a,
    0x04: lambda a, x: saturated(a + x),
    0x05: lambda a, x: saturated(a - x),
    0x06: lambda a, x: saturated(a * x),
    0x08: np.maximum,
    0x09: np.minimum,
    0x19: lambda a, x: saturated(np.abs(a)),
}


class SlowMachine:
    def __init__(self, sbuf_bytes: int = 192 << 10, reading: str = "reference") -> None:
        self.sbuf = np.zeros((128, sbuf_bytes), np.uint8)
        self.psum = np.zeros((128, 16384), np.uint8)
        self.reading = reading

    def run(self, stream) -> None:
        data = stream.tobytes()
        for start in range(0, len(data), 64):
            with np.errstate(all="ignore"):
                self.step(data[start : start + 64])

    def _pattern(self, word: bytes, offset: int, tag: int):
        address, *rest = struct.unpack_from("<I4h4H", word, offset)
        if address >= 0x2000000:
            partition, byte = divmod(address - 0x2000000, 0x8000)
            memory = self.psum
        else:
            partition, byte = divmod(address, 0x40000)
            memory = self.sbuf
        return memory, partition, byte, rest[:4], rest[4:], np.dtype(DTYPES[tag])

    @staticmethod
    def _walk(steps, nums):
        for index in itertools.product(*(range(n) for n in reversed(nums))):
            yield sum(i * s for i, s in zip(index, reversed(steps), strict=True))

    def _get(self, where, position, channels):
        memory, partition, byte, _, _, dtype = where
        at = byte + position * dtype.itemsize
        raw = memory[partition : partition + channels, at : at + dtype.itemsize]
        return np.ascontiguousarray(raw).view(dtype)[:, 0]

    def _put(self, where, position, values):
        memory, partition, byte, _, _, dtype = where
        at = byte + position * dtype.itemsize
        if dtype.kind in "iu" and values.dtype.kind == "f":
            info = np.iinfo(dtype)
            values = np.clip(np.rint(values.astype(np.float64)), info.min, info.max)
        raw = values.astype(dtype).reshape(-1, 1).view(np.uint8)
        memory[partition : partition + len(values), at : at + dtype.itemsize] = raw

    def step(self, word: bytes) -> None:
        kind = OPCODES[self.reading][word[0]]
        channels = word[0x22]
        source = self._pattern(word, 0x0C, word[0x20])
        out = self._pattern(word, 0x2C, word[0x21])
        elements = [self._get(source, p, channels) for p in self._walk(source[3], source[4])]
        outputs = list(self._walk(out[3], out[4]))
        if kind == RECIPROCAL:
            results = [np.float32(1) / e.astype(np.float32) for e in elements]
        elif kind in (CR, CR_BITS):
            results = self._cross_lane(kind, word, elements)
        else:
            window = 1
            for n in source[4][: word[0x25] - 1]:
                window *= n
            groups = [elements[i : i + window] for i in range(0, len(elements), window)]
            results = [self._fold(kind, word, group) for group in groups]
        assert len(results) == len(outputs)
        for position, value in zip(outputs, results, strict=True):
            self._put(out, position, value)

    def _fold(self, kind, word, group):
        if kind == POOL and word[0x24] == 2:
            total = np.zeros(len(group[0]), np.float32)
            for x in group:
                total = total + x.astype(np.float32)
            return (total.astype(np.float64) * (1.0 / len(group))).astype(np.float32)
        if kind == POOL:
            acc = np.full(len(group[0]), -FLT_MAX, np.float32)
            for x in group:
                value = x.astype(np.float32)
                acc = np.where(value > acc, value, acc)
            return acc
        if kind == TR_BITS:
            acc = group[0]
            for x in group[1:]:
                acc = BIT_OPS[word[0x24]](acc, x)
            return acc
        exact = word[0x20] == word[0x21] == 8
        operator = (INT_OPS if exact else FLOAT_OPS)[word[0x24]]
        wide = np.int64 if exact else np.float32
        acc = group[0].astype(wide)
        for x in group[1:]:
            acc = operator(acc, x.astype(wide))
        if word[0x23]:
            acc = saturated(-acc) if exact else -acc
        return acc

    @staticmethod
    def _cross_lane(kind, word, elements):
        assert word[0x24] == 1
        results = []
        (scale,) = struct.unpack_from("<f", word, 0x28)
        for lanes in elements:
            values = lanes if kind == CR_BITS else lanes.astype(np.float32)
            if word[0x23] == 1:
                values = values * np.float32(scale)
            acc = values[:1]
            for x in values[1:]:
                if kind == CR_BITS:
                    acc = {3: np.bitwise_or, 4: np.bitwise_and, 5: np.bitwise_xor}[word[0x23]](acc, x)
                else:
                    acc = larger(acc, x) if word[0x23] == 2 else acc + x
            results.append(acc)
        return results
