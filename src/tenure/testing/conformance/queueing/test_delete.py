"""Deleting jobs by id."""

from tenure.backends.protocol import Backend
from tenure.core.job import State
from tenure.core.operations import Enqueued, Hold, HoldStatus, Moved, Query, Refusal
from tenure.testing.conformance.building import (
    Taken,
    build_completion,
    build_failure,
    build_record,
    extend,
    ids_of,
    job_of,
    settle,
    take_one,
)


def test_a_finished_job_is_forgotten(store: Backend) -> None:
    store.enqueue([build_record(id="a")])
    settle(store, build_completion(take_one(store)))

    assert store.delete(["a"]) == [Moved(id="a", state=None)]
    assert store.find(Query()).jobs == []
    assert store.stats().rows == ()


def test_a_live_job_is_not_forgotten(store: Backend) -> None:
    store.enqueue([build_record(id="a"), build_record(id="b")])
    take_one(store)

    assert store.delete(["a", "b", "nobody"]) == [
        Moved(id="a", state=State.RUNNING, refusal=Refusal.STATE),
        Moved(id="b", state=State.QUEUED, refusal=Refusal.STATE),
        Moved(id="nobody", state=None, refusal=Refusal.UNKNOWN),
    ]
    assert ids_of(store.find(Query()).jobs) == ["b", "a"]


def test_the_id_of_a_forgotten_job_is_free(store: Backend) -> None:
    store.enqueue([build_record(id="a")])
    settle(store, build_failure(take_one(store), final=True))
    store.delete(["a"])

    assert store.enqueue([build_record(id="a")]) == [Enqueued(id="a", created=True)]


def test_a_holder_of_the_forgotten_job_cannot_touch_a_new_one_of_its_id_with_the_same_fence(store: Backend) -> None:
    store.enqueue([build_record(id="a")])
    old = take_one(store)
    settle(store, build_completion(old))
    store.delete(["a"])
    store.enqueue([build_record(id="a")])
    current = take_one(store)

    forged = Taken(old.job, Hold(id="a", fence=current.job.fence, token=old.hold.token))
    assert not settle(store, build_completion(old))
    assert not settle(store, build_completion(forged))
    assert extend(store, forged.hold) is HoldStatus.LOST
    assert job_of(store, "a") == current.job
