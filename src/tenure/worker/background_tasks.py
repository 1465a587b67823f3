"""What a worker does beside running jobs, now and then: one thread for all of it."""

import logging
import math
from collections.abc import Sequence
from typing import Protocol

from tenure.client.keeper import ticks
from tenure.errors import StoreUnavailable
from tenure.worker.wakeup import Wakeup

log = logging.getLogger(__name__)

RETRY_DELAY = 2.0
"""Seconds after which a duty that failed is tried again."""


class BackgroundTask(Protocol):
    def __call__(self) -> float:
        """Do it, and return after how many seconds it is to be done again."""
        ...


class BackgroundTasks:
    """Does each duty when its time has come, the first time at once."""

    def __init__(self, tasks: Sequence[BackgroundTask]) -> None:
        self._due_at = dict.fromkeys(tasks, ticks())
        self._wakeup = Wakeup()
        self._is_closed = False
        self._failing: set[BackgroundTask] = set()

    def run(self) -> None:
        while self._due_at:
            task = min(self._due_at, key=self._due_at.__getitem__)
            self._wakeup.wait(max(0.0, self._due_at[task] - ticks()))
            if self._is_closed:
                return
            if self._due_at[task] <= ticks():
                # Before it is done: it may be hurried meanwhile.
                self._due_at[task] = math.inf
                next_at = ticks() + self._run_task(task)
                self._due_at[task] = min(self._due_at[task], next_at)

    def run_now(self, *tasks: BackgroundTask) -> None:
        """Have these done now. It may be called from anywhere, even a signal handler."""
        for task in tasks:
            self._due_at[task] = ticks()
        self._wakeup.set()

    def close(self) -> None:
        self._is_closed = True
        self._wakeup.set()

    def _run_task(self, task: BackgroundTask) -> float:
        try:
            delay = task()
        except Exception as exc:
            if task not in self._failing and not isinstance(exc, StoreUnavailable):
                log.exception("background task failed, retrying")
            self._failing.add(task)
            return RETRY_DELAY
        self._failing.discard(task)
        return delay
