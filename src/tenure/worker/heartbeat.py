"""The worker's signs of life, and its word about jobs that nobody takes."""

import logging
from collections.abc import Callable
from dataclasses import replace

from tenure.backends.protocol import Backend
from tenure.core.operations import Beat
from tenure.errors import TenureError

log = logging.getLogger(__name__)

BEAT_EVERY = 5.0
SHOWN_FOR = 30.0
"""Seconds that a silent worker is still shown."""
LOOK_EVERY = 60.0


class Presence:
    def __init__(
        self, store: Backend, beat: Beat, quiet_for: Callable[[], float], is_stopping: Callable[[], bool]
    ) -> None:
        self._store = store
        self._beat = beat
        self._quiet_for = quiet_for
        self._is_stopping = is_stopping

    def show(self) -> float:
        """Give a sign of life; return when the next is due."""
        concurrency = 0 if self._is_stopping() else self._beat.concurrency
        self._store.beat(replace(self._beat, concurrency=concurrency, quiet_for=self._quiet_for()), SHOWN_FOR)
        return BEAT_EVERY

    def sign_off(self) -> None:
        try:
            self._store.beat(self._beat, 0.0)
        except TenureError as exc:
            log.debug("the worker could not sign off: %s", exc)


class Strangers:
    """Tells once of each queue and type that has due jobs and no worker."""

    def __init__(self, store: Backend) -> None:
        self._store = store
        self._told: set[tuple[str, str]] = set()

    def look(self) -> float:
        workers = self._store.workers()
        for row in self._store.stats().rows:
            place = row.queue, row.type
            if row.due and place not in self._told and not any(worker.takes(*place) for worker in workers):
                self._told.add(place)
                log.warning(
                    "no live worker takes the type %r from the queue %r; due jobs that stay queued: %s",
                    row.type,
                    row.queue,
                    row.due,
                    extra={"type": row.type, "queue": row.queue},
                )
        return LOOK_EVERY
