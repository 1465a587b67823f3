"""What a worker does beside running jobs, now and then: one thread for all of it."""

import logging
import threading
from collections.abc import Sequence
from typing import Protocol

from tenure.errors import StoreUnavailable
from tenure.keeper import ticks

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
        self._closing = threading.Event()
        self._failing: set[Duty] = set()

    def run(self) -> None:
        while True:
            duty = min(self._due_at, key=self._due_at.__getitem__)
            if self._closing.wait(max(0.0, self._due_at[duty] - ticks())):
                return
            self._due_at[duty] = ticks() + self._do(duty)

    def close(self) -> None:
        self._closing.set()

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
