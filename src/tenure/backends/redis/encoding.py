"""How values are written for the scripts, and read from their answers.

A moment is microseconds since 1970 plus 10^15, which has 16 digits; a duration is microseconds; a name is a JSON string
without a comma, so that names can be told apart where they stand in a row.
"""

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TIMESTAMP_OFFSET = 10**15
MICROSECOND = timedelta(microseconds=1)
ALL_NAMES = -1
"""The number of names, if all are meant."""

CACHE_SIZE = 1_024
"""How many names and moments are remembered: those of the jobs of one request are mostly the same."""


Argument = str | bytes | int

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def encode_timestamp(value: datetime | None) -> str:
    """Return a moment; empty for None."""
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
    """Return values as the scripts read a list: its length first."""
    values: list[Argument] = list(names)
    return [len(values), *values]


def encode_names(given: Sequence[str] | None) -> list[Argument]:
    """Return names as the scripts read a set of them; None is all."""
    return [ALL_NAMES] if given is None else encode_list(map(quote_name, given))
