"""The registered workers with their heartbeats.

A silent worker is no longer listed, but its entry is kept for a while as evidence for expired claims.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

from tenure.core.operations import SILENT_WORKER_TTL, Heartbeat, WorkerInfo

EVIDENCE_TTL = timedelta(seconds=SILENT_WORKER_TTL)


class WorkerRegistry:
    def __init__(self) -> None:
        self._workers: dict[str, tuple[WorkerInfo, datetime]] = {}

    def beat(self, beat: Heartbeat, ttl: float, now: datetime) -> None:
        self._drop_long_silent_workers(now)
        known, shown_until = self._workers.pop(beat.name, (None, now))
        if ttl > 0:
            started_at = now if known is None or shown_until <= now else known.started_at
            worker = WorkerInfo.from_heartbeat(beat, started_at=started_at, beat_at=now)
            self._workers[beat.name] = worker, now + timedelta(seconds=ttl)

    def workers(self, holding: Callable[[str], int], now: datetime) -> list[WorkerInfo]:
        """Return the live workers sorted by name, with the number of jobs they hold."""
        return [
            replace(worker, holding=holding(name))
            for name, (worker, shown_until) in sorted(self._workers.items())
            if shown_until > now
        ]

    def find(self, name: str, now: datetime) -> WorkerInfo | None:
        """Return the entry of a worker, live or silent."""
        worker, shown_until = self._workers.get(name, (None, now))
        return worker if shown_until > now - EVIDENCE_TTL else None

    def _drop_long_silent_workers(self, now: datetime) -> None:
        for name in [name for name, (_, shown_until) in self._workers.items() if shown_until <= now - EVIDENCE_TTL]:
            del self._workers[name]
