"""Check constraints that refuse a word for a state.

Each is evaluated over one made-up row that has the word and nothing else, as the file itself would: what it then cannot
tell, it allows.
"""

import sqlite3
from collections.abc import Iterator

from tenure.backends.tables.sqlite.catalogue import is_same
from tenure.backends.tables.sqlite.layout import Layout
from tenure.backends.tables.sqlite.sql_templates import parts_of
from tenure.core.job import State
from tenure.core.table.condition import Token, tokens
from tenure.core.table.spec import Role, quoted


def refused_words(db: sqlite3.Connection, layout: Layout) -> Iterator[tuple[State, str]]:
    """Yield each state whose word a constraint refuses, with the text of that."""
    column = layout.column(Role.STATE)
    if column is None or layout.kept is None:
        return
    (text,) = db.execute(parts_of(__package__, "catalogue")["text"], {"table": layout.kept.name}).fetchone()
    for check in checks_of(text):
        for state in State:
            values = [
                f"{layout.word(state) if is_same(each.name, column.name) else 'null'} as {quoted(each.name)}"
                for each in layout.kept.columns
            ]
            row = f"select {', '.join(values)}"
            if _is_false(db, f"select {check} from ({row}) as {quoted(layout.kept.name)}"):  # noqa: S608 - its own text
                yield state, check.removeprefix("(").removesuffix(")").strip()


def checks_of(text: str) -> Iterator[str]:
    """Yield what stands in each `check (…)` of a table's text, with its parentheses."""
    found = [each for each in tokens(text) if each.kind != "comment"]
    for place, each in enumerate(found):
        if each.kind == "plain" and each.text.lower() == "check":
            yield _parenthesis(found[place + 1 :])


def _parenthesis(following: list[Token]) -> str:
    """Return the first parenthesis, whole."""
    depth, text = 0, ""
    for each in following:
        depth += {"(": 1, ")": -1}.get(each.text, 0) if each.kind == "mark" else 0
        text += each.text
        if depth == 0 and each.kind == "mark":
            break
    return text.strip()


def _is_false(db: sqlite3.Connection, text: str) -> bool:
    try:
        (answer,) = db.execute(text).fetchone()
    except sqlite3.Error:  # it needs more than one row can tell
        return False
    return answer is not None and not answer
