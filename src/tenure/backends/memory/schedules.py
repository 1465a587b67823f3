"""The last enqueued slot of each schedule."""

from collections.abc import Mapping
from datetime import datetime


class Schedules:
    def __init__(self) -> None:
        self._last: dict[str, datetime] = {}

    def last_at(self, name: str) -> datetime | None:
        """Return the last slot, or None for a new schedule."""
        return self._last.get(name)

    def record(self, name: str, last_at: datetime) -> None:
        self._last[name] = last_at

    def restore(self, before: Mapping[str, datetime | None]) -> None:
        """Restore the last slots of these schedules."""
        for name, last_at in before.items():
            if last_at is None:
                self._last.pop(name, None)
            else:
                self._last[name] = last_at
