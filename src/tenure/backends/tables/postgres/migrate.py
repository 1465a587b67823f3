"""Migrate a user's table without blocking the sessions that use it.

A statement that waits for a table lock blocks all sessions that come after it. So each DDL statement gives up after
`LOCK_WAIT` and is retried. Concurrent migrations of a table run one after the other.
"""

import logging
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import assert_never

import psycopg
from psycopg import errors

from tenure.backends.postgres.database import Database
from tenure.backends.tables.postgres import ddl
from tenure.backends.tables.postgres.admin_connection import AdminConnection, load_statements, open_admin_connection
from tenure.backends.tables.postgres.catalogue import PostgresRelation, read_catalogue
from tenure.backends.tables.postgres.column_checks import check_columns
from tenure.backends.tables.postgres.ddl import Change, ExecutionMode, ExistingIndexes
from tenure.backends.tables.postgres.functions import build_functions, functions_script, install_statements
from tenure.backends.tables.postgres.layout import MIGRATE_REMEDY, Layout
from tenure.backends.tables.postgres.sql_templates import SqlTemplates
from tenure.backends.tables.postgres.statements import build_statement
from tenure.backends.tables.protocol import Severity
from tenure.core import checks
from tenure.core.table.spec import TableSpec
from tenure.errors import ConfigurationError, StoreUnavailable

log = logging.getLogger(__name__)

LOCK_WAIT = 1.0
"""Seconds that a DDL statement waits for its lock."""
MOST_ATTEMPTS = 8
RETRY_DELAY = 0.5
"""Seconds between two attempts, on average."""
LOCK_POLL_INTERVAL = 0.1
"""Seconds between two attempts to get the migration lock of the table, on average."""
ADOPTION_BATCH = 1_000
"""Number of rows adopted per transaction."""

CONFLICT_ERRORS = (
    errors.LockNotAvailable,
    errors.DeadlockDetected,
    errors.DuplicateTable,
    errors.DuplicateObject,
    errors.DuplicateColumn,
    errors.InternalError_,
)


def outstanding(
    database: Database, spec: TableSpec, *, adopt_running_after: float | None = None, functions: bool = False
) -> list[str]:
    """Return the statements that `migrate` would run."""
    with open_admin_connection(database) as admin, database.connector.applied_settings(admin.connection):
        changes = _pending_changes(database, admin, spec, adopt_running_after)
        changes += _function_changes(database, admin, spec) if functions else []
    return [statement for change in changes for statement in change.statements]


def migrate(
    database: Database, spec: TableSpec, *, adopt_running_after: float | None = None, functions: bool = False
) -> list[str]:
    """Create missing objects; return the statements that were run."""
    done: list[str] = []
    with (
        open_admin_connection(database) as admin,
        _translated_errors(admin, spec),
        _migration_lock(database, admin, spec),
    ):
        for left in reversed(range(MOST_ATTEMPTS)):
            try:
                for change in _pending_changes(database, admin, spec, adopt_running_after):
                    _apply(database, admin, spec, change)
                    done += change.statements
                for change in _function_changes(database, admin, spec) if functions else []:
                    _apply(database, admin, spec, change)
                    done += change.statements
                break
            except psycopg.Error as exc:
                if not _is_conflict(exc):
                    raise
                if not left:
                    raise _conflict_error(spec, exc) from exc
            time.sleep(RETRY_DELAY * random.uniform(0.5, 1.5))
    return done


def read_layout(database: Database, spec: TableSpec) -> Layout:
    return Layout(spec=spec, catalogue=read_catalogue(database, spec))


def migratable_layout(database: Database, spec: TableSpec) -> Layout:
    """Return the layout of the table. Raise for the first error that `migrate` cannot fix."""
    layout = read_layout(database, spec)
    for finding in check_columns(layout):
        if finding.severity is Severity.ERROR and not (finding.remedy or "").startswith(MIGRATE_REMEDY):
            raise ConfigurationError(f"{layout.table.display_name}: {finding.text}; {finding.remedy}")
    return layout


def read_output_table(database: Database, spec: TableSpec) -> PostgresRelation | None:
    """Return the output table, if the user named one. Raise if the table or its columns do not exist."""
    if spec.output is None:
        return None
    found = read_catalogue(
        database, replace(spec, schema=spec.output.schema, name=spec.output.table, sidecar_name=None)
    ).table
    for name in spec.output.columns:
        if found.column(name) is None:
            names = [each.name for each in found.columns]
            raise ConfigurationError(
                f"output: {found.display_name} has no column {name!r}{checks.did_you_mean(name, names)}"
            )
    return found


def existing_indexes(admin: AdminConnection, layout: Layout, output: PostgresRelation | None) -> ExistingIndexes:
    """Return the existing indexes of the table, its sidecar and the output table."""
    relations = [layout.table, layout.catalogue.sidecar, output]
    rows = admin.fetch(
        load_statements("ddl")["indexes"], {"oids": [each.oid for each in relations if each is not None]}
    )
    return ExistingIndexes(
        valid=frozenset(name for name, is_sound in rows if is_sound),
        invalid=frozenset(name for name, is_sound in rows if not is_sound),
    )


def printable_sql(database: Database, spec: TableSpec) -> dict[str, str]:
    """Return the SQL of all operations, the schema script and the functions, for reading."""
    layout = migratable_layout(database, spec)
    with open_admin_connection(database) as admin, database.connector.applied_settings(admin.connection):
        objects = build_functions(admin, layout)
    return {
        **SqlTemplates(layout).printable_sql(),
        "schema": ddl.schema_script(layout, read_output_table(database, spec)),
        "functions": functions_script(layout, objects),
    }


def _pending_changes(
    database: Database, admin: AdminConnection, spec: TableSpec, adopt_running_after: float | None
) -> list[Change]:
    layout = migratable_layout(database, spec)
    output = read_output_table(database, spec)
    found = ddl.pending_changes(layout, output, existing_indexes(admin, layout, output))
    if adopt_running_after is not None:
        seconds = checks.seconds("adopt_running_after", adopt_running_after)
        check_query = ddl.adoption_check(layout)
        if check_query is not None and admin.fetch(build_statement(check_query))[0][0]:
            found.append(ddl.adoption_change(layout, seconds, ADOPTION_BATCH))
    return found


def _function_changes(database: Database, admin: AdminConnection, spec: TableSpec) -> list[Change]:
    # One transaction, so that a transaction pooler keeps the session: the types come from a prepared statement.
    with admin.connection.transaction():
        statements = install_statements(admin, build_functions(admin, read_layout(database, spec)))
    return [Change(tuple(statements))] if statements else []


def _apply(database: Database, admin: AdminConnection, spec: TableSpec, change: Change) -> None:
    for statement in change.statements:
        log.info("migration of %s: %s", spec.display_name, " ".join(statement.split()))
    match change.mode:
        case ExecutionMode.LOCKING:
            with _in_transaction(admin):
                for statement in change.statements:
                    admin.execute(statement)
        case ExecutionMode.CONCURRENT:
            _apply_concurrently(database, admin, change)
        case ExecutionMode.BATCHED:
            while change.batch_statement is not None and _run_batch(admin, change.batch_statement):
                pass
        case _:
            assert_never(change.mode)


def _apply_concurrently(database: Database, admin: AdminConnection, change: Change) -> None:
    """Run a concurrent build without timeouts: it blocks no session. Do not change settings of a pooled session."""
    if not database.connector.is_transaction_pooled:
        admin.set_config("statement_timeout", "0")
        admin.set_config("lock_timeout", "0")
    try:
        for statement in change.statements:
            admin.execute(statement)
    except errors.UniqueViolation:
        if change.cleanup is not None:
            admin.execute(change.cleanup)
        raise


def _run_batch(admin: AdminConnection, statement: str) -> int:
    with _in_transaction(admin):
        return admin.execute(statement)


@contextmanager
def _in_transaction(admin: AdminConnection) -> Iterator[None]:
    with admin.connection.transaction():
        admin.set_config("statement_timeout", "0")
        admin.set_config("lock_timeout", f"{1000 * LOCK_WAIT:.0f}")
        yield


@contextmanager
def _migration_lock(database: Database, admin: AdminConnection, spec: TableSpec) -> Iterator[None]:
    """Hold the migration lock of the table, unless a pooler lends the session: then a session lock is impossible."""
    if database.connector.is_transaction_pooled:
        yield
        return
    table = {"table": read_layout(database, spec).table.display_name}
    while not admin.fetch(load_statements("ddl")["try lock"], table)[0][0]:
        time.sleep(LOCK_POLL_INTERVAL * random.uniform(0.5, 1.5))
    yield


@contextmanager
def _translated_errors(admin: AdminConnection, spec: TableSpec) -> Iterator[None]:
    try:
        yield
    except errors.InsufficientPrivilege as exc:
        raise ConfigurationError(
            f"role {admin.connection.info.user!r} may not migrate {spec.display_name!r}: {_first_line(exc)}; run "
            f"the SQL that `tenure sql schema` prints, for example `tenure sql schema app:{spec.name}`, as the owner "
            "of the table"
        ) from exc
    except errors.UniqueViolation as exc:
        raise ConfigurationError(
            f"cannot create the unique index on the output of {spec.display_name!r}: {_first_line(exc)}; delete the "
            "duplicates, which `tenure doctor` lists, and migrate again"
        ) from exc


def _is_conflict(error: psycopg.Error) -> bool:
    """Return whether another session held a lock or ran the same DDL at the same time; a retry helps then."""
    is_catalogue_conflict = isinstance(error, errors.UniqueViolation) and error.diag.schema_name == "pg_catalog"
    return is_catalogue_conflict or isinstance(error, CONFLICT_ERRORS)


def _conflict_error(spec: TableSpec, error: psycopg.Error) -> StoreUnavailable:
    return StoreUnavailable(
        f"cannot lock {spec.display_name!r} for migration after {MOST_ATTEMPTS} attempts: {_first_line(error)}; "
        "look for a transaction that stays open (pg_stat_activity) and end it, or migrate when the table is less busy"
    )


def _first_line(error: psycopg.Error) -> str:
    return str(error).partition("\n")[0]
