"""Where a row stands in an order, and what lies beyond it: pages, and what is ahead."""

import base64
import json
from collections.abc import Sequence
from typing import Any

from tenure.backends.tables.sqlite.layout import Term
from tenure.core import checks
from tenure.errors import ConfigurationError

Place = Sequence[Any]


def selected(terms: Sequence[Term], table: str) -> str:
    """Return what tells the place of a row."""
    return ", ".join(each.text(table) for each in terms)


def beyond(terms: Sequence[Term], table: str, *, is_reversed: bool = False) -> str:
    """Return the condition that a row stands beyond the place of the values `place_0` and so on."""
    ways: list[str] = []
    for n, term in enumerate(terms):
        same = [f"{each.text(table)} is :place_{k}" for k, each in enumerate(terms[:n])]
        sign = "<" if term.is_descending != is_reversed else ">"
        ways.append(" and ".join([*same, f"{term.text(table)} {sign} :place_{n}"]))
    return "(" + " or ".join(f"({way})" for way in ways) + ")"


def values_of(place: Place) -> dict[str, Any]:
    return {f"place_{n}": value for n, value in enumerate(place)}


def cursor_of(place: Place) -> str:
    """Return a place as text, to go on from there."""
    plain = [{"bytes": value.hex()} if isinstance(value, bytes) else value for value in place]
    text = json.dumps(plain, ensure_ascii=False, separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def place_of(cursor: str, terms: Sequence[Term]) -> Place:
    """Return the place that a cursor means, or raise for one that no page gave."""
    try:
        text = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars="-_", validate=True).decode()
        found = json.loads(text)
        place = [bytes.fromhex(value["bytes"]) if isinstance(value, dict) else value for value in found]
    except (ValueError, TypeError, KeyError) as exc:
        raise ConfigurationError(f"cursor {cursor!r} is not one that find gave") from exc
    if not isinstance(found, list) or len(place) != len(terms) or not all(map(_is_of_a_column, place)):
        raise ConfigurationError(f"cursor {cursor!r} is not one that find gave for this table")
    return place


def _is_of_a_column(value: object) -> bool:
    """Tell whether a value can have been read from a file."""
    if isinstance(value, int):
        return -(2**63) <= value < 2**63
    return checks.clean(value) == value if isinstance(value, str) else value is None or isinstance(value, float | bytes)
