"""Rules on element counts: how many elements the operands of one instruction have in relation to each other."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from lanefold.diagnostics import RULES, Cure, Rule, Severity
from lanefold.tpb import isa
from lanefold.tpb.rules.batch import Batch, Mask
from lanefold.tpb.rules.checks import Check, Checks, Explained

_WINDOW = Rule(
    "TPB-POOL-COUNT",
    "A pool writes one element per window: source count = destination count times window size.",
    "ISA headers: S4D4_PL, window-major stream",
    Severity.WARNING,
)
_FOLD = Rule(
    "TPB-REDUCE-COUNT",
    "A tensor reduce writes one element per fold: source count = destination count times the folded nums.",
    "ISA headers: is_valid_tensor_reduce, collapse rule by convention",
)
_RECIPROCAL = Rule(
    "TPB-RECIPROCAL-COUNT",
    "A reciprocal reads and writes the same number of elements.",
    "ISA headers: is_valid_reciprocal",
    predicate="s4d4_tr_same_src_dst_count",
)
_GATHER = Rule(
    "TPB-GATHER-COUNT",
    "A gather writes one element per index.",
    "ISA headers: S4D4_GT",
    predicate="d4_gt_same_src_dst",
)
_CROSS = Rule(
    "TPB-CROSS-LANE-COUNT",
    "A cross-lane reduce writes a single element with reduce_axis ALL, and as many as it reads with PARTITIONS.",
    "ISA headers: is_valid_cross_lane_reduce",
    predicate="valid_axis_dst_element_cnt",
)
_SEARCHED = RULES["TPB-SEARCH-COUNT"]
_FOUND = RULES["TPB-SEARCH-EIGHT"]
_KEYS = Rule(
    "TPB-KEYS-COUNT",
    "MatchValueLoad reads exactly 8 keys per partition.",
    "ISA headers: is_valid_match_value_load",
    predicate="has_match_value_load_src_element_cnt",
)
_REPLACED = Rule(
    "TPB-REPLACE-COUNT",
    f"MatchReplace8 reads at most {isa.SEARCH_COUNT[1]} elements per partition and writes as many as it reads.",
    "ISA headers: S4D4_MR",
)
_IOTA = Rule(
    "TPB-IOTA-COUNT",
    "An iota generates as many elements as its destination takes.",
    "ISA headers: is_valid_iota; Pool Encoding 4",
    predicate="d4_iota_same_src_dst_count",
)
_CHUNK = Rule(
    "TPB-CHUNK-COUNT",
    "A pool buffer load copies at most 512 elements per partition.",
    "ISA headers: is_valid_pool_buffer_load",
    predicate="valid_pool_buffer_load_element_count",
)
_BLOCK_CHANNELS = Rule(
    "TPB-TRANSPOSE-CHANNELS",
    "A transposing reduce spans 32, 64, 96 or 128 channels.",
    "ISA headers: stream transpose",
    predicate="has_multiple_32_channels",
)
_BLOCK_COUNT = Rule(
    "TPB-TRANSPOSE-COUNT",
    "A transposing reduce reads a multiple of 32 elements per partition.",
    "ISA headers: stream transpose",
    predicate="has_transpose_src_element_count",
)

Count = npt.NDArray[np.uint64]


def folded(batch: Batch, dim_field: str) -> npt.NDArray[np.int64]:
    """Elements of one window or fold: the product of the source nums that the dim field names, 1 where it is odd."""
    nums = batch.walk("src").nums
    dims = batch.column(dim_field)
    product = np.ones(len(batch), np.int64)
    for slot, (_, number) in enumerate(isa.BIR_AXES.values()):
        inside = (dims >= number) & (dims <= isa.BIR_AXES["XYZW"][1])
        product = np.where(inside, product * nums[slot], product)
    return product


def _waived(batch: Batch, *fields: str) -> Mask | None:
    """Bundles whose counts are not in the descriptor, or zero, which has a rule of its own."""
    found: Mask | None = None
    for field in fields:
        walk = batch.walk(field)
        odd: Mask = ~walk.counted
        if walk.marked:
            odd |= ~walk.plain
        found = odd if found is None else found | odd
    return found


def _nums(batch: Batch, at: int, field: str) -> list[int]:
    return [int(num[at]) for num in batch.walk(field).nums]


def _relation(
    rule: Rule,
    field: str,
    reads: tuple[str, ...],
    ok: Callable[[Batch], Mask],
    explain: Callable[[Batch, int], Explained],
) -> Check:
    def whole(batch: Batch) -> Mask:
        found = ok(batch)
        waived = _waived(batch, *reads)
        return found if waived is None else found | waived

    return Check(rule, f"{field}.num_elem", whole, explain)


def _mismatch(batch: Batch, at: int, wanted: int, nums: list[int], text: str) -> Explained:
    got = int(batch.walk("dst").count[at])
    return Explained(
        f"{batch.row.mnemonic} writes {_elements(got)} per partition, {text}",
        got,
        str(wanted),
        (Cure(f"write {_elements(wanted)}", {"dst.num_elem": nums}),),
    )


def _elements(count: int) -> str:
    return f"{count} element{'s' * (count != 1)}"


def _per_fold(rule: Rule, dim_field: str) -> Check:
    def ok(batch: Batch) -> Mask:
        period = folded(batch, dim_field).view(np.uint64)
        found: Mask = batch.walk("dst").count * period == batch.walk("src").count
        return found

    def explain(batch: Batch, at: int) -> Explained:
        inner = isa.FOLDED_SLOTS.get(int(batch.column(dim_field)[at]), 0)
        nums = _nums(batch, at, "src")
        outer = nums[inner:] + [1] * inner
        wanted = int(batch.walk("src").count[at]) // int(folded(batch, dim_field)[at])
        return _mismatch(batch, at, wanted, outer, f"its source makes {wanted}: nums {nums[::-1]}, {inner} folded")

    return _relation(rule, "dst", ("src", "dst"), ok, explain)


def _same(rule: Rule) -> Check:
    def ok(batch: Batch) -> Mask:
        found: Mask = batch.walk("src").count == batch.walk("dst").count
        return found

    def explain(batch: Batch, at: int) -> Explained:
        wanted = int(batch.walk("src").count[at])
        return _mismatch(batch, at, wanted, _nums(batch, at, "src"), f"it reads {wanted}")

    return _relation(rule, "dst", ("src", "dst"), ok, explain)


def _cross_lane() -> Check:
    everything = isa.BIR_CROSS_LANE_AXES["XYZWC"][1]

    def ok(batch: Batch) -> Mask:
        out = batch.walk("dst").count
        whole = batch.column("reduce_axis") == everything
        found: Mask = out == np.where(whole, np.uint64(1), batch.walk("src").count)
        return found

    def explain(batch: Batch, at: int) -> Explained:
        if int(batch.column("reduce_axis")[at]) == everything:
            return _mismatch(batch, at, 1, [1, 1, 1, 1], "reduce_axis ALL leaves one")
        wanted = int(batch.walk("src").count[at])
        return _mismatch(batch, at, wanted, _nums(batch, at, "src"), f"reduce_axis PARTITIONS keeps the {wanted} read")

    return _relation(_CROSS, "dst", ("src", "dst"), ok, explain)


def _between(rule: Rule, field: str, low: int, high: int, cures: tuple[str, ...] = ()) -> Check:
    def ok(batch: Batch) -> Mask:
        count = batch.walk(field).count
        return (count >= np.uint64(low)) & (count <= np.uint64(high))

    def explain(batch: Batch, at: int) -> Explained:
        got = int(batch.walk(field).count[at])
        near = low if got < low else high
        slots = batch.walk(field).slots
        verb = "writes" if batch.walk(field).role.access == "write" else "reads"
        return Explained(
            f"{batch.row.mnemonic} {verb} {_elements(got)} per partition",
            got,
            str(low) if low == high else f"{low} to {high}",
            (Cure(f"walk {_elements(near)}", {f"{field}.num_elem": [near] + [1] * (slots - 1)}), *cures),
        )

    return _relation(rule, field, (field,), ok, explain)


def _generator() -> Check:
    def made(batch: Batch) -> Count:
        nums = batch.record["num_elem"]
        product = nums[:, 0].astype(np.uint64)
        for slot in range(1, 4):
            product *= nums[:, slot].astype(np.uint64)
        return product

    def ok(batch: Batch) -> Mask:
        count = made(batch)
        found: Mask = (count == batch.walk("dst").count) | (count == 0)
        return found

    def explain(batch: Batch, at: int) -> Explained:
        wanted = int(made(batch)[at])
        nums = [int(num) for num in batch.record["num_elem"][at]]
        return _mismatch(batch, at, wanted, nums, f"its pattern generates {wanted}")

    return _relation(_IOTA, "dst", ("dst",), ok, explain)


def _blocks() -> Checks:
    side = isa.TRANSPOSE_BLOCK

    def channels_ok(batch: Batch) -> Mask:
        found: Mask = batch.column("num_active_channels") % side == 0
        return found

    def channels_explain(batch: Batch, at: int) -> Explained:
        got = int(batch.column("num_active_channels")[at])
        near = min(max(-(-got // side), 1) * side, 128)
        return Explained(
            f"{batch.row.mnemonic} spans {got} channel{'s' * (got != 1)}",
            got,
            "32, 64, 96 or 128",
            (Cure(f"use {near} channels", {"num_active_channels": near}),),
        )

    yield Check(_BLOCK_CHANNELS, "num_active_channels", channels_ok, channels_explain)

    def count_ok(batch: Batch) -> Mask:
        found: Mask = batch.walk("src").count % np.uint64(side) == 0
        return found

    def count_explain(batch: Batch, at: int) -> Explained:
        got = int(batch.walk("src").count[at])
        nums = _nums(batch, at, "src")
        nums[0] = -(-nums[0] // side) * side if nums[0] <= 65504 else 65504
        return Explained(
            f"{batch.row.mnemonic} reads {_elements(got)} per partition",
            got,
            f"a multiple of {side}",
            (Cure(f"pad the innermost num to {nums[0]}", {"src.num_elem": nums}),),
        )

    yield _relation(_BLOCK_COUNT, "src", ("src",), count_ok, count_explain)


def count_checks(row: isa.BundleKind, generation: isa.Generation) -> Checks:
    """The relation that the row names."""
    least, most = isa.SEARCH_COUNT
    if row.counts == "window":
        yield _per_fold(_WINDOW, "pool_dim")
    elif row.counts in ("fold", "transpose_fold"):
        yield _per_fold(_FOLD, "op_dim")
    elif row.counts == "equal":
        yield _same(_GATHER if row.family == "gather" else _RECIPROCAL)
    elif row.counts in ("cross_lane", "transpose_cross_lane"):
        yield _cross_lane()
    elif row.counts == "search8":
        yield _between(
            _SEARCHED, "src", least, most, ("repeat a short row by a step of 0, search a long one in chunks",)
        )
        yield _between(_FOUND, "dst", least, least)
    elif row.counts == "keys8":
        yield _between(_KEYS, "src", least, least)
    elif row.counts == "replace":
        yield _between(_REPLACED, "src", 1, most)
        yield _same(_REPLACED)
    elif row.counts == "generator":
        yield _generator()
    elif row.counts == "chunk512":
        yield _between(_CHUNK, "src", 1, isa.GATHER_CHUNK, ("load the table in chunks of 512",))
    if row.counts.startswith("transpose"):
        yield from _blocks()
