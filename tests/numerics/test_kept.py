"""Machine code on disk: shared by processes, never of older sources, and not needed."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numba.core.caching import CacheImpl

from lanefold.numerics import kernels
from lanefold.numerics.kernels import shapes
from lanefold.numerics.kernels.jit import compiled
from lanefold.numerics.kernels.kept import Kept

EXCHANGE = """
import sys
import numpy as np
from lanefold.numerics import kernels
from lanefold.numerics.kernels import shapes
for name in sys.argv[1:]:
    values = np.arange(32 * 32).reshape(32, 32).astype(name)
    assert np.array_equal(kernels.exchange32(values), values.T), name
print(sum(shapes.exchange32.stats.cache_hits.values()))
"""


def test_processes_that_compile_at_the_same_time_keep_the_code_of_each(tmp_path: Path):
    names = ["uint8", "uint16", "uint32", "float64"]
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}

    def begin(*some: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", EXCHANGE, *some]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)  # noqa: S603

    together = [begin(name) for name in names]
    assert [process.communicate()[0].strip() for process in together] == ["0"] * len(names)
    after = begin(*names)
    assert after.communicate()[0].strip() == str(len(names))
    assert after.returncode == 0


def test_code_of_other_sources_is_not_used():
    kernels.iota(1, 0, 0, (2,), (1,))
    function = shapes.iota_flat
    kept = Kept(function.py_func)
    found = [kept.load_overload(types, function.targetctx) for types in function.overloads]
    assert None not in found
    kept._sources = "others"
    assert [kept.load_overload(types, function.targetctx) for types in function.overloads] == [None] * len(found)


def test_without_a_folder_to_write_to_loops_are_compiled_all_the_same(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(CacheImpl, "_locator_classes", [])
    copy = compiled(shapes.exchange32.py_func)
    values = np.arange(32 * 32, dtype=np.int32).reshape(32, 32)
    out = np.empty_like(values)
    copy(values, out)
    assert np.array_equal(out, values.T)
