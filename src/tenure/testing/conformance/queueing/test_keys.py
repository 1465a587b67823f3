"""At most one live job of a queue has a key."""

from functools import partial

import pytest

from tenure.backends.protocol import Backend
from tenure.core.job import State
from tenure.core.operations import Enqueued, Move, Moved, Refusal
from tenure.errors import KeyTaken
from tenure.testing import Clock, Harness
from tenure.testing.conformance.building import (
    build_cancellation,
    build_completion,
    build_failure,
    build_record,
    build_release,
    job_of,
    settle,
    settle_each,
    take_each,
    take_one,
)
from tenure.testing.conformance.racing import run_concurrently

ENDED = {
    "completed": build_completion,
    "failed": lambda taken: build_failure(taken, final=True),
    "cancelled": build_cancellation,
}


def test_a_taken_key_answers_the_job_that_has_it(store: Backend) -> None:
    store.enqueue([build_record(id="a", key="k")])

    assert store.enqueue([build_record(id="b", key="k")]) == [Enqueued(id="a", created=False)]
    assert store.stats().total("due") == 1


def test_a_taken_key_raises_if_the_caller_asked_for_that(store: Backend) -> None:
    store.enqueue([build_record(id="a", key="k", queue="mail")])

    with pytest.raises(KeyTaken) as caught:
        store.enqueue([build_record(id="b", key="k", queue="mail", on_conflict="raise")])

    assert (caught.value.id, caught.value.key, caught.value.queue) == ("a", "k", "mail")


def test_a_key_that_is_free_does_not_raise(store: Backend) -> None:
    assert store.enqueue([build_record(id="a", key="k", on_conflict="raise")]) == [Enqueued(id="a", created=True)]


def test_the_same_id_with_its_own_key_is_not_a_conflict(store: Backend) -> None:
    given = build_record(id="a", key="k", on_conflict="raise")
    store.enqueue([given])

    assert store.enqueue([given]) == [Enqueued(id="a", created=False)]


def test_two_queues_may_use_the_same_key(store: Backend) -> None:
    store.enqueue([build_record(id="a", key="k", queue="x")])

    assert store.enqueue([build_record(id="b", key="k", queue="y")]) == [Enqueued(id="b", created=True)]


def test_a_key_twice_in_one_request_is_one_job(store: Backend) -> None:
    answers = store.enqueue([build_record(id="a", key="k"), build_record(id="b", key="k")])

    assert answers == [Enqueued(id="a", created=True), Enqueued(id="a", created=False)]


def test_a_key_twice_in_one_request_raises_if_the_caller_asked_for_that_and_stores_nothing(store: Backend) -> None:
    with pytest.raises(KeyTaken):
        store.enqueue([build_record(id="a", key="k"), build_record(id="b", key="k", on_conflict="raise")])

    assert store.stats().rows == ()


def test_a_key_stays_taken_while_the_job_runs_and_while_it_waits_again(store: Backend) -> None:
    store.enqueue([build_record(id="a", key="k")])
    taken = take_one(store)
    while_running = store.enqueue([build_record(id="b", key="k")])
    settle(store, build_release(taken))
    while_waiting = store.enqueue([build_record(id="c", key="k")])

    assert while_running == while_waiting == [Enqueued(id="a", created=False)]


def test_a_key_is_free_when_its_job_has_finished(store: Backend) -> None:
    store.enqueue([build_record(key=name) for name in ENDED])
    settle_each(store, {name: ENDED[name](each) for name, each in take_each(store, ENDED).items()})

    answers = {name: store.enqueue([build_record(id=name, key=name)]) for name in ENDED}

    assert answers == {name: [Enqueued(id=name, created=True)] for name in ENDED}


def test_a_key_is_free_when_its_queued_job_is_cancelled(store: Backend) -> None:
    store.enqueue([build_record(id="a", key="k")])
    store.move(["a"], Move.CANCEL)

    assert store.enqueue([build_record(id="b", key="k")]) == [Enqueued(id="b", created=True)]


def test_a_key_is_free_when_its_job_crashed_too_often(store: Backend, clock: Clock) -> None:
    store.enqueue([build_record(id="a", key="k", max_crashes=1)])
    take_one(store, lease=1)
    clock.advance(1)
    store.reap()

    assert store.enqueue([build_record(id="b", key="k")]) == [Enqueued(id="b", created=True)]


def test_a_retried_job_has_its_key_again(store: Backend) -> None:
    store.enqueue([build_record(id="a", key="k")])
    settle(store, build_failure(take_one(store), final=True))
    store.move(["a"], Move.RETRY)

    assert store.enqueue([build_record(id="b", key="k")]) == [Enqueued(id="a", created=False)]


def test_a_job_whose_key_was_taken_meanwhile_is_not_retried(store: Backend) -> None:
    store.enqueue([build_record(id="a", key="k")])
    settle(store, build_failure(take_one(store), final=True))
    store.enqueue([build_record(id="b", key="k")])
    before = job_of(store, "a")

    moved = store.move(["a"], Move.RETRY)

    assert moved == [Moved(id="a", state=State.FAILED, refusal=Refusal.KEY_TAKEN)]
    assert job_of(store, "a") == before


def test_of_two_failed_jobs_of_one_key_only_the_first_is_retried(store: Backend) -> None:
    for id in "ab":
        store.enqueue([build_record(id=id, key="k")])
        settle(store, build_failure(take_one(store), final=True))

    moved = store.move(["a", "b"], Move.RETRY)

    assert [each.refusal for each in moved] == [None, Refusal.KEY_TAKEN]


def test_of_ten_enqueuers_of_one_key_one_creates_the_job_and_all_get_its_id(harness: Harness) -> None:
    stores = [harness.open() for _ in range(10)]

    for round in range(20):
        answers = run_concurrently([partial(store.enqueue, [build_record(key=f"k{round}")]) for store in stores])

        assert sorted(each.created for (each,) in answers) == [False] * 9 + [True]
        assert len({each.id for (each,) in answers}) == 1


def test_two_batches_of_the_same_keys_in_opposite_order_do_not_block_each_other(harness: Harness) -> None:
    first, second = harness.open(), harness.open()

    for round in range(20):
        keys = [f"k{round}-{n}" for n in range(10)]
        answers = run_concurrently(
            [
                partial(first.enqueue, [build_record(key=key) for key in keys]),
                partial(second.enqueue, [build_record(key=key) for key in keys[::-1]]),
            ]
        )

        assert {each.id for each in answers[0]} == {each.id for each in answers[1]}


def test_of_ten_enqueuers_of_one_id_one_creates_the_job(harness: Harness) -> None:
    stores = [harness.open() for _ in range(10)]

    for round in range(20):
        answers = run_concurrently([partial(store.enqueue, [build_record(id=f"same-{round}")]) for store in stores])

        assert sorted(each.created for (each,) in answers) == [False] * 9 + [True]
