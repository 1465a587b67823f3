"""Human-readable durations and timestamps."""

from datetime import UTC, datetime

UNITS = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))


def format_duration(seconds: float, units: int = 2) -> str:
    """Format a duration in its largest units, such as `3 min 20 s`."""
    left, parts = round(max(0.0, seconds)), list[str]()
    for unit, length in UNITS:
        number, left = divmod(left, length)
        if number or parts:
            parts.append(f"{number:,} {unit}" if number else "")
    return " ".join(part for part in parts[:units] if part) or "0 s"


def format_timestamp(timestamp: datetime, now: datetime) -> str:
    """Format a timestamp in UTC, to the second, with its distance from now."""
    seconds = (timestamp - now).total_seconds()
    away = f"in {format_duration(seconds)}" if seconds > 0 else f"{format_duration(-seconds)} ago"
    return f"{timestamp.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ} ({away})"
