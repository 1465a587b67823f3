"""DDL of `migrate`: missing columns or the sidecar table, triggers, indexes, leases of running rows without one."""

import difflib
import math
import sqlite3
from collections.abc import Iterator

from tenure.backends.sqlite.timestamps import format_timestamp
from tenure.backends.tables.sqlite.catalogue import SQLiteColumn, fold_name
from tenure.backends.tables.sqlite.column_checks import ADDED_ROLES
from tenure.backends.tables.sqlite.indexes import duplicates_query, missing_indexes, required_indexes
from tenure.backends.tables.sqlite.layout import Layout
from tenure.backends.tables.sqlite.sql_templates import load_templates, table_fragments
from tenure.backends.tables.sqlite.storage_formats import timestamp_format
from tenure.backends.tables.sqlite.triggers import missing_triggers, required_triggers
from tenure.core import checks
from tenure.core.job import State
from tenure.core.table.spec import Role, TableSpec, quote_identifier
from tenure.errors import ConfigurationError

TYPO_CUTOFF, STATE_TYPO_CUTOFF = 0.85, 0.7
"""Similarity from which a name counts as a typo of another name."""

COUNTER_DEFINITION = "integer not null default 0"
COLUMN_DEFINITIONS = {
    Role.ATTEMPTS: COUNTER_DEFINITION,
    Role.CRASHES: COUNTER_DEFINITION,
    Role.FENCE: COUNTER_DEFINITION,
    Role.PRIORITY: COUNTER_DEFINITION,
}


def schema_statements(layout: Layout) -> list[str]:
    """Return everything that `migrate` creates, present or not; a column that the user named only if it is missing."""
    if layout.spec.is_sidecar:
        return [
            _create_sidecar_statement(layout),
            *(each.create_statement() for each in required_triggers(layout)),
            *(each.create_statement() for each in required_indexes(layout)),
        ]
    unnamed = [role for role in _added_roles(layout) if role not in layout.spec.columns and role is not Role.STATE]
    added = [role for role in _added_roles(layout) if role in unnamed or layout.column(role) is None]
    return [
        *(_add_column_statement(layout, role) for role in added),
        *(each.create_statement() for each in required_indexes(layout)),
    ]


def pending_statements(
    db: sqlite3.Connection, layout: Layout, now: int, adopt_running_after: float | None = None
) -> list[str]:
    """Return the statements that `migrate` runs."""
    reject_typos(layout)
    statements = [
        *_missing_statements(layout),
        *(each.create_statement() for each in missing_triggers(db, layout)),
        *(each.create_statement() for each in missing_indexes(db, layout)),
    ]
    if adopt_running_after is not None:
        seconds = checks.seconds("adopt_running_after", adopt_running_after)
        statements += [_adopt_statement(layout, now, seconds)] if _has_rows_to_adopt(db, layout) else []
    return statements


def run_statement(db: sqlite3.Connection, spec: TableSpec, statement: str) -> None:
    """Run a statement of `migrate`. Raise if rows violate the unique index of the output."""
    try:
        db.execute(statement)
    except sqlite3.IntegrityError as exc:
        if spec.output is None:
            raise
        raise ConfigurationError(
            f"cannot create the unique index of the output: {exc}; delete the duplicate rows, then migrate; this query "
            f"lists the duplicates: {duplicates_query(spec.output)}"
        ) from exc


def reject_typos(layout: Layout) -> None:
    """Raise for a column to add whose name looks like a typo of an existing column."""
    if layout.spec.is_sidecar:
        return
    used_names = {fold_name(str(layout.spec.column(role))) for role in Role} | {
        fold_name(name) for name in layout.spec.key
    }
    others = [each.name for each in layout.table.columns if fold_name(each.name) not in used_names]
    for role in _added_roles(layout):
        name = str(layout.spec.column(role))
        is_named = role in layout.spec.columns or role is Role.STATE
        if layout.column(role) is not None or not is_named:
            continue
        cutoff = STATE_TYPO_CUTOFF if role is Role.STATE else TYPO_CUTOFF
        if near := difflib.get_close_matches(name, others, n=1, cutoff=cutoff):
            raise ConfigurationError(
                f"table {layout.table.name!r} has no column {name!r} for role {role.value!r}, but has {near[0]!r}; "
                f"to use that column pass columns={{{role.value!r}: {near[0]!r}}}, else add the column by hand"
            )


def _added_roles(layout: Layout) -> list[Role]:
    return [role for role in ADDED_ROLES if layout.spec.column(role) is not None]


def _missing_statements(layout: Layout) -> Iterator[str]:
    if layout.spec.is_sidecar:
        if layout.sidecar is None:
            yield _create_sidecar_statement(layout)
        return
    for role in _added_roles(layout):
        if layout.column(role) is None:
            yield _add_column_statement(layout, role)


def _add_column_statement(layout: Layout, role: Role) -> str:
    definition = COLUMN_DEFINITIONS.get(role, "text")
    if role is Role.STATE:
        kind = "integer" if isinstance(layout.spec.state_values[State.QUEUED], int) else "text"
        definition = f"{kind} not null default {layout.state_literal(State.QUEUED)}"
    return load_templates(__package__, "ddl")["add column"].format(
        table=f"main.{quote_identifier(layout.table.name)}",
        column=quote_identifier(str(layout.spec.column(role))),
        definition=definition,
    )


def _create_sidecar_statement(layout: Layout) -> str:
    columns = [f"{quote_identifier(each.name)} {_key_type(each)} not null" for each in layout.keys.columns]
    return load_templates(__package__, "ddl")["companion"].format(
        companion=f"main.{quote_identifier(str(layout.spec.sidecar_name))}",
        key_columns=",\n  ".join(columns),
        key=", ".join(quote_identifier(name) for name in layout.spec.key),
    )


def _key_type(column: SQLiteColumn) -> str:
    """Return a type with the same affinity as the user's column, so that keys compare equal."""
    return "uuid" if column.affinity == "numeric" else column.affinity


def _has_rows_to_adopt(db: sqlite3.Connection, layout: Layout) -> bool:
    if layout.column(Role.STATE) is None:
        return False
    has_lease = layout.column(Role.LEASED_UNTIL) is not None
    which = "has running without a lease" if has_lease else "has running"
    (found,) = db.execute(load_templates(__package__, "ddl")[which].format(**table_fragments(layout))).fetchone()
    return bool(found)


def _adopt_statement(layout: Layout, now: int, seconds: float) -> str:
    started_at = quote_identifier(str(layout.spec.column(Role.STARTED_AT)))
    if timestamp_format(layout.column(Role.STARTED_AT)) != "text":
        started_at = f"strftime('%Y-%m-%d %H:%M:%f', {started_at}, 'unixepoch')"
    since = f"coalesce({started_at}, '{format_timestamp(now)}')"
    later = f"'+{seconds:f} seconds'"
    match timestamp_format(layout.column(Role.LEASED_UNTIL)):
        case "whole":
            ends_at = f"cast(strftime('%s', {since}, '+{math.ceil(seconds)} seconds') as integer)"
        case "fraction":
            ends_at = f"(julianday({since}, {later}) - 2440587.5) * 86400.0"
        case _:
            ends_at = f"strftime('%Y-%m-%d %H:%M:%f', {since}, {later}) || '000'"
    return load_templates(__package__, "ddl")["adopt"].format(**table_fragments(layout), ends_at=ends_at)
