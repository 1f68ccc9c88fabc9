"""Evaluating the chunks of a sweep: here, or on the workers of a Dask cluster."""

from __future__ import annotations

import contextlib
import logging
import pickle
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import CancelledError
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lanefold.arguments import path as path_argument
from lanefold.arguments import shown
from lanefold.diagnostics import LanefoldError, Rule
from lanefold.sweeps.files import missing_extra, writer_of
from lanefold.sweeps.space import Chunk, Space, resolve
from lanefold.sweeps.spec import Spec, read_spec
from lanefold.sweeps.store import Store, pack, unpack
from lanefold.sweeps.table import SweepTable

if TYPE_CHECKING:
    from distributed import Client, Future

WORKERS = Rule(
    "SWEEP-WORKERS", "A sweep runs here, on a number of local workers, or on one scheduler.", "Sweeps", usage=True
)
SCHEDULER = Rule("SWEEP-SCHEDULER", "A scheduler answers at its address, and its workers live.", "Sweeps", usage=True)
SAME = Rule("SWEEP-SAME-VERSION", "All workers run the version of lanefold that asks them.", "Sweeps", usage=True)

MOST_WORKERS = 256
"""Most worker processes that are started here."""
_AHEAD = 4
"""Chunks that are handed out per worker before the first of them is back."""
_TRIES = 10
"""Workers that may die over one chunk before the sweep gives up."""
_CONNECT = 10
"""Seconds to wait for a scheduler."""

Advance = Callable[[int], None]


def sweep(
    spec: str | Path | Mapping[str, Any],
    output: str | Path | None = None,
    *,
    workers: int = 0,
    scheduler: str = "",
    objective: str = "",
    skip_unknown: bool | None = None,
    progress: bool = False,
) -> SweepTable:
    """Prices many shapes at once, for several operations, element types, layouts, targets and models.

    Args:
        spec: path of a TOML file, or a mapping with the same keys.
        output: a ``.csv`` or ``.parquet`` file for the table; finished chunks stay beside it until it is written, and
            a sweep that was interrupted goes on from them.
        workers: local worker processes; 0 evaluates in this process.
        scheduler: address of a Dask scheduler, such as ``tcp://10.0.0.1:8786``.
        objective: what `SweepTable.best` makes least, in place of the sweep's own.
        skip_unknown: leave out, and count, rows whose cost is unknown, in place of the sweep's own wish.
        progress: show a progress bar on stderr.

    Raises:
        LanefoldError: SWEEP-… for a sweep that cannot be made, with the key and its line.
    """
    _check_workers(workers, scheduler)
    asked = read_spec(spec, objective=objective, skip_unknown=skip_unknown)
    space = resolve(asked)
    path = path_argument("sweep", "output", output, "sweep.csv") if output is not None else None
    write = writer_of(path) if path else None
    store = Store(space, path)
    with _bar(space, store, progress) as advance:
        if workers or scheduler:
            _on_cluster(store, workers, scheduler, advance)
        else:
            for chunk in store.missing:
                store.keep(chunk, space.evaluate(chunk))
                advance(chunk.count)
    table = SweepTable(space, store.in_order(), store.resumed)
    if path is not None and write is not None:
        write(table, path)
        store.clear()
    return table


def _check_workers(workers: int, scheduler: str) -> None:
    if isinstance(workers, bool) or not isinstance(workers, int) or not 0 <= workers <= MOST_WORKERS:
        raise WORKERS.error(
            f"{shown(workers)} is no number of workers",
            got=shown(workers),
            allowed=f"a whole number from 0 to {MOST_WORKERS}; beyond that, a scheduler",
            cures=[
                "leave it out to run in this process",
                "use 2 workers: workers=2, or --workers 2 on the command line",
            ],
        )
    if not isinstance(scheduler, str):
        raise WORKERS.error(
            f"{shown(scheduler)} is no address of a scheduler",
            got=shown(scheduler),
            allowed="a text such as tcp://10.0.0.1:8786",
            cures=["leave it out to run in this process", "use scheduler='tcp://10.0.0.1:8786'"],
        )
    if workers and scheduler:
        raise WORKERS.error(
            "local workers and a scheduler are asked for at once",
            got=f"{workers} workers and {scheduler}",
            allowed="one of the two",
            cures=["leave out workers", "leave out scheduler"],
        )
    if (workers or scheduler) and find_spec("distributed") is None:
        raise missing_extra("Sweeps over many workers", "dask[distributed]")


@contextlib.contextmanager
def _bar(space: Space, store: Store, shown: bool) -> Iterator[Advance]:
    if not shown:
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    words = (
        TextColumn("sweep"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("configurations"),
        TimeRemainingColumn(),
    )
    with Progress(*words, console=Console(stderr=True), transient=True) as bar:
        left = sum(chunk.count for chunk in store.missing)
        task = bar.add_task("", total=space.count, completed=space.count - left)
        yield lambda count: bar.advance(task, count)


@lru_cache(maxsize=4)
def _space(frozen: bytes) -> Space:
    spec: Spec = pickle.loads(frozen)  # noqa: S301 - Dask itself has brought these bytes to the worker as a pickle
    return resolve(spec)


def evaluate_remotely(frozen: bytes, number: int) -> tuple[str, bytes]:
    """On a worker: digest of the sweep as this worker understands it, and the packed numbers of one chunk."""
    space = _space(frozen)
    return space.digest, pack(space.evaluate(space.chunks[number]))


def _on_cluster(store: Store, workers: int, scheduler: str, advance: Advance) -> None:
    with _client(workers, scheduler) as client:
        _Errand(client, store, advance).run()


@contextlib.contextmanager
def _client(workers: int, scheduler: str) -> Iterator[Client]:
    from distributed import Client

    try:
        if scheduler:
            client = Client(scheduler, timeout=_CONNECT)
        else:
            client = Client(n_workers=workers, threads_per_worker=1, dashboard_address=":0", silence_logs=logging.ERROR)
    except (OSError, ValueError, TimeoutError, RuntimeError) as error:
        what = f"no scheduler answers at {scheduler}" if scheduler else f"{workers} local workers cannot be started"
        raise SCHEDULER.error(
            f"{what}: {error}",
            got=scheduler or f"{workers} workers",
            allowed="the address of a running Dask scheduler, such as tcp://10.0.0.1:8786, or local workers",
            cures=["start one with dask scheduler", "use local workers: --workers 2", "run in one process"],
        ) from None
    with client:
        yield client


class _Errand:
    """Hands chunks out to workers, a few ahead, and keeps what comes back; chunks of lost workers go out again."""

    def __init__(self, client: Client, store: Store, advance: Advance) -> None:
        self.client, self.store, self.advance = client, store, advance
        self.frozen = pickle.dumps(store.space.spec)
        self.tries: Counter[int] = Counter()
        self.out: dict[str, Chunk] = {}

    def run(self) -> None:
        """Until every chunk is kept.

        Raises:
            LanefoldError: SWEEP-SCHEDULER if workers keep dying, SWEEP-SAME-VERSION if one runs another version.
        """
        from distributed import as_completed

        waiting = list(reversed(self.store.missing))
        pool = as_completed([])
        ahead = _AHEAD * max(len(self.client.nthreads()), 1)
        while waiting and len(self.out) < ahead:
            pool.add(self._submit(waiting.pop()))
        for future in pool:
            chunk = self.out.pop(future.key)
            if not self._take(chunk, future):
                waiting.append(chunk)
            if waiting:
                pool.add(self._submit(waiting.pop()))

    def _submit(self, chunk: Chunk) -> Future:
        self.tries[chunk.number] += 1
        future = self.client.submit(evaluate_remotely, self.frozen, chunk.number, pure=False)
        self.out[future.key] = chunk
        return future

    def _take(self, chunk: Chunk, future: Future) -> bool:
        """Keeps the numbers of a chunk; false where its workers were lost and it has to go out again."""
        from distributed import KilledWorker

        try:
            digest, data = future.result()
        except (KilledWorker, CancelledError) as error:
            if self.tries[chunk.number] < _TRIES and self.client.status == "running":
                return False
            raise SCHEDULER.error(
                f"workers were lost {self.tries[chunk.number]} times over one part of the sweep: {error}",
                got=f"{len(self.client.nthreads())} workers left",
                allowed="workers that live until their part is done",
                cures=[
                    "run the sweep again: finished parts are kept",
                    "give each worker more memory, or set a smaller chunk",
                ],
            ) from None
        except (ImportError, AttributeError, pickle.UnpicklingError) as error:
            raise _other_version(f"it cannot read the sweep: {error}", repr(error)[:80], "the same version") from None
        if digest != self.store.space.digest:
            raise _other_version("it understands the sweep differently", digest, self.store.space.digest)
        self.store.keep(chunk, unpack(data))
        self.advance(chunk.count)
        return True


def _other_version(what: str, got: str, allowed: str) -> LanefoldError:
    return SAME.error(
        f"a worker runs another version of lanefold, or none: {what}",
        got=got,
        allowed=allowed,
        cures=["install the same version of lanefold on every worker"],
    )
