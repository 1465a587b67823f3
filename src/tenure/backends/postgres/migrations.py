"""The schema in the database, and how an older one becomes the present one.

A migration only adds, so that workers of the older version go on while it is applied and after: each version says from
which one on a tenure may know less and still work with it.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from typing import Any

import psycopg
from psycopg import errors

from tenure.backends.postgres import functions
from tenure.backends.postgres.address import Address
from tenure.backends.postgres.connector import Sessions
from tenure.backends.postgres.statements import quoted, statements_in, texts_in
from tenure.core.operations import Schema
from tenure.errors import ConfigurationError, SchemaOutdated

SCRIPTS = sorted(
    (each for each in files(__package__).joinpath("schema").iterdir() if re.fullmatch(r"\d+\.sql", each.name)),
    key=lambda each: each.name,
)
"""What makes version 1 of nothing, version 2 of version 1, and so on."""

ENCODINGS = {"UTF8", "SQL_ASCII"}
"""Of a database that keeps every character."""

OLDEST = 15
"""The oldest version of the server that our statements were run on."""

WORKS_FROM = {1: 1, 2: 1}
"""For each version, the oldest that a tenure may know to work with it."""


def current() -> int:
    """Return the version that this tenure makes."""
    return len(SCRIPTS)


def script(schema: str, before: int = 0) -> str:
    """Return what brings a schema of that version up to date, as one text to be run by hand."""
    parts = [f"create schema if not exists {quoted(schema)};"] if before == 0 else []
    applied = texts_in(schema)["schema"]["applied"]
    for number, text in _outstanding(schema, before):
        note = applied.replace(":version", str(number)).replace(":works_from", str(WORKS_FROM[number]))
        parts += [text.strip(), f"{note};"]
    if not parts:
        return ""
    return "\n\n".join(["-- The tables of a store.\nbegin;", *parts, functions.script(schema).strip(), "commit;\n"])


class Migrations:
    """Sees once that the schema is there, as the URL allows."""

    def __init__(self, address: Address, sessions: Sessions) -> None:
        self._address = address
        self._sessions = sessions
        self._statements = statements_in(address.schema)["schema"]
        self._found: int | None = None

    @property
    def schema(self) -> Schema:
        return Schema(before=self._found or 0, now=current())

    def see_to(self, connection: psycopg.Connection[Any]) -> None:
        """Make the schema usable, or raise, when the first connection is there; for tables alone, look for none."""
        if self._found is not None:
            return
        if self._address.is_bare:
            self._refuse(connection)
            self._found = 0
            return
        found = self._found_in(connection)
        if found < current():
            self._may_migrate(found)
            found = self._migrate(connection)
        self._found = found

    def apply(self) -> Schema:
        """Bring it up to date; tell the version that this handle found first."""
        connection = self._sessions.connect()
        try:
            found = self._found_in(connection)
            if found < current():
                found = self._migrate(connection)
        finally:
            connection.close()
        self._found = found if self._found is None else self._found
        return self.schema

    def outstanding(self) -> str:
        """Return what `apply` would do, as one text to be run by hand."""
        with self._sessions.connect() as connection:
            return script(self._address.schema, self._found_in(connection))

    def _found_in(self, connection: psycopg.Connection[Any]) -> int:
        with self._sessions.are_set(connection):
            return self._version(connection)

    def _version(self, connection: psycopg.Connection[Any]) -> int:
        """Return the version; 0 if there is none. Raise for one that this tenure cannot work with."""
        self._refuse(connection)
        if not _value(connection, self._statements["has schema"].text, self._address.schema):
            return 0
        version, works_from = _value(connection, self._statements["version"].text) or (0, 0)
        if works_from > current():
            raise SchemaOutdated(
                f"{self._address.shown!r} has schema {version}, which needs a tenure that knows {works_from}, and this "
                f"one knows up to {current()}; use a newer tenure"
            )
        return int(version)

    def _refuse(self, connection: psycopg.Connection[Any]) -> None:
        self._refuse_server(connection)
        self._refuse_encoding(connection)

    def _refuse_server(self, connection: psycopg.Connection[Any]) -> None:
        version = connection.info.server_version // 10_000
        if version < OLDEST:
            raise ConfigurationError(f"{self._address.shown!r} is PostgreSQL {version}; use {OLDEST} or newer")

    def _refuse_encoding(self, connection: psycopg.Connection[Any]) -> None:
        # A result that cannot be stored would be tried for ever.
        encoding = connection.info.parameter_status("server_encoding")
        if encoding not in ENCODINGS:
            raise ConfigurationError(
                f"the database of {self._address.shown!r} has the encoding {encoding!r}, which lacks characters that a "
                "job may have; use one that was created with encoding 'UTF8'"
            )

    def _may_migrate(self, found: int) -> None:
        if self._address.migrate == "never":
            has = f"has schema {found}" if found else "has no tables"
            raise SchemaOutdated(
                f"{self._address.shown!r} {has} in {self._address.schema!r} and this tenure needs {current()}; the URL "
                "says migrate=never, so run `tenure migrate`, or have what `tenure migrate --sql` prints run for you"
            )

    def _migrate(self, connection: psycopg.Connection[Any]) -> int:
        """Bring the schema up to date, alone; return the version that was found."""
        with self._rights_told(), connection.transaction():
            raw = psycopg.RawCursor(connection)
            # It may take longer than an operation: an index is built, or another one migrates.
            raw.execute("set local statement_timeout = 0")
            raw.execute("set local lock_timeout = 0")
            raw.execute(self._statements["alone"].text, [self._address.schema])
            found = self._version(connection)
            if found == 0 and not _value(connection, self._statements["exists"].text, self._address.schema):
                raw.execute(self._statements["create"].text)
            for number, text in _outstanding(self._address.schema, found):
                # Without values, so that one message may have many statements.
                connection.execute(text.encode())
                raw.execute(self._statements["applied"].text, [number, WORKS_FROM[number]])
            if found < current():
                connection.execute(functions.script(self._address.schema).encode())
        return found

    @contextmanager
    def _rights_told(self) -> Iterator[None]:
        try:
            yield
        except errors.InsufficientPrivilege as exc:
            reason = " ".join(str(exc).split())
            raise SchemaOutdated(
                f"{self._address.shown!r}: this role may not make the tables in {self._address.schema!r}: {reason}; "
                "run `tenure migrate` as one that may, or have what `tenure migrate --sql` prints run for you"
            ) from exc


def _outstanding(schema: str, before: int) -> list[tuple[int, str]]:
    scripts = enumerate(SCRIPTS[before:], start=before + 1)
    return [(number, each.read_text("utf-8").format(schema=quoted(schema))) for number, each in scripts]


def _value(connection: psycopg.Connection[Any], statement: bytes, *values: object) -> Any:
    row = psycopg.RawCursor(connection).execute(statement, values).fetchone()
    return None if row is None else row[0]
