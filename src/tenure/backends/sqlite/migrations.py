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


def current() -> int:
    """Return the version that this tenure makes."""
    return len(SCRIPTS)


def version_of(db: sqlite3.Connection) -> int:
    """Return the version of the file's schema; 0 if it has none."""
    (has_schema,) = db.execute(SCHEMA["has schema"]).fetchone()
    return int(db.execute(SCHEMA["version"]).fetchone()[0]) if has_schema else 0


def is_current(db: sqlite3.Connection) -> bool:
    """Tell whether nothing is to be done; raise for a schema that this tenure does not know."""
    version = version_of(db)
    if version > current():
        raise SchemaOutdated(
            f"the store has schema {version} and this tenure knows up to {current()}; use a newer tenure"
        )
    return version == current()


def migrate(db: sqlite3.Connection) -> int:
    """Bring the schema up to date, in the transaction that is open; return the version that was found."""
    before = version_of(db)
    for number, script in enumerate(SCRIPTS[before:], start=before + 1):
        for statement in _each(script.read_text("utf-8")):
            db.execute(statement)
        db.execute(SCHEMA["applied"], {"version": number})
    return before


def _each(script: str) -> list[str]:
    """Return the statements of a script: `executescript` would commit."""
    found: list[str] = []
    begun = ""
    for line in script.splitlines(keepends=True):
        begun += line
        if sqlite3.complete_statement(begun):
            found.append(begun)
            begun = ""
    return found
