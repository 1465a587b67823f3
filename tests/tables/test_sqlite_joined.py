"""Settling a claim in a transaction with the user's own writes."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tenure.backends.sqlite import SQLite
from tenure.backends.tables.protocol import TableStore
from tenure.backends.tables.sqlite import SQLiteTable, open_table
from tenure.core.job import State
from tenure.core.operations import Extension, HoldStatus
from tenure.core.table.options import build_table_spec
from tenure.errors import ConfigurationError
from tenure.testing import Clock
from tenure.testing.conformance.building import build_completion, build_failure, job_of, take_one
from tests.tables.lite import KINDS, MAPPED, execute, given_orders, opened, rows

COUNT = "select count(*) from invoices"


@pytest.fixture(params=KINDS)
def table(request: pytest.FixtureRequest, path: Path) -> Iterator[SQLiteTable]:
    given_orders(path, "pending", "pending")
    execute(path, "create table invoices (order_id integer unique)")
    with opened(path, **KINDS[request.param]) as table:
        yield table


def test_output_and_completion_are_one_commit(table: SQLiteTable, path: Path) -> None:
    taken = take_one(table)

    with table.transaction() as connection:
        connection.execute("insert into invoices values (1)")
        with table.join(connection) as joined:
            landed = joined.settle([build_completion(taken)])
        seen_before_the_commit = rows(path, COUNT)

    assert landed == [True]
    assert seen_before_the_commit == [(0,)]
    assert rows(path, COUNT) == [(1,)]
    assert job_of(table, taken.id).state is State.COMPLETED


def test_an_exception_undoes_output_and_completion(table: SQLiteTable, path: Path) -> None:
    taken = take_one(table)

    with pytest.raises(RuntimeError), table.transaction() as connection:
        connection.execute("insert into invoices values (1)")
        with table.join(connection) as joined:
            joined.settle([build_completion(taken)])
        raise RuntimeError

    assert rows(path, COUNT) == [(0,)]
    assert job_of(table, taken.id) == taken.job


def test_who_lost_a_row_is_told_so_in_the_transaction(table: SQLiteTable) -> None:
    late = take_one(table, worker="w1")
    table.reap(worker="w1")
    take_one(table, worker="w2")

    with table.transaction() as connection, table.join(connection) as joined:
        held = joined.extend([Extension(hold=late.hold, lease=60)])
        landed = joined.settle([build_completion(late)])

    assert (held, landed) == ([HoldStatus.LOST], [False])


def test_a_claim_ends_in_a_transaction_of_the_users_own_connection(table: SQLiteTable, path: Path) -> None:
    taken = take_one(table)

    with closing(sqlite3.connect(path)) as db:
        db.row_factory = sqlite3.Row
        db.execute("insert into invoices values (1)")
        with table.join(db) as joined:
            landed = joined.settle([build_failure(taken, "no paper", final=True)])
            was_open = joined.is_open(), joined.belongs_to(db)
        before = job_of(table, taken.id).state
        db.commit()

        assert (landed, was_open, before) == ([True], (True, True), State.RUNNING)
        assert db.row_factory is sqlite3.Row
        assert job_of(table, taken.id).errors == ["no paper"]


def test_what_the_user_rolls_back_did_not_happen(table: SQLiteTable, path: Path) -> None:
    taken = take_one(table)

    with closing(sqlite3.connect(path)) as db:
        db.execute("insert into invoices values (1)")
        with table.join(db) as joined:
            joined.settle([build_completion(taken)])
        db.rollback()

    assert job_of(table, taken.id) == taken.job


def test_a_table_that_was_altered_in_the_transaction_is_known_as_it_is_there_and_afterwards(
    table: SQLiteTable, path: Path
) -> None:
    first, second = take_one(table), take_one(table)

    with closing(sqlite3.connect(path)) as db:
        db.execute("begin immediate")
        db.execute("alter table orders add column note text")
        with table.join(db) as joined:
            landed = joined.settle([build_completion(first)])
        db.rollback()

    assert landed == [True]
    assert job_of(table, first.id) == first.job
    assert table.settle([build_completion(second)]) == [True]


def test_an_alteration_that_was_rolled_back_is_not_taken_for_the_next_one(table: SQLiteTable, path: Path) -> None:
    taken = take_one(table)

    with closing(sqlite3.connect(path)) as db:
        db.execute("begin immediate")
        db.execute("alter table orders add column note text")
        with table.join(db) as joined:
            joined.settle([build_completion(taken)])
        db.rollback()
        db.execute("alter table orders add column remark text")

    assert job_of(table, taken.id).payload == {**taken.job.payload, "remark": None}


def test_a_transaction_that_has_only_read_takes_its_place_among_the_writers(table: SQLiteTable, path: Path) -> None:
    with closing(sqlite3.connect(path)) as db, closing(sqlite3.connect(path, timeout=0)) as other:
        db.execute("begin")
        db.execute(COUNT)

        with table.join(db), pytest.raises(sqlite3.OperationalError, match="locked"):
            other.execute("begin immediate")


def test_a_connection_to_another_file_is_refused(table: SQLiteTable, path: Path) -> None:
    with (
        closing(sqlite3.connect(path.with_name("other.db"))) as db,
        pytest.raises(ConfigurationError, match="connection is to"),
        table.join(db),
    ):
        pass


def test_jobs_cannot_be_enqueued_in_a_table(table: SQLiteTable) -> None:
    with (
        table.transaction() as connection,
        table.join(connection) as joined,
        pytest.raises(ConfigurationError, match="insert rows instead"),
    ):
        joined.enqueue([])


def test_a_table_that_cannot_be_used_is_told_before_the_connection_is_touched(path: Path) -> None:
    given_orders(path, "pending")

    with (
        opened(path, is_migrated=False, **MAPPED) as table,
        closing(sqlite3.connect(path, isolation_level=None)) as db,
    ):
        with pytest.raises(ConfigurationError, match="migrate"), table.join(db):
            pass

        assert not db.in_transaction


def test_a_table_beside_a_store_of_jobs_shares_its_file_and_outlives_no_use_of_it(path: Path, clock: Clock) -> None:
    given_orders(path, "pending")
    store = SQLite(path, clock=clock)
    table = SQLiteTable(store.database, build_table_spec("orders", **MAPPED))

    table.migrate()
    taken = take_one(table)
    with table.transaction() as connection, table.join(connection) as joined:
        joined.settle([build_completion(taken)])
    table.close()

    assert taken.job.started_at == clock.now
    assert store.stats().rows == ()
    assert isinstance(table, TableStore)
    store.close()


def test_a_table_is_opened_by_the_url_of_its_file(path: Path, clock: Clock) -> None:
    given_orders(path, "pending")
    table = open_table(f"sqlite:///{path}?timeout=3", build_table_spec("orders", **MAPPED), clock=clock)

    table.migrate()

    assert take_one(table).job.started_at == clock.now
    table.close()
