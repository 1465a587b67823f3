"""Whether a table fits its description: the layout, and what keeps it from being used, each with its remedy."""

import sqlite3
from collections.abc import Iterator

from tenure.backends.sqlite.busy_retry import is_busy
from tenure.backends.tables.protocol import Finding, Gravity
from tenure.backends.tables.sqlite.catalogue import Column, Thing, folded, is_same, schema_version, table_of, thing_of
from tenure.backends.tables.sqlite.keys import Keys, is_usable
from tenure.backends.tables.sqlite.layout import Layout
from tenure.backends.tables.sqlite.sql_templates import condition
from tenure.backends.tables.sqlite.storage_formats import value_of
from tenure.core import checks
from tenure.core.table.spec import READ_BESIDE, Role, TableSpec, quoted
from tenure.errors import ConfigurationError

FIRST = (Role.STATE, Role.LEASED_UNTIL, Role.FENCE, Role.TOKEN)
"""Without these nothing is claimed, whatever else is given up."""

ADDED = (*FIRST, *(role for role in Role if role not in {*FIRST, Role.CREATED_AT}))
"""The roles whose columns `migrate` adds, if they are missing."""

EMPTIED = (
    Role.LEASED_UNTIL,
    Role.WORKER,
    Role.TOKEN,
    Role.ERROR,
    Role.COMPLETED_AT,
    Role.RECORD,
)
"""The roles whose columns are emptied at times."""

NUMBERS = frozenset({Role.ATTEMPTS, Role.CRASHES, Role.FENCE, Role.PRIORITY})
TEXTS = frozenset({Role.TOKEN, Role.WORKER, Role.ERROR, Role.RECORD})

MIGRATE = "call migrate(), or run what `tenure sql schema` prints"


def fitted(db: sqlite3.Connection, spec: TableSpec) -> Layout:
    """Return the layout of a table as it is now, or raise if it cannot be told."""
    table = table_of(db, spec)
    companion = None if spec.companion is None else thing_of(db, spec.companion)
    if companion is not None and companion.kind != "table":
        raise ConfigurationError(f"sidecar {companion.name!r} is a {companion.kind}; give the companion another name")
    if spec.companion is not None and is_same(spec.companion, table.name):
        raise ConfigurationError(f"sidecar {spec.companion!r} is the table itself; give the companion another name")
    _refuse_unknown(table, spec)
    for name, value in spec.on_retry.items():
        value_of(f"on_retry[{name!r}]", value)
    for state, word in spec.words.items():
        value_of(f"states[{state.value!r}]", word)
    columns = tuple(column for name in spec.key if (column := table.column(name)) is not None)
    _refuse_key(table, columns)
    return Layout(
        spec=spec,
        table=table,
        companion=companion,
        keys=Keys(columns),
        findings=tuple(_findings(spec, table, companion)),
        schema_version=schema_version(db),
    )


def check_conditions(db: sqlite3.Connection, layout: Layout) -> None:
    """Raise for a condition of the user's that the file cannot make anything of."""
    for option in ("where", "done_if"):
        place = f"main.{quoted(layout.table.name)} as {quoted(layout.spec.name)}"
        text = f"explain select 1 from {place} where {condition(layout, option)}"  # noqa: S608 - the names are quoted
        try:
            db.execute(text, layout.values()).fetchall()
        except (sqlite3.OperationalError, sqlite3.ProgrammingError) as exc:
            if is_busy(exc):
                raise
            raise ConfigurationError(
                f"{option} of table {layout.spec.shown!r} cannot be used: {exc}; "
                "write a condition on its columns, with values as :name"
            ) from exc


def _refuse_unknown(table: Thing, spec: TableSpec) -> None:
    """Raise for a column that is named and not there, unless `migrate` adds it."""
    named = [
        *(("id", name) for name in spec.key),
        *(("order_by", each.column) for each in spec.order_by),
        *(("on_retry", name) for name in spec.on_retry),
        *((f"columns[{role.value!r}]", name) for role, name in spec.columns.items() if _is_of_the_user(spec, role)),
    ]
    to_be_added = {folded(name) for role, name in spec.columns.items() if not _is_of_the_user(spec, role)}
    for option, name in named:
        if table.column(name) is None and folded(name) not in to_be_added:
            raise ConfigurationError(
                f"{option}: table {table.name!r} has no column {name!r}"
                f"{checks.nearest(name, table.names) or '; it has ' + ', '.join(table.names)}"
            )


def _is_of_the_user(spec: TableSpec, role: Role) -> bool:
    """Tell whether only the user can make the column of a role."""
    return role is Role.CREATED_AT or (spec.is_sidecar and role in READ_BESIDE)


def _refuse_key(table: Thing, columns: tuple[Column, ...]) -> None:
    for each in columns:
        if not is_usable(each):
            raise ConfigurationError(
                f"id: column {each.name!r} of {table.name!r} is of type {each.type or 'none'!r}; "
                "a key is of whole numbers or text: declare it integer or text"
            )
    if not table.is_unique(each.name for each in columns):
        names = ", ".join(each.name for each in columns)
        raise ConfigurationError(
            f"id: several rows of {table.name!r} may have the same {names}; name the primary key, or make a unique "
            "index of these columns"
        )


def _findings(spec: TableSpec, table: Thing, companion: Thing | None) -> Iterator[Finding]:
    if spec.companion is not None and companion is None:
        yield _error("companion", f"there is no table {spec.companion!r} beside {table.name!r} yet", MIGRATE)
        return
    kept = table if companion is None else companion
    places = {role: table if role in READ_BESIDE else kept for role in ADDED if spec.column(role) is not None}
    columns = {role: place.column(str(spec.column(role))) for role, place in places.items()}
    missing = [f"{spec.column(role)!r} for {role}" for role, column in columns.items() if column is None]
    if missing:
        is_one = len(missing) == 1
        yield _error("columns", f"there {'is no column' if is_one else 'are no columns'} {', '.join(missing)}", MIGRATE)
    for role, column in columns.items():
        if column is not None:
            yield from _of_a_column(places[role], role, column)


def _of_a_column(table: Thing, role: Role, column: Column) -> Iterator[Finding]:
    shown = f"column {column.name!r} of {table.name!r}, which plays {role.value!r},"
    if column.is_generated:
        yield _error(f"column {role}", f"{shown} is generated, so it cannot be written", "name another column")
    elif role in EMPTIED and column.is_required:
        yield _error(
            f"column {role}", f"{shown} is not null, and has no value at times", "drop the constraint, or name another"
        )
    if role in NUMBERS and column.affinity in {"text", "real"}:
        yield _error(f"column {role}", f"{shown} is of type {column.type!r}; it has whole numbers", "make it integer")
    if role in TEXTS and column.affinity in {"integer", "real"}:
        yield _error(f"column {role}", f"{shown} is of type {column.type!r}; it has texts", "make it text")


def _error(about: str, text: str, remedy: str) -> Finding:
    return Finding(gravity=Gravity.ERROR, about=about, text=text, remedy=remedy)
