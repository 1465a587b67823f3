"""Run a statement with a driver that uses `%s` placeholders."""

from typing import Any


def execute_with(cursor: Any, text: str, request: str) -> str | None:
    """Run the statement on a cursor, and return its only value."""
    cursor.execute(text.replace("%", "%%").replace(":request", "%s"), [request])
    value: str | None = cursor.fetchone()[0]
    return value
