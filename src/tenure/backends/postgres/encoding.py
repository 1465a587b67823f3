"""Encode Python values as PostgreSQL text, and parse timestamps."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import cast

MICROSECOND = timedelta(microseconds=1)

Value = str | int | float | bool | datetime | None


def microseconds(seconds: float) -> int:
    """Convert seconds to microseconds, rounded like a timedelta."""
    return timedelta(seconds=seconds) // MICROSECOND


@lru_cache(maxsize=1024)  # the jobs of one claim share most of their timestamps
def parse_timestamp(text: str) -> datetime:
    """Parse a timestamp of the server, which is in the server's time zone, and convert it to UTC."""
    return datetime.fromisoformat(text).astimezone(UTC)


def encode(value: Value) -> bytes | None:
    """Encode a value as text; None is null."""
    return None if value is None else _format(value).encode()


def array(values: Iterable[Value]) -> str:
    """Encode values as an array literal."""
    return "{" + ",".join(["null" if each is None else _quote_element(each) for each in values]) + "}"


def text_array(values: Sequence[str | None]) -> str:
    """Encode strings as an array literal; a faster `array`."""
    if not values or None in values:
        return array(values)
    joined = '","'.join(cast("Sequence[str]", values))
    if "\\" in joined or joined.count('"') > 2 * len(values) - 2:
        return array(values)
    return '{"' + joined + '"}'


def integer_array(values: Iterable[int]) -> str:
    """Encode integers as an array literal; a faster `array`."""
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
