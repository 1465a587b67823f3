"""The threads that end claims and extend leases for coroutines.

`ENDING_THREADS` endings run at a time. An ending that waits for a locked job does not count: the next one starts in
another thread, so a locked job delays no other.
"""

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

from tenure.client.settling import waiting

P = ParamSpec("P")
R = TypeVar("R")

ENDING_THREADS = 16
MAX_WAITING = 1_000
"""How many endings may wait for locked jobs before they delay others."""


class EndingExecutor:
    """Runs endings, and starts threads on demand."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(ENDING_THREADS + MAX_WAITING, "tenure-ending")
        self._changed = threading.Condition()
        self._queued: deque[Callable[[], None]] = deque()
        self._running = 0

    def submit(self, function: Callable[P, R], /, *args: P.args, **options: P.kwargs) -> Future[R]:
        future: Future[R] = Future()
        with self._changed:
            self._queued.append(partial(_run, partial(function, *args, **options), future))
            self._start_thread()
        return future

    def shutdown(self) -> None:
        """Wait for all endings, after the last submit."""
        with self._changed:
            self._changed.wait_for(lambda: not self._running)
        self._threads.shutdown()

    def _start_thread(self) -> None:
        if self._queued and self._running < ENDING_THREADS:
            self._running += 1
            self._threads.submit(self._run_queued)

    def _run_queued(self) -> None:
        """Run endings until none is queued, or until one has waited for a locked job."""
        is_counted = True

        def make_room() -> None:
            nonlocal is_counted
            if is_counted:
                is_counted = False
                self._leave()

        waiting.before = make_room
        while is_counted and (ending := self._take()) is not None:
            ending()
        # An idle thread must not keep the executor alive.
        waiting.before = None

    def _take(self) -> Callable[[], None] | None:
        with self._changed:
            if self._queued:
                return self._queued.popleft()
            self._leave()
            return None

    def _leave(self) -> None:
        with self._changed:
            self._running -= 1
            self._start_thread()
            self._changed.notify_all()


def _run(function: Callable[[], R], future: Future[R]) -> None:
    try:
        future.set_result(function())
    except BaseException as exc:  # noqa: BLE001 - the coroutine raises it
        future.set_exception(exc)
