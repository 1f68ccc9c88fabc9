"""Rules on the forms of an address: immediate, from a register, indirect."""

from __future__ import annotations

import numpy as np

from lanefold.diagnostics import Cure, Rule, Severity
from lanefold.tpb import isa
from lanefold.tpb.binary import layout
from lanefold.tpb.limits import ADDRESS_REGISTER
from lanefold.tpb.limits.indirect import COUNT, DATA, INDEX, INDIRECT
from lanefold.tpb.rules.batch import Batch, Mask, Walk
from lanefold.tpb.rules.checks import Check, Checks, Explained
from lanefold.tpb.rules.spots import hexadecimal, moved, start_path

_MARKER = Rule(
    "TPB-ADDRESS-FORM",
    "The top bits of a start address are those of an immediate, a register, a shape-register or an indirect form.",
    "ADDR4: marker bits",
    predicate="tensor_start_addr_valid",
)
_INDIRECT_AXIS = Rule(
    "TPB-INDIRECT-AXIS",
    "A tensor reduce with an indirect operand folds X only.",
    "Pool Engine, TensorReduce (indirection only for axis X)",
)


_QUADRANT = Rule(
    "TPB-INDIRECT-QUADRANT",
    "Indices and data of an indirect operand lie in one quadrant of 32 partitions.",
    "ISA headers: indirect quadrant check",
    predicate="indirect_quadrant_check_src4d, indirect_quadrant_check_src4d_dst4d",
)


_SPARE = Rule(
    "TPB-INDIRECT-SPARE",
    "The ten bytes behind the count of an indirect operand are zero.",
    "INDIRECT20B",
    Severity.WARNING,
)


def form_checks(row: isa.BundleKind, generation: isa.Generation) -> Checks:
    """Register and indirect forms of an address."""
    for role in row.roles:
        yield from _form(role)
        yield from _indirect(row, role, generation)


def _form(role: isa.Role) -> Checks:
    field = role.field

    def marker_ok(batch: Batch) -> Mask:
        walk = batch.walk(field)
        # Indirect together with a shape register has neither producer nor consumer.
        return ~(walk.indirect & walk.shape) if walk.marked else batch.everywhere(True)

    def marker_explain(batch: Batch, at: int) -> Explained:
        word = int(batch.walk(field).word[at])
        return Explained(
            f"start address {hexadecimal(word)} is marked as indirect and as shaped by a register",
            hexadecimal(word),
            "top byte & 0xE0 one of 0x00, 0x20, 0x40, 0x80, 0xA0, 0xC0",
            (Cure("use the immediate form", {start_path(role): word & isa.ADDRESS_MASK}),),
        )

    yield Check(_MARKER, start_path(role), marker_ok, marker_explain)

    def register_ok(batch: Batch) -> Mask:
        walk = batch.walk(field)
        if not walk.marked:
            return batch.everywhere(True)
        # v2 wants every bit up to the markers zero, later generations only the two middle bytes.
        middle = 0x1FFFFF00 if batch.generation == "v2" else 0x00FFFF00
        found: Mask = ~walk.register
        found |= ((walk.word & np.uint32(0xFF)) < isa.ADDRESS_REGISTERS) & ((walk.word & np.uint32(middle)) == 0)
        return found

    def register_explain(batch: Batch, at: int) -> Explained:
        word = int(batch.walk(field).word[at])
        number = min(word & 0xFF, isa.ADDRESS_REGISTERS - 1)
        clean = (word & 0xE0000000) | number
        return Explained(
            f"start address {hexadecimal(word)} names no address register",
            hexadecimal(word),
            f"register 0 to {isa.ADDRESS_REGISTERS - 1} in the lowest byte, zero bytes above it",
            (Cure(f"name register {number}", {start_path(role): clean}),),
        )

    yield Check(ADDRESS_REGISTER, start_path(role), register_ok, register_explain)


def _indirect(row: isa.BundleKind, role: isa.Role, generation: isa.Generation) -> Checks:
    field = role.field
    kinds = {f.name: f.kind for f in isa.STRUCTS[row.struct].fields}
    if not (layout.indirect_exists(generation) and kinds[field] is isa.Kind.MEMORY4D):

        def never_ok(batch: Batch) -> Mask:
            return ~batch.walk(field).indirect

        def never_explain(batch: Batch, at: int) -> Explained:
            word = int(batch.walk(field).word[at])
            return Explained(
                f"{field} of {row.mnemonic} is indirect on {generation}",
                hexadecimal(word),
                "an immediate or register address; indirect operands exist in S4D4_TR from v4 on",
                (Cure("give the data's own address", {start_path(role): word & isa.ADDRESS_MASK}),),
            )

        yield Check(INDIRECT, start_path(role), never_ok, never_explain)
        return
    yield from _indirect_words(role)
    if row.family == "tensor_reduce":
        yield _indirect_axis(role)


def _when_indirect(field: str, batch: Batch) -> tuple[Walk, Mask] | None:
    walk = batch.walk(field)
    return (walk, ~walk.indirect) if walk.marked and walk.indirect.any() else None


def _indirect_axis(role: isa.Role) -> Check:
    inner = isa.BIR_AXES["X"][1]

    def ok(batch: Batch) -> Mask:
        some = _when_indirect(role.field, batch)
        return batch.everywhere(True) if some is None else some[1] | (batch.column("op_dim") == inner)

    def explain(batch: Batch, at: int) -> Explained:
        got = int(batch.column("op_dim")[at])
        return Explained(
            f"{role.field} is indirect and op_dim is {got}",
            got,
            f"{inner} (X)",
            (Cure("fold X only", {"op_dim": inner}),),
        )

    return Check(_INDIRECT_AXIS, "op_dim", ok, explain)


def _indirect_words(role: isa.Role) -> Checks:
    field = role.field

    def index_ok(batch: Batch) -> Mask:
        some = _when_indirect(field, batch)
        if some is None:
            return batch.everywhere(True)
        walk, ok = some
        word = walk.word & np.uint32(isa.ADDRESS_MASK)
        inside = word % np.uint32(batch.geometry.sbuf_stride) < batch.geometry.sbuf_bytes
        inside &= word < np.uint32(isa.SBUF_WINDOW[1])
        inside &= (word & np.uint32(3)) == 0
        found: Mask = ok | walk.register | inside
        return found

    def index_explain(batch: Batch, at: int) -> Explained:
        word = int(batch.walk(field).word[at])
        return Explained(
            f"the indices of {field} are at {hexadecimal(word & isa.ADDRESS_MASK)}",
            hexadecimal(word),
            "a multiple of 4 inside the state buffer",
            (
                Cure(
                    "place the indices on a 4-byte boundary of the state buffer", {start_path(role): _index_home(word)}
                ),
            ),
        )

    yield Check(INDEX, start_path(role), index_ok, index_explain)

    def data_ok(batch: Batch) -> Mask:
        some = _when_indirect(field, batch)
        return batch.everywhere(True) if some is None else some[1] | (some[0].record20["data_addr"] >> 29 == 0)

    def data_explain(batch: Batch, at: int) -> Explained:
        word = int(batch.walk(field).record20["data_addr"][at])
        return Explained(
            f"the data address of {field} is {hexadecimal(word)}",
            hexadecimal(word),
            "an immediate address, top three bits zero",
            (Cure("clear the top three bits", {f"{field}.data_addr": word & isa.ADDRESS_MASK}),),
        )

    yield Check(DATA, start_path(role), data_ok, data_explain)

    def count_ok(batch: Batch) -> Mask:
        some = _when_indirect(field, batch)
        return batch.everywhere(True) if some is None else some[1] | (some[0].record20["num_elem"] != 0)

    def count_explain(batch: Batch, at: int) -> Explained:
        return Explained(
            f"the indirect {field} reads 0 elements",
            0,
            "1 to 65535",
            (Cure("read at least one element", {f"{field}.num_elem_indirect": 1}),),
        )

    yield Check(COUNT, start_path(role), count_ok, count_explain)
    yield from _indirect_relations(role)


def _index_home(word: int) -> int:
    address = word & isa.ADDRESS_MASK
    if address >= isa.SBUF_WINDOW[1]:
        address = 0
    stride = isa.GEOMETRY["v2"].sbuf_stride
    inside = address % stride
    if inside >= isa.GEOMETRY["v2"].sbuf_bytes:
        address -= inside
    return (word & ~isa.ADDRESS_MASK) | (address & ~3)


def _indirect_relations(role: isa.Role) -> Checks:
    field = role.field

    def quadrant_ok(batch: Batch) -> Mask:
        some = _when_indirect(field, batch)
        if some is None:
            return batch.everywhere(True)
        walk, ok = some
        quadrant = batch.geometry.quadrant
        index = (walk.word & np.uint32(isa.ADDRESS_MASK)) // np.uint32(batch.geometry.sbuf_stride)
        same: Mask = index // quadrant == walk.partition // quadrant
        return ok | walk.register | walk.psum | same

    def quadrant_explain(batch: Batch, at: int) -> Explained:
        walk = batch.walk(field)
        stride, quadrant = batch.geometry.sbuf_stride, batch.geometry.quadrant
        index = (int(walk.word[at]) & isa.ADDRESS_MASK) // stride
        data = int(walk.partition[at])
        home = index // quadrant * quadrant
        return Explained(
            f"the indices of {field} start at partition {index}, its data at partition {data}",
            f"quadrants {index // quadrant} and {data // quadrant}",
            f"one quadrant of {quadrant} partitions",
            (
                Cure(
                    f"move the data to partition {home}",
                    moved(walk, at, psum=False, partition=home, byte=int(walk.byte[at])),
                ),
            ),
        )

    yield Check(_QUADRANT, start_path(role), quadrant_ok, quadrant_explain)

    def spare_ok(batch: Batch) -> Mask:
        some = _when_indirect(field, batch)
        return batch.everywhere(True) if some is None else some[1] | ~some[0].record20["reserved"].any(axis=1)

    def spare_explain(batch: Batch, at: int) -> Explained:
        spare = batch.walk(field).record20["reserved"][at].tobytes().hex(" ")
        return Explained(
            f"the bytes behind the count of the indirect {field} are {spare}",
            spare,
            "ten zero bytes",
            (Cure("clear them", {f"{field}.reserved": [0] * 10}),),
        )

    yield Check(_SPARE, start_path(role), spare_ok, spare_explain)
