"""Codecs of scalar types that JSON lacks, such as dates, UUID, Decimal and bytes; written as text or a number.

Imported with the first annotation that needs it, to save start-up time.
"""

import base64
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from operator import eq
from pathlib import PurePath
from typing import Any, TypeVar
from uuid import UUID

from tenure.core import checks
from tenure.tasks.codecs.codec import Codec, ValueMismatch, value_mismatch

T = TypeVar("T")


def scalar(
    kind: type[T],
    write: Callable[[T], Any],
    read: Callable[[Any], T],
    json_types: frozenset[type] = frozenset({str}),
    is_same: Callable[[T, T], bool] = eq,
) -> Codec:
    """Return a codec that rejects a value which would not come back the same."""

    def encode(value: Any) -> Any:
        if not isinstance(value, kind):
            raise value_mismatch(value, kind)
        try:
            text = write(value)
            is_kept = is_same(read(text), value)
        except ValueError:
            raise value_mismatch(value, kind) from None
        if not is_kept:
            raise ValueMismatch(f"{checks.short_repr(value)} would not come back unchanged")
        return text

    def decode(value: Any) -> T:
        if type(value) not in json_types:
            raise value_mismatch(value, kind)
        return read(value)

    return Codec(encode=encode, decode=decode, json_types=json_types)


def _is_same_instant(read: datetime, value: datetime) -> bool:
    # Not `==`: within a repeated hour, datetimes of different time zones never compare equal.
    return not read - value


def _is_same_time(read: time, value: time) -> bool:
    return read == value and (read.tzinfo is None) == (value.tzinfo is None)


def _seconds(value: timedelta) -> float:
    return value.total_seconds() if value.microseconds else value.days * 86_400 + value.seconds


def _timedelta(seconds: float) -> timedelta:
    return timedelta(seconds=seconds)


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def _decimal() -> Codec:
    codec = scalar(Decimal, str, Decimal, frozenset({str, int}))

    def encode(value: Any) -> Any:
        return str(value) if type(value) is int else codec.encode(value)

    return Codec(encode=encode, decode=codec.decode, json_types=codec.json_types)


SCALARS: dict[type, Codec] = {
    datetime: scalar(datetime, datetime.isoformat, datetime.fromisoformat, is_same=_is_same_instant),
    date: scalar(date, lambda value: value.isoformat(), date.fromisoformat),
    time: scalar(time, time.isoformat, time.fromisoformat, is_same=_is_same_time),
    timedelta: scalar(timedelta, _seconds, _timedelta, frozenset({int, float})),
    UUID: scalar(UUID, str, UUID),
    Decimal: _decimal(),
    bytes: scalar(bytes, _base64, _bytes),
}


def scalar_codec_of(kind: type) -> Codec | None:
    """Return the codec of a scalar type, or None for any other class."""
    return scalar(kind, str, kind) if issubclass(kind, PurePath) else SCALARS.get(kind)
