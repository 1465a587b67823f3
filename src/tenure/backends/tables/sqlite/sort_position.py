"""Positions in a sort order: cursors of pages, and the condition for rows beyond a position."""

import base64
import json
import re
from collections.abc import Sequence
from typing import Any

from tenure.backends.tables.sqlite.layout import SortTerm
from tenure.errors import ConfigurationError

SortPosition = Sequence[Any]

SURROGATE = re.compile("[\ud800-\udfff]")


class InvalidText(bytes):
    """The bytes of a text that is not valid UTF-8. Python cannot bind such a text, so the statement converts them."""


def select_list(columns: Sequence[SortTerm], table: str) -> str:
    """Return the select list for the sort position of a row."""
    return ", ".join(each.expression(table) for each in columns)


def read_position(values: Sequence[Any]) -> SortPosition:
    """Return the position of a row from its sort values, as `decoding` reads them."""
    return [_read_value(value) for value in values]


def beyond_condition(
    columns: Sequence[SortTerm], table: str, *, is_reversed: bool = False, position: SortPosition = ()
) -> str:
    """Return the condition for rows beyond the position in the parameters `position_0`, `position_1` and so on."""
    alternatives: list[str] = []
    parameters = [f":position_{n}" for n in range(len(columns))]
    for n, value in enumerate(position):
        if isinstance(value, InvalidText):
            parameters[n] = f"cast(:position_{n} as text)"
    for n, term in enumerate(columns):
        same = [f"{each.expression(table)} is {parameters[k]}" for k, each in enumerate(columns[:n])]
        sign = "<" if term.is_descending != is_reversed else ">"
        alternatives.append(" and ".join([*same, f"{term.expression(table)} {sign} {parameters[n]}"]))
    return "(" + " or ".join(f"({alternative})" for alternative in alternatives) + ")"


def position_values(position: SortPosition) -> dict[str, Any]:
    plain = [bytes(value) if isinstance(value, InvalidText) else value for value in position]
    return {f"position_{n}": value for n, value in enumerate(plain)}


def encode_cursor(position: SortPosition) -> str:
    """Encode a position as a cursor."""
    plain = [_encode_value(value) for value in position]
    text = json.dumps(plain, ensure_ascii=False, separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def decode_cursor(cursor: str, columns: Sequence[SortTerm]) -> SortPosition:
    """Decode a cursor, or raise if `find` cannot have returned it."""
    try:
        text = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars="-_", validate=True).decode()
        found = json.loads(text)
        position = [_decode_value(value) for value in found]
    except (ValueError, TypeError, KeyError) as exc:
        raise ConfigurationError(f"invalid cursor {cursor!r}: pass a cursor that find returned for this table") from exc
    if not isinstance(found, list) or len(position) != len(columns) or not all(map(_is_sqlite_value, position)):
        raise ConfigurationError(f"invalid cursor {cursor!r}: pass a cursor that find returned for this table")
    return position


def _read_value(value: Any) -> Any:
    """Return a value as `position_values` needs it."""
    is_invalid = isinstance(value, str) and SURROGATE.search(value) is not None
    return InvalidText(value.encode(errors="surrogateescape")) if is_invalid else value


def _encode_value(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"invalid text" if isinstance(value, InvalidText) else "bytes": value.hex()}
    return value


def _decode_value(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    ((kind, digits),) = value.items()
    return {"bytes": bytes, "invalid text": InvalidText}[kind].fromhex(digits)


def _is_sqlite_value(value: object) -> bool:
    """Return whether SQLite can have returned a value."""
    if isinstance(value, int):
        return -(2**63) <= value < 2**63
    return (
        SURROGATE.search(value) is None if isinstance(value, str) else value is None or isinstance(value, float | bytes)
    )
