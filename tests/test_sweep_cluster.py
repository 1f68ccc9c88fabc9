"""Sweeps on a Dask cluster that the test starts: the same table as here, and nothing lost with a worker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import lanefold as lf
from lanefold.diagnostics import LanefoldError
from lanefold.sweeps import run

distributed = pytest.importorskip("distributed", reason="dask[distributed] is not installed")
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

SPEC = {
    "ops": ["TROWSUM", "TCOLSUM"],
    "dtypes": ["f32", "f16"],
    "targets": ["a2a3", "a5"],
    "models": ["calibrated", "stream"],
    "shapes": {"rows": {"from": 1, "to": 250}, "cols": {"from": 8, "to": 1600, "step": 8}},
    "chunk": 10_000,
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[object]:
    made = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs=50
    )
    with made:
        yield made


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("local") / "out.csv"
    lf.sweep(SPEC, path)
    return path.read_bytes()


def test_two_workers_give_the_same_table(cluster, local: bytes, tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    table = lf.sweep(SPEC, path, scheduler=cluster.scheduler_address)
    assert len(table) == 16 * 50_000
    assert path.read_bytes() == local
    assert list(tmp_path.iterdir()) == [path]


def test_a_killed_worker_loses_nothing(cluster, local: bytes, tmp_path: Path, monkeypatch) -> None:
    path, killed = tmp_path / "out.csv", []
    real = run.Store.keep

    def keep(self, chunk, found) -> None:
        real(self, chunk, found)
        if len(self.found) == 10:
            nanny = next(iter(cluster.workers.values()))
            killed.append(nanny.process.pid)
            nanny.process.process.kill()

    monkeypatch.setattr(run.Store, "keep", keep)
    lf.sweep(SPEC, path, scheduler=cluster.scheduler_address)
    assert len(killed) == 1
    assert path.read_bytes() == local


def test_local_workers(local: bytes, tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    lf.sweep(SPEC, path, workers=2)
    assert path.read_bytes() == local


def test_another_version_on_a_worker_is_told(cluster, monkeypatch) -> None:
    monkeypatch.setattr(run.Space, "digest", "another")
    with pytest.raises(LanefoldError, match="SWEEP-SAME-VERSION"):
        lf.sweep(SPEC, scheduler=cluster.scheduler_address)


def test_no_scheduler_is_told(monkeypatch) -> None:
    monkeypatch.setattr(run, "_CONNECT", 1)
    with pytest.raises(LanefoldError, match="SWEEP-SCHEDULER"):
        lf.sweep(SPEC, scheduler="tcp://127.0.0.1:9")
    with pytest.raises(LanefoldError, match="SWEEP-SCHEDULER"):
        lf.sweep(SPEC, scheduler="nonsense://")


@pytest.mark.parametrize(
    "arguments", [{"workers": -1}, {"workers": True}, {"workers": 2, "scheduler": "tcp://127.0.0.1:9"}]
)
def test_bad_workers(arguments: dict[str, object]) -> None:
    with pytest.raises(LanefoldError, match="SWEEP-WORKERS"):
        lf.sweep(SPEC, **arguments)


def test_missing_packages_are_told(monkeypatch, tmp_path: Path) -> None:
    from lanefold.sweeps import files

    monkeypatch.setattr(run, "find_spec", lambda name: None)
    monkeypatch.setattr(files, "find_spec", lambda name: None)
    for arguments in ({"workers": 2}, {"output": tmp_path / "out.parquet"}):
        with pytest.raises(LanefoldError) as caught:
            lf.sweep(SPEC, **arguments)
        assert caught.value.diagnostics[0].cures[0].text == "python -m pip install 'lanefold[scale]'"
