"""The user's conditions: `where` selects rows, and `done_if` detects finished work."""

from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from tenure.core import transitions
from tenure.core.job import Outcome, State
from tenure.core.operations import Move, Query, Refusal, Settlement
from tenure.errors import ConfigurationError
from tenure.testing import Clock
from tenure.testing.conformance.building import (
    Taken,
    build_completion,
    build_failure,
    build_release,
    ids_of,
    job_of,
    settle,
    take,
    take_one,
)
from tests.tables.lite import BESIDE, KINDS, MAPPED, execute, given_orders, opened, rows

DONE_IF = "exists (select 1 from invoices where order_id = orders.id)"
INVOICES = "create table invoices (id integer primary key, order_id integer, status text)"


def test_only_rows_that_the_condition_chooses_are_claimed_counted_and_shown(path: Path) -> None:
    given_orders(path, "pending", "pending", "pending")
    execute(path, "update orders set source = 'human' where id = 2")

    with opened(path, where="source = :source", params={"source": "scraper"}, **MAPPED) as table:
        assert table.stats().total("due") == 2
        assert ids_of(table.find(Query()).jobs) == ["3", "1"]
        assert table.move(["2"], Move.CANCEL)[0].refusal is Refusal.UNKNOWN
        assert ids_of(take(table, limit=5)) == ["1", "3"]


def test_a_row_that_runs_is_a_job_whatever_the_condition_says_by_then(path: Path, clock: Clock) -> None:
    given_orders(path, "pending", "pending")

    with opened(path, clock=clock, where="source = 'scraper'", **MAPPED) as table:
        first, second = take(table, limit=2, lease=10)
        execute(path, "update orders set source = 'human'")

        assert table.stats().total("running") == 2
        assert job_of(table, first.id).state is State.RUNNING
        assert [each.moved for each in table.move([first.id], Move.CANCEL)] == [True]
        assert settle(table, build_completion(first))
        clock.advance(10)
        assert [each.id for each in table.reap()] == [second.id]
        assert take(table) == []


VALUES = {
    "a text": ("'it''s :x ?'", "it's :x ?"),
    "a number": ("7", 7),
    "a fraction": ("7.25", 7.25),
    "a truth": ("1", True),
    "bytes": ("x'00ff'", b"\0\xff"),
    "a moment": ("'2026-01-31 11:00:00.000000'", datetime.fromisoformat("2026-01-31T12:00:00+01:00")),
    "a moment without a zone": ("'2026-01-31 11:00:00.000000'", datetime(2026, 1, 31, 11)),  # noqa: DTZ001
    "a day": ("'2026-01-31'", date(2026, 1, 31)),
    "a decimal": ("'7.50'", Decimal("7.50")),
    "a uuid": ("'00000000-0000-0000-0000-00000000002a'", UUID(int=42)),
}


@pytest.mark.parametrize("kind", VALUES)
def test_values_of_a_condition_are_bound_whatever_they_are(path: Path, kind: str) -> None:
    text, value = VALUES[kind]
    execute(path, "create table orders (id integer primary key, status text default 'pending', value)")
    execute(path, f"insert into orders (value) values (null), ({text}), ('other')")

    with opened(path, where="value is :value", params={"value": value}, **MAPPED) as table:
        assert ids_of(take(table, limit=5)) == ["2"]


def test_a_decimal_is_compared_as_a_number_with_a_column_of_numbers(path: Path) -> None:
    execute(path, "create table orders (id integer primary key, status text default 'pending', price numeric)")
    execute(path, "insert into orders (price) values (9), (10.5), (100)")

    with opened(path, where="price > :least", params={"least": Decimal("10.50")}, **MAPPED) as table:
        assert ids_of(take(table, limit=5)) == ["3"]


def test_a_value_that_the_engine_cannot_have_is_refused(path: Path) -> None:
    given_orders(path, "pending")

    with (
        opened(path, where="source = :source", params={"source": ["a"]}, **MAPPED) as table,
        pytest.raises(ConfigurationError, match=r"params\['source'\] is \['a'\]"),
    ):
        take(table)


@pytest.mark.parametrize("where", ["source = ?", "source = $source", "source = @source", "count(*) > 1", "source ="])
def test_a_condition_that_the_engine_cannot_run_is_refused(path: Path, where: str) -> None:
    given_orders(path, "pending")

    with (
        opened(path, where=where, **MAPPED) as table,
        pytest.raises(ConfigurationError, match="invalid where of table 'orders'"),
    ):
        take(table)


def test_a_condition_that_fails_on_a_row_is_told_as_such(path: Path) -> None:
    given_orders(path, "pending", "pending")
    execute(path, "update orders set source = '{' where id = 2")

    with opened(path, where="json_extract('[' || source || ']', '$[0]') is null", **MAPPED) as table:
        for operation in (lambda: take(table, limit=2), table.stats):
            with pytest.raises(ConfigurationError, match="malformed JSON"):
                operation()


def test_in_a_condition_names_mean_columns_of_the_users_table_even_beside_a_companion(path: Path) -> None:
    execute(
        path,
        "create table orders (id integer primary key, state text, attempts text, token text)",
        "insert into orders values (1, 'new', 'few', 'x'), (2, 'old', 'few', 'x')",
    )
    where = "state = 'new' and attempts = 'few' and orders.token = 'x'"

    with opened(path, sidecar=True, where=where, done_if="state = 'made'") as table:
        (taken,) = take(table, limit=5)
        done_before = table.already_done(["1"])
        execute(path, "update orders set state = 'made' where id = 1")

        assert taken.id == "1"
        assert (done_before, table.already_done(["1", "2", "7", "nobody"])) == ([False], [True, False, False, False])


@pytest.mark.parametrize("kind", KINDS)
def test_work_that_shows_is_completed_by_the_reaper_and_marked_as_recovered(
    path: Path, clock: Clock, kind: str
) -> None:
    given_orders(path, "pending", "pending")
    execute(path, INVOICES)

    with opened(path, clock=clock, done_if=DONE_IF, **KINDS[kind]) as table:
        done, undone = take(table, limit=2, lease=10, worker="w1")
        execute(path, "insert into invoices (order_id) values (1)")
        clock.advance(10)
        reaped = table.reap()

        job = job_of(table, done.id)
        assert [each.state for each in reaped] == [State.COMPLETED, State.QUEUED]
        assert (job.state, job.crashes, job.worker, job.finished_at) == (State.COMPLETED, 1, "w1", clock.now)
        assert [each.outcome for each in job.history] == [Outcome.EXPIRED]
        assert job_of(table, undone.id).state is State.QUEUED
        assert (table.stats().total("recovered"), table.stats().total("prevented")) == (1, 0)
        assert not settle(table, build_completion(done))


def test_work_that_shows_is_completed_even_if_a_cancel_was_asked_for_or_attempts_are_spent(
    path: Path, clock: Clock
) -> None:
    given_orders(path, "pending")
    execute(path, INVOICES, "insert into invoices (order_id) values (1)")

    with opened(path, clock=clock, done_if=DONE_IF, max_attempts=1, **MAPPED) as table:
        taken = take_one(table, lease=10)
        table.move([taken.id], Move.CANCEL)
        clock.advance(10)

        assert [each.state for each in table.reap()] == [State.COMPLETED]
        assert not job_of(table, taken.id).cancel_requested


def test_without_its_work_a_row_whose_attempts_are_spent_fails(path: Path, clock: Clock) -> None:
    given_orders(path, "pending")
    execute(path, INVOICES)

    with opened(path, clock=clock, done_if=DONE_IF, max_attempts=1, **MAPPED) as table:
        take_one(table, lease=10)
        clock.advance(10)

        assert [each.state for each in table.reap()] == [State.FAILED]


@pytest.mark.parametrize("kind", KINDS)
def test_a_completion_that_found_the_work_done_is_counted_as_prevented(path: Path, kind: str) -> None:
    given_orders(path, "pending", "pending")

    with opened(path, **KINDS[kind]) as table:
        first, second = take(table, limit=2)
        table.settle([_found_done(first), build_completion(second)])

        assert (table.stats().total("completed"), table.stats().total("prevented")) == (2, 1)


def test_a_row_that_was_found_done_and_runs_again_is_not_counted_any_more(path: Path) -> None:
    given_orders(path, "pending")

    with opened(path, **MAPPED) as table:
        table.settle([_found_done(take_one(table))])
        execute(path, "update orders set status = 'pending'")
        settle(table, build_completion(take_one(table)))

        assert table.stats().total("prevented") == 0


def test_a_table_without_a_condition_for_done_cannot_be_asked(path: Path) -> None:
    given_orders(path, "pending")

    with opened(path, **MAPPED) as table, pytest.raises(ConfigurationError, match="no done_if"):
        table.already_done(["1"])


@pytest.mark.parametrize("kind", KINDS)
def test_a_retry_sets_the_users_columns_that_it_is_told_to(path: Path, kind: str) -> None:
    given_orders(path, "pending")
    execute(path, "alter table orders add column resolved_by text", "alter table orders add column resolved_at text")
    on_retry: dict[str, Any] = {"resolved_by": None, "resolved_at": datetime(2026, 1, 1, tzinfo=UTC)}

    with opened(path, on_retry=on_retry, **KINDS[kind]) as table:
        settle(table, build_failure(take_one(table), final=True))
        execute(path, "update orders set resolved_by = 'ada'")
        table.move(["1"], Move.RETRY)

        assert rows(path, "select resolved_by, resolved_at from orders") == [(None, "2026-01-01 00:00:00.000000")]


def test_a_row_that_a_companion_knows_is_shown_though_the_condition_has_turned(path: Path) -> None:
    given_orders(path, "pending", "pending", "pending")

    with opened(path, **BESIDE) as table:
        first, second, third = take(table, limit=3)
        table.settle([build_completion(first), build_release(second), build_failure(third, final=True)])
        execute(path, "update orders set status = 'shipped'")

        assert [each.state for each in table.find(Query(newest_first=False)).jobs] == [
            State.COMPLETED,
            State.QUEUED,
            State.FAILED,
        ]
        assert take(table) == []
        assert table.move(["3"], Move.RETRY)[0].moved


def test_a_row_that_nobody_took_can_be_cancelled_beside_a_companion(path: Path) -> None:
    given_orders(path, "pending", "shipped")

    with opened(path, **BESIDE) as table:
        moved = table.move(["1", "2"], Move.CANCEL, "wrong")

        assert [each.refusal for each in moved] == [None, Refusal.UNKNOWN]
        assert take(table) == []
        assert rows(path, "select state, error from tenure_orders") == [("cancelled", "cancel: wrong")]
        assert rows(path, "select status from orders") == [("pending",), ("shipped",)]


def test_the_users_table_is_not_altered_beside_a_companion(path: Path) -> None:
    given_orders(path, "pending")
    definition = "select sql from sqlite_master where name = 'orders'"
    before = rows(path, definition), rows(path, "select * from orders")

    with opened(path, **BESIDE) as table:
        settle(table, build_completion(take_one(table)))

    assert (rows(path, definition), rows(path, "select * from orders")) == before


def _found_done(taken: Taken) -> Settlement:
    return replace(transitions.build_completion(taken.hold), found_done=True)
