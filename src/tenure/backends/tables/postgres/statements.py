"""Convert `:name` placeholders to `$1`; names in the user's table may contain colons, so quotes are respected."""

from tenure.backends.postgres.statements import Statement, make_statement, make_unprepared
from tenure.core.table.condition import substitute_values


def build_statement(text: str, *, is_prepared: bool = True) -> Statement:
    """Return a statement with numbered placeholders; text within quotes is unchanged."""
    names: list[str] = []

    def number(name: str) -> str:
        if name not in names:
            names.append(name)
        return f"${names.index(name) + 1}"

    text = substitute_values(text, number)
    return make_statement(text, *names) if is_prepared else make_unprepared(text, *names)
