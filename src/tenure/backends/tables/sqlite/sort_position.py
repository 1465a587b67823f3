"""Positions in a sort order: cursors of pages, and the condition for rows beyond a position."""

import base64
import json
from collections.abc import Sequence
from typing import Any

from tenure.backends.tables.sqlite.layout import SortTerm
from tenure.core import checks
from tenure.errors import ConfigurationError

SortPosition = Sequence[Any]


def select_list(columns: Sequence[SortTerm], table: str) -> str:
    """Return the select list for the sort position of a row."""
    return ", ".join(each.expression(table) for each in columns)


def beyond_condition(columns: Sequence[SortTerm], table: str, *, is_reversed: bool = False) -> str:
    """Return the condition for rows beyond the position in the parameters `position_0`, `position_1` and so on."""
    alternatives: list[str] = []
    for n, term in enumerate(columns):
        same = [f"{each.expression(table)} is :position_{k}" for k, each in enumerate(columns[:n])]
        sign = "<" if term.is_descending != is_reversed else ">"
        alternatives.append(" and ".join([*same, f"{term.expression(table)} {sign} :position_{n}"]))
    return "(" + " or ".join(f"({alternative})" for alternative in alternatives) + ")"


def position_values(position: SortPosition) -> dict[str, Any]:
    return {f"position_{n}": value for n, value in enumerate(position)}


def encode_cursor(position: SortPosition) -> str:
    """Encode a position as a cursor."""
    plain = [{"bytes": value.hex()} if isinstance(value, bytes) else value for value in position]
    text = json.dumps(plain, ensure_ascii=False, separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def decode_cursor(cursor: str, columns: Sequence[SortTerm]) -> SortPosition:
    """Decode a cursor, or raise if `find` cannot have returned it."""
    try:
        text = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars="-_", validate=True).decode()
        found = json.loads(text)
        position = [bytes.fromhex(value["bytes"]) if isinstance(value, dict) else value for value in found]
    except (ValueError, TypeError, KeyError) as exc:
        raise ConfigurationError(f"invalid cursor {cursor!r}: pass a cursor that find returned for this table") from exc
    if not isinstance(found, list) or len(position) != len(columns) or not all(map(_is_sqlite_value, position)):
        raise ConfigurationError(f"invalid cursor {cursor!r}: pass a cursor that find returned for this table")
    return position


def _is_sqlite_value(value: object) -> bool:
    """Return whether SQLite can have returned a value."""
    if isinstance(value, int):
        return -(2**63) <= value < 2**63
    return (
        checks.replace_unstorable(value) == value
        if isinstance(value, str)
        else value is None or isinstance(value, float | bytes)
    )
