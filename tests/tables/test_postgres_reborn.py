"""The foreign key of a sidecar table on PostgreSQL: the server deletes the sidecar row with the row of the user."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from tenure.backends.tables.protocol import Finding, Severity
from tenure.core.table.spec import quote_identifier
from tenure.testing.conformance.building import (
    build_completion,
    build_failure,
    ids_of,
    settle,
    take,
    take_one,
)
from tests.postgres.stores import Place
from tests.servers.postgres import Server
from tests.tables.postgres_tables import as_role, new_schema, opened

ORDERS = "create table S.orders (id bigint primary key, source text)"
OPTIONS: dict[str, Any] = {"where": "true", "sidecar": True}
WORKER_RIGHTS = (
    "grant usage on schema S to R; grant select, update (source) on S.orders to R; "
    "grant select, insert, update on S.tenure_orders to R"
)
WAITING = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and query like %s"
PATIENCE = 30


@pytest.fixture
def place(postgres: Server) -> Iterator[Place]:
    with new_schema(postgres.url) as place:
        yield place


@pytest.fixture
def migrated(place: Place) -> Place:
    """A migrated table with one row."""
    place.execute(ORDERS)
    place.execute("insert into S.orders values (1)")
    with opened(place, **OPTIONS) as table:
        table.migrate()
    return place


def about_foreign_key(place: Place, **options: Any) -> list[Finding]:
    with opened(place, **{**OPTIONS, **options}) as table:
        return [each for each in table.check() if each.about == "foreign key"]


def wait_for_a_lock(place: Place) -> None:
    """Wait until a session waits for a lock in this schema."""
    pause, pattern = threading.Event(), f"%{place.schema}%"
    for _ in range(PATIENCE * 100):
        if place.execute(WAITING, pattern) != [(0,)]:
            return
        pause.wait(0.01)
    raise AssertionError("no session waits for a lock")


def test_a_sidecar_from_before_is_given_a_foreign_key_though_rows_were_deleted(place: Place) -> None:
    place.execute(ORDERS)
    place.execute("insert into S.orders (id) values (1), (2)")
    with opened(place, **OPTIONS) as table:
        create, *_ = table.outstanding()
        place.execute(create)
        taken = take(table, limit=2)
        place.execute("delete from S.orders where id = 1")
        before = about_foreign_key(place)

        done = table.migrate()
        place.execute("delete from S.orders where id = 2; insert into S.orders (id) values (2)")

        assert [each.severity for each in before] == [Severity.WARNING]
        assert str(before[0].remedy).endswith(f"{done[0]};")
        assert "on update cascade on delete cascade not valid" in done[0]
        assert table.outstanding() == []
        assert (settle(table, build_completion(taken[1])), ids_of(take(table))) == (False, ["2"])
        assert ["a new row with such a key" in each.text for each in table.check()] == [True]


def test_what_schema_prints_can_be_run_twice_and_leaves_nothing_outstanding(place: Place) -> None:
    place.execute(ORDERS)

    with opened(place, **OPTIONS) as table:
        for statement in 2 * table.sql()["schema"].split(";\n"):
            place.execute(statement)

        assert table.outstanding() == []
        assert about_foreign_key(place) == []


def test_names_of_the_foreign_key_are_quoted(place: Place) -> None:
    name = '"; drop table x; -- %s {home}'
    place.execute(f'create table S.{quote_identifier(name)} ("a ""b"" :c" text primary key)')

    with opened(place, name, id='a "b" :c', **OPTIONS) as table:
        done = table.migrate()

        assert any("foreign key" in each for each in done)
        assert table.migrate() == []


def test_a_foreign_key_that_the_user_made_counts(place: Place) -> None:
    place.execute(ORDERS)
    with opened(place, **OPTIONS) as table:
        place.execute(table.outstanding()[0])
        place.execute("alter table S.tenure_orders add foreign key (id) references S.orders on delete restrict")

        assert not any("foreign key" in each for each in table.migrate())
        assert about_foreign_key(place) == []


def test_a_partitioned_table_is_not_referred_to_so_that_partitions_can_be_dropped(place: Place) -> None:
    place.execute("create table S.orders (id bigint primary key) partition by range (id)")
    place.execute("create table S.orders_1 partition of S.orders for values from (0) to (10)")
    place.execute("create table S.orders_2 partition of S.orders for values from (10) to (20)")
    place.execute("insert into S.orders values (1), (12)")

    with opened(place, **OPTIONS) as table:
        table.migrate()
        take(table, limit=2)
        place.execute("drop table S.orders_2")
        (told,) = about_foreign_key(place)
        left = table.outstanding()
        place.execute(str(told.remedy).partition("\n")[2])

        assert left == []
        assert "is partitioned" in told.text
        assert about_foreign_key(place) == []


def test_a_role_without_references_is_told_what_to_grant_and_has_nothing_outstanding(place: Place) -> None:
    place.execute(ORDERS)
    place.execute("insert into S.orders values (1)")
    rights = "grant usage, create on schema S to R; grant select, update on S.orders to R"

    with as_role(place, rights) as url, opened(place, at=url, **OPTIONS) as table:
        done = table.migrate()
        (told,) = about_foreign_key(place, at=url)
        left, landed = table.outstanding(), settle(table, build_completion(take_one(table)))
        place.execute(str(told.remedy).partition(";")[0])
        granted = table.migrate()

        assert not any("foreign key" in each for each in done)
        assert (told.severity, left, landed) == (Severity.WARNING, [], True)
        assert "keys must not be reused" in told.text
        assert "lacks REFERENCES on" in told.text
        assert (len(granted), about_foreign_key(place, at=url)) == (1, [])


def test_a_role_that_does_not_own_the_sidecar_has_nothing_outstanding_and_is_told_who_does(place: Place) -> None:
    place.execute(ORDERS)
    with opened(place, **OPTIONS) as table:
        for each in table.outstanding():
            if "foreign key" not in each:
                place.execute(each)

    with as_role(place, f"{WORKER_RIGHTS}; grant references on S.orders to R") as url:
        with opened(place, at=url, **OPTIONS) as table:
            left = table.outstanding()
        (told,) = about_foreign_key(place, at=url)

    assert left == []
    assert "does not own tenure_orders" in told.text
    assert "as the owner 'postgres'" in str(told.remedy)


def test_a_worker_that_owns_nothing_and_may_not_refer_to_the_table_claims_and_settles(place: Place) -> None:
    place.execute(ORDERS)
    place.execute("insert into S.orders values (1), (2)")
    with opened(place, **OPTIONS) as table:
        table.migrate()

    with as_role(place, WORKER_RIGHTS) as url, opened(place, at=url, **OPTIONS) as table:
        first, second = take(table, limit=2)
        landed = table.settle([build_completion(first), build_failure(second)])
        findings = table.check()

    assert landed == [True, True]
    assert [each.about for each in findings if each.severity is Severity.ERROR] == []


@pytest.mark.parametrize(
    ("created", "key", "reason"),
    [
        ("create table S.orders (id bigint unique deferrable)", ("id",), "no unique index on exactly id that is not"),
        (
            "create table S.orders (id bigint primary key, shop text)",
            ("id", "shop"),
            "no unique index on exactly id, shop",
        ),
        ("create unlogged table S.orders (id bigint primary key)", ("id",), "is unlogged"),
        (
            "create table S.orders (id bigint primary key); create table S.old_orders () inherits (S.orders)",
            ("id",),
            "other tables inherit from",
        ),
    ],
)
def test_a_table_that_cannot_be_referred_to_is_told_and_has_nothing_outstanding(
    place: Place, created: str, key: tuple[str, ...], reason: str
) -> None:
    place.execute(created)

    with opened(place, id=key, **OPTIONS) as table:
        done = table.migrate()
        left = table.outstanding()
        printed = table.sql()["schema"]
    (told,) = about_foreign_key(place, id=key)

    assert not any("foreign key" in each for each in (*done, printed))
    assert (left, told.severity) == ([], Severity.WARNING)
    assert "migrate does not create the foreign key: " in told.text
    assert reason in told.text


def test_a_key_of_another_type_in_the_sidecar_is_told_with_the_statement_that_changes_it(place: Place) -> None:
    place.execute("create table S.orders (id text primary key)")
    with opened(place, **OPTIONS) as table:
        place.execute(table.outstanding()[0])
        place.execute("alter table S.orders alter column id type varchar(9)")
        table.migrate()
        (told,) = about_foreign_key(place)
        place.execute(str(told.remedy).partition(";")[0])

        assert "has type text in tenure_orders, but character varying(9)" in told.text
        assert (len(table.migrate()), about_foreign_key(place)) == (1, [])


def test_an_owner_that_may_not_read_its_table_is_told_since_claims_would_fail(place: Place) -> None:
    place.execute(ORDERS)
    with as_role(place, "grant usage, create on schema S to R; alter table S.orders owner to R") as url:
        place.execute(f"revoke usage on schema {place.schema} from {url.rpartition('=')[2]}")
        with opened(place, **OPTIONS) as table:
            done = table.migrate()
            place.execute("insert into S.orders values (1)")
            (told,) = about_foreign_key(place)

            assert ids_of(take(table)) == ["1"]
        place.execute("drop table S.orders")

    assert not any("foreign key" in each for each in done)
    assert "with the rights of the owner" in told.text


def test_tables_that_inherit_later_are_told_with_the_statement_that_lets_their_rows_be_claimed(place: Place) -> None:
    place.execute(ORDERS)
    with opened(place, **OPTIONS) as table:
        table.migrate()
        place.execute("create table S.old_orders () inherits (S.orders)")
        place.execute("insert into S.old_orders values (1)")
        (told,) = about_foreign_key(place)
        place.execute(str(told.remedy))

        assert told.severity is Severity.ERROR
        assert ids_of(take(table)) == ["1"]


def test_a_delete_that_is_rolled_back_costs_no_claim(migrated: Place) -> None:
    with opened(migrated, **OPTIONS) as table:
        taken = take_one(table)
        with migrated.begun("delete from S.orders"):
            claimed_meanwhile = take(table)

        assert claimed_meanwhile == []
        assert settle(table, build_completion(taken)) is True


def test_a_holder_that_joins_while_its_row_is_deleted_waits_and_is_told_that_the_claim_is_lost(migrated: Place) -> None:
    with (
        opened(migrated, **OPTIONS) as table,
        ThreadPoolExecutor() as threads,
        psycopg.connect(migrated.server) as deleting,
        psycopg.connect(migrated.server) as own,
        table.join(own) as joined,
    ):
        taken = take_one(table)
        deleting.execute(f"delete from {migrated.schema}.orders".encode())
        settling = threads.submit(joined.settle, [build_completion(taken)])
        wait_for_a_lock(migrated)
        deleting.commit()

        assert settling.result() == [False]


def test_a_holder_that_writes_to_a_row_whose_delete_waits_for_it_is_rolled_back_by_the_server(migrated: Place) -> None:
    with (
        opened(migrated, **OPTIONS) as table,
        ThreadPoolExecutor() as threads,
        psycopg.connect(migrated.server, autocommit=True) as deleting,
        psycopg.connect(migrated.server) as own,
    ):
        taken = take_one(table)
        own.execute("set deadlock_timeout = '10ms'")
        with table.join(own) as joined:
            landed = joined.settle([build_completion(taken)])
            delete = threads.submit(deleting.execute, f"delete from {migrated.schema}.orders".encode())
            wait_for_a_lock(migrated)
            with pytest.raises(psycopg.errors.DeadlockDetected):
                own.execute(f"update {migrated.schema}.orders set source = 'done'".encode())
            own.rollback()

        assert (landed, delete.result().rowcount) == ([True], 1)
        assert settle(table, build_completion(taken)) is False


def test_a_truncate_names_both_tables(migrated: Place) -> None:
    with opened(migrated, **OPTIONS) as table:
        settle(table, build_completion(take_one(table)))
        with pytest.raises(psycopg.errors.FeatureNotSupported):
            migrated.execute("truncate S.orders")
        migrated.execute("truncate S.orders, S.tenure_orders; insert into S.orders values (1)")

        assert ids_of(take(table)) == ["1"]
