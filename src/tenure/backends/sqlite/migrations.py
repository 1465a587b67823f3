"""The schema in the file, and how an older one becomes the present one."""

import re
import sqlite3
from importlib.resources import files

from tenure.backends.shared.sql_files import statements
from tenure.errors import SchemaOutdated

SCHEMA = statements(__package__, "schema")
SCRIPTS = sorted(
    (each for each in files(__package__).joinpath("schema").iterdir() if re.fullmatch(r"\d+\.sql", each.name)),
    key=lambda each: each.name,
)
"""What makes version 1 of nothing, version 2 of version 1, and so on."""


def current_version() -> int:
    """Return the version that this tenure makes."""
    return len(SCRIPTS)


def read_version(db: sqlite3.Connection) -> int:
    """Return the version of the file's schema; 0 if it has none."""
    (has_schema,) = db.execute(SCHEMA["has schema"]).fetchone()
    return int(db.execute(SCHEMA["version"]).fetchone()[0]) if has_schema else 0


def is_current(db: sqlite3.Connection) -> bool:
    """Tell whether nothing is to be done; raise for a schema that this tenure does not know."""
    version = read_version(db)
    if version > current_version():
        raise SchemaOutdated(
            f"the store has schema {version}, but this tenure supports only up to {current_version()}; use a newer "
            "tenure"
        )
    return version == current_version()


def migrate(db: sqlite3.Connection) -> int:
    """Bring the schema up to date, in the transaction that is open; return the version that was found."""
    before = read_version(db)
    for number, script in enumerate(SCRIPTS[before:], start=before + 1):
        for statement in _split_script(script.read_text("utf-8")):
            db.execute(statement)
        db.execute(SCHEMA["applied"], {"version": number})
    return before


def _split_script(script: str) -> list[str]:
    """Return the statements of a script: `executescript` would commit."""
    found: list[str] = []
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            found.append(statement)
            statement = ""
    return found
