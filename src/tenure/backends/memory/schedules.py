"""The last slot of each schedule that was given out."""

from collections.abc import Mapping
from datetime import datetime


class Schedules:
    def __init__(self) -> None:
        self._last: dict[str, datetime] = {}

    def last_at(self, name: str) -> datetime | None:
        """Return None for a schedule that has not begun."""
        return self._last.get(name)

    def record(self, name: str, last_at: datetime) -> None:
        self._last[name] = last_at

    def restore(self, before: Mapping[str, datetime | None]) -> None:
        """Put these back as they were."""
        for name, last_at in before.items():
            if last_at is None:
                self._last.pop(name, None)
            else:
                self._last[name] = last_at
