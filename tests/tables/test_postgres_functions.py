"""The SQL functions of a table on PostgreSQL: the same fenced claim as in Python."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

import tenure
from tenure.backends.tables.postgres import PostgresTable
from tenure.core.job import Outcome, State
from tenure.core.operations import ClaimRequest, Hold, Query, Settlement
from tenure.errors import ConfigurationError
from tests.postgres.stores import Place
from tests.servers.postgres import Server
from tests.servers.servers import Servers, shared_names
from tests.tables.postgres_tables import as_role, new_schema, opened
from tests.tiers import first_in_all_tiers

ORDERS = """
    create table S.orders (
      id uuid primary key default gen_random_uuid(),
      number integer not null,
      source text not null default 'web',
      status text not null default 'pending',
      attempt_count integer not null default 0,
      last_error text,
      resolved_by text,
      price numeric(10, 2) default 9.5
    )
"""
OPTIONS: Any = {
    "columns": {"state": "status", "attempts": "attempt_count", "error": "last_error"},
    "states": {"queued": "pending", "running": "processing", "completed": "done"},
    "order_by": "number",
    "where": "source = :source",
    "params": {"source": "web"},
    "on_retry": {"resolved_by": None},
    "max_attempts": 2,
}


@pytest.fixture
def place(postgres: Server) -> Iterator[Place]:
    with new_schema(postgres.url) as place:
        yield place


@pytest.fixture
def here(servers: Servers) -> Iterator[Place]:
    """A schema on the newest server: other tests run the statements inside the functions on all servers."""
    with new_schema(servers.shared(shared_names()[-1]).url) as place:
        yield place


@pytest.fixture(params=first_in_all_tiers(["mapped", "sidecar"]))
def table(request: pytest.FixtureRequest, here: Place) -> Iterator[PostgresTable]:
    """A table with functions and three orders."""
    here.execute(ORDERS)
    here.execute("insert into S.orders (number, source) values (2, 'web'), (1, 'web'), (3, 'shop')")
    options = OPTIONS
    if request.param == "sidecar":
        options = {name: each for name, each in OPTIONS.items() if name not in {"columns", "states"}} | {
            "sidecar": True
        }
    with opened(here, **options) as table:
        table.migrate(functions=True)
        yield table


def claim(place: Place, arguments: str = "") -> list[dict[str, Any]]:
    """Claim in plain SQL, as in psql."""
    return [row for (row,) in place.execute(f"select to_json(claimed) from S.claim_orders({arguments}) as claimed")]


def ended(place: Place, function: str, row: dict[str, Any], more: str = "") -> Any:
    """Settle a claim in plain SQL."""
    ((answer,),) = place.execute(f"select S.{function}_orders(%s, %s, %s{more})", row["id"], row["fence"], row["token"])
    return answer


def job(table: PostgresTable, row: dict[str, Any]) -> Any:
    (found,) = table.find(Query(ids=(row["id"],))).jobs
    return found


def expire(place: Place) -> None:
    """Expire every lease."""
    for column, name in (("tenure_leased_until", "orders"), ("leased_until", "tenure_orders")):
        known = place.execute(f"select to_regclass('S.{name}')".replace("S.", f"{place.schema}."))
        if known != [(None,)] and place.execute(
            "select 1 from pg_attribute where attrelid = %s::regclass and attname = %s",
            f"{place.schema}.{name}",
            column,
        ):
            place.execute(f"update S.{name} set {column} = now() - interval '1 second' where {column} is not null")


def test_a_claim_by_function_gives_the_users_rows_in_order_with_fence_and_token(
    here: Place, table: PostgresTable
) -> None:
    rows = claim(here, "10, 30, 'w1'")

    assert [(row["number"], row["source"], float(row["price"]), row["fence"]) for row in rows] == [
        (1, "web", 9.5, 1),
        (2, "web", 9.5, 1),
    ]
    assert job(table, rows[0]).worker == "w1"
    assert len({row["token"] for row in rows}) == 1


def test_a_claim_by_function_and_one_by_python_exclude_each_other(here: Place, table: PostgresTable) -> None:
    (first,) = claim(here)
    (second,) = table.claim(ClaimRequest(limit=5, worker="python", token="p")).jobs

    assert (first["number"], second.payload["number"]) == (1, 2)
    assert claim(here, "5") == []
    assert table.claim(ClaimRequest(limit=5, worker="python", token="q")).jobs == []


def test_of_many_that_claim_at_once_by_both_ways_each_row_goes_to_one(here: Place, table: PostgresTable) -> None:
    here.execute("insert into S.orders (number) select n from generate_series(10, 67) n")

    def by_function(_: int) -> list[str]:
        return [row["id"] for _ in range(15) for row in claim(here, "2")]

    def by_python(number: int) -> list[str]:
        requests = [ClaimRequest(limit=2, worker="python", token=f"{number}-{n}") for n in range(15)]
        return [job.id for request in requests for job in table.claim(request).jobs]

    with ThreadPoolExecutor(4) as threads:
        taken = [threads.submit(way, number) for number, way in enumerate([by_function, by_python] * 2)]
        ids = [id for each in taken for id in each.result()]

    assert len(ids) == len(set(ids)) == 60


def test_each_can_end_only_its_own_claim(here: Place, table: PostgresTable) -> None:
    (first,) = claim(here)
    (second,) = table.claim(ClaimRequest(worker="python", token="p")).jobs
    theirs = {"id": second.id, "fence": second.fence, "token": first["token"]}
    ours = Hold(id=first["id"], fence=first["fence"], token="p")

    by_function = ended(here, "complete", theirs)
    by_python = table.settle([Settlement(hold=ours, outcome=Outcome.COMPLETED, state=State.COMPLETED)])

    assert (by_function, by_python) == (False, [False])
    assert ended(here, "complete", first) is True
    assert table.settle(
        [
            Settlement(
                hold=Hold(id=second.id, fence=second.fence, token="p"), outcome=Outcome.COMPLETED, state=State.COMPLETED
            )
        ]
    ) == [True]


def test_a_token_that_is_sent_again_gets_what_it_holds(here: Place, table: PostgresTable) -> None:
    first = claim(here, "token => 'again'")

    assert claim(here, "5, token => 'again'") == first
    assert table.stats().rows[0].running == 1


def test_a_token_does_not_get_again_what_it_completed(here: Place, table: PostgresTable) -> None:
    (first,) = claim(here, "token => 'again'")
    ended(here, "complete", first)

    assert [row["number"] for row in claim(here, "token => 'again'")] == [2]
    assert job(table, first).state is State.COMPLETED


def test_a_function_means_the_tables_of_whoever_made_it_whatever_the_caller_has_in_its_path(here: Place) -> None:
    here.execute("create table S.orders (id bigint primary key); insert into S.orders values (1), (2)")
    here.execute("create table S.chosen (id bigint); insert into S.chosen values (2)")
    path = f"{here.server}{'&' if '?' in here.server else '?'}options=-csearch_path%3D{here.schema}"

    with opened(here, at=path, where="id in (select id from chosen)") as table:
        table.migrate(functions=True)

    assert [row["id"] for row in claim(here, "5")] == [2]


def test_a_table_may_be_called_as_we_are(here: Place) -> None:
    here.execute("create table S.tenure (id bigint primary key, state text not null default 'queued')")
    here.execute("insert into S.tenure (id) values (1), (2)")
    with opened(here, "tenure", where="tenure.id > :least", params={"least": 1}) as table:
        table.migrate(functions=True)

        rows = here.execute("select id, fence, token from S.claim_tenure(5)")

    ((id, fence, token),) = rows
    assert id == 2
    assert here.execute(f"select S.complete_tenure({id}, {fence}, '{token}')") == [(True,)]


def test_a_filter_is_an_argument_that_has_the_value_of_the_table_by_default(here: Place, table: PostgresTable) -> None:
    assert [row["number"] for row in claim(here, "5, source => 'shop'")] == [3]
    assert [row["number"] for row in claim(here, "5")] == [1, 2]
    assert table.spec.params == {"source": "web"}


def test_a_result_is_kept_and_a_completion_sent_again_landed(here: Place, table: PostgresTable) -> None:
    (row,) = claim(here)

    landed = [ended(here, "complete", row, """, '{"pages": 3}'""") for _ in range(2)]

    assert landed == [True, True]
    found = job(table, row)
    assert (found.state, found.result) == (State.COMPLETED, {"pages": 3})


def test_work_that_was_found_done_is_counted_as_prevented(here: Place, table: PostgresTable) -> None:
    (row,) = claim(here)

    ended(here, "complete", row, ", found_done => true")

    assert table.stats().rows[0].prevented == 1


def test_a_failure_backs_off_and_the_last_one_is_final(here: Place, table: PostgresTable) -> None:
    (row,) = claim(here)
    word = ended(here, "fail", row, ", 'no paper', 0")
    (again,) = claim(here)
    last = ended(here, "fail", again, ", 'still none'")

    found = job(table, row)
    assert (word, last) == (table.spec.state_values[State.QUEUED], table.spec.state_values[State.FAILED])
    assert (found.state, found.attempts, found.fence) == (State.FAILED, 2, 2)
    assert [(line.outcome, line.error) for line in found.history] == [
        (Outcome.FAILED, "no paper"),
        (Outcome.FAILED, "still none"),
    ]


def test_a_failure_without_a_delay_waits_for_a_back_off(here: Place, table: PostgresTable) -> None:
    (row,) = claim(here)

    ended(here, "fail", row, ", 'no paper'")

    assert job(table, row).run_at.year > 2000


def test_a_final_failure_is_not_tried_again(here: Place, table: PostgresTable) -> None:
    (row,) = claim(here)

    word = ended(here, "fail", row, ", 'no such order', final => true")

    assert (word, job(table, row).state) == ("failed", State.FAILED)


def test_a_release_costs_no_attempt(here: Place, table: PostgresTable) -> None:
    (row,) = claim(here)

    assert ended(here, "release", row) is True
    assert (job(table, row).attempts, job(table, row).state) == (0, State.QUEUED)


def test_a_lease_is_prolonged_by_its_holder_only(here: Place, table: PostgresTable) -> None:
    (row,) = claim(here, "1, 30")
    before = job(table, row).leased_until

    held, lost = ended(here, "extend", row, ", 600"), ended(here, "extend", {**row, "token": "other"}, ", 600")

    assert (held, lost) == (True, False)
    assert job(table, row).leased_until > before


def test_an_expired_claim_is_taken_back_and_its_holder_is_told(here: Place, table: PostgresTable) -> None:
    (row,) = claim(here)
    expire(here)

    ((number,),) = here.execute("select S.requeue_expired_orders()")

    assert number == 1
    assert [line.outcome for line in job(table, row).history] == [Outcome.EXPIRED]
    assert ended(here, "complete", row) is False
    assert ended(here, "fail", row, ", 'late'") is None


def test_a_claim_takes_over_what_ran_out(here: Place, table: PostgresTable) -> None:
    (row,) = claim(here)
    expire(here)

    (again,) = claim(here)

    assert (again["id"], again["fence"]) == (row["id"], 2)
    assert job(table, row).crashes == 1


def test_failed_rows_are_queued_again_with_the_reason_in_their_history(here: Place, table: PostgresTable) -> None:
    (row,) = claim(here)
    ended(here, "fail", row, ", 'no paper', final => true")
    here.execute("update S.orders set resolved_by = 'ada'")

    ((number,),) = here.execute("select S.retry_failed_orders('nightly')")

    found = job(table, row)
    assert number == 1
    assert (found.state, found.attempts, found.history[-1].error) == (State.QUEUED, 0, "retry: nightly")
    assert here.execute("select resolved_by from S.orders where id = %s", row["id"]) == [(None,)]
    assert here.execute("select S.retry_failed_orders()") == [(0,)]


def test_the_lease_and_the_back_off_of_the_table_are_those_of_its_functions(here: Place) -> None:
    here.execute("create table S.orders (id bigint primary key)")
    backoff = tenure.Backoff(first=7, cap=77)

    with tenure.Table(here.server, f"{here.schema}.orders", lease=180, backoff=backoff) as orders:
        text = orders.sql()["functions"]

    assert "lease_seconds double precision default 180" in text
    assert "least(77, 7 * power(2, " in text


def test_functions_are_installed_once(table: PostgresTable) -> None:
    assert table.migrate(functions=True) == []
    assert "claim_orders" in table.sql()["functions"]


def test_functions_follow_the_table_and_keep_the_rights_that_were_granted(here: Place, table: PostgresTable) -> None:
    with as_role(here, "grant execute on function S.complete_orders to R"):
        here.execute("alter table S.orders add column note text default 'new'")
        table.migrate(functions=True)

        ((granted,),) = here.execute(
            f"select proacl::text like '%%role_%%' from pg_proc where oid = '{here.schema}.complete_orders'::regproc"
        )
        assert granted
        assert claim(here)[0]["note"] == "new"
        assert table.migrate(functions=True) == []


def test_functions_that_take_and_return_the_same_and_do_something_else_are_made_anew(here: Place) -> None:
    here.execute("create table S.orders (id bigint primary key)")
    with opened(here, max_attempts=2) as table:
        table.migrate(functions=True)

    with opened(here, max_attempts=3) as table:
        done = table.migrate(functions=True)
        again = table.migrate(functions=True)

    made = [each.split("(")[0].split(".")[-1] for each in done if each.startswith("create")]
    assert made == ['"claim_orders"', '"fail_orders"', '"requeue_expired_orders"']
    assert again == []


def test_what_functions_prints_installs_them_once_or_again(here: Place, table: PostgresTable) -> None:
    for name in ("claim", "extend", "complete", "fail", "release", "requeue_expired", "retry_failed"):
        here.execute(f"drop function S.{name}_orders")

    here.execute(table.sql()["functions"])
    here.execute(table.sql()["functions"])

    assert table.outstanding(functions=True) == []


REFUSED = {
    "claim_orders(0)": "limit must be 1 to 1000, not 0",
    "claim_orders(null)": "limit must be 1 to 1000, not null",
    "claim_orders(1, 0.5)": "lease_seconds must be 1 to 86400, not 0.5",
    "claim_orders(1, 30, '')": "worker must have 1 to 200 printable characters, not ''",
    "claim_orders(1, 30, 'w', null)": "token must have 1 to 200 printable characters, not NULL",
    "requeue_expired_orders(0)": "limit must be 1 to 1000, not 0",
    "retry_failed_orders('why', 0)": "limit must be 1 to 1000, not 0",
    "fail_orders(gen_random_uuid(), 1, 't', null)": "error must be text, not NULL",
    "fail_orders(gen_random_uuid(), 1, 't', 'e', 'NaN')": "retry_after must be 0 to 3153600000 seconds, not NaN",
}


def test_arguments_that_cannot_be_used_are_refused(here: Place, table: PostgresTable) -> None:
    said = {call: refusal(here, f"select S.{call}") for call in REFUSED}

    assert said == REFUSED
    assert table.stats().rows[0].running == 0


def refusal(place: Place, statement: str) -> str | None:
    with pytest.raises(psycopg.errors.InvalidParameterValue) as told:
        place.execute(statement)
    return told.value.diag.message_primary


def test_a_transaction_that_cannot_see_the_claim_is_not_told_that_it_is_lost(here: Place, table: PostgresTable) -> None:
    with psycopg.connect(here.server) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.execute("select 1 from pg_class limit 1")
        (row,) = claim(here)

        with pytest.raises((psycopg.errors.InvalidTransactionState, psycopg.errors.SerializationFailure)):
            connection.execute(
                f"select {here.schema}.complete_orders(%s, %s, %s)", (row["id"], row["fence"], row["token"])
            )
    assert job(table, row).state is State.RUNNING


def test_a_role_with_rights_on_the_table_alone_claims_by_function(place: Place) -> None:
    place.execute(ORDERS)
    place.execute("insert into S.orders (number) values (1)")
    with opened(place, **OPTIONS) as table:
        table.migrate(functions=True)

    rights = "grant usage on schema S to R; grant select, update on S.orders to R"
    with as_role(place, rights) as url, psycopg.connect(url, autocommit=True) as connection:
        connection.execute("set search_path = pg_catalog")
        row = connection.execute(f"select id, fence, token from {place.schema}.claim_orders()").fetchone()
        landed = connection.execute(f"select {place.schema}.complete_orders(%s, %s, %s)", row).fetchone()

    assert landed == (True,)


def test_what_is_done_is_found_by_the_function_that_takes_back(place: Place) -> None:
    place.execute("create table S.orders (id bigint primary key)")
    place.execute("create table S.invoices (order_id bigint); insert into S.orders values (1); ")
    with opened(place, output=f"{place.schema}.invoices.order_id") as table:
        table.migrate(functions=True)
        claim(place)
        place.execute("insert into S.invoices values (1)")
        expire(place)

        place.execute("select S.requeue_expired_orders()")

        (row,) = table.stats().rows
        assert (row.completed, row.recovered) == (1, 1)


def test_odd_names_and_keys_of_several_columns_work(place: Place) -> None:
    name = 'select "x"; --$tenure$ {0} :y'
    place.execute(
        f"""create table S."{name.replace('"', '""')}" (
          "token" text, "limit" bigint, "fence" text default 'iron', "worker" text default 'bee',
          primary key ("token", "limit")
        )"""
    )
    place.execute(f"""insert into S."{name.replace('"', '""')}" values ('a', 1)""")
    options: Any = {
        "id": ("token", "limit"),
        "where": '"worker" = :worker',
        "params": {"worker": "bee"},
    }
    with opened(place, name, **options) as table:
        table.migrate(functions=True)
        again = table.migrate(functions=True)
        findings = table.check()

    def function(verb: str) -> str:
        return '"' + f"{verb}_{name}".replace('"', '""') + '"'

    ((row,),) = place.execute(f"select to_json(claimed) from S.{function('claim')}(filter_worker => 'bee') as claimed")
    ((landed,),) = place.execute(
        f"select S.{function('complete')}(%s, %s, %s, %s)", "a", 1, row["claim_fence"], row["claim_token"]
    )

    assert (row["token"], row["limit"], row["fence"], landed) == ("a", 1, "iron", True)
    assert (again, findings) == ([], [])


def test_a_function_that_somebody_else_made_is_left_alone(place: Place) -> None:
    place.execute(ORDERS)
    place.execute("create function S.claim_orders(n integer) returns integer language sql as 'select 1'")

    with opened(place, **OPTIONS) as table, pytest.raises(ConfigurationError, match="tenure did not create it"):
        table.migrate(functions=True)

    assert place.execute("select S.claim_orders(1)") == [(1,)]


def test_values_of_all_kinds_are_defaults_of_their_arguments(place: Place) -> None:
    place.execute("create table S.orders (id bigint primary key, tags text[], at date, cost numeric, ok boolean)")
    place.execute("insert into S.orders values (1, '{a,\"b c\"}', '2026-01-02', 1.5, true)")
    options: Any = {
        "where": "tags = :tags and at >= :day and cost < :most and ok = :ok",
        "params": {"tags": ["a", "b c"], "day": "2026-01-01", "most": 2, "ok": True},
    }

    with opened(place, **options) as table:
        table.migrate(functions=True)

    assert len(claim(place)) == 1
    assert claim(place, "most => 1") == []
    assert json.dumps(options)
