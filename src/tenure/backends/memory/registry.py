"""The workers that gave a sign of life.

One that fell silent is not shown any more, but stays for a while as evidence.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

from tenure.core.operations import EVIDENCE_KEPT, Beat, Worker

KEPT = timedelta(seconds=EVIDENCE_KEPT)


class Registry:
    def __init__(self) -> None:
        self._workers: dict[str, tuple[Worker, datetime]] = {}

    def beat(self, beat: Beat, ttl: float, now: datetime) -> None:
        self._drop_long_silent(now)
        known, shown_until = self._workers.pop(beat.name, (None, now))
        if ttl > 0:
            started_at = now if known is None or shown_until <= now else known.started_at
            worker = Worker.of(beat, started_at=started_at, beat_at=now)
            self._workers[beat.name] = worker, now + timedelta(seconds=ttl)

    def workers(self, holding: Callable[[str], int], now: datetime) -> list[Worker]:
        """Return the workers by name, each with the number of jobs that it holds."""
        return [
            replace(worker, holding=holding(name))
            for name, (worker, shown_until) in sorted(self._workers.items())
            if shown_until > now
        ]

    def known(self, name: str, now: datetime) -> Worker | None:
        """Return a worker, shown or silent."""
        worker, shown_until = self._workers.get(name, (None, now))
        return worker if shown_until > now - KEPT else None

    def _drop_long_silent(self, now: datetime) -> None:
        for name in [name for name, (_, shown_until) in self._workers.items() if shown_until <= now - KEPT]:
            del self._workers[name]
