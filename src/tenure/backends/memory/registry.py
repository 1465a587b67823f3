"""The workers that gave a sign of life."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

from tenure.core.operations import Beat, Worker


class Registry:
    def __init__(self) -> None:
        self._workers: dict[str, tuple[Worker, datetime]] = {}

    def beat(self, beat: Beat, ttl: float, now: datetime) -> None:
        self._drop_silent(now)
        known = self._workers.pop(beat.name, None)
        if ttl > 0:
            worker = Worker.of(beat, started_at=now if known is None else known[0].started_at, beat_at=now)
            self._workers[beat.name] = worker, now + timedelta(seconds=ttl)

    def workers(self, holding: Callable[[str], int], now: datetime) -> list[Worker]:
        """Return the workers by name, each with the number of jobs that it holds."""
        self._drop_silent(now)
        return [replace(worker, holding=holding(name)) for name, (worker, _) in sorted(self._workers.items())]

    def _drop_silent(self, now: datetime) -> None:
        for name in [name for name, (_, until) in self._workers.items() if until <= now]:
            del self._workers[name]
