"""The selection, order and representation of claimed rows."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import psycopg
import pytest

from tenure.core.job import State
from tenure.core.operations import HoldStatus, Move, Query
from tenure.errors import ConfigurationError
from tenure.testing import Clock
from tenure.testing.conformance.building import (
    build_completion,
    build_failure,
    build_release,
    extend,
    ids_of,
    job_of,
    request,
    settle,
    take,
    take_one,
)
from tests.servers.postgres import Server
from tests.tables.postgres_shop import ORDERS, Shop, new_shop, shown

STATUS: dict[str, Any] = {"columns": {"state": "status"}}
BOTH = pytest.mark.parametrize("mode", [STATUS, {"sidecar": True}], ids=["mapped", "sidecar"])


@pytest.fixture
def shop(postgres: Server) -> Iterator[Shop]:
    with new_shop(postgres) as shop:
        shop.execute(ORDERS)
        yield shop


def given(shop: Shop, *rows: tuple[int, str | None]) -> None:
    for id, source in rows:
        shop.execute("insert into S.orders (id, source) values (%s, %s)", id, source)


@BOTH
def test_only_the_rows_that_the_condition_chooses_are_claimed_and_shown(shop: Shop, mode: dict[str, Any]) -> None:
    given(shop, (1, "shop"), (2, "scraper"), (3, None), (4, "it's"))
    table = shop.fit(where="source = any (:sources)", params={"sources": ["scraper", "it's"]}, **mode)

    taken = take(table, limit=9)

    assert ids_of(taken) == ["2", "4"]
    assert shown(table) == [("2", "running"), ("4", "running")]
    assert table.stats().total("running") == 2
    assert [each.moved for each in table.move(["1", "3"], Move.CANCEL)] == [False, False]
    assert [found.matches_where for id in "1234" if (found := table.explain(id, None, None))] == [
        False,
        True,
        False,
        True,
    ]


@BOTH
def test_a_row_that_runs_is_a_job_whatever_the_condition_says_of_it_now(shop: Shop, mode: dict[str, Any]) -> None:
    given(shop, (1, "scraper"))
    table = shop.fit(where="source = 'scraper'", **mode)
    taken = take_one(table)
    shop.execute("update S.orders set source = 'other'")

    before = shown(table)
    landed = settle(table, build_release(taken))

    assert before == [("1", "running")]
    assert table.stats().total("due") == 0
    assert landed
    assert take(table) == []


PARAMS: list[tuple[str, Any]] = [
    ("'ab' = :value", "ab"),
    ("'' = :value", ""),
    ("2::smallint = :value", 2),
    ("0.1::double precision = :value", 0.1),
    ("true = :value", True),
    (":value::text is null", None),
    ("timestamptz '2026-01-01 00:00:00.000001Z' = :value", datetime(2026, 1, 1, 0, 0, 0, 1, tzinfo=UTC)),
    ("date '2026-01-02' = :value", date(2026, 1, 2)),
    ("interval '1 day 00:00:01' = :value", timedelta(days=1, seconds=1)),
    ("12345678901234567890.5 = :value", Decimal("12345678901234567890.5")),
    ("'00000000-0000-0000-0000-000000000007'::uuid = :value", UUID(int=7)),
    ("'\\x00ff'::bytea = :value", b"\x00\xff"),
    ("array[1, null, 3] = :value", [1, None, 3]),
    ("array['a\"', 'b\\', 'null', ''] = :value::text[]", ['a"', "b\\", "null", ""]),
    ("array['\\x01'::bytea] = :value", [b"\x01"]),
    ("id = any (:value)", (1, 2)),
]


@pytest.mark.parametrize(("condition", "value"), PARAMS, ids=[condition for condition, _ in PARAMS])
def test_a_value_of_the_condition_reaches_the_server_as_it_is(shop: Shop, condition: str, value: object) -> None:
    given(shop, (1, None))
    table = shop.fit(where=condition, params={"value": value}, **STATUS)

    assert ids_of(take(table)) == ["1"]


def test_a_value_that_cannot_be_passed_is_refused_by_its_name(shop: Shop) -> None:
    with pytest.raises(ConfigurationError, match="value"):
        shop.open(where="source = :value", params={"value": object()}, **STATUS)


def test_a_condition_that_the_server_does_not_understand_is_told(shop: Shop) -> None:
    table = shop.fit(where="sourc = 'x'", **STATUS)

    with pytest.raises(ConfigurationError, match=r'column "sourc" does not exist.*check where'):
        take(table)


VALUES: list[tuple[str, str, Any]] = [
    ("integer", "5", 5),
    ("boolean", "true", True),
    ("boolean", "false", False),
    ("numeric", "'1.50'", Decimal("1.50")),
    ("double precision", "0.1", 0.1),
    ("timestamptz", "'2026-01-01T12:00:00.5+02'", datetime(2026, 1, 1, 10, 0, 0, 500_000, tzinfo=UTC)),
    ("timestamp", "'2026-01-01T12:00'", datetime(2026, 1, 1, 12)),  # noqa: DTZ001
    ("timestamptz", "'infinity'", "infinity"),
    ("date", "'2026-02-01'", date(2026, 2, 1)),
    ("time", "'10:20'", time(10, 20)),
    ("interval", "'1 mon 2 days 03:00'", timedelta(days=32, hours=3)),
    ("uuid", f"'{UUID(int=7)}'", UUID(int=7)),
    ("bytea", "'\\x00ff'", b"\x00\xff"),
    ("char(4)", "'ab'", "ab  "),
    ("text[]", "array['a,', null, 'ä']", ["a,", None, "ä"]),
    ("integer[]", "'{{1,2},{3,4}}'", [[1, 2], [3, 4]]),
    ("boolean[]", "'{t,f}'", [True, False]),
    ("jsonb", """'{"a": [1, null]}'""", {"a": [1, None]}),
    ("json", "'null'", None),
    ("S.mood", "'glad'", "glad"),
    ("S.price", "12", 12),
    ("text", "null", None),
]


def test_a_row_is_shown_as_the_driver_gives_it(shop: Shop) -> None:
    shop.execute("create type S.mood as enum ('glad', 'sad'); create domain S.price as integer check (value > 0)")
    names = [f"c{number}" for number, _ in enumerate(VALUES)]
    for name, (kind, value, _) in zip(names, VALUES, strict=True):
        shop.execute(f"alter table S.orders add column {name} {kind} default {value}")
    given(shop, (1, "x"))
    table = shop.fit(**STATUS)

    row = take_one(table).job.payload

    assert [row[name] for name in names] == [expected for _, _, expected in VALUES]
    assert [type(row[name]) for name in names] == [type(expected) for _, _, expected in VALUES]
    assert list(row) == ["id", "source", "status", *names]


def test_a_table_of_more_columns_than_a_function_has_arguments_is_shown(shop: Shop) -> None:
    columns = ", ".join(f"add column c{number} integer default {number}" for number in range(300))
    shop.execute(f"alter table S.orders {columns}")
    given(shop, (1, "x"))
    table = shop.fit(**STATUS)

    assert take_one(table).job.payload["c299"] == 299


def test_rows_are_claimed_by_priority_then_by_the_users_order_then_by_key_with_missing_values_last(
    shop: Shop,
) -> None:
    shop.execute("alter table S.orders add column urgency smallint, add column paid numeric")
    rows = [(1, None, 5), (2, 1, None), (3, 1, 9), (4, 1, 9), (5, 7, None), (6, 7, 1), (7, None, None)]
    for row in rows:
        shop.execute("insert into S.orders (id, urgency, paid) values (%s, %s, %s)", *row)
    table = shop.fit(columns={"state": "status", "priority": "urgency"}, order_by="-paid")

    ahead = {id: standing.ahead for id in "1234567" if (standing := table.explain(id, None, None))}
    taken = [*take(table, limit=3), *take(table, limit=9)]

    assert ids_of(taken) == ["6", "5", "3", "4", "2", "1", "7"]
    assert [ahead[id] for id in ids_of(taken)] == [0, 1, 2, 3, 4, 5, 6]


@BOTH
def test_pages_follow_the_order_in_both_directions_also_where_values_are_missing(
    shop: Shop, mode: dict[str, Any]
) -> None:
    shop.execute("alter table S.orders add column paid numeric, add column seen timestamptz")
    for id in range(1, 13):
        paid, seen = None if id % 3 == 0 else id % 2, None if id % 4 == 0 else datetime(2026, 1, id % 2 + 1, tzinfo=UTC)
        shop.execute("insert into S.orders (id, paid, seen) values (%s, %s, %s)", id, paid, seen)
    table = shop.fit(where="true", order_by=["paid desc", "seen"], **mode)
    query = "select id::text as shown from S.orders order by paid desc nulls last, seen asc nulls last, id"
    expected = [id for (id,) in shop.execute(query)]

    for is_newest_first in (False, True):
        found, cursor = list[str](), None
        while True:
            page = table.find(Query(limit=2, newest_first=is_newest_first, cursor=cursor))
            found += ids_of(page.jobs)
            if (cursor := page.cursor) is None:
                break
        assert found == (expected[::-1] if is_newest_first else expected)


@BOTH
@pytest.mark.parametrize(("order_by", "expected"), [("id desc", "4321"), ("id", "1234"), ("paid, -id", "3142")])
def test_the_key_can_be_part_of_the_users_order(shop: Shop, mode: dict[str, Any], order_by: str, expected: str) -> None:
    shop.execute("alter table S.orders add column paid integer")
    for id in (1, 2, 3, 4):
        shop.execute("insert into S.orders (id, paid) values (%s, %s)", id, (id + 1) % 2)
    table = shop.fit(where="true", order_by=order_by, **mode)

    shown = [job.id for job in table.find(Query(newest_first=False, limit=2)).jobs]
    taken = ids_of(take(table, limit=9))

    assert "".join(taken) == expected
    assert "".join(shown) == expected[:2]


@pytest.mark.parametrize("cursor", ["x", "bnVsbA==", "WyJhIl0=", "WyIxIiwiMiJd", "W10=", "\ud800"])
def test_a_cursor_that_no_page_gave_is_refused(shop: Shop, cursor: str) -> None:
    table = shop.fit(**STATUS)

    with pytest.raises(ConfigurationError, match="invalid cursor"):
        table.find(Query(cursor=cursor))


@BOTH
def test_what_is_asked_for_of_another_queue_or_type_is_not_here(shop: Shop, mode: dict[str, Any]) -> None:
    given(shop, (1, "x"))
    table = shop.fit(where="true", **mode)

    assert table.claim(request(types=("other",))).jobs == []
    assert table.exchange([], request(queues=("other",)))[1].jobs == []
    assert table.find(Query(queues=("other",))).jobs == []
    assert table.find(Query(key="k")).jobs == []
    assert ids_of(table.claim(request(queues=("orders",), types=("orders", "other"))).jobs) == ["1"]


@BOTH
def test_a_row_that_backs_off_holds_nobody_up_and_keeps_its_place(
    shop: Shop, clock: Clock, mode: dict[str, Any]
) -> None:
    given(shop, (1, "a"), (2, "b"), (3, "c"))
    table = shop.fit(where="true", clock=clock, **mode)
    settle(table, build_failure(take_one(table)))

    meanwhile = take_one(table)
    settle(table, build_release(meanwhile))
    clock.advance(10)

    assert meanwhile.id == "2"
    assert ids_of(take(table, limit=3)) == ["1", "2", "3"]


def test_a_row_whose_lease_ran_out_keeps_the_moment_when_it_was_due(shop: Shop, clock: Clock) -> None:
    shop.execute("alter table S.orders add column due_at timestamptz default '2020-01-01T00:00Z'")
    given(shop, (1, "a"))
    table = shop.fit(columns={"state": "status", "run_at": "due_at"}, clock=clock)
    take_one(table, lease=10)
    clock.advance(10)

    table.reap()

    assert job_of(table, "1").run_at == datetime(2020, 1, 1, tzinfo=UTC)


def test_a_row_whose_state_is_none_of_the_words_is_no_job(shop: Shop) -> None:
    shop.execute("alter table S.orders alter column status drop not null")
    given(shop, (1, "x"), (2, "x"), (3, "x"))
    shop.execute("update S.orders set status = 'archived' where id = 1; update S.orders set status = null where id = 2")
    table = shop.fit(**STATUS)

    taken = take(table, limit=9)

    assert ids_of(taken) == ["3"]
    assert shown(table) == [("3", "running")]
    assert table.explain("1", None, None) is None
    assert [each.moved for each in table.move(["1", "2"], Move.CANCEL)] == [False, False]


def test_a_row_whose_key_has_no_value_holds_nobody_up(shop: Shop) -> None:
    shop.execute("create table S.notes (id text unique, rank integer, state text not null default 'queued')")
    shop.execute("insert into S.notes values (null, 1), (null, 2), ('a', 3)")
    table = shop.fit("notes", order_by="rank")

    assert table.stats().total("due") == 1
    assert ids_of(take(table, limit=1)) == ["a"]


def test_a_holder_is_one_by_state_fence_and_token_whatever_else_was_written(shop: Shop) -> None:
    given(shop, (1, "a"), (2, "b"), (3, "c"))
    table = shop.fit(**STATUS)
    first, second, third = take(table, limit=3)
    shop.execute("update S.orders set status = 'queued' where id = 1")
    shop.execute("update S.orders set tenure_worker = 'me', tenure_leased_until = null, source = 'z' where id = 2")
    shop.execute("delete from S.orders where id = 3")

    landed = table.settle([build_completion(first), build_completion(second), build_completion(third)])

    assert landed == [False, True, False]
    assert shown(table) == [("1", "queued"), ("2", "completed")]
    assert job_of(table, "1").leased_until is None
    assert take_one(table).job.fence == 2


def test_a_row_that_another_hand_completed_stays_so_whatever_lease_it_has(shop: Shop, clock: Clock) -> None:
    given(shop, (1, "a"))
    table = shop.fit(clock=clock, **STATUS)
    take_one(table, lease=10)
    shop.execute("update S.orders set status = 'completed'")
    clock.advance(10)

    reaped = table.reap()

    assert reaped == []
    assert shown(table) == [("1", "completed")]


DAMAGED = [
    "5",
    "[]",
    '"x"',
    '{"history": 7}',
    '{"history": [7, {}, ["x"]], "dropped": "x", "progress": {"a": 1}}',
    "{}",
]


def test_numbers_that_were_null_count_from_nought(shop: Shop) -> None:
    shop.execute("alter table S.orders add column tries integer, add column version bigint")
    given(shop, (1, "a"))
    table = shop.fit(columns={"state": "status", "attempts": "tries", "fence": "version"})

    taken = take_one(table)

    assert (taken.job.attempts, taken.job.fence) == (1, 1)
    assert shop.execute("select tries, version from S.orders") == [(1, 1)]


@pytest.mark.parametrize("record", DAMAGED)
def test_a_record_that_somebody_damaged_keeps_nobody_from_working(shop: Shop, clock: Clock, record: str) -> None:
    given(shop, (1, "a"))
    table = shop.fit(clock=clock, **STATUS)
    shop.execute("update S.orders set tenure_record = %s, tenure_attempts = -1", record)

    settle(table, build_release(take_one(table)))
    shop.execute("update S.orders set tenure_record = %s", record)
    taken = take_one(table, lease=1)
    shop.execute("update S.orders set tenure_record = %s", record)
    clock.advance(1)
    table.reap()
    shop.execute("update S.orders set tenure_record = %s", record)
    table.move([taken.id], Move.CANCEL)
    shop.execute("update S.orders set tenure_record = %s", record)
    table.move([taken.id], Move.RETRY)
    shop.execute("update S.orders set tenure_record = %s", record)

    last = take_one(table)
    assert extend(table, last.hold) is HoldStatus.HELD
    assert not settle(table, build_release(taken))
    assert settle(table, build_failure(last))
    assert table.find(Query(error="broken")).jobs == [job_of(table, "1")]


def test_a_row_that_runs_without_a_lease_never_expires(shop: Shop, clock: Clock) -> None:
    given(shop, (1, "a"))
    table = shop.fit(clock=clock, **STATUS)
    shop.execute("update S.orders set status = 'running'")
    clock.advance(1_000_000)

    assert table.reap() == []
    assert take(table) == []
    assert (job_of(table, "1").state, job_of(table, "1").leased_until) == (State.RUNNING, None)


def test_moments_without_a_time_zone_are_kept_as_utc(shop: Shop, clock: Clock) -> None:
    shop.execute("alter table S.orders add column lease timestamp, add column due timestamp, add column done timestamp")
    given(shop, (1, "a"), (2, "a"))
    columns = {"state": "status", "leased_until": "lease", "run_at": "due", "completed_at": "done"}
    table = shop.fit(clock=clock, url=f"{shop.url}&options=-cTimeZone%3DAsia/Tokyo", columns=columns)

    first, second = take(table, limit=2, lease=60)
    table.settle([build_completion(first), build_failure(second)])
    clock.advance(10)
    again = take_one(table, lease=60)
    clock.advance(60)

    assert first.job.leased_until == first.job.started_at + timedelta(seconds=60)  # type: ignore[operator]
    assert job_of(table, "1").finished_at == first.job.started_at
    assert again.job.run_at == first.job.started_at + timedelta(seconds=10)  # type: ignore[operator]
    assert [each.id for each in table.reap()] == ["2"]
    assert shop.execute("select done from S.orders where id = 1") == [(first.job.started_at.replace(tzinfo=None),)]  # type: ignore[union-attr]


@BOTH
def test_a_retry_sets_what_the_user_says_and_leaves_a_line(shop: Shop, mode: dict[str, Any]) -> None:
    shop.execute("alter table S.orders add column resolved_by text default 'ada', add column tries integer default 3")
    given(shop, (1, "a"))
    table = shop.fit(where="true", on_retry={"resolved_by": None, "tries": 0}, **mode)
    taken = take_one(table)
    settle(table, build_failure(taken, "boom", final=True))

    table.move([taken.id], Move.RETRY, "fixed")

    job = job_of(table, taken.id)
    assert shop.execute("select resolved_by, tries from S.orders") == [(None, 0)]
    assert (job.state, job.attempts, job.fence) == (State.QUEUED, 0, 1)
    assert [ending.error for ending in job.history] == ["boom", "retry: fixed"]


def test_the_column_of_the_error_has_what_was_last_said_and_a_completion_empties_it(shop: Shop) -> None:
    shop.execute("alter table S.orders add column last_error text")
    given(shop, (1, "a"))
    table = shop.fit(columns={"state": "status", "error": "last_error"})
    seen = []

    def see() -> None:
        seen.extend(shop.execute("select last_error from S.orders"))

    settle(table, build_failure(take_one(table), "boom", final=True))
    see()
    table.move(["1"], Move.RETRY, "fixed")
    see()
    settle(table, build_release(take_one(table)))
    see()
    settle(table, build_completion(take_one(table)))
    see()

    assert seen == [("boom",), ("retry: fixed",), ("retry: fixed",), (None,)]


@BOTH
def test_what_the_reaper_finds_done_is_completed_and_counted_and_the_holder_is_told_that_it_lost(
    shop: Shop, clock: Clock, mode: dict[str, Any]
) -> None:
    shop.execute("create table S.invoices (order_id bigint primary key)")
    given(shop, (1, "a"), (2, "b"))
    where = shop.named("exists (select from S.invoices i where i.order_id = orders.id)")
    table = shop.fit(where="true", done_if=where, clock=clock, **mode)
    first, second = take(table, limit=2, lease=10)
    shop.execute("insert into S.invoices values (1)")
    clock.advance(10)

    (again,) = take(table, limit=2, worker="w2")

    job = job_of(table, first.id)
    assert again.id == second.id
    assert (job.state, job.worker, job.finished_at) == (State.COMPLETED, "w1", clock.now)
    assert [ending.outcome for ending in job.history] == ["expired"]
    assert (table.stats().total("recovered"), table.stats().total("prevented")) == (1, 0)
    assert not settle(table, build_completion(first))


@BOTH
def test_of_a_worker_that_is_said_to_be_dead_what_is_done_is_completed(shop: Shop, mode: dict[str, Any]) -> None:
    given(shop, (1, "a"), (2, "b"))
    table = shop.fit(where="true", done_if="source = 'a'", **mode)
    take(table, limit=2, worker="w1")

    reaped = table.reap(worker="w1")

    assert [(each.id, each.state) for each in reaped] == [("1", State.COMPLETED), ("2", State.QUEUED)]
    assert table.stats().total("recovered") == 1


@BOTH
def test_a_row_whose_attempts_are_spent_fails_when_its_lease_runs_out(
    shop: Shop, clock: Clock, mode: dict[str, Any]
) -> None:
    given(shop, (1, "a"))
    table = shop.fit(where="true", max_attempts=1, clock=clock, **mode)
    take_one(table, lease=10)
    clock.advance(10)

    (reaped,) = table.reap()

    assert (reaped.state, job_of(table, "1").state) == (State.FAILED, State.FAILED)


@BOTH
def test_a_completion_that_found_the_work_done_is_counted(shop: Shop, mode: dict[str, Any]) -> None:
    given(shop, (1, "a"), (2, "b"))
    table = shop.fit(where="true", done_if="source = 'a'", **mode)
    first, second = take(table, limit=2)

    done = table.already_done(["2", "1", "9", "x"])
    table.settle([replace(build_completion(first), found_done=True), build_completion(second)])

    assert done == [False, True, False, False]
    assert (table.stats().total("completed"), table.stats().total("prevented")) == (2, 1)


def test_a_row_that_was_found_done_and_runs_again_is_not_counted_any_more(shop: Shop) -> None:
    given(shop, (1, "a"))
    table = shop.fit(**STATUS)
    settle(table, replace(build_completion(take_one(table)), found_done=True))
    shop.execute("update S.orders set status = 'queued'")

    settle(table, build_completion(take_one(table)))

    assert table.stats().total("prevented") == 0


def test_who_has_rights_on_the_table_alone_can_claim(shop: Shop) -> None:
    given(shop, (1, "a"))
    shop.fit(**STATUS)
    shop.execute(f"create role {shop.schema} login; grant usage on schema {shop.schema} to {shop.schema}")
    shop.execute(f"grant select, update on S.orders to {shop.schema}")
    try:
        table = shop.open(url=f"{shop.url}&user={shop.schema}", **STATUS)

        taken = take_one(table)
        landed = settle(table, build_completion(taken))
        table.close()
    finally:
        shop.execute(f"drop owned by {shop.schema}; drop role {shop.schema}")

    assert landed
    assert shown(shop.open(**STATUS)) == [("1", "completed")]


def test_a_table_that_was_made_anew_is_looked_at_anew(shop: Shop) -> None:
    given(shop, (1, "a"))
    table = shop.fit(**STATUS)
    take_one(table)
    shop.execute("drop table S.orders")
    shop.execute(ORDERS)
    given(shop, (7, "b"))
    shop.fit(**STATUS)

    taken = take_one(table)

    assert settle(table, build_completion(taken))
    assert shown(table) == [("7", "completed")]


def test_a_table_that_lost_a_column_is_looked_at_anew(shop: Shop) -> None:
    given(shop, (1, "a"), (2, "b"))
    table = shop.fit(**STATUS)
    take_one(table)
    shop.execute("alter table S.orders drop column source")

    assert take_one(table).job.payload == {"id": 2, "status": "running"}


def test_a_row_that_is_being_claimed_does_not_hold_up_who_refers_to_it(shop: Shop) -> None:
    shop.execute("create table S.invoices (order_id bigint references S.orders)")
    given(shop, (1, "a"))
    table = shop.fit(**STATUS)
    taken = take_one(table)

    with psycopg.connect(shop.url) as held, table.join(held) as joined:
        assert joined.settle([build_completion(taken)]) == [True]
        shop.execute("set lock_timeout = '60s'")
        shop.execute("insert into S.invoices values (1)")

    with psycopg.connect(shop.url) as invoicing:
        given(shop, (2, "b"))
        invoicing.execute(shop.named("insert into S.invoices values (2)").encode())
        assert ids_of(take(table)) == ["2"]


def test_what_is_shown_to_be_read_names_the_table_and_every_operation(shop: Shop) -> None:
    mapped = shop.fit(where="source = :source", params={"source": "x"}, done_if="source is null", **STATUS).sql()
    beside = shop.fit(where="true", sidecar=True).sql()

    operations = {"claim", "extend", "settle", "reap", "move", "find", "stats", "explain", "wait", "done"}
    assert set(mapped) - operations == {"schema", "functions"} == set(beside) - operations
    assert operations - set(beside) == {"done"}
    assert operations <= set(mapped)
    assert "(source = :param_source)" in mapped["claim"]
    assert "for no key update skip locked" in mapped["claim"]
    assert "insert into" not in mapped["claim"]
    assert "on conflict" in beside["claim"]
    assert not any("{" in mapped[each].replace("'{}'", "") for each in operations)
