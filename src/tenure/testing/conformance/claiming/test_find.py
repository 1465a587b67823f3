"""Reading jobs page by page."""

from collections.abc import Iterator

import pytest

from tenure.backends.protocol import Claiming
from tenure.core.job import State
from tenure.core.operations import Move, Query
from tenure.errors import ConfigurationError
from tenure.testing import Clock
from tenure.testing.conformance.building import (
    GivenJobs,
    build_completion,
    build_failure,
    ids_of,
    settle,
    take,
    take_one,
)


def pages(store: Claiming, **conditions: object) -> Iterator[list[str]]:
    cursor: str | None = None
    while True:
        page = store.find(Query(**conditions, cursor=cursor))  # type: ignore[arg-type]
        yield ids_of(page.jobs)
        if (cursor := page.cursor) is None:
            return


def found(store: Claiming, **conditions: object) -> list[str]:
    return [id for page in pages(store, **conditions) for id in page]


def test_without_a_condition_all_jobs_are_found_newest_first(store: Claiming, given_jobs: GivenJobs) -> None:
    ids = given_jobs(5)

    assert found(store) == ids[::-1]


def test_jobs_are_found_oldest_first_if_asked(store: Claiming, given_jobs: GivenJobs) -> None:
    ids = given_jobs(5)

    assert found(store, newest_first=False) == ids


def test_pages_are_no_longer_than_asked_and_miss_nothing(store: Claiming, given_jobs: GivenJobs) -> None:
    given_jobs(7)

    assert [len(page) for page in pages(store, limit=3)] in ([3, 3, 1], [3, 3, 1, 0])


def test_pages_follow_each_other_in_both_directions(store: Claiming, given_jobs: GivenJobs) -> None:
    ids = given_jobs(7)

    assert found(store, limit=3, newest_first=True) == ids[::-1]
    assert found(store, limit=3, newest_first=False) == ids


def test_jobs_are_found_by_id(store: Claiming, given_jobs: GivenJobs) -> None:
    ids = given_jobs(5)

    assert found(store, ids=(ids[3], "nobody", ids[1])) == [ids[3], ids[1]]


def test_jobs_found_by_id_come_in_pages_as_well(store: Claiming, given_jobs: GivenJobs) -> None:
    ids = given_jobs(5)

    assert found(store, ids=tuple(ids), limit=2, newest_first=False) == ids


def test_jobs_are_found_by_state(store: Claiming, given_jobs: GivenJobs) -> None:
    ids = given_jobs(3)
    first, _ = take(store, limit=2)
    settle(store, build_completion(first))

    assert found(store, states=frozenset({State.COMPLETED})) == [ids[0]]
    assert found(store, states=frozenset({State.RUNNING})) == [ids[1]]
    assert found(store, states=frozenset({State.QUEUED, State.COMPLETED})) == [ids[2], ids[0]]


def test_jobs_are_found_by_the_worker_that_holds_them(store: Claiming, given_jobs: GivenJobs) -> None:
    ids = given_jobs(2)
    take_one(store, worker="w1")
    take_one(store, worker="w2")

    assert found(store, worker="w2") == [ids[1]]


def test_jobs_are_found_by_part_of_their_last_error(store: Claiming, given_jobs: GivenJobs, clock: Clock) -> None:
    ids = given_jobs(2)
    first, second = take(store, limit=2)
    store.settle([build_failure(first, "Timeout after 30 s"), build_failure(second, "Timeout after 5 s")])
    clock.advance(100)
    settle(store, build_failure(take_one(store), "Refused"))

    assert found(store, error="Timeout") == [ids[1]]


def test_what_an_operator_wrote_is_not_an_error(store: Claiming, given_jobs: GivenJobs) -> None:
    given_jobs(1)
    taken = take_one(store)
    settle(store, build_failure(taken, "Timeout", final=True))
    store.move([taken.id], Move.RETRY, "Refused")

    assert found(store, error="Refused") == []
    assert found(store, error="Timeout") == [taken.id]


def test_an_error_is_found_as_it_is_written_not_as_a_pattern(store: Claiming, given_jobs: GivenJobs) -> None:
    ids = given_jobs(2)
    first, second = take(store, limit=2)
    store.settle([build_failure(first, "100% of [a_b]* full"), build_failure(second, "100 of aXb")])

    assert found(store, error="0% of [a_b]*") == [ids[0]]


def test_jobs_are_found_by_how_often_they_were_tried(store: Claiming, given_jobs: GivenJobs, clock: Clock) -> None:
    ids = given_jobs(2)
    settle(store, build_failure(take_one(store)))
    clock.advance(100)
    take(store, limit=2)

    assert found(store, attempts_over=1) == [ids[0]]


def test_jobs_are_found_by_how_recently_they_finished(store: Claiming, given_jobs: GivenJobs, clock: Clock) -> None:
    ids = given_jobs(2)
    settle(store, build_completion(take_one(store)))
    clock.advance(100)
    settle(store, build_completion(take_one(store)))
    clock.advance(10)

    assert found(store, since=10.0) == [ids[1]]
    assert found(store, since=110.0) == ids[::-1]


def test_unfinished_jobs_are_found_by_how_recently_they_were_enqueued(
    store: Claiming, given_jobs: GivenJobs, clock: Clock
) -> None:
    ids = given_jobs(1)
    clock.advance(100)

    assert found(store, since=99.0) == []
    assert found(store, since=100.0) == ids


def test_due_jobs_are_told_from_scheduled_ones(store: Claiming, given_jobs: GivenJobs) -> None:
    ids = given_jobs(3)
    first, _ = take(store, limit=2)
    settle(store, build_failure(first))

    assert found(store, due=True) == [ids[2]]
    assert found(store, due=False) == [ids[0]]


def test_all_conditions_must_hold(store: Claiming, given_jobs: GivenJobs) -> None:
    ids = given_jobs(2)
    take(store, limit=2, worker="w1")

    assert found(store, worker="w1", ids=(ids[0],), states=frozenset({State.RUNNING})) == [ids[0]]
    assert found(store, worker="w1", ids=(ids[0],), states=frozenset({State.QUEUED})) == []


def test_a_cursor_that_was_not_given_is_refused(store: Claiming, given_jobs: GivenJobs) -> None:
    given_jobs(1)

    with pytest.raises(ConfigurationError):
        store.find(Query(cursor="page two"))
