"""Counting jobs by queue and type."""

from datetime import timedelta

from tenure.backends.protocol import SWEEP, Backend
from tenure.core.operations import Move, Purge, StatsRow
from tenure.testing import Clock
from tenure.testing.conformance.building import build_record, take


def test_each_queue_and_type_has_a_row_of_its_own(store: Backend, clock: Clock) -> None:
    store.enqueue(
        [
            build_record("b", queue="x"),
            build_record("a", queue="y", delay=60),
            build_record("a", queue="x"),
            build_record("a", queue="x"),
        ]
    )

    assert store.stats().rows == (
        StatsRow(queue="x", type="a", due=2, oldest_due_at=clock.now),
        StatsRow(queue="x", type="b", due=1, oldest_due_at=clock.now),
        StatsRow(queue="y", type="a", scheduled=1),
    )


def test_rows_are_sorted_by_code_point(store: Backend) -> None:
    store.enqueue([build_record(type, queue=queue) for queue in ("a", "_", "B", "ä") for type in ("b", "A")])

    rows = [(row.queue, row.type) for row in store.stats().rows]

    assert rows == [(queue, type) for queue in ("B", "_", "a", "ä") for type in ("A", "b")]


def test_the_oldest_due_job_is_told_whatever_its_priority(store: Backend, clock: Clock) -> None:
    store.enqueue([build_record(priority=-1)])
    clock.advance(60)
    store.enqueue([build_record(priority=1)])

    (row,) = store.stats().rows

    assert row.oldest_due_at == clock.now - timedelta(seconds=60)


def test_a_burst_is_counted_as_due_at_once(store: Backend, clock: Clock) -> None:
    store.enqueue([build_record(delay=10) for _ in range(SWEEP + 500)])
    clock.advance(10)

    assert store.stats().total("due") == SWEEP + 500


def test_totals_are_of_all_queues_or_of_one(store: Backend) -> None:
    store.enqueue([build_record("a", queue="x"), build_record("b", queue="x"), build_record("a", queue="y")])
    take(store, limit=1, queues=("x",))

    stats = store.stats()

    assert (stats.total("due"), stats.total("due", queue="x"), stats.total("running")) == (2, 1, 1)


def test_a_queue_of_which_everything_was_forgotten_has_no_row(store: Backend) -> None:
    store.enqueue([build_record(id="a", queue="x"), build_record(queue="y")])
    store.move(["a"], Move.CANCEL)
    store.purge(Purge(older_than=0))

    assert [row.queue for row in store.stats().rows] == ["y"]
