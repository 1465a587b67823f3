"""Purging finished jobs by age."""

from tenure.backends.protocol import Backend
from tenure.core.job import State
from tenure.core.operations import Enqueued, Move, Purge, Query
from tenure.testing import Clock
from tenure.testing.conformance.building import build_completion, build_failure, build_record, ids_of, settle, take_one

YEAR = 365 * 86_400


def test_jobs_that_finished_long_enough_ago_are_forgotten(store: Backend, clock: Clock) -> None:
    store.enqueue([build_record(id="old"), build_record(id="new")])
    settle(store, build_completion(take_one(store)))
    clock.advance(50)
    settle(store, build_completion(take_one(store)))
    clock.advance(50)

    assert store.purge(Purge(older_than=100)) == 1
    assert ids_of(store.find(Query()).jobs) == ["new"]


def test_a_purge_of_what_is_older_than_any_job_forgets_none(store: Backend) -> None:
    store.enqueue([build_record(id="a")])
    settle(store, build_completion(take_one(store)))

    assert [store.purge(Purge(older_than=years * YEAR)) for years in (50, 60, 70, 80, 90, 100)] == [0] * 6


def test_live_jobs_are_never_forgotten(store: Backend, clock: Clock) -> None:
    store.enqueue([build_record(id="running"), build_record(id="queued"), build_record(id="scheduled", delay=10**8)])
    take_one(store)
    clock.advance(10**7)

    assert store.purge(Purge(older_than=0)) == 0


def test_a_purge_counts_from_the_end_of_the_job_not_from_its_beginning(store: Backend, clock: Clock) -> None:
    store.enqueue([build_record(id="a")])
    clock.advance(1_000)
    settle(store, build_completion(take_one(store)))

    assert store.purge(Purge(older_than=1)) == 0


def test_a_purge_keeps_the_states_that_it_does_not_name(store: Backend, clock: Clock) -> None:
    store.enqueue([build_record(id="done"), build_record(id="broken"), build_record(id="stopped")])
    settle(store, build_completion(take_one(store)))
    settle(store, build_failure(take_one(store), final=True))
    store.move(["stopped"], Move.CANCEL)
    clock.advance(1)

    purged = store.purge(Purge(older_than=1, states=frozenset({State.COMPLETED, State.CANCELLED})))

    assert purged == 2
    assert ids_of(store.find(Query()).jobs) == ["broken"]


def test_a_purge_keeps_the_queues_that_it_does_not_name(store: Backend) -> None:
    store.enqueue([build_record(id=queue, queue=queue) for queue in "abc"])
    store.move(["a", "b", "c"], Move.CANCEL)

    assert store.purge(Purge(older_than=0, queues=("a", "c"))) == 2
    assert ids_of(store.find(Query()).jobs) == ["b"]


def test_a_purge_forgets_no_more_than_its_limit_the_oldest_first(store: Backend, clock: Clock) -> None:
    store.enqueue([build_record(id=id) for id in "abcd"])
    for id in "cadb":
        store.move([id], Move.CANCEL)
        clock.advance(1)

    assert store.purge(Purge(older_than=0, limit=3)) == 3
    assert ids_of(store.find(Query()).jobs) == ["b"]


def test_a_retried_job_is_not_forgotten_for_its_first_end(store: Backend, clock: Clock) -> None:
    store.enqueue([build_record(id="a")])
    store.move(["a"], Move.CANCEL)
    clock.advance(100)
    store.move(["a"], Move.RETRY)

    assert store.purge(Purge(older_than=1)) == 0


def test_the_id_of_a_purged_job_is_free(store: Backend) -> None:
    store.enqueue([build_record(id="a")])
    store.move(["a"], Move.CANCEL)
    store.purge(Purge(older_than=0))

    assert store.enqueue([build_record(id="a")]) == [Enqueued(id="a", created=True)]
