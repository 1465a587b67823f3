"""A row that cannot be read, locked, extended, settled, reaped or claimed delays only itself."""

import logging
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from typing import Any
from unittest.mock import Mock
from uuid import uuid4

import psycopg
import pytest

import tenure
from tenure.backends.postgres.batch_limit import BatchLimit
from tenure.backends.protocol import SWEEP
from tenure.backends.shared.isolation import StatementRejected
from tenure.backends.tables.avoided_rows import LONGEST_DELAY
from tenure.backends.tables.postgres import PostgresTable, bound_table, sql_templates
from tenure.backends.tables.postgres.catalogue import read_catalogue
from tenure.backends.tables.postgres.row_batches import PostgresRowBatches
from tenure.backends.tables.postgres.statements import build_statement
from tenure.backends.tables.row_isolation import MOST_CLAIM_ROUNDS, RowIsolation
from tenure.core.job import Job, State
from tenure.core.operations import BUSY, LARGEST_BATCH, Extension, HoldStatus, Move, Query, Settled, Unsettled
from tenure.errors import ConfigurationError, StoreUnavailable
from tenure.testing import Clock
from tenure.testing.conformance.building import (
    build_completion,
    build_failure,
    build_release,
    exchange,
    extend,
    ids_of,
    job_of,
    request,
    settle,
    take,
    take_one,
)
from tests.postgres.stores import Place
from tests.processes.stage import until
from tests.servers.postgres import Server
from tests.tables.postgres_shop import ORDERS, Shop, new_shop, shown
from tests.tables.postgres_tables import as_role

MODES: dict[str, dict[str, Any]] = {
    "mapped": {"columns": {"state": "status"}, "where": "true"},
    "sidecar": {"sidecar": "orders_claims", "where": "true"},
}
HOMES = {"mapped": ("S.orders", "status"), "sidecar": ("S.orders_claims", "state")}
ROWS = 5

REJECT = """
create function S.reject() returns trigger language plpgsql as $$
begin
  if {condition} then
    {action};
  end if;
  return new;
end
$$;
create trigger reject before {event} on {home} for each row execute function S.reject()
"""
RAISE = "raise exception 'order 1 is frozen'"
IGNORE = "return null"
COUNT_AND_RAISE = f"perform nextval('S.tries'); {RAISE}"
"""Count the tries of a statement in a sequence: the server does not roll a sequence back."""
LOCK = "perform from S.customers where id = new.id for update"
WAITING = "select pid from pg_stat_activity where application_name = %s and wait_event_type = 'Lock'"

NO_EFFECT = "the update has no effect; a trigger skips it, or another transaction has locked the row"
TOLD = {"raises": (RAISE, "order 1 is frozen"), "skips the update": (IGNORE, NO_EFFECT)}
"""What a trigger does with the write of a function, and the warning."""
ERROR_CODES = ["P0001", "P0004", "0A000", "42501", "42P01", "55000", "XX001"]
LEASES = {"mapped": "tenure_leased_until", "sidecar": "leased_until"}
RECORDS = {"mapped": "tenure_record", "sidecar": "record"}
KEYS = {"one column": "id", "two columns": ("source", "id")}
UNREADABLE_RECORDS = {
    "deep": '{"n": ' + "[" * 3_000 + "]" * 3_000 + "}",
    "digits": '{"n": ' + "9" * 5_000 + "}",
    "digits in the history": '{"history": [["failed", ' + "9" * 5_000 + ', "2026-01-01", null, null, null, "bad"]]}',
}

ERRORS_OF_DONE_IF = {
    "division by zero": "1 / (id - 1) > 99",
    "two rows from a subquery": "(select id > 99 from generate_series(1, case when id = 1 then 2 else 1 end))",
    "a function that raises": "S.is_done(id)",
}


@pytest.fixture
def shop(postgres: Server) -> Iterator[Shop]:
    with new_shop(postgres) as shop:
        shop.execute(ORDERS)
        shop.execute(f"insert into S.orders (id, source) select n, 'x' from generate_series(1, {ROWS}) n")
        yield shop


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def table(shop: Shop, mode: str, clock: Clock) -> PostgresTable:
    return shop.fit(clock=clock, **MODES[mode])


def reject(shop: Shop, mode: str, condition: str, action: str = RAISE, event: str = "update") -> None:
    home, state = HOMES[mode]
    key = condition.replace("STATE", state)
    shop.execute(REJECT.format(condition=key, action=action, home=home, event=event))


def open_with_nullable_key(shop: Shop, mode: str, key: str | tuple[str, ...], clock: Clock) -> PostgresTable:
    shop.execute("alter table S.orders drop constraint orders_pkey, add unique (id), add unique (source, id)")
    shop.execute("alter table S.orders alter id drop not null")
    return shop.fit(id=key, clock=clock, **MODES[mode])


def numbers_of(jobs: Sequence[Job]) -> list[int]:
    """Return the column `id` of the rows, whatever the key."""
    return [job.payload["id"] for job in jobs]


@contextmanager
def locked(shop: Shop, mode: str, id: int) -> Iterator[None]:
    """Lock the row, as an open transaction of another program does."""
    home, _ = HOMES[mode]
    with psycopg.connect(shop.url) as connection:
        connection.execute(shop.named(f"select from {home} where id = {id} for update").encode())
        yield
        connection.rollback()


@contextmanager
def blocked(shop: Shop, mode: str, condition: str, event: str = "update", action: str = LOCK) -> Iterator[None]:
    """Let a trigger lock the customer of a row, and lock the customer of row 2 in another transaction."""
    shop.execute("create table S.customers (id bigint primary key)")
    shop.execute("insert into S.customers select id from S.orders")
    reject(shop, mode, condition, action, event)
    with psycopg.connect(shop.url) as connection:
        connection.execute(shop.named("select from S.customers where id = 2 for update").encode())
        yield
        connection.rollback()


def call(shop: Shop, statement: str) -> tuple[list[tuple[Any, ...]], list[str | None]]:
    """Call a function on a connection of its own; return its rows and its warnings."""
    told: list[str | None] = []
    with psycopg.connect(shop.url) as connection:
        connection.add_notice_handler(lambda notice: told.append(notice.message_primary))
        return connection.execute(shop.named(statement).encode()).fetchall(), told


def expire(shop: Shop, mode: str, condition: str = "true") -> None:
    home, _ = HOMES[mode]
    shop.execute(f"update {home} set {LEASES[mode]} = now() - interval '1 minute' where {condition}")


def rejected(settled: Settled) -> Unsettled:
    assert isinstance(settled, Unsettled)
    assert settled.rejection is not None
    return settled


def lease_end_of(table: PostgresTable, id: str) -> datetime:
    leased_until = job_of(table, id).leased_until
    assert leased_until is not None
    return leased_until


def url_of(shop: Shop, options: str) -> str:
    return f"{shop.url}{'&' if '?' in shop.url else '?'}{options}"


def number_of_tries(shop: Shop) -> int:
    ((number,),) = shop.execute("select last_value from S.tries")
    return int(number)


def messages(caplog: pytest.LogCaptureFixture, level: int = logging.ERROR) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == level]


def test_a_locked_row_is_busy_and_the_others_are_settled(shop: Shop, mode: str, table: PostgresTable) -> None:
    taken = take(table, limit=ROWS)

    with locked(shop, mode, 2):
        settled = table.settle([build_completion(each) for each in taken])
        states = shown(table)

    assert settled == [True, BUSY, True, True, True]
    assert states == [("1", "completed"), ("2", "running"), *((str(n), "completed") for n in (3, 4, 5))]
    assert settle(table, build_completion(taken[1])) is True


def test_a_locked_row_is_busy_and_the_other_leases_are_extended(
    shop: Shop, mode: str, table: PostgresTable, clock: Clock
) -> None:
    taken = take(table, limit=ROWS, lease=10)
    clock.advance(5)

    with locked(shop, mode, 2):
        statuses = table.extend([Extension(hold=each.hold, lease=60) for each in taken])

    held = HoldStatus.HELD
    assert statuses == [held, HoldStatus.BUSY, held, held, held]
    assert job_of(table, "3").leased_until == clock.now + timedelta(seconds=60)
    assert job_of(table, "2").leased_until == clock.now + timedelta(seconds=5)


def test_an_exchange_does_not_wait_for_a_locked_row(shop: Shop, mode: str, table: PostgresTable) -> None:
    first, second = take(table, limit=2)

    with locked(shop, mode, 1):
        settled, claimed = exchange(table, [build_completion(first), build_completion(second)], request(limit=2))

    assert settled == [BUSY, True]
    assert ids_of(claimed.jobs) == ["3", "4"]


def test_a_row_whose_settlement_needs_a_lock_is_busy_and_the_others_are_settled(
    shop: Shop, mode: str, table: PostgresTable
) -> None:
    taken = take(table, limit=ROWS)

    with blocked(shop, mode, "new.STATE = 'completed'"):
        settled = table.settle([build_completion(each) for each in taken])

    assert settled == [True, BUSY, True, True, True]
    assert settle(table, build_completion(taken[1])) is True


def test_a_row_that_needs_a_lock_to_fail_with_its_rejection_is_busy(
    shop: Shop, mode: str, table: PostgresTable
) -> None:
    taken = take(table, limit=ROWS)
    _, state = HOMES[mode]
    rejection = f"if new.id = 2 and new.{state} = 'completed' then raise exception 'frozen'; end if"

    with blocked(shop, mode, "true", action=f"{rejection}; {LOCK}"):
        settled = table.settle([build_completion(each) for each in taken])

    assert settled == [True, BUSY, True, True, True]


def test_a_row_whose_extension_needs_a_lock_is_busy_and_the_other_leases_are_extended(
    shop: Shop, mode: str, table: PostgresTable
) -> None:
    taken = take(table, limit=ROWS)

    with blocked(shop, mode, "new.STATE = 'running'"):
        statuses = table.extend([Extension(hold=each.hold, lease=60) for each in taken])

    held = HoldStatus.HELD
    assert statuses == [held, HoldStatus.BUSY, held, held, held]


def test_a_wait_for_a_locked_row_does_not_always_return_at_once(
    shop: Shop, mode: str, table: PostgresTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenure.backends.shared.waiter.SHORTEST_PAUSE", 60.0)
    monkeypatch.setattr("tenure.backends.shared.waiter.LONGEST_PAUSE", 60.0)
    shop.execute("delete from S.orders where id > 1")
    taken = take_one(table)
    settle(table, build_release(taken))
    with locked(shop, mode, 1):
        table.wait(None, None, 0.0)
        while_locked = take(table)
        poll = Mock(side_effect=table._waiter._poll)
        monkeypatch.setattr(table._waiter, "_poll", poll)

        table.wait(None, None, 0.1)

    assert while_locked == []
    assert poll.call_count == 0


def test_a_row_whose_claim_needs_a_lock_keeps_no_row_behind_it_and_is_logged(
    shop: Shop, mode: str, table: PostgresTable, caplog: pytest.LogCaptureFixture
) -> None:
    event = "update" if mode == "mapped" else "insert"

    with blocked(shop, mode, "new.STATE = 'running'", event):
        claimed = ids_of(take(table, limit=ROWS))

    assert claimed == ["1", "3", "4", "5"]
    (told,) = messages(caplog, logging.WARNING)
    assert re.match(r"row 2 of \S+ not claimed: another transaction holds a lock", told)


def test_a_row_whose_claim_waits_for_a_unique_index_keeps_no_row_behind_it(shop: Shop) -> None:
    table = shop.fit(**MODES["mapped"])
    shop.execute("update S.orders set source = cast(id as text)")
    shop.execute("create unique index on S.orders (source) where status = 'running'")

    with psycopg.connect(shop.url) as connection:
        insert = "insert into S.orders (id, source, status) values (99, '2', 'running')"
        connection.execute(shop.named(insert).encode())
        claimed = ids_of(take(table, limit=ROWS))
        connection.rollback()

    assert claimed == ["1", "3", "4", "5"]


def test_an_expired_row_whose_reaping_needs_a_lock_keeps_no_row_behind_it(
    shop: Shop, mode: str, table: PostgresTable, clock: Clock
) -> None:
    take(table, limit=ROWS, lease=1)
    clock.advance(2)

    with blocked(shop, mode, "new.STATE = 'queued'"):
        claimed = ids_of(take(table, limit=ROWS))

    assert claimed == ["1", "3", "4", "5"]
    assert job_of(table, "2").state is State.RUNNING


@pytest.mark.parametrize(
    "code",
    [
        "0A000",
        "25006",
        "28000",
        "2F005",
        "39P01",
        "3D000",
        "3F000",
        "42501",
        "55006",
        "08001",
        "53100",
        "58030",
        "F0000",
    ],
)
def test_an_outcome_that_a_trigger_rejects_as_invalid_may_be_sent_again_and_the_others_land(
    shop: Shop, mode: str, table: PostgresTable, code: str
) -> None:
    taken = take(table, limit=ROWS)
    reject(
        shop,
        mode,
        "new.id = 2 and new.STATE = 'completed'",
        f"raise exception using errcode = '{code}', message = 'not for you'",
    )

    settled = table.settle([build_completion(each) for each in taken])

    assert settled == [True, Unsettled("not for you", may_retry=True), True, True, True]


def test_a_trigger_that_cannot_connect_to_another_server_is_not_called_again_as_after_a_lost_connection(
    shop: Shop, mode: str, table: PostgresTable
) -> None:
    shop.execute("create sequence S.tries")
    (taken,) = take(table)
    down = "raise exception using errcode = '08001', message = 'down'"
    reject(shop, mode, "new.STATE = 'completed'", f"perform nextval('{shop.schema}.tries'); {down}")

    settled = table.settle([build_completion(taken)])

    assert settled == [Unsettled("down", may_retry=True)]
    assert number_of_tries(shop) == 1


def test_a_row_that_a_policy_protects_costs_its_neighbours_nothing(shop: Shop, mode: str) -> None:
    shop.fit(**MODES[mode])
    home, state = HOMES[mode]
    shop.execute(f"alter table {home} enable row level security")
    shop.execute(f"create policy p on {home} using (true) with check (not (id = 2 and {state} = 'completed'))")
    rights = "grant usage on schema S to R; grant select, insert, update, delete on all tables in schema S to R"

    with as_role(Place(shop.url, shop.schema), rights) as url:
        table = shop.open(url=url, **MODES[mode])
        settled = table.settle([build_completion(each) for each in take(table, limit=ROWS)])

    assert [settled[0], *settled[2:]] == [True] * 4
    assert "row-level security" in str(rejected(settled[1]).rejection)


def test_a_done_if_that_takes_too_long_for_a_row_is_rejected_and_not_an_outage(shop: Shop) -> None:
    shop.execute(
        "create function S.is_done(id bigint) returns boolean language plpgsql as "
        "$$ begin if id = 2 then perform pg_sleep(60); end if; return true; end $$"
    )
    table = shop.fit(url=url_of(shop, "timeout=0.5"), **MODES["mapped"], done_if=shop.named("S.is_done(orders.id)"))

    with pytest.raises(StatementRejected, match="done_if of"):
        table.already_done(["1", "2"])

    assert table.already_done(["1"]) == [True]


def test_settlements_whose_trigger_is_slow_are_recorded_in_parts(shop: Shop, mode: str) -> None:
    table = shop.fit(url=url_of(shop, "timeout=1"), **MODES[mode])
    taken = take(table, limit=ROWS)
    reject(shop, mode, "new.STATE = 'completed'", "perform pg_sleep(0.06)")

    settled, claimed = table.exchange([build_completion(each) for each in taken], request())

    assert settled == [True] * ROWS
    assert claimed.jobs == []
    assert table._limits.settlements.most < ROWS


def test_extensions_whose_trigger_is_slow_are_sent_in_parts(shop: Shop, mode: str) -> None:
    table = shop.fit(url=url_of(shop, "timeout=1"), **MODES[mode])
    taken = take(table, limit=ROWS)
    reject(shop, mode, "new.STATE = 'running'", "perform pg_sleep(0.06)")

    statuses = table.extend([Extension(hold=each.hold, lease=60) for each in taken])

    assert statuses == [HoldStatus.HELD] * ROWS
    assert table._limits.extensions.most < ROWS


@pytest.mark.parametrize("name", ["settle", "extend"])
def test_no_more_rows_are_written_at_once_than_a_fast_statement_can(
    shop: Shop, mode: str, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    table = shop.fit(**MODES[mode])
    taken = take(table, limit=ROWS)
    table._limits.settlements = table._limits.extensions = BatchLimit(timeout=0.0)
    table._limits.settlements.most = 2
    write = getattr(PostgresRowBatches, name)
    sizes: list[int] = []

    def count_rows(batches: PostgresRowBatches, rows: Sequence[Any]) -> Any:
        sizes.append(len(rows))
        return write(batches, rows)

    monkeypatch.setattr(PostgresRowBatches, name, count_rows)
    if name == "settle":
        table.settle([build_completion(each) for each in taken])
    else:
        table.extend([Extension(hold=each.hold, lease=60) for each in taken])

    assert sizes == [2, 2, 1]


def test_a_row_whose_settlement_takes_too_long_is_rejected_alone(shop: Shop, mode: str) -> None:
    table = shop.fit(url=url_of(shop, "timeout=0.5"), **MODES[mode])
    taken = take(table, limit=2)
    reject(shop, mode, "new.id = 1 and new.STATE = 'completed'", "perform pg_sleep(60)")

    settled = table.settle([build_completion(each) for each in taken])

    assert rejected(settled[0]).may_retry
    assert "took more than 0.5 s" in str(rejected(settled[0]).rejection)
    assert settled[1] is True


def test_a_row_whose_failure_takes_too_long_is_rejected_alone(shop: Shop, mode: str) -> None:
    table = shop.fit(url=url_of(shop, "timeout=0.5"), **MODES[mode])
    taken = take(table, limit=2)
    _, state = HOMES[mode]
    slow = f"if new.{state} = 'failed' then perform pg_sleep(60); end if; raise exception 'no invoice'"
    reject(shop, mode, "new.id = 1 and new.STATE <> 'running'", slow)

    settled = table.settle([build_completion(each) for each in taken])

    assert rejected(settled[0]).may_retry
    assert settled[1] is True


def test_a_row_whose_settlement_is_slower_than_a_batch_may_be_has_the_whole_timeout(shop: Shop, mode: str) -> None:
    table = shop.fit(url=url_of(shop, "timeout=2"), **MODES[mode])
    taken = take(table, limit=2)
    reject(shop, mode, "new.id = 1 and new.STATE = 'completed'", "perform pg_sleep(0.6)")

    assert table.settle([build_completion(each) for each in taken]) == [True, True]


def test_a_lease_whose_extension_takes_too_long_costs_no_other_lease_its_extension(
    shop: Shop, mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    table = shop.fit(url=url_of(shop, "timeout=0.5"), **MODES[mode])
    taken = take(table, limit=ROWS)
    reject(shop, mode, "old.id = 1 and new.STATE = 'running'", "perform pg_sleep(60)")

    statuses = table.extend([Extension(hold=each.hold, lease=60) for each in taken])

    assert statuses == [HoldStatus.REJECTED, *[HoldStatus.HELD] * (ROWS - 1)]
    (told,) = messages(caplog)
    assert re.match(r"row 1 of \S+ not extended: the write took more than 0\.5 s", told)


def test_a_row_whose_claim_takes_too_long_keeps_no_row_behind_it_and_is_logged(
    shop: Shop, mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    table = shop.fit(url=url_of(shop, "timeout=0.5"), **MODES[mode])
    event, row = ("update", "old") if mode == "mapped" else ("insert", "new")
    reject(shop, mode, f"{row}.id = 1", "perform pg_sleep(60)", event)

    claimed = [ids_of(take(table, limit=2)) for _ in range(2)]

    assert claimed == [["2"], ["3", "4"]]
    assert table._rows._avoided._rows[("1",)].delay == LONGEST_DELAY
    (told,) = messages(caplog)
    assert re.match(r"row 1 of \S+ not claimed: the write took more than", told)


def test_an_expired_row_whose_done_if_takes_too_long_keeps_no_row_behind_it_and_is_logged(
    shop: Shop, mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    shop.execute(
        "create function S.is_done(id bigint) returns boolean language plpgsql as "
        "$$ begin if id = 1 then perform pg_sleep(60); end if; return false; end $$"
    )
    table = shop.fit(url=url_of(shop, "timeout=0.5"), **MODES[mode], done_if=shop.named("S.is_done(orders.id)"))
    take(table, limit=1)
    expire(shop, mode, "id = 1")
    table._limits.reaps.most = 1

    claimed = ids_of(take(table, limit=1))

    assert claimed == ["2"]
    (told,) = messages(caplog)
    assert re.match(r"row 1 of \S+ not reaped: the write took more than", told)


def test_a_row_whose_value_a_built_in_function_does_not_support_is_no_standby(
    shop: Shop, mode: str, table: PostgresTable
) -> None:
    home, _ = HOMES[mode]
    dates = "jsonb_build_array(case when id = 1 then '2019-05-05' else '2019-05-05 00:00:00+00' end)"
    is_old = f"""jsonb_path_exists({dates}, '$[0].datetime() ? (@ < "2020-01-01 00:00:00+00".datetime())')"""
    shop.execute(f"alter table {home} add constraint dated check ({is_old}) not valid")

    assert ids_of(take(table, limit=ROWS)) == ["2", "3", "4", "5"]


def test_a_text_that_is_too_long_for_a_trigger_does_not_limit_the_claims(
    shop: Shop, mode: str, table: PostgresTable
) -> None:
    event, row = ("update", "old") if mode == "mapped" else ("insert", "new")
    reject(shop, mode, f"{row}.id = 1", "raise exception using errcode = '54000', message = 'too long'", event)

    assert ids_of(take(table, limit=ROWS)) == ["2", "3", "4", "5"]
    assert table._limits.claims.most == LARGEST_BATCH


def test_a_claim_beside_a_rejected_row_that_got_all_it_could_is_not_cut(
    shop: Shop, mode: str, table: PostgresTable
) -> None:
    event, row = ("update", "old") if mode == "mapped" else ("insert", "new")
    reject(shop, mode, f"{row}.id in (1, 4)", event=event)

    claimed = [table.claim(request(limit=limit)) for limit in (2, 5)]

    assert [(ids_of(each.jobs), each.is_cut) for each in claimed] == [(["2", "3"], False), (["5"], False)]


def test_a_claim_that_tried_many_rows_is_cut_and_a_claim_by_hand_goes_on(shop: Shop, mode: str) -> None:
    table = shop.fit(**MODES[mode])
    shop.execute("insert into S.orders (id, source) select n, 'x' from generate_series(6, 30) n")
    event, row = ("update", "old") if mode == "mapped" else ("insert", "new")
    reject(shop, mode, f"{row}.id < 30", event=event)

    claimed = table.claim(request())
    with tenure.Table(shop.url, "orders", schema=shop.schema, **MODES[mode]) as orders:
        by_hand = orders.claim()

    assert (claimed.jobs, claimed.is_cut) == ([], True)
    assert [claim.id for claim in by_hand] == ["30"]


@pytest.mark.parametrize("frozen", [0, 4], ids=["at once", "after a rejection"])
def test_a_claim_reaps_fewer_rows_if_responses_took_too_long(
    shop: Shop, mode: str, table: PostgresTable, clock: Clock, frozen: int
) -> None:
    take(table, limit=3, lease=1)
    clock.advance(2)
    event, row = ("update", "old") if mode == "mapped" else ("insert", "new")
    reject(shop, mode, f"{row}.id = {frozen}", event=event)
    table._limits.reaps.most = 1

    take_one(table)

    states = [job_of(table, id).state for id in ("1", "2", "3")]
    assert states == [State.RUNNING] * 3


def test_a_claim_reaps_more_rows_again_after_fast_responses(shop: Shop, mode: str, clock: Clock) -> None:
    table = shop.fit(clock=clock, done_if="true", **MODES[mode])
    take(table, limit=ROWS, lease=1)
    clock.advance(2)
    table._limits.reaps.most = 1

    limits = []
    for _ in range(3):
        take(table)
        limits.append(table._limits.reaps.most)

    assert limits == [2, 4, 4]


def test_a_single_row_whose_claim_is_slower_than_a_batch_may_be_is_claimed_if_no_other_row_is_due(
    shop: Shop, mode: str
) -> None:
    table = shop.fit(url=url_of(shop, "timeout=2"), **MODES[mode])
    event, row = ("update", "old") if mode == "mapped" else ("insert", "new")
    reject(shop, mode, f"{row}.id = 1", "perform pg_sleep(0.6)", event)
    first = ids_of(table.claim(request(limit=4)).jobs)
    shop.execute("delete from S.orders where id > 1")
    table._rows._avoided.forget(["1"])

    assert first == ["2"]
    assert ids_of(table.claim(request(limit=4)).jobs) == ["1"]


def test_rows_that_are_claimed_in_parts_are_returned_in_order(shop: Shop, mode: str, table: PostgresTable) -> None:
    shop.execute("insert into S.orders (id, source) select n, 'x' from generate_series(6, 30) n")
    event, row = ("update", "old") if mode == "mapped" else ("insert", "new")
    reject(shop, mode, f"{row}.id = 1", event=event)

    claimed = ids_of(take(table, limit=30))

    assert claimed == [str(id) for id in range(2, 31)]


@pytest.mark.parametrize("frozen", [0, 7], ids=["at once", "after a rejection"])
def test_a_row_that_was_claimed_after_a_rejection_is_avoided_for_no_longer_at_the_next_one(
    shop: Shop, mode: str, table: PostgresTable, frozen: int
) -> None:
    event, row = ("update", "old") if mode == "mapped" else ("insert", "new")
    reject(shop, mode, f"{row}.id = 1", event=event)
    take(table, limit=ROWS)
    shop.execute(
        "create or replace function S.reject() returns trigger language plpgsql as $$ begin "
        f"if {row}.id = {frozen} then raise exception 'no'; end if; return new; end $$"
    )
    shop.execute("insert into S.orders (id, source) values (6, 'x'), (7, 'x')")
    table._rows._avoided._rows[("1",)].until = time.monotonic()

    claimed = ids_of(take(table, limit=ROWS))

    assert claimed == [id for id in ("1", "6", "7") if int(id) != frozen]
    assert ("1",) not in table._rows._avoided._rows


def test_a_reap_goes_on_behind_rows_that_cannot_be_reaped_but_not_for_ever(
    shop: Shop, mode: str, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenure.backends.tables.avoided_rows.SHORTEST_DELAY", 1e-9)
    monkeypatch.setattr("tenure.backends.tables.avoided_rows.LONGEST_DELAY", 1e-9)
    table = shop.fit(clock=clock, **MODES[mode])
    take(table, limit=ROWS, lease=1)
    reject(shop, mode, "true")
    clock.advance(2)
    table._limits.reaps = BatchLimit(timeout=0.0)
    table._limits.reaps.most = 2

    assert table.reap() == []


@pytest.mark.parametrize("code", ["40001", "40P01"])
def test_a_row_whose_trigger_raises_a_conflict_keeps_no_row_from_being_settled_or_claimed(
    shop: Shop, mode: str, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    monkeypatch.setattr("tenure.backends.postgres.database.MOST_CONFLICTS", 2)
    table = shop.fit(**MODES[mode])
    taken = take(table, limit=2)
    event, row = ("update", "old") if mode == "mapped" else ("insert or update", "new")
    conflict = f"raise exception using errcode = '{code}', message = 'conflict'"
    reject(shop, mode, f"{row}.id in (1, 3)", conflict, event)

    settled, claimed = exchange(table, [build_completion(each) for each in taken], request(limit=3))

    assert settled == [BUSY, True]
    assert ids_of(claimed.jobs) == ["4", "5"]


def test_a_settlement_that_a_trigger_skips_fails_its_row_or_is_told_as_rejected(shop: Shop, mode: str) -> None:
    table = shop.fit(**MODES[mode])
    taken = take(table, limit=3)
    reject(shop, mode, "new.id = 1 and new.STATE = 'completed' or new.id = 2 and new.STATE <> 'running'", IGNORE)

    settled, _ = exchange(table, [build_completion(each) for each in taken], request())

    assert settled == [Unsettled(NO_EFFECT, is_failed=True), Unsettled(NO_EFFECT), True]
    assert [job_of(table, id).state for id in ("1", "2")] == [State.FAILED, State.RUNNING]


def test_an_extension_that_a_trigger_skips_is_rejected_and_logged(
    shop: Shop, mode: str, table: PostgresTable, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = take(table, limit=2)
    reject(shop, mode, "new.id = 1", IGNORE)

    statuses = table.extend([Extension(hold=each.hold, lease=60) for each in (first, second)])

    assert statuses == [HoldStatus.REJECTED, HoldStatus.HELD]
    (told,) = messages(caplog)
    assert re.match(rf"row 1 of \S+ not extended: {NO_EFFECT}", told)


def test_leases_are_extended_although_the_layout_must_be_read_and_all_connections_are_in_use(shop: Shop) -> None:
    url = url_of(shop, f"connections=1&timeout=20&application_name={shop.schema}")
    table = shop.fit(url=url, on_retry={"source": "again"}, **MODES["sidecar"])
    first, second = take(table, limit=2)
    settle(table, build_failure(first, final=True))

    with psycopg.connect(shop.url) as connection:
        connection.execute(shop.named("select from S.orders where id = 1 for update").encode())
        waiting = threading.Thread(target=table.move, args=(["1"], Move.RETRY), daemon=True)
        waiting.start()
        until(lambda: shop.execute(WAITING, shop.schema))
        table._bound_table.invalidate()
        statuses = table.extend([Extension(hold=second.hold, lease=60)])
        connection.rollback()
    waiting.join(60)

    assert statuses == [HoldStatus.HELD]


def test_a_done_if_that_reads_a_missing_file_keeps_no_row_from_being_claimed(shop: Shop, mode: str) -> None:
    table = shop.fit(**MODES[mode], done_if="(pg_stat_file(orders.source)).size > 0")
    take(table, limit=2)
    expire(shop, mode)

    claimed = ids_of(take(table, limit=ROWS))

    assert claimed == ["3", "4", "5"]
    assert job_of(table, "1").state is State.RUNNING


def test_a_lock_of_the_whole_table_is_an_outage_and_no_row_is_to_blame(
    shop: Shop, mode: str, table: PostgresTable, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    home, _ = HOMES[mode]
    take(table, limit=ROWS, lease=1)
    clock.advance(2)

    with psycopg.connect(shop.url) as connection:
        connection.execute(shop.named(f"lock table {home} in share mode").encode())
        with pytest.raises(StoreUnavailable, match="another transaction holds a lock"):
            take(table, limit=ROWS)
        connection.rollback()

    assert ids_of(take(table, limit=ROWS)) == ["1", "2", "3", "4", "5"]
    assert messages(caplog, logging.WARNING) == []


def test_rows_whose_claims_are_rejected_for_one_reason_are_logged_in_one_line(
    shop: Shop, mode: str, table: PostgresTable, caplog: pytest.LogCaptureFixture
) -> None:
    event, row = ("update", "old") if mode == "mapped" else ("insert", "new")
    denied = "raise exception using errcode = '42501', message = 'not for you'"
    reject(shop, mode, f"{row}.id <= 3", denied, event)

    claimed = ids_of(take(table, limit=ROWS))

    assert claimed == ["4", "5"]
    (told,) = messages(caplog)
    assert re.match(r"rows 1, 2, 3 of \S+ not claimed: the table rejects the write: not for you", told)


def test_a_rejected_outcome_is_reported_and_the_claim_is_left_to_the_next_request(
    shop: Shop, mode: str, table: PostgresTable
) -> None:
    (first,) = take(table)
    home, state = HOMES[mode]
    shop.execute(f"alter table {home} add constraint never_done check ({state} <> 'completed') not valid")

    settled, claimed = table.exchange([build_completion(first)], request())

    assert rejected(settled[0]).is_failed
    assert (claimed.jobs, claimed.is_cut) == ([], True)
    assert ids_of(take(table)) == ["2"]


def test_an_exchange_whose_claim_fails_for_a_row_is_repeated_with_the_same_results(
    shop: Shop, mode: str, table: PostgresTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    (first,) = take(table)
    asked = request(limit=2)
    event, row = ("update", "old") if mode == "mapped" else ("insert", "new")
    reject(shop, mode, f"{row}.id = 2", event=event)

    with monkeypatch.context() as broken:
        broken.setattr(RowIsolation, "_avoid", Mock(side_effect=StoreUnavailable("cut off")))
        with pytest.raises(StoreUnavailable, match="cut off"):
            table.exchange([build_completion(first)], asked)
    settled, claimed = table.exchange([build_completion(first)], asked)

    assert settled == [True]
    assert ids_of(claimed.jobs) == ["3"]


def test_a_claim_that_takes_too_long_tries_no_further_rows_and_says_so(
    shop: Shop, mode: str, table: PostgresTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    event, row = ("update", "old") if mode == "mapped" else ("insert", "new")
    reject(shop, mode, f"{row}.id = 1", event=event)
    monkeypatch.setattr("tenure.backends.tables.row_isolation.CLAIM_TIME", 0.0)

    claimed = [table.claim(request(limit=ROWS)) for _ in range(2)]

    assert [(ids_of(each.jobs), each.is_cut) for each in claimed] == [([], True), (["2", "3", "4", "5"], False)]


def test_a_claim_row_by_row_takes_no_more_rows_at_once_than_fit_into_a_response(shop: Shop) -> None:
    table = shop.fit(**MODES["mapped"])
    shop.execute("insert into S.orders (id) select n from generate_series(6, 30) n")
    reject(shop, "mapped", "old.id = 1")
    table._limits.claims = BatchLimit(timeout=0.0)
    table._limits.claims.most = 1

    claimed = ids_of(take(table, limit=20))

    assert claimed == [str(id) for id in range(2, 2 + MOST_CLAIM_ROUNDS - 1)]


def test_a_role_column_that_becomes_not_null_is_reported_and_fails_no_row(shop: Shop) -> None:
    table = shop.fit(**MODES["mapped"])
    taken = take(table, limit=2)
    shop.execute("update S.orders set tenure_leased_until = now()")
    shop.execute("alter table S.orders alter tenure_leased_until set not null")

    with pytest.raises(ConfigurationError, match="tenure_leased_until"):
        table.settle([build_completion(each) for each in taken])


def test_an_error_that_is_too_long_for_an_index_does_not_limit_the_claims(shop: Shop) -> None:
    table = shop.fit(where="true", columns={"state": "status", "error": "last_error"})
    shop.execute("create index on S.orders (last_error)")
    first, second = take(table, limit=2)
    error = "".join(uuid4().hex for _ in range(250))

    settled, claimed = exchange(table, [build_failure(first, error=error), build_completion(second)], request(limit=2))

    assert "index row size" in str(rejected(settled[0]).rejection)
    assert settled[1] is True
    assert ids_of(claimed.jobs) == ["3", "4"]
    assert table._limits.claims.most == LARGEST_BATCH


def test_a_row_whose_completion_is_rejected_fails_alone_with_the_message(
    shop: Shop, mode: str, table: PostgresTable
) -> None:
    taken = take(table, limit=ROWS)
    reject(shop, mode, "old.id = 1 and new.STATE = 'completed'")

    settled = table.settle([build_completion(each) for each in taken])

    assert settled[1:] == [True] * 4
    assert rejected(settled[0]).is_failed
    assert "order 1 is frozen" in str(rejected(settled[0]).rejection)
    job = job_of(table, "1")
    assert job.state is State.FAILED
    assert "the table rejected the outcome 'completed': order 1 is frozen" in job.errors[-1]


def test_a_row_whose_failure_is_rejected_too_stays_running_alone(shop: Shop, mode: str, table: PostgresTable) -> None:
    taken = take(table, limit=ROWS)
    reject(shop, mode, "old.id = 1")

    settled = table.settle([build_completion(each) for each in taken])

    assert settled[1:] == [True] * 4
    assert not rejected(settled[0]).is_failed
    assert job_of(table, "1").state is State.RUNNING


def test_an_outcome_that_no_row_can_have_now_may_be_sent_again(shop: Shop, mode: str, table: PostgresTable) -> None:
    taken = take(table, limit=2)
    reject(shop, mode, "true", shop.named("insert into S.missing values (1)"))

    settled = table.settle([build_completion(each) for each in taken])
    shop.execute("create table S.missing (id int)")
    again = table.settle([build_completion(each) for each in taken])

    assert [(rejected(each).may_retry, rejected(each).is_failed) for each in settled] == [(True, False)] * 2
    assert again == [True, True]


def test_a_rejected_settlement_does_not_keep_an_exchange_from_claiming(
    shop: Shop, mode: str, table: PostgresTable
) -> None:
    first, second = take(table, limit=2)
    reject(shop, mode, "old.id = 1 and new.STATE = 'completed'")

    settled, claimed = exchange(table, [build_completion(first), build_completion(second)], request(limit=2))

    assert rejected(settled[0]).is_failed
    assert settled[1] is True
    assert ids_of(claimed.jobs) == ["3", "4"]


def test_a_rejected_extension_costs_the_other_leases_nothing(
    shop: Shop, mode: str, table: PostgresTable, caplog: pytest.LogCaptureFixture
) -> None:
    taken = take(table, limit=ROWS)
    reject(shop, mode, "old.id = 1")
    extensions = [Extension(hold=each.hold, lease=60) for each in taken]

    first, again = table.extend(extensions), table.extend(extensions)

    assert first == again == [HoldStatus.REJECTED, *[HoldStatus.HELD] * 4]
    assert [text for text in messages(caplog) if "row 1 " in text and "not extended" in text] == messages(caplog)
    assert len(messages(caplog)) == 1


def test_a_row_whose_return_to_the_queue_is_rejected_fails_and_the_others_are_reaped(
    shop: Shop, mode: str, table: PostgresTable, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    take(table, limit=3, lease=1)
    reject(shop, mode, "old.id = 1 and new.STATE = 'queued'")
    clock.advance(2)

    reaped = table.reap()

    assert [(each.id, each.state) for each in reaped] == [("1", "failed"), ("2", "queued"), ("3", "queued")]
    assert "rejected the end of the claim: order 1 is frozen" in job_of(table, "1").errors[-1]
    assert any("row 1 failed" in text for text in messages(caplog))


def test_a_row_that_cannot_be_reaped_keeps_no_due_row_from_being_claimed(
    shop: Shop, mode: str, table: PostgresTable, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    take_one(table, lease=1)
    reject(shop, mode, "old.id = 1")
    clock.advance(2)

    claimed = [ids_of(take(table)) for _ in range(ROWS)]

    assert claimed == [["2"], ["3"], ["4"], ["5"], []]
    assert job_of(table, "1").state is State.RUNNING
    (told,) = messages(caplog)
    assert told.startswith("row 1 of ")
    assert "not reaped" in told


@pytest.mark.parametrize("key", KEYS.values(), ids=list(KEYS))
def test_a_running_row_whose_key_becomes_null_keeps_no_row_from_being_claimed(
    shop: Shop, clock: Clock, key: str | tuple[str, ...]
) -> None:
    table = open_with_nullable_key(shop, "mapped", key, clock)
    take(table, limit=2, lease=1)
    shop.execute("update S.orders set id = null where id = 1")
    clock.advance(2)

    claimed = [numbers_of(table.claim(request(limit=2)).jobs) for _ in range(3)]

    assert claimed == [[2, 3], [4, 5], []]
    assert shop.execute("select status from S.orders where id is null") == [("running",)]


@pytest.mark.parametrize("frozen", [0, 2], ids=["at once", "after a rejection"])
@pytest.mark.parametrize("worker", [None, "w1"], ids=["expired", "of a worker"])
@pytest.mark.parametrize("key", KEYS.values(), ids=list(KEYS))
def test_a_running_row_whose_key_becomes_null_takes_no_place_of_a_row_to_reap(
    shop: Shop, clock: Clock, key: str | tuple[str, ...], worker: str | None, frozen: int
) -> None:
    table = open_with_nullable_key(shop, "mapped", key, clock)
    take(table, limit=3, lease=1)
    earlier = "tenure_leased_until - interval '1 minute'"
    shop.execute(f"update S.orders set id = null, tenure_leased_until = {earlier} where id = 1")
    reject(shop, "mapped", f"old.id = {frozen} and new.STATE = 'queued'")
    clock.advance(2)

    table.reap(worker=worker, limit=2)

    states = shop.execute("select status from S.orders order by id nulls first limit 3")
    assert states == [("running",), ("failed" if frozen else "queued",), ("queued",)]


@pytest.mark.parametrize("newest_first", [False, True])
def test_pages_pass_over_rows_whose_key_is_null(shop: Shop, mode: str, clock: Clock, *, newest_first: bool) -> None:
    table = open_with_nullable_key(shop, mode, "id", clock)
    shop.execute("update S.orders set id = null where id in (1, 3)")

    found: list[int] = []
    page = table.find(Query(newest_first=newest_first, limit=1))
    while page.cursor is not None:
        found += numbers_of(page.jobs)
        page = table.find(Query(newest_first=newest_first, limit=1, cursor=page.cursor))

    assert sorted(found) == [2, 4, 5]


def test_a_dead_worker_with_a_row_that_cannot_be_reaped_loses_its_other_rows(
    shop: Shop, mode: str, table: PostgresTable
) -> None:
    take(table, limit=3)
    reject(shop, mode, "old.id = 1 and new.STATE = 'queued'")

    reaped = table.reap(worker="w1", started=["1", "2"])

    assert [(each.id, each.state) for each in reaped] == [("1", "failed"), ("2", "queued"), ("3", "queued")]
    assert [job_of(table, str(n)).attempts for n in (2, 3)] == [1, 0]


@pytest.mark.parametrize(
    ("action", "level"), [(RAISE, logging.ERROR), (IGNORE, logging.WARNING)], ids=["raises", "skips the update"]
)
def test_a_row_at_the_head_that_cannot_be_claimed_keeps_no_row_behind_it(
    shop: Shop, mode: str, table: PostgresTable, action: str, level: int, caplog: pytest.LogCaptureFixture
) -> None:
    # The first claim of a row inserts its sidecar row.
    event, row = ("update", "old") if mode == "mapped" else ("insert", "new")
    reject(shop, mode, f"{row}.id = 1", action, event)

    claimed = [ids_of(take(table)) for _ in range(ROWS)]

    assert claimed == [["2"], ["3"], ["4"], ["5"], []]
    (told,) = messages(caplog, level)
    assert re.match(r"row 1 of \S+ not claimed", told)


def test_a_batch_with_rows_that_cannot_be_claimed_is_filled_with_others(
    shop: Shop, mode: str, table: PostgresTable
) -> None:
    event, row = ("update", "old") if mode == "mapped" else ("insert", "new")
    reject(shop, mode, f"{row}.id in (1, 3)", RAISE, event)

    claimed = take(table, limit=3)

    assert ids_of(claimed) == ["2", "4", "5"]
    assert len({each.hold.token for each in claimed}) == 1


def test_a_unique_index_on_what_runs_delays_only_the_second_row_of_a_customer(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    shop.execute("create unique index on S.orders (source) where status = 'running'")
    shop.execute("update S.orders set source = id / 3")
    table = shop.fit(**MODES["mapped"])

    assert ids_of(take(table, limit=ROWS)) == ["1", "3"]
    assert all("duplicate key" in text for text in messages(caplog))


def test_a_claim_that_is_sent_again_after_a_row_was_rejected_returns_what_its_token_holds(
    shop: Shop, mode: str, table: PostgresTable
) -> None:
    event, row = ("update", "old") if mode == "mapped" else ("insert", "new")
    reject(shop, mode, f"{row}.id = 1", RAISE, event)
    asked = request(limit=2)

    first, again = table.claim(asked), table.claim(asked)

    assert ids_of(first.jobs) == ids_of(again.jobs) == ["2", "3"]
    assert table.stats().total("running") == 2


@pytest.mark.parametrize("done_if", ERRORS_OF_DONE_IF.values(), ids=list(ERRORS_OF_DONE_IF))
def test_an_expired_row_for_which_done_if_raises_fails_alone(shop: Shop, mode: str, done_if: str, clock: Clock) -> None:
    shop.execute(
        "create function S.is_done(id bigint) returns boolean language plpgsql as "
        "$$ begin if id = 1 then raise 'no such bucket'; end if; return false; end $$"
    )
    table = shop.fit(clock=clock, **MODES[mode], done_if=shop.named(done_if))
    take(table, limit=2, lease=1)
    clock.advance(2)

    claimed = take(table, limit=ROWS)

    assert ids_of(claimed) == ["2", "3", "4", "5"]
    assert job_of(table, "1").state is State.FAILED


def test_an_invalid_done_if_fails_no_expired_row(shop: Shop, mode: str, clock: Clock) -> None:
    shop.execute("create table S.invoices (order_id bigint)")
    done_if = shop.named("exists (select from S.invoices where order_id = orders.id)")
    table = shop.fit(clock=clock, **MODES[mode], done_if=done_if)
    take(table, limit=2, lease=1)
    clock.advance(2)
    shop.execute("drop table S.invoices")

    claimed = take(table, limit=ROWS)

    assert ids_of(claimed) == ["3", "4", "5"]
    assert [job_of(table, id).state for id in ("1", "2")] == [State.RUNNING] * 2


@pytest.mark.parametrize("text", ["[" * 2_000 + "]" * 2_000, '{"n": ' + "9" * 5_000 + "}"], ids=["deep", "digits"])
def test_a_value_that_python_cannot_read_is_claimed_as_text(shop: Shop, mode: str, text: str) -> None:
    shop.execute("alter table S.orders add document json default '{}'")
    shop.execute("update S.orders set document = %s where id = 2", text)
    table = shop.fit(**MODES[mode])

    taken = take(table, limit=ROWS)
    found = table.find(Query(newest_first=False)).jobs

    for jobs in ([each.job for each in taken], found):
        assert [job.payload["document"] for job in jobs] == [{}, text, {}, {}, {}]


def test_a_result_that_python_cannot_read_is_shown_as_text(shop: Shop, mode: str, table: PostgresTable) -> None:
    home, _ = HOMES[mode]
    settle(table, build_completion(take_one(table)))
    deep = "[" * 2_000 + "]" * 2_000
    shop.execute(f"update {home} set {RECORDS[mode]} = jsonb_build_object('result', %s::text) where id = 1", deep)

    assert job_of(table, "1").result == deep


@pytest.mark.parametrize("record", UNREADABLE_RECORDS.values(), ids=list(UNREADABLE_RECORDS))
def test_a_record_that_python_cannot_read_is_empty_and_costs_no_row_anything(
    shop: Shop, mode: str, table: PostgresTable, clock: Clock, record: str
) -> None:
    home, _ = HOMES[mode]
    for each in take(table, limit=ROWS, lease=1):
        settle(table, build_release(each))
    shop.execute(f"update {home} set {RECORDS[mode]} = %s where id = 2", record)
    asked = request(limit=ROWS, lease=1)

    found = table.find(Query(newest_first=False)).jobs
    outlook = table.explain("2", None, None)
    claimed = [table.claim(asked).jobs for _ in range(2)]
    clock.advance(2)
    reaped = table.reap()
    shop.execute(f"update {home} set {RECORDS[mode]} = %s where id = 2", record)
    taken = take(table, limit=ROWS)
    statuses = table.extend([Extension(hold=each.hold, lease=60) for each in taken])
    settled = table.settle([build_failure(each, final=True) for each in taken])

    ids = ["1", "2", "3", "4", "5"]
    assert [ids_of(jobs) for jobs in (found, *claimed)] == [ids] * 3
    assert found[1].history == claimed[0][1].history == ()
    assert outlook is not None
    assert outlook.job == found[1]
    assert [each.id for each in reaped] == ids_of(taken) == ids
    assert statuses == [HoldStatus.HELD] * ROWS
    assert settled == [True] * ROWS
    assert table.move(["2"], Move.RETRY)[0].moved


def test_an_error_is_cut_to_the_length_of_its_column_and_kept_whole_in_the_history(shop: Shop) -> None:
    shop.execute("alter table S.orders add last_error varchar(60)")
    table = shop.fit(columns={"state": "status", "error": "last_error"})
    first, second = take(table, limit=2)
    error = "Traceback\n" + 100 * "x" + "\nValueError: no such customer"

    settled = table.settle([build_failure(first, error, final=True), build_completion(second)])

    assert settled == [True, True]
    ((stored,),) = shop.execute("select last_error from S.orders where id = 1")
    assert len(stored) == 60
    assert stored.startswith("[… cut]\n")
    assert stored.endswith("\nValueError: no such customer")
    assert job_of(table, "1").errors == [error]


def test_errors_are_cut_to_a_column_that_was_made_shorter(shop: Shop) -> None:
    shop.execute("alter table S.orders add last_error varchar(60)")
    table = shop.fit(columns={"state": "status", "error": "last_error"})
    first, second = take(table, limit=2)
    shop.execute("alter table S.orders alter last_error type varchar(20)")

    settled = table.settle([build_failure(each, 50 * "x", final=True) for each in (first, second)])

    assert settled == [True, True]
    assert shop.execute("select distinct length(last_error) from S.orders where id <= 2") == [(20,)]


def test_a_row_whose_key_was_made_larger_is_settled(shop: Shop, mode: str) -> None:
    shop.execute("alter table S.orders alter id type integer")
    table = shop.fit(**MODES[mode])
    (first,) = take(table)
    home, _ = HOMES[mode]
    for each in {home, "S.orders"}:
        shop.execute(f"alter table {each} alter id type bigint")
    shop.execute("insert into S.orders (id, source) values (-3000000000, 'x')")

    second = take_one(table)
    settled = table.settle([build_completion(first), build_completion(second)])

    assert settled == [True, True]


@pytest.mark.parametrize(("raised", "reads"), [("raise 'frozen'", 0), ("perform 1 / 0", 1)])
def test_a_rejected_row_costs_no_new_statements(
    shop: Shop, mode: str, table: PostgresTable, monkeypatch: pytest.MonkeyPatch, raised: str, reads: int
) -> None:
    reject(shop, mode, "old.id in (1, 2) and new.STATE = 'completed'", raised)
    first, second = take(table, limit=2)
    table.settle([build_completion(first)])
    read, build = Mock(wraps=read_catalogue), Mock(wraps=build_statement)
    monkeypatch.setattr(bound_table, "read_catalogue", read)
    monkeypatch.setattr(sql_templates, "build_statement", build)

    (settled,) = table.settle([build_completion(second)])

    assert rejected(settled).is_failed
    assert read.call_count == reads
    assert build.call_count == 0


def test_a_lease_is_rounded_up_in_a_column_of_whole_seconds(shop: Shop, clock: Clock) -> None:
    shop.execute("alter table S.orders add lease_ends timestamp(0)")
    table = shop.fit(clock=clock, columns={"state": "status", "leased_until": "lease_ends"})
    for micros in (0, 1, 400_000, 499_999, 500_000, 999_999):
        clock.now = clock.now.replace(microsecond=micros)
        taken = take_one(table, lease=2)
        promised = clock.now + timedelta(seconds=2)
        claimed_until = lease_end_of(table, taken.id)
        extend(table, taken.hold, 2)
        extended_until = lease_end_of(table, taken.id)
        settle(table, build_failure(taken, final=True))
        shop.execute("update S.orders set status = 'queued'")

        assert promised <= claimed_until == extended_until < promised + timedelta(seconds=1)


def test_an_extended_lease_is_rounded_up_in_a_column_of_whole_seconds(shop: Shop, clock: Clock) -> None:
    shop.execute("alter table S.orders add lease_ends timestamp(0)")
    table = shop.fit(clock=clock, columns={"state": "status", "leased_until": "lease_ends"})
    clock.now = clock.now.replace(microsecond=0)
    taken = take_one(table, lease=2)
    clock.advance(1.4)

    extend(table, taken.hold, 2)

    assert clock.now + timedelta(seconds=2) <= lease_end_of(table, taken.id)


def test_only_the_selected_columns_and_the_key_are_read(shop: Shop, mode: str) -> None:
    shop.execute("alter table S.orders add content bytea")
    table = shop.fit(**MODES[mode], select=["source"])

    assert take_one(table).job.payload == {"id": 1, "source": "x"}
    assert job_of(table, "2").payload == {"id": 2, "source": "x"}


def test_a_selected_column_that_does_not_exist_is_rejected(shop: Shop, mode: str) -> None:
    table = shop.open(**MODES[mode], select="sourc")
    tables = "select table_name, column_name from information_schema.columns where table_schema = %s order by 1, 2"
    before = shop.execute(tables, shop.schema)

    for action in (table.stats, table.migrate):
        with pytest.raises(ConfigurationError, match=r"select: .* has no column 'sourc'; did you mean 'source'"):
            action()

    assert shop.execute(tables, shop.schema) == before


def test_rows_that_nobody_reaped_for_minutes_are_stuck(table: PostgresTable, clock: Clock) -> None:
    take(table, limit=2, lease=1)
    clock.advance(60)
    soon = table.stats().total("stuck")
    clock.advance(70)

    assert (soon, table.stats().total("stuck")) == (0, 2)


def test_the_doctor_names_rows_that_nobody_reaped_for_minutes(shop: Shop, mode: str) -> None:
    home, _ = HOMES[mode]
    lease = "leased_until" if mode == "sidecar" else "tenure_leased_until"
    table = shop.fit(**MODES[mode])
    take(table, limit=2)
    shop.execute(f"update {home} set {lease} = now() - interval '121 seconds' where id = 2")

    told = [each.text for each in table.check() if "expired more than" in each.text]

    assert len(told) == 1
    assert told[0].startswith("1 row (2) is running with a lease that expired more than 2 minutes ago")


def test_a_wait_is_not_ended_by_rows_that_cannot_be_claimed(shop: Shop, mode: str, table: PostgresTable) -> None:
    event, row = ("update", "old") if mode == "mapped" else ("insert", "new")
    reject(shop, mode, f"{row}.id > 0", RAISE, event)
    take(table, limit=ROWS)

    started_at = time.monotonic()
    table.wait(None, None, 0.3)

    assert time.monotonic() - started_at >= 0.3


def test_a_claim_that_no_row_lets_through_raises_if_the_statement_is_invalid(
    shop: Shop, mode: str, table: PostgresTable, caplog: pytest.LogCaptureFixture
) -> None:
    event = "update" if mode == "mapped" else "insert"
    reject(shop, mode, "true", "insert into S.missing values (1)".replace("S.", f"{shop.schema}."), event)

    with pytest.raises(ConfigurationError, match="missing"):
        take(table, limit=3)

    named = [match[1] for told in messages(caplog) if (match := re.match(r"rows ([0-9, ]+) of", told))]
    assert named == ["1, 2, 3", "4, 5"]


def test_rows_are_claimed_although_the_statement_is_invalid_for_another(
    shop: Shop, mode: str, table: PostgresTable
) -> None:
    event, row = ("update", "old") if mode == "mapped" else ("insert", "new")
    reject(shop, mode, f"{row}.id = 1", "insert into S.missing values (1)", event)

    assert ids_of(take(table, limit=ROWS)) == ["2", "3", "4", "5"]


def test_a_claim_of_a_row_that_was_deleted_is_lost_not_busy(shop: Shop, table: PostgresTable) -> None:
    first, second = take(table, limit=2)
    shop.execute("delete from S.orders where id = 1")

    assert table.settle([build_completion(first), build_completion(second)]) == [False, True]
    assert table.extend([Extension(hold=first.hold, lease=60)]) == [HoldStatus.LOST]


def test_missing_rights_raise_and_reject_no_row(shop: Shop) -> None:
    taken = take_one(shop.fit(**MODES["mapped"]))
    rights = "grant usage on schema S to R; grant select on S.orders to R"

    with as_role(Place(shop.url, shop.schema), rights) as url:
        table = shop.open(url=url, **MODES["mapped"])
        (settled,) = table.settle([build_completion(taken)])
        with pytest.raises(ConfigurationError, match="lacks rights"):
            table.claim(request())

    assert settled == Unsettled("permission denied for table orders", may_retry=True)
    assert job_of(shop.open(**MODES["mapped"]), taken.id).state is State.RUNNING


@pytest.mark.parametrize("function", ["claim_orders", "requeue_expired_orders"])
def test_a_function_raises_missing_rights(shop: Shop, function: str) -> None:
    shop.fit(**MODES["mapped"]).migrate(functions=True)
    rights = "grant usage on schema S to R; grant select on S.orders to R"

    with (
        as_role(Place(shop.url, shop.schema), rights) as url,
        psycopg.connect(url) as connection,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        connection.execute(shop.named(f"select S.{function}(1)").encode())


def test_a_claim_whose_token_holds_rows_returns_them_although_a_reap_is_rejected(
    shop: Shop, mode: str, table: PostgresTable, clock: Clock
) -> None:
    asked = request(limit=ROWS - 1, lease=60)
    take_one(table, lease=1)
    claimed = ids_of(table.claim(asked).jobs)
    reject(shop, mode, "old.id = 1")
    clock.advance(2)

    again = ids_of(table.claim(asked).jobs)

    assert again == claimed == ["2", "3", "4", "5"]


@pytest.mark.parametrize("code", ["P0001", "0A000", "42501", "42P01", "55000", "XX001"])
def test_a_row_whose_claim_raises_any_error_keeps_no_row_behind_it(
    shop: Shop, mode: str, table: PostgresTable, code: str
) -> None:
    event, row = ("update", "old") if mode == "mapped" else ("insert", "new")
    reject(shop, mode, f"{row}.id = 1", f"raise exception using errcode = '{code}', message = 'damaged'", event)

    claimed = [ids_of(take(table)) for _ in range(ROWS - 1)]

    assert claimed == [["2"], ["3"], ["4"], ["5"]]


def test_a_locked_row_and_a_rejecting_row_at_the_head_keep_no_row_behind_them(
    shop: Shop, mode: str, table: PostgresTable
) -> None:
    event, row = ("update", "old") if mode == "mapped" else ("insert", "new")
    reject(shop, mode, f"{row}.id = 2", RAISE, event)

    with psycopg.connect(shop.url) as connection:
        connection.execute(shop.named("select from S.orders where id = 1 for update").encode())
        claimed = [ids_of(take(table)) for _ in range(3)]

    assert claimed == [["3"], ["4"], ["5"]]


def test_a_claim_does_not_wait_for_a_locked_row_of_the_sidecar_and_logs_no_error(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    table = shop.fit(**MODES["sidecar"])
    settle(table, build_release(take_one(table)))

    with locked(shop, "sidecar", 1):
        claimed = [ids_of(take(table)) for _ in range(2)]
        rest = ids_of(take(table, limit=ROWS))

    assert [*claimed, rest] == [["2"], ["3"], ["4", "5"]]
    assert messages(caplog) == []


@pytest.mark.parametrize("was_claimed", [True, False], ids=["claimed before", "new"])
def test_a_row_that_another_claim_took_after_the_snapshot_is_not_claimed_again(
    shop: Shop,
    mode: str,
    was_claimed: bool,  # noqa: FBT001
) -> None:
    table = shop.fit(**MODES[mode])
    if was_claimed:
        table.settle([build_release(each) for each in take(table, limit=ROWS)])
    shop.execute(
        "create function S.gate() returns boolean language plpgsql volatile as "
        "$$ begin perform pg_advisory_xact_lock_shared(4711); return true; end $$"
    )
    slow = shop.open(**{**MODES[mode], "where": shop.named("S.gate()")})
    claimed: list[str] = []

    with psycopg.connect(shop.url) as connection:
        connection.execute("select pg_advisory_xact_lock(4711)")
        thread = threading.Thread(target=lambda: claimed.extend(ids_of(take(slow, limit=3))), daemon=True)
        thread.start()
        waits = "select 1 from pg_locks where locktype = 'advisory' and objid = 4711 and not granted"
        until(lambda: shop.execute(waits))
        taken = ids_of(take(table, limit=2))
    thread.join(60)

    assert taken == ["1", "2"]
    assert claimed == ["3", "4", "5"]


def test_a_reap_that_a_trigger_skips_is_not_reported_and_is_logged_once(
    shop: Shop, mode: str, table: PostgresTable, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    take(table, limit=2, lease=1)
    reject(shop, mode, "old.id = 1", IGNORE)
    clock.advance(2)

    reaped = [each.id for _ in range(2) for each in table.reap()]
    claimed = ids_of(take(table, limit=ROWS))

    assert reaped == ["2"]
    assert claimed == ["2", "3", "4", "5"]
    (told,) = messages(caplog)
    assert re.match(r"row 1 of \S+ not reaped", told)


def test_a_buffered_row_of_a_dead_worker_is_released_although_done_if_raises(shop: Shop, mode: str) -> None:
    table = shop.fit(**MODES[mode], done_if="1 / (id - 1) > 99")
    take(table, limit=2)

    reaped = table.reap(worker="w1", started=["2"])

    assert [(each.id, each.state) for each in reaped] == [("1", "queued"), ("2", "queued")]


def test_a_lookup_by_ids_is_whole_although_responses_are_limited(table: PostgresTable) -> None:
    table._limits.reaps.most = 1

    found = table.find(Query(ids=("1", "2", "3"), newest_first=False))

    assert ids_of(found.jobs) == ["1", "2", "3"]


@pytest.mark.parametrize(("action", "reason"), TOLD.values(), ids=list(TOLD))
def test_a_function_reaps_rows_behind_one_that_cannot_be_reaped_and_names_it(
    shop: Shop, mode: str, action: str, reason: str
) -> None:
    table = shop.fit(**MODES[mode])
    table.migrate(functions=True)
    take(table, limit=ROWS)
    expire(shop, mode)
    reject(shop, mode, "old.id = 1", action)

    reaped, told = call(shop, "select S.requeue_expired_orders(1)")
    rest = shop.execute("select S.requeue_expired_orders(5)")
    claimed = shop.execute("select id from S.claim_orders(5)")

    assert (reaped, rest) == ([(1,)], [(ROWS - 2,)])
    assert told == [f'row ["1"] not reaped: {reason}']
    assert claimed == [(2,), (3,), (4,), (5,)]


@pytest.mark.parametrize("code", ERROR_CODES)
def test_a_function_claims_rows_although_another_row_cannot_be_reaped(shop: Shop, mode: str, code: str) -> None:
    table = shop.fit(**MODES[mode])
    table.migrate(functions=True)
    take_one(table)
    expire(shop, mode, "id = 1")
    reject(shop, mode, "old.id = 1", f"raise exception using errcode = '{code}', message = 'damaged'")

    claimed = [shop.execute("select id from S.claim_orders(2)") for _ in range(3)]

    assert claimed == [[(2,), (3,)], [(4,), (5,)], []]


@pytest.mark.parametrize("code", ERROR_CODES)
def test_a_function_claims_rows_behind_one_whose_claim_raises_any_error(shop: Shop, mode: str, code: str) -> None:
    shop.fit(**MODES[mode]).migrate(functions=True)
    event, row = ("update", "old") if mode == "mapped" else ("insert", "new")
    reject(shop, mode, f"{row}.id = 1", f"raise exception using errcode = '{code}', message = 'damaged'", event)

    claimed = [shop.execute("select id from S.claim_orders(2)") for _ in range(2)]

    assert claimed == [[(2,), (3,)], [(4,), (5,)]]


def test_a_function_raises_an_error_that_may_concern_all_rows_if_it_claims_nothing(shop: Shop, mode: str) -> None:
    shop.fit(**MODES[mode]).migrate(functions=True)
    event = "update" if mode == "mapped" else "insert"
    reject(shop, mode, "true", "insert into missing values (1)", event)

    with pytest.raises(psycopg.errors.UndefinedTable, match="missing"):
        shop.execute("select id from S.claim_orders(2)")


def test_a_function_that_reaps_rows_raises_no_error_that_may_concern_all_rows(shop: Shop, mode: str) -> None:
    table = shop.fit(**MODES[mode], done_if="true")
    table.migrate(functions=True)
    take_one(table)
    expire(shop, mode)
    event, row = ("update", "old") if mode == "mapped" else ("insert", "new")
    reject(shop, mode, f"{row}.id > 1", "insert into missing values (1)", event)

    claimed = shop.execute("select id from S.claim_orders(2)")

    assert claimed == []
    assert job_of(table, "1").state is State.COMPLETED


@pytest.mark.parametrize("code", ["08001", "28000", "3D000", "58P01", "F0000"])
def test_a_function_claims_rows_behind_one_that_needs_another_server_or_a_file(
    shop: Shop, mode: str, code: str
) -> None:
    shop.fit(**MODES[mode]).migrate(functions=True)
    event, row = ("update", "old") if mode == "mapped" else ("insert", "new")
    reject(shop, mode, f"{row}.id = 1", f"raise exception using errcode = '{code}', message = 'down'", event)

    assert shop.execute("select id from S.claim_orders(2)") == [(2,), (3,)]


def test_a_function_raises_an_error_that_may_concern_all_rows_if_it_reaps_nothing(shop: Shop, mode: str) -> None:
    table = shop.fit(**MODES[mode])
    table.migrate(functions=True)
    take(table, limit=2)
    expire(shop, mode)
    reject(shop, mode, "true", "insert into missing values (1)")

    with pytest.raises(psycopg.errors.UndefinedTable, match="missing"):
        shop.execute("select S.requeue_expired_orders()")


@pytest.mark.parametrize("action", [RAISE, IGNORE], ids=["rejected", "skipped"])
@pytest.mark.parametrize("limit", [1, 2])
def test_a_function_claims_rows_behind_many_that_cannot_be_claimed(
    shop: Shop, mode: str, action: str, limit: int
) -> None:
    shop.fit(**MODES[mode]).migrate(functions=True)
    shop.execute("insert into S.orders (id, source) select n, 'x' from generate_series(-20, 0) n")
    event, row = ("update", "old") if mode == "mapped" else ("insert", "new")
    reject(shop, mode, f"{row}.id <= 1", action, event)

    claimed = [shop.execute(f"select id from S.claim_orders({limit})") for _ in range(2)]

    assert claimed == [[(n,) for n in range(first, first + limit)] for first in (2, 2 + limit)]


@pytest.mark.parametrize(("action", "reason"), TOLD.values(), ids=list(TOLD))
def test_a_function_names_the_row_that_cannot_be_claimed_and_does_not_lock_the_others(
    shop: Shop, mode: str, action: str, reason: str
) -> None:
    shop.fit(**MODES[mode]).migrate(functions=True)
    event, row = ("update", "old") if mode == "mapped" else ("insert", "new")
    reject(shop, mode, f"{row}.id = 1", action, event)
    told: list[str | None] = []

    with psycopg.connect(shop.url) as connection:
        connection.add_notice_handler(lambda notice: told.append(notice.message_primary))
        first = connection.execute(shop.named("select id from S.claim_orders(1)").encode()).fetchall()
        meanwhile = shop.execute("select id from S.claim_orders(2)")

    assert (first, meanwhile) == ([(2,)], [(3,), (4,)])
    assert told == [f'row ["1"] not claimed: {reason}']


def test_a_function_claims_a_row_behind_a_rejecting_row_and_more_locked_rows_than_it_tries(
    shop: Shop, mode: str
) -> None:
    shop.fit(**MODES[mode]).migrate(functions=True)
    shop.execute(f"insert into S.orders (id, source) select n, 'x' from generate_series({ROWS + 1}, {SWEEP + 3}) n")
    event, row = ("update", "old") if mode == "mapped" else ("insert", "new")
    reject(shop, mode, f"{row}.id = 1", event=event)

    with psycopg.connect(shop.url) as connection:
        locks = f"select from S.orders where id between 2 and {SWEEP + 2} for update"
        connection.execute(shop.named(locks).encode())
        claimed, told = call(shop, "select id from S.claim_orders(1)")

    assert claimed == [(SWEEP + 3,)]
    assert told == ['row ["1"] not claimed: order 1 is frozen']


def test_a_function_tries_a_limited_number_of_rows(shop: Shop, mode: str) -> None:
    shop.fit(**MODES[mode]).migrate(functions=True)
    shop.execute(f"insert into S.orders (id, source) select n, 'x' from generate_series({ROWS + 1}, {SWEEP + 3}) n")
    reject(shop, mode, "true", event="update" if mode == "mapped" else "insert")

    claimed, told = call(shop, "select id from S.claim_orders(2)")

    assert (claimed, len(told)) == ([], SWEEP)


def test_a_function_claims_rows_behind_one_that_a_deferred_constraint_rejects_if_constraints_are_immediate(
    shop: Shop, mode: str
) -> None:
    shop.fit(**MODES[mode]).migrate(functions=True)
    home, _ = HOMES[mode]
    shop.execute(
        "create function S.reject() returns trigger language plpgsql as "
        f"$$ begin if new.id = 1 then {RAISE}; end if; return null; end $$"
    )
    shop.execute(
        f"create constraint trigger reject after insert or update on {home} deferrable initially deferred "
        "for each row execute function S.reject()"
    )

    with psycopg.connect(shop.url) as connection:
        connection.execute("set constraints all immediate")
        claimed = connection.execute(shop.named("select id from S.claim_orders(2)").encode()).fetchall()

    assert claimed == [(2,), (3,)]


def test_a_function_that_the_server_aborts_does_not_try_again(shop: Shop, mode: str) -> None:
    shop.fit(**MODES[mode]).migrate(functions=True)
    shop.execute("create sequence S.tries")
    aborts = "raise exception using errcode = 'deadlock_detected'"
    reject(shop, mode, shop.named("nextval('S.tries') = 1"), aborts, "update" if mode == "mapped" else "insert")

    with pytest.raises(psycopg.errors.DeadlockDetected):
        shop.execute("select id from S.claim_orders(1)")

    assert number_of_tries(shop) == 1


@pytest.mark.parametrize("is_expired", [False, True], ids=["claim", "reap"])
@pytest.mark.parametrize("frozen", [0, 1], ids=["first", "behind a row that is rejected"])
def test_a_function_raises_a_serialization_failure(shop: Shop, mode: str, frozen: int, *, is_expired: bool) -> None:
    table = shop.fit(**MODES[mode])
    table.migrate(functions=True)
    home, _ = HOMES[mode]
    lease = LEASES[mode]
    taken = take(table, limit=ROWS)
    table.settle([] if is_expired else [build_release(each) for each in taken])
    shop.execute(f"update {home} set {lease} = {lease} - interval '1 day'")
    reject(shop, mode, f"old.id = {frozen}")

    with psycopg.connect(shop.url) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.execute(shop.named("select from S.orders").encode())
        shop.execute(f"update {home} set {lease} = {lease} - interval '1 day' where id > {frozen}")
        with pytest.raises(psycopg.errors.SerializationFailure):
            connection.execute(shop.named("select id from S.claim_orders(1)").encode())


def test_a_row_that_cannot_be_claimed_is_not_tried_again_at_once(
    shop: Shop, mode: str, table: PostgresTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenure.backends.tables.avoided_rows.SHORTEST_DELAY", 60.0)
    shop.execute("create sequence S.tries")
    event, row = ("update", "old") if mode == "mapped" else ("insert", "new")
    reject(shop, mode, f"{row}.id = 1", COUNT_AND_RAISE, event)
    take(table)
    before = number_of_tries(shop)

    take(table)

    assert number_of_tries(shop) == before


def test_a_row_that_cannot_be_reaped_is_not_tried_again_at_once(
    shop: Shop, mode: str, table: PostgresTable, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenure.backends.tables.avoided_rows.SHORTEST_DELAY", 60.0)
    shop.execute("create sequence S.tries")
    take_one(table, lease=1)
    reject(shop, mode, "old.id = 1", COUNT_AND_RAISE)
    clock.advance(2)
    table.reap()
    before = number_of_tries(shop)

    table.reap()
    after_a_reap = number_of_tries(shop)
    take(table)

    assert (after_a_reap, number_of_tries(shop)) == (before, before)


def test_a_claim_does_not_try_again_at_once_to_reap_a_row_whose_reap_a_trigger_skips(
    shop: Shop, mode: str, table: PostgresTable, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenure.backends.tables.avoided_rows.SHORTEST_DELAY", 60.0)
    shop.execute("create sequence S.tries")
    take_one(table, lease=1)
    reject(shop, mode, "old.id = 1", f"perform nextval('S.tries'); {IGNORE}")
    clock.advance(2)
    take(table)
    before = number_of_tries(shop)

    take(table)

    assert number_of_tries(shop) == before


def test_a_row_that_cannot_be_reaped_does_not_count_towards_the_limit_of_a_reap(
    shop: Shop, mode: str, table: PostgresTable, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenure.backends.tables.avoided_rows.SHORTEST_DELAY", 60.0)
    take(table, limit=3, lease=1)
    reject(shop, mode, "old.id = 1 or (old.id = 2 and new.STATE = 'queued')")
    clock.advance(2)

    reaped = [[each.id for each in table.reap(limit=1)] for _ in range(3)]

    assert reaped == [["2"], ["3"], []]


def test_a_row_whose_claim_a_trigger_undoes_is_not_claimed(shop: Shop) -> None:
    table = shop.fit(**MODES["mapped"])
    reject(shop, "mapped", "old.id = 1", "new.status := 'queued'")

    claimed = [ids_of(take(table)) for _ in range(2)]

    assert claimed == [["2"], ["3"]]


def test_a_row_that_a_dead_worker_had_not_started_fails_with_the_reason_if_its_release_is_rejected(
    shop: Shop, mode: str, table: PostgresTable
) -> None:
    take(table, limit=2)
    reject(shop, mode, "old.id = 1 and new.STATE = 'queued'")

    table.reap(worker="w1", started=["2"])

    assert "rejected the end of the claim: order 1 is frozen" in job_of(table, "1").errors[-1]


def test_operations_that_wait_for_locks_do_not_keep_the_leases_of_rows_from_being_extended(shop: Shop) -> None:
    url = url_of(shop, f"connections=1&timeout=20&application_name={shop.schema}")
    table = shop.fit(url=url, on_retry={"source": "again"}, **MODES["sidecar"])
    first, second = take(table, limit=2)
    settle(table, build_failure(first, final=True))

    with psycopg.connect(shop.url) as connection:
        connection.execute(shop.named("select from S.orders where id = 1 for update").encode())
        waiting = threading.Thread(target=table.move, args=(["1"], Move.RETRY), daemon=True)
        waiting.start()
        until(lambda: shop.execute(WAITING, shop.schema))
        statuses = table.extend([Extension(hold=second.hold, lease=60)])
        connection.rollback()
    waiting.join(60)

    assert statuses == [HoldStatus.HELD]


REQUESTS: dict[str, Callable[[PostgresTable], list[str]]] = {
    "claim": lambda table: ids_of(table.claim(request(limit=4)).jobs),
    "find": lambda table: ids_of(table.find(Query(limit=4, newest_first=False)).jobs),
}


@pytest.mark.parametrize("send", REQUESTS.values(), ids=list(REQUESTS))
def test_after_a_request_that_took_too_long_the_next_one_gets_half_of_the_rows(
    shop: Shop, mode: str, send: Callable[[PostgresTable], list[str]]
) -> None:
    table = shop.fit(url=url_of(shop, "timeout=0.5"), **MODES[mode])
    table.stats()

    with psycopg.connect(shop.url) as connection, pytest.raises(StoreUnavailable):
        connection.execute(shop.named("lock table S.orders in access exclusive mode").encode())
        send(table)

    assert send(table) == ["1", "2"]


def test_a_transaction_that_updates_its_own_row_costs_no_other_row_its_lease(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    shop.fit(**MODES["mapped"])

    with (
        tenure.Table(shop.url, "orders", schema=shop.schema, lease=2, **MODES["mapped"]) as orders,
        orders.claim(limit=2) as claims,
    ):
        first, second = claims
        with suppress(tenure.ClaimLost), first.transaction() as connection:
            connection.execute(shop.named("update S.orders set source = 'y' where id = 1"))
            until(lambda: first.is_lost)
        is_second_lost = second.is_lost
        second.complete()

    assert not is_second_lost
    assert any(
        "lease of job 1 not extended: another transaction has locked the job" in text for text in caplog.messages
    )
    assert shop.execute("select status from S.orders where id = 2") == [("completed",)]
