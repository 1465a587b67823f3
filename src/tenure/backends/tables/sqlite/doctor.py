"""What is wrong with a table or remarkable about it, each with its remedy.

Nothing is written. What is found in the rows is counted up to a bound.
"""

import sqlite3
from collections.abc import Iterator
from typing import Any

from tenure.backends.protocol import SCAN
from tenure.backends.sqlite import library
from tenure.backends.sqlite.connect import is_in_wal_mode
from tenure.backends.tables.protocol import Finding, Gravity
from tenure.backends.tables.sqlite import constraints, ddl
from tenure.backends.tables.sqlite.catalogue import triggers_of
from tenure.backends.tables.sqlite.column_checks import MIGRATE, check_conditions, fitted
from tenure.backends.tables.sqlite.indexes import duplicates, missing_indexes
from tenure.backends.tables.sqlite.layout import Layout
from tenure.backends.tables.sqlite.sql_templates import aliases_of, statement
from tenure.backends.tables.sqlite.storage_formats import moment_form
from tenure.core.job import FINISHED, State
from tenure.core.table.spec import Role, TableSpec, quoted
from tenure.errors import ConfigurationError

GRAVITIES = list(Gravity)
ADOPT = "call migrate(adopt_running_after=600), or run `tenure migrate --adopt-running-after 10m`"
LEASE_KINDS = {"text": "'text'", "whole": "'integer', 'real'", "fraction": "'integer', 'real'"}


def examine(db: sqlite3.Connection, spec: TableSpec) -> list[Finding]:
    """Return what was found, the gravest first."""
    try:
        layout = fitted(db, spec)
    except ConfigurationError as exc:
        return [_of_an_error("table", exc)]
    found = [*layout.findings, *_of_the_description(db, layout), *_of_the_file(db, layout)]
    if not layout.faults:
        found += [*_of_the_states(db, layout), *_of_the_leases(db, layout), *_of_the_values(db, layout)]
        if spec.is_sidecar:
            found += _of_the_companion(db, layout)
    return sorted(found, key=lambda each: GRAVITIES.index(each.gravity))


def _of_the_description(db: sqlite3.Connection, layout: Layout) -> Iterator[Finding]:
    for about, check in (("condition", check_conditions), ("column", _refuse_near)):
        try:
            check(db, layout)
        except ConfigurationError as exc:
            yield _of_an_error(about, exc)
    for name in layout.spec.on_retry:
        column = layout.table.column(name)
        if column is not None and column.is_generated:
            yield _found(
                Gravity.ERROR, "on_retry", f"column {name!r} is generated, so a retry cannot set it", "leave it out"
            )
    try:
        missing = list(missing_indexes(db, layout))
    except ConfigurationError as exc:
        yield _of_an_error("output", exc)
        return
    for index in missing:
        yield _found(Gravity.WARNING, "index", f"index {index.name!r} is missing, so more rows are read", index.text())
        if index.is_unique and layout.spec.output is not None:
            yield from _of_the_output(db, layout)


def _of_the_output(db: sqlite3.Connection, layout: Layout) -> Iterator[Finding]:
    output = layout.spec.output
    if output is not None and db.execute(f"{duplicates(output)} limit 1").fetchone() is not None:
        text = f"{output.table!r} has rows with the same {', '.join(output.columns)}, so it cannot be made unique"
        yield _found(Gravity.WARNING, "output", text, duplicates(output))


def _of_the_file(db: sqlite3.Connection, layout: Layout) -> Iterator[Finding]:
    kept = layout.spec.companion or layout.table.name
    for name, _ in triggers_of(db, kept):
        yield _found(
            Gravity.NOTE,
            "trigger",
            f"trigger {name!r} of {kept!r} runs in the transaction of each claim and settlement that it is for",
            "see that it is quick, and that it leaves the columns of tenure alone",
        )
    for state, text in constraints.refused_words(db, layout):
        yield _found(
            Gravity.ERROR,
            "constraint",
            f"check ({text}) refuses {layout.spec.words[state]!r}, the word for {state.value!r}",
            "name the word that it allows in states, or make the table anew with the word in the constraint",
        )
    yield from _of_the_journal(db)


def _of_the_journal(db: sqlite3.Connection) -> Iterator[Finding]:
    loses_commits = library.has_wal_reset_bug(sqlite3.sqlite_version_info)
    if is_in_wal_mode(db) and loses_commits:
        yield _found(
            Gravity.WARNING,
            "journal mode",
            f"the file is in WAL mode, and this process has SQLite {sqlite3.sqlite_version}. {library.WAL_RESET}",
            "use a newer SQLite in all that write to it; or write in claim.transaction() alone, which takes a lock; or "
            "pragma journal_mode = delete",
        )
    if not is_in_wal_mode(db) and not loses_commits:
        yield _found(
            Gravity.NOTE,
            "journal mode",
            "the file is not in WAL mode, so those who read and those who write wait for each other",
            "pragma journal_mode = wal",
        )


def _of_the_states(db: sqlite3.Connection, layout: Layout) -> Iterator[Finding]:
    if layout.spec.is_sidecar:
        return
    words = ", ".join(layout.word(state) for state in State)
    for word, number, id in _rows(db, layout, "other states", words=words):
        yield _found(
            Gravity.WARNING,
            "state",
            f"{_rows_shown(number, id)} {word!r} for a state, which is none of the words; nobody claims such rows",
            "name the word in states, or change the rows",
        )
    number, id = _rows(db, layout, "no state")[0]
    if number:
        text = f"{_rows_shown(number, id)} no state; nobody claims such rows"
        yield _found(Gravity.WARNING, "state", text, "give them the word for queued, and the column a default")


def _of_the_leases(db: sqlite3.Connection, layout: Layout) -> Iterator[Finding]:
    finished = ", ".join(layout.word(state) for state in State if state in FINISHED)
    kinds = LEASE_KINDS[moment_form(layout.column(Role.LEASED_UNTIL))]
    looked_for = {
        "running without a lease": ("no lease and run on: nobody takes such rows back", ADOPT),
        "leases in another form": (
            "a lease that another hand wrote: it may never run out",
            f"only tenure is to write leases; set these to null, then {ADOPT}",
        ),
        "queued with a token": (
            "the token of a claim without running: it was cleared by halves",
            statement(layout, "doctor", "clear queued"),
        ),
        "finished with a lease": (
            "a lease without running: it was cleared by halves",
            statement(layout, "doctor", "clear finished", finished=finished),
        ),
    }
    for name, (text, remedy) in looked_for.items():
        number, id = _rows(db, layout, name, finished=finished, lease_kinds=kinds)[0]
        if number:
            yield _found(Gravity.WARNING, "lease", f"{_rows_shown(number, id)} {text}", remedy)


def _of_the_values(db: sqlite3.Connection, layout: Layout) -> Iterator[Finding]:
    ((unusable,),) = _rows(db, layout, "unusable keys")
    if unusable:
        text = f"{_number(unusable)} of a key that is no {' and '.join(layout.spec.key)} of its column's type"
        yield _found(Gravity.WARNING, "key", f"{text}; nobody claims such rows", "give them keys of that type")
    row, _ = aliases_of(layout)
    for role in (Role.RUN_AT, Role.CREATED_AT):
        name = layout.spec.columns.get(role)
        if name is None:
            continue
        number, id = _rows(db, layout, "unreadable moments", its_moment=f"{row}.{quoted(name)}")[0]
        if number:
            yield _found(
                Gravity.WARNING,
                f"column {role}",
                f"{_rows_shown(number, id)} a value in {name!r} that is no moment; it counts as none",
                "write moments as texts, such as '2026-01-31 12:00:00', or as seconds since 1970",
            )
    number, id = _rows(db, layout, "damaged records")[0]
    if number:
        name = layout.spec.column(Role.RECORD)
        text = f"{_rows_shown(number, id)} something in {name!r} that is not tenure's; its history counts as empty"
        yield _found(Gravity.WARNING, "column record", text, "only tenure is to write there; set these to null")


def _of_the_companion(db: sqlite3.Connection, layout: Layout) -> Iterator[Finding]:
    ((orphans,),) = _rows(db, layout, "orphans")
    if orphans:
        key = [quoted(name) for name in layout.spec.key]
        row, _ = aliases_of(layout)
        orphan = " and ".join(f"{row}.{name} = {quoted(str(layout.spec.companion))}.{name}" for name in key)
        yield _found(
            Gravity.NOTE,
            "companion",
            f"{_number(orphans)} of {layout.spec.companion!r} whose row is gone from {layout.table.name!r}",
            statement(layout, "doctor", "forget orphans", orphan=orphan),
        )
    number, id = _rows(db, layout, "completed and still chosen")[0]
    if number:
        yield _found(
            Gravity.WARNING,
            "where",
            f"{_rows_shown(number, id)} a completion, and `where` still chooses them: the predicate does not turn "
            "false on completion, so each claim reads past such rows",
            "have the handler write what turns it false, best in claim.transaction(), or name the output in where",
        )


def _refuse_near(_: sqlite3.Connection, layout: Layout) -> None:
    ddl.refuse_near(layout)


def _rows(db: sqlite3.Connection, layout: Layout, name: str, **fragments: str) -> list[Any]:
    row, _ = aliases_of(layout)
    example = f"{row}.{quoted(layout.spec.key[0])}"
    return db.execute(
        statement(layout, "doctor", name, example=example, **fragments), layout.values(scan=SCAN)
    ).fetchall()


def _rows_shown(number: int, id: object) -> str:
    """Return how many rows have something, and which is one of them."""
    return f"{_number(number)} (such as {id!r}) {'has' if number == 1 else 'have'}"


def _number(number: int) -> str:
    shown = f"{number:,} or more" if number >= SCAN else f"{number:,}"
    return f"{shown} row{'' if number == 1 else 's'}"


def _of_an_error(about: str, error: ConfigurationError) -> Finding:
    text, _, remedy = str(error).rpartition("; ")
    return _found(Gravity.ERROR, about, text or remedy, remedy if text else MIGRATE)


def _found(gravity: Gravity, about: str, text: str, remedy: str) -> Finding:
    return Finding(gravity=gravity, about=about, text=text, remedy=remedy)
