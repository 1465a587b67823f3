"""Bring a table of the user's to what its operations need, while others use it.

Nobody waits for us long: a change of the table gives up after `LOCK_WAIT` and is tried again, as whoever comes after a
change that waits for its lock waits with it. Several who migrate at once do it one after the other.
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
from tenure.backends.tables.postgres.admin_connection import Hand, hand_on, named
from tenure.backends.tables.postgres.catalogue import Relation, read
from tenure.backends.tables.postgres.column_checks import findings_of
from tenure.backends.tables.postgres.ddl import Change, Present, Way
from tenure.backends.tables.postgres.functions import functions_installed, functions_of, functions_script
from tenure.backends.tables.postgres.layout import BY_MIGRATE, Layout
from tenure.backends.tables.postgres.sql_templates import Wording
from tenure.backends.tables.postgres.statements import numbered
from tenure.backends.tables.protocol import Gravity
from tenure.core import checks
from tenure.core.table.spec import TableSpec
from tenure.errors import ConfigurationError, StoreUnavailable

log = logging.getLogger(__name__)

LOCK_WAIT = 1.0
"""Seconds that a change waits for its lock."""
TRIES = 8
PAUSE = 0.5
"""Seconds between two tries, on average."""
TURN = 0.1
"""Seconds between two looks whether somebody else has done with this table, on average."""
BATCH = 1_000
"""How many rows are adopted in one transaction."""

IN_EACH_OTHERS_WAY = (
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
    with hand_on(database) as hand, database.sessions.are_set(hand.connection):
        changes = _changes(database, hand, spec, adopt_running_after)
        changes += _functions_changed(database, hand, spec) if functions else []
    return [statement for change in changes for statement in change.statements]


def migrate(
    database: Database, spec: TableSpec, *, adopt_running_after: float | None = None, functions: bool = False
) -> list[str]:
    """Make what is missing; return the statements that were run."""
    done: list[str] = []
    with hand_on(database) as hand, _told(hand, spec), _alone(database, hand, spec):
        for left in reversed(range(TRIES)):
            try:
                for change in _changes(database, hand, spec, adopt_running_after):
                    _do(database, hand, spec, change)
                    done += change.statements
                for change in _functions_changed(database, hand, spec) if functions else []:
                    _do(database, hand, spec, change)
                    done += change.statements
                break
            except psycopg.Error as exc:
                if not _is_in_the_way(exc):
                    raise
                if not left:
                    raise _in_the_way(spec, exc) from exc
            time.sleep(PAUSE * random.uniform(0.5, 1.5))
    return done


def layout_of(database: Database, spec: TableSpec) -> Layout:
    return Layout(spec=spec, catalogue=read(database, spec))


def mendable(database: Database, spec: TableSpec) -> Layout:
    """Return the table as it is; raise for the first thing that keeps it from use and cannot be mended here."""
    layout = layout_of(database, spec)
    for finding in findings_of(layout):
        if finding.gravity is Gravity.ERROR and not (finding.remedy or "").startswith(BY_MIGRATE):
            raise ConfigurationError(f"{layout.table.shown}: {finding.text}; {finding.remedy}")
    return layout


def output_of(database: Database, spec: TableSpec) -> Relation | None:
    """Return the table of the output, if the user named one; raise if it is not there, or lacks its columns."""
    if spec.output is None:
        return None
    found = read(database, replace(spec, schema=spec.output.schema, name=spec.output.table, companion=None)).table
    for name in spec.output.columns:
        if found.column(name) is None:
            names = [each.name for each in found.columns]
            raise ConfigurationError(f"output: {found.shown} has no column {name!r}{checks.nearest(name, names)}")
    return found


def present_on(hand: Hand, layout: Layout, output: Relation | None) -> Present:
    """Return the indexes of the tables that ours are on."""
    relations = [layout.table, layout.catalogue.companion, output]
    rows = hand.rows(named("ddl")["indexes"], {"oids": [each.oid for each in relations if each is not None]})
    return Present(
        sound=frozenset(name for name, is_sound in rows if is_sound),
        broken=frozenset(name for name, is_sound in rows if not is_sound),
    )


def texts(database: Database, spec: TableSpec) -> dict[str, str]:
    """Return the statements of all operations, all that is made for the table, and the functions, to be read."""
    layout = mendable(database, spec)
    with hand_on(database) as hand, database.sessions.are_set(hand.connection):
        made = functions_of(hand, layout)
    return {
        **Wording(layout).texts(),
        "schema": ddl.script(layout, output_of(database, spec)),
        "functions": functions_script(layout, made),
    }


def _changes(database: Database, hand: Hand, spec: TableSpec, adopt_running_after: float | None) -> list[Change]:
    layout = mendable(database, spec)
    output = output_of(database, spec)
    found = ddl.changes(layout, output, present_on(hand, layout, output))
    if adopt_running_after is not None:
        seconds = checks.seconds("adopt_running_after", adopt_running_after)
        question = ddl.rows_to_adopt(layout)
        if question is not None and hand.rows(numbered(question))[0][0]:
            found.append(ddl.adoption(layout, seconds, BATCH))
    return found


def _functions_changed(database: Database, hand: Hand, spec: TableSpec) -> list[Change]:
    # In one session, wherever that is lent from: the server is asked about a statement that was prepared before.
    with hand.connection.transaction():
        statements = functions_installed(hand, functions_of(hand, layout_of(database, spec)))
    return [Change(tuple(statements))] if statements else []


def _do(database: Database, hand: Hand, spec: TableSpec, change: Change) -> None:
    for statement in change.statements:
        log.info("migrating %s: %s", spec.shown, " ".join(statement.split()))
    match change.way:
        case Way.LOCKING:
            with _in_transaction(hand):
                for statement in change.statements:
                    hand.run(statement)
        case Way.CONCURRENT:
            _do_concurrently(database, hand, change)
        case Way.ROWS:
            while change.in_part is not None and _changed(hand, change.in_part):
                pass
        case _:
            assert_never(change.way)


def _do_concurrently(database: Database, hand: Hand, change: Change) -> None:
    """Do what waits for others, however long, and lets nobody wait. A session that is lent stays as it is set."""
    if not database.sessions.are_lent:
        hand.set("statement_timeout", "0")
        hand.set("lock_timeout", "0")
    try:
        for statement in change.statements:
            hand.run(statement)
    except errors.UniqueViolation:
        if change.undoing is not None:
            hand.run(change.undoing)
        raise


def _changed(hand: Hand, statement: str) -> int:
    with _in_transaction(hand):
        return hand.run(statement)


@contextmanager
def _in_transaction(hand: Hand) -> Iterator[None]:
    with hand.connection.transaction():
        hand.set("statement_timeout", "0")
        hand.set("lock_timeout", f"{1000 * LOCK_WAIT:.0f}")
        yield


@contextmanager
def _alone(database: Database, hand: Hand, spec: TableSpec) -> Iterator[None]:
    """Have nobody else change this table meanwhile, if the session is our own: one that is lent cannot hold a lock."""
    if database.sessions.are_lent:
        yield
        return
    table = {"table": layout_of(database, spec).table.shown}
    while not hand.rows(named("ddl")["try alone"], table)[0][0]:
        time.sleep(TURN * random.uniform(0.5, 1.5))
    yield


@contextmanager
def _told(hand: Hand, spec: TableSpec) -> Iterator[None]:
    try:
        yield
    except errors.InsufficientPrivilege as exc:
        raise ConfigurationError(
            f"the role {hand.connection.info.user!r} may not change {spec.shown!r}: {_reason(exc)}; have what "
            f"`tenure sql schema` prints for this table, as in `tenure sql schema app:{spec.name}`, run by its owner"
        ) from exc
    except errors.UniqueViolation as exc:
        raise ConfigurationError(
            f"the output of {spec.shown!r} cannot get its unique index: {_reason(exc)}; remove what is there twice, "
            "which `tenure doctor` finds, and run this again"
        ) from exc


def _is_in_the_way(error: psycopg.Error) -> bool:
    """Tell whether somebody else was in the way, or did the same at the same time: looked at again, it is there."""
    is_of_the_catalogue = isinstance(error, errors.UniqueViolation) and error.diag.schema_name == "pg_catalog"
    return is_of_the_catalogue or isinstance(error, IN_EACH_OTHERS_WAY)


def _in_the_way(spec: TableSpec, error: psycopg.Error) -> StoreUnavailable:
    return StoreUnavailable(
        f"{spec.shown!r} was in use each of the {TRIES} times that it was to be changed: {_reason(error)}; look for a "
        "transaction that stays open (pg_stat_activity), or migrate when there is less to do"
    )


def _reason(error: psycopg.Error) -> str:
    return str(error).partition("\n")[0]
