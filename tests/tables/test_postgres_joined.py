"""Settle a claim in the caller's transaction."""

import threading
from collections.abc import Iterator, Sequence
from typing import Any

import psycopg
import pytest

from tenure.backends.tables.postgres import PostgresTable
from tenure.core.job import Progress
from tenure.core.operations import Extension, HoldStatus, Settled, Settlement
from tenure.errors import ConfigurationError
from tenure.testing import Clock
from tenure.testing.conformance.building import (
    as_taken,
    build_completion,
    build_failure,
    build_release,
    job_of,
    request,
    settle,
    take,
    take_one,
)
from tests.connections.databases import of_database
from tests.servers.postgres import Server
from tests.tables.postgres_shop import ORDERS, Shop, new_shop, shown

MODES: dict[str, dict[str, Any]] = {"mapped": {"columns": {"state": "status"}}, "sidecar": {"sidecar": True}}
WAITING = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and query like %s"
PATIENCE = 120


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest) -> dict[str, Any]:
    return {"where": "true", **MODES[request.param]}


@pytest.fixture
def shop(postgres: Server) -> Iterator[Shop]:
    with new_shop(postgres) as shop:
        shop.execute(ORDERS)
        shop.execute("create table S.invoices (order_id bigint references S.orders)")
        shop.execute("insert into S.orders (id, source) select n, 'x' from generate_series(1, 3) n")
        yield shop


def test_the_output_and_the_completion_are_committed_together(shop: Shop, mode: dict[str, Any]) -> None:
    table = shop.fit(**mode)
    taken = take_one(table)

    with psycopg.connect(shop.url) as connection, table.join(connection) as joined:
        connection.execute(shop.named("insert into S.invoices values (1)").encode())
        landed = joined.settle([build_completion(taken, {"sum": 1.50})])
        seen = (joined.is_open(), job_of(table, "1").state)

    assert landed == [True]
    assert seen == (True, "running")
    assert not joined.is_open()
    assert job_of(table, "1").result == {"sum": 1.50}
    assert shop.execute("select order_id from S.invoices") == [(1,)]


def test_what_is_rolled_back_has_not_happened(shop: Shop, mode: dict[str, Any]) -> None:
    table = shop.fit(**mode)
    taken = take_one(table)

    with psycopg.connect(shop.url) as connection:
        with table.join(connection) as joined:
            joined.settle([build_completion(taken)])
        connection.rollback()

    assert job_of(table, "1") == taken.job
    assert settle(table, build_completion(taken))


def test_a_transaction_of_the_tables_own_is_committed_when_its_block_is_left(shop: Shop, mode: dict[str, Any]) -> None:
    table = shop.fit(**mode)
    taken = take_one(table)

    with table.transaction() as connection:
        connection.execute(shop.named("insert into S.invoices values (1)"))
        with table.join(connection) as joined:
            assert joined.belongs_to(connection)
            assert joined.settle([build_completion(taken)]) == [True]

    assert shown(table)[0] == ("1", "completed")


def test_a_lost_claim_is_told_in_the_transaction(shop: Shop, mode: dict[str, Any]) -> None:
    table = shop.fit(**mode)
    taken = take_one(table)
    table.reap(worker="w1")

    with psycopg.connect(shop.url) as connection, table.join(connection) as joined:
        assert joined.settle([build_completion(taken)]) == [False]
        assert joined.extend([Extension(hold=taken.hold, lease=60)]) == [HoldStatus.LOST]


def test_several_endings_of_one_claim_in_a_transaction_are_done_one_after_the_other(
    shop: Shop, mode: dict[str, Any]
) -> None:
    table = shop.fit(**mode)
    first, second = take(table, limit=2)

    with psycopg.connect(shop.url) as connection, table.join(connection) as joined:
        landed = joined.settle(
            [build_release(second), build_completion(first), build_completion(second), build_release(second)]
        )
        answer = joined.settle([])

    assert landed == [True, True, False, True]
    assert answer == []


def test_a_lease_is_prolonged_in_the_transaction(shop: Shop, mode: dict[str, Any]) -> None:
    table = shop.fit(**mode)
    taken = take_one(table, lease=10)

    with psycopg.connect(shop.url) as connection, table.join(connection) as joined:
        answer = joined.extend([Extension(hold=taken.hold, lease=600, progress=Progress(done=1))])

    job = job_of(table, "1")
    assert answer == [HoldStatus.HELD]
    assert job.progress == Progress(done=1)
    assert job.leased_until > taken.job.leased_until  # type: ignore[operator]


def test_rows_are_not_enqueued_by_us(shop: Shop, mode: dict[str, Any]) -> None:
    table = shop.fit(**mode)

    with (
        psycopg.connect(shop.url) as connection,
        table.join(connection) as joined,
        pytest.raises(ConfigurationError, match="insert rows"),
    ):
        joined.enqueue([])


def test_a_connection_without_a_transaction_is_refused(shop: Shop, mode: dict[str, Any]) -> None:
    table = shop.fit(**mode)
    taken = take_one(table)

    with (
        psycopg.connect(shop.url, autocommit=True) as connection,
        pytest.raises(ConfigurationError, match="has no open transaction"),
        table.join(connection) as joined,
    ):
        joined.settle([build_completion(taken)])

    assert job_of(table, "1") == taken.job


def test_a_connection_to_a_copy_of_the_database_or_to_none_is_refused(shop: Shop, mode: dict[str, Any]) -> None:
    table = shop.fit(**mode)
    taken = take_one(table)
    other = of_database(shop.url, shop.schema)
    shop.execute(f"create database {shop.schema}")
    try:
        with (
            psycopg.connect(other) as connection,
            pytest.raises(ConfigurationError, match="the database of this connection has no table"),
            table.join(connection) as joined,
        ):
            joined.settle([build_completion(taken)])
        with psycopg.connect(other, autocommit=True) as connection:
            connection.execute(f"create schema {shop.schema}".encode())
            connection.execute(shop.named(ORDERS).encode())
            _made_alike(shop, connection)
        with (
            psycopg.connect(other) as connection,
            pytest.raises(ConfigurationError, match="reaches a different table"),
            table.join(connection) as joined,
        ):
            joined.settle([build_completion(taken)])
        with (
            psycopg.connect(other) as connection,
            pytest.raises(ConfigurationError, match="reaches a different table"),
            table.join(connection) as joined,
        ):
            joined.extend([Extension(hold=taken.hold, lease=60)])
    finally:
        shop.execute(f"drop database {shop.schema} with (force)")

    assert settle(table, build_completion(taken))


def _made_alike(shop: Shop, connection: psycopg.Connection[Any]) -> None:
    """Add the columns of this table to the table in another database."""
    for name, kind in shop.execute(
        "select column_name, data_type from information_schema.columns "
        "where table_schema = %s and table_name = 'orders' and column_name like 'tenure%%'",
        shop.schema,
    ):
        connection.execute(f"alter table {shop.schema}.orders add column {name} {kind}".encode())
    connection.execute(shop.named("create table S.tenure_orders (like S.orders)").encode())
    for name in ("state", "worker", "token", "error"):
        connection.execute(f"alter table {shop.schema}.tenure_orders add column {name} text".encode())
    for name in ("leased_until", "started_at", "completed_at", "run_at"):
        connection.execute(f"alter table {shop.schema}.tenure_orders add column {name} timestamptz".encode())
    for name in ("attempts", "crashes", "fence"):
        connection.execute(f"alter table {shop.schema}.tenure_orders add column {name} bigint".encode())
    connection.execute(f"alter table {shop.schema}.tenure_orders add column record jsonb".encode())


def test_a_transaction_that_sees_only_the_past_gets_an_error_and_no_wrong_answer(
    shop: Shop, mode: dict[str, Any]
) -> None:
    table = shop.fit(**mode)
    with psycopg.connect(shop.url) as old:
        old.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        old.execute("select 1 from pg_class limit 1")
        shop.execute("insert into S.orders (id) values (0)")
        taken = take_one(table)

        with pytest.raises((ConfigurationError, psycopg.errors.SerializationFailure)), table.join(old) as joined:
            joined.settle([build_completion(taken)])
        old.rollback()

    assert settle(table, build_completion(taken))


def test_a_transaction_that_began_after_the_claim_may_be_isolated(shop: Shop, mode: dict[str, Any]) -> None:
    table = shop.fit(**mode)
    taken = take_one(table)

    with psycopg.connect(shop.url) as connection:
        connection.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
        with table.join(connection) as joined:
            assert joined.settle([build_completion(taken)]) == [True]

    assert shown(table)[0] == ("1", "completed")


def _settle_in_a_transaction(shop: Shop, table: PostgresTable, settlements: Sequence[Settlement]) -> Sequence[Settled]:
    with psycopg.connect(shop.url) as connection, table.join(connection) as joined:
        return joined.settle(settlements)


def test_a_claim_that_is_ended_while_somebody_waits_for_its_row_is_compared_as_it_is_then(
    shop: Shop, mode: dict[str, Any]
) -> None:
    table, other = shop.fit(**mode), shop.open(**mode)
    asked = request(limit=2)
    first, second = (as_taken(job, asked) for job in table.claim(asked).jobs)
    answers: list[Sequence[Settled]] = []
    settlements = [build_completion(second), build_failure(first, final=True)]
    waiting = threading.Thread(
        target=lambda: answers.append(_settle_in_a_transaction(shop, other, settlements)), daemon=True
    )

    with psycopg.connect(shop.url) as connection, table.join(connection) as joined:
        joined.settle([build_release(first)])
        joined.extend([Extension(hold=second.hold, lease=600)])
        waiting.start()
        _wait_for_a_lock(shop)
    waiting.join(PATIENCE)

    assert answers == [[True, False]]
    assert shown(table)[:2] == [("1", "queued"), ("2", "completed")]


def test_who_waits_for_a_row_has_locked_none_that_comes_after_it(shop: Shop, mode: dict[str, Any]) -> None:
    table, other = shop.fit(**mode), shop.open(**mode)
    asked = request(limit=2)
    first, second = (as_taken(job, asked) for job in table.claim(asked).jobs)
    answers: list[Sequence[Settled]] = []
    settlements = [build_completion(second), build_completion(first)]
    waiting = threading.Thread(
        target=lambda: answers.append(_settle_in_a_transaction(shop, other, settlements)), daemon=True
    )

    with psycopg.connect(shop.url) as connection, table.join(connection) as joined:
        joined.settle([build_release(first)])
        waiting.start()
        _wait_for_a_lock(shop)
        reaped = table.reap(worker="w1")
    waiting.join(PATIENCE)

    assert [each.id for each in reaped] == ["2"]
    assert answers == [[False, False]]


def test_a_row_that_is_being_ended_is_neither_reaped_nor_waited_for(
    shop: Shop, mode: dict[str, Any], clock: Clock
) -> None:
    table = shop.fit(clock=clock, **mode)
    taken = take_one(table, lease=10)
    clock.advance(10)

    with psycopg.connect(shop.url) as connection, table.join(connection) as joined:
        joined.settle([build_completion(taken)])
        reaped = [*table.reap(), *table.reap(worker="w1")]

    assert reaped == []
    assert shown(table)[0] == ("1", "completed")


def test_a_row_that_somebody_else_has_locked_is_passed_over_by_a_claim(shop: Shop, mode: dict[str, Any]) -> None:
    table = shop.fit(**mode)

    with psycopg.connect(shop.url) as connection:
        connection.execute(shop.named("select from S.orders where id = 1 for update").encode())
        taken = take(table, limit=9)

    assert [each.id for each in taken] == ["2", "3"]


def test_a_row_that_somebody_takes_after_a_claim_has_begun_is_not_taken_again(shop: Shop, mode: dict[str, Any]) -> None:
    shop.execute(
        "create function S.when_open() returns boolean language sql as "
        "$$ select pg_advisory_xact_lock_shared(hashtext('S.orders')); select true $$"
    )
    table, late = shop.fit(**mode), shop.open(**{**mode, "where": shop.named("S.when_open()")})
    taken: list[Any] = []
    waiting = threading.Thread(target=lambda: taken.extend(take(late, worker="late")), daemon=True)

    with psycopg.connect(shop.url) as connection:
        connection.execute(shop.named("select pg_advisory_xact_lock(hashtext('S.orders'))").encode())
        waiting.start()
        _wait_for_a_lock(shop)
        first = take_one(table)
    waiting.join(PATIENCE)

    assert (first.id, [each.id for each in taken]) == ("1", ["2"])
    assert settle(table, build_completion(first))


def test_a_row_that_the_user_changes_while_it_is_being_claimed_is_claimed_as_it_is_then(
    shop: Shop, mode: dict[str, Any]
) -> None:
    table = shop.fit(**{**mode, "where": "source = 'x'"})
    taken: list[Any] = []

    with psycopg.connect(shop.url) as connection:
        connection.execute(shop.named("update S.orders set source = 'y' where id = 1").encode())
        taken += take(table)
        connection.execute(shop.named("update S.orders set source = 'x' where id = 1").encode())
    taken += take(table)

    assert [(each.id, each.job.payload["source"]) for each in taken] == [("2", "x"), ("1", "x")]


def _wait_for_a_lock(shop: Shop) -> None:
    """Wait until a settlement waits for a row lock in this shop."""
    pause, pattern = threading.Event(), f"%{shop.schema}%"
    for _ in range(PATIENCE * 100):
        if shop.execute(WAITING, pattern) != [(0,)]:
            return
        pause.wait(0.01)
    raise AssertionError("no settlement waits for a lock")
