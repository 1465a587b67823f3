"""Register the worker in the store with heartbeats, and warn of types that no worker handles."""

import logging
from collections.abc import Callable
from dataclasses import replace

from tenure.backends.protocol import Backend
from tenure.core.operations import Heartbeat
from tenure.errors import TenureError

log = logging.getLogger(__name__)

HEARTBEAT_INTERVAL = 5.0
REGISTRATION_TTL = 30.0
"""Seconds after the last heartbeat for which a worker stays registered."""
UNHANDLED_CHECK_INTERVAL = 60.0


class Registration:
    def __init__(
        self, store: Backend, heartbeat: Heartbeat, blocked_for: Callable[[], float], is_stopping: Callable[[], bool]
    ) -> None:
        self._store = store
        self._heartbeat = heartbeat
        self._blocked_for = blocked_for
        self._is_stopping = is_stopping

    def refresh(self) -> float:
        """Send a heartbeat; return the seconds until the next one."""
        concurrency = 0 if self._is_stopping() else self._heartbeat.concurrency
        self._store.beat(
            replace(self._heartbeat, concurrency=concurrency, quiet_for=self._blocked_for()), REGISTRATION_TTL
        )
        return HEARTBEAT_INTERVAL

    def deregister(self) -> None:
        try:
            self._store.beat(self._heartbeat, 0.0)
        except TenureError as exc:
            log.debug("worker not deregistered: %s", exc)


class UnhandledTypes:
    """Warn once of each queue and type that has due jobs and no live worker."""

    def __init__(self, store: Backend) -> None:
        self._store = store
        self._reported: set[tuple[str, str]] = set()

    def check(self) -> float:
        workers = self._store.workers()
        for row in self._store.stats().rows:
            lane = row.queue, row.type
            if row.due and lane not in self._reported and not any(worker.takes(*lane) for worker in workers):
                self._reported.add(lane)
                log.warning(
                    "type %r from queue %r has no live worker; due jobs waiting: %s",
                    row.type,
                    row.queue,
                    row.due,
                    extra={"type": row.type, "queue": row.queue},
                )
        return UNHANDLED_CHECK_INTERVAL
