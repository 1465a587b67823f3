"""Statements on a table of the user's as the server takes them: in the names of others there may be anything."""

from tenure.backends.postgres.statements import Statement, make_statement, make_unprepared
from tenure.core.table.condition import substitute_values


def build_statement(text: str, *, is_prepared: bool = True) -> Statement:
    """Return a statement that names its values as one that numbers them; what stands in quotes stays as it is."""
    names: list[str] = []

    def number(name: str) -> str:
        if name not in names:
            names.append(name)
        return f"${names.index(name) + 1}"

    text = substitute_values(text, number)
    return make_statement(text, *names) if is_prepared else make_unprepared(text, *names)
