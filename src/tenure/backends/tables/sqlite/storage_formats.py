"""Storage formats of values in a table: timestamps by declared column type, and valid parameter values."""

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from tenure.backends.sqlite.timestamps import format_timestamp
from tenure.backends.tables.sqlite.catalogue import SQLiteColumn
from tenure.core import checks
from tenure.core.table.spec import Role
from tenure.errors import ConfigurationError

MICROSECONDS_PER_SECOND = 1_000_000
GREATEST_INTEGER = 2**63 - 1

ROUNDED_UP_ROLES = frozenset({Role.LEASED_UNTIL, Role.RUN_AT})
"""Roles whose timestamps in whole seconds are rounded up: too late is safer than too early."""


def timestamp_format(column: SQLiteColumn | None) -> str:
    """Return how a column stores timestamps: whole seconds, fractional seconds, or text."""
    return {"integer": "whole", "real": "fraction"}.get("text" if column is None else column.affinity, "text")


def encode_timestamp(column_format: str, role: Role, at: int | None) -> str | int | float | None:
    """Convert a timestamp in microseconds to the format of a column."""
    if at is None:
        return None
    match column_format:
        case "whole":
            return -(-at // MICROSECONDS_PER_SECOND) if role in ROUNDED_UP_ROLES else at // MICROSECONDS_PER_SECOND
        case "fraction":
            return at / MICROSECONDS_PER_SECOND
        case _:
            return format_timestamp(at)


def encode_now(column_format: str, now: int) -> str | int | float:
    """Return the current time for comparison with a column of this format."""
    return (
        now // MICROSECONDS_PER_SECOND
        if column_format == "whole"
        else now / MICROSECONDS_PER_SECOND
        if column_format == "fraction"
        else format_timestamp(now)
    )


def encode_value(option: str, value: Any) -> Any:
    """Convert a value to a SQLite type, or raise."""
    taken: str | int | float | bytes | None
    match value:
        case None | bytes():
            taken = value
        case int() if -GREATEST_INTEGER - 1 <= value <= GREATEST_INTEGER:
            taken = int(value)
        case float() if math.isfinite(value):
            taken = float(value)
        case str():
            taken = checks.storable_text(option, value) if value else ""
        case datetime():
            in_utc = value if value.utcoffset() is None else value.astimezone(UTC)
            taken = in_utc.replace(tzinfo=None).isoformat(" ", "microseconds")
        case date():
            taken = value.isoformat()
        case Decimal() | UUID():
            taken = str(value)
        case _:
            raise ConfigurationError(
                f"{option} is {checks.short_repr(value)}, which SQLite cannot store; "
                "use text, a number, a date or time, bytes or None"
            )
    return taken
