"""The objects that `migrate` adds to a table."""

import sqlite3
import threading
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tenure.core.job import State
from tenure.core.operations import Query
from tenure.errors import ConfigurationError
from tenure.testing import Clock
from tenure.testing.conformance.building import build_completion, ids_of, job_of, settle, take, take_one
from tests.tables.lite import BESIDE, KINDS, MAPPED, STATES, execute, given_orders, opened, rows


def columns_of(path: Path, table: str = "orders") -> list[str]:
    return [name for (name,) in rows(path, f"select name from pragma_table_info('{table}')")]


def indexes_of(path: Path) -> set[str]:
    return {name for (name,) in rows(path, "select name from sqlite_master where type = 'index' and sql is not null")}


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_missing_is_told_and_added_once(path: Path, kind: str) -> None:
    given_orders(path, "pending")

    with opened(path, is_migrated=False, **KINDS[kind]) as table:
        told = table.outstanding()
        run = table.migrate()

        assert told == run != []
        assert table.outstanding() == []
        assert table.migrate() == []
        assert settle(table, build_completion(take_one(table)))


def test_only_roles_that_no_column_plays_get_one(path: Path) -> None:
    given_orders(path, "pending")
    execute(path, "alter table orders add column tries integer default 3")
    columns: Any = {"state": "status", "attempts": "tries", "worker": "taken_by", "priority": "rank"}

    with opened(path, columns=columns, states=STATES) as table:
        assert take_one(table, worker="w1").job.attempts == 4

    assert sorted(columns_of(path)) == sorted(
        ["id", "status", "source", "created_at", "tries", "taken_by", "rank"]
        + [f"tenure_{role}" for role in ("leased_until", "crashes", "fence", "token")]
        + [f"tenure_{role}" for role in ("started_at", "completed_at", "run_at", "record")]
    )


def test_a_missing_state_is_added_and_all_rows_are_queued(path: Path) -> None:
    execute(path, "create table files (path text primary key)", "insert into files values ('a'), ('b')")

    with opened(path, "files", id="path", states=dict(zip(State, range(5), strict=True))) as table:
        assert ids_of(take(table, limit=5)) == ["a", "b"]
        assert rows(path, "select distinct state from files") == [(1,)]


def test_the_indexes_are_partial_and_begin_with_what_the_condition_compares(path: Path) -> None:
    given_orders(path, "pending")
    where = "source = :source and orders.\"created_at\" = '2026' and status = 'pending'"

    with opened(path, where=where, params={"source": "x"}, order_by="created_at desc", **MAPPED):
        pass

    texts = dict(rows(path, "select name, sql from sqlite_master where type = 'index'"))
    assert texts["tenure_orders_claim"].endswith(
        """ on "orders" (("created_at" is null), "created_at" desc, "id") where "status" = 'pending'"""
    )
    assert texts["tenure_orders_filter"].endswith(
        """ ("source", "created_at", ("created_at" is null), "created_at" desc, "id") where "status" = 'pending'"""
    )
    assert texts["tenure_orders_leases"].endswith(""" ("tenure_leased_until") where "status" = 'processing'""")


@pytest.mark.parametrize("where", ["source > :s", "source = :s or status = 'x'", "source = id", "lower(source) = :s"])
def test_a_condition_that_is_no_plain_comparison_gets_no_index(path: Path, where: str) -> None:
    given_orders(path, "pending")

    with opened(path, where=where, params={"s": "x"} if ":s" in where else {}, **MAPPED):
        pass

    assert "tenure_orders_filter" not in indexes_of(path)


def test_another_order_gets_an_index_of_its_own_and_takes_none_away(path: Path) -> None:
    given_orders(path, "pending")

    with opened(path, **MAPPED) as first, opened(path, order_by="created_at", **MAPPED) as second:
        names = {name for name in indexes_of(path) if name.startswith("tenure_orders_claim")}

        assert len(names) == 2
        assert (first.outstanding(), second.outstanding()) == ([], [])


def test_an_index_that_the_user_made_alike_is_not_made_again(path: Path) -> None:
    given_orders(path, "pending")
    execute(path, 'create index mine on "orders" ("id")   where "status" = \'pending\'')

    with opened(path, **MAPPED):
        pass

    assert "tenure_orders_claim" not in indexes_of(path)


def test_the_output_is_made_unique(path: Path) -> None:
    given_orders(path, "pending")
    execute(path, "create table invoices (order_id integer)")

    with opened(path, output="invoices.order_id", **MAPPED) as table:
        execute(path, "insert into invoices values (1), (null), (null)")
        with pytest.raises(sqlite3.IntegrityError):
            execute(path, "insert into invoices values (1)")

        assert table.already_done(["1"]) == [True]


def test_an_output_that_is_unique_already_gets_no_index(path: Path) -> None:
    given_orders(path, "pending")
    execute(path, "create table invoices (order_id integer unique)")

    with opened(path, output="invoices.order_id", **MAPPED):
        pass

    assert "tenure_invoices_output" not in indexes_of(path)


def test_an_output_with_duplicates_is_told_with_the_query_that_finds_them_and_nothing_is_added(path: Path) -> None:
    given_orders(path, "pending")
    execute(path, "create table invoices (order_id integer)", "insert into invoices values (1), (1)")

    with opened(path, is_migrated=False, output="invoices.order_id", **MAPPED) as table:
        with pytest.raises(ConfigurationError, match="delete the duplicate rows") as told:
            table.migrate()

        query = str(told.value).partition("lists the duplicates: ")[2]
        assert rows(path, query) == [(1, 2)]
        assert columns_of(path) == ["id", "status", "source", "created_at"]


def test_a_companion_has_the_key_of_the_table_and_may_have_a_name_of_its_own(path: Path) -> None:
    execute(
        path,
        "create table lines (shop text, number int, is_open int, primary key (shop, number))",
        "insert into lines values ('a', 1, 1), ('a', 2, 0)",
    )

    with opened(path, "lines", id=["shop", "number"], sidecar="line_claims", where="is_open") as table:
        assert ids_of(take(table, limit=5)) == ['["a","1"]']
        assert columns_of(path, "line_claims")[:3] == ["shop", "number", "state"]
        assert rows(path, "select shop, number, typeof(number) from line_claims") == [("a", 1, "integer")]


@pytest.mark.parametrize("named", [{"leased_until": "lease_until"}, {"attempts": "atempts"}])
def test_a_name_that_is_very_near_to_a_column_is_taken_for_a_slip(path: Path, named: dict[str, str]) -> None:
    given_orders(path, "pending")
    execute(path, "alter table orders add column leased_until text", "alter table orders add column attempts integer")
    columns: Any = {"state": "status", **named}

    with opened(path, is_migrated=False, columns=columns, states=STATES) as table:
        with pytest.raises(ConfigurationError, match="to use that column pass columns="):
            table.migrate()

        assert "tenure_fence" not in columns_of(path)


def test_rows_left_running_from_before_get_a_lease(path: Path, clock: Clock) -> None:
    given_orders(path, "processing", "processing", "pending")
    execute(
        path,
        "alter table orders add column began text",
        "update orders set began = '2026-01-01T11:55:00Z' where id = 1",
    )
    columns: Any = {"state": "status", "started_at": "began"}

    with opened(path, clock=clock, is_migrated=False, columns=columns, states=STATES) as table:
        told = table.outstanding(adopt_running_after=600)
        run = table.migrate(adopt_running_after=600)
        leases = rows(path, "select tenure_leased_until from orders order by id")
        clock.advance(600)

        assert told == run
        assert leases == [("2026-01-01 12:05:00.000000",), ("2026-01-01 12:10:00.000000",), (None,)]
        assert table.migrate(adopt_running_after=600) == []
        assert [each.id for each in table.reap()] == ["1", "2"]


def test_rows_that_have_a_lease_keep_it_when_others_are_adopted(path: Path, clock: Clock) -> None:
    given_orders(path, "pending", "processing")

    with opened(path, clock=clock, **MAPPED) as table:
        taken = take_one(table, lease=60)
        table.migrate(adopt_running_after=600)

        assert job_of(table, taken.id) == taken.job
        assert job_of(table, "2").leased_until == clock.now + timedelta(seconds=600)


@pytest.mark.parametrize(("declared", "lease"), [("integer", 1767269400), ("real", 1767269400.0)])
def test_leases_of_rows_from_before_are_in_the_form_of_their_column(
    path: Path, clock: Clock, declared: str, lease: float
) -> None:
    execute(path, f"create table orders (id integer primary key, status text, until {declared}, began {declared})")
    execute(path, "insert into orders (status) values ('processing')")
    columns: Any = {"state": "status", "leased_until": "until", "started_at": "began"}

    with opened(path, clock=clock, is_migrated=False, columns=columns, states=STATES) as table:
        table.migrate(adopt_running_after=600)

        assert rows(path, "select round(until, 3) from orders") == [(lease,)]
        clock.advance(601)
        assert len(table.reap()) == 1


def test_rows_from_before_are_adopted_after_a_time_that_can_be(path: Path) -> None:
    given_orders(path, "processing")

    with opened(path, **MAPPED) as table, pytest.raises(ConfigurationError, match="adopt_running_after must be"):
        table.migrate(adopt_running_after=-1)


def test_functions_are_refused_with_what_there_is_in_their_place(path: Path) -> None:
    given_orders(path, "pending")

    with opened(path, **MAPPED) as table:
        for method in (table.migrate, table.outstanding):
            with pytest.raises(ConfigurationError, match="tenure sql claim"):
                method(functions=True)


def test_several_that_migrate_at_once_all_find_the_table_ready(path: Path) -> None:
    given_orders(path, "pending")
    failures: list[BaseException] = []

    def migrate() -> None:
        try:
            with opened(path, **MAPPED) as table:
                table.find(Query())
        except BaseException as exc:  # noqa: BLE001 - asserted below
            failures.append(exc)

    threads = [threading.Thread(target=migrate) for _ in range(5)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()

    assert failures == []


def test_strict_tables_and_those_without_row_ids_are_added_to_as_well(path: Path) -> None:
    execute(
        path,
        "create table a (id text primary key, status text not null default 'pending') strict, without rowid",
        "insert into a (id) values ('x')",
    )

    with opened(path, "a", **MAPPED) as table:
        assert settle(table, build_completion(take_one(table)))
        assert job_of(table, "x").state is State.COMPLETED


@pytest.mark.parametrize("options", [MAPPED, BESIDE], ids=["mapped", "sidecar"])
def test_what_is_printed_makes_what_migrate_makes(path: Path, options: dict[str, Any]) -> None:
    given_orders(path, "pending")

    with opened(path, is_migrated=False, **options) as table:
        with closing(sqlite3.connect(path)) as db:
            db.executescript(table.sql()["schema"])

        assert table.outstanding() == []


@pytest.mark.parametrize(
    ("column", "role", "told"),
    [
        ("taken text not null default ''", "worker", "is not null, but tenure sets it to null"),
        ("taken text generated always as ('x')", "worker", "is generated"),
        ("taken text", "fence", "must hold integers"),
        ("taken integer", "token", "must hold text"),
    ],
)
def test_a_column_that_cannot_play_its_role_is_told(path: Path, column: str, role: str, told: str) -> None:
    execute(path, f"create table orders (id integer primary key, status text, {column})")
    columns: Any = {"state": "status", role: "taken"}

    with opened(path, columns=columns, states=STATES) as table, pytest.raises(ConfigurationError, match=told):
        take(table)


@pytest.mark.parametrize("role", ["run_at", "started_at"])
def test_a_column_that_is_never_emptied_may_be_not_null(path: Path, role: str) -> None:
    execute(
        path,
        f"create table orders (id integer primary key, status text default 'pending', {role} text not null default "
        "current_timestamp)",
    )
    execute(path, "insert into orders (id) values (1)")
    columns: Any = {"state": "status", role: role}

    with opened(path, columns=columns, states=STATES) as table:
        assert [job.id for job in take(table)] == ["1"]
