"""huey's consumer with default settings: worker threads that poll, and a scheduler.

huey does not detect the end of a backlog, so the tasks record their times: the result is from the first to the last.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.contestants.contract import PAYLOAD
from benchmarks.worker.contract import Started

PATIENCE = 300.0
SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


def memory_huey() -> Any:
    from huey import MemoryHuey

    return MemoryHuey("bench", results=False)


def sqlite_huey(folder: Path) -> Any:
    from huey import SqliteHuey

    return SqliteHuey("bench", filename=str(folder / "huey.db"), results=False)


class HueyBacklog:
    def __init__(self, huey: Any, threads: int) -> None:
        self._huey = huey
        self._threads = threads
        self._number = 0
        self._moments: list[float] = []
        self._is_done = threading.Event()
        self._work = huey.task(name="work")(self._note)

    def fill(self, number: int) -> None:
        self._number += number
        for _ in range(number):
            self._work(**PAYLOAD)

    def drain(self) -> float:
        with consuming(self._huey, self._threads):
            if not self._is_done.wait(PATIENCE):
                raise TimeoutError(f"only {len(self._moments):,} of {self._number:,} tasks ran within {PATIENCE:g} s")
        return self._moments[-1] - self._moments[0]

    def close(self) -> None:
        self._huey.storage.close()

    def _note(self, n: int) -> None:  # noqa: ARG002 - the payload of every job has it
        self._moments.append(perf_counter())
        if len(self._moments) == self._number:
            self._is_done.set()


class HueyService:
    def __init__(self, huey: Any, threads: int, started: Started) -> None:
        self._huey = huey
        self._threads = threads
        self._work = huey.task(name="work")(lambda n: started())  # noqa: ARG005 - the payload of every job has it

    def enqueue(self) -> None:
        self._work(**PAYLOAD)

    def running(self) -> AbstractContextManager[object]:
        return consuming(self._huey, self._threads)

    def close(self) -> None:
        self._huey.storage.close()


@contextmanager
def consuming(huey: Any, threads: int) -> Iterator[None]:
    """Run a consumer. It replaces the signal handlers of the process; restore them afterwards."""
    consumer = huey.create_consumer(workers=threads, periodic=False)
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    consumer.start()
    try:
        yield
    finally:
        consumer.stop(graceful=True)
        for number, handler in handlers.items():
            signal.signal(number, handler)
