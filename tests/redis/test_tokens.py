"""A claim is found by its token while it holds jobs, and by its worker."""

from tenure.backends.redis import Redis
from tenure.testing.conformance.building import (
    as_taken,
    build_completion,
    build_record,
    build_release,
    ids_of,
    request,
    take,
    take_one,
)
from tests.redis.stores import Place
from tests.redis.verdict import faults


def test_a_token_that_another_worker_uses_when_its_claim_has_ended_is_that_workers(place: Place, store: Redis) -> None:
    store.enqueue([build_record(id="a")])
    held = take_one(store, worker="first", token="token")

    _, claimed = store.exchange([build_release(held)], request(worker="second", token="token"))

    assert ids_of(claimed.jobs) == ["a"]
    assert faults(place) == {}
    assert store.reap(worker="first") == []
    assert [each.id for each in store.reap(worker="second")] == ["a"]


def test_of_a_claim_that_has_ended_nothing_is_left(place: Place, store: Redis) -> None:
    store.enqueue([build_record() for _ in range(3)])
    first, *others = take(store, limit=3, token="token")

    store.settle([build_completion(first)])
    store.settle([build_completion(each) for each in others])

    assert not {place.key("tokens"), place.key("held")} & set(place.keys())


def test_jobs_of_a_worker_are_taken_back_by_claim_after_claim(store: Redis) -> None:
    store.enqueue([build_record(id=f"{n}") for n in range(6)])
    asked = [request(worker="dead", limit=2) for _ in range(3)]
    taken = [as_taken(job, each) for each in asked for job in store.claim(each).jobs]
    store.settle([build_completion(taken[0]), build_release(taken[3])])

    reaped = [store.reap(limit=3, worker="dead") for _ in range(3)]

    assert [len(some) for some in reaped] == [3, 1, 0]
    assert {each.id for some in reaped for each in some} == {"1", "2", "4", "5"}
