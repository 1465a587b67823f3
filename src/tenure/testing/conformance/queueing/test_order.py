"""The order of claims, and the selection by queue and type."""

from datetime import UTC, datetime

import pytest

from tenure.backends.protocol import SWEEP, Backend
from tenure.core.job import JobRecord
from tenure.testing import Clock
from tenure.testing.conformance.building import Taken, build_failure, build_record, ids_of, settle, take, take_one

EARLY = datetime(2020, 1, 1, tzinfo=UTC)
LATER = datetime(2020, 1, 2, tzinfo=UTC)


def test_higher_priority_comes_first(store: Backend) -> None:
    store.enqueue([build_record(id="low", priority=-5), build_record(id="high", priority=5), build_record(id="middle")])

    assert ids_of(take(store, limit=3)) == ["high", "middle", "low"]


def test_higher_priority_comes_first_even_if_it_is_the_last_of_many(store: Backend) -> None:
    store.enqueue([build_record() for _ in range(100)])
    store.enqueue([build_record(id="high", priority=1)])

    assert ids_of(take(store)) == ["high"]


def test_with_equal_priority_the_earlier_run_at_comes_first(store: Backend) -> None:
    store.enqueue([build_record(id="later", run_at=LATER), build_record(id="early", run_at=EARLY)])

    assert ids_of(take(store, limit=2)) == ["early", "later"]


def test_priority_counts_more_than_run_at(store: Backend) -> None:
    store.enqueue([build_record(id="early", run_at=EARLY), build_record(id="urgent", run_at=LATER, priority=1)])

    assert ids_of(take(store, limit=2)) == ["urgent", "early"]


def test_with_equal_priority_and_run_at_the_enqueue_order_counts(store: Backend) -> None:
    store.enqueue([build_record(id=id, run_at=EARLY) for id in "zax"])

    assert ids_of(take(store, limit=3)) == list("zax")


def test_a_claim_of_fewer_than_are_due_takes_the_first_of_the_order(store: Backend) -> None:
    store.enqueue(
        [
            build_record(id="4", run_at=LATER),
            build_record(id="2", run_at=EARLY, priority=1),
            build_record(id="3", run_at=EARLY),
            build_record(id="1", run_at=LATER, priority=2),
        ]
    )

    assert [ids_of(take(store)), ids_of(take(store, limit=2)), ids_of(take(store))] == [["1"], ["2", "3"], ["4"]]


def test_the_greatest_and_the_smallest_priority_are_in_order(store: Backend) -> None:
    store.enqueue(
        [build_record(id="last", priority=-32_768), build_record(id="none"), build_record(id="first", priority=32_767)]
    )

    assert ids_of(take(store, limit=3)) == ["first", "none", "last"]


def test_the_order_holds_across_queues_and_types(store: Backend) -> None:
    store.enqueue(
        [
            build_record("a", id="3", queue="x", priority=1),
            build_record("b", id="1", queue="y", priority=3),
            build_record("b", id="4", queue="x", priority=1),
            build_record("a", id="2", queue="y", priority=2),
        ]
    )

    assert ids_of(take(store, limit=4)) == ["1", "2", "3", "4"]


@pytest.mark.parametrize("limit", [1, 3, 7, 40, 100])
def test_the_order_holds_across_many_queues_and_types_however_many_are_taken(store: Backend, limit: int) -> None:
    # Most jobs are in a few queues, including jobs of high priority.
    numbers = [n * n * 7 % 97 for n in range(100)]
    entries = [
        build_record(f"t{n % 3}", id=f"{at}", queue=f"q{n % 11 * (n % 2)}", priority=n % 5)
        for at, n in enumerate(numbers)
    ]
    store.enqueue(entries)
    expected = sorted(entries, key=lambda each: -each.priority)

    taken = [take(store, limit=limit) for _ in range(-(-100 // limit))]

    assert [len(some) for some in taken[:-1]] == [limit] * (len(taken) - 1)
    assert [each.id for some in taken for each in some] == [each.id for each in expected]


def test_a_job_that_is_not_due_is_not_claimed(store: Backend, clock: Clock) -> None:
    store.enqueue([build_record(id="a", delay=60, priority=100)])
    clock.advance(59.999999)

    assert take(store) == []


def test_a_job_is_claimed_from_the_very_moment_that_it_is_due(store: Backend, clock: Clock) -> None:
    store.enqueue([build_record(id="a", delay=60)])
    clock.advance(60)

    assert ids_of(take(store)) == ["a"]


def test_a_scheduled_job_of_higher_priority_does_not_hold_up_a_due_one(store: Backend) -> None:
    store.enqueue([build_record(id="scheduled", delay=60, priority=100), build_record(id="due")])

    assert ids_of(take(store, limit=2)) == ["due"]


def test_of_scheduled_jobs_only_those_whose_time_came_are_let_in(store: Backend, clock: Clock) -> None:
    store.enqueue(
        [build_record(id="soon", delay=10), build_record(id="soon too", delay=10), build_record(id="later", delay=11)]
    )
    clock.advance(10)

    assert ids_of(take(store, limit=9)) == ["soon", "soon too"]


def test_a_scheduled_job_takes_its_place_by_priority_when_it_comes_due(store: Backend, clock: Clock) -> None:
    store.enqueue([build_record(id="scheduled", delay=60, priority=100), build_record(id="due")])
    clock.advance(60)

    assert ids_of(take(store, limit=2)) == ["scheduled", "due"]


def test_more_jobs_than_one_claim_promotes_are_all_reached_in_the_end(store: Backend, clock: Clock) -> None:
    entries: list[JobRecord] = [build_record(delay=10 + n / 1_000) for n in range(SWEEP + 500)]
    store.enqueue(entries)
    clock.advance(100)

    taken: list[Taken] = []
    while some := take(store, limit=1_000):
        taken += some

    assert ids_of(taken) == [each.id for each in entries]


def test_of_a_burst_the_oldest_are_let_in_first_whatever_their_queue_and_type(store: Backend, clock: Clock) -> None:
    store.enqueue([build_record("many", delay=20) for _ in range(SWEEP + 500)])
    store.enqueue([build_record("one", id="early", delay=10, priority=100, queue="other")])
    clock.advance(30)

    assert ids_of(take(store)) == ["early"]


def test_a_claim_sent_again_keeps_the_order(store: Backend) -> None:
    store.enqueue([build_record(id="low"), build_record(id="high", priority=5)])
    take(store, limit=2, token="same")

    assert ids_of(take(store, limit=2, token="same")) == ["high", "low"]


def test_a_claim_takes_only_from_the_queues_asked_for(store: Backend) -> None:
    store.enqueue([build_record(id=queue, queue=queue) for queue in ("a", "b", "c")])

    assert ids_of(take(store, limit=9, queues=("c", "a", "nobody"))) == ["a", "c"]


def test_a_claim_takes_only_the_types_asked_for(store: Backend) -> None:
    store.enqueue([build_record(type, id=type) for type in ("a", "b", "c")])

    assert ids_of(take(store, limit=9, types=("c", "a", "nobody"))) == ["a", "c"]


def test_queues_and_types_are_asked_for_together(store: Backend) -> None:
    store.enqueue([build_record(type, id=queue + type, queue=queue) for queue in "xy" for type in "ab"])

    assert ids_of(take(store, limit=9, queues=("y",), types=("b",))) == ["yb"]


def test_without_queues_and_types_a_claim_takes_from_all(store: Backend) -> None:
    store.enqueue([build_record(type, id=queue + type, queue=queue) for queue in "xy" for type in "ab"])

    assert len(take(store, limit=9)) == 4


def test_a_job_that_failed_waits_behind_those_that_are_due_before_it(store: Backend, clock: Clock) -> None:
    store.enqueue([build_record(id="a"), build_record(id="b")])
    settle(store, build_failure(take_one(store)))
    clock.advance(100)

    assert ids_of(take(store, limit=2)) == ["b", "a"]
