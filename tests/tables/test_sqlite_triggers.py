"""User triggers that undo writes of tenure: then no row is claimed, and no settlement lands."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import tenure
from tenure.backends.tables.row_batches import NO_EFFECT
from tenure.core.job import State
from tenure.core.operations import HoldStatus, Unsettled
from tenure.testing import Clock
from tenure.testing.conformance.building import build_completion, build_failure, extend, ids_of, job_of, take
from tests.tables.lite import MAPPED, execute, given_orders, opened

IGNORED = "create trigger kept before update on orders when old.id = 1 begin select raise(ignore); end"
RESET = (
    "create trigger kept after update on orders when new.id = 1 and new.status = 'processing' "
    "begin update orders set status = 'pending' where id = 1; end"
)


def test_a_row_that_a_trigger_leaves_as_it_was_is_not_claimed(path: Path) -> None:
    given_orders(path, "pending", "pending")

    with opened(path, **MAPPED) as table:
        execute(path, IGNORED)

        assert ids_of(take(table, limit=2)) == ["2"]
        assert take(table, limit=2) == []


def test_a_row_that_a_trigger_queues_again_is_not_claimed(path: Path) -> None:
    given_orders(path, "pending", "pending")

    with opened(path, **MAPPED) as table:
        execute(path, RESET)

        assert ids_of(take(table, limit=2)) == ["2"]


def test_a_completion_in_a_transaction_that_a_trigger_skips_is_not_told_as_lost(path: Path) -> None:
    given_orders(path, "pending")

    with tenure.Table(f"sqlite:///{path}", "orders", **MAPPED) as orders:
        orders.migrate()
        (claim,) = orders.claim()
        execute(path, IGNORED)
        with (
            pytest.raises(tenure.ConfigurationError, match="the update has no effect"),
            closing(sqlite3.connect(path)) as db,
            db,
        ):
            claim.complete(connection=db)
        with pytest.raises(tenure.ConfigurationError, match="the update has no effect"), claim.transaction():
            pass

        assert [job.id for job in orders.find(state="running")] == ["1"]


def test_what_a_trigger_keeps_from_being_ended_or_extended_has_not_landed(path: Path, clock: Clock) -> None:
    given_orders(path, "pending", "pending")

    with opened(path, clock=clock, **MAPPED) as table:
        first, second = take(table, limit=2, lease=10)
        execute(path, IGNORED)

        assert extend(table, first.hold) is HoldStatus.REJECTED
        assert table.settle([build_failure(first), build_completion(first), build_completion(second)]) == [
            Unsettled(NO_EFFECT),
            Unsettled(NO_EFFECT),
            True,
        ]
        clock.advance(10)
        assert table.reap() == []
        assert job_of(table, "1").state is State.RUNNING
