"""Encode arguments for the scripts, and decode values of their responses.

A timestamp is microseconds since 1970 plus 10^15, which has 16 digits. A duration is microseconds. A name is a JSON
string without a comma, because the fields of a row are separated by commas.
"""

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TIMESTAMP_OFFSET = 10**15
MICROSECOND = timedelta(microseconds=1)
ALL_NAMES = -1
"""Sent in place of the number of names: all names."""

CACHE_SIZE = 1_024
"""Size of the caches for names and timestamps: the jobs of one request mostly share both."""


Argument = str | bytes | int

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def encode_timestamp(value: datetime | None) -> str:
    """Encode a timestamp; empty for None."""
    return "" if value is None else str((value - EPOCH) // MICROSECOND + TIMESTAMP_OFFSET)


@lru_cache(CACHE_SIZE)
def decode_timestamp(number: int) -> datetime:
    return EPOCH + timedelta(microseconds=number - TIMESTAMP_OFFSET)


def decode_optional_timestamp(number: int | None) -> datetime | None:
    return None if number is None else decode_timestamp(number)


def encode_duration(seconds: float) -> str:
    return str(timedelta(seconds=seconds) // MICROSECOND) if seconds else "0"


@lru_cache(CACHE_SIZE)
def quote_name(name: str) -> str:
    return _encode(name).replace(",", "\\u002c")


def quote_optional_name(name: str | None) -> str:
    return "null" if name is None else quote_name(name)


def decode_name(text: bytes) -> str:
    name: str = json.loads(text)
    return name


def encode_json(value: object) -> str:
    return _encode(value)


def encode_list(names: Iterable[str]) -> list[Argument]:
    """Encode a list: the length, then the values."""
    values: list[Argument] = list(names)
    return [len(values), *values]


def encode_names(given: Sequence[str] | None) -> list[Argument]:
    """Encode a set of names; None means all names."""
    return [ALL_NAMES] if given is None else encode_list(map(quote_name, given))
