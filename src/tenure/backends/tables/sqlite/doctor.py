"""Check a table: report problems with their remedies, without changing anything.

Counts of rows stop at a limit.
"""

import sqlite3
from collections.abc import Iterator
from typing import Any

from tenure.backends.protocol import SCAN
from tenure.backends.sqlite import library
from tenure.backends.sqlite.connect import is_in_wal_mode
from tenure.backends.sqlite.timestamps import duration
from tenure.backends.tables.protocol import STUCK_REMEDY, STUCK_TEXT, Finding, Severity
from tenure.backends.tables.sqlite import constraints, ddl
from tenure.backends.tables.sqlite.catalogue import read_triggers
from tenure.backends.tables.sqlite.column_checks import MIGRATE_REMEDY, check_conditions, read_layout
from tenure.backends.tables.sqlite.indexes import duplicates_query, missing_indexes
from tenure.backends.tables.sqlite.layout import Layout
from tenure.backends.tables.sqlite.sql_templates import fill_statement, moment_expression, table_aliases
from tenure.backends.tables.sqlite.storage_formats import timestamp_format
from tenure.backends.tables.sqlite.triggers import missing_triggers
from tenure.core.job import FINISHED, State
from tenure.core.operations import STUCK_AFTER
from tenure.core.table.spec import Role, TableSpec, quote_identifier
from tenure.errors import ConfigurationError

SEVERITIES = list(Severity)
ADOPT_REMEDY = "call migrate(adopt_running_after=600), or run `tenure migrate --adopt-running-after 10m`"
LEASE_STORAGE_CLASSES = {"text": "'text'", "whole": "'integer', 'real'", "fraction": "'integer', 'real'"}


def check(db: sqlite3.Connection, spec: TableSpec, now: int) -> list[Finding]:
    """Return the findings, most severe first."""
    try:
        layout = read_layout(db, spec)
    except ConfigurationError as exc:
        return [_error_finding("table", exc)]
    found = [*layout.findings, *_check_description(db, layout), *_check_file(db, layout)]
    if not layout.errors:
        found += [*_check_states(db, layout), *_check_leases(db, layout, now), *_check_values(db, layout)]
        if spec.is_sidecar:
            found += _check_sidecar(db, layout)
    return sorted(found, key=lambda each: SEVERITIES.index(each.severity))


def _check_description(db: sqlite3.Connection, layout: Layout) -> Iterator[Finding]:
    for about, check in (("condition", check_conditions), ("column", _reject_typos)):
        try:
            check(db, layout)
        except ConfigurationError as exc:
            yield _error_finding(about, exc)
    for name in layout.spec.on_retry:
        column = layout.table.column(name)
        if column is not None and column.is_generated:
            yield _finding(
                Severity.ERROR, "on_retry", f"column {name!r} is generated, so a retry cannot set it", "omit the column"
            )
    try:
        missing = list(missing_indexes(db, layout))
    except ConfigurationError as exc:
        yield _error_finding("output", exc)
        return
    for index in missing:
        yield _finding(
            Severity.WARNING,
            "index",
            f"index {index.name!r} does not exist, so queries read more rows",
            index.create_statement(),
        )
        if index.is_unique and layout.spec.output is not None:
            yield from _check_output(db, layout)


def _check_output(db: sqlite3.Connection, layout: Layout) -> Iterator[Finding]:
    output = layout.spec.output
    if output is not None and db.execute(f"{duplicates_query(output)} limit 1").fetchone() is not None:
        text = f"{output.table!r} has duplicates of {', '.join(output.columns)}, so the unique index cannot be created"
        yield _finding(Severity.WARNING, "output", text, duplicates_query(output))


def _check_file(db: sqlite3.Connection, layout: Layout) -> Iterator[Finding]:
    for trigger in missing_triggers(db, layout):
        yield _finding(
            Severity.WARNING,
            "trigger",
            f"trigger {trigger.name!r} of {layout.table.name!r} does not exist, so keys must not be reused: a row that "
            "gets the key of a deleted row takes over the claim and the state of the deleted row",
            trigger.create_statement(),
        )
    kept = layout.spec.sidecar_name or layout.table.name
    for name, _ in read_triggers(db, kept):
        yield _finding(
            Severity.NOTE,
            "trigger",
            f"trigger {name!r} of {kept!r} runs in the transaction of the claims and settlements that fire it",
            "make sure that the trigger is fast and does not change the columns used by tenure",
        )
    for state, text in constraints.rejected_states(db, layout):
        yield _finding(
            Severity.ERROR,
            "constraint",
            f"check ({text}) rejects {layout.spec.state_values[state]!r} (state {state.value})",
            "pass an allowed value for the state in states=, or recreate the table with another constraint",
        )
    yield from _check_journal_mode(db)


def _check_journal_mode(db: sqlite3.Connection) -> Iterator[Finding]:
    loses_commits = library.has_wal_reset_bug(sqlite3.sqlite_version_info)
    if is_in_wal_mode(db) and loses_commits:
        yield _finding(
            Severity.WARNING,
            "journal mode",
            f"the file is in WAL mode, and this process has SQLite {sqlite3.sqlite_version}. {library.WAL_RESET}",
            "use a newer SQLite in all processes that write to the file; or write only in claim.transaction(), which "
            "takes a lock; or pragma journal_mode = delete",
        )
    if not is_in_wal_mode(db) and not loses_commits:
        yield _finding(
            Severity.NOTE,
            "journal mode",
            "the file is not in WAL mode, so readers and writers block each other",
            "pragma journal_mode = wal",
        )


def _check_states(db: sqlite3.Connection, layout: Layout) -> Iterator[Finding]:
    if layout.spec.is_sidecar:
        return
    words = ", ".join(layout.state_literal(state) for state in State)
    for word, number, id in _query(db, layout, "other states", state_values=words):
        yield _finding(
            Severity.WARNING,
            "state",
            f"{_describe_rows(number, id)} {word!r}, which is not a state value; tenure does not claim these rows",
            "map the value to a state in states=, or change the rows",
        )
    number, id = _query(db, layout, "no state")[0]
    if number:
        text = f"{_describe_rows(number, id)} a null state; tenure does not claim these rows"
        yield _finding(
            Severity.WARNING, "state", text, "set the state of these rows to queued, and give the column a default"
        )


def _check_leases(db: sqlite3.Connection, layout: Layout, now: int) -> Iterator[Finding]:
    finished = ", ".join(layout.state_literal(state) for state in State if state in FINISHED)
    kinds = LEASE_STORAGE_CLASSES[timestamp_format(layout.column(Role.LEASED_UNTIL))]
    queries = {
        "running without a lease": ("no lease but the state running, so they never expire", ADOPT_REMEDY),
        "stuck": (STUCK_TEXT, STUCK_REMEDY),
        "leases in another form": (
            "a lease that tenure did not write, which may never expire",
            f"let only tenure write leases; set these leases to null, then {ADOPT_REMEDY}",
        ),
        "queued with a token": (
            "a token but the state queued: other code cleared only part of a claim",
            fill_statement(layout, "doctor", "clear queued"),
        ),
        "finished with a lease": (
            "a lease but a finished state: other code cleared only part of a claim",
            fill_statement(layout, "doctor", "clear finished", finished=finished),
        ),
    }
    expired_by = layout.encode_now(now - duration(STUCK_AFTER))
    for name, (text, remedy) in queries.items():
        number, id = _query(db, layout, name, expired_by, finished=finished, lease_kinds=kinds)[0]
        if number:
            yield _finding(Severity.WARNING, "lease", f"{_describe_rows(number, id)} {text}", remedy)


def _check_values(db: sqlite3.Connection, layout: Layout) -> Iterator[Finding]:
    ((unusable,),) = _query(db, layout, "unusable keys")
    if unusable:
        text = f"{_count_rows(unusable)} with a key ({', '.join(layout.spec.key)}) that is not of the column's type"
        yield _finding(
            Severity.WARNING, "key", f"{text}; tenure does not claim these rows", "give these rows keys of that type"
        )
    row, _ = table_aliases(layout)
    for role in (Role.RUN_AT, Role.CREATED_AT):
        name = layout.spec.columns.get(role)
        if name is None:
            continue
        column = f"{row}.{quote_identifier(name)}"
        number, id = _query(db, layout, "unreadable moments", its_moment=column, its_time=moment_expression(column))[0]
        if number:
            yield _finding(
                Severity.WARNING,
                f"column {role}",
                f"{_describe_rows(number, id)} a value in {name!r} that is not a timestamp; tenure reads it as null",
                "write timestamps as text, such as '2026-01-31 12:00:00', or as seconds since 1970",
            )
    number, id = _query(db, layout, "damaged records")[0]
    if number:
        name = layout.spec.column(Role.RECORD)
        text = (
            f"{_describe_rows(number, id)} a value in {name!r} that is not from tenure; it counts as an empty history"
        )
        yield _finding(
            Severity.WARNING, "column record", text, "let only tenure write this column; set these values to null"
        )


def _check_sidecar(db: sqlite3.Connection, layout: Layout) -> Iterator[Finding]:
    ((orphans,),) = _query(db, layout, "orphans")
    if orphans:
        key = [quote_identifier(name) for name in layout.spec.key]
        row, _ = table_aliases(layout)
        orphan = " and ".join(
            f"{row}.{name} = {quote_identifier(str(layout.spec.sidecar_name))}.{name}" for name in key
        )
        yield _finding(
            Severity.NOTE,
            "sidecar",
            f"{_count_rows(orphans)} in {layout.spec.sidecar_name!r}, but deleted from {layout.table.name!r}",
            fill_statement(layout, "doctor", "delete orphans", orphan=orphan),
        )
    number, id = _query(db, layout, "completed and still chosen")[0]
    if number:
        yield _finding(
            Severity.WARNING,
            "where",
            f"{_describe_rows(number, id)} the state completed, but `where` still matches: the work does not make the "
            "condition false, so every claim skips over these rows",
            "change a column in where as part of the work, in claim.transaction(), or test for the output in where",
        )


def _reject_typos(_: sqlite3.Connection, layout: Layout) -> None:
    ddl.reject_typos(layout)


def _query(
    db: sqlite3.Connection, layout: Layout, statement_name: str, expired_by: object = None, **fragments: str
) -> list[Any]:
    row, _ = table_aliases(layout)
    example = f"{row}.{quote_identifier(layout.spec.key[0])}"
    return db.execute(
        fill_statement(layout, "doctor", statement_name, example=example, **fragments),
        layout.values(scan=SCAN, expired_by=expired_by),
    ).fetchall()


def _describe_rows(number: int, id: object) -> str:
    """Return the number of rows with an example id, and the verb."""
    return f"{_count_rows(number)} (such as {id!r}) {'has' if number == 1 else 'have'}"


def _count_rows(number: int) -> str:
    shown = f"{number:,} or more" if number >= SCAN else f"{number:,}"
    return f"{shown} row{'' if number == 1 else 's'}"


def _error_finding(about: str, error: ConfigurationError) -> Finding:
    text, _, remedy = str(error).rpartition("; ")
    return _finding(Severity.ERROR, about, text or remedy, remedy if text else MIGRATE_REMEDY)


def _finding(severity: Severity, about: str, text: str, remedy: str) -> Finding:
    return Finding(severity=severity, about=about, text=text, remedy=remedy)
