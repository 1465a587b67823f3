"""Pausing queues."""

from tenure.backends.protocol import Backend
from tenure.core.job import State
from tenure.core.operations import HoldStatus, Move
from tenure.testing import Clock
from tenure.testing.conformance.building import (
    build_completion,
    build_record,
    extend,
    ids_of,
    job_of,
    settle,
    take,
    take_one,
)


def test_a_paused_queue_yields_no_claim(store: Backend) -> None:
    store.enqueue([build_record(id="a", queue="mail"), build_record(id="b", queue="other")])

    store.pause(["mail"])

    assert ids_of(take(store, limit=9)) == ["b"]
    assert take(store, queues=("mail",)) == []


def test_a_resumed_queue_yields_its_jobs_again(store: Backend) -> None:
    store.enqueue([build_record(id="a", queue="mail")])
    store.pause(["mail"])

    store.resume(["mail"])

    assert ids_of(take(store)) == ["a"]


def test_a_paused_queue_takes_new_jobs(store: Backend) -> None:
    store.pause(["mail"])

    store.enqueue([build_record(id="a", queue="mail")])

    assert job_of(store, "a").state is State.QUEUED
    assert take(store) == []


def test_claims_of_a_paused_queue_go_on(store: Backend) -> None:
    store.enqueue([build_record(id="a", queue="mail")])
    taken = take_one(store)
    store.pause(["mail"])

    assert extend(store, taken.hold) is HoldStatus.HELD
    assert settle(store, build_completion(taken))


def test_expired_claims_of_a_paused_queue_are_reaped_and_not_taken_over(store: Backend, clock: Clock) -> None:
    store.enqueue([build_record(id="a", queue="mail")])
    take_one(store, lease=10)
    store.pause(["mail"])
    clock.advance(10)

    assert take(store) == []
    assert (job_of(store, "a").state, job_of(store, "a").crashes) == (State.QUEUED, 1)


def test_a_claim_sent_again_returns_its_claims_even_if_the_queue_was_paused_meanwhile(store: Backend) -> None:
    store.enqueue([build_record(id="a", queue="mail")])
    take_one(store, token="same")
    store.pause(["mail"])

    assert ids_of(take(store, token="same")) == ["a"]


def test_jobs_of_a_paused_queue_can_be_cancelled(store: Backend) -> None:
    store.enqueue([build_record(id="a", queue="mail")])
    store.pause(["mail"])

    assert store.move(["a"], Move.CANCEL)[0].moved


def test_paused_queues_are_shown_even_without_jobs(store: Backend) -> None:
    store.pause(["b", "a"])
    store.pause(["b"])

    assert store.stats().paused == ("a", "b")


def test_resuming_what_was_not_paused_does_nothing(store: Backend) -> None:
    store.pause(["a"])
    store.resume(["b"])

    assert store.stats().paused == ("a",)


def test_any_number_of_queues_is_paused_and_resumed_at_once(store: Backend) -> None:
    many = [f"queue-{number:05}" for number in range(10_000)]

    store.pause(many)
    paused = store.stats().paused
    store.resume(many[1:])

    assert paused == tuple(many)
    assert store.stats().paused == ("queue-00000",)
