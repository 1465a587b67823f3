"""The schema version of a file, and the migrations to the current version."""

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
"""The migrations: script 1 creates version 1, script 2 migrates from version 1 to 2, and so on."""


def current_version() -> int:
    """Return the schema version of this tenure."""
    return len(SCRIPTS)


def read_version(db: sqlite3.Connection) -> int:
    """Return the schema version of the file; 0 without a schema."""
    (has_schema,) = db.execute(SCHEMA["has schema"]).fetchone()
    return int(db.execute(SCHEMA["version"]).fetchone()[0]) if has_schema else 0


def is_current(db: sqlite3.Connection) -> bool:
    """Return whether the schema is current; raise `SchemaOutdated` for a newer schema."""
    version = read_version(db)
    if version > current_version():
        raise SchemaOutdated(
            f"the store has schema {version}, but this tenure supports only up to {current_version()}; use a newer "
            "tenure"
        )
    return version == current_version()


def migrate(db: sqlite3.Connection) -> int:
    """Migrate the schema in the open transaction; return the previous version."""
    before = read_version(db)
    for number, script in enumerate(SCRIPTS[before:], start=before + 1):
        for statement in _split_script(script.read_text("utf-8")):
            db.execute(statement)
        db.execute(SCHEMA["applied"], {"version": number})
    return before


def _split_script(script: str) -> list[str]:
    """Split a script into statements: `executescript` would commit."""
    found: list[str] = []
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            found.append(statement)
            statement = ""
    return found
