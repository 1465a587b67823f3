"""What `migrate` makes: missing columns or the companion, indexes, and leases for what was left running."""

import difflib
import math
import sqlite3
from collections.abc import Iterator

from tenure.backends.sqlite.timestamps import text_of
from tenure.backends.tables.sqlite.catalogue import Column, folded
from tenure.backends.tables.sqlite.column_checks import ADDED
from tenure.backends.tables.sqlite.indexes import duplicates, indexes, missing_indexes
from tenure.backends.tables.sqlite.layout import Layout
from tenure.backends.tables.sqlite.sql_templates import fragments_of, parts_of
from tenure.backends.tables.sqlite.storage_formats import moment_form
from tenure.core import checks
from tenure.core.job import State
from tenure.core.table.spec import Role, TableSpec, quoted
from tenure.errors import ConfigurationError

NEAR, NEAR_FOR_THE_STATE = 0.85, 0.7
"""How alike two names are that are taken for one and a slip of it."""

NUMBER = "integer not null default 0"
DEFINITIONS = {Role.ATTEMPTS: NUMBER, Role.CRASHES: NUMBER, Role.FENCE: NUMBER, Role.PRIORITY: NUMBER}


def schema(layout: Layout) -> list[str]:
    """Return all that `migrate` makes, whether it is there or not; a column of the user's own only if it is not."""
    if layout.spec.is_sidecar:
        return [_companion(layout), *(each.text() for each in indexes(layout))]
    is_ours = [role for role in _added_roles(layout) if role not in layout.spec.columns and role is not Role.STATE]
    made = [role for role in _added_roles(layout) if role in is_ours or layout.column(role) is None]
    return [*(_added(layout, role) for role in made), *(each.text() for each in indexes(layout))]


def outstanding(
    db: sqlite3.Connection, layout: Layout, now: int, adopt_running_after: float | None = None
) -> list[str]:
    """Return what `migrate` is to run."""
    refuse_near(layout)
    statements = [*_missing(layout), *(each.text() for each in missing_indexes(db, layout))]
    if adopt_running_after is not None:
        seconds = checks.seconds("adopt_running_after", adopt_running_after)
        statements += [_adopt(layout, now, seconds)] if _has_to_adopt(db, layout) else []
    return statements


def run(db: sqlite3.Connection, spec: TableSpec, statement: str) -> None:
    """Run one of these statements, or raise for rows that stand against it."""
    try:
        db.execute(statement)
    except sqlite3.IntegrityError as exc:
        if spec.output is None:
            raise
        raise ConfigurationError(
            f"output: {exc}; the unique index can be made when the rows that are there twice are one each; "
            f"find them by: {duplicates(spec.output)}"
        ) from exc


def refuse_near(layout: Layout) -> None:
    """Raise before a column is added whose name is very near to that of one that is there."""
    if layout.spec.is_sidecar:
        return
    playing = {folded(str(layout.spec.column(role))) for role in Role} | {folded(name) for name in layout.spec.key}
    others = [each.name for each in layout.table.columns if folded(each.name) not in playing]
    for role in _added_roles(layout):
        name = str(layout.spec.column(role))
        is_named = role in layout.spec.columns or role is Role.STATE
        if layout.column(role) is not None or not is_named:
            continue
        cutoff = NEAR_FOR_THE_STATE if role is Role.STATE else NEAR
        if near := difflib.get_close_matches(name, others, n=1, cutoff=cutoff):
            raise ConfigurationError(
                f"table {layout.table.name!r} has no column {name!r} to play {role.value!r}, but has {near[0]!r}; if "
                f"that is meant, write columns={{{role.value!r}: {near[0]!r}}}, else add the column by hand"
            )


def _added_roles(layout: Layout) -> list[Role]:
    return [role for role in ADDED if layout.spec.column(role) is not None]


def _missing(layout: Layout) -> Iterator[str]:
    if layout.spec.is_sidecar:
        if layout.companion is None:
            yield _companion(layout)
        return
    for role in _added_roles(layout):
        if layout.column(role) is None:
            yield _added(layout, role)


def _added(layout: Layout, role: Role) -> str:
    definition = DEFINITIONS.get(role, "text")
    if role is Role.STATE:
        kind = "integer" if isinstance(layout.spec.words[State.QUEUED], int) else "text"
        definition = f"{kind} not null default {layout.word(State.QUEUED)}"
    return parts_of(__package__, "ddl")["add column"].format(
        table=f"main.{quoted(layout.table.name)}",
        column=quoted(str(layout.spec.column(role))),
        definition=definition,
    )


def _companion(layout: Layout) -> str:
    columns = [f"{quoted(each.name)} {_key_type(each)} not null" for each in layout.keys.columns]
    return parts_of(__package__, "ddl")["companion"].format(
        companion=f"main.{quoted(str(layout.spec.companion))}",
        key_columns=",\n  ".join(columns),
        key=", ".join(quoted(name) for name in layout.spec.key),
    )


def _key_type(column: Column) -> str:
    """Return a type that compares as that of the user's column does."""
    return "uuid" if column.affinity == "numeric" else column.affinity


def _has_to_adopt(db: sqlite3.Connection, layout: Layout) -> bool:
    if layout.column(Role.STATE) is None:
        return False
    has_lease = layout.column(Role.LEASED_UNTIL) is not None
    which = "has running without a lease" if has_lease else "has running"
    (found,) = db.execute(parts_of(__package__, "ddl")[which].format(**fragments_of(layout))).fetchone()
    return bool(found)


def _adopt(layout: Layout, now: int, seconds: float) -> str:
    started_at = quoted(str(layout.spec.column(Role.STARTED_AT)))
    if moment_form(layout.column(Role.STARTED_AT)) != "text":
        started_at = f"strftime('%Y-%m-%d %H:%M:%f', {started_at}, 'unixepoch')"
    since = f"coalesce({started_at}, '{text_of(now)}')"
    later = f"'+{seconds:f} seconds'"
    match moment_form(layout.column(Role.LEASED_UNTIL)):
        case "whole":
            ends_at = f"cast(strftime('%s', {since}, '+{math.ceil(seconds)} seconds') as integer)"
        case "fraction":
            ends_at = f"(julianday({since}, {later}) - 2440587.5) * 86400.0"
        case _:
            ends_at = f"strftime('%Y-%m-%d %H:%M:%f', {since}, {later}) || '000'"
    return parts_of(__package__, "ddl")["adopt"].format(**fragments_of(layout), ends_at=ends_at)
