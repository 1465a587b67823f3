"""`migrate` on PostgreSQL adds missing columns and indexes while other sessions use the table."""

import logging
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from tenure.backends.tables.postgres import migrate as migrating
from tenure.errors import ConfigurationError, StoreUnavailable
from tenure.testing.conformance.building import build_completion, ids_of, take
from tests.postgres.stores import Place
from tests.servers.postgres import Server
from tests.tables.postgres_tables import new_schema, opened

ORDERS = "create table S.orders (id bigint primary key, source text, created_at timestamptz default now())"
OURS = {
    "state",
    "tenure_leased_until",
    "tenure_worker",
    "tenure_attempts",
    "tenure_crashes",
    "tenure_fence",
    "tenure_token",
    "tenure_started_at",
    "tenure_completed_at",
    "tenure_run_at",
    "tenure_record",
}


@pytest.fixture
def place(postgres: Server) -> Iterator[Place]:
    with new_schema(postgres.url) as place:
        yield place


def columns(place: Place, table: str = "orders") -> set[str]:
    rows = place.execute(
        "select column_name from information_schema.columns where table_schema = %s and table_name = %s",
        place.schema,
        table,
    )
    return {name for (name,) in rows}


def indexes(place: Place) -> dict[str, str]:
    """Return the definitions of tenure's indexes by purpose."""
    rows = place.execute("select indexname, indexdef from pg_indexes where schemaname = %s", place.schema)
    return {name.split("_")[-2]: text.partition(" USING btree ")[2] for name, text in rows if "tenure_" in name}


def file_of(place: Place, table: str = "orders") -> Any:
    """Return the file node of the table; a rewrite changes it."""
    return place.execute(f"select pg_relation_filenode('{place.schema}.{table}')")


def broken_indexes(place: Place) -> list[Any]:
    return place.execute(
        "select relname from pg_index join pg_class on pg_class.oid = indexrelid "
        "where not indisvalid and relnamespace = cast(%s as regnamespace)",
        place.schema,
    )


def test_migrate_adds_the_columns_and_indexes_that_are_missing_and_then_nothing(place: Place) -> None:
    place.execute(ORDERS)

    with opened(place) as table:
        told = table.outstanding()
        done = table.migrate()
        again = table.migrate(), table.outstanding()

    assert columns(place) == {"id", "source", "created_at"} | OURS
    assert done == told
    assert [each.split()[:3] for each in done[1:]] == 5 * [["create", "index", "concurrently"]]
    assert again == ([], [])


def test_migrate_does_not_write_the_rows_anew(place: Place) -> None:
    place.execute(ORDERS)
    place.execute("insert into S.orders (id) select generate_series(1, 100)")
    before = file_of(place)

    with opened(place) as table:
        table.migrate()

    assert file_of(place) == before
    assert place.execute("select distinct state, tenure_fence, tenure_attempts from S.orders") == [("queued", 0, 0)]


def test_the_claim_has_an_index_in_its_order_that_begins_with_what_the_filter_fixes(place: Place) -> None:
    place.execute(ORDERS)
    place.execute("alter table S.orders add urgency integer not null default 0, add placed_at timestamptz")

    with opened(
        place,
        columns={"priority": "urgency"},
        states={"queued": "pending"},
        order_by="-placed_at",
        where="source = :source",
        params={"source": "web"},
    ) as table:
        table.migrate()

    assert indexes(place)["claim"] == (
        "(source, urgency DESC NULLS LAST, placed_at DESC NULLS LAST, id) WHERE (state = 'pending'::text)"
    )
    assert "WHERE (state = 'running'::text)" in indexes(place)["leases"]


def test_a_filter_that_is_no_equality_has_no_index_of_its_own(place: Place) -> None:
    place.execute(ORDERS)

    with opened(place, where="source like 'web%' or source is null") as table:
        table.migrate()

    assert indexes(place)["claim"].startswith("(id) WHERE")


def test_an_index_of_another_form_is_made_beside_the_one_that_is_there(place: Place) -> None:
    place.execute(ORDERS)
    with opened(place) as table:
        table.migrate()

    with opened(place, order_by="created_at") as table:
        (added, *_) = table.migrate()
        again = table.migrate()

    assert '("created_at", "id")' in added
    assert again == []


def test_the_enum_of_the_state_gets_the_words_that_it_lacks(place: Place) -> None:
    place.execute("create type S.status as enum ('pending', 'processing', 'failed')")
    place.execute("create table S.orders (id bigint primary key, status S.status not null default 'pending')")
    states: Any = {"queued": "pending", "running": "processing", "completed": "done"}

    with opened(place, columns={"state": "status"}, states=states) as table:
        table.migrate()
        again = table.migrate()

    labels = place.execute("select unnest(enum_range(null::S.status))::text")
    assert {label for (label,) in labels} == {"pending", "processing", "done", "failed", "cancelled"}
    assert again == []


def test_a_word_that_is_nearly_a_label_is_not_added(place: Place) -> None:
    place.execute("create type S.status as enum ('queued', 'running', 'complete', 'failed', 'cancelled')")
    place.execute("create table S.orders (id bigint primary key, state S.status not null)")

    with opened(place) as table, pytest.raises(ConfigurationError, match=re.escape("states={'completed': 'complete'}")):
        table.migrate()

    assert columns(place) == {"id", "state"}


def test_a_column_that_is_nearly_the_one_that_plays_the_state_is_not_passed_over(place: Place) -> None:
    place.execute("create table S.orders (id bigint primary key, states text)")

    with opened(place) as table, pytest.raises(ConfigurationError, match=re.escape("columns={'state': 'states'}")):
        table.migrate()

    assert columns(place) == {"id", "states"}


@pytest.mark.parametrize("name", ["state", "sttus", "statuses"])
def test_a_state_column_that_is_misspelt_is_not_added_beside_the_one_that_is_meant(place: Place, name: str) -> None:
    place.execute("create table S.orders (id bigint primary key, status text)")

    with opened(place, columns={"state": name}) as table, pytest.raises(ConfigurationError, match="but 'status'"):
        table.migrate()

    assert columns(place) == {"id", "status"}


def test_numbers_are_not_added_to_the_enum_of_the_state(place: Place) -> None:
    place.execute("create type S.status as enum ('queued', 'running')")
    place.execute("create table S.orders (id bigint primary key, state S.status not null)")
    states: Any = {"queued": 0, "running": 1, "completed": 2, "failed": 3, "cancelled": 4}

    with opened(place, states=states) as table, pytest.raises(ConfigurationError, match="states are numbers"):
        table.migrate()

    assert place.execute("select unnest(enum_range(null::S.status))::text") == [("queued",), ("running",)]


def test_a_claim_before_migrate_is_told_all_that_is_missing_and_one_statement_that_adds_it(place: Place) -> None:
    place.execute(ORDERS)

    with opened(place) as table, pytest.raises(ConfigurationError) as told:
        table.stats()
    place.execute(str(told.value).partition("or:\n")[2])

    assert columns(place) >= OURS
    with opened(place) as table:
        assert table.stats().rows == ()


def test_what_migrate_cannot_mend_is_told_before_anything_is_changed(place: Place) -> None:
    place.execute("create table S.orders (id bigint primary key, tries text)")

    with opened(place, columns={"attempts": "tries"}) as table, pytest.raises(ConfigurationError, match="'tries'"):
        table.migrate()

    assert columns(place) == {"id", "tries"}


def test_a_sidecar_leaves_the_table_as_it_is_and_refers_to_it(place: Place) -> None:
    place.execute(
        "create table S.orders (day date, shop uuid, number bigint, done boolean, primary key (shop, number))"
    )
    before = place.execute("select oid, relnatts from pg_class where oid = 'S.orders'::regclass")

    with opened(place, id=("shop", "number"), where="not done", sidecar=True) as table:
        done = table.migrate()
        again = table.migrate()

    assert place.execute("select oid, relnatts from pg_class where oid = 'S.orders'::regclass") == before
    assert {"shop", "number", "state", "fence", "token", "record"} <= columns(place, "tenure_orders")
    assert [each.split()[:3] for each in done if f'"{place.schema}"."orders"' in each] == [
        ["alter", "table", f'"{place.schema}"."tenure_orders"']
    ]
    assert again == []


def test_the_key_of_a_companion_is_ordered_as_that_of_the_table_so_that_an_index_leads_to_it(place: Place) -> None:
    place.execute('create table S.orders (shop varchar(9) collate "C", number bigint, primary key (shop, number))')
    place.execute("insert into S.orders values ('a', 1), ('B', 1)")

    with opened(place, id=("shop", "number"), where="true", sidecar=True) as table:
        table.migrate()
        taken = take(table, limit=2)
        landed = table.settle([build_completion(each) for each in taken])

    collation = "select attcollation::regcollation::text from pg_attribute where attrelid = %s::regclass and attnum = 1"
    assert place.execute(collation, f"{place.schema}.tenure_orders") == [('"C"',)]
    assert ids_of(taken) == ['["B","1"]', '["a","1"]']
    assert landed == [True, True]


def test_a_sidecar_does_not_add_a_priority_to_the_users_table(place: Place) -> None:
    place.execute("create table S.orders (id bigint primary key, urgent integer)")
    options: Any = {"columns": {"priority": "rank"}, "where": "true", "sidecar": True}

    with opened(place, **options) as table, pytest.raises(ConfigurationError, match="has no column 'rank'"):
        table.migrate()

    assert columns(place) == {"id", "urgent"}


def test_the_output_gets_a_unique_index_once(place: Place) -> None:
    place.execute(ORDERS)
    place.execute("create table S.invoices (id serial primary key, order_id bigint)")

    with opened(place, output=f"{place.schema}.invoices.order_id") as table:
        table.migrate()
        again = table.migrate()
    place.execute("insert into S.invoices (order_id) values (1), (null), (null)")

    with pytest.raises(psycopg.errors.UniqueViolation):
        place.execute("insert into S.invoices (order_id) values (1)")
    assert again == []


def test_an_output_that_is_unique_already_gets_no_index(place: Place) -> None:
    place.execute(ORDERS)
    place.execute("create table S.invoices (order_id bigint primary key)")

    with opened(place, output=f"{place.schema}.invoices.order_id") as table:
        done = table.migrate()

    assert not any("invoices" in each for each in done)


def test_an_output_with_duplicates_is_told_and_no_broken_index_is_left(place: Place) -> None:
    place.execute(ORDERS)
    place.execute("create table S.invoices (order_id bigint)")
    place.execute("insert into S.invoices values (7), (7)")

    with (
        opened(place, output=f"{place.schema}.invoices.order_id") as table,
        pytest.raises(ConfigurationError, match="delete the duplicates"),
    ):
        table.migrate()

    assert broken_indexes(place) == []


def test_an_index_whose_build_was_interrupted_is_built_again(place: Place) -> None:
    place.execute(ORDERS)
    with opened(place) as table:
        table.migrate()
        place.execute(
            "update pg_index set indisvalid = false where indexrelid = "
            f"(select oid from pg_class where relname like 'tenure_orders_claim%' "
            f"and relnamespace = '{place.schema}'::regnamespace)"
        )

        done = table.migrate()

    assert [each.split()[0] for each in done] == ["drop", "create"]
    assert broken_indexes(place) == []


def test_a_partitioned_table_gets_its_indexes_plainly(place: Place) -> None:
    place.execute("create table S.orders (id bigint primary key) partition by range (id)")
    place.execute("create table S.orders_1 partition of S.orders for values from (0) to (1000)")

    with opened(place) as table:
        done = table.migrate()
        again = table.migrate()

    assert done
    assert not any("concurrently" in each for each in done)
    assert again == []


def test_of_many_that_migrate_at_once_one_does_it_and_none_fails(place: Place) -> None:
    place.execute(ORDERS)

    def migrate(_: int) -> list[str]:
        with opened(place) as table:
            return table.migrate()

    with ThreadPoolExecutor(4) as threads:
        done = list(threads.map(migrate, range(4)))

    assert sorted(map(bool, done)) == [False, False, False, True]


def test_a_change_that_cannot_get_its_lock_gives_up_and_is_told(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.execute(ORDERS)
    monkeypatch.setattr(migrating, "LOCK_WAIT", 0.01)
    monkeypatch.setattr(migrating, "RETRY_DELAY", 0.01)

    with (
        place.begun("select from S.orders"),
        opened(place) as table,
        pytest.raises(StoreUnavailable, match="transaction that stays open"),
    ):
        table.migrate()

    with opened(place) as table:
        assert table.migrate()


def test_a_change_that_could_not_get_its_lock_is_tried_again(
    place: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    place.execute(ORDERS)
    monkeypatch.setattr(migrating, "LOCK_WAIT", 0.01)
    monkeypatch.setattr(migrating, "RETRY_DELAY", 0.01)
    caplog.set_level(logging.INFO, migrating.__name__)

    with psycopg.connect(place.server) as other, opened(place) as table:
        other.execute(f"select from {place.schema}.orders".encode())
        tries: list[logging.LogRecord] = []

        def end_before_the_second(record: logging.LogRecord) -> bool:
            tries.append(record)
            if len(tries) == 2:
                other.rollback()
            return True

        migrating.log.addFilter(end_before_the_second)
        try:
            done = table.migrate()
        finally:
            migrating.log.removeFilter(end_before_the_second)

    assert done
    assert len(tries) > len(done)


def test_rows_that_run_without_a_lease_are_adopted(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migrating, "ADOPTION_BATCH", 2)
    place.execute("create table S.orders (id bigint primary key, state text, started timestamptz)")
    place.execute("insert into S.orders select n, 'running', '2020-01-01T00:00Z' from generate_series(1, 5) n")
    place.execute("insert into S.orders values (6, 'running', null), (7, 'queued', null)")

    with opened(place, columns={"started_at": "started"}) as table:
        told = table.outstanding(adopt_running_after=600)
        done = table.migrate(adopt_running_after=600)
        again = table.migrate(adopt_running_after=600)

    leases = place.execute(
        "select id, tenure_leased_until = '2020-01-01T00:10Z', tenure_leased_until > now() from S.orders order by id"
    )
    assert leases == [*((n, True, False) for n in range(1, 6)), (6, False, True), (7, None, None)]
    assert told == done
    assert again == []


def test_what_schema_prints_makes_all_of_it(place: Place) -> None:
    place.execute(ORDERS)

    with opened(place) as table:
        for statement in table.sql()["schema"].split(";\n"):
            place.execute(statement)
        left = table.outstanding()

    assert left == []


def test_a_role_that_may_not_change_the_table_is_told_what_to_have_run(place: Place) -> None:
    place.execute(ORDERS)
    role = f"stranger_{place.schema}"
    place.execute(f"create role {role} login; grant usage on schema {place.schema} to {role}")
    url = f"{place.server}&user={role}" if "?" in place.server else f"{place.server}?user={role}"

    with (
        opened(place, at=url) as table,
        pytest.raises(ConfigurationError, match="tenure sql schema app:orders") as told,
    ):
        table.migrate()

    assert role in str(told.value)
    place.execute(f"drop owned by {role}; drop role {role}")
