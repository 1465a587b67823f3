"""Find check constraints that reject a state value.

Each constraint is evaluated on a synthetic row that has only the state value. As in SQLite itself, a constraint that
evaluates to null accepts the row.
"""

import sqlite3
from collections.abc import Iterator

from tenure.backends.tables.sqlite.catalogue import is_same_name
from tenure.backends.tables.sqlite.layout import Layout
from tenure.backends.tables.sqlite.sql_templates import load_templates
from tenure.core.job import State
from tenure.core.table.condition import Token, tokenize
from tenure.core.table.spec import Role, quote_identifier


def rejected_states(db: sqlite3.Connection, layout: Layout) -> Iterator[tuple[State, str]]:
    """Yield each state whose value a constraint rejects, with the text of the constraint."""
    column = layout.column(Role.STATE)
    if column is None or layout.home is None:
        return
    (text,) = db.execute(load_templates(__package__, "catalogue")["text"], {"table": layout.home.name}).fetchone()
    for check in check_expressions(text):
        for state in State:
            values = [
                f"{layout.state_literal(state) if is_same_name(each.name, column.name) else 'null'} as "
                f"{quote_identifier(each.name)}"
                for each in layout.home.columns
            ]
            row = f"select {', '.join(values)}"
            if _is_false(db, f"select {check} from ({row}) as {quote_identifier(layout.home.name)}"):  # noqa: S608 - its own text
                yield state, check.removeprefix("(").removesuffix(")").strip()


def check_expressions(text: str) -> Iterator[str]:
    """Yield the expression of each `check (…)` in a `create table` statement, with parentheses."""
    found = [each for each in tokenize(text) if each.kind != "comment"]
    for position, each in enumerate(found):
        if each.kind == "plain" and each.text.lower() == "check":
            yield _first_parenthesised(found[position + 1 :])


def _first_parenthesised(following: list[Token]) -> str:
    """Return the first complete parenthesised expression."""
    depth, text = 0, ""
    for each in following:
        depth += {"(": 1, ")": -1}.get(each.text, 0) if each.kind == "mark" else 0
        text += each.text
        if depth == 0 and each.kind == "mark":
            break
    return text.strip()


def _is_false(db: sqlite3.Connection, query: str) -> bool:
    try:
        (answer,) = db.execute(query).fetchone()
    except sqlite3.Error:  # the expression cannot be evaluated on a synthetic row
        return False
    return answer is not None and not answer
