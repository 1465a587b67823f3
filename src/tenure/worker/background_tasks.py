"""Run the periodic background tasks of a worker in one thread."""

import logging
import math
from collections.abc import Sequence
from typing import Protocol

from tenure.client.keeper import ticks
from tenure.errors import StoreUnavailable
from tenure.worker.wakeup import Wakeup

log = logging.getLogger(__name__)

RETRY_DELAY = 2.0
"""Seconds before a failed task is retried."""


class BackgroundTask(Protocol):
    def __call__(self) -> float:
        """Run the task; return the seconds until the next run."""
        ...


class BackgroundTasks:
    """Run each task when it is due; the first time at once."""

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
                # Before the task runs: `run_now` may be called meanwhile.
                self._due_at[task] = math.inf
                next_at = ticks() + self._run_task(task)
                self._due_at[task] = min(self._due_at[task], next_at)

    def run_now(self, *tasks: BackgroundTask) -> None:
        """Run these tasks as soon as possible. Safe in any thread and in a signal handler."""
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
