"""A manual clock for tests."""

from datetime import UTC, datetime, timedelta


class Clock:
    """A `clock` for a store. The time is `now` until a test changes it."""

    def __init__(self, now: datetime = datetime(2026, 1, 1, 12, tzinfo=UTC)) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)
