"""A statement for drivers that take values where `%s` stands."""

from typing import Any


def execute_with(cursor: Any, text: str, asked: str) -> str | None:
    """Run the statement with this cursor, and return its answer."""
    cursor.execute(text.replace("%", "%%").replace(":asked", "%s"), [asked])
    value: str | None = cursor.fetchone()[0]
    return value
