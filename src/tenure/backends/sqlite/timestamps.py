"""Timestamps and durations as the file stores them: whole microseconds, since 1970 in UTC.

A user's own table may store timestamps as text or as seconds. These are parsed as leniently as SQLite does.
"""

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)

TIMESTAMP_TEXT = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d(?:\.\d+)?)?) ?(Z|UTC|[+-]\d\d(?::?\d\d)?)?)?",
    re.IGNORECASE,
)
"""A date, optionally with a time and a UTC offset."""


def to_microseconds(timestamp: datetime) -> int:
    return (timestamp - EPOCH) // MICROSECOND


def duration(seconds: float) -> int:
    """Convert seconds to microseconds, rounded as by `timedelta`."""
    return timedelta(seconds=seconds) // MICROSECOND


@lru_cache(maxsize=1024)  # the jobs of one claim share most of their timestamps
def to_datetime(microseconds: int) -> datetime:
    return EPOCH + timedelta(microseconds=microseconds)


def to_optional_datetime(microseconds: int | None) -> datetime | None:
    return None if microseconds is None else to_datetime(microseconds)


def format_timestamp(microseconds: int) -> str:
    """Format a timestamp as SQLite's own functions do, in UTC, to the microsecond."""
    return to_datetime(microseconds).replace(tzinfo=None).isoformat(" ", "microseconds")


def parse_timestamp(value: object) -> int | None:
    """Parse a text or a number of seconds as a timestamp; return None if the value is not a timestamp."""
    if isinstance(value, int | float):
        try:
            return to_microseconds(EPOCH + timedelta(seconds=value))
        except (OverflowError, ValueError):
            return None
    found = TIMESTAMP_TEXT.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is None:
        return None
    day, time, offset = found.groups()
    zone = re.sub(r"(?i)z|utc", "+00:00", offset or "z")
    zone = zone if ":" in zone else f"{zone[:3]}:{zone[3:] or '00'}"
    clock, _, fraction = (time or "00:00").partition(".")
    clock = clock if clock.count(":") > 1 else f"{clock}:00"
    try:
        return to_microseconds(datetime.fromisoformat(f"{day}T{clock}.{fraction[:6]:0<6}{zone}").astimezone(UTC))
    except (OverflowError, ValueError):
        return None


def normalise_timestamp(value: object) -> str | None:
    """Convert a timestamp of any format to the comparable text. SQL calls this as `tenure_moment`."""
    found = parse_timestamp(value)
    return None if found is None else format_timestamp(found)
