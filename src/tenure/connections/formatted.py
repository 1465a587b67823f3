"""A statement for drivers that take values where `%s` stands."""

from typing import Any


def ask_with(cursor: Any, text: str, asked: str) -> str | None:
    """Run the statement with this cursor, and return its answer."""
    cursor.execute(text.replace("%", "%%").replace(":asked", "%s"), [asked])
    answer: str | None = cursor.fetchone()[0]
    return answer
