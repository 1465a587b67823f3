"""Timestamps in users' tables: text in several formats, and numbers of seconds."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tenure.backends.sqlite.timestamps import normalise_timestamp, parse_timestamp, to_microseconds
from tenure.core.job import State
from tenure.testing import Clock
from tenure.testing.conformance.building import (
    build_completion,
    build_failure,
    ids_of,
    job_of,
    settle,
    take,
    take_one,
)
from tests.tables.lite import STATES, execute, given_orders, opened, rows

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SECONDS = 1767268800

AT_NOON = [
    "'2026-01-01 12:00:00'",
    "'2026-01-01 12:00'",
    "'2026-01-01 12:00:00.000000'",
    "'2026-01-01T12:00:00Z'",
    "'2026-01-01t12:00:00.000z'",
    "'2026-01-01T14:00:00+02:00'",
    "'2026-01-01 07:00:00 -0500'",
    "'2026-01-01T14:00:00+02'",
    "'2026-01-01 12:00:00.0000009'",
    "'2026-01-01 12:00:00 UTC'",
    f"{SECONDS}",
    f"{SECONDS}.0",
]


@pytest.mark.parametrize("value", AT_NOON)
def test_a_row_is_due_at_the_moment_that_its_own_form_means(path: Path, clock: Clock, value: str) -> None:
    execute(path, "create table orders (id integer primary key, status text default 'pending', after, made)")
    execute(path, f"insert into orders (after, made) values ({value}, {value})")
    columns: Any = {"state": "status", "run_at": "after", "created_at": "made"}
    clock.now = NOON - timedelta(microseconds=1)

    with opened(path, clock=clock, columns=columns, states=STATES) as table:
        before = take(table)
        clock.advance(0.000001)
        job = take_one(table).job

        assert before == []
        assert (job.run_at, job.created_at) == (NOON, NOON)


@pytest.mark.parametrize(
    "value", ["'tomorrow'", "''", "x'00'", "'2026-13-01 12:00:00'", "1e300", "null", "'0001-01-01 00:00+14:00'"]
)
def test_what_is_no_moment_holds_nothing_back(path: Path, clock: Clock, value: str) -> None:
    execute(path, "create table orders (id integer primary key, status text default 'pending', after)")
    execute(path, f"insert into orders (after) values ({value})")

    with opened(path, clock=clock, columns={"state": "status", "run_at": "after"}, states=STATES) as table:
        assert take_one(table).job.run_at == datetime(1970, 1, 1, tzinfo=UTC)


FORMS = {
    "integer": (SECONDS + 61, SECONDS, timedelta(seconds=61)),
    "bigint": (SECONDS + 61, SECONDS, timedelta(seconds=61)),
    "real": (SECONDS + 60.5, float(SECONDS), timedelta(seconds=60.5)),
    "text": ("2026-01-01 12:01:00.500000", "2026-01-01 12:00:00.000000", timedelta(seconds=60.5)),
    "timestamp": ("2026-01-01 12:01:00.500000", "2026-01-01 12:00:00.000000", timedelta(seconds=60.5)),
    "": ("2026-01-01 12:01:00.500000", "2026-01-01 12:00:00.000000", timedelta(seconds=60.5)),
}


@pytest.mark.parametrize("declared", FORMS)
def test_moments_are_written_by_the_declared_type_and_a_lease_is_rather_long_than_short(
    path: Path, clock: Clock, declared: str
) -> None:
    leased_until, started_at, length = FORMS[declared]
    execute(
        path,
        f"create table orders (id integer primary key, status text default 'pending', until {declared}, "
        f"began {declared}, ended {declared}, after {declared})",
        "insert into orders (id) values (1)",
    )
    columns: Any = {
        "state": "status",
        "leased_until": "until",
        "started_at": "began",
        "completed_at": "ended",
        "run_at": "after",
    }
    clock.now = NOON

    with opened(path, clock=clock, columns=columns, states=STATES) as table:
        taken = take_one(table, lease=60.5)
        written = rows(path, "select until, began from orders")
        clock.now = NOON + length - timedelta(microseconds=1)
        in_time = table.reap()
        clock.now = NOON + length
        reaped = table.reap()

        assert taken.job.leased_until == NOON + length
        assert written == [(leased_until, started_at)]
        assert (in_time, [each.id for each in reaped]) == ([], ["1"])


@pytest.mark.parametrize("declared", ["integer", "real", "text"])
def test_a_row_that_backs_off_is_due_again_in_time_whatever_the_form(path: Path, clock: Clock, declared: str) -> None:
    execute(path, f"create table orders (id integer primary key, status text default 'pending', after {declared})")
    execute(path, "insert into orders (id) values (1)")
    clock.now = NOON

    with opened(path, clock=clock, columns={"state": "status", "run_at": "after"}, states=STATES) as table:
        settle(table, build_failure(take_one(table)))
        clock.advance(9)
        early = table.stats().total("scheduled"), take(table)
        clock.advance(1)

        assert early == (1, [])
        assert ids_of(take(table)) == ["1"]


def test_a_row_whose_lease_ran_out_keeps_the_moment_when_it_was_due(path: Path, clock: Clock) -> None:
    given_orders(path, "pending")
    execute(path, "alter table orders add column due_at text default '2020-01-01 00:00:00'")

    with opened(path, clock=clock, columns={"state": "status", "run_at": "due_at"}, states=STATES) as table:
        take_one(table, lease=10)
        clock.advance(10)
        table.reap()

        assert rows(path, "select status, due_at from orders") == [("pending", "2020-01-01 00:00:00")]


def test_columns_that_are_added_have_moments_as_texts_that_compare_with_those_of_the_engine(
    path: Path, clock: Clock
) -> None:
    execute(path, "create table orders (id integer primary key, state text default 'queued')")
    execute(path, "insert into orders (id) values (1)")

    with opened(path, clock=clock) as table:
        settle(table, build_completion(take_one(table)))

        assert job_of(table, "1").state is State.COMPLETED
        assert rows(path, "select tenure_completed_at, tenure_completed_at > '2026-01-01 11:59:59' from orders") == [
            ("2026-01-01 12:00:00.000000", 1)
        ]


def test_a_moment_is_read_back_to_the_microsecond() -> None:
    at = to_microseconds(datetime(2199, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC))

    assert parse_timestamp(normalise_timestamp(at / 1_000_000)) == at
    assert normalise_timestamp("0999-01-01") == "0999-01-01 00:00:00.000000"
