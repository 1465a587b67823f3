"""A row that its table does not let tenure change, or that Python cannot read, costs its neighbours nothing."""

import logging
import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tenure.backends.shared.isolation import StatementRejected, settle_isolated
from tenure.backends.sqlite.database import Database
from tenure.backends.tables.avoided_rows import (
    LONGEST_DELAY,
    MOST_AVOIDED,
    REMEMBERED,
    SHORTEST_DELAY,
    AvoidedRows,
)
from tenure.backends.tables.row_batches import NO_EFFECT, Reaping, Taken
from tenure.backends.tables.row_isolation import RowIsolation
from tenure.backends.tables.sqlite import SQLiteTable
from tenure.backends.tables.sqlite.keys import KeyValues
from tenure.backends.tables.sqlite.row_batches import SQLiteRowBatches
from tenure.core.job import Outcome, State
from tenure.core.log_fields import MOST_LISTED
from tenure.core.operations import (
    ClaimRequest,
    Extension,
    HoldStatus,
    Move,
    Query,
    Reaped,
    Settled,
    Settlement,
    Unsettled,
)
from tenure.core.table.options import build_table_spec
from tenure.errors import StoreUnavailable
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
from tests.tables.lite import KINDS, MAPPED, STATES, execute, given_orders, opened, rows

TABLES = {"mapped": ("orders", "status"), "sidecar": ("tenure_orders", "state")}
REFUSED = "no invoice yet"
ABORT = f"abort, '{REFUSED}'"


def reject(path: Path, kind: str, id: int, state: State, action: str = ABORT) -> None:
    """Create a trigger that rejects a state of a row."""
    table, column = TABLES[kind]
    word = STATES.get(state, state) if kind == "mapped" else state
    execute(
        path,
        f"create trigger no_{state}_{id} before update on {table} when new.id = {id} and new.{column} = '{word}' "
        f"begin select raise({action}); end",
    )


def states_of(table: SQLiteTable) -> list[str]:
    return [job.state.value for job in table.find(Query(newest_first=False)).jobs]


def reaped_ids(reaped: Sequence[Reaped]) -> list[str]:
    return [each.id for each in reaped]


def messages(caplog: pytest.LogCaptureFixture, *levels: int) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno in levels]


@pytest.mark.parametrize("action", ["abort", "fail", "rollback"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_row_whose_completion_is_refused_fails_with_the_message_and_the_others_land(
    path: Path, kind: str, action: str
) -> None:
    given_orders(path, *["pending"] * 5)

    with opened(path, **KINDS[kind]) as table:
        taken = take(table, limit=5)
        reject(path, kind, 3, State.COMPLETED, f"{action}, '{REFUSED}'")
        settled = table.settle([build_completion(each) for each in taken])

        assert settled == [True, True, Unsettled(REFUSED, is_failed=True), True, True]
        assert states_of(table) == ["completed", "completed", "failed", "completed", "completed"]
        assert REFUSED in job_of(table, "3").errors[0]


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_whose_failure_is_refused_too_stays_running(path: Path, kind: str) -> None:
    given_orders(path, *["pending"] * 3)

    with opened(path, **KINDS[kind]) as table:
        taken = take(table, limit=3)
        reject(path, kind, 2, State.COMPLETED)
        reject(path, kind, 2, State.FAILED)
        settled = table.settle([build_completion(each) for each in taken])

        assert settled == [True, Unsettled(REFUSED), True]
        assert states_of(table) == ["completed", "running", "completed"]
        assert extend(table, taken[1].hold) is HoldStatus.HELD


def test_a_failure_that_a_check_of_the_error_column_refuses_costs_its_neighbours_nothing(
    path: Path, clock: Clock
) -> None:
    given_orders(path, *["pending"] * 3)
    execute(path, "alter table orders add column last_error text check (length(last_error) <= 255)")
    columns: Any = {"state": "status", "error": "last_error"}

    with opened(path, clock=clock, columns=columns, states=STATES) as table:
        first, second, third = take(table, limit=3, lease=10)
        settled = table.settle([build_failure(first), build_failure(second, "x" * 256), build_completion(third)])
        clock.advance(10)
        reaped = table.reap()

        assert settled == [True, Unsettled("CHECK constraint failed: length(last_error) <= 255", is_failed=True), True]
        assert reaped == []


class StrictDatabase(Database):
    """A database as of a SQLite library that was built to enforce foreign keys on every connection."""

    def _write_connection(self, ends_at: float) -> sqlite3.Connection:
        db = super()._write_connection(ends_at)
        db.execute("pragma foreign_keys = on")
        return db


def test_a_row_that_violates_a_deferred_foreign_key_at_the_commit_fails_alone(path: Path) -> None:
    given_orders(path, *["pending"] * 4)
    execute(
        path,
        "create table invoices (id integer primary key)",
        "alter table orders add column invoice integer references invoices (id) deferrable initially deferred",
        "create trigger billed after update on orders when new.id = 2 and new.status = 'done' "
        "begin update orders set invoice = 7 where id = 2; end",
    )
    database = StrictDatabase(path, clock=None, synchronous="normal", timeout=60, is_bare=True)

    with closing(SQLiteTable(database, build_table_spec("orders", **MAPPED), is_owner=True)) as table:
        table.migrate()
        settled = table.settle([build_completion(each) for each in take(table, limit=4)])

        assert settled == [True, Unsettled("FOREIGN KEY constraint failed", is_failed=True), True, True]
        assert rows(path, "select id, status, invoice from orders where id = 2") == [(2, "failed", None)]


def test_an_exchange_with_a_refused_settlement_settles_the_others_and_claims(path: Path) -> None:
    given_orders(path, *["pending"] * 5)

    with opened(path, **MAPPED) as table:
        taken = take(table, limit=3)
        reject(path, "mapped", 2, State.COMPLETED)
        settled, claimed = exchange(table, [build_completion(each) for each in taken], request(limit=5))

        assert settled == [True, Unsettled(REFUSED, is_failed=True), True]
        assert ids_of(claimed.jobs) == ["4", "5"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_refused_extension_is_reported_as_rejected_and_the_others_are_held(
    path: Path, clock: Clock, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    given_orders(path, *["pending"] * 3)

    with opened(path, clock=clock, **KINDS[kind]) as table:
        taken = take(table, limit=3, lease=10)
        reject(path, kind, 2, State.RUNNING)
        clock.advance(5)
        statuses = [table.extend([Extension(hold=each.hold, lease=10) for each in taken]) for _ in range(2)]
        clock.advance(5)
        reaped = table.reap()

        assert statuses == [[HoldStatus.HELD, HoldStatus.REJECTED, HoldStatus.HELD]] * 2
        assert reaped_ids(reaped) == ["2"]
        assert messages(caplog, logging.ERROR) == [
            f"row 2 of orders not extended: the table rejects the write: {REFUSED}; the other rows are not affected"
        ]


@pytest.mark.parametrize("reaps", ["reap", "claim"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_row_whose_requeue_is_refused_fails_with_the_reason_and_the_others_are_requeued(
    path: Path, clock: Clock, kind: str, reaps: str
) -> None:
    given_orders(path, *["pending"] * 4)

    with opened(path, clock=clock, **KINDS[kind]) as table:
        take(table, limit=4, lease=10)
        reject(path, kind, 2, State.QUEUED)
        clock.advance(10)
        if reaps == "reap":
            assert [(each.id, each.state.value) for each in table.reap()] == [
                ("1", "queued"),
                ("2", "failed"),
                ("3", "queued"),
                ("4", "queued"),
            ]
        taken = take(table, limit=4)
        job = job_of(table, "2")

        assert ids_of(taken) == ["1", "3", "4"]
        assert (job.state, job.crashes, job.finished_at) == (State.FAILED, 1, clock.now)
        assert [each.outcome for each in job.history] == [Outcome.EXPIRED]
        assert job.errors[0].startswith("lease expired at 2026-01-01T12:00:10+00:00; worker 'w1' claimed the job at")
        assert job.errors[0].endswith(f"; the table rejected the end of the claim: {REFUSED}")


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_that_a_dead_worker_had_not_started_fails_with_the_reason_if_its_release_is_refused(
    path: Path, clock: Clock, kind: str
) -> None:
    given_orders(path, *["pending"] * 3)

    with opened(path, clock=clock, **KINDS[kind]) as table:
        take(table, limit=3)
        reject(path, kind, 2, State.QUEUED)
        reaped = table.reap(worker="w1", started=["1"])
        job = job_of(table, "2")

        assert [each.state.value for each in reaped] == ["queued", "failed", "queued"]
        assert (job.attempts, job.crashes) == (0, 0)
        assert job.errors[0].startswith("worker 'w1' was reported dead; it claimed the job at 2026-01-01T12:00:00")
        assert job.errors[0].endswith(f"; the table rejected the end of the claim: {REFUSED}")


@pytest.mark.parametrize("kind", KINDS)
def test_an_expired_row_for_which_done_if_fails_is_failed_and_the_others_are_requeued(
    path: Path, clock: Clock, kind: str
) -> None:
    given_orders(path, *["pending"] * 3)

    with opened(path, clock=clock, done_if="json_extract(source, '$.done')", **KINDS[kind]) as table:
        take(table, limit=3, lease=10)
        execute(path, "update orders set source = '{}'", "update orders set source = 'no JSON' where id = 2")
        clock.advance(10)
        reaped = table.reap()

        assert [each.state.value for each in reaped] == ["queued", "failed", "queued"]
        assert job_of(table, "2").errors[0].endswith("; the table rejected the end of the claim: malformed JSON")


@pytest.mark.parametrize("action", [ABORT, "ignore"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_row_that_cannot_be_reaped_is_logged_once_and_keeps_nobody_waiting(
    path: Path, clock: Clock, caplog: pytest.LogCaptureFixture, kind: str, action: str
) -> None:
    reason = REFUSED if action == ABORT else NO_EFFECT
    given_orders(path, *["pending"] * 3)

    with opened(path, clock=clock, **KINDS[kind]) as table:
        take(table, limit=2, lease=10)
        reject(path, kind, 1, State.QUEUED, action)
        reject(path, kind, 1, State.FAILED, action)
        clock.advance(10)
        reaped = [reaped_ids(table.reap(limit=1)) for _ in range(2)]
        taken = take(table, limit=5)

        assert reaped == [["2"], []]
        assert ids_of(taken) == ["2", "3"]
        assert job_of(table, "1").state is State.RUNNING
        assert messages(caplog, logging.ERROR) == [
            f"row 1 of orders not reaped: the table rejects the write: {reason}; the other rows are not affected"
        ]


def test_a_row_whose_claim_is_extended_between_two_batches_of_a_reap_is_not_reaped(path: Path, clock: Clock) -> None:
    given_orders(path, "pending", "pending")

    with opened(path, clock=clock, **MAPPED) as table:
        first, _ = take(table, limit=2, lease=10)
        clock.advance(10)
        keys = SQLiteRowBatches(table._bound_table).keys_to_reap(Reaping(), 5, [])
        extend(table, first.hold)

        assert keys == [(1,), (2,)]
        assert reaped_ids(SQLiteRowBatches(table._bound_table).reap_rows(Reaping(), keys).reaped) == ["2"]
        assert SQLiteRowBatches(table._bound_table).reap_rows(Reaping(worker="other"), keys, "refused").reaped == []


def queue_again(path: Path, kind: str) -> None:
    table, column = TABLES[kind]
    queued, running = ("pending", "processing") if kind == "mapped" else ("queued", "running")
    execute(
        path,
        f"create trigger again after update on {table} when new.id = 1 and new.{column} = '{running}' "
        f"begin update {table} set {column} = '{queued}' where id = 1; end",
    )


def allow_one_running(path: Path, kind: str) -> None:
    table, column = TABLES[kind]
    running = "processing" if kind == "mapped" else "running"
    fixed = "source" if kind == "mapped" else column
    execute(path, "update orders set source = id where id > 1")
    if kind == "mapped":
        execute(path, "insert into orders (id, status, source) values (0, 'processing', 'scraper')")
    else:
        execute(path, "insert into orders (id, status) values (0, 'done')")
        execute(path, "insert into tenure_orders (id, state) values (0, 'running')")
    condition = f"{column} = '{running}'" + ("" if kind == "mapped" else " and id < 2")
    execute(path, f"create unique index one_running on {table} ({fixed}) where {condition}")


def index_without_the_first_row(path: Path, kind: str) -> None:
    """Create a full-text index with its trigger. The index sees that it lacks a row only if the row has many words."""
    table, _ = TABLES[kind]
    entry = "select 'delete', id, source from orders where id = old.id"
    execute(
        path,
        "update orders set source = 'an order from before the index, with more words than the others together' "
        "where id = 1",
        "create virtual table words using fts5(source, content='orders', content_rowid='id')",
        "insert into words (rowid, source) select id, source from orders where id > 1",
        f"create trigger indexed after update on {table} begin insert into words (words, rowid, source) {entry}; "
        "insert into words (rowid, source) select id, source from orders where id = old.id; end",
    )


REJECTED = "the table rejects the write: "

HINDRANCES: dict[str, tuple[Callable[[Path, str], None], str]] = {
    "a trigger refuses it": (lambda path, kind: reject(path, kind, 1, State.RUNNING), REJECTED + REFUSED),
    "a trigger ends the transaction": (
        lambda path, kind: reject(path, kind, 1, State.RUNNING, f"rollback, '{REFUSED}'"),
        REJECTED + REFUSED,
    ),
    "a trigger ignores the update": (lambda path, kind: reject(path, kind, 1, State.RUNNING, "ignore"), NO_EFFECT),
    "a trigger queues it again": (queue_again, NO_EFFECT),
    "a unique index refuses it": (allow_one_running, REJECTED + "UNIQUE constraint failed"),
    "a full-text index does not have it": (
        index_without_the_first_row,
        REJECTED + "a virtual table, such as a full-text index, is damaged or does not match the row (",
    ),
}


@pytest.mark.parametrize("hindrance", HINDRANCES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_row_at_the_head_that_cannot_be_claimed_is_logged_once_and_the_rows_behind_it_are_claimed(
    path: Path, caplog: pytest.LogCaptureFixture, kind: str, hindrance: str
) -> None:
    hinder, reason = HINDRANCES[hindrance]
    given_orders(path, *["pending"] * 4)

    with opened(path, **KINDS[kind]) as table:
        hinder(path, kind)
        first, second, others = take(table, limit=1), take(table, limit=1), take(table, limit=5)

        assert [ids_of(first), ids_of(second), ids_of(others)] == [["2"], ["3"], ["4"]]
        assert job_of(table, "1").state is State.QUEUED
        level = logging.WARNING if reason == NO_EFFECT else logging.ERROR
        (told,) = [line for line in messages(caplog, level) if " not claimed: " in line]
        assert told.startswith(f"row 1 of orders not claimed: {reason}")


@pytest.mark.parametrize("kind", KINDS)
def test_a_virtual_table_that_is_found_damaged_at_the_commit_is_no_damaged_file(
    path: Path, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    home, _ = TABLES[kind]
    given_orders(path, *["pending"] * 3)

    with opened(path, **KINDS[kind]) as table:
        (taken,) = take(table)
        execute(path, "create virtual table words using fts4(source)")
        # FTS4 merges 16 segments into one at the next write, and reads the damaged ones.
        for _ in range(16):
            execute(path, "insert into words (source) values ('word')")
        execute(
            path,
            "update words_segdir set root = x'00ffffffff'",
            f"create trigger written after update on {home} begin insert into words (source) values ('word'); end",
        )

        assert take(table, limit=5) == []
        assert isinstance(settle(table, build_completion(taken)), Unsettled)
        (told,) = messages(caplog, logging.ERROR)
        assert told.startswith("rows 2, 3 of orders not claimed: the table rejects the write: a virtual table")


def test_a_damaged_virtual_table_in_done_if_is_no_damaged_file(path: Path) -> None:
    given_orders(path, "pending")
    execute(
        path,
        "create virtual table words using fts5(source, content='orders', content_rowid='id')",
        "insert into words (rowid, source) values (7, 'the word of a deleted order')",
    )
    done = "exists (select source from words where words match 'word' and source <> '')"

    with (
        opened(path, done_if=done, **MAPPED) as table,
        pytest.raises(StatementRejected, match="a virtual table, such as a full-text index, is damaged"),
    ):
        table.already_done(["1"])


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_file_is_an_outage_and_no_row_is_to_blame(
    path: Path, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    given_orders(path, *["pending"] * 3)
    with opened(path, **KINDS[kind]):
        pass
    ((page, size),) = rows(
        path, f"select rootpage, page_size from sqlite_schema, pragma_page_size where name = '{TABLES[kind][0]}'"
    )
    content = path.read_bytes()
    path.write_bytes(content[: (page - 1) * size] + b"\xff" * size + content[page * size :])

    with opened(path, is_migrated=False, **KINDS[kind]) as table:
        with pytest.raises(StoreUnavailable, match="the file is damaged; restore a backup"):
            take(table)

        assert messages(caplog, logging.ERROR) == []


def test_a_row_that_can_be_claimed_again_is_claimed_after_a_while(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenure.backends.tables.avoided_rows.SHORTEST_DELAY", 0.0)
    given_orders(path, "pending")

    with opened(path, **MAPPED) as table:
        reject(path, "mapped", 1, State.RUNNING)
        refused = take(table)
        execute(path, "drop trigger no_running_1")

        assert refused == []
        assert ids_of(take(table)) == ["1"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_repeated_token_returns_the_rows_of_a_claim_that_was_made_in_several_batches(path: Path, kind: str) -> None:
    given_orders(path, *["pending"] * 6)

    with opened(path, **KINDS[kind]) as table:
        reject(path, kind, 2, State.RUNNING)
        reject(path, kind, 5, State.RUNNING)
        asked = request(limit=4)
        claimed, again = table.claim(asked).jobs, table.claim(asked).jobs

        assert ids_of(claimed) == ["1", "3", "4", "6"]
        assert again == claimed
        assert [job.fence for job in again] == [1, 1, 1, 1]


def test_an_exchange_with_a_refused_settlement_takes_no_more_for_a_token_that_holds_rows(path: Path) -> None:
    given_orders(path, *["pending"] * 5)

    with opened(path, **MAPPED) as table:
        other, asked = take_one(table), request(limit=2)
        claimed = table.claim(asked).jobs
        reject(path, "mapped", 1, State.COMPLETED)
        settled, again = exchange(table, [build_completion(other)], asked)

        assert settled == [Unsettled(REFUSED, is_failed=True)]
        assert again.jobs == claimed
        assert states_of(table) == ["failed", "running", "running", "queued", "queued"]


def test_an_exchange_with_a_refused_settlement_takes_no_new_rows_for_a_token_that_holds_fewer_than_its_limit(
    path: Path,
) -> None:
    given_orders(path, *["pending"] * 2)

    with opened(path, **MAPPED) as table:
        other, asked = take_one(table), request(limit=5)
        table.claim(asked)
        reject(path, "mapped", 1, State.COMPLETED)
        execute(path, "insert into orders (status) values ('pending')")
        _, again = exchange(table, [build_completion(other)], asked)

        assert ids_of(again.jobs) == ["2"]


def test_a_later_batch_of_a_claim_takes_only_rows_that_are_still_due(path: Path) -> None:
    given_orders(path, *["pending"] * 4)

    with opened(path, where="source = 'scraper'", **MAPPED) as table:
        keys = SQLiteRowBatches(table._bound_table).due_keys(5, [])
        take_one(table)
        execute(path, "update orders set source = 'human' where id = 2", "delete from orders where id = 3")
        taken = SQLiteRowBatches(table._bound_table).take(request(), keys, 0)

        assert keys == [(1,), (2,), (3,), (4,)]
        assert (ids_of(taken.jobs), taken.missed) == (["4"], [])


def test_a_row_that_a_trigger_deletes_during_a_claim_does_not_stop_the_claim(path: Path) -> None:
    given_orders(path, *["pending"] * 3)

    with opened(path, **MAPPED) as table:
        execute(
            path,
            "create trigger replaced after update on orders when new.id = 1 and new.status = 'processing' "
            "begin delete from orders where id = 2; end",
        )

        assert ids_of(take(table, limit=3)) == ["1", "3"]


UNREADABLE_KEYS = (
    "create table orders (id text primary key, status text default 'pending')",
    "insert into orders (id) values (cast(x'41ff' as text)), (cast(x'42ff' as text)), ('z')",
)


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_whose_key_cannot_be_read_does_not_keep_claims_from_the_rows_behind_it(path: Path, kind: str) -> None:
    execute(path, *UNREADABLE_KEYS)

    with opened(path, **KINDS[kind]) as table:
        assert ids_of(take(table, limit=1)) == ["z"]


def test_a_row_whose_key_cannot_be_read_does_not_keep_the_others_from_being_reaped(path: Path, clock: Clock) -> None:
    execute(path, *UNREADABLE_KEYS)

    with opened(path, clock=clock, **MAPPED) as table:
        execute(path, "update orders set status = 'processing', tenure_leased_until = '2000-01-01'")

        assert reaped_ids(table.reap(limit=1)) == ["z"]


def test_waiting_does_not_return_because_of_rows_that_cannot_be_claimed_or_reaped(path: Path, clock: Clock) -> None:
    given_orders(path, "pending", "pending")

    with opened(path, clock=clock, **MAPPED) as table:
        take_one(table, lease=10)
        for state in (State.QUEUED, State.FAILED):
            reject(path, "mapped", 1, state)
        reject(path, "mapped", 2, State.RUNNING)
        clock.advance(10)
        taken = take(table)
        began_at = time.monotonic()
        table.wait(None, None, 0.1)

        assert taken == []
        assert time.monotonic() - began_at >= 0.1


def test_a_rejection_tells_an_invalid_statement_from_a_failure_on_a_row(path: Path) -> None:
    given_orders(path, "pending")

    with opened(path, done_if="json_extract(source, '$.done')", **MAPPED) as table:
        with pytest.raises(StatementRejected, match="a statement on table 'orders' failed: malformed JSON") as failed:
            table.already_done(["1"])
        execute(path, "create trigger broken before update on orders begin insert into missing values (1); end")
        with pytest.raises(StatementRejected, match=r"no such table: main\.missing; check where, done_if") as invalid:
            table.move(["1"], Move.CANCEL)

        assert (failed.value.is_invalid, invalid.value.is_invalid) == (False, True)
        assert failed.value.reason == "malformed JSON"


DEEP = "[" * 5_000 + "]" * 5_000
LINE = '["failed", 1, "2026-01-01T12:00:00+00:00", null, null, null, {}]'
ODD_RECORDS = {
    "deep": DEEP,
    "a list": "[1]",
    "a number": "7",
    "huge": f'{{"dropped": {"9" * 5_000}}}',
    "an infinite count": '{"dropped": Infinity}',
    "a text as count": '{"dropped": "many"}',
    "progress of another kind": '{"progress": {"done": "half"}}',
    "progress of unknown parts": '{"progress": {"half": 1}}',
    "a result of another kind": '{"result": {"a": 1}}',
    "a deep mark": f'{{"found_done": {"[" * 500 + "]" * 500}}}',
    "lines of another kind": '{"history": 7}',
    "a short line": '{"history": [["failed"]]}',
    "a line with another error": f'{{"history": [{LINE.format(7)}]}}',
    "a line with an odd error": f'{{"history": [{LINE.format(chr(34) + "bad " + chr(92) + "ud800" + chr(34))}]}}',
    "a line without a time zone": '{"history": [["failed", 1, "2026-01-01T12:00:00", null, null, null, "bad"]]}',
    "a line out of range": '{"history": [["failed", 1, "0001-01-01T00:00:00+14:00", null, null, null, "bad"]]}',
}


@pytest.mark.parametrize("name", ODD_RECORDS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_record_that_cannot_be_read_costs_nobody_anything(path: Path, clock: Clock, kind: str, name: str) -> None:
    given_orders(path, *["pending"] * 3)
    home, record = ("orders", "tenure_record") if kind == "mapped" else ("tenure_orders", "record")

    with opened(path, clock=clock, **KINDS[kind]) as table:
        take(table, limit=3, lease=10)
        with closing(sqlite3.connect(path)) as db, db:
            db.execute(f"update {home} set {record} = ? where id = 2", (ODD_RECORDS[name],))
        found = ids_of(table.find(Query(error="bad")).jobs), ids_of(table.find(Query()).jobs)
        clock.advance(10)
        taken = take(table, limit=3)
        settled = table.settle([build_failure(each, final=True) for each in taken])

        assert found[1] == ["3", "2", "1"]
        assert (ids_of(taken), settled) == (["1", "2", "3"], [True, True, True])
        assert table.move(["2"], Move.RETRY)[0].moved


@pytest.mark.parametrize("result", [DEEP, "9" * 5_000, "{", '"\\'])
def test_a_result_that_cannot_be_decoded_is_returned_as_its_text(path: Path, result: str) -> None:
    given_orders(path, "pending", "pending")

    with opened(path, **MAPPED) as table:
        table.settle([build_completion(each, 7) for each in take(table, limit=2)])
        with closing(sqlite3.connect(path)) as db, db:
            db.execute("update orders set tenure_record = json_object('result', ?) where id = 1", (result,))
        first, second = table.find(Query(newest_first=False)).jobs

        assert (first.result, second.result) == (result, 7)


ODD_VALUES = ["9e999", "-9e999", "1e300", "9223372036854775807", "'many'", "x'ff'", "''", "cast(x'ff' as text)", "null"]
ODD_COLUMNS = {
    "leased_until": "until",
    "started_at": "began",
    "completed_at": "ended",
    "run_at": "after",
    "created_at": "made",
    "attempts": "tries",
    "crashes": "crashed",
    "fence": "turn",
    "priority": "urgency",
    "worker": "holder",
    "error": "problem",
}


@pytest.mark.parametrize("value", ODD_VALUES)
@pytest.mark.parametrize("role", ODD_COLUMNS)
def test_an_odd_value_in_a_column_of_a_role_costs_the_other_rows_nothing(
    path: Path, clock: Clock, role: str, value: str
) -> None:
    execute(
        path,
        "create table orders (id integer primary key, status text default 'pending', until, began, ended, after, made, "
        "tries integer, crashed integer, turn integer, urgency integer, holder text, problem text)",
        "insert into orders (id) values (1), (2), (3)",
    )
    columns: Any = {"state": "status", **ODD_COLUMNS}
    column = ODD_COLUMNS[role]

    with opened(path, clock=clock, columns=columns, states=STATES) as table:
        execute(path, f"update orders set {column} = {value} where id = 2")
        first = take(table, limit=3, lease=10)
        execute(path, f"update orders set {column} = {value} where id = 2")
        shown = ids_of(table.find(Query(newest_first=False, limit=1)).jobs)
        number = table.stats().total("running")
        table.wait(None, None, 0)
        clock.advance(10)
        reaped = reaped_ids(table.reap())
        second = take(table, limit=3)
        settled = table.settle([build_release(each) for each in second])

        assert {"1", "3"} <= set(ids_of(first)) & set(reaped) & set(ids_of(second))
        assert (len(shown), number) == (1, len(first))
        assert settled == [True] * len(second)


@pytest.mark.parametrize("newest_first", [False, True])
def test_pages_pass_over_a_row_whose_sort_value_is_no_valid_text(path: Path, newest_first: bool) -> None:  # noqa: FBT001
    given_orders(path, *["pending"] * 3)
    execute(path, "update orders set created_at = cast(x'32ff' as text) where id = 2")
    columns: Any = {"state": "status", "created_at": "created_at"}
    seen, cursor = [], None

    with opened(path, columns=columns, states=STATES) as table:
        for _ in range(4):
            page = table.find(Query(newest_first=newest_first, limit=1, cursor=cursor))
            seen += ids_of(page.jobs)
            cursor = page.cursor
        outlook = table.explain("2", None, None)

        assert (sorted(seen), cursor) == (["1", "2", "3"], None)
        assert outlook is not None
        assert outlook.ahead == 2


def test_a_row_with_a_generated_column_that_fails_is_logged_and_does_not_stop_claims(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    given_orders(path, *["pending"] * 3)
    execute(path, "update orders set source = iif(id = 2, 'no JSON', '{}')")

    with opened(path, **MAPPED) as table:
        execute(path, "alter table orders add column amount generated always as (json_extract(source, '$.a')) virtual")

        assert ids_of(take(table, limit=3)) == ["1", "3"]
        assert [line.split(":")[0] for line in messages(caplog, logging.ERROR)] == ["row 2 of orders not claimed"]


def test_a_running_row_for_which_where_fails_can_be_extended_settled_and_reaped(path: Path, clock: Clock) -> None:
    given_orders(path, "pending", "pending")
    execute(path, "update orders set source = '{}'")

    with opened(path, clock=clock, where="json_extract(source, '$.held') is null", **MAPPED) as table:
        first, _ = take(table, limit=2, lease=10)
        execute(path, "update orders set source = 'no JSON'")
        clock.advance(10)
        held = extend(table, first.hold)
        reaped = table.reap()

        assert (held, reaped_ids(reaped)) == (HoldStatus.HELD, ["2"])
        assert settle(table, build_completion(first))


LATE = timedelta(seconds=1)
FORMATS = {"integer": LATE, "bigint": LATE, "real": timedelta(0), "text": timedelta(0), "datetime": timedelta(0)}


@pytest.mark.parametrize("declared", FORMATS)
def test_a_lease_never_ends_before_its_time_whatever_the_precision_of_the_column(
    path: Path, clock: Clock, declared: str
) -> None:
    execute(path, f"create table orders (id integer primary key, status text default 'pending', until {declared})")
    execute(path, "insert into orders (id) values (1)")
    clock.now = datetime(2026, 1, 1, 12, 0, 0, 900_001, tzinfo=UTC)

    with opened(path, clock=clock, columns={"state": "status", "leased_until": "until"}, states=STATES) as table:
        taken = take_one(table, lease=10)
        clock.advance(9.999_999)
        claimed_in_time = table.reap()
        extend(table, taken.hold, lease=20.5)
        clock.advance(20.499_999)
        extended_in_time = table.reap()
        clock.now += timedelta(microseconds=1) + FORMATS[declared]

        assert (claimed_in_time, extended_in_time) == ([], [])
        assert reaped_ids(table.reap()) == ["1"]


def test_a_claim_that_is_lost_before_its_rejected_row_can_fail_is_lost(path: Path, clock: Clock) -> None:
    given_orders(path, "pending")

    with opened(path, clock=clock, **MAPPED) as table:
        taken = take_one(table, lease=10)
        reject(path, "mapped", 1, State.COMPLETED)

        def settle_late(settlements: Sequence[Settlement]) -> list[Settled]:
            try:
                return SQLiteRowBatches(table._bound_table).settle(settlements)
            except StatementRejected:
                clock.advance(10)
                table.reap()
                raise

        assert settle_isolated([build_completion(taken)], settle_late) == [False]
        assert job_of(table, "1").state is State.QUEUED


def test_an_exchange_with_a_refused_settlement_claims_rows_whose_lease_expired(path: Path, clock: Clock) -> None:
    given_orders(path, "pending", "pending")

    with opened(path, clock=clock, **MAPPED) as table:
        first = take_one(table, lease=60)
        take_one(table, lease=10)
        reject(path, "mapped", 1, State.COMPLETED)
        clock.advance(10)
        _, claimed = exchange(table, [build_completion(first)], request())

        assert ids_of(claimed.jobs) == ["2"]


def test_an_exchange_with_a_refused_settlement_reaps_nothing_for_a_token_that_holds_rows(
    path: Path, clock: Clock
) -> None:
    given_orders(path, *["pending"] * 3)

    with opened(path, clock=clock, **MAPPED) as table:
        first = take_one(table, lease=60)
        take_one(table, lease=10)
        asked = request(lease=60)
        table.claim(asked)
        reject(path, "mapped", 1, State.COMPLETED)
        reject(path, "mapped", 1, State.FAILED)
        clock.advance(10)
        _, claimed = exchange(table, [build_completion(first)], asked)

        assert ids_of(claimed.jobs) == ["3"]
        assert job_of(table, "2").state is State.RUNNING


def test_an_exchange_with_a_refused_settlement_claims_nothing_more_for_a_token_that_holds_rows(path: Path) -> None:
    given_orders(path, "pending", "pending")

    with opened(path, **MAPPED) as table:
        first = take_one(table)
        asked = request(limit=5)
        table.claim(asked)
        execute(path, "insert into orders (status, source) values ('pending', 'scraper')")
        reject(path, "mapped", 1, State.COMPLETED)
        reject(path, "mapped", 1, State.FAILED)
        _, claimed = exchange(table, [build_completion(first)], asked)

        assert ids_of(claimed.jobs) == ["2"]


def test_a_row_that_is_missed_once_is_tried_again_in_the_same_claim(path: Path) -> None:
    given_orders(path, "pending", "pending")

    with opened(path, **MAPPED) as table:
        first = take_one(table)
        reject(path, "mapped", 1, State.COMPLETED)
        execute(
            path,
            "create table tries (id integer)",
            "create trigger once before update on orders when new.id = 2 and not exists (select 1 from tries) "
            "begin insert into tries values (2); select raise(ignore); end",
        )
        _, claimed = exchange(table, [build_completion(first)], request())

        assert ids_of(claimed.jobs) == ["2"]


class Overtaken(SQLiteRowBatches):
    """Batches of a claim that the client has sent again: the second request is served before the third batch."""

    def __init__(self, table: SQLiteTable, path: Path) -> None:
        super().__init__(table._bound_table)
        self._table, self._path = table, path
        self._batch_count = 0

    def take(self, request: ClaimRequest, keys: Sequence[KeyValues], already_taken: int) -> Taken[KeyValues]:
        self._batch_count += 1
        if self._batch_count == 3:
            execute(self._path, "update orders set status = 'paused' where id = 3")
            self._table.claim(request)
            execute(self._path, "update orders set status = 'pending' where id = 3")
        return super().take(request, keys, already_taken)


def test_a_claim_in_several_batches_that_was_sent_again_takes_no_more_than_the_second_request(path: Path) -> None:
    given_orders(path, *["pending"] * 3)

    with opened(path, **MAPPED) as table:
        reject(path, "mapped", 2, State.RUNNING)
        _, claimed = RowIsolation(Overtaken(table, path), "orders").exchange([], request(limit=5))

        assert ids_of(claimed.jobs) == ["1"]
        assert states_of(table) == ["running", "queued", "queued"]


@pytest.fixture
def ticks(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A clock of `AvoidedRows` that the test advances."""
    ticks = SimpleNamespace(now=1_000.0)
    ticks.monotonic = lambda: ticks.now
    monkeypatch.setattr("tenure.backends.tables.avoided_rows.time", ticks)
    return ticks


def test_a_row_that_is_rejected_again_and_again_is_avoided_for_longer_and_longer(ticks: SimpleNamespace) -> None:
    avoided: AvoidedRows[str] = AvoidedRows("orders")
    delays: list[float] = []
    for _ in range(8):
        started_at = ticks.now
        avoided.avoid({"row": "row"}, "claimed", REFUSED)
        while avoided.keys():
            ticks.now += SHORTEST_DELAY
        delays.append(ticks.now - started_at)

    assert delays == [1, 2, 4, 8, 16, 32, LONGEST_DELAY, LONGEST_DELAY]


def test_a_row_that_was_not_rejected_for_long_counts_as_new(
    ticks: SimpleNamespace, caplog: pytest.LogCaptureFixture
) -> None:
    avoided: AvoidedRows[str] = AvoidedRows("orders")
    for _ in range(2):
        avoided.avoid({"row": "row"}, "claimed", REFUSED)
    ticks.now += 2 * SHORTEST_DELAY + REMEMBERED
    avoided.avoid({"row": "row"}, "claimed", REFUSED)
    ticks.now += SHORTEST_DELAY

    assert avoided.keys() == []
    assert len(messages(caplog, logging.ERROR)) == 2


def test_a_row_that_is_rejected_after_it_was_locked_is_logged_once_for_each(
    ticks: SimpleNamespace, caplog: pytest.LogCaptureFixture
) -> None:
    avoided: AvoidedRows[str] = AvoidedRows("orders")

    for level in (logging.WARNING, logging.ERROR, logging.WARNING, logging.ERROR):
        avoided.avoid({"row": "row"}, "claimed", REFUSED, level=level)
        ticks.now += LONGEST_DELAY

    assert [record.levelno for record in caplog.records] == [logging.WARNING, logging.ERROR]


def test_a_row_is_logged_again_if_the_table_rejects_another_action(
    ticks: SimpleNamespace, caplog: pytest.LogCaptureFixture
) -> None:
    avoided: AvoidedRows[str] = AvoidedRows("orders")

    for action in ("claimed", "claimed", "reaped", "reaped"):
        avoided.avoid({"row": "row"}, action, REFUSED)
        ticks.now += LONGEST_DELAY

    assert [text.split(":")[0] for text in messages(caplog, logging.ERROR)] == [
        "row row of orders not claimed",
        "row row of orders not reaped",
    ]


def test_a_row_that_was_claimed_meanwhile_counts_as_new(ticks: SimpleNamespace) -> None:
    avoided: AvoidedRows[str] = AvoidedRows("orders")
    for _ in range(3):
        avoided.avoid({"row": "row"}, "claimed", REFUSED)
        ticks.now += LONGEST_DELAY
    avoided.forget(["row"])

    avoided.avoid({"row": "row"}, "claimed", REFUSED)
    ticks.now += SHORTEST_DELAY

    assert avoided.keys() == []


def test_failures_at_the_same_time_count_once(ticks: SimpleNamespace) -> None:
    avoided: AvoidedRows[str] = AvoidedRows("orders")

    for _ in range(5):
        avoided.avoid({"row": "row"}, "claimed", REFUSED)
    ticks.now += SHORTEST_DELAY

    assert avoided.keys() == []


def test_many_avoided_rows_are_logged_in_one_line_of_limited_length(caplog: pytest.LogCaptureFixture) -> None:
    avoided: AvoidedRows[int] = AvoidedRows("orders")

    avoided.avoid({number: str(number) for number in range(MOST_LISTED + 5)}, "claimed", REFUSED)

    (told,) = messages(caplog, logging.ERROR)
    assert f", {MOST_LISTED - 1} and 5 more of orders not claimed" in told


def test_the_number_of_avoided_rows_is_bounded(ticks: SimpleNamespace) -> None:
    avoided: AvoidedRows[int] = AvoidedRows("orders")
    for number in range(MOST_AVOIDED + 5):
        avoided.avoid({number: str(number)}, "claimed", REFUSED)

    assert avoided.keys() == list(range(5, MOST_AVOIDED + 5))
    assert ticks.now == 1_000.0
