"""The tables of element types and operators against the documents' byte strings and NumPy's own limits."""

from __future__ import annotations

import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest

from lanefold.diagnostics import LanefoldError
from lanefold.numerics import alu, dtypes


def test_tags_and_sizes():
    tags = bytes.fromhex("03 02 05 0d 0e 0e 03 0f 0e 0f 05 04 06 07 09 08 0a 0b 01 0c")
    assert [row.ordinal for row in dtypes.DTYPES] == list(range(20))
    for generation in ("v2", "v3", "v4"):
        expected = bytearray(tags)
        if generation == "v4":
            expected[2] = 0x10
        assert bytes(row.tag(generation) for row in dtypes.DTYPES) == bytes(expected)
    sizes = [1, 1, 2, 1, 1, 1, 1, 1, 4, 4, 2, 2, 2, 2, 4, 4, 4, 4, 8, 8]
    assert [row.bytes for row in dtypes.DTYPES] == sizes


def test_numpy_types():
    for row in dtypes.DTYPES:
        assert row.numpy.itemsize == row.raw.itemsize == row.bytes
        if row.is_integer:
            assert row.largest == np.iinfo(row.numpy).max
        elif row.is_float and row.name != "float32r":
            assert row.largest == float(ml_dtypes.finfo(row.numpy).max)
            assert row.mantissa == ml_dtypes.finfo(row.numpy).nmant
    assert dtypes.from_numpy(ml_dtypes.bfloat16).name == "bfloat16"
    assert dtypes.from_numpy(np.dtype(np.float32)).name == "float32"
    assert dtypes.from_numpy("float8_e4m3").name == "float8e4"
    for short, name in dtypes.PTO_NAMES.items():
        assert dtypes.by_name(name).bytes * 8 == int(short.lstrip("bfiu"))


def test_tags_decode():
    for generation in ("v2", "v3", "v4"):
        for row in dtypes.DTYPES:
            everyone = dtypes.alternatives(row.tag(generation), generation)
            assert row in everyone
            assert everyone[0] is dtypes.by_tag(row.tag(generation), generation)
    assert dtypes.by_tag(14).name == "float8e4"
    assert dtypes.by_name("float4_e2m1fn_x4").alignment("v2") == 2
    assert dtypes.by_name("float4_e2m1fn_x4").alignment("v4") == 1
    assert dtypes.by_name("uint64").alignment() == 8


@pytest.mark.parametrize(
    ("call", "code", "word"),
    [
        (lambda: dtypes.by_name("bf16"), "TPB-DTYPE-NAME", "write bfloat16"),
        (lambda: dtypes.by_name("flaot32"), "TPB-DTYPE-NAME", "write float32"),
        (lambda: dtypes.by_tag(0), "TPB-DTYPE-TAG", "1 to 15"),
        (lambda: dtypes.by_tag(16, "v3"), "TPB-DTYPE-TAG", "1 to 15"),
        (lambda: dtypes.from_numpy(np.complex64), "TPB-DTYPE-NUMPY", "astype"),
        (lambda: dtypes.from_numpy("float64"), "TPB-DTYPE-NUMPY", "astype"),
        (lambda: alu.by_name("maximum"), "TPB-ALU-NAME", "write max"),
        (lambda: alu.wire_alu(0x20, "v3"), "TPB-ALU-CODE", "0x04"),
        (lambda: alu.wire_alu(0x1E, "v4"), "TPB-ALU-CODE", "0x04"),
    ],
)
def test_bad_names(call, code, word):
    with pytest.raises(LanefoldError) as caught:
        call()
    assert caught.value.diagnostics[0].code == code
    assert word in str(caught.value)


def test_operators():
    assert [row.ordinal for row in alu.ALU_OPS] == list(range(33))
    assert len({row.name for row in alu.ALU_OPS}) == 33
    wire = [*range(19), 0x18, 0x13, 0x14, 0x16, 0x15, None, None, 0x1A, 0x1B, 0x1D, 0x19]
    assert [row.byte("v2") for row in alu.ALU_OPS[:30]] == wire
    assert [row.byte("v3") for row in alu.ALU_OPS[30:]] == [None] * 3
    assert [row.byte("v4") for row in alu.ALU_OPS[30:]] == [0x20, 0x21, 0xC8]
    for row in alu.ALU_OPS:
        for byte in row.wire:
            assert byte is None or alu.by_byte(byte) is row


def test_operator_bytes():
    counts = {"v2": (33, 17), "v3": (60, 17), "v4": (64, 21)}
    for generation, (total, general) in counts.items():
        rows = [row for row in alu.WIRE_ALU if row.exists(generation)]
        assert (len(rows), sum(row.general_arith for row in rows)) == (total, general)
    assert sum(row.bitvec for row in alu.WIRE_ALU) == 10
    assert sum(row.integer for row in alu.WIRE_ALU) == 26
    assert alu.by_name("add").general_arith("v2")
    assert not alu.by_name("divide").general_arith("v4")
    assert not alu.by_name("abs_max").general_arith("v3")
    assert alu.by_name("abs_max").general_arith("v4")


def test_import_is_light():
    code = (
        "import sys, lanefold.numerics.dtypes, lanefold.numerics.alu, lanefold.numerics.casts; "
        "print([m for m in ('ml_dtypes', 'numba', 'onnx') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603
    assert done.stdout.strip() == "[]"
