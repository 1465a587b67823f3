"""A clock that stands still until it is moved."""

from datetime import UTC, datetime, timedelta


class Clock:
    """Give it to a store as its `clock`; then `now` is what you say."""

    def __init__(self, now: datetime = datetime(2026, 1, 1, 12, tzinfo=UTC)) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)
