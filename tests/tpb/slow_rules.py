"""The bundle rules once more: one bundle at a time, plain numbers, written from the validator sheets."""

from __future__ import annotations

import itertools
import math
import struct
from dataclasses import dataclass

import numpy as np

from tests.tpb.rule_bundles import OPCODES, struct_of

SIZES = {1: 8, 2: 1, 3: 1, 4: 2, 5: 2, 6: 2, 7: 2, 8: 4, 9: 4, 10: 4, 11: 4, 12: 8, 13: 1, 14: 1, 15: 1, 16: 2}
ALIGNMENTS = {**SIZES, 16: 1}
SBUF = {"v2": 196608, "v3": 229376, "v4": 262144}
GENERAL = {0, 4, 5, 6, 8, 9, *range(0x0D, 0x10), *range(0x12, 0x1A)}
GENERAL_V4 = GENERAL | {0x20, 0x21, 0x22, 0x23}
BITS = {0, 1, 2, 3, 0x0A, 0x0B, 0x0C, 0x10, 0x11, 0x1C}
INTEGERS_V2 = {0x1B, 0xC4, 0xC5, 0xC6}
INTEGERS = {0x1B, *range(0xC4, 0xCE), *range(0xCF, 0xE2)}
KNOWN_V2 = {*range(0x1E), 0xC4, 0xC5, 0xC6}
KNOWN_V3 = {*range(0x1E), *range(0xC4, 0xE2)}
KNOWN_V4 = KNOWN_V3 | {0x20, 0x21, 0x22, 0x23}
WAITS = {*range(8), 0x0E, 0x0F, *range(0x81, 0x86), 0xFE}
UPDATES = {0, 1, 2, 3, 4, 5, 7, 9, 0x11, 0x12, 0x13, 0x14, 0x15, 0x17, 0x19, 0x85, 0x87, 0x89, 0x95, 0x97, 0x99}
EXACT = {2: (-128, 127), 3: (0, 255), 4: (-(2**15), 2**15 - 1), 5: (0, 2**16 - 1), 8: (-(2**31), 2**31 - 1)}
EXACT |= {9: (0, 2**32 - 1), 1: (0, 2**64 - 1), 12: (-(2**63), 2**63 - 1)}
EXACT |= {6: (-256, 256), 7: (-2048, 2048), 10: (-(2**24), 2**24), 11: (-4096, 4096)}
EXACT |= {13: (-15.5, 15.5), 14: (-16, 16), 15: (-8, 8)}


@dataclass
class Walk:
    """One descriptor of one bundle."""

    word: int
    steps: tuple[int, ...]
    nums: tuple[int, ...]
    raw: bytes
    tag: int
    channels: int
    writes: bool
    sbuf_only: bool
    may_indirect: bool
    least_alignment: int = 1

    @property
    def register(self) -> bool:
        return bool(self.word >> 31)

    @property
    def shape(self) -> bool:
        return bool(self.word >> 30 & 1)

    @property
    def indirect(self) -> bool:
        return bool(self.word >> 29 & 1)

    @property
    def address(self) -> int:
        if self.indirect and self.may_indirect:
            return int.from_bytes(self.raw[4:8], "little") & 0x1FFFFFFF
        return self.word & 0x1FFFFFFF

    @property
    def placed(self) -> bool:
        if self.may_indirect and self.indirect:
            return True
        return not self.register and not self.indirect

    @property
    def psum(self) -> bool:
        return 0x2000000 <= self.address < 0x2400000

    @property
    def spot(self) -> tuple[int, int]:
        if self.psum:
            return divmod(self.address - 0x2000000, 0x8000)
        return divmod(self.address, 0x40000)

    @property
    def plain(self) -> bool:
        return not self.shape and not self.indirect

    @property
    def count(self) -> int:
        return math.prod(self.nums)

    @property
    def counted(self) -> bool:
        return self.plain and self.count > 0

    def room(self, generation: str) -> int:
        return 16384 if self.psum else SBUF[generation]

    def ends(self) -> tuple[int, int]:
        reaches = [step * (num - 1) for step, num in zip(self.steps, self.nums, strict=True)]
        size, byte = SIZES.get(self.tag, 1), self.spot[1]
        low = byte + size * sum(reach for reach in reaches if reach < 0)
        return low, byte + size * (sum(reach for reach in reaches if reach > 0) + 1)

    @property
    def moves(self) -> int:
        return math.prod(num for step, num in zip(self.steps, self.nums, strict=True) if step)

    def touched(self) -> set[int]:
        size, byte = SIZES.get(self.tag, 1), self.spot[1]
        moves = [
            [step * place for place in range(num if step else 1)]
            for step, num in zip(self.steps, self.nums, strict=True)
        ]
        starts = {byte + size * sum(move) for move in itertools.product(*moves)}
        return {start + i for start in starts for i in range(size)}


def _form(walk: Walk, generation: str, op_dim: int | None) -> set[str]:
    found = set()
    if walk.indirect and walk.shape:
        found.add("TPB-ADDRESS-FORM")
    middle = walk.word & (0x1FFFFF00 if generation == "v2" else 0x00FFFF00)
    if walk.register and (walk.word & 0xFF >= 64 or middle):
        found.add("TPB-ADDRESS-REGISTER")
    if not walk.indirect:
        return found
    if not walk.may_indirect:
        return found | {"TPB-INDIRECT-OPERAND"}
    index = walk.word & 0x1FFFFFFF
    if not walk.register and (index % 4 or index >= 0x2000000 or index % 0x40000 >= SBUF["v4"]):
        found.add("TPB-INDIRECT-INDEX")
    if int.from_bytes(walk.raw[4:8], "little") >> 29:
        found.add("TPB-INDIRECT-DATA")
    if walk.raw[8:10] == b"\0\0":
        found.add("TPB-INDIRECT-COUNT")
    if any(walk.raw[10:20]):
        found.add("TPB-INDIRECT-SPARE")
    if not walk.register and not walk.psum and index // 0x40000 // 32 != walk.spot[0] // 32:
        found.add("TPB-INDIRECT-QUADRANT")
    if op_dim is not None and op_dim != 2:
        found.add("TPB-INDIRECT-AXIS")
    return found


def _place(walk: Walk, generation: str) -> set[str]:
    found = set()
    if walk.plain and not walk.count:
        found.add("TPB-PATTERN-NUM")
    if not walk.placed:
        return found
    partition, byte = walk.spot
    if byte >= walk.room(generation) or walk.address >= 0x2400000:
        found.add("TPB-OPERAND-PARTITION")
    if walk.sbuf_only and walk.psum:
        found.add("TPB-OPERAND-PLACEMENT")
    if walk.writes and walk.psum and not walk.sbuf_only and walk.tag not in (8, 9, 10, 11):
        found.add("TPB-PSUM-WRITE")
    if walk.address % max(ALIGNMENTS.get(walk.tag, 1), walk.least_alignment):
        found.add("TPB-ALIGNMENT")
    most = {0: 128, 32: 32, 64: 64, 96: 32}.get(partition, 0)
    if walk.channels > most and walk.channels <= 128 and partition < 128:
        found.add("TPB-START-PARTITION")
    if walk.channels == 0 and partition < 128 and partition not in (0, 32, 64, 96):
        pass  # the channel count is the fault
    if walk.counted and byte < walk.room(generation):
        low, high = walk.ends()
        if low < 0 or high > walk.room(generation):
            found.add("TPB-WALK-BOUNDS")
    return found


def _dtype(tag: int, generation: str, *, output: bool, wide: bool) -> set[str]:
    found = set()
    if not 1 <= tag <= (16 if generation == "v4" else 15):
        found.add("TPB-DTYPE-TAG")
    if tag == 11 and not output:
        found.add("TPB-DTYPE-FP32R")
    if tag in (1, 12) and not wide:
        found.add("TPB-DTYPE-64BIT")
    if tag == 16 and generation == "v4":
        found.add("TPB-DTYPE-FP4")
    return found


def _bits(value: float) -> int:
    return int(np.float32(value).view(np.uint32))


def _inverse(count: int) -> np.float32:
    return np.float32(1.0) / np.float32(count)


def _inner(walk: Walk, dim: int) -> int:
    return math.prod(walk.nums[: dim - 1]) if 2 <= dim <= 5 else 1


def _pool(word: bytes, name: str, src: Walk, dst: Walk) -> set[str]:
    function, dim = word[0x24], word[0x25]
    (scale,) = struct.unpack_from("<f", word, 0x28)
    found = set()
    if function not in ((1, 2) if name == "pool" else (0,)):
        found.add("TPB-POOL-TYPE")
    if dim not in (2, 3, 4, 5):
        found.add("TPB-POOL-DIM")
    if name == "max_pool_select" and word[0x21] not in (3, 5, 9):
        found.add("TPB-POOL-SELECT-DTYPE")
    if word[0x23] or word[0x26] or word[0x27]:
        found.add("TPB-RESERVED-S4D4-PL")
    window = _inner(src, dim)
    if function != 2 and scale != 1.0:
        found.add("TPB-POOL-SCALE")
    if name == "pool" and function == 2 and not src.shape and scale != _inverse(max(window, 1)):
        found.add("TPB-POOL-SCALE-AVERAGE")
    if src.counted and dst.counted and dst.count * window != src.count:
        found.add("TPB-POOL-COUNT")
    return found


def _reciprocal(negated: int, op: int, dim: int, src: Walk, dst: Walk) -> set[str]:
    found = set()
    if negated:
        found.add("TPB-RECIPROCAL-NEGATED")
    if op:
        found.add("TPB-RECIPROCAL-OPERATOR")
    if dim not in (0, 2):
        found.add("TPB-RECIPROCAL-DIM")
    if src.counted and dst.counted and src.count != dst.count:
        found.add("TPB-RECIPROCAL-COUNT")
    return found


def _reduce(word: bytes, name: str, generation: str, src: Walk, dst: Walk) -> set[str]:
    negated, op, dim, mask = word[0x23:0x27]
    source, out = word[0x20], word[0x21]
    found = set()
    if mask:
        found.add("TPB-MASK-ENABLE")
    if any(word[0x27:0x2C]):
        found.add("TPB-RESERVED-S4D4-TR")
    if op not in {"v2": KNOWN_V2, "v3": KNOWN_V3, "v4": KNOWN_V4}[generation]:
        found.add("TPB-ALU-CODE")
    if name == "reciprocal":
        return found | _reciprocal(negated, op, dim, src, dst)
    if dim not in (2, 3, 4, 5):
        found.add("TPB-REDUCE-DIM")
    bits, pairs = name.endswith("bitvec"), name.endswith("bf16")
    if negated > (0 if bits else 1):
        found.add("TPB-REDUCE-NEGATED")
    if src.counted and dst.counted and dst.count * _inner(src, dim) != src.count:
        found.add("TPB-REDUCE-COUNT")
    if pairs:
        return found | _pairs(name, source, op, src)
    return found | _operator(op, source, out, generation, bits=bits)


def _operator(op: int, source: int, out: int, generation: str, *, bits: bool) -> set[str]:
    found = set()
    if bits:
        if op not in BITS:
            found.add("TPB-REDUCE-ALU-CLASS")
        if source != out or source not in (3, 5, 8, 9) or (op == 0x11 and source != 8):
            found.add("TPB-REDUCE-BITVEC-DTYPE")
    else:
        general = GENERAL_V4 if generation == "v4" else GENERAL
        integers = INTEGERS_V2 if generation == "v2" else INTEGERS
        if op not in general and not (op in integers and source in (1, 8, 9, 12)):
            found.add("TPB-REDUCE-ALU-CLASS")
        if generation != "v2" and 0xDE <= op <= 0xE1 and out != 9:
            found.add("TPB-REDUCE-ARG-DTYPE")
    return found


def _pairs(name: str, source: int, op: int, src: Walk) -> set[str]:
    found = set()
    if source != 6:
        found.add("TPB-BF16-DTYPE")
    if op != (4 if "add" in name else 8):
        found.add("TPB-BF16-OPERATOR")
    if src.steps[0] != 1 or (src.nums[0] % 2 and not src.shape):
        found.add("TPB-BF16-PATTERN")
    return found


def _cross(word: bytes, name: str, src: Walk, dst: Walk) -> set[str]:
    command, axis = word[0x23], word[0x24]
    (scale,) = struct.unpack_from("<f", word, 0x28)
    bits = name.endswith("bitvec")
    found = set()
    if command not in ((3, 4, 5) if bits else (0, 1, 2)):
        found.add("TPB-CROSS-LANE-COMMAND")
    if axis > 1:
        found.add("TPB-CROSS-LANE-AXIS")
    if any(word[0x25:0x28]):
        found.add("TPB-RESERVED-S4D4-CR")
    if bits and (word[0x20] != word[0x21] or word[0x20] not in (2, 3, 4, 5, 8, 9)):
        found.add("TPB-CROSS-LANE-DTYPE")
    elements = word[0x22] * (src.count if axis == 0 else 1)
    if not bits and command == 1 and not src.shape and scale != _inverse(max(elements, 1)):
        found.add("TPB-CROSS-LANE-SCALE")
    if src.counted and dst.counted and dst.count != (src.count if axis else 1):
        found.add("TPB-CROSS-LANE-COUNT")
    return found


def _search(word: bytes, name: str, src: Walk, dst: Walk) -> set[str]:
    even, odd = struct.unpack_from("<2f", word, 0x28)
    found = set()
    if any(word[0x23:0x28]) or any(word[0x3C:0x40]):
        found.add("TPB-RESERVED-S4D2-BN")
    if even != 0.0:
        found.add("TPB-SEARCH-EVEN-COUNT")
    if odd != 0.0:
        found.add("TPB-SEARCH-ODD-COUNT")
    if src.counted and not 8 <= src.count <= 16384:
        found.add("TPB-SEARCH-COUNT")
    if dst.counted and dst.count != 8:
        found.add("TPB-SEARCH-EIGHT")
    if name == "find_index8" and word[0x21] not in (5, 9):
        found.add("TPB-FIND-INDEX-DTYPE")
    return found


def _keys(word: bytes, src: Walk) -> set[str]:
    found = set()
    if any(word[0x0C:0x10]) or word[0x21] or any(word[0x23:0x2C]) or any(word[0x31:]):
        found.add("TPB-RESERVED-S2-BN")
    if any(word[0x1C:0x20]):
        found.add("TPB-KEYS-IMM1")
    if any(word[0x2C:0x30]):
        found.add("TPB-KEYS-IMM0")
    if word[0x30]:
        found.add("TPB-KEYS-IMM0-SOURCE")
    if src.counted and src.count != 8:
        found.add("TPB-KEYS-COUNT")
    return found


def _iota(word: bytes, dst: Walk) -> set[str]:
    (base,) = struct.unpack_from("<i", word, 0x0C)
    steps, nums = struct.unpack_from("<4h", word, 0x10), struct.unpack_from("<4H", word, 0x18)
    (multiplier,) = struct.unpack_from("<i", word, 0x24)
    found = set()
    if word[0x20] or word[0x23] or any(word[0x28:0x2C]):
        found.add("TPB-RESERVED-D4-IOTA")
    if not all(nums):
        found.add("TPB-PATTERN-NUM")
    elif dst.counted and math.prod(nums) != dst.count:
        found.add("TPB-IOTA-COUNT")
    reaches = [step * (num - 1) for step, num in zip(steps, nums, strict=True)] + [multiplier * (word[0x22] - 1)]
    low, high = EXACT.get(word[0x21], (-math.inf, math.inf))
    if base + sum(r for r in reaches if r < 0) < low or base + sum(r for r in reaches if r > 0) > high:
        found.add("TPB-IOTA-RANGE")
    return found


def _load(word: bytes, src: Walk) -> set[str]:
    start, mask = struct.unpack_from("<2I", word, 0x28)
    found = set()
    if word[0x21] or any(word[0x23:0x28]) or any(word[0x30:]):
        found.add("TPB-RESERVED-S4-PB")
    if mask not in (0, 1, 3, 7, 15, 31, 63, 127, 255, 511) or start & mask:
        found.add("TPB-GATHER-CHUNK")
    if src.counted and src.count > 512:
        found.add("TPB-CHUNK-COUNT")
    return found


def _gather(word: bytes, src: Walk, dst: Walk) -> set[str]:
    found = set()
    if word[0x23] or word[0x26] or word[0x27]:
        found.add("TPB-RESERVED-S4D4-GT")
    if word[0x20] not in (3, 5, 9):
        found.add("TPB-GATHER-INDEX-DTYPE")
    if word[0x24] > 1:
        found.add("TPB-GATHER-MISS")
    if word[0x25] > 1:
        found.add("TPB-GATHER-FREE")
    if src.counted and dst.counted and src.count != dst.count:
        found.add("TPB-GATHER-COUNT")
    return found


def _replace(word: bytes, src: Walk, dst: Walk) -> set[str]:
    found = {"TPB-RESERVED-S4D4-MR"} if any(word[0x23:0x28]) else set()
    unequal = dst.counted and dst.count != src.count
    if src.counted and (src.count > 16384 or unequal):
        found.add("TPB-REPLACE-COUNT")
    return found


def _walks(word: bytes, name: str, generation: str) -> dict[str, Walk]:
    kind = struct_of(name)
    at: dict[str, tuple[int, int]] = {
        "S4D2_BN": {"src": (0x0C, 4), "dst": (0x30, 2)},
        "S2_BN": {"src": (0x10, 2)},
        "D4_IOTA": {"dst": (0x2C, 4)},
        "S4_PB": {"src": (0x0C, 4)},
    }.get(kind, {"src": (0x0C, 4), "dst": (0x2C, 4)})
    made = {}
    for field, (offset, slots) in at.items():
        start, *numbers = struct.unpack_from(f"<I{slots}h{slots}H", word, offset)
        writes = field == "dst"
        made[field] = Walk(
            word=start,
            steps=tuple(numbers[:slots]),
            nums=tuple(numbers[slots:]),
            raw=word[offset : offset + 4 + 4 * slots],
            tag=word[0x21 if writes else 0x20],
            channels=1 if kind == "S4D4_CR" and writes else word[0x22],
            writes=writes,
            sbuf_only=kind in ("S4D4_CR", "S4_PB"),
            may_indirect=kind == "S4D4_TR" and generation == "v4",
            least_alignment=4 if name.endswith("bf16") and not writes else 1,
        )
    return made


def too_long_to_walk(word: bytes, generation: str, reading: str) -> bool:
    """Whether a walk of the bundle has so many elements that this model does not follow it."""
    names = {opcode: name for name, opcode in OPCODES[reading].items()}
    if word[0] not in names:
        return False
    walks = _walks(word, names[word[0]], generation).values()
    return any(walk.moves > 20_000 for walk in walks)


def _overlap(src: Walk, dst: Walk, generation: str) -> bool:
    for walk in (src, dst):
        if not (walk.counted and walk.placed):
            return False
        low, high = walk.ends()
        if low < 0 or high > walk.room(generation):
            return False
    first, second = src.spot[0], dst.spot[0]
    apart = src.psum != dst.psum or first >= second + dst.channels or second >= first + src.channels
    if apart:
        return False

    def essence(walk: Walk) -> object:
        pairs = [pair for pair in zip(walk.steps, walk.nums, strict=True) if pair[1] != 1]
        return walk.address, SIZES.get(walk.tag, 1), pairs

    if max(src.moves, dst.moves) > 20_000:
        return False
    return essence(src) != essence(dst) and bool(src.touched() & dst.touched())


def codes(word: bytes, generation: str, reading: str) -> set[str]:
    """Codes of every error and warning on one bundle, without what needs its neighbours or an engine."""
    names = {opcode: name for name, opcode in OPCODES[reading].items()}
    name = names.get(word[0], "")
    if not name or (name.endswith("bf16") and generation != "v2"):
        return {"TPB-OPCODE"}
    found = set()
    if word[1] != 16:
        found.add("TPB-WORD-LENGTH")
    if word[2] not in (0, 1, 3, 5, 7, 9):
        found.add("TPB-DEBUG-COMMAND")
    if word[4] not in WAITS:
        found.add("TPB-WAIT-MODE")
    if word[6] not in UPDATES:
        found.add("TPB-UPDATE-MODE")
    if not 1 <= word[0x22] <= 128:
        found.add("TPB-CHANNELS")
    walks = _walks(word, name, generation)
    wide = "tensor_reduce" in name and not name.endswith("bf16") and generation != "v2"
    folds = "tensor_reduce" in name
    for walk in walks.values():
        found |= _dtype(walk.tag, generation, output=walk.writes, wide=wide)
        found |= _form(walk, generation, word[0x25] if folds else None) | _place(walk, generation)
    src, dst = walks.get("src"), walks.get("dst")
    if src and dst:
        found |= _two(word, name, generation, src, dst)
    elif src:
        found |= _keys(word, src) if name == "match_value_load" else _load(word, src)
    elif dst:
        found |= _iota(word, dst)
    return found


def _two(word: bytes, name: str, generation: str, src: Walk, dst: Walk) -> set[str]:
    found = {"TPB-OVERLAP"} if _overlap(src, dst, generation) else set()
    kind = struct_of(name)
    if name.startswith("transpose"):
        if word[0x22] % 32:
            found.add("TPB-TRANSPOSE-CHANNELS")
        if src.counted and src.count % 32:
            found.add("TPB-TRANSPOSE-COUNT")
    if kind == "S4D4_PL":
        return found | _pool(word, name, src, dst)
    if kind == "S4D4_TR":
        return found | _reduce(word, name, generation, src, dst)
    if kind == "S4D4_CR":
        return found | _cross(word, name, src, dst)
    if kind == "S4D2_BN":
        return found | _search(word, name, src, dst)
    if kind == "S4D4_MR":
        return found | _replace(word, src, dst)
    return found | _gather(word, src, dst)
