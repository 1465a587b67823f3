"""CPU time of a worker by part, per job.

Every thread reads its CPU clock when it ends; store calls and garbage collections are timed individually.
This costs next to nothing, while a profiler would make small functions look expensive. Time spent waiting, for the disk
or for other threads, is not CPU time: only `wall` includes it.
"""

import gc
import threading
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from time import thread_time
from typing import Any

from benchmarks.alone import alone
from benchmarks.choosing import chosen
from benchmarks.machine import new_folder
from benchmarks.worker.field import FIELD
from benchmarks.worker.tenures import TenureBacklog

STORE, CLAIMER, SLOTS, GARBAGE, REST = "store", "claimer", "slots and handlers", "garbage collection", "the rest"
PARTS = (STORE, CLAIMER, SLOTS, GARBAGE, REST)
THREADS = {"tenure-claimer": CLAIMER, "tenure-worker": SLOTS, "tenure-task": SLOTS}
OPERATIONS = ("claim", "settle", "exchange")


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Microseconds per job."""

    contestant: str
    wall: float
    parts: dict[str, float]


def costs(name: str, number: int, folder: Path) -> Costs:
    """Run the jobs in a new process that measures its own CPU time."""
    with new_folder(folder) as place:
        return alone(_costs, name, number, place)


def _costs(name: str, number: int, folder: Path) -> Costs:
    (contestant,) = chosen([name], FIELD)
    times = Times()
    backlog = contestant.backlog(folder)
    assert isinstance(backlog, TenureBacklog)  # noqa: S101 - only this backlog can be inspected
    with closing(backlog):
        backlog.fill(number)
        gc.collect()
        times.watch(backlog.store)
        wall = backlog.drain()
    spent = times.read()
    by_job = 1_000_000 / number
    return Costs(contestant=name, wall=wall * by_job, parts={part: spent[part] * by_job for part in PARTS})


class Times:
    """Counts the time of a thread once: as garbage collection, as store, or as the thread's own time."""

    def __init__(self) -> None:
        self._spent: defaultdict[str, float] = defaultdict(float)
        self._here = threading.local()
        self._threads: list[threading.Thread] = []
        # Reentrant: a garbage collection may start while the lock is held, and is counted at once.
        self._lock = threading.RLock()

    def watch(self, store: object) -> None:
        """Measure a store, and all threads that are started from now on."""
        for name in OPERATIONS:
            setattr(store, name, self._timed(getattr(store, name)))
        gc.callbacks.append(self._note_collection)
        run = threading.Thread.run

        def run_timed(thread: threading.Thread) -> None:
            self._threads.append(thread)
            run(thread)
            self._add(THREADS.get(thread.name, REST), thread_time() - self._counted)

        threading.Thread.run = run_timed  # type: ignore[method-assign, assignment]

    def read(self) -> Mapping[str, float]:
        """Return the seconds of each part. Call after all threads have ended."""
        gc.callbacks.remove(self._note_collection)
        for thread in self._threads:
            thread.join()
        return self._spent

    @property
    def _counted(self) -> float:
        """The part of the thread's time that counts elsewhere."""
        counted: float = getattr(self._here, "counted", 0.0)
        return counted

    def _timed(self, operation: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any) -> Any:
            began_at, counted = thread_time(), self._counted
            try:
                return operation(*args)
            finally:
                self._count(STORE, thread_time() - began_at - (self._counted - counted))

        return timed

    def _note_collection(self, phase: str, info: dict[str, int]) -> None:  # noqa: ARG002 - the signature of a gc callback
        if phase == "start":
            self._here.collecting_since = thread_time()
        else:
            self._count(GARBAGE, thread_time() - self._here.collecting_since)

    def _count(self, part: str, seconds: float) -> None:
        self._here.counted = self._counted + seconds
        self._add(part, seconds)

    def _add(self, part: str, seconds: float) -> None:
        with self._lock:
            self._spent[part] += seconds
