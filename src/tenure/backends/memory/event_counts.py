"""The number of events in each minute of the last day."""

from collections import Counter
from datetime import datetime, timedelta

from tenure.core.operations import COUNTS_KEPT, Count, Event

MINUTE = timedelta(minutes=1)


class EventCounts:
    def __init__(self) -> None:
        self._minutes: dict[datetime, Counter[tuple[str, Event]]] = {}
        self._current_minute_at: datetime | None = None
        self._current_minute: Counter[tuple[str, Event]] = Counter()

    def add(self, queue: str, event: Event, now: datetime) -> None:
        if self._current_minute_at is None or not self._current_minute_at <= now < self._current_minute_at + MINUTE:
            self._start_minute(now.replace(second=0, microsecond=0))
        self._current_minute[queue, event] += 1

    def rows(self, since: float, now: datetime) -> list[Count]:
        start = (now - timedelta(seconds=min(since, COUNTS_KEPT))).replace(second=0, microsecond=0)
        return [
            Count(minute_at=minute_at, queue=queue, event=event, number=number)
            for minute_at, counter in sorted(self._minutes.items())
            if minute_at >= start
            for (queue, event), number in sorted(counter.items())
        ]

    def _start_minute(self, minute_at: datetime) -> None:
        for old in [each for each in self._minutes if each < minute_at - timedelta(seconds=COUNTS_KEPT)]:
            del self._minutes[old]
        self._current_minute_at = minute_at
        self._current_minute = self._minutes.setdefault(minute_at, Counter())
