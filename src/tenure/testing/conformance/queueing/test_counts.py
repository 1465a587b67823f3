"""Counts of events per minute."""

from collections import Counter
from datetime import timedelta

from tenure.backends.protocol import Backend
from tenure.core.operations import Count, Event, Move
from tenure.testing import Clock
from tenure.testing.conformance.building import (
    build_cancellation,
    build_completion,
    build_failure,
    build_record,
    build_release,
    build_retry,
    build_snooze,
    settle,
    take,
    take_one,
)


def totals(store: Backend, since: float = 3600) -> Counter[Event]:
    counted: Counter[Event] = Counter()
    for count in store.counts(since):
        counted[count.event] += count.number
    return counted


def test_every_ending_is_counted_by_its_outcome(store: Backend, clock: Clock) -> None:
    store.enqueue([build_record() for _ in range(7)])
    a, b, c, d, e, f, _ = take(store, limit=7, lease=10)
    store.settle(
        [
            build_completion(a),
            build_failure(b),
            build_retry(c),
            build_snooze(d),
            build_release(e),
            build_cancellation(f),
        ]
    )
    clock.advance(10)
    store.reap()

    assert totals(store) == {
        Event.ENQUEUED: 7,
        Event.CLAIMED: 7,
        Event.COMPLETED: 1,
        Event.FAILED: 1,
        Event.RETRIED: 1,
        Event.SNOOZED: 1,
        Event.RELEASED: 1,
        Event.CANCELLED: 1,
        Event.EXPIRED: 1,
    }


def test_what_a_late_worker_was_refused_is_counted(store: Backend, clock: Clock) -> None:
    store.enqueue([build_record()])
    late = take_one(store, lease=10)
    clock.advance(10)
    current = take_one(store)
    settle(store, build_completion(late))
    settle(store, build_failure(late))
    settle(store, build_completion(current))

    assert totals(store)[Event.REFUSED] == 2


def test_what_is_sent_again_is_counted_once(store: Backend) -> None:
    given = build_record(id="a")
    store.enqueue([given])
    store.enqueue([given])
    taken = take_one(store, token="t")
    take(store, token="t")
    settle(store, build_completion(taken))
    settle(store, build_completion(taken))

    assert totals(store) == {Event.ENQUEUED: 1, Event.CLAIMED: 1, Event.COMPLETED: 1}


def test_an_operators_moves_are_counted(store: Backend) -> None:
    store.enqueue([build_record(id="a")])
    store.move(["a"], Move.CANCEL)
    store.move(["a"], Move.CANCEL)
    store.move(["a"], Move.RETRY)

    assert totals(store)[Event.OPERATOR] == 2


def test_counts_come_by_minute_and_queue_oldest_first(store: Backend, clock: Clock) -> None:
    start = clock.now
    store.enqueue([build_record(queue="y"), build_record(queue="x")])
    clock.advance(59)
    store.enqueue([build_record(queue="x")])
    clock.advance(1)
    store.enqueue([build_record(queue="x")])

    assert store.counts(3600) == [
        Count(minute_at=start, queue="x", event=Event.ENQUEUED, number=2),
        Count(minute_at=start, queue="y", event=Event.ENQUEUED, number=1),
        Count(minute_at=start + timedelta(minutes=1), queue="x", event=Event.ENQUEUED, number=1),
    ]


def test_counts_reach_back_as_far_as_asked(store: Backend, clock: Clock) -> None:
    for _ in range(3):
        store.enqueue([build_record()])
        clock.advance(60)

    assert totals(store, since=120)[Event.ENQUEUED] == 2


def test_counts_reach_back_a_day_at_most(store: Backend, clock: Clock) -> None:
    store.enqueue([build_record()])
    clock.advance(2 * 86_400)

    assert store.counts(1e9) == []


def test_counts_are_kept_for_a_day(store: Backend, clock: Clock) -> None:
    store.enqueue([build_record()])
    clock.advance(86_400)
    after_a_day = totals(store, since=86_400)
    clock.advance(60)
    store.enqueue([build_record()])

    assert after_a_day == {Event.ENQUEUED: 1}
    assert totals(store, since=86_400) == {Event.ENQUEUED: 1}
