"""What a worker does beside running jobs, now and then: one thread for all of it."""

import logging
import math
from collections.abc import Sequence
from typing import Protocol

from tenure.client.keeper import ticks
from tenure.errors import StoreUnavailable
from tenure.worker.wakeup import Bell

log = logging.getLogger(__name__)

AGAIN = 2.0
"""Seconds after which a duty that failed is tried again."""


class Duty(Protocol):
    def __call__(self) -> float:
        """Do it, and return after how many seconds it is to be done again."""
        ...


class Duties:
    """Does each duty when its time has come, the first time at once."""

    def __init__(self, duties: Sequence[Duty]) -> None:
        self._due_at = dict.fromkeys(duties, ticks())
        self._bell = Bell()
        self._is_closed = False
        self._failing: set[Duty] = set()

    def run(self) -> None:
        while self._due_at:
            duty = min(self._due_at, key=self._due_at.__getitem__)
            self._bell.wait(max(0.0, self._due_at[duty] - ticks()))
            if self._is_closed:
                return
            if self._due_at[duty] <= ticks():
                # Before it is done: it may be hurried meanwhile.
                self._due_at[duty] = math.inf
                again_at = ticks() + self._do(duty)
                self._due_at[duty] = min(self._due_at[duty], again_at)

    def hurry(self, *duties: Duty) -> None:
        """Have these done now. It may be called from anywhere, even a signal handler."""
        for duty in duties:
            self._due_at[duty] = ticks()
        self._bell.ring()

    def close(self) -> None:
        self._is_closed = True
        self._bell.ring()

    def _do(self, duty: Duty) -> float:
        try:
            again = duty()
        except Exception as exc:
            if duty not in self._failing and not isinstance(exc, StoreUnavailable):
                log.exception("a duty of the worker failed, trying on")
            self._failing.add(duty)
            return AGAIN
        self._failing.discard(duty)
        return again
