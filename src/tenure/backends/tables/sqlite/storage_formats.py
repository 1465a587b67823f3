"""How values stand in the columns of a table: moments by the declared type, and what a parameter may be."""

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from tenure.backends.sqlite.timestamps import text_of
from tenure.backends.tables.sqlite.catalogue import Column
from tenure.core import checks
from tenure.core.table.spec import Role
from tenure.errors import ConfigurationError

SECOND = 1_000_000
GREATEST = 2**63 - 1

ROUNDED_UP = frozenset({Role.LEASED_UNTIL, Role.RUN_AT})
"""Where a moment in whole seconds is rather late than early."""


def moment_form(column: Column | None) -> str:
    """Return how a column keeps moments: as whole seconds, seconds with a fraction, or a text."""
    return {"integer": "whole", "real": "fraction"}.get("text" if column is None else column.affinity, "text")


def written_moment(form: str, role: Role, at: int | None) -> str | int | float | None:
    """Return a moment in microseconds as a column of this form keeps it."""
    if at is None:
        return None
    match form:
        case "whole":
            return -(-at // SECOND) if role in ROUNDED_UP else at // SECOND
        case "fraction":
            return at / SECOND
        case _:
            return text_of(at)


def reached(form: str, now: int) -> str | int | float:
    """Return the present moment, to be compared with what a column of this form keeps."""
    return now // SECOND if form == "whole" else now / SECOND if form == "fraction" else text_of(now)


def value_of(option: str, value: Any) -> Any:
    """Return a value as SQLite takes it, or raise for one that it cannot have."""
    taken: str | int | float | bytes | None
    match value:
        case None | bytes():
            taken = value
        case int() if -GREATEST - 1 <= value <= GREATEST:
            taken = int(value)
        case float() if math.isfinite(value):
            taken = float(value)
        case str():
            taken = checks.kept_text(option, value) if value else ""
        case datetime():
            in_utc = value if value.utcoffset() is None else value.astimezone(UTC)
            taken = in_utc.replace(tzinfo=None).isoformat(" ", "microseconds")
        case date():
            taken = value.isoformat()
        case Decimal() | UUID():
            taken = str(value)
        case _:
            raise ConfigurationError(
                f"{option} is {checks.shown(value)}, which SQLite has no value for; "
                "give text, a number, a moment, bytes or None"
            )
    return taken
