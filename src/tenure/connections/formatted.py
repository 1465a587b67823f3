"""Run a statement with a driver that uses `%s` placeholders."""

from typing import Any


def execute_with(cursor: Any, text: str, asked: str) -> str | None:
    """Run the statement on a cursor, and return its only value."""
    cursor.execute(text.replace("%", "%%").replace(":asked", "%s"), [asked])
    value: str | None = cursor.fetchone()[0]
    return value
