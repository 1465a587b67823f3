"""Moments and durations as the file keeps them: whole microseconds, since 1970 in UTC."""

from datetime import UTC, datetime, timedelta
from functools import lru_cache

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


def microseconds(moment: datetime) -> int:
    return (moment - EPOCH) // MICROSECOND


def duration(seconds: float) -> int:
    """Return a number of seconds in microseconds, rounded as a timedelta is."""
    return timedelta(seconds=seconds) // MICROSECOND


@lru_cache(maxsize=1024)  # the jobs of one claim have most of their moments in common
def moment(microseconds: int) -> datetime:
    return EPOCH + timedelta(microseconds=microseconds)


def optional_moment(microseconds: int | None) -> datetime | None:
    return None if microseconds is None else moment(microseconds)
