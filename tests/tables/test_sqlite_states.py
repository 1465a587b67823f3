"""State values of every kind, and changes to states by other code."""

from pathlib import Path
from typing import Any

import pytest

from tenure.core.job import State
from tenure.core.operations import HoldStatus, Move, Query, Refusal
from tenure.errors import ConfigurationError
from tenure.testing import Clock
from tenure.testing.conformance.building import (
    build_completion,
    build_failure,
    build_release,
    extend,
    ids_of,
    job_of,
    settle,
    take,
    take_one,
)
from tests.tables.lite import MAPPED, STATES, execute, given_orders, opened, rows

NUMBERS = {"queued": 10, "running": 20, "completed": 30, "failed": -1, "cancelled": 0}
COLUMNS = {
    "texts": ("text default 'pending'", STATES, "done"),
    "numbers": ("integer default 10", NUMBERS, 30),
    "numbers in a column of text": ("text default '10'", NUMBERS, "30"),
    "numbers as texts in a column of numbers": (
        "integer default 10",
        {name: str(word) for name, word in NUMBERS.items()},
        30,
    ),
    "words with quotes": ("varchar(20) default 'it''s new'", {"queued": "it's new", "completed": '"done"'}, '"done"'),
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_states_of_any_kind_are_read_and_written(path: Path, kind: str) -> None:
    column, words, word = COLUMNS[kind]
    execute(path, f"create table orders (id integer primary key, status {column})")
    execute(path, "insert into orders (id) values (1), (2), (3)")

    with opened(path, columns={"state": "status"}, states=words) as table:
        first, second = take(table, limit=2)
        table.settle([build_completion(first), build_failure(second, final=True)])

        assert [job_of(table, id).state for id in "123"] == [State.COMPLETED, State.FAILED, State.QUEUED]
        assert rows(path, "select status from orders where id = 1") == [(word,)]


def test_a_row_with_a_word_that_means_no_state_is_no_job(path: Path) -> None:
    given_orders(path, "draft", None, "pending")

    with opened(path, **MAPPED) as table:
        assert ids_of(take(table, limit=5)) == ["3"]
        assert table.stats().total("running") == 1
        assert table.explain("1", None, None) is None
        assert table.move(["1", "2"], Move.CANCEL)[1].refusal is Refusal.UNKNOWN


def test_who_holds_a_row_that_another_hand_queued_again_has_lost_it(path: Path) -> None:
    given_orders(path, "pending")

    with opened(path, **MAPPED) as table:
        old = take_one(table)
        execute(path, "update orders set status = 'pending'")

        assert extend(table, old.hold) is HoldStatus.LOST
        assert not settle(table, build_completion(old))
        assert job_of(table, "1").leased_until is None
        new = take_one(table)
        assert new.job.fence == old.job.fence + 1
        assert not settle(table, build_completion(old))
        assert settle(table, build_completion(new))


def test_a_row_that_another_hand_completed_is_lost_and_stays_so(path: Path, clock: Clock) -> None:
    given_orders(path, "pending")

    with opened(path, clock=clock, **MAPPED) as table:
        taken = take_one(table, lease=10)
        execute(path, "update orders set status = 'done'")
        clock.advance(10)

        assert not settle(table, build_failure(taken))
        assert table.reap() == []
        assert job_of(table, "1").state is State.COMPLETED


def test_a_row_that_runs_without_a_lease_never_runs_out(path: Path, clock: Clock) -> None:
    given_orders(path, "processing")

    with opened(path, clock=clock, **MAPPED) as table:
        clock.advance(10_000_000)

        assert take(table) == []
        assert table.reap() == []
        assert job_of(table, "1").state is State.RUNNING


def test_a_row_that_was_deleted_while_it_was_held_is_lost(path: Path) -> None:
    given_orders(path, "pending")

    with opened(path, **MAPPED) as table:
        taken = take_one(table)
        execute(path, "delete from orders")

        assert not settle(table, build_completion(taken))
        assert extend(table, taken.hold) is HoldStatus.LOST


def test_a_completed_row_that_another_hand_queued_shows_nothing_of_the_claim_before(path: Path) -> None:
    given_orders(path, "pending")

    with opened(path, **MAPPED) as table:
        settle(table, build_completion(take_one(table), "first"))
        execute(path, "update orders set status = 'pending'")
        again = take_one(table).job

        assert (again.result, again.finished_at, again.fence) == (None, None, 2)


def test_a_damaged_record_counts_as_empty_and_the_row_goes_on(path: Path) -> None:
    given_orders(path, "pending", "pending")

    with opened(path, **MAPPED) as table:
        taken = take(table, limit=2)
        table.settle([build_release(each) for each in taken])
        execute(path, "update orders set tenure_record = '{' where id = 1")
        execute(path, "update orders set tenure_record = '[1, 2]' where id = 2")

        assert [job_of(table, id).history for id in "12"] == [(), ()]
        assert table.stats().total("due") == 2
        assert table.settle([build_completion(each) for each in take(table, limit=2)]) == [True, True]


def test_numbers_that_were_null_count_from_nought(path: Path) -> None:
    execute(path, "create table orders (id integer primary key, status text, tries integer, version integer)")
    execute(path, "insert into orders (id, status) values (1, 'pending')")
    columns: Any = {"state": "status", "attempts": "tries", "fence": "version"}

    with opened(path, columns=columns, states=STATES) as table:
        job = take_one(table).job

        assert (job.attempts, job.fence) == (1, 1)
        assert rows(path, "select tries, version from orders") == [(1, 1)]


def test_the_error_of_a_row_is_what_its_history_said_last_and_a_completion_empties_it(path: Path) -> None:
    given_orders(path, "pending")
    execute(path, "alter table orders add column problem text")
    columns: Any = {"state": "status", "error": "problem"}
    seen = []

    with opened(path, columns=columns, states=STATES) as table:
        settle(table, build_failure(take_one(table), "boom", final=True))
        seen += rows(path, "select problem from orders")
        table.move(["1"], Move.RETRY, "fixed")
        seen += rows(path, "select problem from orders")
        settle(table, build_release(take_one(table)))
        seen += rows(path, "select problem from orders")
        settle(table, build_completion(take_one(table)))
        seen += rows(path, "select problem from orders")

    assert seen == [("boom",), ("retry: fixed",), ("retry: fixed",), (None,)]


def test_a_text_that_is_no_utf_8_stands_in_nobodys_way(path: Path, clock: Clock) -> None:
    given_orders(path, "pending", "pending")
    execute(path, "update orders set source = cast(x'ff41' as text) where id = 1")

    with opened(path, clock=clock, **MAPPED) as table:
        first, second = take(table, limit=2, lease=10)
        shown = [job.payload["source"] for job in table.find(Query(newest_first=False)).jobs]
        clock.advance(10)
        reaped = table.reap()

        assert shown == ["\udcffA", "scraper"]
        assert [each.id for each in reaped] == [first.id, second.id]


def test_what_a_constraint_of_the_table_refuses_is_told_and_nothing_is_changed(path: Path) -> None:
    execute(path, "create table orders (id integer primary key, status text check (status <> 'cancelled'))")
    execute(path, "insert into orders (status) values ('pending')")

    with opened(path, **MAPPED) as table:
        with pytest.raises(ConfigurationError, match="rejects a write of tenure: CHECK constraint failed"):
            table.move(["1"], Move.CANCEL)

        assert job_of(table, "1").history == ()
