"""Python's values as the server reads them, and durations and moments as both understand them."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import cast

MICROSECOND = timedelta(microseconds=1)

Value = str | int | float | bool | datetime | None


def microseconds(seconds: float) -> int:
    """Return a number of seconds in microseconds, rounded as a timedelta is."""
    return timedelta(seconds=seconds) // MICROSECOND


@lru_cache(maxsize=1024)  # the jobs of one claim share most of their timestamps
def parse_timestamp(text: str) -> datetime:
    """Return a moment of an answer; that is in the time zone of the server."""
    return datetime.fromisoformat(text).astimezone(UTC)


def encode(value: Value) -> bytes | None:
    """Return a value as text for the server, None for null."""
    return None if value is None else _format(value).encode()


def array(values: Iterable[Value]) -> str:
    """Return values as the text of an array."""
    return "{" + ",".join(["null" if each is None else _quote_element(each) for each in values]) + "}"


def text_array(values: Sequence[str | None]) -> str:
    """Return texts as the text of an array; the same as `array`, and quicker."""
    if not values or None in values:
        return array(values)
    joined = '","'.join(cast("Sequence[str]", values))
    if "\\" in joined or joined.count('"') > 2 * len(values) - 2:
        return array(values)
    return '{"' + joined + '"}'


def integer_array(values: Iterable[int]) -> str:
    """Return numbers as the text of an array; the same as `array`, and quicker."""
    return "{" + ",".join(map(str, values)) + "}"


def optional_array(values: Iterable[Value] | None) -> str | None:
    return None if values is None else array(values)


def _quote_element(value: str | float | datetime) -> str:
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return _format(value)


def _format(value: str | float | datetime) -> str:
    if isinstance(value, str):
        return value
    return value.isoformat() if isinstance(value, datetime) else str(value)
