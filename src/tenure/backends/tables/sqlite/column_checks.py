"""Check the columns of a table against its description: build the layout, and report problems with remedies."""

import sqlite3
from collections.abc import Iterator

from tenure.backends.sqlite.busy_retry import is_busy
from tenure.backends.tables.protocol import Finding, Severity
from tenure.backends.tables.sqlite.catalogue import (
    SQLiteColumn,
    SQLiteRelation,
    fold_name,
    is_same_name,
    read_relation,
    read_table,
    schema_version,
)
from tenure.backends.tables.sqlite.keys import Keys, is_usable
from tenure.backends.tables.sqlite.layout import Layout
from tenure.backends.tables.sqlite.sql_templates import user_condition
from tenure.backends.tables.sqlite.storage_formats import encode_value
from tenure.core import checks
from tenure.core.table.spec import USER_TABLE_ROLES, Role, TableSpec, quote_identifier
from tenure.errors import ConfigurationError

CLAIM_ROLES = (Role.STATE, Role.LEASED_UNTIL, Role.FENCE, Role.TOKEN)
"""The roles that every claim needs. `migrate` adds them first."""

ADDED_ROLES = (*CLAIM_ROLES, *(role for role in Role if role not in {*CLAIM_ROLES, Role.CREATED_AT}))
"""The roles whose columns `migrate` adds if they are missing."""

NULLABLE_ROLES = (
    Role.LEASED_UNTIL,
    Role.WORKER,
    Role.TOKEN,
    Role.ERROR,
    Role.COMPLETED_AT,
    Role.RECORD,
)
"""The roles whose columns tenure sets to null."""

INTEGER_ROLES = frozenset({Role.ATTEMPTS, Role.CRASHES, Role.FENCE, Role.PRIORITY})
TEXT_ROLES = frozenset({Role.TOKEN, Role.WORKER, Role.ERROR, Role.RECORD})

MIGRATE_REMEDY = "call migrate(), or run the output of `tenure sql schema`"


def read_layout(db: sqlite3.Connection, spec: TableSpec) -> Layout:
    """Return the current layout of a table. Raise if the table or a named column does not exist."""
    table = read_table(db, spec)
    sidecar = None if spec.sidecar_name is None else read_relation(db, spec.sidecar_name)
    if sidecar is not None and sidecar.kind != "table":
        raise ConfigurationError(
            f"sidecar {sidecar.name!r} is a {sidecar.kind}; use another name for the sidecar table"
        )
    if spec.sidecar_name is not None and is_same_name(spec.sidecar_name, table.name):
        raise ConfigurationError(
            f"sidecar {spec.sidecar_name!r} is the table itself; use another name for the sidecar table"
        )
    _reject_unknown_columns(table, spec)
    for name, value in spec.on_retry.items():
        encode_value(f"on_retry[{name!r}]", value)
    for state, word in spec.state_values.items():
        encode_value(f"states[{state.value!r}]", word)
    columns = tuple(column for name in spec.key if (column := table.column(name)) is not None)
    _reject_key(table, columns)
    return Layout(
        spec=spec,
        table=table,
        sidecar=sidecar,
        keys=Keys(columns),
        findings=tuple(_findings(spec, table, sidecar)),
        schema_version=schema_version(db),
    )


def check_conditions(db: sqlite3.Connection, layout: Layout) -> None:
    """Raise for a user's condition that SQLite cannot compile."""
    for option in ("where", "done_if"):
        source = f"main.{quote_identifier(layout.table.name)} as {quote_identifier(layout.spec.name)}"
        text = f"explain select 1 from {source} where {user_condition(layout, option)}"  # noqa: S608 - the names are quoted
        try:
            db.execute(text, layout.values()).fetchall()
        except (sqlite3.OperationalError, sqlite3.ProgrammingError) as exc:
            if is_busy(exc):
                raise
            raise ConfigurationError(
                f"invalid {option} of table {layout.spec.display_name!r}: {exc}; "
                "write a condition on the columns of the table, with values as :name"
            ) from exc


def _reject_unknown_columns(table: SQLiteRelation, spec: TableSpec) -> None:
    """Raise for a named column that does not exist and that `migrate` does not add."""
    named = [
        *(("id", name) for name in spec.key),
        *(("order_by", each.column) for each in spec.order_by),
        *(("select", name) for name in spec.select or ()),
        *(("on_retry", name) for name in spec.on_retry),
        *((f"columns[{role.value!r}]", name) for role, name in spec.columns.items() if _is_user_column(spec, role)),
    ]
    to_be_added = {fold_name(name) for role, name in spec.columns.items() if not _is_user_column(spec, role)}
    for option, name in named:
        if table.column(name) is None and fold_name(name) not in to_be_added:
            raise ConfigurationError(
                f"{option}: table {table.name!r} has no column {name!r}"
                f"{checks.did_you_mean(name, table.column_names) or '; the table has ' + ', '.join(table.column_names)}"
            )


def _is_user_column(spec: TableSpec, role: Role) -> bool:
    """Return whether `migrate` does not add the column of a role."""
    return role is Role.CREATED_AT or (spec.is_sidecar and role in USER_TABLE_ROLES)


def _reject_key(table: SQLiteRelation, columns: tuple[SQLiteColumn, ...]) -> None:
    for each in columns:
        if not is_usable(each):
            raise ConfigurationError(
                f"id: key column {each.name!r} of {table.name!r} has type {each.type or 'none'!r}; "
                "declare the column as integer or text"
            )
    if not table.is_unique(each.name for each in columns):
        names = ", ".join(each.name for each in columns)
        raise ConfigurationError(
            f"id: no unique index on {names} of {table.name!r} with the collation of the column, so keys may repeat; "
            "use the primary key, or create a unique index on these columns"
        )


def _findings(spec: TableSpec, table: SQLiteRelation, sidecar: SQLiteRelation | None) -> Iterator[Finding]:
    if spec.sidecar_name is not None and sidecar is None:
        yield _error_finding(
            "sidecar", f"sidecar table {spec.sidecar_name!r} of {table.name!r} does not exist", MIGRATE_REMEDY
        )
        return
    kept = table if sidecar is None else sidecar
    relations = {
        role: table if role in USER_TABLE_ROLES else kept for role in ADDED_ROLES if spec.column(role) is not None
    }
    columns = {role: relation.column(str(spec.column(role))) for role, relation in relations.items()}
    missing = [f"{spec.column(role)!r} for {role}" for role, column in columns.items() if column is None]
    if missing:
        is_one = len(missing) == 1
        yield _error_finding(
            "columns", f"missing {'column' if is_one else 'columns'} {', '.join(missing)}", MIGRATE_REMEDY
        )
    for role, column in columns.items():
        if column is not None:
            yield from _check_column(relations[role], role, column)


def _check_column(table: SQLiteRelation, role: Role, column: SQLiteColumn) -> Iterator[Finding]:
    shown = f"column {column.name!r} of {table.name!r} (role {role.value})"
    if column.is_generated:
        yield _error_finding(f"column {role}", f"{shown} is generated and cannot be written", "use another column")
    elif role in NULLABLE_ROLES and column.is_required:
        yield _error_finding(
            f"column {role}",
            f"{shown} is not null, but tenure sets it to null",
            "drop the constraint, or use another column",
        )
    if role in INTEGER_ROLES and column.affinity in {"text", "real"}:
        yield _error_finding(
            f"column {role}", f"{shown} has type {column.type!r}, but must hold integers", "declare it as integer"
        )
    if role in TEXT_ROLES and column.affinity in {"integer", "real"}:
        yield _error_finding(
            f"column {role}", f"{shown} has type {column.type!r}, but must hold text", "declare it as text"
        )


def _error_finding(about: str, text: str, remedy: str) -> Finding:
    return Finding(severity=Severity.ERROR, about=about, text=text, remedy=remedy)
