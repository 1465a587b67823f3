"""Maintenance deletes empty lanes and merges counts, without losing data."""

from collections.abc import Iterator
from datetime import timedelta

import psycopg
import pytest

from tenure.backends.postgres import PostgreSQL
from tenure.backends.postgres.maintenance import merge_counts, sweep_lanes
from tenure.core.operations import COUNTS_KEPT, Event, Heartbeat, Move, Purge
from tenure.errors import StoreUnavailable
from tenure.testing import Clock
from tenure.testing.conformance.building import (
    build_completion,
    build_failure,
    build_record,
    ids_of,
    settle,
    take,
    take_one,
)
from tenure.testing.conformance.racing import RACE_TIMEOUT
from tests.postgres.somebody import enqueueing, started
from tests.postgres.stores import Place

LANES = "select queue, type from S.lanes order by queue, type"
LINES = "select minute_at, queue, event, number from S.counts order by minute_at, queue, event, number"

BEAT = Heartbeat(name="w1", host="h", pid=1, version="1")


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def timed(place: Place, clock: Clock) -> Iterator[PostgreSQL]:
    store = place.open(clock=clock)
    yield store
    store.close()


def empty_lane(store: PostgreSQL, queue: str) -> None:
    """Create a lane without jobs."""
    (each,) = store.enqueue([build_record(queue=queue)])
    store.move([each.id], Move.CANCEL)
    store.delete([each.id])


def test_a_purge_that_finds_less_than_its_limit_sweeps_the_lanes_that_are_empty(
    place: Place, store: PostgreSQL
) -> None:
    empty_lane(store, "x")
    store.enqueue([build_record(queue="y")])

    store.purge(Purge(older_than=0))

    assert place.execute(LANES) == [("y", "work")]


def test_a_handle_sweeps_only_now_and_then(place: Place, store: PostgreSQL) -> None:
    store.purge(Purge(older_than=0))
    empty_lane(store, "x")

    store.purge(Purge(older_than=0))

    assert place.execute(LANES) == [("x", "work")]


def test_a_lane_is_kept_while_it_has_a_job_of_any_state(place: Place, store: PostgreSQL) -> None:
    states = ["completed", "failed", "running", "cancelled", "due", "scheduled"]
    store.enqueue([build_record(id=each, queue=each, delay=60 if each == "scheduled" else 0) for each in states])
    settle(store, build_completion(take_one(store, queues=("completed",))))
    settle(store, build_failure(take_one(store, queues=("failed",)), final=True))
    take_one(store, queues=("running",))
    store.move(["cancelled"], Move.CANCEL)
    empty_lane(store, "nothing")

    sweep_lanes(store.database)

    assert [queue for queue, _ in place.execute(LANES)] == sorted(states)


def test_a_lane_is_not_swept_while_somebody_enqueues_into_it(place: Place, store: PostgreSQL) -> None:
    empty_lane(store, "x")

    with enqueueing(store, build_record(queue="x")), pytest.raises(StoreUnavailable, match="could not obtain lock"):
        sweep_lanes(store.database)

    assert place.execute(LANES) == [("x", "work")]
    assert len(take(store, queues=("x",))) == 1


def test_a_purge_does_not_wait_for_somebody_who_enqueues(store: PostgreSQL) -> None:
    empty_lane(store, "x")

    with enqueueing(store, build_record(queue="x")):
        assert store.purge(Purge(older_than=0)) == 0


def test_who_enqueues_while_lanes_are_swept_makes_the_lane_anew(place: Place, store: PostgreSQL) -> None:
    empty_lane(store, "x")
    statements = store.database.statements["purge"]
    with psycopg.connect(place.server) as sweeper:
        sweeper.execute(statements["lock lanes"].text)
        enqueuing = started(place, lambda: store.enqueue([build_record(id="late", queue="x")]))
        sweeper.execute(statements["delete empty lanes"].text)
    enqueuing.result(RACE_TIMEOUT)

    assert ids_of(take(store, queues=("x",))) == ["late"]


def test_counts_of_past_minutes_become_one_line_each_and_are_told_as_before(
    place: Place, timed: PostgreSQL, clock: Clock
) -> None:
    for queue in ("x", "x", "y", "x"):
        timed.enqueue([build_record(queue=queue)])
    clock.advance(60)
    timed.enqueue([build_record(queue="x")])
    timed.enqueue([build_record(queue="x")])
    before = timed.counts(3600)

    timed.beat(BEAT, ttl=30)

    past = clock.now - timedelta(seconds=60)
    assert timed.counts(3600) == before
    assert place.execute(LINES) == [
        (past, "x", "enqueued", 3),
        (past, "y", "enqueued", 1),
        (clock.now, "x", "enqueued", 1),
        (clock.now, "x", "enqueued", 1),
    ]


def test_counts_that_cancel_each_other_out_leave_no_line(place: Place, timed: PostgreSQL, clock: Clock) -> None:
    timed.stats()
    place.execute("insert into S.counts values (%s, 'x', 'enqueued', 1), (%s, 'x', 'enqueued', -1)", *[clock.now] * 2)
    clock.advance(60)
    told = timed.counts(3600)

    timed.beat(BEAT, ttl=30)

    assert told == timed.counts(3600) == []
    assert place.execute(LINES) == []


def test_counts_older_than_a_day_are_dropped(place: Place, timed: PostgreSQL, clock: Clock) -> None:
    timed.enqueue([build_record()])
    clock.advance(COUNTS_KEPT + 60)
    timed.enqueue([build_record()])

    timed.beat(BEAT, ttl=30)

    assert place.execute("select minute_at from S.counts") == [(clock.now,)]


def test_what_is_committed_late_in_its_minute_is_added_up_the_next_time(
    place: Place, timed: PostgreSQL, clock: Clock
) -> None:
    minute_at = clock.now
    timed.enqueue([build_record()])
    clock.advance(60)
    since = merge_counts(timed.database, None)
    place.execute("insert into S.counts values (%s, 'default', 'enqueued', 1)", minute_at)
    clock.advance(60)

    merge_counts(timed.database, since)

    assert place.execute(LINES) == [(minute_at, "default", Event.ENQUEUED, 2)]
