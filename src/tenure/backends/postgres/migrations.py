"""Create and migrate the schema.

A migration only adds, so workers of the older release keep running during and after it. Every schema version records
which releases can use it, as `works_from`: a release must know at least this schema version.
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
from tenure.backends.postgres.connector import Connector
from tenure.backends.postgres.statements import quote_name, sql_in, statements_in
from tenure.core.operations import Schema
from tenure.errors import ConfigurationError, SchemaOutdated

SCRIPTS = sorted(
    (each for each in files(__package__).joinpath("schema").iterdir() if re.fullmatch(r"\d+\.sql", each.name)),
    key=lambda each: each.name,
)
"""The script of version 1 creates the schema; every later script upgrades the version before."""

SUPPORTED_ENCODINGS = {"UTF8", "SQL_ASCII"}
"""Database encodings that can store every character."""

OLDEST_SERVER = 15
"""The oldest supported PostgreSQL version."""

OLDEST_COMPATIBLE = {1: 1, 2: 1}
"""For each schema version, the lowest schema version that a release must know to use it."""


def current_version() -> int:
    """Return the schema version of this release."""
    return len(SCRIPTS)


def script(schema: str, before: int = 0) -> str:
    """Return the SQL that migrates a schema from version `before`, as one script to run by hand."""
    parts = [f"create schema if not exists {quote_name(schema)};"] if before == 0 else []
    applied = sql_in(schema)["schema"]["applied"]
    for number, text in _pending_scripts(schema, before):
        note = applied.replace(":version", str(number)).replace(":works_from", str(OLDEST_COMPATIBLE[number]))
        parts += [text.strip(), f"{note};"]
    if not parts:
        return ""
    return "\n\n".join(["-- The tables of a store.\nbegin;", *parts, functions.script(schema).strip(), "commit;\n"])


class Migrations:
    """Checks the schema once for each `Database`, and migrates it if the URL allows."""

    def __init__(self, address: Address, connector: Connector) -> None:
        self._address = address
        self._connector = connector
        self._statements = statements_in(address.schema)["schema"]
        self._found_version: int | None = None

    @property
    def schema(self) -> Schema:
        return Schema(before=self._found_version or 0, now=current_version())

    def ensure_migrated(self, connection: psycopg.Connection[Any]) -> None:
        """Check the schema on the first connection, and migrate or raise. A bare address needs no schema."""
        if self._found_version is not None:
            return
        if self._address.is_bare:
            self._reject_unsupported(connection)
            self._found_version = 0
            return
        found = self._read_version(connection)
        if found < current_version():
            self._require_auto_migrate(found)
            found = self._migrate(connection)
        self._found_version = found

    def apply(self) -> Schema:
        """Migrate the schema; return the new version and the version that this object found first."""
        connection = self._connector.connect()
        try:
            found = self._read_version(connection)
            if found < current_version():
                found = self._migrate(connection)
        finally:
            connection.close()
        self._found_version = found if self._found_version is None else self._found_version
        return self.schema

    def outstanding(self) -> str:
        """Return the SQL script that `apply` would run."""
        with self._connector.connect() as connection:
            return script(self._address.schema, self._read_version(connection))

    def _read_version(self, connection: psycopg.Connection[Any]) -> int:
        with self._connector.applied_settings(connection):
            return self._checked_version(connection)

    def _checked_version(self, connection: psycopg.Connection[Any]) -> int:
        """Return the schema version, 0 without a schema. Raise if this release is too old for the version."""
        self._reject_unsupported(connection)
        if not _fetch_value(connection, self._statements["has schema"].text, self._address.schema):
            return 0
        version, works_from = _fetch_value(connection, self._statements["version"].text) or (0, 0)
        if works_from > current_version():
            raise SchemaOutdated(
                f"{self._address.shown!r} has schema {version}, which requires a tenure that knows schema "
                f"{works_from}; this one knows up to {current_version()}: upgrade tenure"
            )
        return int(version)

    def _reject_unsupported(self, connection: psycopg.Connection[Any]) -> None:
        self._reject_old_server(connection)
        self._reject_encoding(connection)

    def _reject_old_server(self, connection: psycopg.Connection[Any]) -> None:
        version = connection.info.server_version // 10_000
        if version < OLDEST_SERVER:
            raise ConfigurationError(f"{self._address.shown!r} is PostgreSQL {version}; use {OLDEST_SERVER} or newer")

    def _reject_encoding(self, connection: psycopg.Connection[Any]) -> None:
        # A result with characters that the database cannot store would be retried for ever.
        encoding = connection.info.parameter_status("server_encoding")
        if encoding not in SUPPORTED_ENCODINGS:
            raise ConfigurationError(
                f"the database of {self._address.shown!r} has encoding {encoding!r}, which cannot store every "
                "character; use a database created with encoding 'UTF8'"
            )

    def _require_auto_migrate(self, found: int) -> None:
        if self._address.migrate == "never":
            has = f"has schema {found}" if found else "has no tables"
            raise SchemaOutdated(
                f"{self._address.shown!r} {has} in {self._address.schema!r}; this tenure requires schema "
                f"{current_version()}, and the URL has migrate=never: run `tenure migrate`, or have an administrator "
                "run the SQL of `tenure migrate --sql`"
            )

    def _migrate(self, connection: psycopg.Connection[Any]) -> int:
        """Migrate the schema under an advisory lock; return the version found before."""
        with self._translated_rights_errors(), connection.transaction():
            raw = psycopg.RawCursor(connection)
            # A migration may take longer than an operation: it builds indexes, or waits for another migration.
            raw.execute("set local statement_timeout = 0")
            raw.execute("set local lock_timeout = 0")
            raw.execute(self._statements["lock"].text, [self._address.schema])
            found = self._checked_version(connection)
            if found == 0 and not _fetch_value(connection, self._statements["exists"].text, self._address.schema):
                raw.execute(self._statements["create"].text)
            for number, text in _pending_scripts(self._address.schema, found):
                # Without parameters: then a message may contain many statements.
                connection.execute(text.encode())
                raw.execute(self._statements["applied"].text, [number, OLDEST_COMPATIBLE[number]])
            if found < current_version():
                connection.execute(functions.script(self._address.schema).encode())
        return found

    @contextmanager
    def _translated_rights_errors(self) -> Iterator[None]:
        try:
            yield
        except errors.InsufficientPrivilege as exc:
            reason = " ".join(str(exc).split())
            raise SchemaOutdated(
                f"{self._address.shown!r}: this role may not create tables in {self._address.schema!r}: {reason}; "
                "run `tenure migrate` as a role with that right, or have an administrator run the SQL of "
                "`tenure migrate --sql`"
            ) from exc


def _pending_scripts(schema: str, before: int) -> list[tuple[int, str]]:
    scripts = enumerate(SCRIPTS[before:], start=before + 1)
    return [(number, each.read_text("utf-8").format(schema=quote_name(schema))) for number, each in scripts]


def _fetch_value(connection: psycopg.Connection[Any], statement: bytes, *values: object) -> Any:
    row = psycopg.RawCursor(connection).execute(statement, values).fetchone()
    return None if row is None else row[0]
