"""Statements on a table of the user's as the server takes them: in the names of others there may be anything."""

from tenure.backends.postgres.statements import Statement, statement, unprepared
from tenure.core.table.condition import with_values


def numbered(text: str, *, is_prepared: bool = True) -> Statement:
    """Return a statement that names its values as one that numbers them; what stands in quotes stays as it is."""
    names: list[str] = []

    def number(name: str) -> str:
        if name not in names:
            names.append(name)
        return f"${names.index(name) + 1}"

    text = with_values(text, number)
    return statement(text, *names) if is_prepared else unprepared(text, *names)
